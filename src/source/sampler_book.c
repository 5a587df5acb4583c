/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_book.c - the kernel's tables read into a book of samples: stacks located, estimates as
 * numbers, ages of what is live.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "source/sampler_book.h"
#include "source/sampler_impl.h"

_Static_assert(SAMPLES_SIZES == WIRE_SAMPLE_SIZES && SAMPLES_LIVES == WIRE_SAMPLE_LIVES,
	       "one histogram");

#define NO_STACK 9 /* enum wire_stop: WIRE_STOP_NO_SCRATCH, as enum stack_stop has it */

struct reading {
	struct sampler *sampler;
	struct samples *samples;
	uint64_t now_ns;
	struct err *err;
};

static uint32_t frame_number(struct reading *r, uint32_t pid, uint64_t after)
{
	struct sampler_spot spot;
	uint64_t addr = after - 1; /* frames are "addresses after" */
	if (sampler_locate(r->sampler, pid, addr, &spot) < 0)
		return samples_frame(r->samples, 0, addr, addr);
	uint32_t module = samples_module(r->samples, spot.path, spot.build_id, spot.build_id_len);
	return samples_frame(r->samples, module, spot.offset, addr);
}

/*
 * What was asked for, then functions of the kernel: sampler_kernel_name() knows both by their
 * number.
 */
static uint32_t kernel_frame(struct reading *r, uint16_t at, uint64_t value)
{
	uint32_t module = samples_module(r->samples, "[kernel]", (const uint8_t *)"", 0);
	uint64_t addr = at < WIRE_SAMPLE_KERNEL_FRAMES ? value : value - 1;
	return samples_frame(r->samples, module, addr, addr);
}

/* A call inside of a function that is counted itself: realloc() that calls malloc(). */
static int is_inside(const struct samples *s, uint32_t pid, const uint32_t *frames, size_t count)
{
	if (count < 2 || !frames[1])
		return 0;
	const struct sample_frame *frame = &s->frames[frames[1]];
	for (size_t i = 0; frame->module && i < s->function_count; i++) {
		const struct sample_function *f = &s->functions[i];
		if ((f->pid == pid || !f->pid) && !f->is_free && frame->offset >= f->offset &&
		    frame->offset - f->offset < f->bytes &&
		    !strcmp(f->module, s->modules[frame->module].path))
			return 1;
	}
	return 0;
}

static struct sample_row *new_row(struct reading *r, const struct wire_sample_row_key *key)
{
	struct wire_sample_stack stack = { 0 };
	uint32_t frames[WIRE_SAMPLE_FRAMES_MAX];
	uint8_t stop = NO_STACK;
	if (key->stack && sampler_stack(r->sampler, key->stack, &stack) == 0)
		stop = stack.stop < STACK_STOP_MAX ? stack.stop : 0;
	sampler_kernel_trim(r->sampler, &stack);
	for (uint16_t i = 0; i < stack.count; i++)
		frames[i] = r->sampler->opt.kernel ? kernel_frame(r, i, stack.frame[i])
						   : frame_number(r, key->pid, stack.frame[i]);
	struct sample_row *row =
		samples_add_row(r->samples, key->pid, key->stack, frames, stack.count, stop);
	if (row)
		row->hidden = (uint8_t)is_inside(r->samples, key->pid, frames, stack.count);
	return row;
}

struct sample_row *sampler_row(struct sampler *sampler, struct samples *samples, uint32_t pid,
			       uint64_t stack)
{
	struct reading r = { .sampler = sampler, .samples = samples };
	const struct wire_sample_row_key key = { .stack = stack, .pid = pid };
	struct sample_row *row = samples_row(samples, pid, stack);
	return row ? row : new_row(&r, &key);
}

static double counts(uint64_t fixed)
{
	return (double)fixed / 65536;
}

static void fill(struct sampler *sampler, struct sample_figures *f,
		 const struct wire_sample_row *from)
{
	f->taken = from->taken;
	f->count = counts(from->count);
	f->bytes = (double)from->bytes;
	f->freed_count = counts(from->freed_count);
	f->freed_bytes = (double)from->freed_bytes;
	f->error_bytes = sampler_deviation(sampler, from->variance_bytes);
	f->error_count = sampler_deviation_count(sampler, from->variance_count);
	f->live_error_bytes = (int64_t)from->live_variance_bytes > 0
				      ? sampler_deviation(sampler, from->live_variance_bytes)
				      : 0;
	f->temporary_count = counts(from->temporary);
	f->last_ns = from->last_ns;
	for (unsigned i = 0; i < SAMPLES_SIZES; i++)
		f->size[i] = counts(from->size[i]);
	for (unsigned i = 0; i < SAMPLES_LIVES; i++)
		f->life[i] = (double)from->life[i];
}

static int take_row(void *ctx, const struct wire_sample_row_key *key,
		    const struct wire_sample_row *from)
{
	struct reading *r = ctx;
	struct sample_row *row = samples_row(r->samples, key->pid, key->stack);
	if (!row)
		row = new_row(r, key);
	if (!row)
		return err_set(r->err, -ENOMEM, "cannot keep samples");
	fill(r->sampler, &row->raw, from);
	samples_scale(r->samples, row);
	row->ages = (struct sample_ages){ 0 };
	row->block_count = row->blocks_more = 0;
	return 0;
}

static int take_live(void *ctx, const struct wire_sample_live_key *key,
		     const struct wire_sample_live *live)
{
	struct reading *r = ctx;
	struct sample_row *row = samples_row(r->samples, key->pid, live->stack);
	if (!row)
		return 0; /* came after the rows were read */
	double count = live->chance == WIRE_SAMPLE_ALWAYS
			       ? 1
			       : 4294967296.0 / (live->chance ? live->chance : 1);
	uint64_t age = r->now_ns > live->time_ns ? r->now_ns - live->time_ns : 0;
	unsigned bit = age >> 10 ? 63u - (unsigned)__builtin_clzll(age >> 10) : 0;
	struct sample_ages *a = &row->ages;
	double bytes = (double)live->bytes * count;
	a->bytes[bit < SAMPLES_LIVES ? bit : SAMPLES_LIVES - 1] += bytes;
	if (age >= r->samples->older_ns) {
		struct sample_block block = { key->addr, live->bytes, live->time_ns, count };
		a->older_bytes += bytes;
		a->older_count += count;
		if (r->samples->keep_blocks)
			samples_add_block(row, &block);
	}
	if (age > a->oldest_ns)
		a->oldest_ns = age;
	return 0;
}

/* Half of the live bytes are older: within the power of two that the ages are sorted by. */
static void find_median(struct sample_ages *a)
{
	double all = 0, sum = 0;
	for (unsigned i = 0; i < SAMPLES_LIVES; i++)
		all += a->bytes[i];
	for (unsigned i = 0; i < SAMPLES_LIVES && all > 0; i++) {
		if (sum + a->bytes[i] >= all / 2) {
			double part = a->bytes[i] > 0 ? (all / 2 - sum) / a->bytes[i] : 0;
			a->median_ns = (uint64_t)((double)(1024ull << i) * (1 + part));
			if (a->median_ns > a->oldest_ns)
				a->median_ns = a->oldest_ns;
			return;
		}
		sum += a->bytes[i];
	}
}

static void take_losses(struct samples *s, const uint64_t *counts_now, uint64_t missed)
{
	static const struct {
		enum wire_sample_counter which;
		const char *reason;
	} reasons[] = {
		{ WIRE_SAMPLE_LOST_ROWS, "rows_full" },
		{ WIRE_SAMPLE_LOST_STACKS, "stacks_full" },
		{ WIRE_SAMPLE_LOST_LIVE, "live_full" },
		{ WIRE_SAMPLE_LOST_PENDING, "busy" },
		{ WIRE_SAMPLE_LOST_EVENTS, "ring_full" },
		{ WIRE_SAMPLE_STACKLESS, "no_stack" },
	};
	s->lost_count = 0;
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		s->lost[s->lost_count++] =
			(struct sample_loss){ reasons[i].reason, counts_now[reasons[i].which] };
	s->lost[s->lost_count++] = (struct sample_loss){ "reentered", missed };
}

static int oldest_first(const void *a, const void *b)
{
	const struct sample_block *x = a, *y = b;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

int sampler_read(struct sampler *sampler, struct samples *samples, struct err *err)
{
	struct reading r = { sampler, samples, clock_ns(CLOCK_MONOTONIC), err };
	uint64_t counters[WIRE_SAMPLE_COUNTERS], hits[WIRE_SAMPLE_FUNCTIONS_MAX];
	int rc = sampler_rows(sampler, take_row, &r, err);
	if (!rc && samples->tracked) {
		rc = sampler_live(sampler, take_live, &r, err);
		for (size_t i = 0; i < samples->row_count; i++) {
			struct sample_row *row = &samples->rows[i];
			find_median(&row->ages);
			if (row->block_count)
				qsort(row->blocks, row->block_count, sizeof(*row->blocks),
				      oldest_first);
		}
	}
	if (!rc)
		rc = sampler_counts(sampler, counters, err);
	if (!rc)
		rc = sampler_hits(sampler, hits, err);
	if (rc < 0)
		return rc;
	struct sampler_cost cost = { 0 };
	if (sampler_cost(sampler, &cost, err) < 0)
		return err->code;
	take_losses(samples, counters, cost.missed);
	samples->hits = 0;
	for (unsigned i = 0; i < WIRE_SAMPLE_FUNCTIONS_MAX; i++)
		samples->hits += hits[i];
	for (size_t i = 0; i < samples->function_count; i++)
		samples->functions[i].calls =
			hits[samples->functions[i].number & (WIRE_SAMPLE_FUNCTIONS_MAX - 1)];
	samples->now_ns = r.now_ns;
	return 0;
}

static int note_function(void *ctx, uint32_t pid, const struct sampler_function *f)
{
	static const char *const kinds[] = { "emulated", "stepped", "nop5" };
	struct sample_function noted = {
		.pid = pid,
		.module = f->module,
		.name = f->name,
		.offset = f->vaddr,
		.bytes = f->bytes,
		.site = f->site,
		.kind = f->is_usdt                                ? "static probe"
			: f->cookie >> 16 & WIRE_SAMPLE_F_COUNTER ? "hook, bytes alone"
			: f->is_hook                              ? "hook"
								  : kinds[f->kind],
		.is_free = f->is_free,
		.number = f->number,
	};
	return samples_add_function(ctx, &noted) ? 0 : -ENOMEM;
}

/* The tracepoints that are watched. */
static int note_kernel(struct sampler *sampler, struct samples *samples)
{
	for (uint32_t i = 0; i < WIRE_SAMPLE_KERNEL_MAX; i++) {
		struct sample_function noted = {
			.module = "[kernel]",
			.name = sampler_kernel_functions[i],
			.offset = i,
			.kind = "tracepoint",
			.is_free = i >= WIRE_SAMPLE_KFREE,
			.number = i,
		};
		if ((sampler->opt.track || !noted.is_free) &&
		    !samples_add_function(samples, &noted))
			return -ENOMEM;
	}
	return 0;
}

int sampler_note_functions(struct sampler *sampler, struct samples *samples, struct err *err)
{
	if (sampler->opt.kernel)
		return note_kernel(sampler, samples) < 0
			       ? err_set(err, -ENOMEM, "cannot note functions")
			       : 0;
	int rc = sampler_functions_each(sampler, note_function, samples);
	return rc < 0 ? err_set(err, rc, "cannot note functions") : 0;
}
