/* SPDX-License-Identifier: Apache-2.0 */
#include "api/sample_live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define WAIT_NS 5000000000ull /* then the last answer is given; it says of when it is */

/* As `sample --format json` prints it, of the moment of the question or a second before. */
static void sample_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	struct sample_live *s = ctx;
	if (http_request_only(request, none, reply) < 0)
		return;
	desk_ask(s->desk, WAIT_NS);
	pthread_mutex_lock(&s->lock);
	if (s->text)
		buf_put(&reply->body, s->text, s->len);
	else
		http_reply_error(reply, 503, "nothing was read yet");
	pthread_mutex_unlock(&s->lock);
}

void sample_live_init(struct sample_live *live, struct sample_life *life)
{
	static const char *const has[] = { "sample", NULL };
	const struct samples *samples = sample_life_samples(life);
	*live = (struct sample_live){ .desk = sample_life_desk(life) };
	pthread_mutex_init(&live->lock, NULL);
	live->route = (struct http_route){ "/api/v1/sample", sample_route, live };
	for (size_t i = 0; i < samples->process_count; i++)
		lives_add(&live->lives, samples->processes[i].exe, (pid_t)samples->processes[i].pid,
			  has);
	lives_none(&live->lives, has);
}

struct serving_more sample_live_more(struct sample_live *live)
{
	return (struct serving_more){ &live->route, 1, live->lives.all, live->lives.count };
}

int sample_live_answer(struct sample_live *live, int (*write)(void *ctx, FILE *to, struct err *err),
		       void *ctx, struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	int rc = to ? write(ctx, to, err) : err_set(err, -ENOMEM, "cannot answer");
	if (to && fclose(to) != 0 && !rc)
		rc = err_set(err, -ENOMEM, "cannot answer");
	if (rc < 0) {
		free(text);
		return rc;
	}
	pthread_mutex_lock(&live->lock);
	free(live->text);
	live->text = text;
	live->len = len;
	pthread_mutex_unlock(&live->lock);
	return rc;
}

void sample_live_fini(struct sample_live *live)
{
	pthread_mutex_destroy(&live->lock);
	free(live->text);
}
