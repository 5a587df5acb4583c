/* SPDX-License-Identifier: Apache-2.0 */
/* books.h - recordings as what the server reads: files, and the recordings in folders. */
#ifndef API_BOOKS_H
#define API_BOOKS_H

#include "api/shelf.h"

struct books;

/**
 * books_new() - the recordings that @paths name, folders replaced by the recordings in them (files
 * that are none are passed over there), in order of name; none at all is fine. NULL with @err: one
 * cannot be read, or a folder has none.
 */
struct books *books_new(const char *const *paths, size_t count, struct err *err);
/**
 * books_add() - one more, which is being written: for shelf_add(). Lent; other items stay where
 * they are. NULL with @err.
 */
const struct shelf_item *books_add(struct books *books, const char *path, struct err *err);
void books_free(struct books *books);
/** books_items() - lent; they name @books' own memory. */
const struct shelf_item *books_items(const struct books *books);
size_t books_count(const struct books *books);

#endif
