/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/reading.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "heaps/heaps.h"
#include "proc/beside.h"
#include "proc/numa.h"
#include "proc/settings.h"
#include "source/heapfiles.h"
#include "source/threadfacts.h"
#include "source/tries.h"

struct breakdown *reading_take(const struct target *target, const struct reading_opt *how,
			       struct err *err)
{
	struct breakdown_opt opt = { .quick = how->quick,
				     .doubt_only = how->doubt_only,
				     .facts = threadfacts_read };
	struct breakdown *b = breakdown_read(target, &opt, err);
	int rc = b && how->names ? mapnames_apply(how->names, b, target, err) : 0;
	if (b) {
		b->files = &heapfiles;
		b->settings = calloc(1, sizeof(*b->settings));
	}
	if (b && b->settings)
		settings_read(b->settings, target);
	if (b && how->numa && !how->quick) {
		b->numa = calloc(1, sizeof(*b->numa));
		if (b->numa)
			numa_read(target, b->numa,
				  &b->reading.stall_ns); /* where it may not be read none is told */
	}
	/* a quick look does not copy heaps */
	if (b && rc == 0 && !how->quick)
		rc = heaps_read(b, target, err);
	if (b && rc == 0) {
		b->beside = calloc(1, sizeof(*b->beside));
		if (b->beside)
			beside_read(target, b, 1, b->beside);
	}
	if (rc == 0)
		return b;
	breakdown_free(b);
	return NULL;
}

int reading_ledger(const struct target_list *list, const struct reading_opt *opt,
		   void (*heard)(const struct breakdown *breakdown), struct ledger *ledger,
		   struct err *err)
{
	struct err why = { 0 };
	int rc = 0;
	for (size_t i = 0; i < list->count && rc == 0; i++) {
		CLEANUP(target_close) struct target target = { 0 };
		struct err one = { 0 };
		struct breakdown *b = target_open(&target, list->pids[i], &one) == 0
					      ? reading_take(&target, opt, &one)
					      : NULL;
		if (b && heard)
			heard(b);
		if (b && ledger_add(ledger, b) < 0)
			rc = err_set(err, -ENOMEM, "cannot add up the processes");
		ledger->unread += !b;
		if (!b)
			why = one;
		breakdown_free(b);
	}
	if (rc == 0 && !ledger->count) {
		*err = why;
		return err->code ? err->code : err_set(err, -ESRCH, "no process is left");
	}
	return rc;
}

int reading_refused(const struct breakdown *b, struct err *err)
{
	err_set(err, b->heaps_refused,
		"allocators and stacks of process %d are not told: cannot read its page map",
		(int)b->pid);
	return err_hint(err, "run as its user or as root, or with CAP_SYS_PTRACE and "
			     "CAP_DAC_READ_SEARCH");
}

const char *reading_lacks_names(const struct breakdown *b)
{
	struct err ignored = { 0 };
	for (size_t i = 0; i < b->class_count; i++)
		if (b->classes[i].class == REGION_NAMED)
			return NULL;
	return tries_names_mappings(&ignored) == 0
		       ? "the program has named none, or not yet (prctl PR_SET_VMA_ANON_NAME)"
		       : "this kernel keeps no names of mappings (CONFIG_ANON_VMA_NAME)";
}
