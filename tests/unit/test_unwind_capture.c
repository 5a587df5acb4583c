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
static unsigned compared, different;

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
	return recurse(depth - 1, shape >> 1) + 1;
}

static void stacks_equal_libunwinds_whatever_is_remembered(void **state)
{
	(void)state;
	compared = different = 0;
	for (int round = 0; round < 3; round++) {
		for (int depth = 0; depth < 40; depth++) {
			for (int shape = 0; shape < 16; shape++)
				recurse(depth, shape * 37);
		}
	}
	struct unwind_stats stats;
	unwind_thread_stats(thread, &stats);
	print_message("%u compared; %lu misses, %lu fresh frames, %lu joins, %lu rules\n", compared,
		      stats.misses, stats.fresh_frames, stats.joins, stats.rules);
	assert_int_equal(different, 0);
	assert_true(stats.misses < compared); /* the memo answers the later rounds */
	assert_true(stats.joins > 0);
}

static void deep_stacks_are_whole_in_every_size_of_memory(void **state)
{
	static const uint32_t slots[] = { 0, 8, 100 };
	static uint64_t ips[70000];
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		thread = harness_thread(&harness, slots[i]);
		compared = different = 0;
		recurse(100, 0);
		recurse(120, 0);
		recurse(3000, 0);
		recurse(3001, 0);
		recurse(9000, 0x5555);
		recurse(100, 0);
		assert_int_equal(compared, 6);
		assert_int_equal(different, 0);
	}
	(void)ips;
	thread = harness_thread(&harness, 0);
}

static void places_that_have_all_been_used_begin_anew(void **state)
{
	struct unwind_stats before = { 0 }, after;
	(void)state;
	compared = different = 0;
	for (int round = 0; round < 20; round++) {
		unwind_thread_stats(thread, &before);
		for (int depth = 0; depth < 40; depth++)
			recurse(depth, depth * 37);
		if (round)
			continue;
		/* as after 96 GiB of remembered words: those of the next round reach the end */
		unwind_forget(thread);
		thread->area_end = thread->lap = thread->oldest = AREA_END_MAX - 200;
	}
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
	return called(depth - 1) + 1;
}
static NOINLINE int one_caller(void)
{
	return called(6) + 1;
}
static NOINLINE int other_caller(void)
{
	return called(6) + 2;
}

static void a_stack_that_repeated_is_not_taken_for_another_at_its_place(void **state)
{
	struct unwind_stats before, after;
	(void)state;
	compared = different = 0;
	int (*volatile caller[2])(void) = { one_caller, other_caller };
	for (unsigned warm = 0; warm < 2; warm++) {
		unwind_thread_stats(thread, &before);
		for (unsigned run = 1; run < 20; run++) {
			for (unsigned i = 0; i < 2 * run; i++)
				caller[i >= run]();
		}
		unwind_thread_stats(thread, &after);
	}
	assert_int_equal(compared, 2 * 2 * 190);
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
		int deeper = ways(depth - 1, path >> 1);
		__asm__ volatile("nop" ::: "memory");
		return deeper + 1;
	}
	int deeper = ways(depth - 1, path >> 1);
	__asm__ volatile("nop\n\tnop" ::: "memory");
	return deeper + 2;
}
static NOINLINE int deep_inside(int depth, unsigned path)
{
	int deeper = depth ? deep_inside(depth - 1, path) : ways(11, path);
	__asm__ volatile("" ::: "memory");
	return deeper + 1;
}
static NOINLINE int deep_from_one(unsigned path)
{
	return deep_inside(150, path) + 1;
}
static NOINLINE int deep_from_other(unsigned path)
{
	return deep_inside(150, path) + 2;
}

static void stacks_that_share_their_outer_frames_are_all_remembered(void **state)
{
	struct unwind_stats before, after;
	(void)state;
	compared = different = 0;
	for (unsigned round = 0; round < 5; round++) {
		unwind_thread_stats(thread, &before);
		for (unsigned path = 0; path < 2048; path++)
			deep_from_one(path);
		unwind_thread_stats(thread, &after);
		print_message("round %u: %lu misses\n", round, after.misses - before.misses);
	}
	assert_int_equal(compared, 5 * 2048);
	assert_int_equal(different, 0);
	/* all but those whose set has more than eight; each by itself they would not fit into the memory */
	assert_true(after.misses - before.misses < 2048 / 16);
}

/* What calls the allocator deep inside of a recursion (an interpreter's) does so from many places there. */
static NOINLINE int many_ways_from(int depth)
{
	int deeper = 0;

	if (depth) {
		deeper = many_ways_from(depth - 1);
		__asm__ volatile("" ::: "memory");
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
	void (*before)(int) = signal(SIGSEGV, leave);
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
	signal(SIGSEGV, before);
	munmap(code, 8192);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_equal_libunwinds_whatever_is_remembered),
		cmocka_unit_test(places_that_have_all_been_used_begin_anew),
		cmocka_unit_test(a_stack_that_repeated_is_not_taken_for_another_at_its_place),
		cmocka_unit_test(stacks_that_share_their_outer_frames_are_all_remembered),
		cmocka_unit_test(a_shared_outer_frame_that_changed_is_noticed),
		cmocka_unit_test(callbacks_through_libc_are_followed),
		cmocka_unit_test(recipes_of_code_that_lies_together_share_pages),
		cmocka_unit_test(deep_inside_only_what_is_new_is_walked),
		cmocka_unit_test(deep_stacks_are_whole_in_every_size_of_memory),
		cmocka_unit_test(a_look_at_announced_frames_that_was_jumped_out_of_is_over),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
