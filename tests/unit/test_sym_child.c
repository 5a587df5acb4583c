/* SPDX-License-Identifier: Apache-2.0 */
/* ELF and DWARF are read by a child: what it may not do, and what its death
 * costs. */
#include <dirent.h>
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sym/child.h"
#include "sym/image.h"
#include "sym/reader.h"

/* A function of this very file, as an ELF virtual address: the test is linked
 * as a PIE, so the file says where it is. */
static const char *own_path(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	assert_true(n > 0);
	path[n] = '\0';
	return path;
}

static uint64_t vaddr_of(const void *function)
{
	char line[4352];
	uint64_t base = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	while (!base && fgets(line, sizeof(line), maps)) {
		if (strstr(line, own_path()))
			base = strtoull(line, NULL, 16);
	}
	fclose(maps);
	return (uint64_t)(uintptr_t)function - base + 1;
}

static int names(struct sym *sym, const void *function, const char *name)
{
	const struct symbol *symbols;
	uint32_t count = sym_resolve(sym, own_path(), NULL, 0, vaddr_of(function), &symbols);
	return count && symbols[count - 1].function &&
	       strcmp(symbols[count - 1].function, name) == 0;
}

static unsigned long field(pid_t pid, const char *name, int base)
{
	char path[64], line[256];
	unsigned long value = ~0ul;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtoul(line + strlen(name), NULL, base);
	}
	fclose(file);
	return value;
}

static void whoever_reads_files_has_no_privileges(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct sym *sym = sym_new(NULL, &err);
	assert_non_null(sym);
	assert_true(names(sym, (const void *)vaddr_of, "vaddr_of"));
	pid_t pid = child_pid(sym->child);
	assert_int_equal(field(pid, "Seccomp:", 10), 2);
	assert_int_equal(field(pid, "NoNewPrivs:", 10), 1);
	assert_int_equal(field(pid, "CapEff:", 16), 0);
	assert_int_equal(field(pid, "CapPrm:", 16), 0);
	if (geteuid() == 0) {
		/* as another user, and what is open is the way to us and the file that is
     * read */
		assert_int_not_equal(field(pid, "Uid:", 10), 0);
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
		DIR *fds = opendir(path);
		assert_non_null(fds);
		int count = 0;
		for (struct dirent *entry; (entry = readdir(fds));)
			count += entry->d_name[0] != '.';
		closedir(fds);
		assert_in_range(count, 1, 3);
	}
	sym_free(sym);
	/* it is gone with its symboliser */
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void its_death_costs_names_of_one_file_and_nothing_else(void **state)
{
	struct err err = { 0 };
	const struct symbol *symbols;
	const char *path;
	(void)state;
	struct sym *sym = sym_new(NULL, &err);
	assert_non_null(sym);
	assert_true(names(sym, (const void *)vaddr_of, "vaddr_of"));
	assert_int_equal(sym_unread(sym, &path), 0);
	pid_t first = child_pid(sym->child);
	kill(first, SIGKILL);
	assert_false(names(sym, (const void *)own_path, "own_path"));
	assert_int_equal(sym_unread(sym, &path), 1);
	assert_string_equal(path, own_path());
	/* what was known stays known, and other files are read by another child */
	assert_true(names(sym, (const void *)vaddr_of, "vaddr_of"));
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4352], *libc = NULL;
	while (!libc && fgets(line, sizeof(line), maps)) {
		libc = strstr(line, "/libc.so.6") ? strchr(line, '/') : NULL;
	}
	fclose(maps);
	assert_non_null(libc);
	libc[strcspn(libc, "\n")] = '\0';
	uint32_t found = 0;
	for (uint64_t at = 0x30000; at < 0x90000 && !found; at += 0x1000)
		found = sym_resolve(sym, libc, NULL, 0, at, &symbols);
	assert_true(found > 0);
	assert_int_not_equal(child_pid(sym->child), first);
	assert_int_equal(sym_unread(sym, &path), 1);
	sym_free(sym);
}

/* One that dies again and again is not begun for ever. */
static void who_dies_too_often_is_not_begun_again(void **state)
{
	struct err err = { 0 };
	const struct symbol *symbols;
	const char *path;
	(void)state;
	struct sym *sym = sym_new(NULL, &err);
	for (int i = 0; i < 2 * READERS_MAX + 3; i++) {
		char id = (char)('a' + i);
		if (sym->child)
			kill(child_pid(sym->child), SIGKILL);
		sym_resolve(sym, own_path(), (const uint8_t *)&id, 1, 1, &symbols);
	}
	assert_int_equal(sym->children, READERS_MAX);
	assert_null(sym->child);
	assert_true(sym_unread(sym, &path) >= READERS_MAX);
	sym_free(sym);
}

/* An ELF file with one compressed section of @padding bytes that claims @claims; the @older way. */
static int make_claim_as(uint64_t claims, size_t padding, int older)
{
	static const char strings[] = "\0.shstrtab\0.debug_info\0.zdebug_info";
	char path[] = "/tmp/byteledger-claim-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	unlink(path);
	Elf64_Chdr chdr = { .ch_type = ELFCOMPRESS_ZLIB, .ch_size = claims, .ch_addralign = 1 };
	if (older) {
		const uint64_t first = htobe64(claims);
		memcpy(&chdr, "ZLIB", 4);
		memcpy((char *)&chdr + 4, &first, sizeof(first));
	}
	Elf64_Ehdr ehdr = { .e_type = ET_EXEC,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_shoff = sizeof(ehdr),
			    .e_ehsize = sizeof(ehdr),
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shnum = 3,
			    .e_shstrndx = 1 };
	memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr.e_ident[EI_VERSION] = EV_CURRENT;
	Elf64_Shdr sections[3] = {
		{ 0 },
		{ .sh_name = 1,
		  .sh_type = SHT_STRTAB,
		  .sh_offset = sizeof(ehdr) + sizeof(sections),
		  .sh_size = sizeof(strings) },
		{ .sh_name = older ? 23 : 11,
		  .sh_type = SHT_PROGBITS,
		  .sh_flags = older ? 0 : SHF_COMPRESSED,
		  .sh_offset = sizeof(ehdr) + sizeof(sections) + sizeof(strings),
		  .sh_size = sizeof(chdr) + padding },
	};
	assert_int_equal(write(fd, &ehdr, sizeof(ehdr)), sizeof(ehdr));
	assert_int_equal(write(fd, sections, sizeof(sections)), sizeof(sections));
	assert_int_equal(write(fd, strings, sizeof(strings)), sizeof(strings));
	assert_int_equal(write(fd, &chdr, sizeof(chdr)), sizeof(chdr));
	assert_int_equal(ftruncate(fd, (off_t)(sizeof(ehdr) + sizeof(sections) + sizeof(strings) +
					       sizeof(chdr) + padding)),
			 0);
	return fd;
}

static int make_claim(uint64_t claims, size_t padding)
{
	return make_claim_as(claims, padding, 0);
}

static void sections_that_claim_a_great_deal_are_refused_unread(void **state)
{
	struct image image;
	(void)state;
	assert_int_equal(image_open_fd(&image, make_claim(3ull << 30, 3 << 20), NULL, 0), -EFBIG);
	assert_int_equal(image_open_fd(&image, make_claim(UINT64_MAX, 100), NULL, 0), -EFBIG);
	assert_int_equal(image_open_fd(&image, make_claim_as(3ull << 30, 3 << 20, 1), NULL, 0),
			 -EFBIG);
	assert_int_equal(image_open_fd(&image, make_claim_as(60ull << 20, 100, 1), NULL, 0), 0);
	image_close(&image);
	/* as real ones are: a few times its size, or little */
	assert_int_equal(image_open_fd(&image, make_claim(100ull << 20, 30 << 20), NULL, 0), 0);
	image_close(&image);
	assert_int_equal(image_open_fd(&image, make_claim(60ull << 20, 100), NULL, 0), 0);
	image_close(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_reads_files_has_no_privileges),
		cmocka_unit_test(its_death_costs_names_of_one_file_and_nothing_else),
		cmocka_unit_test(who_dies_too_often_is_not_begun_again),
		cmocka_unit_test(sections_that_claim_a_great_deal_are_refused_unread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
