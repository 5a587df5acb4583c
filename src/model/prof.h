/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prof.h - interned, append-only accumulation of a stream of events.
 *
 * A prof is a sink: definitions are interned (equal strings, modules, frames, stacks become one row
 * whatever number the producer gave them), block events add to their stack's counters. Cost of a
 * block event: one or two cache lines and no hash lookup. Memory grows with stacks, modules,
 * threads, symbols and live blocks (4 bytes each, only where there are several threads or after a
 * loss), never with events.
 *
 * Numbers: rows are the prof's own (what the accessors take); a producer's numbers are translated
 * by prof_*_row(). Thread rows are the producer's thread numbers.
 */
#ifndef MODEL_PROF_H
#define MODEL_PROF_H

#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "model/marks.h"

struct mapped;
struct prof;

/**
 * The counters of one stack (exclusive: blocks asked for by exactly this stack), or of a whole
 * reading.
 */
struct cost {
	uint64_t allocations, allocated_bytes;
	uint64_t frees;
	uint64_t temporary;
	/* live at the end of the reading */
	uint64_t leaked, leaked_bytes;
	/* live bytes at the moment of the reading's global peak */
	uint64_t peak_bytes;
	uint64_t uncertain, uncertain_bytes;
	/* live blocks at that moment; prof_knows_peak_blocks() */
	uint64_t peak_blocks;
};

/**
 * sum_add() - add to a sum that stays at the largest number instead of beginning anew: crafted
 * files reach it.
 */
static inline void sum_add(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

/** cost_add() - add each column of @from to @to. */
void cost_add(struct cost *to, const struct cost *from);

struct prof *prof_new(struct err *err);
/**
 * prof_new_sums() - one that only counts, under the producer's numbers: no modules, frames, symbols
 * or names, and stacks that are equal but were numbered twice stay apart. For a recorder, whose
 * file is read by a whole one later: looking for equal stacks costs it more than all counting where
 * a program has hundreds of thousands.
 */
struct prof *prof_new_sums(struct err *err);
void prof_free(struct prof *prof);
void prof_freep(struct prof **prof);
/** prof_sink() - the sink that feeds this prof; belongs to it. */
struct sink *prof_sink(struct prof *prof);
/**
 * prof_symbol_sink() - a sink for DEF_SYMBOL alone whose ids are *frame rows*, not a producer's
 * numbers: what sym_resolve_prof() needs, which walks the rows. (Rows differ from the producer's
 * numbers where a module was loaded twice.) Belongs to @prof.
 */
struct sink *prof_symbol_sink(struct prof *prof);

/* ---- reading: plain accessors, valid while the prof lives; one thread ------------------------ */

struct prof_totals {
	/* sums; cost.peak_bytes is the global peak */
	struct cost cost;
	uint64_t foreign_frees;
	uint64_t peak_time_ns, runtime_ns;
	/*
	 * how many EVENT_ALLOC and EVENT_FREE had come when the peak was reached, its own included
	 */
	uint64_t peak_event;
	uint64_t peak_rss_bytes;
	uint64_t lost_events, lost_bytes;
	uint64_t lost[LOSS_REASON_MAX];
	/* EVENT_LOST by reason: more than 0 where lost[] is 0 = unknown number */
	uint64_t loss_reports[LOSS_REASON_MAX];
	/* allocations whose stack ended early, by reason */
	uint64_t partial[STACK_STOP_MAX];
	uint64_t culled_allocations, culled_bytes;
	/* in none of these numbers: what a filter left out of the recording */
	uint64_t filtered_allocations, filtered_bytes, filtered_frees;
	/* of those: blocks of before, as below */
	uint64_t filtered_inherited_allocations, filtered_inherited_bytes;
	/* of the allocations: blocks of the parent's, where the process is the child of a fork */
	uint64_t inherited_allocations, inherited_bytes;
	/* its parent; 0: it is none */
	uint32_t forked_from;
	/* 0: the parent's blocks are not known, frees of them count as foreign */
	uint32_t inherited_known;
	/* with at least one event; distinct allocation stacks */
	uint32_t threads, stacks;
};
void prof_totals(const struct prof *prof, struct prof_totals *totals);

/**
 * prof_suppress() - what @row leaked counts no longer: not in its costs, nor in the totals (threads
 * keep theirs). -ENOMEM.
 */
int prof_suppress(struct prof *prof, struct stack_id row, struct err *err);
/**
 * prof_knows_peak_blocks() - 0: the recording's summary was written before cost.peak_blocks were
 * counted.
 */
int prof_knows_peak_blocks(const struct prof *prof);
/**
 * prof_peaks_lack_culled() - 1: a replay, in which the blocks that were left out count in no peak.
 */
int prof_peaks_lack_culled(const struct prof *prof);
/**
 * prof_set_missed() - this is a selection that may lack @allocations blocks of @bytes which the
 * recording knows by their sums.
 */
void prof_set_missed(struct prof *prof, uint64_t allocations, uint64_t bytes);
/** prof_lacks_culled() - 1: the culled ones of prof_totals() are in none of its numbers. */
int prof_lacks_culled(const struct prof *prof);
/**
 * prof_threads_share() - 1: more threads had events than prof_totals() says, which share the row
 * THREADS_FURTHER.
 */
int prof_threads_share(const struct prof *prof);
/**
 * prof_set_estimates() - before the first event: what has no stack is left out of this reading (it
 * was selected by names), so that of a recording with sampled stacks all figures are estimates; the
 * moment of the peak is that of what has one.
 */
void prof_set_estimates(struct prof *prof);
/** prof_estimates() - 1: totals, threads and times are estimates, too. */
int prof_estimates(const struct prof *prof);
/** prof_peak_event() - of prof_totals(), alone: O(1). */
uint64_t prof_peak_event(const struct prof *prof);
/**
 * prof_set_culled() - before the totals are stored: this reading has all events, the recording
 * lacks @allocations blocks of
 * @bytes, and its peak lies behind @peak_event of those that it has.
 */
void prof_set_culled(struct prof *prof, uint64_t allocations, uint64_t bytes, uint64_t peak_event);

struct prof_process {
	uint32_t pid;
	const char *exe, *cmdline;
	size_t cmdline_bytes;
	const char *comment;
	uint64_t start_realtime_ns, start_monotonic_ns, time_bound_ns;
	int ended, complete, exit_status;
	uint32_t modules_nameless;
	/*
	 * Not 0: only some allocations have a stack (DEF_PROCESS). Totals, threads and the timeline
	 * are exact; what is said of a stack is an estimate, each allocation that has one standing
	 * for the 1 / (1 - exp(-s / sample_bytes)) of its size.
	 */
	uint64_t sample_bytes;
	/* DEF_PROCESS */
	uint64_t family;
	uint32_t parent_pid;
};
/** prof_process() - lent; NULL before DEF_PROCESS came. */
const struct prof_process *prof_process(const struct prof *prof);

struct prof_module {
	/* "" for module 0 */
	const char *path;
	/* base name */
	const char *name;
	uint8_t build_id[32];
	uint8_t build_id_len;
	uint64_t bias, lo, hi;
};
struct prof_frame {
	struct module_id module;
	uint64_t offset;
	/* innermost first; NULL until resolved */
	const struct symbol *symbols;
	uint32_t symbol_count;
};
/**
 * How much is known of a frame: nothing, the function alone (lines are looked for when they are
 * shown), or where in it.
 */
enum prof_knows { PROF_KNOWS_NOTHING, PROF_KNOWS_FUNCTION, PROF_KNOWS_LINES };
static inline enum prof_knows symbols_know(const struct symbol *symbols, uint32_t count)
{
	if (!symbols || !count)
		return PROF_KNOWS_NOTHING;
	return count == 1 && !symbols->file && !symbols->line ? PROF_KNOWS_FUNCTION
							      : PROF_KNOWS_LINES;
}
static inline enum prof_knows prof_frame_knows(const struct prof_frame *frame)
{
	return symbols_know(frame->symbols, frame->symbol_count);
}

struct prof_stack {
	/* smaller than its own number */
	struct stack_id parent;
	struct frame_id frame;
	/* != 0: a reason root, no frame */
	uint8_t stop;
	/* the reason root it hangs below; 0 = complete */
	uint8_t partial;
	/* frames; 65535 stands for more, too */
	uint16_t depth;
	/* the first one defined that it is the parent of; 0 = none */
	uint32_t first;
};
struct prof_thread {
	uint32_t tid;
	const char *name;
	struct cost cost;
	uint64_t events;
};

/*
 * Counts are one more than the largest number; row 0 of modules, frames and stacks is the empty
 * one.
 */
uint32_t prof_module_count(const struct prof *prof);
uint32_t prof_frame_count(const struct prof *prof);
uint32_t prof_stack_count(const struct prof *prof);
uint32_t prof_thread_count(const struct prof *prof);
const struct prof_module *prof_module(const struct prof *prof, struct module_id id);
const struct prof_frame *prof_frame(const struct prof *prof, struct frame_id id);
const struct prof_stack *prof_stack(const struct prof *prof, struct stack_id id);
const struct prof_thread *prof_thread(const struct prof *prof, struct thread_id id);
/**
 * prof_rule_count() - patterns of leaks that the recording itself wants suppressed (DEF_RULE); each
 * once, further ones are left out.
 */
#define PROF_RULES_MAX 1000u
uint32_t prof_rule_count(const struct prof *prof);
/** prof_rule() - the pattern with that @number, from 0; lent. */
const char *prof_rule(const struct prof *prof, uint32_t number);
/** prof_stack_cost() - exclusive counters of one stack at this moment; O(1). */
void prof_stack_cost(const struct prof *prof, struct stack_id id, struct cost *cost);
/**
 * prof_stack_used() - the first stack from @from on that has counters; prof_stack_count() where
 * there is none.
 */
uint32_t prof_stack_used(const struct prof *prof, uint32_t from);

enum prof_part { PROF_ANON, PROF_FILE, PROF_SHMEM, PROF_SWAP, PROF_PARTS };

/**
 * One point of the RSS and heap timeline; kept in a bounded array (neighbours are merged when it is
 * full).
 */
struct prof_point {
	/* of the last event in this stretch; the values below are those after it */
	uint64_t time_ns;
	/* 0 until the first EVENT_RSS */
	uint64_t rss_bytes;
	uint64_t virtual_bytes, heap_bytes;
	/* highest in the stretch, so that a short peak stays visible */
	uint64_t rss_max_bytes, heap_max_bytes;
	/* since the recording's start */
	uint64_t allocations, frees;
	/*
	 * what RSS consists of, and what is swapped out, with the highest in the stretch; all 0
	 * until the first EVENT_RESIDENT
	 */
	uint64_t part_bytes[PROF_PARTS], part_max_bytes[PROF_PARTS];
};
#define PROF_POINTS_MAX 2048
/**
 * prof_timeline() - at most PROF_POINTS_MAX points, ascending in time; lent until the next event.
 */
const struct prof_point *prof_timeline(const struct prof *prof, size_t *count);

/**
 * prof_marks() - moments that were marked; lent until the next event. prof_load_marks() - to
 * be filled by who loads a summary.
 */
const struct marks *prof_marks(const struct prof *prof);
struct marks *prof_load_marks(struct prof *prof);

/**
 * prof_mapped() - what the program mapped by itself (model/mapped.h), beside the heap and in none
 * of its figures; NULL: nothing, or a summary of before it was kept (prof_knows_mapped() is 0
 * then). Lent until the next event.
 */
const struct mapped *prof_mapped(const struct prof *prof);
int prof_knows_mapped(const struct prof *prof);

/**
 * prof_keep_live() - turn the reading into that of the blocks which are live now: allocations,
 * allocated and peak bytes become those of the live blocks, frees and temporary 0. For "what was
 * live at that moment"; no events after it. @peak_ns: when the last of these bytes were asked for.
 */
void prof_keep_live(struct prof *prof, uint64_t peak_ns);

/* ---- freezing: for model/snap.h -------------------------------------------------------------- */

/**
 * prof_freeze() - what @prof says now, to be read by any thread while events go on into @prof: a
 * prof that takes nothing, and that every accessor above takes. Its sums are those of its rows,
 * losses included. Called on the thread that feeds @prof. Strings and symbols are @prof's, which
 * lives on until the last of them is freed (prof_free() by any thread). Cost: some 110 bytes copied
 * a stack and its frame, 216 a thread, one pass over the stacks for the sums; the memory of one
 * that is gone is kept for the next. On a busy machine 6 ms for 100,000 stacks
 * (tests/prog/bench_snap.c). Return: release with prof_free(); NULL with @err: -ENOMEM, or -EINVAL
 * for one that only sums.
 */
struct prof *prof_freeze(const struct prof *prof, struct err *err);

/* ---- loading: for trace/summary.c, which restores a reading without replaying an event ------- */

/*
 * Rows by the number which the producer gave (the sink's numbers); O(1). Row 0 for a number that
 * was never defined. The writer asks for them to store counters under the recording's own numbers.
 */
struct stack_id prof_stack_row(const struct prof *prof, struct stack_id producer);
/**
 * prof_stack_next() - the first of the producer's numbers from @from on that events used; where
 * there is none, one beyond all. Of a reading that was loaded: @from, used or not.
 */
uint32_t prof_stack_next(const struct prof *prof, uint32_t from);
struct frame_id prof_frame_row(const struct prof *prof, struct frame_id producer);
struct thread_id prof_thread_row(const struct prof *prof, struct thread_id producer);
/**
 * prof_load_no_peak_blocks() - what is loaded holds none (prof_knows_peak_blocks()). prof_load_*()
 * - set counters to what a summary says; all definitions were handed to prof_sink() before. @row is
 * a row number; what is said about one stack several times adds up. Totals may be loaded before or
 * after the rows; they are taken as they are, but for the number of stacks. Return: 0, -EINVAL for
 * a row that does not exist, -ENOMEM; @err filled.
 */
void prof_load_no_peak_blocks(struct prof *prof);
/**
 * prof_load_no_mapped() - what is loaded says nothing of mappings. prof_load_mapped() - the books
 * of them, to be filled.
 */
void prof_load_no_mapped(struct prof *prof);
struct mapped *prof_load_mapped(struct prof *prof, struct err *err);
int prof_load_totals(struct prof *prof, const struct prof_totals *totals, struct err *err);
int prof_load_stack(struct prof *prof, struct stack_id row, const struct cost *cost,
		    struct err *err);
int prof_load_thread(struct prof *prof, struct thread_id row, const struct cost *cost,
		     uint64_t events, struct err *err);
int prof_load_timeline(struct prof *prof, const struct prof_point *points, size_t count,
		       struct err *err);

#endif
