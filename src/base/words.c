/* SPDX-License-Identifier: Apache-2.0 */
#include "base/words.h"

#include <string.h>

void words_verdict(struct buf *to, const struct words_verdict *w)
{
	int unknown = w->unknown || w->mapped;
	buf_printf(to, "The program %s %s of it%s. ", unknown ? "is known to use" : "uses", w->uses,
		   w->of_which ? w->of_which : "");
	if (unknown)
		buf_printf(to, "Of %s%s%s%s%s it is not known what is in use. Of the rest ",
			   w->unknown ? w->unknown : "", w->unknown ? " of heap" : "",
			   w->unknown && w->mapped ? " and " : "", w->mapped ? w->mapped : "",
			   w->mapped ? " that it mapped itself" : "");
	if (!w->free) {
		buf_printf(to, "%sext to nothing is free.", unknown ? "n" : "N");
		return;
	}
	buf_printf(to, "%s are free, but %s %s not given them back%c", w->free, w->keeper,
		   strcmp(w->keeper, "allocators") == 0 ? "have" : "has", w->at_once ? ':' : '.');
	if (w->at_once)
		buf_printf(to,
			   "\n%s could go at once, %s are stuck %s where some block still lives.",
			   w->at_once, w->stuck, w->in_slabs ? "in slabs" : "on pages");
}
