/* SPDX-License-Identifier: Apache-2.0 */
/* slices.c - moments and ranges out of an index, and of one slice's events or a few's. */
#include "query/slices.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/search.h"
#include "query/slices_impl.h"

void slices_free(struct slices *s)
{
	if (!s)
		return;
	if (s->rows_fd >= 0)
		close(s->rows_fd);
	free(s->slices);
	free(s->chunks);
	free(s->kept);
	free(s->brief);
	free(s->made);
	free(s->moved);
	slices_kept_free(s->kept_steps);
	free(s);
}

void slices_freep(struct slices **slices)
{
	slices_free(*slices);
	*slices = NULL;
}

size_t slices_bytes(const struct slices *s)
{
	return sizeof(*s) + slices_kept_most(s) + s->count * sizeof(*s->slices) +
	       s->chunk_cap * sizeof(*s->chunks) + s->kept_count * sizeof(*s->kept) +
	       s->brief_cap * sizeof(*s->brief) + s->made_cap * sizeof(*s->made) +
	       s->moved_cap * sizeof(*s->moved);
}

size_t slices_count(const struct slices *s)
{
	return s->count;
}

uint32_t slices_stacks(const struct slices *s)
{
	return s->stack_count;
}

uint64_t slices_events(const struct slices *s)
{
	return s->slices[s->count].first;
}

/* ---- places ---------------------------------------------------------------------------------------------------------- */

/** slice_of() - the slice that event number @seq is in. */
static size_t slice_of(const struct slices *s, uint64_t seq)
{
	size_t before = search_beyond(s->slices, s->count, sizeof(*s->slices),
				      offsetof(struct slice, first), seq);
	return before ? before - 1 : 0;
}

/** slice_at() - the last slice that begins before @time_ns. */
static size_t slice_at(const struct slices *s, uint64_t time_ns)
{
	size_t before = time_ns ? search_beyond(s->slices, s->count, sizeof(*s->slices),
						offsetof(struct slice, time_ns), time_ns - 1)
				: 0;
	return before ? before - 1 : 0;
}

/** seq_of() - how many events are earlier than @time_ns. */
static int seq_of(const struct slices *s, struct slices_replays *replays, uint64_t time_ns,
		  uint64_t *seq, struct err *err)
{
	if (time_ns == UINT64_MAX || !time_ns) {
		*seq = time_ns ? s->slices[s->count].first : 0;
		return 0;
	}
	struct slices_walk w = { .until_ns = time_ns, .until_seq = UINT64_MAX };
	int rc = slices_walk(s, replays, slice_at(s, time_ns), &w, err);
	*seq = w.seq;
	return rc;
}

/** want() - one more slice, or more of one of them. */
static void want(const struct slices *s, const struct slices_replays *replays, uint64_t time_ns,
		 struct slices_want *wants, size_t *count)
{
	size_t number = slice_at(s, time_ns), i = 0;
	uint64_t until_ns = replays->wholes ? UINT64_MAX : time_ns;
	if (time_ns == 0 || time_ns == UINT64_MAX)
		return;
	while (i < *count && wants[i].number != number)
		i++;
	if (i == *count)
		wants[(*count)++] = (struct slices_want){ .number = number };
	if (until_ns > wants[i].until_ns)
		wants[i].until_ns = until_ns;
}

/** ahead() - the slices in which the question's times lie. */
static int ahead(const struct slices *s, struct slices_replays *replays,
		 const struct slices_ask *ask, struct err *err)
{
	struct slices_want wants[SLICES_WANTS];
	size_t count = 0;
	want(s, replays, ask->from_ns, wants, &count);
	want(s, replays, ask->to_ns, wants, &count);
	if (ask->has_at && ask->at_ns != UINT64_MAX)
		want(s, replays, ask->at_ns + 1, wants, &count);
	return slices_ahead(s, replays, wants, count, err);
}

/* ---- sums ------------------------------------------------------------------------------------------------------------- */

/** struct sums - of blocks whose allocation is one of [lo, hi). */
struct sums {
	struct slices_answer *to;
	uint64_t lo, hi;
	int sums;                /* struct slices_ask */
	int64_t *blocks, *bytes; /* by stack number: live, or at the peak */
};

static int counts(const struct sums *t, uint64_t seq)
{
	return seq >= t->lo && seq < t->hi;
}

static void add_freed(struct sums *t, const struct freed *f)
{
	t->blocks[f->stack]++;
	t->bytes[f->stack] += (int64_t)f->bytes;
}

static void freed_each(void *ctx, const struct freed *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add_freed(ctx, &rows[i]);
}

static void live_each(void *ctx, const struct event *ev, uint64_t seq, uint64_t now)
{
	struct sums *t = ctx;
	(void)now;
	if (!counts(t, seq))
		return;
	int sign = ev->kind == EVENT_ALLOC ? 1 : -1;
	t->blocks[ev->stack.v] += sign;
	t->bytes[ev->stack.v] += sign * (int64_t)ev->bytes;
}

/** add_live() - what lives before event number @until, into t->blocks and t->bytes. */
static int add_live(const struct slices *s, struct slices_replays *replays, uint64_t until,
		    struct sums *t, struct err *err)
{
	size_t number = until >= s->slices[s->count].first ? s->count : slice_of(s, until);
	uint64_t first = s->slices[number].first;
	struct slices_rows reader = { 0 };
	int rc = 0;
	/* of before this slice: freed in it or later, or never */
	for (size_t n = number; n < s->count && rc == 0; n++)
		rc = slices_rows_read(&reader, s, n, t->lo, t->hi < first ? t->hi : first,
				      freed_each, t, err);
	slices_rows_fini(&reader);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->kept_count; i++)
		if (s->kept[i].seq < first && counts(t, s->kept[i].seq))
			add_freed(t, &s->kept[i]);
	if (number == s->count || until == first)
		return 0;
	struct slices_walk w = {
		.until_ns = UINT64_MAX, .until_seq = until, .each = live_each, .ctx = t
	};
	return slices_walk(s, replays, number, &w, err);
}

/** to_accounts() - live blocks as a reading of a moment has them, or as what lived at the peak. */
static int to_accounts(const struct slices *s, const struct sums *t, int is_peak, struct err *err)
{
	struct slices_answer *a = t->to;
	for (uint32_t i = 0; i < s->stack_count; i++) {
		if (!t->blocks[i] && !t->bytes[i])
			continue;
		if (i >= a->stack_count || !a->account_of[i] || t->blocks[i] < 0 || t->bytes[i] < 0)
			return slices_no_fit(err);
		struct cost *c = &a->costs[a->account_of[i] - 1];
		uint64_t blocks = (uint64_t)t->blocks[i], bytes = (uint64_t)t->bytes[i];
		c->peak_blocks += blocks;
		c->peak_bytes += bytes;
		if (is_peak)
			continue;
		c->leaked += blocks;
		c->leaked_bytes += bytes;
		c->allocations += blocks;
		c->allocated_bytes += bytes;
	}
	return 0;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------------ */

static struct cost *account(const struct sums *t, uint32_t stack)
{
	return stack < t->to->stack_count && t->to->account_of[stack]
		       ? &t->to->costs[t->to->account_of[stack] - 1]
		       : NULL;
}

static void made_each(void *ctx, const struct event *ev, uint64_t seq, uint64_t now)
{
	struct sums *t = ctx;
	struct cost *c = counts(t, seq) ? account(t, ev->stack.v) : NULL;
	(void)now;
	if (!c)
		return;
	if (ev->kind == EVENT_ALLOC) {
		c->allocations++;
		c->allocated_bytes += ev->bytes;
	} else if (ev->flags & EVENT_F_TEMPORARY) {
		c->temporary++;
	}
}

/** struct asking - the allocations of @t are added, or taken off. */
struct asking {
	const struct sums *t;
	int takes, fails;
};

static void asked_each(void *ctx, const struct event *ev, uint64_t seq, uint64_t now)
{
	struct asking *asking = ctx;
	(void)now;
	if (ev->kind != EVENT_ALLOC || !counts(asking->t, seq))
		return;
	struct cost *c = account(asking->t, ev->stack.v);
	if (!c || (asking->takes && (!c->allocations || c->allocated_bytes < ev->bytes))) {
		asking->fails = 1;
		return;
	}
	c->allocations += asking->takes ? UINT64_MAX : 1;
	c->allocated_bytes += asking->takes ? 0 - ev->bytes : ev->bytes;
}

/** walk_asked() - the allocations of @t in slice @number, which begins before them. 0 or negative errno. */
static int walk_asked(const struct slices *s, struct slices_replays *replays, size_t number,
		      const struct sums *t, int takes, struct err *err)
{
	struct asking asking = { .t = t, .takes = takes };
	struct slices_walk w = {
		.until_ns = UINT64_MAX, .until_seq = t->hi, .each = asked_each, .ctx = &asking
	};
	int rc = slices_walk(s, replays, number, &w, err);
	return rc == 0 && asking.fails ? slices_no_fit(err) : rc;
}

/** add_slice() - what was asked for in slice @number, all of it. 0 or negative errno. */
static int add_slice(const struct slices *s, size_t number, struct sums *t, struct err *err)
{
	const struct slice *at = &s->slices[number];
	for (size_t k = at->made_begin; k < at[1].made_begin; k++) {
		struct cost *c = account(t, s->made[k].stack);
		if (!c)
			return slices_no_fit(err);
		c->allocations += s->made[k].blocks;
		c->allocated_bytes += s->made[k].bytes;
		c->temporary += t->sums ? 0 : s->made[k].temporary;
	}
	return 0;
}

static void add_leaked(const struct slices *s, struct sums *t)
{
	for (size_t i = 0; i < s->kept_count; i++) {
		struct cost *c = counts(t, s->kept[i].seq) ? account(t, s->kept[i].stack) : NULL;
		if (!c)
			continue;
		c->leaked++;
		c->leaked_bytes += s->kept[i].bytes;
	}
}

/**
 * add_asked() - allocations of the range, and which were never freed: of the slices at its ends only what stands before the times is replayed, since
 * all of a slice is known.
 */
static int add_asked(const struct slices *s, struct slices_replays *replays, struct sums *t,
		     struct err *err)
{
	size_t from = slice_of(s, t->lo), to = slice_of(s, t->hi - 1);
	int rc = 0;
	for (size_t i = from; i <= to && rc == 0; i++) {
		if (t->hi >= s->slices[i + 1].first) {
			rc = add_slice(s, i, t, err);
			const struct sums before = { .to = t->to,
						     .lo = s->slices[i].first,
						     .hi = t->lo };
			if (rc == 0 && before.lo < before.hi)
				rc = walk_asked(s, replays, i, &before, 1, err);
			continue;
		}
		rc = walk_asked(s, replays, i, t, 0, err);
	}
	if (rc == 0)
		add_leaked(s, t);
	return rc;
}

/** add_made() - the same, and which of them were temporary. */
static int add_made(const struct slices *s, struct slices_replays *replays, struct sums *t,
		    struct err *err)
{
	size_t from = slice_of(s, t->lo), to = slice_of(s, t->hi - 1);
	for (size_t i = from; i <= to; i++) {
		const struct slice *at = &s->slices[i];
		if (t->lo > at->first || t->hi < at[1].first) {
			struct slices_walk w = { .until_ns = UINT64_MAX,
						 .until_seq = UINT64_MAX,
						 .each = made_each,
						 .ctx = t };
			int rc = slices_walk(s, replays, i, &w, err);
			if (rc < 0)
				return rc;
			/* a walk tells of frees of earlier blocks, too: they are told below for all other slices */
			continue;
		}
		int rc = add_slice(s, i, t, err);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < s->brief_count; i++) {
		const struct brief *brief = &s->brief[i];
		size_t n = brief->slice;
		if (n < from || !counts(t, brief->seq))
			continue;
		if (n <= to && (t->lo > s->slices[n].first || t->hi < s->slices[n + 1].first))
			continue; /* was walked */
		struct cost *c = account(t, brief->stack);
		if (!c)
			return slices_no_fit(err);
		c->temporary++;
	}
	add_leaked(s, t);
	return 0;
}

/** struct level - how much of the range lives, event by event, within one slice. */
struct level {
	const struct sums *t;
	uint64_t now, most, most_seq, most_ns; /* most_seq: number of the event that reached it */
};

static void level_each(void *ctx, const struct event *ev, uint64_t seq, uint64_t now)
{
	struct level *l = ctx;
	if (!counts(l->t, seq))
		return;
	if (ev->kind == EVENT_FREE) {
		l->now -= ev->bytes;
		return;
	}
	l->now += ev->bytes;
	if (l->now > l->most) {
		l->most = l->now;
		l->most_seq = now;
		l->most_ns = ev->time_ns;
	}
}

/** struct levels - how much of the range lives where each slice begins, and how much of what was made before it. */
struct levels {
	int64_t *range, *before;
};

static void levels_fini(struct levels *l)
{
	free(l->range);
	free(l->before);
}

/** struct edge - the blocks of a slice that is in the range in part, by when they are freed. */
struct edge {
	struct levels *levels;
	const struct sums *t;
	size_t made, freed;
};

/** level_step() - @bytes live where every slice behind @made begins, up to @freed. */
static void level_step(int64_t *step, size_t made, size_t freed, uint64_t bytes)
{
	step[made + 1] += (int64_t)bytes;
	step[freed + 1] -= (int64_t)bytes;
}

static void edge_each(void *ctx, const struct freed *rows, size_t count)
{
	const struct edge *e = ctx;
	for (size_t i = 0; i < count; i++)
		if (rows[i].seq < e->t->hi)
			level_step(rows[i].seq < e->t->lo ? e->levels->before : e->levels->range,
				   e->made, e->freed, rows[i].bytes);
}

/** levels_edges() - of slice @made, whose blocks are in the range in part, block by block. */
static int levels_edges(struct levels *l, const struct slices *s, const struct sums *t, size_t made,
			struct err *err)
{
	struct slices_rows reader = { 0 };
	int rc = 0;
	for (size_t n = made + 1; n < s->count && rc == 0; n++) {
		struct edge edge = { .levels = l, .t = t, .made = made, .freed = n };
		rc = slices_rows_read(&reader, s, n, s->slices[made].first,
				      s->slices[made + 1].first, edge_each, &edge, err);
	}
	slices_rows_fini(&reader);
	return rc;
}

static int levels_init(struct levels *l, const struct slices *s, const struct sums *t,
		       struct err *err)
{
	l->range = calloc(s->count + 2, sizeof(*l->range));
	l->before = calloc(s->count + 2, sizeof(*l->before));
	if (!l->range || !l->before)
		return err_set(err, -ENOMEM, "cannot find the peak");
	for (size_t made = 0; made < s->count && s->slices[made].first < t->hi; made++) {
		uint64_t first = s->slices[made].first, end = s->slices[made + 1].first;
		int in_part = (first < t->lo && t->lo < end) || (first < t->hi && t->hi < end);
		int rc = in_part ? levels_edges(l, s, t, made, err) : 0;
		if (rc < 0)
			return rc;
		for (size_t n = made + 1; n < s->count && !in_part; n++)
			level_step(first < t->lo ? l->before : l->range, made, n,
				   s->moved[slices_moved(made, n)]);
	}
	for (size_t i = 0; i < s->kept_count; i++)
		if (s->kept[i].seq < t->hi)
			level_step(s->kept[i].seq < t->lo ? l->before : l->range,
				   slice_of(s, s->kept[i].seq), s->count, s->kept[i].bytes);
	for (size_t n = 1; n <= s->count; n++) {
		l->range[n] += l->range[n - 1];
		l->before[n] += l->before[n - 1];
	}
	return 0;
}

/** bound() - more of the range than that never lives within slice @n. */
static uint64_t bound(const struct slices *s, const struct levels *l, size_t n)
{
	/* what was there and all that is new; or all that lives, but for what was there before the range and outlives the slice */
	uint64_t a = (uint64_t)l->range[n] + s->slices[n].most_new;
	uint64_t b = s->slices[n].most_live - (uint64_t)l->before[n + 1];
	return a < b ? a : b;
}

/** find_peak() - the first moment at which most of the range lived. *@until: the events up to and with it. */
static int find_peak(const struct slices *s, struct slices_replays *replays, const struct sums *t,
		     uint64_t *until, uint64_t *time_ns, struct err *err)
{
	size_t from = slice_of(s, t->lo), to = slice_of(s, t->hi - 1);
	uint64_t best = 0, best_seq = 0;
	struct levels level = { 0 };
	uint8_t *done = calloc(to - from + 1, 1);
	int rc = done ? levels_init(&level, s, t, err)
		      : err_set(err, -ENOMEM, "cannot find the peak");
	while (rc == 0) {
		size_t next = SIZE_MAX;
		uint64_t most = 0;
		for (size_t n = from; n <= to; n++) {
			uint64_t here = bound(s, &level, n);
			if (!done[n - from] && (next == SIZE_MAX || here > most)) {
				next = n;
				most = here;
			}
		}
		if (next == SIZE_MAX || most < best ||
		    (most == best && best && s->slices[next].first > best_seq))
			break;
		struct level l = { .t = t, .now = (uint64_t)level.range[next] };
		struct slices_walk w = {
			.until_ns = UINT64_MAX, .until_seq = t->hi, .each = level_each, .ctx = &l
		};
		done[next - from] = 1;
		rc = slices_walk(s, replays, next, &w, err);
		if (rc == 0 && l.most &&
		    (l.most > best || (l.most == best && l.most_seq < best_seq))) {
			best = l.most;
			best_seq = l.most_seq;
			*time_ns = l.most_ns;
		}
	}
	*until = best ? best_seq + 1 : t->lo;
	levels_fini(&level);
	free(done);
	return rc;
}

static int read_range(const struct slices *s, struct slices_replays *replays, struct sums *t,
		      struct err *err)
{
	uint64_t until = 0;
	if (t->lo >= t->hi)
		return 0;
	int rc = t->sums ? add_asked(s, replays, t, err) : add_made(s, replays, t, err);
	if (rc == 0 && !t->sums)
		rc = find_peak(s, replays, t, &until, &t->to->peak_time_ns, err);
	if (rc == 0 && !t->sums)
		rc = add_live(s, replays, until, t, err);
	if (rc == 0 && !t->sums)
		rc = to_accounts(s, t, 1, err);
	for (uint32_t i = 0; rc == 0 && i < s->stack_count; i++) {
		struct cost *c = account(t, i);
		if (c)
			c->frees = c->allocations - c->leaked;
	}
	return rc;
}

int slices_read(const struct slices *s, const struct query_source *source,
		const struct slices_ask *ask, struct slices_answer *answer, struct err *err)
{
	struct sums t = { .to = answer, .sums = ask->sums };
	struct slices_replays replays = { .source = source, .wholes = !ask->has_at && !ask->sums };
	uint64_t until = 0;
	int rc = ahead(s, &replays, ask, err);
	if (rc == 0)
		rc = seq_of(s, &replays, ask->from_ns, &t.lo, err);
	if (rc == 0)
		rc = seq_of(s, &replays, ask->to_ns, &t.hi, err);
	if (rc == 0 && ask->has_at)
		rc = seq_of(s, &replays, ask->at_ns == UINT64_MAX ? UINT64_MAX : ask->at_ns + 1,
			    &until, err);
	t.blocks = calloc((size_t)s->stack_count + 1, sizeof(*t.blocks));
	t.bytes = calloc((size_t)s->stack_count + 1, sizeof(*t.bytes));
	if (rc == 0 && !(t.blocks && t.bytes))
		rc = err_set(err, -ENOMEM, "cannot add up");
	if (rc == 0 && ask->has_at)
		rc = add_live(s, &replays, until, &t, err);
	if (rc == 0 && ask->has_at)
		rc = to_accounts(s, &t, 0, err);
	else if (rc == 0)
		rc = read_range(s, &replays, &t, err);
	free(t.blocks);
	free(t.bytes);
	slices_replays_fini(&replays, s);
	return rc;
}
