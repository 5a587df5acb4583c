/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile stacks with the program's own call chain as the truth: every function notes itself on a list when it is
 * entered; a capture has to show exactly these functions, with frames of libraries only where the list says so.
 * Compiled without frame pointers.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>

#include <cmocka.h>

#include "unwind_chain.h"

#pragma GCC diagnostic ignored "-Wvla"
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#pragma GCC diagnostic ignored "-Wframe-larger-than="

/* ---- frames of all sizes ---- */

NOINLINE void vla(int n, int level);
NOINLINE void vla(int n, int level)
{
	volatile char room[n];
	ENTER(vla);
	room[n - 1] = (char)level;
	sink = room[n - 1];
	if (level)
		vla(n * 3 % 4001 + 1, level - 1);
	else
		check_here();
	LEAVE();
	sink = room[0];
}

NOINLINE void realigned(int n, int level);
NOINLINE void realigned(int n, int level)
{
	_Alignas(128) volatile char place[128];
	volatile char
		room[n]; /* with both, the frame needs a register of its own for its arguments */
	ENTER(realigned);
	place[0] = room[0] = (char)level;
	if (level & 1)
		vla(n + 5, 2);
	if (level)
		realigned(n + 13, level - 1);
	else
		check_here();
	LEAVE();
	sink = place[0] + room[n - 1];
}

NOINLINE void large(int level);
NOINLINE void huge(int level);
NOINLINE void large(int level)
{
	volatile char room[40 << 10];
	ENTER(large);
	room[level] = 1;
	if (level)
		huge(level - 1);
	else
		check_here();
	LEAVE();
	sink = room[0];
}

NOINLINE void huge(int level)
{
	volatile char room[600 << 10];
	ENTER(huge);
	room[level] = 1;
	if (level)
		large(level - 1);
	else
		check_here();
	LEAVE();
	sink = room[0];
}

NOINLINE void frames_of_all_sizes(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20; i++)
			vla(i * 37 + 1, i);
		for (int i = 0; i < 20; i++)
			realigned(i * 11 + 1, i % 7);
		for (int i = 0; i < 10; i++)
			large(i);
	}
}

/* ---- callbacks ---- */

NOINLINE int compare(const void *a, const void *b)
{
	ENTER(LIB);
	ENTER(compare);
	check_here();
	LEAVE();
	LEAVE();
	return *(const int *)a - *(const int *)b;
}

NOINLINE void once(void)
{
	ENTER(LIB);
	ENTER(once);
	check_here();
	LEAVE();
	LEAVE();
}

/* the header has an inline copy */
static void *(*volatile find)(const void *, const void *, size_t, size_t,
			      int (*)(const void *, const void *)) = bsearch;

NOINLINE void callbacks(void **state)
{
	int v[300], key = 3;
	pthread_once_t control = PTHREAD_ONCE_INIT;
	(void)state;
	for (int i = 0; i < 300; i++)
		v[i] = i * 7919 % 301;
	qsort(v, 9, sizeof(*v), compare);
	qsort(v, 300, sizeof(*v), compare);
	find(&key, v, 300, sizeof(*v), compare);
	pthread_once(&control, once);
	KEEP;
}

/* ---- outer callers replaced at the same addresses ---- */

NOINLINE void inner(int n)
{
	ENTER(inner);
	if (n > 0)
		inner(n - 1);
	else
		check_here();
	LEAVE();
	KEEP;
}

#define TWIN(name)                                                 \
	NOINLINE void name(int path, int levels, int n);           \
	NOINLINE void name(int path, int levels, int n)            \
	{                                                          \
		ENTER(name);                                       \
		if (levels > 0)                                    \
			twins[path & 3](path >> 2, levels - 1, n); \
		else                                               \
			inner(n);                                  \
		LEAVE();                                           \
		KEEP;                                              \
	}
typedef void (*twin_fn)(int path, int levels, int n);
extern const twin_fn twins[4];
TWIN(twin_a)
TWIN(twin_b)
TWIN(twin_c)
TWIN(twin_d)
const twin_fn twins[4] = { twin_a, twin_b, twin_c, twin_d };

NOINLINE void outer_callers_replaced(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int path = 0; path < 1024; path++)
			twins[path & 3]((path * 421 + round) & 1023, 5, path % 3);
	}
	struct unwind_stats s;
	unwind_thread_stats(thread, &s);
	print_message("%lu misses, %lu joins, %lu fresh frames\n", s.misses, s.joins,
		      s.fresh_frames);
}

/* ---- signals ---- */

static sigjmp_buf out;
static int jump_out;

NOINLINE void handler(int number)
{
	ENTER(LIB); /* the return stub; and raise() and what is below it where it was called */
	ENTER(handler);
	if (number == SIGSEGV && !jump_out)
		vla(77, 2);
	inner(2);
	LEAVE();
	LEAVE();
	if (jump_out)
		siglongjmp(out, 1);
}

NOINLINE void raises(int level, int number)
{
	ENTER(raises);
	if (level)
		raises(level - 1, number);
	else
		raise(number);
	LEAVE();
	KEEP;
}

/* Reads through a null pointer: the handler interrupts exactly this instruction, the first of the function or not. */
NOINLINE int reads_null(int *where)
{
	return *where;
}

NOINLINE void faults(void)
{
	volatile int before = depth;
	ENTER(faults);
	ENTER(reads_null);
	jump_out = 1;
	if (sigsetjmp(out, 1) == 0)
		sink = reads_null((int *)(uintptr_t)(sink & 0));
	jump_out = 0;
	depth = before + 1;
	inner(1);
	depth = before;
}

static void install(int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };
	sigemptyset(&sa.sa_mask);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

NOINLINE void signal_handlers(void **state)
{
	static char other[64 << 10];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	(void)state;
	for (int round = 0; round < 4; round++) {
		install(0);
		raises(round, SIGUSR1);
		faults();
		assert_int_equal(sigaltstack(&stack, NULL), 0);
		install(SA_ONSTACK);
		raises(round, SIGUSR1);
		faults();
		inner(3);
	}
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	install(0);
}

/* ---- longjmp ---- */

static jmp_buf back;

NOINLINE void dives(int level)
{
	ENTER(dives);
	check_here();
	if (level == 0)
		longjmp(back, 1);
	dives(level - 1);
	LEAVE();
	KEEP;
}

NOINLINE void jumps_back(void **state)
{
	(void)state;
	for (volatile int i = 0; i < 20; i++) {
		volatile int before = depth;
		if (setjmp(back) == 0)
			dives(i);
		depth = before;
		check_here();
		inner(i);
	}
}

/* ---- coroutines ---- */

static ucontext_t main_context, other_context;

NOINLINE void coroutine(void)
{
	int before = depth;
	depth = 0;
	ENTER(LIB); /* __start_context */
	ENTER(coroutine);
	for (int i = 0; i < 5; i++) {
		int mine = depth;
		inner(i);
		depth = before;
		swapcontext(&other_context, &main_context);
		before = depth;
		depth = mine;
		chain[0] = LIB;
		chain[1] = (void *)coroutine;
	}
	depth = before;
}

NOINLINE void run_coroutine(char *stack, size_t bytes)
{
	void *saved[8];
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = bytes;
	other_context.uc_link = &main_context;
	makecontext(&other_context, coroutine, 0);
	for (int i = 0; i < 6; i++) {
		memcpy(saved, chain, sizeof(saved));
		swapcontext(&main_context, &other_context);
		memcpy(chain, saved, sizeof(saved));
		check_here();
		KEEP;
	}
}

NOINLINE void makecontext_coroutines(void **state)
{
	char here[64 << 10]; /* within the thread's own stack */
	(void)state;
	ENTER(run_coroutine);
	char *heap = malloc(64 << 10);
	run_coroutine(heap, 64 << 10);
	run_coroutine(here, sizeof(here));
	/* right below memory that is not there */
	char *edge =
		mmap(NULL, 68 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(edge + (64 << 10), 4096, PROT_NONE);
	run_coroutine(edge, 64 << 10);
	munmap(edge, 68 << 10);
	free(heap);
	LEAVE();
}

/* A switch made by hand: push what the callee must keep, change rsp, pop. The first entry is by return. */
void switch_to(void **save, void *load);
__asm__(".text\n.globl switch_to\n.type switch_to,@function\nswitch_to:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset %rbp, 0\n"
	"	push %rbx\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset %rbx, 0\n"
	"	push %r12\n	.cfi_adjust_cfa_offset 8\n"
	"	push %r13\n	.cfi_adjust_cfa_offset 8\n"
	"	push %r14\n	.cfi_adjust_cfa_offset 8\n"
	"	push %r15\n	.cfi_adjust_cfa_offset 8\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %r14\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %r13\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %r12\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbx\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore %rbx\n"
	"	pop %rbp\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore %rbp\n"
	"	ret\n"
	"	.cfi_endproc\n.size switch_to,.-switch_to\n");

static void *main_sp, *fiber_sp;

NOINLINE void fiber(void)
{
	for (int i = 0;; i = (i + 1) % 4) {
		int before = depth;
		void *saved[2] = { chain[0], chain[1] };
		depth = 0;
		ENTER(fiber);
		inner(i);
		depth = before;
		chain[0] = saved[0];
		chain[1] = saved[1];
		switch_to(&fiber_sp, main_sp);
	}
}

NOINLINE void run_fiber(char *stack, size_t bytes)
{
	void **top = (void **)(stack + bytes - 16);
	void *saved[8];
	*--top = NULL; /* what called fiber: nobody */
	*--top = (void *)fiber;
	for (int i = 0; i < 6; i++)
		*--top = NULL;
	fiber_sp = top;
	for (int i = 0; i < 12; i++) {
		memcpy(saved, chain, sizeof(saved));
		switch_to(&main_sp, fiber_sp);
		memcpy(chain, saved, sizeof(saved));
		check_here();
		KEEP;
	}
}

NOINLINE void coroutines_by_hand(void **state)
{
	char here[64 << 10];
	(void)state;
	ENTER(run_fiber);
	char *edge =
		mmap(NULL, 68 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(edge + (64 << 10), 4096, PROT_NONE);
	run_fiber(edge, 64 << 10);
	run_fiber(here, sizeof(here));
	munmap(edge, 68 << 10);
	LEAVE();
}

/* Calls @function on the stack that ends at @sp, and finds back by rbp. */
void call_on(void (*function)(void), char *sp);
__asm__(".text\n.globl call_on\n.type call_on,@function\ncall_on:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rbp, 0\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	mov %rsi, %rsp\n"
	"	call *%rdi\n"
	"	mov %rbp, %rsp\n"
	"	pop %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n.size call_on,.-call_on\n");

static char *higher; /* the end of a stack above all others of its kind */

NOINLINE void on_another_stack(void)
{
	ENTER(on_another_stack);
	for (int i = 0; i < 3; i++) {
		check_here();
		vla(50, i);
	}
	LEAVE();
	KEEP;
}

NOINLINE void deeper_on_another_stack(int n, char *sp)
{
	volatile char room[4096];
	ENTER(deeper_on_another_stack);
	room[n] = 1;
	if (n) {
		deeper_on_another_stack(n - 1, sp);
	} else {
		ENTER(call_on);
		call_on(on_another_stack, sp);
		LEAVE();
	}
	check_here();
	LEAVE();
	sink = room[n];
}

NOINLINE void stacks_that_lie_higher(void **state)
{
	(void)state;
	char here[64 << 10]; /* in a frame further out */
	want_root = WIRE_STOP_END;
	wrong += higher < here;
	for (int i = 0; i < 3; i++) {
		deeper_on_another_stack(i, higher);
		deeper_on_another_stack(i, (char *)((uintptr_t)(here + sizeof(here)) & ~15ul));
	}
	KEEP;
}

/* A coroutine whose outermost frame says that its caller stands in memory that is not there. */
void lost_fiber(void);
NOINLINE void lost_fiber_back(void)
{
	switch_to(&fiber_sp, main_sp);
}
__asm__(".text\n.globl lost_fiber\n.type lost_fiber,@function\nlost_fiber:\n"
	"	.cfi_startproc\n"
	"	sub $16, %rsp\n	.cfi_adjust_cfa_offset 16\n"
	"1:	call check_here\n"
	"	call lost_fiber_back\n"
	"	jmp 1b\n"
	"	.cfi_endproc\n.size lost_fiber,.-lost_fiber\n");

NOINLINE void stacks_that_end_in_the_void(void **state)
{
	int before = depth;
	(void)state;
	char *edge =
		mmap(NULL, 68 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(edge + (64 << 10), 4096, PROT_NONE);
	void **top = (void **)(edge + (64 << 10)); /* lost_fiber's return address would be here */
	*--top = (void *)lost_fiber;
	for (int i = 0; i < 6; i++)
		*--top = NULL;
	fiber_sp = top;
	want_root = WIRE_STOP_READ;
	depth = 0;
	ENTER(lost_fiber);
	switch_to(&main_sp, fiber_sp);
	switch_to(&main_sp, fiber_sp);
	want_root = WIRE_STOP_END;
	munmap(edge, 68 << 10);
	depth = before;
}

/* ---- code without unwind entries ---- */

/* Called with a frame pointer and without entries: the walk guesses, and says so. */
void no_entries(void (*call)(int), int n);
__asm__(".text\n.globl no_entries\n.type no_entries,@function\nno_entries:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	mov %rdi, %rax\n"
	"	mov %esi, %edi\n"
	"	call *%rax\n"
	"	xor %eax, %eax\n"
	"	pop %rbp\n"
	"	ret\n.size no_entries,.-no_entries\n");

/* Without entries, and rbp is no frame pointer: what stands behind the call says where the frame ends. */
void leaves_at_once(void (*call)(int), int n);
__asm__(".text\n.globl leaves_at_once\n.type leaves_at_once,@function\nleaves_at_once:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	sub $24, %rsp\n"
	"	mov %rdi, %rax\n"
	"	mov %esi, %edi\n"
	"	lea 8(%rsp), %rbp\n"
	"	mov $1, %ebx\n"
	"	call *%rax\n"
	"	add $24, %rsp\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n.size leaves_at_once,.-leaves_at_once\n");

NOINLINE void code_without_entries(void **state)
{
	(void)state;
	want_root = WIRE_STOP_GUESSED;
	ENTER(no_entries);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++)
			no_entries(inner, i);
	}
	LEAVE();
	want_root = WIRE_STOP_END;
	inner(2);
	KEEP;
}

NOINLINE void code_that_leaves_at_once(void **state)
{
	(void)state;
	ENTER(leaves_at_once);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5; i++)
			leaves_at_once(inner, i);
	}
	LEAVE();
	inner(2);
	KEEP;
}

/* ---- code made at run time ---- */

/* sub $24, %rsp; mov %esi, %edi ... call *%rax; add $24, %rsp; ret */
static const uint8_t jit_code[] = { 0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0xf8, 0x89,
				    0xf7, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x18, 0xc3 };
typedef void (*jit_fn)(void (*call)(int), int n);

static void put32(uint8_t **at, uint32_t v)
{
	memcpy(*at, &v, 4);
	*at += 4;
}

static void put64(uint8_t **at, uint64_t v)
{
	memcpy(*at, &v, 8);
	*at += 8;
}

/* A CIE and an FDE for the code, absolute pointers, ended by a zero length. */
static void make_records(uint8_t *at, const void *code)
{
	static const uint8_t cie[] = { 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0 };
	static const uint8_t fde[] = { 0x44, 0x0e, 32, 0x4b, 0x0e, 8, 0, 0 };
	uint8_t *begin = at;
	put32(&at, 4 + sizeof(cie));
	put32(&at, 0);
	memcpy(at, cie, sizeof(cie));
	at += sizeof(cie);
	put32(&at, 4 + 16 + sizeof(fde));
	put32(&at, (uint32_t)(at - begin));
	put64(&at, (uint64_t)(uintptr_t)code);
	put64(&at, sizeof(jit_code));
	memcpy(at, fde, sizeof(fde));
	at += sizeof(fde);
	put32(&at, 0);
}

NOINLINE void check_jit(int n)
{
	static uint64_t ip[256];
	uint32_t root, count = harness_frames(&harness, capture_here(thread), ip, 256, &root);
	checks++;
	wrong += root != (uint32_t)n;
	/* this function, the made code, its caller, ... or cut after it where nothing is known of it */
	wrong += n == WIRE_STOP_END ? count < 6 : count != 1;
	KEEP;
}

NOINLINE void code_made_at_run_time(void **state)
{
	(void)state;
	uint8_t *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(code != MAP_FAILED);
	memcpy(code, jit_code, sizeof(jit_code));
	jit_fn call;
	memcpy(&call, &code, sizeof(call));
	for (int round = 0; round < 3; round++) {
		call(check_jit,
		     WIRE_STOP_NO_MODULE); /* the harness knows no code outside of modules */
		make_records(code + 4096, code);
		unwind_register_frame(harness.process, code + 4096);
		call(check_jit, WIRE_STOP_END);
		call(check_jit, WIRE_STOP_END);
		unwind_deregister_frame(harness.process, code + 4096);
		memset(code + 4096, 0xff, 64);
		call(check_jit, WIRE_STOP_NO_MODULE);
	}
	/* records that run into memory that is not there are not taken */
	memcpy(code + 8192 - 8, "\xff\xff\0\0\0\0\0", 8);
	unwind_register_frame(harness.process, code + 8192 - 8);
	call(check_jit, WIRE_STOP_NO_MODULE);
	munmap(code, 8192);
}

/* ---- */

static void (*scenario)(void **state);

/* The same in the main thread, at several depths, and in threads with stacks of several sizes. */
NOINLINE void run_scenario(int pads);
NOINLINE void run_scenario(int pads)
{
	ENTER(run_scenario);
	if (pads) {
		run_scenario(pads - 1);
	} else {
		ENTER(scenario);
		scenario(NULL);
		LEAVE();
	}
	LEAVE();
	KEEP;
}

NOINLINE void *thread_body(void *arg)
{
	thread = harness_thread(&harness, *(int *)arg);
	ENTER(LIB); /* start_thread, clone */
	ENTER(thread_body);
	run_scenario(2);
	LEAVE();
	LEAVE();
	KEEP;
	return NULL;
}

static void everywhere(void (*f)(void **state))
{
	checks = wrong = 0;
	scenario = f;
	for (int slot = 0; slot < 3; slot++) {
		int number = (int[]){ 1, 5, 50 }[slot];
		pthread_t id;
		pthread_attr_t attr;
		depth = 0;
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 16 << 20);
		assert_int_equal(pthread_create(&id, &attr, thread_body, &number), 0);
		pthread_join(id, NULL);
	}
	print_message("%u checks\n", checks);
	assert_true(checks > 0);
	assert_int_equal(wrong, 0);
}

#define SCENARIO(name, function)       \
	static void name(void **state) \
	{                              \
		(void)state;           \
		everywhere(function);  \
	}
SCENARIO(vlas_realigned_and_huge_frames_are_exact, frames_of_all_sizes)
SCENARIO(callbacks_through_libc_are_exact, callbacks)
SCENARIO(outer_callers_replaced_at_the_same_addresses_are_seen, outer_callers_replaced)
SCENARIO(signal_handlers_on_both_stacks_are_exact, signal_handlers)
SCENARIO(stacks_after_longjmp_are_exact, jumps_back)
SCENARIO(coroutines_of_makecontext_are_exact, makecontext_coroutines)
SCENARIO(hand_made_coroutines_are_exact, coroutines_by_hand)
SCENARIO(switches_to_a_stack_that_lies_higher_are_exact, stacks_that_lie_higher)
SCENARIO(memory_that_is_not_there_is_not_read, stacks_that_end_in_the_void)
SCENARIO(registered_frames_of_made_code_are_walked, code_made_at_run_time)
SCENARIO(frame_pointers_help_out_and_are_marked, code_without_entries)
SCENARIO(the_way_out_of_a_frame_tells_of_it, code_that_leaves_at_once)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vlas_realigned_and_huge_frames_are_exact),
		cmocka_unit_test(callbacks_through_libc_are_exact),
		cmocka_unit_test(outer_callers_replaced_at_the_same_addresses_are_seen),
		cmocka_unit_test(signal_handlers_on_both_stacks_are_exact),
		cmocka_unit_test(stacks_after_longjmp_are_exact),
		cmocka_unit_test(coroutines_of_makecontext_are_exact),
		cmocka_unit_test(hand_made_coroutines_are_exact),
		cmocka_unit_test(switches_to_a_stack_that_lies_higher_are_exact),
		cmocka_unit_test(memory_that_is_not_there_is_not_read),
		cmocka_unit_test(registered_frames_of_made_code_are_walked),
		cmocka_unit_test(frame_pointers_help_out_and_are_marked),
		cmocka_unit_test(the_way_out_of_a_frame_tells_of_it),
	};
	/* before there are threads, whose stacks are put below */
	higher = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (higher == MAP_FAILED)
		return 1;
	higher += 1 << 20;
	harness_init(&harness);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
