/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zoo.c - one mapping of every kind, each with a known size, for tests of the classifier. Prints a line "KIND START BYTES"
 * for each that this kernel and user permit, "KIND - why not" for the others, then "ready", and waits for its input to end.
 * usage: zoo FOLDER [SPLITS [NAMES [THREADS]]]
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024ull
#define MIB (1024 * KIB)
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static const char *folder;

static void told(const char *kind, const void *at, uint64_t bytes)
{
	printf("%s %llu %llu\n", kind, (unsigned long long)(uintptr_t)at,
	       (unsigned long long)bytes);
}

static void missing(const char *kind)
{
	printf("%s - %s\n", kind, strerror(errno));
}

/* Each mapping stands alone, with unmapped pages on both sides, so that the kernel merges none. */
static void *place(uint64_t bytes)
{
	char *at = mmap(NULL, bytes + 8 * MIB, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	munmap(at, bytes + 8 * MIB);
	return at + 4 * MIB;
}

static void *map(const char *kind, uint64_t bytes, int prot, int flags, int fd, uint64_t touch)
{
	char *at = mmap(place(bytes), bytes, prot, flags | MAP_FIXED_NOREPLACE, fd, 0);
	if (at == MAP_FAILED) {
		missing(kind);
		return NULL;
	}
	for (uint64_t i = 0; i < touch; i += 4096) {
		if (prot & PROT_WRITE)
			at[i] = 1;
		else if (prot & PROT_READ)
			(void)*(volatile char *)(at + i);
	}
	told(kind, at, bytes);
	return at;
}

static int file(const char *name, uint64_t bytes, int keep)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return -1;
	if (!keep)
		unlink(path);
	return fd;
}

static int memfd(const char *name, uint64_t bytes)
{
	int fd = memfd_create(name, 0);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) < 0)
		return -1;
	return fd;
}

static void anonymous(void)
{
	const int priv = MAP_PRIVATE | MAP_ANONYMOUS;
	map("anonymous", MIB, PROT_READ | PROT_WRITE, priv, -1, MIB);
	char *late = map("readonly", 256 * KIB, PROT_READ | PROT_WRITE, priv, -1, 256 * KIB);
	mprotect(late, 256 * KIB, PROT_READ);
	/* --xp and -w-p: headers that a search for "rw" or "r-" misses */
	late = map("executeonly", 128 * KIB, PROT_READ | PROT_WRITE, priv, -1, 128 * KIB);
	mprotect(late, 128 * KIB, PROT_EXEC);
	late = map("writeonly", 128 * KIB, PROT_READ | PROT_WRITE, priv, -1, 128 * KIB);
	mprotect(late, 128 * KIB, PROT_WRITE);
	late = map("closed", 512 * KIB, PROT_READ | PROT_WRITE, priv, -1, 512 * KIB);
	mprotect(late, 512 * KIB, PROT_NONE); /* no access, resident all the same */
	map("jit", 192 * KIB, PROT_READ | PROT_WRITE | PROT_EXEC, priv, -1, 192 * KIB);
	map("reserved", 1ull << 40, PROT_NONE, priv | MAP_NORESERVE, -1, 0);
	map("shared", 320 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 320 * KIB);
	char *lazy = map("lazyfree", 400 * KIB, PROT_READ | PROT_WRITE, priv, -1, 400 * KIB);
	madvise(lazy, 400 * KIB, MADV_FREE);
	char *guard = map("guarded", 64 * KIB, PROT_READ | PROT_WRITE, priv, -1, 64 * KIB);
	if (guard && madvise(guard, 4096, MADV_GUARD_INSTALL) < 0)
		missing("guardmarkers");
	int zero = open("/dev/zero", O_RDWR);
	map("devzero", 96 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 96 * KIB);
	map("devzeroshared", 96 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 96 * KIB);
	char *thp = map("thp", 8 * MIB, PROT_READ | PROT_WRITE, priv, -1, 0);
	if (thp && madvise(thp, 8 * MIB, MADV_HUGEPAGE) == 0)
		memset(thp, 1, 8 * MIB);
	char *ksm = map("ksm", MIB, PROT_READ | PROT_WRITE, priv, -1, MIB);
	if (ksm && madvise(ksm, MIB, MADV_MERGEABLE) < 0)
		missing("ksmadvice");
}

static void shared(void)
{
	map("memfd", 640 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED,
	    memfd("zoo memfd-17", 640 * KIB), 640 * KIB);
	/* a private mapping of a memfd: half of it written to, so copied */
	int fd = memfd("zoo-private", 512 * KIB);
	char *fill = mmap(NULL, 512 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(fill, 1, 512 * KIB);
	munmap(fill, 512 * KIB);
	char *copy =
		map("memfdprivate", 512 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 256 * KIB);
	for (uint64_t i = 256 * KIB; copy && i < 512 * KIB; i += 4096)
		(void)*(volatile char *)(copy + i);
	int id = shmget(IPC_PRIVATE, 384 * KIB, IPC_CREAT | 0600);
	void *at = id < 0 ? (void *)-1 : shmat(id, place(384 * KIB), 0);
	if (at == (void *)-1) {
		missing("sysv");
	} else {
		memset(at, 1, 384 * KIB);
		told("sysv", at, 384 * KIB);
	}
	if (id >= 0)
		shmctl(id, IPC_RMID, NULL); /* goes when we go */
	char name[64];
	snprintf(name, sizeof(name), "/byteledger-zoo-%d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	shm_unlink(name);
	if (fd >= 0 && ftruncate(fd, 448 * KIB) == 0)
		map("posixshm", 448 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 448 * KIB);
	void *huge = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (huge == MAP_FAILED) {
		missing("hugetlb");
	} else {
		*(char *)huge = 1; /* one of two pages */
		told("hugetlb", huge, 4 * MIB);
	}
}

static void files(void)
{
	map("file", 800 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, file("000123.sst", 800 * KIB, 1),
	    800 * KIB);
	map("fileprivate", 256 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE,
	    file("data.mdb", 256 * KIB, 1), 128 * KIB);
	map("deleted", 160 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED,
	    file("gone.sst", 160 * KIB, 0), 160 * KIB);
	/* names that break parsers: blanks, a dash, an address range, a line end, " (deleted)", bytes that are not UTF-8, ANSI */
	static const char *const odd[] = { "a b  c",
					   "rw-p",
					   "00400000-00401000 rw-p 0 0:0 0",
					   "line\nRss: 99999 kB",
					   "not (deleted)",
					   "\xff\xfe",
					   "\033[31mred",
					   "libfoo.so.txt",
					   "[heap]",
					   "lib" };
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char kind[32];
		snprintf(kind, sizeof(kind), "odd%u", i);
		map(kind, 16 * KIB, PROT_READ, MAP_PRIVATE, file(odd[i], 16 * KIB, 1), 16 * KIB);
	}
}

static void kernel_buffers(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 64, &params);
	size_t ring = params.cq_off.cqes + params.cq_entries * 16;
	/* the kernel chooses the place of these */
	void *at =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (at == MAP_FAILED)
		missing("iouring");
	else
		told("iouring", at, ring);
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_PAGE_FAULTS,
					.disabled = 1,
					.exclude_kernel = 1 };
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0)
		missing("perf");
	else
		map("perf", 9 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	union bpf_attr array = { .map_type = BPF_MAP_TYPE_ARRAY,
				 .key_size = 4,
				 .value_size = 4096,
				 .max_entries = 8,
				 .map_flags = BPF_F_MMAPABLE };
	fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &array, sizeof(array));
	if (fd < 0)
		missing("bpf");
	else
		map("bpf", 8 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static pthread_barrier_t born, dying;
static volatile int stay = 1;
static int spin; /* ZOO_SPIN is set: one thread never blocks */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *arg)
{
	volatile char deep[48 * 1024];
	for (unsigned i = 0; i < sizeof(deep); i += 4096)
		deep[i] = 1;
	pthread_barrier_wait(&born);
	if (arg) /* one that never blocks */
		while (stay)
			;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return deep[0] ? NULL : arg;
}

static void *mortal(void *arg)
{
	volatile char deep[16 * 1024];
	for (unsigned i = 0; i < sizeof(deep); i += 4096)
		deep[i] = 1;
	(void)deep[0];
	/* advice for the stack alone: what lies above it may not share its mapping, so that there are four of a known kind */
	pthread_attr_t attr;
	void *stack;
	size_t size;
	if (pthread_getattr_np(pthread_self(), &attr) == 0 &&
	    pthread_attr_getstack(&attr, &stack, &size) == 0)
		madvise(stack, size, MADV_NOHUGEPAGE);
	pthread_barrier_wait(&dying); /* none ends before the last has its stack */
	return arg;
}

#define MERGED (32 * 1024)
static void threads(int count)
{
	pthread_t dead[4], live;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	/* all four at once, so that they have four stacks, which stay in glibc's cache */
	pthread_barrier_init(&dying, NULL, 4);
	for (int i = 0; i < 4; i++)
		pthread_create(&dead[i], &attr, mortal, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(dead[i], NULL);
	pthread_attr_setstacksize(&attr, 2 << 20);
	pthread_barrier_init(&born, NULL, (unsigned)count + 1);
	pthread_mutex_lock(&gate);
	for (int i = 1; i < count; i++)
		pthread_create(&live, &attr, sleeper, NULL);
	/* the first one's stack shares a mapping with something above it, as often happens by chance */
	char *at = mmap(NULL, MERGED + MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (at == MAP_FAILED || mprotect(at, 4096, PROT_NONE) < 0)
		exit(1);
	memset(at + MIB, 1, MERGED);
	pthread_attr_setstack(&attr, at + 4096, MIB - 4096);
	pthread_create(&live, &attr, sleeper, spin ? &spin : NULL);
	pthread_barrier_wait(&born);
	printf("threads - %d\n", count);
}

/* Thousands of mappings out of one: every second page protected. */
static void split(unsigned count)
{
	char *at = mmap(NULL, (uint64_t)count * 2 * 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (unsigned i = 0; i < count; i++) {
		at[(uint64_t)i * 2 * 4096] = 1;
		if (mprotect(at + (uint64_t)i * 2 * 4096, 4096, PROT_READ) < 0) {
			missing("split");
			return;
		}
	}
	told("split", at, (uint64_t)count * 2 * 4096);
}

/* Differently named mappings, as many as the kernel lets one have: names that no rule folds. */
static void named(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		char name[64];
		snprintf(name, sizeof(name), "zoo-%c%c%c%c-x", 'g' + i % 20, 'g' + i / 20 % 20,
			 'g' + i / 400 % 20, 'g' + i / 8000 % 20);
		int fd = memfd(name, 4096);
		char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (at == MAP_FAILED) {
			missing("named");
			return;
		}
		*at = 1;
	}
	printf("named - %u\n", count);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	folder = argv[1];
	spin = getenv("ZOO_SPIN") != NULL;
	anonymous();
	shared();
	files();
	kernel_buffers();
	threads(argc > 4 ? atoi(argv[4]) : 8);
	if (argc > 2 && atoi(argv[2]))
		split((unsigned)atoi(argv[2]));
	if (argc > 3 && atoi(argv[3]))
		named((unsigned)atoi(argv[3]));
	free(malloc(4 * MIB)); /* raises the threshold: the next is on the heap */
	char *large = malloc(40 * MIB);
	large[0] = 1;
	told("large", large, 40 * MIB);
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	free(large);
	return 0;
}
