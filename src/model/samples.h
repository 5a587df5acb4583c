/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples.h - what a sampler of allocations has found: rows by process and stack, each an estimate
 * with its error, how its live bytes went over time, and what the sampler itself cost and lost. One
 * writer; plain reads in between.
 */
#ifndef MODEL_SAMPLES_H
#define MODEL_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/intern.h"
#include "model/prof.h"

#define SAMPLES_SIZES 48 /* powers of two */
#define SAMPLES_LIVES 32 /* powers of two of 1024 ns */
#define SAMPLES_PAST_MAX 128
#define SAMPLES_BLOCKS_MAX 1000u /* of a row */

/** struct sample_figures - estimates; all but `taken` are weighed. */
struct sample_figures {
	/* samples */
	uint64_t taken;
	double count, bytes;
	double live_count, live_bytes;
	/* standard errors */
	double error_bytes, error_count, live_error_bytes;
	double freed_bytes, freed_count, temporary_count;
	/* CLOCK_MONOTONIC of the last sample */
	uint64_t last_ns;
	/* counts by floor(log2(size)) */
	double size[SAMPLES_SIZES];
	/* bytes by lifetime, of what was freed */
	double life[SAMPLES_LIVES];
};

/** struct sample_ages - of what is live, from the single blocks; sums are weighed. */
struct sample_ages {
	/* by age */
	double bytes[SAMPLES_LIVES];
	double older_bytes, older_count;
	uint64_t oldest_ns, median_ns;
};

/** struct sample_block - one that was taken and is live. */
struct sample_block {
	uint64_t addr, bytes, time_ns;
	double stands_for;
};

struct sample_past {
	uint64_t time_ns;
	double live_bytes, error_bytes;
};

/**
 * struct sample_spread - what a figure's windows differ by. Of the epoch that is open: what its
 * windows saw, what their draws add, and what each stands for, squared, and times its weights by
 * work and by time.
 */
struct sample_spread {
	double seen, draws, squares, crossed_work, crossed_time;
	/* variances of the epochs before: of the draws, and of their windows */
	double drawn, between;
	/* what may be wrong with all scales alike */
	double unsure;
};

enum sample_verdict {
	SAMPLE_UNKNOWN = 0, /* frees were not followed, or too little was seen */
	SAMPLE_TEMPORARY,
	SAMPLE_STEADY, /* as much comes as goes */
	SAMPLE_STARTUP,
	SAMPLE_PLATEAU,
	SAMPLE_SAWTOOTH,
	SAMPLE_GROWING,
};

struct sample_frame {
	/* 0 = code of no file */
	uint32_t module;
	/*
	 * ELF virtual address; of code of no file the address itself. Of the call, not what follows
	 * it
	 */
	uint64_t offset;
	uint64_t addr;
};
struct sample_module {
	const char *path;
	uint8_t build_id[32];
	uint8_t build_id_len;
};

struct sample_row {
	/* the sampler's own name for it; 0 = no stack */
	uint64_t stack;
	uint32_t pid;
	/* first of its frame numbers in samples.frame_list, innermost first */
	uint32_t frames;
	uint16_t frame_count;
	/* enum stack_stop */
	uint8_t stop;
	/* inside of another function that is counted */
	uint8_t hidden;
	/* estimates */
	struct sample_figures now;
	/* as the kernel counts */
	struct sample_figures raw;
	/*
	 * Of the epochs before; of this one's windows, each times what it stands for; and what was
	 * there when the last window or epoch ended, as the kernel counts.
	 */
	struct sample_figures *base, *open, *mark;
	/* what came in the last epoch, to be told of what follows it; or NULL */
	struct sample_figures *last;
	struct sample_spread bytes_spread, count_spread;
	struct sample_ages ages;
	/* where samples.keep_blocks; as of the last reading */
	struct sample_block *blocks;
	uint32_t block_count, blocks_more;
	/* the most that readings have seen */
	double peak_live_bytes;
	/* SAMPLES_PAST_MAX, or NULL */
	struct sample_past *past;
	uint32_t past_count, past_skip, past_seen;
	enum sample_verdict verdict;
	/* of a growing one; 95 % */
	double growth_bytes_per_s, growth_error;
	double score;
	/* in the prof that samples_prof() made last */
	struct stack_id prof_stack;
};

struct sample_function {
	uint32_t pid;
	const char *module, *name;
	uint64_t offset, bytes, site;
	/* the sampler's */
	uint32_t number;
	/* "emulated", "stepped" */
	const char *kind;
	int is_free;
	uint64_t calls;
};

struct sample_process {
	uint32_t pid;
	const char *exe;
	char tier[64];
	int ended;
};

struct sample_loss {
	const char *reason;
	uint64_t count;
};

struct samples {
	struct sample_row *rows;
	size_t row_count, row_cap;
	/* 0 is none */
	struct sample_frame *frames;
	size_t frame_count, frame_cap;
	uint32_t *frame_list;
	size_t frame_list_count, frame_list_cap;
	/* 0 is none */
	struct sample_module *modules;
	size_t module_count;
	struct sample_function *functions;
	size_t function_count;
	struct sample_process *processes;
	size_t process_count;
	struct idtab row_tab, frame_tab;
	struct intern names;

	/* frees are followed */
	int tracked;
	/* single live blocks are kept, too */
	int keep_blocks;
	uint64_t sample_bytes, sample_every;
	/* CLOCK_MONOTONIC */
	uint64_t start_ns, now_ns;
	uint64_t start_realtime_ns;
	struct sample_loss lost[16];
	unsigned lost_count;
	uint64_t older_ns;
	/* what it costs */
	double ns_per_hit, hits_per_second, cpu_fraction, budget, emulated_ns, stepped_ns;
	uint64_t hits, kernel_bytes;
	/*
	 * What a window sees stands for @times as much, for the time since the one before; @mean of
	 * this epoch's. All that an epoch sees stands for @scale times as much again.
	 */
	double times, mean, scale;
	/* relative; of many scales wrong alike */
	double scale_error;
	/* windows of this epoch: how many, their weights, the squares and products of these */
	double windows, work, time, work_squares, time_squares, work_times;
	/* samples_epoch() keeps what came since the epoch began, for samples_again() */
	int keeps_last;
	/* how far what is told goes with the work that windows saw; as for the rest, with time */
	double by_work;
	/* for how long they were open, of the time before them */
	double before;
	/*
	 * What no window of this epoch met may have gone on as before: @missed times as much as
	 * came until then; @heard is the part of the windows that say it did not.
	 */
	double missed, heard;
	/* share of the time in which allocations are seen; 1 = always */
	double duty;
	/* samples_doubt(): errors reach to all that there may be, as parts of what is told */
	int bounded;
	double doubt;
	/* CPU time that the probes of a started program may take beside the budget, once */
	double given_ns;
	/* what was spent beyond the budget at most; it is earned back before more is spent */
	double overdrawn_ns;
	/* what was done to keep to the budget; "" = nothing */
	char governed[256];
};

struct samples *samples_new(struct err *err);
void samples_free(struct samples *samples);

/** samples_row() - the row of that stack, NULL where it is not known yet. O(1). */
struct sample_row *samples_row(const struct samples *samples, uint32_t pid, uint64_t stack);
/**
 * samples_add_row() - a new one. @frames: @count places, innermost first, numbered by
 * samples_frame(). NULL without memory.
 */
struct sample_row *samples_add_row(struct samples *samples, uint32_t pid, uint64_t stack,
				   const uint32_t *frames, size_t count, uint8_t stop);
/**
 * samples_frame() - the number of a place in code; 0 without memory. @module: samples_module()'s.
 */
uint32_t samples_frame(struct samples *samples, uint32_t module, uint64_t offset, uint64_t addr);
/** samples_module() - the number of a file; @path NULL: 0. */
uint32_t samples_module(struct samples *samples, const char *path, const uint8_t *build_id,
			uint8_t build_id_len);
struct sample_process *samples_process(struct samples *samples, uint32_t pid);
struct sample_process *samples_add_process(struct samples *samples, uint32_t pid, const char *exe);
/**
 * samples_rename_process() - it runs another program now, by exec. Return: 1 where that is another
 * one than before.
 */
int samples_rename_process(struct samples *samples, uint32_t pid, const char *exe);
/** samples_add_function() - strings are copied; equal ones of a process once. */
struct sample_function *samples_add_function(struct samples *samples,
					     const struct sample_function *function);

/** samples_add_block() - SAMPLES_BLOCKS_MAX of a row are kept, the others counted. */
void samples_add_block(struct sample_row *row, const struct sample_block *block);
/** samples_scale() - row->now from row->raw. */
void samples_scale(const struct samples *samples, struct sample_row *row);
/**
 * samples_window() - a window of this epoch ends that weighs @work beside the others where calls
 * go with work, and @time where they go with that; and stands for samples->times as much as it saw.
 * Rows have been read just now. -ENOMEM.
 */
int samples_window(struct samples *samples, double work, double time, struct err *err);
/**
 * samples_epoch() - from now on another scale: what was seen until here keeps its own. Rows have
 * been read just now. -ENOMEM.
 */
int samples_epoch(struct samples *samples, struct err *err);

/**
 * samples_again() - what came in the epoch before, kept there, stands for @times as much of this
 * one, as a window does; once. @work and @time: of what it stands for. -ENOMEM.
 */
int samples_again(struct samples *samples, double times, double work, double time, struct err *err);

/** samples_unsure() - the part of a row's errors that all rows share: @bytes and @count of it. */
void samples_unsure(const struct samples *samples, const struct sample_row *row, double *bytes,
		    double *count);
/** samples_are_least() - of what was seen nothing is known but that there was at least so much. */
int samples_are_least(const struct samples *samples);
/**
 * samples_go_on() - @missed_ns more of which nothing was seen, taken to be like the @seen_ns before
 * it, all of which is settled; but for @unsure of it. Of time, or of work.
 */
void samples_go_on(struct samples *samples, double seen_ns, double missed_ns, double unsure);

/**
 * samples_doubt() - @calls more or less, of all rows alike, as a standard error; 0: none any more.
 * Instead of what was doubted before.
 */
void samples_doubt(struct samples *samples, double calls);

/** samples_mark() - an interval ends at @now_ns: every row notes what is live. */
void samples_mark(struct samples *samples, uint64_t now_ns);

/**
 * samples_prof() - the rows as a reading, of which all other formats can be made: allocations and
 * bytes as estimated, what is live as leaked and as peak. @pid 0: of all processes. Return:
 * prof_free() it; NULL with @err.
 */
struct prof *samples_prof(struct samples *samples, uint32_t pid, struct err *err);

const char *sample_verdict_name(enum sample_verdict verdict);

#endif
