/* SPDX-License-Identifier: Apache-2.0 */
#include "heaps/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void units_fini(struct units *u)
{
	free(u->units);
	free(u->pieces);
	memset(u, 0, sizeof(*u));
}

int units_add(struct units *u, const struct unit *unit)
{
	if (!u || !unit->bytes)
		return 0;
	if (u->count == u->room) {
		size_t room = u->room ? u->room * 2 : 256;
		struct unit *grown = realloc(u->units, room * sizeof(*grown));
		if (!grown) {
			u->incomplete = 1;
			return -ENOMEM;
		}
		u->units = grown;
		u->room = room;
	}
	u->units[u->count++] = *unit;
	return 0;
}

int units_piece(struct units *u, uint64_t start, uint64_t bytes, enum piece_kind kind)
{
	if (!u || !bytes)
		return 0;
	if (u->piece_count == u->piece_room) {
		size_t room = u->piece_room ? u->piece_room + u->piece_room / 2 : 1024;
		struct piece *grown = realloc(u->pieces, room * sizeof(*grown));
		if (!grown) {
			u->incomplete = 1;
			return -ENOMEM;
		}
		u->pieces = grown;
		u->piece_room = room;
	}
	u->pieces[u->piece_count++] = (struct piece){ start, bytes & ((1ull << 56) - 1), kind };
	return 0;
}

void units_rewind(struct units *u, size_t count, size_t piece_count)
{
	if (!u)
		return;
	u->count = count;
	u->piece_count = piece_count;
}

static int by_start(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * One pass for each byte of the addresses that differs; mostly they come nearly in order, and then
 * none is needed.
 */
int pieces_sort(struct piece *pieces, size_t count)
{
	uint64_t differ = 0;
	int sorted = 1;
	for (size_t i = 1; i < count; i++) {
		differ |= pieces[i].start ^ pieces[0].start;
		sorted &= pieces[i - 1].start <= pieces[i].start;
	}
	if (sorted)
		return 0;
	struct piece *other = malloc(count * sizeof(*other)), *from = pieces, *to = other;
	if (!other)
		return -ENOMEM;
	for (unsigned shift = 0; shift < 64; shift += 8) {
		size_t at[256] = { 0 }, sum = 0;
		if (!(differ >> shift & 255))
			continue;
		for (size_t i = 0; i < count; i++)
			at[from[i].start >> shift & 255]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t n = at[i];
			at[i] = sum;
			sum += n;
		}
		for (size_t i = 0; i < count; i++)
			to[at[from[i].start >> shift & 255]++] = from[i];
		struct piece *swap = from;
		from = to;
		to = swap;
	}
	if (from != pieces)
		memcpy(pieces, from, count * sizeof(*pieces));
	free(other);
	return 0;
}

static int is_free(const struct piece *p)
{
	return p->kind == PIECE_FREE || p->kind == PIECE_TOP;
}

/* Overlaps are cut, free neighbours joined: the top swallows what lies right below it. */
static void join_pieces(struct units *u)
{
	size_t kept = 0;
	for (size_t i = 0; i < u->piece_count; i++) {
		struct piece p = u->pieces[i];
		struct piece *last = kept ? &u->pieces[kept - 1] : NULL;
		if (last && last->start + last->bytes > p.start) {
			uint64_t cut = last->start + last->bytes - p.start;
			if (cut >= p.bytes)
				continue;
			p.start += cut;
			p.bytes = (p.bytes - cut) & ((1ull << 56) - 1);
		}
		if (last && is_free(last) && is_free(&p) && last->start + last->bytes == p.start) {
			last->bytes = (last->bytes + p.bytes) & ((1ull << 56) - 1);
			last->kind = last->kind == PIECE_TOP ? PIECE_TOP : p.kind;
			continue;
		}
		u->pieces[kept++] = p;
	}
	u->piece_count = kept;
}

void units_sort(struct units *u)
{
	if (u->count)
		qsort(u->units, u->count, sizeof(*u->units), by_start);
	size_t kept = 0;
	for (size_t i = 0; i < u->count; i++) {
		struct unit *unit = &u->units[i];
		if (i + 1 < u->count && unit->start + unit->bytes > u->units[i + 1].start)
			unit->bytes = u->units[i + 1].start - unit->start;
		if (unit->bytes)
			u->units[kept++] = *unit;
	}
	u->count = kept;
	if (pieces_sort(u->pieces, u->piece_count) == 0)
		join_pieces(u);
}
