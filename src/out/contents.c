/* SPDX-License-Identifier: Apache-2.0 */
#include "out/contents.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "proc/proc.h"

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
	[EVENT_RESIDENT] = "resident_points",
};

static const char *const def_names[DEF_RULE + 1] = {
	[DEF_THREAD] = "threads", [DEF_MODULE] = "modules", [DEF_FRAME] = "frames",
	[DEF_STACK] = "stacks",   [DEF_SYMBOL] = "symbols", [DEF_RULE] = "rules",
};

static const char *machine_name(unsigned machine)
{
	return machine == 62 ? "x86_64" : machine == 183 ? "aarch64" : NULL;
}

static const char *const file_states[TRACE_FILE_STATES] = {
	[TRACE_FILE_STORED] = NULL,
	[TRACE_FILE_TOO_LARGE] = "too large",
	[TRACE_FILE_UNREADABLE] = "unreadable",
};

static const char *const file_kinds[] = {
	[RECORDING_BLT] = "byteledger",
	[RECORDING_HEAPTRACK] = "heaptrack",
	[RECORDING_RAW] = "raw",
};

void out_contents_json(FILE *to, const struct contents *c)
{
	struct jsonw j;
	char boot_id[33];
	for (unsigned i = 0; i < 16; i++)
		snprintf(boot_id + 2 * i, 3, "%02x", c->survey.boot_id[i]);
	jsonw_init(&j, to);
	jsonw_object(&j, NULL);
	jsonw_u64(&j, "version", 1);
	jsonw_object(&j, "file");
	jsonw_str(&j, "format", file_kinds[c->kind]);
	jsonw_u64(&j, "bytes", c->file.file_bytes);
	if (c->kind == RECORDING_BLT) {
		jsonw_u64(&j, "format_version", c->survey.version);
		jsonw_str(&j, "machine", machine_name(c->survey.machine));
		jsonw_str(&j, "boot_id", boot_id);
		jsonw_u64(&j, "created_realtime_ns", c->survey.realtime_ns);
		jsonw_bool(&j, "finished", c->file.indexed);
		jsonw_bool(&j, "summary", c->file.has_summary);
		jsonw_bool(&j, "truncated", c->file.truncated);
		jsonw_bool(&j, "being_written", c->file.being_written);
		jsonw_bool(&j, "pending_missing", c->file.lacks_pending && !c->file.being_written);
		jsonw_u64(&j, "damaged_blocks", c->file.damaged_blocks);
		jsonw_u64(&j, "skipped_bytes", c->file.skipped_bytes);
	}
	jsonw_object_end(&j);
	jsonw_object(&j, "process");
	if (c->process.known) {
		jsonw_u64(&j, "pid", c->process.pid);
		jsonw_str(&j, "exe", c->process.exe);
		jsonw_array(&j, "cmdline");
		for (size_t at = 0; at < c->process.cmdline_bytes;) {
			const char *word = c->process.cmdline + at;
			jsonw_str(&j, NULL, word);
			at += strlen(word) + 1;
		}
		jsonw_array_end(&j);
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
	jsonw_u64(&j, "runtime_ns", c->runtime_ns);
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
	for (size_t i = 0; i < c->file_count; i++) {
		const struct contents_file *file = &c->files[i];
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
		if (!c->survey.type[i].blocks)
			continue;
		jsonw_object(&j, NULL);
		jsonw_str(&j, "type", c->survey.type[i].name);
		jsonw_u64(&j, "blocks", c->survey.type[i].blocks);
		jsonw_u64(&j, "rows", c->survey.type[i].rows);
		jsonw_u64(&j, "bytes", c->survey.type[i].stored_bytes);
		jsonw_object_end(&j);
	}
	jsonw_array_end(&j);
	jsonw_array(&j, "columns");
	for (unsigned i = 0; i < TRACE_COLUMNS; i++) {
		if (!c->survey.column[i].raw_bytes)
			continue;
		jsonw_object(&j, NULL);
		jsonw_str(&j, "name", c->survey.column[i].name);
		jsonw_u64(&j, "raw_bytes", c->survey.column[i].raw_bytes);
		jsonw_u64(&j, "bytes", c->survey.column[i].stored_bytes);
		jsonw_object_end(&j);
	}
	jsonw_array_end(&j);
	jsonw_object_end(&j);
	jsonw_line(&j);
}

static void print_time(FILE *to, const char *label, uint64_t ns)
{
	time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm tm;
	char text[64];
	if (ns && gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%FT%TZ", &tm))
		fprintf(to, "%s%s\n", label, text);
}

/* What was called: a program of several names (busybox, redis-server) is one file. */
static void print_command(FILE *to, const struct contents *c)
{
	CLEANUP(buf_fini) struct buf words = { 0 };
	CLEANUP(buf_fini) struct buf shown = { 0 };
	for (size_t at = 0; at < c->process.cmdline_bytes;) {
		const char *word = c->process.cmdline + at;
		buf_printf(&words, "%s%s", at ? " " : "", word);
		at += strlen(word) + 1;
	}
	text_escape(&shown, buf_cstr(&words), 0);
	if (shown.len)
		fprintf(to, "command     %s\n", buf_cstr(&shown));
}

static void print_process(FILE *to, const struct contents *c)
{
	CLEANUP(buf_fini) struct buf exe = { 0 };
	CLEANUP(buf_fini) struct buf source = { 0 };
	if (!c->process.known) {
		fprintf(to, "process     not named in what could be read\n");
		return;
	}
	text_escape(&exe, c->process.exe, 0);
	text_escape(&source, c->process.source, 0);
	fprintf(to, "process     %s (pid %" PRIu32 "), recorded by %s\n", buf_cstr(&exe),
		c->process.pid, buf_cstr(&source));
	print_command(to, c);
	print_time(to, "started     ", c->process.start_realtime_ns);
	fprintf(to, "length      %.3f s, times exact to %g ms; %s\n", (double)c->runtime_ns / 1e9,
		(double)c->process.time_bound_ns / 1e6,
		c->process.complete     ? "complete"
		: c->process.ended      ? "not complete"
		: c->file.being_written ? "still being recorded"
					: "the recorder did not see the end");
}

static void print_blocks(FILE *to, const struct trace_survey *survey)
{
	fprintf(to, "\nblocks                         number           rows           bytes\n");
	for (unsigned i = 0; i < TRACE_TYPES; i++)
		if (survey->type[i].blocks)
			fprintf(to, "  %-20s %15" PRIu64 " %14" PRIu64 " %15" PRIu64 "\n",
				survey->type[i].name, survey->type[i].blocks, survey->type[i].rows,
				survey->type[i].stored_bytes);
	fprintf(to, "\ncolumns of events                 raw                          bytes\n");
	for (unsigned i = 0; i < TRACE_COLUMNS; i++)
		if (survey->column[i].raw_bytes)
			fprintf(to, "  %-20s %15" PRIu64 " %30" PRIu64 "\n", survey->column[i].name,
				survey->column[i].raw_bytes, survey->column[i].stored_bytes);
}

static void print_files(FILE *to, const struct contents *c)
{
	if (c->file_count)
		fprintf(to, "\nfiles in it\n");
	for (size_t i = 0; i < c->file_count; i++) {
		const struct contents_file *file = &c->files[i];
		CLEANUP(buf_fini) struct buf path = { 0 };
		text_escape(&path, file->path, 0);
		fprintf(to, "  %15" PRIu64 "  %s%s%s\n", file->bytes, buf_cstr(&path),
			file_states[file->state] ? ", left out: " : "",
			file_states[file->state] ? file_states[file->state] : "");
	}
}

void out_contents_text(FILE *to, const struct contents *c)
{
	uint64_t events = 0;
	print_process(to, c);
	if (c->kind == RECORDING_BLT)
		fprintf(to, "file        %" PRIu64 " bytes, format version %u%s%s\n",
			c->file.file_bytes, c->survey.version,
			c->file.indexed ? "" : ", not finished",
			c->file.has_summary ? ", with a summary" : "");
	else
		fprintf(to, "file        %" PRIu64 " bytes, %s\n", c->file.file_bytes,
			c->kind == RECORDING_RAW ? "raw, as the library alone leaves it"
						 : "of heaptrack");
	if (c->file.damaged_blocks || c->file.skipped_bytes)
		fprintf(to, "DAMAGED     %" PRIu64 " blocks; %" PRIu64 " bytes could not be read\n",
			c->file.damaged_blocks, c->file.skipped_bytes);
	if (c->file.lacks_pending && !c->file.being_written)
		fprintf(to,
			"PENDING     not beside it: what was undecided at the end, if anything, is "
			"missing\n");
	if (c->file.truncated)
		fprintf(to, "TRUNCATED   behind the last whole block\n");
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		events += c->kinds[i];
	fprintf(to, "\nevents      %" PRIu64, events);
	if (events)
		fprintf(to, ", %.2f bits each in the file",
			(double)c->file.file_bytes * 8 / (double)events);
	fprintf(to, "\n");
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		if (kind_names[i] && c->kinds[i])
			fprintf(to, "  %-20s %15" PRIu64 "\n", kind_names[i], c->kinds[i]);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		if (c->lost[i] && loss_reason_name(i))
			fprintf(to, "  lost: %-14s %15" PRIu64 "\n", loss_reason_name(i),
				c->lost[i]);
	fprintf(to, "\ndefinitions\n");
	if (c->process.modules_nameless)
		fprintf(to, "  %-20s %15" PRIu32 "\n", "nameless modules",
			c->process.modules_nameless);
	for (unsigned i = DEF_THREAD; i <= DEF_RULE; i++)
		fprintf(to, "  %-20s %15" PRIu64 "\n", def_names[i], c->defs[i]);
	print_files(to, c);
	if (c->kind == RECORDING_BLT)
		print_blocks(to, &c->survey);
}
