/* SPDX-License-Identifier: Apache-2.0 */
/* record_report.c - what `run` and `heap` say when a program has ended. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/explain.h"
#include "cmd/open.h"
#include "cmd/paged.h"
#include "cmd/record_opt.h"
#include "cmd/terminal.h"
#include "out/family.h"
#include "out/out.h"
#include "query/family.h"
#include "sym/program.h"

int record_may_create(const char *pattern, const char *exe, struct err *err)
{
	char *path = recorder_name(pattern, exe, getpid(), err);
	if (!path)
		return err->code;
	/* what the recording will be called is known when its process is: one beside it will do */
	int rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0) {
		close(fd);
		unlink(path);
	} else if (errno == EEXIST) {
		if (access(dirname(path), W_OK | X_OK) < 0) /* then it will be .1, .2 ... */
			rc = -errno;
	} else {
		rc = -errno;
	}
	if (rc < 0) {
		err_set(err, rc, "cannot create a recording like '%s'", pattern);
		err_hint(err, "the program was not started; -o names another file");
	}
	free(path);
	return rc;
}

/* What takes a program's place by exec is recorded, but for these. */
static void tell_why_lost(const struct recorder_result *result)
{
	int fd = result->replaced_by[0] ? open(result->replaced_by, O_RDONLY | O_CLOEXEC) : -1;
	enum sym_program kind = fd < 0 ? SYM_PROGRAM_DYNAMIC : sym_program(fd);
	if (fd >= 0)
		close(fd);
	if (kind == SYM_PROGRAM_STATIC)
		fputs("hint: that one is statically linked, so no library can be preloaded; "
		      "'byteledger "
		      "pages' and 'byteledger regions' see such programs\n",
		      stderr);
	else if (kind == SYM_PROGRAM_DYNAMIC)
		fputs("hint: name that program: it was started past the C library, or without its "
		      "environment\n",
		      stderr);
	else
		fputs("hint: that one cannot be recorded: another C library, another machine, or "
		      "AddressSanitizer\n",
		      stderr);
}

void record_tell_findings(const struct recorder_result *result, const struct record_opt *opt,
			  const char *program)
{
	const char *by = result->replaced_by[0] ? result->replaced_by : "another program";
	if (result->replaced && opt->follow_children && result->unfollowed) {
		cmd_say("'%s' replaced itself by %s, which was started without the recording "
			"library; the recording ends there",
			program, by);
		fputs("hint: its environment was cleared of LD_PRELOAD (env -i, sudo): name that "
		      "program\n",
		      stderr);
	} else if (result->replaced && opt->follow_children) {
		if (!opt->quiet) /* nothing is missing */
			cmd_say("'%s' replaced itself by %s, which is followed: it gets a "
				"recording of its own, or a line that says why not, unless its "
				"environment was cleared or it is static or set-user-ID",
				program, by);
	} else if (result->replaced) {
		cmd_say("'%s' replaced itself by %s; the recording ends there", program, by);
		tell_why_lost(result);
	} else if (!result->attached) {
		cmd_say("'%s' never loaded the recording library, so nothing was recorded",
			program);
		fputs("hint: does the program clear LD_PRELOAD, or run in a sandbox?\n", stderr);
	}
	if (!opt->quiet && result->before[0])
		cmd_say("before it, in the same process and not recorded further: %s",
			result->before);
	if (!opt->quiet && result->own_allocators[0])
		cmd_say("also recorded: %s, which '%s' brings along", result->own_allocators,
			program);
	if (!opt->quiet && opt->pages && result->no_pages[0])
		cmd_say("without resident pages by stack: %s (--no-pages does not ask for them)",
			result->no_pages);
	/* the text report says that itself */
	if (!opt->quiet && opt->format && strcmp(opt->format, "json") == 0 && result->attached &&
	    !result->replaced && !result->allocations && !result->lost_allocations)
		cmd_say("no allocation of '%s' was seen", program);
}

static int is_json(const struct record_opt *opt)
{
	return opt->format && strcmp(opt->format, "json") == 0;
}

/* Results go to stdout where it is a terminal or a format was asked for, else to stderr: stdout is the program's. */
static int write_report(const struct record_opt *opt, FILE *to, const char *path,
			const struct prof *prof, const struct suppress *suppress, struct err *err)
{
	struct out_opt out = { .suppress = suppress };
	int json = is_json(opt);
	CLEANUP(paged_fini) struct paged paged = { 0 };
	if (paged_open(&paged, path, NULL, prof, err) < 0)
		return err->code;
	terminal_fit(to, &out);
	out.pages = paged.shot;
	int rc = json ? out_json(to, prof, &out, err) : out_text(to, prof, &out, err);
	if (rc >= 0 && !json && opt->snapshots) {
		fputc('\n', to);
		rc = explain_brief(to, path, &out, err);
	}
	if (rc >= 0 && !json)
		rc = paged_text(to, &paged, &out, err);
	fflush(to);
	return rc;
}

void record_tell_children(const struct recorder_result *result, const struct record_opt *opt)
{
	char x[TEXT_NUMBER_MAX];
	const char *base = strrchr(result->child_exe, '/');
	base = base ? base + 1 : result->child_exe;
	if (opt->follow_children || !result->children)
		return;
	if (opt->is_explained)
		cmd_say("not explained: %u child%s%s%s%s: 'byteledger run --follow-children', then "
			"'byteledger "
			"explain FILE' of each",
			result->children,
			result->children == 1 ? ", its peak RSS " : "ren, the largest ",
			text_bytes(x, result->child_peak_bytes), *base ? ", " : "", base);
	if (opt->quiet)
		return;
	cmd_say("not recorded: %u child%s%s%s%s: --follow-children", result->children,
		result->children == 1 ? ", its peak RSS " : "ren, the largest ",
		text_bytes(x, result->child_peak_bytes), *base ? ", " : "", base);
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
	if (family->count < 2)
		return;
	int json = is_json(opt);
	FILE *to = opt->report || json                    ? NULL
		   : opt->format || isatty(STDOUT_FILENO) ? stdout
							  : stderr;
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
	cmd_say("%zu processes were recorded: 'byteledger report --tree %s' lists them%s",
		family->count, path, pages);
}

int record_report(const struct record_opt *opt, struct outfile *report, const char *path)
{
	struct err err = { 0 };
	int shown = !opt->quiet || opt->report;
	if (!shown && !opt->limits.count)
		return 0;
	FILE *to = opt->report                            ? report->to
		   : opt->format || isatty(STDOUT_FILENO) ? stdout
							  : stderr;
	int json = is_json(opt);
	/* what the file says, and nothing that it does not */
	CLEANUP(recording_freep) struct recording *recording = cmd_open_recording(path, &err);
	CLEANUP(prof_freep)
	struct prof *prof = recording ? recording_read(recording, NULL, &err) : NULL;
	int rc = prof ? cmd_resolve(prof, &err) : -1;
	CLEANUP(suppress_freep)
	struct suppress *suppress =
		rc < 0 ? NULL : quiet_run(&opt->suppressions, prof, !json || !shown, &err);
	if (!suppress)
		rc = -1;
	if (rc >= 0 && shown)
		rc = write_report(opt, to, path, prof, suppress, &err);
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
	if (!suppress_applied(suppress)) {
		uint64_t allocations, bytes;
		suppress_sum(suppress, &allocations, &bytes);
		totals.cost.leaked -= allocations;
		totals.cost.leaked_bytes -= bytes;
	}
	return limits_check(&opt->limits, &totals, cmd_say_line) != 0;
}
