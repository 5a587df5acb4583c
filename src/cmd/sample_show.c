/* SPDX-License-Identifier: Apache-2.0 */
/* sample_show.c - what was sampled so far, given names and printed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/outfile.h"
#include "cmd/sample.h"
#include "cmd/terminal.h"
#include "out/out.h"
#include "view/leak.h"

/* Functions of the kernel, and what was asked of it. */
static void resolve_kernel(struct sample_life *l, struct prof *prof)
{
	struct sink *sink = prof_symbol_sink(prof);
	for (uint32_t i = 1; i < prof_frame_count(prof); i++) {
		const struct prof_frame *frame = prof_frame(prof, (struct frame_id){ i });
		char text[128];
		struct err err = { 0 };
		struct symbol symbol = { 0 };
		if (!frame || frame->symbols)
			continue;
		symbol.function =
			sampler_kernel_name(l->sampler, frame->offset, text, sizeof(text));
		struct def def = { .kind = DEF_SYMBOL, .id = i };
		def.symbol.symbols = &symbol;
		def.symbol.count = 1;
		if (symbol.function)
			sink->define(sink, &def, &err);
	}
}

/* Names by the files of each process, as it sees them; of one that ended, those that were found while it ran stay known. */
void sample_resolve(void *life, struct prof *prof)
{
	struct sample_life *l = life;
	if (l->args->kernel)
		resolve_kernel(l, prof);
	for (size_t i = 0; i < l->target_count; i++) {
		struct sample_target *t = &l->targets[i];
		struct sym_opt opt = { .pid = t->pid };
		struct err err = { 0 };
		if (!t->sym)
			t->sym = sym_new(&opt, &err);
		if (!t->sym) { /* it has ended: our own files serve, where they are the same */
			opt.pid = 0;
			t->sym = sym_new(&opt, &err);
		}
		if (t->sym)
			sym_resolve_prof(t->sym, prof, prof_symbol_sink(prof), NULL, NULL, &err);
	}
}

static int write_csv(struct sample_life *l, struct prof *prof, struct err *err)
{
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	struct out_sample_opt opt = l->args->out;
	if (!l->args->top_given) /* the ten of the text are for eyes */
		opt.top = 0;
	int rc = outfile_open(&out, l->args->csv, 0, 1, err);
	if (!rc)
		rc = out_sample_csv(out.to, l->samples, prof, &opt, l->args->csv_flat, err);
	return rc ? rc : outfile_commit(&out, err);
}

static int write_flame(const char *path, struct prof *prof, enum view_cost cost, struct err *err)
{
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	const struct out_opt opt = { .cost = cost };
	int rc = outfile_open(&out, path, 0, 1, err);
	if (!rc)
		rc = out_flamegraph(out.to, prof, &opt, err);
	return rc ? rc : outfile_commit(&out, err);
}

static int write_flames(struct sample_life *l, struct prof *prof, struct err *err)
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
int sample_redraw(struct sample_life *l, struct err *err)
{
	struct winsize size;
	char *text = NULL;
	size_t bytes = 0, rows = 24;
	int rc = sampler_read(l->sampler, l->samples, err);
	if (rc < 0)
		return rc;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2)
		rows = size.ws_row;
	sampler_governor_cost(&l->governor, clock_ns(CLOCK_MONOTONIC));
	leak_judge(l->samples);
	CLEANUP(prof_freep) struct prof *prof = samples_prof(l->samples, 0, err);
	if (!prof)
		return err->code;
	sample_resolve(l, prof);
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
	rc = out_sample_text(to, l->samples, prof, &opt, err);
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

static int print(struct sample_life *l, struct prof *prof, struct err *err)
{
	struct sample_args *a = l->args;
	struct out_sample_opt opt = a->out;
	const struct sample_process *first =
		l->samples->process_count ? l->samples->processes : NULL;
	int rc =
		result_for(&a->result, first ? first->exe : "", first ? (pid_t)first->pid : 0, err);
	if (rc < 0 || !a->result.to)
		return rc;
	if (a->json)
		return out_sample_json(a->result.to, l->samples, prof, &opt, err);
	struct out_opt fit = { 0 };
	terminal_fit(a->result.to, &fit);
	opt.width = fit.width;
	opt.ascii = fit.ascii;
	opt.colour = fit.colour;
	return out_sample_text(a->result.to, l->samples, prof, &opt, err);
}

/* All figures of now, and the stacks behind them with their names; NULL with @err. */
static struct prof *read_now(struct sample_life *l, int final, struct err *err)
{
	if (!l->ended_ns)
		sampler_governor_cost(&l->governor, clock_ns(CLOCK_MONOTONIC));
	if (sampler_read(l->sampler, l->samples, err) < 0)
		return NULL;
	if (l->ended_ns) /* taking probes away takes a while in which nothing is seen */
		l->samples->now_ns = l->ended_ns;
	if (final)
		samples_mark(l->samples, l->samples->now_ns);
	/* one that came and went between two looks is listed all the same */
	for (size_t i = 0; i < l->samples->row_count; i++) {
		if (!samples_add_process(l->samples, l->samples->rows[i].pid, "")) {
			err_set(err, -ENOMEM, "cannot keep samples");
			return NULL;
		}
	}
	leak_judge(l->samples);
	struct prof *prof = samples_prof(l->samples, 0, err);
	if (prof)
		sample_resolve(l, prof);
	return prof;
}

int sample_json(struct sample_life *l, FILE *to, struct err *err)
{
	struct out_sample_opt opt = l->args->out;
	if (!l->args->top_given) /* the ten of the text are for eyes */
		opt.top = 0;
	CLEANUP(prof_freep) struct prof *prof = read_now(l, 0, err);
	return prof ? out_sample_json(to, l->samples, prof, &opt, err) : err->code;
}

int sample_show(struct sample_life *l, int final, struct err *err)
{
	struct sample_args *a = l->args;
	CLEANUP(prof_freep) struct prof *prof = read_now(l, final, err);
	int rc = prof ? 0 : err->code;
	if (rc < 0)
		return rc;
	/* what an interval has shown is the result already */
	if (!final || !a->interval_ns || a->json)
		if (!(final && a->jsonl && l->shown))
			rc = print(l, prof, err);
	if (!rc && a->csv)
		rc = write_csv(l, prof, err);
	if (!rc && a->flame)
		rc = write_flames(l, prof, err);
	return rc;
}
