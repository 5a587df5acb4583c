/* SPDX-License-Identifier: Apache-2.0 */
/* fake_plugin.c - needs fake_runtime.c, and has an operator delete of its own. */
void _Znwm(void);
void _ZdlPv(void);
void plugin_call(void);

void _ZdlPv(void)
{
}

void plugin_call(void)
{
	_Znwm();
	_ZdlPv();
}
