/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - a reading of resident pages for machines and for people. Frames have to be named
 * before.
 */
#ifndef OUT_PAGES_H
#define OUT_PAGES_H

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "model/pages.h"
#include "view/pages.h"

/**
 * out_pages_json() - {"version":1,"processes":[...]} as a value of @json. @now_ns: CLOCK_MONOTONIC,
 * for ages.
 */
void out_pages_json(struct jsonw *json, const struct page_shot *shot, uint64_t now_ns);

/**
 * out_pages_process() - one of them as a value of @json, under @key where it is part of an object.
 */
void out_pages_process(struct jsonw *json, const char *key, const struct page_shot *shot,
		       const struct page_process *process, uint64_t now_ns);

struct out_pages_opt {
	struct pages_tree_opt tree;
	/* columns; 0 = 100 */
	int width;
	/* nothing beyond ASCII */
	int ascii;
	/* at most so many; 0 = all */
	size_t lines;
	uint64_t now_ns;
	/* the process has ended since it was read, then; 0: it has not, or the reading knows */
	uint64_t ended_ns;
	/*
	 * instead of what is there, what came since an earlier reading: of the same process, NULL
	 * where it was not there yet
	 */
	int since;
	const struct page_process *then;
	/* how much earlier that was; 0: there is none yet */
	uint64_t since_ns;
};
/** out_pages_text() - the process and its tree, a node a line. */
int out_pages_text(struct buf *to, const struct page_shot *shot, const struct page_process *process,
		   const struct out_pages_opt *opt, struct err *err);

/**
 * out_pages_since() - with opt->since: what @process is compared with is its reading in @then, the
 * youngest that is old enough, else the oldest; NULL: there is none yet.
 */
void out_pages_since(struct out_pages_opt *opt, const struct page_shot *shot,
		     const struct page_shot *then, const struct page_process *process);
/**
 * out_pages_screen() - the processes of @shot over what a terminal of @terminal_rows lines showed
 * before.
 */
int out_pages_screen(struct buf *to, const struct page_shot *shot, const struct page_shot *then,
		     const struct out_pages_opt *how, size_t terminal_rows, struct err *err);
/**
 * out_pages_brief() - a line a function, the largest of opt->lines (0: 8); of a recorded reading.
 */
int out_pages_brief(struct buf *to, const struct page_process *process,
		    const struct out_pages_opt *opt, struct err *err);

struct out_opt;
/** out_pages_below() - a blank line and the same, behind a report; nothing where @shot is NULL. */
int out_pages_below(FILE *to, const struct page_shot *shot, const struct out_opt *opt,
		    struct err *err);

/** out_pages_lost() - "lost":{events,by_reason} of a shot. */
void out_pages_lost(struct jsonw *json, const struct page_shot *shot);

#endif
