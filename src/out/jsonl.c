/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonl.c - one JSON object a line for each event, and for each stack before the first event that
 * has it:
 *   {"event":"process","pid":1,"exe":"..","cmdline":[..],..}                    first
 *   {"event":"thread","tid":2,"name":".."}                  next, those that have a name
 *   {"event":"stack","stack":7,"parent":3,"frames":[{function,module,offset,file,line,inlined}]}
 *       one step of a stack: its innermost call (several frames where functions were inlined),
 *       "parent" is the caller's
 *       stack, 0 the outermost; a partial stack begins with
 *       {"event":"stack","stack":2,"parent":0,"incomplete":"gap"}
 *   {"event":"alloc","time_ns":..,"tid":..,"address":"0x..","bytes":..,"stack":7}  ...
 *   {"event":"end","runtime_ns":..,"complete":true,..}                          last
 * An address that the recording does not know (imports) is null.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "model/cull.h"
#include "out/out.h"
#include "out/stream.h"

struct jsonl_out {
	struct out_stream stream;
	struct jsonw json;
	/* by stack row */
	uint8_t *written;
	uint32_t written_cap;
	/* stack rows to be written */
	uint32_t *chain;
	uint32_t chain_cap;
	/* by thread: asking the prof costs a sum over all its stacks */
	uint32_t *tids;
	uint32_t tid_count;
	int begun;
};

static void begin_object(struct jsonl_out *out, const char *event)
{
	jsonw_object(&out->json, NULL);
	jsonw_str(&out->json, "event", event);
}

static void end_object(struct jsonl_out *out)
{
	jsonw_object_end(&out->json);
	jsonw_line(&out->json);
}

static int begin(struct jsonl_out *out)
{
	if (out->begun)
		return 0;
	out->begun = 1;
	uint32_t threads = prof_thread_count(out->stream.names);
	out->tids = calloc(threads + 1, sizeof(*out->tids));
	if (!out->tids)
		return -ENOMEM;
	const struct prof_process *process = prof_process(out->stream.names);
	struct jsonw *json = &out->json;
	begin_object(out, "process");
	jsonw_u64(json, "pid", process ? process->pid : 0);
	jsonw_str(json, "exe", process ? process->exe : NULL);
	jsonw_array(json, "cmdline");
	size_t len = process && process->cmdline ? process->cmdline_bytes : 0;
	for (size_t at = 0; at < len;) {
		size_t part = strnlen(process->cmdline + at, len - at);
		jsonw_strn(json, NULL, process->cmdline + at, part);
		at += part + 1;
	}
	jsonw_array_end(json);
	jsonw_str(json, "source", process ? process->comment : NULL);
	jsonw_u64(json, "start_realtime_ns", process ? process->start_realtime_ns : 0);
	jsonw_u64(json, "time_bound_ns", process ? process->time_bound_ns : 0);
	if (process && process->sample_bytes)
		jsonw_u64(json, "sample_bytes", process->sample_bytes);
	end_object(out);
	for (; out->tid_count < threads; out->tid_count++) {
		const struct prof_thread *thread =
			prof_thread(out->stream.names, (struct thread_id){ out->tid_count });
		out->tids[out->tid_count] = thread->tid;
		if (!thread->name || !*thread->name)
			continue;
		begin_object(out, "thread");
		jsonw_u64(json, "tid", thread->tid);
		jsonw_str(json, "name", thread->name);
		end_object(out);
	}
	return 0;
}

static void write_frame(struct jsonl_out *out, const struct prof_frame *frame,
			const struct symbol *symbol)
{
	struct jsonw *json = &out->json;
	const struct prof_module *module = prof_module(out->stream.names, frame->module);
	jsonw_object(json, NULL);
	jsonw_str(json, "function", symbol ? symbol->function : NULL);
	jsonw_str(json, "module", frame->module.v ? module->name : NULL);
	jsonw_u64(json, "offset", frame->offset);
	jsonw_str(json, "file", symbol ? symbol->file : NULL);
	if (symbol && symbol->line)
		jsonw_u64(json, "line", symbol->line);
	else
		jsonw_null(json, "line");
	jsonw_bool(json, "inlined", symbol && symbol->inlined);
	jsonw_object_end(json);
}

static int write_stack(struct jsonl_out *out, uint32_t row)
{
	const struct prof *names = out->stream.names;
	uint32_t rows = prof_stack_count(names), missing = 0;
	if (rows > out->written_cap) {
		uint8_t *grown = realloc(out->written, rows);
		if (!grown)
			return -ENOMEM;
		memset(grown + out->written_cap, 0, rows - out->written_cap);
		out->written = grown;
		out->written_cap = rows;
	}
	for (uint32_t at = row; at && !out->written[at];
	     at = prof_stack(names, (struct stack_id){ at })->parent.v) {
		if (missing == out->chain_cap) {
			uint32_t cap = missing ? missing * 2 : 256;
			uint32_t *grown = realloc(out->chain, cap * sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			out->chain = grown;
			out->chain_cap = cap;
		}
		out->chain[missing++] = at;
	}
	while (missing) {
		uint32_t at = out->chain[--missing];
		const struct prof_stack *stack = prof_stack(names, (struct stack_id){ at });
		struct jsonw *json = &out->json;
		out->written[at] = 1;
		begin_object(out, "stack");
		jsonw_u64(json, "stack", at);
		jsonw_u64(json, "parent", stack->parent.v);
		if (stack->stop) {
			jsonw_str(json, "incomplete", stack_stop_name(stack->stop));
		} else {
			const struct prof_frame *frame = prof_frame(names, stack->frame);
			jsonw_array(json, "frames");
			for (uint32_t i = 0; i < frame->symbol_count; i++)
				write_frame(out, frame, &frame->symbols[i]);
			if (!frame->symbol_count)
				write_frame(out, frame, NULL);
			jsonw_array_end(json);
		}
		end_object(out);
	}
	return 0;
}

static void write_address(struct jsonl_out *out, uint64_t addr)
{
	char text[24];
	snprintf(text, sizeof(text), "0x%" PRIx64, addr);
	jsonw_str(&out->json, "address", addr ? text : NULL);
}

static const char *kind_name(unsigned kind)
{
	static const char *const names[EVENT_KIND_MAX] = {
		[EVENT_ALLOC] = "alloc",
		[EVENT_FREE] = "free",
		[EVENT_MAP] = "map",
		[EVENT_FREE_FOREIGN] = "foreign_free",
		[EVENT_UNMAP] = "unmap",
		[EVENT_BRK] = "brk",
		[EVENT_RSS] = "rss",
		[EVENT_MARK] = "mark",
		[EVENT_LOST] = "lost",
		[EVENT_SWITCH] = "switch",
		[EVENT_THREAD_END] = "thread_end",
		[EVENT_FORKED] = "forked",
		[EVENT_CULLED] = "culled",
		[EVENT_FILTERED] = "filtered",
		[EVENT_RESIDENT] = "resident",
	};
	return kind < EVENT_KIND_MAX ? names[kind] : NULL;
}

/* Events other than those of blocks. */
static void write_other(struct jsonl_out *out, const struct event *event)
{
	struct jsonw *json = &out->json;
	switch (event->kind) {
	case EVENT_MAP:
	case EVENT_UNMAP:
	case EVENT_BRK:
		write_address(out, event->addr);
		if (event->kind != EVENT_BRK)
			jsonw_u64(json, "bytes", event->bytes);
		if (event->flags & EVENT_F_REALLOC) {
			jsonw_bool(json, "remap", 1);
		} else if (event->kind == EVENT_MAP) {
			jsonw_u64(json, "prot", event->value & 0x7f);
			jsonw_u64(json, "flags", event->value >> 32);
		}
		break;
	case EVENT_RSS:
		jsonw_u64(json, "rss_bytes", event->bytes);
		jsonw_u64(json, "peak_rss_bytes", event->value);
		jsonw_u64(json, "virtual_bytes", event->addr);
		break;
	case EVENT_RESIDENT:
		jsonw_u64(json, "file_bytes", event->addr);
		jsonw_u64(json, "shmem_bytes", event->bytes);
		jsonw_u64(json, "swap_bytes", event->value);
		break;
	case EVENT_LOST:
		jsonw_str(json, "reason", loss_reason_name((unsigned)event->value));
		if (event->value == LOSS_REGION) {
			jsonw_u64(json, "regions", event->addr);
			break;
		}
		jsonw_u64(json, "allocations", event->addr);
		jsonw_u64(json, "bytes", event->bytes);
		jsonw_u64(json, "frees", event->block.v);
		break;
	case EVENT_CULLED: {
		static const char *const classes[CULL_CLASSES] = { "1ms", "10ms", "100ms",
								   "1s",  "10s",  NULL };
		unsigned class = cull_value_class(event->value);
		jsonw_u64(json, "allocations", event->addr);
		jsonw_u64(json, "bytes", event->bytes);
		jsonw_u64(json, "temporary", event->block.v);
		jsonw_u64(json, "largest_bytes", cull_value_largest(event->value));
		jsonw_str(json, "lived_less_than", class < CULL_CLASSES ? classes[class] : NULL);
		break;
	}
	case EVENT_FILTERED:
		jsonw_u64(json, "allocations", event->addr);
		jsonw_u64(json, "bytes", event->bytes);
		jsonw_u64(json, "frees", event->value);
		if (event->flags & EVENT_F_INHERITED)
			jsonw_bool(json, "inherited", 1);
		break;
	case EVENT_FORKED:
		jsonw_u64(json, "parent_pid", event->value);
		jsonw_bool(json, "known", event->block.v == 1);
		jsonw_u64(json, "allocations", event->addr);
		jsonw_u64(json, "bytes", event->bytes);
		break;
	case EVENT_MARK:
	case EVENT_SWITCH:
		jsonw_u64(json, "value", event->value);
		break;
	default:
		break;
	}
}

static int write_event(struct jsonl_out *out, const struct event *event)
{
	const struct prof *names = out->stream.names;
	const char *kind = kind_name(event->kind);
	if (!kind)
		return 0;
	struct jsonw *json = &out->json;
	uint32_t stack = prof_stack_row(names, event->stack).v;
	uint32_t aux = prof_stack_row(names, event->aux_stack).v;
	if (write_stack(out, stack) < 0 || write_stack(out, aux) < 0)
		return -ENOMEM;
	begin_object(out, kind);
	jsonw_u64(json, "time_ns", event->time_ns);
	jsonw_u64(json, "tid", event->thread.v < out->tid_count ? out->tids[event->thread.v] : 0);
	switch (event->kind) {
	case EVENT_ALLOC:
	case EVENT_FREE:
		write_address(out, event->addr);
		jsonw_u64(json, "bytes", event->bytes);
		jsonw_u64(json, "block", event->block.v);
		if (event->kind == EVENT_FREE)
			jsonw_bool(json, "temporary", event->flags & EVENT_F_TEMPORARY);
		if (event->flags & EVENT_F_REALLOC)
			jsonw_bool(json, "realloc", 1);
		/* one bit, by kind; what nobody saw is no free that counts */
		if (event->flags & (EVENT_F_INHERITED | EVENT_F_IMPLIED))
			jsonw_bool(json, event->kind == EVENT_ALLOC ? "inherited" : "implied", 1);
		break;
	case EVENT_FREE_FOREIGN:
		write_address(out, event->addr);
		break;
	default:
		write_other(out, event);
		break;
	}
	if (stack)
		jsonw_u64(json, "stack", stack);
	if (aux)
		jsonw_u64(json, "free_stack", aux);
	end_object(out);
	return 0;
}

static int jsonl_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink;
	(void)def;
	(void)err;
	return 0; /* definitions are taken from the prof when they are needed */
}

static int jsonl_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct jsonl_out *out = (struct jsonl_out *)sink;
	if (begin(out) < 0)
		return out_no_memory(err);
	for (size_t i = 0; i < count; i++)
		if (write_event(out, &events[i]) < 0)
			return out_no_memory(err);
	if (ferror(out->stream.to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the export");
	return 0;
}

static int jsonl_finish(struct out_stream *stream, struct err *err)
{
	struct jsonl_out *out = (struct jsonl_out *)stream;
	if (begin(out) < 0)
		return out_no_memory(err);
	struct prof_totals totals;
	prof_totals(stream->names, &totals);
	const struct prof_process *process = prof_process(stream->names);
	struct jsonw *json = &out->json;
	begin_object(out, "end");
	jsonw_u64(json, "runtime_ns", totals.runtime_ns);
	jsonw_bool(json, "complete", process && process->complete);
	jsonw_u64(json, "peak_rss_bytes", totals.peak_rss_bytes);
	jsonw_u64(json, "lost_events", totals.lost_events);
	end_object(out);
	return 0;
}

static void jsonl_fini(struct out_stream *stream)
{
	struct jsonl_out *out = (struct jsonl_out *)stream;
	free(out->written);
	free(out->chain);
	free(out->tids);
}

struct out_stream *out_jsonl_new(FILE *to, const struct prof *names, struct err *err)
{
	struct jsonl_out *out = calloc(1, sizeof(*out));
	if (!out) {
		out_no_memory(err);
		return NULL;
	}
	out->stream = (struct out_stream){ .sink = { jsonl_define, jsonl_put },
					   .to = to,
					   .names = names,
					   .finish = jsonl_finish,
					   .fini = jsonl_fini };
	jsonw_init(&out->json, to);
	return &out->stream;
}
