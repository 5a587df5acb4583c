/* SPDX-License-Identifier: Apache-2.0 */
#include "query/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/outfile.h"
#include "source/filter.h"
#include "source/heaptrack.h"
#include "source/source.h"
#include "sym/sym.h"
#include "trace/trace.h"

struct recording {
	enum recording_kind kind;
	char *path;
	struct trace_reader *reader;
	struct recording_ears ears;
	/* what the ears hear of */
	const char *doing;
	/* what it says is of events that cannot be read */
	int no_summary;
	/* so long was the file when its blocks were checked last */
	uint64_t checked_bytes;
	char warning[512];
};

static void recording_free(struct recording *rec)
{
	if (!rec)
		return;
	trace_reader_freep(&rec->reader);
	free(rec->path);
	free(rec);
}

void recording_freep(struct recording **recording)
{
	recording_free(*recording);
	*recording = NULL;
}

struct recording *recording_open(const char *path, const struct recording_ears *ears,
				 struct err *err)
{
	CLEANUP(recording_freep) struct recording *rec = calloc(1, sizeof(*rec));
	if (!rec || !(rec->path = strdup(path))) {
		err_set(err, -ENOMEM, "cannot open '%s'", path);
		return NULL;
	}
	rec->ears = ears ? *ears : (struct recording_ears){ 0 };
	struct stat st;
	/*
	 * opened, a fifo would wait for its writer, and what went through is gone for the second
	 * pass
	 */
	if (stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) {
		err_set(err, -EINVAL, "cannot read '%s': a pipe can be read only once", path);
		err_hint(err, "a file is needed; heaptrack's may be compressed as they are");
		return NULL;
	}
	int is = trace_is(path, err);
	if (is < 0)
		return NULL;
	if (is) {
		rec->kind = RECORDING_BLT;
		rec->reader = trace_reader_new(path, err);
		return rec->reader ? STEAL(rec) : NULL;
	}
	is = heaptrack_is(path, err);
	if (is < 0)
		return NULL;
	if (is) {
		rec->kind = RECORDING_HEAPTRACK;
		return STEAL(rec);
	}
	is = source_heap_is_raw(path, err);
	if (is < 0)
		return NULL;
	if (is) {
		rec->kind = RECORDING_RAW;
		return STEAL(rec);
	}
	err_set(err, -EBADMSG,
		"cannot read '%s': neither a byteledger recording nor a heaptrack file", path);
	err_hint(err, "'byteledger run -- PROGRAM' makes a recording");
	return NULL;
}

int recording_spares(const char *path, const char *read, struct err *err)
{
	struct stat st;
	struct err none = { 0 };
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	int is_read = read && outfile_is(path, read);
	/* what other tools wrote can be written again; a run cannot be run again */
	if (!is_read && trace_is(path, &none) <= 0 && source_heap_is_raw(path, &none) <= 0)
		return 0;
	err_set(err, -EINVAL, "cannot write '%s': it is %s", path,
		is_read ? "what is read" : "a recording");
	return err_hint(err, is_read ? "another name behind -o"
				     : "another name, or remove that one first");
}

enum recording_kind recording_kind(const struct recording *recording)
{
	return recording->kind;
}

const char *recording_path(const struct recording *recording)
{
	return recording->path;
}

const char *recording_warning(const struct recording *recording)
{
	return recording->warning[0] ? recording->warning : NULL;
}

static void note_damage(struct recording *rec)
{
	struct trace_reader_info info;
	trace_reader_info(rec->reader, &info);
	if (info.damaged_blocks)
		snprintf(rec->warning, sizeof(rec->warning),
			 "'%s' is damaged: %llu blocks (%llu bytes) could not be read", rec->path,
			 (unsigned long long)info.damaged_blocks,
			 (unsigned long long)info.skipped_bytes);
	else if (info.goes_on)
		snprintf(rec->warning, sizeof(rec->warning),
			 "'%s' is still being recorded: this is what it holds by now", rec->path);
	else if (info.lacks_pending)
		snprintf(rec->warning, sizeof(rec->warning),
			 "'%s.pending' is not there: what was undecided at the end, if anything, "
			 "is missing",
			 rec->path);
	else if (info.truncated)
		snprintf(rec->warning, sizeof(rec->warning),
			 "'%s' ends early: read up to its last whole block", rec->path);
}

/* ---- what is heard --------------------------------------------------------------------------- */

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct recording *rec = ctx;
	if (rec->ears.progress)
		rec->ears.progress(rec->ears.ctx, rec->doing, done, total);
}

static void end_progress(const struct recording_ears *ears)
{
	if (ears->progress)
		ears->progress(ears->ctx, NULL, 0, 0);
}

/* ---- one run --------------------------------------------------------------------------------- */

static int run_heaptrack(struct recording *rec, struct sink *sink, struct err *err)
{
	struct heaptrack_opt opt = { .progress = on_progress, .progress_ctx = rec };
	struct heaptrack_info info = { 0 };
	int rc = heaptrack_run(rec->path, sink, &opt, &info, err);
	snprintf(rec->warning, sizeof(rec->warning), "%s", info.warning);
	return rc;
}

/* Rings that no recorder read: the library wrote them where it could not start one. */
static int run_raw(struct recording *rec, struct sink *to, struct err *err)
{
	CLEANUP(source_heap_freep) struct source_heap *heap = source_heap_raw(rec->path, err);
	CLEANUP(sieve_freep) struct sieve *sieve = NULL;
	if (!heap || source_filter_new(&sieve, source_heap_filter(heap), to, err) < 0)
		return err ? err->code : -EBADMSG;
	struct sink *sink = sieve ? sieve_sink(sieve) : to;
	struct source_heap_state state;
	source_heap_state(heap, &state);
	char exe[4096];
	struct def def = { .kind = DEF_PROCESS };
	def.process.pid = state.target_pid;
	def.process.exe = source_heap_exe(heap, exe, sizeof(exe)) ? exe : NULL;
	char *cmdline = source_heap_cmdline(heap, &def.process.cmdline_bytes);
	def.process.cmdline = cmdline;
	def.process.comment = "raw heap recording";
	def.process.parent_pid = state.parent_pid;
	def.process.start_monotonic_ns = source_heap_start_ns(heap);
	def.process.start_realtime_ns = state.start_realtime_ns;
	def.process.time_bound_ns = source_heap_raw_bound_ns(heap);
	def.process.exit_status = -1;
	def.process.sample_bytes = state.sample_bytes;
	int rc = sink->define(sink, &def, err);
	struct source_heap_fork fork;
	source_heap_fork(heap, &fork);
	if (rc == 0 && fork.from)
		rc = source_heap_inherited(heap, sink, 0, err);
	if (rc == 0)
		rc = source_heap_finish(heap, sink, 0, err);
	if (rc == 0 && sieve)
		rc = sieve_tell(sieve, err);
	def.process.ended = 1;
	def.process.complete = state.exiting;
	def.process.runtime_ns = source_heap_raw_length_ns(heap);
	def.process.peak_rss_bytes = state.peak_rss_bytes;
	def.process.modules_nameless = state.modules_nameless;
	rc = rc < 0 ? rc : sink->define(sink, &def, err);
	free(cmdline);
	return rc;
}

static int run_until(struct recording *rec, int has_until, uint64_t until_ns, struct sink *sink,
		     struct err *err)
{
	int rc;
	rec->doing = "reading";
	if (rec->kind == RECORDING_HEAPTRACK) {
		rc = run_heaptrack(rec, sink, err);
	} else if (rec->kind == RECORDING_RAW) {
		rc = run_raw(rec, sink, err);
	} else {
		struct trace_read_opt opt = { .progress = on_progress,
					      .progress_ctx = rec,
					      .has_until = has_until,
					      .until_ns = until_ns,
					      .tells_end = 1 };
		rc = trace_reader_run(rec->reader, sink, &opt, err);
		note_damage(rec);
	}
	end_progress(&rec->ears);
	return rc;
}

int recording_run(struct recording *rec, struct sink *sink, struct err *err)
{
	return run_until(rec, 0, 0, sink, err);
}

static int source_run_until(void *ctx, uint64_t until_ns, struct sink *sink, struct err *err)
{
	return run_until(ctx, 1, until_ns, sink, err);
}

static int source_run(void *ctx, struct sink *sink, struct err *err)
{
	return recording_run(ctx, sink, err);
}

static int source_living(void *ctx, uint64_t until_ns, struct sink *sink,
			 struct trace_living *living, struct err *err)
{
	struct recording *rec = ctx;
	return trace_reader_living(rec->reader, sink, until_ns, living, err);
}

_Static_assert(sizeof(struct query_key) == sizeof(struct trace_key), "one layout");
_Static_assert(sizeof(struct query_seed) == sizeof(struct trace_seed), "one layout");

struct keys {
	void (*key)(void *ctx, const struct query_key *key);
	void *ctx;
};

static void on_key(void *ctx, const struct trace_key *key)
{
	const struct keys *keys = ctx;
	keys->key(keys->ctx, &(const struct query_key){ key->at, key->first, key->time_ns });
}

static int source_run_keys(void *ctx, void (*key)(void *key_ctx, const struct query_key *key),
			   void *key_ctx, struct sink *sink, struct err *err)
{
	struct recording *rec = ctx;
	struct keys keys = { key, key_ctx };
	rec->doing = "reading";
	const struct trace_read_opt opt = { .progress = on_progress,
					    .progress_ctx = rec,
					    .tells_end = 1,
					    .key = on_key,
					    .key_ctx = &keys };
	int rc = trace_reader_run(rec->reader, sink, &opt, err);
	end_progress(&rec->ears);
	return rc;
}

static int source_run_from(void *ctx, const struct query_key *key, uint64_t until,
			   const struct query_seed *seeds, size_t count, struct sink *sink,
			   struct err *err)
{
	struct recording *rec = ctx;
	const struct trace_key at = { key->at, key->first, key->time_ns };
	return trace_reader_from(rec->reader, &at, until,
				 (const struct trace_seed *)(const void *)seeds, count, sink, err);
}

static int source_summary(void *ctx, struct prof *prof, struct err *err)
{
	struct recording *rec = ctx;
	int rc = trace_reader_summary(rec->reader, prof, err);
	note_damage(rec);
	return rc;
}

static int source_resolve(void *ctx, struct prof *prof, struct err *err)
{
	return recording_resolve(prof, &((struct recording *)ctx)->ears, err);
}

static struct query_source as_source(struct recording *rec)
{
	struct query_source source = { .run = source_run, .resolve = source_resolve, .ctx = rec };
	if (rec->kind == RECORDING_BLT) {
		source.summary = rec->no_summary ? NULL : source_summary;
		source.run_until = source_run_until;
		source.run_keys = source_run_keys;
		source.run_from = source_run_from;
		source.living = source_living;
	}
	return source;
}

int recording_will_stream(struct recording *rec, struct err *err)
{
	struct trace_survey survey;
	if (rec->kind != RECORDING_BLT || rec->no_summary)
		return 0;
	struct trace_reader_info info;
	trace_reader_info(rec->reader, &info);
	if (rec->checked_bytes == info.file_bytes)
		return 0; /* nothing has come since */
	rec->checked_bytes = info.file_bytes;
	rec->doing = "checking";
	const struct trace_read_opt opt = { .progress = on_progress, .progress_ctx = rec };
	int rc = trace_reader_survey(rec->reader, &survey, &opt, err);
	end_progress(&rec->ears);
	rec->no_summary = rc == 0 && survey.damaged_stretches;
	return rc;
}

int recording_checked(const struct recording *rec, int *damaged)
{
	struct trace_reader_info info;
	if (rec->kind != RECORDING_BLT)
		return 0;
	trace_reader_info(rec->reader, &info);
	*damaged = rec->no_summary;
	return rec->checked_bytes == info.file_bytes;
}

void recording_assume(struct recording *rec, int damaged)
{
	struct trace_reader_info info;
	if (rec->kind != RECORDING_BLT)
		return;
	trace_reader_info(rec->reader, &info);
	rec->no_summary = damaged;
	rec->checked_bytes = info.file_bytes;
}

int recording_source(struct recording *rec, const struct query *query, int streams,
		     struct query_source *source, struct err *err)
{
	(void)query;
	(void)streams;
	/*
	 * a summary knows nothing of what can no longer be read, and the peak is a place among the
	 * events as it counts them
	 */
	int rc = recording_will_stream(rec, err);
	*source = as_source(rec);
	return rc;
}

int recording_is_written(const struct recording *rec)
{
	struct trace_reader_info info = { 0 };
	if (rec->reader)
		trace_reader_info(rec->reader, &info);
	return info.being_written;
}

int recording_goes_on(const struct recording *rec)
{
	struct trace_reader_info info = { 0 };
	if (rec->reader)
		trace_reader_info(rec->reader, &info);
	return info.goes_on;
}

struct prof *recording_read(struct recording *rec, const struct query *query, struct err *err)
{
	struct query_source source;
	if (recording_source(rec, query, 0, &source, err) < 0)
		return NULL;
	return query_run(&source, query, err);
}

int recording_stream(struct recording *rec, const struct query *query, struct sink *sink,
		     struct err *err)
{
	struct query_source source = as_source(rec);
	return query_stream(&source, query, sink, err);
}

static void on_resolving(void *ctx, uint64_t done, uint64_t total)
{
	const struct recording_ears *ears = ctx;
	if (ears->progress)
		ears->progress(ears->ctx, "resolving symbols", done, total);
}

/*
 * Names that the recording keeps are right whatever became of the program; who reads its source
 * beside them has to know.
 */
static void tell_built_anew(struct sym *sym, const struct prof *prof, const char *told,
			    const struct recording_ears *ears)
{
	const struct prof_process *process = prof_process(prof);
	const char *exe = process ? process->exe : NULL;
	if (!exe || !ears->notice || ears->across_builds || (told && !strcmp(told, exe)))
		return;
	for (uint32_t i = 1; i < prof_module_count(prof); i++) {
		const struct prof_module *module = prof_module(prof, (struct module_id){ i });
		if (!module || strcmp(module->path, exe) != 0)
			continue;
		if (sym_compare(sym, module->path, module->build_id, module->build_id_len)) {
			struct err notice = { 0 };
			err_set(&notice, -EINVAL,
				"'%s' has changed since it was recorded: names and lines are those "
				"of then",
				exe);
			err_hint(&notice, "its source may have other lines by now");
			ears->notice(ears->ctx, &notice);
		}
		return;
	}
}

int recording_resolve(struct prof *prof, const struct recording_ears *ears, struct err *err)
{
	struct recording_ears own = ears ? *ears : (struct recording_ears){ 0 };
	CLEANUP(sym_freep) struct sym *sym = sym_new(NULL, err);
	if (!sym)
		return err ? err->code : -ENOMEM;
	int rc = sym_resolve_prof(sym, prof, prof_symbol_sink(prof), on_resolving, &own, err);
	end_progress(&own);
	const char *changed;
	size_t others = sym_changed(sym, &changed);
	if (others && own.notice) {
		struct err notice = { 0 };
		char more[32] = "";
		if (others > 1)
			snprintf(more, sizeof(more), " (and %zu more files)", others - 1);
		err_set(&notice, -EINVAL,
			"'%s'%s has changed since it was recorded: names of its functions are not "
			"those of then, and left out",
			changed, more);
		err_hint(&notice,
			 "recordings keep their names where they are made, unless that was "
			 "switched off");
		own.notice(own.ctx, &notice);
	}
	tell_built_anew(sym, prof, others ? changed : NULL, &own);
	const char *unread;
	size_t bad = sym_unread(sym, &unread);
	if (bad && own.notice) {
		struct err notice = { 0 };
		char more[32] = "";
		if (bad > 1)
			snprintf(more, sizeof(more), " (and %zu more files)", bad - 1);
		err_set(&notice, -EINVAL,
			"'%s'%s could not be read to its end: names of its functions are missing",
			unread, more);
		err_hint(&notice, "its symbols or debug information are damaged, or take more "
				  "memory than a file of that size may");
		own.notice(own.ctx, &notice);
	}
	if (sym_servers_failed(sym) && own.notice) {
		struct err notice = { 0 };
		err_set(&notice, -EINVAL,
			"no answer from a debuginfod server: %s; names that only servers have are "
			"missing",
			strerror(-sym_servers_failed(sym)));
		err_hint(&notice, "DEBUGINFOD_TIMEOUT=SECONDS waits longer, an empty "
				  "DEBUGINFOD_URLS asks nobody");
		own.notice(own.ctx, &notice);
	}
	return rc;
}

int recording_store_symbols(const struct recording *recording, const struct prof *prof,
			    struct err *err)
{
	if (recording_kind(recording) == RECORDING_BLT)
		return trace_append_symbols(recording_path(recording), prof, err);
	err_set(err, -EINVAL, "cannot store symbols in '%s'", recording_path(recording));
	return err_hint(err, "only byteledger recordings take them; 'byteledger import' makes one "
			     "of a heaptrack file");
}
