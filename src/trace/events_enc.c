/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/varint.h"
#include "trace/events_cols.h"

struct events_enc {
	struct blt_cols cols;
	uint32_t rows;
	struct events_tally kept, open;
	uint64_t block_time, time; /* of the block's first event, of the last event */
	uint32_t time_run, thread, thread_run;
	uint32_t last_block, last_stack;
	uint64_t pending_time; /* delta that the current run of equal times began with */
	struct slot *slots;
	uint32_t slot_count;
};

struct events_enc *events_enc_new(struct err *err)
{
	struct events_enc *enc = calloc(1, sizeof(*enc));
	if (!enc)
		err_set(err, -ENOMEM, "cannot set up the recording");
	return enc;
}

void events_enc_free(struct events_enc *enc)
{
	if (!enc)
		return;
	blt_cols_fini(&enc->cols);
	free(enc->slots);
	free(enc);
}

static void put_num(struct buf *buf, uint64_t v)
{
	uint8_t *to = (uint8_t *)buf_reserve(buf, VARINT_MAX);
	if (to)
		buf->len += (size_t)(varint_put(to, v) - to);
}

static void put_run(struct buf *buf, uint32_t run, uint64_t v)
{
	put_num(buf, run);
	put_num(buf, v);
}

static int slot_room(struct events_enc *enc, uint32_t block, struct err *err)
{
	if (block < enc->slot_count)
		return 0;
	if (block >= EVENTS_BLOCK_MAX)
		return err_set(err, -EINVAL, "block number %u is out of range", block);
	uint32_t count = enc->slot_count ? enc->slot_count : 1024;
	while (count <= block)
		count *= 2;
	struct slot *slots = realloc(enc->slots, count * sizeof(*slots));
	if (!slots)
		return err_set(err, -ENOMEM, "cannot hold %u live blocks", count);
	for (uint32_t i = enc->slot_count; i < count; i++)
		slots[i] = (struct slot){ .stack = SLOT_FREE };
	enc->slots = slots;
	enc->slot_count = count;
	return 0;
}

static void put_block(struct events_enc *enc, uint32_t block)
{
	put_num(&enc->cols.col[EVC_BLOCK], zigzag((int64_t)block - enc->last_block));
	enc->last_block = block;
}

static void put_stack(struct events_enc *enc, uint32_t stack)
{
	put_num(&enc->cols.col[EVC_STACK], zigzag((int64_t)stack - enc->last_stack));
	enc->last_stack = stack;
}

static int add_alloc(struct events_enc *enc, const struct event *event, struct err *err)
{
	int rc = slot_room(enc, event->block.v, err);
	if (rc < 0)
		return rc;
	struct slot *slot = &enc->slots[event->block.v];
	if (slot->stack != SLOT_FREE)
		return err_set(err, -EINVAL, "block %u is allocated while it lives",
			       event->block.v);
	if (event->stack.v == SLOT_FREE)
		return err_set(err, -EINVAL, "stack number %u is out of range", event->stack.v);
	put_block(enc, event->block.v);
	put_stack(enc, event->stack.v);
	put_num(&enc->cols.col[EVC_BYTES], event->bytes);
	put_num(&enc->cols.col[EVC_ADDR], zigzag((int64_t)(event->addr - slot->addr)));
	*slot = (struct slot){ event->addr, event->bytes, event->stack.v };
	enc->open.allocations++;
	enc->open.bytes += event->bytes;
	return 0;
}

static int add_free(struct events_enc *enc, const struct event *event, struct err *err)
{
	if (event->block.v >= enc->slot_count || enc->slots[event->block.v].stack == SLOT_FREE)
		return err_set(err, -EINVAL, "block %u is freed but does not live", event->block.v);
	put_block(enc, event->block.v);
	put_num(&enc->cols.col[EVC_AUX], event->aux_stack.v);
	enc->slots[event->block.v].stack = SLOT_FREE;
	enc->open.frees++;
	return 0;
}

int events_enc_add(struct events_enc *enc, const struct event *event, struct err *err)
{
	struct buf *col = enc->cols.col;
	int rc = 0;
	if (event->kind == 0 || event->kind >= EVENT_KIND_MAX || event->flags > 15)
		return err_set(err, -EINVAL, "an event of kind %u cannot be recorded", event->kind);
	if (event->time_ns < enc->time)
		return err_set(err, -EINVAL, "time goes back from %" PRIu64 " to %" PRIu64 " ns",
			       enc->time, event->time_ns);
	if (event->kind == EVENT_ALLOC) {
		rc = add_alloc(enc, event, err);
	} else if (event->kind == EVENT_FREE) {
		rc = add_free(enc, event, err);
	} else {
		put_stack(enc, event->stack.v);
		put_num(&col[EVC_OTHER], event->addr);
		put_num(&col[EVC_OTHER], event->bytes);
		put_num(&col[EVC_OTHER], event->value);
		put_num(&col[EVC_OTHER], event->aux_stack.v);
		put_num(&col[EVC_OTHER], event->block.v);
		enc->open.frees += event->kind == EVENT_FREE_FOREIGN;
	}
	if (rc < 0)
		return rc;
	if (!enc->rows) {
		enc->block_time = enc->time = event->time_ns;
		enc->pending_time = 0;
		enc->thread = event->thread.v;
	}
	if (event->time_ns != enc->time) {
		put_run(&col[EVC_TIME], enc->time_run, enc->pending_time);
		enc->pending_time = event->time_ns - enc->time;
		enc->time_run = 0;
		enc->time = event->time_ns;
	}
	enc->time_run++;
	if (event->thread.v != enc->thread) {
		put_run(&col[EVC_THREAD], enc->thread_run, enc->thread);
		enc->thread_run = 0;
		enc->thread = event->thread.v;
	}
	enc->thread_run++;
	buf_putc(&col[EVC_KIND], (char)(event->kind | event->flags << 4));
	enc->rows++;
	enc->open.events++;
	return enc->rows == EVENTS_ROWS_MAX;
}

uint32_t events_enc_rows(const struct events_enc *enc)
{
	return enc->rows;
}

struct blt_cols *events_enc_block(struct events_enc *enc, struct blt_head *head)
{
	struct buf *col = enc->cols.col;
	put_run(&col[EVC_TIME], enc->time_run, enc->pending_time);
	put_run(&col[EVC_THREAD], enc->thread_run, enc->thread);
	put_num(&col[EVC_META], enc->kept.allocations);
	put_num(&col[EVC_META], enc->kept.bytes);
	put_num(&col[EVC_META], enc->kept.frees);
	*head = (struct blt_head){ .type = BLT_EVENTS,
				   .flags = BLT_F_KEY,
				   .rows = enc->rows,
				   .first = enc->kept.events,
				   .time_ns = enc->block_time };
	return &enc->cols;
}

void events_enc_clear(struct events_enc *enc, int kept)
{
	if (kept) {
		enc->kept.events += enc->open.events;
		enc->kept.allocations += enc->open.allocations;
		enc->kept.bytes += enc->open.bytes;
		enc->kept.frees += enc->open.frees;
	}
	enc->open = (struct events_tally){ 0 };
	blt_cols_clear(&enc->cols);
	enc->rows = enc->time_run = enc->thread_run = 0;
	enc->last_block = enc->last_stack = 0;
}

void events_enc_tally(const struct events_enc *enc, struct events_tally *kept,
		      struct events_tally *open)
{
	if (kept)
		*kept = enc->kept;
	if (open)
		*open = enc->open;
}

uint64_t events_enc_last_time(const struct events_enc *enc)
{
	return enc->time;
}
