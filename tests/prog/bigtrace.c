/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bigtrace.c - write a recording of any length: bigtrace OUT EVENTS LIVE [SEED [FLUSH_EVERY]], bigtrace --phases OUT EVENTS LIVE STACKS: one
 * as programs make them, with a summary, or bigtrace --turnover OUT EVENTS LIVE: a cheap stream without a summary, in which LIVE blocks live all the time and the oldest one of a stride goes.
 *
 * A random stream of valid events (tests/unit/trace_stream.h) with at most LIVE live blocks, through the product's own
 * writer and prof. For the bars on reading long recordings, for golden files and for the fuzzer's first corpus.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model/prof.h"
#include "trace/trace.h"
#include "unit/trace_stream.h"

/* Hundreds of millions of events within a minute: the stream itself must cost next to nothing. */
static int turnover(const char *path, uint64_t events, uint32_t live)
{
	struct err err = { 0 };
	struct trace_writer *writer = trace_writer_new(path, NULL, &err);
	struct event *block = calloc(live, sizeof(*block)), batch[256];
	struct stream s;
	int rc = writer && block ? 0 : -1;
	if (rc < 0)
		return 1;
	struct sink *sink = trace_writer_sink(writer);
	stream_init(&s, 1, 16);
	stream_start(&s, sink);
	while (s.stacks < 1000)
		stream_more_defs(&s, sink);
	size_t count = 0;
	uint64_t made = 0;
	for (uint64_t i = 0; i < events && rc >= 0; i++) {
		uint32_t number = (uint32_t)(made * 7919 % live);
		struct event *e = &batch[count++], *b = &block[number];
		if (b->kind) {
			*e = *b;
			e->kind = EVENT_FREE;
			b->kind = 0;
		} else {
			*e = (struct event){ .kind = EVENT_ALLOC,
					     .addr = 0x10000000 + (uint64_t)number * 256,
					     .bytes = 16 + made % 13 * 16,
					     .stack = { 1 + (uint32_t)(made % 997) },
					     .block = { number } };
			*b = *e;
			made++;
		}
		e->time_ns = i / 4096 * 1000000;
		if (count == 256) {
			rc = sink->put(sink, batch, count, &err);
			count = 0;
		}
	}
	if (rc >= 0)
		rc = sink->put(sink, batch, count, &err);
	stream_fini(&s);
	free(block);
	int finished = trace_writer_finish(writer, NULL, &err);
	if (rc < 0 || finished < 0)
		fprintf(stderr, "bigtrace: %s\n", err.msg);
	return rc < 0 || finished < 0;
}

/*
 * A recording as programs make them, every event of which counts: STACKS stacks 12 to 60 frames deep, of which 600 are busy in a
 * thousandth of the run, most blocks freed soon, some 5 of 100 later, a few never.
 */
static void phases_defs(struct stream *s, struct sink *to, uint32_t stacks)
{
	char name[64];
	const uint32_t frames = stacks / 4 + 100;
	for (uint32_t i = 0; i < frames; i++) {
		struct def def = { .kind = DEF_FRAME, .id = s->frames++ };
		def.frame.module.v = 1;
		def.frame.offset = 0x1000 + i * 64ull;
		stream_define(s, to, &def);
		snprintf(name, sizeof(name), "part%u::step%u(int)", i % 211, i);
		struct symbol symbol = { name, "part.c", 10 + i % 900, 0, SYMBOL_PLAIN };
		struct def names = { .kind = DEF_SYMBOL, .id = def.id };
		names.symbol.symbols = &symbol;
		names.symbol.count = 1;
		stream_define(s, to, &names);
	}
	for (uint32_t i = 0; i < stacks; i++) {
		struct def def = { .kind = DEF_STACK, .id = ++s->stacks };
		/* a trunk of twelve, then a tree whose callers are mostly near */
		uint64_t back = 1 + stream_random(s) % (stream_random(s) % 8 ? 40 : 2000);
		def.stack.parent.v = def.id <= 12         ? def.id - 1
				     : back < def.id - 12 ? def.id - (uint32_t)back
							  : 12;
		def.stack.frame.v = 1 + (uint32_t)(stream_random(s) % (frames - 1));
		stream_define(s, to, &def);
	}
}

static int phases(const char *path, uint64_t events, uint32_t live, uint32_t stacks)
{
	enum { RECENT = 64, BUSY = 600 };
	struct err err = { 0 };
	struct stream s;
	struct sink_tee tee;
	struct trace_writer *writer = trace_writer_new(path, NULL, &err);
	struct prof *prof = writer ? prof_new(&err) : NULL;
	struct event *block = calloc(live, sizeof(*block)), batch[256];
	uint32_t *spare = malloc(live * sizeof(*spare)), *old = malloc(live * sizeof(*old));
	uint32_t recent[RECENT], busy[BUSY], recent_count = 0, old_count = 0, spare_count = 0;
	if (!prof || !block || !spare || !old || live < 1000 || stacks < 1000)
		return 1;
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(writer));
	sink_tee_add(&tee, prof_sink(prof));
	stream_init(&s, 1, 16);
	stream_start(&s, &tee.sink);
	phases_defs(&s, &tee.sink, stacks);
	for (uint32_t i = live; i--;)
		spare[spare_count++] = i;
	const uint64_t phase = events / 1000 + 1;
	uint32_t made = UINT32_MAX; /* allocated last, and nothing since */
	size_t count = 0;
	int rc = 0;
	for (uint64_t i = 0; i < events && rc >= 0; i++) {
		if (i % phase == 0)
			for (uint32_t k = 0; k < BUSY; k++)
				busy[k] = 13 + (uint32_t)((stream_random(&s) % 8
								   ? i / phase * 7919 + k * 31
								   : stream_random(&s)) %
							  (stacks - 13));
		uint64_t dice = stream_random(&s);
		struct event *e = &batch[count++];
		int frees =
			recent_count == RECENT || !spare_count || (recent_count && dice % 100 < 49);
		if (frees) {
			uint32_t at = (uint32_t)(dice >> 20) % 4
					      ? recent_count - 1
					      : (uint32_t)(dice >> 32) % recent_count;
			uint32_t slot = recent[at];
			recent[at] = recent[--recent_count];
			/* one of twenty stays on, and an old one goes for it */
			if ((dice >> 8) % 20 == 0) {
				uint32_t then = slot;
				if (old_count > live - 1000 ||
				    (old_count > live / 20 && (dice >> 40) % 64)) {
					uint32_t which = (uint32_t)(dice >> 24) % old_count;
					then = old[which];
					old[which] = slot;
				} else {
					old[old_count++] = slot;
					count--;
					continue;
				}
				slot = then;
			}
			*e = block[slot];
			e->kind = EVENT_FREE;
			e->flags = slot == made ? EVENT_F_TEMPORARY : 0;
			spare[spare_count++] = slot;
		} else {
			uint32_t slot = spare[--spare_count];
			uint32_t stack = busy[(dice >> 16) % BUSY * ((dice >> 32) % BUSY) / BUSY];
			*e = (struct event){ .kind = EVENT_ALLOC,
					     .addr = 0x10000000 + (uint64_t)slot * 4096,
					     .bytes = 16 + (stack * 37u) % 64 * 16 +
						      (dice >> 48) % 16,
					     .stack = { stack },
					     .block = { slot } };
			block[slot] = *e;
			recent[recent_count++] = slot;
			made = slot;
		}
		e->time_ns = i / 1600 * 1000000;
		if (count == 256) {
			rc = tee.sink.put(&tee.sink, batch, count, &err);
			count = 0;
		}
	}
	if (rc >= 0)
		rc = tee.sink.put(&tee.sink, batch, count, &err);
	struct def end = { .kind = DEF_PROCESS };
	end.process.pid = 4242;
	end.process.ended = end.process.complete = 1;
	end.process.time_bound_ns = 1000000;
	end.process.runtime_ns = events / 1600 * 1000000 + 1000000;
	stream_define(&s, &tee.sink, &end);
	int finished = trace_writer_finish(writer, prof, &err);
	if (rc < 0 || finished < 0)
		fprintf(stderr, "bigtrace: %s\n", err.msg);
	return rc < 0 || finished < 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "--phases") == 0)
		return phases(argv[2], strtoull(argv[3], NULL, 10),
			      (uint32_t)strtoul(argv[4], NULL, 10),
			      (uint32_t)strtoul(argv[5], NULL, 10));
	if (argc == 5 && strcmp(argv[1], "--turnover") == 0)
		return turnover(argv[2], strtoull(argv[3], NULL, 10),
				(uint32_t)strtoul(argv[4], NULL, 10));
	struct err err = { 0 };
	struct stream s;
	struct sink_tee tee;
	if (argc < 4) {
		fprintf(stderr, "usage: bigtrace OUT EVENTS LIVE [SEED [FLUSH_EVERY]]\n");
		return 2;
	}
	uint64_t events = strtoull(argv[2], NULL, 10);
	uint64_t flush = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
	struct trace_writer *writer = trace_writer_new(argv[1], NULL, &err);
	struct prof *prof = writer ? prof_new(&err) : NULL;
	if (!prof) {
		fprintf(stderr, "bigtrace: %s\n", err.msg);
		return 1;
	}
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(writer));
	sink_tee_add(&tee, prof_sink(prof));
	stream_init(&s, argc > 4 ? strtoull(argv[4], NULL, 10) : 1,
		    (uint32_t)strtoul(argv[3], NULL, 10));
	s.stacks_max = 200000;
	for (uint64_t done = 0; done < events;) {
		uint64_t step = flush && flush < events - done ? flush : events - done;
		stream_run(&s, &tee.sink, step);
		done += step;
		if (flush && trace_writer_flush(writer, &err) < 0)
			break;
	}
	stream_fini(&s);
	int rc = trace_writer_finish(writer, prof, &err);
	prof_free(prof);
	if (rc < 0)
		fprintf(stderr, "bigtrace: %s\n", err.msg);
	return rc < 0;
}
