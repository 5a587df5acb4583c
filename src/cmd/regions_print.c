/* SPDX-License-Identifier: Apache-2.0 */
/* regions_print.c - one reading, in the layout that was asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/regions.h"
#include "cmd/terminal.h"
#include "out/regions.h"
#include "proc/ledger.h"
#include "source/tries.h"
#include "watch/reading.h"

/* Who knows the layout looks for the section of named regions: where it is missing, why. */
static void say_none_is_named(const struct breakdown *b)
{
	struct err why = { 0 };
	for (size_t i = 0; i < b->class_count; i++)
		if (b->classes[i].class == REGION_NAMED)
			return;
	fprintf(stderr, "byteledger: no named regions: %s\n",
		tries_names_mappings(&why) == 0
			? "the program has named none, or not yet (prctl PR_SET_VMA_ANON_NAME)"
			: "this kernel keeps no names of mappings (CONFIG_ANON_VMA_NAME)");
}

static int print_text(const struct regions *r, const struct breakdown *b, uint64_t age_ns,
		      int before_end, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (r->compat) {
		char title[64];
		size_t listed = r->top < b->region_count ? r->top : b->region_count;
		snprintf(title, sizeof(title),
			 r->all ? "All Memory Regions" : "Top %zu Memory Regions", listed);
		regions_compat(&text, b, r->all ? b->region_count : r->top, title);
		say_none_is_named(b);
	} else {
		struct out_opt terminal = { 0 };
		terminal_fit(r->result.to, &terminal);
		struct regions_text_opt opt = { .width = terminal.width,
						.colour = terminal.colour,
						.ascii = terminal.ascii,
						.raw = r->raw,
						.top = r->top,
						.all = r->all,
						.all_labels = r->all,
						.sort = r->sort };
		if (r->base) {
			struct regions_diff_opt diff = { r->top, r->all, r->raw, terminal.ascii,
							 terminal.colour };
			int rc = regions_diff_text(&text, r->base, b, &diff, err);
			if (rc < 0)
				return rc;
		} else if (r->group) {
			out_regions_groups(&text, b, r->group, &opt);
		} else {
			regions_text(&text, b, &opt);
		}
	}
	if (before_end && !r->compat) {
		char age[TEXT_NUMBER_MAX];
		buf_printf(&text, "\nthis is what it had %s before it ended\n",
			   text_duration(age, age_ns));
	}
	if (buf_failed(&text))
		return err_set(err, -ENOMEM, "cannot print");
	fwrite(text.data, 1, text.len, r->result.to);
	return 0;
}

int regions_print(struct regions *r, const struct breakdown *b, const char *exe, uint64_t age_ns,
		  int before_end, struct err *err)
{
	struct out_regions_opt opt = { .top = r->top, .all = r->all, .sort = r->sort };
	const char *open = r->result.name;
	int rc = result_for(&r->result, exe, b->pid, err);
	if (rc < 0 || !r->result.to)
		return rc;
	/* a file of its own begins with a header of its own */
	int first = !r->printed || r->result.name != open;
	r->printed = 1;
	if (r->format == FORMAT_JSON) {
		struct jsonw json;
		jsonw_init(&json, r->result.to);
		rc = r->base ? regions_diff_json(&json, r->base, b, err)
			     : out_regions_json(&json, NULL, b, &opt, age_ns, err);
		jsonw_line(&json);
	} else if (r->format == FORMAT_CSV) {
		rc = out_regions_csv(r->result.to, b, &opt, first, err);
	} else {
		rc = print_text(r, b, age_ns, before_end, err);
	}
	if (rc == 0 && (fflush(r->result.to) != 0 || ferror(r->result.to)))
		rc = result_failed(err);
	return rc;
}

/* One that has just ended refuses nothing; and it is said once, not at each look of --watch. */
static void tell_refused(const struct breakdown *b)
{
	static int told;
	struct err refused = { 0 };
	if (!b->heaps_refused || b->heaps_refused == -ESRCH || told++)
		return;
	err_set(&refused, b->heaps_refused,
		"allocators and stacks of process %d are not told: cannot read its page map",
		(int)b->pid);
	err_hint(&refused, "run as its user or as root, or with CAP_SYS_PTRACE and "
			   "CAP_DAC_READ_SEARCH");
	cmd_fail(&refused); /* the rest of the answer stands */
}

static struct reading_opt reading_of(const struct regions *r)
{
	return (struct reading_opt){ .quick = r->quick,
				     .doubt_only = r->format != FORMAT_JSON,
				     /* for who asks for everything */
				     .numa = r->all && r->format != FORMAT_CSV,
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

/* ---- several as one -------------------------------------------------------------------------------------------------- */

static void put_title(struct buf *title, const struct regions *r)
{
	const struct targets *t = &r->targets;
	if (t->container)
		buf_printf(title, "container '%s'", t->container);
	else if (t->cgroup)
		buf_printf(title, "cgroup '%s'", t->cgroup);
	else if (t->name)
		buf_printf(title, "'%s'", t->name);
	else
		buf_puts(title, "these");
}

int regions_ledger(struct regions *r, const struct target_list *list, struct err *err)
{
	CLEANUP(ledger_fini) struct ledger ledger = { 0 };
	CLEANUP(buf_fini) struct buf title = { 0 }, text = { 0 };
	const struct reading_opt opt = reading_of(r);
	int rc;
	put_title(&title, r);
	if (r->watch.seconds > 0)
		return regions_live(r, list, buf_cstr(&title), err);
	rc = reading_ledger(list, &opt, tell_refused, &ledger, err);
	if (rc == 0)
		rc = result_for(&r->result, "processes", list->pids[0], err);
	if (rc < 0 || !r->result.to)
		return rc;
	/* a folder that was named is what is asked about, and holds those of the processes */
	struct cgroup_memory named;
	if (r->targets.cgroup && r->targets.cgroup[0] == '/' &&
	    cgroup_memory_at(r->targets.cgroup, &named) == 0) {
		ledger.cgroup = named;
		ledger.cgroups = 1;
	}
	ledger_sort(&ledger, r->sort_given ? r->sort : REGIONS_BY_PSS);
	if (r->format == FORMAT_JSON) {
		struct jsonw json;
		jsonw_init(&json, r->result.to);
		rc = out_ledger_json(&json, &ledger, buf_cstr(&title), err);
		jsonw_line(&json);
	} else {
		struct out_opt terminal = { 0 };
		terminal_fit(r->result.to, &terminal);
		struct regions_text_opt how = { .width = terminal.width,
						.ascii = terminal.ascii,
						.raw = r->raw,
						.top = r->top,
						.all = r->all };
		ledger_text(&text, &ledger, buf_cstr(&title), &how);
		if (buf_failed(&text))
			return err_set(err, -ENOMEM, "cannot print");
		fwrite(text.data, 1, text.len, r->result.to);
	}
	if (rc == 0 && (fflush(r->result.to) != 0 || ferror(r->result.to)))
		rc = result_failed(err);
	return rc;
}
