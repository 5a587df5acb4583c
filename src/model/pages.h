/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - a reading of resident pages: every page of some processes on exactly one line, by call
 * stack or by the reason why there is none. Made by source/pageown.h, read by view, out and api;
 * nothing in it changes once it is made.
 *
 * Frames are shared by all readings of one source and live as long as that, stacks as long as
 * somebody refers to them.
 */
#ifndef MODEL_PAGES_H
#define MODEL_PAGES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/event.h"

/**
 * What a page is to the process that it is counted for. The first three add up to RSS; the others
 * stand beside it.
 */
enum pages_kind {
	PAGES_ANON,    /* RssAnon */
	PAGES_SHMEM,   /* RssShmem: shared anonymous, memfd, tmpfs, SysV */
	PAGES_FILE,    /* RssFile: mapped pages of files */
	PAGES_SWAP,    /* anonymous memory that is swapped out */
	PAGES_HUGETLB, /* from the pool of huge pages */
	PAGES_CACHE,   /* page cache that this process caused and nobody here has mapped */
	/* the kernel's own, caused by this process: page tables, slab, pipes, sockets */
	PAGES_KERNEL,
	/*
	 * neither mapped nor cache, and not freed: tmpfs files, parts of split huge pages,
	 * children's copies
	 */
	PAGES_HELD,
	PAGES_KINDS
};
/** pages_kind_name() - "anon", "shmem" ...: the words of JSON and options; NULL beyond. */
const char *pages_kind_name(unsigned kind);
/** pages_kinds_parse() - "anon,shmem" as bits, 1 << kind. -EINVAL. */
int pages_kinds_parse(const char *text, uint32_t *kinds, struct err *err);

/** Why a resident page has no stack. */
enum page_reason {
	PAGES_KNOWN,         /* it has one */
	PAGES_BEFORE_ATTACH, /* was there when this process was taken up */
	/*
	 * no allocation for this process was seen: another task wrote into it, or the kernel on its
	 * own
	 */
	PAGES_OTHER_TASK,
	PAGES_NOT_SEEN,   /* of a file, mapped without a fault that was seen */
	PAGES_TABLE_FULL, /* the kernel's table of stacks was full */
	PAGES_WALK_BUSY,  /* no room to walk the stack in at that moment */
	/* allocated by a thread of the kernel's own making, or the stack could not be read */
	PAGES_NO_FRAMES,
	PAGES_POOL, /* taken from the pool of huge pages, of which no allocation tells */
	PAGES_REASONS
};
const char *page_reason_name(unsigned reason);
/** page_reason_text() - the same in words for people. */
const char *page_reason_text(unsigned reason);

/** struct page_module - a file with code; unique by path and build id. */
struct page_module {
	/* "" = code of no file */
	const char *path;
	/* base name, or "[jit]" */
	const char *name;
	uint8_t build_id[32];
	uint8_t build_id_len;
};

/** struct page_frame - a place in code. */
struct page_frame {
	const struct page_module *module;
	/*
	 * return address - 1, as ELF virtual address of the module; absolute where its path is ""
	 */
	uint64_t offset;
	/* of the return address itself (of the exact one where it is none) */
	uint64_t file_offset;
	/* innermost first; NULL: none, or not asked yet */
	_Atomic(const struct symbol *) symbols;
	_Atomic uint32_t symbol_count;
	/* of those in files, dense, from 0; in a recording of all */
	uint32_t number;
	/* its maker's: by how many stacks that count */
	_Atomic uint32_t held;
};

/** struct page_stack - innermost first. */
struct page_stack {
	atomic_int refs;
	/* whose it is */
	pid_t pid;
	/* execs of that process before */
	uint32_t epoch;
	/* CLOCK_MONOTONIC */
	uint64_t first_ns;
	/* its main executable; NULL = unknown */
	const struct page_module *program;
	/* dense, from 0 */
	uint32_t number;
	/* its maker's: how much was known of mappings when its frames were looked up */
	uint32_t known_at;
	uint16_t count;
	/* enum wire_stop */
	uint8_t stop;
	/* its frames know that it holds them */
	uint8_t counts;
	const struct page_frame *frames[];
};

/**
 * struct page_row - pages of one stack, or without one for one reason, of one kind, in mappings of
 * one name.
 */
struct page_row {
	uint64_t bytes;
	/* a reference of the row's; NULL: none, @reason says why */
	const struct page_stack *stack;
	/* enum pages_kind */
	uint8_t kind;
	/* enum page_reason */
	uint8_t reason;
	/* mappings of that name, as `regions` calls them; NULL: no mapping. The row's own */
	const char *label;
};

struct page_stack *page_stack_get(const struct page_stack *stack);
void page_stack_put(const struct page_stack *stack);

#define PAGES_UNKNOWN UINT64_MAX

/**
 * struct page_live - what one stack of the process caused and nobody has freed, whoever has it
 * mapped: anonymous and shared memory, page cache, the kernel's own. @stack is a reference; NULL
 * where it could not be told.
 */
struct page_live {
	const struct page_stack *stack;
	uint64_t anon_bytes, cache_bytes, kernel_bytes;
};

/** struct page_process - one process. */
struct page_process {
	pid_t pid;
	/* its last reading, @age_ns old */
	int ended;
	char exe[512], comm[32];
	/* arguments separated by NUL; may be NULL */
	char *cmdline;
	size_t cmdline_bytes;
	/* CLOCK_MONOTONIC of the end of the walk */
	uint64_t time_ns;
	/* how long it took: pages that changed meanwhile may be counted as they were */
	uint64_t walk_ns;
	uint64_t rss_bytes, attributed_bytes;
	uint64_t kinds[PAGES_KINDS];
	/* of RSS */
	uint64_t unattributed[PAGES_REASONS];
	/* the kernel's own figures, read beside; PAGES_UNKNOWN where it does not say */
	uint64_t smaps_rss_bytes, status_rss_bytes, rss_anon_bytes, rss_file_bytes, rss_shmem_bytes,
		swap_bytes, hugetlb_bytes;
	/* largest first, by kind */
	struct page_row *rows;
	size_t row_count;
	/* it ran already when it was taken up */
	int was_late;
	struct page_live *live;
	size_t live_count;
};

enum page_loss {
	PAGES_LOST_STACKS,    /* captures that found the table of stacks full */
	PAGES_LOST_FRAMES,    /* ... that of their frames */
	PAGES_LOST_BUSY,      /* ... no scratch memory */
	PAGES_LOST_MOVES,     /* migrations whose page lost its owner */
	PAGES_LOST_EVENTS,    /* ends, forks and execs of processes that were not told */
	PAGES_LOST_PROCESSES, /* children that found no room */
	PAGES_LOST_WINDOWS,
	PAGES_LOST_MEMORY, /* pages beyond the end of the owner table */
	PAGES_LOST_MISSED, /* events that the kernel skipped, as it was inside the same program */
	PAGES_LOSSES
};
const char *page_loss_name(unsigned loss);

/** struct page_shot - one reading of all processes; shared by reference. */
struct page_shot {
	atomic_int refs;
	uint64_t time_ns, realtime_ns;
	uint64_t lost[PAGES_LOSSES];
	/* in the order in which they were taken up; shared with other shots */
	struct page_process **processes;
	size_t count;
	/*
	 * All that live together, pages that several have mapped counted once: no pid, no checks.
	 * NULL where there is one alone, or in a recording.
	 */
	struct page_process *group;
	/* what the kernel side takes */
	uint64_t kernel_bytes;
	uint32_t stacks, stacks_max;
	/* by migration, with their owner */
	uint64_t moved_pages;
	/* owners that nobody was seen to free, cleared since */
	uint64_t stale_pages;
	/*
	 * of a shot that was read from a recording: what its frames and stacks live in, let go last
	 */
	void *home;
	void (*leave)(void *home);
};

struct page_shot *page_shot_get(struct page_shot *shot);
void page_shot_put(struct page_shot *shot);
void page_shot_putp(struct page_shot **shot);
/** page_shot_find() - the process with that id, else NULL; 0: the first. */
const struct page_process *page_shot_find(const struct page_shot *shot, pid_t pid);

struct page_process *page_process_new(void);
struct page_process *page_process_get(struct page_process *process);
void page_process_put(struct page_process *process);

#endif
