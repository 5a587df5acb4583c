/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* likely.h - which way a branch mostly goes, where nanoseconds count. */
#ifndef UNWIND_LIKELY_H
#define UNWIND_LIKELY_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
