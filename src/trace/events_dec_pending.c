/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_dec_pending.c - PENDING blocks: the last events of a recording that was not finished,
 * behind all that was decoded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/events_dec_impl.h"
#include "trace/pending.h"

/* Allocations in PENDING blocks: a recorder holds half as many events. */
#define PENDING_MAX (1u << 21)

/* Nothing is guessed here, and nothing guessed from it: these events are the last. */
static int take_pending_alloc(struct events_dec *dec, const struct event *event, uint32_t *slot)
{
	struct events_model *m = dec->m;
	if (dec->pending_count == dec->pending_cap) {
		uint32_t cap = dec->pending_cap ? dec->pending_cap * 2 : 1024;
		uint32_t *to = cap > PENDING_MAX ? NULL : realloc(dec->pending, cap * sizeof(*to));
		if (!to)
			return cap > PENDING_MAX ? -EBADMSG : -ENOMEM;
		dec->pending = to;
		dec->pending_cap = cap;
	}
	int rc = events_model_room(m);
	if (rc < 0)
		return rc;
	*slot = model_fresh(m);
	m->slots[*slot] = (struct slot){ .addr = event->addr,
					 .bytes = event->bytes,
					 .stack = event->stack.v,
					 .state = SLOT_LIVE,
					 .time_ms = (uint32_t)(event->time_ns / 1000000u) };
	dec->pending[dec->pending_count++] = *slot;
	return !dec->out.living;
}

/* A free of a block whose allocation is missing, or what says which it was. */
static int take_orphan(struct events_dec *dec, const struct event *event)
{
	if (!dec->broken && !dec->gaps)
		return -EBADMSG;
	dec->orphans += !(event->flags & EVENT_F_IMPLIED);
	return 0;
}

/* Return: 1 to be handed on, 0 it is counted as lost. */
static int take_pending_free(struct events_dec *dec, uint64_t code, struct event *event)
{
	struct events_model *m = dec->m;
	uint64_t number = code / 2;
	if (number >= (code & 1 ? dec->pending_count : m->slot_count))
		return take_orphan(dec, event);
	uint32_t slot = code & 1 ? dec->pending[number] : (uint32_t)number;
	uint8_t flags = event->flags;
	if (m->slots[slot].state != SLOT_LIVE)
		return take_orphan(dec, event);
	fill_free(event, &m->slots[slot], slot);
	event->flags = flags;
	m->slots[slot].state = SLOT_DEAD;
	return !dec->out.living;
}

static int get_pending(struct events_dec *dec, struct cursor *col, struct event *event,
		       struct event *last)
{
	uint64_t step, v;
	uint8_t byte;
	if (get_byte(&col[PEC_KIND], &byte) < 0 || !(byte & 15) || get(&col[PEC_TIME], &step) < 0 ||
	    get_u32(&col[PEC_THREAD], &event->thread.v) < 0 ||
	    __builtin_add_overflow(last->time_ns, step, &event->time_ns) ||
	    event->time_ns < dec->time)
		return -EBADMSG;
	event->kind = byte & 15;
	event->flags = byte >> 4;
	dec->time = last->time_ns = event->time_ns;
	if (dec->out.living && dec->time > dec->out.until_ns) {
		dec->stopped = 1;
		return 0;
	}
	int rc = dec->out.need_thread(dec->out.ctx, event->thread.v, dec->err);
	if (rc >= 0 && event->kind != EVENT_FREE) {
		rc = get_stack(dec, &col[PEC_STACK], last->stack.v, &event->stack.v);
		if (rc >= 0 &&
		    (get(&col[PEC_ADDR], &v) < 0 || get(&col[PEC_BYTES], &event->bytes) < 0))
			rc = -EBADMSG;
		if (rc < 0)
			return rc;
		event->addr = last->addr += (uint64_t)unzigzag(v);
		last->stack = event->stack;
	}
	if (rc < 0 || event->kind == EVENT_ALLOC)
		return rc < 0 ? rc : take_pending_alloc(dec, event, &event->block.v);
	if ((event->kind != EVENT_FREE && get(&col[PEC_VALUE], &event->value) < 0) ||
	    get_u32(&col[PEC_AUX], &event->aux_stack.v) < 0 || get(&col[PEC_BLOCK], &v) < 0 ||
	    (event->kind != EVENT_FREE && v > 1ULL << 32))
		return -EBADMSG;
	if (event->aux_stack.v)
		rc = dec->out.need_stack(dec->out.ctx, event->aux_stack.v, dec->err);
	if (rc < 0)
		return rc;
	if (event->kind == EVENT_FREE)
		return take_pending_free(dec, v, event);
	event->block.v = (uint32_t)(v - 1);
	return 1;
}

int events_dec_pending(struct events_dec *dec, const struct blt_head *head,
		       const struct blt_view *view, struct err *err)
{
	struct cursor col[PEC_COUNT];
	struct event last = { 0 };
	int rc = 0;
	dec->err = err;
	dec->count = 0;
	for (unsigned i = 0; i < PEC_COUNT; i++)
		col[i] = (struct cursor){ view->col[i].at, view->col[i].end };
	for (uint32_t i = 0; i < head->rows && rc >= 0 && !dec->stopped; i++) {
		struct event *event = &dec->batch[dec->count];
		memset(event, 0, sizeof(*event));
		rc = get_pending(dec, col, event, &last);
		dec->count += rc > 0;
		if (rc >= 0 && dec->count == BATCH)
			rc = events_dec_flush(dec);
	}
	int flushed = rc >= 0 || rc == -EBADMSG ? events_dec_flush(dec) : 0;
	if (flushed < 0)
		return flushed;
	if (rc == -EBADMSG)
		return err_set(err, rc, "a block of pending events breaks the format's rules");
	if (rc == -ENOMEM || rc == -E2BIG)
		return err_set(err, rc, "cannot hold the live blocks");
	if (rc >= 0 && dec->orphans)
		rc = events_dec_tell_loss(dec, &dec->seen, 0);
	return rc < 0 ? rc : 0;
}
