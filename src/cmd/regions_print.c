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
#include "heaps/heaps.h"
#include "out/regions.h"
#include "proc/beside.h"
#include "proc/classes.h"
#include "proc/ledger.h"
#include "proc/numa.h"
#include "proc/settings.h"
#include "source/heapfiles.h"
#include "source/threadfacts.h"
#include "source/tries.h"

/** print_groups() - the page with another middle. */
static void print_groups(struct buf *text, const struct regions *r, const struct breakdown *b,
			 struct regions_text_opt *opt)
{
	regions_text_head(text, b, opt);
	if (r->group == GROUP_VMA) {
		regions_text_mappings(text, b, opt);
	} else if (r->group == GROUP_THREAD) {
		opt->all = 1;
		regions_text_threads(text, b, opt);
	} else {
		size_t count;
		struct class_row *rows = breakdown_group(b, r->group, r->sort, &count);
		if (rows)
			regions_text_groups(text, b, rows, count, opt);
		else
			text->failed = 1;
		free(rows);
	}
}

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
			print_groups(&text, r, b, &opt);
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

static int told_refused;

struct breakdown *regions_read(const struct regions *r, const struct target *target,
			       struct err *err)
{
	struct breakdown_opt opt = { .quick = r->quick,
				     .doubt_only = r->format != FORMAT_JSON,
				     .facts = threadfacts_read };
	struct breakdown *b = breakdown_read(target, &opt, err);
	int rc = b && r->names ? mapnames_apply(r->names, b, target, err) : 0;
	if (b) {
		b->files = &heapfiles;
		b->settings = calloc(1, sizeof(*b->settings));
	}
	if (b && b->settings)
		settings_read(b->settings, target);
	/* which walks all pages once more: for who asks for everything */
	if (b && r->all && !r->quick && r->format != FORMAT_CSV) {
		b->numa = calloc(1, sizeof(*b->numa));
		if (b->numa)
			numa_read(target, b->numa); /* where it may not be read none is told */
	}
	/* a quick look does not copy heaps */
	if (b && rc == 0 && !r->quick)
		rc = heaps_read(b, target, err);
	/* one that has just ended refuses nothing */
	if (b && rc == 0 && b->heaps_refused && b->heaps_refused != -ESRCH && !told_refused) {
		told_refused = 1; /* once, not at each look of --watch */
		struct err refused;
		err_init(&refused);
		err_set(&refused, b->heaps_refused,
			"allocators and stacks of process %d are not told: cannot read its page "
			"map",
			(int)b->pid);
		err_hint(&refused, "run as its user or as root, or with CAP_SYS_PTRACE and "
				   "CAP_DAC_READ_SEARCH");
		cmd_fail(&refused); /* said; the rest of the answer stands */
	}
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
	struct err why = { 0 };
	int rc = 0;
	put_title(&title, r);
	if (r->watch.seconds > 0)
		return regions_live(r, list, buf_cstr(&title), err);
	for (size_t i = 0; i < list->count && rc == 0; i++) {
		CLEANUP(target_close) struct target target = { 0 };
		struct err one = { 0 };
		struct breakdown *b = target_open(&target, list->pids[i], &one) == 0
					      ? regions_read(r, &target, &one)
					      : NULL;
		if (b && ledger_add(&ledger, b) < 0)
			rc = err_set(err, -ENOMEM, "cannot add up the processes");
		ledger.unread += !b;
		if (!b)
			why = one;
		breakdown_free(b);
	}
	if (rc == 0 && !ledger.count) {
		*err = why;
		return err->code ? err->code : err_set(err, -ESRCH, "no process is left");
	}
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
		struct regions_text_opt opt = { .width = terminal.width,
						.ascii = terminal.ascii,
						.raw = r->raw,
						.top = r->top,
						.all = r->all };
		ledger_text(&text, &ledger, buf_cstr(&title), &opt);
		if (buf_failed(&text))
			return err_set(err, -ENOMEM, "cannot print");
		fwrite(text.data, 1, text.len, r->result.to);
	}
	if (rc == 0 && (fflush(r->result.to) != 0 || ferror(r->result.to)))
		rc = result_failed(err);
	return rc;
}

void regions_classes(FILE *to)
{
	for (unsigned class = 0; class < REGION_CLASS_COUNT; class ++) {
		fprintf(to, "%-18s %s\n", region_class_name(class), class_about(class));
		for (size_t i = 0; i < class_label_count; i++)
			if (class_labels[i].class == class)
				fprintf(to, "  %-22s %s\n", class_labels[i].label,
					class_labels[i].about);
	}
	fprintf(to, "%-18s %s\n", CLASS_BESIDE_WORD,
		"no part of RSS; in watches, histories and rules");
	for (size_t i = 0; i < class_label_count; i++)
		if (class_labels[i].class == CLASS_BESIDE)
			fprintf(to, "  %-22s %s\n", class_labels[i].label, class_labels[i].about);
	fprintf(to, "\nA rule names a class (rss:runtime>1G), a label (rss:Go heap>1G), or both "
		    "(rss:named/MY NAME>1G),\na file by its path and a library by its file "
		    "name.\n");
}
