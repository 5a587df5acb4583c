/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - what the files of `byteledger sample` share. Private to cmd/. */
#ifndef CMD_SAMPLE_H
#define CMD_SAMPLE_H

#include <pthread.h>
#include <regex.h>

#include "cmd/result.h"
#include "cmd/serving.h"
#include "cmd/targets.h"
#include "model/samples.h"
#include "out/sample.h"
#include "recorder/sample_record.h"
#include "recorder/started.h"
#include "source/sampler_book.h"
#include "sym/sym.h"

#define SAMPLE_PROCESSES_MAX 256

struct sample_args {
	struct targets targets;
	struct started program;
	int with_program;
	const char *file, *function; /* --program, -f */
	const char *csv, *flame, *report, *output;
	int csv_flat, json, jsonl, format_given, quiet, top_given, order_given;
	struct sampler_opt sampler;
	struct sampler_want want;
	struct out_sample_opt out;
	regex_t regex;
	const char *regex_text;
	int leaks, kernel;
	uint64_t older_ns, interval_ns, count, duration_ns;
	double budget; /* of a CPU; 0 = none */
	int budget_given;
	struct result result;
	struct serving_opt serving;
};

/** sample_run() - attach, watch, detach, report. *@stopped: this ends before the program that was started does. */
int sample_run(struct sample_args *args, int *stopped);

/** One process that is sampled. */
struct sample_target {
	uint32_t pid;
	int pidfd;
	int ended;
	uint64_t cpu_ns; /* used since it was met; what is known of one that ended */
	uint64_t cpu_first_ns;
	struct sym *sym;
	struct sampler_files *files; /* that were looked into */
	int has_mapped;              /* code, since */
	uint64_t look_due_ns;        /* not before */
};

#define SAMPLE_LIVES_MAX 16

/** What is served while it is sampled: the last answer, and who waits for the next. */
struct sample_serving {
	struct serving *serving; /* NULL: nothing is served */
	int is_begun, wake;      /* an eventfd: somebody asks */
	pthread_mutex_t lock;
	pthread_cond_t answer;
	char *text; /* under lock, as all below */
	size_t len;
	uint64_t asked, answered;
	int over;
	uint64_t due_ns; /* the sampling thread's: no reading before */
	struct http_route route;
	struct v1_live lives[SAMPLE_LIVES_MAX];
	char names[SAMPLE_LIVES_MAX][64];
	struct serving_more more;
};

struct sample_life {
	struct sample_args *args;
	struct sampler *sampler;
	struct samples *samples;
	struct sampler_governor governor;
	struct sample_record *record; /* -o; NULL: none */
	int nop5_tried, nop5_safe;
	unsigned over; /* seconds over the budget, in a row */
	struct sample_target targets[SAMPLE_PROCESSES_MAX];
	size_t target_count;
	int signals, dump_signal;
	int full;
	uint64_t ended_ns; /* when it was detached; 0 = not yet */
	uint64_t end_ns, more_due_ns, next_ns, interval_ns, shown;
	int redraw;
	struct sample_serving served;
};

/** sample_show() - read and print: text, JSON, files. @final: the last time. */
int sample_show(struct sample_life *life, int final, struct err *err);

/** sample_json() - read, and write the object to @to. */
int sample_json(struct sample_life *life, FILE *to, struct err *err);

/** sample_serve() - serve /api/v1/sample by threads of its own, which ask the sampling one. */
int sample_serve(struct sample_life *life, struct err *err);
/** sample_serve_fd() - becomes readable when somebody asks; -1 = nothing is served. */
int sample_serve_fd(const struct sample_life *life);
/** sample_serve_due() - when sample_serve_answer() is wanted; UINT64_MAX: nobody waits. */
uint64_t sample_serve_due(struct sample_life *life);
int sample_serve_answer(struct sample_life *life, struct err *err);
void sample_serve_end(struct sample_life *life);

/** sample_redraw() - the moment, on the terminal. */
int sample_redraw(struct sample_life *life, struct err *err);
/** sample_resolve() - give names to the frames of @prof. */
void sample_resolve(void *life, struct prof *prof);

#endif
