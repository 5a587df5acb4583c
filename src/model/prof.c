/* SPDX-License-Identifier: Apache-2.0 */
/* prof.c - events: the loop that a replay spends its time in, and the rare ones beside it. */
#include "model/prof.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "model/prof_impl.h"

/*
 * A counter for stack row @row, which ends early for the reason @partial; its number goes to @slot.
 */
static void add_counter(struct prof *p, uint32_t row, uint32_t partial, uint32_t *slot)
{
	struct prof_counter *c = chunked_add(&p->counters);
	if (!c)
		return;
	c->row = row;
	uint8_t *stop = chunked_touch(&p->partials, p->counters.count - 1);
	if (!stop)
		return;
	*stop = (uint8_t)partial;
	*slot = p->counters.count - 1;
}

uint32_t prof_row_slot(struct prof *p, uint32_t row, struct err *err)
{
	uint32_t *known = p->sums ? &p->slot_of[row] : chunked_touch(&p->slot_of_row, row);
	if (known && !*known) {
		const struct prof_stack *s = p->sums ? NULL : chunked_at(&p->stacks, row);
		add_counter(p, row, s ? s->partial : p->sum_partial[row], known);
	}
	if (!known || !*known) {
		err_set(err, -ENOMEM, "cannot keep another stack's counters");
		return 0;
	}
	return *known;
}

uint32_t prof_slot(struct prof *p, struct stack_id producer, struct err *err)
{
	uint32_t row = prof_known_row(p, producer.v);
	if (row == UINT32_MAX) {
		err_set(err, -EBADMSG, "bad recording: an event uses undefined stack %u",
			producer.v);
		return 0;
	}
	uint32_t slot = prof_row_slot(p, row, err);
	p->slot_of[producer.v] = slot;
	return slot;
}

/* ---- timeline -------------------------------------------------------------------------------- */

static void halve_points(struct prof *p)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->point_count; i++) {
		const struct prof_point from = p->points[i];
		uint64_t bucket = from.time_ns / (p->bucket_ns * 2);
		if (n && p->points[n - 1].time_ns / (p->bucket_ns * 2) == bucket) {
			struct prof_point *to = &p->points[n - 1];
			uint64_t heap = to->heap_max_bytes, rss = to->rss_max_bytes;
			uint64_t part_max[PROF_PARTS];
			memcpy(part_max, to->part_max_bytes, sizeof(part_max));
			*to = from;
			if (heap > to->heap_max_bytes)
				to->heap_max_bytes = heap;
			if (rss > to->rss_max_bytes)
				to->rss_max_bytes = rss;
			for (unsigned k = 0; k < PROF_PARTS; k++)
				if (part_max[k] > to->part_max_bytes[k])
					to->part_max_bytes[k] = part_max[k];
			continue;
		}
		p->points[n++] = from;
	}
	p->point_count = n;
	p->bucket_ns *= 2;
}

static void bucket_close(struct prof *p)
{
	if (!p->bucket_used)
		return;
	while (p->point_count == PROF_POINTS_MAX)
		halve_points(p);
	struct prof_point *point = &p->points[p->point_count++];
	*point = (struct prof_point){
		.time_ns = p->last_time_ns,
		.rss_bytes = p->rss_bytes,
		.virtual_bytes = p->virtual_bytes,
		.heap_bytes = p->live_bytes,
		.rss_max_bytes = p->bucket_rss_max,
		.heap_max_bytes = p->bucket_max_bytes,
		.allocations = p->allocations,
		.frees = p->frees,
	};
	memcpy(point->part_bytes, p->part_bytes, sizeof(p->part_bytes));
	memcpy(point->part_max_bytes, p->bucket_part_max, sizeof(p->bucket_part_max));
	p->bucket_used = 0;
}

/** bucket_enter() - make the bucket of @time_ns the current one. */
static void bucket_enter(struct prof *p, uint64_t time_ns)
{
	bucket_close(p);
	p->bucket_end_ns = time_ns - time_ns % p->bucket_ns + p->bucket_ns;
	p->bucket_max_bytes = p->live_bytes;
	p->bucket_rss_max = p->rss_bytes;
	memcpy(p->bucket_part_max, p->part_bytes, sizeof(p->part_bytes));
}

const struct prof_point *prof_timeline(const struct prof *prof, size_t *count)
{
	/* The open bucket is shown as it stands; the one writer thread is the one that reads. */
	struct prof *p = (struct prof *)prof;
	if (p->bucket_used) {
		bucket_close(p);
		p->bucket_end_ns =
			0; /* the next event opens one, even in the same stretch of time */
	}
	*count = p->point_count;
	return p->points;
}

/* ---- block events ---------------------------------------------------------------------------- */

/**
 * counter_add() - @count allocations or frees (1, or what one with a stack stands for); @max_epoch
 * is the global maximum's number before this event. Written without branches: whether an event is a
 * free is as good as random, and a wrong guess costs more than all of this.
 */
static inline __attribute__((always_inline)) void
counter_add(struct prof_counter *c, uint64_t count, uint64_t is_free, uint64_t bytes,
	    uint64_t temporary, uint64_t max_epoch, const unsigned shift)
{
	uint64_t live = c->live_bytes, free_mask = -is_free, saved = c->saved_bytes;
	uint32_t blocks = prof_blocks_of(c->allocations - c->frees, shift);
	const int fresh = c->saved_epoch == max_epoch;
	c->saved_bytes = __builtin_expect_with_probability(fresh, 1, 0.5) ? saved : live;
	c->saved_blocks =
		__builtin_expect_with_probability(fresh, 1, 0.5) ? c->saved_blocks : blocks;
	c->saved_epoch = max_epoch;
	c->allocations += count * (is_free ^ 1);
	c->frees += count * is_free;
	c->allocated_bytes += bytes & ~free_mask;
	c->live_bytes = live + ((bytes ^ free_mask) - free_mask);
	c->temporary += count * temporary;
}

/**
 * shares_of() - what an allocation of @bytes that has a stack stands for, in parts of
 * 2^PROF_SHARE_BITS.
 */
static uint64_t shares_of(struct prof *p, uint64_t bytes)
{
	uint64_t *known = bytes < PROF_SHARES ? &p->shares[bytes] : NULL;
	if (known && *known)
		return *known;
	double chance = -expm1(-(double)(bytes ? bytes : 1) / (double)p->process.sample_bytes);
	uint64_t shares = (uint64_t)((1 << PROF_SHARE_BITS) / chance + 0.5);
	if (known)
		*known = shares;
	return shares;
}

static uint64_t shares_times(uint64_t shares, uint64_t bytes)
{
	const unsigned half = 1u << (PROF_SHARE_BITS - 1);
	return (uint64_t)(((unsigned __int128)shares * bytes + half) >> PROF_SHARE_BITS);
}

/**
 * note_risk() - of one counter; @born is the epoch of the block's allocation, NULL where nobody
 * knows.
 */
static void note_risk(const struct prof *p, struct prof_risk *risk, const struct prof_counter *c,
		      const struct event *ev, const uint32_t *born, uint64_t count, uint64_t bytes)
{
	if (risk->epoch != p->loss_epoch) {
		risk->epoch = p->loss_epoch;
		risk->blocks = c->allocations - c->frees;
		risk->bytes = c->live_bytes;
	}
	if (ev->kind == EVENT_ALLOC)
		return;
	risk->implied += ev->flags & EVENT_F_IMPLIED ? count : 0;
	if (born && *born != p->loss_epoch && risk->blocks) {
		risk->blocks -= count;
		risk->bytes -= bytes;
	}
}

/**
 * put_risk() - after a loss: keep count of the blocks that lived through it. Before counter_add(),
 * which is told the same of the stack, and of @row_count and @row_bytes of its thread.
 */
static int put_risk(struct prof *p, const struct event *ev, uint32_t slot, struct thread_row *owner,
		    uint64_t count, uint64_t bytes, uint64_t row_count, uint64_t row_bytes,
		    struct err *err)
{
	struct prof_risk *risk = chunked_touch(&p->risks, slot);
	uint32_t *born =
		ev->block.v == BLOCK_NONE ? NULL : chunked_touch(&p->block_epoch, ev->block.v);
	if (!risk || (!born && ev->block.v != BLOCK_NONE))
		return err_set(err, -ENOMEM, "cannot keep track of blocks after a loss");
	if (count)
		note_risk(p, risk, prof_counter_at(p, slot), ev, born, count, bytes);
	note_risk(p, &owner->risk, &owner->counter, ev, born, row_count, row_bytes);
	if (born && ev->kind == EVENT_ALLOC)
		*born = p->loss_epoch;
	return 0;
}

/*
 * Counters of so many stacks stay in a near cache: 256 KiB. Those of more are fetched while events
 * before are counted.
 */
#define COUNTERS_NEAR 4096u
#define COUNTER_AHEAD 8

/**
 * expect_counter() - that of the event COUNTER_AHEAD places behind @ev will soon be wanted, and of
 * the one as far behind it where it stands. @threads: who allocated the block, too.
 */
static inline __attribute__((always_inline)) void
expect_counter(const struct prof *p, const struct event *ev, size_t left, const bool threads)
{
	const struct event *ahead = ev + COUNTER_AHEAD;
	uint32_t stack = ahead->stack.v, block = ahead->block.v;
	uint32_t slot = stack < p->slot_count ? p->slot_of[stack] : 0;
	__builtin_prefetch(prof_counter_at(p, slot), 1);
	if (threads && chunked_has(&p->owner, block))
		__builtin_prefetch(chunked_at(&p->owner, block), 1);
	if (left > 2 * COUNTER_AHEAD && ahead[COUNTER_AHEAD].stack.v < p->slot_count)
		__builtin_prefetch(&p->slot_of[ahead[COUNTER_AHEAD].stack.v]);
}

/**
 * put_blocks() - take allocations and frees until another kind comes, or an event beyond the
 * current bucket. Return: how many were taken, negative errno. @threads, @risky, @sampled are
 * constants: the plain case pays for none.
 */
static inline __attribute__((always_inline)) ssize_t
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
put_blocks(struct prof *p, const struct event *events, size_t count, const bool threads,
	   const bool risky, const bool sampled, const bool careful, struct err *err)
{
	uint64_t live = p->live_bytes, max = p->max_bytes, epoch = p->epoch;
	uint64_t max_time = p->max_time_ns, max_event = p->max_event;
	uint64_t bucket_max = p->bucket_max_bytes, bucket_end = p->bucket_end_ns;
	uint64_t all_frees = 0, before = p->allocations + p->frees - p->culled;
	ssize_t rc = 0;
	size_t i;
	const int spread = p->counters.count > COUNTERS_NEAR;
	for (i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		if (spread && count - i > COUNTER_AHEAD)
			expect_counter(p, ev, count - i, threads);
		if ((uint8_t)(ev->kind - EVENT_ALLOC) > 1 || ev->time_ns >= bucket_end)
			break;
		uint64_t is_free = ev->kind - (uint64_t)EVENT_ALLOC;
		uint64_t bytes = ev->bytes;
		uint64_t temporary = is_free & ((uint64_t)ev->flags >> 1); /* EVENT_F_TEMPORARY */
		uint32_t slot = ev->stack.v < p->slot_count ? p->slot_of[ev->stack.v] : 0;
		if (__builtin_expect(slot == 0, 0)) {
			slot = prof_slot(p, ev->stack, err);
			if (slot == 0) {
				rc = err ? err->code : -EBADMSG;
				break;
			}
		}
		uint64_t shares = 1, amount = bytes, row_shares = 1;
		if (sampled) {
			/* without a stack it counts in the thread's row and the totals */
			int has = prof_counter_partial(p, slot) != STACK_STOP_UNSAMPLED;
			shares = has ? shares_of(p, bytes) : 0;
			amount = shares_times(shares, bytes);
			if (p->estimates) {
				row_shares = shares;
				bytes = amount;
			}
		}
		uint64_t most = sampled && amount > bytes ? amount : bytes;
		if (careful && __builtin_add_overflow(p->allocated_bytes, most & ~-is_free,
						      &p->allocated_bytes)) {
			p->allocated_bytes -= most;
			break;
		}
		if (sampled && !is_free &&
		    __builtin_add_overflow(p->share_sum, shares, &p->share_sum)) {
			rc = err_set(err, -EBADMSG, "bad recording: allocations beyond number");
			break;
		}
		if (threads) {
			struct thread_row *doer = thread_row_peek(p, ev->thread.v), *row = doer;
			if (!doer) {
				rc = err_set(err, -EBADMSG,
					     "bad recording: an event uses undefined thread %u",
					     ev->thread.v);
				break;
			}
			doer->block_events++;
			if (ev->block.v != BLOCK_NONE) {
				uint32_t *owner = chunked_has(&p->owner, ev->block.v)
							  ? chunked_at(&p->owner, ev->block.v)
							  : chunked_touch(&p->owner, ev->block.v);
				if (!owner) {
					rc = err_set(err, -ENOMEM,
						     "cannot keep the owners of blocks");
					break;
				}
				if (is_free)
					row = chunked_at(&p->threads, *owner);
				else
					*owner = ev->thread.v;
			}
			/* a loss begins the counting by thread */
			if (risky && (rc = put_risk(p, ev, slot, row, shares, amount, row_shares,
						    bytes, err)) < 0)
				break;
			counter_add(&row->counter, row_shares, is_free, bytes, temporary, epoch,
				    sampled && p->estimates ? PROF_SHARE_BITS : 0);
		}
		counter_add(prof_counter_at(p, slot), shares, is_free, amount, temporary, epoch,
			    sampled ? PROF_SHARE_BITS : 0);
		all_frees += is_free;
		live += (bytes ^ -is_free) + is_free;
		bucket_max = live > bucket_max ? live : bucket_max;
		if (live > max) {
			max = live;
			epoch++;
			max_time = ev->time_ns;
			max_event = before + i + 1;
		}
	}
	if (i) {
		p->last_time_ns = events[i - 1].time_ns;
		p->bucket_used = 1;
	}
	p->live_bytes = live;
	p->max_bytes = max;
	p->epoch = epoch;
	p->max_time_ns = max_time;
	p->max_event = max_event;
	p->bucket_max_bytes = bucket_max;
	p->allocations += i - all_frees;
	p->frees += all_frees;
	return rc < 0 ? rc : (ssize_t)i;
}

static __attribute__((noinline)) ssize_t put_plain(struct prof *p, const struct event *events,
						   size_t count, struct err *err)
{
	return put_blocks(p, events, count, false, false, false, false, err);
}

static __attribute__((noinline)) ssize_t put_threads(struct prof *p, const struct event *events,
						     size_t count, struct err *err)
{
	return put_blocks(p, events, count, true, false, false, false, err);
}

static __attribute__((noinline)) ssize_t put_risky(struct prof *p, const struct event *events,
						   size_t count, struct err *err)
{
	return put_blocks(p, events, count, true, true, false, false, err);
}

static __attribute__((noinline)) ssize_t put_sampled(struct prof *p, const struct event *events,
						     size_t count, struct err *err)
{
	return put_blocks(p, events, count, true, p->loss_epoch != 0, true, false, err);
}

static __attribute__((noinline)) ssize_t put_careful(struct prof *p, const struct event *events,
						     size_t count, struct err *err)
{
	return put_blocks(p, events, count, p->several_threads, p->loss_epoch != 0, prof_sampled(p),
			  true, err);
}

static ssize_t put_some(struct prof *p, const struct event *events, size_t count, struct err *err)
{
	if (__builtin_expect(p->careful, 0))
		return put_careful(p, events, count, err);
	if (prof_sampled(p))
		return put_sampled(p, events, count, err);
	if (p->loss_epoch)
		return put_risky(p, events, count, err);
	return p->several_threads ? put_threads(p, events, count, err)
				  : put_plain(p, events, count, err);
}

/**
 * may_exceed() - could sums exceed 64 bits with these events? As long as a generous guess of all
 * that ever came does not, no sum does; looked at here, because in the loop that adds it costs
 * several times as much.
 */
static int may_exceed(struct prof *p, const struct event *events, size_t count)
{
	uint64_t seen = 0, most;
#pragma GCC unroll 8
	for (size_t i = 0; i < count; i++)
		seen |= events[i].bytes;
	/* a sampled one stands for at most so much more */
	if (prof_sampled(p))
		seen |= 2 * SAMPLE_BYTES_MAX;
	return seen >> 62 || __builtin_mul_overflow(2 * seen, count, &most) ||
	       __builtin_add_overflow(p->guess_bytes, most, &p->guess_bytes);
}

/**
 * be_careful() - sums come close to 64 bits: from now on the one that no other exceeds is watched.
 */
static void be_careful(struct prof *p)
{
	p->careful = 1;
	for (uint32_t slot = 1; slot < p->counters.count; slot++)
		sum_add(&p->allocated_bytes, prof_counter_at(p, slot)->allocated_bytes);
	/* where stacks are sampled those of threads may be more */
	uint64_t of_threads = 0;
	for (uint32_t i = 0; i < p->threads.count; i++) {
		const struct thread_row *row = chunked_at(&p->threads, i);
		sum_add(&of_threads, row->counter.allocated_bytes);
	}
	if (of_threads > p->allocated_bytes)
		p->allocated_bytes = of_threads;
}

/**
 * put_beyond() - an allocation with which the sum of all exceeds 64 bits: its bytes count as far as
 * they fit. What lives has always fitted into an address space.
 */
static int put_beyond(struct prof *p, const struct event *ev, struct err *err)
{
	uint64_t fits = UINT64_MAX - p->allocated_bytes;
	uint32_t slot = prof_slot(p, ev->stack, err);
	struct thread_row *row = p->several_threads ? thread_row_peek(p, ev->thread.v) : NULL;
	if (!slot)
		return err ? err->code : -EBADMSG;
	if (ev->bytes > UINT64_MAX - p->live_bytes)
		return err_set(err, -EBADMSG, "bad recording: more bytes live than have addresses");
	struct prof_counter *c = prof_counter_at(p, slot);
	uint64_t of_stack = c->allocated_bytes, of_row = row ? row->counter.allocated_bytes : 0;
	p->allocated_bytes = 0;
	ssize_t taken = put_some(p, ev, 1, err);
	if (taken < 0)
		return (int)taken;
	p->allocated_bytes = UINT64_MAX;
	c->allocated_bytes = of_stack + fits;
	if (row)
		row->counter.allocated_bytes = of_row + fits;
	return 0;
}

/**
 * enter_threads() - start to count by thread: when the second one appears, after a loss, or where
 * stacks are sampled. What happened so far was all the first one's.
 */
static int enter_threads(struct prof *p, struct err *err)
{
	if (p->several_threads || (p->threads.count < 2 && !p->loss_epoch && !prof_sampled(p)))
		return 0;
	p->several_threads = 1;
	if (p->threads.count == 0) {
		struct thread_row *none = chunked_add(&p->threads);
		if (!none)
			return err_set(err, -ENOMEM, "cannot keep a thread's counters");
		none->defined = 1;
	}
	struct thread_row *first = chunked_at(&p->threads, 0);
	struct prof_counter *to = &first->counter;
	uint64_t blocks = 0;
	for (uint32_t slot = 1; slot < p->counters.count; slot++) {
		const struct prof_counter *c = prof_counter_at(p, slot);
		to->allocations += c->allocations;
		to->allocated_bytes += c->allocated_bytes;
		to->frees += c->frees;
		to->temporary += c->temporary;
		blocks += prof_counter_peak_blocks(p, c, prof_sampled(p) ? PROF_SHARE_BITS : 0);
	}
	to->live_bytes = p->live_bytes;
	to->saved_blocks = (uint32_t)blocks;
	to->saved_bytes = p->max_bytes;
	to->saved_epoch = p->epoch;
	first->block_events = p->allocations + p->frees;
	return 0;
}

/* ---- the rare events ------------------------------------------------------------------------- */

/** may_lose_frees() - reasons whose number of lost frees is not known. */
static int may_lose_frees(uint64_t reason)
{
	/* not a recorder's death: what is missing then comes behind all that is there */
	return reason == LOSS_RING_DAMAGED || reason == LOSS_DISORDER ||
	       reason == LOSS_FILE_DAMAGED || reason == LOSS_WRITE_FAILED;
}

static int put_lost(struct prof *p, const struct event *ev, struct err *err)
{
	if (ev->value >= LOSS_REASON_MAX)
		return err_set(err, -EBADMSG, "bad recording: unknown loss reason %llu",
			       (unsigned long long)ev->value);
	uint64_t events = ev->addr;
	sum_add(&events, ev->block.v);
	if (ev->value == LOSS_RING_FULL && !events && !ev->bytes) {
		p->loss_epoch++;
		return enter_threads(p, err);
	}
	sum_add(&p->other.lost[ev->value], events);
	p->other.loss_reports[ev->value]++;
	sum_add(&p->other.lost_events, events);
	sum_add(&p->other.lost_bytes, ev->bytes);
	/* what was freed before the start can be no block that is known */
	if ((ev->block.v && ev->value != LOSS_EARLY) || may_lose_frees(ev->value))
		p->loss_epoch++;
	return enter_threads(p, err);
}

/* Blocks that were allocated and freed, and are known by their sums only. */
static int put_culled(struct prof *p, const struct event *ev, struct err *err)
{
	uint32_t slot = ev->stack.v < p->slot_count ? p->slot_of[ev->stack.v] : 0;
	if (!slot)
		slot = prof_slot(p, ev->stack, err);
	struct thread_row *row = thread_row_peek(p, ev->thread.v);
	if (!slot || !row)
		return err && err->code
			       ? err->code
			       : err_set(err, -EBADMSG,
					 "bad recording: an event uses undefined thread %u",
					 ev->thread.v);
	struct prof_counter *counters[2] = { prof_counter_at(p, slot), &row->counter };
	/* sizes of their own are not known: that of the average speaks for all */
	uint64_t shares[2] = { 1, 1 }, bytes[2] = { ev->bytes, ev->bytes };
	if (prof_sampled(p)) {
		shares[0] = prof_counter_partial(p, slot) != STACK_STOP_UNSAMPLED && ev->addr
				    ? shares_of(p, ev->bytes / ev->addr)
				    : 0;
		bytes[0] = shares_times(shares[0], ev->bytes);
		if (p->estimates) {
			shares[1] = shares[0];
			bytes[1] = bytes[0];
		}
	}
	uint64_t sum, most = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
	/* both frees and allocations, and twice as many of the one thread's events */
	if (ev->block.v > ev->addr || ev->addr > UINT64_MAX / 4 - p->allocations ||
	    __builtin_mul_overflow(ev->addr, shares[0], &sum) ||
	    __builtin_add_overflow(p->share_sum, sum, &p->share_sum))
		return err_set(err, -EBADMSG, "bad recording: allocations beyond number");
	if (!p->careful && __builtin_add_overflow(p->guess_bytes, most, &p->guess_bytes))
		be_careful(p);
	if (p->careful && most > UINT64_MAX - p->allocated_bytes)
		bytes[0] = bytes[1] = most = UINT64_MAX - p->allocated_bytes;
	p->allocated_bytes += p->careful ? most : 0;
	for (int i = 0; i < 1 + (p->several_threads != 0); i++) {
		counters[i]->allocations += ev->addr * shares[i];
		counters[i]->frees += ev->addr * shares[i];
		counters[i]->allocated_bytes += bytes[i];
		counters[i]->temporary += ev->block.v * shares[i];
	}
	if (p->several_threads)
		row->block_events += 2 * ev->addr;
	p->allocations += ev->addr;
	p->frees += ev->addr;
	p->culled += 2 * ev->addr;
	p->other.culled_allocations += ev->addr;
	p->other.culled_bytes += ev->bytes;
	return 0;
}

static int put_mapped(struct prof *p, const struct event *ev)
{
	uint32_t row = prof_known_row(p, ev->stack.v);
	if (!p->mapped && !(p->mapped = mapped_new()))
		return -ENOMEM;
	mapped_note_heap(p->mapped, p->epoch);
	return mapped_put(p->mapped, ev, row == UINT32_MAX ? 0 : row);
}

static void put_resident(struct prof *p, const struct event *ev)
{
	uint64_t file = ev->addr < p->rss_bytes ? ev->addr : p->rss_bytes;
	uint64_t shmem = ev->bytes < p->rss_bytes - file ? ev->bytes : p->rss_bytes - file;
	const uint64_t part[PROF_PARTS] = { [PROF_ANON] = p->rss_bytes - file - shmem,
					    [PROF_FILE] = file,
					    [PROF_SHMEM] = shmem,
					    [PROF_SWAP] = ev->value };
	for (unsigned k = 0; k < PROF_PARTS; k++) {
		p->part_bytes[k] = part[k];
		if (part[k] > p->bucket_part_max[k])
			p->bucket_part_max[k] = part[k];
	}
}

static int put_other(struct prof *p, const struct event *ev, struct err *err)
{
	p->last_time_ns = ev->time_ns;
	p->bucket_used = 1;
	switch (ev->kind) {
	case EVENT_FREE_FOREIGN:
		p->other.foreign_frees++;
		break;
	case EVENT_RSS:
		p->rss_bytes = ev->bytes;
		p->virtual_bytes = ev->addr;
		if (p->rss_bytes > p->bucket_rss_max)
			p->bucket_rss_max = p->rss_bytes;
		if (ev->bytes > p->other.peak_rss_bytes)
			p->other.peak_rss_bytes = ev->bytes;
		if (ev->value > p->other.peak_rss_bytes)
			p->other.peak_rss_bytes = ev->value;
		return 0;
	case EVENT_MARK:
		marks_put(&p->marks, ev->time_ns, ev->value);
		return 0;
	case EVENT_RESIDENT:
		put_resident(p, ev);
		return 0;
	case EVENT_LOST:
		return put_lost(p, ev, err);
	case EVENT_CULLED:
		return put_culled(p, ev, err);
	case EVENT_FILTERED:
		sum_add(&p->other.filtered_allocations, ev->addr);
		sum_add(&p->other.filtered_bytes, ev->bytes);
		sum_add(&p->other.filtered_frees, ev->value);
		if (ev->flags & EVENT_F_INHERITED) {
			sum_add(&p->other.filtered_inherited_allocations, ev->addr);
			sum_add(&p->other.filtered_inherited_bytes, ev->bytes);
		}
		return 0;
	case EVENT_FORKED:
		p->other.forked_from = (uint32_t)ev->value;
		p->other.inherited_known = ev->block.v == 1;
		p->other.inherited_allocations = ev->addr;
		p->other.inherited_bytes = ev->bytes;
		return 0;
	case EVENT_MAP:
	case EVENT_UNMAP:
	case EVENT_BRK:
		if (put_mapped(p, ev) < 0)
			return err_set(err, -ENOMEM, "cannot hold what was mapped");
		break;
	default: /* switches, thread ends; kinds of later versions */
		return 0;
	}
	struct thread_row *row = thread_row_peek(p, ev->thread.v);
	if (row)
		row->other_events++;
	return 0;
}

int prof_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct prof *p = (struct prof *)sink;
	if (p->loaded)
		return err_set(err, -EINVAL, "events after a summary in one reading");
	if (enter_threads(p, err) < 0)
		return -ENOMEM;
	if (!p->careful && may_exceed(p, events, count))
		be_careful(p);
	for (size_t i = 0; i < count;) {
		if (events[i].time_ns > EVENT_TIME_MAX_NS)
			return err_set(err, -EBADMSG, "bad recording: an event at %llu ns",
				       (unsigned long long)events[i].time_ns);
		if (events[i].time_ns >= p->bucket_end_ns)
			bucket_enter(p, events[i].time_ns);
		ssize_t taken = put_some(p, events + i, count - i, err);
		if (taken < 0)
			return (int)taken;
		i += (size_t)taken;
		if (i == count || events[i].time_ns >= p->bucket_end_ns)
			continue;
		int is_block = events[i].kind <= EVENT_FREE;
		int rc = is_block ? put_beyond(p, &events[i], err) : put_other(p, &events[i], err);
		i++;
		if (rc < 0)
			return rc;
	}
	if (p->last_time_ns > p->other.runtime_ns)
		p->other.runtime_ns = p->last_time_ns;
	return 0;
}
