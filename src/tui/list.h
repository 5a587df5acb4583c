/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - the cursor and the window of a list that changes under the reader: the cursor stays on
 * its row's key, not on its place.
 */
#ifndef TUI_LIST_H
#define TUI_LIST_H

#include <stdint.h>

struct list {
	/* of rows */
	uint32_t count;
	/* below @count, or 0 */
	uint32_t cursor;
	/* the first row that is shown */
	uint32_t top;
	/* rows there is room for */
	uint32_t shown;
	/* the cursor's row; valid where @has_key */
	uint64_t key;
	int has_key;
};

/**
 * list_renew() - there are @count rows now, whose keys @key_of tells: the cursor goes where its row
 * is, or stays at its place.
 */
void list_renew(struct list *list, uint32_t count, uint64_t (*key_of)(void *ctx, uint32_t row),
		void *ctx);
/** list_key() - moves the cursor for a key of paint.h. Return: 1 if it was one of them. */
int list_key(struct list *list, int key);
/** list_goto() - the cursor to @row. */
void list_goto(struct list *list, uint32_t row);
/** list_fit() - before drawing: @shown rows of room; the window follows the cursor. */
void list_fit(struct list *list, uint32_t shown);

#endif
