/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - one fact, the definitions it refers to, and the sink that takes both.
 *
 * Sources make events (source/heap.c from rings, trace/reader.c from a file, source/heaptrack.c
 * from a foreign file); sinks take them (trace/writer.c, model/prof.c, query/). Everything is named
 * by dense numbers which the producer gives out from 0 or 1 upwards, and which are defined before
 * their first use.
 */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stack_id {
	/* 0 = the empty, complete stack (root) */
	uint32_t v;
};
struct frame_id {
	uint32_t v;
};
struct module_id {
	/* 0 = no module (JIT code, unknown) */
	uint32_t v;
};
/*
 * Comment of a process whose recording holds samples alone: all that is said of it is an estimate.
 */
#define PROF_SAMPLER "sample"
/* ... and here that it ran before, so that what it had by then is not in the books */
#define PROF_ATTACHED "heap -p"
/* ... and here that it stands for several (query/merge.h) */
#define PROF_MERGED "merge"
/* exit status of one that was attached to: the recording has ended, and the process has not */
#define PROF_WENT_ON (-2)
#define THREADS_FURTHER "(further threads)"
struct thread_id {
	/* dense, from 0 in order of first event */
	uint32_t v;
};
struct block_id {
	/* dense number of a live block, reused after its free; BLOCK_NONE = none */
	uint32_t v;
};
#define BLOCK_NONE 0xffffffffu
#define SAMPLE_BYTES_MAX (1u << 30)
#define EVENT_TIME_MAX_NS (UINT64_MAX / 4) /* 146 years: sums of times cannot overflow */

enum event_kind {
	/*
	 * addr, bytes = requested size, stack = who asked, block = number given to it (not live
	 * before)
	 */
	EVENT_ALLOC = 1,
	/*
	 * addr; bytes, stack, block = those of the allocation; aux_stack = who freed (0 where not
	 * recorded)
	 */
	EVENT_FREE = 2,
	/* addr: a free of a block never seen */
	EVENT_FREE_FOREIGN = 3,
	/*
	 * address space: addr, bytes, stack; value = prot | flags << 32 (0 where EVENT_F_REALLOC is
	 * set)
	 */
	EVENT_MAP = 4,
	EVENT_UNMAP = 5,
	EVENT_BRK = 6, /* addr = the new break, stack */
	/*
	 * process timeline: bytes = RSS, addr = virtual size, value = peak RSS (VmHWM) so far; all
	 * in bytes
	 */
	EVENT_RSS = 7,
	EVENT_MARK = 8, /* value */
	/*
	 * value = enum loss_reason, bytes = bytes of lost allocations, addr = lost allocations,
	 * block.v = lost frees (saturating); all three 0: frees that were counted before were lost
	 * here, at the latest
	 */
	EVENT_LOST = 9,
	EVENT_SWITCH = 10, /* value 1 = on, 0 = off */
	EVENT_THREAD_END = 11,
	/*
	 * the process is the child of a fork: value = its parent's pid; block.v = 1: its first
	 * allocations, EVENT_F_INHERITED, are the parent's blocks of that moment, addr in number,
	 * bytes in size; 0: those are not known
	 */
	EVENT_FORKED = 12,
	/*
	 * blocks that were freed so soon that a recording leaves them out, since the last such
	 * event: addr in number, bytes in size, block.v of them temporary; stack, thread = who
	 * asked; value = class of lifetime and largest size (cull.h)
	 */
	EVENT_CULLED = 13,
	/*
	 * blocks that a filter leaves out of the recording, since the last such event: addr in
	 * number, bytes in size, value of such that were freed (sieve.h); with EVENT_F_INHERITED:
	 * blocks of before
	 */
	EVENT_FILTERED = 14,
	/*
	 * what the EVENT_RSS before it consists of, read with it: addr = pages of files, bytes =
	 * shared memory, the rest of RSS is anonymous; value = swapped out, beside it; all in bytes
	 */
	EVENT_RESIDENT = 15,
	EVENT_KIND_MAX = 16
};

enum event_flag {
	EVENT_F_REALLOC =
		/*
		 * the free, and the allocation right after it by the same thread, are one realloc;
		 * UNMAP and MAP: one mremap, which keeps protection and flags
		 */
	1,
	EVENT_F_TEMPORARY =
		/*
		 * FREE: of this thread's last allocated block (docs/rules.md); set by the producer
		 */
	2,
	EVENT_F_UNCERTAIN =
		4, /* ALLOC: was live when a free was lost. Set on the closing pass only */
	EVENT_F_IMPLIED =
		/*
		 * FREE: nobody saw it (its record was lost); the address was given out again. Not a
		 * free that counts
		 */
	8,
	EVENT_F_INHERITED =
		/*
		 * ALLOC, FILTERED: the parent's, live when this process was forked from it, or the
		 * earlier file's
		 */
	8,
};

/** struct event - lives in the producer; a sink copies what it keeps. */
struct event {
	/* enum event_kind */
	uint8_t kind;
	/* enum event_flag */
	uint8_t flags;
	uint16_t reserved;
	struct thread_id thread;
	/* since the recording's start; never decreases within a sink */
	uint64_t time_ns;
	uint64_t addr;
	uint64_t bytes;
	uint64_t value;
	struct stack_id stack;
	struct stack_id aux_stack;
	struct block_id block;
	uint32_t reserved2;
};
_Static_assert(sizeof(struct event) == 56, "struct event");

/*
 * A stack whose walk ended early hangs below one of these frames' worth of reason; see wire/heap.h
 * enum wire_stop.
 */
enum stack_stop {
	STACK_COMPLETE = 0,
	STACK_STOP_GUESSED = 7, /* it ends where it should; code on the way was left on a guess */
	STACK_STOP_UNSAMPLED = 12, /* see process.sample_bytes */
	STACK_STOP_DAMAGED = 11,   /* its definition stood in a damaged stretch of the recording */
	STACK_STOP_MAX = 16        /* same numbers as enum wire_stop; names by stack_stop_name() */
};

enum def_kind {
	DEF_PROCESS = 1, /* once, first; again to update (exit status, end) */
	DEF_THREAD,
	DEF_MODULE,
	DEF_FRAME,
	DEF_STACK,
	DEF_SYMBOL, /* what a frame resolves to; may come any time after the frame */
	DEF_RULE, /* leaks that the program's own makers do not want to hear of; numbered from 1 */
};

/** One function at one place; for a frame with inlining there are several, innermost first. */
struct symbol {
	/* demangled; NULL = unknown */
	const char *function;
	/* NULL = unknown */
	const char *file;
	/* 0 = unknown */
	uint32_t line;
	/* 1 = inlined into the next one */
	uint8_t inlined;
	/* enum symbol_language: as the name was mangled; not stored in recordings */
	uint8_t language;
};
enum symbol_language { SYMBOL_PLAIN, SYMBOL_CPP, SYMBOL_RUST };

/** struct def - a definition; strings are lent for the call. */
struct def {
	enum def_kind kind;
	/* of the thing defined: thread, module, frame or stack number */
	uint32_t id;
	union {
		struct {
			uint32_t pid;
			/* cmdline: arguments separated by NUL, cmdline_bytes long */
			const char *exe, *cmdline;
			size_t cmdline_bytes;
			/* source name: "heap", "heaptrack", ... */
			const char *comment;
			/* wall clock of time 0 */
			uint64_t start_realtime_ns;
			uint64_t start_monotonic_ns;
			/* event times are exact to this */
			uint64_t time_bound_ns;
			/* 0 = not known to have ended */
			int ended;
			/* docs/rules.md */
			int complete;
			/* as waitpid() tells; -1 = unknown; PROF_WENT_ON */
			int exit_status;
			uint64_t runtime_ns;
			uint64_t peak_rss_bytes;
			/* objects that the library's table had no room for */
			uint32_t modules_nameless;
			/*
			 * Not 0: an allocation of s bytes (0 counts as 1) has a stack with
			 * probability 1 - exp(-s / sample_bytes); else it is STACK_STOP_UNSAMPLED
			 */
			uint64_t sample_bytes;
			/*
			 * what was recorded together: 0 = a recording for itself alone. Who started
			 * it: 0 = not known, or nobody of them
			 */
			uint64_t family;
			uint32_t parent_pid;
		} process;
		struct {
			uint32_t tid;
			/* THREADS_FURTHER with tid 0: many share this row */
			const char *name;
		} thread;
		struct {
			const char *path;
			uint8_t build_id[32];
			uint8_t build_id_len;
			/* as mapped in the process; 0 where not known (imports) */
			uint64_t bias, lo, hi;
		} module;
		struct {
			struct module_id module;
			/*
			 * return address - 1, as ELF virtual address of the module; absolute where
			 * module is 0
			 */
			uint64_t offset;
		} frame;
		struct {
			/* the caller's stack; always defined before, and smaller than id */
			struct stack_id parent;
			/* of the innermost call; ignored where stop != 0 */
			struct frame_id frame;
			/*
			 * != 0: not a frame, but the root of stacks that are partial for this
			 * reason; parent is 0
			 */
			uint8_t stop;
		} stack;
		/* id = frame */
		struct {
			/* innermost first */
			const struct symbol *symbols;
			uint32_t count;
		} symbol;
		struct {
			/* as view/suppress.h has them, without its "leak:" */
			const char *pattern;
		} rule;
	};
};

/**
 * struct sink - takes definitions and batches of events. Not thread-safe: one producer at a time.
 */
struct sink {
	/** Return: 0, or negative errno with @err filled; a producer stops at the first failure. */
	int (*define)(struct sink *sink, const struct def *def, struct err *err);
	int (*put)(struct sink *sink, const struct event *events, size_t count, struct err *err);
};

/** struct sink_tee - a sink that hands everything to several others, in order. */
struct sink_tee {
	struct sink sink;
	struct sink *to[4];
	size_t count;
};
void sink_tee_init(struct sink_tee *tee);
/** sink_tee_add() - up to four; returns -ENOSPC beyond. */
int sink_tee_add(struct sink_tee *tee, struct sink *to);

/**
 * stack_stop_name() - "gap", "no_module" ...: the keys of partial_stacks.by_reason; NULL for 0 or
 * unknown numbers.
 */
const char *stack_stop_name(unsigned stop);

/** Reasons for lost events; the first eight are wire/heap.h's enum wire_lost. */
enum loss_reason {
	LOSS_RING_FULL = 0,
	LOSS_NO_SLOT = 1,
	LOSS_NESTED = 2,
	LOSS_EARLY = 3,
	LOSS_SECCOMP = 4,
	LOSS_REGION = 5,        /* not of blocks: maps, unmaps, breaks */
	LOSS_RECORDER_DIED = 8, /* count unknown: what stood in rings that nobody read */
	LOSS_RING_DAMAGED = 9,  /* a ring broke a rule and was closed */
	LOSS_DISORDER = 10,     /* contradictions the merge could not resolve in its time */
	LOSS_FILE_DAMAGED = 11, /* a damaged stretch of the recording was skipped */
	LOSS_WRITE_FAILED = 12, /* disk full or I/O error */
	LOSS_NO_MEMORY =
		13, /* the recorder got none and gave up; count unknown: all from there on */
	LOSS_REASON_MAX = 16
};
/** loss_reason_name() - "ring_full" ...: the keys of lost.by_reason; NULL for unknown numbers. */
const char *loss_reason_name(unsigned reason);

#endif
