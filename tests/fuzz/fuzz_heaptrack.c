/* SPDX-License-Identifier: Apache-2.0 */
/* The heaptrack reader on any bytes, into a prof; then a second time into the exporters, which meet its names and numbers. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/prof.h"
#include "out/out.h"
#include "source/heaptrack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_into(struct sink *sink, const uint8_t *data, size_t size)
{
	const struct heaptrack_opt opt = { .max_live = 10000,
					   .max_definitions = 10000,
					   .max_text_bytes = 1 << 20 };
	struct heaptrack_info info;
	struct err err = { 0 };
	CLEANUP(zstream_freep) struct zstream *stream = zstream_open_bytes(data, size, &err);
	return stream ? heaptrack_run_stream(stream, "fuzz", sink, &opt, &info, &err) : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct out_stream *(*const streams[])(FILE *, const struct prof *, struct err *) = {
		out_heaptrack_new, out_massif_new, out_dhat_new, out_jsonl_new
	};
	static int (*const readings[])(FILE *, const struct prof *, const struct out_opt *,
				       struct err *) = { out_flamegraph, out_pprof, out_speedscope,
							 out_folded };
	static FILE *null;
	struct err err = { 0 };
	if (!null)
		null = fopen("/dev/null", "w");
	CLEANUP(prof_freep) struct prof *prof = prof_new(&err);
	if (!prof || !null || read_into(prof_sink(prof), data, size) < 0)
		return 0;
	unsigned which = size ? data[size - 1] % 4 : 0;
	struct out_stream *stream = streams[which](null, prof, &err);
	if (stream && read_into(out_stream_sink(stream), data, size) == 0)
		out_stream_finish(stream, &err);
	else
		out_stream_free(stream);
	readings[which](null, prof, &(struct out_opt){ 0 }, &err);
	return 0;
}
