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

static const char *const shows[] = { "regions", "rss", "events", NULL };

/* ---- a place, and who has it ----------------------------------------------------------------- */

/**
 * hold() - who has the place now, until let_go(). NULL: nobody yet, or it is given to another one
 * just now.
 */
static struct watched *hold(const struct memory_place *place)
{
	pthread_rwlock_rdlock(&place->set->lock);
	return place->at < place->set->count ? &place->set->all[place->at] : NULL;
}

static void let_go(const struct memory_place *place)
{
	pthread_rwlock_unlock(&place->set->lock);
}

static void take_facts(struct watched *w, struct memory_facts *facts)
{
	pthread_mutex_lock(&w->lock);
	*facts = w->facts;
	pthread_mutex_unlock(&w->lock);
}

/** first_ns() - when watching began for the first time, of whoever had the place. */
static uint64_t first_ns(const struct history *history, uint64_t otherwise)
{
	struct history_run *runs = NULL;
	size_t count = 0;
	uint64_t first = otherwise;
	if (history_runs(history, &runs, &count) == 0 && count)
		first = runs[0].time_ns;
	free(runs);
	return first;
}

static int live_facts(void *ctx, struct v1_live_facts *to)
{
	const struct memory_place *place = ctx;
	struct watched *w = hold(place);
	struct memory_facts facts;
	if (w) {
		take_facts(w, &facts);
		*to = (struct v1_live_facts){ .pid = facts.pid,
					      .ended = facts.ended,
					      .start_ns = first_ns(facts.history, w->since_ns),
					      .time_ns = facts.time_ns,
					      .rss_bytes = facts.totals.rss_bytes,
					      .virtual_bytes = facts.totals.virtual_bytes };
		to->part_bytes[PROF_ANON] = facts.totals.rss_anon_bytes;
		to->part_bytes[PROF_FILE] = facts.totals.rss_file_bytes;
		to->part_bytes[PROF_SHMEM] = facts.totals.rss_shmem_bytes;
		to->part_bytes[PROF_SWAP] = facts.totals.swap_bytes;
		snprintf(to->name, sizeof(to->name), "%s", facts.comm);
	}
	let_go(place);
	return w ? 0 : -ENOENT;
}

/* Nothing is stopped; where the process is recorded, its recorder is waited for. */
static int explain(void *ctx, enum view_by by, size_t limit, FILE *to, struct err *err)
{
	const struct explain_opt opt = { .by = by };
	CLEANUP(balance_fini) struct balance balance = { 0 };
	struct v1_live_facts who;
	if (live_facts(ctx, &who) < 0)
		return err_set(err, -ENOENT, "no process is there yet");
	if (who.ended)
		return err_set(err, -ENOENT, "process %d has ended", (int)who.pid);
	int rc = balance_of_process(&balance, who.pid, 0, NULL, &opt, err);
	return rc < 0 ? rc : out_explain_json(to, balance.explain, limit, err);
}

/* ---- over time ------------------------------------------------------------------------------- */

/** struct kinds - the process as a whole, and what it is made of; same moments in each. */
struct kinds {
	struct history_line lines[1 + PROF_SWAP];
	size_t count;
	/* of @lines: enum prof_part; [0] is the process */
	int part[1 + PROF_SWAP];
};

static int read_kinds(const struct history *history, struct kinds *k)
{
	static const char *const labels[PROF_SWAP] = { "anon", "file", "shmem" };
	k->count = 1;
	k->lines[0].number = 0;
	for (int i = 0; i < PROF_SWAP; i++) {
		int key = history_find(history, HISTORY_CLASS_KIND, labels[i]);
		if (key < 0)
			continue;
		k->part[k->count] = i;
		k->lines[k->count++].number = (size_t)key;
	}
	int rc = history_lines(history, k->lines, k->count, 0, UINT64_MAX);
	/* numbers have changed since: next time */
	for (size_t i = 1; i < k->count && rc == 0; i++)
		if (strcmp(k->lines[i].key.class, HISTORY_CLASS_KIND) != 0 ||
		    strcmp(k->lines[i].key.label, labels[k->part[i]]) != 0 ||
		    k->lines[i].count != k->lines[0].count)
			rc = -EAGAIN;
	return rc;
}

static void fill(const struct kinds *k, uint64_t start_ns, struct prof_point *points)
{
	for (size_t i = 0; i < k->lines[0].count; i++) {
		const struct history_point *from = &k->lines[0].points[i];
		struct prof_point *to = &points[i];
		to->time_ns = from->time_ns - start_ns;
		to->rss_bytes = to->rss_max_bytes = from->rss_bytes;
		to->virtual_bytes = from->virtual_bytes;
		to->part_bytes[PROF_SWAP] = to->part_max_bytes[PROF_SWAP] = from->swap_bytes;
		for (size_t j = 1; j < k->count; j++)
			to->part_bytes[k->part[j]] = to->part_max_bytes[k->part[j]] =
				k->lines[j].points[i].rss_bytes;
	}
}

static int live_timeline(void *ctx, struct prof_point **points, size_t *count, uint64_t *start_ns,
			 struct err *err)
{
	const struct memory_place *place = ctx;
	struct kinds k = { .count = 0 };
	struct watched *w = hold(place);
	int rc = w ? read_kinds(w->history, &k) : -ENOENT;
	*start_ns = w ? first_ns(w->history, w->since_ns) : 0;
	let_go(place);
	*points = NULL;
	*count = rc < 0 ? 0 : k.lines[0].count;
	if (rc == 0 && *count && k.lines[0].points[0].time_ns < *start_ns)
		*start_ns = k.lines[0].points[0].time_ns;
	if (rc == 0 && !(*points = calloc(*count + 1, sizeof(**points))))
		rc = -ENOMEM;
	if (rc == 0)
		fill(&k, *start_ns, *points);
	history_lines_fini(k.lines, k.count);
	if (rc == -ENOENT)
		return err_set(err, rc, "no process is there yet");
	return rc < 0 ? err_set(err, rc, "cannot tell what was resident over time") : 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

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
	for (size_t i = 0; i < TARGETS_GIVEN_MAX; i++) {
		l->places[i] = (struct memory_place){ set, i };
		l->lives[i] = (struct v1_live){ .name = "process",
						.kind = "process",
						.has = shows,
						.explain = explain,
						.facts = live_facts,
						.timeline = live_timeline,
						.ctx = &l->places[i] };
	}
	l->live_count = TARGETS_GIVEN_MAX;
	for (size_t i = 0; i < set->count && i < TARGETS_GIVEN_MAX; i++) {
		char *path = l->paths[l->file_count];
		written_of(set->all[i].pid, path, sizeof(l->paths[0]));
		if (path[0])
			l->files[l->file_count++] = path;
	}
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
	/* the loop's own thread: it alone gives places away */
	for (size_t i = 0; i < l->live_count && i < l->places[0].set->count; i++)
		if (l->places[0].set->all[i].pid == event->pid)
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
