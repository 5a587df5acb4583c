/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touched.c - the sheet's other book: what no allocator and no call explains has at least been
 * touched by somebody, and a reading of resident pages says by whom. Mappings have the same names
 * in both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/explain.h"
#include "view/pages.h"

#define TOUCHED_HOW "who touched it first, by the book of resident pages"

static void frame_of(const struct page_stack *stack, uint16_t at, struct view_frame *to)
{
	const struct page_frame *frame = stack->frames[at];
	const struct symbol *symbol = atomic_load_explicit(&frame->symbols, memory_order_acquire);
	*to = (struct view_frame){
		.function = symbol ? symbol->function : NULL,
		.module = frame->module->name,
		.offset = frame->offset,
		.file = symbol ? symbol->file : NULL,
		.line = symbol ? symbol->line : 0,
		.inlined = symbol ? symbol->inlined : 0,
	};
}

void explain_touch_frame(const struct explain_touch *touch, size_t at, struct view_frame *frame)
{
	frame_of(touch->stack, (uint16_t)at, frame);
}

static int same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether two rows are one group's. */
static int is_alike(const struct explain *e, const struct explain_touch *a,
		    const struct explain_touch *b)
{
	struct view_frame x, y;
	if (e->by == VIEW_BY_STACK)
		return a->stack == b->stack;
	frame_of(a->stack, a->first, &x);
	frame_of(b->stack, b->first, &y);
	switch (e->by) {
	case VIEW_BY_MODULE:
		return same(x.module, y.module);
	case VIEW_BY_FILE:
		return same(x.file, y.file) && (x.file || same(x.module, y.module));
	case VIEW_BY_LINE:
		if (x.file || y.file)
			return same(x.file, y.file) && x.line == y.line;
		break;
	default:
		break;
	}
	return same(x.function, y.function) && same(x.module, y.module) &&
	       (x.function || x.offset == y.offset);
}

static int by_label(const void *a, const void *b)
{
	const struct explain_touch *x = a, *y = b;
	int order = strcmp(x->label, y->label);
	return order ? order : x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* The rows of anonymous memory that have a stack, those of one group as one. */
static int gather(struct explain *e, const struct page_process *process)
{
	struct explain_touch *all = calloc(process->row_count + 1, sizeof(*all));
	size_t count = 0, kept = 0;
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < process->row_count; i++) {
		const struct page_row *row = &process->rows[i];
		if (row->kind == PAGES_ANON && row->stack && row->stack->count && row->label)
			all[count++] = (struct explain_touch){ row->label, row->bytes, row->stack,
							       pages_stack_first(row->stack) };
	}
	qsort(all, count, sizeof(*all), by_label);
	for (size_t i = 0, from = 0; i < count; i++) {
		if (!kept || strcmp(all[kept - 1].label, all[i].label) != 0)
			from = kept;
		size_t k = from;
		/* what is beyond some hundred groups of one label stays apart: it is small */
		while (k < kept && k < from + 200 && !is_alike(e, &all[k], &all[i]))
			k++;
		if (k < kept && k < from + 200)
			all[k].bytes += all[i].bytes;
		else
			all[kept++] = all[i];
	}
	qsort(all, kept, sizeof(*all), by_label);
	e->touched = all;
	e->touched_count = kept;
	return 0;
}

size_t explain_touched(const struct explain *e, const char *label, size_t *count)
{
	size_t at = 0;
	while (at < e->touched_count && strcmp(e->touched[at].label, label) != 0)
		at++;
	*count = 0;
	while (at + *count < e->touched_count && strcmp(e->touched[at + *count].label, label) == 0)
		++*count;
	return at;
}

static uint64_t sum_of(const struct explain *e, const char *label)
{
	size_t count, at = explain_touched(e, label, &count);
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += e->touched[at + i].bytes;
	return sum;
}

/*
 * So that those of @label are @bytes together, which are less than they say: the reading is of
 * another moment.
 */
static void scale(struct explain *e, const char *label, uint64_t bytes)
{
	size_t count, at = explain_touched(e, label, &count);
	uint64_t all = sum_of(e, label), given = 0;
	unsigned __int128 before = 0;
	for (size_t i = 0; i < count && all > bytes; i++) {
		before += e->touched[at + i].bytes;
		uint64_t upto = (uint64_t)(before * bytes / all);
		e->touched[at + i].bytes = upto - given;
		given = upto;
	}
}

/* A line between those of its class, the largest first. */
static void insert(struct sheet *sheet, const struct sheet_line *line)
{
	size_t at = sheet->line_count++;
	while (at && (sheet->lines[at - 1].class > line->class ||
		      (sheet->lines[at - 1].class == line->class &&
		       sheet->lines[at - 1].bytes < line->bytes))) {
		sheet->lines[at] = sheet->lines[at - 1];
		at--;
	}
	sheet->lines[at] = *line;
}

int explain_touch(struct explain *e, const struct instant *instant)
{
	const struct page_process *process =
		instant->pages ? page_shot_find(instant->pages, 0) : NULL;
	struct sheet *sheet = e->sheet;
	if (!process)
		return 0;
	int rc = gather(e, process);
	if (rc < 0)
		return rc;
	e->has_pages = 1;
	e->pages_age_ns = instant->pages_age_ns;
	struct sheet_line *grown = realloc(
		sheet->lines, (sheet->line_count + sheet->nobody_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	sheet->lines = grown;
	for (size_t i = 0; i < sheet->nobody_count; i++) {
		struct sheet_line *nobody = &sheet->nobody[i];
		uint64_t touched = sum_of(e, nobody->label);
		struct sheet_line line = *nobody;
		line.class = SHEET_MMAP;
		line.touched = 1;
		line.how = TOUCHED_HOW;
		line.bytes = touched < nobody->bytes ? touched : nobody->bytes;
		line.shared_bytes = line.shared_bytes < line.bytes ? line.shared_bytes : line.bytes;
		if (!line.bytes)
			continue;
		scale(e, line.label, line.bytes);
		insert(sheet, &line);
		sheet->class_bytes[SHEET_MMAP] += line.bytes;
		sheet->class_shared_bytes[SHEET_MMAP] += line.shared_bytes;
		sheet->unexplained_bytes -= (int64_t)line.bytes;
		nobody->bytes -= line.bytes;
		e->touched_bytes += line.bytes;
	}
	return 0;
}
