/* SPDX-License-Identifier: Apache-2.0 */
/* Names, unwind tables and variables of a stranger's files are read by a process without privileges: that it gives the same, and what its
 * death costs. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sym/files.h"
#include "sym/functions.h"
#include "sym/rows_build.h"

int a_variable_to_find = 7;

static char own[4096];

static int setup(void **state)
{
	(void)state;
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	return n > 0 ? 0 : -1;
}

/* Linked as a PIE: the file says where it stands. */
static uint64_t vaddr_of(const void *at)
{
	char line[4352];
	uint64_t base = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	while (!base && fgets(line, sizeof(line), maps))
		if (strstr(line, own))
			base = strtoull(line, NULL, 16);
	fclose(maps);
	return (uint64_t)(uintptr_t)at - base;
}

static unsigned long field(pid_t pid, const char *name, int base)
{
	char path[64], line[256];
	unsigned long value = ~0ul;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtoul(line + strlen(name), NULL, base);
	fclose(file);
	return value;
}

struct wanted {
	const char *name;
	uint64_t vaddr;
	unsigned seen, all;
};

static int find(void *ctx, const struct function *f)
{
	struct wanted *w = ctx;
	w->all++;
	if (strcmp(f->name, w->name) == 0) {
		w->seen++;
		w->vaddr = f->vaddr;
	}
	return 0;
}

static int leave(void *ctx, const struct function *f)
{
	(void)f;
	++*(int *)ctx;
	return 42;
}

static void what_files_say_is_read_without_privileges(void **state)
{
	struct err err = { 0 };
	uint8_t code[4], here[4];
	(void)state;
	struct elf_files *files = elf_files_new(0, &err);
	struct functions *f = functions_open(files, own, NULL, 0, &err);
	assert_non_null(f);
	assert_int_equal(functions_names(f), FUNCTIONS_ALL);
	assert_false(functions_is_static(f));
	struct wanted w = { .name = "vaddr_of" };
	assert_int_equal(functions_each(f, find, &w), 0);
	assert_int_equal(w.seen, 1);
	assert_int_equal(w.vaddr, vaddr_of((const void *)vaddr_of));
	/* who has heard enough can ask on */
	int count = 0;
	assert_int_equal(functions_each(f, leave, &count), 42);
	assert_int_equal(count, 1);
	assert_int_equal(functions_variable(f, "a_variable_to_find"),
			 vaddr_of(&a_variable_to_find));
	const char *names[] = { "no_such_variable", "a_variable_to_find" };
	uint64_t at[2];
	assert_int_equal(functions_variables(f, names, 2, at), 0);
	assert_int_equal(at[0], 0);
	assert_int_equal(at[1], vaddr_of(&a_variable_to_find));
	memcpy(here, (const void *)vaddr_of, sizeof(here));
	assert_int_equal(functions_code(f, w.vaddr, code, sizeof(code)), sizeof(code));
	assert_memory_equal(code, here, sizeof(code));
	assert_true(functions_vaddr(f, (uint64_t)functions_offset(f, w.vaddr)) == (int64_t)w.vaddr);
	pid_t pid = reader_pid(files->reader);
	assert_int_equal(field(pid, "Seccomp:", 10), 2);
	assert_int_equal(field(pid, "NoNewPrivs:", 10), 1);
	assert_int_equal(field(pid, "CapEff:", 16), 0);
	if (geteuid() == 0)
		assert_int_not_equal(field(pid, "Uid:", 10), 0);
	functions_free(f);
	elf_files_free(files);
	assert_int_equal(kill(pid, 0), -1);
}

static void stubs_lead_to_the_names_of_other_modules(void **state)
{
	struct err err = { 0 };
	unsigned stubs = 0;
	(void)state;
	struct elf_files *files = elf_files_new(0, &err);
	struct functions *f = functions_open(files, own, NULL, 0, &err);
	assert_non_null(f);
	struct wanted w = { .name = "main" };
	assert_int_equal(functions_each(f, find, &w), 0);
	for (uint64_t at = 0x1000; at < w.vaddr; at += 8) {
		const char *name = functions_stub(f, at);
		stubs += name && !strcmp(name, "readlink");
	}
	assert_true(stubs > 0);
	functions_free(f);
	elf_files_free(files);
}

static void a_death_costs_one_file(void **state)
{
	struct err err = { 0 };
	struct wanted w = { .name = "vaddr_of" };
	(void)state;
	struct elf_files *files = elf_files_new(0, &err);
	struct functions *f = functions_open(files, own, NULL, 0, &err);
	assert_non_null(f);
	kill(reader_pid(files->reader), SIGKILL);
	assert_int_equal(functions_each(f, find, &w), -EPIPE);
	assert_int_equal(functions_variable(f, "a_variable_to_find"), 0);
	assert_null(functions_stub(f, 0x1000));
	functions_free(f);
	f = functions_open(files, own, NULL, 0, &err);
	assert_non_null(f);
	assert_int_equal(functions_each(f, find, &w), 0);
	assert_int_equal(w.seen, 1);
	functions_free(f);
	/* and not for ever */
	for (int i = 0; i < READERS_MAX; i++) {
		if (files->reader)
			kill(reader_pid(files->reader), SIGKILL);
		functions_free(functions_open(files, own, NULL, 0, &err));
		functions_free(functions_open(files, own, NULL, 0, &err));
	}
	assert_null(files->reader);
	assert_null(functions_open(files, own, NULL, 0, &err));
	assert_int_equal(err.code, -EPIPE);
	elf_files_free(files);
}

static void tables_are_those_that_we_would_build_ourselves(void **state)
{
	struct err err = { 0 };
	struct image image;
	struct rows_list list = { 0 };
	struct wire_unwind *blob, *ours;
	struct unwind_rows_info info, stats = { 0 };
	(void)state;
	struct unwind_rows *rows = unwind_rows_new(0, "", &err);
	int64_t bytes = unwind_rows_get(rows, own, NULL, 0, &blob, &info, &err);
	assert_true(bytes > 0);
	assert_false(info.cached);
	assert_true(info.exec_count > 0 && info.fdes > 10);
	const struct image_root root = { .fd = -1 };
	assert_int_equal(image_open(&image, &root, own, NULL, 0), 0);
	assert_int_equal(rows_from_eh_frame(&list, &image), 0);
	assert_int_equal(rows_blob(&list, &image, &ours, &stats), bytes);
	assert_memory_equal(blob, ours, (size_t)bytes);
	assert_int_equal(info.rows, stats.rows);
	free(ours);
	free(blob);
	/* sent to rest, it comes back */
	unwind_rows_rest(rows);
	assert_int_equal(unwind_rows_get(rows, own, NULL, 0, &blob, &info, &err), bytes);
	free(blob);
	rows_fini(&list);
	image_close(&image);
	unwind_rows_free(rows);
}

/* The kernel tells its files as our root sees them. */
static void a_file_of_a_process_below_another_root_is_found(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	char top[] = "/tmp/byteledger-root-XXXXXX", path[128], done;
	int told[2];
	assert_non_null(mkdtemp(top));
	snprintf(path, sizeof(path), "%s/library", top);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "seen", 4), 4);
	close(fd);
	assert_int_equal(pipe(told), 0);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chroot(top) || chdir("/") || write(told[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(told[0], &done, 1), 1);
	struct err err = { 0 };
	struct image_root root;
	assert_int_equal(image_root_open(&root, (uint32_t)child, &err), 0);
	char text[8] = "";
	for (int own_words = 0; own_words < 2;
	     own_words++) { /* and by the name that it has itself */
		fd = image_open_path(&root, OPENER_BELOW, own_words ? "/library" : path, 0);
		assert_true(fd >= 0);
		assert_int_equal(read(fd, text, sizeof(text)), 4);
		assert_string_equal(text, "seen");
		close(fd);
	}
	snprintf(path + strlen(top), sizeof(path) - strlen(top), "x/library");
	assert_int_equal(image_open_path(&root, OPENER_BELOW, path, 0), -ENOENT);
	image_root_close(&root);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	snprintf(path, sizeof(path), "%s/library", top);
	unlink(path);
	rmdir(top);
	close(told[0]);
	close(told[1]);
}

static void heads_of_damaged_files_are_refused(void **state)
{
	struct elf_head head;
	unsigned char bytes[4096] = { 0 };
	FILE *from = fopen(own, "re"), *file = tmpfile();
	(void)state;
	assert_int_equal(fread(bytes, 1, sizeof(bytes), from), sizeof(bytes));
	fclose(from);
	assert_int_equal(head_read(&head, fileno(file)), -EBADMSG); /* empty */
	pwrite(fileno(file), bytes, sizeof(bytes), 0);
	assert_int_equal(head_read(&head, fileno(file)), 0);
	assert_int_equal(head.build_id_len, 20);
	/* each byte of its header, and of what that leads to, may be anything */
	for (unsigned at = 0; at < 1024; at++)
		for (unsigned k = 0; k < 3; k++) {
			unsigned char byte = (unsigned char)(k == 2 ? bytes[at] ^ 0x80 : k - 1);
			pwrite(fileno(file), &byte, 1, at);
			int rc = head_read(&head, fileno(file));
			assert_true(rc == 0 || rc == -EBADMSG);
			assert_true(head.segment_count <= HEAD_SEGMENTS_MAX);
			pwrite(fileno(file), &bytes[at], 1, at);
		}
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_files_say_is_read_without_privileges),
		cmocka_unit_test(stubs_lead_to_the_names_of_other_modules),
		cmocka_unit_test(a_death_costs_one_file),
		cmocka_unit_test(tables_are_those_that_we_would_build_ourselves),
		cmocka_unit_test(a_file_of_a_process_below_another_root_is_found),
		cmocka_unit_test(heads_of_damaged_files_are_refused),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
