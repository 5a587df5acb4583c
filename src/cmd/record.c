/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - `heap` and `run` around a program, and the recorder that the preload library starts by itself. */
#include "cmd/record.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "cmd/cmd.h"
#include "cmd/open.h"
#include "cmd/terminal.h"
#include "out/out.h"
#include "query/query.h"
#include "recorder/launch.h"
#include "recorder/record.h"
#include "recorder/started.h"
#include "wire/heap.h"
#include "wire/heap_start.h"

#define DEFAULT_PATTERN "byteledger_%e_%p.blt"
#define MS 1000000
#define HEAP_BUDGET_MIN_MIB 32
#define HEAP_BUDGET_MAX_MIB 1024

/* What the options say. */
struct record_opt {
	const char *output;   /* pattern; NULL = the default */
	uint64_t duration_ns; /* 0 = until the program ends */
	int quiet;
	const char *format; /* "text" or "json"; NULL = not given */
	const char *on_full;
	int free_stacks, stamp_every_event, follow_children;
	uint64_t budget_bytes;
};

/* ---- options ----------------------------------------------------------------------------------------------------- */

enum {
	OPT_DURATION = 256,
	OPT_FORMAT,
	OPT_ON_FULL,
	OPT_RESOLUTION,
	OPT_FREE_STACKS,
	OPT_FOLLOW,
	OPT_BUDGET
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0,
	  "Recording to write; %e %p %t %h %n stand for program, pid, time, host, number "
	  "(default " DEFAULT_PATTERN "). An existing file is kept: .1, .2 ... is appended",
	  0 },
	{ "duration", OPT_DURATION, "TIME", 0,
	  "Stop after TIME (10s, 5m, 1h30m): detach, report, exit 0; the program goes on", 0 },
	{ "quiet", 'q', NULL, 0, "No report at the end", 0 },
	{ "format", OPT_FORMAT, "text|json", 0, "Report on stdout in this format", 0 },
	{ "on-full", OPT_ON_FULL, "wait|limit|drop", 0,
	  "What the program does when its buffer is full: wait for the recorder (default), wait at "
	  "most 10 % of the time, never wait. What is dropped is counted",
	  0 },
	{ "time-resolution", OPT_RESOLUTION, "TIME", 0,
	  "Exactness of event times: 1ms (default); anything finer stamps each event", 0 },
	{ "free-stacks", OPT_FREE_STACKS, NULL, 0, "Record the stack of every free, too", 0 },
	{ "follow-children", OPT_FOLLOW, NULL, 0,
	  "Record its children as well, forked ones and programs that it starts, each into a file "
	  "of its own",
	  0 },
	{ "budget", OPT_BUDGET, "MIB", 0,
	  "Memory shared with the program, 32 to 1024 MiB (default 64)", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct record_opt *opt = state->input;
	uint64_t ns;
	char *end;
	switch (key) {
	case 'o':
		opt->output = cmd_take_recording(arg);
		return 0;
	case OPT_DURATION:
		if (query_duration_parse(arg, &opt->duration_ns, NULL) < 0 || !opt->duration_ns)
			cmd_usage("'%s' is not a duration like 10s, 5m, 1h30m", arg);
		return 0;
	case 'q':
		opt->quiet = 1;
		return 0;
	case OPT_FORMAT:
		if (strcmp(arg, "text") != 0 && strcmp(arg, "json") != 0)
			cmd_usage("--format is text or json, not '%s'", arg);
		opt->format = arg;
		return 0;
	case OPT_ON_FULL:
		if (strcmp(arg, "wait") != 0 && strcmp(arg, "limit") != 0 &&
		    strcmp(arg, "drop") != 0)
			cmd_usage("--on-full is wait, limit or drop, not '%s'", arg);
		opt->on_full = arg;
		return 0;
	case OPT_RESOLUTION:
		if (query_duration_parse(arg, &ns, NULL) < 0 || !ns)
			cmd_usage("'%s' is not a time like 1ms, 10us, 1ns", arg);
		opt->stamp_every_event = ns < MS;
		return 0;
	case OPT_FREE_STACKS:
		opt->free_stacks = 1;
		return 0;
	case OPT_FOLLOW:
		opt->follow_children = 1;
		return 0;
	case OPT_BUDGET:
		errno = 0;
		ns = strtoull(arg, &end, 10);
		if (errno || *end || *arg < '0' || *arg > '9' || ns < HEAP_BUDGET_MIN_MIB ||
		    ns > HEAP_BUDGET_MAX_MIB)
			cmd_usage("--budget is a number of MiB from 32 to 1024");
		opt->budget_bytes = ns << 20;
		return 0;
	case ARGP_KEY_ARG:
		cmd_usage("a program stands behind '--': -- %s ...", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

enum ending { ENDED_EXIT, ENDED_DURATION };

/* What a signal means while the program runs. */
static void take_signals(struct record *rec, int fd, pid_t forward_to)
{
	struct signalfd_siginfo info;
	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		rec->interrupted |= info.ssi_signo == SIGINT;
		/* it comes when the program stops or goes on, too */
		if (rec->is_child && info.ssi_signo == SIGCHLD)
			rec->gone = started_has_ended(rec->pid);
		/* SIGINT and SIGQUIT of the terminal reached the program, too: they are its own affair */
		if (forward_to > 0 && (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP))
			kill(forward_to, (int)info.ssi_signo);
	}
}

/*
 * A step failed. A file that cannot grow goes on counting what it lacks, for which its writer has kept room, until there is some
 * for another one; whatever else fails ends the recording. The program goes on. Return: in how many nanoseconds to look again.
 */
static int64_t bear_failure(struct record *rec)
{
	int counts = !rec->failed && rec->writer && trace_writer_flush(rec->writer, NULL) < 0;
	int full = rec->err.code == -ENOSPC || rec->err.code == -EDQUOT;
	if (!rec->failed) {
		if (!rec->err.hint[0])
			err_hint(&rec->err,
				 "what was recorded before can be read; the program goes on, %s",
				 !counts ? "unrecorded"
				 : full  ? "and what it does is only counted until there is room "
					   "again"
					 : "and what it does is only counted");
		cmd_fail(&rec->err);
	}
	rec->failed = 1;
	record_await_room(rec);
	if (counts)
		return 0;
	rec->given_up = 1;
	source_heap_detach(rec->heap);
	return 10 * MS;
}

/* The kernel's own grace for a sleep, and ours: then the beat's timer, which comes before, wakes this thread too. */
#define SLACK_USUAL_NS 50000ul
#define SLACK_LONG_NS 2000000ul
#define LONG_PAUSE_NS (8 * MS)

/*
 * To wake an idle processor costs ten times what is done then. A long pause may be a little longer, so that this thread and
 * the beat are woken at once. @slack_ns: as it is now.
 */
static void fit_slack(int64_t pause_ns, unsigned long *slack_ns)
{
	unsigned long want = pause_ns >= LONG_PAUSE_NS ? SLACK_LONG_NS : SLACK_USUAL_NS;
	if (want != *slack_ns)
		prctl(PR_SET_TIMERSLACK, want);
	*slack_ns = want;
}

/* Until the process ends or @duration_ns is over. */
static enum ending record_loop(struct record *rec, int signals, uint64_t duration_ns,
			       pid_t forward_to)
{
	struct pollfd fds[3] = { { .fd = signals, .events = POLLIN },
				 { .fd = rec->pidfd, .events = POLLIN },
				 { .fd = rec->heart.ends, .events = POLLIN } };
	eventfd_t ends;
	unsigned long slack_ns = SLACK_USUAL_NS;
	for (;;) {
		int64_t pause = 10 * MS;
		if (!rec->given_up && !rec->replaced) {
			pause = record_step(rec);
			if (pause < 0)
				pause = bear_failure(rec);
		} else if (rec->replaced) {
			if (forward_to == 0)
				return ENDED_EXIT; /* the successor has a recorder of its own, or none */
			record_note_successor(rec);
			pause = 50 * MS;
		} else if (duration_ns == 0) {
			pause = 1000 * (int64_t)MS;
		}
		if (rec->gone)
			return ENDED_EXIT;
		if (duration_ns && source_heap_now_ns(rec->heap) >= duration_ns)
			return ENDED_DURATION;
		const struct timespec ts = { .tv_sec = pause / 1000000000,
					     .tv_nsec = pause % 1000000000 };
		fit_slack(pause, &slack_ns);
		if (ppoll(fds, 3, &ts, NULL) <= 0)
			continue;
		if (fds[2].revents)
			eventfd_read(rec->heart.ends, &ends);
		if (fds[0].revents)
			take_signals(rec, signals, forward_to);
		if (fds[1].revents || rec->gone)
			return ENDED_EXIT;
	}
}

static int block_signals(int how, sigset_t *before)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(how, &set, before);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void on_tell(void *ctx, const struct err *what)
{
	(void)ctx;
	if (what->code)
		cmd_fail(what);
	else
		cmd_say("%s", what->msg);
}

static struct recorder_ears record_ears(void)
{
	return (struct recorder_ears){ .tell = on_tell, .reading = cmd_ears };
}

/* ---- around a program ------------------------------------------------------------------------------------------------ */

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

static void tell_findings(const struct record *rec, const struct record_opt *opt,
			  const char *program)
{
	const char *by = rec->replaced_by[0] ? rec->replaced_by : "another program";
	if (rec->replaced && opt->follow_children && rec->unfollowed) {
		cmd_say("'%s' replaced itself by %s, which was started without the recording "
			"library; the recording ends there",
			program, by);
		fputs("hint: its environment was cleared of LD_PRELOAD (env -i, sudo): name that "
		      "program\n",
		      stderr);
	} else if (rec->replaced && opt->follow_children) {
		if (!opt->quiet) /* nothing is missing */
			cmd_say("'%s' replaced itself by %s, which is followed: it gets a "
				"recording of its own, or a line that says why not, unless its "
				"environment was cleared or it is static or set-user-ID",
				program, by);
	} else if (rec->replaced) {
		cmd_say("'%s' replaced itself by %s; the recording ends there", program, by);
		fputs("hint: name that program, or use --follow-children\n", stderr);
	} else if (!rec->state.attached) {
		cmd_say("'%s' never loaded the recording library, so nothing was recorded",
			program);
		fputs("hint: does the program clear LD_PRELOAD, or run in a sandbox?\n", stderr);
	}
	if (!opt->quiet && rec->state.own_allocators[0])
		cmd_say("also recorded: %s, which '%s' brings along", rec->state.own_allocators,
			program);
	if (!opt->quiet && rec->state.attached && !rec->replaced && !rec->stats.allocations &&
	    !rec->stats.lost_allocations) {
		cmd_say("no allocation of '%s' was seen", program);
		fputs("hint: it made none, as many small programs, or by an allocator that it "
		      "brings inside itself under names that are stripped or not known: "
		      "'byteledger regions' tells its memory by mapping\n",
		      stderr);
	}
}

/* Results go to stdout where it is a terminal or a format was asked for, else to stderr: stdout is the program's. */
static void report(const struct record_opt *opt, const char *path)
{
	struct err err = { 0 };
	struct out_opt out = { 0 };
	FILE *to = opt->format || isatty(STDOUT_FILENO) ? stdout : stderr;
	int json = opt->format && strcmp(opt->format, "json") == 0;
	terminal_fit(to, &out);
	/* what the file says, and nothing that it does not */
	CLEANUP(recording_freep) struct recording *recording = cmd_open_recording(path, &err);
	CLEANUP(prof_freep)
	struct prof *prof = recording ? recording_read(recording, NULL, &err) : NULL;
	int rc = prof ? cmd_resolve(prof, &err) : -1;
	if (rc >= 0)
		rc = json ? out_json(to, prof, &out, &err) : out_text(to, prof, &out, &err);
	if (rc < 0)
		cmd_fail(&err);
	fflush(to);
	int below = !json && (to == stderr || isatty(STDOUT_FILENO)); /* a report stands above */
	if (below)
		fputc('\n', stderr);
	cmd_say("recorded into '%s'", path);
}

static void finish_and_report(struct record *rec, const struct record_opt *opt, enum ending how,
			      int status, const char *program)
{
	struct err err = { 0 };
	CLEANUP(buf_fini) struct buf path = { 0 };
	int complete =
		how == ENDED_DURATION || WIFEXITED(status) || rec->replaced ||
		(rec->interrupted && WTERMSIG(status) == SIGINT); /* Ctrl-C ends a recording */
	buf_puts(&path, trace_writer_path(rec->writer));
	int rc = record_finish(rec, how == ENDED_DURATION, how == ENDED_EXIT ? status : -1,
			       complete, rec->failed ? NULL : &err);
	if (rc < 0 && !rec->failed)
		cmd_fail(&err);
	if (!opt->quiet)
		report(opt, buf_cstr(&path));
	tell_findings(rec, opt, program); /* last, beside the prompt: it says what to do next */
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

static int run_program(struct launch *launch, const struct record_opt *opt, const char *comment,
		       char **argv, struct err *err)
{
	struct record_settings settings;
	record_settings_read(&settings, environ, 0);
	if (record_settings_check(&settings, err) < 0)
		return -1;
	const struct source_heap_opt heap_opt = {
		.budget_bytes = opt->budget_bytes,
		.on_full = on_full_of(opt->on_full),
		.free_stacks = opt->free_stacks,
		.stamp_every_event = opt->stamp_every_event,
		.sample_bytes = settings.sample_bytes,
		.name_threads = settings.filter && wire_filter_check(settings.filter) > 1,
	};
	const char *pattern = opt->output ? opt->output : DEFAULT_PATTERN;
	CLEANUP(source_heap_freep) struct source_heap *heap = source_heap_new(&heap_opt, err);
	CLEANUP(record_fini)
	struct record rec = { .ears = record_ears(), .settings = settings, .is_child = 1 };
	sigset_t before;
	if (!heap || record_filter(&rec, heap_opt.sample_bytes, err) < 0 ||
	    launch_resolve(launch, argv, err) < 0 || launch_library(launch, err) < 0)
		return -1;
	int signals = block_signals(SIG_BLOCK, &before);
	if (signals < 0)
		return err_set(err, -errno, "cannot take signals");
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
	pid_t pid = -1;
	if (record_heart_start(&rec.heart, heap, err) == 0)
		pid = launch_start(launch, &env, &before, err);
	free(output);
	if (pid < 0)
		return -1;
	snprintf(rec.exe, sizeof(rec.exe), "%s", launch->path);
	rec.cmdline = join_arguments(launch->argv, &rec.cmdline_bytes);
	if (record_open(&rec, STEAL(heap), pid, pattern, comment, bound_of(opt->stamp_every_event),
			err) < 0) {
		/* its status is still what we exit with */
		if (!err->hint[0])
			err_hint(err, "the program goes on, unrecorded; -o names another file");
		cmd_fail(err);
		rec.failed = rec.given_up = 1;
		source_heap_detach(rec.heap);
	}
	int status = 0;
	enum ending how = record_loop(&rec, signals, opt->duration_ns, pid);
	if (how == ENDED_EXIT) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		take_signals(&rec, signals, 0); /* one that came with the end */
	}
	if (rec.writer)
		finish_and_report(&rec, opt, how, status, argv[0]);
	close(signals);
	if (how == ENDED_DURATION)
		return launch->exit_status = CMD_OK, 0;
	launch->exit_status = proc_exit_status(status);
	return 0;
}

static int record_program(const struct record_opt *opt, const char *comment, char **argv)
{
	struct err err = { 0 };
	CLEANUP(launch_fini) struct launch launch = { .exit_status = CMD_FAILED };
	if (run_program(&launch, opt, comment, argv, &err) < 0) {
		cmd_fail(&err);
		return launch.exit_status ? launch.exit_status : CMD_FAILED;
	}
	return launch.exit_status;
}

int record_command(int argc, char **argv, const char *name, const char *doc)
{
	const struct argp argp = { .options = options,
				   .parser = parse_option,
				   .args_doc = "-- PROGRAM [ARGS...]",
				   .doc = doc };
	struct record_opt opt = { 0 };
	int rest;
	if (cmd_parse(&argp, argc, argv, &rest, &opt) < 0)
		return CMD_USAGE;
	if (rest >= argc) {
		fprintf(stderr,
			"byteledger: no program given\n"
			"hint: byteledger %s [OPTIONS] -- PROGRAM [ARGS...]\n",
			name);
		return CMD_USAGE;
	}
	cmd_status_is_programs();
	return record_program(&opt, name, argv + rest);
}

/*
 * The child of a fork that only became another program: what that does stands in a recording of its own. It may have ended, too,
 * before anybody saw the exec.
 */
static int record_is_interlude(struct record *rec)
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

/* ---- started by the library -------------------------------------------------------------------------------------------- */

int record_helper(int argc, char **argv)
{
	/* byteledger --recorder FD [-o PATTERN] [NAME=VALUE...] */
	struct err err = { 0 };
	char *end;
	long fd = argc > 2 ? strtol(argv[2], &end, 10) : -1;
	const char *pattern = argc > 4 && strcmp(argv[3], "-o") == 0 ? argv[4] : DEFAULT_PATTERN;
	if (fd < 3 || fd > 65535 || *end) {
		fprintf(stderr, "byteledger: %s is for the preload library\n",
			WIRE_RECORDER_OPTION);
		return CMD_USAGE;
	}
	/* whatever spoke in our place before was not to be heard by the program's user */
	if (dup2(WIRE_RECORDER_STDERR, STDERR_FILENO) >= 0)
		close(WIRE_RECORDER_STDERR);
	sigset_t before;
	/* the library blocks every signal on the way here, because their handlers are the program's until the exec */
	int signals = block_signals(SIG_SETMASK, &before);
	CLEANUP(source_heap_freep) struct source_heap *heap = source_heap_adopt((int)fd, &err);
	CLEANUP(record_fini) struct record rec = { .ears = record_ears() };
	record_settings_read(&rec.settings, argv + (argc > 5 ? 5 : argc), 1);
	if (rec.settings.bad) /* the program runs already: better recorded than not */
		fprintf(stderr, "byteledger: BYTELEDGER_%s makes no sense: no limit\n",
			rec.settings.bad);
	struct source_heap_state state = { 0 };
	if (heap)
		source_heap_state(heap, &state);
	if (heap && state.target_pid == 0)
		err_set(&err, -ESRCH, "cannot record: the shared file names no process");
	if (!heap || !state.target_pid || signals < 0 ||
	    record_filter(&rec, state.sample_bytes, &err) < 0 ||
	    record_heart_start(&rec.heart, heap, &err) < 0 ||
	    record_open(&rec, STEAL(heap), (pid_t)state.target_pid, pattern, "heap",
			bound_of(state.stamp_every_event), &err) < 0) {
		if (rec.heap || heap)
			source_heap_detach(rec.heap ? rec.heap : heap);
		if (!err.hint[0] && (err.code == -EACCES || err.code == -EPERM))
			err_hint(&err,
				 "process %u goes on, unrecorded; its recorder runs as its user, "
				 "%u, who must be able to write there",
				 state.target_pid, (unsigned)geteuid());
		else if (!err.hint[0] && state.target_pid)
			err_hint(&err, "process %u goes on, unrecorded", state.target_pid);
		return cmd_fail(&err);
	}
	/* a daemon lets go of the terminal, and of pipes whose end somebody waits for */
	int null = rec.forked ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
	if (null >= 0) {
		dup2(null, STDERR_FILENO);
		close(null);
	}
	record_loop(&rec, signals, 0, 0);
	if (rec.writer && record_is_interlude(&rec)) {
		unlink(trace_writer_path(rec.writer));
	} else if (rec.writer) {
		source_heap_state(rec.heap, &state);
		/* not our child: whether it ended on its own account is what its exit hook says */
		if (record_finish(&rec, 0, -1, state.exiting || rec.replaced, &err) < 0 &&
		    !rec.failed)
			cmd_fail(&err);
	}
	close(signals);
	return rec.failed || err.code ? CMD_FAILED : CMD_OK;
}
