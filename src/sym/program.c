/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/program.h"

#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

/* Which loaders there are besides glibc's; one of an unknown name is taken for that. */
static int is_foreign_loader(int fd, const GElf_Phdr *segment)
{
	static const char *const names[] = { "ld-musl", "linker64", "ld64-uClibc" };
	char path[256] = "";
	size_t len = segment->p_filesz < sizeof(path) ? segment->p_filesz : sizeof(path) - 1;
	if (pread(fd, path, len, (off_t)segment->p_offset) < 0)
		return 0;
	const char *base = strrchr(path, '/');
	base = base ? base + 1 : path;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(base, names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

static int needs_asan(Elf *elf)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr head;
		if (!gelf_getshdr(section, &head) || head.sh_type != SHT_DYNAMIC)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		GElf_Dyn entry;
		for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL;
		     i++) {
			const char *name = entry.d_tag == DT_NEEDED
						   ? elf_strptr(elf, head.sh_link, entry.d_un.d_val)
						   : NULL;
			if (name && (strncmp(name, "libasan.so", 10) == 0 ||
				     strncmp(name, "libclang_rt.asan", 16) == 0))
				return 1;
		}
	}
	return 0;
}

enum sym_program sym_program(int fd)
{
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	GElf_Ehdr head;
	size_t count = 0;
	enum sym_program kind = SYM_PROGRAM_NOT_ELF;
	if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &head) &&
	    elf_getphdrnum(elf, &count) == 0) {
		kind = SYM_PROGRAM_STATIC;
		for (size_t i = 0; i < count; i++) {
			GElf_Phdr segment;
			if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_INTERP)
				kind = is_foreign_loader(fd, &segment) ? SYM_PROGRAM_OTHER_LIBC
								       : SYM_PROGRAM_DYNAMIC;
		}
		if (kind == SYM_PROGRAM_DYNAMIC && needs_asan(elf))
			kind = SYM_PROGRAM_ASAN;
		if (head.e_machine != OWN_MACHINE || gelf_getclass(elf) != ELFCLASS64)
			kind = SYM_PROGRAM_FOREIGN;
	}
	elf_end(elf);
	return kind;
}

int sym_program_is_foreign(uint32_t pid, const char *file)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", pid);
	CLEANUP(fileio_closep) int fd = open(pid ? path : file, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && sym_program(fd) == SYM_PROGRAM_FOREIGN;
}
