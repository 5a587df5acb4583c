/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions_page.h - a reading of mappings in the layout that was asked for: text, JSON or CSV; by
 * group, as a difference, as others had it.
 */
#ifndef OUT_REGIONS_PAGE_H
#define OUT_REGIONS_PAGE_H

#include "out/regions.h"
#include "out/regions_diff.h"

enum out_regions_format { OUT_REGIONS_TEXT, OUT_REGIONS_JSON, OUT_REGIONS_CSV };

struct out_regions_page {
	enum out_regions_format format;
	/* of text; of the others its top, all and sort */
	struct regions_text_opt how;
	/* the older layout, as text */
	int compat;
	enum regions_group group;
	/* what is told is the difference; NULL: none */
	const struct regions_base *base;
	uint64_t age_ns;
	/* the process has ended since */
	int before_end;
	/* CSV begins with its heading */
	int header;
};
/** out_regions_page() - 0; negative errno with @err, not of writing. */
int out_regions_page(FILE *to, const struct breakdown *b, const struct out_regions_page *page,
		     struct err *err);
/** out_ledger_page() - several processes as one, called @title. */
int out_ledger_page(FILE *to, const struct ledger *ledger, const char *title, int json,
		    const struct regions_text_opt *how, struct err *err);
/**
 * out_ledger_screen() - the same as a table in a series: @after_ns since the first (0: is not
 * told); @rows: over the one before, on a terminal of so many lines, of which it takes one less at
 * most, those among them that @how's width breaks; 0: in a file, @apart from the one before.
 */
int out_ledger_screen(FILE *to, const struct ledger *ledger, const char *title, size_t rows,
		      uint64_t after_ns, int apart, const struct regions_text_opt *how,
		      struct err *err);

#endif
