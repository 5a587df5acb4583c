/* SPDX-License-Identifier: Apache-2.0 */
/* What was lost, what that leaves uncertain, and what is handed on of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "heap_fixture.h"
#include "source/heap_internal.h"

static void lost_frees_are_reported_and_explain_reused_addresses(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 10, 0); /* its free is lost, its address comes again */
	produce_alloc(&f.a, 0x2000, 20, 0); /* was live when the free was lost */
	produce_alloc(&f.a, 0x3000, 30, 0); /* likewise, but seen freed */
	f.a.slot->lost[WIRE_LOST_RING_FULL] = (struct wire_lost_count){ 3, 300, 1 };
	produce(&f.a, 2, word0(WIRE_LOST, 1u << WIRE_LOST_BITS | 3), 300, 0);
	produce_alloc(&f.a, 0x1000, 11, 0);
	produce_free(&f.a, 0x3000);
	produce_alloc(&f.a, 0x4000, 40, 0);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->lost_allocs, 3);
	assert_int_equal(f.books->lost_bytes, 300);
	assert_int_equal(f.books->lost_frees, 1);
	assert_int_equal(f.books->implied, 1);
	assert_int_equal(f.books->lost_events[LOSS_DISORDER], 0);
	fixture_close(&f);
}

static void a_loss_is_placed_behind_what_was_allocated_before_it(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 10, 0);
	produce(&f.a, 2, word0(WIRE_LOST, 1u << WIRE_LOST_BITS), 0, 0);
	produce_alloc(&f.a, 0x2000, 20, 0);
	produce(&f.a, 2, word0(WIRE_LOST, 1u << WIRE_LOST_BITS), 0, 0);
	produce_alloc(&f.a, 0x3000, 30, 0);
	/* the recorder sees both frees counted when it reads of the first; a third has nothing behind it */
	f.a.slot->lost[WIRE_LOST_RING_FULL] = (struct wire_lost_count){ 0, 0, 2 };
	fixture_drain(&f);
	assert_int_equal(f.books->lost_frees, 2);
	assert_int_equal(f.books->lost_events[LOSS_RING_FULL], 2);
	assert_int_equal(f.books->allocs_at_loss, 2);
	f.a.slot->lost[WIRE_LOST_RING_FULL].frees = 3;
	struct err err = { 0 };
	assert_int_equal(source_heap_housekeep(f.heap, &f.books->sink, 0, &err), 0);
	produce_alloc(&f.a, 0x4000, 40, 0);
	fixture_finish(&f);
	assert_int_equal(f.books->lost_frees, 3);
	assert_int_equal(f.books->lost_events[LOSS_RING_FULL], 4);
	assert_int_equal(f.books->allocs_at_loss, 4);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* The child of a fork takes over what lives in @f: the sink that goes on taking for it. */
static struct sink *hand_on(struct fixture *f, struct fixture *child)
{
	struct err err = { 0 };
	child->a.header->target_pid = 77;
	struct sink *taker = source_heap_inherit(child->heap, &child->books->sink, &err);
	assert_non_null(taker);
	assert_int_equal(source_heap_snapshot(f->heap, taker, &err), 0);
	return taker;
}

/* What another process hands on is not to be trusted: two such addresses could stand for one block. */
static void an_inherited_address_that_no_record_could_name_is_left_out(void **state)
{
	(void)state;
	struct fixture f, child;
	struct err err = { 0 };
	fixture_open(&f);
	fixture_open(&child);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 10, 0);
	fixture_drain(&f);
	struct sink *taker = hand_on(&f, &child);
	struct event beyond = { .kind = EVENT_ALLOC, .addr = 1ULL << 63 | 0x9000, .bytes = 20 };
	struct event last = { .kind = EVENT_ALLOC, .addr = (1ULL << 56) - 16, .bytes = 30 };
	assert_int_equal(taker->put(taker, &beyond, 1, &err), 0);
	assert_int_equal(taker->put(taker, &last, 1, &err), 0);
	struct source_heap_stats stats;
	source_heap_stats(child.heap, &stats);
	assert_int_equal(stats.live_blocks, 2);
	assert_int_equal(stats.live_bytes, 10 + 30);
	fixture_close(&child);
	fixture_close(&f);
}

/* A loss told before is not told again to who begins in the middle; what it made of the blocks is. */
static void blocks_that_a_lost_free_may_have_released_are_handed_on_in_front_of_a_loss(void **state)
{
	(void)state;
	struct fixture f, child;
	struct err err = { 0 };
	fixture_open(&f);
	fixture_open(&child);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 10, 0);
	produce_alloc(&f.a, 0x2000, 20, 0);
	f.a.slot->lost[WIRE_LOST_RING_FULL] = (struct wire_lost_count){ 0, 0, 1 };
	produce(&f.a, 2, word0(WIRE_LOST, 1u << WIRE_LOST_BITS), 0, 0);
	produce_free(&f.a, 0x2000);
	produce_alloc(&f.a, 0x2000, 21, 0); /* in the row of an older block */
	produce_alloc(&f.a, 0x3000, 30, 0);
	fixture_drain(&f);
	hand_on(&f, &child);
	assert_int_equal(child.books->allocs, 3);
	assert_int_equal(child.books->lost_events[LOSS_RING_FULL], 1);
	assert_int_equal(child.books->allocs_at_loss, 1);
	struct books *next_file = books_new();
	assert_int_equal(source_heap_renew(f.heap, &next_file->sink, &err), 0);
	assert_int_equal(next_file->allocs, 3);
	assert_int_equal(next_file->lost_events[LOSS_RING_FULL], 1);
	assert_int_equal(next_file->allocs_at_loss, 1);
	assert_int_equal(next_file->lost_frees + child.books->lost_frees, 0);
	assert_int_equal(next_file->wrong + child.books->wrong, 0);
	free(next_file);
	fixture_close(&child);
	fixture_close(&f);
}

static void a_live_address_given_out_again_without_any_loss_counts_as_disorder(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 10, 0);
	produce_alloc(&f.a, 0x1000, 12, 0);
	fixture_drain(&f);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->lost_events[LOSS_DISORDER], 1);
	assert_int_equal(f.books->live_bytes, 12);
	fixture_close(&f);
}

/* Each of them could be of a block that stands behind in the other ring: looking for that every time took minutes. */
static void many_frees_of_lost_blocks_in_two_rings_are_read_at_once(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	const uint64_t count = f.a.slot->ring_bytes / 32;
	for (uint64_t i = 0; i < count; i++) {
		produce_free(&f.a, 0x10000000 + i * 16);
		produce_free(&f.b, 0x20000000 + i * 16);
	}
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->foreign, 2 * count);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

static void frees_lost_before_the_start_make_no_block_uncertain(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	struct err err = { 0 };
	f.a.header->lost[WIRE_LOST_EARLY] = (struct wire_lost_count){ 5, 50, 3 };
	assert_int_equal(source_heap_housekeep(f.heap, &f.books->sink, 0, &err), 0);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 10, 0);
	produce_alloc(&f.a, 0x1000, 10, 0); /* such a free explains no address given out again */
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->lost_events[LOSS_EARLY], 1);
	assert_int_equal(f.books->lost_events[LOSS_DISORDER], 1);
	fixture_close(&f);
}

static void a_count_of_losses_that_runs_backwards_tells_nothing(void **state)
{
	(void)state;
	static const struct wire_lost_count told[] = { { 7, 99, 7 }, { 99, 7, 7 }, { 99, 99, 1 } };
	struct fixture f;
	struct err err = { 0 };
	fixture_open(&f);
	f.a.slot->lost[WIRE_LOST_RING_FULL] = (struct wire_lost_count){ 50, 50, 5 };
	assert_int_equal(source_heap_housekeep(f.heap, &f.books->sink, 0, &err), 0);
	for (unsigned i = 0; i < 3; i++) {
		f.a.slot->lost[WIRE_LOST_RING_FULL] = told[i];
		assert_int_equal(source_heap_housekeep(f.heap, &f.books->sink, 0, &err), 0);
	}
	assert_int_equal(f.books->lost_allocs, 50);
	assert_int_equal(f.books->lost_bytes, 50);
	assert_int_equal(f.books->lost_frees, 5);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_frees_are_reported_and_explain_reused_addresses),
		cmocka_unit_test(a_loss_is_placed_behind_what_was_allocated_before_it),
		cmocka_unit_test(an_inherited_address_that_no_record_could_name_is_left_out),
		cmocka_unit_test(
			blocks_that_a_lost_free_may_have_released_are_handed_on_in_front_of_a_loss),
		cmocka_unit_test(
			a_live_address_given_out_again_without_any_loss_counts_as_disorder),
		cmocka_unit_test(many_frees_of_lost_blocks_in_two_rings_are_read_at_once),
		cmocka_unit_test(frees_lost_before_the_start_make_no_block_uncertain),
		cmocka_unit_test(a_count_of_losses_that_runs_backwards_tells_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
