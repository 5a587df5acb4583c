/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_stream.h - valid random streams of definitions and events, and a sink that keeps a naive copy of what it takes.
 * Shared by the tests of trace/.
 */
#ifndef TESTS_TRACE_STREAM_H
#define TESTS_TRACE_STREAM_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "model/event.h"

/* ---- a copy: every definition as a line of text, every event as it is ------------------------------------------- */

struct copy {
	struct sink sink;
	struct buf defs;
	struct event *events;
	size_t count, cap;
};

static inline void copy_text(struct buf *to, const char *text)
{
	if (text)
		buf_printf(to, " '%s'", text);
	else
		buf_puts(to, " null");
}

static inline int copy_define(struct sink *sink, const struct def *d, struct err *err)
{
	struct buf *to = &((struct copy *)sink)->defs;
	(void)err;
	buf_printf(to, "%d %u:", (int)d->kind, d->id);
	switch (d->kind) {
	case DEF_PROCESS:
		buf_printf(to, " %u", d->process.pid);
		copy_text(to, d->process.exe);
		copy_text(to, d->process.comment);
		buf_printf(to, " %zu ", d->process.cmdline_bytes);
		for (size_t i = 0; i < d->process.cmdline_bytes; i++)
			buf_putc(to, d->process.cmdline[i] ? d->process.cmdline[i] : '|');
		buf_printf(to,
			   " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d %d %" PRIu64 " %" PRIu64
			   " %u",
			   d->process.start_realtime_ns, d->process.start_monotonic_ns,
			   d->process.time_bound_ns, d->process.ended, d->process.complete,
			   d->process.exit_status, d->process.runtime_ns, d->process.peak_rss_bytes,
			   d->process.modules_nameless);
		break;
	case DEF_THREAD:
		buf_printf(to, " %u", d->thread.tid);
		copy_text(to, d->thread.name);
		break;
	case DEF_MODULE:
		copy_text(to, d->module.path);
		for (unsigned i = 0; i < d->module.build_id_len; i++)
			buf_printf(to, "%02x", d->module.build_id[i]);
		buf_printf(to, " %" PRIx64 " %" PRIx64 " %" PRIx64, d->module.bias, d->module.lo,
			   d->module.hi);
		break;
	case DEF_FRAME:
		buf_printf(to, " %u %" PRIx64, d->frame.module.v, d->frame.offset);
		break;
	case DEF_STACK:
		buf_printf(to, " %u %u %u", d->stack.parent.v, d->stack.frame.v, d->stack.stop);
		break;
	case DEF_SYMBOL:
		for (uint32_t i = 0; i < d->symbol.count; i++) {
			copy_text(to, d->symbol.symbols[i].function);
			copy_text(to, d->symbol.symbols[i].file);
			buf_printf(to, " %u %u", d->symbol.symbols[i].line,
				   d->symbol.symbols[i].inlined);
		}
		break;
	case DEF_RULE:
		copy_text(to, d->rule.pattern);
		break;
	}
	buf_putc(to, '\n');
	return 0;
}

static inline int copy_put(struct sink *sink, const struct event *events, size_t count,
			   struct err *err)
{
	struct copy *copy = (struct copy *)sink;
	if (copy->count + count > copy->cap) {
		copy->cap = (copy->count + count) * 2;
		copy->events = realloc(copy->events, copy->cap * sizeof(*events));
		if (!copy->events)
			return err_set(err, -12, "no memory for the copy");
	}
	memcpy(copy->events + copy->count, events, count * sizeof(*events));
	copy->count += count;
	return 0;
}

static inline void copy_init(struct copy *copy)
{
	*copy = (struct copy){ .sink = { .define = copy_define, .put = copy_put } };
}

static inline void copy_fini(struct copy *copy)
{
	buf_fini(&copy->defs);
	free(copy->events);
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

struct stream {
	uint64_t seed, time;
	uint32_t threads, modules, frames, stacks;
	/* the allocation events of live blocks, by block number */
	struct event *live;
	uint32_t live_cap, live_count;
	/* numbers of live blocks in any order, and where each stands there */
	uint32_t *alive, *place;
	/* numbers that were live once, last freed on top */
	uint32_t *idle;
	uint32_t idle_count;
	/* numbers given out so far */
	uint32_t high;
	/* 0 = any number */
	uint32_t stacks_max;
	/* sizes of all 64 bits: more than can live, so nothing for a prof */
	int wide;
};

static inline uint64_t stream_random(struct stream *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed;
}

static inline void stream_init(struct stream *s, uint64_t seed, uint32_t live_cap)
{
	*s = (struct stream){ .seed = seed * 0x9e3779b97f4a7c15ULL + 1, .live_cap = live_cap };
	s->live = calloc(live_cap, sizeof(*s->live));
	s->idle = calloc(live_cap, sizeof(*s->idle));
	s->alive = calloc(live_cap, sizeof(*s->alive));
	s->place = calloc(live_cap, sizeof(*s->place));
	if (!s->live || !s->idle || !s->alive || !s->place)
		abort();
}

static inline void stream_fini(struct stream *s)
{
	free(s->live);
	free(s->idle);
	free(s->alive);
	free(s->place);
}

static inline void stream_define(struct stream *s, struct sink *to, struct def *def)
{
	struct err err = { 0 };
	if (to->define(to, def, &err) < 0) {
		fprintf(stderr, "stream_define: %s\n", err.msg);
		abort();
	}
	(void)s;
}

/* One definition of each kind, and more stacks and frames as time goes on. */
static inline void stream_start(struct stream *s, struct sink *to)
{
	struct def def = { .kind = DEF_PROCESS };
	def.process.pid = 4242;
	def.process.exe = "/usr/bin/prog";
	def.process.cmdline = "prog\0-x\0";
	def.process.cmdline_bytes = 8;
	def.process.comment = "heap";
	def.process.start_realtime_ns = 1700000000000000000ULL;
	def.process.start_monotonic_ns = 12345678901ULL;
	def.process.time_bound_ns = 1000000;
	def.process.exit_status = -1;
	def.process.modules_nameless = 77;
	stream_define(s, to, &def);
	def = (struct def){ .kind = DEF_THREAD, .id = s->threads++ };
	def.thread.tid = 4242;
	def.thread.name = "main";
	stream_define(s, to, &def);
	def = (struct def){ .kind = DEF_MODULE, .id = ++s->modules };
	def.module.path = "/usr/lib/libc.so.6";
	for (uint8_t i = 0; i < 20; i++)
		def.module.build_id[i] = (uint8_t)(i * 7);
	def.module.build_id_len = 20;
	def.module.bias = 0x7f0000000000;
	def.module.lo = 0x7f0000001000;
	def.module.hi = 0x7f0000200000;
	stream_define(s, to, &def);
}

static inline void stream_more_defs(struct stream *s, struct sink *to)
{
	struct def def = { .kind = DEF_FRAME, .id = s->frames++ };
	def.frame.module.v = (uint32_t)(stream_random(s) % (s->modules + 1));
	def.frame.offset = stream_random(s) % 0x200000;
	stream_define(s, to, &def);
	uint32_t frame = def.id;
	for (int i = 0; i < 3; i++) {
		def = (struct def){ .kind = DEF_STACK, .id = ++s->stacks };
		if (stream_random(s) % 20 == 0) {
			def.stack.stop = (uint8_t)(1 + stream_random(s) % 10);
		} else {
			def.stack.parent.v = (uint32_t)(stream_random(s) % s->stacks);
			def.stack.frame.v = (uint32_t)(stream_random(s) % s->frames);
		}
		stream_define(s, to, &def);
	}
	if (stream_random(s) % 4 == 0) {
		def = (struct def){ .kind = DEF_THREAD, .id = s->threads };
		def.thread.tid = 5000 + s->threads++;
		def.thread.name = stream_random(s) % 2 ? "worker" : NULL;
		stream_define(s, to, &def);
	}
	if (stream_random(s) % 2 == 0) {
		struct symbol symbols[2] = { { "inner(int)", "a file.c", 12, 1 },
					     { "outer", NULL, 0, 0 } };
		def = (struct def){ .kind = DEF_SYMBOL, .id = frame };
		def.symbol.symbols = symbols;
		def.symbol.count = 1 + (uint32_t)(stream_random(s) % 2);
		stream_define(s, to, &def);
	}
	if (frame % 64 == 5) {
		def = (struct def){ .kind = DEF_RULE, .id = 1 + frame / 64, .rule = { "lib*.so" } };
		stream_define(s, to, &def);
	}
}

static inline int stream_alloc(struct stream *s, struct event *e)
{
	if (!s->idle_count && s->high == s->live_cap)
		return 0;
	e->kind = EVENT_ALLOC;
	e->bytes = stream_random(s) % 8 ? 16 + 16 * (stream_random(s) % 30)
					: stream_random(s) >> (s->wide ? 0 : 24) >>
						  stream_random(s) % (s->wide ? 64 : 40);
	e->stack.v = (uint32_t)(stream_random(s) % (s->stacks + 1));
	if (s->idle_count && stream_random(s) % 8) {
		/* mostly the number that died last, and mostly at the address that it had */
		uint32_t at =
			stream_random(s) % 4 ? s->idle_count - 1 : stream_random(s) % s->idle_count;
		e->block.v = s->idle[at];
		s->idle[at] = s->idle[--s->idle_count];
		e->addr = stream_random(s) % 3 ? s->live[e->block.v].addr
					       : 0x5555000000 + stream_random(s) % 100000 * 16;
	} else if (s->high < s->live_cap) {
		e->block.v = s->high++;
		e->addr = 0x5555000000 + (uint64_t)e->block.v * 32;
	} else {
		return 0;
	}
	s->live[e->block.v] = *e;
	s->place[e->block.v] = s->live_count;
	s->alive[s->live_count++] = e->block.v;
	return 1;
}

static inline int stream_free(struct stream *s, struct event *e)
{
	if (!s->live_count)
		return 0;
	/* one in three frees what was allocated last or about then, the others anything */
	uint32_t place = stream_random(s) % 3 ? (uint32_t)(stream_random(s) % s->live_count)
					      : s->live_count - 1;
	uint32_t at = s->alive[place], last = s->alive[s->live_count - 1];
	s->alive[place] = last;
	s->place[last] = place;
	struct event *live = &s->live[at];
	e->kind = EVENT_FREE;
	e->addr = live->addr;
	e->bytes = live->bytes;
	e->stack = live->stack;
	e->block.v = at;
	e->aux_stack.v = stream_random(s) % 4 ? 0 : (uint32_t)(stream_random(s) % (s->stacks + 1));
	live->kind = 0;
	s->idle[s->idle_count++] = at;
	s->live_count--;
	return 1;
}

/* The next event of a random valid stream; definitions that it needs go to @to first. */
static inline void stream_next(struct stream *s, struct sink *to, struct event *e)
{
	if (!s->threads)
		stream_start(s, to);
	if (!s->stacks ||
	    ((!s->stacks_max || s->stacks < s->stacks_max) && stream_random(s) % 50 == 0))
		stream_more_defs(s, to);
	uint64_t dice = stream_random(s) % 100;
	if (dice < 5)
		s->time += stream_random(s) % 3 ? 1000000 : stream_random(s) % 100000000;
	memset(e, 0, sizeof(*e));
	e->time_ns = s->time;
	e->thread.v = stream_random(s) % 5 ? 0 : (uint32_t)(stream_random(s) % s->threads);
	dice = stream_random(s) % 100;
	if (dice < 50 && stream_alloc(s, e)) {
		e->flags = stream_random(s) % 10 ? 0 : EVENT_F_REALLOC;
	} else if (dice < 95 && stream_free(s, e)) {
		e->flags = (uint8_t)(stream_random(s) % 5 ? 0 : stream_random(s) % 4);
		e->flags |= stream_random(s) % 20 ? 0 : EVENT_F_IMPLIED;
	} else {
		static const uint8_t kinds[] = { EVENT_FREE_FOREIGN, EVENT_MAP,    EVENT_UNMAP,
						 EVENT_BRK,          EVENT_RSS,    EVENT_MARK,
						 EVENT_LOST,         EVENT_SWITCH, EVENT_THREAD_END,
						 EVENT_RESIDENT };
		e->kind = kinds[stream_random(s) % sizeof(kinds)];
		e->addr = stream_random(s) >> (stream_random(s) % 64);
		e->bytes = stream_random(s) >> (stream_random(s) % 64);
		e->value = stream_random(s) >> (stream_random(s) % 64);
		e->stack.v = (uint32_t)(stream_random(s) % (s->stacks + 1));
		e->block.v = BLOCK_NONE;
		if (e->kind == EVENT_LOST) {
			e->value %= LOSS_SECCOMP;
			e->addr %= 1000;
			e->bytes %= 1000000;
			e->block.v = 7;
		}
	}
}

/* @count events to @to, in batches of changing length. */
static inline void stream_run(struct stream *s, struct sink *to, size_t count)
{
	struct err err = { 0 };
	while (count--) {
		struct event e;
		stream_next(s, to, &e);
		if (to->put(to, &e, 1, &err) < 0) {
			fprintf(stderr, "stream_run: %s\n", err.msg);
			abort();
		}
	}
}

#endif
