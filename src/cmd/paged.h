/* SPDX-License-Identifier: Apache-2.0 */
/* paged.h - the resident pages that a recording has beside its allocations, for reports of it. */
#ifndef CMD_PAGED_H
#define CMD_PAGED_H

#include <stdio.h>

#include "out/out.h"
#include "query/query.h"
#include "query/resident.h"

/** struct paged - zero-initialised: none. */
struct paged {
	struct resident *resident;
	struct page_shot *shot; /* NULL: the recording has none */
};

/** paged_open() - the reading at @at, by default the one with the most RSS. @whole: of the recording. 0, without any, too; or negative errno. */
int paged_open(struct paged *paged, const char *path, const struct query_time *at,
	       const struct prof *whole, struct err *err);
void paged_fini(struct paged *paged);
/** paged_text() - some lines of it behind a report; @opt as the report's. */
int paged_text(FILE *to, const struct paged *paged, const struct out_opt *opt, struct err *err);

#endif
