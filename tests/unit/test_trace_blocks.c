/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "base/zblock.h"
#include "trace/block.h"
#include "trace/cursor.h"
#include "trace/events.h"
#include "trace/index.h"

/* An encoder whose blocks a decoder is given, or not. */
struct pipe {
	struct events_enc *enc;
	struct events_dec *dec;
	struct zblock_enc *zenc;
	struct zblock_dec *zdec;
	struct blt_flows flows;
	/* bytes of the last block */
	uint32_t stored;
	struct events_out out;
	uint64_t events, lost, frees, implied;
	/* allocations, bytes, frees that are told as missing */
	uint64_t damaged[3];
	struct err err;
};

static int take(void *ctx, struct event *events, size_t count, struct err *err)
{
	struct pipe *p = ctx;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		p->lost += events[i].kind == EVENT_LOST;
		if (events[i].kind == EVENT_LOST && events[i].value == LOSS_FILE_DAMAGED) {
			p->damaged[0] += events[i].addr;
			p->damaged[1] += events[i].bytes;
			p->damaged[2] += events[i].block.v;
		}
		p->frees += events[i].kind == EVENT_FREE;
		p->implied += events[i].kind == EVENT_FREE && events[i].flags & EVENT_F_IMPLIED;
	}
	p->events += count;
	return 0;
}

static int accept_id(void *ctx, uint32_t id, struct err *err)
{
	(void)ctx;
	(void)id;
	(void)err;
	return 0;
}

static void pipe_open(struct pipe *p)
{
	*p = (struct pipe){ 0 };
	err_init(&p->err);
	p->enc = events_enc_new(&p->err);
	p->zenc = zblock_enc_new(&p->err);
	p->zdec = zblock_dec_new(&p->err);
	p->out = (struct events_out){ take, accept_id, accept_id, p, BLT_VERSION, 1u << 20 };
	p->dec = events_dec_new(&p->out, &p->err);
	assert_true(p->enc && p->zenc && p->zdec && p->dec);
}

static void pipe_close(struct pipe *p)
{
	events_enc_free(p->enc);
	events_dec_free(p->dec);
	blt_flows_fini(&p->flows);
	zblock_enc_free(p->zenc);
	zblock_dec_free(p->zdec);
}

static void add_event(struct pipe *p, const struct event *event)
{
	size_t taken;
	assert_int_equal(events_enc_add(p->enc, event, 1, &taken, &p->err), 0);
}

static void add(struct pipe *p, enum event_kind kind, uint32_t block)
{
	const struct event event = {
		.kind = kind, .addr = 0x10000 + block * 64ull, .bytes = 32, .block.v = block
	};
	add_event(p, &event);
}

static void add_implied_free(struct pipe *p, uint32_t block)
{
	const struct event event = { .kind = EVENT_FREE,
				     .flags = EVENT_F_IMPLIED,
				     .addr = 0x10000 + block * 64ull,
				     .bytes = 32,
				     .block.v = block };
	add_event(p, &event);
}

/* End the block; a lost one never reaches the decoder. Return: the decoder's word. */
static int end_block(struct pipe *p, int lost, int key_next)
{
	struct blt_head head = { 0 }, read;
	struct blt_view view;
	CLEANUP(buf_fini) struct buf out = { 0 };
	CLEANUP(buf_fini) struct buf plain = { 0 };
	struct blt_cols *cols = events_enc_block(p->enc, &head);
	assert_int_equal(blt_pack(cols, &head, p->zenc, &out, &p->err), 0);
	events_enc_clear(p->enc, 1, key_next);
	p->stored = head.stored;
	if (lost)
		return 0;
	assert_true(blt_head_get((const uint8_t *)out.data, &read) > 0);
	assert_int_equal(blt_unpack_flow(&read, (const uint8_t *)out.data + BLT_BLOCK_HEADER,
					 p->zdec, &plain, &p->flows, &view),
			 0);
	return events_dec_block(p->dec, &read, &view, &p->err);
}

static void a_key_block_behind_a_lost_one_brings_more_slots_than_are_spare(void **state)
{
	(void)state;
	struct pipe p;
	pipe_open(&p);
	for (uint32_t i = 0; i < 4096; i++)
		add(&p, EVENT_ALLOC, i);
	for (uint32_t i = 0; i < 100; i++)
		add(&p, EVENT_FREE, i);
	assert_true(end_block(&p, 0, 1) >= 0);
	add(&p, EVENT_MARK, BLOCK_NONE);
	assert_true(end_block(&p, 0, 0) >= 0);
	for (uint32_t i = 0; i < 300; i++)
		add(&p, EVENT_ALLOC, i < 100 ? i : 4096 + i - 100);
	end_block(&p, 1, 1);
	add(&p, EVENT_MARK, BLOCK_NONE);
	assert_true(end_block(&p, 0, 0) >= 0);
	assert_true(p.lost > 0);
	pipe_close(&p);
}

/* glibc's way with small blocks: a thread's cache of seven, filled from a bin behind it that gives what came last. */
struct small_blocks {
	uint64_t cache[7], bin[20000], next, at[20000];
	uint32_t cached, binned;
};

static uint64_t give(struct small_blocks *b)
{
	uint64_t addr;
	if (b->cached)
		return b->cache[--b->cached];
	if (!b->binned)
		return b->next += 48;
	addr = b->bin[--b->binned];
	while (b->cached < 7 && b->binned)
		b->cache[b->cached++] = b->bin[--b->binned];
	return addr;
}

static void take_back(struct small_blocks *b, uint64_t addr)
{
	if (b->cached < 7)
		b->cache[b->cached++] = addr;
	else
		b->bin[b->binned++] = addr;
}

/* One round: @count blocks are made, and freed in @order. */
static void do_round(struct pipe *p, struct small_blocks *blocks, uint32_t count,
		     const uint32_t *order)
{
	struct event event = { .kind = EVENT_ALLOC, .bytes = 40 };
	for (uint32_t i = 0; i < count; i++) {
		event.block.v = i;
		event.addr = blocks->at[i] = give(blocks);
		add_event(p, &event);
	}
	event.kind = EVENT_FREE;
	for (uint32_t i = 0; i < count; i++) {
		event.block.v = order[i];
		event.addr = blocks->at[order[i]];
		add_event(p, &event);
		take_back(blocks, event.addr);
	}
}

static void what_repeats_itself_costs_little_from_the_second_block_on(void **state)
{
	(void)state;
	enum { COUNT = 20000 };
	static struct small_blocks blocks = { .next = 1 << 20 };
	static uint32_t order[COUNT];
	struct pipe p;
	uint32_t first = 0, seed = 1;
	for (uint32_t i = 0; i < COUNT; i++)
		order[i] = i;
	for (uint32_t i = COUNT - 1; i; i--) {
		seed = seed * 1103515245 + 12345;
		uint32_t with = seed / 65536 % (i + 1), was = order[i];
		order[i] = order[with];
		order[with] = was;
	}
	pipe_open(&p);
	for (int round = 0; round < 4; round++) {
		do_round(&p, &blocks, COUNT, order);
		assert_int_equal(end_block(&p, 0, 0), 0);
		if (!round)
			first = p.stored;
	}
	assert_int_equal(p.events, 4 * 2 * COUNT);
	assert_true(first > COUNT); /* an order that nobody can guess */
	assert_true(p.stored < first / 20);
	pipe_close(&p);
}

static void a_block_behind_a_lost_one_is_passed_over_until_the_next_key_block(void **state)
{
	(void)state;
	static struct small_blocks blocks = { .next = 1 << 20 };
	static uint32_t order[3000];
	struct pipe p;
	for (uint32_t i = 0; i < 3000; i++)
		order[i] = 2999 - i;
	pipe_open(&p);
	do_round(&p, &blocks, 3000, order);
	assert_int_equal(end_block(&p, 0, 0), 0);
	do_round(&p, &blocks, 3000, order);
	end_block(&p, 1, 0);
	do_round(&p, &blocks, 3000, order);
	assert_int_equal(end_block(&p, 0, 1), 1);
	assert_int_equal(p.events, 6000);
	do_round(&p, &blocks, 3000, order);
	assert_int_equal(end_block(&p, 0, 0), 0);
	do_round(&p, &blocks, 3000, order);
	assert_int_equal(end_block(&p, 0, 0), 0);
	assert_int_equal(p.events - p.lost, 18000);
	assert_int_equal(p.damaged[0], 6000);
	pipe_close(&p);
}

/*
 * A loss is counted once: a free that nobody saw by the EVENT_LOST of before, whether its block was damaged or not, and what a
 * damaged block spoke of as missing with it.
 */
static void what_was_lost_before_the_damage_is_counted_once(void **state)
{
	(void)state;
	struct pipe p;
	const struct event lost = {
		.kind = EVENT_LOST, .value = LOSS_RING_FULL, .addr = 1, .bytes = 10, .block.v = 2
	};
	const struct event maps = { .kind = EVENT_LOST, .value = LOSS_REGION, .addr = 1000 };
	const struct event culled = { .kind = EVENT_CULLED, .addr = 5, .bytes = 50, .block.v = 3 };
	const struct event filtered = { .kind = EVENT_FILTERED, .addr = 100, .value = 100 };
	pipe_open(&p);
	for (uint32_t i = 0; i < 4; i++)
		add(&p, EVENT_ALLOC, i);
	add_event(&p, &lost);
	assert_true(end_block(&p, 0, 0) >= 0);
	add_implied_free(&p, 0);
	add(&p, EVENT_FREE, 1);
	for (uint32_t i = 4; i < 6; i++) {
		/* of another size, so that the slots of the dead ones stay free */
		const struct event large = {
			.kind = EVENT_ALLOC, .addr = i << 20, .bytes = 4000, .block.v = i
		};
		add_event(&p, &large);
	}
	add_event(&p, &lost);
	add_event(&p, &maps);
	add_event(&p, &culled);
	add_event(&p, &filtered);
	end_block(&p, 1, 1);
	add_implied_free(&p, 2);
	add_implied_free(&p, 4);
	add(&p, EVENT_FREE, 5);
	add(&p, EVENT_FREE, 3);
	assert_true(end_block(&p, 0, 0) >= 0);
	/* of blocks 0 and 1 one free counts, whichever; of 4 and 5, whose allocations are missing, one does */
	assert_int_equal(p.implied, 2);
	assert_int_equal(p.frees - p.implied, 2);
	assert_int_equal(p.damaged[0], 2 + 1 + 5);
	assert_int_equal(p.damaged[1], 8000 + 10 + 50);
	assert_int_equal(p.damaged[2], 0 + 2 + 5 + 1);
	pipe_close(&p);
}

/* Bytes that hardly repeat, but half of them are the same one. */
static void a_plain_column_is_packed_by_short_codes_and_comes_back(void **state)
{
	(void)state;
	struct pipe p;
	struct blt_cols cols = { .plain = 1 };
	struct blt_head head = { .type = BLT_EVENTS }, read;
	struct blt_view view;
	CLEANUP(buf_fini) struct buf out = { 0 };
	CLEANUP(buf_fini) struct buf raw = { 0 };
	uint32_t random = 1;
	pipe_open(&p);
	for (unsigned i = 0; i < 65536; i++) {
		random = random * 1664525 + 1013904223;
		buf_putc(&cols.col[0], random >> 31 ? 0 : (char)(random >> 24));
		buf_putc(&cols.col[1], random >> 31 ? 0 : (char)(random >> 24));
	}
	assert_int_equal(blt_pack(&cols, &head, p.zenc, &out, &p.err), 0);
	assert_true(blt_head_get((const uint8_t *)out.data, &read) > 0);
	assert_int_equal(blt_unpack(&read, (const uint8_t *)out.data + BLT_BLOCK_HEADER, p.zdec,
				    &raw, &view),
			 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(view.raw[i], 65536);
		assert_memory_equal(view.col[i].at, cols.col[i].data, 65536);
		assert_in_range(view.stored[i], 32768, 65536 * 3 / 4);
	}
	blt_cols_fini(&cols);
	pipe_close(&p);
}

static void an_index_holds_no_more_entries_than_the_file_has_room_for(void **state)
{
	(void)state;
	CLEANUP(buf_fini) struct buf wild = { 0 };
	CLEANUP(buf_fini) struct buf sound = { 0 };
	struct index index = { 0 };
	struct events_tally tally = { 0 };
	struct err err;
	struct blt_head head = { .type = BLT_EVENTS };
	err_init(&err);
	for (unsigned i = 0; i < 5; i++)
		put_num(&wild, 0);
	put_num(&wild, 1000000);
	for (unsigned i = 0; i < 3000000; i++)
		put_num(&wild, 0);
	const uint8_t *at = (const uint8_t *)wild.data;
	assert_int_equal(index_get(&index, &tally, at, at + wild.len, wild.len), -EBADMSG);
	assert_true(index.count <= 1);
	index_fini(&index);

	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(
			index_add(&index, BLT_FILE_HEADER + i * BLT_BLOCK_HEADER, &head, &err), 0);
	index_put(&index, &tally, &sound);
	index_fini(&index);
	const uint64_t end = BLT_FILE_HEADER + 10 * BLT_BLOCK_HEADER;
	at = (const uint8_t *)sound.data;
	assert_int_equal(index_get(&index, &tally, at, at + sound.len, end), 0);
	assert_int_equal(index.count, 10);
	index_fini(&index);
	assert_int_equal(index_get(&index, &tally, at, at + sound.len, end - 1), -EBADMSG);
	index_fini(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_block_behind_a_lost_one_brings_more_slots_than_are_spare),
		cmocka_unit_test(what_repeats_itself_costs_little_from_the_second_block_on),
		cmocka_unit_test(a_block_behind_a_lost_one_is_passed_over_until_the_next_key_block),
		cmocka_unit_test(what_was_lost_before_the_damage_is_counted_once),
		cmocka_unit_test(a_plain_column_is_packed_by_short_codes_and_comes_back),
		cmocka_unit_test(an_index_holds_no_more_entries_than_the_file_has_room_for),
	};
	return cmocka_run_group_tests_name("trace_blocks", tests, NULL, NULL);
}
