/* SPDX-License-Identifier: Apache-2.0 */
/* recorder.c - one recording as an object: started or adopted, run, finished. */
#include "recorder/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "inject/attach.h"
#include "proc/proc.h"
#include "recorder/launch.h"
#include "recorder/record.h"
#include "wire/heap.h"

#define NEXT_SUFFIX ".byteledger-next"
#define NEXT_SHOTS \
	".shots" /* before it: snapshots are wanted there, too, how eagerly and every how many ns */

struct recorder {
	struct record rec;
	struct recorder_result result;
	enum recorder_end end;
	/* by us: its status is ours to take, its signals to forward */
	int started;
	/* signalfd; -1: they are the caller's */
	int signals;
	/* eventfd */
	int stop;
	/* as waitpid() tells */
	int status;
	/* of the result */
	char *path;
	/* where what an exec puts in the program's place is recorded meanwhile; NULL: it is not */
	char *next;
	char *pattern;
	char before[512];
};

static int come(struct recorder *r, const struct recorder_opt *opt, struct err *err);

/*
 * A limit of the stack is the program's affair; our threads would have no more than that, and the
 * one of snapshots takes 130 KiB.
 */
#define THREAD_STACK_BYTES (8u << 20)

static void want_stacks(void)
{
	pthread_attr_t usual;
	size_t bytes = 0;
	if (pthread_getattr_default_np(&usual) != 0)
		return;
	pthread_attr_getstacksize(&usual, &bytes);
	if (bytes < THREAD_STACK_BYTES &&
	    pthread_attr_setstacksize(&usual, THREAD_STACK_BYTES) == 0)
		pthread_setattr_default_np(&usual);
	pthread_attr_destroy(&usual);
}

static struct recorder *recorder_new(const struct recorder_opt *opt, struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	if (!r) {
		err_set(err, -ENOMEM, "cannot record");
		return NULL;
	}
	want_stacks();
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
	attach_freep(&r->rec.attach);
	if (r->signals >= 0)
		close(r->signals);
	if (r->stop >= 0)
		close(r->stop);
	free(r->path);
	free(r->next);
	free(r->pattern);
	free(r);
}

/* ---- a program that is started --------------------------------------------------------------- */

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

/* @path as it is, from the root on. */
static char *absolute_path(const char *path)
{
	char here[4096], *whole = NULL;
	if (path[0] == '/' || !getcwd(here, sizeof(here)))
		return strdup(path);
	return asprintf(&whole, "%s/%s", here, path) < 0 ? NULL : whole;
}

/*
 * Arguments as /proc/PID/cmdline has them: each with its NUL. NULL without memory: then there is no
 * command line.
 */
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
		.served_port = opt->served_port,
		.sample_bytes = rec->settings.sample_bytes,
		.name_threads = rec->settings.filter && wire_filter_check(rec->settings.filter) > 1,
	};
	struct source_heap *heap = source_heap_new(&heap_opt, err);
	if (heap && record_filter(rec, heap_opt.sample_bytes, err) < 0)
		source_heap_freep(&heap);
	return heap;
}

/*
 * Beside the recording, under a name that nobody asks for: which program it will be that has the
 * last word is known in the end.
 */
static char *next_value(struct recorder *r, const struct recorder_opt *opt, const char *pattern,
			const char *exe, uint64_t until_ns)
{
	CLEANUP(buf_fini) struct buf path = { 0 };
	CLEANUP(buf_fini) struct buf value = { 0 };
	if (opt->follow_children)
		return NULL;
	char *name = recorder_name(pattern, exe, getpid(), NULL), *whole = absolute(pattern);
	char *full = name ? absolute_path(name) : NULL;
	char *slash = full ? strrchr(full, '/') : NULL;
	if (slash && whole) {
		buf_put(&path, full, (size_t)(slash - full));
		buf_printf(&path, "/.byteledger_%d", (int)getpid());
		if (opt->snapshots)
			buf_printf(&path, NEXT_SHOTS "%d-%llu", opt->snapshots,
				   (unsigned long long)opt->snapshot_ns);
		buf_puts(&path, NEXT_SUFFIX);
		r->next = buf_take(&path);
		r->pattern = STEAL(whole);
	}
	free(name);
	free(full);
	free(whole);
	if (!r->next)
		return NULL;
	int on_full = on_full_of(opt->on_full);
	buf_printf(&value, "0:%c",
		   on_full == WIRE_FULL_WAIT   ? 'w'
		   : on_full == WIRE_FULL_DROP ? 'd'
					       : 'l');
	if (opt->budget_bytes)
		buf_printf(&value, "%llu", (unsigned long long)opt->budget_bytes);
	buf_printf(&value, "%s%s", opt->free_stacks ? "f" : "", opt->stamp_every_event ? "s" : "");
	if (until_ns)
		buf_printf(&value, "u%llu", (unsigned long long)until_ns);
	buf_putc(&value, ':');
	for (const char *at = r->next; *at; at++)
		buf_puts(&value, *at == '%' ? "%%" : (char[]){ *at, '\0' });
	return buf_take(&value);
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
	uint64_t until_ns = opt->duration_ns ? source_heap_start_ns(heap) + opt->duration_ns : 0;
	char *go_on = opt->follow_exec ? next_value(r, opt, pattern, launch->path, until_ns) : NULL;
	r->rec.next = r->next;
	record_pages_listen(&r->rec, r->next);
	const struct launch_env env = {
		.next = go_on,
		.shm_fd = source_heap_fd(heap),
		.follow_children = opt->follow_children,
		.output = output,
		.family = r->rec.settings.family,
		.on_full = opt->on_full,
		.budget_bytes = opt->budget_bytes,
		.free_stacks = opt->free_stacks,
		.stamp_every_event = opt->stamp_every_event,
	};
	pid_t pid = record_heart_start(&r->rec.heart, heap, err);
	/* a short program may be at its end before this one is ready for it */
	if (opt->snapshots)
		source_heap_look_last(heap);
	if (pid == 0) {
		record_pages_expect(&r->rec, launch->path);
		record_pages_launch(&r->rec, 1, 0);
		pid = launch_start(launch, &env, &before, err);
		record_pages_launch(&r->rec, 0, pid > 0 ? pid : 0);
	}
	free(output);
	free(go_on);
	return pid;
}

static int start_recorded(struct recorder *r, struct launch *launch, const struct recorder_opt *opt,
			  char **argv, struct err *err)
{
	struct record *rec = &r->rec;
	const char *pattern = opt->pattern ? opt->pattern : RECORDER_PATTERN;
	record_settings_read(&rec->settings, opt->variables, 0);
	rec->settings.store_symbols &= !opt->no_names;
	rec->is_root = 1;
	if (opt->follow_children)
		rec->settings.family = clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid();
	int rc = record_settings_check(&rec->settings, err);
	if (rc < 0)
		return rc;
	/* before the clock of the recording goes: loading takes a tenth of a second and more */
	rec->pages.children = opt->follow_children;
	if (opt->pages)
		record_pages_open(rec);
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
		source_heap_looked(rec->heap);
		source_heap_detach(rec->heap);
	}
	if (opt->snapshots && !rec->failed) {
		rec->shots.every_ns = opt->snapshot_ns;
		rec->shots.pace.eager = opt->snapshots > 1;
		record_shots_want(rec);
	}
	return 0;
}

struct recorder *recorder_start(const struct recorder_opt *opt, char **argv, int *exit_status,
				struct err *err)
{
	CLEANUP(recorder_freep) struct recorder *r = recorder_new(opt, err);
	CLEANUP(launch_fini) struct launch launch = { .exit_status = EXIT_FAILURE };
	int rc = !r         ? err->code
		 : opt->pid ? come(r, opt, err)
			    : start_recorded(r, &launch, opt, argv, err);
	*exit_status = rc < 0 && launch.exit_status ? launch.exit_status : EXIT_FAILURE;
	return rc < 0 ? NULL : STEAL(r);
}

/* ---- a program that runs --------------------------------------------------------------------- */

/*
 * Of a program that took another's place: what that one's snapshots were asked to be. Return: 1, 0:
 * there were none.
 */
static int next_shots(const char *pattern, struct record_shots *shots)
{
	const char *name = strrchr(pattern, '/'), *at = strstr(name ? name : pattern, NEXT_SHOTS);
	int eager;
	unsigned long long every_ns;
	if (!at || sscanf(at + strlen(NEXT_SHOTS), "%d-%llu", &eager, &every_ns) != 2)
		return 0;
	shots->pace.eager = eager > 1;
	shots->every_ns = every_ns;
	return 1;
}

static int adopt(struct recorder *r, int fd, const struct recorder_opt *opt,
		 struct source_heap_state *state, struct err *err)
{
	struct record *rec = &r->rec;
	sigset_t before;
	/*
	 * the library blocks every signal on the way here, because their handlers are the program's
	 * until the exec
	 */
	if (opt->takes_signals && r->signals < 0)
		r->signals = record_block_signals(opt->pid ? SIG_BLOCK : SIG_SETMASK, &before);
	int refused = opt->takes_signals && r->signals < 0 ? -errno : 0;
	CLEANUP(source_heap_freep) struct source_heap *heap = source_heap_adopt(fd, err);
	record_settings_read(&rec->settings, opt->variables, !opt->pid);
	rec->settings.store_symbols &= !opt->no_names;
	/* who started the first program of a chain of execs stores the names of the last */
	size_t named = opt->pattern ? strlen(opt->pattern) : 0;
	int is_next = named > strlen(NEXT_SUFFIX) &&
		      strcmp(opt->pattern + named - strlen(NEXT_SUFFIX), NEXT_SUFFIX) == 0;
	rec->is_next = is_next;
	if (is_next)
		rec->settings.store_symbols = 0;
	if (!heap)
		return err->code;
	/* a short program may be at its end before this one is ready for it */
	int by_run = is_next && next_shots(opt->pattern, &rec->shots);
	if (by_run)
		source_heap_look_last(heap);
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
	rc = record_open(rec, STEAL(heap), opt->pid ? opt->pid : (pid_t)state->target_pid,
			 opt->pattern ? opt->pattern : RECORDER_PATTERN,
			 opt->pid ? PROF_ATTACHED
			 : by_run ? "run"
				  : opt->comment,
			 bound_of(state->stamp_every_event), err);
	if (rc < 0)
		source_heap_detach(rec->heap);
	else if (by_run)
		record_shots_want(rec);
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

/* ---- a program that ran before --------------------------------------------------------------- */

/* Who does this before has no other thread, and a child that is not the program's affair. */
static int come(struct recorder *r, const struct recorder_opt *opt, struct err *err)
{
	struct record_settings settings = { 0 };
	struct source_heap_state state = { 0 };
	CLEANUP(launch_fini) struct launch launch = { 0 };
	record_settings_read(&settings, opt->variables, 0);
	int rc = record_settings_check(&settings, err);
	if (rc == 0 && opt->follow_children) {
		err_set(err, -EINVAL, "the children of process %d cannot be followed",
			(int)opt->pid);
		return err_hint(err, "--follow-children goes with a program that is started");
	}
	if (rc == 0 && !opt->library)
		rc = launch_library(&launch, err);
	if (rc < 0)
		return rc;
	const struct attach_opt how = {
		.pid = opt->pid,
		.library = opt->library ? opt->library : launch.library,
		.budget_bytes = opt->budget_bytes,
		.sample_bytes = settings.sample_bytes,
		.on_full = (uint32_t)on_full_of(opt->on_full),
		.free_stacks = opt->free_stacks != 0,
		.stamp_every_event = opt->stamp_every_event != 0,
		.name_threads = settings.filter && wire_filter_check(settings.filter) > 1,
	};
	/* from now on there is something to undo; attach_begin() minds what waits for too long */
	sigset_t before;
	if (opt->takes_signals)
		r->signals = record_block_signals(SIG_BLOCK, &before);
	r->rec.attach = attach_begin(&how, err);
	if (!r->rec.attach)
		return err->code;
	rc = adopt(r, attach_take_memory(r->rec.attach), opt, &state, err);
	rc = rc < 0 ? rc : attach_lead(r->rec.attach, err);
	if (rc < 0 && r->rec.heap)
		source_heap_detach(r->rec.heap);
	return rc;
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

/* ---- until its end --------------------------------------------------------------------------- */

enum recorder_end recorder_run(struct recorder *r, uint64_t duration_ns)
{
	struct record *rec = &r->rec;
	uint64_t until_ns = rec->settings.until_ns, start_ns = source_heap_start_ns(rec->heap);
	if (until_ns) /* of another program's recording, whose place this one took */
		duration_ns = until_ns > start_ns ? until_ns - start_ns : 1;
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
 * The child of a fork that only became another program: what that does stands in a recording of its
 * own. It may have ended, too, before anybody saw the exec.
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
	r->result.came = rec->attach != NULL;
	r->result.allocations = rec->stats.allocations;
	r->result.lost_allocations = rec->stats.lost_allocations;
	r->result.own_allocators = rec->state.own_allocators;
	r->result.replaced = rec->replaced;
	r->result.replaced_by = rec->replaced_by;
	r->result.unfollowed = rec->unfollowed;
	r->result.children = rec->child_count;
	r->result.child_peak_bytes = rec->child_peak_bytes;
	r->result.child_exe = rec->child_exe;
	r->result.paged_children = rec->pages.child_files;
	r->result.no_pages = rec->pages.why.code ? rec->pages.why.msg : "";
	r->result.exit_status =
		r->started && r->end == RECORDER_ENDED ? proc_exit_status(r->status) : 0;
}

#define SUCCESSOR_WAIT_NS 5000000000ull
#define SUCCESSOR_LOOK_NS 5000000

/*
 * The recording at @path once its recorder has ended it, which its summary tells then; NULL: it
 * cannot be read.
 */
static struct prof *read_successor(const char *path)
{
	const struct query all = { 0 };
	for (uint64_t start = clock_ns(CLOCK_MONOTONIC);;) {
		int late = clock_ns(CLOCK_MONOTONIC) - start > SUCCESSOR_WAIT_NS;
		CLEANUP(recording_freep) struct recording *file = recording_open(path, NULL, NULL);
		CLEANUP(prof_freep) struct prof *prof = NULL;
		/*
		 * before it is ended there is no summary, and each look would replay all that there
		 * is
		 */
		if (file && (late || !recording_is_written(file)))
			prof = recording_read(file, &all, NULL);
		if (prof && prof_process(prof))
			return STEAL(prof);
		if (late)
			return NULL;
		const struct timespec pause = { .tv_nsec = SUCCESSOR_LOOK_NS };
		nanosleep(&pause, NULL);
	}
}

static void add_before(struct recorder *r, const char *exe)
{
	size_t used = strlen(r->before);
	const char *base = strrchr(exe, '/');
	snprintf(r->before + used, sizeof(r->before) - used, "%s%s", used ? ", " : "",
		 base ? base + 1 : exe);
}

/*
 * @from gets the name that @exe asks for; what stands there is kept: .1, .2 ... NULL: it stays
 * where it is.
 */
static char *give_name(const struct recorder *r, const char *from, const char *exe)
{
	char *name = recorder_name(r->pattern, exe, r->rec.pid, NULL), *to = NULL;
	for (unsigned n = 0; name && n < 100000; n++) {
		free(to);
		if (asprintf(&to, n ? "%s.%u" : "%s", name, n) < 0)
			to = NULL;
		if (!to || renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
			break;
		if (errno != EEXIST) {
			free(to);
			to = NULL;
			break;
		}
	}
	free(name);
	return to;
}

/*
 * A file of a program that took another's place; where one was full, its next has the same start.
 */
struct successor {
	char *path, *exe;
	uint64_t start_ns;
};

static int by_time(const void *a, const void *b)
{
	const struct successor *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return strverscmp(x->path, y->path);
}

/* All that stand at @r->next and behind. Return: how many; malloc'd *@to. */
static size_t find_successors(const struct recorder *r, struct successor **to)
{
	size_t count = 0, prefix;
	char *folder = strdup(r->next), *slash = folder ? strrchr(folder, '/') : NULL;
	*to = NULL;
	if (!slash) {
		free(folder);
		return 0;
	}
	*slash = '\0';
	prefix = strlen(slash + 1);
	DIR *dir = opendir(*folder ? folder : "/");
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		const char *rest = entry->d_name + prefix;
		char *path = NULL;
		if (strncmp(entry->d_name, slash + 1, prefix) != 0 ||
		    (*rest && (*rest != '.' || rest[1 + strspn(rest + 1, "0123456789")])) ||
		    asprintf(&path, "%s/%s", folder, entry->d_name) < 0)
			continue;
		CLEANUP(prof_freep) struct prof *prof = read_successor(path);
		const struct prof_process *process = prof ? prof_process(prof) : NULL;
		struct successor *grown = NULL;
		if (process && process->pid == (uint32_t)r->rec.pid)
			grown = reallocarray(*to, count + 1, sizeof(**to));
		if (!grown) {
			free(path);
			continue;
		}
		*to = grown;
		grown[count++] =
			(struct successor){ .path = path,
					    .exe = strdup(process->exe ? process->exe : ""),
					    .start_ns = process->start_monotonic_ns };
	}
	if (dir)
		closedir(dir);
	free(folder);
	if (count)
		qsort(*to, count, sizeof(**to), by_time);
	return count;
}

/* Its file @at is the result's, or one of them. */
static void take_file(struct recorder *r, const struct successor *at)
{
	struct err err = { 0 };
	char *name = at->exe ? give_name(r, at->path, at->exe) : NULL;
	free(r->path);
	r->path = name ? name : strdup(at->path);
	if (r->path && r->rec.settings.store_symbols && record_store_symbols(r->path, &err) < 0)
		record_fail(&r->rec, &err);
}

/*
 * The last of the programs that took each other's place by exec is what was asked for. Return: 1,
 * 0: nobody recorded it.
 */
static int take_successor(struct recorder *r)
{
	struct successor *found;
	size_t count = find_successors(r, &found), last = count;
	while (last && found[last - 1].start_ns == found[count - 1].start_ns)
		last--;
	for (size_t i = 0; i <= last && count; i++) {
		if (i == 0)
			add_before(r, r->rec.exe);
		else if (i == 1 || found[i - 1].start_ns != found[i - 2].start_ns)
			add_before(r, found[i - 1].exe ? found[i - 1].exe : "");
		if (i)
			unlink(found[i - 1].path);
	}
	if (count && r->rec.file_count <= 1) /* who has filled several is no wrapper */
		unlink(r->path);
	if (count)
		record_send_end(&r->rec, r->rec.file_count <= 1);
	for (size_t i = last; i < count; i++) {
		take_file(r, &found[i]);
		if (r->path && i + 1 < count)
			record_send_again(&r->rec, r->path);
	}
	struct err err = { 0 };
	if (count && r->path &&
	    record_pages_append(&r->rec, r->path, found[count - 1].start_ns, &err) < 0)
		record_fail(&r->rec, &err);
	if (count && r->path)
		record_send_again(&r->rec, r->path);
	for (size_t i = 0; i < count; i++) {
		free(found[i].path);
		free(found[i].exe);
	}
	free(found);
	return count != 0;
}

int recorder_finish(struct recorder *r, struct recorder_result *result, struct err *err)
{
	struct record *rec = &r->rec;
	int rc = 0;
	struct err left = { 0 };
	if (rec->attach && attach_undo(rec->attach, &left) < 0 && rec->ears.tell)
		rec->ears.tell(rec->ears.ctx, &left);
	if (rec->writer && !r->started && r->end == RECORDER_ENDED && is_interlude(rec)) {
		unlink(trace_writer_path(rec->writer));
		record_send_end(rec, 1);
	} else if (rec->writer) {
		/* said before the books are closed */
		int complete = is_complete(r), goes_on = r->end != RECORDER_ENDED;
		int status = r->started && !goes_on ? r->status : -1;
		r->path = strdup(trace_writer_path(rec->writer));
		rc = record_finish(rec, goes_on, status, complete, rec->failed ? NULL : err);
		rc = rec->failed ? 0 : rc; /* that has been told */
	}
	if (rc == 0 && r->path)
		record_pages_children(rec, r->path);
	int followed = rc == 0 && rec->replaced && r->end != RECORDER_STOPPED && r->next &&
		       take_successor(r);
	if (r->signals >= 0) /* what ended the program does not end the sending */
		record_take_signals(rec, r->signals, 0);
	/* of a chain of execs who started it takes the last, and removes the others */
	record_send_end(rec, rec->is_next && rec->replaced && rec->file_count <= 1);
	record_send_finish(rec);
	record_pages_deaf(rec); /* who reads a report may leave us no time for it afterwards */
	describe_result(r);
	r->result.before = r->before;
	if (followed) {
		r->result.replaced = 0;
		r->result.attached = 1;
	}
	if (result)
		*result = r->result;
	return rc < 0 ? rc : 0;
}
