/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_tree.c - the call tree in a few lines: chains on one line, small branches counted, helpers
 * left out.
 */
#include <stdlib.h>
#include <string.h>

#include "out/text_impl.h"

#define DEPTH_MAX 24
#define NAME_COLUMNS 16 /* a branch that has less room for its name is not shown on its own */

struct walk {
	struct page *page;
	const struct view_tree *tree;
	/* branches below @least are not shown on their own */
	uint64_t whole, least;
	size_t lines, max_lines;
};

static uint64_t total(const struct walk *w, uint32_t node)
{
	return w->tree->nodes[node].total;
}

/**
 * is_detail() - nobody reads a tree for these: start-up above main, allocation helpers and library
 * innards below.
 */
static int is_detail(const struct walk *w, uint32_t node)
{
	enum view_role role = text_node_role(w->page, w->tree, node);
	if (role == VIEW_START)
		return 1;
	return !w->tree->inverted && role != VIEW_OWN;
}

/**
 * only_child() - the child that carries nearly all of @node (97 %), so that both fit on one line; 0
 * = it branches.
 */
static uint32_t only_child(const struct walk *w, uint32_t node)
{
	const struct view_node *n = &w->tree->nodes[node];
	if (n->child_count == 0)
		return 0;
	uint32_t c = view_node_child(w->tree, node, 0);
	return total(w, c) >= total(w, node) - total(w, node) / 32 ? c : 0;
}

/**
 * more_columns() - what " -> .. 12 more" may need behind @node; 0 where nothing can follow, or the
 * names need it all.
 */
static size_t more_columns(const struct walk *w, uint32_t node, size_t arrow_columns, size_t room)
{
	size_t length = 0;
	for (uint32_t n = only_child(w, node); n; n = only_child(w, n))
		length++;
	if (!length)
		return 0;
	size_t columns = arrow_columns + (w->page->ascii ? 2 : 1) + strlen("  more");
	for (; length; length /= 10)
		columns++;
	return columns + NAME_COLUMNS / 2 <= room ? columns : 0;
}

/**
 * put_chain() - @node and what hangs below it in a single line; returns the last node of the chain.
 */
static uint32_t put_chain(struct walk *w, uint32_t node, size_t room)
{
	const char *arrow = w->page->ascii ? " -> " : " \xe2\x86\x92 ";
	if (w->tree->inverted)
		arrow = w->page->ascii ? " <- " : " \xe2\x86\x90 ";
	size_t arrow_columns = w->page->ascii ? 4 : 3, used = 0, skipped = 0;
	size_t more = more_columns(w, node, arrow_columns, room);
	CLEANUP(buf_fini) struct buf name = { 0 }, before = { 0 };
	const char *module = NULL; /* of what was written last */
	uint32_t last = node;
	int named = 0;
	for (uint32_t n = node; n && !named; n = only_child(w, n))
		named = !is_detail(w, n) && view_node_frame(w->tree, n)->function;
	for (uint32_t n = node; n; n = only_child(w, n)) {
		last = n;
		const struct view_frame *f = view_node_frame(w->tree, n);
		if (is_detail(w, n))
			continue;
		/* beside names an address says nothing, but a module at the end may */
		if ((named || used) && !f->function &&
		    (!f->folded || only_child(w, n) || f->module == module))
			continue;
		module = f->module;
		buf_clear(&name);
		text_frame_name(&name, f, w->page->ascii);
		if (strcmp(buf_cstr(&name), buf_cstr(&before)) == 0)
			continue;
		buf_clear(&before);
		buf_puts(&before, buf_cstr(&name));
		size_t columns = text_columns(buf_cstr(&name));
		size_t reserve = only_child(w, n) ? more : 0;
		if (used && (skipped || used + arrow_columns + columns + reserve > room)) {
			skipped++;
			continue;
		}
		if (used) {
			buf_puts(w->page->to, arrow);
			used += arrow_columns;
		}
		used += page_text(w->page, buf_cstr(&name), room - used - reserve);
	}
	if (skipped && more) {
		page_tint(w->page, TINT_DIM);
		buf_printf(w->page->to, "%s%s %zu more", arrow,
			   w->page->ascii ? ".." : "\xe2\x80\xa6", skipped);
		page_tint(w->page, TINT_PLAIN);
	}
	return last;
}

static void put_amount(struct walk *w, uint64_t value)
{
	char x[TEXT_NUMBER_MAX];
	page_right(w->page, text_value(x, w->tree->cost, value), 9);
	page_tint(w->page, TINT_DIM);
	page_right(w->page, text_percent(x, value, w->whole), 8);
	page_tint(w->page, TINT_PLAIN);
	buf_putc(w->page->to, ' ');
}

/** shown_children() - how many of @node's children get a line of their own. */
static uint32_t shown_children(const struct walk *w, uint32_t node)
{
	const struct view_node *n = &w->tree->nodes[node];
	uint32_t shown = 0;
	while (shown < n->child_count &&
	       total(w, view_node_child(w->tree, node, shown)) >= w->least)
		shown++;
	return shown;
}

/** past_details() - @node, or what stands for it where it is a detail with one branch. */
static uint32_t past_details(const struct walk *w, uint32_t node)
{
	uint32_t c;
	while (is_detail(w, node) && (c = only_child(w, node)))
		node = c;
	return node;
}

/**
 * has_line() - does the branch @child get a line, itself or by what branches off below a detail?
 */
static int has_line(const struct walk *w, uint32_t child)
{
	uint32_t end = past_details(w, child);
	if (!is_detail(w, end))
		return 1;
	for (uint32_t i = 0, shown = shown_children(w, end); i < shown; i++)
		if (has_line(w, view_node_child(w->tree, end, i)))
			return 1;
	return 0;
}

/** put_children() - the branches of @node; @rails says at which depths a line goes on below. */
/* one row, with what may stand before and behind it */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
static void put_children(struct walk *w, uint32_t node, char *rails, size_t depth)
{
	uint32_t shown = shown_children(w, node);
	for (uint32_t i = 0; i < shown; i++) {
		uint32_t child = view_node_child(w->tree, node, i);
		uint64_t value = total(w, child);
		if (w->lines >= w->max_lines)
			return;
		/* A detail that branches is stepped through: its branches stand where it would. */
		uint32_t end = past_details(w, child);
		if (is_detail(w, end)) {
			if (w->tree->nodes[end].child_count)
				put_children(w, end, rails, depth);
			continue;
		}
		w->lines++;
		put_amount(w, value);
		for (size_t k = 0; k + 1 < depth; k++)
			buf_puts(w->page->to, !rails[k]        ? "   "
					      : w->page->ascii ? "|  "
							       : "\xe2\x94\x82  ");
		int more = 0;
		for (uint32_t k = i + 1; k < shown && !more; k++)
			more = has_line(w, view_node_child(w->tree, node, k));
		if (depth)
			buf_puts(w->page->to, w->page->ascii ? (more ? "+- " : "`- ")
					      : more         ? "\xe2\x94\x9c\xe2\x94\x80 "
							     : "\xe2\x94\x94\xe2\x94\x80 ");
		size_t indent = AMOUNT_COLUMNS + depth * 3;
		uint32_t last = put_chain(w, end, w->page->width - indent);
		buf_putc(w->page->to, '\n');
		if (depth + 1 < DEPTH_MAX && indent + 3 + NAME_COLUMNS <= w->page->width) {
			if (depth)
				rails[depth - 1] = (char)more;
			put_children(w, last, rails, depth + 1);
		}
	}
}

void text_tree(struct page *page, const struct view_tree *tree, size_t limit)
{
	struct walk w = { .page = page, .tree = tree, .max_lines = limit * 3 };
	w.whole = total(&w, 0);
	if (w.whole == 0 || tree->nodes[0].child_count == 0)
		return;
	w.least = w.whole / 50; /* 2 % */
	if (w.least == 0)
		w.least = 1;
	char title[64], rails[DEPTH_MAX] = { 0 };
	snprintf(title, sizeof(title), "Call tree by %s", view_cost_name(tree->cost));
	text_title(page, title,
		   tree->inverted ? "from the functions that allocate to their callers"
				  : "branches of 2 % and more");
	put_children(&w, 0, rails, 0);
	if (tree->cut) {
		char x[TEXT_NUMBER_MAX], line[96];
		snprintf(line, sizeof(line), "the outer callers of %s call paths are left out",
			 text_grouped(x, tree->cut));
		page_tint(page, TINT_DIM);
		page_text(page, line, page->width);
		page_tint(page, TINT_PLAIN);
		buf_putc(page->to, '\n');
	}
}
