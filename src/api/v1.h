/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1.h - /api/v1: recordings for the page and for scripts. docs/api.md is normative; the OpenAPI
 * file is served beside it.
 */
#ifndef API_V1_H
#define API_V1_H

#include <stdio.h>

#include "api/http.h"
#include "model/prof.h"
#include "view/view.h"

struct v1;
struct shelf;

/** struct v1_live_facts - of a process that is watched, at the last look. */
struct v1_live_facts {
	int32_t pid;
	char name[32];
	int ended;
	/* when watching it began, and of the last look; ns since 1970, 0: none was made yet */
	uint64_t start_ns, time_ns;
	/* UINT64_MAX: not told */
	uint64_t rss_bytes, virtual_bytes, part_bytes[PROF_PARTS];
};
/**
 * struct v1_live - a source that is no recording: a process that is watched, a node whose messages
 * are stored. Lent, as long as v1.
 */
struct v1_live {
	/* "process", "node" */
	const char *name, *kind;
	/* 0: none */
	int32_t pid;
	/* words of `has` (docs/api.md 4.1), NULL-terminated */
	const char *const *has;
	/**
	 * Its balance sheet of this moment, one JSON object by @by into @to, at most @limit stacks
	 * a line; NULL: there is none. Any thread, one at a time.
	 */
	int (*explain)(void *ctx, enum view_by by, size_t limit, FILE *to, struct err *err);
	/**
	 * How many messages, with @logs log lines, it has in each of @count stretches, (edges[i],
	 * edges[i + 1]], ns since 1970; added to @rows. NULL: it has none. Any thread.
	 */
	int (*tally)(void *ctx, int logs, const uint64_t *edges, size_t count, uint64_t *rows,
		     struct err *err);
	/**
	 * Who it is now, where that changes: restarts, and children that come. NULL: what stands
	 * above. -ENOENT: nobody yet. Any thread.
	 */
	int (*facts)(void *ctx, struct v1_live_facts *facts);
	/**
	 * What was resident of it, malloc'd points by time since *@start_ns, ns since 1970; NULL:
	 * nothing is known. Any thread.
	 */
	int (*timeline)(void *ctx, struct prof_point **points, size_t *count, uint64_t *start_ns,
			struct err *err);
	void *ctx;
};
#define V1_LIVES_MAX 136
#define V1_LIVE_FIRST 4096 /* the number of the first such source */

/** v1_new() - the shelf is lent. NULL with @err. */
struct v1 *v1_new(struct shelf *shelf, struct err *err);
/** v1_free() - after every server that has its routes was stopped. */
void v1_free(struct v1 *v1);

/**
 * v1_add_live() - one more source, with the next number; copied. Before the server starts. -E2BIG.
 */
int v1_add_live(struct v1 *v1, const struct v1_live *live);
/** struct v1_alert - a condition that was met; strings are lent. */
struct v1_alert {
	int32_t pid;
	uint64_t time_realtime_ns;
	/* one sentence */
	const char *text;
	/* all of it, one object */
	const char *json;
};
/**
 * v1_tell() - an event for whoever listens at /api/v1/events, under topic `alert`, for
 * /api/v1/alerts, and for the time axis of a recording of that process. The last V1_TOLD_MAX are
 * kept. Any thread.
 */
#define V1_TOLD_MAX 256
void v1_tell(struct v1 *v1, const struct v1_alert *alert);

#define V1_ROUTES_MAX 40
/** v1_routes() - valid as long as @v1; returns their number. */
size_t v1_routes(struct v1 *v1, struct http_route routes[V1_ROUTES_MAX]);

#endif
