/* SPDX-License-Identifier: Apache-2.0 */
/* pager.h - text that is longer than the terminal. */
#ifndef OUT_PAGER_H
#define OUT_PAGER_H

#include <stdio.h>

/**
 * struct pager - what is written to .to comes to the terminal, through PAGER (less) where it has
 * more lines than that. Nothing of the sort where @terminal is none, or with @off.
 */
struct pager {
	FILE *to, *terminal;
	char *text;
	size_t bytes;
};
/** pager_begin() - .to is @terminal where nothing is to be paged. */
void pager_begin(struct pager *pager, FILE *terminal, int off);
/** pager_end() - show it. */
void pager_end(struct pager *pager);

#endif
