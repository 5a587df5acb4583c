/* SPDX-License-Identifier: Apache-2.0 */
/* A reading without smaps says what smaps says: of a child with memory of every kind, stopped. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/breakdown.h"
#include "proc/names.h"

#define MIB (1u << 20)
#define PAGE 4096u

static char *map(size_t bytes, int flags)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
	assert_true(at != MAP_FAILED);
	return at;
}

/* Its pages of its own, shared with its parent, of zeroes, huge, of files, of shared memory; some never touched. */
static pid_t make_child(void)
{
	char *inherited = map(4 * MIB, MAP_PRIVATE), *both = map(2 * MIB, MAP_SHARED);
	memset(inherited, 1, 4 * MIB);
	memset(both, 1, MIB);
	int told[2];
	assert_int_equal(pipe(told), 0);
	pid_t pid = fork();
	if (pid) {
		char done;
		assert_int_equal(read(told[0], &done, 1), 1);
		close(told[0]);
		close(told[1]);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(inherited, 2, MIB);
	char *sparse = map(8 * MIB, MAP_PRIVATE);
	for (size_t at = 0; at < 8 * MIB; at += 16 * PAGE)
		sparse[at] = 3;
	const volatile char *zeroes = map(2 * MIB, MAP_PRIVATE);
	for (size_t at = 0; at < MIB; at += PAGE)
		(void)zeroes[at];
	char *huge = map(8 * MIB, MAP_PRIVATE);
	madvise(huge, 8 * MIB, MADV_HUGEPAGE);
	memset(huge, 4, 8 * MIB);
	int fd = memfd_create("parts", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 2 * MIB) < 0)
		_exit(1);
	char *memfd = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *copied = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (memfd == MAP_FAILED || copied == MAP_FAILED)
		_exit(1);
	memset(memfd, 5, MIB);
	for (size_t at = 0; at < MIB; at += 4 * PAGE)
		copied[at] = 6;
	mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (write(told[1], "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static struct breakdown *look(const struct target *target, int parts)
{
	struct err err = { 0 };
	const struct breakdown_opt opt = { .parts = parts };
	struct breakdown *b = breakdown_read(target, &opt, &err);
	assert_string_equal(err.msg, "");
	assert_non_null(b);
	return b;
}

static int same_figures(const struct region *a, const struct region *b)
{
	return a->start == b->start && a->end == b->end && a->perms == b->perms &&
	       a->offset == b->offset && a->inode == b->inode && a->class == b->class &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->label, b->label) == 0 &&
	       a->rss_bytes == b->rss_bytes && a->swap_bytes == b->swap_bytes &&
	       a->anonymous_bytes == b->anonymous_bytes &&
	       a->anon_huge_bytes == b->anon_huge_bytes &&
	       region_private_bytes(a) == region_private_bytes(b) &&
	       region_shared_bytes(a) == region_shared_bytes(b);
}

static int same(const struct breakdown *a, const struct breakdown *b, const char *told)
{
	size_t i = 0;
	while (i < a->region_count && i < b->region_count &&
	       same_figures(&a->regions[i], &b->regions[i]))
		i++;
	if (told && i < a->region_count && i < b->region_count) {
		const struct region *r = &a->regions[i], *s = &b->regions[i];
		print_message("%s: %#lx %s %s, %#lx %s: rss %lu, %lu; anonymous %lu, %lu; shared "
			      "%lu, %lu; "
			      "huge %lu, %lu; swapped %lu, %lu\n",
			      told, r->start, r->name, r->label, s->start, s->label, r->rss_bytes,
			      s->rss_bytes, r->anonymous_bytes, s->anonymous_bytes,
			      region_shared_bytes(r), region_shared_bytes(s), r->anon_huge_bytes,
			      s->anon_huge_bytes, r->swap_bytes, s->swap_bytes);
	}
	/* vsyscall is no mapping of its own, and no memory of the process */
	return (i == a->region_count || a->regions[i].start >> 63) &&
	       (i == b->region_count || b->regions[i].start >> 63) && a->rss_bytes == b->rss_bytes;
}

static void parts_are_what_smaps_says(void **state)
{
	(void)state;
	struct target target;
	struct err err = { 0 };
	pid_t pid = make_child();
	assert_int_equal(target_open(&target, pid, &err), 0);
	int equal = 0, is_full = 0;
	/* the kernel may take pages of files back: what two readings of smaps agree on stood still between them */
	for (int settled = 0; !settled;) {
		struct breakdown *before = look(&target, 0), *parts = look(&target, 1),
				 *after = look(&target, 0);
		assert_true(before->full && after->full && before->rss_bytes > 14 * MIB);
		settled = same(before, after, NULL);
		equal = same(before, parts, settled ? "smaps and parts" : NULL);
		is_full = parts->full;
		if (!is_full) {
			assert_string_equal(parts->reading.list, "PROCMAP_QUERY");
			assert_string_equal(parts->reading.pages, "PAGEMAP_SCAN");
			assert_int_equal(parts->rollup_rss_bytes, UINT64_MAX);
		}
		breakdown_free(before);
		breakdown_free(parts);
		breakdown_free(after);
	}
	target_close(&target);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(equal);
	if (is_full)
		print_message("the kernel tells no parts here: smaps was read\n");
}

/* ---- calls, as they are made ---------------------------------------------------------------------------------------- */

#define PAGEMAP_SCAN_NUMBER 16u
struct scan { /* the kernel's, as in pages.c */
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t inverted, mask, any, returned;
};
static int is_counting;
static unsigned scans, preads, most_scanned, most_read;

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	int rc = __real_ioctl(fd, request, arg);
	const struct scan *scan = arg;
	if (!is_counting || (request & 0xff) != PAGEMAP_SCAN_NUMBER || rc < 0)
		return rc;
	const uint64_t(*runs)[3] = (const uint64_t(*)[3])(uintptr_t)scan->vec;
	uint64_t pages = 0;
	for (int i = 0; i < rc; i++)
		pages += (runs[i][1] - runs[i][0]) / PAGE;
	scans++;
	most_scanned = pages > most_scanned ? (unsigned)pages : most_scanned;
	return rc;
}

ssize_t __real_pread64(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t bytes, off_t at)
{
	preads += (unsigned)is_counting;
	if (is_counting && bytes / 8 > most_read)
		most_read = (unsigned)(bytes / 8);
	return __real_pread64(fd, to, bytes, at);
}

/* pread() by the name that it has with 64 bits of offset everywhere. How long the target's mmap() waits goes by these two, whatever the machine is doing. */
static void no_call_looks_at_more_pages_than_told(void **state)
{
	(void)state;
	struct target target;
	struct err err = { 0 };
	char *large = map(64 * MIB, MAP_PRIVATE);
	madvise(large, 64 * MIB, MADV_NOHUGEPAGE);
	memset(large, 1, 64 * MIB);
	pid_t pid = make_child();
	assert_int_equal(target_open(&target, pid, &err), 0);
	is_counting = 1;
	struct breakdown *parts = look(&target, 1);
	is_counting = 0;
	int is_full = parts->full;
	breakdown_free(parts);
	target_close(&target);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(large, 64 * MIB);
	if (is_full)
		skip();
	assert_in_range(most_scanned, 4096, 8192);
	assert_in_range(most_read, 256, 512);
	assert_true(scans > 2 && preads >= 16384 / 512);
}

struct pieces {
	struct region at[4];
	size_t count;
};

static int keep_piece(void *ctx, struct region *region)
{
	struct pieces *pieces = ctx;
	assert_true(pieces->count < 4);
	pieces->at[pieces->count++] = *region;
	return 0;
}

/* The mapping was told with pages everywhere, and its first part has none any more when that is counted. */
static void no_piece_of_a_mapping_that_moves_has_more_pages_than_fit(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct target target = { 0 };
	struct pages pages;
	assert_int_equal(target_open(&target, getpid(), &err), 0);
	assert_int_equal(pages_open(&pages, &target, &err), 0);
	char *at = map(16 * PAGE, MAP_PRIVATE);
	memset(at + 12 * PAGE, 1, 4 * PAGE);
	struct names_entry entry = { .start = (uint64_t)at, .bytes = 12 * PAGE, .name = "first" };
	const struct names names = { .entries = &entry, .count = 1 };
	const struct region whole = { .start = (uint64_t)at,
				      .end = (uint64_t)at + 16 * PAGE,
				      .rss_bytes = 16 * PAGE,
				      .anonymous_bytes = 16 * PAGE,
				      .name = "",
				      .label = "" };
	struct pieces pieces = { 0 };
	assert_int_equal(names_put(&names, &whole, &pages, keep_piece, &pieces), 0);
	assert_int_equal(pieces.count, 2);
	uint64_t rss = 0;
	for (size_t i = 0; i < pieces.count; i++) {
		const struct region *r = &pieces.at[i];
		assert_true(r->rss_bytes <= r->end - r->start);
		assert_true(r->anonymous_bytes <= r->rss_bytes);
		rss += r->rss_bytes;
	}
	assert_int_equal(rss, whole.rss_bytes);
	munmap(at, 16 * PAGE);
	pages_close(&pages);
	target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_what_smaps_says),
		cmocka_unit_test(no_piece_of_a_mapping_that_moves_has_more_pages_than_fit),
		cmocka_unit_test(no_call_looks_at_more_pages_than_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
