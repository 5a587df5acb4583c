/* SPDX-License-Identifier: Apache-2.0 */
/* text_table.c - groups of stacks, a line each; and which of what is shown has no names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "out/text_impl.h"

#define SUPPRESSED_SHOWN 4
#define STARTS_MAX 16 /* rows of start-up code, which are left out */

static size_t bar_columns(const struct page *page)
{
	return page->width >= 120 ? 20 : page->width >= 80 ? 12 : 0;
}

/** put_share() - value and share, in AMOUNT_COLUMNS. */
static void put_share(struct page *page, enum view_cost cost, uint64_t value, uint64_t whole)
{
	char x[TEXT_NUMBER_MAX];
	page_right(page, text_value(x, cost, value), VALUE_COLUMNS);
	page_tint(page, TINT_DIM);
	page_right(page, text_percent(x, value, whole), SHARE_COLUMNS + 1);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, ' ');
}

size_t text_amount(struct page *page, enum view_cost cost, uint64_t value, uint64_t whole)
{
	size_t bar = bar_columns(page);
	put_share(page, cost, value, whole);
	if (bar) {
		page_bar(page, value, whole, bar);
		buf_putc(page->to, ' ');
	}
	return AMOUNT_COLUMNS + (bar ? bar + 1 : 0);
}

void text_place(struct buf *to, const struct page *page, const struct view_frame *f)
{
	if (!f->file)
		return;
	const char *slash = strrchr(f->file, '/');
	text_escape(to, slash && slash[1] ? slash + 1 : f->file, page->ascii);
	if (f->line)
		buf_printf(to, ":%u", f->line);
}

size_t text_put_place(struct page *page, const char *place, size_t columns)
{
	page_tint(page, TINT_DIM);
	size_t used = page_middle(page, place, columns);
	page_tint(page, TINT_PLAIN);
	return used;
}

void text_suppressed(struct page *page, const struct suppress *suppress, int untitled)
{
	uint64_t allocations = 0, bytes = 0;
	size_t count = 0;
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	if (!suppress || !suppress_applied(suppress))
		return;
	suppress_sum(suppress, &allocations, &bytes);
	if (!allocations)
		return;
	if (untitled)
		text_title(page, "Leaked", "nothing but what is suppressed");
	const struct suppress_rule *rules = suppress_rules(suppress, &count);
	buf_printf(&line, "suppressed: %s in %s block%s: ", text_bytes(x, bytes),
		   text_grouped(y, allocations), allocations == 1 ? "" : "s");
	for (size_t i = 0; i < count && i < SUPPRESSED_SHOWN; i++) {
		buf_puts(&line, i ? ", " : "");
		text_escape(&line, rules[i].pattern, page->ascii);
		if (count > 1)
			buf_printf(&line, " %s", text_bytes(x, rules[i].bytes));
	}
	if (count > SUPPRESSED_SHOWN)
		buf_printf(&line, " and %zu more rules", count - SUPPRESSED_SHOWN);
	if (rules[0].built_in)
		buf_puts(&line, " (--no-suppress shows them)");
	text_warn(page, TINT_DIM, buf_cstr(&line));
}

/** informative() - as find_who(), in a tree. */
static uint32_t informative(const struct page *page, const struct view_tree *tree, uint32_t node,
			    uint32_t *via)
{
	uint32_t who = node, unnamed = 0, unnamed_via = 0;
	*via = 0;
	for (; who; who = tree->nodes[who].parent) {
		const struct view_frame *f = view_node_frame(tree, who);
		enum view_role role = text_node_role(page, tree, who);
		if (role == VIEW_START)
			break;
		if (unnamed && view_node_frame(tree, unnamed)->module != f->module)
			break;
		if (role == VIEW_OWN && f->function)
			return who;
		if (role == VIEW_OWN && !unnamed) {
			unnamed = who;
			unnamed_via = *via;
		}
		*via = who;
	}
	*via = unnamed_via;
	return unnamed ? unnamed : node;
}

#define NAMELESS_MAX 64     /* modules looked at */
#define NAMELESS_SHOWN 3    /* modules spoken of */
#define NAMELESS_MATTERS 10 /* per cent */

struct nameless {
	const char *module;
	uint64_t value;
};

static int by_value(const void *a, const void *b)
{
	const struct nameless *x = a, *y = b;
	return x->value == y->value ? 0 : x->value < y->value ? 1 : -1;
}

void text_names(struct page *page, const struct view_tree *tree)
{
	struct nameless modules[NAMELESS_MAX];
	size_t count = 0, shown = 0;
	uint64_t whole = tree->nodes[0].total;
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	for (uint32_t i = 1; i < tree->self_count; i++) {
		uint64_t value = view_cost_of(&tree->selfs[i].cost, tree->cost);
		uint32_t node = tree->selfs[i].node, via;
		if (value == 0 || node == 0)
			continue;
		const struct view_frame *f =
			view_node_frame(tree, informative(page, tree, node, &via));
		if (f->function || !f->module)
			continue;
		size_t k = 0;
		while (k < count && modules[k].module != f->module)
			k++;
		if (k == NAMELESS_MAX)
			continue;
		if (k == count)
			modules[count++] = (struct nameless){ .module = f->module };
		modules[k].value += value;
	}
	qsort(modules, count, sizeof(*modules), by_value);
	for (; shown < count && shown < NAMELESS_SHOWN; shown++) {
		if (modules[shown].value < whole / 100 * NAMELESS_MATTERS)
			break;
		buf_puts(&line, shown ? ", " : "Few names in ");
		text_escape(&line, modules[shown].module, page->ascii);
		buf_printf(&line, " (%s)", text_percent(x, modules[shown].value, whole));
	}
	if (shown == 0)
		return;
	buf_puts(&line, ": debug symbols (-dbgsym packages) or DEBUGINFOD_URLS give them");
	buf_putc(page->to, '\n');
	text_warn(page, TINT_DIM, buf_cstr(&line));
}

static void put_heads(struct page *page)
{
	page_tint(page, TINT_DIM);
	page_right(page, "own", VALUE_COLUMNS);
	page_right(page, "inclusive", AMOUNT_COLUMNS);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}

/** group_name() - what a group of frames is called. */
static void group_name(struct buf *name, const struct page *page, enum view_by by,
		       const struct view_frame *f)
{
	if (by == VIEW_BY_FUNCTION && f->function) {
		text_argument_name(name, f->function, page->ascii);
	} else if (by != VIEW_BY_FUNCTION && by != VIEW_BY_MODULE && f->file) {
		text_escape(name, f->file, page->ascii);
		if (by == VIEW_BY_LINE && f->line)
			buf_printf(name, ":%u", f->line);
	} else if (f->function && !f->module) {
		text_escape(name, f->function, page->ascii); /* why a stack ended */
	} else {
		text_escape(name, f->module ? f->module : "unknown", page->ascii);
		if (by == VIEW_BY_LINE)
			buf_printf(name, "+0x%llx", (unsigned long long)f->offset);
		else if (by == VIEW_BY_FUNCTION)
			buf_puts(name, " (no symbols)");
		else if (by == VIEW_BY_FILE)
			buf_puts(name, " (no line numbers)");
	}
}

static void put_group(struct page *page, const struct out_opt *opt, const struct view_row *row,
		      uint64_t whole)
{
	CLEANUP(buf_fini) struct buf name = { 0 }, place = { 0 };
	size_t left, used = 0;
	uint64_t own = view_cost_of(&row->cost, opt->cost);
	if (view_by_frames(opt->by)) {
		put_share(page, opt->cost, own, whole);
		put_share(page, opt->cost, view_cost_of(&row->inclusive, opt->cost), whole);
		left = 2 * AMOUNT_COLUMNS;
	} else {
		left = text_amount(page, opt->cost, own, whole);
	}
	size_t room = page->width > left ? page->width - left : 1;
	if (opt->by == VIEW_BY_THREAD) {
		buf_printf(&name, "%u", row->tid);
		if (row->thread_name) {
			buf_putc(&name, ' ');
			text_escape(&name, row->thread_name, page->ascii);
		}
	} else {
		group_name(&name, page, opt->by, &row->frame);
	}
	if (opt->by == VIEW_BY_FUNCTION && row->frame.function) {
		text_place(&place, page, &row->frame);
		size_t for_place = place.len ? text_columns(buf_cstr(&place)) + 2 : 0;
		size_t for_name = for_place + 10 < room ? room - for_place : room;
		used = page_text(page, text_inner_name(buf_cstr(&name), for_name), for_name);
		if (place.len && used + 10 < room) {
			buf_puts(page->to, "  ");
			text_put_place(page, buf_cstr(&place), room - used - 2);
		}
	} else {
		page_middle(page, buf_cstr(&name), room);
	}
	buf_putc(page->to, '\n');
}

int text_table(struct page *page, const struct prof *prof, const struct out_opt *opt, size_t limit,
	       struct err *err)
{
	static const char *const titles[] = {
		[VIEW_BY_STACK] = "Stacks",   [VIEW_BY_FUNCTION] = "Functions",
		[VIEW_BY_MODULE] = "Modules", [VIEW_BY_FILE] = "Files",
		[VIEW_BY_LINE] = "Lines",     [VIEW_BY_THREAD] = "Threads",
	};
	struct view_opt view = out_view(opt);
	view.limit = limit + STARTS_MAX;
	CLEANUP(view_table_freep) struct view_table *table = view_table_new(prof, &view, err);
	if (!table)
		return err ? err->code : -ENOMEM;
	struct prof_totals totals;
	prof_totals(prof, &totals);
	int both = view_by_frames(opt->by);
	uint64_t whole = view_cost_of(&totals.cost, opt->cost);
	char remark[96], x[TEXT_NUMBER_MAX];
	snprintf(remark, sizeof(remark), "by %s%s", view_cost_name(opt->cost),
		 !both            ? ""
		 : opt->inclusive ? ", called functions included"
				  : ", their own; --sort inclusive for what they call");
	text_title(page, titles[opt->by], table->nonzero ? remark : "nothing");
	if (both && table->nonzero)
		put_heads(page);
	size_t shown = 0, at = 0;
	for (; at < table->count && at < table->nonzero && shown < limit; at++) {
		const struct view_row *row = &table->rows[at];
		/* what stands above main in every stack is no news */
		if (both && !view_cost_of(&row->cost, opt->cost) &&
		    view_role(row->frame.function) == VIEW_START)
			continue;
		put_group(page, opt, row, whole);
		shown++;
	}
	if (at < table->nonzero)
		buf_printf(page->to, "%*s%s more\n", (both ? 2 : 1) * AMOUNT_COLUMNS, "",
			   text_grouped(x, table->nonzero - at));
	return 0;
}
