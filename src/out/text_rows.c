/* SPDX-License-Identifier: Apache-2.0 */
/* text_rows.c - the largest call paths: what they cost, who asked, and by whose order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "out/text_impl.h"

#define NAME_LEAST 10  /* columns of a name that a place may stand beside */
#define VIA_LEAST 14   /* columns of " via NAME" that say anything */
#define ALIKE_MAX 1000 /* rows that are compared with each other */
#define ROWS_ANYWAY 3  /* beyond these, call paths of less than a thousandth are only counted */

struct pick {
	uint64_t key;
	size_t path;
};

static int by_key(const void *a, const void *b)
{
	const struct pick *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return x->path < y->path ? -1 : x->path > y->path;
}

/**
 * pick_paths() - those whose cost is largest, at least all that deserve a row; the caller frees.
 * @all: how many have any of that cost.
 */
static struct pick *pick_paths(const struct view_paths *paths, enum view_cost cost, size_t *count,
			       size_t *all)
{
	uint64_t small = view_cost_of(&paths->whole, cost) / 1000;
	size_t n = 0, large = 0;
	for (size_t i = 0; i < paths->count; i++) {
		uint64_t key = view_cost_of(&paths->items[i].cost, cost);
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
	for (size_t i = 0; i < paths->count; i++) {
		uint64_t key = view_cost_of(&paths->items[i].cost, cost);
		if (key && key >= small)
			picks[(*count)++] = (struct pick){ key, i };
	}
	qsort(picks, *count, sizeof(*picks), by_key);
	return picks;
}

/**
 * struct line - one call path as it is shown: its frames, innermost first, the one that asked, and
 * the outermost of the wrappers that were stepped over on the way there.
 */
struct line {
	struct view_frame *frames;
	size_t count;
	/* via: count = none */
	size_t who, via;
	/* where it differs from a line that looks the same; count = nowhere */
	size_t difference;
	/* recursion: what differs is how often it called itself */
	int tells_depth;
	unsigned stop;
};

static enum view_role role_at(const struct page *page, const struct line *line, size_t i)
{
	return view_skip_role(page->skip, line->frames[i].function);
}

/**
 * find_who() - the frame to name: the first that is neither helper nor standard library, and has a
 * name; one without is stepped over as long as its own module names an outer one. The innermost
 * where there is none such.
 */
static void find_who(const struct page *page, struct line *line)
{
	size_t none = line->count, unnamed = none, via = none, unnamed_via = none;
	line->who = 0;
	line->via = none;
	for (size_t i = 0; i < line->count; i++) {
		const struct view_frame *f = &line->frames[i];
		enum view_role role = role_at(page, line, i);
		if (role == VIEW_START)
			break;
		if (unnamed != none && line->frames[unnamed].module != f->module)
			break;
		if (role == VIEW_OWN && f->function) {
			line->who = i;
			line->via = via;
			return;
		}
		if (role == VIEW_OWN && unnamed == none) {
			unnamed = i;
			unnamed_via = via;
		}
		via = i;
	}
	if (unnamed != none) {
		line->who = unnamed;
		line->via = unnamed_via;
	}
}

/**
 * caller_name() - how @f stands in a list of callers: "[module]" where it has no name; below a
 * @bare stack, where names would be missing all the way, "module+0x12" and then "+0x12" as long as
 * the module stays.
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

/**
 * outermost_caller() - the last of the callers below the start-up code, the standard library's left
 * out; 0 = none.
 */
static size_t outermost_caller(const struct page *page, const struct line *line)
{
	size_t first = 0;
	for (size_t i = line->who + 1; i < line->count; i++) {
		enum view_role role = role_at(page, line, i);
		if (role == VIEW_START)
			break;
		if (role != VIEW_STANDARD)
			first = i;
	}
	return first;
}

/** put_marked() - a caller with the place at which it differs from that of a line above. */
static size_t put_marked(struct page *page, const struct line *line, const char *arrow,
			 size_t arrow_columns, size_t room)
{
	const struct view_frame *f = &line->frames[line->difference];
	CLEANUP(buf_fini) struct buf name = { 0 }, place = { 0 };
	text_frame_name(&name, f, page->ascii);
	text_place(&place, page, f);
	size_t place_columns = place.len ? text_columns(buf_cstr(&place)) + 1 : 0;
	buf_puts(page->to, arrow);
	size_t left =
		room > arrow_columns + place_columns ? room - arrow_columns - place_columns : 8;
	size_t used = arrow_columns + page_text(page, text_inner_name(buf_cstr(&name), left), left);
	if (!place_columns)
		return used;
	buf_putc(page->to, ' ');
	return used + 1 +
	       page_middle(page, buf_cstr(&place), room > used + 1 ? room - used - 1 : 1);
}

/**
 * put_callers() - one line: "<- f <- g <- main", start-up frames left out, runs of library frames
 * as their outermost, what does not fit in the middle as "..". The outermost informative caller is
 * shown whatever happens between, and so is where the line differs from one that looks the same.
 */
static void put_callers(struct page *page, const struct line *line, size_t indent)
{
	const char *arrow = page->ascii ? " <- " : " \xe2\x86\x90 ";
	size_t arrow_columns = page->ascii ? 4 : 3, room = page->width - indent;
	char depth[32] = "";
	if (line->tells_depth)
		snprintf(depth, sizeof(depth), " (%zu frames)", line->count);
	int beside = room >= 4 * strlen(depth); /* else on a line of its own */
	room -= beside ? strlen(depth) : 0;
	CLEANUP(buf_fini) struct buf name = { 0 }, outermost = { 0 }, before = { 0 };
	const struct view_frame *self = &line->frames[line->who], *inner = self;
	int bare = !self->function && !self->folded;
	size_t first = outermost_caller(page, line), mark = line->difference;
	int marked = mark < line->count && mark != line->who;
	if (first == 0 && !marked)
		return;
	if (first)
		caller_name(&outermost, page, &line->frames[first], inner, bare);
	const char *last = text_inner_name(buf_cstr(&outermost), room / 3);
	size_t last_columns = text_columns(last);
	if (last_columns > room / 3)
		last_columns = room / 3;
	size_t reserve = arrow_columns + last_columns + arrow_columns + 2, used = 0;
	page_spaces(page, indent - 1);
	page_tint(page, TINT_DIM);
	if (marked) {
		used = put_marked(page, line, arrow, arrow_columns,
				  mark == first    ? room
				  : room > reserve ? room - reserve
						   : room);
		inner = &line->frames[mark];
	}
	size_t i = marked && mark > line->who ? mark + 1 : line->who + 1;
	for (; i < first; i++) {
		const struct view_frame *f = &line->frames[i];
		if (role_at(page, line, i) == VIEW_STANDARD && i + 1 < line->count &&
		    role_at(page, line, i + 1) == VIEW_STANDARD)
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
	if (i < first) {
		buf_puts(page->to, arrow);
		buf_puts(page->to, page->ascii ? ".." : "\xe2\x80\xa6");
	}
	if (first && !(marked && mark >= first) &&
	    strcmp(buf_cstr(&outermost), buf_cstr(&before)) != 0) {
		buf_puts(page->to, arrow);
		page_text(page, last, last_columns);
	}
	if (*depth && !beside) {
		buf_putc(page->to, '\n');
		page_spaces(page, indent - 1);
	}
	buf_puts(page->to, depth);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}

/** put_detail() - what else is worth knowing of a row, beside its own cost. */
static void put_detail(struct buf *to, const struct prof *prof, const struct cost *c,
		       enum view_cost cost)
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
	case VIEW_COST_PEAK:
		if (prof_knows_peak_blocks(prof)) {
			buf_printf(to, "%s block%s", text_count(x, c->peak_blocks),
				   c->peak_blocks == 1 ? "" : "s");
			break;
		}
		buf_puts(to, "in all ");
		__attribute__((fallthrough));
	case VIEW_COST_ALLOCATED:
		buf_printf(to, "%s allocation%s", text_count(x, c->allocations),
			   c->allocations == 1 ? "" : "s");
		break;
	}
}

/**
 * put_row() - two lines: the amount, the function that asked and where, its callers. Allocation
 * helpers and the standard library at the inner end are stepped over; the outermost of them is
 * named as "via". Where is never left out: a name is shortened for it.
 */
static void put_row(struct page *page, const struct prof *prof, const struct cost *self,
		    const struct line *line, enum view_cost cost, uint64_t whole,
		    const char *detail)
{
	size_t left = text_amount(page, cost, view_cost_of(self, cost), whole);
	size_t room = page->width > left ? page->width - left : 1;
	CLEANUP(buf_fini) struct buf name = { 0 }, place = { 0 }, extra = { 0 }, via = { 0 };
	const struct view_frame *who = line->count ? &line->frames[line->who] : NULL;
	if (who)
		text_frame_name(&name, who, page->ascii);
	else
		buf_puts(&name, line->stop ? view_stop_label(line->stop) : "(no stack)");
	if (who)
		text_place(&place, page, who);
	if (detail)
		buf_puts(&extra, detail);
	else
		put_detail(&extra, prof, self, cost);
	if (line->via < line->count && line->frames[line->via].function) {
		buf_puts(&via, " via ");
		text_frame_name(&via, &line->frames[line->via], page->ascii);
	}
	size_t place_columns = place.len ? text_columns(buf_cstr(&place)) : 0;
	int beside = place_columns && place_columns + 2 + NAME_LEAST <= room;
	size_t for_name = beside ? room - place_columns - 2 : room;
	page_tint(page, TINT_BOLD);
	size_t used = page_text(page, text_inner_name(buf_cstr(&name), for_name), for_name);
	page_tint(page, TINT_PLAIN);
	if (beside) {
		buf_puts(page->to, "  ");
		used += 2 + text_put_place(page, buf_cstr(&place), room - used - 2);
	}
	if (used + 10 < room) {
		size_t left_over = room - used - 2, plain = text_columns(buf_cstr(&extra));
		/* all of it, or enough to know it by */
		if (plain + MIN(text_columns(buf_cstr(&via)), VIA_LEAST) <= left_over)
			buf_puts(&extra, buf_cstr(&via));
		buf_puts(page->to, "  ");
		page_tint(page, TINT_DIM);
		page_text(page, buf_cstr(&extra), left_over);
		page_tint(page, TINT_PLAIN);
	}
	buf_putc(page->to, '\n');
	size_t indent = page->width >= 80 ? left : 12;
	if (place_columns && !beside) {
		page_spaces(page, indent);
		text_put_place(page, buf_cstr(&place), page->width - indent);
		buf_putc(page->to, '\n');
	}
	if (who)
		put_callers(page, line, indent);
}

/* ---- rows that look alike -------------------------------------------------------------------- */

/**
 * first_difference() - the frame of @b, from who asked outwards, at which it is not @a's; b's
 * count: only within wrappers.
 */
static size_t first_difference(const struct line *a, const struct line *b)
{
	for (size_t i = 0; b->who + i < b->count; i++) {
		const struct view_frame *y = &b->frames[b->who + i];
		const struct view_frame *x = &a->frames[a->who + i];
		if (a->who + i >= a->count || x->function != y->function ||
		    x->module != y->module || x->file != y->file || x->line != y->line ||
		    (!x->function && !x->folded && x->offset != y->offset))
			return b->who + i;
	}
	return b->count;
}

/**
 * struct lines - the rows of a section, before they are written: those that look alike have to be
 * told apart.
 */
struct lines {
	struct line *items;
	/* as they look: without amounts */
	char **texts;
	size_t count;
	struct view_frame *scratch;
};

#define FRAMES_MAX 65536u

static int line_make(struct line *line, const struct page *page, const struct prof *prof,
		     const struct view_paths *paths, struct stack_id stack,
		     struct view_frame *scratch)
{
	size_t n = view_path_frames(prof, paths, stack, scratch, FRAMES_MAX, &line->stop);
	line->frames = malloc((n ? n : 1) * sizeof(*line->frames));
	if (!line->frames)
		return -1;
	memcpy(line->frames, scratch, n * sizeof(*scratch));
	line->count = line->difference = n;
	find_who(page, line);
	return 0;
}

/** line_text() - how @line looks beside its amount and its details; malloc'd. */
static char *line_text(const struct page *page, const struct line *line)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct page plain = *page;
	plain.to = &text;
	plain.colour = 0;
	if (line->count) {
		text_frame_name(&text, &line->frames[line->who], page->ascii);
		text_place(&text, page, &line->frames[line->who]);
		put_callers(&plain, line, page->width >= 80 ? 31 : 12);
	}
	return buf_take(&text);
}

static int take_texts(const struct page *page, struct lines *lines)
{
	for (size_t i = 0; i < lines->count; i++) {
		free(lines->texts[i]);
		if (!(lines->texts[i] = line_text(page, &lines->items[i])))
			return -1;
	}
	return 0;
}

/**
 * tell_apart() - each of several that look alike says where it differs from the first of them, and
 * how deep it is if that shows nothing.
 */
static int tell_apart(struct page *page, struct lines *lines)
{
	if (take_texts(page, lines) < 0)
		return -1;
	int alike = 0;
	for (size_t i = 0; i < lines->count; i++) {
		for (size_t k = 0; k < i; k++) {
			if (strcmp(lines->texts[i], lines->texts[k]) != 0)
				continue;
			struct line *a = &lines->items[k], *b = &lines->items[i];
			alike = 1;
			b->difference = first_difference(a, b);
			/* the first of them, too, says where it stands */
			if (a->difference == a->count && b->difference < b->count &&
			    a->who + (b->difference - b->who) < a->count)
				a->difference = a->who + (b->difference - b->who);
			break;
		}
	}
	if (!alike || take_texts(page, lines) < 0)
		return alike ? -1 : 0;
	for (size_t i = 0; i < lines->count; i++)
		for (size_t k = 0; k < i; k++)
			if (lines->items[k].count != lines->items[i].count &&
			    strcmp(lines->texts[i], lines->texts[k]) == 0)
				lines->items[i].tells_depth = lines->items[k].tells_depth = 1;
	return 0;
}

static void lines_fini(struct lines *lines)
{
	for (size_t i = 0; i < lines->count; i++) {
		free(lines->items[i].frames);
		if (lines->texts)
			free(lines->texts[i]);
	}
	free(lines->items);
	free(lines->texts);
	free(lines->scratch);
}

static int lines_make(struct lines *lines, struct page *page, const struct prof *prof,
		      const struct view_paths *paths, const struct pick *picks, size_t count)
{
	*lines = (struct lines){ 0 };
	lines->items = calloc(count + 1, sizeof(*lines->items));
	lines->texts = calloc(count + 1, sizeof(*lines->texts));
	lines->scratch = malloc(FRAMES_MAX * sizeof(*lines->scratch));
	if (!lines->items || !lines->texts || !lines->scratch)
		return -1;
	for (; lines->count < count; lines->count++)
		if (line_make(&lines->items[lines->count], page, prof, paths,
			      paths->items[picks[lines->count].path].stack, lines->scratch) < 0)
			return -1;
	return count <= ALIKE_MAX ? tell_apart(page, lines) : 0;
}

int text_went_on(const struct prof *prof)
{
	const struct prof_process *process = prof_process(prof);
	return process && process->ended && process->exit_status == PROF_WENT_ON;
}

void text_section(struct page *page, const struct prof *prof, const struct view_paths *paths,
		  enum view_cost cost, size_t limit, int alone, int being_written)
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
		[VIEW_COST_TEMPORARY] =
			"freed before the same thread allocated again: candidates for reuse",
		[VIEW_COST_LEAKED] = "never freed",
		[VIEW_COST_LIVE] = "who held what was live",
	};
	size_t count, all;
	const char *title = titles[cost], *remark = remarks[cost];
	int went_on = text_went_on(prof);
	if ((being_written || went_on) && cost == VIEW_COST_LEAKED) {
		title = "Live";
		remark = being_written ? "not freed so far: the recording goes on"
				       : "not freed by then: the program went on";
	}
	struct pick *picks = pick_paths(paths, cost, &count, &all);
	struct lines lines = { 0 };
	if (!picks) {
		page->to->failed = 1;
		return;
	}
	if (all == 0 && alone) {
		text_title(page, title, "nothing");
	} else if (all) {
		uint64_t whole = view_cost_of(&paths->whole, cost), shown = 0;
		char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
		text_title(page, title, remark);
		size_t n = 0;
		while (n < count && n < limit && (n < ROWS_ANYWAY || picks[n].key >= whole / 1000))
			n++;
		if (lines_make(&lines, page, prof, paths, picks, n) < 0)
			page->to->failed = 1;
		for (size_t i = 0; i < lines.count; i++) {
			put_row(page, prof, &paths->items[picks[i].path].cost, &lines.items[i],
				cost, whole, NULL);
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
	lines_fini(&lines);
	free(picks);
}

/* ---- beside the heap ------------------------------------------------------------------------- */

static int by_mapped_peak(const void *a, const void *b)
{
	const struct mapped_row *x = a, *y = b;
	if (x->sum.peak_bytes != y->sum.peak_bytes)
		return x->sum.peak_bytes > y->sum.peak_bytes ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void put_mapped_row(struct page *page, const struct prof *prof,
			   const struct view_paths *paths, const struct mapped_row *row,
			   uint64_t whole, struct view_frame *scratch)
{
	struct line line = { 0 };
	char detail[64], x[TEXT_NUMBER_MAX];
	const struct cost cost = { .peak_bytes = row->sum.peak_bytes };
	snprintf(detail, sizeof(detail), "%s mapping%s%s", text_count(x, row->sum.count),
		 row->sum.count == 1 ? "" : "s", row->kind == MAPPED_FILE ? " of files" : "");
	if (line_make(&line, page, prof, paths, (struct stack_id){ row->stack }, scratch) < 0)
		page->to->failed = 1;
	else
		put_row(page, prof, &cost, &line, VIEW_COST_PEAK, whole, detail);
	free(line.frames);
}

void text_mapped(struct page *page, const struct prof *prof, const struct view_paths *paths,
		 size_t limit)
{
	const struct mapped *mapped = prof_mapped(prof);
	struct mapped_sum anon, file;
	if (!mapped)
		return;
	mapped_sum(mapped, MAPPED_ANON, &anon);
	mapped_sum(mapped, MAPPED_FILE, &file);
	uint64_t whole = anon.peak_bytes, shown = 0;
	sum_add(&whole, file.peak_bytes);
	if (whole < MAPPED_LEAST)
		return;
	size_t count = mapped_count(mapped), kept = 0, i;
	struct mapped_row *rows = calloc(count + 1, sizeof(*rows));
	struct view_frame *scratch = malloc(FRAMES_MAX * sizeof(*scratch));
	for (i = 0; rows && i < count; i++) {
		mapped_row(mapped, i, &rows[kept]);
		kept += rows[kept].kind <= MAPPED_FILE && rows[kept].sum.peak_bytes;
	}
	if (rows && scratch) {
		qsort(rows, kept, sizeof(*rows), by_mapped_peak);
		text_title(page, "Mapped",
			   "by the program itself, beside the heap and in none of its figures");
		for (i = 0; i < kept && i < limit &&
			    (i < ROWS_ANYWAY || rows[i].sum.peak_bytes >= whole / 1000);
		     i++) {
			put_mapped_row(page, prof, paths, &rows[i], whole, scratch);
			shown += rows[i].sum.peak_bytes;
		}
		if (i < kept && shown < whole) {
			char x[TEXT_NUMBER_MAX], rest[64];
			page_right(page, text_bytes(x, whole - shown), VALUE_COLUMNS);
			snprintf(rest, sizeof(rest), "         in %zu more call path%s", kept - i,
				 kept - i == 1 ? "" : "s");
			buf_puts(page->to, rest);
			buf_putc(page->to, '\n');
		}
	} else {
		page->to->failed = 1;
	}
	free(rows);
	free(scratch);
}
