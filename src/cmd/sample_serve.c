/* SPDX-License-Identifier: Apache-2.0 */
/* sample_serve.c - what was sampled so far, by HTTP while it is sampled. Threads of the server ask, the sampling thread answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/sample.h"

#define WAIT_NS 5000000000ull  /* then the last answer is given; it says of when it is */
#define EVERY_NS 1000000000ull /* at most one reading in so much */

/* As `sample --format json` prints it, of the moment of the question or a second before. */
static void sample_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	struct sample_serving *s = ctx;
	if (http_request_only(request, none, reply) < 0)
		return;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + WAIT_NS;
	const struct timespec end = { .tv_sec = (time_t)(until / 1000000000u),
				      .tv_nsec = (long)(until % 1000000000u) };
	pthread_mutex_lock(&s->lock);
	uint64_t mine = ++s->asked;
	eventfd_write(s->wake, 1);
	while (s->answered < mine && !s->over &&
	       pthread_cond_timedwait(&s->answer, &s->lock, &end) == 0)
		;
	if (s->text)
		buf_put(&reply->body, s->text, s->len);
	else
		http_reply_error(reply, 503, "nothing was read yet");
	pthread_mutex_unlock(&s->lock);
}

static void take_lives(struct sample_life *l, struct sample_serving *s)
{
	static const char *const has[] = { "sample", NULL };
	size_t count = 0;
	for (size_t i = 0; i < l->samples->process_count && count < ARRAY_LEN(s->lives); i++) {
		const struct sample_process *p = &l->samples->processes[i];
		const char *slash = strrchr(p->exe, '/');
		snprintf(s->names[count], sizeof(s->names[0]), "%s", slash ? slash + 1 : p->exe);
		s->lives[count] = (struct v1_live){ .name = s->names[count],
						    .kind = "process",
						    .pid = (int32_t)p->pid,
						    .has = has };
		count++;
	}
	if (!count)
		s->lives[count++] =
			(struct v1_live){ .name = "process", .kind = "process", .has = has };
	s->route = (struct http_route){ "/api/v1/sample", sample_route, s };
	s->more = (struct serving_more){
		.routes = &s->route, .route_count = 1, .lives = s->lives, .live_count = count
	};
}

int sample_serve(struct sample_life *l, struct err *err)
{
	struct sample_serving *s = &l->served;
	pthread_condattr_t attr;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0)
		return err_set(err, -errno, "cannot serve");
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->answer, &attr);
	pthread_condattr_destroy(&attr);
	s->is_begun = 1;
	take_lives(l, s);
	struct serving_opt opt = l->args->serving;
	opt.more = &s->more;
	opt.quiet = 1;
	s->serving = serving_new(&opt, NULL, 0, err);
	if (!s->serving)
		return err->code;
	const char *note = serving_note(s->serving);
	cmd_say("serving %sapi/v1/sample", serving_url(s->serving));
	if (note)
		cmd_say("%s", note);
	return 0;
}

int sample_serve_fd(const struct sample_life *l)
{
	return l->served.serving ? l->served.wake : -1;
}

uint64_t sample_serve_due(struct sample_life *l)
{
	struct sample_serving *s = &l->served;
	eventfd_t ignored;
	if (!s->serving)
		return UINT64_MAX;
	eventfd_read(s->wake, &ignored);
	pthread_mutex_lock(&s->lock);
	uint64_t due = s->asked > s->answered ? s->due_ns : UINT64_MAX;
	pthread_mutex_unlock(&s->lock);
	return due;
}

int sample_serve_answer(struct sample_life *l, struct err *err)
{
	struct sample_serving *s = &l->served;
	char *text = NULL;
	size_t len = 0;
	pthread_mutex_lock(&s->lock);
	uint64_t asked = s->asked;
	pthread_mutex_unlock(&s->lock);
	FILE *to = open_memstream(&text, &len);
	int rc = to ? sample_json(l, to, err) : err_set(err, -ENOMEM, "cannot answer");
	if (to && fclose(to) != 0 && !rc)
		rc = err_set(err, -ENOMEM, "cannot answer");
	if (rc < 0) {
		free(text);
		return rc;
	}
	pthread_mutex_lock(&s->lock);
	free(s->text);
	s->text = text;
	s->len = len;
	s->answered = asked;
	pthread_cond_broadcast(&s->answer);
	pthread_mutex_unlock(&s->lock);
	s->due_ns = clock_ns(CLOCK_MONOTONIC) + EVERY_NS;
	return 0;
}

void sample_serve_end(struct sample_life *l)
{
	struct sample_serving *s = &l->served;
	if (!s->is_begun)
		return;
	pthread_mutex_lock(&s->lock);
	s->over = 1;
	pthread_cond_broadcast(&s->answer);
	pthread_mutex_unlock(&s->lock);
	serving_freep(&s->serving);
	pthread_cond_destroy(&s->answer);
	pthread_mutex_destroy(&s->lock);
	close(s->wake);
	free(s->text);
	*s = (struct sample_serving){ 0 };
}
