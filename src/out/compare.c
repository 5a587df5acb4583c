/* SPDX-License-Identifier: Apache-2.0 */
#include "out/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "out/text_impl.h"

#define LIMIT_DEFAULT 10
#define WIDTH_DEFAULT 100
#define WIDTH_MIN 40
#define WIDTH_MAX 240
#define FRAMES_MAX 4096
#define CHANGE_COLUMNS 10

static const char *const totals_names[] = { "peak", "allocated", "allocations", "temporary",
					    "live at the end" };
static const enum view_cost totals_costs[] = { VIEW_COST_PEAK, VIEW_COST_ALLOCATED,
					       VIEW_COST_ALLOCATIONS, VIEW_COST_TEMPORARY,
					       VIEW_COST_LIVE };

/* "+1.21 MiB", "-12", "0 B": three digits and a sign. */
static const char *signed_value(char to[TEXT_NUMBER_MAX], enum view_cost cost, uint64_t before,
				uint64_t after)
{
	char value[TEXT_NUMBER_MAX];
	int grown;
	uint64_t change = compare_change(before, after, &grown);
	snprintf(to, TEXT_NUMBER_MAX, "%s%.*s", change ? grown ? "+" : "-" : "",
		 TEXT_NUMBER_MAX - 2, text_value(value, cost, change));
	return to;
}

/* "+22.8 %"; "new" where there was nothing before. */
static const char *signed_share(char to[TEXT_NUMBER_MAX], uint64_t before, uint64_t after)
{
	int grown;
	uint64_t change = compare_change(before, after, &grown);
	if (!change)
		return strcpy(to, "");
	if (!before)
		return strcpy(to, "new");
	double percent = 100.0 * (double)change / (double)before;
	snprintf(to, TEXT_NUMBER_MAX, percent < 10 ? "%s%.1f %%" : "%s%.0f %%", grown ? "+" : "-",
		 percent);
	return to;
}

static const char *word_of(const struct compare_row *row)
{
	int grown = row->before == row->after ? row->after_inclusive > row->before_inclusive
					      : row->after > row->before;
	return !row->was ? "new" : !row->is ? "gone" : grown ? "grown" : "shrunk";
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_totals(struct page *page, const struct prof *base, const struct prof *prof,
		       int moment)
{
	struct prof_totals t[2];
	prof_totals(base, &t[0]);
	prof_totals(prof, &t[1]);
	page_tint(page, TINT_DIM);
	page_right(page, "before", 27);
	page_right(page, "after", 11);
	page_right(page, "change", 12);
	buf_putc(page->to, '\n');
	page_tint(page, TINT_PLAIN);
	for (size_t i = 0; i < ARRAY_LEN(totals_costs); i++) {
		enum view_cost cost = totals_costs[i];
		uint64_t before = view_cost_of(&t[0].cost, cost),
			 after = view_cost_of(&t[1].cost, cost);
		char x[TEXT_NUMBER_MAX];
		/* of what was live at a moment nothing else is known */
		if (moment && cost != VIEW_COST_LIVE && cost != VIEW_COST_ALLOCATIONS)
			continue;
		const char *name = !moment                         ? totals_names[i]
				   : cost == VIEW_COST_ALLOCATIONS ? "live blocks"
								   : "live";
		buf_puts(page->to, "  ");
		page_spaces(page, 16 - (buf_puts(page->to, name), strlen(name)));
		page_right(page, text_value(x, cost, before), 9);
		page_right(page, text_value(x, cost, after), 11);
		page_right(page, signed_value(x, cost, before, after), 12);
		if (before != after)
			page_right(page, signed_share(x, before, after), 9);
		buf_putc(page->to, '\n');
	}
}

/*
 * "<- f <- g <- main": the callers of frames[who], start-up code and the standard library left out.
 */
static void put_callers(struct page *page, const struct view_frame *frames, size_t count,
			size_t who, size_t indent)
{
	const char *arrow = page->ascii ? " <- " : " \xe2\x86\x90 ";
	size_t used = indent, arrow_columns = page->ascii ? 4 : 3;
	CLEANUP(buf_fini) struct buf name = { 0 }, before = { 0 };
	int any = 0;
	for (size_t i = who + 1; i < count; i++) {
		enum view_role role = view_skip_role(page->skip, frames[i].function);
		if (role == VIEW_START)
			break;
		if (role == VIEW_STANDARD)
			continue;
		buf_clear(&name);
		text_caller_name(&name, &frames[i], page->ascii);
		if (strcmp(buf_cstr(&name), buf_cstr(&before)) == 0)
			continue;
		const char *shown = text_inner_name(buf_cstr(&name), page->width / 3);
		size_t columns = text_columns(shown);
		columns = columns < page->width / 3 ? columns : page->width / 3;
		if (!any)
			page_spaces(page, indent);
		if (used + arrow_columns + columns + 2 > page->width) {
			buf_puts(page->to, page->ascii ? " .." : " \xe2\x80\xa6");
			any = 1;
			break;
		}
		any = 1;
		buf_puts(page->to, arrow);
		page_text(page, shown, columns);
		used += arrow_columns + columns;
		buf_clear(&before);
		buf_puts(&before, buf_cstr(&name));
	}
	if (any)
		buf_putc(page->to, '\n');
}

/*
 * The change of what was asked for here, then of all that passes here; before and after are of the
 * latter.
 */
static size_t put_figures(struct page *page, const struct comparison *c,
			  const struct compare_row *row)
{
	char x[TEXT_NUMBER_MAX];
	int groups = view_by_frames(c->by), grown;
	uint64_t before = groups ? row->before_inclusive : row->before;
	uint64_t after = groups ? row->after_inclusive : row->after;
	compare_change(row->before, row->after, &grown);
	page_tint(page, grown ? TINT_RED : TINT_BAR);
	page_right(page, signed_value(x, c->cost, row->before, row->after), CHANGE_COLUMNS);
	page_tint(page, TINT_PLAIN);
	if (groups)
		page_right(page, signed_value(x, c->cost, before, after), CHANGE_COLUMNS + 1);
	page_right(page, row->was ? text_value(x, c->cost, before) : "-", VALUE_COLUMNS + 1);
	page_right(page, row->is ? text_value(x, c->cost, after) : "-", VALUE_COLUMNS + 1);
	page_tint(page, TINT_DIM);
	page_right(page, word_of(row), 7);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, ' ');
	return CHANGE_COLUMNS + (groups ? CHANGE_COLUMNS + 1 : 0) + 2 * (VALUE_COLUMNS + 1) + 8;
}

static void put_heads(struct page *page, const struct comparison *c)
{
	int groups = view_by_frames(c->by);
	page_tint(page, TINT_DIM);
	page_right(page, groups ? "own" : "change", CHANGE_COLUMNS);
	if (groups)
		page_right(page, "inclusive", CHANGE_COLUMNS + 1);
	page_right(page, "before", VALUE_COLUMNS + 1);
	page_right(page, "after", VALUE_COLUMNS + 1);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}

static void put_row(struct page *page, const struct comparison *c, const struct compare_row *row,
		    struct view_frame *frames)
{
	const struct compare_example *e = &row->example;
	const struct view_frame *who = &e->frame;
	size_t count = 0, first = 0, left = put_figures(page, c, row);
	unsigned stop = 0;
	if (c->by == VIEW_BY_STACK) {
		count = view_frames(e->prof, e->stack, frames, FRAMES_MAX, &stop);
		first = view_skip_count(page->skip, frames, count);
		who = count ? &frames[first] : NULL;
	}
	CLEANUP(buf_fini) struct buf name = { 0 }, place = { 0 };
	if (who && (c->by == VIEW_BY_FILE || c->by == VIEW_BY_LINE) && who->file)
		text_place(&name, page, who);
	else if (who && c->by == VIEW_BY_MODULE)
		buf_puts(&name, who->module ? who->module : "(no module)");
	else if (who)
		text_frame_name(&name, who, page->ascii);
	else
		buf_puts(&name, stop ? view_stop_label(stop) : "(no stack)");
	if (who && (c->by == VIEW_BY_STACK || c->by == VIEW_BY_FUNCTION))
		text_place(&place, page, who);
	size_t room = page->width > left ? page->width - left : 20;
	size_t place_columns = place.len ? text_columns(buf_cstr(&place)) + 2 : 0;
	size_t for_name = place_columns + 10 < room ? room - place_columns : room;
	page_tint(page, TINT_BOLD);
	size_t used = page_text(page, text_inner_name(buf_cstr(&name), for_name), for_name);
	page_tint(page, TINT_PLAIN);
	if (place_columns && used + 4 < room) {
		buf_puts(page->to, "  ");
		text_put_place(page, buf_cstr(&place), room - used - 2);
	}
	buf_putc(page->to, '\n');
	if (c->by == VIEW_BY_STACK && count) {
		page_tint(page, TINT_DIM);
		put_callers(page, frames, count, first, page->width >= 80 ? left - 1 : 12);
		page_tint(page, TINT_PLAIN);
	}
}

static const char *by_name(enum view_by by)
{
	static const char *const names[] = { "call path", "function", "module",
					     "file",      "line",     "thread" };
	return names[by];
}

static int put_text(struct page *page, const struct prof *base, const struct prof *prof,
		    const struct comparison *c, const struct compare_names *names,
		    const struct out_opt *opt)
{
	size_t limit = opt->limit ? opt->limit : LIMIT_DEFAULT;
	struct view_frame *frames = calloc(FRAMES_MAX, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	buf_printf(page->to, "%s %s %s%s%s\n", names->before, page->ascii ? "->" : "\xe2\x86\x92",
		   names->after, opt->selection ? "   " : "", opt->selection ? opt->selection : "");
	put_totals(page, base, prof, opt->moment);
	CLEANUP(buf_fini) struct buf title = { 0 }, remark = { 0 };
	buf_printf(&title, "Change of %s by %s%s", view_cost_name(c->cost), by_name(c->by),
		   opt->inclusive ? ", what it calls included" : "");
	buf_printf(&remark, "%zu new, %zu gone, %zu grown, %zu shrunk", c->appeared, c->gone,
		   c->grown, c->shrunk);
	text_title(page, buf_cstr(&title), buf_cstr(&remark));
	if (!c->count)
		buf_puts(page->to, "  the same to the byte\n");
	else
		put_heads(page, c);
	for (size_t i = 0; i < c->count && i < limit; i++)
		put_row(page, c, &c->rows[i], frames);
	if (c->count > limit)
		buf_printf(page->to, "  and %zu smaller changes: --limit %zu\n", c->count - limit,
			   c->count);
	free(frames);
	return 0;
}

static int written(FILE *to, struct err *err)
{
	errno = 0;
	if (fflush(to) != 0 || ferror(to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the comparison");
	return 0;
}

int out_compare_text(FILE *to, const struct prof *base, const struct prof *prof,
		     const struct comparison *comparison, const struct compare_names *names,
		     const struct out_opt *opt, struct err *err)
{
	CLEANUP(buf_fini) struct buf b = { 0 };
	size_t width = opt->width > 0 ? (size_t)opt->width : WIDTH_DEFAULT;
	struct page page = { .to = &b,
			     .width = width < WIDTH_MIN   ? WIDTH_MIN
				      : width > WIDTH_MAX ? WIDTH_MAX
							  : width,
			     .colour = opt->colour,
			     .ascii = opt->ascii,
			     .skip = opt->skip };
	int rc = put_text(&page, base, prof, comparison, names, opt);
	if (rc < 0 || buf_failed(&b))
		return err_set(err, -ENOMEM, "cannot write the comparison");
	fwrite(b.data, 1, b.len, to);
	return written(to, err);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_side(struct jsonw *json, const char *key, const char *name, const struct prof *prof)
{
	struct prof_totals t;
	const struct prof_process *process = prof_process(prof);
	prof_totals(prof, &t);
	jsonw_object(json, key);
	jsonw_str(json, "name", name);
	jsonw_u64(json, "pid", process ? process->pid : 0);
	jsonw_str(json, "exe", process ? process->exe : NULL);
	jsonw_u64(json, "allocations", t.cost.allocations);
	jsonw_u64(json, "allocated_bytes", t.cost.allocated_bytes);
	jsonw_u64(json, "temporary_allocations", t.cost.temporary);
	jsonw_u64(json, "live_bytes", view_cost_of(&t.cost, VIEW_COST_LIVE));
	jsonw_u64(json, "peak_bytes", t.cost.peak_bytes);
	jsonw_u64(json, "lost_events", t.lost_events);
	jsonw_object_end(json);
}

static void put_json_frame(struct jsonw *json, const struct view_frame *f)
{
	jsonw_object(json, NULL);
	jsonw_str(json, "function", f->function);
	jsonw_str(json, "module", f->module);
	if (f->folded)
		jsonw_null(json, "offset");
	else
		jsonw_u64(json, "offset", f->offset);
	jsonw_str(json, "file", f->file);
	if (f->line)
		jsonw_u64(json, "line", f->line);
	else
		jsonw_null(json, "line");
	jsonw_bool(json, "inlined", f->inlined);
	jsonw_object_end(json);
}

static void put_json_row(struct jsonw *json, const struct comparison *c,
			 const struct compare_row *row, struct view_frame *frames)
{
	unsigned stop;
	jsonw_object(json, NULL);
	jsonw_u64(json, "before", row->before);
	jsonw_u64(json, "after", row->after);
	jsonw_i64(json, "change", (int64_t)(row->after - row->before));
	if (view_by_frames(c->by)) {
		jsonw_u64(json, "inclusive_before", row->before_inclusive);
		jsonw_u64(json, "inclusive_after", row->after_inclusive);
		jsonw_i64(json, "inclusive_change",
			  (int64_t)(row->after_inclusive - row->before_inclusive));
	}
	jsonw_str(json, "what", word_of(row));
	jsonw_array(json, "frames");
	if (c->by == VIEW_BY_STACK) {
		size_t count = view_frames(row->example.prof, row->example.stack, frames,
					   FRAMES_MAX, &stop);
		for (size_t i = 0; i < count; i++)
			put_json_frame(json, &frames[i]);
	} else {
		put_json_frame(json, &row->example.frame);
	}
	jsonw_array_end(json);
	jsonw_object_end(json);
	jsonw_line(json);
}

int out_compare_json(FILE *to, const struct prof *base, const struct prof *prof,
		     const struct comparison *comparison, const struct compare_names *names,
		     const struct out_opt *opt, struct err *err)
{
	struct view_frame *frames = calloc(FRAMES_MAX, sizeof(*frames));
	if (!frames)
		return err_set(err, -ENOMEM, "cannot write the comparison");
	struct jsonw json;
	jsonw_init(&json, to);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "version", 1);
	jsonw_str(&json, "cost", view_cost_name(comparison->cost));
	put_side(&json, "before", names->before, base);
	put_side(&json, "after", names->after, prof);
	jsonw_u64(&json, "total_before", comparison->before);
	jsonw_u64(&json, "total_after", comparison->after);
	jsonw_i64(&json, "change", (int64_t)(comparison->after - comparison->before));
	jsonw_object(&json, "rows_by_kind");
	jsonw_u64(&json, "new", comparison->appeared);
	jsonw_u64(&json, "gone", comparison->gone);
	jsonw_u64(&json, "grown", comparison->grown);
	jsonw_u64(&json, "shrunk", comparison->shrunk);
	jsonw_object_end(&json);
	jsonw_array(&json, "rows");
	jsonw_line(&json);
	for (size_t i = 0; i < comparison->count && (!opt->limit || i < opt->limit); i++)
		put_json_row(&json, comparison, &comparison->rows[i], frames);
	jsonw_array_end(&json);
	jsonw_object_end(&json);
	jsonw_line(&json);
	free(frames);
	return written(to, err);
}

/* ---- folded ---------------------------------------------------------------------------------- */

int out_compare_folded(FILE *to, const struct comparison *comparison, struct err *err)
{
	struct view_frame *frames = calloc(FRAMES_MAX, sizeof(*frames));
	CLEANUP(buf_fini) struct buf line = { 0 };
	if (!frames)
		return err_set(err, -ENOMEM, "cannot write the comparison");
	for (size_t i = 0; i < comparison->count; i++) {
		const struct compare_row *row = &comparison->rows[i];
		unsigned stop;
		size_t count = view_frames(row->example.prof, row->example.stack, frames,
					   FRAMES_MAX, &stop);
		buf_clear(&line);
		if (stop)
			buf_puts(&line, view_stop_label(stop));
		for (size_t n = count; n-- > 0;) {
			size_t from = line.len + (line.len > 0);
			if (line.len)
				buf_putc(&line, ';');
			text_frame_name(&line, &frames[n], 0);
			for (size_t at = from; at < line.len; at++)
				if (line.data[at] == ';')
					line.data[at] = ':';
		}
		fprintf(to, "%s %llu %llu\n", buf_cstr(&line), (unsigned long long)row->before,
			(unsigned long long)row->after);
	}
	free(frames);
	return written(to, err);
}
