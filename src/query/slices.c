/* SPDX-License-Identifier: Apache-2.0 */
/* slices.c - moments and ranges out of an index, and of one slice's events or a few's. */
#include "query/slices.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/search.h"
#include "base/spare.h"
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
	free(s->crests);
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
	       s->brief_cap * sizeof(*s->brief) + s->crest_cap * sizeof(*s->crests) +
	       s->made_cap * sizeof(*s->made) + s->moved_cap * sizeof(*s->moved);
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

/* ---- places ---------------------------------------------------------------------------------- */

size_t slices_of(const struct slices *s, uint64_t seq)
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
static void want(const struct slices *s, uint64_t time_ns, struct slices_want *wants, size_t *count)
{
	size_t number = slice_at(s, time_ns), i = 0;
	if (time_ns == 0 || time_ns == UINT64_MAX)
		return;
	while (i < *count && wants[i].number != number)
		i++;
	if (i == *count)
		wants[(*count)++] = (struct slices_want){ .number = number };
	if (time_ns > wants[i].until_ns)
		wants[i].until_ns = time_ns;
}

/** ahead() - the slices in which the question's times lie. */
static int ahead(const struct slices *s, struct slices_replays *replays,
		 const struct slices_ask *ask, struct err *err)
{
	struct slices_want wants[SLICES_WANTS];
	size_t count = 0;
	want(s, ask->from_ns, wants, &count);
	want(s, ask->to_ns, wants, &count);
	if (ask->has_at && ask->at_ns != UINT64_MAX)
		want(s, ask->at_ns + 1, wants, &count);
	return slices_ahead(s, replays, wants, count, err);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/** struct sums - of blocks whose allocation is one of [lo, hi). */
struct sums {
	struct slices_answer *to;
	uint64_t lo, hi;
	/* struct slices_ask */
	int sums;
	/* by stack number: live, or at the peak */
	int64_t *blocks, *bytes;
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
	size_t number = until >= s->slices[s->count].first ? s->count : slices_of(s, until);
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

/* ---- ranges ---------------------------------------------------------------------------------- */

static struct cost *account(const struct sums *t, uint32_t stack)
{
	return stack < t->to->stack_count && t->to->account_of[stack]
		       ? &t->to->costs[t->to->account_of[stack] - 1]
		       : NULL;
}

/**
 * struct asking - the allocations of @t are added, or taken off, and those of them that were
 * temporary.
 */
struct asking {
	const struct sums *t;
	int takes, fails;
};

static void add_temporary(struct asking *asking, uint32_t stack)
{
	struct cost *c = account(asking->t, stack);
	if (!c || (asking->takes && !c->temporary))
		asking->fails = 1;
	else
		c->temporary += asking->takes ? UINT64_MAX : 1;
}

static void asked_each(void *ctx, const struct event *ev, uint64_t seq, uint64_t now)
{
	struct asking *asking = ctx;
	(void)now;
	if (!counts(asking->t, seq))
		return;
	if (ev->kind == EVENT_FREE) {
		if (ev->flags & EVENT_F_TEMPORARY && !asking->t->sums)
			add_temporary(asking, ev->stack.v);
		return;
	}
	struct cost *c = account(asking->t, ev->stack.v);
	if (!c || (asking->takes && (!c->allocations || c->allocated_bytes < ev->bytes))) {
		asking->fails = 1;
		return;
	}
	c->allocations += asking->takes ? UINT64_MAX : 1;
	c->allocated_bytes += asking->takes ? 0 - ev->bytes : ev->bytes;
}

/**
 * walk_asked() - the allocations of @t in slice @number, which is where they were made. What is
 * temporary is freed soon: a stretch behind them is walked, and what is freed later is known by
 * itself. 0 or negative errno.
 */
static int walk_asked(const struct slices *s, struct slices_replays *replays, size_t number,
		      const struct sums *t, int takes, struct err *err)
{
	struct asking asking = { .t = t, .takes = takes };
	uint64_t end = s->slices[number + 1].first, until = t->sums ? t->hi : t->hi + BRIEF_EVENTS;
	struct slices_walk w = { .until_ns = UINT64_MAX,
				 .until_seq = until < end ? until : end,
				 .each = asked_each,
				 .ctx = &asking };
	int rc = slices_walk(s, replays, number, &w, err);
	for (size_t i = 0; i < s->brief_count && rc == 0 && !t->sums; i++) {
		const struct brief *brief = &s->brief[i];
		if (brief->slice == number && brief->freed != UINT64_MAX &&
		    brief->freed >= w.until_seq && counts(t, brief->seq))
			add_temporary(&asking, brief->stack);
	}
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
 * add_made() - allocations of the range, which were never freed, and but for t->sums which were
 * temporary: of the slices at its ends only what stands before the times is replayed, since all of
 * a slice is known.
 */
static int add_made(const struct slices *s, struct slices_replays *replays, struct sums *t,
		    struct err *err)
{
	size_t from = slices_of(s, t->lo), to = slices_of(s, t->hi - 1);
	int rc = 0;
	for (size_t i = from; i <= to && rc == 0; i++) {
		struct sums part = {
			.to = t->to, .sums = t->sums, .lo = s->slices[i].first, .hi = t->lo
		};
		int is_whole = t->hi >= s->slices[i + 1].first;
		if (is_whole) {
			rc = add_slice(s, i, t, err);
		} else {
			part.lo = t->lo > part.lo ? t->lo : part.lo;
			part.hi = t->hi;
		}
		if (rc == 0 && part.lo < part.hi)
			rc = walk_asked(s, replays, i, &part, is_whole, err);
	}
	for (size_t i = 0; i < s->brief_count && rc == 0 && !t->sums; i++) {
		const struct brief *brief = &s->brief[i];
		if (brief->freed != UINT64_MAX || !counts(t, brief->seq))
			continue;
		struct cost *c = account(t, brief->stack);
		if (!c)
			return slices_no_fit(err);
		c->temporary++;
	}
	if (rc == 0)
		add_leaked(s, t);
	return rc;
}

static int read_range(const struct slices *s, struct slices_replays *replays, struct sums *t,
		      struct err *err)
{
	uint64_t until = 0;
	if (t->lo >= t->hi)
		return 0;
	int rc = add_made(s, replays, t, err);
	if (rc == 0 && !t->sums)
		rc = slices_peak(s, replays, t->lo, t->hi, &until, &t->to->peak_time_ns, err);
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
	struct slices_replays replays = { .source = source,
					  .more = ask->has_at || ask->sums ? 0 : BRIEF_EVENTS };
	uint64_t until = 0;
	int rc = ahead(s, &replays, ask, err);
	if (rc == 0)
		rc = seq_of(s, &replays, ask->from_ns, &t.lo, err);
	if (rc == 0)
		rc = seq_of(s, &replays, ask->to_ns, &t.hi, err);
	if (rc == 0 && ask->has_at)
		rc = seq_of(s, &replays, ask->at_ns == UINT64_MAX ? UINT64_MAX : ask->at_ns + 1,
			    &until, err);
	t.blocks = spare_calloc((size_t)s->stack_count + 1, sizeof(*t.blocks));
	t.bytes = spare_calloc((size_t)s->stack_count + 1, sizeof(*t.bytes));
	if (rc == 0 && !(t.blocks && t.bytes))
		rc = err_set(err, -ENOMEM, "cannot add up");
	if (rc == 0 && ask->has_at)
		rc = add_live(s, &replays, until, &t, err);
	if (rc == 0 && ask->has_at)
		rc = to_accounts(s, &t, 0, err);
	else if (rc == 0)
		rc = read_range(s, &replays, &t, err);
	spare_free(t.blocks);
	spare_free(t.bytes);
	slices_replays_fini(&replays, s);
	return rc;
}
