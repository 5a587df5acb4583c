/* SPDX-License-Identifier: Apache-2.0 */
/* bh_internal.h - what the files of the bytehound-compatible REST share. */
#ifndef API_BH_INTERNAL_H
#define API_BH_INTERNAL_H

#include "api/bh.h"
#include "api/v1_blocks.h"
#include "script/script.h"

struct bh_range {
	uint64_t min, max;
};
/** struct bh_filter - the words of an allocation filter, as numbers. */
struct bh_filter {
	struct bh_range time, lifetime, chain_lifetime, size, first_size, last_size, address, depth,
		chain_length, position, group_interval, group_count, group_leaked, group_most_ns;
	uint64_t alive_at[2];
	int has_alive[2];
	enum { BH_ALL, BH_LEAKED, BH_CHAIN_LEAKED, BH_TEMPORARY, BH_WHOLE_GROUP_LEAKED } life;
	/* -1: any */
	int mmaped, main_arena, jemalloc;
	/* UINT64_MAX: any */
	uint64_t backtrace, deallocation;
	int has_group;
	/* by row; NULL: all */
	uint8_t *stacks;
	double group_leaked_min_share, group_leaked_max_share;
};

/** struct bh_call - one question. */
struct bh_call {
	/* first: patience, readings */
	struct v1_call call;
	/* @rows: blocks, @sums: groups; NULL until asked for */
	struct reading *whole, *rows, *sums;
	const struct prof *names;
	const struct blocks *blocks;
	const struct v1_groups *groups;
	/* realtime, and how long it ran */
	uint64_t start_ns, length_ns;
	int has_jemalloc, strip, wants_maps;
	struct bh_filter filter;
	/* what custom_filter returned: a bit for each block, or mapping, by its number; NULL */
	uint8_t *custom;
	uint64_t custom_count;
	/* by frame row: stacks that it stands in */
	uint32_t *frame_count;
};

/** bh_filter_parse() - 0 or -EINVAL with @err. Release with bh_filter_fini(). */
int bh_filter_parse(struct bh_call *b, struct err *err);
void bh_filter_fini(struct bh_filter *filter);
int bh_matches(const struct bh_call *b, const struct block_row *row);
/** bh_arg() - a word of the query; NULL. */
const char *bh_arg(const struct bh_call *b, const char *key);

struct bh_paging {
	uint64_t skip, count;
	int descending;
	/* "" = none given */
	const char *sort_by;
};
/** bh_paging() - skip, count, order, sort_by. -EINVAL, -ERANGE. */
int bh_paging(const struct bh_call *b, struct bh_paging *paging, struct err *err);

/* Answers; each writes one JSON value, or text. */
void bh_put_time(struct jsonw *json, const char *key, const struct bh_call *b, uint64_t ns);
void bh_put_span(struct jsonw *json, const char *key, uint64_t ns);
/** bh_put_times() - KEY, KEY_relative and KEY_relative_p. */
void bh_put_times(struct jsonw *json, const char *key, const struct bh_call *b, uint64_t ns);
/** bh_put_backtrace() - an array of frames, outermost first. */
void bh_put_backtrace(struct jsonw *json, const char *key, const struct bh_call *b, uint32_t stack);
int bh_allocations(struct bh_call *b, struct err *err);
int bh_allocation_groups(struct bh_call *b, struct err *err);
int bh_timeline(struct bh_call *b, int leaked, struct err *err);
int bh_timeline_maps(struct bh_call *b, struct err *err);
int bh_backtraces(struct bh_call *b, struct err *err);
int bh_backtrace(struct bh_call *b, const char *number, struct err *err);
/**
 * bh_tree() - @only: regular expression of functions that stacks pass, NULL: all; @ascii: as text.
 */
int bh_tree(struct bh_call *b, const char *only, int ascii, struct err *err);
int bh_maps(struct bh_call *b, struct err *err);
int bh_regions(struct bh_call *b, struct err *err);
/** bh_graph() - a small picture over time: "group/STACK" of what matches, "map/ID". */
int bh_graph(struct bh_call *b, const char *what, struct err *err);
/**
 * bh_put_graphs() - graph_url and graph_preview_url of "group" or "map" @number, where the question
 * has generate_graphs; "all": of the whole group, whatever the filter.
 */
void bh_put_graphs(struct jsonw *json, const struct bh_call *b, const char *what, uint64_t number);
/** bh_put_filter() - its filter words, as "&key=value"... */
void bh_put_filter(struct buf *to, const struct bh_call *b);
/** bh_data_id() - what /list calls @source. */
void bh_data_id(const struct shelf *shelf, size_t source, char to[33]);

/* Scripts: all of them need the server's token. */
int bh_execute(struct bh_call *b, struct err *err);
/** bh_custom() - run custom_filter: b->custom. */
int bh_custom(struct bh_call *b, struct err *err);
/** bh_script_file() - a picture that a script made: "CHECKSUM/NAME". */
int bh_script_file(struct bh_call *b, const char *tail, struct err *err);
/** bh_filter_to_script() - the question's filter words as a script. */
int bh_filter_to_script(struct bh_call *b, int of_maps, struct err *err);
int bh_raw_allocations(struct bh_call *b, struct err *err);

#endif
