/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_text.c - what a sampler found, for people: each stack with its histogram of sizes, in the
 * layout that jeprofl's users know.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "out/name.h"
#include "out/sample_impl.h"
#include "out/text_impl.h"
#include "view/view.h"

#define NAME_LEAST 16 /* columns of a function's name, whatever else the line has */

#define RULE_COLUMNS 80
#define BAR_MAX 50

static void rule(struct buf *to, char what)
{
	for (int i = 0; i < RULE_COLUMNS; i++)
		buf_putc(to, what);
	buf_putc(to, '\n');
}

/* "512 B", "1.0 kiB": as the layout has them. */
static void put_size(char to[32], double bytes)
{
	static const char *const units[] = { "kiB", "MiB", "GiB", "TiB", "PiB" };
	if (bytes < 1024) {
		snprintf(to, 32, "%.0f B", bytes);
		return;
	}
	unsigned unit = 0;
	for (bytes /= 1024; bytes >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
		bytes /= 1024;
	snprintf(to, 32, "%.1f %s", bytes, units[unit]);
}

#define BEFORE_BARS 39

void sample_histogram(struct buf *to, const double *size, double bytes, double count, size_t width)
{
	double longest = width ? fmin(BAR_MAX, fmax((double)width - BEFORE_BARS, 1)) : BAR_MAX;
	double all = 0, most = 0;
	char label[32];
	for (unsigned i = 0; i < SAMPLES_SIZES; i++) {
		all += size[i];
		most = size[i] > most ? size[i] : most;
	}
	buf_printf(to, "%-10s | %-9s | %-10s | Distribution\n", "Size", "Count", "Percentage");
	buf_puts(to, "-----------+-----------+------------+-------------\n");
	for (unsigned i = 0; i < SAMPLES_SIZES; i++) {
		if (size[i] <= 0)
			continue;
		put_size(label, ldexp(1, (int)i));
		buf_printf(to, "%-10s | %-9" PRIu64 " | %9.2f%% | ", label, sample_whole(size[i]),
			   100 * size[i] / all);
		for (int bar = (int)lround(longest * size[i] / most); bar > 0; bar--)
			buf_putc(to, '#');
		buf_putc(to, '\n');
	}
	put_size(label, bytes);
	buf_printf(to, "Total allocations: %s in %" PRIu64 " allocations\n", label,
		   sample_whole(count));
}

/* Where stays whole in @width columns (0: as many as it takes): the function's name gives way. */
static void put_symbol(struct buf *to, const struct symbol *symbol, const char *module,
		       size_t width)
{
	CLEANUP(buf_fini) struct buf where = { 0 };
	const char *function = symbol->function ? symbol->function : "?";
	if (module && module[0]) {
		buf_puts(&where, " (");
		text_escape(&where, module, 0);
		buf_putc(&where, ')');
	}
	if (symbol->file) {
		buf_putc(&where, ' ');
		text_escape(&where, symbol->file, 0);
		if (symbol->line)
			buf_printf(&where, ":%u", symbol->line);
	}
	if (symbol->inlined)
		buf_puts(&where, " (inlined)");
	size_t used = text_columns(buf_cstr(to)) + text_columns(buf_cstr(&where));
	if (width)
		text_name_within(to, function,
				 width > used + NAME_LEAST ? width - used : NAME_LEAST, 0);
	else
		text_escape(to, function, 0);
	buf_puts(to, buf_cstr(&where));
}

/* One frame with what is inlined there; wrappers of the allocator at the inner end are left out. */
static void put_frame(struct buf *to, const struct prof *prof, const struct sample_frame *frame,
		      uint32_t number, int innermost, size_t width)
{
	struct frame_id row = prof_frame_row(prof, (struct frame_id){ number });
	const struct prof_frame *f = prof_frame(prof, row);
	const char *module = f ? prof_module(prof, f->module)->name : NULL;
	CLEANUP(buf_fini) struct buf line = { 0 };
	for (uint32_t i = 0; i < (f && f->symbol_count ? f->symbol_count : 1); i++) {
		buf_clear(&line);
		buf_printf(&line, "0x%012" PRIx64 " - ", frame->addr);
		if (f && i < f->symbol_count) {
			if (innermost && view_is_wrapper(f->symbols[i].function))
				continue;
			put_symbol(&line, &f->symbols[i], module, width);
		} else if (module && module[0]) {
			text_escape(&line, module, 0);
			buf_printf(&line, "+0x%" PRIx64, frame->offset);
		} else {
			buf_puts(&line, "[code of no file]");
		}
		size_t fits = width ? text_fit(buf_cstr(&line), width) : line.len;
		buf_put(to, buf_cstr(&line), fits);
		buf_putc(to, '\n');
	}
}

void sample_frames(struct buf *to, const struct samples *s, const struct prof *prof,
		   const struct sample_row *row, size_t width)
{
	size_t before = to->len;
	for (uint16_t i = 1; i < row->frame_count; i++) {
		uint32_t number = s->frame_list[row->frames + i];
		/* operator new and its like stand between the allocator and who asked */
		put_frame(to, prof, &s->frames[number], number, to->len == before, width);
	}
	if (row->stop && view_stop_label(row->stop))
		buf_printf(to, "%s\n", view_stop_label(row->stop));
	else if (to->len == before)
		buf_puts(to, "[no stack]\n");
	if (to->len > before && to->data[to->len - 1] == '\n')
		to->len--;
}

static void put_error(struct buf *to, double value, double error)
{
	/* 95 % of such intervals hold the true value */
	if (value > 0 && error > value)
		buf_puts(to, " or more");
	else if (value > 0 && error > 0)
		buf_printf(to, " +-%.0f %%", 100 * 1.96 * error / value);
}

static void put_bytes_per_time(struct buf *to, double per_second)
{
	char number[TEXT_NUMBER_MAX];
	if (per_second * 60 >= 1024)
		buf_printf(to, "%s/min", text_bytes(number, sample_whole(per_second * 60)));
	else
		buf_printf(to, "%s/h", text_bytes(number, sample_whole(per_second * 3600)));
}

static void put_live(struct buf *to, const struct samples *s, const struct sample_row *row)
{
	char number[TEXT_NUMBER_MAX], count[TEXT_NUMBER_MAX], age[TEXT_NUMBER_MAX];
	const struct sample_figures *f = &row->now;
	buf_printf(to, "live: %s in %s allocations",
		   text_bytes(number, sample_whole(f->live_bytes)),
		   text_count(count, sample_whole(f->live_count)));
	put_error(to, f->live_bytes, f->live_error_bytes);
	if (f->live_bytes > 0)
		buf_printf(to, ", oldest %s, median age %s",
			   text_duration(age, row->ages.oldest_ns),
			   text_duration(count, row->ages.median_ns));
	buf_putc(to, '\n');
	if (row->past_count > 1)
		buf_printf(
			to, "      %s more than at first, %+.1f KiB since the last reading\n",
			text_bytes(number, sample_whole(f->live_bytes - row->past[0].live_bytes)),
			(f->live_bytes -
			 row->past[row->past_count - (row->past_count > 1 ? 2 : 1)].live_bytes) /
				1024);
	if (row->verdict == SAMPLE_UNKNOWN)
		return;
	buf_printf(to, "      %s", sample_verdict_name(row->verdict));
	if (row->verdict == SAMPLE_GROWING) {
		buf_puts(to, ": ");
		put_bytes_per_time(to, row->growth_bytes_per_s);
		buf_puts(to, " +- ");
		put_bytes_per_time(to, row->growth_error);
	}
	buf_putc(to, '\n');
	(void)s;
}

static void put_stack(struct buf *to, const struct samples *s, const struct prof *prof,
		      const struct sample_row *row, const struct out_sample_opt *opt)
{
	const struct sample_figures *f = &row->now;
	rule(to, '*');
	if (s->process_count > 1)
		buf_printf(to, "process %u\n", row->pid);
	sample_frames(to, s, prof, row, opt->width > 0 ? (size_t)opt->width : 0);
	buf_putc(to, '\n');
	rule(to, '-');
	sample_histogram(to, f->size, f->bytes, f->count, opt->width > 0 ? (size_t)opt->width : 0);
	if (f->error_bytes > 0) {
		buf_printf(to, "estimated from %" PRIu64 " samples,", f->taken);
		put_error(to, f->bytes, f->error_bytes);
		buf_puts(to, " of bytes\n");
	}
	if (s->tracked)
		put_live(to, s, row);
	buf_putc(to, '\n');
}

/* In memleak's layout, and how old each is. */
static void put_blocks(struct buf *to, const struct samples *s, const struct sample_row *row)
{
	char age[TEXT_NUMBER_MAX];
	for (uint32_t i = 0; i < row->block_count; i++) {
		const struct sample_block *b = &row->blocks[i];
		buf_printf(to, "\taddr = %" PRIx64 " size = %" PRIu64 ", age %s", b->addr, b->bytes,
			   text_duration(age, s->now_ns > b->time_ns ? s->now_ns - b->time_ns : 0));
		if (b->stands_for > 1.05)
			buf_printf(to, ", stands for %.1f", b->stands_for);
		buf_putc(to, '\n');
	}
	if (row->blocks_more)
		buf_printf(to, "\t%u more\n", row->blocks_more);
}

static void put_outstanding(struct buf *to, const struct samples *s, const struct prof *prof,
			    const struct sample_row *row, const struct out_sample_opt *opt)
{
	char number[TEXT_NUMBER_MAX];
	const struct sample_figures *f = &row->now;
	buf_printf(to, "%s in %" PRIu64 " allocations",
		   text_bytes(number, sample_whole(row->ages.older_bytes)),
		   sample_whole(row->ages.older_count));
	put_error(to, f->live_bytes, f->live_error_bytes);
	buf_puts(to, " from stack");
	if (row->verdict != SAMPLE_UNKNOWN) {
		buf_printf(to, ", %s", sample_verdict_name(row->verdict));
		if (row->verdict == SAMPLE_GROWING) {
			buf_puts(to, " by ");
			put_bytes_per_time(to, row->growth_bytes_per_s);
			buf_puts(to, " +- ");
			put_bytes_per_time(to, row->growth_error);
		}
	}
	buf_printf(to, ", oldest %s\n", text_duration(number, row->ages.oldest_ns));
	if (opt->show_allocs)
		put_blocks(to, s, row);
	sample_frames(to, s, prof, row, opt->width > 0 ? (size_t)opt->width : 0);
	buf_puts(to, "\n\n");
}

/* As many of these frames behind each other as a line of @width columns has room for (0: all). */
static void put_callers(struct buf *to, const struct view_frame *frames, size_t n, size_t width,
			int ascii)
{
	const char *more = ascii ? " < ..." : " < \u2026";
	CLEANUP(buf_fini) struct buf line = { 0 };
	buf_puts(&line, buf_cstr(to));
	size_t begun = line.len;
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_fini) struct buf name = { 0 };
		buf_puts(&name, i ? " < " : "");
		text_frame_name(&name, &frames[i], ascii);
		size_t behind = i + 1 < n ? text_columns(more) : 0;
		if (i && width &&
		    text_columns(buf_cstr(&line)) + text_columns(buf_cstr(&name)) + behind >
			    width) {
			buf_puts(&line, more);
			break;
		}
		buf_puts(&line, buf_cstr(&name));
	}
	buf_puts(to, buf_cstr(&line) + begun);
}

/* "  1.2 MiB  35.1 %  12.3 k  growing    innermost <- next <- ..." */
static void put_line(struct buf *to, const struct prof *prof, const struct sample_row *row,
		     const struct out_sample_opt *opt, double whole)
{
	char bytes[TEXT_NUMBER_MAX], count[TEXT_NUMBER_MAX], share[TEXT_NUMBER_MAX];
	struct view_frame frames[16];
	const struct sample_figures *f = &row->now;
	double amount = opt->has_live ? f->live_bytes : f->bytes;
	const char *verdict = sample_verdict_name(row->verdict);
	size_t n = view_frames(prof, row->prof_stack, frames, ARRAY_LEN(frames), NULL);
	CLEANUP(buf_fini) struct buf line = { 0 };
	buf_printf(&line, "%10s %7s %9s  ", text_bytes(bytes, sample_whole(amount)),
		   text_percent(share, sample_whole(amount), sample_whole(whole)),
		   text_count(count, sample_whole(opt->has_live ? f->live_count : f->count)));
	if (opt->has_live)
		buf_printf(&line, "%-9s  ", verdict ? verdict : "");
	put_callers(&line, frames, n, opt->width > 0 ? (size_t)opt->width : 0, opt->ascii);
	buf_printf(to, "%s\n", buf_cstr(&line));
}

#define TEXT_COLUMNS 79

/* A sentence, in lines that a terminal of 80 columns has room for. */
static void put_wrapped(struct buf *to, const char *text)
{
	size_t used = 0;
	while (*text) {
		size_t word = strcspn(text, " ");
		if (used && used + 1 + word > TEXT_COLUMNS) {
			buf_puts(to, "\n  ");
			used = 2;
		} else if (used) {
			buf_putc(to, ' ');
			used++;
		}
		buf_printf(to, "%.*s", (int)word, text);
		used += word;
		text += word + (text[word] == ' ');
	}
	buf_putc(to, '\n');
}

/* Of what is shown without a stack it is said how much that is, and why. */
static void put_partial(struct buf *to, const struct samples *s)
{
	struct sample_partial p;
	char count[TEXT_NUMBER_MAX];
	const char *before = ": ";
	sample_partial(s, 0, &p);
	if (!p.no_caller)
		return;
	buf_printf(to, "callers unknown: %s samples", text_count(count, p.no_caller));
	for (unsigned i = 0; i < STACK_STOP_MAX; i++) {
		if (!p.no_caller_by[i] || !stack_stop_name(i))
			continue;
		buf_printf(to, "%s%s", before, stack_stop_name(i));
		before = ", ";
	}
	buf_putc(to, '\n');
}

static void put_head(struct buf *to, const struct samples *s, size_t stacks)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	struct sample_figures sums;
	uint64_t lost = 0;
	for (unsigned i = 0; i < s->lost_count; i++)
		lost += s->lost[i].count;
	for (unsigned i = 0; lost && i < s->lost_count; i++)
		if (s->lost[i].count)
			buf_printf(to, "lost: %" PRIu64 " samples, %s\n", s->lost[i].count,
				   s->lost[i].reason);
	put_partial(to, s);
	sample_sums(s, 0, &sums);
	buf_printf(to, "%s in %s allocations", text_bytes(a, sample_whole(sums.bytes)),
		   text_count(b, sample_whole(sums.count)));
	put_error(to, sums.bytes, sums.error_bytes);
	if (sums.taken && sums.error_count > sums.count)
		buf_printf(to, " (up to %s)",
			   text_count(c, sample_whole(sums.count + 1.96 * sums.error_count)));
	if (!sums.taken && sums.error_count > 0) /* windows may have missed some */
		buf_printf(to, ", or up to %s",
			   text_count(c, sample_whole(1.96 * sums.error_count)));
	buf_printf(to, " in %s", text_duration(c, s->now_ns - s->start_ns));
	if (s->tracked)
		buf_printf(to, "; live: %s in %s", text_bytes(a, sample_whole(sums.live_bytes)),
			   text_count(b, sample_whole(sums.live_count)));
	buf_putc(to, '\n');
	if (s->sample_every == 1 || (!s->sample_every && s->sample_bytes == 1))
		buf_puts(to, "every call is counted");
	else if (s->sample_every)
		buf_printf(to, "estimated from %" PRIu64 " samples, one call in %" PRIu64,
			   sums.taken, s->sample_every);
	else
		buf_printf(to, "estimated from %" PRIu64 " samples, one in %s", sums.taken,
			   text_bytes(a, s->sample_bytes));
	buf_putc(to, '\n');
	CLEANUP(buf_fini) struct buf cost = { 0 };
	buf_printf(&cost, "cost: %s calls/s at %.0f ns = %.2f %% of a CPU",
		   text_count(a, sample_whole(s->hits_per_second)), s->ns_per_hit,
		   100 * s->cpu_fraction);
	if (s->budget > 0)
		buf_printf(&cost, " (budget %.3g %%%s%s)", 100 * s->budget,
			   s->given_ns > 0 ? ", beside a first " : "",
			   s->given_ns > 0 ? text_duration(a, (uint64_t)s->given_ns) : "");
	buf_printf(&cost, "; %s of kernel memory", text_bytes(b, s->kernel_bytes));
	put_wrapped(to, buf_cstr(&cost));
	if (s->governed[0])
		put_wrapped(to, s->governed);
	buf_printf(to, "total stack traces: %zu\n", stacks);
}

static void put_functions(struct buf *to, const struct samples *s)
{
	char count[TEXT_NUMBER_MAX];
	uint8_t shared[SAMPLE_NUMBERS];
	sample_shared(s, shared);
	for (size_t p = 0; p < s->process_count; p++) {
		const struct sample_process *process = &s->processes[p];
		unsigned idle = 0, called = 0;
		if (process->pid)
			buf_printf(to, "process %u, ", process->pid);
		text_escape(to, process->exe, 0);
		buf_printf(to, ", tier %s%s\n", process->tier, process->ended ? ", ended" : "");
		for (size_t i = 0; i < s->function_count; i++) {
			const struct sample_function *f = &s->functions[i];
			const char *base = strrchr(f->module, '/');
			if (f->pid && f->pid != process->pid)
				continue;
			idle += !f->calls;
			called += f->calls > 0;
			if (!f->calls)
				continue;
			buf_puts(to, "  ");
			text_escape(to, f->name, 0);
			buf_puts(to, " (");
			text_escape(to, base ? base + 1 : f->module, 0);
			if (process->pid)
				buf_printf(to, "+%" PRIu64, f->site);
			buf_printf(to, ", %s): %s calls%s\n", f->kind, text_count(count, f->calls),
				   shared[f->number % SAMPLE_NUMBERS] ? " of all" : "");
		}
		if (idle && called)
			buf_printf(to, "  %u more function%s not called\n", idle,
				   idle == 1 ? " was" : "s were");
		else if (idle)
			buf_printf(to, "  none of %u functions was called\n", idle);
	}
}

static void put_rest(struct buf *to, const struct sample_pick *pick)
{
	char number[TEXT_NUMBER_MAX];
	if (pick->beyond)
		buf_printf(to, "%zu more stack%s (--top 0 shows all)\n", pick->beyond,
			   pick->beyond == 1 ? "" : "s");
	if (pick->few)
		buf_printf(to,
			   "%zu more stack%s, %s, of too few samples to be sure of (--few shows "
			   "%s)\n",
			   pick->few, pick->few == 1 ? "" : "s",
			   text_bytes(number, sample_whole(pick->few_bytes)),
			   pick->few == 1 ? "it" : "them");
	if (pick->young)
		buf_printf(to, "%zu more stack%s, of younger blocks alone (--older 0 shows %s)\n",
			   pick->young, pick->young == 1 ? "" : "s",
			   pick->young == 1 ? "it" : "them");
	if (pick->skipped)
		buf_printf(to, "%zu stack%s below --skip-size or --skip-count\n", pick->skipped,
			   pick->skipped == 1 ? "" : "s");
}

int out_sample_text(FILE *to, const struct samples *s, const struct prof *prof,
		    const struct out_sample_opt *opt, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct sample_pick pick;
	int rc = sample_pick(s, prof, 0, opt, &pick, err);
	if (rc < 0)
		return rc;
	if (opt->screen) {
		struct sample_figures sums;
		sample_sums(s, 0, &sums);
		put_head(&text, s, pick.count + pick.beyond + pick.few + pick.skipped + pick.young);
		buf_putc(&text, '\n');
		for (size_t i = 0; i < pick.count; i++)
			put_line(&text, prof, pick.rows[i], opt,
				 opt->has_live ? sums.live_bytes : sums.bytes);
	} else if (opt->has_live) {
		time_t now = (time_t)((s->start_realtime_ns + s->now_ns - s->start_ns) / NS_PER_S);
		struct tm tm;
		char clock[32] = "";
		if (localtime_r(&now, &tm))
			strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
		put_head(&text, s, pick.count + pick.beyond + pick.few + pick.skipped + pick.young);
		/* the layout is memleak's, and so are its words */
		if (pick.count)
			buf_printf(&text, "[%s] Top %zu stacks with outstanding allocations:\n\n",
				   clock, pick.count);
		else
			buf_printf(&text, "[%s] no outstanding allocations%s\n", clock,
				   pick.few || pick.skipped || pick.young ? " to show" : "");
		for (size_t i = 0; i < pick.count; i++)
			put_outstanding(&text, s, prof, pick.rows[i], opt);
	} else {
		put_head(&text, s, pick.count + pick.beyond + pick.few + pick.skipped + pick.young);
		put_functions(&text, s);
		for (size_t i = 0; i < pick.count; i++)
			put_stack(&text, s, prof, pick.rows[i], opt);
	}
	put_rest(&text, &pick);
	free(pick.rows);
	if (buf_failed(&text))
		return err_set(err, -ENOMEM, "cannot write the report");
	fwrite(text.data, 1, text.len, to);
	if (fflush(to) != 0 || ferror(to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the report");
	return 0;
}
