/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - a breakdown as text: byteledger's own page for people, and the layout that existing
 * scripts know. Names are escaped: no terminal acts on them.
 */
#ifndef PROC_TEXT_H
#define PROC_TEXT_H

/*
 * A circle of files: groups and verdicts are parts of the page with its options, and the page has
 * them as parts.
 */

#include "base/buf.h"
#include "proc/breakdown.h"

enum regions_sort {
	REGIONS_BY_RSS,
	REGIONS_BY_PSS,
	REGIONS_BY_SWAP,
	REGIONS_BY_VIRTUAL,
	REGIONS_BY_GROWTH /* of the label: needs growth */
};

struct regions_text_opt {
	/* columns; 0 = 100 */
	int width;
	/* terminal colours */
	int colour;
	/* nothing beyond ASCII */
	int ascii;
	/* all sizes in bytes */
	int raw;
	/* mappings to list; 0 = none */
	size_t top;
	/* every mapping with RSS, swap or huge pages */
	int all;
	/* no "... 12 more" */
	int all_labels;
	/* of several processes: no line of the cgroup */
	int brief;
	enum regions_sort sort;
	/* of each row of classes, bytes of RSS since some time; NULL: not known */
	const int64_t *growth;
};

/**
 * regions_text() - the page: sums, classes with their labels, threads, allocators, the largest
 * mappings.
 */
void regions_text(struct buf *to, const struct breakdown *b, const struct regions_text_opt *opt);
/** The parts of it, for pages that are grouped otherwise. */
void regions_text_head(struct buf *to, const struct breakdown *b,
		       const struct regions_text_opt *opt);
void regions_text_classes(struct buf *to, const struct breakdown *b,
			  const struct regions_text_opt *opt);
void regions_text_threads(struct buf *to, const struct breakdown *b,
			  const struct regions_text_opt *opt);
void regions_text_allocators(struct buf *to, const struct breakdown *b,
			     const struct regions_text_opt *opt);
void regions_text_mappings(struct buf *to, const struct breakdown *b,
			   const struct regions_text_opt *opt);

/**
 * regions_compat() - the layout of Teranode's analyzer, in whole MB, from correct figures: `grep
 * "RSS (Resident)" | awk '{print $3}'` goes on working. @title: of the table of mappings, "Top 20
 * Memory Regions" or "All Memory Regions".
 */
void regions_compat(struct buf *to, const struct breakdown *b, size_t top, const char *title);

/**
 * regions_order() - pointers to the kept mappings, largest by @sort first, ties by RSS and address;
 * malloc'd, NULL without memory.
 * @growth: as in struct regions_text_opt, for REGIONS_BY_GROWTH alone.
 */
const struct region **regions_order(const struct breakdown *b, enum regions_sort sort,
				    const int64_t *growth);

#endif
