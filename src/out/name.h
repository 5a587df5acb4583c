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

#endif
