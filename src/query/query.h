/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - the selection words (docs/rules.md) over a recording: which blocks count, and at which
 * moment.
 *
 * A selection is a set of blocks. The reading of a selection is the one that a recording of nothing
 * but these blocks would give: its peak is the highest sum of their bytes, at the first such
 * moment.
 */
#ifndef QUERY_QUERY_H
#define QUERY_QUERY_H

#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"
#include "trace/trace.h"

/** A moment as the user wrote it: `10s`, `-5m`, `50%`, `peak`, `mark:7`, 14:03, RFC 3339 ... */
struct query_time {
	enum {
		QUERY_TIME_NONE = 0,
		QUERY_TIME_START_NS,   /* value: ns from the start */
		QUERY_TIME_END_NS,     /* value: ns before the end */
		QUERY_TIME_PERMILLION, /* value: of the runtime */
		QUERY_TIME_PEAK,
		QUERY_TIME_END,
		QUERY_TIME_WALL_NS, /* value: ns since 1970 UTC */
		/* value: ns since midnight of the recording's day, where we are */
		QUERY_TIME_CLOCK_NS,
		QUERY_TIME_MARK /* value: the first mark of that number */
	} kind;
	uint64_t value;
	/* of a clock time: a minute or a second where nothing finer was given */
	uint64_t span_ns;
	/* as it was typed, for messages; cut where it is longer */
	char text[40];
};
/**
 * query_mark() - when the first mark of number @value was set; -EINVAL with @err, which names those
 * that there are.
 */
int query_mark(const struct marks *marks, uint64_t value, uint64_t *ns, struct err *err);

/** query_time_parse() - -EINVAL with a message and a hint naming the accepted forms. */
int query_time_parse(const char *text, struct query_time *time, struct err *err);
/**
 * query_path_split() - FILE, or FILE@TIME; a file that is called so is meant first. *@path:
 * malloc'd. 0 or negative errno.
 */
int query_path_split(const char *word, char **path, struct query_time *at, struct err *err);
/**
 * query_duration_parse() - `1h30m`, `10s`, `1.5s`, `250ms`, `5us`, `7ns`; a bare number is seconds.
 * Into ns.
 */
int query_duration_parse(const char *text, uint64_t *ns, struct err *err);
/** query_size_parse() - `100`, `64K`, `1.5MiB`, `2G`: powers of 1024. Into bytes. */
int query_size_parse(const char *text, uint64_t *bytes, struct err *err);
/**
 * query_regex_check() - is this a pattern for query.function_regex? -EINVAL with a message and a
 * hint where not.
 */
int query_regex_check(const char *regex, struct err *err);
/**
 * query_time_resolve() - nanoseconds since the start of @reading (a whole one: its runtime and peak
 * are asked for). Return: 0, or -EINVAL where the recording's wall clock is not known.
 */
int query_time_resolve(const struct query_time *time, const struct prof *reading, uint64_t *ns,
		       struct err *err);

/**
 * query_time_resolve_inside() - the same, but -EINVAL with its range for what lies outside of the
 * recording; what its report rounds up is still inside. @last: of a minute or second that begins
 * before the recording its end is meant, not the recording's start.
 */
int query_time_resolve_inside(const struct query_time *time, const struct prof *reading, int last,
			      uint64_t *ns, struct err *err);

/**
 * query_mask() - which stack rows of @names have a frame whose function, or source file, matches; a
 * byte each, malloc'd. NULL with
 * @err.
 */
uint8_t *query_mask(const struct prof *names, const char *regex, int source, struct err *err);

/**
 * struct query - zero-initialised selects everything. Bounds are inclusive but for @to (exclusive).
 */
struct query {
	struct query_time at, from, to;
	/* 1: a time outside of the recording is an error, not its start or end */
	int times_inside;
	/* POSIX extended, any frame, demangled */
	const char *function_regex;
	uint64_t min_size, max_size;
	int has_max_size;
	int has_lifetime_min, has_lifetime_max;
	uint64_t lifetime_min_ns, lifetime_max_ns;
	/* only blocks never freed */
	int leaked;
	/* only stacks with a frame in it: its base name */
	const char *module;
	int has_thread;
	/* tid: only what it allocated */
	uint32_t thread;
	/* only what one stack allocated: its row of the whole reading's names */
	int has_stack;
	uint32_t stack;
	/* only blocks that touch [address_from, address_to) */
	int has_address;
	uint64_t address_from, address_to;
};

/**
 * query_touches() - does a block lie in [@from, @to), be it in part? One of no bytes has a place,
 * too.
 */
static inline int query_touches(uint64_t from, uint64_t to, uint64_t addr, uint64_t bytes)
{
	return addr < to && (addr >= from || from - addr < bytes);
}

/** query_is_empty() - 1 if @query (NULL too) selects everything. */
int query_is_empty(const struct query *query);

/** struct query_key, struct query_seed - trace_key and trace_seed of trace/trace.h. */
struct query_key {
	uint64_t at, first, time_ns;
};
struct query_seed {
	uint64_t bytes;
	uint32_t slot, stack;
};
/**
 * struct query_source - where the events come from: a .blt recording, or a foreign file read by
 * somebody else.
 * @run replays everything into a sink; each time the same. @run_until (may be NULL) may leave out
 * events later than a
 * moment, but no definition: for `at`, after which nothing counts. @summary (may be NULL) loads a
 * finished reading: 1 done, 0 there is none, negative errno. @resolve (may be NULL) gives symbols
 * to the frames that have none; function_regex asks.
 */
struct query_source {
	/*
	 * Both or none: where reading can begin, and reading from there (trace_reader_from()), by
	 * several threads at once.
	 */
	int (*run_keys)(void *ctx, void (*key)(void *key_ctx, const struct query_key *key),
			void *key_ctx, struct sink *sink, struct err *err);
	int (*run_from)(void *ctx, const struct query_key *key, uint64_t until,
			const struct query_seed *seeds, size_t count, struct sink *sink,
			struct err *err);
	int (*run)(void *ctx, struct sink *sink, struct err *err);
	int (*run_until)(void *ctx, uint64_t until_ns, struct sink *sink, struct err *err);
	/*
	 * what lives at a moment (trace_reader_living()); NULL where a recording has no snapshots
	 */
	int (*living)(void *ctx, uint64_t until_ns, struct sink *sink, struct trace_living *living,
		      struct err *err);
	int (*summary)(void *ctx, struct prof *prof, struct err *err);
	int (*resolve)(void *ctx, struct prof *prof, struct err *err);
	void *ctx;
};

/**
 * query_run() - the reading that @query (NULL: everything) selects, as a prof whose counters hold
 * only the selected blocks; with `at`: those live at that moment and nothing else (allocations =
 * live blocks, frees 0). Cost: without a query the summary, else one replay where there is none.
 * With one: the summary or a replay for what has to be known before (length, peak, names), and a
 * replay; two for lifetimes and `leaked`. Memory: definitions + 33 bytes a live block with `at`,
 * else 25; for lifetimes and `leaked` one bit an allocation in a temporary file. Return: a new
 * prof, release with prof_free(); NULL with @err.
 */
struct prof *query_run(const struct query_source *source, const struct query *query,
		       struct err *err);

/**
 * query_scratch() - a file without a name, for what grows with events; negative errno with @err.
 * The caller's to close.
 */
int query_scratch(struct err *err);

/**
 * query_stream() - the events of the selected blocks into @to, with all definitions and the events
 * that are not about blocks: what a format that takes a stream writes. @query NULL or empty:
 * everything. Cost as above.
 */
int query_stream(const struct query_source *source, const struct query *query, struct sink *to,
		 struct err *err);

/** query_limit_parse() - a number of rows, from 1. -EINVAL. */
int query_limit_parse(const char *text, size_t *limit, struct err *err);
/**
 * query_take() - one word of a selection, "min-size" with @value "64K"; "leaked" has none. @query
 * keeps what a regex points to. -EINVAL with
 * @err.
 */
int query_take(struct query *query, const char *word, const char *value, struct err *err);

#endif
