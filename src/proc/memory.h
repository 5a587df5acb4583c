/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - a foreign address space as the allocator readers see it: bytes, and which pages are
 * resident. A process (memory_of_process), or an image that a test made up. Nothing here reads a
 * page that is not resident: the kernel would map a file's page into the target, or swap in what
 * was swapped out, and wherever a pointer leads is the target's word.
 */
#ifndef PROC_MEMORY_H
#define PROC_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/smaps.h"
#include "proc/target.h"

struct memory_run {
	uint64_t start, end;
};

/**
 * struct memory_work - what a reading may still cost, all its readers together: a byte copied is 1,
 * a system call MEMORY_CALL, and whoever goes through a foreign table says so with memory_spend().
 * Foreign tables may be made to lead a reader around for hours; what the reading of a sound heap
 * costs goes with how much of it is resident.
 */
struct memory_work {
	uint64_t left;
	/*
	 * more was asked for than was left: from then on nothing can be read, nothing is resident
	 */
	int spent;
};
#define MEMORY_CALL 2048u /* a system call takes as long as copying so much */

#define MEMORY_STRETCH_PAGES 512u
#define MEMORY_STRETCHES 512u
/**
 * struct memory_there - pages that were resident when their stretch was looked at: most readings
 * lie close to an earlier one, and asking the kernel each time would cost as much as the reading.
 * That a page is not there is never remembered. Zeroed: empty.
 */
struct memory_there {
	/* its number, plus 1 */
	uint64_t stretch[MEMORY_STRETCHES];
	uint64_t looked_ns[MEMORY_STRETCHES];
	uint64_t pages[MEMORY_STRETCHES][MEMORY_STRETCH_PAGES / 64];
};

struct memory {
	void *ctx;
	uint64_t page_bytes;
	/**
	 * Copy the pieces in order; bytes copied until the first failure, or negative errno. At
	 * most 64 pieces.
	 */
	ssize_t (*read)(void *ctx, const struct target_piece *pieces, unsigned count);
	/**
	 * Resident runs inside [start, end), in order, at most @max; their number, or negative
	 * errno (unknown).
	 */
	ssize_t (*resident)(void *ctx, uint64_t start, uint64_t end, struct memory_run *runs,
			    size_t max);
	/** The caller works without a reading for a while; NULL: nothing is to be done. */
	void (*think)(void *ctx);
	/* NULL: the kernel is asked at every reading */
	struct memory_there *there;
	/* NULL: no bound */
	struct memory_work *work;
	/* of data that several readers look through; NULL: each reads it */
	struct scan_copies *copies;
};

/** struct memory_process - a process as a struct memory; @target and @pages are lent. */
struct memory_process {
	const struct target *target;
	struct pages *pages;
	struct memory_there there;
	/* the longest that the target's mmap() may have waited for a reading */
	uint64_t stall_ns;
};
/**
 * memory_of_process() - fill @memory to read @process, which has target and pages; both stay with
 * the caller.
 */
void memory_of_process(struct memory *memory, struct memory_process *process);

/** memory_spend() - @cost more of the work; 0, or -E2BIG once it is spent. */
static inline int memory_spend(const struct memory *memory, uint64_t cost)
{
	struct memory_work *work = memory->work;
	if (!work)
		return 0;
	if (work->spent || work->left < cost)
		work->spent = 1;
	else
		work->left -= cost;
	return work->spent ? -E2BIG : 0;
}

/**
 * memory_think() - before work of more than a few milliseconds without a reading, such as sorting
 * what was read: the thread goes before no others (turns.h) meanwhile.
 */
static inline void memory_think(const struct memory *memory)
{
	if (memory->think)
		memory->think(memory->ctx);
}

static inline int memory_is_spent(const struct memory *memory)
{
	return memory->work && memory->work->spent;
}

/**
 * memory_read_pieces() - what @memory reads, as a part of the work: bytes copied until the first
 * failure, or negative errno. A piece that is not resident as a whole is a failure, -EFAULT if it
 * is the first.
 */
ssize_t memory_read_pieces(const struct memory *memory, const struct target_piece *pieces,
			   unsigned count);

/**
 * memory_read() - exactly @len bytes; 0, or -EFAULT where they are not all resident, or another
 * negative errno.
 */
int memory_read(const struct memory *memory, uint64_t addr, void *to, size_t len);

/**
 * memory_read_resident() - like memory_read(), but pages that are not resident come as zeroes:
 * files' pages that nobody has looked at yet must not become part of the target's RSS because we
 * look.
 */
int memory_read_resident(const struct memory *memory, uint64_t addr, void *to, size_t len);

#define MEMORY_SLICE (4ull << 20)
#define MEMORY_SLICE_RUNS 1024 /* a slice of 4 KiB pages has no more */
/**
 * struct memory_pages - residency of a slice or more at a time, asked for in rising order: O(1)
 * amortised. Zero-initialised but for @memory.
 */
struct memory_pages {
	const struct memory *memory;
	/* what is known */
	uint64_t start, end;
	size_t count, at;
	struct memory_run runs[MEMORY_SLICE_RUNS];
};
/** memory_resident() - resident bytes of [@start, @end). */
uint64_t memory_resident(struct memory_pages *pages, uint64_t start, uint64_t end);
/**
 * memory_resident_from() - the first resident address from @start on; @end where there is none
 * before it.
 */
uint64_t memory_resident_from(struct memory_pages *pages, uint64_t start, uint64_t end);

#define MEMORY_WINDOW_PAGES 32
#define MEMORY_WINDOW_ASK_MAX 4096 /* memory_window_at() lends at most so much at once */
/**
 * struct memory_window - a sliding copy, for walks in rising order. Only resident pages are copied
 * ahead.
 */
struct memory_window {
	const struct memory *memory;
	struct memory_pages pages;
	/* what the copy covers; nothing is copied at or beyond @limit */
	uint64_t start, limit;
	/* bytes from @start */
	uint64_t len;
	/* bit per page: copied */
	uint32_t valid;
	unsigned page_shift;
	uint64_t copied_bytes;
	/* MEMORY_WINDOW_PAGES pages */
	char *bytes;
};
/** memory_window_init() - -ENOMEM without memory. Release with memory_window_fini(). */
int memory_window_init(struct memory_window *window, const struct memory *memory);
void memory_window_fini(struct memory_window *window);
/** memory_window_begin() - forget the copy; the walk will not need anything at or beyond @limit. */
void memory_window_begin(struct memory_window *window, uint64_t limit);
/** memory_window_fetch() - the slow half of memory_window_at(). */
const void *memory_window_fetch(struct memory_window *window, uint64_t addr, size_t len);

/**
 * memory_window_at() - @len bytes at @addr, lent until the next call; NULL where they cannot be
 * read.
 */
static inline const void *memory_window_at(struct memory_window *window, uint64_t addr, size_t len)
{
	uint64_t off = addr - window->start;
	if (off < window->len && window->len - off >= len) {
		uint64_t first = off >> window->page_shift,
			 last = (off + len - 1) >> window->page_shift;
		if ((window->valid >> first & 1) && (window->valid >> last & 1) &&
		    last - first <= 1)
			return window->bytes + off;
	}
	return memory_window_fetch(window, addr, len);
}

#endif
