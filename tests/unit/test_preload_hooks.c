/* SPDX-License-Identifier: Apache-2.0 */
/* What the hooks write for malloc and its family, operator new and delete included. */
#include <sys/prctl.h>

#include "preload_script.h"

static void an_allocation_is_written_with_its_requested_size_and_caller(void **state)
{
	(void)state;
	script();
	assert_ptr_equal(hook_malloc(77, CALLER(8, 0x1000)), blocks[0]);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_ALLOC);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	assert_int_equal(r.size, 77);
	assert_int_equal(pc_of(r.node), 0x1000);
	assert_ptr_equal(hook_malloc((size_t)1 << 40, CALLER(8, 0x1000)), blocks[0]);
	r = take(0);
	assert_int_equal(r.tag, WIRE_ALLOC_BIG);
	assert_true(r.size == (uint64_t)1 << 40);
	assert_int_equal(self.sync, proc.word);
}

static void the_plain_way_writes_what_the_guarded_way_writes(void **state)
{
	(void)state;
	script();
	for (int round = 0; round < 2; round++) {
		proc.word = round ? MODE_ON | MODE_PLAIN : MODE_ON;
		hook_malloc(1, CALLER(8, 0x1000)); /* the slow way in */
		assert_int_equal(take(0).tag, WIRE_ALLOC);
		hook_malloc(5, CALLER(8, 0x1000));
		hook_calloc(3, 7, CALLER(8, 0x1000));
		hook_free(blocks[0], CALLER(8, 0x1000));
		hook_free(NULL, CALLER(8, 0x1000));
		give = NULL;
		assert_null(hook_malloc(6, CALLER(8, 0x1000)));
		assert_null(hook_calloc(SIZE_MAX, 2, CALLER(8, 0x1000)));
		give = blocks[0];
		assert_int_equal(take(0).size, 5);
		assert_int_equal(take(0).size, 21);
		assert_int_equal(take(0).tag, WIRE_FREE);
		assert_int_equal(take(0).tag, 0);
		assert_int_equal(self.sync, proc.word);
	}
}

static void a_failed_realloc_frees_nothing(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	give = NULL;
	assert_null(hook_realloc(blocks[0], 500, CALLER(8, 0x1000)));
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_FAIL);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	/* of zero bytes: a free, and no allocation where nothing came back */
	assert_null(hook_realloc(blocks[0], 0, CALLER(8, 0x1000)));
	assert_int_equal(take(0).tag, WIRE_FREE);
	assert_int_equal(take(0).tag, 0);
	give = blocks[1];
	assert_ptr_equal(hook_realloc(NULL, 9, CALLER(8, 0x1000)), blocks[1]);
	assert_int_equal(take(0).tag, WIRE_ALLOC);
	assert_ptr_equal(hook_reallocarray(blocks[1], 4, 25, CALLER(8, 0x1000)), blocks[1]);
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_END);
	assert_int_equal(r.size, 100);
	assert_null(hook_reallocarray(blocks[1], SIZE_MAX, 25, CALLER(8, 0x1000)));
	assert_int_equal(take(0).tag, 0);
}

static void *runtime_new(size_t size, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	return hook_malloc(size ? size : 1,
			   CALLER(8, 0x5555)); /* from within the runtime, below its caller */
}

static void *other_new(size_t size, uintptr_t b, uintptr_t c)
{
	(void)size;
	(void)b;
	(void)c;
	return blocks[2];
}

static void an_operator_new_is_one_allocation_whoever_serves_it(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	next.cxx_new[NEW] = runtime_new;
	assert_ptr_equal(hook_new(0, CALLER(16, 0x1234)), blocks[0]);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_ALLOC);
	assert_int_equal(r.size, 0); /* what was asked for, not what the runtime makes of it */
	assert_int_equal(pc_of(r.node), 0x1234);
	assert_int_equal(take(0).tag, 0);
	next.cxx_new[NEW] = other_new;
	assert_ptr_equal(hook_new(31, CALLER(16, 0x1234)), blocks[2]);
	r = take(0);
	assert_int_equal(r.value, (uint64_t)blocks[2]);
	assert_int_equal(r.size, 31);
	assert_int_equal(take(0).tag, 0);
}

static void *jumping_newa(size_t size, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	/* operator new[] of libstdc++ is a jump to operator new: its caller seems to be our own hook */
	return hook_new(size, CALLER(12, 0x7001));
}

static void an_operator_that_jumps_to_another_is_no_caller(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	own_code = (struct code_range){ 0x7000, 0x8000 };
	next.cxx_new[NEW] = runtime_new;
	next.cxx_new[NEWA] = jumping_newa;
	assert_ptr_equal(hook_newa(24, CALLER(16, 0x1234)), blocks[0]);
	struct record r = take(0);
	assert_int_equal(r.size, 24);
	assert_int_equal(pc_of(r.node), 0x1234);
	assert_int_equal(take(0).tag, 0);
	own_code = (struct code_range){ 0 };
}

static void one_left_by_an_exception_is_not_taken_for_the_caller(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	self.outer = (struct outer){
		.sp = (uint64_t)&frames[20], .pc = 0x9999, .code = &cxx_code, .size = 1
	};
	frames[19] = 0x7777; /* the word is gone */
	hook_malloc(40, CALLER(8, 0x5555));
	struct record r = take(0);
	assert_int_equal(r.size, 40);
	assert_int_equal(pc_of(r.node), 0x5555);
}

static void one_left_on_a_stack_that_is_gone_is_not_looked_at(void **state)
{
	(void)state;
	script();
	next.cxx_new[NEW] = other_new;
	char *stack = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(stack, MAP_FAILED);
	uint64_t sp = (uint64_t)stack + 4096 - 64;
	((uint64_t *)sp)[-1] = 0x1000;
	assert_int_equal(mprotect(stack + 4096, 4096, PROT_NONE), 0);
	self.outer = (struct outer){
		.sp = (uint64_t)stack + 4096 + 64, .pc = 0x2000, .code = &cxx_code, .size = 9
	};
	hook_new(24, sp, 0, 0);
	struct record r = take(0);
	assert_int_equal(r.size, 24);
	assert_int_equal(pc_of(r.node), 0x1000);
	assert_int_equal(take(0).tag, 0);
	munmap(stack, 8192);
}

static void a_failed_realloc_on_a_full_ring_loses_nothing(void **state)
{
	(void)state;
	script();
	struct wire_heap_slot *slot = &process.slots[0];
	while (!slot->lost[WIRE_LOST_RING_FULL].allocations)
		hook_malloc(1, CALLER(8, 0x1000));
	give = NULL;
	hook_realloc(blocks[1], 50, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].frees, 0);
	give = blocks[2];
	hook_realloc(blocks[1], 50, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].frees, 1);
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 2);
}

static void with_free_stacks_a_realloc_has_the_stack_of_its_free(void **state)
{
	(void)state;
	script();
	process.free_stacks = 1;
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	hook_realloc(blocks[0], 30, CALLER(8, 0x2000));
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_BEGIN_STACK);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	assert_int_equal(pc_of(r.node), 0x2000);
	assert_int_equal(take(0).tag, WIRE_REALLOC_END);
}

static void what_a_closed_ring_refuses_is_counted(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	process.slots[0].closed = 1;
	process.heap->tick++;
	hook_malloc(7, CALLER(8, 0x1000));
	assert_int_equal(process.slots[0].lost[WIRE_LOST_RING_FULL].allocations, 1);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_RING_FULL].bytes, 7);
}

static void switched_off_a_realloc_is_the_free_of_its_old_block(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	assert_int_equal(take(0).tag, WIRE_ALLOC);
	proc.word = MODE_SUSPENDED;
	process.heap->enabled_wanted = 0;
	give = NULL;
	hook_realloc(blocks[0], 90, CALLER(8, 0x1000));
	assert_int_equal(take(0).tag, 0);
	give = blocks[1];
	hook_realloc(blocks[0], 90, CALLER(8, 0x1000));
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_FREE);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	assert_int_equal(take(0).tag, 0);
}

static void *failing_new(size_t size, uintptr_t b, uintptr_t c)
{
	(void)size;
	(void)b;
	(void)c;
	void *thrown = hook_malloc(144, CALLER(8, 0x5555)); /* the exception */
	assert_ptr_equal(thrown, blocks[3]);
	return NULL; /* stands for the throw: nothing of the hook may run afterwards */
}

static void *aligned_new(size_t size, uintptr_t align, uintptr_t c)
{
	(void)c;
	return hook_aligned_alloc(align, (size + align - 1) & ~(align - 1), CALLER(8, 0x5555));
}

static void *script_aligned(size_t align, size_t size)
{
	(void)align;
	(void)size;
	return give;
}

static void what_a_failed_operator_new_allocates_is_not_what_was_asked_for(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	next.cxx_new[NEW] = failing_new;
	give = blocks[3];
	hook_new((size_t)1 << 61, CALLER(16, 0x1234));
	struct record r = take(0);
	assert_int_equal(r.size, 144);
	assert_int_equal(pc_of(r.node), 0x5555);
	assert_int_equal(take(0).tag, 0);
	/* an aligned one is rounded up by the runtime, and still the one */
	next.aligned_alloc = script_aligned;
	next.cxx_new[NEW_AL] = aligned_new;
	hook_new_al(100, 64, CALLER(16, 0x1234));
	r = take(0);
	assert_int_equal(r.size, 100);
	assert_int_equal(pc_of(r.node), 0x1234);
	assert_int_equal(take(0).tag, 0);
}

static size_t freed_size;
static void script_free_sized(void *block, size_t size)
{
	freed_size = size;
	hook_free(block, CALLER(8, 0x5555)); /* as an allocator that is built so */
}

static void a_sized_free_is_one_free_and_reaches_the_next_definition(void **state)
{
	(void)state;
	script();
	hook_malloc(48, CALLER(8, 0x1000));
	take(0);
	next.free_sized = script_free_sized;
	hook_free_sized(blocks[0], 48, CALLER(8, 0x1000));
	assert_int_equal(freed_size, 48);
	assert_int_equal(freed_count, 1);
	assert_int_equal(take(0).tag, WIRE_FREE);
	assert_int_equal(take(0).tag, 0);
	next.free_sized = NULL;
	hook_free_sized(blocks[0], 48, CALLER(8, 0x1000));
	assert_int_equal(freed_count, 2);
	assert_int_equal(take(0).tag, WIRE_FREE);
}

static void delete_to_free(void *block, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	hook_free(block, CALLER(8, 0x5555));
}

static void an_operator_delete_is_one_free(void **state)
{
	(void)state;
	script();
	next.cxx_delete[DEL] = delete_to_free;
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	hook_del(blocks[0], CALLER(16, 0x1234));
	hook_del(NULL, CALLER(16, 0x1234));
	assert_int_equal(freed_count, 1);
	assert_int_equal(take(0).tag, WIRE_FREE);
	assert_int_equal(take(0).tag, 0);
	hook_free(blocks[0], CALLER(8, 0x1000)); /* the same address again is another free */
	assert_int_equal(take(0).tag, WIRE_FREE);
}

static int slow_way;
static void delete_and_be_interrupted(void *block, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	hook_free(NULL, CALLER(8, 0x5555));
	if (slow_way)
		proc.word += MODE_EPOCH;
	hook_free(block, CALLER(8, 0x5555));
	/* a handler, to which the same address is given */
	hook_malloc(2, CALLER(4, 0x6666));
	hook_free(block, CALLER(4, 0x6666));
}

static void what_interrupts_an_operator_delete_has_frees_of_its_own(void **state)
{
	(void)state;
	script();
	next.cxx_delete[DEL] = delete_and_be_interrupted;
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	for (slow_way = 0; slow_way < 2; slow_way++) {
		hook_del(blocks[0], CALLER(16, 0x1234));
		assert_int_equal(take(0).tag, WIRE_FREE);
		assert_int_equal(take(0).tag, WIRE_ALLOC);
		assert_int_equal(take(0).tag, WIRE_FREE);
		assert_int_equal(take(0).tag, 0);
		assert_null(self.skip_free);
	}
}

static void delete_another_first(void *block, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	if (block == blocks[0])
		hook_del(blocks[1], CALLER(8, 0x5555));
	hook_free(block, CALLER(8, 0x5555));
}

static void free_another_first(void *block, size_t size)
{
	if (block == blocks[0])
		hook_free_sized(blocks[1], size, CALLER(8, 0x5555));
	hook_free(block, CALLER(8, 0x5555));
}

static void an_operator_delete_that_deletes_another_is_two_frees(void **state)
{
	(void)state;
	script();
	next.cxx_delete[DEL] = delete_another_first;
	next.free_sized = free_another_first;
	for (int sized = 0; sized < 2; sized++) {
		if (sized)
			hook_free_sized(blocks[0], 1, CALLER(16, 0x1234));
		else
			hook_del(blocks[0], CALLER(16, 0x1234));
		for (int i = 0; i < 2; i++) {
			struct record r = take(0);
			assert_int_equal(r.tag, WIRE_FREE);
			assert_int_equal(r.value, (uint64_t)blocks[i]);
		}
		assert_int_equal(take(0).tag, 0);
	}
	assert_int_equal(freed_count, 4);
}

static void *nested_malloc(size_t size)
{
	if (size == 100)
		hook_malloc(7,
			    CALLER(4, 0x1000)); /* as a signal handler would, in the middle of it */
	return blocks[0];
}

static void a_call_within_a_call_is_counted_or_is_the_allocators_own(void **state)
{
	(void)state;
	script();
	next.malloc = nested_malloc;
	hook_malloc(100, CALLER(8, 0x1000));
	assert_int_equal(take(0).size, 100);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_NESTED].allocations, 1);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_NESTED].bytes, 7);
	allocator_is_libc = 0;
	allocator_lo = 0x1000;
	allocator_hi = 0x2000;
	hook_malloc(100, CALLER(8, 0x9000));
	assert_int_equal(take(0).size, 100);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_NESTED].allocations, 1);
}

/* With a fixed beginning of the random numbers, so that it is the same each time. */
static void a_stack_comes_with_a_probability_that_its_size_says(void **state)
{
	(void)state;
	static const struct {
		/* 1 - exp(-size / 1000), a size of 0 being 1 */
		uint64_t size, per_million;
	} cases[] = { { 0, 1000 },      { 1, 1000 },      { 16, 15873 },          { 100, 95163 },
		      { 1000, 632121 }, { 3000, 950213 }, { 1ULL << 62, 1000000 } };
	const int64_t each = 200000;
	script();
	process.sample_bytes = 1000;
	self.sample_state = 1;
	for (int kind = 0; kind < 2; kind++) { /* the plain way and the guarded one */
		proc.word = kind ? MODE_ON : MODE_ON | MODE_PLAIN;
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			int64_t with = 0;
			for (int64_t n = 0; n < each; n++) {
				hook_malloc(cases[i].size, CALLER(8, 0x1000));
				struct record r = take(0);
				assert_int_equal(r.size, cases[i].size);
				if (r.node == WIRE_STOP_UNSAMPLED)
					continue;
				assert_int_equal(pc_of(r.node), 0x1000);
				with++;
			}
			int64_t p = (int64_t)cases[i].per_million;
			int64_t off = with - each * p / 1000000;
			/* five times the standard deviation, squared */
			int64_t bound = 25 * (each * p / 1000000 * (1000000 - p) / 1000000 + 1);
			if (off * off > bound)
				fail_msg("%ld of %ld bytes each had a stack, not %ld", (long)with,
					 (long)cases[i].size, (long)(each * p / 1000000));
		}
	}
	/* who asks for the stacks of frees gets them all */
	process.free_stacks = 1;
	proc.word = MODE_ON;
	hook_free(blocks[0], CALLER(8, 0x2000));
	assert_int_equal(pc_of(take(0).node), 0x2000);
}

/* Who waits looks at the clock first: then the recorder has made room. */
static int clock_of_a_recorder(clockid_t clock, struct timespec *now)
{
	process.heap->node_tail = process.heap->node_count;
	return clock_gettime(clock, now);
}

static void a_sampled_stack_waits_for_room_in_the_table(void **state)
{
	(void)state;
	int (*before)(clockid_t, struct timespec *) = the_clock;
	struct wire_heap_header *heap = process.heap;
	script();
	hook_malloc(10, CALLER(8, 0x1000)); /* has its ring */
	take(0);
	heap->recorder_pid = 1;
	heap->on_full = WIRE_FULL_WAIT;
	heap->heartbeat_ns = now_ns();
	for (int sampled = 0; sampled < 2; sampled++) {
		process.sample_bytes = sampled;
		self.unwind = sampled ? NULL : self.walker;
		self.sample_state = 1;
		self.sample_left = 0;
		heap->node_count = heap->node_tail + heap->node_max;
		the_clock = clock_of_a_recorder;
		hook_malloc(10, CALLER(8, 0x2000 + (uint64_t)sampled));
		the_clock = before;
		assert_true(take(0).node >= WIRE_STOP_MAX);
	}
}

static void a_thread_tells_its_name_where_somebody_asks(void **state)
{
	(void)state;
	char before[16];
	script();
	prctl(PR_GET_NAME, before);
	prctl(PR_SET_NAME, "one");
	memset(called, 0, sizeof(called));
	hook_malloc(10, CALLER(8, 0x1000));
	assert_int_equal(take(0).size, 10);
	assert_string_equal(called, "");
	self.unnamed = 1; /* as a thread that begins */
	process.heap->name_threads = 1;
	process.heap->tick++;
	hook_malloc(11, CALLER(8, 0x1000));
	assert_int_equal(take(0).size, 11);
	assert_string_equal(called, "one");
	uint64_t head = self.head;
	process.heap->tick++;
	hook_malloc(12, CALLER(8, 0x1000));
	assert_int_equal(self.head - head, 8 + 16); /* a stamp and the record */
	assert_int_equal(take(0).size, 12);
	prctl(PR_SET_NAME, "another");
	process.heap->tick++;
	hook_malloc(13, CALLER(8, 0x1000));
	assert_int_equal(take(0).size, 13);
	assert_string_equal(called, "another");
	prctl(PR_SET_NAME, before);
}

static void a_thread_begins_to_sample_at_a_random_place(void **state)
{
	(void)state;
	script();
	process.sample_bytes = 1 << 30;
	hook_malloc(10, CALLER(8, 0x1000));
	assert_int_not_equal(self.sample_state, 0);
	/* whose chance of being so near is one in a hundred million */
	assert_int_equal(take(0).node, WIRE_STOP_UNSAMPLED);
	assert_true(self.sample_left >= 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(an_allocation_is_written_with_its_requested_size_and_caller),
		CASE(the_plain_way_writes_what_the_guarded_way_writes),
		CASE(a_failed_realloc_frees_nothing),
		CASE(an_operator_new_is_one_allocation_whoever_serves_it),
		CASE(an_operator_that_jumps_to_another_is_no_caller),
		CASE(one_left_by_an_exception_is_not_taken_for_the_caller),
		CASE(one_left_on_a_stack_that_is_gone_is_not_looked_at),
		CASE(a_failed_realloc_on_a_full_ring_loses_nothing),
		CASE(with_free_stacks_a_realloc_has_the_stack_of_its_free),
		CASE(what_a_closed_ring_refuses_is_counted),
		CASE(switched_off_a_realloc_is_the_free_of_its_old_block),
		CASE(what_a_failed_operator_new_allocates_is_not_what_was_asked_for),
		CASE(a_sized_free_is_one_free_and_reaches_the_next_definition),
		CASE(an_operator_delete_is_one_free),
		CASE(what_interrupts_an_operator_delete_has_frees_of_its_own),
		CASE(an_operator_delete_that_deletes_another_is_two_frees),
		CASE(a_call_within_a_call_is_counted_or_is_the_allocators_own),
		CASE(a_stack_comes_with_a_probability_that_its_size_says),
		CASE(a_thread_begins_to_sample_at_a_random_place),
		CASE(a_sampled_stack_waits_for_room_in_the_table),
		CASE(a_thread_tells_its_name_where_somebody_asks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
