/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/program.h"

#include <gelf.h>
#include <libelf.h>
#include <stddef.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

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
				kind = SYM_PROGRAM_DYNAMIC;
		}
		if (head.e_machine != OWN_MACHINE || gelf_getclass(elf) != ELFCLASS64)
			kind = SYM_PROGRAM_FOREIGN;
	}
	elf_end(elf);
	return kind;
}
