/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "source/heaptrack_impl.h"

int ht_flush(struct ht_reader *r)
{
	if (!r->batched)
		return 0;
	int rc = r->sink->put(r->sink, r->batch, r->batched, r->err);
	r->batched = 0;
	r->events_sent = 1;
	return rc;
}

struct event *ht_add_event(struct ht_reader *r, enum event_kind kind, int *rc)
{
	*rc = 0;
	if (r->batched == HT_BATCH)
		*rc = ht_flush(r);
	if (*rc == 0 && (!r->process_defined || r->process_stale))
		*rc = ht_begin(r);
	if (*rc < 0)
		return NULL;
	struct event *event = &r->batch[r->batched++];
	*event = (struct event){ .kind = (uint8_t)kind,
				 .time_ns = r->time_ns,
				 .block = { BLOCK_NONE } };
	return event;
}

int ht_lose(struct ht_reader *r, uint64_t allocations, uint32_t frees)
{
	int rc;
	struct event *event = ht_add_event(r, EVENT_LOST, &rc);
	if (!event)
		return rc;
	event->value = LOSS_FILE_DAMAGED;
	event->addr = allocations;
	event->block.v = frees;
	r->info->skipped++;
	return 0;
}

static inline int put_block(struct ht_reader *r, enum event_kind kind, uint64_t addr,
			    uint64_t bytes, uint32_t stack, uint32_t block, int temporary)
{
	struct event *event;
	int rc;
	/*
	 * nearly always there is room and nothing to tell before: one event is one round of stores
	 */
	if (r->batched < HT_BATCH && r->process_defined && !r->process_stale)
		event = &r->batch[r->batched++];
	else if (!(event = ht_add_event(r, kind, &rc)))
		return rc;
	*event = (struct event){ .kind = (uint8_t)kind,
				 .flags = temporary ? EVENT_F_TEMPORARY : 0,
				 .time_ns = r->time_ns,
				 .addr = addr,
				 .bytes = bytes,
				 .stack = { stack },
				 .block = { block } };
	return 0;
}

static int put_foreign(struct ht_reader *r, uint64_t addr)
{
	int rc;
	struct event *event = ht_add_event(r, EVENT_FREE_FOREIGN, &rc);
	if (event)
		event->addr = addr;
	return rc;
}

static int class_alloc(struct ht_reader *r, uint64_t number)
{
	if (number >= r->class_count)
		return ht_lose(r, 1, 0);
	struct class_row *row = &r->classes[r->classes[number].home];
	uint32_t block;
	int rc = ht_blocks_take(&r->blocks, 0, r->opt.max_live, &block);
	if (rc < 0)
		return ht_table_failed(r, rc, "live blocks");
	r->blocks.next[block] = row->live;
	row->live = block + 1;
	r->last_alloc = number;
	r->last_valid = 1;
	return put_block(r, EVENT_ALLOC, 0, row->bytes, row->stack, block, 0);
}

static int class_free(struct ht_reader *r, uint64_t number)
{
	int temporary = r->last_valid && r->last_alloc == number;
	r->last_valid = 0;
	if (number >= r->class_count)
		return ht_lose(r, 0, 1);
	struct class_row *row = &r->classes[r->classes[number].home];
	if (!row->live)
		return put_foreign(r, 0);
	uint32_t block = row->live - 1;
	row->live = r->blocks.next[block];
	ht_blocks_give_back(&r->blocks, block);
	return put_block(r, EVENT_FREE, 0, row->bytes, row->stack, block, temporary);
}

static int pointer_free(struct ht_reader *r, uint64_t pointer)
{
	int temporary = r->last_valid && r->last_alloc == pointer;
	uint32_t block;
	if (!ht_map_take(&r->block_of_pointer, pointer, &block))
		return put_foreign(r, pointer);
	r->last_valid = 0;
	struct ht_block was = r->blocks.block[block];
	ht_blocks_give_back(&r->blocks, block);
	return put_block(r, EVENT_FREE, pointer, was.bytes, was.stack, block, temporary);
}

static int pointer_alloc(struct ht_reader *r, uint64_t bytes, uint64_t trace, uint64_t pointer)
{
	if (trace > r->stacks || bytes > INT64_MAX)
		return ht_lose(r, 1, 0);
	uint32_t block;
	int rc;
	if (ht_map_find(&r->block_of_pointer, pointer, &block)) {
		/* heaptrack does not see every free (realloc(p, 0)); the address is proof of one */
		r->last_valid = 0;
		r->info->implied++;
		rc = pointer_free(r, pointer);
		if (rc < 0)
			return rc;
	}
	rc = ht_blocks_take(&r->blocks, 1, r->opt.max_live, &block);
	if (rc < 0)
		return ht_table_failed(r, rc, "live blocks");
	r->blocks.block[block] = (struct ht_block){ .bytes = bytes, .stack = (uint32_t)trace };
	if (ht_map_set(&r->block_of_pointer, pointer, block) < 0)
		return ht_no_memory(r);
	r->last_alloc = pointer;
	r->last_valid = 1;
	return put_block(r, EVENT_ALLOC, pointer, bytes, (uint32_t)trace, block, 0);
}

int ht_short_lines(struct ht_reader *r)
{
	if (r->kind != KIND_INTERPRETED || r->info->format == 0 || r->in_cmdline)
		return 0;
	const char *p = r->lines.text + r->lines.pos, *end = r->lines.text + r->lines.len;
	uint64_t lines = 0, first, parent;
	int rc = 0;
	/*
	 * kind, space, number, space, number, newline; the last number may be looked at as a whole
	 */
	while (rc == 0 && end - p >= 3 + 2 * HT_SHORT_HEX_BYTES && p[1] == ' ') {
		const char *at = p + 2;
		char kind = *p;
		unsigned digits = ht_short_hex(at, &first);
		at += digits;
		if (digits == 0 || digits == 8)
			break;
		if (kind == 't' && *at == ' ') {
			digits = ht_short_hex(++at, &parent);
			at += digits;
			if (digits == 0 || digits == 8 || *at != '\n')
				break;
			rc = ht_trace(r, first, parent);
		} else if (kind == '+' && *at == '\n') {
			rc = class_alloc(r, first);
		} else if (kind == '-' && *at == '\n') {
			rc = class_free(r, first);
		} else {
			break;
		}
		lines++;
		p = at + 1;
	}
	r->lines.pos = (size_t)(p - r->lines.text);
	r->info->lines += lines;
	return rc;
}

static int with_pointers(const struct ht_reader *r)
{
	return r->info->format == 0 || r->kind != KIND_INTERPRETED;
}

int ht_on_alloc(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t first, trace, pointer;
	if (!ht_take_hex(&at, end, &first))
		return ht_lose(r, 1, 0);
	if (!with_pointers(r))
		return class_alloc(r, first);
	if (!ht_take_hex(&at, end, &trace) || !ht_take_hex(&at, end, &pointer))
		return ht_lose(r, 1, 0);
	return pointer_alloc(r, first, trace, pointer);
}

int ht_on_free(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t value;
	if (!ht_take_hex(&at, end, &value))
		return ht_lose(r, 0, 1);
	return with_pointers(r) ? pointer_free(r, value) : class_free(r, value);
}
