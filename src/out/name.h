/* SPDX-License-Identifier: Apache-2.0 */
/* name.h - function names as people say them, for faces outside this room. */
#ifndef OUT_NAME_H
#define OUT_NAME_H

#include "base/buf.h"

/**
 * text_short_name() - a function's name as people say it: no parameters, no return type, template
 * arguments as <..>, no Rust hash, std::string for what it expands to. Escaped for the terminal.
 * Appends to @to.
 */
void text_short_name(struct buf *to, const char *function, int ascii);
/**
 * text_name_within() - all of @function, escaped, if @columns are enough for it; else its short
 * name, without outer scopes and cut at the end where that is too long, too. Appends to @to.
 */
void text_name_within(struct buf *to, const char *function, size_t columns, int ascii);

#endif
