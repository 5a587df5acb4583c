/* SPDX-License-Identifier: Apache-2.0 */
/*
 * desk.h - many threads ask, one answers when it comes by: a server's questions to whoever
 * measures. What the answer is lies elsewhere; this says when it is new enough. desk_init(); any
 * thread: desk_ask(); the one that measures: desk_fd() in its poll(), desk_asked(), measure,
 * desk_answer(); desk_close() when nothing more is measured; desk_fini() when nobody can ask any
 * more.
 */
#ifndef BASE_DESK_H
#define BASE_DESK_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

struct desk {
	pthread_mutex_t lock;
	pthread_cond_t answer;
	/* how often; under the lock, as all below */
	uint64_t asked, answered;
	int over;
	/* eventfd */
	int wake;
};

int desk_init(struct desk *desk, struct err *err);
void desk_fini(struct desk *desk);
/**
 * desk_ask() - return once what is known is of after the call, or nothing more is measured, or
 * @wait_ns have passed.
 */
void desk_ask(struct desk *desk, uint64_t wait_ns);
/** desk_fd() - becomes readable when somebody asks. */
int desk_fd(const struct desk *desk);
/**
 * desk_asked() - up to which question desk_answer() may answer with what is measured from here on;
 * empties desk_fd().
 */
uint64_t desk_asked(struct desk *desk);
/** desk_waits() - 1: somebody waits for an answer. */
int desk_waits(struct desk *desk);
/** desk_answer() - what is known now answers all questions up to @asked. */
void desk_answer(struct desk *desk, uint64_t asked);
/** desk_close() - whoever waits, and whoever asks from now on, does with what there is. */
void desk_close(struct desk *desk);

#endif
