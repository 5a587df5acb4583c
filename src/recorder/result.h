/* SPDX-License-Identifier: Apache-2.0 */
/*
 * result.h - where what is found goes: a stream, or files by a pattern, one for each program that
 * is told of.
 */
#ifndef RECORDER_RESULT_H
#define RECORDER_RESULT_H

#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

/**
 * struct result - zero-initialised is nowhere (-q); result_init() chooses. CLEANUP(result_fini)
 * works.
 */
struct result {
	/* write here; NULL: nowhere */
	FILE *to;
	/* -o; NULL: to one of the standard streams */
	const char *pattern;
	/* of the file that is open: as asked for, and what it is called */
	char *name, *path;
};

/** result_init() - @to: where it goes without a pattern (NULL: nowhere); @pattern: -o, or NULL. */
void result_init(struct result *result, const char *pattern, FILE *to);
/**
 * result_for() - what is printed next is about process @pid, which runs @exe: opens the file that
 * the pattern names, unless it is open. What exists is never overwritten: ".1", ".2" ... is
 * appended. A device or a fifo is written to.
 */
int result_for(struct result *result, const char *exe, pid_t pid, struct err *err);
/** result_flush() - 0, or result_failed(). */
int result_flush(FILE *to, struct err *err);
/**
 * result_failed() - writing failed just now (errno): -EPIPE where the reader has gone, else why.
 */
int result_failed(struct err *err);
/** result_let_go() - whoever read it has gone: nothing more is written. */
void result_let_go(struct result *result);
/** result_end() - flush and close; an error if anything could not be written. */
int result_end(struct result *result, struct err *err);
void result_fini(struct result *result);

#endif
