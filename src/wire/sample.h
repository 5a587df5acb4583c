/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample.h - what the kernel side of the allocation sampler and its loader share: how a probe is
 * told what it is on, the table of chances, and what is kept of each stack and each block.
 *
 * Estimates: an allocation of s bytes is taken with a chance c (chance / 2^32) and stands for 1 / c
 * of its kind, s / c bytes. The chance that decides is the one that weighs, so that rounding in the
 * table makes no bias.
 */
#ifndef WIRE_SAMPLE_H
#define WIRE_SAMPLE_H

#include <stdint.h>

#define WIRE_SAMPLE_FRAMES_MAX 120 /* an entry of the table of stacks fits into 1 KiB with them */
#define WIRE_SAMPLE_FUNCTIONS_MAX 256

/*
 * A probe's cookie: what it is on.
 *
 *   bits  0..3   register of the size, enum wire_sample_reg
 *   bits  4..7   register that the size is to be multiplied with
 *   bits  8..11  register of the block (free), the old one (realloc), the result (memalign)
 *   bits 12..15  register of the alignment: up to 16 the call is another probed function's
 *   bits 16..23  enum wire_sample_flag
 *   bits 32..47  number of the function
 *   bits 48..59  where in its page the probe stands
 */
#define WIRE_SAMPLE_PLACE_SHIFT 48
enum wire_sample_reg {
	WIRE_SAMPLE_DI = 0,
	WIRE_SAMPLE_SI = 1,
	WIRE_SAMPLE_DX = 2,
	WIRE_SAMPLE_CX = 3,
	WIRE_SAMPLE_R8 = 4,
	WIRE_SAMPLE_R9 = 5,
	WIRE_SAMPLE_AX = 6,
	WIRE_SAMPLE_BX = 7,
	WIRE_SAMPLE_NONE = 15
};
enum wire_sample_flag {
	WIRE_SAMPLE_F_OLD_NULL_ELSEWHERE =
		1,                  /* realloc(NULL, n) is another probed function's call */
	WIRE_SAMPLE_F_STORED = 2,   /* the block is at *(old register) when the result is 0 */
	WIRE_SAMPLE_F_IN_PLACE = 4, /* xallocx: the result is a size, the block stays */
	WIRE_SAMPLE_F_HOOK =
		/*
		 * the allocator's own sampling: every call is one that it has drawn, by the table's
		 * chances
		 */
	8,
	WIRE_SAMPLE_F_WEIGHED =
		/*
		 * a hook that says itself, in the multiplier's register, for how many bytes its
		 * sample stands
		 */
	16,
	WIRE_SAMPLE_F_COUNTER =
		32, /* jemalloc's event: the register points to which counter passed its mark */
};
#define WIRE_SAMPLE_COOKIE(size, times, old, align, flags, number)          \
	((uint64_t)(size) | (uint64_t)(times) << 4 | (uint64_t)(old) << 8 | \
	 (uint64_t)(align) << 12 | (uint64_t)(flags) << 16 | (uint64_t)(number) << 32)

/*
 * Chances by size: in steps of 16 bytes below 16 KiB, four to a power of two up to 2^34. From there
 * on all are taken. 0xffffffff = taken always.
 */
#define WIRE_SAMPLE_STEP_SHIFT 4
#define WIRE_SAMPLE_STEPS 1024
#define WIRE_SAMPLE_STEPS_LOG2 14
#define WIRE_SAMPLE_CHANCES 1104 /* steps, and four for each of 2^14 .. 2^33 */
#define WIRE_SAMPLE_ALWAYS 0xffffffffu

struct wire_sample_chances {
	/* WIRE_SAMPLE_CHANCES of them; a power of two for the verifier */
	uint32_t v[2048];
};

#define WIRE_SAMPLE_SIZES 48 /* powers of two; the last holds what is larger */
#define WIRE_SAMPLE_LIVES 32 /* powers of two of 1024 ns */

struct wire_sample_row_key {
	/* hash of its frames; 0 = no stack */
	uint64_t stack;
	uint32_t pid, reserved;
};

/**
 * What is known of one stack of one process. Counts are in 1/65536, of estimates. All but `taken`
 * are weighed.
 */
struct wire_sample_row {
	uint64_t taken;
	uint64_t count, bytes;
	uint64_t freed_count, freed_bytes;
	/* of bytes, >> 2 * square_shift */
	uint64_t variance_bytes;
	/* of counts, << 8 >> 2 * count_shift */
	uint64_t variance_count;
	/* of what is live, as variance_bytes */
	uint64_t live_variance_bytes;
	/* counts: freed as the thread's last taken block, or within 1 ms */
	uint64_t temporary;
	uint64_t last_ns;
	/* number of the one that was called */
	uint64_t function;
	uint64_t reserved[3];
	/* counts by floor(log2(size)) */
	uint64_t size[WIRE_SAMPLE_SIZES];
	/* bytes by lifetime of what was freed */
	uint64_t life[WIRE_SAMPLE_LIVES];
};
_Static_assert(sizeof(struct wire_sample_row) == 8 * (14 + 48 + 32), "wire_sample_row");

/** The frames of a stack; "addresses after" as in wire/stack.h. */
struct wire_sample_stack {
	uint16_t count;
	uint8_t stop, guessed;
	uint32_t reserved;
	uint64_t frame[WIRE_SAMPLE_FRAMES_MAX];
};

struct wire_sample_live_key {
	uint64_t addr;
	uint32_t pid, reserved;
};
struct wire_sample_live {
	uint64_t bytes, time_ns;
	uint64_t stack;
	uint32_t chance;
	uint32_t tid;
};
_Static_assert(sizeof(struct wire_sample_live) == 32, "wire_sample_live");

/** Between the entry and the return of a call that was taken; by thread. */
struct wire_sample_pending {
	/* at entry: the stack pointer, and the return address there */
	uint64_t sp, caller;
	uint64_t bytes, time_ns, stack;
	/* 0: not drawn, waits for the fate of the old block only */
	uint32_t chance;
	uint32_t pid;
	/* of the result, posix_memalign */
	uint64_t place;
	/* of a block that was live; 0 = none */
	uint64_t old_addr;
	uint64_t cookie;
	struct wire_sample_live old;
};

/*
 * The kernel's own allocations: what a stack begins with, twice (the first frame is the allocator's
 * own), is one of these or the address of a slab cache, whose name is kept; the kernel's frames
 * follow. Numbers of functions, too.
 */
#define WIRE_SAMPLE_KERNEL_FRAMES 2
enum wire_sample_kernel {
	WIRE_SAMPLE_KMALLOC = 0,
	WIRE_SAMPLE_SLAB = 1,
	WIRE_SAMPLE_PAGES = 2,
	WIRE_SAMPLE_PERCPU = 3,
	WIRE_SAMPLE_KFREE = 4,
	WIRE_SAMPLE_SLAB_FREE = 5,
	WIRE_SAMPLE_PAGES_FREE = 6,
	WIRE_SAMPLE_PERCPU_FREE = 7,
	WIRE_SAMPLE_KERNEL_MAX = 8
};
struct wire_sample_cache {
	char name[48];
};

/** Where a static probe's argument stands: see sym/usdt.h. */
enum wire_sample_arg_kind {
	WIRE_SAMPLE_ARG_CONSTANT = 0,
	WIRE_SAMPLE_ARG_REGISTER = 1,
	WIRE_SAMPLE_ARG_MEMORY = 2
};
#define WIRE_SAMPLE_SLOTS 21 /* words of struct pt_regs, of which @reg is one */
struct wire_sample_arg {
	uint8_t kind, reg, bytes, reserved[5];
	uint64_t value;
};
/** otel_memory: the block, its size, for how many bytes it stands. */
struct wire_sample_usdt {
	struct wire_sample_arg arg[3];
	uint32_t is_free, reserved;
};
_Static_assert(sizeof(struct wire_sample_usdt) == 56, "wire_sample_usdt");

/** An event, where they are asked for: what was taken, and the end of what was taken. */
enum wire_sample_event_kind { WIRE_SAMPLE_ALLOC = 1, WIRE_SAMPLE_FREE = 2 };
struct wire_sample_event {
	uint64_t time_ns, addr, bytes, stack;
	uint32_t pid, tid;
	uint32_t kind, chance;
};

#define WIRE_SAMPLE_SLICES 16 /* by powers of two of calls in 1024 us, of which 0 has none */
#define WIRE_SAMPLE_SLICE_NS 1000000

/**
 * What the processes did while a window was open, of one CPU. Threads that call an allocator are
 * callers. A caller that sleeps of its own will has done all that there was to do for it: what the
 * probes held up is made good by then.
 */
struct wire_sample_activity {
	/* that the others are of */
	uint32_t window;
	/* the thread that was noted as one last; 0: none since a switch */
	uint32_t caller;
	/* that what runs now has run, or the window is open */
	uint64_t since_ns;
	/* of the processes */
	uint64_t run_ns;
	/* of callers */
	uint64_t sleeps;
	/* callers that were made to wait here, less those that went on here */
	int64_t waiting;
	/* the sum of when they were set to work */
	int64_t waiting_ns;
	/* a caller that was at work when the window ended, and since when */
	uint64_t running, running_ns;
	/*
	 * how long callers ran, in microseconds, and the sum of the squares of each one's: how many
	 * share the work
	 */
	uint64_t called_us;
	int64_t called_squares;
	/* of called_us: threads that ended, which are not in the squares */
	uint64_t ended_us;
	/* that callers were made to wait, until they went on */
	uint64_t waited_ns;
	/*
	 * of a clock that runs with them: those that met them at work of their own, and in a probe
	 * or on the way in or out
	 */
	uint64_t own_ticks, probe_ticks;
	/* of the probe that was met last */
	uint64_t place;
	/* the piece of time that runs: since when, and its calls */
	uint64_t slice_ns, slice_hits;
	/* pieces of about a millisecond, by how often they call */
	struct wire_sample_slice {
		uint64_t hits, run_ns;
	} slice[WIRE_SAMPLE_SLICES];
};
_Static_assert(sizeof(struct wire_sample_activity) == 392, "wire_sample_activity");
enum { WIRE_SAMPLE_CALL_WAITS = 1, WIRE_SAMPLE_MULTI_WAITS = 2 };
#define WIRE_SAMPLE_CALLERS_MAX 4096
#define WIRE_SAMPLE_CALLER_WINDOWS 40 /* for so many it counts as one that calls */
struct wire_sample_caller {
	uint32_t window, waits;
	/* since when it is at work; 0: not seen to be */
	uint64_t awake_ns;
	/* when it was made to wait */
	uint64_t left_ns;
	uint64_t run_us;
	/* the last window in which a clock met it */
	uint32_t ticked, reserved;
};

/** Where a thread may stand that is in a probe, or comes out of one: by address. */
enum wire_sample_place { WIRE_SAMPLE_PLACE_PROBE = 1, WIRE_SAMPLE_PLACE_BEHIND = 2 };
#define WIRE_SAMPLE_PLACES_MAX 4096
/**
 * What a probe's instruction leads to, from the probe on; 0: nothing. By number of the function.
 */
struct wire_sample_behind {
	int64_t v[2];
};

/** Counters of one CPU. */
enum wire_sample_counter {
	WIRE_SAMPLE_TAKEN = 0,
	WIRE_SAMPLE_FREES_KNOWN = 1,
	WIRE_SAMPLE_FILTERED = 2,  /* by size */
	WIRE_SAMPLE_NESTED = 3,    /* calls inside of a call that was taken */
	WIRE_SAMPLE_FAILED = 4,    /* taken, and the allocator had nothing to give */
	WIRE_SAMPLE_LOST_ROWS = 5, /* the table of rows is full: the sample counts in no row */
	WIRE_SAMPLE_LOST_STACKS =
		6, /* the table of stacks is full: it counts in the row without a stack */
	WIRE_SAMPLE_LOST_LIVE =
		7, /* the table of live blocks is full: it counts as allocated, never as live */
	WIRE_SAMPLE_LOST_PENDING = 8, /* no note could be made of a call that was taken */
	WIRE_SAMPLE_LOST_EVENTS = 9,  /* the ring was full */
	WIRE_SAMPLE_STACKLESS = 10,   /* no walk was possible */
	WIRE_SAMPLE_REPLACED = 11,    /* an address was given out again whose free nobody saw */
	WIRE_SAMPLE_STALE = 12, /* a return without its entry, an entry whose return never came */
	WIRE_SAMPLE_TAKEN_BYTES = 13, /* weighed, of what no row had room for */
	WIRE_SAMPLE_COUNTERS = 16
};

#endif
