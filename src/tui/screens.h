/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screens.h - the screens of `top` beside the heap's, as questions to the page's API (docs/api.md)
 * and as what their answers show. Pure functions: a question as text, an answer as a sheet.
 */
#ifndef TUI_SCREENS_H
#define TUI_SCREENS_H

#include <sys/types.h>

#include "base/buf.h"
#include "tui/sheet.h"
#include "view/view.h"

enum screen {
	SCREEN_BALANCE = 2,
	SCREEN_TREE = 3, /* of a server's recording; else the heap's own */
	SCREEN_TABLE = 4,
	SCREEN_GROWTH = 5,
	SCREEN_REGIONS = 6,
	SCREEN_PAGES = 7,
	SCREEN_SAMPLER = 8,
	SCREEN_NODE = 9,
	SCREENS
};
#define SCREEN_NOWHERE UINT32_MAX

/** struct screen_what - what is looked at. */
struct screen_what {
	enum screen screen;
	/* of the screen, one after the other: the key `v`; any number */
	unsigned form;
	/* sources that have it; SCREEN_NOWHERE */
	uint32_t recording, process, node;
	/* of @process */
	pid_t pid;
	enum view_by by;
	/* a recording at a moment, in thousandths of its length */
	int has_at;
	/* since: where growth is told from */
	unsigned at, since;
	void (*short_name)(struct buf *to, const char *function, int ascii);
};

/** screen_forms() - how many forms the screen has. */
unsigned screen_forms(const struct screen_what *what);
/** screen_name() - "balance". */
const char *screen_name(enum screen screen);
/**
 * screen_moves() - whether moments can be asked for; screen_merges() - whether `by` says something.
 */
int screen_moves(const struct screen_what *what);
int screen_merges(const struct screen_what *what);
/** screen_question() - appended to @to. */
void screen_question(const struct screen_what *what, struct buf *to);
/** screen_read() - @json, an answer to that, into the empty @sheet. -EBADMSG where it is none. */
int screen_read(const struct screen_what *what, const char *json, size_t len, struct sheet *sheet,
		struct err *err);
/** screen_error() - what an answer with another status says; appended to @to. */
void screen_error(const char *json, size_t len, struct buf *to);

/** struct screen_sources - what `/api/v1/sources` offers. */
struct screen_sources {
	/* 1 << enum screen */
	unsigned has;
	uint32_t recording, process, node;
	pid_t pid;
	char name[80];
	int live;
};
int screen_sources(const char *json, size_t len, struct screen_sources *sources, struct err *err);
/** screen_counts_pages() - whether the answer to /v1/tree?short=true knows of any. */
int screen_counts_pages(const char *json, size_t len);

#endif
