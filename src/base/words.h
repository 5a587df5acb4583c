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
	const char *of_which; /* ": 3 by malloc, 4 as objects"; NULL: nothing more is known */
	const char *unknown; /* heaps of which it is not known what is in use; NULL: next to none */
	const char
		*mapped;  /* what it mapped itself, of which nothing is known; NULL: next to none */
	const char *free; /* what is free; NULL: next to nothing is */
	const char *keeper;          /* who keeps it; "allocators" are several */
	const char *at_once, *stuck; /* of it; NULL: not both are known */
	int in_slabs;                /* stuck in slabs, not on pages */
};
/**
 * words_verdict() - one sentence to three, the last on a line of its own where something is free;
 * no line end behind the last.
 */
void words_verdict(struct buf *to, const struct words_verdict *words);

#endif
