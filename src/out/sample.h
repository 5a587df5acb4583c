/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - what a sampler found, as text, JSON and CSV. */
#ifndef OUT_SAMPLE_H
#define OUT_SAMPLE_H

#include <regex.h>
#include <stdio.h>

#include "base/err.h"
#include "model/samples.h"

enum out_sample_order {
	SAMPLE_BY_TRAFFIC = 0,
	SAMPLE_BY_COUNT,
	SAMPLE_BY_LIVE,
	SAMPLE_BY_GROWTH,
	SAMPLE_BY_TEMPORARY,
	SAMPLE_BY_PEAK
};

struct out_sample_opt {
	enum out_sample_order order;
	/* 0 = all */
	size_t top;
	int ascending;
	/* text: rows of a few samples, too */
	int all;
	/* text: a line a stack, no histograms */
	int screen;
	/* below either of these a row is left out */
	uint64_t skip_bytes, skip_count;
	/* some frame's name matches; NULL = any */
	const regex_t *stack_regex;
	int width, ascii, colour;
	/* the text is about what is outstanding */
	int has_live;
	/* with its single blocks */
	int show_allocs;
};

/**
 * struct sample_pick - the rows that are shown, in order. sample_pick() makes it, free() its rows.
 */
struct sample_pick {
	struct sample_row **rows;
	size_t count;
	/* left out for their few samples */
	size_t few;
	double few_bytes;
	/* by the filters */
	size_t skipped;
	/* behind the top ones */
	size_t beyond;
	/* live, and none of it for as long as is asked for */
	size_t young;
};
/** sample_pick() - @pid 0: of all processes. @prof: samples_prof() of the same, with names. */
int sample_pick(const struct samples *samples, const struct prof *prof, uint32_t pid,
		const struct out_sample_opt *opt, struct sample_pick *pick, struct err *err);

/**
 * struct sample_partial - samples whose stack ends early, by enum stack_stop; and those of which
 * not even the caller is known.
 */
struct sample_partial {
	uint64_t by_reason[STACK_STOP_MAX], events;
	uint64_t no_caller, no_caller_by[STACK_STOP_MAX];
};
/** sample_partial() - over all rows that are not inside of others. @pid 0: of all. */
void sample_partial(const struct samples *samples, uint32_t pid, struct sample_partial *partial);
/** sample_sums() - over all rows that are not inside of others. @pid 0: of all. */
void sample_sums(const struct samples *samples, uint32_t pid, struct sample_figures *sums);

int out_sample_text(FILE *to, const struct samples *samples, const struct prof *prof,
		    const struct out_sample_opt *opt, struct err *err);
/** out_sample_json() - one object and a line's end. Rows are not limited but by @opt->top. */
int out_sample_json(FILE *to, struct samples *samples, const struct prof *prof,
		    const struct out_sample_opt *opt, struct err *err);
/** out_sample_csv() - one row a stack; with @flat one row for each size of a stack. */
int out_sample_csv(FILE *to, const struct samples *samples, const struct prof *prof,
		   const struct out_sample_opt *opt, int flat, struct err *err);
/** out_sample_table() - the same into the file @path. */
int out_sample_table(const char *path, const struct samples *samples, const struct prof *prof,
		     const struct out_sample_opt *opt, int flat, struct err *err);
/**
 * out_sample_flames() - a flame graph at @path, by what is ordered by, and one of each cost beside
 * it: PATH-by-traffic.svg ...
 */
int out_sample_flames(const char *path, struct prof *prof, enum out_sample_order order,
		      int has_live, struct err *err);
/** out_sample_fit() - width, ascii and colour of @opt: what the place of the text can show. */
void out_sample_fit(FILE *to, struct out_sample_opt *opt);
/** out_sample_screen() - the moment on a terminal of @rows lines, over the last one. */
int out_sample_screen(FILE *to, const struct samples *samples, const struct prof *prof,
		      const struct out_sample_opt *how, size_t rows, struct err *err);

#endif
