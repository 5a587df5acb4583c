/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contents.h - what is in a recording, counted: events, definitions, losses, embedded files,
 * blocks. Memory does not grow with its length.
 */
#ifndef QUERY_CONTENTS_H
#define QUERY_CONTENTS_H

#include "model/event.h"
#include "query/recording.h"
#include "trace/trace.h"

/** struct contents_file - one that was embedded. */
struct contents_file {
	char *path;
	uint64_t bytes, changed_ns;
	enum trace_file_state state;
};

/**
 * struct contents - zero-initialised; .file, .survey and .files are of .blt files, of others .file
 * has the length alone.
 */
struct contents {
	enum recording_kind kind;
	struct trace_reader_info file;
	struct trace_survey survey;
	uint64_t kinds[EVENT_KIND_MAX];
	uint64_t defs[DEF_RULE + 1];
	uint64_t lost[LOSS_REASON_MAX], lost_bytes;
	/* as the process says, else the last event's */
	uint64_t runtime_ns;
	struct {
		int known, ended, complete, exit_status;
		uint32_t pid, modules_nameless;
		/* cmdline: each argument ends in NUL, cmdline_bytes long in all */
		char *exe, *source, *cmdline;
		size_t cmdline_bytes;
		uint64_t start_realtime_ns, time_bound_ns, runtime_ns;
	} process;
	struct contents_file *files;
	size_t file_count, file_cap;
};

/**
 * contents_read() - read all of @recording and check every block. @ears: how far it is; may be
 * NULL. 0 or negative errno; contents_fini() in any case.
 */
int contents_read(struct recording *recording, const struct recording_ears *ears,
		  struct contents *contents, struct err *err);
void contents_fini(struct contents *contents);
/** contents_damaged() - what of @path could not be read, as an error with a hint. */
int contents_damaged(const struct contents *contents, const char *path, struct err *err);

#endif
