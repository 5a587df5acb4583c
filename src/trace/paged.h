/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paged.h - PAGES blocks: one reading of resident pages by call stack, or the names of the frames
 * of all of them. Private to trace/; docs/format.md is normative.
 */
#ifndef TRACE_PAGED_H
#define TRACE_PAGED_H

#include "model/pages.h"
#include "trace/block.h"

enum paged_col {
	PGC_HEAD = 0, /* numbers that there are once, and how many rows each list has */
	PGC_TEXT = 1,
	PGC_MODULES = 2,
	PGC_FRAMES = 3,
	PGC_NODES = 4, /* a prefix tree of stacks, outermost frames first */
	PGC_ROWS = 5,
	PGC_SYMBOLS = 6,
};

/* ---- writing --------------------------------------------------------------------------------- */

/** struct paged_names - frames in files of readings that were written, to be named in the end. */
struct paged_names {
	/* by their number; NULL: in none */
	const struct page_frame **frames;
	uint32_t room;
};
void paged_names_fini(struct paged_names *names);

/**
 * paged_encode() - the columns of a reading of @process; @shot is what it is part of, @zero_ns
 * CLOCK_MONOTONIC of the recording's time 0. Its frames are noted in @names, whose numbers they
 * have. 0 or -ENOMEM.
 */
int paged_encode(struct blt_cols *cols, const struct page_shot *shot,
		 const struct page_process *process, uint64_t zero_ns, struct paged_names *names);
/**
 * paged_encode_names() - of frames from number *@from on, until the block is large enough; *@from
 * moves on. 0 or -ENOMEM.
 */
int paged_encode_names(struct blt_cols *cols, const struct paged_names *names, uint32_t *from,
		       uint32_t *count);

/* ---- reading --------------------------------------------------------------------------------- */

/**
 * struct paged_home - modules, frames and stacks of all readings of one recording: equal ones have
 * one address.
 */
struct paged_home;
struct paged_home *paged_home_new(void);
struct paged_home *paged_home_get(struct paged_home *home);
void paged_home_put(struct paged_home *home);
/** paged_decode() - a reading; it holds @home. NULL with *@rc -EBADMSG or -ENOMEM. */
struct page_shot *paged_decode(struct paged_home *home, const struct blt_view *view, int *rc);
/**
 * paged_decode_names() - enter names into @home, of frames that are there, too. 0, -EBADMSG or
 * -ENOMEM.
 */
int paged_decode_names(struct paged_home *home, const struct blt_view *view);
/** paged_time() - of a reading; UINT64_MAX where it is none. */
uint64_t paged_time(const struct blt_view *view, uint64_t *rss_bytes);

#endif
