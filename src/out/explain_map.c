/* SPDX-License-Identifier: Apache-2.0 */
/* explain_map.c - the map of occupancy for people. */
#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "out/explain.h"
#include "out/failed.h"

static const char *shown(struct buf *to, const char *name, int ascii, size_t columns)
{
	buf_clear(to);
	text_escape(to, name, ascii);
	const char *text = buf_cstr(to);
	if (text_columns(text) > columns) {
		to->len = text_fit(text, columns);
		text = buf_cstr(to);
	}
	return text;
}

#define COLOURS 6
#define MAP_LABEL 18u

struct palette {
	/* who holds most, the largest first */
	uint32_t groups[COLOURS];
	unsigned count;
};

static void choose_colours(struct palette *p, const struct explain *e)
{
	const struct sheet *sheet = e->sheet;
	for (p->count = 0; p->count < COLOURS;) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < sheet->group_count; i++) {
			int taken = 0;
			for (unsigned k = 0; k < p->count; k++)
				taken |= p->groups[k] == i;
			if (!taken && sheet->groups[i].unit_bytes &&
			    (best == UINT32_MAX ||
			     sheet->groups[i].unit_bytes > sheet->groups[best].unit_bytes))
				best = i;
		}
		if (best == UINT32_MAX)
			return;
		p->groups[p->count++] = best;
	}
}

static unsigned colour_of(const struct palette *p, uint32_t group)
{
	for (unsigned k = 0; k < p->count; k++)
		if (p->groups[k] == group)
			return 31 + k;
	return 0;
}

static void put_strip(FILE *to, size_t width, int ascii, const struct sheet_strip *strip,
		      const struct palette *colours)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	/* so many cells together that they fit */
	unsigned room = (unsigned)(width - MAP_LABEL - 4),
		 each = (strip->cell_count + room - 1) / room;
	unsigned now = 0;
	const char *label = shown(&name, strip->label, ascii, MAP_LABEL - 8);
	fprintf(to, "%8.1f %s%*s|", (double)strip->rss_bytes / 1048576, label,
		(int)(MAP_LABEL - 8 - text_columns(label)), "");
	for (unsigned i = 0; i < strip->cell_count; i += each) {
		uint64_t resident = 0, owned = 0, most = 0;
		uint32_t group = 0;
		for (unsigned k = i; k < i + each && k < strip->cell_count; k++) {
			const struct sheet_cell *cell = &strip->cells[k];
			resident += cell->resident_bytes;
			owned += cell->owned_bytes;
			if (cell->votes > most) {
				most = cell->votes;
				group = cell->group;
			}
		}
		unsigned tens = resident ? (unsigned)((unsigned __int128)owned * 10 / resident) : 0;
		unsigned colour = colours && owned ? colour_of(colours, group) : 0;
		if (colour != now)
			fprintf(to, "\33[%um", now = colour);
		fputc(!resident ? ' '
		      : !owned  ? '.'
				: '0' + (int)(tens < 1   ? 1
					      : tens > 9 ? 9
							 : tens),
		      to);
	}
	fprintf(to, "%s|\n", now ? "\33[0m" : "");
}

int out_explain_map(FILE *to, const struct explain *e, const struct out_opt *opt, struct err *err)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	const struct sheet *sheet = e->sheet;
	size_t width = opt->width > 40 ? (size_t)opt->width : 100;
	struct palette colours;
	choose_colours(&colours, e);
	if (!sheet->strip_count)
		return 0;
	fprintf(to, "  Map, by address: 1-9 tens of per cent full, '.' free, blank not resident\n");
	for (unsigned i = 0; i < sheet->strip_count; i++)
		put_strip(to, width, opt->ascii, &sheet->strips[i], opt->colour ? &colours : NULL);
	for (unsigned k = 0; opt->colour && k < colours.count; k++)
		fprintf(to, "%s\33[%um%s\33[0m", k ? " " : "  ", 31 + k,
			shown(&name, explain_group_name(e, colours.groups[k]), opt->ascii, 24));
	if (opt->colour && colours.count)
		fputc('\n', to);
	return out_failed(to, "cannot write the map", err);
}
