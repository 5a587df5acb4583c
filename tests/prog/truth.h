/* SPDX-License-Identifier: Apache-2.0 */
/* truth.h - a hostile program's own count of its calls; printed on descriptor 8 (where open) without stdio. */
#ifndef TRUTH_H
#define TRUTH_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
#error "C only; C++ programs count with std::atomic themselves"
#endif

static atomic_ulong truth_allocs, truth_bytes, truth_frees;

static inline void *took(void *block, size_t bytes)
{
	if (block) {
		atomic_fetch_add(&truth_allocs, 1);
		atomic_fetch_add(&truth_bytes, bytes);
	}
	return block;
}

static inline void gave(void *block)
{
	if (block)
		atomic_fetch_add(&truth_frees, 1);
}

static inline char *truth_number(char *to, unsigned long v)
{
	char digits[24];
	int n = 0;
	do {
		digits[n++] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	while (n)
		*to++ = digits[--n];
	return to;
}

static inline void truth_print(void)
{
	char text[128], *to = text;
	to = truth_number(to, atomic_load(&truth_allocs));
	*to++ = ' ';
	to = truth_number(to, atomic_load(&truth_bytes));
	*to++ = ' ';
	to = truth_number(to, atomic_load(&truth_frees));
	*to++ = '\n';
	if (write(8, text, (size_t)(to - text)) < 0)
		return;
}

#endif
