/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack.h - a source that reads heaptrack files (format 0 to 3, raw and interpreted; plain,
 * gzip, zstd).
 *
 * What the file lacks stays unknown: there is one thread (tid 0), times have the file's 10 ms
 * clock, interpreted files carry no addresses (events have addr 0) and frames whose offset is the
 * address in the process, not the module's.
 */
#ifndef SOURCE_HEAPTRACK_H
#define SOURCE_HEAPTRACK_H

#include <stdint.h>

#include "base/err.h"
#include "base/zstream.h"
#include "model/event.h"

/** struct heaptrack_opt - zero-initialised gives the defaults. */
struct heaptrack_opt {
	/**
	 * called now and then with compressed bytes done and in total (0 = unknown); may be NULL
	 */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	/**
	 * bounds against hostile files; 0 = 67 M live blocks, 33 M definitions of a kind, 512 MiB
	 * of names
	 */
	uint32_t max_live, max_definitions;
	uint64_t max_text_bytes;
};

/** struct heaptrack_info - what was found, filled also when reading failed. */
struct heaptrack_info {
	/* major << 16 | minor << 8 | patch */
	uint32_t writer;
	/* 0 to 3 */
	uint32_t format;
	/* 1 = addresses without symbols */
	int raw;
	/* read, comments included */
	uint64_t lines;
	/* events that refer to nothing; counted as lost too */
	uint64_t skipped;
	/* raw: frees that must have happened because the address was given out again */
	uint64_t implied;
	/**
	 * "" or why the file is not whole: "'x.zst': compressed data ends early, read up to line
	 * 1234"
	 */
	char warning[400];
};

/**
 * heaptrack_is() - 1 if the file at @path is a heaptrack file by content, 0 if not, negative errno
 * if unreadable.
 */
int heaptrack_is(const char *path, struct err *err);

/**
 * heaptrack_run() - replay the file at @path into @sink: definitions before use, then events; at
 * the end the process definition again, with the end of the recording (complete = 0 where the file
 * was cut or damaged). A file cut or damaged somewhere yields all before that place, and
 * @info->warning. Memory: names + 24 bytes a definition + 4 bytes a live block (raw: 50), within
 * the bounds of @opt. Return: 0; -EBADMSG for what is no heaptrack file, one of a newer format or
 * beyond a bound, or the sink's error.
 */
int heaptrack_run(const char *path, struct sink *sink, const struct heaptrack_opt *opt,
		  struct heaptrack_info *info, struct err *err);
/** heaptrack_run_stream() - the same from an open stream that is called @name in messages. */
int heaptrack_run_stream(struct zstream *stream, const char *name, struct sink *sink,
			 const struct heaptrack_opt *opt, struct heaptrack_info *info,
			 struct err *err);

#endif
