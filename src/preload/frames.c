/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.c - unwind entries that the loader does not announce: .eh_frame of an object without the
 * header that names it, and .debug_frame, which is not mapped. Both stand in the file's section
 * table only, and are looked for once an address of the object has no entry otherwise. The file is
 * read, never mapped: who cuts it meanwhile must not end the program.
 */
#include "preload/frames.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include "preload/start.h"
#include "preload/thread.h"

#define SECTIONS_MAX 256u
#define NAMES_MAX 4096u
#define DEBUG_FRAME_MAX (16u << 20)

static int read_all(long fd, void *to, uint64_t bytes, uint64_t at)
{
	uint64_t done = 0;
	while (done < bytes) {
		long n = sys4(SYS_pread64, fd, (char *)to + done, bytes - done, at + done);
		if (n == 0 || sys_failed(n))
			return 0;
		done += (uint64_t)n;
	}
	return 1;
}

/* A section that is in memory, with the bounds of the segment that holds it. */
static void take_mapped(const struct frames_object *o, const ElfW(Shdr) * section,
			struct unwind_frames *to)
{
	for (unsigned i = 0; i < o->phdr_count; i++) {
		const ElfW(Phdr) *ph = &o->phdr[i];
		if (ph->p_type != PT_LOAD || section->sh_addr < ph->p_vaddr ||
		    section->sh_addr - ph->p_vaddr > ph->p_filesz ||
		    section->sh_size > ph->p_filesz - (section->sh_addr - ph->p_vaddr))
			continue;
		to->eh_frame = (const uint8_t *)(o->bias + section->sh_addr);
		to->eh_lo = (const uint8_t *)(o->bias + ph->p_vaddr);
		to->eh_hi = to->eh_frame + section->sh_size;
	}
}

static void take_copy(long fd, const ElfW(Shdr) * section, struct unwind_frames *to)
{
	if (section->sh_flags & SHF_COMPRESSED || !section->sh_size ||
	    section->sh_size > DEBUG_FRAME_MAX)
		return;
	uint8_t *copy = own_memory(section->sh_size);
	if (!copy || !read_all(fd, copy, section->sh_size, section->sh_offset))
		return; /* what cannot be read stays empty, which ends a search */
	to->debug_frame = copy;
	to->debug_bytes = section->sh_size;
}

void frames_load(const char *path, const struct frames_object *o, struct unwind_frames *to)
{
	/* the caller's lock guards them; the stack may be a signal's and small */
	static ElfW(Shdr) sections[SECTIONS_MAX];
	static ElfW(Phdr) phdr[64];
	static char names[NAMES_MAX + 1];
	ElfW(Ehdr) eh;
	if (no_calls() || o->phdr_count > sizeof(phdr) / sizeof(phdr[0]))
		return;
	long fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	if (sys_failed(fd))
		return;
	/* the same program headers: nobody has put another file there since */
	if (!read_all(fd, &eh, sizeof(eh), 0) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_shentsize != sizeof(*sections) || eh.e_shnum > SECTIONS_MAX ||
	    eh.e_shstrndx >= eh.e_shnum || eh.e_phnum != o->phdr_count ||
	    !read_all(fd, phdr, o->phdr_count * sizeof(*phdr), eh.e_phoff) ||
	    memcmp(phdr, o->phdr, o->phdr_count * sizeof(*phdr)) != 0 ||
	    !read_all(fd, sections, eh.e_shnum * sizeof(*sections), eh.e_shoff))
		goto done;
	const ElfW(Shdr) *strings = &sections[eh.e_shstrndx];
	uint64_t names_bytes = strings->sh_size < NAMES_MAX ? strings->sh_size : NAMES_MAX;
	if (!read_all(fd, names, names_bytes, strings->sh_offset))
		goto done;
	names[names_bytes] = '\0';
	for (unsigned i = 0; i < eh.e_shnum; i++) {
		const ElfW(Shdr) *section = &sections[i];
		if (section->sh_name >= names_bytes || section->sh_type == SHT_NOBITS)
			continue;
		const char *name = names + section->sh_name;
		if (strcmp(name, ".eh_frame") == 0 && section->sh_flags & SHF_ALLOC)
			take_mapped(o, section, to);
		else if (strcmp(name, ".debug_frame") == 0)
			take_copy(fd, section, to);
	}
done:
	sys1(SYS_close, fd);
}
