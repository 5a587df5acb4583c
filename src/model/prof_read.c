/* SPDX-License-Identifier: Apache-2.0 */
/* prof_read.c - accessors, and filling from a summary instead of events. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "model/prof_impl.h"

const struct prof_process *prof_process(const struct prof *prof)
{
	return prof->have_process ? &prof->process : NULL;
}

uint32_t prof_module_count(const struct prof *prof)
{
	return prof->modules.count;
}

uint32_t prof_rule_count(const struct prof *prof)
{
	return prof->rules.count;
}

const char *prof_rule(const struct prof *prof, uint32_t number)
{
	return *(const char **)chunked_at(&prof->rules, number);
}

uint32_t prof_frame_count(const struct prof *prof)
{
	return prof->frames.count;
}

uint32_t prof_stack_count(const struct prof *prof)
{
	return prof->sums ? prof->slot_count : prof->stacks.count;
}

uint32_t prof_thread_count(const struct prof *prof)
{
	return prof->threads.count;
}

const struct prof_module *prof_module(const struct prof *prof, struct module_id id)
{
	return chunked_at(&prof->modules, id.v);
}

const struct prof_frame *prof_frame(const struct prof *prof, struct frame_id id)
{
	return chunked_at(&prof->frames, id.v);
}

const struct prof_stack *prof_stack(const struct prof *prof, struct stack_id id)
{
	return chunked_at(&prof->stacks, id.v);
}

/** counter_cost() - @shift: of the counter's unit. */
static void counter_cost(const struct prof *prof, const struct prof_counter *c, unsigned shift,
			 struct cost *cost)
{
	*cost = (struct cost){
		.allocations = c->allocations,
		.allocated_bytes = c->allocated_bytes,
		.frees = c->frees,
		.temporary = c->temporary,
		.leaked = c->allocations - c->frees,
		.leaked_bytes = c->live_bytes,
		.peak_bytes = prof_counter_peak(prof, c),
		.peak_blocks = prof_counter_peak_blocks(prof, c, shift),
	};
}

/**
 * take_uncertain() - move the blocks that a lost free may have released from leaked to uncertain.
 */
static void take_uncertain(struct cost *cost, uint64_t blocks, uint64_t bytes)
{
	if (blocks > cost->leaked)
		blocks = cost->leaked;
	if (bytes > cost->leaked_bytes)
		bytes = cost->leaked_bytes;
	cost->uncertain = blocks;
	cost->uncertain_bytes = bytes;
	cost->leaked -= blocks;
	cost->leaked_bytes -= bytes;
}

/**
 * take_risk() - what losses left uncertain in a counter; without a risk all that lives was live at
 * the last loss.
 */
static void take_risk(const struct prof *prof, const struct prof_risk *risk, struct cost *cost)
{
	if (prof->loss_epoch == 0)
		return;
	if (risk)
		cost->frees -= risk->implied < cost->frees ? risk->implied : cost->frees;
	if (risk && risk->epoch == prof->loss_epoch)
		take_uncertain(cost, risk->blocks, risk->bytes);
	else if (!prof->loaded)
		take_uncertain(cost, cost->leaked, cost->leaked_bytes);
}

/**
 * round_shares() - from parts of allocations to whole ones; a stack that freed all of its own leaks
 * none.
 */
static void round_shares(const struct prof *prof, struct cost *cost)
{
	uint64_t *const counts[] = { &cost->allocations, &cost->frees, &cost->temporary,
				     &cost->leaked, &cost->uncertain };
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		*counts[i] = (*counts[i] + (1u << (PROF_SHARE_BITS - 1))) >> PROF_SHARE_BITS;
	if (!prof->loss_epoch)
		cost->leaked = cost->allocations - cost->frees;
	if (cost->leaked > cost->allocations - cost->uncertain)
		cost->leaked = cost->allocations - cost->uncertain;
}

static void slot_cost(const struct prof *prof, uint32_t slot, struct cost *cost)
{
	const unsigned shift = prof_sampled(prof) && !prof->loaded ? PROF_SHARE_BITS : 0;
	counter_cost(prof, prof_counter_at(prof, slot), shift, cost);
	take_risk(prof, chunked_has(&prof->risks, slot) ? chunked_at(&prof->risks, slot) : NULL,
		  cost);
	if (shift)
		round_shares(prof, cost);
	if (chunked_has(&prof->suppressed, slot) &&
	    *(const uint8_t *)chunked_at(&prof->suppressed, slot))
		cost->leaked = cost->leaked_bytes = 0;
}

static uint32_t slot_of_row(const struct prof *prof, uint32_t row)
{
	if (prof->sums)
		return row < prof->slot_count ? prof->slot_of[row] : 0;
	return chunked_has(&prof->slot_of_row, row)
		       ? *(const uint32_t *)chunked_at(&prof->slot_of_row, row)
		       : 0;
}

void prof_stack_cost(const struct prof *prof, struct stack_id id, struct cost *cost)
{
	uint32_t slot = slot_of_row(prof, id.v);
	if (slot)
		slot_cost(prof, slot, cost);
	else
		*cost = (struct cost){ 0 };
}

uint32_t prof_stack_used(const struct prof *prof, uint32_t from)
{
	uint32_t count = prof_stack_count(prof);
	while (from < count && !slot_of_row(prof, from))
		from++;
	return from < count ? from : count;
}

void cost_add(struct cost *to, const struct cost *from)
{
	sum_add(&to->allocations, from->allocations);
	sum_add(&to->allocated_bytes, from->allocated_bytes);
	sum_add(&to->frees, from->frees);
	sum_add(&to->temporary, from->temporary);
	sum_add(&to->leaked, from->leaked);
	sum_add(&to->leaked_bytes, from->leaked_bytes);
	sum_add(&to->peak_bytes, from->peak_bytes);
	sum_add(&to->uncertain, from->uncertain);
	sum_add(&to->uncertain_bytes, from->uncertain_bytes);
	sum_add(&to->peak_blocks, from->peak_blocks);
}

static uint32_t count_stacks(const struct prof *prof)
{
	uint32_t count = 0;
	for (uint32_t slot = 1; slot < prof->counters.count; slot++)
		count += prof_counter_at(prof, slot)->allocations != 0;
	return count;
}

/**
 * thread_events() - @sum: of all stacks. While there is only one thread all allocations and frees
 * are its own.
 */
static uint64_t thread_events(const struct prof *prof, uint32_t id, const struct cost *sum)
{
	const struct thread_row *row = chunked_at(&prof->threads, id);
	if (prof->several_threads)
		return row->block_events + row->other_events;
	return row->other_events + (id ? 0 : sum->allocations + sum->frees);
}

/** take_suppressed() - from a sum that was not made of stacks. */
static void take_suppressed(const struct prof *prof, struct cost *sum)
{
	uint64_t blocks = prof->suppressed_blocks, bytes = prof->suppressed_bytes;
	sum->leaked -= blocks < sum->leaked ? blocks : sum->leaked;
	sum->leaked_bytes -= bytes < sum->leaked_bytes ? bytes : sum->leaked_bytes;
}

void prof_totals(const struct prof *prof, struct prof_totals *totals)
{
	if (prof->totals) {
		*totals = *prof->totals;
		return;
	}
	*totals = prof->other;
	if (prof->loaded) {
		/* equal stacks that the recorder numbered twice have become one */
		totals->stacks = count_stacks(prof);
		take_suppressed(prof, &totals->cost);
		return;
	}
	totals->cost = (struct cost){ 0 };
	totals->stacks = totals->threads = 0;
	memset(totals->partial, 0, sizeof(totals->partial));
	for (uint32_t slot = 1; slot < prof->counters.count; slot++) {
		struct cost cost;
		uint32_t partial = prof_counter_partial(prof, slot);
		slot_cost(prof, slot, &cost);
		cost_add(&totals->cost, &cost);
		totals->stacks += cost.allocations != 0;
		if (partial)
			totals->partial[partial] += cost.allocations;
	}
	if (prof_sampled(prof) && !prof->estimates) {
		totals->cost = (struct cost){ 0 };
		for (uint32_t i = 0; i < prof->threads.count; i++)
			cost_add(&totals->cost, &prof_thread(prof, (struct thread_id){ i })->cost);
		take_suppressed(prof, &totals->cost);
	}
	totals->peak_time_ns = prof->max_time_ns;
	totals->peak_event = prof->max_event;
	for (uint32_t i = 0; i < prof->threads.count; i++)
		totals->threads += thread_events(prof, i, &totals->cost) != 0;
}

int prof_threads_share(const struct prof *prof)
{
	for (uint32_t i = prof->threads.count; i-- > 0;) {
		const struct prof_thread *t = prof_thread(prof, (struct thread_id){ i });
		if (t->tid == 0 && t->events && t->name && strcmp(t->name, THREADS_FURTHER) == 0)
			return 1;
	}
	return 0;
}

int prof_suppress(struct prof *prof, struct stack_id row, struct err *err)
{
	uint32_t slot = slot_of_row(prof, row.v);
	struct cost cost;
	if (!slot)
		return 0;
	slot_cost(prof, slot, &cost);
	uint8_t *suppressed = chunked_touch(&prof->suppressed, slot);
	if (!suppressed)
		return err_set(err, -ENOMEM, "cannot keep suppressions");
	*suppressed = 1;
	sum_add(&prof->suppressed_blocks, cost.leaked);
	sum_add(&prof->suppressed_bytes, cost.leaked_bytes);
	return 0;
}

int prof_knows_peak_blocks(const struct prof *prof)
{
	return !prof->peak_blocks_unknown;
}

int prof_peaks_lack_culled(const struct prof *prof)
{
	return prof->culled != 0 || prof->lacks_culled;
}

void prof_set_missed(struct prof *prof, uint64_t allocations, uint64_t bytes)
{
	prof->other.culled_allocations = allocations;
	prof->other.culled_bytes = bytes;
	prof->lacks_culled = 1;
}

int prof_lacks_culled(const struct prof *prof)
{
	return prof->lacks_culled;
}

void prof_set_estimates(struct prof *prof)
{
	prof->estimates = 1;
}

int prof_estimates(const struct prof *prof)
{
	return prof_sampled(prof) && prof->estimates;
}

uint64_t prof_peak_event(const struct prof *prof)
{
	return prof->max_event;
}

void prof_set_culled(struct prof *prof, uint64_t allocations, uint64_t bytes, uint64_t peak_event)
{
	prof->other.culled_allocations = allocations;
	prof->other.culled_bytes = bytes;
	prof->max_event = prof->other.peak_event = peak_event;
}

const struct prof_thread *prof_thread(const struct prof *prof, struct thread_id id)
{
	/*
	 * The shown cost is made when asked for: the row's own copy serves as the place where it
	 * stands.
	 */
	struct thread_row *row = chunked_at(&prof->threads, id.v);
	if (prof->loaded || prof->totals)
		return &row->pub;
	if (prof->several_threads) {
		counter_cost(prof, &row->counter, prof_estimates(prof) ? PROF_SHARE_BITS : 0,
			     &row->pub.cost);
		take_risk(prof, &row->risk, &row->pub.cost);
		if (prof_estimates(prof))
			round_shares(prof, &row->pub.cost);
	} else {
		struct cost sum = { 0 };
		for (uint32_t slot = 1; id.v == 0 && slot < prof->counters.count; slot++) {
			struct cost cost;
			slot_cost(prof, slot, &cost);
			cost_add(&sum, &cost);
		}
		row->pub.cost = sum;
	}
	row->pub.events = thread_events(prof, id.v, &row->pub.cost);
	return &row->pub;
}

static void counter_keep_live(const struct prof *p, struct prof_counter *c, unsigned shift)
{
	c->allocations -= c->frees;
	c->saved_blocks = prof_blocks_of(c->allocations, shift);
	c->allocated_bytes = c->saved_bytes = c->live_bytes;
	c->frees = c->temporary = 0;
	c->saved_epoch = p->epoch;
}

void prof_keep_live(struct prof *p, uint64_t peak_ns)
{
	for (uint32_t slot = 1; slot < p->counters.count; slot++) {
		counter_keep_live(p, prof_counter_at(p, slot),
				  prof_sampled(p) ? PROF_SHARE_BITS : 0);
		if (chunked_has(&p->risks, slot))
			((struct prof_risk *)chunked_at(&p->risks, slot))->implied = 0;
	}
	for (uint32_t i = 0; i < p->threads.count; i++) {
		struct thread_row *row = chunked_at(&p->threads, i);
		counter_keep_live(p, &row->counter, prof_estimates(p) ? PROF_SHARE_BITS : 0);
		row->risk.implied = 0;
	}
	p->max_bytes = p->live_bytes;
	p->max_time_ns = peak_ns;
	p->max_event = p->allocations - p->frees;
	p->other.foreign_frees = 0;
}

const struct marks *prof_marks(const struct prof *p)
{
	return &p->marks;
}

struct marks *prof_load_marks(struct prof *p)
{
	return &p->marks;
}

const struct mapped *prof_mapped(const struct prof *p)
{
	if (p->mapped && !p->origin)
		mapped_note_heap(p->mapped, p->epoch);
	return p->mapped;
}

int prof_knows_mapped(const struct prof *p)
{
	return !p->mapped_unknown;
}

/* ---- loading a summary ----------------------------------------------------------------------- */

struct mapped *prof_load_mapped(struct prof *p, struct err *err)
{
	if (!p->mapped && !(p->mapped = mapped_new()))
		err_set(err, -ENOMEM, "cannot hold what was mapped");
	return p->mapped;
}

void prof_load_no_mapped(struct prof *p)
{
	p->mapped_unknown = 1;
}

void prof_load_no_peak_blocks(struct prof *p)
{
	p->peak_blocks_unknown = 1;
}

int prof_load_totals(struct prof *p, const struct prof_totals *totals, struct err *err)
{
	if (!p->loaded && p->allocations + p->frees)
		return err_set(err, -EINVAL, "a summary after events in one reading");
	p->loaded = 1;
	p->other = *totals;
	p->max_event = totals->peak_event;
	return 0;
}

int prof_load_stack(struct prof *p, struct stack_id row, const struct cost *cost, struct err *err)
{
	if (row.v >= p->stacks.count)
		return err_set(err, -EINVAL, "counters of a stack that does not exist");
	p->loaded = 1;
	uint32_t slot = prof_row_slot(p, row.v, err);
	if (!slot)
		return -ENOMEM;
	struct prof_counter *c = prof_counter_at(p, slot);
	c->allocations += cost->allocations;
	c->allocated_bytes += cost->allocated_bytes;
	c->frees += cost->allocations - cost->leaked - cost->uncertain;
	c->temporary += cost->temporary;
	c->live_bytes += cost->leaked_bytes + cost->uncertain_bytes;
	c->saved_bytes += cost->peak_bytes;
	uint64_t blocks = c->saved_blocks + cost->peak_blocks;
	c->saved_blocks = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
	c->saved_epoch = p->epoch;
	uint64_t ended = cost->allocations - cost->leaked - cost->uncertain;
	uint64_t implied = ended > cost->frees ? ended - cost->frees : 0;
	if (!cost->uncertain && !cost->uncertain_bytes && !implied)
		return 0;
	struct prof_risk *risk = chunked_touch(&p->risks, slot);
	if (!risk)
		return err_set(err, -ENOMEM, "cannot keep uncertain blocks");
	p->loss_epoch = 1;
	risk->epoch = 1;
	risk->blocks += cost->uncertain;
	risk->bytes += cost->uncertain_bytes;
	risk->implied += implied;
	return 0;
}

int prof_load_thread(struct prof *p, struct thread_id row, const struct cost *cost, uint64_t events,
		     struct err *err)
{
	struct thread_row *thread = thread_row_peek(p, row.v);
	if (!thread)
		return err_set(err, -EINVAL, "counters of a thread that does not exist");
	p->loaded = 1;
	thread->pub.cost = *cost;
	thread->pub.events = events;
	return 0;
}

int prof_load_timeline(struct prof *p, const struct prof_point *points, size_t count,
		       struct err *err)
{
	if (count > PROF_POINTS_MAX)
		return err_set(err, -EINVAL, "a timeline of %zu points", count);
	for (size_t i = 1; i < count; i++)
		if (points[i].time_ns < points[i - 1].time_ns)
			return err_set(err, -EINVAL, "a timeline that goes back in time");
	memcpy(p->points, points, count * sizeof(*points));
	p->point_count = (uint32_t)count;
	p->loaded = 1;
	return 0;
}
