/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconcile_map.c - where in the arenas what is used lies: a strip a mapping of an allocator's, cut
 * into equal cells.
 */
#include <stdlib.h>
#include <string.h>

#include "view/reconcile_impl.h"

static int is_mapped(const struct snapshot_region *r)
{
	return r->flags & SNAPSHOT_PAGED && r->rss_bytes &&
	       (r->flags & SNAPSHOT_ALLOCATOR || r->class == SHEET_RUNTIME);
}

/* The strip that holds least goes for one that holds more. */
static void keep(struct sheet *sheet, const struct sheet_strip *strip)
{
	unsigned least = 0;
	if (sheet->strip_count < SHEET_STRIPS) {
		sheet->strips[sheet->strip_count++] = *strip;
		return;
	}
	for (unsigned i = 1; i < SHEET_STRIPS; i++)
		if (sheet->strips[i].rss_bytes < sheet->strips[least].rss_bytes)
			least = i;
	if (sheet->strips[least].rss_bytes >= strip->rss_bytes)
		return;
	/* they stay in order of their addresses */
	memmove(&sheet->strips[least], &sheet->strips[least + 1],
		(SHEET_STRIPS - 1 - least) * sizeof(*strip));
	sheet->strips[SHEET_STRIPS - 1] = *strip;
}

int map_begin(struct merge *m)
{
	const struct snapshot *s = m->s;
	struct sheet *sheet = m->sheet;
	struct sheet_strip strip = { 0 };
	for (size_t i = 0; i < s->region_count; i++) {
		const struct snapshot_region *r = &s->regions[i];
		if (!is_mapped(r))
			continue;
		/* what advice or protection has cut is one all the same */
		if (strip.bytes && strip.start + strip.bytes == r->start &&
		    strcmp(strip.label, snapshot_string(s, r->label)) == 0) {
			strip.bytes += r->end - r->start;
			strip.rss_bytes += r->rss_bytes;
			continue;
		}
		if (strip.bytes)
			keep(sheet, &strip);
		strip = (struct sheet_strip){ .start = r->start,
					      .bytes = r->end - r->start,
					      .rss_bytes = r->rss_bytes,
					      .label = snapshot_string(s, r->label) };
	}
	if (strip.bytes)
		keep(sheet, &strip);
	for (unsigned i = 0; i < sheet->strip_count; i++) {
		struct sheet_strip *to = &sheet->strips[i];
		uint64_t share = (to->bytes + SHEET_CELLS - 1) / SHEET_CELLS;
		to->cell_bytes = (share + s->page_bytes - 1) / s->page_bytes * s->page_bytes;
		to->cell_count = (unsigned)((to->bytes + to->cell_bytes - 1) / to->cell_bytes);
		to->cells = calloc(to->cell_count, sizeof(*to->cells));
		if (!to->cells)
			return -1;
	}
	return 0;
}

/* Who has most of a cell, as far as one candidate tells: a majority is always found. */
static void vote(struct sheet_cell *cell, uint32_t group, uint64_t bytes)
{
	if (!bytes)
		return;
	if (!cell->votes || cell->group == group) {
		cell->group = group;
		cell->votes += bytes;
	} else if (cell->votes >= bytes) {
		cell->votes -= bytes;
	} else {
		cell->group = group;
		cell->votes = bytes - cell->votes;
	}
}

void map_note(struct merge *m, uint64_t start, uint64_t end, uint64_t resident, uint64_t owned,
	      uint32_t group)
{
	struct sheet *sheet = m->sheet;
	while (m->strip < sheet->strip_count &&
	       sheet->strips[m->strip].start + sheet->strips[m->strip].bytes <= start)
		m->strip++;
	if (m->strip == sheet->strip_count || end <= start)
		return;
	struct sheet_strip *strip = &sheet->strips[m->strip];
	uint64_t bytes = end - start, last = strip->start + strip->bytes;
	start = start > strip->start ? start : strip->start;
	end = end < last ? end : last;
	while (start < end) {
		uint64_t at = (start - strip->start) / strip->cell_bytes;
		uint64_t stop = strip->start + (at + 1) * strip->cell_bytes;
		stop = stop < end ? stop : end;
		struct sheet_cell *cell = &strip->cells[at];
		uint64_t part = (uint64_t)((unsigned __int128)owned * (stop - start) / bytes);
		cell->resident_bytes +=
			(uint64_t)((unsigned __int128)resident * (stop - start) / bytes);
		cell->owned_bytes += part;
		vote(cell, group, part);
		start = stop;
	}
}
