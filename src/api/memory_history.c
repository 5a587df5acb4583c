/* SPDX-License-Identifier: Apache-2.0 */
/* memory_history.c - /debug/memory/history and /debug/memory/diff: how it came about. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/memory.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "view/growth.h"

/* "-5m", "-90", "-1h30m" before now; "1700000000" seconds since 1970. */
static int parse_time(const char *text, uint64_t now_ns, uint64_t *time_ns)
{
	const char *at = text;
	int before = *at == '-';
	double sum = 0;
	at += before;
	if (*at < '0' || *at > '9')
		return -EINVAL;
	while (*at >= '0' && *at <= '9') {
		char *end;
		double n = (double)strtoull(at, &end, 10); /* no exponents */
		static const char units[] = "smhd";
		static const double seconds[] = { 1, 60, 3600, 86400 };
		const char *unit = *end ? strchr(units, *end) : NULL;
		if (*end && (!unit || !before))
			return -EINVAL;
		sum += n * (unit ? seconds[unit - units] : 1);
		at = *end ? end + 1 : end;
	}
	if (*at || sum > 1e11)
		return -EINVAL;
	uint64_t ns = (uint64_t)(sum * 1e9 < 1.8e19 ? sum * 1e9 : 1.8e19);
	*time_ns = !before ? ns : ns < now_ns ? now_ns - ns : 0;
	return 0;
}

int memory_arg_time(const struct http_request *request, const char *key, uint64_t now_ns,
		    uint64_t *time_ns, struct http_reply *reply)
{
	const char *text = http_request_arg(request, key);
	if (!text || parse_time(text, now_ns, time_ns) == 0)
		return 0;
	http_reply_error(
		reply, 400,
		"'%s' is a time like -5m or -1h30m before now, or seconds since 1970, not '%.40s'",
		key, text);
	return -EINVAL;
}

static void put_growth(struct jsonw *json, const struct growth *g, uint64_t limit_bytes)
{
	double eta = limit_bytes ? view_growth_eta(g, limit_bytes) : INFINITY;
	jsonw_object(json, "growth");
	jsonw_str(json, "verdict", view_growth_word(g->verdict));
	jsonw_i64(json, "bytes_per_hour", (int64_t)(g->bytes_per_second * 3600));
	jsonw_double(json, "confidence", g->confidence);
	jsonw_bool(json, "by_lows", g->lows);
	jsonw_u64(json, "points", g->points);
	jsonw_u64(json, "span_ns", g->span_ns);
	if (isfinite(eta) && eta < 1e9)
		jsonw_u64(json, "limit_in_ns", (uint64_t)(eta * 1e9));
	else
		jsonw_null(json, "limit_in_ns");
	jsonw_object_end(json);
}

static void put_points(struct jsonw *json, const struct history_point *points, size_t count)
{
	jsonw_array(json, "points");
	for (size_t i = 0; i < count; i++) {
		jsonw_array(json, NULL);
		jsonw_u64(json, NULL, points[i].time_ns);
		jsonw_u64(json, NULL, points[i].rss_bytes);
		jsonw_u64(json, NULL, points[i].virtual_bytes);
		jsonw_u64(json, NULL, points[i].swap_bytes);
		jsonw_u64(json, NULL, points[i].count);
		jsonw_array_end(json);
	}
	jsonw_array_end(json);
}

static int wanted(const struct memory_history_ask *ask, size_t key, const struct history_key *k)
{
	if (!ask->class && strcmp(k->class, HISTORY_CLASS_KIND) == 0)
		return 0;
	if (!ask->class && !ask->label)
		return 1;
	return key && (!ask->class || strcmp(ask->class, k->class) == 0) &&
	       (!ask->label || strcmp(ask->label, k->label) == 0);
}

static void put_line(struct jsonw *json, const struct memory_facts *facts,
		     const struct history_line *line, const struct growth *growth,
		     const struct memory_history_ask *ask, size_t *left, int *cut)
{
	int label = line->number != 0;
	jsonw_object(json, NULL);
	jsonw_str(json, "class", label ? line->key.class : NULL);
	jsonw_str(json, "label", label ? line->key.label : NULL);
	jsonw_u64(json, "first_bytes", growth->first_bytes);
	jsonw_u64(json, "last_bytes", growth->last_bytes);
	jsonw_u64(json, "low_bytes", line->count ? growth->low_bytes : 0);
	jsonw_u64(json, "high_bytes", growth->high_bytes);
	put_growth(json, growth, label ? 0 : facts->limit_bytes);
	if (ask->points) {
		size_t n = line->count < *left ? line->count : *left;
		*cut |= n < line->count;
		*left -= n;
		/* the newest, where not all fit */
		put_points(json, line->points + (line->count - n), n);
	}
	jsonw_object_end(json);
}

static int put_series(struct jsonw *json, const struct memory_facts *facts,
		      const struct memory_history_ask *ask)
{
	int cut = 0, rc = 0;
	size_t left = ask->points_max, keys = history_keys(facts->history), next = 0;
	jsonw_array(json, "series");
	while (next < keys && rc == 0) {
		struct history_line lines[HISTORY_LINES_MAX];
		size_t n = 0;
		for (; next < keys && n < HISTORY_LINES_MAX; next++) {
			struct history_key key = history_key(facts->history, next);
			if (wanted(ask, next, &key))
				lines[n++].number = next;
		}
		if (n)
			rc = history_lines(facts->history, lines, n, ask->from_ns, ask->to_ns);
		for (size_t i = 0; i < n && rc == 0; i++) {
			struct growth growth;
			if (!wanted(ask, lines[i].number, &lines[i].key))
				continue; /* numbers have changed since */
			rc = view_growth(lines[i].points, lines[i].count, &growth);
			if (rc == 0)
				put_line(json, facts, &lines[i], &growth, ask, &left, &cut);
		}
		history_lines_fini(lines, n);
	}
	jsonw_array_end(json);
	jsonw_bool(json, "cut", cut);
	return rc;
}

static void put_runs(struct jsonw *json, const struct history *history)
{
	struct history_run *runs;
	size_t count;
	jsonw_array(json, "runs");
	if (history_runs(history, &runs, &count) == 0) {
		for (size_t i = 0; i < count; i++) {
			jsonw_object(json, NULL);
			jsonw_u64(json, "time_ns", runs[i].time_ns);
			jsonw_i64(json, "pid", runs[i].pid);
			jsonw_str(json, "comm", runs[i].comm);
			jsonw_object_end(json);
		}
		free(runs);
	}
	jsonw_array_end(json);
}

static void finish(struct http_reply *reply, FILE *stream, char **text, const size_t *len, int rc)
{
	if ((fclose(stream) != 0 && rc == 0) || rc < 0)
		http_reply_error(reply, 500, "out of memory");
	else
		buf_put(&reply->body, *text, *len);
	free(*text);
}

int memory_history_put(FILE *to, const struct memory_facts *facts,
		       const struct memory_history_ask *ask)
{
	struct jsonw json;
	jsonw_init(&json, to);
	jsonw_object(&json, NULL);
	jsonw_i64(&json, "pid", facts->pid);
	jsonw_str(&json, "comm", facts->comm);
	jsonw_u64(&json, "time_ns", facts->time_ns);
	if (facts->limit_bytes)
		jsonw_u64(&json, "limit_bytes", facts->limit_bytes);
	else
		jsonw_null(&json, "limit_bytes");
	put_runs(&json, facts->history);
	int rc = put_series(&json, facts, ask);
	jsonw_object_end(&json);
	jsonw_line(&json);
	return rc;
}

int memory_history_file(FILE *to, const struct history *history, struct err *err)
{
	struct memory_facts facts = { .history = history };
	const struct memory_history_ask ask = { .to_ns = UINT64_MAX,
						.points = 1,
						.points_max = SIZE_MAX };
	struct history_run *runs = NULL;
	size_t count = 0;
	int rc = history_runs(history, &runs, &count);
	if (rc < 0)
		return err_set(err, rc, "cannot read the history");
	if (count) {
		facts.pid = runs[count - 1].pid;
		memcpy(facts.comm, runs[count - 1].comm, sizeof(facts.comm));
	}
	free(runs);
	rc = memory_history_put(to, &facts, &ask);
	if (rc < 0 || fflush(to) != 0)
		return err_set(err, rc < 0 ? rc : -EIO, "cannot write the history");
	return 0;
}

struct history_asked {
	const struct memory_facts *facts;
	const struct memory_history_ask *ask;
};

static int answer(void *ctx, struct buf *body)
{
	const struct history_asked *asked = ctx;
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	if (!stream)
		return -ENOMEM;
	int rc = memory_history_put(stream, asked->facts, asked->ask);
	if (fclose(stream) != 0)
		rc = -ENOMEM;
	if (rc == 0)
		buf_put(body, text, len);
	free(text);
	return rc < 0 ? rc : buf_failed(body) ? -ENOMEM : 0;
}

void memory_history(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const names[] = {
		"pid", "class", "label", "from", "to", "points", NULL
	};
	if (http_request_only(request, names, reply) < 0)
		return;
	const struct memory_source *source = ctx;
	uint64_t now = clock_ns(CLOCK_REALTIME);
	struct memory_history_ask ask = { .class = http_request_arg(request, "class"),
					  .label = http_request_arg(request, "label"),
					  .to_ns = now,
					  .points_max = MEMORY_POINTS_MAX };
	struct memory_facts facts;
	const char *points = http_request_arg(request, "points");
	int32_t pid = memory_arg_pid(request, reply);
	if (pid < 0 || memory_arg_time(request, "from", now, &ask.from_ns, reply) < 0 ||
	    memory_arg_time(request, "to", now, &ask.to_ns, reply) < 0)
		return;
	if (points && strcmp(points, "0") != 0 && strcmp(points, "1") != 0) {
		http_reply_error(reply, 400, "'points' is one of 0, 1, not '%.40s'", points);
		return;
	}
	ask.points = points ? points[0] == '1' : ask.class || ask.label;
	if (memory_find(source, pid, &facts, reply) < 0)
		return;
	char question[600];
	const char *from = http_request_arg(request, "from"), *to = http_request_arg(request, "to");
	/*
	 * of the words themselves: "-5m" means another stretch each time, but not of other samples
	 */
	int len = snprintf(question, sizeof(question), "%d %d %s %s %zu:%s %d%s", (int)facts.pid,
			   ask.points, from ? from : "", to ? to : "",
			   ask.class ? strlen(ask.class) + 1 : 0, ask.class ? ask.class : "",
			   ask.label != NULL, ask.label ? ask.label : "");
	struct history_asked asked = { &facts, &ask };
	int rc = len < (int)sizeof(question)
			 ? memory_cache_answer(source->cache, question, facts.time_ns, answer,
					       &asked, &reply->body)
			 : answer(&asked, &reply->body);
	if (rc < 0) {
		buf_clear(&reply->body);
		http_reply_error(reply, 500, "out of memory");
	}
}

/* ---- diff ------------------------------------------------------------------------------------ */

struct change {
	size_t key;
	int64_t delta;
	/* no part of RSS, and others' work too: behind all that is */
	int beside;
};

static int by_change(const void *a, const void *b)
{
	int order = ((const struct change *)a)->beside - ((const struct change *)b)->beside;
	if (order)
		return order;
	uint64_t x = (uint64_t)llabs(((const struct change *)a)->delta),
		 y = (uint64_t)llabs(((const struct change *)b)->delta);
	return x < y ? 1 : x > y ? -1 : 0;
}

static void put_change(struct jsonw *json, const struct history *h, size_t key,
		       const struct history_point *a, const struct history_point *b)
{
	struct history_key k = history_key(h, key);
	jsonw_object(json, NULL);
	jsonw_str(json, "class", k.class);
	jsonw_str(json, "label", k.label);
	jsonw_u64(json, "a_rss_bytes", a->rss_bytes);
	jsonw_u64(json, "b_rss_bytes", b->rss_bytes);
	jsonw_i64(json, "rss_delta_bytes", (int64_t)(b->rss_bytes - a->rss_bytes));
	jsonw_i64(json, "swap_delta_bytes", (int64_t)(b->swap_bytes - a->swap_bytes));
	jsonw_i64(json, "virtual_delta_bytes", (int64_t)(b->virtual_bytes - a->virtual_bytes));
	jsonw_i64(json, "count_delta", (int64_t)(b->count - a->count));
	jsonw_object_end(json);
}

void memory_at(const struct history *history, uint64_t time_ns, struct history_point *at,
	       size_t keys)
{
	struct history_point *points;
	size_t count;
	if (history_at(history, time_ns, at, keys) == 0 ||
	    history_series(history, 0, 0, UINT64_MAX, &points, &count) < 0)
		return;
	if (count)
		history_at(history, points[0].time_ns, at, keys);
	free(points);
}

void memory_diff(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const names[] = { "pid", "a", "b", NULL };
	if (http_request_only(request, names, reply) < 0)
		return;
	const struct memory_source *source = ctx;
	uint64_t now = clock_ns(CLOCK_REALTIME),
		 times[2] = { now > 600 * NS_PER_S ? now - 600 * NS_PER_S : 0, now };
	struct memory_facts facts;
	int32_t pid = memory_arg_pid(request, reply);
	if (pid < 0 || memory_arg_time(request, "a", now, &times[0], reply) < 0 ||
	    memory_arg_time(request, "b", now, &times[1], reply) < 0 ||
	    memory_find(source, pid, &facts, reply) < 0)
		return;
	size_t keys = history_keys(facts.history), changed = 0, len = 0;
	struct history_point *a = calloc(keys, sizeof(*a)), *b = calloc(keys, sizeof(*b));
	struct change *changes = calloc(keys, sizeof(*changes));
	char *text = NULL;
	FILE *stream = a && b && changes ? open_memstream(&text, &len) : NULL;
	if (!stream) {
		http_reply_error(reply, 500, "out of memory");
		goto out;
	}
	memory_at(facts.history, times[0], a, keys);
	memory_at(facts.history, times[1], b, keys);
	for (size_t i = 1; i < keys; i++) {
		int64_t delta = (int64_t)(b[i].rss_bytes - a[i].rss_bytes);
		const struct history_key key = history_key(facts.history, i);
		if (strcmp(key.class, HISTORY_CLASS_KIND) == 0)
			continue; /* all of it stands in the others, too */
		if (delta || a[i].count != b[i].count || a[i].swap_bytes != b[i].swap_bytes)
			changes[changed++] =
				(struct change){ i, delta,
						 strcmp(key.class, HISTORY_CLASS_BESIDE) == 0 };
	}
	qsort(changes, changed, sizeof(*changes), by_change);
	struct jsonw json;
	jsonw_init(&json, stream);
	jsonw_object(&json, NULL);
	jsonw_i64(&json, "pid", facts.pid);
	jsonw_u64(&json, "a_time_ns", a[0].time_ns);
	jsonw_u64(&json, "b_time_ns", b[0].time_ns);
	jsonw_u64(&json, "a_rss_bytes", a[0].rss_bytes);
	jsonw_u64(&json, "b_rss_bytes", b[0].rss_bytes);
	jsonw_i64(&json, "rss_delta_bytes", (int64_t)(b[0].rss_bytes - a[0].rss_bytes));
	jsonw_array(&json, "rows");
	for (size_t i = 0; i < changed; i++)
		put_change(&json, facts.history, changes[i].key, &a[changes[i].key],
			   &b[changes[i].key]);
	jsonw_array_end(&json);
	jsonw_object_end(&json);
	jsonw_line(&json);
	finish(reply, stream, &text, &len, 0);
out:
	free(a);
	free(b);
	free(changes);
}
