/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/head.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NOTES_MAX_BYTES 16384

static void find_build_id(struct elf_head *head, const uint8_t *notes, size_t bytes, uint64_t align)
{
	uint64_t mask = align == 8 ? 7 : 3;
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
		Elf64_Nhdr note;
		memcpy(&note, notes + at, sizeof(note));
		uint64_t name = at + sizeof(note), desc = (name + note.n_namesz + mask) & ~mask;
		if (desc > bytes || note.n_descsz > bytes - desc)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz &&
		    note.n_descsz <= sizeof(head->build_id)) {
			memcpy(head->build_id, notes + desc, note.n_descsz);
			head->build_id_len = (uint8_t)note.n_descsz;
			return;
		}
		at = (desc + note.n_descsz + mask) & ~mask;
	}
}

int head_read(struct elf_head *head, int fd)
{
	Elf64_Ehdr ehdr;
	uint8_t notes[NOTES_MAX_BYTES];
	memset(head, 0, sizeof(*head));
	if (pread(fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_phnum > HEAD_SEGMENTS_MAX ||
	    (ehdr.e_phnum && ehdr.e_phentsize != sizeof(Elf64_Phdr)) || ehdr.e_phoff > INT64_MAX)
		return -EBADMSG;
	size_t bytes = ehdr.e_phnum * sizeof(*head->segments);
	if (bytes && pread(fd, head->segments, bytes, (off_t)ehdr.e_phoff) != (ssize_t)bytes)
		return -EBADMSG;
	head->type = ehdr.e_type;
	head->machine = ehdr.e_machine;
	head->segment_count = ehdr.e_phnum;
	for (uint32_t i = 0; i < head->segment_count && !head->build_id_len; i++) {
		const Elf64_Phdr *s = &head->segments[i];
		if (s->p_type == PT_NOTE && s->p_filesz <= sizeof(notes) &&
		    s->p_offset <= INT64_MAX &&
		    pread(fd, notes, s->p_filesz, (off_t)s->p_offset) == (ssize_t)s->p_filesz)
			find_build_id(head, notes, s->p_filesz, s->p_align);
	}
	return 0;
}

int headed_accept(void *to, int fd, const uint8_t *build_id, uint8_t len)
{
	struct headed *headed = to;
	int rc = head_read(&headed->head, fd);
	if (!rc && len &&
	    (len != headed->head.build_id_len || memcmp(build_id, headed->head.build_id, len)))
		rc = -ESTALE;
	headed->fd = rc < 0 ? -1 : fd;
	if (rc < 0)
		close(fd);
	return rc;
}
