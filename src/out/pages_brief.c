/* SPDX-License-Identifier: Apache-2.0 */
/* pages_brief.c - some lines on a reading of resident pages, a function a line: behind the report of a recording. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/text.h"
#include "out/pages.h"
#include "view/view.h"

#define CALLERS 3

/* What one function touched itself or by way of the standard library, and what has no stack. */
struct holder {
	const char *function; /* NULL: @module and @offset alone, or the reason's words in @label */
	const struct page_module *module;
	uint64_t offset;
	uint64_t bytes;
	const struct page_row *largest; /* its largest row */
	uint16_t first;                 /* where in its stack the function stands */
};

struct holders {
	struct holder *all;
	struct idtab tab;
	size_t count, cap;
};

static const char *function_of(const struct page_frame *frame)
{
	const struct symbol *symbols = atomic_load_explicit(&frame->symbols, memory_order_acquire);
	return symbols ? symbols[0].function : NULL;
}

static int add(struct holders *holders, const struct page_row *row)
{
	struct holder like = { .function = NULL };
	if (row->stack) {
		like.first = pages_stack_first(row->stack);
		const struct page_frame *frame = row->stack->frames[like.first];
		like.function = function_of(frame);
		like.module = frame->module;
		like.offset = like.function ? 0 : frame->offset;
	} else {
		like.offset = row->reason;
	}
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)like.module, like.offset, 1);
	if (like.function)
		hash ^= (uint32_t)hash_bytes(like.function, strlen(like.function), 1);
	if (idtab_reserve(&holders->tab) < 0)
		return -ENOMEM;
	uint32_t at = idtab_first(&holders->tab, hash);
	for (; holders->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&holders->tab, at)) {
		struct holder *known = &holders->all[holders->tab.slots[at].id];
		if (known->module != like.module || known->offset != like.offset ||
		    strcmp(known->function ? known->function : "",
			   like.function ? like.function : "") != 0)
			continue;
		known->bytes += row->bytes;
		if (row->bytes > known->largest->bytes) {
			known->largest = row;
			known->first = like.first;
		}
		return 0;
	}
	if (holders->count == holders->cap) {
		size_t cap = holders->cap ? holders->cap * 2 : 256;
		struct holder *grown = realloc(holders->all, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		holders->all = grown;
		holders->cap = cap;
	}
	like.bytes = row->bytes;
	like.largest = row;
	holders->all[holders->count] = like;
	idtab_put(&holders->tab, at, hash, (uint32_t)holders->count++);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static void put_frame(struct buf *to, const struct page_frame *frame, int ascii)
{
	const char *function = function_of(frame);
	if (function)
		text_escape(to, function, ascii);
	else
		buf_printf(to, "0x%llx", (unsigned long long)frame->offset);
}

static void put_holder(struct buf *to, const struct holder *holder, uint64_t whole,
		       const struct out_pages_opt *opt)
{
	char text[TEXT_NUMBER_MAX], share[TEXT_NUMBER_MAX];
	const struct page_row *row = holder->largest;
	const char *arrow = opt->ascii ? " < " : " \xe2\x86\x90 ";
	buf_printf(to, "%10s %7s  ", text_bytes(text, holder->bytes),
		   text_percent(share, holder->bytes, whole));
	if (!row->stack) {
		buf_printf(to, "(no stack: %s)", page_reason_text(row->reason));
	} else {
		const struct page_stack *stack = row->stack;
		unsigned shown = 0, i = holder->first;
		put_frame(to, stack->frames[i], opt->ascii);
		buf_puts(to, "  ");
		text_escape(to, stack->frames[i]->module->name, opt->ascii);
		for (i++; i < stack->count && shown < CALLERS; i++, shown++) {
			buf_puts(to, arrow);
			put_frame(to, stack->frames[i], opt->ascii);
		}
		if (i < stack->count)
			buf_printf(to, "%s%s", arrow, opt->ascii ? "..." : "\xe2\x80\xa6");
	}
}

/* Ends a line that began at @start, cut to the width. */
static void end_line(struct buf *to, size_t start, int width)
{
	const char *line = buf_cstr(to) + start;
	if ((int)text_columns(line) > width)
		to->len = start + text_fit(line, (size_t)width - 1);
	buf_putc(to, '\n');
}

int out_pages_brief(struct buf *to, const struct page_process *process,
		    const struct out_pages_opt *opt, struct err *err)
{
	struct holders holders = { 0 };
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX], d[TEXT_NUMBER_MAX];
	int rc = 0, width = opt->width > 0 ? opt->width : 100;
	for (size_t i = 0; !rc && i < process->row_count; i++)
		if (process->rows[i].kind <= PAGES_FILE)
			rc = add(&holders, &process->rows[i]);
	if (holders.count)
		qsort(holders.all, holders.count, sizeof(*holders.all), by_bytes);
	size_t start = to->len, lines = opt->lines ? opt->lines : 8;
	buf_printf(to, "Resident pages  who touched them first; RSS %s at %s: anon %s, file %s",
		   text_bytes(a, process->rss_bytes), text_duration(b, process->time_ns),
		   text_bytes(c, process->kinds[PAGES_ANON]),
		   text_bytes(d, process->kinds[PAGES_FILE]));
	if (process->kinds[PAGES_SHMEM])
		buf_printf(to, ", shared %s", text_bytes(a, process->kinds[PAGES_SHMEM]));
	end_line(to, start, width);
	uint64_t rest = 0;
	size_t more = 0;
	for (size_t i = 0; !rc && i < holders.count; i++) {
		if (i >= lines) {
			rest += holders.all[i].bytes;
			more++;
			continue;
		}
		start = to->len;
		put_holder(to, &holders.all[i], process->rss_bytes, opt);
		end_line(to, start, width);
	}
	if (more)
		buf_printf(to, "%10s %7s  in %zu more functions\n", text_bytes(a, rest),
			   text_percent(b, rest, process->rss_bytes), more);
	free(holders.all);
	idtab_fini(&holders.tab);
	return rc < 0 ? err_set(err, rc, "cannot print pages") : 0;
}
