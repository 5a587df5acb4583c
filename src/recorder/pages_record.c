/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/pages_record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "model/pagebook.h"
#include "recorder/recorder.h"
#include "trace/trace.h"

#define FILES_MAX 64

struct one {
	pid_t pid;
	/* its disk is full: said once */
	int stopped;
	struct trace_writer *writer;
	struct prof *prof;
	struct sink_tee tee;
	struct pagebook *book;
};

struct pages_record {
	const char *pattern;
	void (*say)(const char *text);
	struct one *all[FILES_MAX];
	size_t count;
	int left_out;
};

PRINTF(2, 3) static void say(const struct pages_record *record, const char *format, ...)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	va_list args;
	if (!record->say)
		return;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	record->say(buf_cstr(&text));
}

struct pages_record *pages_record_new(const char *pattern, void (*say_to)(const char *text),
				      struct err *err)
{
	struct pages_record *record = calloc(1, sizeof(*record));
	if (!record) {
		err_set(err, -ENOMEM, "cannot record pages");
		return NULL;
	}
	record->pattern = pattern;
	record->say = say_to;
	return record;
}

static void one_free(struct one *one)
{
	if (!one)
		return;
	pagebook_free(one->book);
	prof_free(one->prof);
	trace_writer_freep(&one->writer);
	free(one);
}

void pages_record_free(struct pages_record *record)
{
	for (size_t i = 0; record && i < record->count; i++)
		one_free(record->all[i]);
	free(record);
}

static struct one *begin(struct pages_record *record, const struct page_process *process,
			 struct err *err)
{
	char *name = recorder_name(record->pattern, process->exe, process->pid, err);
	struct one *one = name ? calloc(1, sizeof(*one)) : NULL;
	if (name && !one)
		err_set(err, -ENOMEM, "cannot record pages");
	if (one) {
		one->pid = process->pid;
		one->prof = prof_new(err);
		one->writer = one->prof ? trace_writer_new(name, NULL, err) : NULL;
	}
	free(name);
	if (!one || !one->writer) {
		one_free(one);
		return NULL;
	}
	sink_tee_init(&one->tee);
	sink_tee_add(&one->tee, prof_sink(one->prof));
	sink_tee_add(&one->tee, trace_writer_sink(one->writer));
	one->book = pagebook_new(&one->tee.sink, err);
	if (!one->book) {
		one_free(one);
		return NULL;
	}
	record->all[record->count++] = one;
	return one;
}

int pages_record_put(struct pages_record *record, const struct page_shot *shot, struct err *err)
{
	for (size_t i = 0; i < shot->count; i++) {
		const struct page_process *process = shot->processes[i];
		struct one *one = NULL;
		for (size_t k = 0; k < record->count && !one; k++)
			if (record->all[k]->pid == process->pid)
				one = record->all[k];
		if (!one && record->count == FILES_MAX) {
			if (!record->left_out++)
				say(record, "more than %d processes: the others are not recorded",
				    FILES_MAX);
			continue;
		}
		if (!one && !process->ended && !(one = begin(record, process, err)))
			return err->code;
		if (!one || one->stopped)
			continue;
		int rc = pagebook_put(one->book, process, err);
		if (rc == 0)
			rc = trace_writer_flush(one->writer, err);
		if (rc < 0)
			return rc;
		if (trace_writer_lost(one->writer)) {
			one->stopped = 1;
			say(record, "'%s' takes no more: it ends with the reading before",
			    trace_writer_path(one->writer));
		}
	}
	return 0;
}

int pages_record_end(struct pages_record *record, const struct page_shot *shot, pid_t program,
		     int exit_status, int quiet, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < record->count; i++) {
		struct one *one = record->all[i];
		struct err this = { 0 };
		const struct page_process *process = page_shot_find(shot, one->pid);
		char *path = strdup(trace_writer_path(one->writer));
		int end = pagebook_end(one->book, process ? process->ended : 0,
				       one->pid == program ? exit_status : -1, &this);
		if (end == 0)
			end = trace_writer_finish(STEAL(one->writer), one->prof, &this);
		if (end < 0 && !rc) {
			*err = this;
			rc = end;
		}
		if (end == 0 && path && !quiet)
			say(record, "recorded to '%s'", path);
		free(path);
	}
	return rc;
}
