/* SPDX-License-Identifier: Apache-2.0 */
/* sample_show.c - what was sampled so far, given names and printed. */
#include <stdio.h>

#include "cmd/sample.h"
#include "out/fit.h"
#include "out/out.h"

/* For files and machines: the ten of the text are for eyes. */
static struct out_sample_opt all_rows(const struct sample_args *a)
{
	struct out_sample_opt opt = a->out;
	if (!a->top_given)
		opt.top = 0;
	return opt;
}

int sample_redraw(void *run, struct err *err)
{
	struct sample_run *l = run;
	CLEANUP(prof_freep) struct prof *prof = sample_life_read(l->life, 0, err);
	if (!prof)
		return err->code;
	struct out_sample_opt opt = l->args->out;
	struct out_opt fit = { 0 };
	terminal_fit(stdout, &fit);
	opt.width = fit.width;
	return out_sample_screen(stdout, sample_life_samples(l->life), prof, &opt,
				 terminal_rows(stdout), err);
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
	out_sample_fit(a->result.to, &opt);
	return out_sample_text(a->result.to, samples, prof, &opt, err);
}

int sample_json(void *run, FILE *to, struct err *err)
{
	struct sample_run *l = run;
	const struct out_sample_opt opt = all_rows(l->args);
	CLEANUP(prof_freep) struct prof *prof = sample_life_read(l->life, 0, err);
	return prof ? out_sample_json(to, sample_life_samples(l->life), prof, &opt, err)
		    : err->code;
}

int sample_show(struct sample_run *l, int final, struct err *err)
{
	struct sample_args *a = l->args;
	const struct out_sample_opt every = all_rows(a);
	CLEANUP(prof_freep) struct prof *prof = sample_life_read(l->life, final, err);
	int rc = prof ? 0 : err->code;
	if (rc < 0)
		return rc;
	/* what an interval has shown is the result already; of lines the last that counts */
	uint64_t shown = final && a->interval_ns ? sample_life_shown(l->life) : 0;
	if (!shown || (a->json && !(a->jsonl && a->count)))
		rc = print(l, prof, err);
	if (!rc && a->csv)
		rc = out_sample_table(a->csv, sample_life_samples(l->life), prof, &every,
				      a->csv_flat, err);
	if (!rc && a->flame)
		rc = out_sample_flames(a->flame, prof, a->out.order, a->leaks, err);
	return rc;
}

int sample_show_interval(void *run, struct err *err)
{
	return sample_show(run, 0, err);
}
