/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbcl.c - the spaces of Steel Bank Common Lisp, named and not counted, by the variables that its
 * runtime exports: where the dynamic space begins and how large it may grow, and where code and
 * symbols lie that never move. All of it may be executed, so that without this it is anybody's
 * code.
 */
#include <errno.h>
#include <string.h>

#include "heaps/files.h"
#include "heaps/readers.h"
#include "proc/owned.h"

#define CODE_MIN (1ull << 20)
#define SPACE_MAX (1ull << 44)

/* Code that nobody knows is what makes the executable worth opening. */
static int has_unknown_code(const struct breakdown *b)
{
	for (size_t i = 0; i < b->region_count; i++)
		if (b->regions[i].class == REGION_JIT && !b->regions[i].name[0] &&
		    b->regions[i].perms & REGION_WRITE &&
		    b->regions[i].end - b->regions[i].start >= CODE_MIN)
			return 1;
	return 0;
}

static const struct region *executable(const struct breakdown *b)
{
	const char *name = NULL;
	for (size_t i = 0; i < b->region_count && !name; i++)
		if (b->regions[i].class == REGION_PROGRAM_TEXT)
			name = b->regions[i].name;
	for (size_t i = 0; i < b->region_count && name; i++)
		if (b->regions[i].offset == 0 && strcmp(b->regions[i].name, name) == 0)
			return &b->regions[i];
	return NULL;
}

/* The word that variable @name of the executable holds; 0 where it has none. */
static uint64_t value_of(const struct breakdown *b, const struct memory *memory,
			 const struct region *program, const char *name)
{
	uint64_t at = heap_files_variable(b->files, b->files_of, program->name, name), value = 0;
	/* one that is not moved when it is loaded stands at its own address */
	uint64_t place = at >= program->start ? at : program->start + at;
	return at && memory_read(memory, place, &value, sizeof(value)) == 0 ? value : 0;
}

/* What of the space lies in mappings that no file backs: the core's own pages stay the file's. */
static int own_space(struct breakdown *b, uint64_t start, uint64_t bytes, const char *label)
{
	uint64_t end;
	int rc = 0;
	if (!start || start & 4095 || !bytes || bytes > SPACE_MAX ||
	    __builtin_add_overflow(start, bytes, &end))
		return 0;
	for (size_t i = 0; i < b->region_count && rc == 0; i++) {
		const struct region *r = &b->regions[i];
		if (r->end <= start || r->start >= end || r->class != REGION_JIT || r->name[0])
			continue;
		rc = heaps_own(b, r->start > start ? r->start : start, r->end < end ? r->end : end,
			       REGION_RUNTIME, label, "SBCL", OWNED_PART, HOW_ALLOCATOR);
	}
	return rc;
}

int heaps_sbcl(struct breakdown *b, const struct memory *memory, struct err *err)
{
	const struct region *program = b->files && has_unknown_code(b) ? executable(b) : NULL;
	uint64_t start = program ? value_of(b, memory, program, "DYNAMIC_SPACE_START") : 0;
	if (!start)
		return 0;
	int rc = own_space(b, start, value_of(b, memory, program, "dynamic_space_size"),
			   "SBCL heap");
	if (rc == 0)
		rc = own_space(b, value_of(b, memory, program, "immobile_space_lower_bound"),
			       value_of(b, memory, program, "immobile_space_max_offset"),
			       "SBCL code and symbols");
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
