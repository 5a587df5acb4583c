/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of recipes: the same from our reader and from elfutils, whole libraries long; and what the cache may hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sym/rows_build.h"
#include "unwind/cfi.h"
#include "unwind/table.h"

static char dir[64];

static int PRINTF(1, 2) shell(const char *format, ...)
{
	char command[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/byteledger-rows-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return shell("rm -rf %s", dir);
}

static const char *in_dir(const char *name)
{
	static char paths[64][256];
	static unsigned turn;
	char *path = paths[turn++ % 64];
	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

/* On demand, as a hook does it: the whole file laid out as the loader would, found through .eh_frame_hdr. */
struct loaded {
	uint8_t *base;
	size_t bytes;
	struct unwind_image image;
};

static int load_segments(struct loaded *loaded, const struct image *image)
{
	size_t count;
	uint64_t top = 0, hdr = 0;
	memset(loaded, 0, sizeof(*loaded));
	elf_getphdrnum(image->elf, &count);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < count; i++) {
			GElf_Phdr phdr;
			gelf_getphdr(image->elf, (int)i, &phdr);
			if (phdr.p_type == PT_GNU_EH_FRAME)
				hdr = phdr.p_vaddr;
			if (phdr.p_type != PT_LOAD)
				continue;
			if (!pass && phdr.p_vaddr + phdr.p_memsz > top)
				top = phdr.p_vaddr + phdr.p_memsz;
			if (pass && pread(image->fd, loaded->base + phdr.p_vaddr, phdr.p_filesz,
					  (off_t)phdr.p_offset) != (ssize_t)phdr.p_filesz)
				return -1;
		}
		if (!pass && (!hdr || !(loaded->base = calloc(1, top))))
			return -1;
	}
	loaded->bytes = top;
	loaded->image =
		(struct unwind_image){ loaded->base, loaded->base + top, loaded->base + hdr, NULL };
	return 0;
}

static void compare_on_demand(const char *name, const struct image *image,
			      const struct wire_unwind *table)
{
	struct loaded loaded;
	struct unwind_cfi_work *work = malloc(sizeof(*work));
	uint64_t seed = 7, described = 0;
	assert_int_equal(load_segments(&loaded, image), 0);
	for (unsigned i = 0; i < 30000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint64_t off = (seed >> 20) % table->text_bytes, pc = table->text_lo + off;
		uint64_t rule = unwind_table_lookup(table, off), want = 0;
		struct unwind_fde fde;
		int found =
			unwind_cfi_find(&loaded.image, (uint64_t)(uintptr_t)loaded.base + pc, &fde);
		if (found)
			want = unwind_cfi_row(&loaded.image, &fde,
					      (uint64_t)(uintptr_t)loaded.base + pc, work)
				       ? unwind_cfi_rule(&fde, &work->row, loaded.image.hi)
				       : unwind_rule_make(WIRE_RULE_EVAL, 0, 0, 0);
		described += found;
		/* padding between functions may go on with the recipe before it */
		if (rule != want && found) {
			print_message("# %s+%lx: table %lx, on demand %lx\n", name, pc, rule, want);
			assert_int_equal(rule, want);
		}
	}
	/* Debian's newer node is a launcher of some functions among padding */
	assert_true(described > (table->text_bytes > 1u << 20 ? 1000 : 10));
	free(work);
	free(loaded.base);
}

static void tables_equal_those_that_elfutils_gives_for_whole_libraries(void **state)
{
	(void)state;
	static const char *const paths[] = { "/lib/x86_64-linux-gnu/libc.so.6",
					     "/lib64/ld-linux-x86-64.so.2",
					     "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
					     "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
					     "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
					     "/usr/bin/python3.11",
					     "/usr/bin/python3.13",
					     "/usr/lib/x86_64-linux-gnu/libnode.so.115",
					     "/usr/bin/redis-server",
					     "/usr/bin/node" };
	unsigned seen = 0;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct image image;
		struct rows_list ours = { 0 }, oracle = { 0 };
		struct wire_unwind *a = NULL, *b = NULL;
		struct unwind_rows_info stats = { 0 }, unused = { 0 };
		if (image_open(&image, NULL, paths[i], NULL, 0) < 0)
			continue;
		assert_int_equal(rows_from_eh_frame(&ours, &image), 0);
		assert_int_equal(rows_from_libdw(&oracle, &image, 0), 0);
		int64_t bytes = rows_blob(&ours, &image, &a, &stats);
		assert_int_equal(bytes, rows_blob(&oracle, &image, &b, &unused));
		assert_true(bytes > 0);
		assert_true(unwind_table_valid(a, (uint64_t)bytes));
		assert_memory_equal(a, b, (size_t)bytes);
		print_message(
			"# %s: %lu rows, %lu rules, %lu evaluated, %.0f bytes per KiB of text\n",
			paths[i], stats.rows, stats.rules, stats.eval_rows,
			(double)bytes * 1024 / (double)a->text_bytes);
		assert_true((double)bytes * 1024 / (double)a->text_bytes <= 140);
		compare_on_demand(paths[i], &image, a);
		seen++;
		free(a);
		free(b);
		rows_fini(&ours);
		rows_fini(&oracle);
		image_close(&image);
	}
	assert_true(seen >= 2); /* libc and its loader are everywhere */
}

static struct wire_unwind *get(const char *name, const char *cache, int64_t *rc)
{
	struct err err;
	struct wire_unwind *blob;
	struct unwind_rows *rows = unwind_rows_new(0, cache, &err);
	assert_non_null(rows);
	*rc = unwind_rows_get(rows, name, NULL, 0, &blob, NULL, &err);
	unwind_rows_free(rows);
	return blob;
}

static uint64_t symbol(const char *exe, const char *name)
{
	char command[512], text[64] = "";
	snprintf(command, sizeof(command), "nm %s/%s | grep ' %s$' | cut -d' ' -f1", dir, exe,
		 name);
	FILE *pipe = popen(command, "r");
	if (!fgets(text, sizeof(text), pipe))
		text[0] = '\0';
	pclose(pipe);
	return strtoull(text, NULL, 16);
}

static uint64_t rule_at(const struct wire_unwind *blob, uint64_t address)
{
	assert_true(address >= blob->text_lo && address - blob->text_lo < blob->text_bytes);
	return unwind_table_lookup(blob, address - blob->text_lo);
}

static void modules_without_header_and_with_debug_frame_only_have_tables_too(void **state)
{
	(void)state;
	assert_int_equal(
		shell("cd %s && printf '#include <stdio.h>\\n#include <stdlib.h>\\n"
		      "__attribute__((noinline)) int work(int n){char b[100];return "
		      "snprintf(b,100,\"%%%%d\",n)+"
		      "b[0];}\\nint main(int c,char**v){return work(atoi(v[0])+c)==3;}' >w.c && "
		      "gcc -O2 -no-pie -o plain w.c && "
		      "gcc -O2 -no-pie -Wl,--no-eh-frame-hdr -o nohdr w.c && "
		      "gcc -O2 -g -no-pie -fno-asynchronous-unwind-tables -fno-exceptions -o "
		      "dframe w.c",
		      dir),
		0);
	static const char *const names[] = { "plain", "nohdr", "dframe" };
	uint64_t want = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int64_t rc;
		struct wire_unwind *blob = get(in_dir(names[i]), "", &rc);
		assert_true(rc > 0);
		uint64_t work = symbol(names[i], "work");
		/* at its first byte every function has its return address on top of the stack */
		assert_int_equal(rule_at(blob, work), unwind_rule_make(WIRE_RULE_SP, 1, 0, 0));
		uint64_t inside = rule_at(blob, work + 16);
		assert_int_equal(unwind_rule_kind(inside), WIRE_RULE_SP);
		assert_true(unwind_rule_cfa(inside) > 100);
		if (!i)
			want = inside;
		assert_int_equal(inside, want);
		/* _start ends every stack: its return address is undefined (from .eh_frame in all three) */
		assert_int_equal(unwind_rule_kind(rule_at(blob, symbol(names[i], "_start") + 4)),
				 WIRE_RULE_END);
		free(blob);
	}
}

static void the_vdso_has_a_table(void **state)
{
	(void)state;
	int64_t rc;
	struct wire_unwind *blob = get("[vdso]", "", &rc);
	assert_true(rc > 0);
	assert_true(unwind_table_valid(blob, (uint64_t)rc));
	free(blob);
}

static void
the_cache_serves_what_was_built_and_nothing_that_others_could_have_put_there(void **state)
{
	(void)state;
	int64_t first, second;
	const char *libc = "/lib/x86_64-linux-gnu/libc.so.6";
	struct wire_unwind *a = get(libc, in_dir("cache"), &first);
	struct stat st;
	assert_int_equal(stat(in_dir("cache"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(
		shell("test $(ls %s/cache | wc -l) = 1 && find %s/cache -type f -perm 0600 | "
		      "grep -q unwind",
		      dir, dir),
		0);
	/* mark the cached copy to see that it is the one that is read */
	assert_int_equal(shell("cd %s/cache && f=$(ls) && printf '\\377' | dd of=$f bs=1 "
			       "seek=$(($(stat -c %%s $f) - 1)) conv=notrunc 2>/dev/null",
			       dir),
			 0);
	struct wire_unwind *b = get(libc, in_dir("cache"), &second);
	assert_int_equal(first, second);
	assert_int_equal(((uint8_t *)b)[second - 1], 0xff);
	free(b);
	/* cut short: built anew */
	assert_int_equal(shell("cd %s/cache && f=$(ls) && truncate -s -100 $f", dir), 0);
	b = get(libc, in_dir("cache"), &second);
	assert_int_equal(first, second);
	assert_memory_equal(a, b, (size_t)first);
	free(b);
	/* a folder that others can write to is not believed */
	assert_int_equal(shell("cd %s/cache && f=$(ls) && printf '\\377' | dd of=$f bs=1 "
			       "seek=$(($(stat -c %%s $f) - 1)) conv=notrunc 2>/dev/null && "
			       "chmod 0777 .",
			       dir),
			 0);
	b = get(libc, in_dir("cache"), &second);
	assert_memory_equal(a, b, (size_t)first);
	free(b);
	free(a);
}

static void damaged_unwind_data_gives_a_valid_table_or_an_error(void **state)
{
	(void)state;
	struct stat st;
	assert_int_equal(shell("cd %s && cp /lib64/ld-linux-x86-64.so.2 whole", dir), 0);
	assert_int_equal(stat(in_dir("whole"), &st), 0);
	size_t size = (size_t)st.st_size;
	uint8_t *bytes = malloc(size), *copy = malloc(size);
	FILE *file = fopen(in_dir("whole"), "r");
	assert_int_equal(fread(bytes, 1, size, file), size);
	fclose(file);
	struct image image;
	GElf_Shdr shdr;
	assert_int_equal(image_open(&image, NULL, in_dir("whole"), NULL, 0), 0);
	assert_non_null(image_section(&image, ".eh_frame", &shdr));
	image_close(&image);
	uint64_t seed = 99;
	for (unsigned round = 0; round < 200; round++) {
		memcpy(copy, bytes, size);
		for (unsigned flips = 0; flips < 1 + round % 50; flips++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			size_t at = round % 4   ? shdr.sh_offset + (seed >> 33) % shdr.sh_size
				    : flips % 2 ? size - 1 - (seed >> 33) % 4096
						: (seed >> 33) % 1024;
			copy[at] = (uint8_t)(seed >> 20);
		}
		memcpy(copy, bytes, 6);
		file = fopen(in_dir("damaged"), "w");
		fwrite(copy, 1, size, file);
		fclose(file);
		int64_t rc;
		struct wire_unwind *blob = get(in_dir("damaged"), "", &rc);
		assert_true(rc < 0 || unwind_table_valid(blob, (uint64_t)rc));
		for (uint64_t off = 0; rc > 0 && off < blob->text_bytes; off += 61)
			assert_true(unwind_rule_kind(unwind_table_lookup(blob, off)) <
				    WIRE_RULE_KINDS);
		free(blob);
	}
	free(bytes);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_equal_those_that_elfutils_gives_for_whole_libraries),
		cmocka_unit_test(modules_without_header_and_with_debug_frame_only_have_tables_too),
		cmocka_unit_test(the_vdso_has_a_table),
		cmocka_unit_test(
			the_cache_serves_what_was_built_and_nothing_that_others_could_have_put_there),
		cmocka_unit_test(damaged_unwind_data_gives_a_valid_table_or_an_error),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
