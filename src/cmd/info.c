/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - `byteledger info FILE`: what is in a recording, and whether all of it can be read. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/progress.h"
#include "proc/proc.h"
#include "trace/trace.h"

struct info_args {
	const char *path;
	int json;
};

static const struct argp_option options[] = {
	{ "format", 'f', "text|json", 0, "How to print; text by default", 1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info_args *args = state->input;
	switch (key) {
	case 'f':
		if (strcmp(arg, "json") != 0 && strcmp(arg, "text") != 0)
			cmd_usage("unknown format '%s': text or json", arg);
		args->json = strcmp(arg, "json") == 0;
		break;
	default:
		return cmd_take_file(&args->path, key, arg);
	}
	return 0;
}

/* ---- counting --------------------------------------------------------------------------------------------------- */

struct contents {
	struct sink sink;
	uint64_t kinds[EVENT_KIND_MAX];
	uint64_t defs[DEF_RULE + 1];
	uint64_t lost[LOSS_REASON_MAX], lost_bytes;
	uint64_t last_ns;
	struct {
		int known, ended, complete, exit_status;
		uint32_t pid, modules_nameless;
		char *exe, *source;
		uint64_t start_realtime_ns, time_bound_ns, runtime_ns;
	} process;
};

static int keep_text(char **to, const char *text, struct err *err)
{
	char *copy = strdup(text ? text : "");
	if (!copy)
		return err_set(err, -ENOMEM, "cannot hold the names");
	free(*to);
	*to = copy;
	return 0;
}

static int count_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct contents *c = (struct contents *)sink;
	c->defs[def->kind]++;
	if (def->kind != DEF_PROCESS)
		return 0;
	c->process.known = 1;
	c->process.ended = def->process.ended;
	c->process.complete = def->process.complete;
	c->process.exit_status = def->process.exit_status;
	c->process.modules_nameless = def->process.modules_nameless;
	c->process.pid = def->process.pid;
	c->process.start_realtime_ns = def->process.start_realtime_ns;
	c->process.time_bound_ns = def->process.time_bound_ns;
	c->process.runtime_ns = def->process.runtime_ns;
	int rc = keep_text(&c->process.exe, def->process.exe, err);
	return rc < 0 ? rc : keep_text(&c->process.source, def->process.comment, err);
}

static int count_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct contents *c = (struct contents *)sink;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		c->kinds[e->kind % EVENT_KIND_MAX]++;
		if (e->kind != EVENT_LOST)
			continue;
		sum_add(&c->lost[e->value % LOSS_REASON_MAX], e->addr);
		sum_add(&c->lost[e->value % LOSS_REASON_MAX], e->block.v);
		sum_add(&c->lost_bytes, e->bytes);
	}
	if (count)
		c->last_ns = events[count - 1].time_ns;
	return 0;
}

/* The files that were embedded. */
struct listed {
	char *path;
	uint64_t bytes, changed_ns;
	enum trace_file_state state;
};
struct listing {
	struct listed *file;
	size_t count, cap;
};
#define LISTED_MAX 65536

static const char *const file_states[TRACE_FILE_STATES] = {
	[TRACE_FILE_STORED] = NULL,
	[TRACE_FILE_TOO_LARGE] = "too large",
	[TRACE_FILE_UNREADABLE] = "unreadable",
};

static int list_file(void *ctx, const struct trace_file *file, struct err *err)
{
	struct listing *list = ctx;
	if (list->count == LISTED_MAX)
		return 0;
	if (list->count == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 16;
		struct listed *grown = realloc(list->file, cap * sizeof(*grown));
		if (!grown)
			return err_set(err, -ENOMEM, "cannot hold the names of files");
		list->file = grown;
		list->cap = cap;
	}
	char *path = strdup(file->path);
	if (!path)
		return err_set(err, -ENOMEM, "cannot hold the names of files");
	list->file[list->count++] =
		(struct listed){ path, file->bytes, file->changed_ns, file->state };
	return 0;
}

static void listing_fini(struct listing *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->file[i].path);
	free(list->file);
}

static const char *const kind_names[EVENT_KIND_MAX] = {
	[EVENT_ALLOC] = "allocations",
	[EVENT_FREE] = "frees",
	[EVENT_FREE_FOREIGN] = "foreign_frees",
	[EVENT_MAP] = "maps",
	[EVENT_UNMAP] = "unmaps",
	[EVENT_BRK] = "breaks",
	[EVENT_RSS] = "rss_points",
	[EVENT_MARK] = "marks",
	[EVENT_LOST] = "loss_reports",
	[EVENT_SWITCH] = "switches",
	[EVENT_THREAD_END] = "thread_ends",
	[EVENT_FORKED] = "forks",
	[EVENT_CULLED] = "culled_sums",
	[EVENT_FILTERED] = "filtered_sums",
};

static const char *const def_names[DEF_RULE + 1] = {
	[DEF_THREAD] = "threads", [DEF_MODULE] = "modules", [DEF_FRAME] = "frames",
	[DEF_STACK] = "stacks",   [DEF_SYMBOL] = "symbols", [DEF_RULE] = "rules",
};

static const char *machine_name(unsigned machine)
{
	return machine == 62 ? "x86_64" : machine == 183 ? "aarch64" : NULL;
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static const char *const file_kinds[] = {
	[RECORDING_BLT] = "byteledger",
	[RECORDING_HEAPTRACK] = "heaptrack",
	[RECORDING_RAW] = "raw",
};

static void print_json(enum recording_kind kind, const struct trace_reader_info *info,
		       const struct trace_survey *survey, const struct listing *files,
		       const struct contents *c, uint64_t runtime_ns)
{
	struct jsonw j;
	char boot_id[33];
	for (unsigned i = 0; i < 16; i++)
		snprintf(boot_id + 2 * i, 3, "%02x", survey->boot_id[i]);
	jsonw_init(&j, stdout);
	jsonw_object(&j, NULL);
	jsonw_u64(&j, "version", 1);
	jsonw_object(&j, "file");
	jsonw_str(&j, "format", file_kinds[kind]);
	jsonw_u64(&j, "bytes", info->file_bytes);
	if (kind == RECORDING_BLT) {
		jsonw_u64(&j, "format_version", survey->version);
		jsonw_str(&j, "machine", machine_name(survey->machine));
		jsonw_str(&j, "boot_id", boot_id);
		jsonw_u64(&j, "created_realtime_ns", survey->realtime_ns);
		jsonw_bool(&j, "finished", info->indexed);
		jsonw_bool(&j, "summary", info->has_summary);
		jsonw_bool(&j, "truncated", info->truncated);
		jsonw_bool(&j, "being_written", info->being_written);
		jsonw_bool(&j, "pending_missing", info->lacks_pending && !info->being_written);
		jsonw_u64(&j, "damaged_blocks", info->damaged_blocks);
		jsonw_u64(&j, "skipped_bytes", info->skipped_bytes);
	}
	jsonw_object_end(&j);
	jsonw_object(&j, "process");
	if (c->process.known) {
		jsonw_u64(&j, "pid", c->process.pid);
		jsonw_str(&j, "exe", c->process.exe);
		jsonw_str(&j, "source", c->process.source);
		jsonw_u64(&j, "start_realtime_ns", c->process.start_realtime_ns);
		jsonw_u64(&j, "time_bound_ns", c->process.time_bound_ns);
		jsonw_bool(&j, "ended", c->process.ended);
		jsonw_bool(&j, "complete", c->process.complete);
		jsonw_i64(&j, "exit_status",
			  c->process.exit_status < 0 ? -1
						     : proc_exit_status(c->process.exit_status));
		if (c->process.modules_nameless)
			jsonw_u64(&j, "modules_nameless", c->process.modules_nameless);
	}
	jsonw_u64(&j, "runtime_ns", runtime_ns);
	jsonw_object_end(&j);
	jsonw_object(&j, "events");
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		if (kind_names[i])
			jsonw_u64(&j, kind_names[i], c->kinds[i]);
	jsonw_object_end(&j);
	jsonw_object(&j, "definitions");
	for (unsigned i = DEF_THREAD; i <= DEF_RULE; i++)
		jsonw_u64(&j, def_names[i], c->defs[i]);
	jsonw_object_end(&j);
	jsonw_object(&j, "lost");
	uint64_t lost = 0;
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		sum_add(&lost, c->lost[i]);
	jsonw_u64(&j, "events", lost);
	jsonw_object(&j, "by_reason");
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		if (c->lost[i] && loss_reason_name(i))
			jsonw_u64(&j, loss_reason_name(i), c->lost[i]);
	jsonw_object_end(&j);
	jsonw_object_end(&j);
	jsonw_array(&j, "files");
	for (size_t i = 0; i < files->count; i++) {
		const struct listed *file = &files->file[i];
		jsonw_object(&j, NULL);
		jsonw_str(&j, "path", file->path);
		jsonw_u64(&j, "bytes", file->bytes);
		jsonw_u64(&j, "changed_realtime_ns", file->changed_ns);
		jsonw_bool(&j, "stored", file->state == TRACE_FILE_STORED);
		if (file->state != TRACE_FILE_STORED)
			jsonw_str(&j, "why", file_states[file->state]);
		jsonw_object_end(&j);
	}
	jsonw_array_end(&j);
	jsonw_array(&j, "blocks");
	for (unsigned i = 0; i < TRACE_TYPES; i++) {
		if (!survey->type[i].blocks)
			continue;
		jsonw_object(&j, NULL);
		jsonw_str(&j, "type", survey->type[i].name);
		jsonw_u64(&j, "blocks", survey->type[i].blocks);
		jsonw_u64(&j, "rows", survey->type[i].rows);
		jsonw_u64(&j, "bytes", survey->type[i].stored_bytes);
		jsonw_object_end(&j);
	}
	jsonw_array_end(&j);
	jsonw_array(&j, "columns");
	for (unsigned i = 0; i < TRACE_COLUMNS; i++) {
		if (!survey->column[i].raw_bytes)
			continue;
		jsonw_object(&j, NULL);
		jsonw_str(&j, "name", survey->column[i].name);
		jsonw_u64(&j, "raw_bytes", survey->column[i].raw_bytes);
		jsonw_u64(&j, "bytes", survey->column[i].stored_bytes);
		jsonw_object_end(&j);
	}
	jsonw_array_end(&j);
	jsonw_object_end(&j);
	jsonw_line(&j);
}

static void print_time(const char *label, uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000u);
	struct tm tm;
	char text[64];
	if (ns && gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%FT%TZ", &tm))
		printf("%s%s\n", label, text);
}

static void print_process(const struct trace_reader_info *info, const struct contents *c,
			  uint64_t runtime_ns)
{
	CLEANUP(buf_fini) struct buf exe = { 0 };
	CLEANUP(buf_fini) struct buf source = { 0 };
	if (!c->process.known) {
		printf("process     not named in what could be read\n");
		return;
	}
	text_escape(&exe, c->process.exe, 0);
	text_escape(&source, c->process.source, 0);
	printf("process     %s (pid %" PRIu32 "), recorded by %s\n", buf_cstr(&exe), c->process.pid,
	       buf_cstr(&source));
	print_time("started     ", c->process.start_realtime_ns);
	printf("length      %.3f s, times exact to %g ms; %s\n", (double)runtime_ns / 1e9,
	       (double)c->process.time_bound_ns / 1e6,
	       c->process.complete   ? "complete"
	       : c->process.ended    ? "not complete"
	       : info->being_written ? "still being recorded"
				     : "the recorder did not see the end");
}

static void print_blocks(const struct trace_survey *survey)
{
	printf("\nblocks                         number           rows           bytes\n");
	for (unsigned i = 0; i < TRACE_TYPES; i++)
		if (survey->type[i].blocks)
			printf("  %-20s %15" PRIu64 " %14" PRIu64 " %15" PRIu64 "\n",
			       survey->type[i].name, survey->type[i].blocks, survey->type[i].rows,
			       survey->type[i].stored_bytes);
	printf("\ncolumns of events                 raw                          bytes\n");
	for (unsigned i = 0; i < TRACE_COLUMNS; i++)
		if (survey->column[i].raw_bytes)
			printf("  %-20s %15" PRIu64 " %30" PRIu64 "\n", survey->column[i].name,
			       survey->column[i].raw_bytes, survey->column[i].stored_bytes);
}

static void print_files(const struct listing *files)
{
	if (files->count)
		printf("\nfiles in it\n");
	for (size_t i = 0; i < files->count; i++) {
		const struct listed *file = &files->file[i];
		CLEANUP(buf_fini) struct buf path = { 0 };
		text_escape(&path, file->path, 0);
		printf("  %15" PRIu64 "  %s%s%s\n", file->bytes, buf_cstr(&path),
		       file_states[file->state] ? ", left out: " : "",
		       file_states[file->state] ? file_states[file->state] : "");
	}
}

static void print_text(enum recording_kind kind, const struct trace_reader_info *info,
		       const struct trace_survey *survey, const struct listing *files,
		       const struct contents *c, uint64_t runtime_ns)
{
	uint64_t events = 0;
	print_process(info, c, runtime_ns);
	if (kind == RECORDING_BLT)
		printf("file        %" PRIu64 " bytes, format version %u%s%s\n", info->file_bytes,
		       survey->version, info->indexed ? "" : ", not finished",
		       info->has_summary ? ", with a summary" : "");
	else
		printf("file        %" PRIu64 " bytes, %s\n", info->file_bytes,
		       kind == RECORDING_RAW ? "raw, as the library alone leaves it"
					     : "of heaptrack");
	if (info->damaged_blocks || info->skipped_bytes)
		printf("DAMAGED     %" PRIu64 " blocks; %" PRIu64 " bytes could not be read\n",
		       info->damaged_blocks, info->skipped_bytes);
	if (info->lacks_pending && !info->being_written)
		printf("PENDING     not beside it: what was undecided at the end, if anything, is "
		       "missing\n");
	if (info->truncated)
		printf("TRUNCATED   behind the last whole block\n");
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		events += c->kinds[i];
	printf("\nevents      %" PRIu64, events);
	if (events)
		printf(", %.2f bits each in the file",
		       (double)info->file_bytes * 8 / (double)events);
	printf("\n");
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		if (kind_names[i] && c->kinds[i])
			printf("  %-20s %15" PRIu64 "\n", kind_names[i], c->kinds[i]);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		if (c->lost[i] && loss_reason_name(i))
			printf("  lost: %-14s %15" PRIu64 "\n", loss_reason_name(i), c->lost[i]);
	printf("\ndefinitions\n");
	if (c->process.modules_nameless)
		printf("  %-20s %15" PRIu32 "\n", "nameless modules", c->process.modules_nameless);
	for (unsigned i = DEF_THREAD; i <= DEF_RULE; i++)
		printf("  %-20s %15" PRIu64 "\n", def_names[i], c->defs[i]);
	print_files(files);
	if (kind == RECORDING_BLT)
		print_blocks(survey);
}

/* The kinds that have no blocks: everything is read, and counted. */
static int survey_other(struct recording *recording, struct contents *contents,
			struct trace_reader_info *info, struct err *err)
{
	struct stat st;
	if (stat(recording_path(recording), &st) < 0)
		return err_set(err, -errno, "cannot look at '%s'", recording_path(recording));
	info->file_bytes = (uint64_t)st.st_size;
	int rc = recording_run(recording, &contents->sink, err);
	const char *warning = recording_warning(recording);
	if (rc >= 0 && warning)
		cmd_say("%s", warning);
	return rc;
}

static int survey_blt(const char *path, struct contents *contents, struct trace_survey *survey,
		      struct listing *files, struct trace_reader_info *info, struct err *err)
{
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, err);
	if (!reader)
		return err->code;
	struct progress progress = { .what = "reading" };
	struct trace_read_opt opt = { progress_tick, &progress };
	int rc = trace_reader_survey(reader, survey, NULL, err);
	if (rc >= 0)
		rc = trace_reader_files(reader, list_file, files, err);
	if (rc >= 0)
		rc = trace_reader_run(reader, &contents->sink, &opt, err);
	progress_end(&progress);
	trace_reader_info(reader, info);
	return rc;
}

int cmd_info(int argc, char **argv)
{
	static const struct argp_child children[] = { { &memory_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE",
		.doc = "Tell what is in a recording, and whether all of it can be read.\v"
		       "Reads the whole file and checks every block; memory does not grow with its "
		       "length.",
		.children = children,
	};
	struct info_args args = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &args) < 0)
		return CMD_USAGE;
	struct err err = { 0 };
	CLEANUP(recording_freep)
	struct recording *recording = cmd_open_recording(args.path, &err);
	if (!recording)
		return cmd_fail(&err);
	struct contents contents = { .sink = { count_define, count_put } };
	struct trace_reader_info info = { 0 };
	struct trace_survey survey = { 0 };
	CLEANUP(listing_fini) struct listing files = { 0 };
	enum recording_kind kind = recording_kind(recording);
	int rc = kind == RECORDING_BLT
			 ? survey_blt(args.path, &contents, &survey, &files, &info, &err)
			 : survey_other(recording, &contents, &info, &err);
	if (rc >= 0) {
		uint64_t runtime_ns = contents.process.runtime_ns ? contents.process.runtime_ns
								  : contents.last_ns;
		if (args.json)
			print_json(kind, &info, &survey, &files, &contents, runtime_ns);
		else
			print_text(kind, &info, &survey, &files, &contents, runtime_ns);
	}
	free(contents.process.exe);
	free(contents.process.source);
	if (rc >= 0 && info.damaged_blocks) {
		fflush(stdout);
		rc = err_set(&err, -EBADMSG,
			     "'%s' is damaged: %" PRIu64 " blocks (%" PRIu64
			     " bytes) could not be read",
			     args.path, info.damaged_blocks, info.skipped_bytes);
		err_hint(&err, "reports say what they lack; a copy of before the damage is whole");
	}
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
