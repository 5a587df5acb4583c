/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h - prose for people, broken at a width. A no-break space keeps words together. */
#ifndef OUT_WRAP_H
#define OUT_WRAP_H

#include <stddef.h>
#include <stdio.h>

/**
 * out_wrap() - @text broken at @width, its first line from column @at on, others from @indent on.
 */
void out_wrap(FILE *to, size_t width, size_t at, size_t indent, const char *text);
/**
 * out_wrap_beside() - the same from column @indent on, with @right at the end of the first line.
 */
void out_wrap_beside(FILE *to, size_t width, size_t indent, const char *text, const char *right);

#endif
