/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_live.h - what is sampled, while it is: /api/v1/sample, and the page. Threads of the server
 * ask, the sampling thread answers.
 */
#ifndef API_SAMPLE_LIVE_H
#define API_SAMPLE_LIVE_H

#include <pthread.h>

#include "api/lives.h"
#include "probe/sample_life.h"

/**
 * struct sample_live - the last answer; sample_live_init(), stays as long as the server,
 * sample_live_fini().
 */
struct sample_live {
	pthread_mutex_t lock;
	/* under lock */
	char *text;
	size_t len;
	struct desk *desk;
	struct http_route route;
	struct lives lives;
};

void sample_live_init(struct sample_live *live, struct sample_life *life);
/** sample_live_more() - what is to be served; opt->more of a server. */
struct serving_more sample_live_more(struct sample_live *live);
/** sample_live_answer() - @write writes the JSON of now. Any thread. 0 or negative errno. */
int sample_live_answer(struct sample_live *live, int (*write)(void *ctx, FILE *to, struct err *err),
		       void *ctx, struct err *err);
void sample_live_fini(struct sample_live *live);

#endif
