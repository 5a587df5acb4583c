/* SPDX-License-Identifier: Apache-2.0 */
/* Full rings, jumps out of a hook, the start, regions: what a hook does when something is in its way. */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "preload_script.h"

static void every_record_has_a_stamp_where_the_recorder_asks_for_that(void **state)
{
	(void)state;
	script();
	for (int close = 0; close < 2; close++) {
		process.heap->stamp_closely = (uint32_t)close;
		process.heap->tick++; /* now it is looked at */
		uint64_t head = process.slots[0].head;
		for (int i = 0; i < 20; i++)
			hook_malloc(1, CALLER(8, 0x1000));
		uint64_t stamps = (process.slots[0].head - head) / 8 - 20 * 2;
		if (close)
			assert_int_equal(stamps, 20);
		else
			assert_in_range(stamps, 1, 5); /* one, and who they are of */
		while (take(0).tag)
			;
	}
}

static void a_full_ring_counts_loss_and_keeps_older_records(void **state)
{
	(void)state;
	script();
	for (int i = 0; i < 1000; i++)
		hook_malloc(10, CALLER(8, 0x1000));
	unsigned kept = 0;
	while (take(0).tag == WIRE_ALLOC)
		kept++;
	const struct wire_lost_count *lost = &process.slots[0].lost[WIRE_LOST_RING_FULL];
	assert_true(kept > 200 && kept < 256);
	assert_int_equal(lost->allocations, 1000 - kept);
	assert_int_equal(lost->bytes, 10 * (1000 - kept));
	hook_free(blocks[0], CALLER(8, 0x1000));
	struct record r = take(0); /* the next one that fits says how many are missing before it */
	assert_int_equal(r.tag, WIRE_LOST);
	assert_int_equal(r.value, 1000 - kept);
	assert_int_equal(take(0).tag, WIRE_FREE);
	while (kept < 512) /* full again, now by frees, too */
		kept += hook_malloc(10, CALLER(8, 0x1000)) != NULL;
	hook_free(blocks[1], CALLER(8, 0x1000));
	while (take(0).tag == WIRE_ALLOC)
		;
	hook_free(blocks[2], CALLER(8, 0x1000));
	r = take(0);
	assert_int_equal(r.tag, WIRE_LOST);
	assert_int_equal(r.value >> WIRE_LOST_BITS, 1);
}

static void who_takes_a_full_ring_is_named_before_its_first_record(void **state)
{
	(void)state;
	script();
	for (int i = 0; i < 1000; i++)
		hook_malloc(10, CALLER(8, 0x1000));
	/* the thread ends, and another one takes its slot and finds no room */
	process.slots[0].owner = 0;
	process.slot_hint = 0;
	self = (struct thread){ .sync = SYNC_UNBORN, .tid = 2 };
	self.stack_lo = (uint64_t)frames;
	self.stack_hi = (uint64_t)(frames + 64);
	self.stack_floor = 1;
	process.pid = 2;
	hook_malloc(20, CALLER(8, 0x1000));
	assert_int_equal(process.slots[0].owner, 2);
	struct record r;
	while ((r = take(0)).tag)
		assert_int_equal(r.size, 10);
	assert_int_equal(named, 1);
	hook_malloc(30, CALLER(8, 0x1000));
	r = take(0);
	assert_int_equal(named, 2);
	assert_int_equal(r.tag, WIRE_LOST);
	r = take(0);
	assert_int_equal(r.size, 30);
}

/* A recorder that begins when the thread sleeps, and frees 64 bytes at a time until @stop. */
struct slow_reader {
	struct wire_heap_slot *slot;
	pid_t tid;
	int stop;
};

static int sleeps(pid_t tid)
{
	char path[64], line[512] = "";
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	FILE *file = fopen(path, "r");
	if (!file)
		return 0;
	const char *end = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	fclose(file);
	return end && end[1] == ' ' && end[2] == 'S';
}

static void *read_slowly(void *arg)
{
	struct slow_reader *reader = arg;
	const struct timespec pause = { .tv_nsec = 200000 };
	while (!__atomic_load_n(&reader->stop, __ATOMIC_ACQUIRE)) {
		if (sleeps(reader->tid))
			__atomic_fetch_add(&reader->slot->tail, 64, __ATOMIC_RELEASE);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void who_waits_for_the_recorder_goes_on_when_half_the_ring_is_free(void **state)
{
	(void)state;
	script();
	struct wire_heap_slot *slot = &process.slots[0];
	struct slow_reader reader = { .slot = slot, .tid = gettid() };
	process.heap->on_full = WIRE_FULL_WAIT;
	process.heap->heartbeat_ns = UINT64_MAX; /* it lives, however slow this machine is */
	while (slot->head < RING - 512)
		hook_malloc(10, CALLER(8, 0x1000));
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	while (!slot->waits)
		hook_malloc(10, CALLER(8, 0x1000));
	uint64_t used = slot->head - __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE);
	__atomic_store_n(&reader.stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_in_range(used, 0, RING / 2);
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 0);
}

/* A full ring, a heartbeat that is two seconds old, and a thread whose last stamp is @quiet_ns old. */
static struct wire_heap_slot *full_ring_and_old_beat(uint64_t quiet_ns)
{
	struct wire_heap_slot *slot = &process.slots[0];
	script();
	for (unsigned i = 0; i < RING && !slot->lost[WIRE_LOST_RING_FULL].allocations; i++)
		hook_malloc(10, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 1);
	process.heap->on_full = WIRE_FULL_WAIT;
	/* a counter of 1 GHz, so that its cycles are nanoseconds */
	process.heap->start_ns = now_ns() - 10000000000u;
	process.heap->start_cycles = stamp() - 10000000000u;
	process.heap->heartbeat_ns = now_ns() - 2000000000u;
	self.stamped = stamp() - quiet_ns;
	return slot;
}

static void who_stood_as_long_as_the_recorder_waits_for_it(void **state)
{
	(void)state;
	struct wire_heap_slot *slot = full_ring_and_old_beat(2000000000u);
	struct slow_reader reader = { .slot = slot, .tid = gettid() };
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	feclearexcept(FE_ALL_EXCEPT);
	hook_malloc(10, CALLER(8, 0x1000));
	assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0); /* the program's flags are its own */
	__atomic_store_n(&reader.stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 1);
	assert_true(slot->wait_ns > 0);
}

static void who_stood_is_patient_with_the_recorder_when_its_ring_fills_later(void **state)
{
	(void)state;
	struct wire_heap_slot *slot = full_ring_and_old_beat(2000000000u);
	slot->tail =
		slot->head; /* room for now: the pause is noticed, then forgotten by the stamp */
	hook_malloc(10, CALLER(8, 0x1000));
	assert_int_equal(self.stood_beat, process.heap->heartbeat_ns);
	struct slow_reader reader = { .slot = slot, .tid = gettid() };
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	while (!slot->waits)
		hook_malloc(10, CALLER(8, 0x1000));
	__atomic_store_n(&reader.stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 1);
}

static void who_ran_meanwhile_never_waits_for_a_heart_that_stopped(void **state)
{
	(void)state;
	struct wire_heap_slot *slot = full_ring_and_old_beat(10000000u);
	hook_malloc(10, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 2);
	assert_int_equal(slot->wait_ns, 0);
}

static void a_heart_that_stopped_has_a_moment_once(void **state)
{
	(void)state;
	struct wire_heap_slot *slot = full_ring_and_old_beat(2000000000u);
	self.stood_beat = process.heap->heartbeat_ns;
	self.stood_ns = now_ns() - 201000000u;
	hook_malloc(10, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 2);
	assert_int_equal(slot->wait_ns, 0);
}

static void a_reallocs_end_always_fits_behind_its_beginning(void **state)
{
	(void)state;
	script();
	give = blocks[1];
	for (int fill = 0; fill < 300; fill++) {
		/* every fill level of the ring, up to full */
		for (int i = 0; i < fill; i++)
			hook_free(blocks[0], CALLER(8, 0x1000));
		hook_realloc(blocks[0], fill & 1 ? (size_t)1 << 40 : 8, CALLER(8, 0x1000));
		unsigned begun = 0, ended = 0;
		for (struct record r = take(0); r.tag; r = take(0)) {
			begun += r.tag == WIRE_REALLOC_BEGIN;
			ended += r.tag == WIRE_REALLOC_END || r.tag == WIRE_REALLOC_END_BIG;
		}
		assert_int_equal(begun, ended);
	}
}

static void no_record_is_lost_or_split_over_a_hundred_laps(void **state)
{
	(void)state;
	script();
	uint64_t seen = 0, sent = 0, random = 1;
	while (sent < 50000) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		unsigned burst = random >> 59;
		for (unsigned i = 0; i < burst; i++, sent++) {
			if ((random >> i) & 1)
				hook_free(blocks[0], CALLER(8, 0x1000));
			else
				hook_malloc((random >> i) & 2 ? 8 : (size_t)1 << 40,
					    CALLER(8, 0x1000));
		}
		process.heap->tick += (random >> 40) & 1;
		while (take(0).tag)
			seen++;
	}
	assert_int_equal(seen, sent);
}

static void without_a_free_slot_calls_are_counted(void **state)
{
	(void)state;
	script();
	process.slots[0].owner = process.slots[1].owner = 99;
	process.have_key = 1; /* who owns them would have told of their ends */
	hook_malloc(10, CALLER(8, 0x1000));
	hook_free(blocks[0], CALLER(8, 0x1000));
	assert_int_equal(process.heap->lost[WIRE_LOST_NO_SLOT].allocations, 1);
	assert_int_equal(process.heap->lost[WIRE_LOST_NO_SLOT].bytes, 10);
	assert_int_equal(process.heap->lost[WIRE_LOST_NO_SLOT].frees, 1);
	/* one becomes free: taken for an event at a time, and given back */
	process.slots[1].owner = 0;
	hook_malloc(11, CALLER(8, 0x1000));
	assert_int_equal(process.slots[1].owner, 0);
	assert_int_equal(take(1).size, 11);
}

static jmp_buf out;
static void *jumping_realloc(void *old, size_t size)
{
	(void)old;
	(void)size;
	longjmp(out, 1); /* as a signal handler may */
}
static void jump_out(void)
{
	while_walking = NULL;
	hook_malloc(5, CALLER(20, 0x1000)); /* deeper, in the handler: the hook is still there */
	longjmp(out, 1);
}

static void a_jump_out_of_a_hook_does_not_silence_its_thread(void **state)
{
	(void)state;
	script();
	next.realloc = jumping_realloc;
	if (setjmp(out) == 0)
		hook_realloc(blocks[1], 50, CALLER(24, 0x1000));
	const struct wire_lost_count *lost = &process.slots[0].lost[WIRE_LOST_NESTED];
	hook_malloc(6,
		    CALLER(23, 0x1000)); /* deeper still: as far as anybody knows, in the handler */
	assert_int_equal(lost->allocations, 1);
	hook_malloc(7, CALLER(28, 0x1000));
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_FAIL);
	assert_ptr_equal(r.value, blocks[1]);
	assert_int_equal(take(0).size, 7);
	/* out of the stepper, whose memory was in the middle of a change */
	while_walking = jump_out;
	if (setjmp(out) == 0)
		hook_malloc(8, CALLER(24, 0x2000));
	assert_int_equal(lost->allocations, 2);
	hook_malloc(9, CALLER(28, 0x2000));
	r = take(0);
	assert_int_equal(r.size, 9);
	assert_int_equal(pc_of(r.node), 0x2000);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(self.sync, proc.word);
}

/* As if the jump came when the room was there, with the thread's name in it, and nothing of it was published yet. */
static void reserve_and_jump_out(void)
{
	while_walking = NULL;
	assert_non_null(ring_room_slow(&self, 16, 0));
	longjmp(out, 1);
}

static void a_thread_whose_first_record_was_jumped_out_of_is_named_before_the_next(void **state)
{
	(void)state;
	script();
	named = 0;
	while_walking = reserve_and_jump_out;
	if (setjmp(out) == 0)
		hook_malloc(8, CALLER(24, 0x2000));
	hook_malloc(9, CALLER(28, 0x2000));
	assert_int_equal(take(0).size, 9);
	assert_int_equal(named, 1);
}

#if defined(__x86_64__)
#define TRAP_FLAG "0x100"
static volatile unsigned steps_left;
static sigjmp_buf at_step;
static void jump_at_step(int number)
{
	(void)number;
	if (--steps_left == 0)
		siglongjmp(at_step, 1);
}

/* Return: 0 it was over before @steps instructions, 1 it was left by a jump then. */
static int realloc_for(unsigned steps, void *block, size_t size)
{
	steps_left = steps;
	if (sigsetjmp(at_step, 1))
		return 1;
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $" TRAP_FLAG
			 ", (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
	hook_realloc(block, size, CALLER(24, 0x1000));
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~" TRAP_FLAG
			 ", (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
	return 0;
}

/* The recorder closes a ring in which a realloc begins twice, or ends without having begun. */
static int realloc_is_whole_after(unsigned steps, void *gives, size_t size)
{
	script();
	hook_malloc(6, CALLER(28, 0x1000));
	assert_int_equal(take(0).size, 6);
	self.unwind = self.walker = NULL; /* of the stepper's instructions there are too many */
	give = gives;
	int left = realloc_for(steps, blocks[1], size);
	give = blocks[3];
	hook_malloc(7, CALLER(28, 0x1000));
	struct record r = take(0);
	unsigned end = 0;
	if (r.tag == WIRE_REALLOC_BEGIN) {
		end = take(0).tag;
		r = take(0);
	}
	if (r.tag != WIRE_ALLOC || r.size != 7 || take(0).tag)
		fail_msg("after %u instructions: record %u of size %llu", steps, r.tag,
			 (unsigned long long)r.size);
	if (!left && gives)
		assert_int_equal(end, size < 100 ? WIRE_REALLOC_END : WIRE_REALLOC_END_BIG);
	else if (end != WIRE_REALLOC_END && end != WIRE_REALLOC_END_BIG && (end || !left))
		assert_int_equal(end, WIRE_REALLOC_FAIL);
	return left;
}

static void a_jump_out_of_a_realloc_leaves_a_whole_one_at_every_instruction(void **state)
{
	const struct sigaction act = { .sa_handler = jump_at_step };
	struct sigaction before;
	assert_int_equal(sigaction(SIGTRAP, &act, &before), 0);
	for (unsigned kind = 0; kind < 3; kind++) {
		unsigned steps = 0;
		do {
			teardown(state);
			setup(state);
			steps++;
		} while (realloc_is_whole_after(steps, kind ? blocks[2] : NULL,
						kind == 1 ? 50 : 1ull << 40));
		assert_true(steps > 50);
	}
	sigaction(SIGTRAP, &before, NULL);
}
#else
/* without a flag that traps each instruction */
static void a_jump_out_of_a_realloc_leaves_a_whole_one_at_every_instruction(void **state)
{
	(void)state;
	skip();
}
#endif

static void a_thread_that_ends_out_of_a_hook_leaves_no_half_of_a_realloc(void **state)
{
	(void)state;
	script();
	next.realloc = jumping_realloc;
	while_walking = NULL;
	if (setjmp(out) == 0)
		hook_realloc(blocks[1], 50, CALLER(24, 0x1000));
	thread_end(&self);
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_FAIL);
	assert_ptr_equal(r.value, blocks[1]);
	assert_int_equal(take(0).tag, WIRE_THREAD_END);
}

static void a_number_that_is_no_address_is_no_frame(void **state)
{
	const struct wire_node *nodes = (const void *)(memory + process.heap->nodes_off);
	(void)state;
	script();
	for (uint64_t i = 1; i < 8; i++) {
		frames[40] = 0;
		frames[41] = i << 48; /* where rbp says that the caller's address stands */
		frames[29] = 0x1000 * i;
		hook_malloc(8, (uint64_t)&frames[30], (uint64_t)&frames[40], 0);
		struct record r = take(0);
		assert_int_equal(pc_of(r.node), 0x1000 * i);
		assert_int_equal(nodes[r.node].parent, WIRE_STOP_NO_MODULE);
	}
}

static int jump_out_of_a_birth(uint64_t addr)
{
	(void)addr;
	probe = NULL;
	longjmp(out, 1);
}

static int every_page(uint64_t addr)
{
	(void)addr;
	return 1;
}

static void *is_born_twice(void *arg)
{
	/* on the thread's own stack, as a caller's are */
	volatile uint64_t *caller = __builtin_alloca(32 * sizeof(*caller));
	(void)arg;
	probe = jump_out_of_a_birth;
	caller[15] = caller[23] = (uint64_t)jump_out_of_a_birth;
	if (setjmp(out) == 0)
		hook_malloc(8, (uint64_t)&caller[16], 0, 0);
	assert_null(probe);
	probe = every_page;
	hook_malloc(9, (uint64_t)&caller[24], 0, 0);
	probe = NULL;
	return NULL;
}

static void a_jump_out_of_a_threads_birth_does_not_silence_it(void **state)
{
	pthread_t thread;
	(void)state;
	script();
	assert_int_equal(pthread_create(&thread, NULL, is_born_twice, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* without the key a thread takes a slot for each call */
	assert_int_equal(take(1).size, 9);
}

static void what_was_switched_off_does_not_start_where_no_call_is_allowed(void **state)
{
	(void)state;
	script();
	proc.word = MODE_IDLE;
	process.wanted = process.seccomp = 1;
	late_starts = 0;
	hook_malloc(8, CALLER(24, 0x1000));
	assert_int_equal(late_starts, 0);
	process.seccomp = 0;
	hook_malloc(8, CALLER(24, 0x1000));
	assert_int_equal(late_starts, 1);
}

static void calls_of_other_threads_during_the_start_are_counted(void **state)
{
	(void)state;
	script();
	const struct wire_lost_count *lost = &process.heap->lost[WIRE_LOST_EARLY];
	for (int off = 0; off < 2; off++) {
		process.started = START_BUSY;
		proc.word = 0;
		next.malloc = NULL; /* not even the table is filled */
		next.calloc = NULL;
		assert_true(boot_owns(hook_malloc(10, CALLER(8, 0x1000))));
		assert_true(boot_owns(hook_calloc(2, 10, CALLER(8, 0x1000))));
		script();
		assert_ptr_equal(hook_malloc(30, CALLER(8, 0x1000)), blocks[0]);
		hook_free(blocks[0], CALLER(8, 0x1000));
		assert_int_equal(lost->allocations, 0);
		/* switched off at the start: nothing was to be recorded */
		proc.word = off ? MODE_ON : MODE_SUSPENDED;
		process.started = START_DONE;
		count_early();
		assert_int_equal(lost->allocations, off ? 6 : 0);
		assert_int_equal(lost->bytes, off ? 120 : 0);
		assert_int_equal(lost->frees, off ? 2 : 0);
		assert_int_equal(take(0).tag, 0);
	}
}

static int unmap_result;
static void *script_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
	(void)at;
	(void)bytes;
	(void)prot;
	(void)flags;
	(void)fd;
	(void)off;
	return give;
}
static int script_munmap(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	assert_int_equal(SYNC_KIND(self.sync), SYNC_OWN);
	return unmap_result;
}
static void *script_mremap(void *old, size_t had, size_t bytes, int flags, ...)
{
	(void)old;
	(void)had;
	(void)bytes;
	(void)flags;
	return give;
}

static void region_records_that_a_full_ring_refuses_are_counted(void **state)
{
	(void)state;
	script();
	unmap_result = 0;
	next.mmap = script_mmap;
	next.munmap = script_munmap;
	next.mremap = script_mremap;
	give = blocks[0];
	unsigned kept = 0;
	for (int i = 0; i < 300; i++)
		hook_mmap(NULL, 4096, 3, 2, -1, 0, CALLER(8, 0x1000));
	hook_munmap(give, 4096, CALLER(8, 0x1000));
	hook_mremap(give, 4096, 8192, 1, NULL, 0, CALLER(8, 0x1000));
	while (take(0).tag == WIRE_MAP)
		kept++;
	assert_true(kept > 100 && kept < 300);
	const struct wire_lost_count *lost = process.slots[0].lost;
	assert_int_equal(lost[WIRE_LOST_REGION].allocations, 300 - kept + 1 + 2);
	assert_int_equal(lost[WIRE_LOST_REGION].frees, 0);
	assert_int_equal(lost[WIRE_LOST_RING_FULL].allocations, 0);
}

static void only_an_unmap_that_succeeded_is_written(void **state)
{
	(void)state;
	script();
	next.munmap = script_munmap;
	unmap_result = -1;
	hook_munmap(blocks[1], 4096, CALLER(8, 0x1000));
	assert_int_equal(take(0).tag, 0);
	unmap_result = 0;
	hook_munmap(blocks[1], 8192, CALLER(8, 0x1000));
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_UNMAP);
	assert_int_equal(r.value, (uint64_t)blocks[1]);
	assert_int_equal(r.size, 8192);
	assert_int_equal(take(0).tag, 0);
}

static void the_boot_pool_is_aligned_bounded_and_checked(void **state)
{
	(void)state;
	char *a = boot_alloc(3, 1), *b = boot_alloc(5, 256);
	assert_non_null(a);
	assert_int_equal((uintptr_t)a & 15, 0);
	assert_int_equal((uintptr_t)b & 255, 0);
	assert_true(b >= a + 3 && boot_owns(a) && boot_owns(b));
	assert_int_equal(boot_size(a), 3);
	assert_int_equal(boot_size(b), 5);
	assert_null(boot_alloc(SIZE_MAX, 16));
	assert_null(boot_alloc(SIZE_MAX - 100, 64));
	unsigned given = 0;
	for (char *p; (p = boot_alloc(1000, 16)); given++)
		assert_true(boot_owns(p) && boot_owns(p + 999));
	assert_true(given > 50 && given < 66);
	/* a block of the pool is never handed to the allocator */
	script();
	hook_free(a, CALLER(8, 0x1000));
	assert_int_equal(freed_count, 0);
	memcpy(a, "ab", 3);
	char *moved = hook_realloc(a, 40, CALLER(8, 0x1000));
	assert_ptr_equal(moved, blocks[0]);
	assert_memory_equal(moved, "ab", 3);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(every_record_has_a_stamp_where_the_recorder_asks_for_that),
		CASE(a_full_ring_counts_loss_and_keeps_older_records),
		CASE(who_takes_a_full_ring_is_named_before_its_first_record),
		CASE(who_waits_for_the_recorder_goes_on_when_half_the_ring_is_free),
		CASE(who_stood_as_long_as_the_recorder_waits_for_it),
		CASE(who_stood_is_patient_with_the_recorder_when_its_ring_fills_later),
		CASE(who_ran_meanwhile_never_waits_for_a_heart_that_stopped),
		CASE(a_heart_that_stopped_has_a_moment_once),
		CASE(a_reallocs_end_always_fits_behind_its_beginning),
		CASE(no_record_is_lost_or_split_over_a_hundred_laps),
		CASE(without_a_free_slot_calls_are_counted),
		CASE(a_jump_out_of_a_hook_does_not_silence_its_thread),
		CASE(a_thread_whose_first_record_was_jumped_out_of_is_named_before_the_next),
		CASE(a_jump_out_of_a_realloc_leaves_a_whole_one_at_every_instruction),
		CASE(a_thread_that_ends_out_of_a_hook_leaves_no_half_of_a_realloc),
		CASE(a_number_that_is_no_address_is_no_frame),
		CASE(a_jump_out_of_a_threads_birth_does_not_silence_it),
		CASE(what_was_switched_off_does_not_start_where_no_call_is_allowed),
		CASE(calls_of_other_threads_during_the_start_are_counted),
		CASE(region_records_that_a_full_ring_refuses_are_counted),
		CASE(only_an_unmap_that_succeeded_is_written),
		CASE(the_boot_pool_is_aligned_bounded_and_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
