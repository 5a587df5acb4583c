/* SPDX-License-Identifier: Apache-2.0 */
#include "api/memory_live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "out/explain.h"
#include "query/balance.h"
#include "query/written.h"

static const char *const shows[] = { "regions", NULL };

/* Nothing is stopped; where the process is recorded, its recorder is waited for. */
static int explain(void *ctx, enum view_by by, size_t limit, FILE *to, struct err *err)
{
	const struct watched *w = ctx;
	const struct explain_opt opt = { .by = by };
	CLEANUP(balance_fini) struct balance balance = { 0 };
	if (w->exited)
		return err_set(err, -ENOENT, "process %d has ended", (int)w->pid);
	int rc = balance_of_process(&balance, w->pid, 0, NULL, &opt, err);
	return rc < 0 ? rc : out_explain_json(to, balance.explain, limit, err);
}

int memory_live_init(struct memory_live *l, struct watched_set *set, int hide_addresses,
		     struct err *err)
{
	watched_source(&l->source, set);
	l->source.hide_addresses = hide_addresses;
	l->source.cache = memory_cache_new();
	l->paths = calloc(TARGETS_GIVEN_MAX + 1, sizeof(*l->paths));
	if (!l->source.cache || !l->paths)
		return err_set(err, -ENOMEM, "cannot serve");
	const struct http_route routes[] = { { "/debug/memory", memory_debug, &l->source },
					     { "/debug/memory/history", memory_history,
					       &l->source },
					     { "/debug/memory/diff", memory_diff, &l->source },
					     { "/metrics", memory_metrics, &l->source } };
	memcpy(l->routes, routes, sizeof(routes));
	for (; l->live_count < set->count && l->live_count < TARGETS_GIVEN_MAX; l->live_count++) {
		struct watched *w = &set->all[l->live_count];
		char *path = l->paths[l->file_count];
		l->lives[l->live_count] =
			(struct v1_live){ .name = w->facts.comm[0] ? w->facts.comm : "process",
					  .kind = "process",
					  .pid = (int32_t)w->pid,
					  .has = shows,
					  .explain = explain,
					  .ctx = w };
		written_of(w->pid, path, sizeof(l->paths[0]));
		if (path[0])
			l->files[l->file_count++] = path;
	}
	if (!set->count) /* waited for */
		l->lives[l->live_count++] =
			(struct v1_live){ .name = "process", .kind = "process", .has = shows };
	return 0;
}

struct serving_more memory_live_more(struct memory_live *l)
{
	return (struct serving_more){ l->routes, ARRAY_LEN(l->routes), l->lives, l->live_count };
}

void memory_live_tell(const struct memory_live *l, struct serving *serving,
		      const struct alert_event *event)
{
	char *text = NULL;
	size_t len = 0, source = V1_LIVE_FIRST;
	struct jsonw json;
	const uint64_t now = clock_ns(CLOCK_REALTIME);
	FILE *to = serving ? open_memstream(&text, &len) : NULL;
	if (!to)
		return;
	for (size_t i = 0; i < l->live_count; i++)
		if (l->lives[i].pid == (int32_t)event->pid)
			source = V1_LIVE_FIRST + i;
	jsonw_init(&json, to);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "source", source);
	jsonw_u64(&json, "pid", (uint64_t)event->pid);
	jsonw_str(&json, "name", event->comm);
	jsonw_str(&json, "rule", event->rule->text);
	jsonw_str(&json, "text", event->words);
	jsonw_u64(&json, "time_realtime_ns", now);
	jsonw_object_end(&json);
	if (fclose(to) == 0)
		serving_tell(serving, &(struct v1_alert){ .pid = (int32_t)event->pid,
							  .time_realtime_ns = now,
							  .text = event->words,
							  .json = text });
	free(text);
}

void memory_live_fini(struct memory_live *l)
{
	memory_cache_free(l->source.cache);
	free(l->paths);
}
