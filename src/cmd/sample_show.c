/* SPDX-License-Identifier: Apache-2.0 */
/* sample_show.c - what was sampled so far, given names and printed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/sample.h"
#include "cmd/terminal.h"
#include "out/out.h"

static int write_csv(struct sample_run *l, struct prof *prof, struct err *err)
{
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	struct out_sample_opt opt = l->args->out;
	if (!l->args->top_given) /* the ten of the text are for eyes */
		opt.top = 0;
	int rc = outfile_open(&out, l->args->csv, 1, err);
	if (!rc)
		rc = out_sample_csv(out.to, sample_life_samples(l->life), prof, &opt,
				    l->args->csv_flat, err);
	return rc ? rc : outfile_commit(&out, err);
}

static int write_flame(const char *path, struct prof *prof, enum view_cost cost, struct err *err)
{
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	const struct out_opt opt = { .cost = cost };
	int rc = outfile_open(&out, path, 1, err);
	if (!rc)
		rc = out_flamegraph(out.to, prof, &opt, err);
	return rc ? rc : outfile_commit(&out, err);
}

static int write_flames(struct sample_run *l, struct prof *prof, struct err *err)
{
	static const struct {
		const char *what;
		enum view_cost cost;
	} kinds[] = { { "traffic", VIEW_COST_ALLOCATED },
		      { "count", VIEW_COST_ALLOCATIONS },
		      { "live", VIEW_COST_LIVE } };
	const char *path = l->args->flame, *base = strrchr(path, '/');
	const char *dot = strrchr(base ? base : path, '.');
	int stem = dot && dot != path ? (int)(dot - path) : (int)strlen(path), rc;
	unsigned chosen = l->args->out.order == SAMPLE_BY_COUNT                        ? 1
			  : l->args->out.order == SAMPLE_BY_TRAFFIC || !l->args->leaks ? 0
										       : 2;
	rc = write_flame(path, prof, kinds[chosen].cost, err);
	for (unsigned i = 0; !rc && i < (l->args->leaks ? 3u : 2u); i++) {
		char name[4096];
		snprintf(name, sizeof(name), "%.*s-by-%s.svg", stem, path, kinds[i].what);
		rc = write_flame(name, prof, kinds[i].cost, err);
	}
	return rc;
}

/* A screen of the moment: as many lines as fit, over the last one. */
int sample_redraw(struct sample_run *l, struct err *err)
{
	struct samples *samples = sample_life_samples(l->life);
	struct winsize size;
	char *text = NULL;
	size_t bytes = 0, rows = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2)
		rows = size.ws_row;
	CLEANUP(prof_freep) struct prof *prof = sample_life_read(l->life, 0, err);
	if (!prof)
		return err->code;
	struct out_sample_opt opt = l->args->out;
	struct out_opt fit = { 0 };
	terminal_fit(stdout, &fit);
	opt.width = fit.width;
	opt.screen = 1;
	if (!opt.top || opt.top > rows)
		opt.top = rows;
	FILE *to = open_memstream(&text, &bytes);
	if (!to)
		return err_set(err, -ENOMEM, "cannot draw");
	int rc = out_sample_text(to, samples, prof, &opt, err);
	fclose(to);
	fputs("\033[H", stdout);
	for (char *line = text; rc == 0 && line && *line && rows-- > 1;) {
		size_t len = strcspn(line, "\n");
		char *next = line[len] ? line + len + 1 : line + len;
		line[len] = '\0';
		size_t fits = fit.width > 0 ? text_fit(line, (size_t)fit.width) : len;
		printf("%.*s\033[K\n", (int)fits, line);
		line = next;
	}
	fputs("\033[J", stdout);
	fflush(stdout);
	free(text);
	return rc;
}

static int print(struct sample_run *l, struct prof *prof, struct err *err)
{
	struct sample_args *a = l->args;
	struct out_sample_opt opt = a->out;
	struct samples *samples = sample_life_samples(l->life);
	const struct sample_process *first = samples->process_count ? samples->processes : NULL;
	int rc =
		result_for(&a->result, first ? first->exe : "", first ? (pid_t)first->pid : 0, err);
	if (rc < 0 || !a->result.to)
		return rc;
	if (a->json)
		return out_sample_json(a->result.to, samples, prof, &opt, err);
	struct out_opt fit = { 0 };
	terminal_fit(a->result.to, &fit);
	opt.width = fit.width;
	opt.ascii = fit.ascii;
	opt.colour = fit.colour;
	return out_sample_text(a->result.to, samples, prof, &opt, err);
}

int sample_json(struct sample_run *l, FILE *to, struct err *err)
{
	struct out_sample_opt opt = l->args->out;
	if (!l->args->top_given) /* the ten of the text are for eyes */
		opt.top = 0;
	CLEANUP(prof_freep) struct prof *prof = sample_life_read(l->life, 0, err);
	return prof ? out_sample_json(to, sample_life_samples(l->life), prof, &opt, err)
		    : err->code;
}

int sample_show(struct sample_run *l, int final, struct err *err)
{
	struct sample_args *a = l->args;
	CLEANUP(prof_freep) struct prof *prof = sample_life_read(l->life, final, err);
	int rc = prof ? 0 : err->code;
	if (rc < 0)
		return rc;
	/* what an interval has shown is the result already */
	if (!final || !a->interval_ns || a->json)
		if (!(final && a->jsonl && sample_life_shown(l->life)))
			rc = print(l, prof, err);
	if (!rc && a->csv)
		rc = write_csv(l, prof, err);
	if (!rc && a->flame)
		rc = write_flames(l, prof, err);
	return rc;
}
