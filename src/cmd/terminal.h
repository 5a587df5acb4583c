/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what the place where text goes can show. */
#ifndef CMD_TERMINAL_H
#define CMD_TERMINAL_H

#include <stdio.h>

/**
 * struct pager - what is written to .to comes to the terminal, through PAGER (less) where it has
 * more lines than that. Nothing of the sort where stdout is no terminal, or with @off.
 */
struct pager {
	FILE *to;
	char *text;
	size_t bytes;
};
/** pager_begin() - .to is stdout where nothing is to be paged. */
void pager_begin(struct pager *pager, int off);
/** pager_end() - show it. */
void pager_end(struct pager *pager);

#endif
