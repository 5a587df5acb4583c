/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h - what the parts of a process's memory are called, in `regions`, `explain` and the end of
 * `run` alike.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include "base/buf.h"

#define WORDS_LIVE "live"
#define WORDS_FREE "free"
#define WORDS_HOLES "in holes"
#define WORDS_ELSE "else"

/** struct words_verdict - sizes as they are to be printed, units and all. */
struct words_verdict {
	const char *uses;
	/* ": 3 by malloc, 4 as objects"; NULL: nothing more is known */
	const char *of_which;
	/* heaps of which it is not known what is in use; NULL: next to none */
	const char *unknown;
	/* what it mapped itself, of which nothing is known; NULL: next to none */
	const char *mapped;
	/* what is free; NULL: next to nothing is */
	const char *free;
	/* who keeps it; "allocators" are several */
	const char *keeper;
	/* of it; NULL: not both are known */
	const char *at_once, *stuck;
	/* stuck in slabs, not on pages */
	int in_slabs;
};
/**
 * words_verdict() - one sentence to three, the last on a line of its own where something is free;
 * no line end behind the last.
 */
void words_verdict(struct buf *to, const struct words_verdict *words);

#endif
