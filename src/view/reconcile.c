/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconcile.c - one merge, by address, of mappings, resident pages, units, blocks and whatever else
 * is known of a stretch.
 */
#include "view/reconcile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/reconcile_impl.h"

#define ADDRESS_MAX (1ull << 60) /* sums of an address and a length do not overflow */

enum zone { ZONE_NONE, ZONE_OWN, ZONE_UNIT, ZONE_STACK, ZONE_MAP };
enum covers {
	COVER_GAP,
	COVER_LIVE,
	COVER_WASTE,
	COVER_HEADER,
	COVER_FREE,
	COVER_TOP,
	COVER_CACHED,
	COVER_TABLES
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void merge_add(struct merge *m, unsigned class, int exact, const char *label, const char *how,
	       uint64_t bytes, uint64_t shared)
{
	if (!bytes)
		return;
	m->sheet->class_bytes[class] += bytes;
	m->sheet->class_shared_bytes[class] += shared;
	/*
	 * neighbours mostly go to the lines that were met last; labels of one meaning may stand at
	 * two addresses
	 */
	for (size_t n = 0, i = m->share_count; i-- > 0 && n < 24; n++) {
		struct share *s = &m->shares[i];
		if (s->class == class && s->label == label && s->exact == (exact != 0)) {
			s->bytes += bytes;
			s->shared_bytes += shared;
			return;
		}
	}
	if (m->share_count == m->share_room) {
		size_t room = m->share_room ? m->share_room * 2 : 128;
		struct share *grown = realloc(m->shares, room * sizeof(*grown));
		if (!grown) {
			m->nomem = 1;
			return;
		}
		m->shares = grown;
		m->share_room = room;
	}
	m->shares[m->share_count++] =
		(struct share){ label, how, bytes, shared, (uint8_t) class, exact != 0 };
}

/* ---- what covers an address ------------------------------------------------------------------ */

/* glibc: eight bytes before a block are its header, its last eight are the next chunk's first. */
static uint64_t chunk_end(uint64_t addr, uint64_t bytes)
{
	uint64_t chunk = (bytes + 8 + 15) & ~15ull;
	return addr + (chunk < 32 ? 32 : chunk) - 8;
}

/* A piece of chunks begins where the word that its neighbour below may use ends. */
static uint64_t piece_start(const struct snapshot_piece *p, int chunks)
{
	return p->start + (chunks ? 8 : 0);
}

static uint64_t piece_end(const struct snapshot_piece *p, int chunks)
{
	return piece_start(p, chunks) + p->bytes;
}

/* Where the block at the cursor ends for good: its slot. @limit: of its unit. */
static uint64_t slot_end(struct merge *m, const struct snapshot_unit *unit, uint64_t limit)
{
	const struct sheet_input *in = m->in;
	const struct sheet_block *b = &in->blocks[m->block];
	int chunks = unit && unit->kind == SNAPSHOT_CHUNKS;
	uint64_t live_end = b->addr + b->bytes, bound = most(limit, live_end), end = live_end;
	if (m->slot_of == m->block)
		return m->slot_end;
	if (m->block + 1 < in->block_count)
		bound = least(bound, in->blocks[m->block + 1].addr - (chunks ? 8 : 0));
	for (size_t i = m->piece; i < m->s->piece_count; i++) {
		uint64_t start = piece_start(&m->s->pieces[i], chunks);
		if (start > b->addr) {
			bound = least(bound, start);
			break;
		}
	}
	if (chunks) {
		/* what a chunk is longer than asked for is less than the smallest chunk */
		end = chunk_end(b->addr, b->bytes);
		end = bound >= end && bound - end <= 16 ? bound : end;
	} else if (unit && unit->slot) {
		end = b->addr + most(unit->slot, b->bytes);
	}
	m->slot_of = m->block;
	m->slot_end = most(least(end, bound), live_end);
	return m->slot_end;
}

/*
 * A block begins: it is counted, once. Return: 0: it is none, since the walk says that it is free
 * and frees were lost.
 */
static int meet_block(struct merge *m, int chunks)
{
	const struct sheet_block *b = &m->in->blocks[m->block];
	for (size_t i = m->piece; i < m->s->piece_count; i++) {
		const struct snapshot_piece *p = &m->s->pieces[i];
		if (piece_start(p, chunks) > b->addr)
			break;
		if (piece_end(p, chunks) <= b->addr || p->kind == SNAPSHOT_PIECE_TABLES)
			continue;
		if (m->in->lossy) {
			m->sheet->dropped_blocks++;
			m->sheet->dropped_bytes += b->bytes;
			return 0;
		}
		m->sheet->contradictions++;
		break;
	}
	return 1;
}

/*
 * What lies at @at, and up to where (at most @end): blocks first, then pieces. @chunks: of any
 * size, with headers. The cursors never go back.
 */
static enum covers cover(struct merge *m, uint64_t at, uint64_t end,
			 const struct snapshot_unit *unit, uint64_t *stop, uint32_t *group)
{
	const struct sheet_input *in = m->in;
	const struct snapshot *s = m->s;
	int chunks = unit && unit->kind == SNAPSHOT_CHUNKS, header = chunks ? 8 : 0;
	uint64_t limit = unit ? unit->start + unit->bytes : end;
	while (m->piece < s->piece_count && piece_end(&s->pieces[m->piece], chunks) <= at)
		m->piece++;
	*stop = end;
	while (m->block < in->block_count) {
		const struct sheet_block *b = &in->blocks[m->block];
		if (b->addr >= most(end, limit) + 8 || b->addr - (uint64_t)header > at) {
			*stop = least(end, b->addr - (uint64_t)header);
			break;
		}
		if (slot_end(m, unit, limit) <= at) {
			m->block++;
			continue;
		}
		if (m->sheet->groups && (b->group & DROPPED)) { /* dropped before */
			m->block++;
			continue;
		}
		if (unit && m->met != m->block && (m->met = m->block, !meet_block(m, chunks))) {
			in->blocks[m->block].group |= DROPPED;
			m->block++;
			continue;
		}
		*group = b->group;
		if (at < b->addr) {
			*stop = least(end, b->addr);
			return COVER_HEADER;
		}
		if (at < b->addr + b->bytes) {
			*stop = least(end, b->addr + b->bytes);
			return COVER_LIVE;
		}
		*stop = least(end, m->slot_end);
		return COVER_WASTE;
	}
	if (m->piece < s->piece_count) {
		const struct snapshot_piece *p = &s->pieces[m->piece];
		uint64_t start = piece_start(p, chunks);
		if (start > at) {
			*stop = least(*stop, start);
			return COVER_GAP;
		}
		*stop = least(*stop, piece_end(p, chunks));
		return p->kind == SNAPSHOT_PIECE_FREE     ? COVER_FREE
		       : p->kind == SNAPSHOT_PIECE_TOP    ? COVER_TOP
		       : p->kind == SNAPSHOT_PIECE_CACHED ? COVER_CACHED
							  : COVER_TABLES;
	}
	return COVER_GAP;
}

/* ---- units ----------------------------------------------------------------------------------- */

static void note_live(struct merge *m, uint32_t group, uint64_t bytes)
{
	m->sum.live += bytes;
	m->sheet->groups[group].live_bytes += bytes;
	unit_owner(m, group, bytes);
}

static void note_waste(struct merge *m, uint32_t group, uint64_t bytes)
{
	m->sum.waste += bytes;
	m->sheet->groups[group].waste_bytes += bytes;
	unit_owner(m, group, bytes);
}

/*
 * A chunk with a live block that begins at @at and lies before @end as a whole, as most do: what
 * cover() would tell of it in three steps, at once. Return: where it ends; 0: it is no such chunk.
 */
static uint64_t sum_chunk(struct merge *m, const struct snapshot_unit *unit, uint64_t at,
			  uint64_t end)
{
	if (m->slot_of == m->block && m->slot_end <= at)
		m->block++;
	const struct sheet_block *b = &m->in->blocks[m->block];
	if (m->block >= m->in->block_count || b->addr - 8 != at || b->group & DROPPED)
		return 0;
	while (m->piece < m->s->piece_count && piece_end(&m->s->pieces[m->piece], 1) <= at)
		m->piece++;
	uint64_t stop = slot_end(m, unit, unit->start + unit->bytes);
	if (stop > end)
		return 0;
	if (m->met != m->block && (m->met = m->block, !meet_block(m, 1))) {
		m->in->blocks[m->block++].group |= DROPPED;
		return 0;
	}
	struct sheet_group *g = &m->sheet->groups[b->group];
	uint64_t waste = stop - b->addr - b->bytes;
	m->sum.metadata += 8;
	m->sum.blocks++;
	m->sum.live += b->bytes;
	m->sum.waste += waste;
	g->live_bytes += b->bytes;
	g->waste_bytes += waste;
	unit_owner(m, b->group, stop - b->addr);
	m->block++;
	return stop;
}

/* All of [@at, @end), which is resident, into the unit under way. */
static void sum_stretch(struct merge *m, const struct snapshot_unit *unit, uint64_t at,
			uint64_t end, uint32_t kinds)
{
	struct unit_sum *u = &m->sum;
	int chunks = unit && unit->kind == SNAPSHOT_CHUNKS;
	u->from = u->resident ? u->from : at;
	u->to = end;
	u->resident += end - at;
	u->shared += kinds & PAGE_IS_SHARED ? end - at : 0;
	while (at < end && !m->nomem) {
		uint64_t stop = chunks ? sum_chunk(m, unit, at, end) : 0;
		uint32_t group = 0;
		if (stop) {
			at = stop;
			continue;
		}
		enum covers what = cover(m, at, end, unit, &stop, &group);
		uint64_t bytes = stop - at;
		const struct snapshot_piece *p =
			what > COVER_HEADER ? &m->s->pieces[m->piece] : NULL;
		switch (what) {
		case COVER_LIVE:
			if (at == m->in->blocks[m->block].addr)
				u->blocks++;
			note_live(m, group, bytes);
			break;
		case COVER_WASTE:
			if (at == m->in->blocks[m->block].addr) /* of no bytes */
				u->blocks++;
			note_waste(m, group, bytes);
			break;
		case COVER_HEADER:
		case COVER_TABLES:
			u->metadata += bytes;
			break;
		case COVER_CACHED:
			u->cached += bytes;
			u->cached_slots += at == p->start;
			break;
		case COVER_FREE:
		case COVER_TOP:
			u->free += bytes;
			u->holds_head |= at < p->start + 48;
			u->only_tops &= what == COVER_TOP;
			u->main_top |= unit && unit->flags & SNAPSHOT_MAIN &&
				       p->start + p->bytes >= unit->start + unit->bytes;
			break;
		default:
			u->gap += bytes;
			break;
		}
		at = stop;
	}
}

static void close_unit(struct merge *m)
{
	if (m->open != NO_UNIT)
		unit_end(m, &m->s->units[m->open], NULL);
	m->open = NO_UNIT;
}

/* Page by page: chunks, or what no reader has walked. */
static void by_pages(struct merge *m, const struct snapshot_unit *unit, const char *label,
		     uint64_t at, uint64_t end, uint32_t kinds)
{
	uint64_t page = m->s->page_bytes;
	close_unit(m); /* a slab is under way until somebody else needs the sums */
	while (at < end && !m->nomem) {
		uint64_t stop = least(end, (at & ~(page - 1)) + page), alike;
		uint32_t group = 0;
		/* pages that are one thing from end to end are alike: they are summed as one */
		if (stop < end && !(at & (page - 1))) {
			enum covers what = cover(m, at, end, unit, &alike, &group);
			int links = (what == COVER_FREE || what == COVER_TOP) &&
				    at < m->s->pieces[m->piece].start + 48;
			alike &= ~(page - 1);
			stop = !links && alike > stop ? alike : stop;
		}
		unit_begin(m);
		sum_stretch(m, unit, at, stop, kinds);
		unit_end(m, unit, label);
		at = stop;
	}
}

static void runtime_unit(struct merge *m, const struct snapshot_unit *u, uint64_t at,
			 uint64_t bytes, uint64_t shared)
{
	const char *name = snapshot_string(m->s, m->s->allocators[u->allocator].name);
	uint64_t used, part;
	if (u->kind == SNAPSHOT_STACKS) {
		merge_add(m, SHEET_STACKS, 1, name, "the runtime's own books", bytes, shared);
		return;
	}
	if (u->kind == SNAPSHOT_RUNTIME_FREE) {
		map_note(m, at, at + bytes, bytes, 0, 0);
		merge_add(m, SHEET_RUNTIME, 0, name, "the runtime's own books", bytes, shared);
		m->sheet->runtime_free_bytes += bytes;
		return;
	}
	/* what of a part is in use is known of the whole only */
	if (__builtin_mul_overflow((uint64_t)u->used, u->slot, &used))
		used = u->bytes;
	part = (uint64_t)((unsigned __int128)least(used, u->bytes) * bytes / u->bytes);
	merge_add(m, SHEET_RUNTIME, 0, name, "the runtime's own books", bytes, shared);
	map_note(m, at, at + bytes, bytes, part, pseudo(m, SHEET_GROUP_UNRECORDED));
	m->sheet->runtime_live_bytes += part;
	m->sheet->runtime_hole_bytes += bytes - part;
}

static void in_unit(struct merge *m, size_t index, uint64_t at, uint64_t end, uint32_t kinds)
{
	const struct snapshot_unit *u = &m->s->units[index];
	const char *name = snapshot_string(m->s, m->s->allocators[u->allocator].name);
	uint64_t bytes = end - at, shared = kinds & PAGE_IS_SHARED ? bytes : 0;
	switch (u->kind) {
	case SNAPSHOT_CHUNKS:
		by_pages(m, u, NULL, at, end, kinds);
		break;
	case SNAPSHOT_SLAB:
	case SNAPSHOT_BLOCK:
		if (m->open != index) {
			close_unit(m);
			unit_begin(m);
			m->open = index;
		}
		sum_stretch(m, u, at, end, kinds);
		break;
	case SNAPSHOT_FREE:
		map_note(m, at, end, bytes, 0, 0);
		merge_add(m, SHEET_FREE_PAGES, 1, name, "the allocator's own books", bytes, shared);
		m->sheet->slab_free_bytes += bytes;
		m->sheet->decaying_bytes += u->flags & SNAPSHOT_DECAYS ? bytes : 0;
		m->sheet->given_bytes += u->flags & SNAPSHOT_GIVEN ? bytes : 0;
		break;
	case SNAPSHOT_TABLES:
		map_note(m, at, end, bytes, bytes, pseudo(m, SHEET_GROUP_OWN));
		merge_add(m, SHEET_METADATA, 1, name, "headers and tables", bytes, shared);
		break;
	default:
		runtime_unit(m, u, at, bytes, shared);
		break;
	}
}

/* ---- stretches of pages ---------------------------------------------------------------------- */

/* Of ranges in order: the one that holds @at, or up to where there is none. */
#define FIND(list, count, cursor)                               \
	while ((cursor) < (count) && (list)[cursor].end <= at)  \
		(cursor)++;                                     \
	if ((cursor) < (count) && (list)[cursor].start <= at) { \
		*stop = least(*stop, (list)[cursor].end);       \
		found = 1;                                      \
	} else if ((cursor) < (count)) {                        \
		*stop = least(*stop, (list)[cursor].start);     \
	}

static enum zone zone_at(struct merge *m, uint64_t at, uint64_t end, uint64_t *stop)
{
	const struct snapshot *s = m->s;
	int found = 0;
	*stop = end;
	FIND(s->own, s->own_count, m->own)
	if (found)
		return ZONE_OWN;
	while (m->unit < s->unit_count && s->units[m->unit].start + s->units[m->unit].bytes <= at)
		m->unit++;
	if (m->unit < s->unit_count && s->units[m->unit].start <= at) {
		*stop = least(*stop, s->units[m->unit].start + s->units[m->unit].bytes);
		return ZONE_UNIT;
	}
	if (m->unit < s->unit_count)
		*stop = least(*stop, s->units[m->unit].start);
	FIND(s->stacks, s->stack_count, m->stack)
	if (found)
		return ZONE_STACK;
	FIND(m->in->maps, m->in->map_count, m->map)
	return found ? ZONE_MAP : ZONE_NONE;
}

static int holds_block(const struct merge *m, uint64_t start, uint64_t end)
{
	const struct sheet_input *in = m->in;
	size_t low = 0, high = in->block_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (in->blocks[mid].addr < start)
			low = mid + 1;
		else
			high = mid;
	}
	return low < in->block_count && in->blocks[low].addr < end;
}

static void nobody(struct merge *m, const char *label, uint64_t bytes, uint64_t shared)
{
	m->direct += bytes;
	merge_add(m, SHEET_UNEXPLAINED, 0, label, "", bytes, shared);
}

/* No reader walked it: live blocks are cut out, the rest is what the mapping is. */
static void elsewhere(struct merge *m, const struct snapshot_region *r, uint64_t at, uint64_t end,
		      uint32_t kinds)
{
	const char *label = snapshot_string(m->s, r->label);
	while (at < end && !m->nomem) {
		uint64_t stop;
		uint32_t group = 0;
		enum covers what = cover(m, at, end, NULL, &stop, &group);
		uint64_t bytes = stop - at, shared = kinds & PAGE_IS_SHARED ? bytes : 0;
		if (what == COVER_LIVE) {
			merge_add(m, SHEET_LIVE, 1, "live blocks",
				  "recorded blocks on resident pages", bytes, shared);
			m->sheet->groups[group].live_bytes += bytes;
		} else if (kinds & PAGE_IS_FILE) {
			merge_add(m, SHEET_FILES, 1, label, "pages of files", bytes, shared);
		} else if (r->class == SHEET_UNEXPLAINED) {
			nobody(m, label, bytes, shared);
		} else {
			merge_add(m, r->class, r->exact, label, "what the mapping is", bytes,
				  shared);
		}
		at = stop;
	}
}

/*
 * An allocator's whose books nobody reads, as a 32-bit program's. Where each block is known the
 * rest is free; else it is a heap that is not told apart.
 */
static void unread(struct merge *m, const struct snapshot_region *r, uint64_t at, uint64_t end,
		   uint32_t kinds)
{
	struct snapshot_region heap = *r;
	if (m->in->complete) {
		by_pages(m, NULL, snapshot_string(m->s, r->label), at, end, kinds);
		return;
	}
	heap.class = SHEET_RUNTIME;
	heap.exact = 0;
	elsewhere(m, &heap, at, end, kinds);
}

static void in_map(struct merge *m, const struct snapshot_region *r, uint64_t at, uint64_t end,
		   uint32_t kinds)
{
	const struct sheet_map *map = &m->in->maps[m->map];
	uint64_t bytes = end - at;
	if (r->class != SHEET_UNEXPLAINED && r->class != SHEET_FREE_PAGES) {
		elsewhere(m, r, at, end,
			  kinds); /* a stack that the program mapped itself, a runtime's heap */
		return;
	}
	if (holds_block(m, map->start, map->end)) { /* an allocator that nobody walked took it */
		by_pages(m, NULL, "allocators that are not read", at, end, kinds);
		return;
	}
	merge_add(m, SHEET_MMAP, 1, "mapped by the program", "its own calls of mmap and brk", bytes,
		  kinds & PAGE_IS_SHARED ? bytes : 0);
	m->sheet->groups[map->group].mapped_bytes += bytes;
}

static void stretch(struct merge *m, const struct snapshot_region *r, uint64_t at, uint64_t end,
		    uint32_t kinds)
{
	uint64_t stop;
	for (; at < end && !m->nomem; at = stop) {
		enum zone zone = zone_at(m, at, end, &stop);
		uint64_t bytes = stop - at, shared = kinds & PAGE_IS_SHARED ? bytes : 0;
		if (kinds & PAGE_IS_BLANK && zone != ZONE_OWN) {
			merge_add(m, SHEET_HUGE, 0, "zeroes in huge pages",
				  "pages of huge pages that hold only zeroes", bytes, shared);
			continue;
		}
		switch (zone) {
		case ZONE_OWN:
			merge_add(m, SHEET_BYTELEDGER, 1, "recording library", "its own word",
				  bytes, shared);
			break;
		case ZONE_UNIT:
			in_unit(m, m->unit, at, stop, kinds);
			break;
		case ZONE_STACK:
			merge_add(m, SHEET_STACKS, 1, "thread stacks",
				  "threads' stack pointers and descriptors", bytes, shared);
			break;
		case ZONE_MAP:
			in_map(m, r, at, stop, kinds);
			break;
		default:
			if (r->class == SHEET_FREE_PAGES)
				unread(m, r, at, stop, kinds);
			else if (r->class == SHEET_UNEXPLAINED && holds_block(m, at, stop))
				by_pages(m, NULL, snapshot_string(m->s, r->label), at, stop, kinds);
			else
				elsewhere(m, r, at, stop, kinds);
			break;
		}
	}
}

/* A mapping of which only the sums are told. */
static void whole(struct merge *m, const struct snapshot_region *r)
{
	const char *label = snapshot_string(m->s, r->label);
	uint64_t file = r->rss_bytes - r->anonymous_bytes,
		 shared = least(r->shared_bytes, r->rss_bytes);
	if (r->class == SHEET_UNEXPLAINED) {
		nobody(m, label, r->rss_bytes, shared);
		return;
	}
	if (r->class != SHEET_DATA) {
		merge_add(m, r->class, r->exact, label, "what the mapping is", r->rss_bytes,
			  shared);
		return;
	}
	uint64_t of_file = least(shared, file);
	merge_add(m, SHEET_DATA, 1, label, "private pages of programs and libraries",
		  r->anonymous_bytes, least(shared - of_file, r->anonymous_bytes));
	merge_add(m, SHEET_FILES, 1, label, "pages of files", file, of_file);
}

/* Blocks on pages that are not resident: swapped out, or never touched. */
static void absent(struct merge *m)
{
	const struct sheet_input *in = m->in;
	struct sheet *sheet = m->sheet;
	size_t run = 0;
	for (size_t i = 0; i < in->block_count; i++) {
		const struct sheet_block *b = &in->blocks[i];
		if (b->group & DROPPED)
			continue;
		struct sheet_group *g = &sheet->groups[b->group];
		uint64_t block_end = b->addr + b->bytes;
		if (i + 1 < in->block_count)
			block_end = least(block_end, in->blocks[i + 1].addr);
		g->blocks++;
		sheet->live_blocks++;
		sheet->live_bytes_all += b->bytes;
		while (run < m->s->run_count && m->s->runs[run].end <= b->addr)
			run++;
		for (size_t k = run; k < m->s->run_count && m->s->runs[k].start < block_end; k++) {
			const struct snapshot_run *r = &m->s->runs[k];
			if (r->kinds & PAGE_IS_PRESENT || !(r->kinds & PAGE_IS_SWAPPED))
				continue;
			uint64_t start = most(r->start, b->addr), end = least(r->end, block_end);
			g->swapped_bytes += end - start;
			sheet->swapped_bytes += end - start;
		}
		g->untouched_bytes += b->bytes;
	}
	for (uint32_t i = 0; i < in->group_count; i++) {
		struct sheet_group *g = &sheet->groups[i];
		uint64_t there = g->live_bytes + g->swapped_bytes;
		g->untouched_bytes = g->untouched_bytes > there ? g->untouched_bytes - there : 0;
		sheet->untouched_bytes += g->untouched_bytes;
	}
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int by_line(const void *a, const void *b)
{
	const struct sheet_line *x = a, *y = b;
	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	int order = strcmp(x->label, y->label);
	return order ? order : (int)y->exact - (int)x->exact;
}

static int by_bytes(const void *a, const void *b)
{
	const struct sheet_line *x = a, *y = b;
	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->label, y->label);
}

static int make_lines(struct merge *m)
{
	struct sheet *sheet = m->sheet;
	sheet->lines = calloc(m->share_count + 1, sizeof(*sheet->lines));
	if (!sheet->lines)
		return -ENOMEM;
	for (size_t i = 0; i < m->share_count; i++) {
		const struct share *s = &m->shares[i];
		sheet->lines[i] = (struct sheet_line){ .class = s->class,
						       .exact = s->exact,
						       .label = s->label,
						       .how = s->how,
						       .bytes = s->bytes,
						       .shared_bytes = s->shared_bytes };
	}
	qsort(sheet->lines, m->share_count, sizeof(*sheet->lines), by_line);
	for (size_t i = 0; i < m->share_count; i++) {
		struct sheet_line *last =
			sheet->line_count ? &sheet->lines[sheet->line_count - 1] : NULL;
		if (last && by_line(last, &sheet->lines[i]) == 0) {
			last->bytes += sheet->lines[i].bytes;
			last->shared_bytes += sheet->lines[i].shared_bytes;
		} else {
			sheet->lines[sheet->line_count++] = sheet->lines[i];
		}
	}
	qsort(sheet->lines, sheet->line_count, sizeof(*sheet->lines), by_bytes);
	/* what nobody has is no line */
	size_t all = sheet->line_count;
	while (sheet->line_count && sheet->lines[sheet->line_count - 1].class == SHEET_UNEXPLAINED)
		sheet->line_count--;
	sheet->nobody_count = all - sheet->line_count;
	sheet->nobody = calloc(sheet->nobody_count + 1, sizeof(*sheet->nobody));
	if (!sheet->nobody)
		return -ENOMEM;
	memcpy(sheet->nobody, sheet->lines + sheet->line_count,
	       sheet->nobody_count * sizeof(*sheet->nobody));
	return 0;
}

/*
 * What no line has must be just what was left over on the way: else some byte stands on two lines,
 * or on none.
 */
static int sum_is_right(const struct merge *m)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->sheet->line_count; i++)
		sum += m->sheet->lines[i].bytes;
	m->sheet->unexplained_bytes = (int64_t)(m->s->rss_bytes - sum);
	return m->sheet->unexplained_bytes == (int64_t)m->direct + m->sheet->moved_bytes;
}

static int merge_all(struct merge *m)
{
	const struct snapshot *s = m->s;
	size_t run = 0;
	for (size_t i = 0; i < s->region_count && !m->nomem; i++) {
		const struct snapshot_region *r = &s->regions[i];
		if (!(r->flags & SNAPSHOT_PAGED)) {
			whole(m, r);
			continue;
		}
		uint64_t present = 0;
		while (run < s->run_count && s->runs[run].end <= r->start)
			run++;
		for (size_t k = run; k < s->run_count && s->runs[k].start < r->end && !m->nomem;
		     k++) {
			uint64_t start = most(s->runs[k].start, r->start),
				 end = least(s->runs[k].end, r->end);
			if (!(s->runs[k].kinds & PAGE_IS_PRESENT))
				continue;
			present += end - start;
			stretch(m, r, start, end, s->runs[k].kinds);
		}
		m->sheet->moved_bytes += (int64_t)r->rss_bytes - (int64_t)present;
	}
	close_unit(m);
	return m->nomem ? -ENOMEM : 0;
}

struct sheet *reconcile(const struct sheet_input *in, struct err *err)
{
	size_t groups = (size_t)in->group_count + SHEET_PSEUDO;
	struct sheet *sheet = calloc(1, sizeof(*sheet));
	struct merge m = { .in = in,
			   .s = in->snapshot,
			   .sheet = sheet,
			   .open = NO_UNIT,
			   .slot_of = SIZE_MAX,
			   .met = SIZE_MAX };
	m.mark = calloc(groups, sizeof(*m.mark));
	m.place = calloc(groups, sizeof(*m.place));
	m.sets = calloc(SETS, sizeof(*m.sets));
	int rc = sheet && m.mark && m.place && m.sets ? 0 : -ENOMEM;
	if (rc == 0 && !(sheet->groups = calloc(groups, sizeof(*sheet->groups))))
		rc = -ENOMEM;
	if (rc == 0) {
		sheet->rss_bytes = in->snapshot->rss_bytes;
		sheet->group_count = in->group_count;
		for (size_t i = 0; i < in->block_count; i++) {
			struct sheet_block *b = &in->blocks[i];
			b->addr = least(b->addr, ADDRESS_MAX);
			b->bytes = least(b->bytes, ADDRESS_MAX);
		}
		blocks_sort(in->blocks, in->block_count);
		rc = map_begin(&m) < 0 ? -ENOMEM : merge_all(&m);
	}
	if (rc == 0)
		rc = make_lines(&m);
	if (rc == 0) {
		absent(&m);
		rc = ages_finish(&m);
	}
	if (rc == 0) {
		sets_finish(&m);
		pins_finish(&m);
		rc = sum_is_right(&m) ? 0 : -EBADMSG;
	}
	free(m.mark);
	free(m.place);
	free(m.sets);
	free(m.owners);
	free(m.shares);
	if (rc == 0)
		return sheet;
	sheet_free(sheet);
	err_set(err, rc,
		rc == -ENOMEM ? "cannot allocate the balance sheet"
			      : "cannot close the balance sheet: its lines do not add up");
	return NULL;
}

void sheet_free(struct sheet *sheet)
{
	if (!sheet)
		return;
	for (unsigned i = 0; i < sheet->strip_count; i++)
		free(sheet->strips[i].cells);
	free(sheet->lines);
	free(sheet->nobody);
	free(sheet->groups);
	free(sheet);
}
