/* SPDX-License-Identifier: Apache-2.0 */
/*
 * views.h - the screens beside the heap's, one at a time: asks for what is shown, again and again
 * where it is live, and moves through a recording. Knows no terminal. One thread; answers are
 * worked out on another.
 */
#ifndef TUI_VIEWS_H
#define TUI_VIEWS_H

#include <sys/types.h>

#include "tui/grid.h"
#include "tui/screens.h"

struct views;
struct views_opt {
	/* a recording, a folder of them, a store, or the address of a server; NULL: process @pid */
	const char *path;
	/* of @pid: its recording, where it is being recorded; NULL */
	const char *written;
	pid_t pid;
	/* a recording: its tree and table are shown by somebody else */
	int heap;
	/* between two answers of what is live */
	uint64_t delay_ns;
	void (*short_name)(struct buf *to, const char *function, int ascii);
};
/**
 * views_new() - all of @opt that is named is lent. Where there is no heap, what there is is asked
 * for. NULL with @err.
 */
struct views *views_new(const struct views_opt *opt, struct err *err);
void views_free(struct views *views);
/** views_has() - which screens there are, 1 << enum screen. */
unsigned views_has(const struct views *views);
/** views_name() - what is looked at, "" where that is for others to say. */
const char *views_name(const struct views *views);
/** views_tabs() - "2bal 3tree ...": those digits that lead somewhere. Lent. */
const char *views_tabs(const struct views *views);
/** views_why_not() - why a digit leads nowhere, and what would; lent. */
const char *views_why_not(const struct views *views, int screen);
/** views_show() - @screen from here on; the next form of it where it is shown already. */
int views_show(struct views *views, enum screen screen, struct err *err);
/** views_screen() - which is shown; 0: none yet. */
int views_screen(const struct views *views);
/**
 * views_look() - whatever has come since; @still: the reader is at the keys. 0 or negative errno
 * with @err.
 */
int views_look(struct views *views, int still, struct err *err);
/** views_key() - 1 taken, 0 not one of these keys, negative errno with @err. */
int views_key(struct views *views, int key, struct err *err);
void views_draw(struct views *views, const char *title, const char *said, struct grid *grid);
void views_path(const struct views *views, struct buf *to);

#endif
