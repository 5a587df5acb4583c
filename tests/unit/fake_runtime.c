/* SPDX-License-Identifier: Apache-2.0 */
/* fake_runtime.c - an object that defines every form of operator new and delete, as a C++ runtime does. */
#define OPERATOR(name)   \
	void name(void); \
	void name(void)  \
	{                \
	}
OPERATOR(_Znwm)
OPERATOR(_ZnwmRKSt9nothrow_t)
OPERATOR(_ZnwmSt11align_val_t)
OPERATOR(_ZnwmSt11align_val_tRKSt9nothrow_t)
OPERATOR(_Znam)
OPERATOR(_ZnamRKSt9nothrow_t)
OPERATOR(_ZnamSt11align_val_t)
OPERATOR(_ZnamSt11align_val_tRKSt9nothrow_t)
OPERATOR(_ZdlPv)
OPERATOR(_ZdlPvm)
OPERATOR(_ZdlPvRKSt9nothrow_t)
OPERATOR(_ZdlPvSt11align_val_t)
OPERATOR(_ZdlPvmSt11align_val_t)
OPERATOR(_ZdlPvSt11align_val_tRKSt9nothrow_t)
OPERATOR(_ZdaPv)
OPERATOR(_ZdaPvm)
OPERATOR(_ZdaPvRKSt9nothrow_t)
OPERATOR(_ZdaPvSt11align_val_t)
OPERATOR(_ZdaPvmSt11align_val_t)
OPERATOR(_ZdaPvSt11align_val_tRKSt9nothrow_t)
