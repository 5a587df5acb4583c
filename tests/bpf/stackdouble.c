/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stackdouble.c - stands in for the preload library in a test: at every n-th malloc it takes the stack by unwind/capture
 * and by libunwind, and then calls stack_here(), where the kernel takes it as well. Built without frame pointers.
 */
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <fcntl.h>
#include <libunwind.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unwind_harness.h"
#include "double.h"

#define NOINLINE __attribute__((noinline))
#define THREADS 64

static struct double_file *file;
static struct harness harness;
static void *(*next_malloc)(size_t);
static uint32_t threads;
static __thread int inside __attribute__((tls_model("initial-exec")));
static __thread struct unwind_thread *thread __attribute__((tls_model("initial-exec")));
static __thread int thread_tried __attribute__((tls_model("initial-exec")));
static unsigned long long adds_seen;

void stack_here(uint64_t number);
/* the kernel looks here; @number names the record */
NOINLINE void stack_here(uint64_t number)
{
	__asm__ volatile("" : : "r"(number) : "memory");
}

static int count_objects(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned long long *)data = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

static void wait_for_tables(void)
{
	unsigned long long adds = 0;
	dl_iterate_phdr(count_objects, &adds);
	if (adds == adds_seen)
		return;
	adds_seen = adds;
	unwind_process_changed(harness.process);
	uint32_t want = __atomic_add_fetch(&file->wanted, 1, __ATOMIC_SEQ_CST);
	while ((int32_t)(__atomic_load_n(&file->done, __ATOMIC_SEQ_CST) - want) < 0)
		usleep(100);
}

static NOINLINE uint32_t walk_by_libunwind(uint64_t *frames, uint32_t max)
{
	void *ip[DOUBLE_FRAMES];
	int count = unw_backtrace(ip, DOUBLE_FRAMES);
	uint32_t n = 0;
	/* this function, capture(), malloc(): then its caller */
	for (int i = 3; i < count && n < max; i++)
		frames[n++] = (uint64_t)(uintptr_t)ip[i];
	return n;
}

static NOINLINE void capture(void)
{
	uint64_t all[DOUBLE_FRAMES];
	if (!thread && !thread_tried) {
		thread_tried = 1;
		uint32_t slot = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
		if (slot < THREADS)
			thread = harness_thread(&harness, slot);
	}
	if (!thread)
		return;
	wait_for_tables();
	uint32_t number = __atomic_fetch_add(&file->count, 1, __ATOMIC_SEQ_CST);
	if (number >= DOUBLE_RECORDS) {
		__atomic_store_n(&file->count, DOUBLE_RECORDS, __ATOMIC_SEQ_CST);
		return;
	}
	struct double_record *r = &file->record[number];
	r->tid = (uint32_t)gettid();
	/* its first frames are here and in malloc() */
	uint32_t n = harness_frames(&harness, capture_here(thread), all, DOUBLE_FRAMES, &r->root);
	n = n < DOUBLE_FRAMES ? n : DOUBLE_FRAMES;
	for (uint32_t i = 2; i < n; i++)
		r->our_frame[i - 2] = all[i];
	r->ours = n < 2 ? 0 : n - 2;
	r->theirs = walk_by_libunwind(r->their_frame, DOUBLE_FRAMES);
	stack_here(number);
}

void *malloc(size_t bytes)
{
	if (!next_malloc) {
		if (inside)
			return NULL;
		inside = 1;
		next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
		inside = 0;
	}
	void *block = next_malloc(bytes);
	if (file && file->go && !inside &&
	    __atomic_add_fetch(&file->mallocs, 1, __ATOMIC_RELAXED) % file->every == 0) {
		int saved = errno;
		inside = 1;
		capture();
		inside = 0;
		errno = saved;
	}
	return block;
}

static void __attribute__((constructor)) start(void)
{
	const char *path = getenv("STACKDOUBLE_FILE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	struct double_file *mapped =
		mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED || mapped->pid) /* a child of the program: not ours */
		return;
	unsetenv("STACKDOUBLE_FILE");
	inside = 1;
	harness_init(&harness);
	inside = 0;
	__atomic_store_n(&mapped->pid, (uint32_t)getpid(), __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&mapped->go, __ATOMIC_SEQ_CST))
		usleep(100);
	file = mapped;
}
