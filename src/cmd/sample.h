/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - what the files of `byteledger sample` share. Private to cmd/. */
#ifndef CMD_SAMPLE_H
#define CMD_SAMPLE_H

#include <regex.h>

#include "api/sample_live.h"
#include "cmd/serving.h"
#include "cmd/targets.h"
#include "out/sample.h"
#include "recorder/result.h"
#include "recorder/started.h"

struct sample_args {
	struct targets targets;
	struct started program;
	int with_program;
	/* of it: the first that was met */
	const char *program_word;
	/* --program, -f */
	const char *file, *function;
	const char *csv, *flame, *report, *output;
	int csv_flat, json, jsonl, format_given, quiet, top_given, order_given;
	struct sampler_opt sampler;
	struct sampler_want want;
	struct out_sample_opt out;
	regex_t regex;
	int leaks, kernel;
	uint64_t older_ns, interval_ns, count, duration_ns;
	/* of a CPU; 0 = none */
	double budget;
	int budget_given;
	struct result result;
	struct serving_opt serving;
};

/**
 * sample_run() - attach, watch, detach, report. *@stopped: this ends before the program that was
 * started does.
 */
int sample_run(struct sample_args *args, int *stopped);

struct sample_run {
	struct sample_args *args;
	struct sample_life *life;
	/* while it is served */
	int is_served;
	struct sample_live live;
	struct serving_more more;
	struct serving *serving;
};

/** sample_show() - read and print: text, JSON, files. @final: the last time. */
int sample_show(struct sample_run *run, int final, struct err *err);

/* The ears of a sample_life: @run is a struct sample_run. */

/** sample_show_interval() - the same in between. */
int sample_show_interval(void *run, struct err *err);

/** sample_json() - read, and write the object to @to. */
int sample_json(void *run, FILE *to, struct err *err);

/**
 * sample_serve() - serve /api/v1/sample by threads of its own, which ask the sampling one:
 * sample_serve_answer().
 */
int sample_serve(void *run, struct err *err);
int sample_serve_answer(void *run, struct err *err);
void sample_serve_end(struct sample_run *run);

/** sample_redraw() - the moment, on the terminal. */
int sample_redraw(void *run, struct err *err);

#endif
