/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paint.h - the terminal: a grid onto it, keys from it. The one file that knows curses; one
 * terminal, one thread.
 */
#ifndef TUI_PAINT_H
#define TUI_PAINT_H

#include "tui/grid.h"

enum paint_key {
	PAINT_NONE = -1, /* nothing was typed until the time was over */
	PAINT_UP = 0x110000,
	PAINT_DOWN,
	PAINT_LEFT,
	PAINT_RIGHT,
	PAINT_PAGE_UP,
	PAINT_PAGE_DOWN,
	PAINT_HOME,
	PAINT_END,
	PAINT_ENTER,
	PAINT_ESCAPE,
	PAINT_BACKSPACE,
	PAINT_RESIZE, /* paint_size() says something else now */
	PAINT_GONE    /* the terminal is gone, or a signal asks for the end */
};

/** paint_check() - -EINVAL with a hint where stdin or stdout is no terminal. */
int paint_check(struct err *err);
/**
 * paint_open() - take the terminal over, until paint_close(). -EINVAL as paint_check(), or where
 * $TERM is unknown. SIGINT, SIGTERM and SIGHUP come as PAINT_GONE.
 */
int paint_open(struct err *err);
/** paint_close() - give it back as it was; nothing where it is not open. */
void paint_close(void);
void paint_size(unsigned *rows, unsigned *columns);
/** paint_show() - what differs from the last time is sent. */
void paint_show(const struct grid *grid);
/** paint_key() - a character, or enum paint_key; waits @ms at most. */
int paint_key(int ms);

#endif
