/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_live.h - processes that are watched, and what is being recorded of them: /debug/memory,
 * /metrics, and the page. In order of use: memory_live_init(), a server with memory_live_more() and
 * the files found, memory_live_tell(), the server's end, memory_live_fini().
 */
#ifndef API_MEMORY_LIVE_H
#define API_MEMORY_LIVE_H

#include "api/memory.h"
#include "api/serving.h"
#include "watch/targets.h"
#include "watch/watched.h"

/** struct memory_live - zero-initialised. */
struct memory_live {
	/* a place each, for processes that come later, too */
	struct memory_place {
		struct watched_set *set;
		size_t at;
	} places[TARGETS_GIVEN_MAX];
	struct memory_source source;
	struct http_route routes[4];
	struct v1_live lives[TARGETS_GIVEN_MAX];
	size_t live_count;
	char (*paths)[1024];
	/* recordings that are being written of them */
	const char *files[TARGETS_GIVEN_MAX];
	size_t file_count;
};

/**
 * memory_live_init() - the balance sheet of each is made when it is asked for. -ENOMEM;
 * memory_live_fini() in any case.
 */
int memory_live_init(struct memory_live *live, struct watched_set *set, int hide_addresses,
		     struct err *err);
struct serving_more memory_live_more(struct memory_live *live);
/** memory_live_tell() - an alert, for the pages that are open. */
void memory_live_tell(const struct memory_live *live, struct serving *serving,
		      const struct alert_event *event);
void memory_live_fini(struct memory_live *live);

#endif
