/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ELF and DWARF that anybody wrote, as a report meets them: read in the child, which may die over it; what arrives here is valid all
 * the same. One child for many files, so that what it keeps of one meets the next; each file has another name.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sym/sym.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILES_MAX 64 /* of one struct sym: what is remembered of each stays */

static void look_at(const struct symbol *symbols, uint32_t count)
{
	size_t letters = 0;
	for (uint32_t i = 0; i < count; i++)
		letters += (symbols[i].function ? strlen(symbols[i].function) : 0) +
			   (symbols[i].file ? strlen(symbols[i].file) : 0);
	if (letters > 1u << 26)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sym *sym;
	static unsigned files;
	struct err err = { 0 };
	const struct symbol *symbols;
	char path[64];
	if (!sym || files++ % FILES_MAX == 0) {
		sym_free(sym);
		sym = sym_new(&(struct sym_opt){ .no_debuginfod = 1 }, &err);
	}
	int fd = memfd_create("elf", MFD_CLOEXEC);
	if (!sym || fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	/* the same file by another name each time: "/." may be repeated */
	snprintf(path, sizeof(path), "/proc/self/%.*sfd/%d", (int)(files % 8 * 2),
		 "././././././././", fd);
	uint64_t offsets[40];
	for (size_t i = 0; i < 40; i++)
		offsets[i] =
			i < 32 ? 0x200 + i * 8
			       : UINT64_MAX >>
					 (i - 32) * 8; /* where the corpus has code, and far away */
	sym_prepare(sym, path, NULL, 0, offsets, 40);
	for (size_t i = 0; i < 40; i++) {
		uint32_t count = sym_resolve(sym, path, NULL, 0, offsets[i], &symbols);
		look_at(symbols, count);
	}
	close(fd);
	return 0;
}
