/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_record.h - resident pages by call stack as recordings, one a process, which grow with each
 * reading. In order of use; one thread.
 */
#ifndef RECORDER_PAGES_RECORD_H
#define RECORDER_PAGES_RECORD_H

#include <sys/types.h>

#include "base/err.h"
#include "model/pages.h"

struct pages_record;

/**
 * pages_record_new() - @pattern names the files, lent. @say: a line for people, like what is left
 * out; NULL: nobody hears. NULL with @err.
 */
struct pages_record *pages_record_new(const char *pattern, void (*say)(const char *text),
				      struct err *err);
/**
 * pages_record_put() - the next reading; a process that is new in it gets a file, up to 64 of them.
 */
int pages_record_put(struct pages_record *record, const struct page_shot *shot, struct err *err);
/**
 * pages_record_end() - finish them all; @program: the process whose @exit_status is known, 0 =
 * none. @quiet: what the files are called is not said.
 */
int pages_record_end(struct pages_record *record, const struct page_shot *shot, pid_t program,
		     int exit_status, int quiet, struct err *err);
void pages_record_free(struct pages_record *record);

#endif
