/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.c - libdw reads the DWARF, we keep indexes: .debug_aranges is not written by every
 * compiler, and looking for the scopes of an address from the unit's root costs milliseconds in a
 * large unit. So: unit ranges once, a unit's function ranges at its first address, a function's
 * inlined ranges at its first address.
 */
#include "sym/lines.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>

#include "base/search.h"

#define RANGES_MAX (8u << 20) /* per unit, and of units */
#define DIES_MAX (64u << 20)  /* visited per unit: a file whose siblings run in circles must end */
#define NESTING_MAX 128

/* One range of one function or inlined call. */
struct range {
	uint64_t lo, hi;
	/* greatest hi of this and all before */
	uint64_t reach;
	Dwarf_Off die;
	/* number of the enclosing range's DIE in the same list, for inlined calls */
	uint32_t parent;
};
struct ranges {
	struct range *all;
	size_t count, cap;
};

struct function {
	Dwarf_Off die;
	/* inlined calls; parent = depth, 1 and up */
	struct ranges calls;
};
struct unit {
	Dwarf_Off die;
	struct ranges functions;
	/* by die, open addressing */
	struct function *seen;
	size_t seen_count, seen_size;
	int indexed;
	const char *dir;
};
struct lines {
	Dwarf *dwarf, *alt;
	struct image alt_image;
	struct unit *units;
	size_t unit_count;
	/* die = number of the unit */
	struct ranges ranges;
};

static int ranges_add(struct ranges *ranges, uint64_t lo, uint64_t hi, Dwarf_Off die,
		      uint32_t parent)
{
	if (lo >= hi || ranges->count >= RANGES_MAX)
		return 0;
	if (ranges->count == ranges->cap) {
		size_t cap = ranges->cap ? ranges->cap * 2 : 16;
		struct range *grown = reallocarray(ranges->all, cap, sizeof(*grown));
		if (!grown)
			return -1;
		ranges->all = grown;
		ranges->cap = cap;
	}
	ranges->all[ranges->count++] =
		(struct range){ .lo = lo, .hi = hi, .die = die, .parent = parent };
	return 0;
}

/* Outer before inner: by lo, then the longer first, then the shallower. */
static int by_place(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	if (x->hi != y->hi)
		return x->hi > y->hi ? -1 : 1;
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return (x->die > y->die) - (x->die < y->die);
}

static void ranges_finish(struct ranges *ranges)
{
	uint64_t reach = 0;
	if (ranges->count)
		qsort(ranges->all, ranges->count, sizeof(*ranges->all), by_place);
	for (size_t i = 0; i < ranges->count; i++) {
		if (ranges->all[i].hi > reach)
			reach = ranges->all[i].hi;
		ranges->all[i].reach = reach;
	}
}

/* Number of ranges that start at or before @address. */
static size_t ranges_before(const struct ranges *ranges, uint64_t address)
{
	return search_beyond(ranges->all, ranges->count, sizeof(*ranges->all),
			     offsetof(struct range, lo), address);
}

static const struct range *ranges_innermost(const struct ranges *ranges, uint64_t address)
{
	size_t at = ranges_before(ranges, address);
	for (unsigned steps = 0; at && ranges->all[at - 1].reach > address && steps < 4096; steps++)
		if (ranges->all[--at].hi > address)
			return &ranges->all[at];
	return NULL;
}

/* Add all address ranges of @die; returns their number. */
static unsigned add_die(struct ranges *to, Dwarf_Die *die, Dwarf_Off key, uint32_t parent)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;
	unsigned count = 0;
	while (count < RANGES_MAX && (at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0) {
		if (!lo) /* discarded by the linker: nothing is at 0 */
			continue;
		if (ranges_add(to, lo, hi, key, parent) < 0)
			break;
		count++;
	}
	return count;
}

struct lines *lines_new(const struct image *image, const struct debug_search *search)
{
	Dwarf *dwarf = dwarf_begin_elf(image->elf, DWARF_C_READ, NULL);
	if (!dwarf)
		return NULL;
	struct lines *lines = calloc(1, sizeof(*lines));
	if (!lines) {
		dwarf_end(dwarf);
		return NULL;
	}
	lines->dwarf = dwarf;
	/*
	 * libdw would open any path written there by itself, a fifo too; so the file is found our
	 * way or not at all
	 */
	const char *alt_path;
	const void *alt_id;
	ssize_t alt_len = dwelf_dwarf_gnu_debugaltlink(dwarf, &alt_path, &alt_id);
	if (alt_len > 0) {
		const struct image none = { 0 };
		if (alt_len > 64 || image_find_debug(&lines->alt_image, search, &none, "", alt_id,
						     (uint8_t)alt_len) < 0)
			goto fail;
		lines->alt = dwarf_begin_elf(lines->alt_image.elf, DWARF_C_READ, NULL);
		if (!lines->alt)
			goto fail;
		dwarf_setalt(dwarf, lines->alt);
	}
	size_t cap = 0, header;
	for (Dwarf_Off at = 0, next; !dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL);
	     at = next) {
		Dwarf_Die die;
		if (!dwarf_offdie(dwarf, at + header, &die) ||
		    dwarf_tag(&die) == DW_TAG_partial_unit)
			continue;
		if (lines->unit_count == cap) {
			cap = cap ? cap * 2 : 256;
			struct unit *grown = reallocarray(lines->units, cap, sizeof(*grown));
			if (!grown)
				goto fail;
			lines->units = grown;
		}
		Dwarf_Attribute dir;
		lines->units[lines->unit_count] = (struct unit){
			.die = at + header,
			.dir = dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &dir)),
		};
		if (!add_die(&lines->ranges, &die, lines->unit_count, 0))
			continue;
		lines->unit_count++;
	}
	ranges_finish(&lines->ranges);
	return lines;
fail:
	lines_free(lines);
	return NULL;
}

void lines_free(struct lines *lines)
{
	if (!lines)
		return;
	for (size_t i = 0; i < lines->unit_count; i++) {
		struct unit *unit = &lines->units[i];
		for (size_t j = 0; j < unit->seen_size; j++)
			free(unit->seen[j].calls.all);
		free(unit->seen);
		free(unit->functions.all);
	}
	free(lines->units);
	free(lines->ranges.all);
	dwarf_end(lines->dwarf);
	dwarf_end(lines->alt);
	image_close(&lines->alt_image);
	free(lines);
}

static int is_scope(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
	       tag == DW_TAG_catch_block || tag == DW_TAG_inlined_subroutine;
}

/*
 * Some compilers put functions below what they belong to; C and C++ types hold declarations only.
 */
static int holds_functions(int tag, int types_too)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
		return 1;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_interface_type:
		return types_too;
	}
	return 0;
}

/*
 * Walk the children of @root without recursion. For a unit: collect functions. For a function:
 * collect inlined calls, with their depth, and leave nested functions alone.
 */
static void walk(struct ranges *to, Dwarf_Die *root, int types_too, int in_function)
{
	Dwarf_Die path[NESTING_MAX];
	uint32_t depths[NESTING_MAX] = { 0 };
	unsigned level = 0;
	size_t budget = DIES_MAX;
	if (dwarf_child(root, &path[0]) != 0)
		return;
	while (budget--) {
		Dwarf_Die *die = &path[level];
		int tag = dwarf_tag(die), descend;
		uint32_t depth = depths[level];
		if (in_function) {
			descend = is_scope(tag);
			if (tag == DW_TAG_inlined_subroutine)
				add_die(to, die, dwarf_dieoffset(die), ++depth);
		} else {
			descend = holds_functions(tag, types_too);
			/* a function with code may hold others with code (GNU C, Rust, Ada) */
			if (tag == DW_TAG_subprogram)
				descend =
					add_die(to, die, dwarf_dieoffset(die), 0) > 0 && types_too;
		}
		if (descend && level + 1 < NESTING_MAX && !dwarf_child(die, &path[level + 1])) {
			depths[++level] = depth;
			continue;
		}
		while (dwarf_siblingof(&path[level], &path[level]) != 0)
			if (level-- == 0)
				return;
	}
}

static void index_unit(struct lines *lines, struct unit *unit)
{
	Dwarf_Die die;
	unit->indexed = 1;
	if (!dwarf_offdie(lines->dwarf, unit->die, &die))
		return;
	int types_too;
	switch (dwarf_srclang(&die)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
		types_too = 0;
		break;
	default:
		types_too = 1;
	}
	walk(&unit->functions, &die, types_too, 0);
	ranges_finish(&unit->functions);
}

static struct function *seen_slot(struct unit *unit, Dwarf_Off die)
{
	size_t at = (die * 0x9e3779b97f4a7c15u >> 32) & (unit->seen_size - 1);
	while (unit->seen[at].die && unit->seen[at].die != die)
		at = (at + 1) & (unit->seen_size - 1);
	return &unit->seen[at];
}

static struct function *function_at(struct lines *lines, struct unit *unit, Dwarf_Off offset)
{
	if (unit->seen_count * 2 >= unit->seen_size) {
		struct unit old = *unit;
		size_t size = old.seen_size ? old.seen_size * 2 : 16;
		struct function *seen = calloc(size, sizeof(*seen));
		if (!seen)
			return NULL;
		unit->seen = seen;
		unit->seen_size = size;
		for (size_t i = 0; i < old.seen_size; i++)
			if (old.seen[i].die)
				*seen_slot(unit, old.seen[i].die) = old.seen[i];
		free(old.seen);
	}
	struct function *function = seen_slot(unit, offset);
	Dwarf_Die die;
	if (function->die)
		return function;
	function->die = offset;
	unit->seen_count++;
	if (dwarf_offdie(lines->dwarf, offset, &die))
		walk(&function->calls, &die, 0, 1);
	ranges_finish(&function->calls);
	return function;
}

static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *name = NULL;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		name = dwarf_formstring(&attr);
	if (!name && dwarf_attr_integrate(die, DW_AT_name, &attr))
		name = dwarf_formstring(&attr);
	return name;
}

/* Where the inlined call @die was written: that is the line of the frame one further out. */
static void call_place(Dwarf_Die *unit, Dwarf_Die *die, struct line_frame *frame)
{
	Dwarf_Attribute attr;
	Dwarf_Word line = 0, file = 0;
	Dwarf_Files *files;
	size_t count;
	if (!dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attr), &line))
		frame->line = line <= UINT32_MAX ? (uint32_t)line : 0;
	if (!dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attr), &file) &&
	    !dwarf_getsrcfiles(unit, &files, &count) && file < count)
		frame->file = dwarf_filesrc(files, file, NULL, NULL);
}

unsigned lines_find(struct lines *lines, uint64_t address, struct line_frame *frames)
{
	const struct range *range = ranges_innermost(&lines->ranges, address);
	Dwarf_Die unit_die, die;
	if (!range)
		return 0;
	struct unit *unit = &lines->units[range->die];
	if (!dwarf_offdie(lines->dwarf, unit->die, &unit_die))
		return 0;
	if (!unit->indexed)
		index_unit(lines, unit);
	struct line_frame place = { 0 };
	Dwarf_Line *line = dwarf_getsrc_die(&unit_die, address);
	int number;
	if (line) {
		place.file = dwarf_linesrc(line, NULL, NULL);
		if (!dwarf_lineno(line, &number) && number > 0)
			place.line = (uint32_t)number;
	}
	range = ranges_innermost(&unit->functions, address);
	struct function *function = range ? function_at(lines, unit, range->die) : NULL;
	unsigned count = 0;
	if (function) {
		/* calls[] is sorted outer before inner, so going back meets the innermost first */
		const struct ranges *calls = &function->calls;
		size_t at = ranges_before(calls, address);
		uint32_t depth = UINT32_MAX;
		for (unsigned steps = 0; at && calls->all[at - 1].reach > address &&
					 steps < 65536 && count + 1 < LINES_DEPTH_MAX;
		     steps++) {
			const struct range *call = &calls->all[--at];
			if (call->hi <= address || call->parent >= depth)
				continue;
			depth = call->parent;
			if (!dwarf_offdie(lines->dwarf, call->die, &die))
				continue;
			frames[count] = place;
			frames[count].dir = unit->dir;
			frames[count++].name = name_of(&die);
			place = (struct line_frame){ 0 };
			call_place(&unit_die, &die, &place);
		}
	}
	frames[count] = place;
	frames[count].dir = unit->dir;
	if (range && dwarf_offdie(lines->dwarf, range->die, &die))
		frames[count].name = name_of(&die);
	return count + 1;
}
