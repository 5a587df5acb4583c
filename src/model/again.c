/* SPDX-License-Identifier: Apache-2.0 */
/*
 * again.c - what was free at one moment and in use at a later one: given back in between, it would
 * have been taken again.
 */
#include <stdlib.h>

#include "model/snapshot.h"

#define LINKS 48 /* of a free chunk's beginning: its links stay */

/*
 * Whole free pages, those of chunks and those of other allocators' units one after the other by
 * address.
 */
struct walk {
	const struct snapshot *s;
	size_t piece, unit;
	/* end 0: no more */
	struct snapshot_range next;
};

static int next_of_pieces(struct walk *w, struct snapshot_range *r)
{
	uint64_t page = w->s->page_bytes;
	for (; w->piece < w->s->piece_count; w->piece++) {
		const struct snapshot_piece *p = &w->s->pieces[w->piece];
		if (p->kind != SNAPSHOT_PIECE_FREE && p->kind != SNAPSHOT_PIECE_TOP)
			continue;
		r->start = (p->start + LINKS + page - 1) & ~(page - 1);
		r->end = (p->start + p->bytes) & ~(page - 1);
		if (r->start < r->end)
			return 1;
	}
	return 0;
}

static int next_of_units(struct walk *w, struct snapshot_range *r)
{
	for (; w->unit < w->s->unit_count; w->unit++) {
		const struct snapshot_unit *u = &w->s->units[w->unit];
		if (u->kind != SNAPSHOT_FREE && u->kind != SNAPSHOT_RUNTIME_FREE)
			continue;
		*r = (struct snapshot_range){ u->start, u->start + u->bytes };
		return 1;
	}
	return 0;
}

static void step(struct walk *w)
{
	struct snapshot_range a, b;
	int piece = next_of_pieces(w, &a), unit = next_of_units(w, &b);
	if (piece && (!unit || a.start <= b.start)) {
		w->next = a;
		w->piece++;
	} else if (unit) {
		w->next = b;
		w->unit++;
	} else {
		w->next = (struct snapshot_range){ 0, 0 };
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What of [@start, @end) is there; @run only rises. */
static uint64_t present(const struct snapshot *s, size_t *run, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;
	while (*run < s->run_count && s->runs[*run].end <= start)
		++*run;
	for (size_t k = *run; k < s->run_count && s->runs[k].start < end; k++)
		if (s->runs[k].kinds & PAGE_IS_PRESENT)
			bytes += least(s->runs[k].end, end) - most(s->runs[k].start, start);
	return bytes;
}

uint64_t snapshot_touched_again(const struct snapshot *at, const struct snapshot *later)
{
	struct walk was = { .s = at }, is = { .s = later };
	uint64_t again = 0;
	size_t run = 0, then = 0;
	step(&is);
	for (step(&was); was.next.end; step(&was)) {
		uint64_t from = was.next.start;
		while (from < was.next.end) {
			while (is.next.end && is.next.end <= from)
				step(&is);
			int is_free = is.next.end && is.next.start <= from;
			uint64_t to = was.next.end;
			if (is.next.end)
				to = least(to, is_free ? is.next.end : is.next.start);
			/* no more than was there to be given back */
			uint64_t there = present(at, &then, from, to);
			if (!is_free && there)
				again += least(there, present(later, &run, from, to));
			from = to;
		}
	}
	return again;
}
