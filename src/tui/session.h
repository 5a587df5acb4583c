/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one recording, process, node or server on the terminal, its screens by digit, until
 * the reader has seen enough. In order of use: paint_check(), heap_session_new(),
 * heap_session_run(), heap_session_stack(), heap_session_free(). One thread.
 */
#ifndef TUI_SESSION_H
#define TUI_SESSION_H

#include <sys/types.h>

#include "query/recording.h"
#include "tui/heap.h"

struct heap_session;

/** struct heap_session_opt - all that is named is lent as long as the session. */
struct heap_session_opt {
	/*
	 * A recording, a folder of them, a store of a node, the address of a server; NULL: process
	 * @pid, and its recording where one is being written.
	 */
	const char *path;
	pid_t pid;
	const struct query *query;
	/* before the screen is taken */
	const struct recording_ears *ears;
	/* what is selected; NULL: all */
	const char *words;
	enum view_by by;
	enum view_cost cost;
	/*
	 * else what lives of one that grows or of a moment, what there was at the peak of a
	 * finished one
	 */
	int cost_given;
	int inverted;
	/* between two looks at what grows */
	uint64_t delay_ns;
	/* `1` leads back there */
	int from_list;
	/* out/name.h */
	void (*short_name)(struct buf *to, const char *function, int ascii);
};

/** heap_session_new() - read it, or begin to follow it. NULL with @err. */
struct heap_session *heap_session_new(const struct heap_session_opt *opt, struct err *err);
/** heap_session_run() - take the screen until the reader leaves. 0 or negative errno. */
int heap_session_run(struct heap_session *session, struct err *err);
/**
 * heap_session_stack() - the path that was asked for to be printed afterwards; empty where none
 * was. Lent.
 */
const struct buf *heap_session_stack(const struct heap_session *session);
void heap_session_free(struct heap_session *session);

#endif
