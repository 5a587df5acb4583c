/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks.h - moments that were marked, by number: from outside (inject/steer.h), or by the program's
 * own byteledger_heap_set_marker(). The first of each number names a moment, `mark:7`.
 */
#ifndef MODEL_MARKS_H
#define MODEL_MARKS_H

#include <stdint.h>

#define MARKS_MAX 1000u

struct mark {
	uint64_t time_ns;
	uint64_t value;
};

/**
 * struct marks - zero-initialised is empty. In order of time; where there are more than fit, only
 * numbers that were not there before are still taken, in place of what was there before.
 */
struct marks {
	/* all there were; more than @count: some are not kept */
	uint64_t total;
	uint32_t count;
	/* only the first of each number is kept from here on */
	uint32_t firsts;
	/* a summary of before they were kept says nothing of them */
	uint32_t unknown;
	struct mark at[MARKS_MAX];
};

/** marks_put() - one more; times do not go back. */
void marks_put(struct marks *marks, uint64_t time_ns, uint64_t value);
/** marks_find() - the first of that number; NULL: there is none, or it is not kept. Lent. */
const struct mark *marks_find(const struct marks *marks, uint64_t value);

#endif
