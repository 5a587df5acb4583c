/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dhat.c - what Valgrind's dh_view.html loads: JSON, file version 2, with lifetimes ("bklt"),
 * without accesses. A program point is a stack. Times are microseconds. Every frame's text begins
 * with its address, and a stack is a list of frame numbers, so that no two program points are equal
 * (the viewer refuses that).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/chunked.h"
#include "base/jsonw.h"
#include "model/cull.h"
#include "out/out.h"
#include "out/stream.h"

struct point {
	/* ever allocated */
	uint64_t bytes, blocks;
	uint64_t live_bytes, live_blocks;
	/* at the point's own peak of bytes */
	uint64_t max_bytes, max_blocks;
	/* at the peak of the whole */
	uint64_t peak_bytes, peak_blocks;
	/*
	 * of the freed ones; the births of the live ones: theirs are (blocks * end - sum). A few
	 * that live for ages exceed 64 bits
	 */
	unsigned __int128 lifetimes_us, live_born_sum_us;
};

struct dhat_out {
	struct out_stream stream;
	/* by stack row */
	struct point *points;
	uint32_t point_cap;
	/* uint64_t by block number */
	struct chunked born_us;
	uint64_t events, live_bytes;
	struct prof_totals totals;
	int begun;
	/* by frame row: number of its innermost function's text, 0 = not listed */
	uint32_t *frame_text;
	uint32_t stop_text[STACK_STOP_MAX];
};

static int point_room(struct dhat_out *out, uint32_t row)
{
	if (row < out->point_cap)
		return 0;
	uint32_t cap = prof_stack_count(out->stream.names);
	struct point *grown = realloc(out->points, cap * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + out->point_cap, 0, (cap - out->point_cap) * sizeof(*grown));
	out->points = grown;
	out->point_cap = cap;
	return 0;
}

/*
 * Blocks that the recording knows by their sums: how long they lived is known to a power of ten,
 * whose geometric middle they get. The largest one lived at some moment, which is all that is known
 * of the point's own peak.
 */
static int put_culled(struct dhat_out *out, const struct event *event, struct err *err)
{
	static const uint64_t middle_us[CULL_CLASSES] = { 316,    3162,    31623,
							  316228, 3162278, 31622777 };
	uint32_t row = prof_stack_row(out->stream.names, event->stack).v;
	unsigned class = cull_value_class(event->value);
	if (point_room(out, row) < 0)
		return out_no_memory(err);
	struct point *point = &out->points[row];
	sum_add(&point->bytes, event->bytes);
	sum_add(&point->blocks, event->addr);
	point->lifetimes_us +=
		(unsigned __int128)event->addr * middle_us[class < CULL_CLASSES ? class : 0];
	if (cull_value_largest(event->value) > point->max_bytes) {
		point->max_bytes = cull_value_largest(event->value);
		point->max_blocks = 1;
	}
	return 0;
}

static int put_event(struct dhat_out *out, const struct event *event, struct err *err)
{
	if (event->kind == EVENT_CULLED)
		return put_culled(out, event, err);
	if (event->kind != EVENT_ALLOC && event->kind != EVENT_FREE)
		return 0;
	uint32_t row = prof_stack_row(out->stream.names, event->stack).v;
	uint64_t now_us = event->time_ns / 1000;
	uint64_t *born =
		event->block.v == BLOCK_NONE ? NULL : chunked_touch(&out->born_us, event->block.v);
	if (!born || point_room(out, row) < 0)
		return out_no_memory(err);
	born = chunked_at(&out->born_us, event->block.v);
	struct point *point = &out->points[row];
	if (event->kind == EVENT_ALLOC) {
		if (out_live_add(&out->live_bytes, event->bytes, err) < 0)
			return -EBADMSG;
		*born = now_us;
		point->live_born_sum_us += now_us;
		sum_add(&point->bytes, event->bytes);
		sum_add(&point->blocks, 1);
		point->live_bytes += event->bytes;
		point->live_blocks++;
		if (point->live_bytes > point->max_bytes) {
			point->max_bytes = point->live_bytes;
			point->max_blocks = point->live_blocks;
		}
	} else {
		out->live_bytes -= event->bytes;
		point->live_bytes -= event->bytes;
		point->live_blocks--;
		point->lifetimes_us += now_us - *born;
		point->live_born_sum_us -= *born;
	}
	if (++out->events == out->totals.peak_event) {
		for (uint32_t i = 0; i < out->point_cap; i++) {
			out->points[i].peak_bytes = out->points[i].live_bytes;
			out->points[i].peak_blocks = out->points[i].live_blocks;
		}
	}
	return 0;
}

static void begin(struct dhat_out *out)
{
	if (!out->begun)
		prof_totals(out->stream.names, &out->totals);
	out->begun = 1;
}

static int dhat_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink;
	(void)def;
	(void)err;
	return 0; /* definitions are taken from the prof at the end */
}

static int dhat_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct dhat_out *out = (struct dhat_out *)sink;
	begin(out);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = put_event(out, &events[i], err);
	return rc;
}

/*
 * Number the texts of all frames of stacks that had blocks, by frame row; inlined functions have
 * several in a row.
 */
static int number_frames(struct dhat_out *out)
{
	const struct prof *names = out->stream.names;
	uint32_t frames = prof_frame_count(names);
	out->frame_text = calloc(frames, sizeof(*out->frame_text));
	uint8_t *seen = calloc(prof_stack_count(names), 1);
	if (!out->frame_text || !seen) {
		free(seen);
		return -ENOMEM;
	}
	for (uint32_t row = 0; row < out->point_cap; row++) {
		if (!out->points[row].blocks)
			continue;
		for (uint32_t at = row; at && !seen[at];) {
			const struct prof_stack *stack = prof_stack(names, (struct stack_id){ at });
			seen[at] = 1;
			if (stack->stop)
				out->stop_text[stack->stop] = 1;
			else
				out->frame_text[stack->frame.v] = 1;
			at = stack->parent.v;
		}
	}
	free(seen);
	uint32_t next = 1; /* 0 is the viewer's root */
	for (unsigned stop = 0; stop < STACK_STOP_MAX; stop++)
		if (out->stop_text[stop])
			out->stop_text[stop] = next++;
	for (uint32_t row = 0; row < frames; row++) {
		if (!out->frame_text[row])
			continue;
		uint32_t symbols = prof_frame(names, (struct frame_id){ row })->symbol_count;
		out->frame_text[row] = next;
		next += symbols ? symbols : 1;
	}
	return 0;
}

static void write_frame_text(struct jsonw *json, struct buf *text, const struct prof *names,
			     const struct prof_frame *frame, const struct symbol *symbol)
{
	const struct prof_module *module = prof_module(names, frame->module);
	buf_clear(text);
	buf_printf(text, "0x%" PRIX64 ": %s", module->bias + frame->offset,
		   symbol && symbol->function ? symbol->function : "???");
	if (symbol && symbol->file)
		buf_printf(text, " (%s:%u)", symbol->file, symbol->line);
	else if (frame->module.v)
		buf_printf(text, " (in %s)", module->path);
	jsonw_str(json, NULL, buf_cstr(text));
}

static int write_frame_table(struct dhat_out *out, struct jsonw *json)
{
	const struct prof *names = out->stream.names;
	CLEANUP(buf_fini) struct buf text = { 0 };
	jsonw_array(json, "ftbl");
	jsonw_str(json, NULL, "[root]");
	for (unsigned stop = 0; stop < STACK_STOP_MAX; stop++)
		if (out->stop_text[stop])
			jsonw_str(json, NULL, view_stop_label(stop));
	uint32_t frames = prof_frame_count(names);
	for (uint32_t row = 0; row < frames; row++) {
		if (!out->frame_text[row])
			continue;
		const struct prof_frame *frame = prof_frame(names, (struct frame_id){ row });
		for (uint32_t i = 0; i < frame->symbol_count; i++)
			write_frame_text(json, &text, names, frame, &frame->symbols[i]);
		if (!frame->symbol_count)
			write_frame_text(json, &text, names, frame, NULL);
	}
	jsonw_array_end(json);
	return buf_failed(&text) ? -ENOMEM : 0;
}

static uint64_t lifetimes_us(const struct point *point, uint64_t end_us)
{
	unsigned __int128 sum = point->lifetimes_us;
	sum += (unsigned __int128)point->live_blocks * end_us - point->live_born_sum_us;
	return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

static void write_point(struct dhat_out *out, struct jsonw *json, uint32_t row, uint64_t end_us)
{
	const struct prof *names = out->stream.names;
	const struct point *point = &out->points[row];
	jsonw_line(json);
	jsonw_object(json, NULL);
	jsonw_u64(json, "tb", point->bytes);
	jsonw_u64(json, "tbk", point->blocks);
	jsonw_u64(json, "tl", lifetimes_us(point, end_us));
	jsonw_u64(json, "mb", point->max_bytes);
	jsonw_u64(json, "mbk", point->max_blocks);
	jsonw_u64(json, "gb", point->peak_bytes);
	jsonw_u64(json, "gbk", point->peak_blocks);
	jsonw_u64(json, "eb", point->live_bytes);
	jsonw_u64(json, "ebk", point->live_blocks);
	jsonw_array(json, "fs");
	for (uint32_t at = row; at;) {
		const struct prof_stack *stack = prof_stack(names, (struct stack_id){ at });
		if (stack->stop) {
			jsonw_u64(json, NULL, out->stop_text[stack->stop]);
		} else {
			uint32_t count = prof_frame(names, stack->frame)->symbol_count;
			for (uint32_t i = 0; i < (count ? count : 1); i++)
				jsonw_u64(json, NULL, out->frame_text[stack->frame.v] + i);
		}
		at = stack->parent.v;
	}
	jsonw_array_end(json);
	jsonw_object_end(json);
}

/*
 * What short-lived blocks held at the peak stands in no event, but their stacks' peaks know it; not
 * where stacks are sampled: those are estimates, which do not go with what was recorded.
 */
static void add_culled_peaks(struct dhat_out *out)
{
	const struct prof_process *process = prof_process(out->stream.names);
	if (process && process->sample_bytes)
		return;
	for (uint32_t row = 0; row < out->point_cap && out->totals.culled_allocations; row++) {
		struct point *point = &out->points[row];
		struct cost cost;
		prof_stack_cost(out->stream.names, (struct stack_id){ row }, &cost);
		if (cost.peak_bytes <= point->peak_bytes)
			continue;
		point->peak_bytes = cost.peak_bytes;
		point->peak_blocks++; /* one at least */
		if (point->max_bytes < point->peak_bytes) {
			point->max_bytes = point->peak_bytes;
			point->max_blocks = point->peak_blocks;
		}
	}
}

static int dhat_finish(struct out_stream *stream, struct err *err)
{
	struct dhat_out *out = (struct dhat_out *)stream;
	begin(out);
	add_culled_peaks(out);
	char *cmdline = out_command_line(stream->names);
	if (!cmdline || number_frames(out) < 0) {
		free(cmdline);
		return out_no_memory(err);
	}
	const struct prof_process *process = prof_process(stream->names);
	uint64_t end_us = out->totals.runtime_ns / 1000;
	struct jsonw json;
	jsonw_init(&json, stream->to);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "dhatFileVersion", 2);
	jsonw_str(&json, "mode", "heap");
	jsonw_str(&json, "verb", "Allocated");
	jsonw_bool(&json, "bklt", 1);
	jsonw_bool(&json, "bkacc", 0);
	jsonw_str(&json, "tu", "us");
	jsonw_str(&json, "Mtu", "s");
	jsonw_u64(&json, "tuth", 500);
	jsonw_str(&json, "cmd", cmdline);
	jsonw_u64(&json, "pid", process ? process->pid : 0);
	jsonw_u64(&json, "te", end_us);
	jsonw_u64(&json, "tg", out->totals.peak_time_ns / 1000);
	jsonw_array(&json, "pps");
	for (uint32_t row = 0; row < out->point_cap; row++)
		if (out->points[row].blocks)
			write_point(out, &json, row, end_us);
	jsonw_array_end(&json);
	jsonw_line(&json);
	int rc = write_frame_table(out, &json);
	jsonw_object_end(&json);
	jsonw_line(&json);
	free(cmdline);
	return rc < 0 ? out_no_memory(err) : 0;
}

static void dhat_fini(struct out_stream *stream)
{
	struct dhat_out *out = (struct dhat_out *)stream;
	free(out->points);
	free(out->frame_text);
	chunked_fini(&out->born_us);
}

struct out_stream *out_dhat_new(FILE *to, const struct prof *names, struct err *err)
{
	struct dhat_out *out = calloc(1, sizeof(*out));
	if (!out) {
		out_no_memory(err);
		return NULL;
	}
	out->stream = (struct out_stream){ .sink = { dhat_define, dhat_put },
					   .to = to,
					   .names = names,
					   .finish = dhat_finish,
					   .fini = dhat_fini };
	out->born_us = (struct chunked)CHUNKED_INIT(uint64_t);
	return &out->stream;
}
