/* SPDX-License-Identifier: Apache-2.0 */
/* record_report.c - what `run` and `heap` say when a program has ended. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/open.h"
#include "cmd/record_opt.h"
#include "out/ended.h"
#include "out/family.h"
#include "out/fit.h"
#include "query/family.h"

static int is_json(const struct record_opt *opt)
{
	return opt->format && strcmp(opt->format, "json") == 0;
}

#define FAMILY_SHOWN 20

void record_tell_family(const struct record_opt *opt, const struct recorder_result *result)
{
	const char *path = result->path;
	char pages[80] = "";
	struct err err = { 0 };
	if (opt->quiet || !opt->follow_children)
		return;
	CLEANUP(family_freep) struct family *family = family_await(path, &err);
	if (!family) {
		cmd_fail(&err);
		return;
	}
	if (family->count < 2 && !family->members[0].became && !family->members[0].unrecorded)
		return;
	int json = is_json(opt);
	FILE *to = opt->report || json ? NULL : cmd_result_stream(0, 1, opt->format != NULL);
	struct out_opt out = { .limit = FAMILY_SHOWN };
	if (to) {
		terminal_fit(to, &out);
		if (out_family_text(to, family, &out, &err) < 0)
			cmd_fail(&err);
		fputc('\n', to);
		fflush(to);
	}
	if (opt->pages && !result->no_pages[0])
		snprintf(pages, sizeof(pages), "; %u child%s resident pages in %s",
			 result->paged_children,
			 result->paged_children == 1 ? " has its" : "ren have their",
			 result->paged_children == 1 ? "its file" : "their files");
	if (family->count > 1)
		cmd_say("%zu processes were recorded: 'byteledger report --tree %s' lists them%s",
			family->count, path, pages);
}

int record_report(const struct record_opt *opt, struct outfile *report, const char *path)
{
	struct err err = { 0 };
	int shown = !opt->quiet || opt->report;
	if (!shown && !opt->limits.count)
		return 0;
	FILE *to = opt->report ? report->to : cmd_result_stream(0, 1, opt->format != NULL);
	int json = is_json(opt);
	/* what the file says, and nothing that it does not */
	CLEANUP(recording_freep)
	struct recording *recording = recording_open(path, &cmd_ears, &err);
	CLEANUP(prof_freep)
	struct prof *prof = recording ? recording_read(recording, NULL, &err) : NULL;
	int rc = prof ? recording_resolve(prof, &cmd_ears, &err) : -1;
	CLEANUP(suppress_freep)
	struct suppress *suppress =
		rc < 0 ? NULL : suppress_files_run(&opt->suppressions, prof, !json || !shown, &err);
	if (!suppress)
		rc = -1;
	struct out_ended_opt how = { .out.suppress = suppress,
				     .json = json,
				     .with_balance = opt->snapshots,
				     .ears = &cmd_ears };
	terminal_fit(to, &how.out);
	if (rc >= 0 && shown)
		rc = out_ended(to, path, prof, &how, &err);
	if (rc >= 0 && opt->report)
		rc = outfile_commit(report, &err);
	if (rc < 0)
		cmd_fail(&err);
	int below = !json && !opt->report &&
		    (to == stderr || isatty(STDOUT_FILENO)); /* a report stands above */
	if (below && !opt->quiet)
		fputc('\n', stderr);
	if (!opt->quiet)
		cmd_say("recorded into '%s'", path);
	if (!suppress)
		return limits_check(&opt->limits, NULL, cmd_say_line) != 0;
	struct prof_totals totals;
	prof_totals(prof, &totals);
	suppress_subtract(suppress, &totals);
	return limits_check(&opt->limits, &totals, cmd_say_line) != 0;
}
