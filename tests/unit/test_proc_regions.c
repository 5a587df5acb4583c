/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of smaps as the kernel writes them and as it never would, names and what they mean, labels. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/classify.h"
#include "proc/classify_names.h"
#include "proc/label.h"
#include "proc/smaps.h"

#define REGIONS 16

struct seen {
	struct region regions[REGIONS];
	char names[REGIONS][256];
	size_t count;
};

static int keep(void *ctx, struct region *region)
{
	struct seen *seen = ctx;
	assert_true(seen->count < REGIONS);
	seen->regions[seen->count] = *region;
	snprintf(seen->names[seen->count++], 256, "%s", region->name);
	return 0;
}

static int parse_bytes(const char *text, size_t len, struct seen *seen, struct reading *reading)
{
	struct err err = { 0 };
	int fd = memfd_create("text", 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	lseek(fd, 0, SEEK_SET);
	memset(seen, 0, sizeof(*seen));
	memset(reading, 0, sizeof(*reading));
	int rc = smaps_parse(fd, keep, seen, reading, &err);
	if (rc < 0)
		assert_int_equal(err.code, rc);
	close(fd);
	return rc;
}

static int parse(const char *text, struct seen *seen, struct reading *reading)
{
	return parse_bytes(text, strlen(text), seen, reading);
}

/* As Linux 6.1 prints it: no KSM line; and as a kernel yet to come may: fields in another order, and new ones. */
static void fields_are_found_whatever_their_order_and_unknown_ones_are_summed(void **state)
{
	static const char text[] = "7f0000000000-7f0000004000 rw-p 00000000 00:00 0                "
				   "          [anon: Go: heap]\n"
				   "Size:                 16 kB\nKernelPageSize:        4 "
				   "kB\nMMUPageSize:           4 kB\n"
				   "Rss:                  12 kB\nPss:                   6 "
				   "kB\nPss_Dirty:             2 kB\n"
				   "Shared_Clean:          1 kB\nShared_Dirty:          2 "
				   "kB\nPrivate_Clean:         3 kB\n"
				   "Private_Dirty:         4 kB\nReferenced:            5 "
				   "kB\nAnonymous:             6 kB\n"
				   "LazyFree:              7 kB\nAnonHugePages:         8 "
				   "kB\nSwap:                  9 kB\n"
				   "THPeligible:    0\nVmFlags: rd wr mr mw me ac gu sl \n"
				   "00400000-00401000 --xp 00001000 fe:01 77 /a b  c\n"
				   "Novelty:               3 kB\nPss: 20 kB\nRss: "
				   "18014398509481983 kB\nNovelty:               4 kB\n"
				   "ProtectionKey:         0\nOddity: yes\nVmFlags:\n";
	struct seen seen;
	struct reading reading;
	(void)state;
	assert_int_equal(parse(text, &seen, &reading), 0);
	assert_int_equal(seen.count, 2);
	const struct region *r = &seen.regions[0];
	assert_int_equal(r->rss_bytes, 12 << 10);
	assert_int_equal(r->pss_bytes, 6 << 10);
	assert_int_equal(r->pss_dirty_bytes, 2 << 10);
	assert_int_equal(region_shared_bytes(r), 3 << 10);
	assert_int_equal(region_private_bytes(r), 7 << 10);
	assert_int_equal(r->referenced_bytes, 5 << 10);
	assert_int_equal(r->anonymous_bytes, 6 << 10);
	assert_int_equal(r->lazy_free_bytes, 7 << 10);
	assert_int_equal(r->anon_huge_bytes, 8 << 10);
	assert_int_equal(r->swap_bytes, 9 << 10);
	assert_int_equal(r->flags, REGION_FLAG_ACCOUNTED | REGION_FLAG_GUARD | REGION_FLAG_SEALED);
	assert_string_equal(seen.names[0], "[anon: Go: heap]");
	r = &seen.regions[1];
	assert_int_equal(r->perms, REGION_EXEC);
	assert_int_equal(r->rss_bytes, 18014398509481983u * 1024);
	assert_int_equal(r->pss_bytes, 20 << 10);
	assert_int_equal(r->offset, 0x1000);
	assert_int_equal(r->inode, 77);
	assert_int_equal(r->dev_major << 8 | r->dev_minor, 0xfe01);
	assert_string_equal(seen.names[1], "/a b  c");
	assert_int_equal(reading.unknown_count, 1);
	assert_string_equal(reading.unknown[0].key, "Novelty");
	assert_int_equal(reading.unknown[0].bytes, 7 << 10);
}

static void headers_are_told_by_the_address_range_alone(void **state)
{
	static const char text[] = "1000-2000 ---p 00000000 00:00 0 \n"
				   "2000-3000 --xp 00000000 00:00 0 \n"
				   "3000-4000 -w-p 00000000 00:00 0 \n"
				   "4000-5000 r--s 00000000 00:00 0 /x\n"
				   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0        "
				   "          [vsyscall]\n";
	static const uint8_t perms[] = { 0, REGION_EXEC, REGION_WRITE, REGION_READ | REGION_SHARED,
					 REGION_EXEC };
	struct seen seen;
	struct reading reading;
	(void)state;
	assert_int_equal(parse(text, &seen, &reading), 0);
	assert_int_equal(seen.count, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(seen.regions[i].perms, perms[i]);
}

static void what_is_not_smaps_is_an_error_and_never_a_guess(void **state)
{
	static const char *const texts[] = {
		"Rss: 4 kB\n",                                 /* a field of nothing */
		"1000-2000 rw-p 00000000 00:00 0",             /* cut */
		"1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB", /* cut */
		"1000-2000 rw-p 00000000 00:00 0 \nRss: four kB\n",
		"1000-2000 rw-p 00000000 00:00 0 \nRss: 4 MB\n",
		"1000-2000 rw-p 00000000 00:00 0 \nRss: 4\n",
		"1000-2000 rw-p 00000000 00:00 0 \nRss: 99999999999999999999 kB\n",
		"1000-2000 rw-p 00000000 00:00 0 \nRss: 18014398509481984 kB\n", /* times 1024 */
		"1000-2000 rw-p 00000000 00:00 0 \nRss\n",
		"1000-2000 rw-p 00000000 00:00 0 \n\n",
		"2000-1000 rw-p 00000000 00:00 0 \n",
		"1000-1000 rw-p 00000000 00:00 0 \n",
		"1000-2000 rwxq 00000000 00:00 0 \n",
		"1000 2000 rw-p 00000000 00:00 0 \n",
		"1000-2000 rw-p\n",
		"11111111111111111-2 rw-p 00000000 00:00 0 \n",
		"hello\n",
	};
	struct seen seen;
	struct reading reading;
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (parse(texts[i], &seen, &reading) != -EBADMSG)
			fail_msg("taken: %s", texts[i]);
	}
	/* a line without an end */
	char *line = malloc(100000);
	memset(line, 'a', 100000);
	assert_int_equal(parse_bytes(line, 100000, &seen, &reading), -EBADMSG);
	free(line);
	assert_int_equal(parse("", &seen, &reading), 0);
	assert_int_equal(seen.count, 0);
}

static void names_mean_what_their_setters_say(void **state)
{
	static const struct {
		const char *name;
		enum region_class class;
		const char *label, *owner;
	} cases[] = {
		{ "[anon: Go: heap]", REGION_RUNTIME, "Go: heap", "Go" },
		{ "[anon: Go: gc bits]", REGION_RUNTIME, "Go: gc bits", "Go" },
		{ "[anon: glibc: malloc arena]", REGION_ALLOCATOR, "glibc: malloc arena",
		  "glibc malloc" },
		{ "[anon: glibc: pthread stack: 4711]", REGION_STACK, "thread stacks", "" },
		{ "[anon:jemalloc_pg]", REGION_ALLOCATOR, "jemalloc_pg", "jemalloc" },
		{ "[anon:mimalloc]", REGION_ALLOCATOR, "mimalloc", "mimalloc" },
		{ "[anon:tcmalloc_region_NORMAL]", REGION_ALLOCATOR, "tcmalloc_region_NORMAL",
		  "tcmalloc" },
		{ "[anon:TNC-511]", REGION_NAMED, "TNC-*", "" },
		{ "[anon_shmem:ring 7]", REGION_NAMED, "ring *", "" },
		{ "[anon:byteledger]", REGION_BYTELEDGER, "byteledger", "byteledger" },
		{ "/memfd:byteledger (deleted)", REGION_BYTELEDGER, "memfd", "byteledger" },
		{ "[heap]", REGION_ALLOCATOR, "heap (brk)", "" },
		{ "[vvar_vclock]", REGION_KERNEL_HELPER, "vvar", "" },
		{ "[uprobes-trampoline]", REGION_INSTRUMENTATION, "uprobe trampoline", "" },
		{ "/memfd:a/b (deleted) (deleted)", REGION_MEMFD, "a/b (deleted)", "" },
		{ "/SYSV0000abcd (deleted)", REGION_SYSV_SHM, "key 0x0000abcd", "" },
		{ "/dev/shm/pool.17 (deleted)", REGION_POSIX_SHM, "/dev/shm/pool.*", "" },
		{ "/dev/zero (deleted)", REGION_SHARED_ANONYMOUS, "shared anonymous", "" },
		{ "/anon_hugepage (deleted)", REGION_HUGETLB, "huge pages", "" },
		{ "/dev/nvidia0", REGION_DEVICE, "nvidia", "nvidia" },
		{ "/dev/dri/renderD128", REGION_DEVICE, "/dev/dri/renderD*", "" },
		{ "anon_inode:i915.gem", REGION_DEVICE, "i915.gem", "" },
		{ "anon_inode:[io_uring]", REGION_KERNEL_BUFFER, "io_uring", "" },
		{ "anon_inode:[kvm-vcpu:0]", REGION_KERNEL_BUFFER, "KVM", "" },
		{ "/dmabuf:", REGION_DEVICE, "dma-buf", "" },
	};
	char label[LABEL_MAX], owner[LABEL_MAX];
	struct name_rule rule;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!name_rule(cases[i].name, &rule, label, owner))
			fail_msg("no rule: %s", cases[i].name);
		assert_string_equal(label, cases[i].label);
		assert_string_equal(region_class_name(rule.class),
				    region_class_name(cases[i].class));
		assert_string_equal(owner, cases[i].owner);
	}
	assert_true(name_rule("[anon: glibc: pthread stack: 4711]", &rule, label, owner) &&
		    rule.tid == 4711);
	assert_int_equal(name_rule("[unheard of]", &rule, label, owner), 0);
	assert_int_equal(name_is_special("/usr/lib/libc.so.6"), 0);
	assert_int_equal(name_is_special("/home/memfd:x"), 0);
}

struct told {
	unsigned classes[REGIONS];
	char labels[REGIONS][LABEL_MAX];
	size_t count;
};

static int note(void *ctx, struct region *region)
{
	struct told *told = ctx;
	assert_true(told->count < REGIONS);
	told->classes[told->count] = region->class;
	snprintf(told->labels[told->count++], LABEL_MAX, "%s", region->label);
	return 0;
}

/* MADV_WIPEONFORK, mlock() and mprotect() inside of it; the program's own mappings behind it. */
static void a_bss_that_advice_cut_is_the_modules_as_a_whole(void **state)
{
	static const char text[] = "10000-12000 r-xp 00000000 08:01 7 /usr/lib/libx.so\n"
				   "12000-13000 rw-p 00002000 08:01 7 /usr/lib/libx.so\n"
				   "13000-15000 rw-p 00000000 00:00 0 \n"
				   "15000-16000 rw-p 00000000 00:00 0 \n"
				   "16000-17000 ---p 00000000 00:00 0 \n"
				   "17000-18000 r--p 00000000 00:00 0 \n"
				   "18000-1a000 rw-p 00000000 00:00 0 \n"
				   "1a000-1b000 r--p 00000000 00:00 0 \n";
	static const unsigned whole[] = { REGION_LIBRARY_TEXT, REGION_LIBRARY_DATA,
					  REGION_LIBRARY_BSS,  REGION_LIBRARY_BSS,
					  REGION_RESERVED,     REGION_LIBRARY_BSS,
					  REGION_LIBRARY_BSS,  REGION_ANONYMOUS };
	/* where it ends is not known: one mapping that can be written to is taken for it */
	static const unsigned guessed[] = { REGION_LIBRARY_TEXT, REGION_LIBRARY_DATA,
					    REGION_LIBRARY_BSS,  REGION_ANONYMOUS,
					    REGION_RESERVED,     REGION_ANONYMOUS,
					    REGION_ANONYMOUS,    REGION_ANONYMOUS };
	(void)state;
	for (int known = 0; known < 2; known++) {
		const struct module_extent extent = { 0x10000, 0x19800 };
		const struct target target = { .pid = getpid(), .dir = -1, .mem = -1 };
		struct classifier c;
		struct seen seen;
		struct told told = { 0 };
		struct reading reading;
		classify_init(&c, &target, NULL, 0, note, &told);
		c.modules = &extent;
		c.module_count = (size_t)known;
		c.unreadable = 1;
		assert_int_equal(parse(text, &seen, &reading), 0);
		for (size_t i = 0; i < seen.count; i++) {
			seen.regions[i].name = seen.names[i];
			assert_int_equal(classify_region(&c, &seen.regions[i]), 0);
		}
		assert_int_equal(classify_end(&c), 0);
		assert_int_equal(told.count, 8);
		for (size_t i = 0; i < told.count; i++) {
			assert_int_equal(told.classes[i], known ? whole[i] : guessed[i]);
			if (told.classes[i] == REGION_LIBRARY_BSS)
				assert_string_equal(told.labels[i], "libx.so");
		}
		classify_fini(&c);
	}
}

static void numbered_names_fold_and_words_do_not(void **state)
{
	static const char *const names[][2] = {
		{ "TNC-0", "TNC-*" },
		{ "TNC-511", "TNC-*" },
		{ "arena12", "arena*" },
		{ "cache-7f3a", "cache-*" },
		{ "add", "add" },
		{ "be", "be" },
		{ "12", "*" },
		{ "pool-3-14", "pool-*" },
		{ "", "" },
		{ "deadbeef", "deadbeef" },
		{ "x-", "x-" },
		{ "1-2-3", "*" },
	};
	static const char *const files[][2] = {
		{ "/var/lib/db/000123.sst", "/var/lib/db/*.sst" },
		{ "/var/lib/db/MANIFEST-000004", "/var/lib/db/MANIFEST-*" },
		{ "/data/data.mdb (deleted)", "/data/data.mdb" },
		{ "/proc/123/x", "/proc/*/x" },
		{ "/log/out.0012", "/log/out.*" },
		{ "/usr/share/zoneinfo/UTC", "/usr/share/zoneinfo/UTC" },
		{ "/a//b/", "/a//b/" },
		{ ".", "." },
		{ "", "" },
	};
	char label[LABEL_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		label_name(label, names[i][0]);
		assert_string_equal(label, names[i][1]);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		label_file(label, files[i][0]);
		assert_string_equal(label, files[i][1]);
	}
	char longest[5000];
	memset(longest, '/', sizeof(longest));
	memset(longest + 10, 'x', 4000);
	longest[sizeof(longest) - 1] = '\0';
	label_file(label, longest);
	assert_true(strlen(label) < LABEL_MAX);
	label_name(label, longest);
	assert_true(strlen(label) < LABEL_MAX);
	label_base(label, "/usr/lib/libfoo.so.6 (deleted)");
	assert_string_equal(label, "libfoo.so.6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_found_whatever_their_order_and_unknown_ones_are_summed),
		cmocka_unit_test(headers_are_told_by_the_address_range_alone),
		cmocka_unit_test(what_is_not_smaps_is_an_error_and_never_a_guess),
		cmocka_unit_test(names_mean_what_their_setters_say),
		cmocka_unit_test(a_bss_that_advice_cut_is_the_modules_as_a_whole),
		cmocka_unit_test(numbered_names_fold_and_words_do_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
