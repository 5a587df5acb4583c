/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_dec_impl.h - what a decoder of events knows, for those that decode. Private to
 * events_dec*.c.
 */
#ifndef TRACE_EVENTS_DEC_IMPL_H
#define TRACE_EVENTS_DEC_IMPL_H

#include "base/varint.h"
#include "trace/events.h"
#include "trace/events_cursor.h"
#include "trace/events_model.h"

#define BATCH 512

/* Live, but its allocation is missing. On the reading side only. */
#define SLOT_LOST 2

/* An event behind the moment that is asked for. */
struct undo {
	/* of a free: as it was */
	struct slot slot;
	uint32_t number;
	uint32_t is_free;
};
#define UNDO_MAX (1u << 21)

struct events_dec {
	struct events_model *m;
	struct events_out out;
	struct err *err;
	struct events_tally seen;
	/* the sums of the last block that was passed over */
	struct events_tally passed;
	/* nothing can be decoded before the next key block */
	int broken;
	/* events are missing somewhere before */
	int gaps;
	/* the first block is not the recording's first */
	int resumes;
	/* an event behind out.until_ns was met */
	int stopped;
	uint64_t orphans;
	uint64_t time;
	uint32_t time_ms;
	struct cursor col[EVC_COUNT];
	uint32_t time_run, thread_run, thread;
	struct thread_context *t;
	/* slots of what PENDING blocks allocated */
	uint32_t *pending;
	uint32_t pending_count, pending_cap;
	/* in order, where out.beyond_ns was asked for */
	struct undo *undo;
	uint32_t undo_count, undo_cap;
	uint64_t beyond_allocated, beyond_freed;
	/* more happened than can be taken back: the sums are not known */
	int beyond_full;
	/* of col[EVC_SLOT]: slots that are being fetched already */
	struct cursor ahead;
	size_t count;
	struct event batch[BATCH];
};

/* A stack number coded as zigzag from @last; what is read for the first time must be defined. */
static inline int get_stack(struct events_dec *dec, struct cursor *c, uint32_t last,
			    uint32_t *stack)
{
	uint64_t wide;
	int64_t v;
	if (get(c, &wide) < 0 || __builtin_add_overflow((int64_t)last, unzigzag(wide), &v) ||
	    v < 0 || v > INT32_MAX)
		return -EBADMSG;
	*stack = (uint32_t)v;
	return v ? dec->out.need_stack(dec->out.ctx, *stack, dec->err) : 0;
}

static inline void fill_free(struct event *event, const struct slot *s, uint32_t slot)
{
	event->kind = EVENT_FREE;
	event->addr = s->addr;
	event->bytes = s->bytes;
	event->stack.v = s->stack;
	event->block.v = slot;
}

/** events_dec_flush() - hand on what the batch holds. 0 or what the taker said. */
int events_dec_flush(struct events_dec *dec);
/**
 * events_dec_tell_loss() - tell how many events are missing up to where the sums are @at; @made_up
 * frees of them were told already.
 */
int events_dec_tell_loss(struct events_dec *dec, const struct events_tally *at, uint64_t made_up);

#endif
