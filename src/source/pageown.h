/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pageown.h - every resident page of some processes by the call stack that made it so: the loader
 * of bpf/pages.bpf.c, and the reading that joins its tables with the page tables of the processes.
 *
 * Calls in order of use: new, load, attach, follow (or launch around a fork), then poll and read as
 * long as wanted, detach, free. Of those that take the struct, one thread at a time; what
 * pageown_read() returns may go to other threads. Needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN
 * (page numbers), for processes of others CAP_SYS_PTRACE; pageown_drop_privileges() keeps what
 * following needs.
 */
#ifndef SOURCE_PAGEOWN_H
#define SOURCE_PAGEOWN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/pages.h"

struct pageown;

struct pageown_opt {
	/* distinct stacks that are told apart; 0 = 65536, at most 4 Mi */
	uint32_t stacks_max;
	/* room for their frames; 0 = 32 a stack */
	uint32_t frame_words;
	/* 64 KiB stretches in which mapped files are followed; 0 = 65536 */
	uint32_t windows_max;
	/* of unwind tables; 0 = by what is followed when it is loaded, 16 MiB at least */
	uint32_t table_bytes;
	/* of tables, as unwind_rows_new() */
	const char *cache_dir;
	/* processes of that name (15 bytes count) are taken up by the kernel side as they exec */
	const char *take_name;
	/* and their children */
	int take_children;
	/* PAGES_EXEC of every process of the machine */
	int tell_execs;
};

enum pageown_event_kind { PAGES_FORKED, PAGES_EXECED, PAGES_ENDED };
/**
 * struct pageown_event - @followed: it is one of ours (an exec of another process is told where
 * tell_execs is set).
 */
struct pageown_event {
	enum pageown_event_kind kind;
	pid_t pid, parent;
	int followed;
};

/** pageown_new() - @opt NULL: defaults. Opens nothing yet. */
struct pageown *pageown_new(const struct pageown_opt *opt, struct err *err);
void pageown_free(struct pageown *pages);
void pageown_freep(struct pageown **pages);

/**
 * pageown_load() - ask the kernel what it has, size the tables, pass the verifier, learn where the
 * list of pages is. Some 0.1 s.
 */
int pageown_load(struct pageown *pages, struct err *err);
/** pageown_attach() - from here on allocations are seen; nothing is followed yet. */
int pageown_attach(struct pageown *pages, struct err *err);

/**
 * pageown_follow() - take up process @pid, which runs: what it has by now is "before attach" for
 * ever. @children: those that it forks from now on, too. -ESRCH when it is gone, -EPERM where its
 * page table may not be read.
 */
int pageown_follow(struct pageown *pages, pid_t pid, int children, struct err *err);
/**
 * pageown_launch() - call it with 1 before forking the program that is to be followed from its
 * first page on, and with 0 and its pid once it runs (0: none came of it). Meanwhile the caller
 * itself is followed, so that its child is.
 */
int pageown_launch(struct pageown *pages, int begin, pid_t pid, int children, struct err *err);
/**
 * pageown_expect() - program @name, found as a shell would, is started next: what its code's table
 * takes is not lost then.
 */
void pageown_expect(struct pageown *pages, const char *name);
void pageown_unfollow(struct pageown *pages, pid_t pid);

/**
 * pageown_start() - from here on a thread takes in what the kernel tells, at once. pageown_stop()
 * ends it, as pageown_free() does.
 */
int pageown_start(struct pageown *pages, struct err *err);
void pageown_stop(struct pageown *pages);

/** pageown_fd() - becomes readable when pageown_poll() has something to do. */
int pageown_fd(const struct pageown *pages);
/**
 * pageown_poll() - hand over what became of processes since the last call; before pageown_start(),
 * take in what the kernel told, too. Does not wait. @event may be NULL; it may call anything here.
 */
int pageown_poll(struct pageown *pages, void (*event)(void *ctx, const struct pageown_event *event),
		 void *ctx, struct err *err);

/**
 * pageown_read() - walk the page tables of all that is followed. Some 13 ms a resident GiB of 4 KiB
 * pages; the targets are not stopped. Processes that ended stay with their last reading. Return: a
 * new shot, put by the caller.
 */
int pageown_read(struct pageown *pages, struct page_shot **shot, struct err *err);
/**
 * pageown_name() - look the names of @frames up, some of which may be named or come again; the
 * first time of a file opens it.
 */
void pageown_name(struct pageown *pages, const struct page_frame *const *frames, size_t count);
/**
 * pageown_resolve() - the same of all rows in @shot; @live: and of what its processes caused and
 * nobody has mapped.
 */
void pageown_resolve(struct pageown *pages, const struct page_shot *shot, int live);
/** pageown_resolve_all() - of all stacks that were ever in a shot. */
void pageown_resolve_all(struct pageown *pages);

/** pageown_count() - processes that are followed and have not ended. */
size_t pageown_count(struct pageown *pages);
/** pageown_pids() - of the first @max of them. Return: how many. */
size_t pageown_pids(struct pageown *pages, pid_t *pids, size_t max);
/** pageown_follows() - 1 if @pid is one of them. */
int pageown_follows(struct pageown *pages, pid_t pid);

/** What was found and what it takes; for `check`, tests and benchmarks. */
struct pageown_info {
	/* by enum wire_pages_counter */
	uint64_t counters[16];
	/* events that the kernel skipped */
	uint64_t missed;
	uint64_t owner_bytes, kernel_bytes;
	uint32_t stacks, stacks_max, verified_instructions_max;
	uint64_t pool_words, pool_words_max;
	/* for unwind tables, bytes */
	uint64_t table_room;
	/* files whose table found no room */
	uint32_t tables_left_out;
	/* what this kernel tells */
	int migration, faults, each_rss_change;
	/* while kernel.bpf_stats_enabled is set */
	uint64_t runs, run_ns;
};
int pageown_info(struct pageown *pages, struct pageown_info *info, struct err *err);

/**
 * pageown_drop_privileges() - of this thread and its own: all but what opening the page tables of
 * processes to come needs.
 */
int pageown_drop_privileges(struct pageown *pages, struct err *err);
/** pageown_detach() - end all programs; the owner table stays readable until pageown_free(). */
void pageown_detach(struct pageown *pages);

#endif
