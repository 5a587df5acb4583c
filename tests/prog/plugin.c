/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
void *plugin_take(size_t n);
void *plugin_take(size_t n)
{
	void *p = malloc(n);
	__asm__ volatile("" : : "r"(p) : "memory"); /* no tail call: the frame counts */
	return p;
}
