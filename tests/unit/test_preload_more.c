/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for threads that meet more stacks than their slot's has room for. */
#include <string.h>

#include "preload/more.h"
#include "preload_script.h"

#define LAST_BYTES (64u << 10)
#define A_PIECE (MORE_PIECE / LAST_BYTES) /* so many slots take as much */

/* Slots that nobody ever takes stand behind those that there are. */
static struct wire_heap_slot many[256];
static char *shared;
static uint64_t pages[4 * 512] __attribute__((aligned(4096)));
static uint64_t *stack; /* the thread's own, or its lowest page */

static void slots_behind(uint32_t count)
{
	for (uint32_t i = 0; i < SLOTS + count; i++)
		many[i] = i < SLOTS ? process.slots[i]
				    : (struct wire_heap_slot){ .ring_bytes = LAST_BYTES / 2,
							       .scratch_bytes = LAST_BYTES / 2 };
	process.slots = many;
	process.heap->slot_count = SLOTS + count;
}

static int more_setup(void **state)
{
	setup(state);
	uint64_t bytes = unwind_process_bytes() + (uint64_t)MORE_PIECE * MORE_PIECES;
	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	process.pieces = MORE_PIECES;
	process.unwind = unwind_process_init(shared, process.heap, no_module, page_probe, NULL);
	more_forked();
	script();
	stack = frames;
	return 0;
}

static int more_teardown(void **state)
{
	munmap(shared, unwind_process_bytes() + (uint64_t)MORE_PIECE * MORE_PIECES);
	process.slots = (struct wire_heap_slot *)(memory + process.heap->slots_off);
	return teardown(state);
}

/* An allocation whose caller @pc was called from 0x1000. Return: the stack's number. */
static uint32_t called_from(uint64_t pc)
{
	uint32_t node = 0;
	stack[40] = 0;
	stack[41] = 0x1000;
	stack[29] = pc;
	hook_malloc(8, (uint64_t)&stack[30], (uint64_t)&stack[40], 0);
	for (struct record r; (r = take(0)).tag;)
		node = r.node;
	return node;
}

static const uint64_t first_pc = 0x100000;

/* Return: how many different stacks came. */
static uint32_t fill(uint32_t most)
{
	uint32_t n = 0;
	while (n < most && !self.more)
		called_from(first_pc + n++ * 16);
	return n;
}

static int in_pieces(const void *at)
{
	uint64_t off = (uint64_t)at - (uint64_t)shared - unwind_process_bytes();
	return off < (uint64_t)MORE_PIECE * MORE_PIECES;
}

static void who_meets_many_stacks_gets_more_memory_and_goes_on(void **state)
{
	(void)state;
	slots_behind(2 * A_PIECE);
	uint32_t first = called_from(first_pc);
	assert_false(in_pieces(self.walker));
	uint32_t n = fill(3000);
	assert_in_range(n, 100, 2999);
	assert_int_equal(self.more, 1);
	assert_true(in_pieces(self.walker) && self.unwind == self.walker);
	/* a stack has the number that it had */
	assert_int_equal(called_from(first_pc), first);
	assert_int_equal(pc_of(first), first_pc);
	/* and as good as all of them are remembered now, of which none was as they came in turn */
	struct unwind_stats before, after;
	for (uint32_t i = 0; i < n; i++)
		called_from(first_pc + i * 16);
	unwind_thread_stats(self.walker, &before);
	for (uint32_t i = 0; i < n; i++)
		called_from(first_pc + i * 16);
	unwind_thread_stats(self.walker, &after);
	assert_in_range(after.misses - before.misses, 0, n / 20);
}

static void where_slots_may_need_the_room_nobody_gets_more(void **state)
{
	(void)state;
	slots_behind(
		A_PIECE); /* of which one could still be taken: this thread has one of the others */
	process.slot_top = SLOTS + 1;
	fill(1500);
	assert_true(self.walker && unwind_crowded(self.walker));
	assert_int_equal(self.more, 0);
	assert_null(more_at(0));
}

static void a_piece_goes_back_where_more_threads_come(void **state)
{
	(void)state;
	slots_behind(A_PIECE);
	fill(3000);
	assert_int_equal(self.more, 1);
	assert_ptr_equal(more_at(0), self.walker);
	uint32_t known = called_from(first_pc);
	process.slot_top = SLOTS + 1;
	process.heap->tick++; /* the recorder's beat: the next record has a stamp */
	called_from(first_pc);
	assert_int_equal(self.more, 0);
	assert_null(more_at(0));
	assert_false(in_pieces(self.walker));
	assert_int_equal(called_from(first_pc), known);
}

static void no_two_threads_have_the_same_piece(void **state)
{
	(void)state;
	slots_behind(2 * A_PIECE + 2);
	fill(3000);
	struct thread second = { .slot = &process.slots[1] }, third = second;
	const void *crowded = (char *)process.heap + process.slots[0].scratch_off;
	second.walker = third.walker = (struct unwind_thread *)crowded;
	assert_true(unwind_crowded(second.walker));
	assert_int_equal(more_look(&second), 1);
	assert_ptr_not_equal(more_of(&second), more_of(&self));
	assert_int_equal(more_look(&third), 0); /* there are two */
	more_give(&second);
	assert_int_equal(more_look(&third), 1);
	assert_int_equal(third.more, 2);
	more_give(&third);
}

static unsigned asked;
static int is_asked(uint64_t addr)
{
	asked++;
	return addr >= (uint64_t)pages && addr < (uint64_t)pages + sizeof(pages);
}

static void a_thread_with_more_memory_hears_that_its_stack_has_changed(void **state)
{
	(void)state;
	slots_behind(A_PIECE);
	probe = is_asked;
	stack = pages;
	self.stack_lo = (uint64_t)pages;
	self.stack_hi = (uint64_t)pages + sizeof(pages);
	fill(3000);
	assert_int_equal(self.more, 1);
	called_from(first_pc);
	called_from(first_pc);
	asked = 0;
	called_from(first_pc);
	assert_int_equal(asked, 0);
	assert_int_equal(stacks_change((uint64_t)pages + 4096, 4096), 1);
	called_from(first_pc);
	assert_true(asked > 0);
	probe = NULL;
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, more_setup, more_teardown)
	const struct CMUnitTest tests[] = {
		CASE(who_meets_many_stacks_gets_more_memory_and_goes_on),
		CASE(where_slots_may_need_the_room_nobody_gets_more),
		CASE(a_piece_goes_back_where_more_threads_come),
		CASE(no_two_threads_have_the_same_piece),
		CASE(a_thread_with_more_memory_hears_that_its_stack_has_changed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
