/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_header.c - the top of the page: what ran, what was lost, the totals, the curves over time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "out/out.h"
#include "out/text_impl.h"
#include "view/ends.h"

#define LOSSES_WIDTH 100
#define LABEL_COLUMNS 13

/**
 * put_command() - the command line as it was typed, more or less: arguments and their lines joined
 * by spaces, an empty one as ''.
 */
static void put_command(struct buf *to, const struct prof_process *process)
{
	CLEANUP(buf_fini) struct buf line = { 0 };
	for (size_t i = 0; process->cmdline && i < process->cmdline_bytes; i++) {
		if (!process->cmdline[i] && i && !process->cmdline[i - 1])
			buf_puts(&line, "''");
		buf_putc(&line, strchr("\n\t", process->cmdline[i]) /* or the NUL between two */
					? ' '
					: process->cmdline[i]);
	}
	while (line.len && line.data[line.len - 1] == ' ')
		line.len--;
	if (line.len == 0 && process->exe)
		buf_puts(&line, process->exe);
	text_escape(to, line.len ? buf_cstr(&line) : "unknown program", 0);
}

static void put_start(struct buf *to, const struct prof_process *process)
{
	time_t seconds = (time_t)(process->start_realtime_ns / NS_PER_S);
	struct tm tm;
	char text[64];
	if (process->start_realtime_ns && localtime_r(&seconds, &tm) &&
	    strftime(text, sizeof(text), ", %Y-%m-%d %H:%M:%S", &tm))
		buf_puts(to, text);
}

/** put_end() - how it ended, in words. */
static void put_end(struct buf *to, const struct prof_process *process, int being_written)
{
	int status = process->exit_status;
	if (being_written) {
		buf_puts(to, " so far");
	} else if (!process->ended) {
		buf_puts(to, ", end unknown");
	} else if (status == PROF_WENT_ON) {
		buf_puts(to, ", went on");
	} else if (status >= 0 && (status & 0x7f) != 0) {
		buf_puts(to, ", killed by ");
		text_signal(to, status & 0x7f);
	} else if (status > 0) {
		buf_printf(to, ", exit status %d", status >> 8 & 0xff);
	}
	if (process->ended && !process->complete)
		buf_puts(to, ", recording incomplete");
}

static void put_what(struct page *page, const struct prof *prof, const struct prof_totals *t,
		     int being_written)
{
	const struct prof_process *process = prof_process(prof);
	CLEANUP(buf_fini) struct buf left = { 0 }, right = { 0 };
	char x[TEXT_NUMBER_MAX];
	if (process) {
		put_command(&left, process);
		if (process->pid)
			buf_printf(&right, "pid %u, ", process->pid);
	} else {
		buf_puts(&left, "unknown program");
	}
	buf_puts(&right, text_duration(x, t->runtime_ns));
	if (process) {
		put_end(&right, process, being_written);
		put_start(&right, process);
	}
	size_t right_columns = text_columns(buf_cstr(&right));
	size_t left_columns = text_columns(buf_cstr(&left));
	page_tint(page, TINT_BOLD);
	if (left_columns + 2 + right_columns <= page->width) {
		page_text(page, buf_cstr(&left), left_columns);
		page_tint(page, TINT_PLAIN);
		page_spaces(page, page->width - left_columns - right_columns);
		page_tint(page, TINT_DIM);
		buf_puts(page->to, buf_cstr(&right));
		page_tint(page, TINT_PLAIN);
		buf_putc(page->to, '\n');
		return;
	}
	page_text(page, buf_cstr(&left), page->width);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
	buf_clear(&left);
	buf_printf(&left, "  %s", buf_cstr(&right));
	text_warn(page, TINT_DIM, buf_cstr(&left));
}

#define WARN_INDENT 6

void text_warn(struct page *page, enum tint tint, const char *text)
{
	size_t room = page->width;
	CLEANUP(buf_fini) struct buf line = { 0 };
	page_tint(page, tint);
	while (text_columns(text) > room) {
		size_t fit = text_fit(text, room), at = fit;
		/* behind a comma, where that does not leave most of the line empty */
		while (at > fit / 2 && !(text[at - 1] == ' ' && text[at - 2] == ','))
			at--;
		if (at <= fit / 2)
			for (at = fit; at > 1 && text[at - 1] != ' ';)
				at--;
		if (at <= 1)
			at = fit;
		buf_clear(&line);
		buf_put(&line, text, at);
		while (line.len && line.data[line.len - 1] == ' ')
			line.len--;
		buf_puts(page->to, buf_cstr(&line));
		buf_putc(page->to, '\n');
		page_spaces(page, WARN_INDENT);
		room = page->width - WARN_INDENT;
		text += at;
	}
	buf_puts(page->to, text);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}

static void put_lost(struct page *page, const struct prof_totals *t)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++) {
		if (!t->lost[i] && !t->loss_reports[i])
			continue;
		buf_puts(&line, line.len ? ", " : "LOST: ");
		if (t->lost[i])
			buf_printf(&line, "%s event%s (%s)", text_grouped(x, t->lost[i]),
				   t->lost[i] == 1 ? "" : "s",
				   loss_reason_name(i) ? loss_reason_name(i) : "?");
		else
			buf_printf(&line, "an unknown number of events (%s)",
				   loss_reason_name(i) ? loss_reason_name(i) : "?");
	}
	if (line.len) {
		text_warn(page, TINT_RED, buf_cstr(&line));
		page_spaces(page, WARN_INDENT);
		buf_puts(page->to, "what follows is too low by those");
		if (t->lost_bytes)
			buf_printf(page->to, "; %s were asked for in them",
				   text_bytes(x, t->lost_bytes));
		buf_puts(page->to, "\n");
		if (t->lost[LOSS_NO_SLOT]) {
			page_spaces(page, WARN_INDENT);
			buf_puts(page->to, "no_slot: more threads at once than buffers; a larger "
					   "--budget has more\n");
		}
	}
	if (t->cost.uncertain) {
		buf_clear(&line);
		buf_printf(&line, "UNCERTAIN: %s blocks, %s, may have been freed by a lost free",
			   text_grouped(x, t->cost.uncertain),
			   text_bytes(y, t->cost.uncertain_bytes));
		text_warn(page, TINT_YELLOW, buf_cstr(&line));
	}
}

static void put_culled(struct page *page, const struct prof *prof, const struct prof_totals *t,
		       int no_sums)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	if (!t->culled_allocations)
		return;
	buf_printf(&line, "CULLED: %s short-lived allocations, %s, ",
		   text_grouped(x, t->culled_allocations), text_bytes(y, t->culled_bytes));
	if (prof_lacks_culled(prof))
		buf_puts(&line, "may belong here, are not told apart and left out");
	else if (no_sums)
		buf_puts(&line, "are not told apart and left out");
	else
		buf_puts(&line, "are in the sums of their stacks only");
	if (prof_peaks_lack_culled(prof) && !prof_lacks_culled(prof) && !no_sums)
		buf_puts(&line, "; peaks lack them, and a time is exact to 2 s");
	text_warn(page, prof_lacks_culled(prof) ? TINT_YELLOW : TINT_DIM, buf_cstr(&line));
}

static void put_filtered(struct page *page, const struct prof_totals *t)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	if (!t->filtered_allocations)
		return;
	buf_printf(&line, "FILTERED: %s allocations, %s, were left out of the recording on request",
		   text_grouped(x, t->filtered_allocations), text_bytes(y, t->filtered_bytes));
	if (t->filtered_inherited_allocations)
		buf_printf(&line, "; %s of them, %s, are blocks of before",
			   text_grouped(x, t->filtered_inherited_allocations),
			   text_bytes(y, t->filtered_inherited_bytes));
	text_warn(page, TINT_DIM, buf_cstr(&line));
}

static void put_sampled(struct page *page, const struct prof *prof, int events)
{
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	const struct prof_process *process = prof_process(prof);
	if (!process || !process->sample_bytes)
		return;
	buf_printf(&line, "SAMPLED: one stack per %s bytes; ",
		   text_grouped(x, process->sample_bytes));
	if (events)
		buf_puts(&line, "all other allocations are those of [not sampled]");
	else if (prof_estimates(prof))
		buf_puts(&line, "all figures below are estimates");
	else
		buf_puts(&line, "what is said of stacks and functions is an estimate, totals and "
				"threads are exact");
	text_warn(page, TINT_DIM, buf_cstr(&line));
}

/*
 * Of each reason that is more than a remark, where those stacks end and why: what to do about it
 * depends on that.
 */
static void put_ends(struct page *page, const struct prof *prof, const struct prof_totals *t)
{
	char x[TEXT_NUMBER_MAX];
	struct view_end ends[STACK_STOP_MAX];
	struct err ignored = { 0 };
	CLEANUP(buf_fini) struct buf line = { 0 };
	if (view_ends(prof, ends, &ignored) < 0)
		return;
	for (unsigned i = 1; i < STACK_STOP_MAX; i++) {
		const struct view_end *end = &ends[i];
		if (t->partial[i] <= t->cost.allocations / 1000 || !end->module || !view_end_why(i))
			continue;
		buf_clear(&line);
		buf_printf(&line, "      %s: %s %s ", stack_stop_name(i),
			   text_grouped(x, end->in_module), view_end_goes(i));
		if (end->module[0])
			text_escape(&line, end->module, 0);
		else
			buf_puts(&line, "code of no file");
		if (end->function && end->in_function * 2 > end->in_module) {
			buf_printf(&line, ", %s of them in ", text_grouped(x, end->in_function));
			text_escape(&line, end->function, 0);
		}
		buf_printf(&line, ", %s", view_end_why(i));
		text_warn(page, TINT_YELLOW, buf_cstr(&line));
	}
}

/** put_losses() - first of all what the figures below do not know. */
static void put_losses(struct page *page, const struct prof *prof, const struct prof_totals *t,
		       int selected)
{
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	put_lost(page, t);
	uint64_t partial = 0;
	for (unsigned i = 1; i < STACK_STOP_MAX; i++)
		partial += t->partial[i];
	if (partial) {
		buf_clear(&line);
		buf_printf(&line, "PARTIAL STACKS: %s allocations (%s)", text_grouped(x, partial),
			   text_percent(y, partial, t->cost.allocations));
		for (unsigned i = 1, n = 0; i < STACK_STOP_MAX; i++)
			if (t->partial[i] && stack_stop_name(i))
				buf_printf(&line, "%s%s %s", n++ ? ", " : ": ", stack_stop_name(i),
					   text_grouped(x, t->partial[i]));
		/* Below one in a thousand it is a remark, not a warning. */
		text_warn(page, partial > t->cost.allocations / 1000 ? TINT_YELLOW : TINT_DIM,
			  buf_cstr(&line));
		if (partial > t->cost.allocations / 1000)
			put_ends(page, prof, t);
	}
	const struct prof_process *process = prof_process(prof);
	if (process && process->modules_nameless) {
		buf_clear(&line);
		buf_printf(&line,
			   "NAMELESS: %s objects found no room in the table of modules; frames in "
			   "them have no name",
			   text_grouped(x, process->modules_nameless));
		text_warn(page, TINT_YELLOW, buf_cstr(&line));
	}
	if (!selected && !t->cost.allocations && !t->lost_events && !t->filtered_allocations)
		text_warn(page, TINT_YELLOW,
			  "NOTHING SEEN: no allocation reached the recording library: the program "
			  "made none, or by an allocator that it brings inside itself under "
			  "names that are stripped or not known: 'byteledger regions' tells its "
			  "memory by mapping");
	if (process && process->comment && strcmp(process->comment, PROF_ATTACHED) == 0)
		text_warn(page, TINT_DIM,
			  "ATTACHED to a process that ran: what it had allocated before is not "
			  "in it; frees of that count as foreign");
	if (process && process->comment && strcmp(process->comment, PROF_MERGED) == 0)
		text_warn(page, TINT_DIM,
			  "MERGED: what a process had not freed at its end stays in the heap");
	if (t->forked_from) {
		buf_clear(&line);
		if (process && process->pid == t->forked_from)
			buf_puts(&line, "CONTINUED from an earlier file: ");
		else
			buf_printf(&line, "FORKED from process %u: ", t->forked_from);
		if (t->inherited_known)
			buf_printf(&line, "%s of the allocations, %s, are blocks of before",
				   text_grouped(x, t->inherited_allocations),
				   text_bytes(y, t->inherited_bytes));
		else
			buf_puts(&line, "its blocks of that moment are not known; "
					"frees of them count as foreign");
		text_warn(page, t->inherited_known ? TINT_DIM : TINT_YELLOW, buf_cstr(&line));
	}
	put_culled(page, prof, t, 0);
	put_filtered(page, t);
	put_sampled(page, prof, 0);
}

int out_losses(FILE *to, const struct prof *prof, int no_sums, int events, struct err *err)
{
	CLEANUP(buf_fini) struct buf b = { 0 };
	struct page page = { .to = &b, .width = LOSSES_WIDTH, .ascii = 1 };
	struct prof_totals totals;
	prof_totals(prof, &totals);
	put_lost(&page, &totals);
	put_culled(&page, prof, &totals, no_sums);
	put_filtered(&page, &totals);
	put_sampled(&page, prof, events);
	if (buf_failed(&b))
		return err_set(err, -ENOMEM, "cannot tell what was lost");
	if (b.len)
		fwrite(b.data, 1, b.len, to);
	return 0;
}

/** struct fact - a label and its value. */
struct fact {
	const char *label;
	char value[160];
};

static void put_facts(struct page *page, const struct fact *facts, size_t count)
{
	size_t columns = page->width >= 90 ? 2 : 1, cell = page->width / columns;
	for (size_t i = 0; i < count; i++) {
		page_tint(page, TINT_DIM);
		buf_printf(page->to, "%-*s", LABEL_COLUMNS, facts[i].label);
		page_tint(page, TINT_PLAIN);
		size_t used = page_text(page, facts[i].value, cell - LABEL_COLUMNS - 1);
		if (columns == 2 && i % 2 == 0 && i + 1 < count)
			page_spaces(page, cell - LABEL_COLUMNS - used);
		else
			buf_putc(page->to, '\n');
	}
}

static void put_totals(struct page *page, const struct prof *prof, const struct prof_totals *t,
		       const struct out_opt *opt)
{
	int being_written = opt->being_written;
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	struct fact facts[6] = { { .label = "Peak heap" },   { .label = "Peak RSS" },
				 { .label = "Allocations" }, { .label = "Temporary" },
				 { .label = "Leaked" },      { .label = "Stacks" } };
	size_t room = sizeof(facts[0].value);
	snprintf(facts[0].value, room, "%s at %s", text_bytes(a, t->cost.peak_bytes),
		 text_duration(b, t->peak_time_ns));
	if (t->peak_rss_bytes)
		snprintf(facts[1].value, room, "%s", text_bytes(a, t->peak_rss_bytes));
	else
		snprintf(facts[1].value, room, "not recorded");
	/* Rates over less than a millisecond are noise. */
	text_bytes(b, t->cost.allocated_bytes);
	text_grouped(a, t->cost.allocations);
	if (t->runtime_ns >= 1000000)
		snprintf(facts[2].value, room, "%s (%s/s), %s", a,
			 text_count(c, (uint64_t)((double)t->cost.allocations * 1e9 /
						  (double)t->runtime_ns)),
			 b);
	else
		snprintf(facts[2].value, room, "%s, %s", a, b);
	snprintf(facts[3].value, room, "%s (%s)", text_grouped(a, t->cost.temporary),
		 text_percent(b, t->cost.temporary, t->cost.allocations));
	if (being_written)
		facts[4].label = "Live now";
	else if (text_went_on(prof))
		facts[4].label = "Live at end";
	if (t->cost.leaked)
		snprintf(facts[4].value, room, "%s in %s block%s",
			 text_bytes(a, t->cost.leaked_bytes), text_grouped(b, t->cost.leaked),
			 t->cost.leaked == 1 ? "" : "s");
	else
		snprintf(facts[4].value, room, "nothing");
	uint64_t suppressed = 0, suppressed_bytes = 0;
	if (opt->suppress && suppress_applied(opt->suppress))
		suppress_sum(opt->suppress, &suppressed, &suppressed_bytes);
	if (suppressed) {
		text_bytes(b, t->cost.leaked_bytes);
		snprintf(facts[4].value, room, "%s, and %s suppressed",
			 t->cost.leaked ? b : "nothing", text_bytes(a, suppressed_bytes));
	}
	int more = prof_threads_share(prof); /* the last row is of several */
	snprintf(facts[5].value, room, "%s, from %s%s thread%s", text_grouped(a, t->stacks),
		 more ? "more than " : "", text_grouped(b, t->threads - (uint32_t)more),
		 t->threads == 1 && !more ? "" : "s");
	put_facts(page, facts, ARRAY_LEN(facts));
}

/*
 * What the heap's figures leave out: a program's own mappings, an interpreter's arenas among them.
 */
static void put_mapped(struct page *page, const struct prof *prof)
{
	const struct mapped *mapped = prof_mapped(prof);
	struct mapped_sum sum[MAPPED_KINDS];
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf line = { 0 };
	for (unsigned kind = 0; mapped && kind < MAPPED_KINDS; kind++)
		mapped_sum(mapped, kind, &sum[kind]);
	if (!mapped || (sum[MAPPED_ANON].peak_bytes < MAPPED_LEAST &&
			sum[MAPPED_FILE].peak_bytes < MAPPED_LEAST))
		return;
	buf_printf(&line,
		   "Mapped       %s by the program itself at its peak, not in the heap's figures",
		   text_bytes(a, sum[MAPPED_ANON].peak_bytes));
	if (sum[MAPPED_ANON].at_heap_peak_bytes != sum[MAPPED_ANON].peak_bytes)
		buf_printf(&line, " (%s when that was largest)",
			   text_bytes(a, sum[MAPPED_ANON].at_heap_peak_bytes));
	if (sum[MAPPED_FILE].peak_bytes)
		buf_printf(&line, ", files %s", text_bytes(a, sum[MAPPED_FILE].peak_bytes));
	if (sum[MAPPED_RESERVED].peak_bytes)
		buf_printf(&line, ", reserved %s", text_bytes(b, sum[MAPPED_RESERVED].peak_bytes));
	text_warn(page, TINT_PLAIN, buf_cstr(&line));
}

/** put_live() - the totals of one moment: nothing else is known of what was live then. */
static void put_live(struct page *page, const struct prof_totals *t)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	struct fact facts[2] = { { .label = "Live" }, { .label = "Stacks" } };
	uint64_t blocks = t->cost.leaked + t->cost.uncertain;
	snprintf(facts[0].value, sizeof(facts[0].value), "%s in %s block%s",
		 text_bytes(a, t->cost.leaked_bytes + t->cost.uncertain_bytes),
		 text_grouped(b, blocks), blocks == 1 ? "" : "s");
	snprintf(facts[1].value, sizeof(facts[1].value), "%s", text_grouped(a, t->stacks));
	put_facts(page, facts, ARRAY_LEN(facts));
}

void text_header(struct page *page, const struct prof *prof, const struct prof_totals *totals,
		 const struct out_opt *opt)
{
	const char *selection = opt->selection;
	put_what(page, prof, totals, opt->being_written);
	if (selection) {
		CLEANUP(buf_fini) struct buf line = { 0 };
		buf_puts(&line, "only ");
		text_escape(&line, selection, page->ascii);
		page_text(page, buf_cstr(&line), page->width);
		buf_putc(page->to, '\n');
	}
	put_losses(page, prof, totals, selection != NULL);
	buf_putc(page->to, '\n');
	if (opt->moment)
		put_live(page, totals);
	else
		put_totals(page, prof, totals, opt);
	if (!selection)
		put_mapped(page, prof);
}

/* ---- curves ---------------------------------------------------------------------------------- */

/**
 * fill_columns() - the highest value within each column's stretch of time; a stretch without points
 * keeps the last, but with @selected nothing follows the last.
 */
static uint64_t fill_columns(const struct prof_point *points, size_t count, uint64_t runtime_ns,
			     int rss, int selected, uint64_t *columns, size_t width)
{
	uint64_t max = 0, last = 0;
	size_t next = 0;
	for (size_t i = 0; i < width; i++) {
		uint64_t end = (uint64_t)((__uint128_t)runtime_ns * (i + 1) / width);
		uint64_t high = selected && next == count ? 0 : last;
		for (; next < count && (points[next].time_ns <= end || i + 1 == width); next++) {
			uint64_t peak =
				rss ? points[next].rss_max_bytes : points[next].heap_max_bytes;
			last = rss ? points[next].rss_bytes : points[next].heap_bytes;
			if (peak > high)
				high = peak;
		}
		columns[i] = high;
		if (high > max)
			max = high;
	}
	return max;
}

static void put_curve(struct page *page, const char *label, const uint64_t *columns, size_t width,
		      uint64_t max)
{
	static const char *const blocks[] = { " ",
					      "\xe2\x96\x81",
					      "\xe2\x96\x82",
					      "\xe2\x96\x83",
					      "\xe2\x96\x84",
					      "\xe2\x96\x85",
					      "\xe2\x96\x86",
					      "\xe2\x96\x87",
					      "\xe2\x96\x88" };
	static const char levels[] = " .:-=+*%#";
	unsigned rows = page->ascii ? 1 : 2;
	char number[TEXT_NUMBER_MAX];
	for (unsigned row = rows; row-- > 0;) {
		page_tint(page, TINT_DIM);
		buf_printf(page->to, "%-5s", row == 0 ? label : "");
		page_tint(page, TINT_BAR);
		for (size_t i = 0; i < width; i++) {
			unsigned level =
				(unsigned)((double)columns[i] / (double)max * 8 * rows + 0.5);
			if (columns[i] && level == 0)
				level = 1;
			level = level > row * 8 ? level - row * 8 : 0;
			if (level > 8)
				level = 8;
			if (page->ascii)
				buf_putc(page->to, levels[level]);
			else
				buf_puts(page->to, blocks[level]);
		}
		page_tint(page, TINT_PLAIN);
		if (row + 1 == rows)
			buf_printf(page->to, " %s", text_bytes(number, max));
		/* blanks at the end of a line are nobody's friends */
		while (page->to->len && page->to->data[page->to->len - 1] == ' ')
			page->to->len--;
		buf_putc(page->to, '\n');
	}
}

void text_curves(struct page *page, const struct prof *prof, const struct prof_totals *totals,
		 int selected)
{
	size_t count, width = page->width > 30 ? page->width - 16 : 14;
	const struct prof_point *points = prof_timeline(prof, &count);
	uint64_t runtime = totals->runtime_ns;
	if (count < 4 || runtime == 0)
		return;
	uint64_t *columns = calloc(width, sizeof(*columns));
	if (!columns) {
		page->to->failed = 1;
		return;
	}
	char x[TEXT_NUMBER_MAX];
	buf_putc(page->to, '\n');
	uint64_t max = fill_columns(points, count, runtime, 1, selected, columns, width);
	if (max)
		put_curve(page, "RSS", columns, width, max);
	max = fill_columns(points, count, runtime, 0, selected, columns, width);
	if (max)
		put_curve(page, "heap", columns, width, max);
	free(columns);
	/* The axis: its ends, and where the peak stands. */
	size_t at = (size_t)((__uint128_t)totals->peak_time_ns * (width - 1) / runtime);
	const char *end = text_duration(x, runtime);
	size_t end_columns = text_columns(end), mark = 6;
	page_tint(page, TINT_DIM);
	buf_puts(page->to, "     0");
	if (at < 3)
		at = 3;
	if (totals->cost.peak_bytes == 0) {
		page_spaces(page, width > end_columns ? width - end_columns : 1);
	} else if (at + mark + end_columns < width) {
		page_spaces(page, at - 1);
		buf_puts(page->to, page->ascii ? "^ peak" : "\xe2\x96\xb2 peak");
		page_spaces(page, width - at - mark - end_columns);
	} else if (at >=
		   /* near the end: the word stands before the mark, the time on the right */
		   mark + 2) {
		page_spaces(page, at - mark);
		buf_puts(page->to, page->ascii ? "peak ^" : "peak \xe2\x96\xb2");
		page_spaces(page, width - at + 1);
	}
	buf_puts(page->to, end);
	page_tint(page, TINT_PLAIN);
	buf_putc(page->to, '\n');
}
