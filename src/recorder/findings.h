/* SPDX-License-Identifier: Apache-2.0 */
/* findings.h - what a recording that has ended lacks, in words, and what to do about it. */
#ifndef RECORDER_FINDINGS_H
#define RECORDER_FINDINGS_H

#include "recorder/recorder.h"

/** struct findings_opt - what was asked for, and who hears; both functions are given. */
struct findings_opt {
	void (*say)(const char *text);
	/* to the line before */
	void (*hint)(const char *text);
	int is_quiet;
	/* the report will not say what is missing */
	int is_json;
	/* `explain` is what it was recorded for */
	int is_explained;
	int follow_children, pages;
};

/**
 * recorder_findings_children() - before the report: that the program had children which are not in
 * it, and how large.
 */
void recorder_findings_children(const struct recorder_result *result,
				const struct findings_opt *opt);
/** recorder_findings() - last of all: what is missing. @program: as it was named. */
void recorder_findings(const struct recorder_result *result, const struct findings_opt *opt,
		       const char *program);

#endif
