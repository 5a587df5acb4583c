/* SPDX-License-Identifier: Apache-2.0 */
/* v1_internal.h - what the files of /api/v1 share: a question on its way to an answer. */
#ifndef API_V1_INTERNAL_H
#define API_V1_INTERNAL_H

#include <stdio.h>

#include "api/ask.h"
#include "api/http.h"
#include "api/shelf.h"
#include "api/v1.h"
#include "base/jsonw.h"

#define V1_UNAPPLIED_MAX 16

/** struct v1_call - one question. */
struct v1_call {
	struct v1 *v1;
	struct shelf *shelf;
	const struct http_request *request;
	/* for an answer that is no JSON: content_type set */
	struct http_reply *reply;
	struct ask ask;
	size_t source;
	/* v1_read(): the sums by thread, too */
	int wants_threads;
	/* v1_read(): no cost but the one of the question */
	int wants_one;
	/* @base: NULL where nothing is compared */
	struct reading *reading, *base;
	struct shelf_fold *folded;
	/* a tree of this answer's own: @folded points here */
	struct shelf_fold own;
	struct {
		char word[64];
		const char *why;
	} unapplied[V1_UNAPPLIED_MAX];
	unsigned unapplied_count;
	/* of a reading that is not there yet */
	double progress;
	/* v1_reading() may leave what is there of it, and return V1_PENDING */
	int takes_part;
	/* v1_blocks_get() may leave those that found room */
	int takes_kept;
	/* the answer is of such: it is not kept */
	int in_part;
	/* v1_reading() waits for its turn to put the answer together; it is its turn */
	int takes_turns, works;
	struct jsonw json;
};

/**
 * A route's own work: writes the members behind the head. 0, or negative errno with @err;
 * v1_pending where it must wait.
 */
typedef int (*v1_answer)(struct v1_call *call, struct err *err);
#define V1_PENDING 1

/** v1_read() - call->reading of the selection, and call->base. 0, V1_PENDING, negative errno. */
int v1_read(struct v1_call *call, struct err *err);
/** v1_fold() - the same, and call->folded. */
int v1_fold(struct v1_call *call, struct err *err);
/** v1_reading() - any reading, with the patience of @call. As v1_read(). */
int v1_reading(struct v1_call *call, const struct shelf_query *query, struct reading **out,
	       struct err *err);
/**
 * v1_make() - call->reading with a product of @make (shelf.h) over the selection; @words name what
 * of @args it depends on. As v1_read().
 */
int v1_make(struct v1_call *call, const char *words,
	    int (*make)(const void *args, const struct shelf_task *task,
			struct shelf_product *product, struct err *err),
	    const void *args, size_t args_len, int streams, struct err *err);
/** v1_unapplied() - @word of the question cannot apply here, because of @why (static). */
void v1_unapplied(struct v1_call *call, const char *why, const char *word, const char *value);
/** v1_head() - the members that every answer begins with (docs/api.md 1). After v1_read(). */
void v1_head(struct v1_call *call, const uint64_t *values);
/** v1_put_unapplied() - words of the selection that the answer takes no notice of, and why. */
void v1_put_unapplied(struct jsonw *json, const struct v1_call *call);

/** v1_values() - @cost of each account; malloc'd, NULL with @err. */
uint64_t *v1_values(const struct reading *reading, enum view_cost cost, struct err *err);
/** v1_account_of() - of stack row @row of the names; UINT32_MAX: it has none. */
uint32_t v1_account_of(const struct book *book, uint32_t row);
/** v1_blocks() - how many blocks that is, by account. As v1_values(). */
uint64_t *v1_blocks(const struct reading *reading, enum view_cost cost, struct err *err);

/** v1_lives() - sources that are no recordings; lent. */
const struct v1_live *v1_lives(const struct v1 *v1, size_t *count);
/**
 * v1_told() - what v1_tell() was told, number @number (from 1 on), into @to: 1; 0: not told yet, or
 * gone. *@last: the newest's number.
 */
int v1_told(struct v1 *v1, uint64_t number, struct buf *to, uint64_t *last);

/**
 * v1_alert_flags() - what was told of @pid between two moments, ns since 1970; @put gets times from
 * the first one on.
 */
void v1_alert_flags(struct v1 *v1, int32_t pid, uint64_t from_ns, uint64_t to_ns,
		    void (*put)(void *ctx, uint64_t time_ns, const char *text), void *ctx);

/* Columns. */
/** struct v1_column - a JSON array that grows; zero-initialised is empty. */
struct v1_column {
	struct buf text;
	/* numbers are put as what they differ by from the one before, @last */
	int delta;
	uint64_t last;
};
void v1_col_u64(struct v1_column *column, uint64_t value);
void v1_col_i64(struct v1_column *column, int64_t value);
void v1_col_null(struct v1_column *column);
void v1_col_key(struct v1_column *column, uint64_t key);
void v1_col_raw(struct v1_column *column, const char *text);
/** v1_col_put() - write it as member @key, and release it. */
void v1_col_put(struct v1_call *call, const char *key, struct v1_column *column);

/** struct v1_frames - the frames that an answer names: numbered in order of first use. */
struct v1_frames {
	const struct shelf_fold *folded;
	/* by fold frame: 1 + its number in the answer */
	uint32_t *number;
	uint32_t *list;
	uint32_t count;
};
int v1_frames_init(struct v1_frames *frames, const struct shelf_fold *folded, struct err *err);
uint32_t v1_frame(struct v1_frames *frames, uint32_t frame);
/** v1_frames_put() - `frames`, `modules`, `files`. */
void v1_frames_put(struct v1_call *call, const struct v1_frames *frames);
void v1_frames_fini(struct v1_frames *frames);

/** enum v1_category - who owns a frame; numbers of `category`. */
enum v1_category {
	CATEGORY_OWN,
	CATEGORY_PROJECT,
	CATEGORY_RUNTIME,
	CATEGORY_ALLOCATOR,
	CATEGORY_SYSTEM,
	CATEGORY_KERNEL,
	CATEGORY_FILE,
	CATEGORY_UNKNOWN
};
extern const char *const v1_category_names[CATEGORY_UNKNOWN + 1];
/** v1_category() - by where the module lies; @exe: the program's own. */
enum v1_category v1_category(const struct fold_frame *frame, const char *exe);

/**
 * v1_losses() - when events were lost, as v1_reading(); v1_losses_put() - as flags, into the array
 * that is open.
 */
int v1_losses(struct v1_call *call, struct reading **reading, struct err *err);
void v1_losses_put(struct v1_call *call, const struct reading *reading);

/** v1_has_rss() - is anything resident known in the timeline of @names? */
int v1_has_rss(const struct prof *names);
/** v1_timeline_counts() - does @series (NULL: none is named) ask what stores hold? They go on. */
int v1_timeline_counts(const char *series);

/* The routes. */
int v1_sources(struct v1_call *call, struct err *err);
int v1_summary(struct v1_call *call, struct err *err);
int v1_timeline(struct v1_call *call, struct err *err);
int v1_tree(struct v1_call *call, struct err *err);
int v1_rows(struct v1_call *call, struct err *err);
int v1_search(struct v1_call *call, struct err *err);
int v1_allocations(struct v1_call *call, struct err *err);
int v1_allocation(struct v1_call *call, struct err *err);
int v1_histogram(struct v1_call *call, struct err *err);
int v1_maps(struct v1_call *call, struct err *err);
int v1_space(struct v1_call *call, struct err *err);
int v1_address(struct v1_call *call, struct err *err);
int v1_growth(struct v1_call *call, struct err *err);
int v1_source(struct v1_call *call, struct err *err);
int v1_explain(struct v1_call *call, struct err *err);
int v1_events(struct v1_call *call, struct err *err);
int v1_alerts(struct v1_call *call, struct err *err);
/** v1_explain_live() - of call->source, which is no recording. */
int v1_explain_live(struct v1_call *call, struct err *err);
int v1_explain(struct v1_call *call, struct err *err);
int v1_export(struct v1_call *call, struct err *err);
/** v1_export_as() - as what a format writes; @call->ask.reading names its query. */
struct out_format;
int v1_export_as(struct v1_call *call, const struct out_format *format, struct err *err);
int v1_pprof_heap(struct v1_call *call, struct err *err);
int v1_pprof_allocs(struct v1_call *call, struct err *err);
void v1_pprof_index(void *ctx, const struct http_request *request, struct http_reply *reply);

#endif
