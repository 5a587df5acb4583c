/* SPDX-License-Identifier: Apache-2.0 */
#include "out/family.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/jsonw.h"
#include "out/text_impl.h"
#include "proc/proc.h"

#define WIDTH_DEFAULT 100
#define WIDTH_MIN 60
#define WIDTH_MAX 240
#define RSS_COLUMNS 10
#define COUNT_COLUMNS 9
#define TIME_COLUMNS 10
#define INDENT_MOST 12
#define COMMAND_BYTES 400

struct sums {
	uint64_t allocations, allocated_bytes, leaked, leaked_bytes, lost, end_ns, begin_ns;
	size_t troubled, going_on, killed, unrecorded;
};

static void add_up(const struct family *family, struct sums *s)
{
	*s = (struct sums){ .begin_ns = UINT64_MAX };
	for (size_t i = 0; i < family->count; i++) {
		const struct family_member *m = &family->members[i];
		const struct cost *cost = &m->totals.cost;
		s->troubled += m->trouble != NULL;
		s->unrecorded += m->unrecorded + (m->became != NULL);
		s->going_on += m->goes_on;
		s->killed += m->exit_status >= 0 && WIFSIGNALED(m->exit_status);
		sum_add(&s->allocations, cost->allocations);
		sum_add(&s->allocated_bytes, cost->allocated_bytes);
		if (!m->goes_on) {
			sum_add(&s->leaked, cost->leaked);
			sum_add(&s->leaked_bytes, cost->leaked_bytes);
		}
		sum_add(&s->lost, m->totals.lost_events);
		if (m->start_realtime_ns < s->begin_ns)
			s->begin_ns = m->start_realtime_ns;
		uint64_t end = m->start_realtime_ns;
		sum_add(&end, m->runtime_ns);
		if (end > s->end_ns)
			s->end_ns = end;
	}
}

/* ---- text ------------------------------------------------------------------------------------ */

/* In @columns: a name without room for all of it keeps its end, which tells gcc from as. */
static void put_command(struct page *page, const struct family_member *m, size_t columns)
{
	CLEANUP(buf_fini) struct buf text = { 0 }, shown = { 0 };
	const char *slash = m->exe ? strrchr(m->exe, '/') : NULL;
	const char *name = slash ? slash + 1 : m->exe ? m->exe : "?";
	text_escape(&shown, name, page->ascii);
	if (text_columns(buf_cstr(&shown)) > columns) {
		page_middle(page, buf_cstr(&shown), columns);
		return;
	}
	size_t at = m->cmdline ? strnlen(m->cmdline, m->cmdline_bytes) : 0;
	buf_puts(&text, name);
	for (at++; m->cmdline && at < m->cmdline_bytes && text.len < COMMAND_BYTES;) {
		size_t len = strnlen(m->cmdline + at, m->cmdline_bytes - at);
		buf_putc(&text, ' ');
		buf_put(&text, len ? m->cmdline + at : "''", len ? len : 2);
		at += len + 1;
	}
	buf_clear(&shown);
	text_escape(&shown, buf_cstr(&text), page->ascii);
	page_text(page, buf_cstr(&shown), columns);
}

static void put_state(struct buf *to, const struct family_member *m, int ascii)
{
	if (m->trouble)
		buf_puts(to, " (cannot be read)");
	else if (m->goes_on)
		buf_puts(to, " (goes on)");
	else if (m->exit_status >= 0 && WIFSIGNALED(m->exit_status)) {
		buf_puts(to, " (");
		text_signal(to, WTERMSIG(m->exit_status));
		buf_puts(to, ")");
	} else if (m->ended && !m->complete)
		buf_puts(to, " (ended early)");
	if (m->is_raw)
		buf_puts(to, " (raw file)");
	if (m->became) {
		const char *slash = strrchr(m->became, '/');
		CLEANUP(buf_fini) struct buf name = { 0 };
		text_escape(&name, slash ? slash + 1 : m->became, ascii);
		buf_printf(to, " (became %s, not recorded)",
			   *m->became ? buf_cstr(&name) : "another");
	}
	if (m->unrecorded)
		buf_printf(to, " (%u child%s not recorded)", m->unrecorded,
			   m->unrecorded == 1 ? "" : "ren");
	if (m->totals.lost_events)
		buf_puts(to, " LOST events");
}

static void put_member(struct page *page, const struct family_member *m)
{
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	size_t indent = 2 * (size_t)m->depth;
	const struct cost *cost = &m->totals.cost;
	int known = !m->trouble;
	page_right(page, known ? text_bytes(x, cost->peak_bytes) : "?", VALUE_COLUMNS);
	page_right(page,
		   known && m->totals.peak_rss_bytes ? text_bytes(x, m->totals.peak_rss_bytes)
						     : "-",
		   RSS_COLUMNS);
	page_right(page, known ? text_count(x, cost->allocations) : "?", COUNT_COLUMNS);
	page_right(page,
		   !known       ? "?"
		   : m->goes_on ? "-"
				: text_bytes(x, cost->leaked_bytes),
		   RSS_COLUMNS);
	page_tint(page, TINT_DIM);
	page_right(page, text_duration(x, m->runtime_ns), TIME_COLUMNS);
	page_tint(page, TINT_PLAIN);
	if (indent > INDENT_MOST)
		buf_printf(&line, "%*s%u: ", INDENT_MOST, "", m->depth);
	else
		buf_printf(&line, "%*s", (int)indent, "");
	buf_printf(&line, "%u ", m->pid);
	CLEANUP(buf_fini) struct buf state = { 0 };
	put_state(&state, m, page->ascii);
	size_t used = VALUE_COLUMNS + 2 * RSS_COLUMNS + COUNT_COLUMNS + TIME_COLUMNS + 2;
	size_t left = page->width > used + 8 ? page->width - used : 8, tail = state.len;
	page_spaces(page, 2);
	left -= left > tail + 8 ? tail : 0;
	put_command(page, m, left - page_text(page, buf_cstr(&line), left));
	if (tail) {
		page_tint(page, TINT_YELLOW);
		buf_puts(page->to, buf_cstr(&state));
		page_tint(page, TINT_PLAIN);
	}
	buf_putc(page->to, '\n');
}

struct ranked {
	uint64_t bytes;
	uint32_t at;
};

static int by_bytes(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* The @limit members of the largest peaks, and those that lead to them; NULL without memory. */
static uint8_t *choose(const struct family *family, size_t limit)
{
	uint8_t *chosen = calloc(family->count, 1);
	struct ranked *ranked = calloc(family->count, sizeof(*ranked));
	if (chosen && ranked) {
		for (size_t i = 0; i < family->count; i++)
			ranked[i] = (struct ranked){ family->members[i].totals.cost.peak_bytes,
						     (uint32_t)i };
		qsort(ranked, family->count, sizeof(*ranked), by_bytes);
		for (size_t i = 0; i < family->count && i < limit; i++)
			for (uint32_t at = ranked[i].at; at != FAMILY_NOBODY && !chosen[at];
			     at = family->members[at].parent)
				chosen[at] = 1;
	} else {
		free(chosen);
		chosen = NULL;
	}
	free(ranked);
	return chosen;
}

static void put_heading(struct page *page, const struct family *family, const struct sums *s)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	buf_printf(&line, "%s process%s, %s", text_grouped(x, family->count),
		   family->count == 1 ? "" : "es", text_duration(y, s->end_ns - s->begin_ns));
	text_title(page, "Family", buf_cstr(&line));
	if (s->lost || s->troubled) {
		CLEANUP(buf_fini) struct buf warn = { 0 };
		if (s->lost)
			buf_printf(&warn, "LOST %s events", text_grouped(x, s->lost));
		if (s->troubled)
			buf_printf(&warn, "%s%zu recording%s could not be read",
				   s->lost ? ", " : "", s->troubled, s->troubled == 1 ? "" : "s");
		text_warn(page, TINT_RED, buf_cstr(&warn));
	}
	line.len = 0;
	buf_printf(&line, "%s allocations, %s in all", text_count(x, s->allocations),
		   text_bytes(y, s->allocated_bytes));
	buf_printf(&line, "; leaked %s", text_bytes(x, s->leaked_bytes));
	if (s->going_on)
		buf_printf(&line, "; %zu still at it", s->going_on);
	if (s->unrecorded)
		buf_printf(&line, "; not recorded: %zu", s->unrecorded);
	buf_puts(page->to, "  ");
	page_text(page, buf_cstr(&line), page->width - 2);
	buf_puts(page->to, "\n\n");
	page_tint(page, TINT_DIM);
	page_right(page, "peak", VALUE_COLUMNS);
	page_right(page, "RSS", RSS_COLUMNS);
	page_right(page, "calls", COUNT_COLUMNS);
	page_right(page, "leaked", RSS_COLUMNS);
	page_right(page, "time", TIME_COLUMNS);
	buf_puts(page->to, "  process");
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}

int out_family_text(FILE *to, const struct family *family, const struct out_opt *opt,
		    struct err *err)
{
	CLEANUP(buf_fini) struct buf b = { 0 };
	size_t width = opt->width > 0 ? (size_t)opt->width : WIDTH_DEFAULT, left_out = 0;
	struct page page = { .to = &b,
			     .width = width < WIDTH_MIN   ? WIDTH_MIN
				      : width > WIDTH_MAX ? WIDTH_MAX
							  : width,
			     .colour = opt->colour,
			     .ascii = opt->ascii };
	struct sums sums;
	uint8_t *chosen = opt->limit ? choose(family, opt->limit) : NULL;
	if (opt->limit && !chosen)
		return err_set(err, -ENOMEM, "cannot write the family");
	add_up(family, &sums);
	put_heading(&page, family, &sums);
	for (size_t i = 0; i < family->count; i++) {
		if (!chosen || chosen[i])
			put_member(&page, &family->members[i]);
		else
			left_out++;
	}
	free(chosen);
	if (left_out)
		buf_printf(&b, "  and %zu more, with smaller peaks\n", left_out);
	if (buf_failed(&b))
		return err_set(err, -ENOMEM, "cannot write the family");
	errno = 0;
	if (fwrite(b.data, 1, b.len, to) != b.len || fflush(to) != 0)
		return err_set(err, errno ? -errno : -EIO, "cannot write the family");
	return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_cmdline(struct jsonw *json, const struct family_member *m)
{
	jsonw_array(json, "cmdline");
	for (size_t at = 0; at < m->cmdline_bytes;) {
		size_t len = strnlen(m->cmdline + at, m->cmdline_bytes - at);
		jsonw_strn(json, NULL, m->cmdline + at, len);
		at += len + 1;
	}
	jsonw_array_end(json);
}

static void put_figures(struct jsonw *json, const struct prof_totals *t, int goes_on)
{
	jsonw_u64(json, "allocations", t->cost.allocations);
	jsonw_u64(json, "allocated_bytes", t->cost.allocated_bytes);
	jsonw_u64(json, "frees", t->cost.frees);
	jsonw_u64(json, "temporary_allocations", t->cost.temporary);
	jsonw_u64(json, "leaked_allocations", goes_on ? 0 : t->cost.leaked);
	jsonw_u64(json, "leaked_bytes", goes_on ? 0 : t->cost.leaked_bytes);
	jsonw_u64(json, "peak_bytes", t->cost.peak_bytes);
	jsonw_u64(json, "peak_rss_bytes", t->peak_rss_bytes);
	jsonw_u64(json, "lost_events", t->lost_events);
}

static void put_json(struct jsonw *json, const struct family_member *m)
{
	jsonw_object(json, NULL);
	jsonw_u64(json, "pid", m->pid);
	/* who it was, whether recorded or not; and where that one stands in this list */
	if (m->parent_pid)
		jsonw_u64(json, "parent_pid", m->parent_pid);
	if (m->parent == FAMILY_NOBODY)
		jsonw_null(json, "parent");
	else
		jsonw_u64(json, "parent", m->parent);
	jsonw_u64(json, "depth", m->depth);
	jsonw_str(json, "exe", m->exe);
	put_cmdline(json, m);
	jsonw_str(json, "file", m->path);
	jsonw_u64(json, "files", m->files);
	jsonw_u64(json, "start_realtime_ns", m->start_realtime_ns);
	jsonw_u64(json, "runtime_ns", m->runtime_ns);
	jsonw_bool(json, "complete", m->complete);
	jsonw_bool(json, "being_written", m->goes_on);
	if (m->ended && m->exit_status >= 0)
		jsonw_i64(json, "exit_status", proc_exit_status(m->exit_status));
	if (m->is_raw)
		jsonw_bool(json, "raw", 1);
	if (m->became)
		jsonw_str(json, "became", m->became);
	if (m->unrecorded)
		jsonw_u64(json, "unrecorded_children", m->unrecorded);
	if (m->trouble)
		jsonw_str(json, "trouble", m->trouble);
	put_figures(json, &m->totals, m->goes_on);
	jsonw_object_end(json);
	jsonw_line(json);
}

int out_family_json(FILE *to, const struct family *family, struct err *err)
{
	struct jsonw json;
	struct sums sums;
	add_up(family, &sums);
	jsonw_init(&json, to);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "version", 1);
	jsonw_str(&json, "folder", family->folder);
	jsonw_u64(&json, "others", family->others);
	jsonw_object(&json, "totals");
	jsonw_u64(&json, "processes", family->count);
	jsonw_u64(&json, "allocations", sums.allocations);
	jsonw_u64(&json, "allocated_bytes", sums.allocated_bytes);
	jsonw_u64(&json, "leaked_allocations", sums.leaked);
	jsonw_u64(&json, "leaked_bytes", sums.leaked_bytes);
	jsonw_u64(&json, "lost_events", sums.lost);
	jsonw_u64(&json, "runtime_ns", sums.end_ns - sums.begin_ns);
	jsonw_object_end(&json);
	jsonw_array(&json, "processes");
	for (size_t i = 0; i < family->count; i++)
		put_json(&json, &family->members[i]);
	jsonw_array_end(&json);
	jsonw_object_end(&json);
	jsonw_line(&json);
	errno = 0;
	if (fflush(to) != 0 || ferror(to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the family");
	return 0;
}
