/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - text for people: sizes in human units, durations, and names from outside made harmless
 * for a terminal. Results go to the caller's buffer; nothing here allocates unless a struct buf
 * says so.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define TEXT_NUMBER_MAX 32 /* bytes that any of the number forms needs, NUL included */

/**
 * text_bytes() - "0 B", "999 B", "1.21 MiB": three digits at most before the point; returns @to.
 */
const char *text_bytes(char to[TEXT_NUMBER_MAX], uint64_t bytes);
/** text_count() - "12", "9999", "12.3 k", "1.21 M" (thousands). */
const char *text_count(char to[TEXT_NUMBER_MAX], uint64_t count);
/** text_grouped() - all digits, in groups of three: "1,234,567". */
const char *text_grouped(char to[TEXT_NUMBER_MAX], uint64_t count);
/** text_duration() - "850 us", "12.3 s", "4 min 05 s", "3 h 02 min". */
const char *text_duration(char to[TEXT_NUMBER_MAX], uint64_t ns);
/** text_percent() - "0 %", "<0.1 %", "12.3 %", "100 %"; "-" where @whole is 0. */
const char *text_percent(char to[TEXT_NUMBER_MAX], uint64_t part, uint64_t whole);

/**
 * text_escape() - append @text so that no terminal acts on it: C0 and C1 controls and DEL as \xNN,
 * bytes that are not UTF-8 and characters that reorder text as \xNN too. With @ascii everything
 * beyond ASCII.
 */
void text_escape(struct buf *to, const char *text, int ascii);

/**
 * text_columns() - terminal columns of UTF-8 @text (wide characters count 2, combining marks 0).
 */
size_t text_columns(const char *text);
/** text_fit() - how many bytes of @text take at most @columns columns. */
size_t text_fit(const char *text, size_t columns);

#endif
