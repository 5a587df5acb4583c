/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_opt.h - what the options of `run` and `heap` say, and what is done with it when the
 * program has ended.
 */
#ifndef CMD_RECORD_OPT_H
#define CMD_RECORD_OPT_H

#include <stdint.h>

#include "base/outfile.h"
#include "cmd/serving.h"
#include "inject/steer.h"
#include "query/limits.h"
#include "query/suppress_files.h"
#include "recorder/recorder.h"

/* heap.c: `heap -p PID`, options that steer a recording that is made elsewhere */
extern const struct argp steering_argp;

struct record_opt {
	/* first: the child parser's input */
	struct serving_opt serving;
	struct steering steering;
	/* pattern; NULL = the default */
	const char *output;
	/* 0 = until the program ends */
	uint64_t duration_ns;
	int quiet;
	/* by `explain`: said so */
	int is_explained;
	/* "text" or "json"; NULL = not given */
	const char *format;
	/* file; NULL = stdout or stderr */
	const char *report;
	const char *on_full;
	int free_stacks, stamp_every_event, follow_children, no_names;
	/* `run`: where the memory is, for `explain` */
	int snapshots;
	/* `run`: resident pages by stack, where it may */
	int pages;
	/* so often beside; 0: at new peaks and in the end */
	uint64_t snapshot_ns;
	/* receives the path of the recording; NULL */
	char *made;
	size_t made_size;
	uint64_t budget_bytes;
	struct limits limits;
	struct suppress_files suppressions;
};

/**
 * record_report() - of the finished recording @path: to @report where it was asked for, else stdout
 * or stderr. Return: 1 where one of the limits was exceeded, or could not be judged; that is said.
 */
int record_report(const struct record_opt *opt, struct outfile *report, const char *path);
/**
 * record_tell_family() - after the report, where children are followed: what was recorded beside
 * @result's file, as a tree.
 */
void record_tell_family(const struct record_opt *opt, const struct recorder_result *result);
#endif
