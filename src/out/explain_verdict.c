/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain_verdict.c - the sheet in plain words: what the program uses, what became of the rest, and
 * of how much it is not known. The terminal and the page say the same.
 */
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "out/explain_impl.h"

#define SMALL_PERCENT 1 /* of RSS */

const char *explain_mib(char to[TEXT_NUMBER_MAX], uint64_t bytes)
{
	snprintf(to, TEXT_NUMBER_MAX, "%.1f", (double)bytes / 1048576);
	return to;
}

int explain_is_small(const struct explain *e, uint64_t bytes)
{
	return bytes < e->sheet->rss_bytes / 100 * SMALL_PERCENT;
}

const char *explain_keeper(const struct explain *e)
{
	static const struct {
		const char *allocator, *name;
	} names[] = { { "glibc malloc", "glibc" },
		      { "jemalloc", "jemalloc" },
		      { "tcmalloc", "tcmalloc" },
		      { "mimalloc", "mimalloc" } };
	uint64_t most = 0;
	const char *best = "the allocator";
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t bytes = explain_line_bytes(e, SHEET_FREE_PAGES, names[i].allocator) +
				 explain_line_bytes(e, SHEET_HOLES, names[i].allocator) +
				 explain_line_bytes(e, SHEET_METADATA, names[i].allocator);
		if (bytes > most) {
			most = bytes;
			best = names[i].name;
		}
	}
	return best;
}

int explain_has_slabs(const struct explain *e)
{
	for (size_t i = 0; i < e->snapshot->unit_count; i++)
		if (e->snapshot->units[i].kind == SNAPSHOT_SLAB)
			return 1;
	return 0;
}

void out_explain_verdict(struct buf *to, const struct explain *e)
{
	const struct sheet *sheet = e->sheet;
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	uint64_t heap = sheet->class_bytes[SHEET_LIVE], objects = sheet->runtime_live_bytes,
		 unknown = 0;
	explain_not_walked(e, &objects, &unknown);
	uint64_t pages = sheet->class_bytes[SHEET_FREE_PAGES] + sheet->runtime_free_bytes,
		 holes = sheet->class_bytes[SHEET_HOLES] + sheet->runtime_hole_bytes;
	uint64_t pools = sheet->runtime_hole_bytes + sheet->runtime_free_bytes,
		 free_bytes = pages + holes;
	uint64_t uses =
		heap + objects + sheet->class_bytes[SHEET_MMAP] + sheet->class_bytes[SHEET_NAMED];
	char which[128] = "", c[TEXT_NUMBER_MAX], d[TEXT_NUMBER_MAX];
	if (objects && heap)
		snprintf(which, sizeof(which), ": %s by malloc, %s as objects of its runtime",
			 explain_mib(c, heap), explain_mib(d, objects));
	char sizes[6][48];
	const uint64_t bytes[6] = {
		uses,    free_bytes,
		pages,   holes,
		unknown, sheet->unexplained_bytes > 0 ? (uint64_t)sheet->unexplained_bytes : 0
	};
	for (unsigned i = 0; i < 6; i++)
		snprintf(sizes[i], sizeof(sizes[i]), "%s%s",
			 bytes[i] < 1u << 20 ? text_bytes(a, bytes[i]) : explain_mib(a, bytes[i]),
			 bytes[i] < 1u << 20 ? "" : " MiB");
	int both = pages && holes;
	const struct words_verdict words = {
		.uses = sizes[0],
		.of_which = which,
		.unknown = explain_is_small(e, bytes[4]) ? NULL : sizes[4],
		.mapped = explain_is_small(e, bytes[5]) ? NULL : sizes[5],
		.free = explain_is_small(e, free_bytes) ? NULL : sizes[1],
		.keeper = pools > free_bytes / 2                    ? "its runtime"
			  : strcmp(explain_keeper(e), "glibc") == 0 ? "malloc"
								    : explain_keeper(e),
		.at_once = both ? sizes[2] : NULL,
		.stuck = sizes[3],
		.in_slabs = explain_has_slabs(e),
	};
	words_verdict(to, &words);
	if (e->lost_events)
		buf_printf(to,
			   "\n%s events were lost: where the allocator says free, it is free (%s "
			   "blocks whose free was not seen)",
			   text_grouped(a, e->lost_events), text_grouped(b, sheet->dropped_blocks));
	if (e->behind)
		buf_printf(to, "\nThe recorder is behind: its newest events are not in this sheet. "
			       "Where the allocator says free, it is free.");
	if (e->unreadable)
		buf_printf(to,
			   "\n%zu %s of the recording cannot be read: a snapshot with more memory "
			   "may have stood there.",
			   e->unreadable, e->unreadable == 1 ? "place" : "places");
	if (e->peak_rss_bytes > sheet->rss_bytes + sheet->rss_bytes / 10)
		buf_printf(to,
			   "\nIts RSS was %s MiB at most. Of that moment there is no snapshot; "
			   "this one has the most memory.",
			   explain_mib(a, e->peak_rss_bytes));
	if (!e->recorded && e->why_not)
		buf_printf(to, "\n%s", e->why_not);
}
