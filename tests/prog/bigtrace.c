/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bigtrace.c - write a recording of any length: bigtrace OUT EVENTS LIVE [SEED [FLUSH_EVERY]]
 *
 * A random stream of valid events (tests/unit/trace_stream.h) with at most LIVE live blocks, through the product's own
 * writer and prof. For the bars on reading long recordings, for golden files and for the fuzzer's first corpus.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model/prof.h"
#include "trace/trace.h"
#include "unit/trace_stream.h"

int main(int argc, char **argv)
{
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
