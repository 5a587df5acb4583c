/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/asker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define QUESTION_MAX 512

struct asker {
	struct reach *reach;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t asked;
	/* "" = nothing to do */
	char what[QUESTION_MAX];
	int over, waits, answered;
	/* what is worked on is of no use any more */
	atomic_int stop;
	struct asked answer;
};

static void answer(struct asker *a, const char *what, struct asked *to)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	int rc = reach_ask(a->reach, what, &a->stop, &to->body, &to->err);
	to->status = rc < 0 ? 0 : rc;
	to->time_ns = clock_ns(CLOCK_MONOTONIC);
	to->took_ns = to->time_ns - began;
}

static void *work(void *ctx)
{
	struct asker *a = ctx;
	pthread_mutex_lock(&a->lock);
	while (!a->over) {
		char what[QUESTION_MAX];
		struct asked now = { 0 };
		if (!a->what[0]) {
			pthread_cond_wait(&a->asked, &a->lock);
			continue;
		}
		memcpy(what, a->what, sizeof(what));
		a->what[0] = '\0';
		atomic_store(&a->stop, 0);
		pthread_mutex_unlock(&a->lock);
		answer(a, what, &now);
		pthread_mutex_lock(&a->lock);
		if (a->what[0] || a->over) { /* something else is asked by now */
			buf_fini(&now.body);
			continue;
		}
		buf_fini(&a->answer.body);
		a->answer = now;
		a->answered = 1;
		a->waits = 0;
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

struct asker *asker_new(struct reach *reach, struct err *err)
{
	struct asker *a = calloc(1, sizeof(*a));
	sigset_t all, before;
	if (!a) {
		err_set(err, -ENOMEM, "cannot ask");
		return NULL;
	}
	a->reach = reach;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->asked, NULL);
	sigfillset(&all); /* they are for the terminal's thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&a->thread, NULL, work, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return a;
	err_set(err, -rc, "cannot ask");
	pthread_cond_destroy(&a->asked);
	pthread_mutex_destroy(&a->lock);
	free(a);
	return NULL;
}

void asker_want(struct asker *a, const char *what)
{
	pthread_mutex_lock(&a->lock);
	snprintf(a->what, sizeof(a->what), "%s", what);
	a->waits = 1;
	a->answered = 0;
	atomic_store(&a->stop, 1);
	pthread_cond_signal(&a->asked);
	pthread_mutex_unlock(&a->lock);
}

int asker_take(struct asker *a, struct asked *asked)
{
	pthread_mutex_lock(&a->lock);
	int there = a->answered;
	if (there) {
		*asked = a->answer;
		a->answer = (struct asked){ 0 };
		a->answered = 0;
	}
	pthread_mutex_unlock(&a->lock);
	return there;
}

int asker_waits(struct asker *a)
{
	pthread_mutex_lock(&a->lock);
	int waits = a->waits;
	pthread_mutex_unlock(&a->lock);
	return waits;
}

void asker_free(struct asker *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->over = 1;
	atomic_store(&a->stop, 1);
	pthread_cond_signal(&a->asked);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	buf_fini(&a->answer.body);
	pthread_cond_destroy(&a->asked);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
