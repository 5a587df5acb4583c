/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h - what the place where text goes can show. */
#ifndef OUT_FIT_H
#define OUT_FIT_H

#include <stdio.h>

#include "out/out.h"

/**
 * terminal_fit() - fill in @opt's width (the terminal's, else $COLUMNS, else the format's default),
 * colour (a terminal that is not "dumb", and no $NO_COLOR) and ascii (a locale other than UTF-8).
 */
void terminal_fit(FILE *to, struct out_opt *opt);
/** terminal_ascii() - the latter alone. */
int terminal_ascii(FILE *to);
/** terminal_rows() - lines of the terminal @to; 24 where it does not say. */
size_t terminal_rows(FILE *to);

#endif
