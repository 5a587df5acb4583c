/* SPDX-License-Identifier: Apache-2.0 */
/*
 * injected.c - a program that runs, into which the library comes: it counts what it allocates
 * itself, and notices what must not happen to it.
 *
 * usage: injected count			a line N of stdin: N rounds of each call, then a line of counts
 *	  injected tight THREADS SECONDS	malloc and free without a pause; contents are checked
 *	  injected locked SECONDS		one arena, whose lock is held nearly always
 *	  injected registers SECONDS		all registers hold what is known, and are looked at
 *	  injected sleeps			threads that wait in one call each; EINTR and times are told
 *	  injected forks			a line: a child that allocates, and is waited for
 *	  injected execs PROGRAM ARGS...	a line: it becomes that program
 *	  injected opens LIBRARY FUNCTION N	a line: dlopen(), N calls, dlclose()
 *	  injected vforks SECONDS		a line: a child of vfork() that sleeps, and is waited for
 *	  injected pointer			calls by a pointer that its data holds
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
	unsigned long allocations, bytes, frees;
} counts;

static void *counted(void *block, size_t bytes)
{
	if (!block)
		abort();
	counts.allocations++;
	counts.bytes += bytes;
	memset(block, 0x5a, bytes);
	return block;
}

static void release(void *block)
{
	counts.frees++;
	free(block);
}

static void one_round(int i)
{
	void *aligned;
	size_t bytes = 100 + (size_t)(i % 7) * 1000;
	void *a = counted(malloc(bytes), bytes);
	void *b = counted(calloc(3, bytes), 3 * bytes);
	counts.frees++;
	a = counted(realloc(a, 2 * bytes), 2 * bytes);
	if (posix_memalign(&aligned, 64, bytes) != 0)
		abort();
	counted(aligned, bytes);
	char *text = strdup("a text that the C library allocates itself");
	counted(text, 43);
	release(text);
	release(b);
	release(aligned);
	release(a);
}

static char line[256];

/* Not by stdio, whose buffers are of the allocator, too. */
static int next_line(void)
{
	size_t have = 0;
	while (have < sizeof(line) - 1 && read(0, line + have, 1) == 1 && line[have] != '\n')
		have++;
	int more = line[have] == '\n';
	line[have] = '\0';
	return more;
}

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		abort();
}

static void count(void)
{
	char text[128];
	void *kept[64] = { 0 };
	unsigned at = 0;
	while (next_line()) {
		memset(&counts, 0, sizeof(counts));
		int rounds = atoi(line);
		for (int i = 0; i < rounds; i++) {
			one_round(i);
			/* one of before, and one that stays */
			if (kept[at % 64])
				release(kept[at % 64]);
			kept[at++ % 64] = counted(malloc(4096), 4096);
		}
		snprintf(text, sizeof(text), "%lu %lu %lu\n", counts.allocations, counts.bytes,
			 counts.frees);
		say(text);
	}
}

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double until;

static void *tight(void *arg)
{
	uint64_t n = (uint64_t)(uintptr_t)arg << 40, rounds = 0;
	uint64_t *kept[32] = { 0 };
	while (rounds % 4096 || now() < until) {
		uint64_t i = rounds++ % 32;
		if (kept[i] && (kept[i][0] != n + i || kept[i][3] != ~(n + i)))
			abort();
		free(kept[i]);
		kept[i] = malloc(32 + rounds % 512);
		if (!kept[i])
			abort();
		kept[i][0] = n + i;
		kept[i][3] = ~(n + i);
	}
	for (int i = 0; i < 32; i++)
		free(kept[i]);
	return NULL;
}

static void *holds(void *arg)
{
	(void)arg;
	while (now() < until)
		malloc_trim(0);
	return NULL;
}

static void locked(void)
{
	enum { MANY = 40000 };
	static void *blocks[MANY];
	pthread_t threads[3];
	mallopt(M_ARENA_MAX, 1);
	for (int i = 0; i < MANY; i++)
		blocks[i] = malloc(2000);
	for (int i = 0; i < MANY; i += 2)
		free(blocks[i]);
	pthread_create(&threads[0], NULL, holds, NULL);
	pthread_create(&threads[1], NULL, tight, (void *)1);
	pthread_create(&threads[2], NULL, tight, (void *)2);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* Everything that a call may change, or must keep, is looked at again and again. */
static void registers(void)
{
	static const double known[4] __attribute__((aligned(32))) = { 1.5, 2.5, 3.5, 4.5 };
	while (now() < until) {
		unsigned long bad = 0;
		for (int i = 0; i < 100000 && !bad; i++)
			__asm__ volatile(
				"movapd (%1), %%xmm0\n movapd 16(%1), %%xmm15\n"
				"mov $0x1111, %%rax\n mov $0x2222, %%rcx\n mov $0x3333, %%rdx\n"
				"mov $0x4444, %%r8\n mov $0x5555, %%r9\n mov $0x6666, %%r10\n"
				"mov $0x7777, %%r11\n mov $0x8888, %%r12\n mov $0x9999, %%r15\n"
				"movq $0x1234567, -8(%%rsp)\n movq $0x7654321, -128(%%rsp)\n"
				"stc\n"
				".rept 64\n nop\n .endr\n"
				"jnc 1f\n"
				"cmp $0x1111, %%rax\n jne 1f\n cmp $0x2222, %%rcx\n jne 1f\n"
				"cmp $0x3333, %%rdx\n jne 1f\n cmp $0x4444, %%r8\n jne 1f\n"
				"cmp $0x5555, %%r9\n jne 1f\n cmp $0x6666, %%r10\n jne 1f\n"
				"cmp $0x7777, %%r11\n jne 1f\n cmp $0x8888, %%r12\n jne 1f\n"
				"cmp $0x9999, %%r15\n jne 1f\n"
				"cmpq $0x1234567, -8(%%rsp)\n jne 1f\n"
				"cmpq $0x7654321, -128(%%rsp)\n jne 1f\n"
				"cmppd $4, (%1), %%xmm0\n movmskpd %%xmm0, %%rax\n test %%rax, "
				"%%rax\n jne 1f\n"
				"cmppd $4, 16(%1), %%xmm15\n movmskpd %%xmm15, %%rax\n test %%rax, "
				"%%rax\n jne 1f\n"
				"xor %0, %0\n jmp 2f\n"
				"1: mov $1, %0\n"
				"2:\n"
				: "=b"(bad)
				: "S"(known)
				: "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r15",
				  "xmm0", "xmm15", "cc", "memory");
		if (bad)
			abort();
	}
}

/* ---- those that wait ---- */

#define WAIT_MS 2500

static int quiet[2]; /* a pipe into which nobody writes */

static int by_nanosleep(void)
{
	const struct timespec ts = { WAIT_MS / 1000, WAIT_MS % 1000 * 1000000 };
	return nanosleep(&ts, NULL);
}

static int by_poll(void)
{
	struct pollfd fd = { .fd = quiet[0], .events = POLLIN };
	return poll(&fd, 1, WAIT_MS);
}

static int by_select(void)
{
	struct timeval tv = { WAIT_MS / 1000, WAIT_MS % 1000 * 1000 };
	fd_set set;
	FD_ZERO(&set);
	FD_SET(quiet[0], &set);
	return select(quiet[0] + 1, &set, NULL, NULL, &tv);
}

static int by_cond(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += WAIT_MS % 1000 * 1000000;
	ts.tv_sec += WAIT_MS / 1000 + ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	int rc = pthread_cond_timedwait(&cond, &lock, &ts);
	pthread_mutex_unlock(&lock);
	errno = rc;
	return rc == ETIMEDOUT ? 0 : -1;
}

static int by_sem(void)
{
	sem_t sem;
	struct timespec ts;
	sem_init(&sem, 0, 0);
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_nsec += WAIT_MS % 1000 * 1000000;
	ts.tv_sec += WAIT_MS / 1000 + ts.tv_nsec / 1000000000;
	ts.tv_nsec %= 1000000000;
	return sem_timedwait(&sem, &ts) < 0 && errno == ETIMEDOUT ? 0 : -1;
}

/* Until another one writes: no time limit, and all of it has to arrive. */
static int woken[2];

static int by_read(void)
{
	char byte;
	return read(woken[0], &byte, 1) == 1 ? 0 : -1;
}

static int epolls[2];

static int by_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);
	epoll_ctl(fd, EPOLL_CTL_ADD, epolls[0], &event);
	return epoll_wait(fd, &event, 1, -1) == 1 ? 0 : -1;
}

static const struct {
	const char *name;
	int (*wait)(void);
} waits[] = { { "nanosleep", by_nanosleep }, { "poll", by_poll }, { "select", by_select },
	      { "cond", by_cond },           { "sem", by_sem },   { "read", by_read },
	      { "epoll", by_epoll } };
#define WAITS (sizeof(waits) / sizeof(waits[0]))

static void *wait_by(void *arg)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char text[128];
	size_t n = (size_t)(uintptr_t)arg;
	double began = now();
	int rc = waits[n].wait(), why = errno;
	pthread_mutex_lock(&lock);
	snprintf(text, sizeof(text), "%s %d %s %.3f\n", waits[n].name, rc,
		 rc < 0 ? strerrorname_np(why) : "-", now() - began);
	say(text);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void sleeps(void)
{
	pthread_t threads[WAITS];
	if (pipe(quiet) || pipe(woken) || pipe(epolls))
		abort();
	say("ready\n");
	for (size_t i = 0; i < WAITS; i++)
		pthread_create(&threads[i], NULL, wait_by, (void *)i);
	by_nanosleep();
	if (write(woken[1], "x", 1) != 1 || write(epolls[1], "x", 1) != 1)
		abort();
	for (size_t i = 0; i < WAITS; i++)
		pthread_join(threads[i], NULL);
}

/* ---- what it becomes ---- */

static void forks(void)
{
	while (next_line()) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			for (int i = 0; i < 1000; i++)
				free(malloc(50));
			_exit(7);
		}
		for (int i = 0; i < 1000; i++)
			free(malloc(60));
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != 7)
			abort();
		say("done\n");
	}
}

static void vforks(unsigned seconds)
{
	while (next_line()) {
		int status;
		say("now\n");
		pid_t pid = vfork();
		if (pid == 0) {
			sleep(seconds);
			_exit(7);
		}
		if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
			abort();
		say("done\n");
	}
}

static void opens(const char *library, const char *function, int times)
{
	while (next_line()) {
		void *handle = dlopen(library, RTLD_NOW);
		void *(*call)(size_t);
		if (!handle)
			abort();
		*(void **)&call = dlsym(handle, function);
		usleep(strcmp(line, "soon") == 0 ? 0 : 300000);
		for (int i = 0; i < times; i++)
			free(call(321));
		dlclose(handle);
		say("done\n");
	}
}

static void *(*volatile obtain)(size_t) = malloc;
static void (*volatile let_go)(void *) = free;

static void pointer(void)
{
	while (next_line()) {
		for (int i = 0; i < 100; i++)
			let_go(obtain(777));
		say("done\n");
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	pthread_t threads[64];
	until = now() + (argc > 2 ? atof(argv[argc - 1]) : 0);
	if (strcmp(what, "sleeps") == 0) {
		sleeps();
		return 0;
	}
	say("ready\n");
	if (strcmp(what, "count") == 0) {
		count();
	} else if (strcmp(what, "tight") == 0 && argc > 3) {
		int count_of = atoi(argv[2]) % 64;
		for (int i = 0; i < count_of; i++)
			pthread_create(&threads[i], NULL, tight, (void *)(uintptr_t)(i + 1));
		for (int i = 0; i < count_of; i++)
			pthread_join(threads[i], NULL);
		say("ok\n");
	} else if (strcmp(what, "locked") == 0) {
		locked();
		say("ok\n");
	} else if (strcmp(what, "registers") == 0) {
		registers();
		say("ok\n");
	} else if (strcmp(what, "forks") == 0) {
		forks();
	} else if (strcmp(what, "execs") == 0 && argc > 2) {
		next_line();
		execv(argv[2], argv + 2);
		return 127;
	} else if (strcmp(what, "opens") == 0 && argc > 4) {
		opens(argv[2], argv[3], atoi(argv[4]));
	} else if (strcmp(what, "vforks") == 0 && argc > 2) {
		vforks((unsigned)atoi(argv[2]));
	} else if (strcmp(what, "pointer") == 0) {
		pointer();
	} else {
		return 2;
	}
	return 0;
}
