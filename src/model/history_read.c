/* SPDX-License-Identifier: Apache-2.0 */
/* history_read.c - series and moments out of the samples that are kept; any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/history_impl.h"

/* ---- reading --------------------------------------------------------------------------------- */

size_t history_keys(const struct history *h)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	pthread_mutex_lock(lock);
	size_t count = h->key_count;
	pthread_mutex_unlock(lock);
	return count;
}

struct history_key history_key(const struct history *h, size_t key)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	pthread_mutex_lock(lock);
	struct history_key found = key < h->key_count ? h->keys[key] : (struct history_key){ 0 };
	pthread_mutex_unlock(lock);
	return found;
}

uint64_t history_changes(const struct history *h)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	pthread_mutex_lock(lock);
	uint64_t changes = h->changes;
	pthread_mutex_unlock(lock);
	return changes;
}

int history_find(const struct history *h, const char *class, const char *label)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	pthread_mutex_lock(lock);
	int key = history_find_key(h, class, label);
	pthread_mutex_unlock(lock);
	return key;
}

static struct history_point point_of(uint64_t time_ms, const struct history_values *values)
{
	return (struct history_point){ .time_ns = time_ms * 1000000,
				       .rss_bytes = values->v[0] * HISTORY_UNIT,
				       .virtual_bytes = values->v[1] * HISTORY_UNIT,
				       .swap_bytes = values->v[2] * HISTORY_UNIT,
				       .count = values->v[3] };
}

/* ---- series ---------------------------------------------------------------------------------- */

/** One pass over the samples of a stretch: what @fn gets are the finest of each moment. */
struct pass {
	const struct history *history;
	uint64_t from_ms, to_ms;
	unsigned tier;
	frame_fn fn;
	void *ctx;
	int rc;
};

/* What a finer tier still has of that moment goes first. */
static int kept_finer(const struct history *h, unsigned tier, uint64_t time_ms)
{
	for (unsigned finer = 0; finer < tier; finer++) {
		for (const struct history_chunk *c = h->tiers[finer].first; c; c = c->next) {
			if (c->first_ms <= time_ms && time_ms <= c->last_ms)
				return 1;
		}
	}
	return 0;
}

static int pass_on(void *ctx, uint64_t time_ms, const struct history_values *values)
{
	struct pass *p = ctx;
	if (time_ms > p->to_ms)
		return 1;
	if (time_ms < p->from_ms || kept_finer(p->history, p->tier, time_ms))
		return 0;
	p->rc = p->fn(p->ctx, time_ms, values);
	return p->rc;
}

/* With @recent only of what was added since the clock was set back. */
static int go_through(const struct history *h, uint64_t from_ns, uint64_t to_ns, int recent,
		      frame_fn fn, void *ctx)
{
	struct pass p = { .history = h,
			  .from_ms = from_ns / 1000000,
			  .to_ms = to_ns / 1000000,
			  .fn = fn,
			  .ctx = ctx };
	for (p.tier = HISTORY_TIERS; p.tier-- > 0 && !p.rc;) {
		const struct history_chunk *c = h->tiers[p.tier].first;
		for (; c && !p.rc; c = c->next) {
			if (c->last_ms < p.from_ms || c->first_ms > p.to_ms ||
			    (recent && c->era != h->era))
				continue;
			int rc = history_decode(c->bytes.data, c->bytes.len, pass_on, &p);
			p.rc = rc == -ENOMEM ? rc : p.rc;
		}
	}
	return p.rc;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct history_point *)a)->time_ns,
		 y = ((const struct history_point *)b)->time_ns;
	return x < y ? -1 : x > y;
}

/*
 * A clock that was set back lived through some moments twice: they stand in order of time, one
 * point each.
 */
static void sort_points(struct history_line *line)
{
	size_t kept = 0;
	qsort(line->points, line->count, sizeof(*line->points), by_time);
	for (size_t i = 0; i < line->count; i++) {
		if (!kept || line->points[i].time_ns != line->points[kept - 1].time_ns)
			line->points[kept++] = line->points[i];
	}
	line->count = kept;
}

static int add_point(struct history_line *line, const struct history_point *point)
{
	/* full where the number is a power of two: none is kept beside it */
	if (!(line->count & (line->count - 1)) && (line->count >= 256 || !line->count)) {
		size_t cap = line->count ? line->count * 2 : 256;
		struct history_point *points = realloc(line->points, cap * sizeof(*points));
		if (!points)
			return -ENOMEM;
		line->points = points;
	}
	line->unsorted |= line->count && point->time_ns <= line->points[line->count - 1].time_ns;
	line->points[line->count++] = *point;
	return 0;
}

static int finish(struct history_line *line)
{
	if (line->unsorted)
		sort_points(line);
	if (!line->points)
		line->points = malloc(sizeof(*line->points)); /* none is not a failure */
	return line->points ? 0 : -ENOMEM;
}

struct lines {
	struct history_line *lines;
	size_t count;
};

static int add_points(void *ctx, uint64_t time_ms, const struct history_values *values)
{
	struct lines *l = ctx;
	int rc = 0;
	for (size_t i = 0; i < l->count && rc == 0; i++) {
		struct history_point point = point_of(time_ms, &values[l->lines[i].number]);
		rc = add_point(&l->lines[i], &point);
	}
	return rc;
}

int history_lines(const struct history *h, struct history_line *lines, size_t count,
		  uint64_t from_ns, uint64_t to_ns)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	struct lines l = { lines, count };
	int rc = 0;
	for (size_t i = 0; i < count; i++) {
		size_t number = lines[i].number;
		lines[i] = (struct history_line){ .number = number };
		rc = number < HISTORY_LABELS_MAX ? rc : -EINVAL;
	}
	pthread_mutex_lock(lock);
	for (size_t i = 0; i < count && rc == 0; i++)
		lines[i].key = h->keys[lines[i].number];
	if (rc == 0)
		rc = go_through(h, from_ns, to_ns, 0, add_points, &l);
	pthread_mutex_unlock(lock);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = finish(&lines[i]);
	if (rc < 0)
		history_lines_fini(lines, count);
	return rc;
}

void history_lines_fini(struct history_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(lines[i].points);
		lines[i].points = NULL;
	}
}

int history_series(const struct history *h, size_t key, uint64_t from_ns, uint64_t to_ns,
		   struct history_point **points, size_t *count)
{
	struct history_line line = { .number = key };
	int rc = history_lines(h, &line, 1, from_ns, to_ns);
	if (rc < 0)
		return rc;
	*points = line.points;
	*count = line.count;
	return 0;
}

struct sum {
	struct history_line line;
	const uint8_t *picked;
};

static int add_sum(void *ctx, uint64_t time_ms, const struct history_values *values)
{
	struct sum *s = ctx;
	struct history_values all = { 0 };
	for (size_t i = 0; i < HISTORY_LABELS_MAX; i++) {
		for (unsigned k = 0; k < VALUES && s->picked[i]; k++)
			all.v[k] += values[i].v[k];
	}
	struct history_point point = point_of(time_ms, &all);
	return add_point(&s->line, &point);
}

int history_recent(const struct history *h, const uint8_t *picked, uint64_t from_ns, uint64_t to_ns,
		   struct history_point **points, size_t *count)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	struct sum s = { .picked = picked };
	pthread_mutex_lock(lock);
	int rc = go_through(h, from_ns, to_ns, 1, add_sum, &s);
	pthread_mutex_unlock(lock);
	if (rc == 0)
		rc = finish(&s.line);
	if (rc < 0) {
		free(s.line.points);
		return rc;
	}
	*points = s.line.points;
	*count = s.line.count;
	return 0;
}

/* ---- moments --------------------------------------------------------------------------------- */

struct moment {
	uint64_t time_ms, found_ms;
	struct history_point *points;
	size_t keys;
	int found;
};

static int keep_moment(void *ctx, uint64_t time_ms, const struct history_values *values)
{
	struct moment *m = ctx;
	if (time_ms > m->time_ms)
		return 1;
	if (m->found && time_ms <= m->found_ms)
		return 0;
	for (size_t i = 0; i < m->keys; i++)
		m->points[i] = point_of(time_ms, &values[i]);
	m->found = 1;
	m->found_ms = time_ms;
	return 0;
}

/*
 * The chunk of @tier with the latest sample that is not later than @time_ms; the last one of
 * several.
 */
static const struct history_chunk *chunk_at(const struct history_tier *tier, uint64_t time_ms)
{
	const struct history_chunk *best = NULL;
	uint64_t best_ms = 0;
	for (const struct history_chunk *c = tier->first; c; c = c->next) {
		uint64_t ms = c->last_ms < time_ms ? c->last_ms : time_ms;
		if (c->first_ms <= time_ms && ms >= best_ms) {
			best = c;
			best_ms = ms;
		}
	}
	return best;
}

static int newest(const struct history *h, struct history_point *points, size_t keys)
{
	const struct history_tier *tier = &h->tiers[0];
	for (size_t i = 0; i < keys && i < HISTORY_LABELS_MAX && tier->last; i++)
		points[i] = point_of(tier->last_ms, &tier->now[i]);
	return tier->last ? 0 : -ENOENT;
}

int history_newest(const struct history *h, struct history_point *points, size_t keys)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	pthread_mutex_lock(lock);
	int rc = newest(h, points, keys);
	pthread_mutex_unlock(lock);
	return rc;
}

int history_at(const struct history *h, uint64_t time_ns, struct history_point *points, size_t keys)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	struct moment m = { .time_ms = time_ns / 1000000,
			    .points = points,
			    .keys = keys < HISTORY_LABELS_MAX ? keys : HISTORY_LABELS_MAX };
	pthread_mutex_lock(lock);
	int last = h->tiers[0].last_ms == h->latest_ms && m.time_ms >= h->latest_ms &&
		   newest(h, points, keys) == 0;
	for (unsigned t = 0; t < HISTORY_TIERS && !last; t++) {
		const struct history_chunk *c = chunk_at(&h->tiers[t], m.time_ms);
		if (c)
			history_decode(c->bytes.data, c->bytes.len, keep_moment, &m);
	}
	pthread_mutex_unlock(lock);
	return last || m.found ? 0 : -ENOENT;
}

uint64_t history_damaged(const struct history *h)
{
	return h->damaged_bytes;
}

const char *history_aside(const struct history *h)
{
	return h->aside;
}
