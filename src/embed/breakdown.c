/* SPDX-License-Identifier: Apache-2.0 */
/* breakdown.c - the own process's breakdown as text. */
#include <byteledger.h>

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "embed/embed.h"
#include "heaps/heaps.h"
#include "proc/names.h"
#include "proc/text.h"

#define MODULES_MAX 64  /* of more the headers are read instead */
#define LABELS_MAX 256u /* rows; a program with more gets "(other)" */

struct modules {
	struct module_extent all[MODULES_MAX];
	size_t count;
	/* one of them has Go's runtime */
	int go;
};

/* Go's linker leaves a note with the build's id in what it makes, program or library. */
static int has_go_note(const char *at, size_t bytes)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		uint64_t name = ((uint64_t)note->n_namesz + 3) & ~3ull;
		uint64_t size = sizeof(*note) + name + (((uint64_t)note->n_descsz + 3) & ~3ull);
		if (size > bytes)
			return 0;
		if (note->n_namesz == 4 && memcmp(note + 1, "Go\0", 4) == 0)
			return 1;
		at += size;
		bytes -= size;
	}
	return 0;
}

/** add_module() - for dl_iterate_phdr(); the program's own load address is only in its segments. */
static int add_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	struct modules *modules = ctx;
	uint64_t start = UINT64_MAX, end = 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + segment->p_vaddr;
		/*
		 * of four bytes each, as Go's are; the property note of eight ends the walk at its
		 * own start
		 */
		if (segment->p_type == PT_NOTE && segment->p_align == 4 && !modules->go)
			modules->go = has_go_note((const char *)(uintptr_t)at, segment->p_memsz);
		if (segment->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + segment->p_memsz > end ? at + segment->p_memsz : end;
	}
	if (end > start && modules->count < MODULES_MAX)
		modules->all[modules->count++] =
			(struct module_extent){ start & ~4095ull, (end + 4095) & ~4095ull };
	return 0;
}

struct breakdown *embed_read(size_t keep, int *code)
{
	struct err err = { 0 };
	CLEANUP(target_close) struct target target = { 0 };
	*code = target_open(&target, 0, &err);
	if (*code < 0)
		return NULL;
	size_t bytes;
	uint64_t table = embed_names(&bytes);
	CLEANUP(names_fini) struct names names = { 0 };
	if (table && names_read(&target, NULL, table, bytes, &names) < 0)
		names = (struct names){ 0 };
	/*
	 * Threads and rollup are left out: they cost more than the reading itself. Stacks are known
	 * by the descriptors at their tops.
	 */
	struct modules modules = { .count = 0 };
	dl_iterate_phdr(add_module, &modules);
	struct breakdown_opt opt = { .no_threads = 1,
				     .no_checks = 1,
				     .modules = modules.all,
				     .module_count = modules.count,
				     .keep = modules.go ? 0
					     : keep     ? keep
							: 1, /* Go: see below */
				     .labels_max = LABELS_MAX,
				     .names = names.count ? &names : NULL };
	struct breakdown *b = breakdown_read(&target, &opt, &err);
	*code = b ? 0 : err.code;
	/*
	 * Go's heap has no name of its own: its books say whose the mappings are, and need all of
	 * them
	 */
	if (b && modules.go && (*code = heaps_read(b, &target, &err)) < 0) {
		breakdown_free(b);
		b = NULL;
	}
	return b;
}

static int text_of_self(struct buf *text, int top)
{
	if (top < 0 || top > EMBED_TOP_MAX)
		return -EINVAL;
	int code, saved_errno = errno;
	CLEANUP(breakdown_freep) struct breakdown *b = embed_read((size_t)top, &code);
	if (b) {
		struct regions_text_opt opt = { .top = (size_t)top };
		buf_reserve(text, 8192); /* most pages fit: it does not grow step by step */
		regions_text(text, b, &opt);
		code = buf_failed(text) ? -ENOMEM : 0;
	}
	errno = saved_errno;
	return code;
}

EXPORT int byteledger_breakdown(int fd, int top)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	int rc = text_of_self(&text, top), saved_errno = errno;
	for (size_t at = 0; rc == 0 && at < text.len;) {
		ssize_t put = write(fd, text.data + at, text.len - at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			rc = put < 0 ? -errno : -EIO;
		else
			at += (size_t)put;
	}
	errno = saved_errno;
	return rc;
}

EXPORT ssize_t byteledger_breakdown_text(char *to, size_t size, int top)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	int rc = text_of_self(&text, top);
	if (rc < 0)
		return rc;
	if (size) {
		size_t fit = text.len < size ? text.len : size - 1;
		memcpy(to, text.data, fit);
		to[fit] = '\0';
	}
	return (ssize_t)text.len;
}
