/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bigtrace.c - write a recording of any length: bigtrace OUT EVENTS LIVE [SEED [FLUSH_EVERY]], or bigtrace --turnover OUT
 * EVENTS LIVE: a cheap stream without a summary, in which LIVE blocks live all the time and the oldest one of a stride goes.
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

int main(int argc, char **argv)
{
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
