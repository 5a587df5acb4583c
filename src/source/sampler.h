/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.h - allocations of running processes, sampled by probes: the loader of bpf/sample.bpf.c.
 *
 * Calls in order of use: new, add (each process), load, find and attach (each process), then poll
 * and read as long as wanted, detach, read once more, free. One thread at a time. Nothing stays
 * attached when the process that called ends, however it ends: every probe lives as long as a
 * descriptor.
 */
#ifndef SOURCE_SAMPLER_H
#define SOURCE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/sample.h"

struct sampler;

#define SAMPLER_BYTES 524288u /* one sample for so many */
#define SAMPLER_ROWS_MAX 16384u
#define SAMPLER_LIVE_MAX \
	196608u /* with the tables of rows and stacks below 64 MiB when all are full */

struct sampler_opt {
	/* 0 = SAMPLER_BYTES, SAMPLE_BYTES_MAX at most; 1 = all */
	uint64_t sample_bytes;
	/* not 0: one call in so many, of whatever size; at most 2^20 */
	uint32_t sample_every;
	/* inclusive; bytes_max 0 = no limit */
	uint64_t bytes_min, bytes_max;
	/* what is live is followed: frees are probed, too */
	int track;
	/* for sampler_events() */
	int events;
	/* for sampler_activity_*() */
	int windows;
	/*
	 * processes whose children are added, too: what stays in is by links of many probes, which
	 * go in a fraction of the time. Children that are not added pay for them.
	 */
	int family;
	/* as on kernels before 6.13 */
	int no_session;
	/* the kernel's own allocations, no process's */
	int kernel;
	/* of so many processes' system calls alone; 0: all */
	size_t kernel_pids;
	/* of this thread alone; 0: all */
	uint32_t tid;
	/* of threads of this name alone; NULL: all */
	const char *comm;
	/* 0 = the defaults */
	uint32_t rows_max, live_max;
	/* of unwind tables, as unwind_rows_new() */
	const char *cache_dir;
};

struct sampler *sampler_new(const struct sampler_opt *opt, struct err *err);
void sampler_free(struct sampler *sampler);
void sampler_freep(struct sampler **sampler);

/**
 * sampler_add() - be able to walk the stacks of process @pid; also after load. -ESRCH when it is
 * gone.
 */
int sampler_add(struct sampler *sampler, uint32_t pid, struct err *err);
/**
 * sampler_load() - size the tables, pass the verifier; the kernel's reason is in @err where it
 * refuses.
 */
int sampler_load(struct sampler *sampler, struct err *err);

/* ---- functions ------------------------------------------------------------------------------- */

enum sampler_site_kind { SAMPLER_EMULATED, SAMPLER_STEPPED, SAMPLER_NOP5 };

/** struct sampler_function - one function of one process that can be probed. */
struct sampler_function {
	/* path as mapped */
	char *module;
	/* as the file spells it */
	char *name;
	uint64_t vaddr, bytes;
	/* offset of the probe from the entry */
	uint64_t site;
	/* from the probe on: what its instruction leads to; 0 = nothing more */
	int64_t leads_to[2];
	/* place of the probe in the file */
	uint64_t file_at;
	enum sampler_site_kind kind;
	int is_free;
	/* called for what the allocator itself samples */
	int is_hook;
	/* without its number */
	uint64_t cookie;
	/* the file to attach to */
	char *attach;
	/* a static probe of the otel_memory contract: */
	int is_usdt;
	/* place in the file of what tells the program that somebody looks; 0 = none */
	uint64_t semaphore_at;
	struct wire_sample_usdt usdt;
	/* once attached */
	uint32_t number;
};
struct sampler_functions {
	struct sampler_function *all;
	size_t count;
	/*
	 * not 0: an allocator that samples by itself takes one for so many, so the sampler has to
	 * as well
	 */
	uint64_t hook_bytes;
};
void sampler_functions_fini(struct sampler_functions *functions);

struct sampler_want {
	/* functions of this file alone; NULL: of all that are mapped */
	const char *program;
	/*
	 * NAME, or NAME:SIZEARG or NAME:SIZEARG,TIMESARG (numbers from 0); NULL: every allocator's
	 */
	const char *function;
	/* one of sampler_allocators alone; NULL: all */
	const char *allocator;
	int track;
	/*
	 * every call is wanted, not what allocators sample by themselves: no hooks but Go's and
	 * HotSpot's
	 */
	int calls_only;
	/* also where a probe can stand on a nop of five bytes alone */
	int allow_nop5;
};
/** sampler_allocators - names that @allocator may have; ends with NULL. */
extern const char *const sampler_allocators[];

/**
 * sampler_find() - the functions of allocators that @pid has mapped, those that forward to another
 * one left out, each with the place where a probe costs least. @pid 0: of the file @want->program,
 * whoever maps it. Return: 0; -ENOENT with @err that says whether names were stripped and offers
 * those that come near; -ESRCH; -EINVAL.
 */
int sampler_find(uint32_t pid, const struct sampler_want *want, struct sampler_functions *functions,
		 struct err *err);
/** struct sampler_files - files of a process that were looked into. */
struct sampler_files;
void sampler_files_freep(struct sampler_files **files);
/**
 * sampler_find_more() - the same in what @pid has mapped and is not among *@files, which are those
 * of now afterwards. Nothing found is an error the first time alone, when *@files is NULL.
 */
int sampler_find_more(uint32_t pid, const struct sampler_want *want, struct sampler_files **files,
		      struct sampler_functions *functions, struct err *err);

/**
 * sampler_attach() - probe all of @functions, which are taken over, in @pid (0: in every process).
 * All or none.
 */
int sampler_attach(struct sampler *sampler, uint32_t pid, struct sampler_functions *functions,
		   struct err *err);
/**
 * sampler_kernel_attach() - watch the kernel's own allocations instead, those that @pids ask for
 * (0: all). Rows are of process 0; their second frame is what was asked for, of which
 * sampler_kernel_name() has the name, as it has of functions of the kernel.
 */
int sampler_kernel_attach(struct sampler *sampler, const uint32_t *pids, size_t count,
			  struct err *err);
/** sampler_kernel_name() - NULL = none; lent, or in @text. */
const char *sampler_kernel_name(struct sampler *sampler, uint64_t what, char *text, size_t bytes);
/**
 * sampler_nop5_is_safe() - whether forked children live where a probe stands on a nop of five
 * bytes: one is put on a function of ours, which is called, and called in a child. 1, 0, or
 * negative errno where that cannot be tried. 100 ms.
 */
int sampler_nop5_is_safe(struct sampler *sampler);
/**
 * sampler_forget() - processes that have ended: their tables go, and their probes, by a thread.
 * What was counted of them can still be read, but not where addresses were.
 */
void sampler_forget(struct sampler *sampler, const uint32_t *pids, size_t count);
/** sampler_detach() - end all probes; what was counted can still be read. */
void sampler_detach(struct sampler *sampler);
/**
 * sampler_hold() - from here on attach only notes what is to be probed: probes are put in by
 * sampler_resume(), which says what is refused.
 */
void sampler_hold(struct sampler *sampler);
/** sampler_pause() - take the probes away for a while. What is live is not followed then. */
void sampler_pause(struct sampler *sampler);
/**
 * sampler_resume() - put them back. @lasting: one link a probe, which forked children drop at their
 * first hit; else one for many, which is put in and out at once where the kernel has such.
 */
int sampler_resume(struct sampler *sampler, int lasting, struct err *err);
/**
 * sampler_keep() - those that are in for a window are to stay: links change, and no call is missed
 * meanwhile. Negative: nothing has changed; pause and resume them instead.
 */
int sampler_keep(struct sampler *sampler);
/**
 * sampler_quota() - once a CPU has seen so many calls sampler_wake_fd() is readable; 0: never.
 * sampler_woken() reads it empty, and says whether it was not.
 */
int sampler_quota(struct sampler *sampler, uint64_t calls, struct err *err);
int sampler_wake_fd(struct sampler *sampler);
int sampler_woken(struct sampler *sampler);
/**
 * sampler_switch() - 0: probes that are in count calls and take none; for what has no frees to
 * follow.
 */
void sampler_switch(struct sampler *sampler, int on);
/** struct sampler_activity - what the processes did in a window. */
struct sampler_activity {
	/* on all processors */
	double run_ns;
	/* of threads that call allocators: all that there was to do was done then */
	double sleeps;
	/* such threads, but for those that ended */
	double callers;
	/* that these ran */
	double ended_ns;
	/* of them, at work or made to wait when it ended */
	double pending;
	/* that they were made to wait for a processor, and went on */
	double waited_ns;
	/* for how long they had been by then, added up */
	double pending_ns;
	/* of a clock that ran with them: those that met them at work of their own, and in probes */
	double own_ticks, probe_ticks;
	/*
	 * CPU time: of threads that call; of them, those with a clock, and those that are known
	 * from the window before; of all with a clock, and of those that are known, calling or not
	 */
	double called_run_ns, covered_ns, known_called_ns, ticked_ns, known_run_ns;
	/* pieces of about a millisecond, by how often they called */
	struct {
		double hits, run_ns;
	} slice[WIRE_SAMPLE_SLICES];
};
/**
 * sampler_ticks_begin() - before a window's probes go in: a clock for the threads that called in
 * the last one, which ticks once in
 * @period_ns that they run. sampler_activity_begin() - a window is open from here on.
 * sampler_activity_take() - it has ended. Negative errno where the kernel
 * does not tell: both before 5.18. Some microseconds a processor. sampler_activity_end() - there
 * will be none for long.
 */
void sampler_ticks_begin(struct sampler *sampler, uint64_t period_ns);
int sampler_activity_begin(struct sampler *sampler);
int sampler_activity_take(struct sampler *sampler, struct sampler_activity *activity);
void sampler_activity_end(struct sampler *sampler);
/**
 * sampler_callers_mark() - a time without probes begins. sampler_callers_used() - CPU time that the
 * threads that called most in the last window have used since; those that ended are forgotten.
 * Negative: none is known.
 */
void sampler_callers_mark(struct sampler *sampler);
double sampler_callers_used(struct sampler *sampler);
/** sampler_set_bytes() - one sample for so many from now on; what was taken keeps its weight. */
int sampler_set_bytes(struct sampler *sampler, uint64_t sample_bytes, struct err *err);
/** sampler_functions_each() - those that are attached, by process. */
int sampler_functions_each(const struct sampler *sampler,
			   int (*fn)(void *ctx, uint32_t pid,
				     const struct sampler_function *function),
			   void *ctx);
/** sampler_has_session() - returns are trapped of calls that were taken only. */
int sampler_has_session(const struct sampler *sampler);

/* ---- reading --------------------------------------------------------------------------------- */

/**
 * sampler_poll() - publish code that was mapped meanwhile, and name the processes that did. Wants
 * to be called some times a second.
 */
void sampler_poll(struct sampler *sampler, void (*mapped)(void *ctx, uint32_t pid), void *ctx);
/** sampler_strangers() - processes that were met and were not added; at most @max. Forgets them. */
size_t sampler_strangers(struct sampler *sampler, uint32_t *pids, size_t max);

/** sampler_rows() - every row now. Nonzero of @row ends and is returned. */
int sampler_rows(struct sampler *sampler,
		 int (*row)(void *ctx, const struct wire_sample_row_key *key,
			    const struct wire_sample_row *row),
		 void *ctx, struct err *err);
/** sampler_stack() - the frames of a row; -ENOENT. */
int sampler_stack(struct sampler *sampler, uint64_t stack, struct wire_sample_stack *out);
/** sampler_live() - every block that was taken and is live now, in no order. */
int sampler_live(struct sampler *sampler,
		 int (*live)(void *ctx, const struct wire_sample_live_key *key,
			     const struct wire_sample_live *live),
		 void *ctx, struct err *err);
/** sampler_events() - what came into the ring since the last call. */
int sampler_events(struct sampler *sampler,
		   int (*event)(void *ctx, const struct wire_sample_event *event), void *ctx,
		   struct err *err);
/** sampler_counts() - by enum wire_sample_counter, all CPUs since load. */
int sampler_counts(struct sampler *sampler, uint64_t counts[WIRE_SAMPLE_COUNTERS], struct err *err);
/** sampler_hits() - calls of each function, by number; @hits has WIRE_SAMPLE_FUNCTIONS_MAX. */
int sampler_hits(struct sampler *sampler, uint64_t *hits, struct err *err);
/** sampler_deviation() - the square root of a row's variance: bytes, and counts. */
double sampler_deviation(const struct sampler *sampler, uint64_t variance_bytes);
double sampler_deviation_count(const struct sampler *sampler, uint64_t variance_count);

/**
 * struct sampler_spot - a place in code, as sym_resolve() wants it; lent until the next poll, add
 * or remove.
 */
struct sampler_spot {
	const char *path;
	const uint8_t *build_id;
	uint8_t build_id_len;
	uint64_t offset;
};
int sampler_locate(const struct sampler *sampler, uint32_t pid, uint64_t addr,
		   struct sampler_spot *spot);

/** struct sampler_cost - what the programs took. */
struct sampler_cost {
	/* of BPF, while its statistics are on */
	uint64_t runs, run_ns;
	/* calls of theirs inside of one of them, which the kernel leaves out */
	uint64_t missed;
	/* memory of the tables now */
	uint64_t kernel_bytes;
};
int sampler_cost(struct sampler *sampler, struct sampler_cost *cost, struct err *err);

/**
 * struct sampler_prices - nanoseconds a probe takes by itself on this machine, emulated and
 * stepped.
 */
struct sampler_prices {
	double emulated_ns, stepped_ns;
	/* of the clock of sampler_activity_begin(); 0: it cannot be had */
	double tick_ns;
};
/**
 * sampler_calibrate() - probe functions of our own for some ms. 0 or negative errno; cost: 100 ms,
 * most of them asleep.
 */
int sampler_calibrate(struct sampler *sampler, struct sampler_prices *prices, struct err *err);

#endif
