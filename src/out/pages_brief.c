/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_brief.c - some lines on a reading of resident pages, a function a line: behind the report
 * of a recording.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "base/text.h"
#include "out/out.h"
#include "out/pages.h"
#include "view/view.h"

#define CALLERS 3

/* What one function touched itself or by way of the standard library, and what has no stack. */
struct holder {
	/* NULL: @module and @offset alone, or the reason's words in @label */
	const char *function;
	const struct page_module *module;
	uint64_t offset;
	uint64_t bytes;
	/* its largest row */
	const struct page_row *largest;
	/* where in its stack the function stands */
	uint16_t first;
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

/* @frame's function; of one without a name its module, and @where in it. */
static void put_frame(struct buf *to, const struct page_frame *frame, int where, int ascii)
{
	const char *function = function_of(frame);
	if (function) {
		text_escape(to, function, ascii);
		return;
	}
	buf_puts(to, where ? "" : "[");
	text_escape(to, frame->module->name, ascii);
	if (where)
		buf_printf(to, "+0x%llx", (unsigned long long)frame->offset);
	else
		buf_putc(to, ']');
}

static int columns_from(struct buf *to, size_t start)
{
	return (int)text_columns(buf_cstr(to) + start);
}

static const char *dots(int ascii)
{
	return ascii ? "..." : "\xe2\x80\xa6";
}

/* The end of the line that began at @start is cut where it would not leave @room columns free. */
static void cut_to(struct buf *to, size_t start, int room, int width, int ascii)
{
	int mark = (int)text_columns(dots(ascii)), most = width - 1 - room;
	if (columns_from(to, start) <= most)
		return;
	to->len = start + text_fit(buf_cstr(to) + start, most > mark ? (size_t)(most - mark) : 0);
	buf_puts(to, dots(ascii));
}

/*
 * Callers of what @holder's largest row begins with, as many as the line has room for; nameless
 * ones of one module are one.
 */
static void put_callers(struct buf *to, size_t start, const struct holder *holder, int width,
			int ascii)
{
	const char *arrow = ascii ? " < " : " \xe2\x86\x90 ";
	const struct page_stack *stack = holder->largest->stack;
	int rest = (int)text_columns(arrow) + (int)text_columns(dots(ascii));
	unsigned shown = 0;
	for (unsigned i = holder->first + 1u; i < stack->count; i++) {
		const struct page_frame *frame = stack->frames[i], *before = stack->frames[i - 1];
		size_t end = to->len;
		if (!function_of(frame) && !function_of(before) && frame->module == before->module)
			continue;
		if (shown < CALLERS) {
			buf_puts(to, arrow);
			put_frame(to, frame, 0, ascii);
		}
		if (shown++ >= CALLERS ||
		    columns_from(to, start) + (i + 1 < stack->count ? rest : 0) > width - 1) {
			to->len = end;
			if (columns_from(to, start) + rest <= width - 1)
				buf_printf(to, "%s%s", arrow, dots(ascii));
			return;
		}
	}
}

static void put_holder(struct buf *to, const struct holder *holder, uint64_t whole, int width,
		       const struct out_pages_opt *opt)
{
	char text[TEXT_NUMBER_MAX], share[TEXT_NUMBER_MAX];
	const struct page_row *row = holder->largest;
	size_t start = to->len;
	buf_printf(to, "%10s %7s  ", text_bytes(text, holder->bytes),
		   text_percent(share, holder->bytes, whole));
	if (!row->stack) {
		buf_printf(to, "(no stack: %s)", page_reason_text(row->reason));
		cut_to(to, start, 0, width, opt->ascii);
	} else {
		const struct page_frame *frame = row->stack->frames[holder->first];
		const char *name = frame->module->name;
		int named = function_of(frame) != NULL;
		put_frame(to, frame, 1, opt->ascii);
		cut_to(to, start, named ? (int)text_columns(name) + 2 : 0, width, opt->ascii);
		if (named) {
			buf_puts(to, "  ");
			text_escape(to, name, opt->ascii);
			cut_to(to, start, 0, width, opt->ascii);
		}
		put_callers(to, start, holder, width, opt->ascii);
	}
	buf_putc(to, '\n');
}

/* What the section is, and all of it; where that takes more than a line, on two or three. */
static void put_head(struct buf *to, const struct page_process *process, int width)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], rss[96], kinds[160];
	const uint64_t shared = process->kinds[PAGES_SHMEM];
	snprintf(rss, sizeof(rss), "RSS %s at %s:", text_bytes(a, process->rss_bytes),
		 text_duration(b, process->time_ns));
	int used = snprintf(kinds, sizeof(kinds), "anon %s, file %s",
			    text_bytes(a, process->kinds[PAGES_ANON]),
			    text_bytes(b, process->kinds[PAGES_FILE]));
	if (shared)
		snprintf(kinds + used, sizeof(kinds) - (size_t)used, ", shared %s",
			 text_bytes(a, shared));
	static const char title[] = "Resident pages  who touched them first";
	int sum = (int)(strlen(rss) + 1 + strlen(kinds)),
	    one = (int)sizeof(title) - 1 + 2 + sum < width;
	buf_printf(to, "%s%s%s%s%s\n", title, one ? "; " : "\n  ", rss,
		   one || 2 + sum < width ? " " : "\n    ", kinds);
}

int out_pages_brief(struct buf *to, const struct page_process *process,
		    const struct out_pages_opt *opt, struct err *err)
{
	struct holders holders = { 0 };
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	int rc = 0, width = opt->width > 0 ? opt->width : 100;
	for (size_t i = 0; !rc && i < process->row_count; i++)
		if (process->rows[i].kind <= PAGES_FILE)
			rc = add(&holders, &process->rows[i]);
	if (holders.count)
		qsort(holders.all, holders.count, sizeof(*holders.all), by_bytes);
	size_t lines = opt->lines ? opt->lines : 8;
	put_head(to, process, width);
	uint64_t rest = 0;
	size_t more = 0;
	for (size_t i = 0; !rc && i < holders.count; i++) {
		if (i >= lines) {
			rest += holders.all[i].bytes;
			more++;
			continue;
		}
		put_holder(to, &holders.all[i], process->rss_bytes, width, opt);
	}
	if (more)
		buf_printf(to, "%10s %7s  in %zu more functions\n", text_bytes(a, rest),
			   text_percent(b, rest, process->rss_bytes), more);
	free(holders.all);
	idtab_fini(&holders.tab);
	return rc < 0 ? err_set(err, rc, "cannot print pages") : 0;
}

int out_pages_below(FILE *to, const struct page_shot *shot, const struct out_opt *opt,
		    struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (!shot)
		return 0;
	const struct out_pages_opt how = { .width = opt->width, .ascii = opt->ascii };
	buf_putc(&text, '\n');
	int rc = out_pages_brief(&text, shot->processes[0], &how, err);
	if (rc == 0)
		fputs(buf_cstr(&text), to);
	return rc;
}
