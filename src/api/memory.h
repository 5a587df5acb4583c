/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - the routes on a process's mappings: /debug/memory, /debug/memory/history,
 * /debug/memory/diff, and what /metrics says of them. Readings come from whoever watches the
 * processes (watch/live.h).
 */
#ifndef API_MEMORY_H
#define API_MEMORY_H

#include <stdio.h>

#include "api/http.h"
#include "model/history.h"
#include "proc/breakdown.h"
#include "view/growth.h"
#include "watch/live.h"

#define MEMORY_TOP_DEFAULT 20
#define MEMORY_TOP_MAX 10000
#define MEMORY_POINTS_MAX 20000 /* of a history in one answer */
#define MEMORY_METRIC_LABELS_MAX \
	50 /* the rest is added up: a scrape must not grow with the target */

/** The handlers; ctx is a struct memory_source. */
void memory_debug(void *ctx, const struct http_request *request, struct http_reply *reply);
void memory_history(void *ctx, const struct http_request *request, struct http_reply *reply);
void memory_diff(void *ctx, const struct http_request *request, struct http_reply *reply);
void memory_metrics(void *ctx, const struct http_request *request, struct http_reply *reply);
/**
 * struct memory_history_ask - which series of a history, from when to when, with their points or
 * only what they show.
 */
struct memory_history_ask {
	/* NULL = any; both NULL = the process, too */
	const char *class, *label;
	uint64_t from_ns, to_ns;
	int points;
	/* what does not fit is left out, the newest stays */
	size_t points_max;
};
/** memory_history_put() - one object; -ENOMEM. */
int memory_history_put(FILE *to, const struct memory_facts *facts,
		       const struct memory_history_ask *ask);
/**
 * memory_history_file() - all of a history file for people's scripts: every series with its points,
 * of the last process in it.
 */
int memory_history_file(FILE *to, const struct history *history, struct err *err);
/**
 * memory_growth() - of each row of @b's classes, what it has more than at @since_ns; labels that
 * were not there then had nothing. malloc'd; NULL without memory.
 */
int64_t *memory_growth(const struct history *history, const struct breakdown *b, uint64_t since_ns);
/** memory_metrics_put() - the families alone, for a /metrics with other contributors. */
void memory_metrics_put(const struct memory_source *source, struct buf *out);

/**
 * memory_cache_new() - remembers what is dear to make again; NULL without memory. Release it when
 * no handler runs any more.
 */
struct memory_cache *memory_cache_new(void);
void memory_cache_free(struct memory_cache *cache);

/* Shared by these files. */
/**
 * struct memory_trends - growth in the last ten minutes: of the process (key 0's), then of the
 * labels largest now.
 */
struct memory_trend {
	struct history_key key;
	struct growth growth;
};
struct memory_trends {
	size_t count;
	struct memory_trend rows[MEMORY_METRIC_LABELS_MAX + 1];
};
/**
 * memory_trends_get() - those of the sample that @facts tell of, or of an earlier one where judging
 * them each time would take more than 0.1 % of a CPU. -ENOMEM.
 */
int memory_trends_get(struct memory_cache *cache, const struct memory_facts *facts,
		      struct memory_trends *trends);
typedef int (*memory_answer_fn)(void *ctx, struct buf *body);
/**
 * memory_cache_answer() - append what @make appends; the same as before where @question is the same
 * and there was no sample since (@time_ns) or making it each time would take more than 2 % of a
 * CPU. One at a time. What @make returns.
 */
int memory_cache_answer(struct memory_cache *cache, const char *question, uint64_t time_ns,
			memory_answer_fn make, void *ctx, struct buf *body);
/**
 * memory_arg_time() - `@key`: "-5m" before @now_ns, or seconds since 1970; @time_ns stays where it
 * is absent. -EINVAL with a 400.
 */
int memory_arg_time(const struct http_request *request, const char *key, uint64_t now_ns,
		    uint64_t *time_ns, struct http_reply *reply);
/**
 * memory_at() - history_at(); a moment before the first sample is the first sample: what was kept
 * does not reach further.
 */
void memory_at(const struct history *history, uint64_t time_ns, struct history_point *at,
	       size_t keys);
/** memory_arg_pid() - `pid`: 0 where absent, -1 with a 400 in @reply. */
int32_t memory_arg_pid(const struct http_request *request, struct http_reply *reply);
/** memory_find() - facts of @pid (0: the first); -1 with a 404 in @reply. */
int memory_find(const struct memory_source *source, int32_t pid, struct memory_facts *facts,
		struct http_reply *reply);

#endif
