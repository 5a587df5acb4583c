/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - one reading of a process with all that is known of it, and of several as one. */
#ifndef WATCH_READING_H
#define WATCH_READING_H

#include "base/err.h"
#include "proc/breakdown.h"
#include "proc/ledger.h"
#include "source/mapnames.h"
#include "watch/targets.h"

struct reading_opt {
	/* no PSS, no allocators */
	int quick;
	/* of verdicts those alone that are in doubt */
	int doubt_only;
	/* and which node has the pages: all are walked once more */
	int numa;
	/* of what was mapped meanwhile; NULL: none */
	struct mapnames *names;
};

/**
 * reading_take() - mappings, sums, allocators, what is beside. Where allocators may not be read,
 * ->heaps_refused says why, and the rest stands. Release with breakdown_free(); NULL with @err.
 */
struct breakdown *reading_take(const struct target *target, const struct reading_opt *opt,
			       struct err *err);

/**
 * reading_refused() - of one whose ->heaps_refused is set: what is not told, and what would help.
 */
int reading_refused(const struct breakdown *b, struct err *err);
/**
 * reading_lacks_names() - why no mapping of it has a name that the program gave; NULL: some have.
 */
const char *reading_lacks_names(const struct breakdown *b);

/**
 * reading_ledger() - take one of each process of @list and add them up; those that end meanwhile
 * are counted in ->unread. @heard may be NULL: sees each. 0; negative errno, where none is left
 * that of the last one. ledger_fini() in any case.
 */
int reading_ledger(const struct target_list *list, const struct reading_opt *opt,
		   void (*heard)(const struct breakdown *breakdown), struct ledger *ledger,
		   struct err *err);

#endif
