/* SPDX-License-Identifier: Apache-2.0 */
/* formats.h - the formats that a recording is exported to, by name: for `export` and for the server. */
#ifndef OUT_FORMATS_H
#define OUT_FORMATS_H

#include "out/out.h"
#include "query/query.h"
#include "query/recording.h"

enum out_word { OUT_WORD_BY = 1, OUT_WORD_COST = 2, OUT_WORD_LIMIT = 4, OUT_WORD_INVERTED = 8 };

/** struct out_format - @reading writes a finished reading; @stream takes every event. One of them is set. */
struct out_format {
	const char *name;
	const char *ending, *type; /* of a file: "svg", "image/svg+xml" */
	int (*reading)(FILE *to, const struct prof *prof, const struct out_opt *opt,
		       struct err *err);
	struct out_stream *(*stream)(FILE *to, const struct prof *names, struct err *err);
	int binary; /* not for terminals, and compressed already */
	int tells_losses;
	int has_sums;   /* a place for blocks that are known by the sums of their stacks only */
	unsigned words; /* enum out_word: what it can follow */
};
#define OUT_FORMAT_NAMES "folded flamegraph pprof speedscope heaptrack massif dhat csv json jsonl"

/** out_format_replay - the older tracer's, for its REST alone: into a file that can be sought in. */
extern const struct out_format out_format_replay;
/** out_format_find() - NULL where there is no such format. */
const struct out_format *out_format_find(const char *name);
/** out_format_stream() - what @query selects of @recording, event by event; @names: of the same. 0 or negative errno. */
int out_format_stream(const struct out_format *format, FILE *to, struct recording *recording,
		      const struct query *query, const struct prof *names, struct err *err);
/**
 * out_format_nothing() - 1: it will show nothing of the recording @path, and @text says why. That is no failure, but an empty file that
 * nobody explains looks like one.
 */
int out_format_nothing(const struct out_format *format, const struct prof *prof,
		       const struct query *query, const char *path, enum view_cost cost, char *text,
		       size_t size);
/** out_format_follows() - 0; -EINVAL where one of these words (enum out_word) is nothing that @format can follow. */
int out_format_follows(const struct out_format *format, unsigned words, struct err *err);

#endif
