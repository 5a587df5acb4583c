/* SPDX-License-Identifier: Apache-2.0 */
#include "source/bpfstack_places.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/proc.h"
#include "wire/stack.h"

#define NOTES_MAX_BYTES 4096
#define HEADERS_MAX 64
#define EXEC_LOOKS 100
#define EXEC_PAUSE_US 2000

void code_mappings_fini(struct code_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++)
		free(mappings->all[i].path);
	free(mappings->all);
	memset(mappings, 0, sizeof(*mappings));
}

/*
 * Where the header of a mapped file is read: in the file itself, or in the process where that is
 * not permitted.
 */
struct header {
	/* its mapping */
	uint64_t lo, hi;
	/*
	 * the very file that is mapped, whatever its name leads to by now; -1 = may not be opened
	 */
	int file;
	uint32_t pid;
	/* of the process; -1 = not opened yet */
	int mem, pagemap;
};

static int open_of(uint32_t pid, const char *what)
{
	char name[64];
	snprintf(name, sizeof(name), "/proc/%" PRIu32 "/%s", pid, what);
	return open(name, O_RDONLY | O_CLOEXEC);
}

/*
 * @at counts from the header. Of memory only what is there already is read: reading on would bring
 * pages into the process that it
 * never touched.
 */
static int read_at(struct header *h, uint64_t at, void *to, size_t bytes)
{
	if (at > h->hi - h->lo || bytes > h->hi - h->lo - at)
		return -1;
	if (h->file >= 0)
		return pread(h->file, to, bytes, (off_t)at) == (ssize_t)bytes ? 0 : -1;
	if (h->mem < 0)
		h->mem = open_of(h->pid, "mem");
	if (h->pagemap < 0)
		h->pagemap = open_of(h->pid, "pagemap");
	for (uint64_t page = (h->lo + at) / 4096; page <= (h->lo + at + bytes - 1) / 4096; page++) {
		uint64_t entry = 0;
		if (h->pagemap < 0 || pread(h->pagemap, &entry, 8, (off_t)(page * 8)) != 8 ||
		    !(entry >> 63))
			return -1;
	}
	return h->mem >= 0 && pread(h->mem, to, bytes, (off_t)(h->lo + at)) == (ssize_t)bytes ? 0
											      : -1;
}

static void scan_notes(struct header *mem, uint64_t at, uint64_t bytes, struct code_mapping *to)
{
	uint8_t notes[NOTES_MAX_BYTES];
	if (bytes > sizeof(notes) || read_at(mem, at, notes, bytes) < 0)
		return;
	for (uint64_t pos = 0; pos + sizeof(Elf64_Nhdr) <= bytes;) {
		Elf64_Nhdr note;
		memcpy(&note, notes + pos, sizeof(note));
		uint64_t name = pos + sizeof(note),
			 desc = name + (((uint64_t)note.n_namesz + 3) & ~3ULL);
		if (desc + note.n_descsz > bytes)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz <= sizeof(to->build_id)) {
			memcpy(to->build_id, notes + desc, note.n_descsz);
			to->build_id_len = (uint8_t)note.n_descsz;
			return;
		}
		pos = desc + (((uint64_t)note.n_descsz + 3) & ~3ULL);
	}
}

/* The build id of what is really mapped: the file under that name may be another one by now. */
static void read_build_id(struct header *mem, struct code_mapping *to)
{
	Elf64_Ehdr ehdr;
	if (read_at(mem, 0, &ehdr, sizeof(ehdr)) < 0 || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) ||
	    ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_phentsize != sizeof(Elf64_Phdr) ||
	    ehdr.e_phnum > HEADERS_MAX)
		return;
	Elf64_Phdr phdr[HEADERS_MAX];
	if (read_at(mem, ehdr.e_phoff, phdr, ehdr.e_phnum * sizeof(*phdr)) < 0)
		return;
	uint64_t first = UINT64_MAX;
	for (unsigned i = 0; i < ehdr.e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_offset == 0)
			first = phdr[i].p_vaddr;
	for (unsigned i = 0; i < ehdr.e_phnum && first != UINT64_MAX && !to->build_id_len; i++)
		if (phdr[i].p_type == PT_NOTE)
			scan_notes(mem, phdr[i].p_vaddr - first, phdr[i].p_memsz, to);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0xff51afd7ed558ccdULL;
	return hash ^ hash >> 33;
}

/*
 * That file's place among the known ones, whether it is there yet or not; NULL: it does not say who
 * it is.
 */
static struct code_id *id_of(struct code_ids *ids, const char *name, struct code_id *wanted)
{
	struct stat st;
	if (!ids || stat(name, &st) < 0)
		return NULL;
	*wanted = (struct code_id){ .dev = st.st_dev,
				    .ino = st.st_ino,
				    .size = (uint64_t)st.st_size,
				    .changed_ns = clock_of(&st.st_ctim) };
	return &ids->all[mix(mix(0, st.st_dev), st.st_ino) % ARRAY_LEN(ids->all)];
}

static void find_build_id(struct header *header, struct code_ids *ids, struct code_mapping *to)
{
	char name[96];
	struct code_id wanted = { 0 };
	snprintf(name, sizeof(name), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
		 header->pid, header->lo, header->hi);
	struct code_id *known = id_of(ids, name, &wanted);
	if (known && known->ino == wanted.ino && known->dev == wanted.dev &&
	    known->size == wanted.size && known->changed_ns == wanted.changed_ns) {
		memcpy(to->build_id, known->build_id, sizeof(to->build_id));
		to->build_id_len = known->build_id_len;
		return;
	}
	header->file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	read_build_id(header, to);
	if (header->file >= 0 && known) {
		memcpy(wanted.build_id, to->build_id, sizeof(wanted.build_id));
		wanted.build_id_len = to->build_id_len;
		*known = wanted;
	}
	if (header->file >= 0)
		close(header->file);
	header->file = -1;
}

static const char *take_hex(const char *at, uint64_t *value)
{
	const char *begin = at;
	for (*value = 0;; at++) {
		unsigned digit = (unsigned char)*at - '0';
		if (digit > 9 && (digit = ((unsigned char)*at | 32) - 'a' + 10) - 10 > 5)
			return at > begin ? at : NULL;
		*value = *value << 4 | digit;
	}
}

struct line {
	uint64_t lo, hi, offset, inode;
	const char *perms, *path;
};

/*
 * A line of maps; return 0 where it is none. By hand: it is read again with each mapping that
 * comes.
 */
static int parse_line(const char *text, struct line *line)
{
	const char *at = take_hex(text, &line->lo);
	if (!at || *at != '-' || !(at = take_hex(at + 1, &line->hi)) || *at != ' ')
		return 0;
	line->perms = at + 1;
	if (strlen(line->perms) < 5 || line->perms[4] != ' ' ||
	    !(at = take_hex(line->perms + 5, &line->offset)) || *at != ' ')
		return 0;
	at += 1 + strcspn(at + 1, " "); /* the device */
	char *end;
	line->inode = strtoull(at, &end, 10);
	if (end == at)
		return 0;
	line->path = end + strspn(end, " ");
	return 1;
}

static int read_once(struct code_mappings *mappings, uint32_t pid, struct code_ids *ids,
		     struct err *err)
{
	char name[96], *line = NULL, header_path[4096] = "";
	size_t line_cap = 0, cap = 0;
	struct header header = { .file = -1, .pid = pid, .mem = -1, .pagemap = -1 };
	memset(mappings, 0, sizeof(*mappings));
	snprintf(name, sizeof(name), "/proc/%" PRIu32 "/maps", pid);
	FILE *maps = fopen(name, "re");
	if (!maps)
		return err_set(err, errno == ENOENT ? -ESRCH : -errno, "cannot read '%s'", name);
	int rc = 0;
	while (!rc && getline(&line, &line_cap, maps) > 0) {
		struct line is;
		line[strcspn(line, "\n")] = '\0';
		if (!parse_line(line, &is))
			continue;
		if (is.offset == 0 && is.path[0] == '/' && strlen(is.path) < sizeof(header_path)) {
			strcpy(header_path, is.path);
			header.lo = is.lo;
			header.hi = is.hi;
		}
		if (is.perms[2] != 'x' || is.lo >> 47) /* [vsyscall] lies beyond */
			continue;
		if (mappings->count == WIRE_STACK_PROCESS_PLACES_MAX) {
			rc = err_set(err, -E2BIG,
				     "more than %d executable mappings in process %" PRIu32,
				     WIRE_STACK_PROCESS_PLACES_MAX, pid);
			break;
		}
		if (mappings->count == cap) {
			cap = cap ? cap * 2 : 64;
			struct code_mapping *grown =
				reallocarray(mappings->all, cap, sizeof(*grown));
			if (!grown) {
				rc = err_set(err, -ENOMEM, "cannot list mappings");
				break;
			}
			mappings->all = grown;
		}
		struct code_mapping *to = &mappings->all[mappings->count];
		*to = (struct code_mapping){ .lo = is.lo,
					     .hi = is.hi,
					     .file_offset = is.offset,
					     .inode = is.inode,
					     .path = strdup(is.path) };
		if (!to->path) {
			rc = err_set(err, -ENOMEM, "cannot list mappings");
			break;
		}
		mappings->count++;
		if (is.path[0] == '/' && !strcmp(is.path, header_path))
			find_build_id(&header, ids, to);
		mappings->hash =
			mix(mix(mix(mix(mappings->hash, is.lo), is.hi), is.offset), is.inode);
	}
	free(line);
	fclose(maps);
	if (header.mem >= 0)
		close(header.mem);
	if (header.pagemap >= 0)
		close(header.pagemap);
	if (!rc && !mappings->count)
		rc = err_set(err, -ESRCH, "process %" PRIu32 " has no code", pid);
	if (rc)
		code_mappings_fini(mappings);
	return rc;
}

int code_mappings_read(struct code_mappings *mappings, uint32_t pid, struct code_ids *ids,
		       struct err *err)
{
	struct err first = { 0 };
	uint64_t bytes;
	int rc = read_once(mappings, pid, ids, &first);
	/* amid exec a process has a stack, and nothing else yet */
	for (int i = 0; rc == -ESRCH && i < EXEC_LOOKS && proc_peak_rss((pid_t)pid, &bytes) == 0;
	     i++) {
		usleep(EXEC_PAUSE_US);
		first = (struct err){ 0 };
		rc = read_once(mappings, pid, ids, &first);
	}
	if (rc < 0)
		*err = first;
	return rc;
}
