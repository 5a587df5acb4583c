/* SPDX-License-Identifier: Apache-2.0 */
/* sample_serve.c - what was sampled so far, by HTTP while it is sampled. Threads of the server ask, the sampling thread answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/cmd.h"
#include "cmd/sample.h"

#define WAIT_NS 5000000000ull /* then the last answer is given; it says of when it is */

/* As `sample --format json` prints it, of the moment of the question or a second before. */
static void sample_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	struct sample_serving *s = ctx;
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

static void take_lives(struct sample_run *l, struct sample_serving *s)
{
	static const char *const has[] = { "sample", NULL };
	const struct samples *samples = sample_life_samples(l->life);
	size_t count = 0;
	for (size_t i = 0; i < samples->process_count && count < ARRAY_LEN(s->lives); i++) {
		const struct sample_process *p = &samples->processes[i];
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

int sample_serve(struct sample_run *l, struct err *err)
{
	struct sample_serving *s = &l->served;
	s->desk = sample_life_desk(l->life);
	pthread_mutex_init(&s->lock, NULL);
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

int sample_serve_answer(struct sample_run *l, struct err *err)
{
	struct sample_serving *s = &l->served;
	char *text = NULL;
	size_t len = 0;
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
	pthread_mutex_unlock(&s->lock);
	return 0;
}

void sample_serve_end(struct sample_run *l)
{
	struct sample_serving *s = &l->served;
	if (!s->is_begun)
		return;
	desk_close(s->desk);
	serving_freep(&s->serving);
	pthread_mutex_destroy(&s->lock);
	free(s->text);
	*s = (struct sample_serving){ 0 };
}
