/* SPDX-License-Identifier: Apache-2.0 */
/* text_page.c - columns, colours and bars. */
#include <signal.h>
#include <string.h>

#include "out/text_impl.h"

void page_tint(struct page *page, enum tint tint)
{
	static const char *const codes[] = {
		[TINT_PLAIN] = "\033[0m",  [TINT_BOLD] = "\033[1m",    [TINT_DIM] = "\033[2m",
		[TINT_RED] = "\033[1;31m", [TINT_YELLOW] = "\033[33m", [TINT_BAR] = "\033[36m",
	};
	if (page->colour)
		buf_puts(page->to, codes[tint]);
}

void page_spaces(struct page *page, size_t count)
{
	while (count--)
		buf_putc(page->to, ' ');
}

size_t page_text(struct page *page, const char *text, size_t columns)
{
	size_t need = text_columns(text), dots = page->ascii ? 2 : 1;
	if (need <= columns) {
		buf_puts(page->to, text);
		return need;
	}
	if (columns <= dots) {
		page_spaces(page, columns);
		return columns;
	}
	size_t bytes = text_fit(text, columns - dots);
	if (!page->ascii && bytes >= 3 && memcmp(text + bytes - 3, "\xe2\x80\xa6", 3) == 0)
		bytes -= 3; /* one ellipsis is enough */
	buf_put(page->to, text, bytes);
	buf_puts(page->to, page->ascii ? ".." : "\xe2\x80\xa6");
	/* a wide character may not have fitted into the last column */
	CLEANUP(buf_fini) struct buf cut = { 0 };
	buf_put(&cut, text, bytes);
	size_t used = text_columns(buf_cstr(&cut)) + dots;
	page_spaces(page, columns - used);
	return columns;
}

size_t page_middle(struct page *page, const char *text, size_t columns)
{
	size_t need = text_columns(text), dots = page->ascii ? 2 : 1;
	if (need <= columns || columns < dots + 4)
		return page_text(page, text, columns);
	/*
	 * all of the last part, if a third of the room is left for the beginning; else as much of
	 * the end as fits
	 */
	const char *slash = strrchr(text, '/');
	size_t end = slash ? text_columns(slash) : 0;
	if (end == 0 || end + dots + columns / 3 > columns)
		end = columns - dots - columns / 3;
	const char *tail = text + text_fit(text, need - end);
	while (((unsigned char)*tail & 0xc0) == 0x80)
		tail++;
	size_t tail_columns = text_columns(tail);
	size_t head = columns - dots - tail_columns;
	buf_put(page->to, text, text_fit(text, head));
	buf_puts(page->to, page->ascii ? ".." : "\xe2\x80\xa6");
	buf_puts(page->to, tail);
	return columns;
}

void page_right(struct page *page, const char *text, size_t columns)
{
	size_t need = text_columns(text);
	if (need < columns)
		page_spaces(page, columns - need);
	buf_puts(page->to, text);
}

void page_bar(struct page *page, uint64_t part, uint64_t whole, size_t columns)
{
	static const char *const eighths[] = { "",
					       "\xe2\x96\x8f",
					       "\xe2\x96\x8e",
					       "\xe2\x96\x8d",
					       "\xe2\x96\x8c",
					       "\xe2\x96\x8b",
					       "\xe2\x96\x8a",
					       "\xe2\x96\x89" };
	double share = whole ? (double)part / (double)whole : 0;
	size_t steps = (size_t)(share * (double)columns * 8 + 0.5);
	if (steps > columns * 8)
		steps = columns * 8;
	if (part && steps == 0)
		steps = 1;
	size_t used = steps / 8;
	page_tint(page, TINT_BAR);
	for (size_t i = 0; i < used; i++)
		buf_puts(page->to, page->ascii ? "#" : "\xe2\x96\x88");
	if (page->ascii ? steps % 8 >= 4 || (used == 0 && steps) : steps % 8) {
		buf_puts(page->to, page->ascii ? "#" : eighths[steps % 8]);
		used++;
	}
	page_tint(page, TINT_PLAIN);
	page_spaces(page, columns > used ? columns - used : 0);
}

void text_title(struct page *page, const char *title, const char *remark)
{
	buf_putc(page->to, '\n');
	page_tint(page, TINT_BOLD);
	size_t used = page_text(page, title, page->width);
	page_tint(page, TINT_PLAIN);
	if (remark && used + 3 < page->width) {
		buf_puts(page->to, "  ");
		page_tint(page, TINT_DIM);
		page_text(page, remark, page->width - used - 2);
		page_tint(page, TINT_PLAIN);
	}
	buf_putc(page->to, '\n');
}

void text_signal(struct buf *to, int number)
{
	const char *name = sigabbrev_np(number);
	if (name)
		buf_printf(to, "SIG%s (%d)", name, number);
	else
		buf_printf(to, "signal %d", number);
}

const char *text_value(char to[TEXT_NUMBER_MAX], enum view_cost cost, uint64_t value)
{
	if (cost == VIEW_COST_ALLOCATIONS || cost == VIEW_COST_TEMPORARY)
		return text_count(to, value);
	return text_bytes(to, value);
}
