/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sieve.h - keep some threads' or modules' allocations out of a recording: a sink that hands on
 * everything but those blocks, and how many they were (EVENT_FILTERED).
 *
 * A block is judged once, by the name that its thread has by then and by the module of the
 * innermost frame; whoever frees it. What is handed on is what a program would have done that had
 * never allocated the others: a realloc of which one half is left out becomes the other half alone.
 * Memory: a byte for each number of a block, a thread, and with words about modules for each
 * module, frame and stack. One thread.
 */
#ifndef MODEL_SIEVE_H
#define MODEL_SIEVE_H

#include "model/event.h"

struct sieve;

/**
 * One word: of those without @unless about the same thing one must match, of those with it none
 * may.
 */
struct sieve_word {
	enum { SIEVE_THREAD, SIEVE_MODULE } what;
	int unless;
	/* of the whole name, as fnmatch() has it; what has no name has the empty one */
	const char *glob;
};

/** sieve_new() - hand on to @to; @words are copied. */
struct sieve *sieve_new(const struct sieve_word *words, size_t count, struct sink *to,
			struct err *err);
void sieve_freep(struct sieve **sieve);
/** sieve_sink() - belongs to @sieve. */
struct sink *sieve_sink(struct sieve *sieve);
/**
 * sieve_tell() - now and then, and at the end: hand on how many were left out since the last time.
 */
int sieve_tell(struct sieve *sieve, struct err *err);
/**
 * sieve_restart() - after sieve_tell(): everything is going to be defined again, by other numbers
 * (but threads and blocks), and what lives to be handed over again. It stays what it was judged to
 * be.
 */
void sieve_restart(struct sieve *sieve);

#endif
