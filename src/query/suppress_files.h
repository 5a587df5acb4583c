/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suppress_files.h - which leaks are not told (view/suppress.h), as somebody gave it: files, the
 * recording's own, those built in.
 */
#ifndef QUERY_SUPPRESS_FILES_H
#define QUERY_SUPPRESS_FILES_H

#include "view/suppress.h"

#define SUPPRESS_FILES_MAX 32

/** struct suppress_files - what was asked for; zero-initialised: the built-in rules. */
struct suppress_files {
	/* lent */
	const char *files[SUPPRESS_FILES_MAX];
	size_t count;
	/* not the built-in ones */
	int off;
};
/** suppress_files_check() - can the files be read, and understood? Before anything is started. */
int suppress_files_check(const struct suppress_files *given, struct err *err);
/**
 * suppress_files_run() - suppress_run() over @prof with what was asked for; release with
 * suppress_freep(). What is given in files is always taken out of @prof's leaks, the built-in rules
 * only with @built_in_too: a machine gets them told apart. NULL with @err.
 */
struct suppress *suppress_files_run(const struct suppress_files *given, struct prof *prof,
				    int built_in_too, struct err *err);

/**
 * suppress_subtract() - from the sums of a recording what it took out, where that is not done yet.
 */
void suppress_subtract(const struct suppress *suppress, struct prof_totals *totals);

#endif
