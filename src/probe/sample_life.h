/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_life.h - what running programs allocate, sampled by probes: find functions, attach, see
 * who comes and ends, keep to a budget, detach. In order of use:
 * 	sample_life_new();
 * 	sample_life_begin() finds the processes and puts the probes in;
 * 	sample_life_run() until a signal, the end of the time or of the processes, with
 *	sample_life_read() as often as wanted;
 * 	sample_life_end() takes the probes out, sample_life_read() a last time, sample_life_record()
 *	finishes the file;
 * 	sample_life_free().
 * One thread; others meet it at sample_life_desk().
 */
#ifndef PROBE_SAMPLE_LIFE_H
#define PROBE_SAMPLE_LIFE_H

#include <stdint.h>

#include "base/desk.h"
#include "model/samples.h"
#include "recorder/started.h"
#include "source/sampler_book.h"
#include "watch/targets.h"

#define SAMPLE_PROCESSES_MAX 256

struct sample_life;

/**
 * struct sample_ears - who hears of it, on the thread that runs it; say and show are needed. What
 * returns a negative errno ends it.
 */
struct sample_ears {
	void *ctx;
	/* a line for people */
	void (*say)(const char *text);
	/* probes are in, nothing counts yet */
	int (*ready)(void *ctx, struct err *err);
	/* a second has passed */
	int (*marked)(void *ctx, struct err *err);
	/* an interval has passed, or SIGUSR1 came */
	int (*show)(void *ctx, struct err *err);
	/* somebody asks at the desk */
	int (*answer)(void *ctx, struct err *err);
};

/** struct sample_life_opt - what is lent stays as long as the life. */
struct sample_life_opt {
	/* lent */
	struct targets *targets;
	/* that was started; 0: none */
	pid_t program;
	/* its signalfd */
	int signals;
	/* probe this file alone, in every process that maps it where no target is given */
	const char *file;
	/* pattern of a recording; NULL: none */
	const char *output;
	struct sampler_opt sampler;
	struct sampler_want want;
	int leaks, kernel, keep_blocks;
	/* 0: none, no end */
	uint64_t older_ns, interval_ns, count, duration_ns;
	/* of a CPU; 0 = none */
	double budget;
	int budget_given;
	struct sample_ears ears;
};

/** sample_life_new() - from here on signals are taken. NULL with @err. */
struct sample_life *sample_life_new(const struct sample_life_opt *opt, struct err *err);
/** sample_life_begin() - 0 or negative errno. */
int sample_life_begin(struct sample_life *life, struct err *err);
/** sample_life_run() - 0: the user or the clock ended it, 1: the processes did; negative errno. */
int sample_life_run(struct sample_life *life, struct err *err);
/**
 * sample_life_end() - @ended: what sample_life_run() returned, or why it was not called. 0 or
 * negative errno.
 */
int sample_life_end(struct sample_life *life, int ended, struct err *err);
/**
 * sample_life_read() - all figures of now, and the stacks behind them with their names; @final: the
 * last time. NULL with @err.
 */
struct prof *sample_life_read(struct sample_life *life, int final, struct err *err);
/**
 * sample_life_record() - finish the recording; what it is called, lent; NULL: there is none, or
 * @err says why.
 */
const char *sample_life_record(struct sample_life *life, struct err *err);
void sample_life_free(struct sample_life *life);

/**
 * sample_life_samples() - the figures of the last reading; NULL before sample_life_begin(). Lent.
 */
struct samples *sample_life_samples(struct sample_life *life);
/** sample_life_shown() - how many intervals have passed and been shown. */
uint64_t sample_life_shown(const struct sample_life *life);
/** sample_life_desk() - where other threads ask for an answer. Lent. */
struct desk *sample_life_desk(struct sample_life *life);

#endif
