/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Touches pages in every way there is, a way a line of stdin; each way is a function of its own, so that it is known who owns
 * what. Says "done WAY" when it stands.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define PAGE 4096ul
#define APART __attribute__((noinline, noclone))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

static char *kept[64];
static const char *file_path;
static pid_t child = -1;
static int to_child[2], from_child[2];

static char *map(size_t bytes, int flags, int fd)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(9);
	}
	return p;
}

static void touch(char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		((volatile char *)p)[i] = 1;
}

static volatile char sink;
static void look(const char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		sink = ((const volatile char *)p)[i];
}

APART static void way_memset(void)
{
	kept[0] = malloc(8 * MIB);
	memset(kept[0], 1, 8 * MIB);
	KEEP(kept[0]);
}

/* Until it is known where the program's code is, and the C library's. */
APART static void way_known(void)
{
	char *p = map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	touch(p, PAGE);
	KEEP(p);
}

APART static void way_small(void)
{
	for (int i = 0; i < 1024; i++) {
		char *p = malloc(4000);
		*(volatile char *)p = 1;
		KEEP(p);
	}
}

APART static void way_free(void)
{
	free(kept[0]);
	KEEP(kept);
}

APART static void way_mmap(void)
{
	kept[1] = map(16 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(kept[1], 16 * MIB, MADV_NOHUGEPAGE);
	touch(kept[1], 16 * MIB);
	KEEP(kept[1]);
}

APART static void way_dontneed(void)
{
	madvise(kept[1], 6 * MIB, MADV_DONTNEED);
	KEEP(kept[1]);
}

APART static void way_filemap(void)
{
	int fd = open(file_path, O_RDONLY);
	kept[2] = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, fd, 0);
	look(kept[2], 4 * MIB);
	close(fd);
	KEEP(kept[2]);
}

APART static void way_read(void)
{
	int fd = open(file_path, O_RDONLY);
	static char part[64 << 10];
	lseek(fd, 4 * MIB, SEEK_SET);
	for (size_t i = 0; i < 4 * MIB; i += sizeof(part))
		if (read(fd, part, sizeof(part)) <= 0)
			break;
	close(fd);
	KEEP(fd);
}

APART static void way_readfresh(void)
{
	int fd = open(file_path, O_RDONLY);
	kept[3] = map(2 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(kept[3], 2 * MIB, MADV_NOHUGEPAGE);
	if (read(fd, kept[3], 2 * MIB) < 0)
		perror("read");
	close(fd);
	KEEP(fd);
}

APART static void way_filecow(void)
{
	int fd = open(file_path, O_RDONLY);
	kept[4] = map(2 * MIB, MAP_PRIVATE, fd);
	touch(kept[4], 2 * MIB);
	close(fd);
	KEEP(fd);
}

APART static void way_fork(void)
{
	if (pipe(to_child) || pipe(from_child))
		exit(9);
	child = fork();
	if (child == 0) {
		char byte;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		touch(kept[1] + 8 * MIB, 2 * MIB);
		if (write(from_child[1], "x", 1) != 1 || read(to_child[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	char byte;
	if (read(from_child[0], &byte, 1) != 1)
		exit(9);
	KEEP(child);
}

APART static void way_parentcow(void)
{
	touch(kept[1] + 12 * MIB, 3 * MIB);
	KEEP(kept[1]);
}

APART static void way_reap(void)
{
	if (write(to_child[1], "x", 1) != 1)
		exit(9);
	waitpid(child, NULL, 0);
	KEEP(child);
}

APART static void way_thp(void)
{
	char *p = map(10 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	kept[5] = (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(kept[5], 8 * MIB, MADV_HUGEPAGE);
	touch(kept[5], 8 * MIB);
	KEEP(p);
}

APART static void way_thpsplit(void)
{
	madvise(kept[5] + 3 * MIB, MIB, MADV_DONTNEED);
	/* or khugepaged makes it whole again while somebody counts */
	madvise(kept[5] + 2 * MIB, 2 * MIB, MADV_NOHUGEPAGE);
	KEEP(kept[5]);
}

APART static void way_shmem(void)
{
	kept[6] = map(4 * MIB, MAP_SHARED | MAP_ANONYMOUS, -1);
	touch(kept[6], 4 * MIB);
	int fd = memfd_create("pages", 0);
	if (ftruncate(fd, 2 * MIB))
		exit(9);
	kept[7] = map(2 * MIB, MAP_SHARED, fd);
	touch(kept[7], 2 * MIB);
	KEEP(fd);
}

APART static void *in_thread(void *at)
{
	touch(at, 2 * MIB);
	KEEP(at);
	return NULL;
}

APART static void way_threads(void)
{
	pthread_t threads[4];
	kept[8] = map(8 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(kept[8], 8 * MIB, MADV_NOHUGEPAGE);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, in_thread, kept[8] + 2 * MIB * i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	KEEP(threads);
}

APART static void way_zero(void)
{
	kept[9] = map(8 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(kept[9], 8 * MIB, MADV_NOHUGEPAGE);
	look(kept[9], 8 * MIB);
	/* and the huge one */
	char *p = map(6 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	p = (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(p, 4 * MIB, MADV_HUGEPAGE);
	look(p, 4 * MIB);
	KEEP(p);
}

APART static void way_mremap(void)
{
	kept[8] = mremap(kept[8], 8 * MIB, 12 * MIB, MREMAP_MAYMOVE);
	KEEP(kept[8]);
}

APART static void way_populate(void)
{
	kept[10] = mmap(NULL, 3 * MIB, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	KEEP(kept[10]);
}

APART static void way_mlock(void)
{
	kept[11] = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (mlock(kept[11], MIB))
		perror("mlock");
	KEEP(kept[11]);
}

APART static void way_tmpfs(void)
{
	int fd = memfd_create("written", 0);
	static char part[64 << 10];
	memset(part, 1, sizeof(part));
	for (size_t i = 0; i < 4 * MIB; i += sizeof(part))
		if (write(fd, part, sizeof(part)) < 0)
			exit(9);
	KEEP(fd);
}

APART static void way_collapse(void)
{
	char *p = map(6 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	kept[12] = (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(kept[12], 4 * MIB, MADV_NOHUGEPAGE);
	touch(kept[12], 4 * MIB);
	KEEP(p);
}

/* Of each huge page to be the second half, but for one page at its end. */
APART static void way_collapsepart(void)
{
	char *p = map(6 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	kept[12] = (char *)(((uintptr_t)p + 2 * MIB - 1) & ~(2 * MIB - 1));
	madvise(kept[12], 4 * MIB, MADV_NOHUGEPAGE);
	for (int i = 0; i < 2; i++)
		touch(kept[12] + (2 * i + 1) * MIB, MIB - PAGE);
	KEEP(p);
}

APART static void way_willcollapse(void)
{
	madvise(kept[12], 4 * MIB, MADV_HUGEPAGE);
	KEEP(kept[12]);
}

/* Every eighth page stays: what compaction moves together. */
APART static void way_fragment(void)
{
	kept[13] = map(256 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(kept[13], 256 * MIB, MADV_NOHUGEPAGE);
	touch(kept[13], 256 * MIB);
	for (size_t i = 0; i < 256 * MIB; i += 8 * PAGE)
		madvise(kept[13] + i + PAGE, 7 * PAGE, MADV_DONTNEED);
	KEEP(kept[13]);
}

APART static void way_pageout(void)
{
	madvise(kept[1] + 8 * MIB, 4 * MIB, 21 /* MADV_PAGEOUT */);
	KEEP(kept[1]);
}

APART static void way_pagein(void)
{
	look(kept[1] + 8 * MIB, 4 * MIB);
	KEEP(kept[1]);
}

APART static void way_hugetlb(void)
{
	char *p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (p == MAP_FAILED) {
		printf("no huge pages\n");
		return;
	}
	touch(p, 4 * MIB);
	KEEP(p);
}

/* More than a small memory cgroup has: what is touched first is swapped out. */
APART static void way_big(void)
{
	char *p = map(64 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(p, 64 * MIB, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 64 * MIB; i += PAGE) /* nothing that compresses or merges */
		*(volatile uint64_t *)(p + i) = i * 0x9e3779b97f4a7c15u;
	kept[40] = p;
}

APART static void way_bigagain(void)
{
	look(kept[40], 16 * MIB);
}

APART static void way_exec(void)
{
	char *argv[] = { "pages", (char *)file_path, NULL };
	execv("/proc/self/exe", argv);
	exit(9);
}

/* Brings file pages in that are cached already, without a fault. */
APART static void way_willneed(void)
{
	int fd = open(file_path, O_RDONLY);
	char *p = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, fd, 8 * MIB);
	static char part[64 << 10];
	for (size_t i = 0; i < 4 * MIB; i += sizeof(part))
		if (pread(fd, part, sizeof(part), (off_t)(8 * MIB + i)) <= 0)
			break;
	if (madvise(p, 4 * MIB, 22 /* MADV_POPULATE_READ */))
		look(p, 4 * MIB);
	close(fd);
	KEEP(p);
}

/*
 * Code made at run time, without recipes: a leaf that makes no frame and touches a page after the other, and behind it a function that
 * makes one and calls the leaf.
 */
static const unsigned char code[] = {
	0xc6, 0x07, 0x01,                         /* leaf: movb $1, (%rdi) */
	0x48, 0x81, 0xc7, 0x00, 0x10, 0x00, 0x00, /* add $4096, %rdi */
	0x48, 0x81, 0xee, 0x00, 0x10, 0x00, 0x00, /* sub $4096, %rsi */
	0x75, 0xed,                               /* jne leaf */
	0xc3,                                     /* ret */
	0x55,                                     /* outer: push %rbp */
	0x48, 0x89, 0xe5,                         /* mov %rsp, %rbp */
	0xe8, 0xe3, 0xff, 0xff, 0xff,             /* call leaf */
	0x5d,                                     /* pop %rbp */
	0xc3,                                     /* ret */
};
#define OUTER 20

typedef void toucher(char *p, size_t bytes);
static unsigned char *made(void)
{
	static unsigned char *at;
	if (!at) {
		at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(at, code, sizeof(code));
	}
	return at;
}

static char *unhuge(size_t bytes)
{
	char *p = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

/* Until it is known where the code is. */
APART static void way_leafonce(void)
{
	char *p = unhuge(PAGE);
	((toucher *)(void *)made())(p, PAGE);
	KEEP(p);
}

APART static void way_leaf(void)
{
	char *p = unhuge(4 * MIB);
	((toucher *)(void *)made())(p, 4 * MIB);
	KEEP(p);
}

APART static void way_leafinside(void)
{
	char *p = unhuge(2 * MIB);
	((toucher *)(void *)(made() + OUTER))(p, 2 * MIB);
	KEEP(p);
}

#define CHURN_BLOCKS 4096
#define CHURN_STEPS 120000
static char *churned[4][CHURN_BLOCKS];

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

APART static void *in_churn(void *at)
{
	char **blocks = at;
	uint32_t state = (uint32_t)(uintptr_t)at;
	for (int i = 0; i < CHURN_STEPS; i++) {
		uint32_t which = next_random(&state) % CHURN_BLOCKS, what = next_random(&state) % 8;
		size_t bytes = what ? 1000 + next_random(&state) % 30000 : 200000;
		free(blocks[which]);
		blocks[which] = malloc(bytes);
		if (blocks[which])
			memset(blocks[which], 1, bytes);
	}
	return NULL;
}

APART static void way_churn(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, in_churn, churned[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	KEEP(threads);
}

APART static void way_unmap(void)
{
	munmap(kept[1], 16 * MIB);
	munmap(kept[8], 12 * MIB);
	KEEP(kept[1]);
}

/* Still there until the kernel wants them. */
APART static void way_lazyfree(void)
{
	char *p = map(4 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(p, 4 * MIB, MADV_NOHUGEPAGE);
	touch(p, 4 * MIB);
	madvise(p, 2 * MIB, MADV_FREE);
	KEEP(p);
}

/* By another process, which nobody follows: it is given the pages that are put here. */
APART static void way_written(void)
{
	/* where nothing was before */
	char *p = mmap((void *)0x300000000000, 4 * MIB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		exit(9);
	madvise(p, 4 * MIB, MADV_NOHUGEPAGE);
	pid_t parent = getpid(), writer = fork();
	if (writer == 0) {
		static char part[64 << 10];
		for (size_t i = 0; i < 4 * MIB; i += sizeof(part)) {
			const struct iovec from = { part, sizeof(part) },
					   to = { p + i, sizeof(part) };
			if (process_vm_writev(parent, &from, 1, &to, 1, 0) != (ssize_t)sizeof(part))
				_exit(9);
		}
		_exit(0);
	}
	int status = -1;
	if (waitpid(writer, &status, 0) != writer || status)
		exit(9);
	KEEP(p);
}

static const struct {
	const char *name;
	void (*go)(void);
} ways[] = { { "memset", way_memset },
	     { "known", way_known },
	     { "small", way_small },
	     { "free", way_free },
	     { "mmap", way_mmap },
	     { "dontneed", way_dontneed },
	     { "filemap", way_filemap },
	     { "read", way_read },
	     { "readfresh", way_readfresh },
	     { "filecow", way_filecow },
	     { "fork", way_fork },
	     { "parentcow", way_parentcow },
	     { "reap", way_reap },
	     { "thp", way_thp },
	     { "thpsplit", way_thpsplit },
	     { "shmem", way_shmem },
	     { "threads", way_threads },
	     { "zero", way_zero },
	     { "mremap", way_mremap },
	     { "populate", way_populate },
	     { "mlock", way_mlock },
	     { "tmpfs", way_tmpfs },
	     { "collapse", way_collapse },
	     { "collapsepart", way_collapsepart },
	     { "willcollapse", way_willcollapse },
	     { "fragment", way_fragment },
	     { "pageout", way_pageout },
	     { "pagein", way_pagein },
	     { "hugetlb", way_hugetlb },
	     { "big", way_big },
	     { "bigagain", way_bigagain },
	     { "willneed", way_willneed },
	     { "leafonce", way_leafonce },
	     { "leaf", way_leaf },
	     { "leafinside", way_leafinside },
	     { "churn", way_churn },
	     { "lazyfree", way_lazyfree },
	     { "written", way_written },
	     { "exec", way_exec },
	     { "unmap", way_unmap } };

int main(int argc, char **argv)
{
	char line[64];
	file_path = argc > 1 ? argv[1] : "/dev/null";
	printf("done begin %d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "quit") == 0)
			return 0;
		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
			if (strcmp(line, ways[i].name) == 0)
				ways[i].go();
		printf("done %s\n", line);
		fflush(stdout);
	}
	return 0;
}
