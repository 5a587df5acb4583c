/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices_walk.c - the events of a slice, replayed. What a question needs of them is kept in 16
 * bytes each for the next one: who drags an edge of a range asks about the other one's slice again.
 * Two slices are replayed side by side.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/spare.h"
#include "query/slices_impl.h"

#define STOP (-EXFULL)         /* what a sink returns that has seen enough */
#define STEPS_MAX (4u << 20)   /* of a longer slice none are kept */
#define KEPT_BYTES (96u << 20) /* of a long recording, see slices_kept_most() */
#define STEP_BYTES_SHIFT 8     /* in struct step */
#define STEP_TEMPORARY 0x80u   /* in struct step: its free was one */
#define STEP_KIND 0x7fu
#define AHEAD 8 /* events: blocks lie anywhere, and by then the place of theirs is at hand */

/** struct step - an event of a slice that was replayed: what a block's question needs of it. */
struct step {
	/* bytes << STEP_BYTES_SHIFT | STEP_TEMPORARY | its kind */
	uint64_t what;
	uint32_t stack;
	/*
	 * of a free: so many events since the allocation; 0: before the slice, the next one in old
	 */
	uint32_t back;
};
/** struct tick - the events from number @seq on are of @time_ns. */
struct tick {
	uint64_t seq, time_ns;
};
/**
 * struct replayed - a slice's events, up to @until_ns (UINT64_MAX: all). Once it is made it only
 * changes who holds it.
 */
struct replayed {
	/* all that are kept, used last first */
	struct replayed *next;
	/* under the lock */
	unsigned refs;
	size_t number;
	uint64_t until_ns;
	struct step *steps;
	size_t count, cap;
	struct tick *ticks;
	size_t tick_count, tick_cap;
	/* numbers of the allocations of before that are freed in it, in order of their frees */
	uint64_t *old;
	size_t old_count, old_cap;
};
struct slices_kept {
	pthread_mutex_t lock;
	struct replayed *first;
	size_t bytes;
};

struct slices_kept *slices_kept_new(void)
{
	struct slices_kept *kept = calloc(1, sizeof(*kept));
	if (kept)
		pthread_mutex_init(&kept->lock, NULL);
	return kept;
}

size_t slices_kept_most(const struct slices *s)
{
	uint64_t all = (s->slices[s->count].first + 65536) * (sizeof(struct step) + 8);
	return all < KEPT_BYTES ? all : KEPT_BYTES;
}

static void replayed_free(struct replayed *r)
{
	if (!r)
		return;
	free(r->steps);
	free(r->ticks);
	free(r->old);
	free(r);
}

void slices_kept_free(struct slices_kept *kept)
{
	if (!kept)
		return;
	for (struct replayed *r = kept->first, *next; r; r = next) {
		next = r->next;
		replayed_free(r);
	}
	pthread_mutex_destroy(&kept->lock);
	free(kept);
}

static size_t bytes_of(const struct replayed *r)
{
	return sizeof(*r) + r->cap * sizeof(*r->steps) + r->tick_cap * sizeof(*r->ticks) +
	       r->old_cap * sizeof(*r->old);
}

void slices_kept_drop(struct slices_kept *kept, size_t number)
{
	pthread_mutex_lock(&kept->lock);
	for (struct replayed **at = &kept->first; *at;) {
		struct replayed *r = *at;
		if (r->number != number) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		kept->bytes -= bytes_of(r);
		replayed_free(r);
	}
	pthread_mutex_unlock(&kept->lock);
}

/* ---- a replay -------------------------------------------------------------------------------- */

static void *more(void *rows, size_t *cap, size_t count, size_t first, size_t size)
{
	if (count < *cap)
		return rows;
	size_t to = *cap ? *cap * 2 : first;
	void *grown = realloc(rows, to * size);
	if (grown)
		*cap = to;
	return grown;
}

/** keep_step() - event number @now about the block of allocation @seq. 0, -ENOMEM, -ERANGE. */
static int keep_step(struct replayed *r, const struct event *ev, uint64_t seq, uint64_t now,
		     uint64_t first)
{
	struct step *steps = more(r->steps, &r->cap, r->count, 65536, sizeof(*steps));
	if (!steps)
		return -ENOMEM;
	r->steps = steps;
	if (ev->bytes >> (64 - STEP_BYTES_SHIFT))
		return -ERANGE;
	struct step *step = &steps[r->count++];
	*step = (struct step){ .what = ev->bytes << STEP_BYTES_SHIFT | ev->kind |
				       (ev->flags & EVENT_F_TEMPORARY ? STEP_TEMPORARY : 0),
			       .stack = ev->stack.v };
	if (ev->kind == EVENT_FREE && seq >= first) {
		step->back = (uint32_t)(now - seq);
	} else if (ev->kind == EVENT_FREE) {
		uint64_t *old = more(r->old, &r->old_cap, r->old_count, 4096, sizeof(*old));
		if (!old)
			return -ENOMEM;
		r->old = old;
		old[r->old_count++] = seq;
	}
	if (r->tick_count && r->ticks[r->tick_count - 1].time_ns == ev->time_ns)
		return 0;
	struct tick *ticks = more(r->ticks, &r->tick_cap, r->tick_count, 1024, sizeof(*ticks));
	if (!ticks)
		return -ENOMEM;
	r->ticks = ticks;
	ticks[r->tick_count++] = (struct tick){ now, ev->time_ns };
	return 0;
}

/**
 * struct run - the sink of a slice: how many events came, and where each living block was
 * allocated.
 */
struct run {
	struct sink sink;
	const struct slices *s;
	struct slices_walk *w;
	uint64_t first;
	/* by slot: seq of the allocation of what lives in it */
	uint64_t *allocated;
	/* they are kept; or NULL */
	struct replayed *into;
};

static int run_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

int slices_no_fit(struct err *err)
{
	return err_set(err, -EBADMSG, "the recording is not the one that the index is of");
}

static int run_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct run *run = (struct run *)sink;
	struct slices_walk *w = run->w;
	const struct slices *s = run->s;
	for (size_t i = 0; i < count; i++, w->seq++) {
		const struct event *ev = &events[i];
		uint64_t seq = w->seq;
		if (i + AHEAD < count && events[i + AHEAD].block.v < s->slot_count)
			__builtin_prefetch(&run->allocated[events[i + AHEAD].block.v], 1);
		int about_block = ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE;
		if (ev->time_ns >= w->until_ns) {
			if (w->until_seq - seq > w->more)
				w->until_seq = seq + w->more;
			w->until_ns = UINT64_MAX;
		}
		if (seq >= w->until_seq)
			return err_set(err, STOP, "enough");
		if (ev->kind == EVENT_LOST || (about_block && (ev->block.v >= s->slot_count ||
							       ev->stack.v >= s->stack_count)))
			return slices_no_fit(err);
		if (ev->kind == EVENT_ALLOC)
			run->allocated[ev->block.v] = seq;
		else if (ev->kind == EVENT_FREE)
			seq = run->allocated[ev->block.v];
		int rc = run->into ? keep_step(run->into, ev, seq, w->seq, run->first) : 0;
		if (rc < 0)
			return err_set(err, rc, "cannot keep a slice");
		if (w->each && about_block)
			w->each(w->ctx, ev, seq, w->seq);
	}
	return 0;
}

/** struct seeding - blocks of before a slice that it frees. */
struct seeding {
	struct query_seed *seeds;
	size_t count, room;
	uint64_t *allocated;
};

static void seed_each(void *ctx, const struct freed *rows, size_t count)
{
	struct seeding *to = ctx;
	for (size_t i = 0; i < count && to->count < to->room; i++) {
		uint32_t slot = rows[i].slot & ~SLICE_TEMPORARY;
		to->seeds[to->count++] = (struct query_seed){ .bytes = rows[i].bytes,
							      .slot = slot,
							      .stack = rows[i].stack };
		to->allocated[slot] = rows[i].seq;
	}
}

/** replay() - slice @number from its beginning. 0 or negative errno; w->seq tells how far. */
static int replay(const struct slices *s, const struct query_source *source, size_t number,
		  struct slices_walk *w, struct replayed *into, struct err *err)
{
	const struct slice *at = &s->slices[number];
	size_t count = at[1].freed_begin - at->freed_begin;
	struct query_seed *seeds = spare_calloc(count + 1, sizeof(*seeds));
	struct run run = { .sink = { .define = run_define, .put = run_put },
			   .s = s,
			   .w = w,
			   .first = at->first,
			   .into = into };
	run.allocated = spare_calloc((size_t)s->slot_count + 1, sizeof(*run.allocated));
	int rc = seeds && run.allocated ? 0 : err_set(err, -ENOMEM, "cannot read a slice");
	struct seeding seeding = { .seeds = seeds, .room = count, .allocated = run.allocated };
	struct slices_rows reader = { 0 };
	if (rc == 0)
		rc = slices_rows_read(&reader, s, number, 0, UINT64_MAX, seed_each, &seeding, err);
	slices_rows_fini(&reader);
	w->seq = at->first;
	const struct query_key key = { at->at, at->first, at->time_ns };
	if (rc == 0)
		rc = source->run_from(source->ctx, &key, at[1].at, seeds, count, &run.sink, err);
	if (rc == STOP) {
		err_init(err);
		rc = 0;
	}
	spare_free(seeds);
	spare_free(run.allocated);
	return rc;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/** covers() - does @r have what @w asks for? */
static int covers(const struct slices *s, const struct replayed *r, size_t number,
		  const struct slices_walk *w)
{
	return r->number == number && (r->until_ns == UINT64_MAX || w->until_ns <= r->until_ns ||
				       w->until_seq <= s->slices[number].first + r->count);
}

/** look_up() - a reference, or NULL. */
static struct replayed *look_up(const struct slices *s, size_t number, const struct slices_walk *w)
{
	struct slices_kept *kept = s->kept_steps;
	struct replayed *r = NULL;
	pthread_mutex_lock(&kept->lock);
	for (struct replayed **at = &kept->first; *at; at = &(*at)->next) {
		if (!covers(s, *at, number, w))
			continue;
		r = *at;
		*at = r->next;
		r->next = kept->first;
		kept->first = r;
		r->refs++;
		break;
	}
	pthread_mutex_unlock(&kept->lock);
	return r;
}

/** take_last() - the one used longest ago that nobody holds, out of those kept. Under the lock. */
static struct replayed *take_last(struct slices_kept *kept)
{
	struct replayed **last = NULL;
	for (struct replayed **at = &kept->first; *at; at = &(*at)->next)
		if (!(*at)->refs)
			last = at;
	struct replayed *r = last ? *last : NULL;
	if (r) {
		*last = r->next;
		kept->bytes -= bytes_of(r);
	}
	return r;
}

/** fresh() - an empty one: where enough are kept, the memory of the one used longest ago. */
static struct replayed *fresh(const struct slices *s)
{
	struct slices_kept *kept = s->kept_steps;
	struct replayed *r = NULL;
	pthread_mutex_lock(&kept->lock);
	if (kept->bytes > slices_kept_most(s) / 2)
		r = take_last(kept);
	pthread_mutex_unlock(&kept->lock);
	if (!r)
		return calloc(1, sizeof(*r));
	r->count = r->tick_count = r->old_count = 0;
	return r;
}

/** put() - @r, with one reference, is kept. */
static void put(const struct slices *s, struct replayed *r)
{
	struct slices_kept *kept = s->kept_steps;
	pthread_mutex_lock(&kept->lock);
	r->refs = 1;
	r->next = kept->first;
	kept->first = r;
	kept->bytes += bytes_of(r);
	for (struct replayed *old; kept->bytes > slices_kept_most(s) && (old = take_last(kept));)
		replayed_free(old);
	pthread_mutex_unlock(&kept->lock);
}

/**
 * make() - the events of slice @number as far as @until goes, with a reference; NULL with rc 0: it
 * is too long for that.
 */
static struct replayed *make(const struct slices *s, const struct query_source *source,
			     size_t number, const struct slices_walk *until, int *rc,
			     struct err *err)
{
	const struct slice *at = &s->slices[number];
	*rc = 0;
	if (at[1].first - at->first > STEPS_MAX)
		return NULL;
	struct replayed *r = fresh(s);
	if (!r) {
		*rc = err_set(err, -ENOMEM, "cannot keep a slice");
		return NULL;
	}
	struct slices_walk all = { .until_ns = until->until_ns,
				   .until_seq = until->until_seq,
				   .more = until->more };
	r->number = number;
	*rc = replay(s, source, number, &all, r, err);
	/* where it ended before its time did, its number of events says what it covers */
	r->until_ns = at->first + r->count >= at[1].first ? UINT64_MAX
		      : until->until_seq == UINT64_MAX    ? until->until_ns
							  : 0;
	if (*rc == 0) {
		put(s, r);
		return r;
	}
	replayed_free(r);
	if (*rc == -ERANGE) { /* a size that no step holds: it is told without */
		err_init(err);
		*rc = 0;
	}
	return NULL;
}

/* ---- of one question ------------------------------------------------------------------------- */

static void hold(struct slices_replays *replays, const struct slices *s, struct replayed *r)
{
	struct replayed **at = &replays->held[replays->next++ % SLICES_HELD];
	pthread_mutex_lock(&s->kept_steps->lock);
	if (*at)
		(*at)->refs--;
	pthread_mutex_unlock(&s->kept_steps->lock);
	*at = r;
}

void slices_replays_fini(struct slices_replays *replays, const struct slices *s)
{
	pthread_mutex_lock(&s->kept_steps->lock);
	for (unsigned i = 0; i < SLICES_HELD; i++)
		if (replays->held[i])
			replays->held[i]->refs--;
	pthread_mutex_unlock(&s->kept_steps->lock);
	*replays = (struct slices_replays){ 0 };
}

/** replayed_of() - slice @number as far as @w goes; NULL with rc 0: it is too long for that. */
static const struct replayed *replayed_of(const struct slices *s, struct slices_replays *replays,
					  size_t number, const struct slices_walk *w, int *rc,
					  struct err *err)
{
	*rc = 0;
	for (unsigned i = 0; i < SLICES_HELD; i++)
		if (replays->held[i] && covers(s, replays->held[i], number, w))
			return replays->held[i];
	struct replayed *r = look_up(s, number, w);
	if (!r)
		r = make(s, replays->source, number, w, rc, err);
	if (r)
		hold(replays, s, r);
	return r;
}

/** struct beside - a slice that is replayed by a thread of its own. */
struct beside {
	const struct slices *s;
	const struct query_source *source;
	size_t number;
	struct slices_walk until;
	struct replayed *made;
	int rc;
	struct err err;
};

static void *make_beside(void *arg)
{
	struct beside *b = arg;
	b->made = make(b->s, b->source, b->number, &b->until, &b->rc, &b->err);
	return NULL;
}

int slices_ahead(const struct slices *s, struct slices_replays *replays,
		 const struct slices_want *wants, size_t count, struct err *err)
{
	struct beside beside[SLICES_WANTS];
	pthread_t threads[SLICES_WANTS];
	int runs[SLICES_WANTS] = { 0 }, rc = 0;
	size_t missing = 0;
	for (size_t i = 0; i < count; i++) {
		const struct slices_walk w = { .until_ns = wants[i].until_ns,
					       .until_seq = UINT64_MAX,
					       .more = replays->more };
		struct replayed *r = look_up(s, wants[i].number, &w);
		if (r)
			hold(replays, s, r);
		else
			beside[missing++] = (struct beside){ .s = s,
							     .source = replays->source,
							     .number = wants[i].number,
							     .until = w };
	}
	/* the first one here, and all of them where no thread can be had */
	for (size_t i = 1; i < missing; i++)
		runs[i] = pthread_create(&threads[i], NULL, make_beside, &beside[i]) == 0;
	for (size_t i = 0; i < missing; i++)
		if (!runs[i])
			make_beside(&beside[i]);
	for (size_t i = 0; i < missing; i++) {
		if (runs[i])
			pthread_join(threads[i], NULL);
		if (beside[i].made)
			hold(replays, s, beside[i].made);
		if (beside[i].rc < 0 && rc == 0) {
			rc = beside[i].rc;
			*err = beside[i].err;
		}
	}
	return rc;
}

int slices_walk(const struct slices *s, struct slices_replays *replays, size_t number,
		struct slices_walk *w, struct err *err)
{
	int rc;
	const struct replayed *r = replayed_of(s, replays, number, w, &rc, err);
	if (!r)
		return rc < 0 ? rc : replay(s, replays->source, number, w, NULL, err);
	const uint64_t first = s->slices[number].first;
	uint64_t end = first + r->count;
	struct event ev = { 0 };
	size_t tick = 0, old = 0;
	for (size_t i = 0; i < r->tick_count && w->until_ns != UINT64_MAX; i++) {
		if (r->ticks[i].time_ns < w->until_ns)
			continue;
		end = r->ticks[i].seq;
		break;
	}
	if (w->until_seq < end)
		end = w->until_seq < first ? first : w->until_seq;
	w->seq = end;
	if (!w->each)
		return 0;
	for (uint64_t now = first; now < end; now++) {
		const struct step *step = &r->steps[now - first];
		if (tick < r->tick_count && r->ticks[tick].seq == now)
			ev.time_ns = r->ticks[tick++].time_ns;
		ev.kind = step->what & STEP_KIND;
		if (ev.kind != EVENT_ALLOC && ev.kind != EVENT_FREE)
			continue;
		uint64_t seq = ev.kind == EVENT_ALLOC ? now
			       : step->back           ? now - step->back
						      : r->old[old++];
		ev.flags = step->what & STEP_TEMPORARY ? EVENT_F_TEMPORARY : 0;
		ev.bytes = step->what >> STEP_BYTES_SHIFT;
		ev.stack.v = step->stack;
		w->each(w->ctx, &ev, seq, now);
	}
	return 0;
}
