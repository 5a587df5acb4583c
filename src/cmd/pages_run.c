/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_run.c - what `byteledger pages` does with readings (probe/pages_life.h): draw, print,
 * serve.
 */
#include <stdio.h>
#include <unistd.h>

#include "api/pages_live.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "cmd/cmd.h"
#include "cmd/pages.h"
#include "cmd/serving.h"
#include "out/fit.h"
#include "out/pages.h"

struct run {
	struct pages_job *job;
	struct pages_life *life;
	/* the last one, for this thread */
	struct page_shot *shot;
	struct serving *serving;
	struct pages_live served;
	struct serving_more more;
	int live, drawn;
};

/* ---- printing -------------------------------------------------------------------------------- */

static int print_json(struct run *l, struct err *err)
{
	struct pages_job *job = l->job;
	struct jsonw json;
	const struct page_process *first = page_shot_find(l->shot, 0);
	if (result_for(&job->result, first ? first->exe : "", first ? first->pid : 0, err) < 0)
		return err->code;
	if (!job->result.to)
		return 0;
	jsonw_init(&json, job->result.to);
	out_pages_json(&json, l->shot, clock_ns(CLOCK_MONOTONIC));
	jsonw_line(&json);
	if (job->jsonl)
		fflush(job->result.to);
	return 0;
}

/* Most stacks are of little: what stands in the text alone is looked up. */
static void name_frames(void *ctx, const struct page_frame *const *frames, size_t count)
{
	struct run *l = ctx;
	pageown_name(pages_life_pages(l->life), frames, count);
}

static void fit(struct run *l, struct out_pages_opt *opt, FILE *to)
{
	struct out_opt terminal = { 0 };
	terminal_fit(to, &terminal);
	*opt = (struct out_pages_opt){ .tree = l->job->tree,
				       .width = terminal.width,
				       .ascii = terminal.ascii,
				       .now_ns = clock_ns(CLOCK_MONOTONIC),
				       .since = l->job->since_ns != 0 };
	opt->tree.name = name_frames;
	opt->tree.name_ctx = l;
}

/* Those that end are told behind those that live; of many that ended, the last. */
static int print_text(struct run *l, struct err *err)
{
	struct pages_job *job = l->job;
	struct out_pages_opt opt;
	for (int ended = 0; ended < 2; ended++) {
		for (size_t i = 0; i < l->shot->count; i++) {
			const struct page_process *process = l->shot->processes[i];
			CLEANUP(buf_fini) struct buf text = { 0 };
			if (process->ended != ended)
				continue;
			if (result_for(&job->result, process->exe, process->pid, err) < 0)
				return err->code;
			if (!job->result.to)
				return 0;
			fit(l, &opt, job->result.to);
			if (!ended)
				opt.ended_ns = pages_life_ended(l->life, process->pid);
			out_pages_since(&opt, l->shot, pages_life_then(l->life), process);
			int rc = out_pages_text(&text, l->shot, process, &opt, err);
			if (rc < 0)
				return rc;
			buf_putc(&text, '\n');
			fputs(buf_cstr(&text), job->result.to);
		}
	}
	return 0;
}

static int draw(struct run *l, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct out_pages_opt opt;
	fit(l, &opt, stdout);
	if (out_pages_screen(&text, l->shot, pages_life_then(l->life), &opt, terminal_rows(stdout),
			     err) < 0)
		return err->code;
	fputs(buf_cstr(&text), stdout);
	fflush(stdout);
	l->drawn = 1;
	return 0;
}

/* The reading that was just made is this thread's. */
static int on_counted(void *ctx, struct err *err)
{
	struct run *l = ctx;
	page_shot_put(l->shot);
	l->shot = pages_life_shot(l->life);
	if (l->live && draw(l, err) < 0)
		return err->code;
	return l->job->jsonl && l->shot->count ? print_json(l, err) : 0;
}

/* Targets are taken up. */
static int on_ready(void *ctx, struct err *err)
{
	struct run *l = ctx;
	l->more = pages_live_take(&l->served, l->life);
	struct serving_opt opt = l->job->serving;
	opt.more = &l->more;
	l->serving = serving_new(&opt, NULL, 0, err);
	if (!l->serving)
		return err->code;
	const char *url = serving_url(l->serving);
	cmd_say("serving %sv1/tree; the page: %s", url, url);
	serving_tell_note(l->serving);
	return 0;
}

static int finish(struct run *l, struct err *err)
{
	if (!l->job->quiet)
		pages_life_tell_full(l->life);
	if ((!l->shot || !l->shot->count) && !l->job->quiet)
		cmd_say(pages_life_program(l->life)
				? "the program ended before its pages were counted"
				: "no process was there to be counted");
	if (!l->shot || l->job->quiet || l->job->jsonl)
		return 0;
	if (l->job->json)
		pageown_resolve(pages_life_pages(l->life), l->shot, 0);
	if (l->drawn)
		fputs("\033[H\033[J", stdout);
	return l->job->json ? print_json(l, err) : print_text(l, err);
}

int pages_run(struct pages_job *job, char **program)
{
	struct run l = { .job = job };
	struct err err = { 0 };
	int status = CMD_OK, rc;
	l.live = !program && !job->json && !job->quiet && !job->report && isatty(STDOUT_FILENO);
	if (program)
		cmd_status_is_programs();
	const struct pages_life_opt opt = {
		.targets = &job->targets,
		.program = program,
		.record = job->output,
		.watch_ns = job->watch_ns,
		.since_ns = job->since_ns,
		.end_ns = job->end_ns,
		.tables_bytes = job->tables_bytes,
		.stacks = job->stacks,
		.is_drawn = l.live,
		.is_streamed = job->jsonl,
		.is_served = job->serving.wanted,
		.ears = { &l, cmd_say_line, cmd_fail, job->serving.wanted ? on_ready : NULL,
			  on_counted },
	};
	l.life = pages_life_new(&opt, &err);
	if (!l.life)
		return cmd_fail(&err);
	rc = pages_life_run(l.life, &err);
	if (!rc)
		rc = finish(&l, &err);
	serving_freep(&l.serving);
	struct err other = { 0 };
	if (pages_life_record(l.life, job->quiet, &other) < 0 && !rc) {
		rc = other.code;
		err = other;
	}
	if (result_end(&job->result, rc < 0 ? NULL : &err) < 0 && !rc)
		rc = err.code ? err.code : -EIO;
	if (rc < 0)
		status = cmd_fail(&err);
	page_shot_put(l.shot);
	status = pages_life_wait(l.life, status);
	pages_life_free(l.life);
	return status;
}
