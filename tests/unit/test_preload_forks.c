/* SPDX-License-Identifier: Apache-2.0 */
/* Forks: what the hook under way, its thread and the others find in the parent and in the child. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload_script.h"

static void the_child_of_a_fork_writes_nothing(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	uint64_t head = process.slots[0].head;
	proc.word = 0; /* as the kernel leaves the page */
	hook_malloc(2, CALLER(8, 0x1000));
	hook_free(blocks[0], CALLER(8, 0x1000));
	hook_realloc(blocks[0], 10, CALLER(8, 0x1000));
	assert_int_equal(process.slots[0].head, head);
	assert_int_equal(freed_count, 1);
}

static void *forking_malloc(size_t size)
{
	(void)size;
	proc.word = 0; /* a signal handler forked here, and this is the child */
	return blocks[0];
}

static void a_fork_in_the_middle_of_a_call_leaves_the_ring_alone(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++) {
		script();
		proc.word = round ? MODE_ON | MODE_PLAIN : MODE_ON;
		hook_malloc(1, CALLER(8, 0x1000));
		uint64_t head = process.slots[0].head;
		next.malloc = forking_malloc;
		assert_ptr_equal(hook_malloc(2, CALLER(8, 0x1000)), blocks[0]);
		assert_int_equal(process.slots[0].head, head);
	}
}

static int parent_waited;
static void (*meanwhile)(void);
static void fork_here(void)
{
	static char before[RING + SCRATCH];
	const struct wire_heap_slot *slot = &process.slots[0];
	uint64_t head = slot->head;
	while_walking = NULL;
	memcpy(before, memory + slot->scratch_off, sizeof(before));
	fork_prepare();
	if (meanwhile)
		meanwhile();
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		proc.word = 0;
		fork_child();
		return;
	}
	fork_parent();
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(slot->head, head);
	assert_memory_equal(before, memory + slot->scratch_off, sizeof(before));
	parent_waited++;
}

/* The stamp that stands at @at in the ring of slot @number; 0: another record stands there. */
static uint64_t stamp_at(unsigned number, uint64_t at)
{
	const char *ring = memory + process.slots[number].ring_off;
	const uint64_t *word = (const uint64_t *)(ring + (at & (RING - 1)));
	return (*word & 0xff) == WIRE_TIME ? *word >> 8 : 0;
}

/* Two threads of a process by turns: what one of them is lies in @self, what the other is aside. Both are called 1: only the main thread keeps its ring here. */
static void what_another_thread_does_after_a_followed_fork_is_stamped_behind_it(void **state)
{
	(void)state;
	script();
	process.follow = 1;
	struct thread other = self, forking;
	hook_malloc(1, CALLER(8, 0x1000));
	forking = self;
	self = other;
	hook_malloc(2, CALLER(8, 0x2000));
	other = self;
	self = forking;
	assert_ptr_equal(other.slot, &process.slots[1]);
	uint64_t forked_at = process.slots[0].head, freed_at = process.slots[1].head;
	fork_prepare(); /* no beat of a recorder before or after it */
	assert_int_equal(self.fork_number, 1);
	uint64_t forked = stamp_at(0, forked_at);
	assert_true(forked != 0);
	fork_parent();
	self = other;
	hook_free(blocks[0], CALLER(8, 0x2000));
	uint64_t behind = stamp_at(1, freed_at);
	if (behind < forked)
		fail_msg("the fork has the stamp %lu, the free that follows it %lu", forked,
			 behind);
	tail = freed_at;
	assert_int_equal(take(1).tag, WIRE_FREE);
}

static void fork_out_of_the_stepper(void)
{
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	pid_t parent = getpid();
	struct wire_heap_slot *slot = &process.slots[0];
	uint64_t before = slot->head;
	parent_waited = 0;
	while_walking = fork_here;
	process.heap->tick++; /* a stamp is due: the ring would be written even before the record */
	hook_malloc(2, CALLER(8, 0x2000));
	if (getpid() != parent) {
		int bad = hook_malloc(3, CALLER(8, 0x3000)) != blocks[0];
		_exit(bad);
	}
	assert_int_equal(parent_waited, 1);
	struct record r = take(0);
	assert_int_equal(r.size, 2);
	assert_int_equal(pc_of(r.node), 0x2000);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(slot->head - before, 8 + 16);
	hook_malloc(4, CALLER(8, 0x2000));
	assert_int_equal(take(0).node, r.node);
}

static void a_fork_out_of_the_stepper_leaves_the_parents_memory_alone(void **state)
{
	(void)state;
	script();
	meanwhile = NULL;
	fork_out_of_the_stepper();
}

/* Between this thread's preparation and its fork another one, which is in a hook likewise, forks. */
static void another_forks(void)
{
	static struct thread other;
	struct thread this = self;
	other = this;
	other.slot = &process.slots[1];
	other.fork_kept = NULL;
	self = other;
	fork_prepare();
	fork_parent();
	self = this;
}

static void two_threads_that_fork_out_of_the_stepper_at_once_leave_it_alone(void **state)
{
	(void)state;
	script();
	meanwhile = another_forks;
	fork_out_of_the_stepper();
}

static void a_fork_that_was_jumped_out_of_leaves_nothing_for_the_next(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	uint32_t sync = self.sync;
	self.sync = SYNC_OWN;
	fork_prepare(); /* and a handler jumps out of it, and out of the hook */
	self.sync = sync;
	struct wire_heap_slot *slot = self.slot;
	fork_prepare();
	fork_child();
	assert_ptr_equal(self.slot, slot);
	hook_malloc(2, CALLER(8, 0x1000));
	uint64_t head = slot->head;
	assert_int_equal(take(0).size, 1);
	assert_int_equal(take(0).size, 2);
	assert_int_equal(tail, head);
}

/* What happens while the key's value is set. */
static void (*while_set)(void);
int pthread_setspecific(pthread_key_t key, const void *value)
{
	int (*real)(pthread_key_t, const void *) =
		(int (*)(pthread_key_t, const void *))dlsym(RTLD_NEXT, "pthread_setspecific");
	if (while_set && value == &self) /* not a sanitizer's */
		while_set();
	return real(key, value);
}

static sigjmp_buf born;
static void leave_birth(int sig)
{
	(void)sig;
	siglongjmp(born, 1);
}

static void signal_at_birth(void)
{
	while_set = NULL;
	raise(SIGUSR1);
}

static int child_status; /* looked at where a failure is a test's */
static void fork_at_birth(void)
{
	while_set = NULL;
	pid_t child = fork();
	if (child == 0) {
		thread_forked();
		_exit(!thread_key_give());
	}
	if (waitpid(child, &child_status, 0) != child)
		child_status = -1;
}

static void *is_born(void *arg)
{
	/* on the thread's own stack, as a caller's are */
	volatile uint64_t *caller = __builtin_alloca(32 * sizeof(*caller));
	(void)arg;
	caller[15] = (uint64_t)is_born;
	if (sigsetjmp(born, 1) == 0)
		hook_malloc(8, (uint64_t)&caller[16], 0, 0);
	return NULL;
}

static void who_left_in_the_middle_does_not_keep_the_key(void **state)
{
	void (*const leaves[])(void) = { signal_at_birth, fork_at_birth };
	(void)state;
	signal(SIGUSR1, leave_birth);
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		pthread_key_t key;
		script();
		assert_int_equal(pthread_key_create(&key, NULL), 0);
		process.key = key;
		process.have_key = 1;
		while_set = leaves[i];
		assert_int_equal(pthread_create(&thread, NULL, is_born, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_null(while_set);
		assert_int_equal(child_status, 0);
		assert_true(thread_key_give());
	}
	signal(SIGUSR1, SIG_DFL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(the_child_of_a_fork_writes_nothing),
		CASE(a_fork_in_the_middle_of_a_call_leaves_the_ring_alone),
		CASE(a_fork_out_of_the_stepper_leaves_the_parents_memory_alone),
		CASE(two_threads_that_fork_out_of_the_stepper_at_once_leave_it_alone),
		CASE(a_fork_that_was_jumped_out_of_leaves_nothing_for_the_next),
		CASE(who_left_in_the_middle_does_not_keep_the_key),
		CASE(what_another_thread_does_after_a_followed_fork_is_stamped_behind_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
