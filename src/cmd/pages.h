/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - `byteledger pages`: pages.c has the options, pages_run.c the life from the first target
 * to the last reading.
 */
#ifndef CMD_PAGES_H
#define CMD_PAGES_H

#include <stdint.h>

#include "cmd/serving.h"
#include "cmd/targets.h"
#include "recorder/result.h"
#include "view/pages.h"

/** struct pages_job - what the command line said; texts are argv's. */
struct pages_job {
	struct targets targets;
	struct pages_tree_opt tree;
	int tree_given;
	int with_program;
	/* between readings; 0 = as the work allows */
	uint64_t watch_ns;
	/* show what came within so long; 0 = what is there */
	uint64_t since_ns;
	/* end_ns: of CLOCK_MONOTONIC; 0 = none */
	uint64_t duration_ns, end_ns;
	int json, jsonl, format_given, quiet;
	/* the recording */
	const char *output;
	/* where the result goes */
	const char *report;
	/* 0: the default */
	uint32_t tables_bytes;
	uint32_t stacks;
	struct serving_opt serving;
	struct result result;
};

/** pages_run() - do it; with @program start that. Return: the exit status. */
int pages_run(struct pages_job *job, char **program);

#endif
