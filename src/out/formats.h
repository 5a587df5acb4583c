/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h - the formats that a recording is exported to, by name: for `export` and for the
 * server.
 */
#ifndef OUT_FORMATS_H
#define OUT_FORMATS_H

#include "out/out.h"
#include "query/query.h"
#include "query/recording.h"

enum out_word { OUT_WORD_BY = 1, OUT_WORD_COST = 2, OUT_WORD_LIMIT = 4, OUT_WORD_INVERTED = 8 };

/**
 * struct out_format - @reading writes a finished reading; @stream takes every event. One of them is
 * set.
 */
struct out_format {
	const char *name;
	/* of a file: "svg", "image/svg+xml" */
	const char *ending, *type;
	int (*reading)(FILE *to, const struct prof *prof, const struct out_opt *opt,
		       struct err *err);
	struct out_stream *(*stream)(FILE *to, const struct prof *names, struct err *err);
	/* not for terminals, and compressed already */
	int binary;
	int tells_losses;
	/* a place for blocks that are known by the sums of their stacks only */
	int has_sums;
	/* enum out_word: what it can follow */
	unsigned words;
};
#define OUT_WORDS_CALLS (OUT_WORD_COST | OUT_WORD_LIMIT | OUT_WORD_INVERTED)
#define OUT_WORDS_TABLE (OUT_WORD_BY | OUT_WORD_COST | OUT_WORD_LIMIT)
#define OUT_TYPE_TEXT "text/plain; charset=utf-8"

/*
 * The formats: a row makes the name known to `export`, its help and the server, and declares the
 * function that writes it: out_NAME() of a reading, out_NAME_new() of a stream. X(NAME, ending,
 * type, binary, tells_losses, has_sums, words).
 */
#define OUT_FORMATS(READING, STREAM)                                                            \
	READING(folded, "folded", OUT_TYPE_TEXT, 0, 0, 1, OUT_WORDS_CALLS)                      \
	READING(flamegraph, "svg", "image/svg+xml", 0, 0, 1, OUT_WORD_COST | OUT_WORD_INVERTED) \
	READING(pprof, "pb.gz", "application/octet-stream", 1, 0, 1,                            \
		OUT_WORD_COST | OUT_WORD_LIMIT)                                                 \
	READING(speedscope, "speedscope.json", "application/json", 0, 0, 1, OUT_WORDS_CALLS)    \
	STREAM(heaptrack, "heaptrack", OUT_TYPE_TEXT, 0, 0, 0, 0)                               \
	STREAM(massif, "massif", OUT_TYPE_TEXT, 0, 0, 0, 0)                                     \
	STREAM(dhat, "dhat.json", "application/json", 0, 0, 1, 0)                               \
	READING(csv, "csv", "text/csv; charset=utf-8", 0, 0, 1, OUT_WORDS_TABLE)                \
	READING(json, "json", "application/json", 0, 1, 1, OUT_WORDS_TABLE)                     \
	STREAM(jsonl, "jsonl", "application/x-ndjson", 0, 1, 1, 0)                              \
	READING(prometheus, "prom", "text/plain; version=0.0.4; charset=utf-8", 0, 1, 1,        \
		OUT_WORDS_TABLE)

#define OUT_FORMAT_WORD(name, ...) " " #name
/* " folded flamegraph ...", each with a space before it */
#define OUT_FORMAT_NAMES OUT_FORMATS(OUT_FORMAT_WORD, OUT_FORMAT_WORD)

#define OUT_DECLARE_READING(name, ...)                                               \
	int out_##name(FILE *to, const struct prof *prof, const struct out_opt *opt, \
		       struct err *err);
#define OUT_DECLARE_STREAM(name, ...) \
	struct out_stream *out_##name##_new(FILE *to, const struct prof *names, struct err *err);
OUT_FORMATS(OUT_DECLARE_READING, OUT_DECLARE_STREAM)

/**
 * out_format_replay - the older tracer's, for its REST alone: into a file that can be sought in.
 */
extern const struct out_format out_format_replay;
/** out_format_find() - NULL where there is no such format. */
const struct out_format *out_format_find(const char *name);
/**
 * out_format_stream() - what @query selects of @recording, event by event; @names: of the same. 0
 * or negative errno.
 */
int out_format_stream(const struct out_format *format, FILE *to, struct recording *recording,
		      const struct query *query, const struct prof *names, struct err *err);
/**
 * out_format_nothing() - 1: it will show nothing of the recording @path, and @text says why. That
 * is no failure, but an empty file that nobody explains looks like one.
 */
int out_format_nothing(const struct out_format *format, const struct prof *prof,
		       const struct query *query, const char *path, enum view_cost cost, char *text,
		       size_t size);
/**
 * out_format_follows() - 0; -EINVAL where one of these words (enum out_word) is nothing that
 * @format can follow.
 */
int out_format_follows(const struct out_format *format, unsigned words, struct err *err);

#endif
