/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.h - one recording's life, for whoever wants one: `run`, `heap`, the preload library's
 * own recorder, and the commands that show a program while it runs. Nothing is printed: what it has
 * to say comes out through struct recorder_ears.
 *
 * In order of use:
 * 	recorder_start() a program, or recorder_adopt() one that runs with the library;
 * 	recorder_run() until it has ended, the time is over, or somebody calls recorder_stop();
 * 	recorder_finish() the file; recorder_freep().
 * To see what is in it meanwhile, follow the file (query/follow.h): that costs the recorder
 * nothing.
 */
#ifndef RECORDER_RECORDER_H
#define RECORDER_RECORDER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "query/recording.h"

struct recorder;

/**
 * struct recorder_ears - who hears what a recording has to say while it goes on; all of it may be
 * NULL. On the thread that calls.
 */
struct recorder_ears {
	void *ctx;
	/**
	 * @what->code 0: worth knowing, and nothing is wrong; else what failed, mostly with a hint.
	 * The program goes on.
	 */
	void (*tell)(void *ctx, const struct err *what);
	/** A file was begun: the first one, or the next where one was full. @path is lent. */
	void (*file)(void *ctx, const char *path);
	/* of what is read again at the end, to store symbols */
	struct recording_ears reading;
};

#define RECORDER_PATTERN "byteledger_%e_%p.blt"

struct recorder_opt {
	struct recorder_ears ears;
	/* of the file's name: recorder_name(); NULL: RECORDER_PATTERN */
	const char *pattern;
	/* which command makes it */
	const char *comment;
	/* NAME=VALUE; those that begin with BYTELEDGER_ are asked (of an adopted program: all,
	 * without that) */
	char *const *variables;
	/*
	 * 1: from the start on SIGINT, SIGQUIT, SIGTERM, SIGHUP and SIGCHLD are blocked in this
	 * thread, and recorder_run() takes them: the program that was started gets SIGTERM and
	 * SIGHUP, and SIGINT and SIGQUIT of the terminal have reached it. 0: signals are the
	 * caller's, and are not looked at.
	 */
	int takes_signals;

	/*
	 * snapshots of where the memory is: at new peaks and before the end, and every @snapshot_ns
	 * (0: no more)
	 */

	/* 2: as often as a tenth of a CPU allows */
	int snapshots;
	uint64_t snapshot_ns;
	/*
	 * Of recorder_start(): resident pages by call stack go along with the snapshots, where the
	 * kernel permits it. That puts 0.15 s before the start.
	 */
	int pages;

	/*
	 * Of recorder_start(): the library comes into this process, which runs, and is taken out
	 * again at the end; 0: a program is started. Its children are not followed.
	 */
	pid_t pid;

	/* of recorder_start() alone */

	/* "wait" (NULL, too), "limit", "drop" */
	const char *on_full;
	/* path of libbyteledger-heap.so; NULL: where it was installed */
	const char *library;
	uint64_t budget_bytes;
	int free_stacks, stamp_every_event, follow_children;
	/* what an exec puts in the program's place is what is recorded: its file is the result */
	int follow_exec;
	/*
	 * as recorder_run() will be told: what an exec puts in the program's place ends then, too
	 */
	uint64_t duration_ns;
	/* of 127.0.0.1, where it is served without a token: the program may ask there */
	uint16_t served_port;
	/* what frames resolve to is not stored at the end */
	int no_names;
};

/**
 * recorder_start() - start @argv[0] as a shell would, recorded. Where the program runs and its file
 * cannot be made the ears hear why and the recorder only waits for its end. Return: NULL with @err
 * and *@exit_status, what a shell would exit with: 126, 127, else 1.
 */
struct recorder *recorder_start(const struct recorder_opt *opt, char **argv, int *exit_status,
				struct err *err);
/**
 * recorder_adopt() - record the program that the preload library's shared memory @fd belongs to;
 * @fd is taken. NULL with @err.
 */
struct recorder *recorder_adopt(int fd, const struct recorder_opt *opt, struct err *err);

pid_t recorder_pid(const struct recorder *recorder);
/** recorder_forked() - 1: it is the child of a fork, whose parent has a recorder of its own. */
int recorder_forked(const struct recorder *recorder);
/**
 * recorder_settings_bad() - the name of a setting of an adopted program that makes no sense and was
 * left out; NULL: none.
 */
const char *recorder_settings_bad(const struct recorder *recorder);

enum recorder_end { RECORDER_ENDED, RECORDER_TIME_OVER, RECORDER_STOPPED };
/**
 * recorder_run() - record until the program ends (or execs another one, if it was adopted), or
 * @duration_ns (0: none) after its start is over, or recorder_stop(). On one thread; wakes up as
 * often as the program fills its rings, once a second at least.
 */
enum recorder_end recorder_run(struct recorder *recorder, uint64_t duration_ns);
/**
 * recorder_stop() - let recorder_run() end, now or as soon as it is called; the program goes on.
 * Any thread, signal handlers too.
 */
void recorder_stop(struct recorder *recorder);

struct recorder_result {
	/* of the last file; NULL: none was made, or it held nothing and was removed. Lent */
	const char *path;
	/*
	 * of the program that was started, as a shell would tell; 0 where it goes on, or was not
	 * started by us
	 */
	int exit_status;
	/* something failed on the way; the ears heard it */
	int failed;
	/* the library was there; it came while the program ran */
	int attached, came;
	uint64_t allocations, lost_allocations;
	/* recorded besides: what the program brings along; "" none. Lent */
	const char *own_allocators;
	/* the programs that execs replaced by the one in the file: "bash, env"; "" none. Lent */
	const char *before;
	/* an exec put another program in its place, which is not in the file */
	int replaced;
	/* its path; "" not known. Lent */
	const char *replaced_by;
	/* it was seen to run without the library */
	int unfollowed;
	/* of the program, seen while it ran, and not recorded unless children are followed */
	uint32_t children;
	/* of the largest */
	uint64_t child_peak_bytes;
	/* its program's path; "" not known. Lent */
	const char *child_exe;
	/* recordings of followed ones that have resident pages, too */
	uint32_t paged_children;
	/* why resident pages are not in it though they were wanted; "" they are. Lent */
	const char *no_pages;
};
/**
 * recorder_finish() - read the rest, close the file and, if the program has ended, take its status.
 * Whoever it is whose time is over goes on, unrecorded. Once, behind recorder_run(). @result stands
 * until recorder_freep(). Return: 0, or negative errno with @err: the file can be read up to there.
 */
int recorder_finish(struct recorder *recorder, struct recorder_result *result, struct err *err);
void recorder_freep(struct recorder **recorder);

/**
 * recorder_helper() - all of it for the preload library, which started this process: shared memory
 * @fd, and @words that end in NULL, [-o PATTERN] [NAME=VALUE...]; its stderr becomes the program's.
 * Return: 0, or negative errno, which the ears have heard.
 */
int recorder_helper(int fd, char **words, const struct recorder_ears *ears);

/**
 * recorder_may_create() - before the program @exe is started (NULL: it runs already): can what
 * @pattern names be created?
 * It may become another name, for a process is in it. 0 or negative errno.
 */
int recorder_may_create(const char *pattern, const char *exe, struct err *err);
/**
 * recorder_name() - a malloc'd file name from a pattern (%e %p %t %h %n %%), values with '/' and
 * controls as '_'; in a folder, where that names one, as RECORDER_PATTERN says. NULL with @err.
 */
char *recorder_name(const char *pattern, const char *exe, pid_t pid, struct err *err);

#endif
