/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile files: what serves a module's malloc is read from the module's own tables, and SBCL's spaces and Go's and jemalloc's settings from
 * variables that files name. The input is the file that every mapping claims to be of; its last words are what the variables hold.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/fake_memory.h"
#include "heaps/files.h"
#include "proc/owned.h"
#include "proc/settings.h"

#define FILES_BASE 0x500000ull
#define FILES_CODE 0x7e0000000000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *bytes;
static size_t byte_count;

static int open_file(const struct target *target, const char *path)
{
	(void)target;
	(void)path;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, bytes, byte_count) != (ssize_t)byte_count)
		abort();
	return fd;
}

static void find_variables(const struct target *target, const char *path, const char *const names[],
			   size_t count, uint64_t at[])
{
	(void)target;
	(void)path;
	for (size_t i = 0; i < count; i++)
		at[i] = (uint64_t)(names[i][0] + i) * 8 % 0x1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct heap_files files = { find_variables, open_file };
	static struct fake fake;
	struct settings settings = { 0 };
	struct err err = { 0 };
	if (!fake.count) {
		fake_map(&fake, FILES_BASE, 0x4000, REGION_PROGRAM_DATA, "/bin/program");
		fake.regions[0].class = REGION_PROGRAM_TEXT;
		fake_map(&fake, FILES_BASE + 0x100000, 0x4000, REGION_LIBRARY_DATA,
			 "/lib/libjemalloc.so");
		fake.regions[1].perms |= REGION_EXEC;
		fake_map(&fake, FILES_CODE, 0x200000, REGION_JIT, "");
		fake_touch(&fake, FILES_BASE, 0x4000);
		fake_touch(&fake, FILES_BASE + 0x100000, 0x4000);
		fake_touch(&fake, FILES_CODE, 0x200000);
		fake_keep(&fake);
	}
	fake_reset(&fake);
	bytes = data;
	byte_count = size;
	/* the words of the first mapping: slots and variables */
	for (size_t i = 0; i + 8 <= size && i < 0x1000; i += 8) {
		uint64_t word;
		memcpy(&word, data + size - i - 8, 8);
		fake_put(&fake, FILES_BASE + i, word);
	}
	struct memory_work work = { .left = 1ull << 24 };
	struct owned owned = { 0 };
	fake.memory.work = &work;
	fake.b.files = &files;
	fake.b.settings = &settings;
	fake.b.owned = &owned;
	/* both readings are there, so that both settings are looked for */
	for (unsigned i = 0; i < 2; i++) {
		struct allocator_reading *a = heaps_add(&fake.b);
		if (!a)
			abort();
		strcpy(a->allocator, i ? "jemalloc" : "Go heap");
	}
	if (heaps_served(&fake.b, &fake.memory, &err) < 0 ||
	    heaps_sbcl(&fake.b, &fake.memory, &err) < 0 || fake.reads_of_absent)
		abort(); /* memory is there */
	for (size_t i = 0; i < owned.count; i++)
		if (owned.spans[i].start < FILES_CODE ||
		    owned.spans[i].end > FILES_CODE + 0x200000 ||
		    owned.spans[i].start >= owned.spans[i].end)
			abort(); /* names what is not SBCL's to name */
	owned_fini(&owned);
	return 0;
}
