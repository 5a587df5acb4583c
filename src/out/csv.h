/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - text in the fields of CSV. */
#ifndef OUT_CSV_H
#define OUT_CSV_H

#include "base/buf.h"

/**
 * csv_put() - append @text to the inside of a quoted field: quotes doubled, and escaped as
 * text_escape() does, so that a line stays a row, all of it is UTF-8, and no terminal acts on it.
 * What a spreadsheet would take for a formula at the beginning of a field has an apostrophe in
 * front.
 */
void csv_put(struct buf *line, const char *text);
/** csv_field() - a comma and @text as a quoted field; NULL: an empty one. */
void csv_field(struct buf *line, const char *text);

#endif
