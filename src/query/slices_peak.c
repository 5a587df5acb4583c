/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices_peak.c - when most of a range lived: of each stretch of a slice (struct crest) is known
 * what it cannot exceed, and those that may hold the peak are replayed, the most promising one
 * first.
 */
#include <errno.h>
#include <stdlib.h>

#include "query/slices_impl.h"

/** struct level - how much of the range lives, event by event, within one slice. */
struct level {
	/* of the range, as numbers of events */
	uint64_t lo, hi;
	/* most_seq: number of the event that reached it */
	uint64_t now, most, most_seq, most_ns;
};

static void level_each(void *ctx, const struct event *ev, uint64_t seq, uint64_t now)
{
	struct level *l = ctx;
	if (seq < l->lo || seq >= l->hi)
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

/**
 * struct levels - how much of the range lives where each slice begins, and how much of what was
 * made before it.
 */
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
	/* of the range, as numbers of events */
	uint64_t lo, hi;
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
		if (rows[i].seq < e->hi)
			level_step(rows[i].seq < e->lo ? e->levels->before : e->levels->range,
				   e->made, e->freed, rows[i].bytes);
}

/** levels_edges() - of slice @made, whose blocks are in the range in part, block by block. */
static int levels_edges(struct levels *l, const struct slices *s, uint64_t lo, uint64_t hi,
			size_t made, struct err *err)
{
	struct slices_rows reader = { 0 };
	int rc = 0;
	for (size_t n = made + 1; n < s->count && rc == 0; n++) {
		struct edge edge = { .levels = l, .lo = lo, .hi = hi, .made = made, .freed = n };
		rc = slices_rows_read(&reader, s, n, s->slices[made].first,
				      s->slices[made + 1].first, edge_each, &edge, err);
	}
	slices_rows_fini(&reader);
	return rc;
}

static int levels_init(struct levels *l, const struct slices *s, uint64_t lo, uint64_t hi,
		       struct err *err)
{
	l->range = calloc(s->count + 2, sizeof(*l->range));
	l->before = calloc(s->count + 2, sizeof(*l->before));
	if (!l->range || !l->before)
		return err_set(err, -ENOMEM, "cannot find the peak");
	for (size_t made = 0; made < s->count && s->slices[made].first < hi; made++) {
		uint64_t first = s->slices[made].first, end = s->slices[made + 1].first;
		int in_part = (first < lo && lo < end) || (first < hi && hi < end);
		int rc = in_part ? levels_edges(l, s, lo, hi, made, err) : 0;
		if (rc < 0)
			return rc;
		for (size_t n = made + 1; n < s->count && !in_part; n++)
			level_step(first < lo ? l->before : l->range, made, n,
				   s->moved[slices_moved(made, n)]);
	}
	for (size_t i = 0; i < s->kept_count; i++)
		if (s->kept[i].seq < hi)
			level_step(s->kept[i].seq < lo ? l->before : l->range,
				   slices_of(s, s->kept[i].seq), s->count, s->kept[i].bytes);
	for (size_t n = 1; n <= s->count; n++) {
		l->range[n] += l->range[n - 1];
		l->before[n] += l->before[n - 1];
	}
	return 0;
}

/** struct search - for the peak of a range, among slices @from and the @count - 1 behind it. */
struct search {
	const struct slices *s;
	uint64_t lo, hi;
	size_t from, count;
	struct levels levels;
	/* by slice */
	struct promise {
		/* no event that was not looked at reaches more */
		uint64_t most;
		/* of the stretch that may */
		uint64_t begin, end;
		/* at all events before that one */
		uint64_t looked;
	} * promises;
	uint64_t best, best_seq, best_ns;
};

/** bound() - more of the range than that never lives within @crest of slice @n. */
static uint64_t bound(const struct search *f, size_t n, const struct crest *crest)
{
	/*
	 * what was there and all that is new; or all that lives, but for what was there before the
	 * range and outlives the slice
	 */
	uint64_t a = (uint64_t)f->levels.range[n] + crest->most_new;
	uint64_t kept = (uint64_t)f->levels.before[n + 1];
	uint64_t b = crest->most_live > kept ? crest->most_live - kept : 0;
	return a < b ? a : b;
}

/** promise() - what is left of slice @n. */
static void promise(struct search *f, size_t n)
{
	const struct slice *at = &f->s->slices[n];
	struct promise *p = &f->promises[n - f->from];
	p->most = 0;
	p->begin = p->end = UINT64_MAX;
	for (size_t k = at->crest_begin; k < at[1].crest_begin; k++) {
		uint64_t begin = at->first + (k - at->crest_begin) * CREST_EVENTS;
		uint64_t end =
			begin + CREST_EVENTS < at[1].first ? begin + CREST_EVENTS : at[1].first;
		uint64_t most = bound(f, n, &f->s->crests[k]);
		if (end <= p->looked || end <= f->lo || begin >= f->hi)
			continue;
		if (p->begin != UINT64_MAX && most <= p->most)
			continue;
		*p = (struct promise){ most, begin, end, p->looked };
	}
}

/**
 * look() - at slice @n up to where it promises most, or at all of it where it was looked at before.
 * 0 or negative errno.
 */
static int look(struct search *f, struct slices_replays *replays, size_t n, struct err *err)
{
	struct promise *p = &f->promises[n - f->from];
	struct level l = { .lo = f->lo, .hi = f->hi, .now = (uint64_t)f->levels.range[n] };
	uint64_t until = p->looked ? f->s->slices[n + 1].first : p->end;
	struct slices_walk w = { .until_ns = UINT64_MAX,
				 .until_seq = until < f->hi ? until : f->hi,
				 .each = level_each,
				 .ctx = &l };
	int rc = slices_walk(f->s, replays, n, &w, err);
	if (rc == 0 && l.most &&
	    (l.most > f->best || (l.most == f->best && l.most_seq < f->best_seq))) {
		f->best = l.most;
		f->best_seq = l.most_seq;
		f->best_ns = l.most_ns;
	}
	p->looked = until;
	promise(f, n);
	return rc;
}

static int search_init(struct search *f, struct err *err)
{
	f->from = slices_of(f->s, f->lo);
	f->count = slices_of(f->s, f->hi - 1) - f->from + 1;
	f->promises = calloc(f->count, sizeof(*f->promises));
	if (!f->promises)
		return err_set(err, -ENOMEM, "cannot find the peak");
	int rc = levels_init(&f->levels, f->s, f->lo, f->hi, err);
	for (size_t i = 0; i < f->count && rc == 0; i++)
		promise(f, f->from + i);
	return rc;
}

int slices_peak(const struct slices *s, struct slices_replays *replays, uint64_t lo, uint64_t hi,
		uint64_t *until, uint64_t *time_ns, struct err *err)
{
	struct search f = { .s = s, .lo = lo, .hi = hi };
	int rc = search_init(&f, err);
	while (rc == 0) {
		size_t next = 0;
		for (size_t i = 1; i < f.count; i++)
			if (f.promises[i].most > f.promises[next].most ||
			    f.promises[next].begin == UINT64_MAX)
				next = i;
		const struct promise *p = &f.promises[next];
		if (p->begin == UINT64_MAX || p->most < f.best ||
		    (p->most == f.best && f.best && p->begin > f.best_seq))
			break;
		rc = look(&f, replays, f.from + next, err);
	}
	if (f.best)
		*time_ns = f.best_ns;
	*until = f.best ? f.best_seq + 1 : lo;
	levels_fini(&f.levels);
	free(f.promises);
	return rc;
}
