/* SPDX-License-Identifier: Apache-2.0 */
/* recorder.c - one recording as an object: started or adopted, run, finished. */
#include "recorder/recorder.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "proc/proc.h"
#include "recorder/launch.h"
#include "recorder/record.h"
#include "wire/heap.h"

struct recorder {
	struct record rec;
	struct recorder_result result;
	enum recorder_end end;
	int started; /* by us: its status is ours to take, its signals to forward */
	int signals; /* signalfd; -1: they are the caller's */
	int stop;    /* eventfd */
	int status;  /* as waitpid() tells */
	char *path;  /* of the result */
};

static struct recorder *recorder_new(const struct recorder_opt *opt, struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	if (!r) {
		err_set(err, -ENOMEM, "cannot record");
		return NULL;
	}
	r->rec.ears = opt->ears;
	r->signals = -1;
	r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->stop < 0) {
		err_set(err, -errno, "cannot record");
		recorder_freep(&r);
	}
	return r;
}

void recorder_freep(struct recorder **recorder)
{
	struct recorder *r = *recorder;
	*recorder = NULL;
	if (!r)
		return;
	record_fini(&r->rec);
	if (r->signals >= 0)
		close(r->signals);
	if (r->stop >= 0)
		close(r->stop);
	free(r->path);
	free(r);
}

/* ---- a program that is started ------------------------------------------------------------------------------------- */

static int on_full_of(const char *word)
{
	if (word && strcmp(word, "limit") == 0)
		return WIRE_FULL_LIMIT;
	return word && strcmp(word, "drop") == 0 ? WIRE_FULL_DROP : WIRE_FULL_WAIT;
}

/* An absolute pattern: a followed child may stand in another folder. */
static char *absolute(const char *pattern)
{
	char here[4096];
	CLEANUP(buf_fini) struct buf path = { 0 };
	if (pattern[0] != '/' && getcwd(here, sizeof(here))) {
		for (const char *at = here; *at; at++)
			buf_puts(&path, *at == '%' ? "%%" : (char[]){ *at, '\0' });
		buf_putc(&path, '/');
	}
	buf_puts(&path, pattern);
	return buf_take(&path);
}

/* Arguments as /proc/PID/cmdline has them: each with its NUL. NULL without memory: then there is no command line. */
static char *join_arguments(char **argv, size_t *bytes)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	for (char **arg = argv; *arg; arg++)
		buf_put(&text, *arg, strlen(*arg) + 1);
	*bytes = text.len;
	char *joined = buf_take(&text);
	if (!joined)
		*bytes = 0;
	return joined;
}

/* How far an event's time may be off. */
static uint64_t bound_of(int stamp_every_event)
{
	return stamp_every_event ? 1000 : SOURCE_HEAP_BOUND_NS;
}

/* What the program is started with, and the shared memory that it will find. */
static struct source_heap *make_heap(struct record *rec, const struct recorder_opt *opt,
				     struct err *err)
{
	const struct source_heap_opt heap_opt = {
		.budget_bytes = opt->budget_bytes,
		.on_full = on_full_of(opt->on_full),
		.free_stacks = opt->free_stacks,
		.stamp_every_event = opt->stamp_every_event,
		.sample_bytes = rec->settings.sample_bytes,
		.name_threads = rec->settings.filter && wire_filter_check(rec->settings.filter) > 1,
	};
	struct source_heap *heap = source_heap_new(&heap_opt, err);
	if (heap && record_filter(rec, heap_opt.sample_bytes, err) < 0)
		source_heap_freep(&heap);
	return heap;
}

static pid_t start(struct recorder *r, struct launch *launch, const struct recorder_opt *opt,
		   struct source_heap *heap, const char *pattern, struct err *err)
{
	sigset_t before;
	sigprocmask(SIG_BLOCK, NULL, &before);
	if (opt->takes_signals) {
		r->signals = record_block_signals(SIG_BLOCK, &before);
		if (r->signals < 0)
			return err_set(err, -errno, "cannot take signals");
	}
	char *output = absolute(pattern);
	const struct launch_env env = {
		.shm_fd = source_heap_fd(heap),
		.follow_children = opt->follow_children,
		.output = output,
		.on_full = opt->on_full,
		.budget_bytes = opt->budget_bytes,
		.free_stacks = opt->free_stacks,
		.stamp_every_event = opt->stamp_every_event,
	};
	pid_t pid = record_heart_start(&r->rec.heart, heap, err);
	if (pid == 0)
		pid = launch_start(launch, &env, &before, err);
	free(output);
	return pid;
}

static int start_recorded(struct recorder *r, struct launch *launch, const struct recorder_opt *opt,
			  char **argv, struct err *err)
{
	struct record *rec = &r->rec;
	const char *pattern = opt->pattern ? opt->pattern : RECORDER_PATTERN;
	record_settings_read(&rec->settings, opt->variables, 0);
	rec->settings.store_symbols &= !opt->no_names;
	int rc = record_settings_check(&rec->settings, err);
	if (rc < 0)
		return rc;
	CLEANUP(source_heap_freep) struct source_heap *heap = make_heap(rec, opt, err);
	if (!heap)
		return err->code;
	if (opt->library && !(launch->library = strdup(opt->library)))
		return err_set(err, -ENOMEM, "cannot record");
	rc = launch_resolve(launch, argv, err);
	if (rc == 0 && !launch->library)
		rc = launch_library(launch, err);
	pid_t pid = rc < 0 ? rc : start(r, launch, opt, heap, pattern, err);
	if (pid < 0) {
		record_heart_stop(&rec->heart); /* before what it beats for goes */
		return pid;
	}
	r->started = 1;
	rec->is_child = opt->takes_signals;
	snprintf(rec->exe, sizeof(rec->exe), "%s", launch->path);
	rec->cmdline = join_arguments(launch->argv, &rec->cmdline_bytes);
	if (record_open(rec, STEAL(heap), pid, pattern, opt->comment,
			bound_of(opt->stamp_every_event), err) < 0) {
		/* its status is still what its user wants to know */
		if (!err->hint[0])
			err_hint(err, "the program goes on, unrecorded; -o names another file");
		record_fail(rec, err);
		err_init(err);
		rec->failed = rec->given_up = 1;
		source_heap_detach(rec->heap);
	}
	if (opt->snapshots && !rec->failed) {
		rec->shots.every_ns = opt->snapshot_ns;
		rec->shots.eager = opt->snapshots > 1;
		record_shots_want(rec);
	}
	return 0;
}

struct recorder *recorder_start(const struct recorder_opt *opt, char **argv, int *exit_status,
				struct err *err)
{
	CLEANUP(recorder_freep) struct recorder *r = recorder_new(opt, err);
	CLEANUP(launch_fini) struct launch launch = { .exit_status = EXIT_FAILURE };
	int rc = r ? start_recorded(r, &launch, opt, argv, err) : err->code;
	*exit_status = rc < 0 && launch.exit_status ? launch.exit_status : EXIT_FAILURE;
	return rc < 0 ? NULL : STEAL(r);
}

/* ---- a program that runs ------------------------------------------------------------------------------------------- */

static int adopt(struct recorder *r, int fd, const struct recorder_opt *opt,
		 struct source_heap_state *state, struct err *err)
{
	struct record *rec = &r->rec;
	sigset_t before;
	/* the library blocks every signal on the way here, because their handlers are the program's until the exec */
	if (opt->takes_signals)
		r->signals = record_block_signals(SIG_SETMASK, &before);
	int refused = opt->takes_signals && r->signals < 0 ? -errno : 0;
	CLEANUP(source_heap_freep) struct source_heap *heap = source_heap_adopt(fd, err);
	record_settings_read(&rec->settings, opt->variables, 1);
	if (!heap)
		return err->code;
	source_heap_state(heap, state);
	int rc = refused ? err_set(err, refused, "cannot take signals") : 0;
	if (rc == 0 && !state->target_pid)
		rc = err_set(err, -ESRCH, "cannot record: the shared file names no process");
	if (rc == 0)
		rc = record_filter(rec, state->sample_bytes, err);
	if (rc == 0)
		rc = record_heart_start(&rec->heart, heap, err);
	if (rc < 0) {
		source_heap_detach(heap);
		return rc;
	}
	rc = record_open(rec, STEAL(heap), (pid_t)state->target_pid,
			 opt->pattern ? opt->pattern : RECORDER_PATTERN, opt->comment,
			 bound_of(state->stamp_every_event), err);
	if (rc < 0)
		source_heap_detach(rec->heap);
	return rc;
}

struct recorder *recorder_adopt(int fd, const struct recorder_opt *opt, struct err *err)
{
	struct source_heap_state state = { 0 };
	CLEANUP(recorder_freep) struct recorder *r = recorder_new(opt, err);
	int rc = r ? adopt(r, fd, opt, &state, err) : err->code;
	if (rc >= 0)
		return STEAL(r);
	if (!err->hint[0] && (err->code == -EACCES || err->code == -EPERM))
		err_hint(err,
			 "process %u goes on, unrecorded; its recorder runs as its user, %u, who "
			 "must be able to write there",
			 state.target_pid, (unsigned)geteuid());
	else if (!err->hint[0] && state.target_pid)
		err_hint(err, "process %u goes on, unrecorded", state.target_pid);
	return NULL;
}

pid_t recorder_pid(const struct recorder *r)
{
	return r->rec.pid;
}

int recorder_forked(const struct recorder *r)
{
	return r->rec.forked;
}

const char *recorder_settings_bad(const struct recorder *r)
{
	return r->rec.settings.bad;
}

/* ---- until its end ------------------------------------------------------------------------------------------------- */

enum recorder_end recorder_run(struct recorder *r, uint64_t duration_ns)
{
	struct record *rec = &r->rec;
	r->end = record_loop(rec, r->signals, r->stop, duration_ns, r->started ? rec->pid : 0);
	if (r->end != RECORDER_ENDED || !r->started)
		return r->end;
	while (waitpid(rec->pid, &r->status, 0) < 0 && errno == EINTR)
		;
	if (r->signals >= 0) /* one that came with the end */
		record_take_signals(rec, r->signals, 0);
	return r->end;
}

void recorder_stop(struct recorder *r)
{
	int saved_errno = errno;
	eventfd_write(r->stop, 1);
	errno = saved_errno;
}

/*
 * The child of a fork that only became another program: what that does stands in a recording of its own. It may have ended, too,
 * before anybody saw the exec.
 */
static int is_interlude(struct record *rec)
{
	struct source_heap_state state;
	struct source_heap_stats stats;
	source_heap_state(rec->heap, &state);
	if (!rec->forked || rec->failed || (!rec->replaced && !state.exec_entered))
		return 0;
	source_heap_drain(rec->heap, record_sink(rec), NULL);
	if (source_heap_drain(rec->heap, record_sink(rec), NULL) != 0)
		return 0; /* something is there that waits for its turn */
	source_heap_stats(rec->heap, &stats);
	return !stats.allocations && !stats.frees && !stats.foreign_frees &&
	       !stats.lost_allocations;
}

/* Whether the recording holds all of the program's life, or all that was asked for. */
static int is_complete(const struct recorder *r)
{
	const struct record *rec = &r->rec;
	struct source_heap_state state;
	if (r->end != RECORDER_ENDED || rec->replaced)
		return 1;
	if (r->started) /* Ctrl-C ends a recording */
		return WIFEXITED(r->status) || (rec->interrupted && WTERMSIG(r->status) == SIGINT);
	/* not our child: whether it ended on its own account is what its exit hook says */
	source_heap_state(rec->heap, &state);
	return state.exiting;
}

static void describe_result(struct recorder *r)
{
	struct record *rec = &r->rec;
	r->result.path = r->path;
	r->result.failed = rec->failed;
	r->result.attached = (int)rec->state.attached;
	r->result.allocations = rec->stats.allocations;
	r->result.lost_allocations = rec->stats.lost_allocations;
	r->result.own_allocators = rec->state.own_allocators;
	r->result.replaced = rec->replaced;
	r->result.replaced_by = rec->replaced_by;
	r->result.unfollowed = rec->unfollowed;
	r->result.exit_status =
		r->started && r->end == RECORDER_ENDED ? proc_exit_status(r->status) : 0;
}

int recorder_finish(struct recorder *r, struct recorder_result *result, struct err *err)
{
	struct record *rec = &r->rec;
	int rc = 0;
	if (rec->writer && !r->started && r->end == RECORDER_ENDED && is_interlude(rec)) {
		unlink(trace_writer_path(rec->writer));
	} else if (rec->writer) {
		/* said before the books are closed */
		int complete = is_complete(r), goes_on = r->end != RECORDER_ENDED;
		int status = r->started && !goes_on ? r->status : -1;
		r->path = strdup(trace_writer_path(rec->writer));
		rc = record_finish(rec, goes_on, status, complete, rec->failed ? NULL : err);
		rc = rec->failed ? 0 : rc; /* that has been told */
	}
	describe_result(r);
	if (result)
		*result = r->result;
	return rc < 0 ? rc : 0;
}
