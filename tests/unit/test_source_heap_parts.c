/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the heap source, each alone: clock, books, names, and the choice among rings. No shared file, no program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/heap_books.h"
#include "source/heap_clock.h"
#include "source/heap_merge.h"
#include "source/heap_names.h"

/* ---- clock ------------------------------------------------------------------------------------------------------- */

static void times_are_interpolated_and_never_decrease(void **state)
{
	(void)state;
	struct heap_clock clock = { 0 };
	heap_clock_init(&clock, 1000, 500);
	heap_clock_add(&clock, 3000, 1500); /* half a nanosecond a cycle */
	heap_clock_add(&clock, 4000, 3500); /* then two */
	assert_int_equal(heap_clock_ns(&clock, 1000), 0);
	assert_int_equal(heap_clock_ns(&clock, 2000), 500);
	assert_int_equal(heap_clock_ns(&clock, 3500), 2000);
	assert_int_equal(heap_clock_ns(&clock, 4500), 4000);
	uint64_t last = 0;
	for (uint64_t cycles = 0; cycles < 6000; cycles += 7) {
		uint64_t ns = heap_clock_ns(&clock, cycles);
		assert_true(ns >= last);
		last = ns;
	}
}

static void a_moment_that_does_not_advance_both_clocks_is_none(void **state)
{
	(void)state;
	struct heap_clock clock = { 0 };
	heap_clock_init(&clock, 1000, 500);
	heap_clock_add(&clock, 3000, 1500);
	heap_clock_add(&clock, 3000, 9000);
	heap_clock_add(&clock, 5000, 1500);
	assert_int_equal(heap_clock_ns(&clock, 5000), 2000);
}

static void a_counter_that_jumps_back_keeps_its_rate(void **state)
{
	(void)state;
	struct heap_clock clock = { 0 };
	heap_clock_init(&clock, 1000, 500);
	heap_clock_add(&clock, 3000, 1500);
	heap_clock_add(&clock, 100, 10500);
	assert_int_equal(heap_clock_ns(&clock, 100), 10000);
	assert_int_equal(heap_clock_ns(&clock, 300), 10100);
}

static void a_stamp_of_56_bits_is_the_one_near_the_last_moment(void **state)
{
	(void)state;
	const uint64_t span = 1ULL << 56;
	struct heap_clock clock = { 0 };
	heap_clock_init(&clock, span - 5, 500);
	assert_true(heap_clock_full(&clock, span - 5) == span - 5);
	assert_true(heap_clock_full(&clock, 3) == span + 3);
	heap_clock_init(&clock, span + 3, 500);
	assert_true(heap_clock_full(&clock, span - 5) == span - 5);
}

/* ---- books ------------------------------------------------------------------------------------------------------- */

static void open_books(struct heap_books *books)
{
	struct err err = { 0 };
	memset(books, 0, sizeof(*books));
	assert_int_equal(heap_books_init(books, 42, &err), 0);
}

static void a_debt_is_settled_by_its_address_and_the_oldest_first(void **state)
{
	(void)state;
	static struct heap_books books;
	struct heap_debt debt;
	open_books(&books);
	for (uint32_t i = 0; i < 3; i++)
		heap_owe(&books, (struct heap_debt){ .addr = 0x1000, .ns = i, .thread = i });
	heap_owe(&books, (struct heap_debt){ .addr = 0x1000, .ns = 9, .credit = true });
	heap_owe(&books, (struct heap_debt){ .addr = 0x2000, .ns = 7 });
	assert_int_equal(books.debt_count, 5);
	assert_int_equal(books.credit_count, 1);
	assert_false(heap_settle_debt(&books, 0x3000, false, &debt));
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(heap_settle_debt(&books, 0x1000, false, &debt));
		assert_int_equal(debt.thread, i);
	}
	assert_false(heap_settle_debt(&books, 0x1000, false, &debt));
	assert_true(heap_settle_debt(&books, 0x1000, true, &debt));
	assert_int_equal(debt.ns, 9);
	assert_int_equal(books.credit_count, 0);
	assert_true(heap_settle_debt(&books, 0x2000, false, &debt));
	assert_int_equal(books.debt_count, 0);
	heap_books_fini(&books);
}

static void debts_that_nobody_claims_fall_due_each_once(void **state)
{
	(void)state;
	static struct heap_books books;
	struct heap_debt debt;
	uint32_t at = 0, due = 0;
	open_books(&books);
	for (uint32_t i = 0; i < HEAP_DEBTS; i++)
		heap_owe(&books, (struct heap_debt){ .addr = 16 * (uint64_t)(i + 1), .ns = i });
	while (heap_debt_due(&books, HEAP_DEBT_NS + 99, &at, &debt)) {
		assert_true(debt.ns <= 99);
		due++;
	}
	assert_int_equal(due, 100);
	assert_int_equal(books.debt_count, HEAP_DEBTS - 100);
	/* the others are found as before, wherever they were moved */
	for (uint32_t i = 100; i < 200; i++)
		assert_true(heap_settle_debt(&books, 16 * (uint64_t)(i + 1), false, &debt));
	for (at = 0; heap_debt_due(&books, UINT64_MAX, &at, &debt);)
		due++;
	assert_int_equal(due, HEAP_DEBTS - 100);
	assert_int_equal(books.debt_count, 0);
	heap_books_fini(&books);
}

static void a_free_is_remembered_for_a_second(void **state)
{
	(void)state;
	static struct heap_books books;
	const uint64_t at = 5000000000u;
	open_books(&books);
	heap_note_free(&books, 0x1000, at);
	assert_true(heap_freed_lately(&books, 0x1000, at));
	assert_true(heap_freed_lately(&books, 0x1000, at + HEAP_DEBT_NS - 2000000));
	assert_false(heap_freed_lately(&books, 0x1000, at + 2 * (uint64_t)HEAP_DEBT_NS));
	assert_false(heap_freed_lately(&books, 0x1010, at));
	heap_books_fini(&books);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

#define NODES 1024
struct image { /* what a program's tables look like, in memory of the test's own */
	struct wire_heap_header header;
	struct wire_module modules[2];
	char strings[64];
	struct wire_node nodes[NODES];
};

struct told {
	struct sink sink;
	unsigned modules, frames, stacks, threads;
	struct def last_frame, last_stack;
	char thread[32], module[64];
};

static int tell(struct sink *sink, const struct def *def, struct err *err)
{
	struct told *told = (struct told *)sink;
	(void)err;
	switch (def->kind) {
	case DEF_MODULE:
		told->modules++;
		snprintf(told->module, sizeof(told->module), "%s", def->module.path);
		break;
	case DEF_FRAME:
		told->frames++;
		told->last_frame = *def;
		break;
	case DEF_STACK:
		told->stacks++;
		told->last_stack.id = def->id;
		told->last_stack.stack = def->stack;
		break;
	case DEF_THREAD:
		told->threads++;
		snprintf(told->thread, sizeof(told->thread), "%s",
			 def->thread.name ? def->thread.name : "");
		break;
	default:
		break;
	}
	return 0;
}

struct named {
	struct image *image;
	struct heap_tables tables;
	struct told told;
	struct heap_out out;
	struct err err;
	struct heap_names names;
};

static void open_names(struct named *n)
{
	memset(n, 0, sizeof(*n));
	struct image *image = n->image = calloc(1, sizeof(*image));
	assert_non_null(image);
	image->header.modules_off = offsetof(struct image, modules);
	image->header.module_max = 2;
	image->header.strings_off = offsetof(struct image, strings);
	image->header.string_bytes = sizeof(image->strings);
	image->header.nodes_off = offsetof(struct image, nodes);
	image->header.node_max = NODES;
	memcpy(image->strings, "/bin/program", 12);
	image->modules[0] = (struct wire_module){
		.lo = 0x10000, .hi = 0x20000, .bias = 0x10000, .path_len = 12, .gen_from = 0
	};
	image->header.module_count = 1;
	n->tables = (struct heap_tables){ .base = (char *)image,
					  .base_bytes = sizeof(*image),
					  .layout = image->header,
					  .header = &image->header };
	n->told.sink.define = tell;
	n->out = (struct heap_out){ &n->told.sink, &n->err };
	assert_int_equal(heap_names_init(&n->names, &n->tables, &n->out, &n->err), 0);
}

static void close_names(struct named *n)
{
	heap_names_fini(&n->names);
	free(n->image);
}

static void a_stack_is_defined_from_the_outside_in_and_once(void **state)
{
	(void)state;
	struct named n;
	uint32_t stack, again, first = WIRE_STOP_MAX;
	open_names(&n);
	n.image->nodes[first] = (struct wire_node){ .pc = 0x10101 };
	n.image->nodes[first + 1] = (struct wire_node){ .pc = 0x10201, .parent = first };
	n.image->nodes[first + 2] = (struct wire_node){ .pc = 0x10301, .parent = first + 1 };
	n.image->header.node_count = first + 3;
	assert_int_equal(heap_define_stack(&n.names, first + 2, &stack), HEAP_RUN_EMPTY);
	assert_int_equal(n.told.modules, 1);
	assert_string_equal(n.told.module, "/bin/program");
	assert_int_equal(n.told.frames, 3);
	assert_int_equal(n.told.stacks, 3);
	assert_int_equal(n.told.last_stack.id, stack);
	assert_int_equal(n.told.last_frame.frame.offset, 0x300);
	assert_int_equal(heap_define_stack(&n.names, first + 2, &again), HEAP_RUN_EMPTY);
	assert_int_equal(again, stack);
	assert_int_equal(n.told.stacks, 3);
	/* the same path by other numbers is the same stack */
	n.image->nodes[first + 3] = (struct wire_node){ .pc = 0x10201, .parent = first };
	n.image->header.node_count = first + 4;
	assert_int_equal(heap_define_stack(&n.names, first + 3, &again), HEAP_RUN_EMPTY);
	assert_int_equal(again, n.names.node_stack[first + 1]);
	assert_int_equal(n.told.stacks, 3);
	close_names(&n);
}

static void a_node_that_breaks_the_rules_is_refused(void **state)
{
	(void)state;
	struct named n;
	uint32_t stack, first = WIRE_STOP_MAX;
	open_names(&n);
	n.image->nodes[first] = (struct wire_node){ .pc = 0x10101, .parent = first };
	n.image->nodes[first + 1] = (struct wire_node){ .pc = 0x10101, .parent = first + 9 };
	n.image->header.node_count = first + 3;
	assert_int_equal(heap_define_stack(&n.names, first, &stack), HEAP_RUN_BAD);
	assert_int_equal(heap_define_stack(&n.names, first + 1, &stack), HEAP_RUN_BAD);
	assert_int_equal(heap_define_stack(&n.names, first + 2, &stack),
			 HEAP_RUN_BAD); /* unwritten */
	assert_int_equal(heap_define_stack(&n.names, NODES + 5, &stack), HEAP_RUN_BAD);
	assert_int_equal(n.told.stacks, 0);
	close_names(&n);
}

static void a_module_row_that_makes_no_sense_leaves_bare_addresses(void **state)
{
	(void)state;
	struct named n;
	uint32_t stack, first = WIRE_STOP_MAX;
	open_names(&n);
	n.image->modules[0].path_off = 60; /* ends behind the strings */
	n.image->nodes[first] = (struct wire_node){ .pc = 0x10101 };
	n.image->header.node_count = first + 1;
	assert_int_equal(heap_define_stack(&n.names, first, &stack), HEAP_RUN_EMPTY);
	assert_int_equal(n.told.modules, 0);
	assert_int_equal(n.told.last_frame.frame.module.v, 0);
	assert_int_equal(n.told.last_frame.frame.offset, 0x10100);
	n.image->header.module_count = 3; /* more than there is room for */
	n.image->nodes[first + 1] = (struct wire_node){ .pc = 0x10201, .parent = first };
	assert_int_equal(heap_define_stack(&n.names, first + 1, &stack), HEAP_RUN_BAD);
	close_names(&n);
}

static void a_thread_is_one_row_until_its_number_is_used_again(void **state)
{
	(void)state;
	struct named n;
	uint32_t a, b;
	open_names(&n);
	assert_int_equal(heap_thread_of(&n.names, 77, 10, &a), HEAP_RUN_EMPTY);
	assert_int_equal(heap_thread_of(&n.names, 77, 20, &b), HEAP_RUN_EMPTY);
	assert_int_equal(a, b);
	assert_int_equal(n.told.threads, 1);
	assert_false(heap_is_called(&n.names, a, "worker\0\0\0\0\0\0\0\0\0"));
	assert_int_equal(heap_call_thread(&n.names, a, "worker\0\0\0\0\0\0\0\0\0"), HEAP_RUN_EMPTY);
	assert_string_equal(n.told.thread, "worker");
	assert_true(heap_is_called(&n.names, a, "worker\0\0\0\0\0\0\0\0\0"));
	n.names.threads[a].ended = true;
	n.names.threads[a].end_ns = 30;
	assert_int_equal(heap_thread_of(&n.names, 77, 40, &b), HEAP_RUN_EMPTY);
	assert_int_equal(a, b); /* a late record of the same one */
	assert_int_equal(heap_thread_of(&n.names, 77, 1000000000, &b), HEAP_RUN_EMPTY);
	assert_int_not_equal(a, b);
	assert_int_equal(heap_thread_of(&n.names, 0, 50, &b), HEAP_RUN_BAD);
	close_names(&n);
}

static void another_sink_is_told_of_everything_anew(void **state)
{
	(void)state;
	struct named n;
	uint32_t stack, thread, first = WIRE_STOP_MAX;
	open_names(&n);
	n.image->nodes[first] = (struct wire_node){ .pc = 0x10101 };
	n.image->header.node_count = first + 1;
	assert_int_equal(heap_thread_of(&n.names, 77, 10, &thread), HEAP_RUN_EMPTY);
	assert_int_equal(heap_define_stack(&n.names, first, &stack), HEAP_RUN_EMPTY);
	struct told other = { .sink.define = tell };
	n.out.sink = &other.sink;
	assert_int_equal(heap_names_restart(&n.names), 0);
	assert_int_equal(other.threads, 1);
	assert_int_equal(heap_define_stack(&n.names, first, &stack), HEAP_RUN_EMPTY);
	assert_int_equal(stack, 1);
	assert_int_equal(other.modules, 1);
	assert_int_equal(other.frames, 1);
	assert_int_equal(other.stacks, 1);
	close_names(&n);
}

/* ---- the choice among rings -------------------------------------------------------------------------------------- */

#define RING_BYTES 4096u
struct rings {
	struct heap_books books;
	struct heap_merge merge;
	uint64_t words[3][RING_BYTES / 8];
	/* what free_by_realloc() says yes to */
	uint64_t released;
};

static bool is_released(void *ctx, uint64_t addr)
{
	return ((struct rings *)ctx)->released == addr;
}

static void open_rings(struct rings *r)
{
	struct err err = { 0 };
	memset(r, 0, sizeof(*r));
	open_books(&r->books);
	r->merge.books = &r->books;
	r->merge.free_by_realloc = is_released;
	r->merge.ctx = r;
	assert_int_equal(heap_merge_init(&r->merge, 3, &err), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct heap_ring *ring = &r->merge.rings[i];
		ring->base = (const char *)r->words[i];
		ring->mask = RING_BYTES - 1;
		r->merge.active[i] = i;
	}
	r->merge.active_count = 3;
	r->merge.epoch = 2;
	r->merge.look_left = LOOK_AHEAD_MOST;
}

static void close_rings(struct rings *r)
{
	heap_merge_fini(&r->merge);
	heap_books_fini(&r->books);
}

/* One record of @tag for @addr at @ring's end, of @bytes. */
static void put(struct rings *r, unsigned i, unsigned tag, uint64_t addr)
{
	struct heap_ring *ring = &r->merge.rings[i];
	r->words[i][ring->head / 8] = addr << 8 | tag;
	ring->head += heap_record_bytes[tag];
	ring->safe = ring->head;
}

static void waits(struct rings *r, unsigned i, enum heap_wait what, uint64_t addr,
		  uint64_t until_ns, uint64_t epoch)
{
	struct heap_ring *ring = &r->merge.rings[i];
	ring->wait = (uint8_t)what;
	ring->wait_addr = addr;
	ring->wait_until_ns = until_ns;
	ring->wait_epoch = epoch;
}

static void the_earliest_ring_goes_on_until_the_next_ones_stamp(void **state)
{
	(void)state;
	static struct rings r;
	uint64_t limit_ns;
	bool waiting, blocked;
	open_rings(&r);
	assert_null(heap_pick_next(&r.merge, &limit_ns, &waiting, &blocked));
	for (unsigned i = 0; i < 3; i++)
		put(&r, i, WIRE_MARK, 1);
	r.merge.rings[0].now_ns = 300;
	r.merge.rings[1].now_ns = 100;
	r.merge.rings[2].now_ns = 200;
	assert_ptr_equal(heap_pick_next(&r.merge, &limit_ns, &waiting, &blocked),
			 &r.merge.rings[1]);
	assert_int_equal(limit_ns, 200);
	assert_false(waiting || blocked);
	/* what is not safe yet holds up everything later */
	r.merge.rings[1].safe = r.merge.rings[1].tail;
	assert_null(heap_pick_next(&r.merge, &limit_ns, &waiting, &blocked));
	assert_true(blocked);
	close_rings(&r);
}

static void a_wait_ends_with_what_the_books_say(void **state)
{
	(void)state;
	static struct rings r;
	uint64_t limit_ns;
	uint32_t block;
	bool waiting, blocked;
	struct live_block row;
	open_rings(&r);
	put(&r, 0, WIRE_FREE, 0x1000);
	put(&r, 1, WIRE_ALLOC, 0x1000);
	r.merge.rings[1].now_ns = 50;
	waits(&r, 0, HEAP_WAIT_LIVE, 0x1000, UINT64_MAX, 1);
	assert_ptr_equal(heap_pick_next(&r.merge, &limit_ns, &waiting, &blocked),
			 &r.merge.rings[1]);
	assert_true(waiting);
	assert_int_equal(limit_ns, 0); /* look after each stamp whether it has ended */
	assert_int_equal(live_add(&r.books.live, 0x1000, 8, 1, &block), LIVE_OK);
	assert_ptr_equal(heap_pick_next(&r.merge, &limit_ns, &waiting, &blocked),
			 &r.merge.rings[0]);
	assert_false(waiting);
	/* and an allocation of an address that lives: until it is freed, or a realloc of another ring has released it */
	waits(&r, 1, HEAP_WAIT_DEAD, 0x1000, UINT64_MAX, 1);
	assert_false(heap_may_go_on(&r.merge, &r.merge.rings[1]));
	r.released = 0x1000;
	assert_true(heap_may_go_on(&r.merge, &r.merge.rings[1]));
	r.released = 0;
	live_remove(&r.books.live, 0x1000, &row);
	assert_true(heap_may_go_on(&r.merge, &r.merge.rings[1]));
	close_rings(&r);
}

static void a_wait_is_overtaken_when_everything_else_is_past_it(void **state)
{
	(void)state;
	static struct rings r;
	open_rings(&r);
	put(&r, 0, WIRE_FREE, 0x1000);
	put(&r, 1, WIRE_MARK, 1);
	r.merge.rings[0].now_ns = 10000;
	waits(&r, 0, HEAP_WAIT_LIVE, 0x1000, 20000, 1);
	r.merge.rings[1].now_ns = 20500; /* within what counters of two processors may differ by */
	assert_null(heap_pick_overtaken(&r.merge));
	r.merge.rings[1].now_ns = 21001;
	assert_ptr_equal(heap_pick_overtaken(&r.merge), &r.merge.rings[0]);
	close_rings(&r);
}

static void hopeless_is_what_stands_in_no_other_ring(void **state)
{
	(void)state;
	static struct rings r;
	open_rings(&r);
	/* ring 0 waits for what stands behind the waiting record of ring 1; nothing has what ring 1 waits for */
	put(&r, 0, WIRE_FREE, 0x1000);
	put(&r, 1, WIRE_FREE, 0x2000);
	put(&r, 1, WIRE_ALLOC, 0x1000);
	waits(&r, 0, HEAP_WAIT_LIVE, 0x1000, 100, 1);
	waits(&r, 1, HEAP_WAIT_LIVE, 0x2000, 100, 1);
	r.merge.rings[1].now_ns = 50;
	assert_ptr_equal(heap_pick_hopeless(&r.merge, UINT64_MAX), &r.merge.rings[1]);
	/* one that has just begun to wait is asked after the heads were read once more */
	waits(&r, 1, HEAP_WAIT_LIVE, 0x2000, 100, 2);
	assert_null(heap_pick_hopeless(&r.merge, UINT64_MAX));
	assert_int_equal(heap_count_past(&r.merge, 50000), 1);
	r.merge.epoch = 3;
	assert_int_equal(heap_count_past(&r.merge, 50000), 2);
	close_rings(&r);
}

static void rings_that_wait_for_each_other_go_on_with_the_earliest(void **state)
{
	(void)state;
	static struct rings r;
	open_rings(&r);
	put(&r, 0, WIRE_FREE, 0x1000);
	put(&r, 0, WIRE_ALLOC, 0x2000);
	put(&r, 1, WIRE_FREE, 0x2000);
	put(&r, 1, WIRE_ALLOC, 0x1000);
	waits(&r, 0, HEAP_WAIT_LIVE, 0x1000, 100, 1);
	waits(&r, 1, HEAP_WAIT_LIVE, 0x2000, 100, 1);
	r.merge.rings[0].now_ns = 60;
	r.merge.rings[1].now_ns = 50;
	assert_ptr_equal(heap_pick_hopeless(&r.merge, UINT64_MAX), &r.merge.rings[1]);
	assert_true(r.merge.rings[1].wait_ahead);
	close_rings(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_interpolated_and_never_decrease),
		cmocka_unit_test(a_moment_that_does_not_advance_both_clocks_is_none),
		cmocka_unit_test(a_counter_that_jumps_back_keeps_its_rate),
		cmocka_unit_test(a_stamp_of_56_bits_is_the_one_near_the_last_moment),
		cmocka_unit_test(a_debt_is_settled_by_its_address_and_the_oldest_first),
		cmocka_unit_test(debts_that_nobody_claims_fall_due_each_once),
		cmocka_unit_test(a_free_is_remembered_for_a_second),
		cmocka_unit_test(a_stack_is_defined_from_the_outside_in_and_once),
		cmocka_unit_test(a_node_that_breaks_the_rules_is_refused),
		cmocka_unit_test(a_module_row_that_makes_no_sense_leaves_bare_addresses),
		cmocka_unit_test(a_thread_is_one_row_until_its_number_is_used_again),
		cmocka_unit_test(another_sink_is_told_of_everything_anew),
		cmocka_unit_test(the_earliest_ring_goes_on_until_the_next_ones_stamp),
		cmocka_unit_test(a_wait_ends_with_what_the_books_say),
		cmocka_unit_test(a_wait_is_overtaken_when_everything_else_is_past_it),
		cmocka_unit_test(hopeless_is_what_stands_in_no_other_ring),
		cmocka_unit_test(rings_that_wait_for_each_other_go_on_with_the_earliest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
