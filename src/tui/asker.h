/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asker.h - questions that take their time, off the terminal's thread: one at a time, and the last
 * one asked is the one that counts.
 */
#ifndef TUI_ASKER_H
#define TUI_ASKER_H

#include "api/reach.h"

struct asker;
/** struct asked - an answer; buf_fini() its body. */
struct asked {
	struct buf body;
	/* there is no answer; else: */
	struct err err;
	int status;
	/* time_ns: when it was there, of CLOCK_MONOTONIC */
	uint64_t took_ns, time_ns;
};

/** asker_new() - @reach: lent. NULL with @err. */
struct asker *asker_new(struct reach *reach, struct err *err);
/** asker_want() - the next question; one that is not answered yet is given up. */
void asker_want(struct asker *asker, const char *what);
/** asker_take() - 1: the last question is answered, once; 0: not yet, or nothing was asked. */
int asker_take(struct asker *asker, struct asked *asked);
/** asker_waits() - 1: a question is not answered yet. */
int asker_waits(struct asker *asker);
void asker_free(struct asker *asker);

#endif
