/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include <string.h>

void words_verdict(struct buf *to, const struct words_verdict *w)
{
	buf_printf(to, "The program uses %s of it%s. ", w->uses, w->of_which ? w->of_which : "");
	if (w->unknown)
		buf_printf(to, "Of %s of heap it is not known what is in use. Of the rest ",
			   w->unknown);
	if (!w->free) {
		buf_printf(to, "%sext to nothing is free.", w->unknown ? "n" : "N");
		return;
	}
	buf_printf(to, "%s are free, but %s %s not given them back%c", w->free, w->keeper,
		   strcmp(w->keeper, "allocators") == 0 ? "have" : "has", w->at_once ? ':' : '.');
	if (w->at_once)
		buf_printf(to,
			   "\n%s could go at once, %s are stuck %s where some block still lives.",
			   w->at_once, w->stuck, w->in_slabs ? "in slabs" : "on pages");
}
