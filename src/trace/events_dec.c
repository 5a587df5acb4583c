/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/huge.h"
#include "trace/events_dec_impl.h"
#include "trace/trace.h"

#define FETCHED 12 /* slots that are fetched before it is their turn */

struct events_dec *events_dec_new(const struct events_out *out, struct err *err)
{
	struct events_dec *dec = calloc(1, sizeof(*dec));
	if (!dec || !(dec->m = events_model_new(out->version, err))) {
		err_set(err, -ENOMEM, "cannot set up the reading of a recording");
		free(dec);
		return NULL;
	}
	dec->out = *out;
	return dec;
}

void events_dec_free(struct events_dec *dec)
{
	if (!dec)
		return;
	events_model_free(dec->m);
	free(dec->pending);
	free(dec->undo);
	free(dec);
}

int events_dec_flush(struct events_dec *dec)
{
	size_t count = dec->count;
	dec->count = 0;
	return count ? dec->out.take(dec->out.ctx, dec->batch, count, dec->err) : 0;
}

static inline uint64_t unfold_addr(uint64_t v)
{
	int64_t delta = unzigzag(v);
	return delta & 1 ? (uint64_t)(delta >> 1) : (uint64_t)(delta >> 1) << 4;
}

/* Of a dead block that stands further down. */
static int place_far(struct events_dec *dec, unsigned how, struct dead_list *list,
		     struct event *event, uint32_t *slot)
{
	uint8_t step;
	uint32_t below;
	int64_t place;
	if (how == ADDR_STEP) {
		if (get_byte(&dec->col[EVC_STEP], &step) < 0)
			return -EBADMSG;
		place = (int32_t)list->last + unzigzag(step);
	} else {
		if (get_u32(&dec->col[EVC_PLACE], &below) < 0)
			return -EBADMSG;
		place = (int64_t)list->count - below;
	}
	if (place < list->first || place >= list->count || list->dead[place].slot == NO_SLOT)
		return -EBADMSG;
	event->addr = list->dead[place].addr;
	*slot = model_take_far(list, (uint32_t)place);
	return 0;
}

static int place(struct events_dec *dec, unsigned how, struct event *event, uint32_t *slot)
{
	struct events_model *m = dec->m;
	uint32_t class = model_class(event->bytes);
	struct dead_list *list = &m->dead[class];
	struct near_list *near = model_near(dec->t, class);
	uint64_t v;
	if (how == ADDR_TOP || how == ADDR_DEPTH) {
		uint8_t depth = 0;
		if (how == ADDR_DEPTH && get_byte(&dec->col[EVC_DEPTH], &depth) < 0)
			return -EBADMSG;
		if (depth >= model_depths(near, list) ||
		    model_dead_at(near, list, depth)->slot == NO_SLOT)
			return -EBADMSG;
		event->addr = model_dead_at(near, list, depth)->addr;
		*slot = model_take(near, list, class, depth);
		return 0;
	}
	if (how == ADDR_BUMP || how == ADDR_CUT) {
		event->addr = how == ADDR_BUMP ? dec->t->bump : dec->t->cut;
		*slot = model_place_bump(m, near, list, class, event->addr);
		return 0;
	}
	if (how >= ADDR_STEP)
		return place_far(dec, how, list, event, slot);
	if (get(&dec->col[EVC_ADDR], &v) < 0)
		return -EBADMSG;
	event->addr = dec->t->addr + unfold_addr(v);
	*slot = model_replace(m, near, list);
	return 0;
}

static inline int get_alloc(struct events_dec *dec, unsigned op, struct event *event)
{
	struct events_model *m = dec->m;
	struct guess *guess = model_guess(m, dec->t);
	int rc = events_model_room(m);
	event->kind = EVENT_ALLOC;
	event->flags = guess->alloc_flags;
	event->stack.v = guess->stack;
	event->bytes = guess->bytes;
	if (rc >= 0 && op >> 1 & WHAT_STACK) {
		rc = get_stack(dec, &dec->col[EVC_STACK], m->literal_stack, &event->stack.v);
		m->literal_stack = event->stack.v;
	}
	if (rc >= 0 && op >> 1 & WHAT_BYTES)
		rc = get(&dec->col[EVC_BYTES], &event->bytes);
	if (rc >= 0 && op & 1)
		rc = get_byte(&dec->col[EVC_FLAGS], &event->flags);
	uint32_t slot = 0;
	if (rc >= 0)
		rc = place(dec, op >> 3, event, &slot);
	if (rc < 0)
		return rc;
	event->block.v = slot;
	model_alloc(m, dec->t, guess, slot, event);
	model_cut(dec->t, op >> 3);
	m->slots[slot].time_ms = dec->time_ms;
	dec->seen.allocations++;
	dec->seen.bytes += event->bytes;
	return !dec->out.living;
}

/*
 * Old blocks are freed all over the table: each would be waited for, a tenth of a microsecond or
 * more. What the next frees name is known already.
 */
static inline void fetch_slot(struct events_dec *dec)
{
	uint32_t slot;
	if (get_u32(&dec->ahead, &slot) == 0 && slot < dec->m->slot_count)
		__builtin_prefetch(&dec->m->slots[slot], 1);
}

/* How many allocations ago the block was made that is freed. */
static inline int get_age(struct events_dec *dec, uint32_t *age)
{
	uint64_t apart;
	int64_t seq;
	if (!model_after_free(dec->m, dec->t))
		return get_u32(&dec->col[EVC_AGE], age);
	if (get(&dec->col[EVC_APART], &apart) < 0 ||
	    __builtin_add_overflow(unzigzag(apart), (int64_t)dec->t->freed_seq, &seq) || seq < 0 ||
	    seq >= dec->m->seq)
		return -EBADMSG;
	*age = dec->m->seq - (uint32_t)seq;
	return 0;
}

/* Return: 1 if the event is to be handed on, 0 if it frees a block whose allocation is missing. */
static inline int get_free(struct events_dec *dec, unsigned op, struct event *event)
{
	struct events_model *m = dec->m;
	struct guess *guess = model_guess(m, dec->t);
	uint32_t slot = NO_SLOT, age = guess->age;
	switch (op >> 2) {
	case WHICH_NEXT:
		age = m->seq - (dec->t->freed_seq + 1);
		break;
	case WHICH_RING:
		if (get_age(dec, &age) < 0)
			return -EBADMSG;
		break;
	case WHICH_SLOT:
		age = 0;
		fetch_slot(dec);
		if (get_u32(&dec->col[EVC_SLOT], &slot) < 0 || slot >= m->slot_count ||
		    m->slots[slot].state == SLOT_DEAD)
			return -EBADMSG;
		break;
	}
	if (age && (slot = model_aged(m, age)) == NO_SLOT)
		return -EBADMSG;
	if (slot == NO_SLOT)
		return -EBADMSG;
	struct slot *s = &m->slots[slot];
	int lost = s->state == SLOT_LOST;
	fill_free(event, s, slot);
	event->flags = model_free_flags(dec->t, guess, slot);
	event->aux_stack.v = guess->aux;
	if (op & 1 && get_byte(&dec->col[EVC_FLAGS], &event->flags) < 0)
		return -EBADMSG;
	if (op & 2) {
		int rc = get_u32(&dec->col[EVC_AUX], &event->aux_stack.v);
		if (rc >= 0 && event->aux_stack.v)
			rc = dec->out.need_stack(dec->out.ctx, event->aux_stack.v, dec->err);
		if (rc < 0)
			return rc;
	}
	if (model_free(m, dec->t, guess, slot, age, event) < 0)
		return -ENOMEM;
	dec->seen.frees++;
	if (__builtin_expect(event->flags & EVENT_F_IMPLIED, 0))
		dec->seen.implied++;
	else
		dec->orphans += (uint64_t)lost;
	event->value = (uint64_t)lost; /* only of one that is not handed on */
	return !lost && !dec->out.living;
}

static int get_other(struct events_dec *dec, struct event *event)
{
	struct events_model *m = dec->m;
	struct cursor *c = &dec->col[EVC_OTHER];
	uint8_t byte;
	uint64_t addr, bytes, value, block;
	if (get_byte(&dec->col[EVC_KIND], &byte) < 0)
		return -EBADMSG;
	unsigned kind = byte & 15;
	if (!kind || kind == EVENT_ALLOC || kind == EVENT_FREE)
		return -EBADMSG;
	int rc = get_stack(dec, c, m->other[kind].stack, &event->stack.v);
	if (rc < 0)
		return rc;
	if (get(c, &addr) < 0 || get(c, &bytes) < 0 || get(c, &value) < 0 ||
	    get_u32(c, &event->aux_stack.v) < 0 || get(c, &block) < 0 || block > 1ULL << 32)
		return -EBADMSG;
	if (event->aux_stack.v)
		rc = dec->out.need_stack(dec->out.ctx, event->aux_stack.v, dec->err);
	event->kind = (uint8_t)kind;
	event->flags = byte >> 4;
	m->other[kind].stack = event->stack.v;
	event->addr = m->other[kind].addr += (uint64_t)unzigzag(addr);
	event->bytes = m->other[kind].bytes += (uint64_t)unzigzag(bytes);
	event->value = m->other[kind].value += (uint64_t)unzigzag(value);
	event->block.v = (uint32_t)(block - 1);
	dec->seen.frees += kind == EVENT_FREE_FOREIGN;
	events_tally_speak(&dec->seen, event);
	return rc < 0 ? rc : 1;
}

static int next_time(struct events_dec *dec)
{
	uint64_t step;
	if (get_u32(&dec->col[EVC_TIME], &dec->time_run) < 0 || !dec->time_run ||
	    get(&dec->col[EVC_TIME], &step) < 0 ||
	    __builtin_add_overflow(dec->time, step, &dec->time))
		return -EBADMSG;
	dec->time_ms = (uint32_t)(dec->time / 1000000u);
	return 0;
}

static int next_thread(struct events_dec *dec)
{
	if (get_u32(&dec->col[EVC_THREAD], &dec->thread_run) < 0 || !dec->thread_run ||
	    get_u32(&dec->col[EVC_THREAD], &dec->thread) < 0)
		return -EBADMSG;
	dec->t = model_thread(dec->m, dec->thread);
	return dec->out.need_thread(dec->out.ctx, dec->thread, dec->err);
}

static int begin_run(struct events_dec *dec)
{
	int rc = dec->time_run ? 0 : next_time(dec);
	return rc >= 0 && !dec->thread_run ? next_thread(dec) : rc;
}

/* One event; what of it is to be handed on is 1. */
static inline int get_event(struct events_dec *dec, struct event *event)
{
	struct cursor *ops = &dec->col[EVC_OP];
	if (ops->at == ops->end)
		return -EBADMSG;
	dec->time_run--;
	dec->thread_run--;
	unsigned op = *ops->at++;
	memset(event, 0, sizeof(*event));
	event->time_ns = dec->time;
	event->thread.v = dec->thread;
	int rc = -EBADMSG;
	if (op < OP_FREE)
		rc = get_alloc(dec, op, event);
	else if (op < OP_OTHER)
		rc = get_free(dec, op - OP_FREE, event);
	else if (op == OP_OTHER)
		rc = get_other(dec, event);
	else if (op >= OP_CUT && op < OP_END && dec->m->has_far)
		rc = get_alloc(dec, op - (OP_CUT - OP_FREE), event);
	dec->seen.events += rc >= 0;
	return rc;
}

static struct undo *undo_room(struct events_dec *dec)
{
	if (dec->undo_count == dec->undo_cap) {
		uint32_t cap = dec->undo_cap ? dec->undo_cap * 2 : 4096;
		struct undo *to = cap > UNDO_MAX ? NULL : realloc(dec->undo, cap * sizeof(*to));
		if (!to)
			return NULL;
		dec->undo = to;
		dec->undo_cap = cap;
	}
	return &dec->undo[dec->undo_count];
}

/* Later than what is asked for: only what they come to, and how to take them back. */
static int get_beyond(struct events_dec *dec, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++) {
		struct event event;
		struct undo *undo = undo_room(dec);
		int rc = begin_run(dec);
		if (rc < 0)
			return rc;
		dec->beyond_full |= !undo;
		if (!undo || dec->time > dec->out.beyond_ns) {
			dec->stopped = 1;
			return 0;
		}
		rc = get_event(dec, &event);
		if (rc < 0)
			return rc;
		if (event.kind == EVENT_ALLOC) {
			dec->beyond_allocated += event.bytes;
		} else if (event.kind == EVENT_FREE) {
			dec->beyond_freed += event.bytes;
			undo->slot = dec->m->slots[event.block.v];
			undo->slot.state = event.value ? SLOT_LOST : SLOT_LIVE;
		} else {
			continue;
		}
		undo->number = event.block.v;
		undo->is_free = event.kind == EVENT_FREE;
		dec->undo_count++;
	}
	return 0;
}

static void take_back(struct events_dec *dec)
{
	while (dec->undo_count) {
		const struct undo *undo = &dec->undo[--dec->undo_count];
		if (undo->is_free)
			dec->m->slots[undo->number] = undo->slot;
		else
			dec->m->slots[undo->number].state = SLOT_DEAD;
	}
}

static int get_events(struct events_dec *dec, uint32_t rows)
{
	for (uint32_t i = 0; i < rows; i++) {
		int rc = begin_run(dec);
		if (rc < 0)
			return rc;
		if (dec->out.living && dec->time > dec->out.until_ns) {
			if (dec->out.beyond_ns)
				return get_beyond(dec, rows - i);
			dec->stopped = 1;
			return 0;
		}
		rc = get_event(dec, &dec->batch[dec->count]);
		if (rc < 0)
			return rc;
		dec->count += (size_t)rc;
		if (dec->count == BATCH) {
			rc = events_dec_flush(dec);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static uint64_t over(uint64_t at, uint64_t seen)
{
	/*
	 * A hostile header may say less than was seen: then nothing can be said but that something
	 * is wrong.
	 */
	return at > seen ? at - seen : 0;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/*
 * Frees that are missing up to where the sums are @at, but for those that some EVENT_LOST counts.
 */
static uint64_t missing_frees(const struct events_dec *dec, const struct events_tally *at)
{
	return over(over(at->frees, dec->seen.frees), over(at->implied, dec->seen.implied));
}

/*
 * Tell how many events are missing up to where the sums are @at, and what those that are missing
 * spoke of.
 */
int events_dec_tell_loss(struct events_dec *dec, const struct events_tally *at, uint64_t made_up)
{
	const struct events_tally *seen = &dec->seen;
	struct event lost = { .kind = EVENT_LOST,
			      .time_ns = dec->time,
			      .value = LOSS_FILE_DAMAGED };
	lost.addr =
		sum(over(at->allocations, seen->allocations), over(at->spoken[0], seen->spoken[0]));
	lost.bytes = sum(over(at->bytes, seen->bytes), over(at->spoken[1], seen->spoken[1]));
	uint64_t frees = sum(over(missing_frees(dec, at), made_up),
			     sum(dec->orphans, over(at->spoken[2], seen->spoken[2])));
	lost.block.v = frees > UINT32_MAX ? UINT32_MAX : (uint32_t)frees;
	dec->orphans = 0;
	dec->gaps |= memcmp(at, seen, sizeof(*at)) != 0;
	dec->seen = *at;
	if (!lost.addr && !frees)
		return 0;
	int rc = dec->out.need_thread(dec->out.ctx, 0, dec->err);
	return rc < 0 ? rc : dec->out.take(dec->out.ctx, &lost, 1, dec->err);
}

int events_dec_stopped(const struct events_dec *dec)
{
	return dec->stopped;
}

void events_dec_living(struct events_dec *dec, struct trace_living *living)
{
	struct events_model *m = dec->m;
	take_back(dec);
	/*
	 * the table becomes the list in its own memory: a row is written where a slot was read, or
	 * before it
	 */
	char *rows = (char *)m->slots;
	size_t kept = 0;
	_Static_assert(sizeof(struct sheet_block) <= sizeof(struct slot), "rows stay behind slots");
	for (uint32_t i = 0; i < m->slot_count; i++) {
		struct slot slot;
		memcpy(&slot, rows + i * sizeof(slot), sizeof(slot));
		if (slot.state != SLOT_LIVE)
			continue;
		const struct sheet_block row = { slot.addr, slot.bytes, slot.stack, slot.time_ms };
		memcpy(rows + kept++ * sizeof(row), &row, sizeof(row));
	}
	*living = (struct trace_living){
		.blocks = (struct sheet_block *)(void *)rows,
		.count = kept,
		.room_bytes = huge_trim(rows, m->slot_cap * sizeof(struct slot),
					kept * sizeof(struct sheet_block)),
		.last_ns = dec->time,
		.allocated_bytes = dec->beyond_allocated,
		.freed_bytes = dec->beyond_freed,
		.has_sums = dec->out.beyond_ns && !dec->beyond_full,
	};
	m->slots = NULL;
	m->slot_count = m->slot_cap = 0;
}

void events_dec_miss(struct events_dec *dec)
{
	dec->gaps = 1;
}

int events_dec_end(struct events_dec *dec, const struct events_tally *total, struct err *err)
{
	struct events_tally at = total ? *total : dec->passed;
	if (!total && at.events <= dec->seen.events)
		return 0;
	events_tally_fill(&at, &dec->seen);
	if (memcmp(&at, &dec->seen, sizeof(at)) == 0)
		return 0;
	dec->err = err;
	dec->broken = 1;
	return events_dec_tell_loss(dec, &at, 0);
}

/*
 * What a key block says about the slots, against what is known. Where events are missing, a block
 * that is dead now was freed among them: its free is made up for here. The first @implied of them
 * are frees that nobody saw. Return: the number of such blocks, or negative errno.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
static int64_t settle(struct events_dec *dec, int do_it, uint64_t implied)
{
	struct events_model *m = dec->m;
	struct cursor c = dec->col[EVC_DEAD];
	uint32_t count, run, i = 0;
	int64_t made_up = 0;
	/* Slots are dense; more of them than this were not in use before anything that was read. */
	if (get_u32(&c, &count) < 0 || count > EVENTS_BLOCK_MAX || count < m->slot_count ||
	    (count > m->slot_count &&
	     (!dec->gaps || count - m->slot_count > dec->out.slots_missing_max)))
		return -EBADMSG;
	if (m->slot_count < count)
		m->spare_count =
			0; /* lists slots that are about to be judged anew; room means new ones */
	while (m->slot_count < count) {
		int rc = events_model_room(m);
		if (rc < 0)
			return rc;
		m->slots[m->slot_count++] = (struct slot){ .state = SLOT_LOST };
	}
	for (unsigned live = 1; i < count; live = !live) {
		if (get_u32(&c, &run) < 0 || run > count - i || (!run && i))
			return -EBADMSG;
		for (uint32_t end = i + run; i < end; i++) {
			struct slot *s = &m->slots[i];
			if (live == (s->state != SLOT_DEAD))
				continue;
			if (!dec->gaps)
				return -EBADMSG;
			made_up += s->state == SLOT_LIVE;
			if (!do_it)
				continue;
			if (s->state == SLOT_LIVE) {
				struct event *late = &dec->batch[dec->count++];
				*late = (struct event){ .time_ns = dec->time };
				fill_free(late, s, i);
				late->flags = implied ? EVENT_F_IMPLIED : 0;
				implied -= implied != 0;
				dec->count -= dec->out.living != 0;
			}
			s->state = live ? SLOT_LOST : SLOT_DEAD;
			int rc = dec->count == BATCH ? events_dec_flush(dec) : 0;
			if (rc < 0)
				return rc;
		}
	}
	return made_up;
}

/*
 * Bring the model to the beginning of a key block, and tell what is missing before it. Return: 0; 1
 * if the block does not say which slots are taken, so that nothing about blocks can follow;
 * negative errno.
 */
static int begin_key(struct events_dec *dec, const struct events_tally *at)
{
	int missing = memcmp(at, &dec->seen, sizeof(*at)) != 0;
	int adrift = dec->col[EVC_DEAD].at == dec->col[EVC_DEAD].end;
	dec->gaps |= missing || dec->broken;
	int64_t made_up = adrift ? 0 : settle(dec, 0, 0);
	if (made_up < 0)
		return (int)made_up;
	uint64_t seen_by_nobody = MIN(over((uint64_t)made_up, missing_frees(dec, at)),
				      over(at->implied, dec->seen.implied));
	int rc = events_dec_tell_loss(dec, at, (uint64_t)made_up);
	if (rc >= 0 && made_up)
		rc = dec->out.need_thread(dec->out.ctx, 0, dec->err);
	if (rc >= 0 && !adrift)
		rc = (int)(settle(dec, 1, seen_by_nobody) < 0 ? -EBADMSG : 0);
	if (rc >= 0)
		rc = events_dec_flush(dec);
	if (rc >= 0)
		rc = events_model_reset(dec->m);
	return rc < 0 ? rc : adrift;
}

static int get_more_sums(struct cursor *meta, struct events_tally *at)
{
	at->implied = EVENTS_UNTOLD;
	if (meta->at == meta->end)
		return 0;
	int rc = get(meta, &at->implied);
	for (unsigned i = 0; i < 3 && rc == 0; i++)
		rc = get(meta, &at->spoken[i]);
	return rc;
}

int events_dec_block(struct events_dec *dec, const struct blt_head *head,
		     const struct blt_view *view, struct err *err)
{
	struct events_tally at = { .events = head->first };
	dec->err = err;
	for (unsigned i = 0; i < EVC_COUNT; i++)
		dec->col[i] = (struct cursor){ view->col[i].at, view->col[i].end };
	struct cursor *meta = &dec->col[EVC_META];
	int rc = 0;
	if (get(meta, &at.allocations) < 0 || get(meta, &at.bytes) < 0 ||
	    get(meta, &at.frees) < 0 || get_more_sums(meta, &at) < 0 || head->time_ns < dec->time) {
		dec->broken = 1;
		return err_set(err, -EBADMSG, "an event block breaks the format's rules");
	}
	if (dec->resumes) {
		events_tally_fill(&at, &at);
		dec->seen = at; /* nothing is missing: it was not asked for */
		dec->gaps = 1;  /* blocks live that are not known */
		dec->resumes = 0;
	}
	events_tally_fill(&at, &dec->seen);
	if (!(head->flags & BLT_F_KEY)) {
		if (memcmp(&at, &dec->seen, sizeof(at)) != 0)
			dec->broken = 1;
		if (dec->broken) {
			dec->passed = at;
			return 1;
		}
	}
	dec->time = head->time_ns;
	dec->time_run = dec->thread_run = 0;
	dec->count = 0;
	if (head->flags & BLT_F_KEY) {
		rc = begin_key(dec, &at);
		dec->broken = rc != 0; /* 1: good for this block only */
	}
	dec->ahead = dec->col[EVC_SLOT];
	for (unsigned i = 0; i < FETCHED; i++)
		fetch_slot(dec);
	if (rc >= 0)
		rc = get_events(dec, head->rows);
	int flushed = rc >= 0 || rc == -EBADMSG ? events_dec_flush(dec) : 0;
	if (rc < 0)
		dec->broken = 1;
	if (flushed < 0)
		return flushed;
	if (rc == -EBADMSG)
		return err_set(err, -EBADMSG, "an event block breaks the format's rules");
	if (rc == -ENOMEM || rc == -E2BIG)
		return err_set(err, rc, "cannot hold the live blocks");
	if (rc >= 0 && dec->orphans)
		rc = events_dec_tell_loss(dec, &dec->seen, 0);
	return rc < 0 ? rc : 0;
}

int events_dec_resume(struct events_dec *dec, const struct trace_seed *seeds, size_t count)
{
	struct events_model *m = dec->m;
	dec->resumes = 1;
	for (size_t i = 0; i < count; i++) {
		if (seeds[i].slot >= EVENTS_BLOCK_MAX)
			return -EBADMSG;
		while (m->slot_count <= seeds[i].slot) {
			int rc = events_model_room(m);
			if (rc < 0)
				return rc;
			m->slots[m->slot_count++].state = SLOT_DEAD;
		}
		struct slot *s = &m->slots[seeds[i].slot];
		*s = (struct slot){ .bytes = seeds[i].bytes,
				    .stack = seeds[i].stack,
				    .state = SLOT_LIVE };
	}
	return 0;
}
