/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compat.c - the known layout, line by line as scripts expect it. The categories are those
 * of the known tool, but every mapping is counted, once: what it dropped or lost goes to "Other".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/text.h"

#define MB(bytes) ((bytes) / 1048576)
#define NAME_COLUMNS 40
#define NAME_MAX_SHOWN 60u

enum group {
	GO_HEAP,
	GO_STACK,
	GO_METADATA,
	NAMED,
	SHARED_LIBRARIES,
	BINARY,
	OTHER_FILES,
	READ_WRITE,
	READ_ONLY,
	EXECUTABLE,
	OTHER,
	GROUPS
};

static enum group group_of(const struct class_row *row)
{
	switch ((enum region_class)row->class) {
	case REGION_ALLOCATOR:
		return GO_HEAP;
	case REGION_RUNTIME:
		return strstr(row->label, "stack") ? GO_STACK
		       : strstr(row->label, "metadata") || strstr(row->label, "index") ||
				       strstr(row->label, "bits") || strstr(row->label, "summary")
			       ? GO_METADATA
			       : GO_HEAP;
	case REGION_STACK:
	case REGION_STACK_CACHE:
		return GO_STACK;
	case REGION_NAMED:
		return NAMED;
	case REGION_LIBRARY_TEXT:
	case REGION_LIBRARY_RODATA:
	case REGION_LIBRARY_DATA:
	case REGION_LIBRARY_BSS:
		return SHARED_LIBRARIES;
	case REGION_PROGRAM_TEXT:
	case REGION_PROGRAM_RODATA:
	case REGION_PROGRAM_DATA:
	case REGION_PROGRAM_BSS:
		return BINARY;
	case REGION_MAPPED_FILE:
		return OTHER_FILES;
	case REGION_ANONYMOUS:
		return strcmp(row->label, "read-only") == 0 ? READ_ONLY : READ_WRITE;
	case REGION_JIT:
		return EXECUTABLE;
	default:
		return OTHER;
	}
}

static void fixed(struct buf *to, const char *label, uint64_t bytes)
{
	buf_printf(to, "  %-14s%10" PRIu64 " MB\n", label, MB(bytes));
}

static void named(struct buf *to, const char *label, uint64_t bytes)
{
	struct buf clean = { 0 };
	text_escape(&clean, label, 0);
	buf_printf(to, "  %-*s%10" PRIu64 " MB\n", NAME_COLUMNS, buf_cstr(&clean), MB(bytes));
	buf_fini(&clean);
}

static void table(struct buf *to, const struct breakdown *b, size_t top, const char *title)
{
	buf_printf(to, "\n=== %s ===\n\n", title);
	buf_printf(to, "%-18s %-6s %-10s %-10s %-10s %s\n", "ADDRESS", "PERMS", "RSS", "PRIVATE",
		   "SHARED", "NAME");
	for (int i = 0; i < 120; i++)
		buf_putc(to, '-');
	buf_putc(to, '\n');
	const struct region **list = regions_order(b, REGIONS_BY_RSS, NULL);
	if (!list) {
		to->failed = 1;
		return;
	}
	for (size_t i = 0; i < b->region_count && i < top; i++) {
		const struct region *r = list[i];
		if (!r->rss_bytes)
			continue;
		char range[64], perms[5];
		snprintf(range, sizeof(range), "%08" PRIx64 "-%08" PRIx64, r->start, r->end);
		struct buf name = { 0 };
		text_escape(&name, r->name[0] ? r->name : "[anonymous]", 0);
		const char *safe = buf_cstr(&name);
		int cut = text_columns(safe) > NAME_MAX_SHOWN;
		buf_printf(to,
			   "%.12s...    %-6s %8" PRIu64 " MB %8" PRIu64 " MB %8" PRIu64
			   " MB %.*s%s\n",
			   range, region_perms(r, perms), MB(r->rss_bytes),
			   MB(region_private_bytes(r)), MB(region_shared_bytes(r)),
			   cut ? (int)text_fit(safe, NAME_MAX_SHOWN - 3) : (int)strlen(safe), safe,
			   cut ? "..." : "");
		buf_fini(&name);
	}
	free(list);
}

/*
 * Goroutines' stacks lie in the heap's spans: what its books say of them, and no piece of its own
 * is yet, is no heap.
 */
static void move_stacks(const struct breakdown *b, uint64_t sums[GROUPS])
{
	uint64_t apart = 0;
	for (size_t i = 0; i < b->class_count; i++)
		if (strcmp(b->classes[i].label, "Go stacks") == 0)
			apart += b->classes[i].rss_bytes;
	for (size_t i = 0; i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		if (strcmp(a->allocator, "Go stacks") != 0 || a->resident_bytes == UINT64_MAX)
			continue;
		uint64_t moved = a->resident_bytes > apart ? a->resident_bytes - apart : 0;
		moved = moved < sums[GO_HEAP] ? moved : sums[GO_HEAP];
		sums[GO_HEAP] -= moved;
		sums[GO_STACK] += moved;
	}
}

/* The known tool's own word, where the program is the one that it was made for. */
static const char *binary_word(const struct breakdown *b)
{
	for (size_t i = 0; i < b->class_count; i++)
		if (group_of(&b->classes[i]) == BINARY && strstr(b->classes[i].label, "teranode"))
			return "Teranode Binary";
	return strstr(b->comm, "teranode") ? "Teranode Binary" : "Program Binary";
}

void regions_compat(struct buf *to, const struct breakdown *b, size_t top, const char *title)
{
	uint64_t sums[GROUPS] = { 0 };
	for (size_t i = 0; i < b->class_count; i++)
		sums[group_of(&b->classes[i])] += b->classes[i].rss_bytes;
	move_stacks(b, sums);
	buf_puts(to, "=== Complete Memory Breakdown ===\n\nGo Runtime:\n");
	fixed(to, "Heap:", sums[GO_HEAP]);
	fixed(to, "Stack:", sums[GO_STACK]);
	fixed(to, "Metadata:", sums[GO_METADATA]);
	fixed(to, "Subtotal:", sums[GO_HEAP] + sums[GO_STACK] + sums[GO_METADATA]);
	buf_putc(to, '\n');
	int any = 0;
	for (size_t i = 0; i < b->class_count; i++) { /* rows come largest first */
		if (b->classes[i].class != REGION_NAMED)
			continue;
		if (!any)
			buf_puts(to, "Named Memory Regions (mmap):\n");
		any = 1;
		named(to, b->classes[i].label, b->classes[i].rss_bytes);
	}
	if (any) {
		named(to, "Subtotal:", sums[NAMED]);
		buf_putc(to, '\n');
	}
	if (sums[SHARED_LIBRARIES] || sums[BINARY] || sums[OTHER_FILES]) {
		buf_puts(to, "File-Backed Memory:\n");
		if (sums[SHARED_LIBRARIES])
			named(to, "Shared Libraries", sums[SHARED_LIBRARIES]);
		if (sums[BINARY])
			named(to, binary_word(b), sums[BINARY]);
		if (sums[OTHER_FILES])
			named(to, "Other Files", sums[OTHER_FILES]);
		named(to, "Subtotal:", sums[SHARED_LIBRARIES] + sums[BINARY] + sums[OTHER_FILES]);
		buf_putc(to, '\n');
	}
	buf_puts(to, "Anonymous Memory:\n");
	fixed(to, "Read-Write:", sums[READ_WRITE]);
	fixed(to, "Read-Only:", sums[READ_ONLY]);
	fixed(to, "Executable:", sums[EXECUTABLE]);
	fixed(to, "Subtotal:", sums[READ_WRITE] + sums[READ_ONLY] + sums[EXECUTABLE]);
	buf_putc(to, '\n');
	if (sums[OTHER])
		buf_printf(to, "Other: %10" PRIu64 " MB\n\n", MB(sums[OTHER]));
	buf_puts(to, "=== Totals ===\n");
	/* awk's third word is the number: a label of two words, then the figure */
	buf_printf(to, "Virtual Memory: %10" PRIu64 " MB\n", MB(b->virtual_bytes));
	buf_printf(to, "RSS (Resident): %10" PRIu64 " MB\n", MB(b->rss_bytes));
	buf_printf(to, "PSS (Proportional): %6" PRIu64 " MB\n", MB(b->pss_bytes));
	if (top)
		table(to, b, top, title);
}
