/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_run.c - what `byteledger sample` does while something is sampled (probe/sample_life.h),
 * and at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "cmd/sample.h"

#define JSONL_NS NS_PER_S

/*
 * The terminal's other screen, for as long as it runs: the report goes where the shell's text is.
 */
static void screen(int on)
{
	fputs(on ? "\033[?1049h\033[H\033[J" : "\033[?1049l", stdout);
	if (!on)
		fflush(stdout);
}

static int run(struct sample_run *r, int redraws, int *ended, struct err *err)
{
	struct sample_args *a = r->args;
	int rc = sample_life_begin(r->life, err);
	started_let_go(&a->program);
	if (rc == -ESRCH && a->program.pid && started_has_ended(a->program.pid)) {
		cmd_say("the program ended before probes were in: nothing of it was sampled");
		*ended = 1;
		return 0;
	}
	if (rc == 0 && redraws)
		screen(1);
	if (rc == 0)
		*ended = sample_life_run(r->life, err);
	if (redraws)
		screen(0);
	rc = sample_life_end(r->life, rc < 0 ? rc : *ended, err);
	if (rc == 0)
		rc = sample_show(r, 1, err);
	if (rc == 0 && a->output) {
		const char *path = sample_life_record(r->life, err);
		rc = path ? 0 : err->code;
		if (path)
			cmd_say("recorded in '%s'", path);
	}
	return rc == 0 ? result_end(&a->result, err) : rc;
}

int sample_run(struct sample_args *a, int *stopped)
{
	struct sample_run *r = calloc(1, sizeof(*r));
	struct err err = { 0 };
	int ended = 0;
	if (a->jsonl && !a->interval_ns)
		a->interval_ns = JSONL_NS;
	int redraws = !a->json && !a->report && !a->quiet && !a->interval_ns && !a->with_program &&
		      isatty(STDOUT_FILENO);
	const struct sample_life_opt opt = {
		.targets = &a->targets,
		.program = a->program.pid,
		.signals = a->program.signals,
		.file = a->file,
		.output = a->output,
		.sampler = a->sampler,
		.want = a->want,
		.leaks = a->leaks,
		.kernel = a->kernel,
		.keep_blocks = a->out.show_allocs,
		.older_ns = a->older_ns,
		.interval_ns = a->interval_ns,
		.count = a->count,
		.duration_ns = a->duration_ns,
		.budget = a->budget,
		.budget_given = a->budget_given,
		.ears = { .ctx = r,
			  .say = cmd_say_line,
			  .ready = a->serving.wanted ? sample_serve : NULL,
			  .marked = redraws ? sample_redraw : NULL,
			  .show = sample_show_interval,
			  .answer = sample_serve_answer },
	};
	if (!r) {
		err_set(&err, -ENOMEM, "cannot sample");
		return cmd_fail(&err);
	}
	r->args = a;
	r->life = sample_life_new(&opt, &err);
	result_init(&a->result, a->report,
		    cmd_result_stream(a->quiet, a->with_program, a->format_given));
	int rc = r->life ? run(r, redraws, &ended, &err) : err.code;
	int status = rc < 0 ? cmd_fail(&err) : CMD_OK;
	*stopped = ended == 0 && rc == 0;
	result_fini(&a->result);
	sample_serve_end(r);
	sample_life_free(r->life);
	free(r);
	return status;
}
