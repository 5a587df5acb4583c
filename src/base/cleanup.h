/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.h - locals that carry their release, and the attributes the house uses. */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/**
 * STEAL() - take the value of pointer variable @p and leave NULL behind, so its cleanup does
 * nothing.
 */
#define STEAL(p)                      \
	__extension__({               \
		__auto_type s_ = (p); \
		(p) = NULL;           \
		s_;                   \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
