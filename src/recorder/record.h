/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - inside a recording: sources, sinks, the life of the program. Private to the room;
 * others see recorder.h.
 */
#ifndef RECORDER_RECORD_H
#define RECORDER_RECORD_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/cull.h"
#include "model/prof.h"
#include "model/sieve.h"
#include "proc/proc.h"
#include "recorder/pace.h"
#include "recorder/recorder.h"
#include "source/pageown.h"
#include "source/source.h"
#include "trace/trace.h"

/* ---- heart.c --------------------------------------------------------------------------------- */

/*
 * A thread of its own: while a block is compressed or a disk is slow, the program must see that the
 * recorder lives. It tells the other one when the program begins to end: what is left can then be
 * packed while the kernel takes the program apart.
 */
struct record_heart {
	struct source_heap *heap;
	pthread_t thread;
	/* eventfd; -1: there is none, and the end is seen when the pause is over */
	int ends;
	/* posted: the end need not wait for the next beat */
	sem_t stop;
	/* asked for by the loop */
	int sleep;
	/* from then on, until it beats again, of which @ends tells */
	int asleep;
	int running;
};

/** record_heart_start() - beat for @heap, which has to stay until record_heart_stop(). */
int record_heart_start(struct record_heart *heart, struct source_heap *heap, struct err *err);
/**
 * record_heart_sleep() - stop beating until the program has something to say, which wakes the loop,
 * too. Return: 0 it has to go on beating. Often: it is asleep then, or about to be.
 */
int record_heart_sleep(struct record_heart *heart);
/** record_heart_stop() - if it was started. */
void record_heart_stop(struct record_heart *heart);

/* ---- life.c: one recording from its first event to the finished file ------------------------- */

/* What the environment asks of the recording. */
struct record_settings {
	/* lifetime_ns 0: nothing is left out */
	struct cull_opt cull;
	/* 0: no limit */
	uint64_t min_free_bytes, max_bytes;
	/* 0: all */
	uint32_t keep_files;
	int store_symbols;
	/* pattern of files; NULL: none. Lent */
	const char *include;
	/* user id; -1: ours */
	int64_t owner;
	/* one stack for so many; 0: every allocation has one */
	uint64_t sample_bytes;
	/* what was asked for is no such number */
	int sample_bad;
	/* a limit that makes no sense: its name; NULL: none */
	const char *bad;
	/* whose allocations are recorded; NULL or "": all. Lent */
	const char *filter;
	/* of CLOCK_MONOTONIC: the recording is over then; 0: when the program ends */
	uint64_t until_ns;
	/* of what is recorded together; 0: for itself alone */
	uint64_t family;
	/* where the recording is sent, and what holds the token; NULL or "": nowhere. Lent */
	const char *send, *token_file;
};

/* A snapshot for the recorder of a child; @fd is one more than the descriptor, 0 = none. */
struct record_offer {
	int fd;
	/* ns: when it was made */
	uint64_t bytes, ns;
};
#define RECORD_OFFERS 256
#define RECORD_CHILDREN 64

/* Snapshots of where the memory is (shots.c). */
struct record_shots {
	/* `run` */
	int wanted;
	/* 0: at new peaks and in the end only */
	uint64_t every_ns;
	/* eager: `explain -- PROGRAM` */
	struct record_pace pace;
	pthread_t thread;
	int running, done, is_last, was_last;
	pid_t pid;
	uint64_t zero_ns, cost_ns, last_ns, last_rss_bytes;
	unsigned count;
	struct snapshot *taken;
	uint64_t pages_cost_ns, pages_rss_bytes;
	/* as pages were read last, see proc_gauge_stir() */
	uint64_t stir, stir_rss_bytes;
	/* what is under way */
	int with_shot, with_pages;
};

#define RECORD_PAGES_AFTER 64
/* Resident pages by call stack, beside (pages.c). */
struct record_pages {
	/* NULL: not wanted, or not permitted */
	struct pageown *own;
	/* code 0: it is permitted */
	struct err why;
	struct page_shot *taken;
	unsigned count;
	/*
	 * of what an exec put in the program's place, or of its children, for their recordings;
	 * thinned out where they become many
	 */
	struct page_shot *after[RECORD_PAGES_AFTER];
	size_t after_count;
	uint64_t after_every_ns, after_next_ns, after_began_ns;
	/* they are followed */
	int children;
	/* how large they are */
	uint64_t look_next_ns, look_wait_ns;
	/* as of the last look, and when they were read last */
	uint64_t children_bytes, children_read_bytes;
	/* of them, that got readings */
	uint32_t child_files;
	/* who records what an exec put there asks here, before it ends */
	int asks;
	/* NULL: nobody can */
	char *asks_path;
};

struct record_names;
struct record_send;

struct record {
	/* NULL: none are kept with the recording */
	struct record_names *names;
	struct record_shots shots;
	struct record_pages pages;
	struct recorder_ears ears;
	/* NULL before record_open() and behind record_finish() */
	struct source_heap *heap;
	/* as it left them */
	struct source_heap_state state;
	struct source_heap_stats stats;
	/* the thread that lets go of it, if @releasing */
	pthread_t release;
	int releasing;
	/* until the books are closed; started before record_open() */
	struct record_heart heart;
	struct trace_writer *writer;
	/* what the file's summary will say */
	struct prof *sums;
	/* NULL: nothing is filtered */
	struct sieve *sieve;
	/* behind it */
	struct sink_tee tee;
	pid_t pid;
	/* it ran before: how the library came in; NULL: it did not. The recorder's */
	struct attach *attach;
	/* a signal said that it is over */
	int is_over;
	/* the program that the recorder was asked to start */
	int is_root;
	/* it took the place of one that another recorder started */
	int is_next;
	/* of this process, whose SIGCHLD tells its end: @pidfd is -1 */
	int is_child;
	int pidfd;
	/* it has ended, at the latest before anybody could watch it: then @pidfd is -1 */
	int gone;
	uint64_t peak_rss_bytes;
	struct proc_gauge gauge;
	/* the point last written */
	struct proc_memory rss;
	uint64_t rss_repeat_ns, rss_next_ns, peak_next_ns, flush_next_ns, house_next_ns,
		exec_next_ns, exec_wait_ns, drained_ns;
	/* see proc_gauge_stir(): as its peak was read last */
	uint64_t peak_stir;
	/* when something was in the rings last */
	uint64_t news_ns;
	/* asleep: its size as of the last look */
	uint64_t idle_rss_bytes;
	/* what was asked from outside last, see source_heap_asked() */
	uint32_t steer_seen;
	/* asleep: how long until its size is looked at again */
	uint64_t rss_wait_ns;
	/* once its exit hook ran: until the next look */
	int64_t end_wait_ns;
	/* replaced: an exec took the traced program away */
	int saw_exiting, replaced;
	/* when that was seen */
	uint64_t replaced_ns;
	/* as of the last look, 0 before */
	uint64_t start_stack;
	/* of the shared memory, once asked for */
	uint64_t memfd_inode;
	/* SIGINT came here, too: Ctrl-C in the terminal */
	int interrupted;
	/* its path; "" = not known */
	char replaced_by[256];
	/* it was seen to run without the library */
	int unfollowed;
	/*
	 * children that were seen while it ran, and are not recorded: the last ones' pids, how
	 * many, and the largest
	 */
	pid_t children[RECORD_CHILDREN];
	uint32_t child_count;
	uint64_t child_peak_bytes;
	char child_exe[256];
	/*
	 * an error was reported: nothing is written any more, or until there is room for another
	 * file
	 */
	int failed;
	uint64_t resume_next_ns, resume_wait_ns;
	/* nor counted: nobody empties the rings */
	int given_up;
	/* the process is the child of a fork */
	int forked;
	/* no other process's recording is called so */
	int own_name;
	struct record_settings settings;
	struct cull *cull;
	/* where what an exec puts in the program's place is recorded; NULL: nowhere. Lent */
	const char *next;
	/* of its files, the ears heard of so many */
	uint32_t next_heard;
	/* of the first file; what comes later has .1, .2 ... behind */
	char *path;
	/* KEEP_FILES: the last ones, around in a circle */
	char **files;
	/* begun so far; of the last name */
	uint32_t file_count, file_number;
	/* NULL: it is not sent, or cannot be */
	struct record_send *send;
	int send_failed;
	/* of the file that is written, as it was told last */
	uint64_t send_bytes;
	/* what the living blocks took when the file began */
	uint64_t begun_bytes;
	struct record_offer offers[RECORD_OFFERS];
	struct err err;
	char *cmdline;
	size_t cmdline_bytes;
	char exe[4096];
	const char *comment;
	uint64_t time_bound_ns;
};

/**
 * record_open() - the process @pid runs, or has just ended: describe it, create the file that
 * @pattern names. @heap is @rec's from here on, whatever comes of it. rec->exe and rec->cmdline
 * (malloc'd) may hold what was started; the program's and /proc's word replace them, unless an exec
 * has already put another program there.
 */
int record_open(struct record *rec, struct source_heap *heap, pid_t pid, const char *pattern,
		const char *comment, uint64_t time_bound_ns, struct err *err);
/**
 * record_step() - drain, timeline, flush, whatever is due. Return: nanoseconds after which it wants
 * to be called again, or negative errno: nothing can be recorded any more (rec->err says why). Once
 * rec->failed is set, a file that cannot grow is no error: its writer counts what comes.
 */
int64_t record_step(struct record *rec);
/**
 * record_await_room() - the file cannot grow: record_step() goes on in another one once there is
 * room again.
 */
void record_await_room(struct record *rec);
/** record_look_for_exec() - now; rec->replaced says what came of it. */
void record_look_for_exec(struct record *rec);
/**
 * record_look_around() - after an exec: children of what runs now, and the file that it is recorded
 * into.
 */
void record_look_around(struct record *rec);
/**
 * record_note_successor() - after an exec: which program runs now. A chain of them (env, sudo,
 * shims) ends in the last.
 */
void record_note_successor(struct record *rec);
/**
 * record_finish() - read the rest and close the file. @detach: the program goes on. @status: as
 * waitpid() tells, -1 where not known. @complete: as docs/rules.md says. rec->heap is gone then,
 * and the heart stands still; rec->state and rec->stats are what it had to say.
 */
int record_finish(struct record *rec, int detach, int status, int complete, struct err *err);
void record_fini(struct record *rec);

/* ---- loop.c ---------------------------------------------------------------------------------- */

/**
 * record_loop() - record_step() for as long as recorder_run() says; @signals and @stop may be -1,
 * @forward_to 0: not our child.
 */
enum recorder_end record_loop(struct record *rec, int signals, int stop, uint64_t duration_ns,
			      pid_t forward_to);
/** record_take_signals() - what came by @fd, and what it means while the program runs. */
void record_take_signals(struct record *rec, int fd, pid_t forward_to);
/**
 * record_block_signals() - those that recorder_run() takes: a signalfd, or -1 with errno. @how as
 * of sigprocmask().
 */
int record_block_signals(int how, sigset_t *before);

/* ---- shots.c --------------------------------------------------------------------------------- */

/** record_shots_want() - behind record_open(): snapshots go into the file. */
void record_shots_want(struct record *rec);
/**
 * record_shots_step() - take one if it is due, write one that was taken. Return: @pause, or sooner.
 */
int64_t record_shots_step(struct record *rec, uint64_t now, int exiting, int64_t pause);
/** record_shots_finish() - before the heap is let go: what is under way is waited for. */
void record_shots_finish(struct record *rec);

/* ---- pages.c --------------------------------------------------------------------------------- */

/**
 * record_pages_open() - before the program is started; where the kernel refuses, @rec->pages.why
 * says so.
 */
void record_pages_open(struct record *rec);
/** record_pages_expect() - the file that is started next. */
void record_pages_expect(struct record *rec, const char *program);
/** record_pages_launch() - around the fork: as pageown_launch(). */
void record_pages_launch(struct record *rec, int begin, pid_t pid);
/** record_pages_read() - on the thread of the snapshots. */
void record_pages_read(struct record *rec);
/** record_pages_put() - what was read goes into the file. Return: 1 it did. */
int record_pages_put(struct record *rec);
/**
 * record_pages_after() - an exec took the program away: what comes is read for its successor's
 * recording. Return: ns until the next time.
 */
int64_t record_pages_after(struct record *rec);
/** record_pages_keep() - of what an exec put there, a reading at once. */
void record_pages_keep(struct record *rec);
/**
 * record_pages_append() - to that recording at @path, which is finished; @zero_ns: CLOCK_MONOTONIC
 * of its time 0.
 */
int record_pages_append(struct record *rec, const char *path, uint64_t zero_ns, struct err *err);
/**
 * record_pages_children() - what was read of children goes into their recordings; @path is one of
 * the family's.
 */
void record_pages_children(struct record *rec, const char *path);
/**
 * record_pages_look() - whether children are to be read, too: some came or went, or they have
 * another size. *@pause: until it is to be called again.
 */
int record_pages_look(struct record *rec, uint64_t now, int64_t *pause);
/* pages_ask.c */
/**
 * record_pages_listen() - for who records what an exec puts in the program's place, into @next.
 * Where none can be asked the reading before stands.
 */
void record_pages_listen(struct record *rec, const char *next);
/**
 * record_pages_answer() - rec->pages.asks is readable: read, and let the program that waits go on.
 */
void record_pages_answer(struct record *rec);
/** record_pages_ask() - for a last reading, and wait until it is made, a second at most. */
void record_pages_ask(const struct record *rec);
void record_pages_deaf(struct record *rec);

/** record_pages_name() - before a file ends. */
void record_pages_name(struct record *rec);
void record_pages_fini(struct record *rec);

/* ---- names.c --------------------------------------------------------------------------------- */

/**
 * record_names_new() - nothing yet; what is defined to its sink is looked up by record_names_step()
 * and record_names_put().
 */
struct record_names *record_names_new(struct err *err);
struct sink *record_names_sink(struct record_names *names);
/**
 * record_names_step() - begin a batch where there is enough for one, or the program is about to
 * end. @names may be NULL.
 */
void record_names_step(struct record_names *names, int exiting);
/**
 * record_names_put() - what all frames are called, to @to; waits for a batch, and looks up what was
 * in none.
 */
int record_names_put(struct record_names *names, struct sink *to, struct err *err);
/**
 * record_names_restart() - another file begins: everything is defined anew. What was read of
 * libraries stays.
 */
void record_names_restart(struct record_names *names);
void record_names_freep(struct record_names **names);

/* ---- send.c: to `byteledger gather`, meanwhile ----------------------------------------------- */

/** record_send_check() - whether what the settings say makes sense: 0, or negative errno. */
int record_send_check(const struct record_settings *settings, struct err *err);
/** record_send_begin() - a file was begun; nothing where none is to be sent. */
void record_send_begin(struct record *rec, const char *path);
/** record_send_grew() - as much of it as its writer has written is whole. Often. */
void record_send_grew(struct record *rec);
/** record_send_end() - it is finished; @dropped: it is not wanted, and has been removed. */
void record_send_end(struct record *rec, int dropped);
/** record_send_again() - a finished file, which may have been sent, and has grown. */
void record_send_again(struct record *rec, const char *path);
/**
 * record_send_finish() - wait until all is sent, while it moves on at least every five seconds;
 * what is not sent by then is told.
 */
void record_send_finish(struct record *rec);
void record_send_fini(struct record *rec);

/* ---- files.c --------------------------------------------------------------------------------- */

/** record_fail() - to the ears: @what failed, and the recording goes on as far as it can. */
void record_fail(const struct record *rec, const struct err *what);
/** record_tell() - to the ears: nothing is wrong, but it is worth knowing. */
void record_tell(const struct record *rec, const char *format, ...) PRINTF(2, 3);
/** record_sink() - where everything goes that is to be recorded. */
static inline struct sink *record_sink(struct record *rec)
{
	return rec->sieve ? sieve_sink(rec->sieve) : &rec->tee.sink;
}

/** record_store_symbols() - the same names into the finished recording at @path. */
int record_store_symbols(const char *path, struct err *err);
/** record_begin_file() - create the next file of @rec->path, with nothing in it. */
int record_begin_file(struct record *rec, struct err *err);
/** record_end_file() - @process says how; nothing is written afterwards. */
int record_end_file(struct record *rec, const struct def *process, struct err *err);
/**
 * record_rotate() - end the file and begin the next one with what lives. Where none can be created
 * the file goes on, and the ears hear of it. Of a file that could not grow they hear where the
 * recording goes on.
 */
int record_rotate(struct record *rec, const struct def *begun, const struct def *ended,
		  struct err *err);
/**
 * record_keep_undecided() - after a flush, where short-lived blocks are left out: what may be one
 * stands beside the file. A disk that has no room for it is no error: then a killed recorder loses
 * it.
 */
int record_keep_undecided(struct record *rec);
/** record_is_full() - 1: MAX_SIZE is reached. */
int record_is_full(const struct record *rec);
void record_files_fini(struct record *rec);

/* ---- include.c ------------------------------------------------------------------------------- */

/**
 * record_include() - embed what INCLUDE_FILE names in the file that was just begun; what cannot be
 * is told.
 */
void record_include(struct record *rec);

/* ---- settings.c ------------------------------------------------------------------------------ */

/**
 * record_filter() - before record_open(): make rec->sieve if the settings ask for one.
 * @sample_bytes: of the shared file. -EINVAL where they make no sense; nothing is to be recorded
 * then, rather than something else than what was meant.
 */
int record_filter(struct record *rec, uint64_t sample_bytes, struct err *err);

/** record_settings_check() - -EINVAL where SAMPLE_BYTES or a limit of the files makes no sense. */
int record_settings_check(const struct record_settings *settings, struct err *err);
/**
 * record_settings_read() - from NAME=VALUE strings, NULL-terminated; @bare: without a prefix, as
 * the library hands them on.
 */
void record_settings_read(struct record_settings *to, char *const *entries, int bare);

/* ---- fork.c: children of forks --------------------------------------------------------------- */

/**
 * record_offer() - for source_heap_on_fork(), @ctx a struct record: keep what lives now for the
 * child's recorder.
 */
int record_offer(void *ctx, uint64_t number);
/** record_tend_offers() - let go of what was taken, or is too old. */
void record_tend_offers(struct record *rec);
/**
 * record_wait_offers() - before the recorder ends: until all are taken or too old, a second at
 * most.
 */
void record_wait_offers(struct record *rec);
/**
 * record_inherit() - after record_open(): take over the blocks of the process that this one was
 * forked from, if it was.
 */
int record_inherit(struct record *rec, struct err *err);

#endif
