/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "trace/events_cols.h"

#define BATCH 256

struct events_dec {
	struct events_tally seen;
	int gaps; /* events are missing somewhere before: unknown blocks may be freed */
	uint64_t orphans;
	uint64_t time;
	struct slot *slots;
	uint32_t slot_count;
};

struct cursor {
	const uint8_t *at, *end;
};

/* A block being decoded. */
struct walk {
	struct events_dec *dec;
	struct cursor col[EVC_COUNT];
	uint32_t time_run, thread_run, thread;
	uint32_t last_block, last_stack;
	struct event batch[BATCH];
	size_t count;
	int (*take)(void *ctx, struct event *events, size_t count, struct err *err);
	void *ctx;
	struct err *err;
};

const char *events_col_name(unsigned id)
{
	static const char *const names[EVC_COUNT] = {
		[EVC_META] = "sums",      [EVC_KIND] = "kinds",     [EVC_TIME] = "times",
		[EVC_THREAD] = "threads", [EVC_BLOCK] = "blocks",   [EVC_STACK] = "stacks",
		[EVC_BYTES] = "sizes",    [EVC_ADDR] = "addresses", [EVC_AUX] = "free stacks",
		[EVC_OTHER] = "others",
	};
	return id < EVC_COUNT ? names[id] : NULL;
}

struct events_dec *events_dec_new(struct err *err)
{
	struct events_dec *dec = calloc(1, sizeof(*dec));
	if (!dec)
		err_set(err, -ENOMEM, "cannot set up the reading of a recording");
	return dec;
}

void events_dec_free(struct events_dec *dec)
{
	if (!dec)
		return;
	free(dec->slots);
	free(dec);
}

void events_dec_tally(const struct events_dec *dec, struct events_tally *tally)
{
	*tally = dec->seen;
}

static int get_num(struct cursor *c, uint64_t *v)
{
	const uint8_t *at = varint_get(c->at, c->end, v);
	if (!at)
		return -EBADMSG;
	c->at = at;
	return 0;
}

static int get_u32(struct cursor *c, uint32_t *v)
{
	uint64_t wide;
	if (get_num(c, &wide) < 0 || wide > UINT32_MAX)
		return -EBADMSG;
	*v = (uint32_t)wide;
	return 0;
}

/* A number coded as zigzag from @last, within 32 bits. */
static int get_near(struct cursor *c, uint32_t *last)
{
	uint64_t wide;
	if (get_num(c, &wide) < 0)
		return -EBADMSG;
	int64_t v;
	if (__builtin_add_overflow((int64_t)*last, unzigzag(wide), &v) || v < 0 || v > UINT32_MAX)
		return -EBADMSG;
	*last = (uint32_t)v;
	return 0;
}

static int flush(struct walk *w)
{
	size_t count = w->count;
	w->count = 0;
	return count ? w->take(w->ctx, w->batch, count, w->err) : 0;
}

static int slot_room(struct events_dec *dec, uint32_t block, struct err *err)
{
	if (block < dec->slot_count)
		return 0;
	/* Numbers are dense: one far beyond what was allocated so far is none of ours, and must not cost memory. */
	if (block >= EVENTS_BLOCK_MAX || block > dec->seen.allocations + (1u << 20))
		return -EBADMSG;
	uint32_t count = dec->slot_count ? dec->slot_count : 1024;
	while (count <= block)
		count *= 2;
	struct slot *slots = realloc(dec->slots, count * sizeof(*slots));
	if (!slots)
		return err_set(err, -ENOMEM, "cannot hold %u live blocks", count);
	for (uint32_t i = dec->slot_count; i < count; i++)
		slots[i] = (struct slot){ .stack = SLOT_FREE };
	dec->slots = slots;
	dec->slot_count = count;
	return 0;
}

static void fill_free(struct event *event, uint32_t block, struct slot *slot)
{
	event->kind = EVENT_FREE;
	event->addr = slot->addr;
	event->bytes = slot->bytes;
	event->stack.v = slot->stack;
	event->block.v = block;
	slot->stack = SLOT_FREE;
}

static int get_alloc(struct walk *w, struct event *event)
{
	struct events_dec *dec = w->dec;
	uint64_t delta;
	if (get_near(&w->col[EVC_BLOCK], &w->last_block) < 0 ||
	    get_near(&w->col[EVC_STACK], &w->last_stack) < 0 ||
	    get_num(&w->col[EVC_BYTES], &event->bytes) < 0 ||
	    get_num(&w->col[EVC_ADDR], &delta) < 0)
		return -EBADMSG;
	int rc = slot_room(dec, w->last_block, w->err);
	if (rc < 0)
		return rc;
	struct slot *slot = &dec->slots[w->last_block];
	if (w->last_stack == SLOT_FREE || (slot->stack != SLOT_FREE && !dec->gaps))
		return -EBADMSG;
	uint64_t last_addr = slot->addr;
	if (slot->stack != SLOT_FREE) {
		/* Its number is given out anew, so it was freed where events are missing: make up for that. */
		struct event late = { .thread = event->thread, .time_ns = event->time_ns };
		fill_free(&late, w->last_block, slot);
		w->batch[w->count++] = late;
		rc = flush(w);
		if (rc < 0)
			return rc;
	}
	event->addr = last_addr + (uint64_t)unzigzag(delta);
	event->stack.v = w->last_stack;
	event->block.v = w->last_block;
	*slot = (struct slot){ event->addr, event->bytes, event->stack.v };
	dec->seen.allocations++;
	dec->seen.bytes += event->bytes;
	return 0;
}

/* Return: 1 if the event is to be handed on, 0 if it frees a block whose allocation is missing. */
static int get_free(struct walk *w, struct event *event)
{
	struct events_dec *dec = w->dec;
	if (get_near(&w->col[EVC_BLOCK], &w->last_block) < 0 ||
	    get_u32(&w->col[EVC_AUX], &event->aux_stack.v) < 0)
		return -EBADMSG;
	dec->seen.frees++;
	if (w->last_block >= dec->slot_count || dec->slots[w->last_block].stack == SLOT_FREE) {
		dec->orphans++;
		return dec->gaps ? 0 : -EBADMSG;
	}
	fill_free(event, w->last_block, &dec->slots[w->last_block]);
	return 1;
}

static int get_other(struct walk *w, struct event *event)
{
	struct cursor *c = &w->col[EVC_OTHER];
	if (get_near(&w->col[EVC_STACK], &w->last_stack) < 0 || get_num(c, &event->addr) < 0 ||
	    get_num(c, &event->bytes) < 0 || get_num(c, &event->value) < 0 ||
	    get_u32(c, &event->aux_stack.v) < 0 || get_u32(c, &event->block.v) < 0)
		return -EBADMSG;
	event->stack.v = w->last_stack;
	w->dec->seen.frees += event->kind == EVENT_FREE_FOREIGN;
	return 1;
}

static int get_event(struct walk *w, struct event *event)
{
	struct events_dec *dec = w->dec;
	if (!w->time_run) {
		uint64_t delta;
		if (get_u32(&w->col[EVC_TIME], &w->time_run) < 0 || !w->time_run ||
		    get_num(&w->col[EVC_TIME], &delta) < 0 ||
		    __builtin_add_overflow(dec->time, delta, &dec->time))
			return -EBADMSG;
	}
	if (!w->thread_run) {
		if (get_u32(&w->col[EVC_THREAD], &w->thread_run) < 0 || !w->thread_run ||
		    get_u32(&w->col[EVC_THREAD], &w->thread) < 0)
			return -EBADMSG;
	}
	w->time_run--;
	w->thread_run--;
	struct cursor *kind = &w->col[EVC_KIND];
	if (kind->at == kind->end)
		return -EBADMSG;
	memset(event, 0, sizeof(*event));
	uint8_t byte = *kind->at++;
	event->kind = byte & 15;
	event->flags = byte >> 4;
	event->time_ns = dec->time;
	event->thread.v = w->thread;
	dec->seen.events++;
	if (event->kind == EVENT_ALLOC) {
		int rc = get_alloc(w, event);
		return rc < 0 ? rc : 1;
	}
	return event->kind == EVENT_FREE ? get_free(w, event)
	       : event->kind             ? get_other(w, event)
					 : -EBADMSG;
}

int events_dec_gap(struct events_dec *dec, const struct events_tally *at,
		   int (*take)(void *ctx, struct event *events, size_t count, struct err *err),
		   void *ctx, struct err *err)
{
	/* A hostile header may say less than was seen: then nothing can be said but that something is wrong. */
	uint64_t allocations = at->allocations > dec->seen.allocations
				       ? at->allocations - dec->seen.allocations
				       : 0;
	uint64_t frees = at->frees > dec->seen.frees ? at->frees - dec->seen.frees : 0;
	struct event lost = { .kind = EVENT_LOST,
			      .time_ns = dec->time,
			      .value = LOSS_FILE_DAMAGED,
			      .addr = allocations };
	lost.bytes = at->bytes > dec->seen.bytes ? at->bytes - dec->seen.bytes : 0;
	frees += dec->orphans;
	lost.block.v = frees > UINT32_MAX ? UINT32_MAX : (uint32_t)frees;
	dec->orphans = 0;
	dec->gaps = 1;
	dec->seen = *at;
	return allocations || frees ? take(ctx, &lost, 1, err) : 0;
}

int events_dec_block(struct events_dec *dec, const struct blt_head *head,
		     const struct blt_view *view,
		     int (*take)(void *ctx, struct event *events, size_t count, struct err *err),
		     void *ctx, struct err *err)
{
	struct walk w = { .dec = dec, .take = take, .ctx = ctx, .err = err };
	for (unsigned i = 0; i < EVC_COUNT; i++)
		w.col[i] = (struct cursor){ view->col[i].at, view->col[i].end };
	struct events_tally at = { .events = head->first };
	struct cursor *meta = &w.col[EVC_META];
	if (get_num(meta, &at.allocations) < 0 || get_num(meta, &at.bytes) < 0 ||
	    get_num(meta, &at.frees) < 0 || head->time_ns < dec->time)
		return err_set(err, -EBADMSG, "an event block breaks the format's rules");
	dec->time = head->time_ns;
	int rc = 0;
	if (memcmp(&at, &dec->seen, sizeof(at)) != 0)
		rc = events_dec_gap(dec, &at, take, ctx, err);
	for (uint32_t i = 0; rc >= 0 && i < head->rows; i++) {
		struct event event;
		rc = get_event(&w, &event);
		if (rc <= 0)
			continue;
		w.batch[w.count++] = event;
		if (w.count == BATCH)
			rc = flush(&w);
	}
	int flushed = rc >= 0 || rc == -EBADMSG ? flush(&w) : 0;
	if (flushed < 0)
		return flushed;
	if (rc == -EBADMSG)
		return err_set(err, -EBADMSG, "an event block breaks the format's rules");
	if (rc >= 0 && dec->orphans)
		rc = events_dec_gap(dec, &dec->seen, take, ctx, err);
	return rc;
}
