/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - which rows are shown, and their JSON and CSV. */
#include "out/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "out/csv.h"
#include "out/sample_impl.h"
#include "view/view.h"

#define FRAMES_MAX 4096u
#define FAR_MOST 10

uint64_t sample_whole(double value)
{
	return value < 0 ? 0 : value > 1.8e19 ? UINT64_MAX : (uint64_t)llround(value);
}

/* The variance of a sum over rows, and what one of its samples stands for, weighed by that. */
struct spread {
	double variance, weighed;
};

static void add_spread(struct spread *to, double variance, double sum)
{
	if (variance <= 0 || sum <= 0)
		return;
	to->variance += variance;
	to->weighed += variance * variance / sum;
}

/*
 * Few samples say little of how many there would be on average: by n of them, that is up to
 * n + sqrt(n + 3/4) + 1 with the certainty of a standard error (Gehrels 1986).
 */
static double error_of(const struct spread *spread, double unsure)
{
	double v = spread->variance, one = v > 0 ? spread->weighed / v : 0;
	double drawn = sqrt(v + 0.75 * one * one) + one;
	return sqrt(drawn * drawn + unsure * unsure);
}

/*
 * What windows stand for is a quotient, whose far side is the longer one: a figure that is less
 * sure than itself may be as many times too small. Not where all that there may be is known.
 */
static double far_side(const struct samples *s, double error, double value)
{
	if (s->duty >= 1 || s->bounded || value <= 0 || error <= value)
		return error;
	return error * fmin(error / value, FAR_MOST);
}

void sample_sums(const struct samples *s, uint32_t pid, struct sample_figures *sums)
{
	struct spread bytes = { 0 }, count = { 0 }, live = { 0 };
	double unsure_bytes = 0, unsure_count = 0;
	memset(sums, 0, sizeof(*sums));
	for (size_t i = 0; i < s->row_count; i++) {
		const struct sample_row *row = &s->rows[i];
		const struct sample_figures *f = &row->now;
		if (row->hidden || (pid && row->pid != pid))
			continue;
		sums->taken += f->taken;
		sums->count += f->count;
		sums->bytes += f->bytes;
		sums->live_count += f->live_count;
		sums->live_bytes += f->live_bytes;
		sums->freed_bytes += f->freed_bytes;
		sums->freed_count += f->freed_count;
		sums->temporary_count += f->temporary_count;
		/* what windows are multiplied by is wrong of all alike */
		double alike_bytes, alike_count;
		samples_unsure(s, row, &alike_bytes, &alike_count);
		unsure_bytes += alike_bytes;
		unsure_count += alike_count;
		add_spread(&bytes, f->error_bytes * f->error_bytes - alike_bytes * alike_bytes,
			   f->bytes);
		add_spread(&count, f->error_count * f->error_count - alike_count * alike_count,
			   f->count);
		add_spread(&live, f->live_error_bytes * f->live_error_bytes, f->live_bytes);
		for (unsigned k = 0; k < SAMPLES_SIZES; k++)
			sums->size[k] += f->size[k];
	}
	sums->error_bytes = far_side(s, error_of(&bytes, unsure_bytes), sums->bytes);
	sums->error_count = far_side(s, error_of(&count, unsure_count), sums->count);
	/*
	 * where windows were over before one was taken, calls are known of and nothing else; that
	 * they saw none leaves room for as many as are seldom missed
	 */
	if (!sums->taken && s->duty < 1 && s->duty > 0) {
		double seen = (double)s->hits;
		sums->error_count = (seen + sqrt(seen + 0.75) + 1) / s->duty;
		sums->error_bytes = sums->error_count * sqrt((double)s->sample_bytes);
	}
	sums->live_error_bytes = error_of(&live, 0);
}

void sample_shared(const struct samples *s, uint8_t shared[SAMPLE_NUMBERS])
{
	uint32_t first[SAMPLE_NUMBERS] = { 0 };
	memset(shared, 0, SAMPLE_NUMBERS);
	for (size_t i = 0; i < s->function_count; i++) {
		const struct sample_function *f = &s->functions[i];
		uint32_t n = f->number % SAMPLE_NUMBERS;
		shared[n] |= first[n] && first[n] != f->pid;
		first[n] = f->pid;
	}
}

void sample_partial(const struct samples *s, uint32_t pid, struct sample_partial *p)
{
	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < s->row_count; i++) {
		const struct sample_row *row = &s->rows[i];
		if (row->hidden || (pid && row->pid != pid))
			continue;
		if (row->stop) {
			p->by_reason[row->stop & (STACK_STOP_MAX - 1)] += row->now.taken;
			p->events += row->now.taken;
		}
		/* the innermost frame is the allocator's own */
		if (row->frame_count < 2) {
			p->no_caller += row->now.taken;
			p->no_caller_by[row->stop & (STACK_STOP_MAX - 1)] += row->now.taken;
		}
	}
}

static double key_of(const struct sample_row *row, enum out_sample_order order)
{
	switch (order) {
	case SAMPLE_BY_COUNT:
		return row->now.count;
	case SAMPLE_BY_LIVE:
		return row->now.live_bytes;
	case SAMPLE_BY_GROWTH:
		return row->verdict == SAMPLE_GROWING ? row->growth_bytes_per_s : 0;
	case SAMPLE_BY_PEAK:
		return row->peak_live_bytes;
	case SAMPLE_BY_TEMPORARY:
		return row->now.temporary_count;
	default:
		return row->now.bytes;
	}
}

struct order {
	const struct samples *samples;
	const struct out_sample_opt *opt;
};

/*
 * Where two stacks part, by file and place in it: addresses, and the numbers made of them, change
 * from one run to the next.
 */
static int compare_places(const struct samples *s, const struct sample_row *x,
			  const struct sample_row *y)
{
	for (uint32_t i = 0; i < x->frame_count && i < y->frame_count; i++) {
		const struct sample_frame *f = &s->frames[s->frame_list[x->frames + i]];
		const struct sample_frame *g = &s->frames[s->frame_list[y->frames + i]];
		int c = f == g || f->module == g->module ? 0
			: !f->module || !g->module
				? (f->module > g->module) - (f->module < g->module)
				: strcmp(s->modules[f->module].path, s->modules[g->module].path);
		if (c)
			return c;
		if (f->offset != g->offset)
			return f->offset < g->offset ? -1 : 1;
	}
	if (x->frame_count != y->frame_count)
		return x->frame_count < y->frame_count ? -1 : 1;
	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
				: (x->stack > y->stack) - (x->stack < y->stack);
}

static int compare(const void *a, const void *b, void *ctx)
{
	const struct order *order = ctx;
	const struct out_sample_opt *opt = order->opt;
	const struct sample_row *x = *(struct sample_row *const *)a,
				*y = *(struct sample_row *const *)b;
	double p = key_of(x, opt->order), q = key_of(y, opt->order);
	if (p == q) {
		p = x->now.bytes;
		q = y->now.bytes;
	}
	if (p != q)
		return p < q ? 1 : -1;
	return compare_places(order->samples, x, y);
}

static int matches(const struct prof *prof, const struct sample_row *row, const regex_t *regex,
		   struct view_frame *frames)
{
	size_t n = view_frames(prof, row->prof_stack, frames, FRAMES_MAX, NULL);
	for (size_t i = 0; i < n; i++)
		if ((frames[i].function && !regexec(regex, frames[i].function, 0, NULL, 0)) ||
		    (frames[i].module && !regexec(regex, frames[i].module, 0, NULL, 0)))
			return 1;
	return 0;
}

int sample_pick(const struct samples *s, const struct prof *prof, uint32_t pid,
		const struct out_sample_opt *opt, struct sample_pick *pick, struct err *err)
{
	struct view_frame *frames = opt->stack_regex ? malloc(FRAMES_MAX * sizeof(*frames)) : NULL;
	*pick = (struct sample_pick){ .rows = calloc(s->row_count + 1, sizeof(*pick->rows)) };
	if (!pick->rows || (opt->stack_regex && !frames)) {
		free(frames);
		free(pick->rows);
		return err_set(err, -ENOMEM, "cannot sort samples");
	}
	for (size_t i = 0; i < s->row_count; i++) {
		struct sample_row *row = &s->rows[i];
		double bytes = opt->has_live ? row->now.live_bytes : row->now.bytes;
		double count = opt->has_live ? row->now.live_count : row->now.count;
		double error = opt->has_live ? row->now.live_error_bytes : row->now.error_bytes;
		if (row->hidden || (pid && row->pid != pid) ||
		    (opt->stack_regex && !matches(prof, row, opt->stack_regex, frames)))
			continue;
		if (opt->has_live && row->now.live_bytes <= 0)
			continue;
		if (opt->has_live && !opt->screen && row->ages.older_bytes <= 0) {
			pick->young++;
			continue;
		}
		if (bytes < (double)opt->skip_bytes || count < (double)opt->skip_count) {
			pick->skipped++;
			continue;
		}
		/*
		 * of four samples on the interval is narrower than the figure, what windows add
		 * aside
		 */
		if (!opt->all && error > 0 && row->now.taken < 4) {
			pick->few++;
			pick->few_bytes += bytes;
			continue;
		}
		pick->rows[pick->count++] = row;
	}
	free(frames);
	struct order order = { s, opt };
	qsort_r(pick->rows, pick->count, sizeof(*pick->rows), compare, &order);
	if (opt->top && pick->count > opt->top) {
		pick->beyond = pick->count - opt->top;
		pick->count = opt->top;
	}
	for (size_t i = 0; opt->ascending && i < pick->count / 2; i++) {
		struct sample_row *swap = pick->rows[i];
		pick->rows[i] = pick->rows[pick->count - 1 - i];
		pick->rows[pick->count - 1 - i] = swap;
	}
	return 0;
}

/* --- JSON --- */

static void put_histogram(struct jsonw *json, const double *size)
{
	jsonw_array(json, "histogram");
	for (unsigned i = 0; i < SAMPLES_SIZES; i++) {
		if (size[i] <= 0)
			continue;
		jsonw_object(json, NULL);
		jsonw_u64(json, "from", i ? 1ull << i : 0);
		jsonw_u64(json, "to", i == SAMPLES_SIZES - 1 ? UINT64_MAX : (2ull << i) - 1);
		jsonw_u64(json, "count", sample_whole(size[i]));
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

static void put_frames(struct jsonw *json, const struct prof *prof, const struct sample_row *row,
		       struct view_frame *frames)
{
	unsigned stop;
	size_t n = view_frames(prof, row->prof_stack, frames, FRAMES_MAX, &stop);
	if (stop)
		jsonw_str(json, "partial", stack_stop_name(stop));
	jsonw_array(json, "frames");
	for (size_t i = 0; i < n; i++) {
		jsonw_object(json, NULL);
		jsonw_str(json, "function", frames[i].function);
		jsonw_str(json, "module", frames[i].module);
		jsonw_u64(json, "offset", frames[i].offset);
		jsonw_str(json, "file", frames[i].file);
		if (frames[i].line)
			jsonw_u64(json, "line", frames[i].line);
		else
			jsonw_null(json, "line");
		jsonw_bool(json, "inlined", frames[i].inlined);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

static void put_blocks(struct jsonw *json, const struct samples *s, const struct sample_row *row)
{
	jsonw_array(json, "allocs");
	for (uint32_t i = 0; i < row->block_count; i++) {
		const struct sample_block *b = &row->blocks[i];
		jsonw_object(json, NULL);
		jsonw_u64(json, "addr", b->addr);
		jsonw_u64(json, "bytes", b->bytes);
		jsonw_u64(json, "age_ns", s->now_ns > b->time_ns ? s->now_ns - b->time_ns : 0);
		jsonw_double(json, "stands_for", b->stands_for);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_u64(json, "allocs_more", row->blocks_more);
}

static void put_row(struct jsonw *json, const struct samples *s, const struct prof *prof,
		    const struct sample_row *row, struct view_frame *frames)
{
	const struct sample_figures *f = &row->now;
	jsonw_object(json, NULL);
	jsonw_u64(json, "count", sample_whole(f->count));
	jsonw_u64(json, "bytes", sample_whole(f->bytes));
	jsonw_u64(json, "live_count", sample_whole(f->live_count));
	jsonw_u64(json, "live_bytes", sample_whole(f->live_bytes));
	jsonw_u64(json, "error_bytes", sample_whole(f->error_bytes));
	jsonw_u64(json, "error_count", sample_whole(f->error_count));
	jsonw_u64(json, "samples", f->taken);
	put_histogram(json, f->size);
	if (s->tracked) {
		jsonw_u64(json, "live_error_bytes", sample_whole(f->live_error_bytes));
		jsonw_u64(json, "freed_bytes", sample_whole(f->freed_bytes));
		jsonw_u64(json, "temporary_count", sample_whole(f->temporary_count));
		jsonw_u64(json, "oldest_ns", row->ages.oldest_ns);
		jsonw_u64(json, "median_age_ns", row->ages.median_ns);
		jsonw_u64(json, "older_bytes", sample_whole(row->ages.older_bytes));
		jsonw_u64(json, "older_count", sample_whole(row->ages.older_count));
		jsonw_u64(json, "peak_live_bytes", sample_whole(row->peak_live_bytes));
		if (row->verdict == SAMPLE_GROWING) {
			jsonw_double(json, "growth_bytes_per_s", row->growth_bytes_per_s);
			jsonw_double(json, "growth_error_bytes_per_s", row->growth_error);
		}
	}
	if (s->keep_blocks)
		put_blocks(json, s, row);
	jsonw_str(json, "verdict", sample_verdict_name(row->verdict));
	put_frames(json, prof, row, frames);
	jsonw_object_end(json);
}

static void put_losses(struct jsonw *json, const struct samples *s)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < s->lost_count; i++)
		sum += s->lost[i].count;
	jsonw_object(json, "lost");
	jsonw_u64(json, "events", sum);
	jsonw_object(json, "by_reason");
	for (unsigned i = 0; i < s->lost_count; i++)
		if (s->lost[i].count)
			jsonw_u64(json, s->lost[i].reason, s->lost[i].count);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

static void put_partial(struct jsonw *json, const struct samples *s, uint32_t pid)
{
	struct sample_partial p;
	sample_partial(s, pid, &p);
	jsonw_object(json, "partial_stacks");
	jsonw_u64(json, "events", p.events);
	jsonw_u64(json, "no_caller", p.no_caller);
	jsonw_object(json, "by_reason");
	for (unsigned i = 0; i < STACK_STOP_MAX; i++)
		if (p.by_reason[i] && stack_stop_name(i))
			jsonw_u64(json, stack_stop_name(i), p.by_reason[i]);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

static void put_cost(struct jsonw *json, const struct samples *s)
{
	jsonw_object(json, "cost");
	jsonw_double(json, "ns_per_hit", s->ns_per_hit);
	jsonw_double(json, "hits_per_second", s->hits_per_second);
	jsonw_double(json, "cpu_fraction", s->cpu_fraction);
	jsonw_double(json, "budget", s->budget);
	jsonw_u64(json, "hits", s->hits);
	jsonw_u64(json, "kernel_bytes", s->kernel_bytes);
	jsonw_double(json, "duty", s->duty);
	jsonw_u64(json, "overdrawn_ns", s->budget > 0 ? sample_whole(s->overdrawn_ns) : 0);
	if (s->given_ns > 0)
		jsonw_double(json, "given_ns", s->given_ns);
	if (s->governed[0])
		jsonw_str(json, "governed", s->governed);
	jsonw_object_end(json);
}

static void put_functions(struct jsonw *json, const struct samples *s, uint32_t pid)
{
	uint8_t shared[SAMPLE_NUMBERS];
	sample_shared(s, shared);
	jsonw_array(json, "functions");
	for (size_t i = 0; i < s->function_count; i++) {
		const struct sample_function *f = &s->functions[i];
		const char *base = strrchr(f->module, '/');
		if (f->pid != pid && f->pid)
			continue;
		jsonw_object(json, NULL);
		jsonw_str(json, "module", base ? base + 1 : f->module);
		jsonw_str(json, "function", f->name);
		jsonw_u64(json, "offset", f->offset);
		jsonw_u64(json, "site", f->site);
		jsonw_str(json, "kind", f->kind);
		jsonw_u64(json, "calls", f->calls);
		jsonw_bool(json, "shared", shared[f->number % SAMPLE_NUMBERS]);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

int out_sample_json(FILE *to, struct samples *s, const struct prof *prof,
		    const struct out_sample_opt *opt, struct err *err)
{
	struct jsonw json;
	struct view_frame *frames = malloc(FRAMES_MAX * sizeof(*frames));
	int rc = frames ? 0 : err_set(err, -ENOMEM, "cannot write JSON");
	jsonw_init(&json, to);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "version", 1);
	jsonw_array(&json, "processes");
	for (size_t i = 0; !rc && i < s->process_count; i++) {
		const struct sample_process *p = &s->processes[i];
		struct sample_figures sums;
		struct sample_pick pick;
		struct out_sample_opt all = *opt;
		all.all = 1;
		all.has_live = 0;
		rc = sample_pick(s, prof, p->pid, &all, &pick, err);
		if (rc < 0)
			break;
		sample_sums(s, p->pid, &sums);
		jsonw_object(&json, NULL);
		jsonw_u64(&json, "pid", p->pid);
		jsonw_str(&json, "exe", p->exe);
		jsonw_str(&json, "tier", p->tier);
		put_functions(&json, s, p->pid);
		jsonw_u64(&json, "samples", sums.taken);
		jsonw_u64(&json, "estimated_allocations", sample_whole(sums.count));
		jsonw_u64(&json, "estimated_bytes", sample_whole(sums.bytes));
		jsonw_u64(&json, "error_bytes", sample_whole(sums.error_bytes));
		jsonw_u64(&json, "error_allocations", sample_whole(sums.error_count));
		if (s->tracked) {
			jsonw_u64(&json, "live_allocations", sample_whole(sums.live_count));
			jsonw_u64(&json, "live_bytes", sample_whole(sums.live_bytes));
			jsonw_u64(&json, "live_error_bytes", sample_whole(sums.live_error_bytes));
		}
		jsonw_u64(&json, "sample_bytes", s->sample_every ? 0 : s->sample_bytes);
		jsonw_u64(&json, "sample_every", s->sample_every);
		jsonw_u64(&json, "runtime_ns", s->now_ns - s->start_ns);
		jsonw_array(&json, "rows");
		for (size_t k = 0; k < pick.count; k++)
			put_row(&json, s, prof, pick.rows[k], frames);
		jsonw_array_end(&json);
		put_cost(&json, s);
		put_losses(&json, s);
		put_partial(&json, s, p->pid);
		jsonw_object_end(&json);
		free(pick.rows);
	}
	jsonw_array_end(&json);
	jsonw_object_end(&json);
	jsonw_line(&json);
	free(frames);
	if (!rc && (fflush(to) != 0 || ferror(to)))
		return err_set(err, errno ? -errno : -EIO, "cannot write JSON");
	return rc;
}

/* --- CSV --- */

/* A quoted field of several lines: quotes doubled, everything else made harmless line by line. */
static void put_lines(struct buf *to, const char *text)
{
	CLEANUP(buf_fini) struct buf line = { 0 };
	buf_putc(to, '"');
	while (*text) {
		size_t len = strcspn(text, "\n");
		buf_clear(&line);
		buf_put(&line, text, len);
		csv_put(to, buf_cstr(&line));
		text += len;
		if (*text) {
			buf_putc(to, '\n');
			text++;
		}
	}
	buf_putc(to, '"');
}

static void put_csv_row(struct buf *to, const struct samples *s, const struct prof *prof,
			const struct sample_row *row, int flat, unsigned size)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	const struct sample_figures *f = &row->now;
	/* numbers that a spreadsheet holds: the lower half of the hash names it as well */
	uint64_t id = row->stack & 0xffffffffffffull;
	if (flat)
		buf_printf(to, "%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", row->pid, id,
			   size ? (uint64_t)1 << size : 0,
			   size == SAMPLES_SIZES - 1 ? UINT64_MAX : ((uint64_t)2 << size) - 1,
			   sample_whole(f->size[size]));
	else
		buf_printf(to, "%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", row->pid, id,
			   sample_whole(f->bytes), sample_whole(f->count));
	if (!flat) {
		sample_histogram(&text, f->size, f->bytes, f->count, 0);
		put_lines(to, buf_cstr(&text));
		buf_putc(to, ',');
		buf_clear(&text);
	}
	sample_frames(&text, s, prof, row, 0);
	put_lines(to, buf_cstr(&text));
	if (!flat)
		buf_printf(to, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%s",
			   sample_whole(f->error_bytes), f->taken, sample_whole(f->live_bytes),
			   sample_whole(f->live_count),
			   sample_verdict_name(row->verdict) ? sample_verdict_name(row->verdict)
							     : "");
	buf_puts(to, "\r\n");
}

int out_sample_csv(FILE *to, const struct samples *s, const struct prof *prof,
		   const struct out_sample_opt *opt, int flat, struct err *err)
{
	struct out_sample_opt all = *opt;
	struct sample_pick pick;
	all.all = 1;
	all.has_live = 0;
	int rc = sample_pick(s, prof, 0, &all, &pick, err);
	if (rc < 0)
		return rc;
	CLEANUP(buf_fini) struct buf line = { 0 };
	fputs(flat ? "pid,stack_id,from,to,count,stacktrace\r\n"
		   : "pid,stack_id,total,count,histogram,stacktrace,error_bytes,samples,live_bytes,"
		     "live_count,verdict\r\n",
	      to);
	for (size_t i = 0; i < pick.count; i++) {
		for (unsigned size = 0; size < (flat ? SAMPLES_SIZES : 1); size++) {
			if (flat && pick.rows[i]->now.size[size] <= 0)
				continue;
			buf_clear(&line);
			put_csv_row(&line, s, prof, pick.rows[i], flat, size);
			fwrite(line.data, 1, line.len, to);
		}
	}
	free(pick.rows);
	if (buf_failed(&line))
		return err_set(err, -ENOMEM, "cannot write CSV");
	if (fflush(to) != 0 || ferror(to))
		return err_set(err, errno ? -errno : -EIO, "cannot write CSV");
	return 0;
}
