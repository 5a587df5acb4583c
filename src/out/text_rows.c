/* SPDX-License-Identifier: Apache-2.0 */
/* text_rows.c - the largest call paths: what they cost, who asked, and by whose order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "out/text_impl.h"

#define VALUE_COLUMNS 9
#define SHARE_COLUMNS 7

#define ROWS_ANYWAY 3 /* beyond these, call paths of less than a thousandth are only counted */

struct pick {
	uint64_t key;
	uint32_t node;
};

static int by_key(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/**
 * pick_nodes() - the nodes whose own cost is largest, at least all that deserve a row; the caller frees. @all: how many have
 * any of that cost.
 */
static struct pick *pick_nodes(const struct view_tree *tree, enum view_cost cost, size_t *count,
			       size_t *all)
{
	uint64_t small = view_cost_of(&tree->whole, cost) / 1000;
	size_t n = 0, large = 0;
	for (uint32_t i = 1; i < tree->self_count; i++) {
		uint64_t key = view_cost_of(&tree->selfs[i].cost, cost);
		n += key != 0;
		large += key != 0 && key >= small;
	}
	*all = n;
	*count = 0;
	if (large < ROWS_ANYWAY)
		small = 0, large = n;
	struct pick *picks = malloc((large + 1) * sizeof(*picks));
	if (!picks)
		return NULL;
	for (uint32_t i = 1; i < tree->self_count; i++) {
		uint64_t key = view_cost_of(&tree->selfs[i].cost, cost);
		if (key && key >= small)
			picks[(*count)++] = (struct pick){ key, tree->selfs[i].node };
	}
	qsort(picks, *count, sizeof(*picks), by_key);
	return picks;
}

static size_t bar_columns(const struct page *page)
{
	return page->width >= 120 ? 20 : page->width >= 80 ? 12 : 0;
}

/** put_amount() - value, share, bar; returns the columns used. */
static size_t put_amount(struct page *page, enum view_cost cost, uint64_t value, uint64_t whole)
{
	char x[TEXT_NUMBER_MAX];
	size_t bar = bar_columns(page);
	page_right(page, text_value(x, cost, value), VALUE_COLUMNS);
	page_tint(page, TINT_DIM);
	page_right(page, text_percent(x, value, whole), SHARE_COLUMNS + 1);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, ' ');
	if (bar) {
		page_bar(page, value, whole, bar);
		buf_putc(page->to, ' ');
	}
	return VALUE_COLUMNS + SHARE_COLUMNS + 2 + (bar ? bar + 1 : 0);
}

/** put_place() - "  file:line": where the function stands, in what is left of the line. */
static void put_place(struct page *page, const struct view_frame *f, size_t columns)
{
	if (!f->file || columns < 10)
		return;
	CLEANUP(buf_fini) struct buf place = { 0 };
	const char *slash = strrchr(f->file, '/');
	text_escape(&place, slash ? slash + 1 : f->file, page->ascii);
	if (f->line)
		buf_printf(&place, ":%u", f->line);
	buf_puts(page->to, "  ");
	page_tint(page, TINT_DIM);
	page_text(page, buf_cstr(&place), columns - 2);
	page_tint(page, TINT_PLAIN);
}

/**
 * caller_name() - how @f stands in a list of callers: "[module]" where it has no name; below a @bare stack, where names
 * would be missing all the way, "module+0x12" and then "+0x12" as long as the module stays.
 */
static void caller_name(struct buf *to, const struct page *page, const struct view_frame *f,
			const struct view_frame *inner, int bare)
{
	if (!bare || f->function || f->folded) {
		text_caller_name(to, f, page->ascii);
		return;
	}
	if (f->module == inner->module && !inner->function)
		buf_printf(to, "+0x%llx", (unsigned long long)f->offset);
	else
		text_frame_name(to, f, page->ascii);
}

/** outermost_caller() - the last frame of @node's callers below the start-up code, the standard library's left out. */
static uint32_t outermost_caller(const struct page *page, const struct view_tree *tree,
				 uint32_t node)
{
	uint32_t first = 0;
	for (uint32_t n = tree->nodes[node].parent; n; n = tree->nodes[n].parent) {
		enum frame_role role = text_node_role(page, tree, n);
		if (role == FRAME_START)
			break;
		if (role != FRAME_STANDARD)
			first = n;
	}
	return first;
}

/**
 * put_callers() - one line: "<- f <- g <- main", start-up frames left out, runs of library frames as their outermost, what
 * does not fit in the middle as "..". @node is the one whose callers they are.
 */
static void put_callers(struct page *page, const struct view_tree *tree, uint32_t node,
			size_t indent)
{
	const char *arrow = page->ascii ? " <- " : " \xe2\x86\x90 ";
	size_t arrow_columns = page->ascii ? 4 : 3, room = page->width - indent;
	CLEANUP(buf_fini) struct buf name = { 0 }, outermost = { 0 }, before = { 0 };
	const struct view_frame *self = view_node_frame(tree, node), *inner = self;
	int bare = !self->function && !self->folded;
	/* The outermost informative caller is shown whatever happens between. */
	uint32_t first = outermost_caller(page, tree, node);
	if (first == 0)
		return;
	caller_name(&outermost, page, view_node_frame(tree, first), inner, bare);
	const char *last = text_inner_name(buf_cstr(&outermost), room / 3);
	size_t last_columns = text_columns(last);
	if (last_columns > room / 3)
		last_columns = room / 3;
	size_t reserve = arrow_columns + last_columns + arrow_columns + 2, used = 0;
	page_spaces(page, indent - 1);
	page_tint(page, TINT_DIM);
	uint32_t n = tree->nodes[node].parent;
	for (; n && n != first; n = tree->nodes[n].parent) {
		const struct view_frame *f = view_node_frame(tree, n);
		uint32_t up = tree->nodes[n].parent;
		if (text_node_role(page, tree, n) == FRAME_STANDARD && up &&
		    text_node_role(page, tree, up) == FRAME_STANDARD)
			continue;
		buf_clear(&name);
		caller_name(&name, page, f, inner, bare);
		if (strcmp(buf_cstr(&name), buf_cstr(&before)) == 0)
			continue; /* recursion, or several functions without a name */
		const char *shown = text_inner_name(buf_cstr(&name), room / 2);
		size_t columns = text_columns(shown);
		if (columns > room / 2)
			columns = room / 2;
		if (used + arrow_columns + columns + reserve > room)
			break;
		buf_puts(page->to, arrow);
		page_text(page, shown, columns);
		used += arrow_columns + columns;
		inner = f;
		buf_clear(&before);
		buf_puts(&before, buf_cstr(&name));
	}
	if (n != first && n) {
		buf_puts(page->to, arrow);
		buf_puts(page->to, page->ascii ? ".." : "\xe2\x80\xa6");
	}
	if (strcmp(buf_cstr(&outermost), buf_cstr(&before)) != 0) {
		buf_puts(page->to, arrow);
		page_text(page, last, last_columns);
	}
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}

/** put_detail() - what else is worth knowing of a row, beside its own cost. */
static void put_detail(struct buf *to, const struct cost *c, enum view_cost cost)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	switch (cost) {
	case VIEW_COST_LEAKED:
		buf_printf(to, "%s block%s", text_count(x, c->leaked), c->leaked == 1 ? "" : "s");
		break;
	case VIEW_COST_LIVE:
		buf_printf(to, "%s block%s", text_count(x, c->leaked + c->uncertain),
			   c->leaked + c->uncertain == 1 ? "" : "s");
		break;
	case VIEW_COST_ALLOCATIONS:
		buf_printf(to, "%s", text_bytes(x, c->allocated_bytes));
		if (c->temporary)
			buf_printf(to, ", %s temporary",
				   text_percent(y, c->temporary, c->allocations));
		break;
	case VIEW_COST_TEMPORARY:
		buf_printf(to, "of %s", text_count(x, c->allocations));
		break;
	case VIEW_COST_ALLOCATED:
	case VIEW_COST_PEAK:
		buf_printf(to, "%s allocation%s", text_count(x, c->allocations),
			   c->allocations == 1 ? "" : "s");
		break;
	}
}

/**
 * informative() - the node to name for what @node allocated: the first that is neither helper nor standard library, and
 * has a name; a frame without one is stepped over as long as its own module names an outer one. @via: the last one
 * stepped over. @node itself where there is none such.
 */
static uint32_t informative(const struct page *page, const struct view_tree *tree, uint32_t node,
			    uint32_t *via)
{
	uint32_t who = node, unnamed = 0, unnamed_via = 0;
	*via = 0;
	for (; who; who = tree->nodes[who].parent) {
		const struct view_frame *f = view_node_frame(tree, who);
		enum frame_role role = text_node_role(page, tree, who);
		if (role == FRAME_START)
			break;
		if (unnamed && view_node_frame(tree, unnamed)->module != f->module)
			break;
		if (role == FRAME_OWN && f->function)
			return who;
		if (role == FRAME_OWN && !unnamed) {
			unnamed = who;
			unnamed_via = *via;
		}
		*via = who;
	}
	*via = unnamed_via;
	return unnamed ? unnamed : node;
}

/**
 * put_row() - two lines: the amount and the function that asked, its callers. Allocation helpers and the standard library
 * at the inner end are stepped over; the outermost of them is named as "via".
 */
static void put_row(struct page *page, const struct view_tree *tree, uint32_t node,
		    enum view_cost cost, uint64_t whole)
{
	const struct cost *self = view_node_self(tree, node);
	uint32_t via = 0, who = informative(page, tree, node, &via);
	size_t left = put_amount(page, cost, view_cost_of(self, cost), whole);
	size_t room = page->width > left ? page->width - left : 1;
	CLEANUP(buf_fini) struct buf name = { 0 }, extra = { 0 };
	if (who)
		text_frame_name(&name, view_node_frame(tree, who), page->ascii);
	else
		buf_puts(&name, "(no stack)");
	put_detail(&extra, self, cost);
	if (via && view_node_frame(tree, via)->function) {
		buf_puts(&extra, " via ");
		text_frame_name(&extra, view_node_frame(tree, via), page->ascii);
	}
	page_tint(page, TINT_BOLD);
	size_t used = page_text(page, buf_cstr(&name), room);
	page_tint(page, TINT_PLAIN);
	if (used + 10 < room) {
		buf_puts(page->to, "  ");
		page_tint(page, TINT_DIM);
		used += 2 + page_text(page, buf_cstr(&extra), room - used - 2);
		page_tint(page, TINT_PLAIN);
	}
	if (who && page->width >= 80)
		put_place(page, view_node_frame(tree, who), room > used ? room - used : 0);
	buf_putc(page->to, '\n');
	if (who)
		put_callers(page, tree, who, page->width >= 80 ? left : 12);
}

void text_section(struct page *page, const struct view_tree *tree, enum view_cost cost,
		  size_t limit, int alone)
{
	static const char *const titles[] = {
		[VIEW_COST_PEAK] = "Peak",           [VIEW_COST_ALLOCATIONS] = "Allocations",
		[VIEW_COST_ALLOCATED] = "Allocated", [VIEW_COST_TEMPORARY] = "Temporary",
		[VIEW_COST_LEAKED] = "Leaked",       [VIEW_COST_LIVE] = "Live",
	};
	static const char *const remarks[] = {
		[VIEW_COST_PEAK] = "who held the heap when it was largest",
		[VIEW_COST_ALLOCATIONS] = "who calls the allocator most",
		[VIEW_COST_ALLOCATED] = "who asks for most bytes, in all",
		[VIEW_COST_TEMPORARY] = "freed at once, by the same thread: candidates for reuse",
		[VIEW_COST_LEAKED] = "never freed",
		[VIEW_COST_LIVE] = "who held what was live",
	};
	size_t count, all;
	struct pick *picks = pick_nodes(tree, cost, &count, &all);
	if (!picks) {
		page->to->failed = 1;
		return;
	}
	if (all == 0 && alone) {
		text_title(page, titles[cost], "nothing");
	} else if (all) {
		uint64_t whole = view_cost_of(&tree->whole, cost), shown = 0;
		char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
		text_title(page, titles[cost], remarks[cost]);
		size_t n = 0;
		for (size_t i = 0; i < count && i < limit; i++, n++) {
			if (n >= ROWS_ANYWAY && picks[i].key < whole / 1000)
				break;
			put_row(page, tree, picks[i].node, cost, whole);
			shown += picks[i].key;
		}
		if (n < all) {
			page_tint(page, TINT_DIM);
			page_right(page, text_value(x, cost, whole - shown), VALUE_COLUMNS);
			page_right(page, text_percent(y, whole - shown, whole), SHARE_COLUMNS + 1);
			char rest[64];
			snprintf(rest, sizeof(rest), " in %s more call path%s",
				 text_grouped(x, all - n), all - n == 1 ? "" : "s");
			page_text(page, rest, page->width - VALUE_COLUMNS - SHARE_COLUMNS - 1);
			page_tint(page, TINT_PLAIN);
			buf_putc(page->to, '\n');
		}
	}
	free(picks);
}

/* Memory for exceptions that are thrown when there is none left: one block, made when the library is loaded, and kept. */
#define POOL_MAX (256u << 10)

static int in_library(const struct prof *prof, struct stack_id id, const char *name)
{
	const struct prof_frame *frame = prof_frame(prof, prof_stack(prof, id)->frame);
	return strncmp(prof_module(prof, frame->module)->name, name, strlen(name)) == 0;
}

void text_pool(struct page *page, const struct prof *prof)
{
	uint32_t stacks = prof_stack_count(prof);
	char x[TEXT_NUMBER_MAX];
	for (uint32_t i = prof_stack_used(prof, 0); i < stacks; i = prof_stack_used(prof, i + 1)) {
		struct stack_id id = { i }, caller = prof_stack(prof, id)->parent;
		struct cost cost;
		prof_stack_cost(prof, id, &cost);
		if (cost.allocations != 1 || cost.leaked != 1 || cost.leaked_bytes > POOL_MAX ||
		    !in_library(prof, id, "libstdc++.so") || !in_library(prof, caller, "ld-linux"))
			continue;
		CLEANUP(buf_fini) struct buf line = { 0 };
		buf_printf(&line, "of this %s: libstdc++'s emergency pool, in every C++ program",
			   text_bytes(x, cost.leaked_bytes));
		page_tint(page, TINT_DIM);
		page_text(page, buf_cstr(&line), page->width);
		page_tint(page, TINT_PLAIN);
		buf_putc(page->to, '\n');
		return;
	}
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
	page_tint(page, TINT_DIM);
	buf_putc(page->to, '\n');
	page_text(page, buf_cstr(&line), page->width);
	page_tint(page, TINT_PLAIN);
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
	CLEANUP(view_table_freep)
	struct view_table *table = view_table_new(prof, opt->by, opt->cost, limit, err);
	if (!table)
		return err ? err->code : -ENOMEM;
	struct prof_totals totals;
	prof_totals(prof, &totals);
	uint64_t whole = view_cost_of(&totals.cost, opt->cost);
	char remark[64];
	snprintf(remark, sizeof(remark), "by %s", view_cost_name(opt->cost));
	text_title(page, titles[opt->by], remark);
	for (size_t i = 0; i < table->count; i++) {
		const struct view_row *row = &table->rows[i];
		CLEANUP(buf_fini) struct buf name = { 0 };
		size_t left =
			put_amount(page, opt->cost, view_cost_of(&row->cost, opt->cost), whole);
		size_t room = page->width > left ? page->width - left : 1;
		if (opt->by == VIEW_BY_THREAD) {
			buf_printf(&name, "%u", row->tid);
			if (row->thread_name) {
				buf_putc(&name, ' ');
				text_escape(&name, row->thread_name, page->ascii);
			}
		} else if (opt->by == VIEW_BY_FUNCTION && row->frame.function) {
			text_argument_name(&name, row->frame.function, page->ascii);
		} else if (opt->by != VIEW_BY_MODULE && row->frame.file) {
			text_escape(&name, row->frame.file, page->ascii);
			if (opt->by == VIEW_BY_LINE && row->frame.line)
				buf_printf(&name, ":%u", row->frame.line);
		} else {
			text_escape(&name, row->frame.module ? row->frame.module : "unknown",
				    page->ascii);
			if (opt->by == VIEW_BY_LINE)
				buf_printf(&name, "+0x%llx", (unsigned long long)row->frame.offset);
			else if (opt->by == VIEW_BY_FUNCTION)
				buf_puts(&name, " (no symbols)");
		}
		size_t used = page_text(page, buf_cstr(&name), room);
		if (opt->by == VIEW_BY_FUNCTION && row->frame.function)
			put_place(page, &row->frame, room - used);
		buf_putc(page->to, '\n');
	}
	if (table->count < table->total) {
		char x[TEXT_NUMBER_MAX];
		buf_printf(page->to, "%*s%s more\n", VALUE_COLUMNS + SHARE_COLUMNS + 2, "",
			   text_grouped(x, table->total - table->count));
	}
	return 0;
}
