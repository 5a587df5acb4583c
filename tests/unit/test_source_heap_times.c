/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles to nanoseconds, and the times that events get between two stamps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "heap_fixture.h"
#include "source/heap_internal.h"

static void cycles_become_nanoseconds_continuously_and_in_order(void **state)
{
	(void)state;
	struct heap_clock clock;
	const uint64_t c0 = 5ULL << 56, n0 = 1000000;
	heap_clock_init(&clock, c0, n0);
	uint64_t c = c0, n = n0;
	for (int i = 1; i <= 200; i++) { /* a counter whose rate wanders between 2 and 3 GHz */
		n += 1000000;
		c += 2000000 + (uint64_t)(i * 7919 % 1000) * 1000;
		heap_clock_add(&clock, c, n);
		assert_true(llabs((long long)(heap_clock_ns(&clock, c) - (n - n0))) <= 1);
	}
	uint64_t last = 0;
	for (uint64_t at = c - 40000000; at < c + 3000000; at += 1000) {
		uint64_t ns = heap_clock_ns(&clock, at);
		assert_true(ns >= last && (last == 0 || ns - last < 600));
		last = ns;
	}
	assert_int_equal(heap_clock_ns(&clock, 0), 0);
	assert_true(heap_clock_full(&clock, c & ((1ULL << 56) - 1)) == c);
	assert_true(heap_clock_full(&clock, (c - 12345) & ((1ULL << 56) - 1)) == c - 12345);
	assert_true(heap_clock_full(&clock, (c + 12345) & ((1ULL << 56) - 1)) == c + 12345);
}

/* A machine that slept, or was moved to another one: time goes on from where the other clock stands. */
static void a_counter_that_begins_anew_is_followed(void **state)
{
	(void)state;
	struct heap_clock clock;
	const uint64_t c0 = 1ULL << 50, ms = 1000000;
	heap_clock_init(&clock, c0, ms);
	heap_clock_add(&clock, c0 + 2 * ms, 2 * ms);
	heap_clock_add(&clock, 3000, 3 * ms);
	assert_int_equal(heap_clock_ns(&clock, 3000), 2 * ms);
	assert_int_equal(heap_clock_ns(&clock, 3000 + 2 * ms), 3 * ms);
	heap_clock_add(&clock, 3000 + 4 * ms, 4 * ms); /* it runs twice as fast there */
	assert_int_equal(heap_clock_ns(&clock, 3000 + 2 * ms), 2 * ms + ms / 2);
	assert_true(heap_clock_full(&clock, 5000) == 5000);
}

/* What is known of times, before it is rounded to what is promised. */
static void tell_all_digits(struct fixture *f)
{
	f->heap->told_mask = UINT64_MAX;
	f->heap->told_keep_ns = 0;
}

static void events_share_a_time_within_what_is_promised(void **state)
{
	(void)state;
	const uint64_t mask = (1ULL << 56) - 1;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	uint64_t last = 0;
	unsigned times = 0;
	for (unsigned i = 0; i < 400; i++) {
		uint64_t from = source_heap_now_ns(f.heap);
		produce(&f.a, 1, word0(WIRE_TIME, heap_cycles() & mask), 0, 0);
		produce_alloc(&f.a, 0x1000 + i * 64, 10, 0);
		produce(&f.a, 1, word0(WIRE_TIME, heap_cycles() & mask), 0, 0);
		uint64_t to = source_heap_now_ns(f.heap), told;
		fixture_drain(&f);
		told = f.books->last.time_ns;
		assert_true(told + SOURCE_HEAP_BOUND_NS >= from && told <= to + 50000);
		assert_true(told >= last);
		times += told != last;
		last = told;
		while (source_heap_now_ns(f.heap) < from + 20000)
			;
	}
	/* eight milliseconds at least; a new time each 0.87 at most */
	assert_in_range(times, 2, source_heap_now_ns(f.heap) / HEAP_TOLD_NS + 1);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

static void stamps_give_times_near_the_wall_and_hostile_ones_never_the_future(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	tell_all_digits(&f);
	produce_thread(&f.a, 1);
	uint64_t before = source_heap_now_ns(f.heap);
	produce(&f.a, 1, word0(WIRE_TIME, heap_cycles() & ((1ULL << 56) - 1)), 0, 0);
	produce_alloc(&f.a, 0x1000, 10, 0);
	produce(&f.a, 1, word0(WIRE_TIME, heap_cycles() & ((1ULL << 56) - 1)), 0, 0);
	uint64_t after = source_heap_now_ns(f.heap);
	fixture_drain(&f);
	print_message("# %llu <= %llu <= %llu\n", (unsigned long long)before,
		      (unsigned long long)f.books->last.time_ns, (unsigned long long)after);
	assert_true(f.books->last.time_ns + 50000 >= before &&
		    f.books->last.time_ns <= after + 50000);
	produce(&f.a, 1, word0(WIRE_TIME, (heap_cycles() + (1ULL << 50)) & ((1ULL << 56) - 1)), 0,
		0);
	produce_alloc(&f.a, 0x2000, 10, 0);
	fixture_drain(&f);
	assert_true(f.books->last.time_ns <= source_heap_now_ns(f.heap));
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* A moment on the cycle counter, and between which two on the other clock it lay. */
struct moment {
	uint64_t cycles, from_ns, to_ns;
};

static struct moment now_on_both(const struct source_heap *heap)
{
	struct moment at = { .from_ns = source_heap_now_ns(heap) };
	at.cycles = heap_cycles();
	at.to_ns = source_heap_now_ns(heap);
	return at;
}

static uint64_t half_of(uint64_t gap_ns)
{
	return (gap_ns < SOURCE_HEAP_BEAT_NS ? gap_ns : SOURCE_HEAP_BEAT_NS) / 2;
}

static void what_lies_long_behind_a_stamp_gets_the_middle_up_to_the_next(void **state)
{
	(void)state;
	const uint64_t mask = (1ULL << 56) - 1, slack_ns = 50000;
	struct fixture f;
	for (int many = 0; many < 2; many++) {
		fixture_open(&f);
		tell_all_digits(&f);
		produce_thread(&f.a, 1);
		struct moment first = now_on_both(f.heap), second;
		do
			second = now_on_both(f.heap);
		while (second.from_ns < first.to_ns + SOURCE_HEAP_BOUND_NS * 3 / 2);
		produce(&f.a, 1, word0(WIRE_TIME, first.cycles & mask), 0, 0);
		/* the first one stands behind its stamp; more than a batch of them, so that some are handed over before the next stamp is reached */
		for (uint64_t i = 0; i < (many ? 1000 : 2); i++)
			produce_alloc(&f.a, 0x100000 + i * 64, 10, 0);
		if (!many)
			produce(&f.a, 1, word0(WIRE_TIME, second.cycles & mask), 0, 0);
		fixture_drain(&f);
		uint64_t at = f.books->last.time_ns;
		uint64_t least = first.from_ns + half_of(second.from_ns - first.to_ns);
		uint64_t most =
			first.to_ns + half_of(many ? UINT64_MAX : second.to_ns - first.from_ns);
		print_message("# %llu <= %llu <= %llu\n", (unsigned long long)least,
			      (unsigned long long)at, (unsigned long long)most);
		assert_true(at + slack_ns >= least && at <= most + slack_ns);
		/* another stamp soon after: no room for doubt */
		produce(&f.a, 1, word0(WIRE_TIME, second.cycles & mask), 0, 0);
		produce_alloc(&f.a, 0x2000, 10, 0);
		produce(&f.a, 1, word0(WIRE_TIME, (second.cycles + 1000) & mask), 0, 0);
		fixture_drain(&f);
		at = f.books->last.time_ns;
		assert_true(at + slack_ns >= second.from_ns && at <= second.to_ns + slack_ns);
		assert_int_equal(f.books->wrong, 0);
		fixture_close(&f);
	}
}

/* The recorder asks for closer stamps, and does not wait for what was written without them. */
static void threads_that_hand_blocks_on_within_a_stamp_are_asked_for_closer_ones(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	for (uint64_t i = 0; i < 1000; i++) {
		produce_alloc(&f.a, 0x1000, 10, 0);
		produce_free(&f.a, 0x1000);
		produce_alloc(&f.b, 0x2000, 10, 0);
		produce_free(&f.b, 0x2000);
	}
	fixture_drain(&f);
	assert_int_equal(f.a.header->stamp_closely, 0);
	for (uint64_t i = 0; i < 4000; i++) {
		produce_alloc(&f.a, 0x1000, 10, 0);
		produce_free(&f.b, 0x1000);
	}
	fixture_drain(&f);
	assert_int_equal(f.a.header->stamp_closely, 1);
	fixture_finish(&f);
	struct source_heap_stats stats;
	source_heap_stats(f.heap, &stats);
	assert_in_range(stats.waits, 32, 200);
	assert_int_equal(f.books->allocs, 6000);
	assert_int_equal(f.books->frees, 6000);
	assert_int_equal(f.books->live + f.books->foreign + f.books->implied + f.books->wrong, 0);
	assert_int_equal(f.books->lost_events[LOSS_DISORDER], 0);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cycles_become_nanoseconds_continuously_and_in_order),
		cmocka_unit_test(a_counter_that_begins_anew_is_followed),
		cmocka_unit_test(events_share_a_time_within_what_is_promised),
		cmocka_unit_test(stamps_give_times_near_the_wall_and_hostile_ones_never_the_future),
		cmocka_unit_test(what_lies_long_behind_a_stamp_gets_the_middle_up_to_the_next),
		cmocka_unit_test(
			threads_that_hand_blocks_on_within_a_stamp_are_asked_for_closer_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
