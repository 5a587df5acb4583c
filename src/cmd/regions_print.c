/* SPDX-License-Identifier: Apache-2.0 */
/* regions_print.c - one reading, in the layout that was asked for. */

#include "base/buf.h"
#include "cmd/cmd.h"
#include "cmd/regions.h"
#include "out/fit.h"
#include "out/regions.h"
#include "proc/ledger.h"
#include "watch/reading.h"

struct regions_text_opt regions_fit(const struct regions *r)
{
	struct out_opt terminal = { 0 };
	terminal_fit(r->result.to, &terminal);
	return (struct regions_text_opt){ .width = terminal.width,
					  .colour = terminal.colour,
					  .ascii = terminal.ascii,
					  .raw = r->raw,
					  .top = r->top,
					  .all = r->all,
					  .sort = r->sort };
}

int regions_print(struct regions *r, const struct breakdown *b, const char *exe, uint64_t age_ns,
		  int before_end, struct err *err)
{
	const char *open = r->result.name;
	int rc = result_for(&r->result, exe, b->pid, err);
	if (rc < 0 || !r->result.to)
		return rc;
	const struct out_regions_page page = {
		.format = r->format,
		.how = regions_fit(r),
		.compat = r->compat,
		.group = r->group,
		.base = r->base,
		.age_ns = age_ns,
		.before_end = before_end,
		/* a file of its own begins with a header of its own */
		.header = !r->printed || r->result.name != open,
	};
	r->printed = 1;
	rc = out_regions_page(r->result.to, b, &page, err);
	/* who knows the layout looks for the section of named regions: where it is missing, why */
	const char *why = rc == 0 && r->compat ? reading_lacks_names(b) : NULL;
	if (why)
		cmd_say("no named regions: %s", why);
	return rc == 0 ? result_flush(r->result.to, err) : rc;
}

/* One that has just ended refuses nothing; and it is said once, not at each look of --watch. */
static void tell_refused(const struct breakdown *b)
{
	static int told;
	struct err refused = { 0 };
	if (!b->heaps_refused || b->heaps_refused == -ESRCH || told++)
		return;
	reading_refused(b, &refused);
	cmd_fail(&refused); /* the rest of the answer stands */
}

static struct reading_opt reading_of(const struct regions *r)
{
	return (struct reading_opt){ .quick = r->quick,
				     .doubt_only = r->format != OUT_REGIONS_JSON,
				     /* for who asks for everything */
				     .numa = r->all && r->format != OUT_REGIONS_CSV,
				     .names = r->names };
}

struct breakdown *regions_read(const struct regions *r, const struct target *target,
			       struct err *err)
{
	const struct reading_opt opt = reading_of(r);
	struct breakdown *b = reading_take(target, &opt, err);
	if (b)
		tell_refused(b);
	return b;
}

/* ---- several as one -------------------------------------------------------------------------- */

int regions_ledger(struct regions *r, const struct target_list *list, struct err *err)
{
	CLEANUP(ledger_fini) struct ledger ledger = { 0 };
	CLEANUP(buf_fini) struct buf title = { 0 };
	const struct reading_opt opt = reading_of(r);
	int rc;
	targets_title(&r->targets, &title);
	if (r->watch.seconds > 0)
		return regions_live(r, list, buf_cstr(&title), err);
	rc = reading_ledger(list, &opt, tell_refused, &ledger, err);
	if (rc == 0)
		rc = result_for(&r->result, "processes", list->pids[0], err);
	if (rc < 0 || !r->result.to)
		return rc;
	targets_cgroup(&r->targets, &ledger);
	ledger_sort(&ledger, r->sort_given ? r->sort : REGIONS_BY_PSS);
	struct regions_text_opt how = regions_fit(r);
	how.colour = 0;
	rc = out_ledger_page(r->result.to, &ledger, buf_cstr(&title), r->format == OUT_REGIONS_JSON,
			     &how, err);
	return rc == 0 ? result_flush(r->result.to, err) : rc;
}
