/* SPDX-License-Identifier: Apache-2.0 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unwind/state.h"
#include "unwind_harness.h"

#define NOINLINE __attribute__((noinline))

/* frames whose size only the running program knows are what is tested here */
#pragma GCC diagnostic ignored "-Wvla"

static struct harness harness;
static struct unwind_thread *thread;
static unsigned compared, different, deepest;

/* After a call: what follows is no part of a loop that a compiler could make of the recursion. */
#define RETURNS_HERE(code) __asm__ volatile(code ::: "memory")

/*
 * @body so often, from one place, so that the stacks of each round are those of the one before. A compiler that knew how
 * often would make a copy of the call for every round.
 */
static NOINLINE void repeat(unsigned times, void (*body)(unsigned round))
{
	volatile unsigned end = times;
	for (unsigned round = 0; round < end; round++) {
		body(round);
		RETURNS_HERE("");
	}
}

static int setup(void **state)
{
	(void)state;
	harness_init(&harness);
	thread = harness_thread(&harness, 0);
	return 0;
}

/* The same instant by both; our first frame is the return address of capture_here() in this function. */
static NOINLINE void compare_here(void)
{
	static uint64_t ours[70000], theirs[70000];
	uint32_t root, n, m = 0;
	uint32_t node = capture_here(thread);
	n = harness_frames(&harness, node, ours, 70000, &root);

	unw_context_t context;
	unw_cursor_t cursor;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	do {
		unw_word_t ip;
		unw_get_reg(&cursor, UNW_REG_IP, &ip);
		theirs[m++] = ip;
	} while (m < 70000 && unw_step(&cursor) > 0);
	compared++;
	deepest = n > deepest ? n : deepest;
	/* the first frame is two places of this function */
	int bad = n != m || root != WIRE_STOP_END;
	for (uint32_t i = 1; i < n && i < m && !bad; i++)
		bad = ours[i] != theirs[i];
	if (bad) {
		different++;
		print_message("root %u, %u frames, libunwind %u\n", root, n, m);
		for (uint32_t i = 0; i < n || i < m; i++)
			print_message("%3u %16lx %16lx\n", i, i < n ? ours[i] : 0,
				      i < m ? theirs[i] : 0);
	}
}

static NOINLINE int recurse(int depth, int shape)
{
	if (!depth) {
		compare_here();
		return 1;
	}
	if (shape & 1) {
		volatile char room[depth % 7 * 16 + 16];
		room[0] = (char)depth;
		return recurse(depth - 1, shape >> 1) + room[0];
	}
	int deeper = recurse(depth - 1, shape >> 1);
	RETURNS_HERE("");
	return deeper + 1;
}

static void every_shape(unsigned round)
{
	(void)round;
	for (int depth = 0; depth < 40; depth++) {
		for (int shape = 0; shape < 16; shape++)
			recurse(depth, shape * 37);
	}
}

static void stacks_equal_libunwinds_whatever_is_remembered(void **state)
{
	(void)state;
	compared = different = deepest = 0;
	repeat(3, every_shape);
	struct unwind_stats stats;
	unwind_thread_stats(thread, &stats);
	print_message("%u compared; %lu misses, %lu fresh frames, %lu joins, %lu rules\n", compared,
		      stats.misses, stats.fresh_frames, stats.joins, stats.rules);
	assert_int_equal(different, 0);
	assert_true(deepest > 40);
	assert_true(stats.misses < compared); /* the memo answers the later rounds */
	assert_true(stats.joins > 0);
}

static void deep_stacks_are_whole_in_every_size_of_memory(void **state)
{
	static const uint32_t slots[] = { 0, 8, 100 };
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		thread = harness_thread(&harness, slots[i]);
		compared = different = deepest = 0;
		recurse(100, 0);
		recurse(120, 0);
		recurse(3000, 0);
		recurse(3001, 0);
		recurse(9000, 0x5555);
		recurse(100, 0);
		assert_int_equal(compared, 6);
		assert_int_equal(different, 0);
		assert_true(deepest > 9000);
	}
	thread = harness_thread(&harness, 0);
}

/* As the last round began. */
static struct unwind_stats before;

static void every_depth_around_the_end(unsigned round)
{
	unwind_thread_stats(thread, &before);
	for (int depth = 0; depth < 40; depth++)
		recurse(depth, depth * 37);
	if (round)
		return;
	/* as after 96 GiB of remembered words: those of the next round reach the end */
	unwind_forget(thread);
	thread->area_end = thread->lap = thread->oldest = AREA_END_MAX - 200;
}

static void places_that_have_all_been_used_begin_anew(void **state)
{
	struct unwind_stats after;
	(void)state;
	compared = different = 0;
	repeat(20, every_depth_around_the_end);
	unwind_thread_stats(thread, &after);
	assert_true(thread->area_end < AREA_END_MAX);
	assert_int_equal(different, 0);
	assert_int_equal(after.misses, before.misses); /* told apart and remembered again */
}

/* Two callers with frames of one size: what they call stands at one stack pointer, called from different places. */
static NOINLINE int called(int depth)
{
	if (!depth) {
		compare_here();
		return 1;
	}
	int deeper = called(depth - 1);
	RETURNS_HERE("");
	return deeper + 1;
}
static NOINLINE int one_caller(void)
{
	int deeper = called(6);
	RETURNS_HERE("nop");
	return deeper + 1;
}
static NOINLINE int other_caller(void)
{
	int deeper = called(6);
	RETURNS_HERE("nop\n\tnop");
	return deeper + 2;
}

#define RUNS_MAX 19

/* The @call'th of runs of the one and the other of each length: 1 + 1, 2 + 2, 3 + 3 ... */
static void one_of_a_run(unsigned call)
{
	int (*volatile caller[2])(void) = { one_caller, other_caller };
	unsigned run = 1;
	for (; call >= 2 * run; run++)
		call -= 2 * run;
	caller[call >= run]();
}
static void runs_of_both(unsigned round)
{
	(void)round;
	unwind_thread_stats(thread, &before);
	repeat(RUNS_MAX * (RUNS_MAX + 1), one_of_a_run);
}

static void a_stack_that_repeated_is_not_taken_for_another_at_its_place(void **state)
{
	struct unwind_stats after;
	(void)state;
	compared = different = 0;
	repeat(2, runs_of_both);
	unwind_thread_stats(thread, &after);
	assert_int_equal(compared, 2 * RUNS_MAX * (RUNS_MAX + 1));
	assert_int_equal(different, 0);
	assert_int_equal(after.misses, before.misses); /* once both are known, none is walked */
}

/* 150 frames, and inside of them 2,048 ways through eleven more: all stand at one stack pointer. */
static NOINLINE int ways(int depth, unsigned path)
{
	if (!depth) {
		compare_here();
		return 1;
	}
	if (path & 1) {
		/* so that the two calls do not become one in front of the branch */
		__asm__ volatile("nop" ::: "memory");
		int deeper = ways(depth - 1, path >> 1);
		RETURNS_HERE("nop");
		return deeper + 1;
	}
	int deeper = ways(depth - 1, path >> 1);
	RETURNS_HERE("nop\n\tnop");
	return deeper + 2;
}
static NOINLINE int deep_inside(int depth, unsigned path)
{
	int deeper = depth ? deep_inside(depth - 1, path) : ways(11, path);
	RETURNS_HERE("");
	return deeper + 1;
}
static NOINLINE int deep_from_one(unsigned path)
{
	int deeper = deep_inside(150, path);
	RETURNS_HERE("nop");
	return deeper + 1;
}
static NOINLINE int deep_from_other(unsigned path)
{
	int deeper = deep_inside(150, path);
	RETURNS_HERE("nop\n\tnop");
	return deeper + 2;
}

static uint64_t misses_of[5];

static void all_ways(unsigned round)
{
	struct unwind_stats after;
	unwind_thread_stats(thread, &before);
	for (unsigned path = 0; path < 2048; path++)
		deep_from_one(path);
	unwind_thread_stats(thread, &after);
	misses_of[round] = after.misses - before.misses;
	print_message("round %u: %lu misses\n", round, misses_of[round]);
}

static void stacks_that_share_their_outer_frames_are_all_remembered(void **state)
{
	(void)state;
	compared = different = 0;
	repeat(5, all_ways);
	assert_int_equal(compared, 5 * 2048);
	assert_int_equal(different, 0);
	assert_int_equal(misses_of[0], 2048); /* each is another stack */
	/* all but those whose set has more than eight; each by itself they would not fit into the memory */
	assert_true(misses_of[4] < 2048 / 16);
}

/* Frames of three sizes, one of them with an rbp that those further out hang on: stacks of many layouts at one place. */
static int any_size(int depth, unsigned path);

#define SIZED(name, bytes)                                 \
	static NOINLINE int name(int depth, unsigned path) \
	{                                                  \
		volatile char room[bytes];                 \
		room[0] = 1;                               \
		int deeper = any_size(depth - 1, path);    \
		RETURNS_HERE("");                          \
		return deeper + room[0];                   \
	}
SIZED(sized_16, 16)
SIZED(sized_48, 48)
SIZED(sized_112, 112)
static NOINLINE int sized_unknown(int depth, unsigned path)
{
	volatile size_t bytes = 32 + path % 3 * 16;
	volatile char room[bytes];
	room[0] = 1;
	int deeper = any_size(depth - 1, path);
	RETURNS_HERE("");
	return deeper + room[0];
}

static int any_size(int depth, unsigned path)
{
	static int (*const of[])(int, unsigned) = { sized_16, sized_48, sized_112, sized_unknown };

	if (depth > 0)
		return of[path >> (depth * 2 - 2) & 3](depth, path) + 1;
	compare_here();
	return 0;
}

/* In turn, and in two other orders. */
static void all_sizes(unsigned round)
{
	static const unsigned stride[] = { 1, 1, 2221, 1, 1021 };
	struct unwind_stats after;

	unwind_thread_stats(thread, &before);
	for (unsigned i = 0; i < 4096; i++)
		any_size(6, i * stride[round] & 4095);
	unwind_thread_stats(thread, &after);
	misses_of[round] = after.misses - before.misses;
	print_message("round %u: %lu misses\n", round, misses_of[round]);
}

static void paths_through_frames_of_different_sizes_are_all_remembered(void **state)
{
	(void)state;
	compared = different = 0;
	repeat(5, all_sizes);
	assert_int_equal(compared, 5 * 4096);
	assert_int_equal(different, 0);
	/* some hang below a word that was none of theirs, once; without the tree each one is walked */
	assert_true(misses_of[2] < 4096 / 8);
	assert_true(misses_of[3] < 4096 / 64);
	assert_true(misses_of[4] < 4096 / 64);
}

/* What stands behind a frame of 1 MiB, and of another one, has distances of its own. */
static NOINLINE int far_from_callers(void)
{
	volatile size_t bytes = 1 << 20;
	volatile char room[bytes];
	room[0] = 1;
	compare_here();
	return room[0];
}

static NOINLINE int further_from_callers(void)
{
	volatile size_t bytes = 3 << 20;
	volatile char room[bytes];
	room[0] = 1;
	return room[0] + far_from_callers();
}

static NOINLINE int near_callers(void)
{
	compare_here();
	RETURNS_HERE("");
	return 1;
}

#define FAR_CALLS 1000

static uint64_t misses_far[2];

static void one_near_and_many_far(unsigned round)
{
	struct unwind_stats middle, after;
	unwind_thread_stats(thread, &before);
	near_callers();
	unwind_thread_stats(thread, &middle);
	for (unsigned i = 0; i < FAR_CALLS; i++) {
		far_from_callers();
		further_from_callers();
	}
	unwind_thread_stats(thread, &after);
	misses_of[round] = middle.misses - before.misses;
	misses_far[round] = after.misses - middle.misses;
}

static void callers_behind_frames_of_megabytes_are_remembered(void **state)
{
	(void)state;
	compared = different = 0;
	repeat(2, one_near_and_many_far);
	assert_int_equal(compared, 2 * (2 * FAR_CALLS + 1));
	assert_int_equal(different, 0);
	assert_int_equal(misses_far[0], 2); /* each is another stack */
	assert_int_equal(misses_far[1], 0);
	assert_int_equal(misses_of[0], 1);
	assert_int_equal(misses_of[1], 0);
}

/* What calls the allocator deep inside of a recursion (an interpreter's) does so from many places there. */
static NOINLINE int many_ways_from(int depth)
{
	int deeper = 0;

	if (depth) {
		deeper = many_ways_from(depth - 1);
		RETURNS_HERE("");
		return deeper + 1;
	}
	for (unsigned path = 0; path < 64; path++)
		deeper += ways(11, path);
	return deeper;
}

static void deep_inside_only_what_is_new_is_walked(void **state)
{
	static const struct {
		uint32_t slot;
		int depth;
	} in[] = { { 0, 20000 }, { 3, 2500 }, { 8, 1200 }, { 100, 140 } };
	(void)state;
	for (unsigned i = 0; i < sizeof(in) / sizeof(*in); i++) {
		struct unwind_stats stats;
		thread = harness_thread(&harness, in[i].slot);
		compared = different = 0;
		many_ways_from(in[i].depth);
		unwind_thread_stats(thread, &stats);
		assert_true(stats.fresh_frames > (uint64_t)in[i].depth + 64);
		print_message("slot %u, %d deep: %lu fresh frames, %lu walked apart\n", in[i].slot,
			      in[i].depth, stats.fresh_frames, stats.deep);
		assert_int_equal(compared, 64);
		assert_int_equal(different, 0);
		assert_int_equal(stats.deep, 0);
		assert_true(stats.fresh_frames < (uint64_t)in[i].depth + 1000 + 64 * 20);
	}
	thread = harness_thread(&harness, 0);
}

static void a_shared_outer_frame_that_changed_is_noticed(void **state)
{
	(void)state;
	compared = different = 0;
	int (*volatile caller[2])(unsigned) = { deep_from_one, deep_from_other };
	for (unsigned i = 0; i < 2000; i++)
		caller[i / 7 & 1](i % 5);
	assert_int_equal(compared, 2000);
	assert_int_equal(different, 0);
}

static int compare_ints(const void *a, const void *b)
{
	compare_here();
	return *(const int *)a - *(const int *)b;
}

static void callbacks_through_libc_are_followed(void **state)
{
	int v[] = { 3, 1, 2, 5, 4 };
	(void)state;
	compared = different = 0;
	qsort(v, 5, sizeof(*v), compare_ints);
	int key = 3;
	bsearch(&key, v, 5, sizeof(*v), compare_ints);
	assert_true(compared > 5);
	assert_int_equal(different, 0);
}

/* 100 return addresses that lie together. */
#define CAPTURE_5(t) \
	capture_here(t), capture_here(t), capture_here(t), capture_here(t), capture_here(t)
#define CAPTURE_25(t) CAPTURE_5(t), CAPTURE_5(t), CAPTURE_5(t), CAPTURE_5(t), CAPTURE_5(t)

static void recipes_of_code_that_lies_together_share_pages(void **state)
{
	struct harness fresh;
	(void)state;
	harness_init(&fresh);
	struct unwind_thread *t = harness_thread(&fresh, 0);
	CAPTURE_25(t), CAPTURE_25(t), CAPTURE_25(t), CAPTURE_25(t);
	struct unwind_stats stats;
	unwind_thread_stats(t, &stats);
	assert_true(stats.rules >= 100);

	const char *memory = (const char *)fresh.process, zero[4096] = { 0 };
	unsigned used = 0;
	for (uint64_t at = 0; at < unwind_process_bytes(); at += sizeof(zero))
		used += memcmp(memory + at, zero, sizeof(zero)) != 0;
	print_message("%lu recipes in %u pages\n", (unsigned long)stats.rules, used);
	/* the header, two pages for this code, and one for each of the few places that called it */
	assert_true(used < 20);
}

static sigjmp_buf left;
static void leave(int sig)
{
	(void)sig;
	siglongjmp(left, 1);
}

/* A CIE, and an FDE for @code: absolute pointers, ended by a zero length. */
static void put_records(uint32_t *at, uint64_t code)
{
	static const uint8_t cie[] = { 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0 };
	const uint64_t range[] = { code, 64 };
	at[0] = 4 + sizeof(cie);
	at[1] = 0;
	memcpy(at + 2, cie, sizeof(cie));
	at[5] = 4 + sizeof(range);
	at[6] = 24;
	memcpy(at + 7, range, sizeof(range));
	at[11] = 0;
}

static void a_look_at_announced_frames_that_was_jumped_out_of_is_over(void **state)
{
	uint64_t stack[64] = { 0 };
	void (*handler)(int) = signal(SIGSEGV, leave);
	uint8_t *code =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct unwind_regs regs = { .ip = (uint64_t)code + 10, .sp = (uint64_t)(stack + 8) };
	const uint32_t *readers = &harness.process->block_readers;
	(void)state;
	assert_ptr_not_equal(code, MAP_FAILED);
	put_records((uint32_t *)(code + 4096), (uint64_t)code);
	unwind_register_frame(harness.process, code + 4096);
	for (int round = 0; round < 2; round++) {
		/* the look faults, at an address that is not known yet */
		regs.ip++;
		mprotect(code + 4096, 4096, PROT_NONE);
		unwind_forget(thread);
		if (sigsetjmp(left, 1) == 0)
			unwind_capture(thread, &regs);
		mprotect(code + 4096, 4096, PROT_READ | PROT_WRITE);
		assert_int_equal(*readers, 1);
		/* and what comes next finds it left: a stack, or another thread's beginning */
		if (round)
			thread = harness_thread(&harness, 0);
		else
			unwind_capture(thread, &regs);
		assert_int_equal(*readers, 0);
	}
	unwind_deregister_frame(harness.process, code + 4096);
	signal(SIGSEGV, handler);
	munmap(code, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_equal_libunwinds_whatever_is_remembered),
		cmocka_unit_test(places_that_have_all_been_used_begin_anew),
		cmocka_unit_test(a_stack_that_repeated_is_not_taken_for_another_at_its_place),
		cmocka_unit_test(stacks_that_share_their_outer_frames_are_all_remembered),
		cmocka_unit_test(paths_through_frames_of_different_sizes_are_all_remembered),
		cmocka_unit_test(callers_behind_frames_of_megabytes_are_remembered),
		cmocka_unit_test(a_shared_outer_frame_that_changed_is_noticed),
		cmocka_unit_test(callbacks_through_libc_are_followed),
		cmocka_unit_test(recipes_of_code_that_lies_together_share_pages),
		cmocka_unit_test(deep_inside_only_what_is_new_is_walked),
		cmocka_unit_test(deep_stacks_are_whole_in_every_size_of_memory),
		cmocka_unit_test(a_look_at_announced_frames_that_was_jumped_out_of_is_over),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
