/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconcile_units.c - what one unit comes to: its owners, its holes, what comes back if one of them
 * lets go.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/reconcile_impl.h"

#define AGES 4096u

void unit_begin(struct merge *m)
{
	memset(&m->sum, 0, sizeof(m->sum));
	m->sum.only_tops = 1;
	m->generation++;
	if (!m->generation) { /* once in four thousand million units */
		memset(m->mark, 0, (m->in->group_count + SHEET_PSEUDO) * sizeof(*m->mark));
		m->generation = 1;
	}
}

void unit_owner(struct merge *m, uint32_t group, uint64_t bytes)
{
	if (m->mark[group] == m->generation) {
		m->owners[m->place[group]].bytes += bytes;
		return;
	}
	if (m->sum.owner_count == m->owner_room) {
		size_t room = m->owner_room ? m->owner_room * 2 : 64;
		struct owner *grown = realloc(m->owners, room * sizeof(*grown));
		if (!grown) {
			m->nomem = 1;
			return;
		}
		m->owners = grown;
		m->owner_room = room;
	}
	m->mark[group] = m->generation;
	m->place[group] = (uint32_t)m->sum.owner_count;
	m->owners[m->sum.owner_count++] = (struct owner){ group, bytes };
}

/* Two groups that have units to themselves; beyond the table's bound no new pair is entered. */
static void note_pair(struct merge *m, uint32_t a, uint32_t b, uint64_t bytes)
{
	uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
	uint64_t hash = key * 0x9e3779b97f4a7c15ull >> 40;
	for (size_t i = hash % SETS, n = 0; n < SETS; i = (i + 1) % SETS, n++) {
		struct set *set = &m->sets[i];
		if (set->key == key + 1) {
			set->bytes += bytes;
			return;
		}
		if (!set->key) {
			if (m->set_count >= SETS / 4 * 3)
				return;
			m->set_count++;
			*set = (struct set){ key + 1, bytes };
			return;
		}
	}
}

/*
 * Holes to owners by their bytes: what is rounded off goes on to the next, so that all of it is
 * given out.
 */
static void give_holes(struct merge *m, uint64_t holes, uint64_t owned)
{
	unsigned __int128 before = 0;
	uint64_t given = 0;
	for (size_t i = 0; i < m->sum.owner_count; i++) {
		struct sheet_group *g = &m->sheet->groups[m->owners[i].group];
		before += m->owners[i].bytes;
		uint64_t upto = (uint64_t)((unsigned __int128)holes * before / owned);
		g->hole_bytes += upto - given;
		given = upto;
	}
}

static void note_owners(struct merge *m, const struct snapshot_unit *unit, uint64_t resident)
{
	uint32_t caches = pseudo(m, SHEET_GROUP_CACHES), real[3];
	unsigned count = 0;
	for (size_t i = 0; i < m->sum.owner_count; i++) {
		struct sheet_group *g = &m->sheet->groups[m->owners[i].group];
		g->unit_bytes += resident;
		if (unit && m->owners[i].bytes)
			g->allocator = (uint8_t)(unit->allocator + 1);
		if (m->owners[i].group != caches && count < 3)
			real[count++] = m->owners[i].group;
	}
	/* alone_bytes: once caches are emptied; the other one while they keep theirs */
	if (count == 1) {
		m->sheet->groups[real[0]].alone_bytes += resident;
		if (m->sum.owner_count == 1)
			m->sheet->groups[real[0]].alone_without_caches_bytes += resident;
	} else if (count == 0 && m->sum.owner_count == 1) {
		m->sheet->groups[caches].alone_bytes += resident;
		m->sheet->groups[caches].alone_without_caches_bytes += resident;
	} else if (count == 2) {
		note_pair(m, real[0], real[1], resident);
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Of slots it is known how many are in use and cached, but not where: from what no block has, as
 * far as that goes.
 */
static void divide_gap(struct merge *m, const struct snapshot_unit *unit)
{
	struct unit_sum *u = &m->sum;
	uint64_t head = least(unit->head, u->gap), rest = u->gap - head;
	uint64_t used = unit->used, known = u->blocks + u->cached_slots, bytes;
	u->metadata += head;
	if (unit->kind == SNAPSHOT_BLOCK && u->blocks) { /* all of it is its block's */
		u->waste += rest;
		m->sheet->groups[m->owners[0].group].waste_bytes += rest;
		m->owners[0].bytes += rest;
		u->gap = 0;
		return;
	}
	uint64_t cached = used > known ? least(unit->cached, used - known) : 0;
	if (__builtin_mul_overflow(cached, unit->slot, &bytes))
		bytes = rest;
	bytes = least(bytes, rest);
	u->cached += bytes;
	rest -= bytes;
	uint64_t others = used > known + cached ? used - known - cached : 0;
	if (__builtin_mul_overflow(others, unit->slot, &bytes))
		bytes = rest;
	bytes = least(bytes, rest);
	u->gap = bytes; /* in use, but not recorded */
	u->free += rest - bytes;
	m->sheet->unrecorded_blocks += m->in->complete ? 0 : others;
}

static const char *allocator_of(const struct merge *m, const struct snapshot_unit *unit)
{
	return snapshot_string(m->s, m->s->allocators[unit->allocator].name);
}

static void count_free_pages(struct merge *m, const struct snapshot_unit *unit, const char *name,
			     uint64_t shared)
{
	struct unit_sum *u = &m->sum;
	struct sheet *sheet = m->sheet;
	merge_add(m, SHEET_FREE_PAGES, unit != NULL, name,
		  unit ? "the allocator's own books"
		       : "pages without a live block: free, cached or in part used slabs",
		  u->free, shared);
	if (unit && unit->kind == SNAPSHOT_CHUNKS) {
		*(u->only_tops ? &sheet->other_tops_bytes : &sheet->trim_bytes) += u->free;
		sheet->top_bytes += u->main_top ? u->free : 0;
	} else {
		sheet->slab_free_bytes += u->free;
	}
}

/*
 * Lines take what is shared in the order in which they are told; one unit's pages are shared as a
 * whole or not.
 */
static uint64_t take_shared(uint64_t *shared, uint64_t bytes)
{
	uint64_t taken = least(*shared, bytes);
	*shared -= taken;
	return taken;
}

void unit_end(struct merge *m, const struct snapshot_unit *unit, const char *label)
{
	struct unit_sum *u = &m->sum;
	struct sheet *sheet = m->sheet;
	const char *name = unit ? allocator_of(m, unit) : label;
	uint64_t shared = u->shared;
	int chunks = unit && unit->kind == SNAPSHOT_CHUNKS;
	if (!u->resident)
		return;
	if (unit && !chunks)
		divide_gap(m, unit);
	if (!unit) {
		u->free += u->gap;
		u->gap = 0;
	}
	/*
	 * in a recording that knows every block the rest in use lies on some list, or is the
	 * allocator's own
	 */
	if (m->in->complete) {
		u->cached += u->gap;
		sheet->unrecorded_bytes += u->gap;
		u->gap = 0;
	}
	if (u->cached)
		unit_owner(m, pseudo(m, SHEET_GROUP_CACHES), u->cached);
	if (u->gap)
		unit_owner(m, pseudo(m, SHEET_GROUP_UNRECORDED), u->gap);
	if (!u->owner_count && u->free && (u->metadata || u->holds_head))
		unit_owner(m, pseudo(m, SHEET_GROUP_OWN), u->metadata ? u->metadata : 48);
	if (m->nomem)
		return;
	merge_add(m, SHEET_LIVE, 1, "live blocks", "recorded blocks on resident pages", u->live,
		  take_shared(&shared, u->live));
	merge_add(m, SHEET_LIVE, unit != NULL, "not recorded", "in use by the allocator's own word",
		  u->gap, take_shared(&shared, u->gap));
	merge_add(m, SHEET_WASTE, unit != NULL, name,
		  unit ? "slots by the allocator's own books" : "slots by the allocator's rule",
		  u->waste, take_shared(&shared, u->waste));
	merge_add(m, SHEET_CACHES, unit != NULL, name, "freed, but kept for somebody", u->cached,
		  take_shared(&shared, u->cached));
	merge_add(m, SHEET_METADATA, unit != NULL, name, "headers and tables", u->metadata,
		  take_shared(&shared, u->metadata));
	if (!u->owner_count) {
		map_note(m, u->from, u->to, u->resident, 0, 0);
		count_free_pages(m, unit, name, shared);
		return;
	}
	uint64_t owned = 0;
	size_t first = 0;
	for (size_t i = 0; i < u->owner_count; i++) {
		owned += m->owners[i].bytes;
		first = m->owners[i].bytes > m->owners[first].bytes ? i : first;
	}
	map_note(m, u->from, u->to, u->resident, owned, m->owners[first].group);
	merge_add(m, SHEET_HOLES, unit != NULL, name,
		  chunks ? "free, on a page with a live block"
		  : unit ? "free, in a slab with a live block"
			 : "no live block's, on a page with one",
		  u->free, shared);
	if (u->free)
		give_holes(m, u->free, owned);
	note_owners(m, unit, u->resident);
	uint64_t full = least(owned * SHEET_OCCUPANCY / u->resident, SHEET_OCCUPANCY - 1);
	sheet->occupancy[full].bytes += u->resident;
	uint64_t page = m->s->page_bytes;
	sheet->occupancy[full].units += unit && !chunks ? 1 : (u->resident + page - 1) / page;
}

void sets_finish(struct merge *m)
{
	struct sheet *sheet = m->sheet;
	for (size_t i = 0; i < SETS; i++) {
		const struct set *set = &m->sets[i];
		if (!set->key || !set->bytes)
			continue;
		unsigned at = sheet->pair_count;
		while (at && sheet->pairs[at - 1].bytes < set->bytes)
			at--;
		if (at == SHEET_PAIRS)
			continue;
		unsigned last =
			sheet->pair_count < SHEET_PAIRS ? sheet->pair_count++ : SHEET_PAIRS - 1;
		for (; last > at; last--)
			sheet->pairs[last] = sheet->pairs[last - 1];
		sheet->pairs[at] = (struct sheet_pair){ (uint32_t)((set->key - 1) >> 32),
							(uint32_t)(set->key - 1), set->bytes };
	}
	for (unsigned i = 0; i < sheet->pair_count; i++)
		sheet->pairs[i].bytes += sheet->groups[sheet->pairs[i].a].alone_bytes +
					 sheet->groups[sheet->pairs[i].b].alone_bytes;
}

/* ---- top pins -------------------------------------------------------------------------------- */

static size_t block_before(const struct sheet_input *in, uint64_t addr)
{
	size_t low = 0, high = in->block_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (in->blocks[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static size_t piece_before(const struct snapshot *s, uint64_t addr)
{
	size_t low = 0, high = s->piece_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (s->pieces[mid].start < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int piece_is_free(const struct snapshot_piece *p)
{
	return p->kind == SNAPSHOT_PIECE_FREE || p->kind == SNAPSHOT_PIECE_TOP;
}

/* What keeps an arena's top from going down: up to three blocks, from the top on. */
static void pins_of(struct merge *m, const struct snapshot_unit *unit)
{
	struct sheet *sheet = m->sheet;
	const struct snapshot *s = m->s;
	uint64_t end = unit->start + unit->bytes;
	size_t p = piece_before(s, end), b = block_before(m->in, end);
	if (!p || !piece_is_free(&s->pieces[p - 1]) || s->pieces[p - 1].start < unit->start)
		return;
	uint64_t top = s->pieces[p - 1].bytes;
	for (int i = 0; i < 3 && b && sheet->pin_count < SHEET_PINS; i++) {
		const struct sheet_block *block = &m->in->blocks[--b];
		if (block->addr < unit->start)
			return;
		size_t below = piece_before(s, block->addr);
		while (below && !piece_is_free(&s->pieces[below - 1]) &&
		       s->pieces[below - 1].start >= unit->start)
			below--;
		uint64_t free_below = 0;
		if (below && s->pieces[below - 1].start >= unit->start &&
		    (!b || s->pieces[below - 1].start > m->in->blocks[b - 1].addr))
			free_below = s->pieces[below - 1].bytes;
		sheet->pins[sheet->pin_count++] = (struct sheet_pin){
			.group = block->group,
			.arena = unit->arena,
			.addr = block->addr,
			.bytes = block->bytes,
			.age_ms =
				m->in->now_ms > block->time_ms ? m->in->now_ms - block->time_ms : 0,
			.free_below_bytes = free_below,
			.top_bytes = i ? 0 : top,
		};
	}
}

void pins_finish(struct merge *m)
{
	for (size_t i = 0; i < m->s->unit_count && m->in->recorded; i++) {
		const struct snapshot_unit *u = &m->s->units[i];
		/*
		 * of further arenas nothing below the top goes back anyway unless it is a whole
		 * heap
		 */
		if (u->kind == SNAPSHOT_CHUNKS && u->flags & SNAPSHOT_MAIN)
			pins_of(m, u);
	}
}

/* ---- ages ------------------------------------------------------------------------------------ */

/* What would stand at @want if @ages were sorted. */
static uint32_t select_age(uint32_t *ages, size_t count, size_t want)
{
	size_t low = 0, high = count - 1;
	while (low < high) {
		uint32_t pivot = ages[low + (high - low) / 2];
		size_t i = low, k = high;
		for (;;) {
			while (ages[i] < pivot)
				i++;
			while (ages[k] > pivot)
				k--;
			if (i >= k)
				break;
			uint32_t swap = ages[i];
			ages[i++] = ages[k];
			ages[k--] = swap;
		}
		if (want <= k)
			high = k;
		else
			low = k + 1;
	}
	return ages[want];
}

/*
 * Of so many blocks the ages are told from all of them, of more from one in so many (a power of
 * two), by address.
 */
static unsigned age_shift(uint64_t blocks)
{
	return blocks < 2 * AGES ? 0 : 63u - (unsigned)__builtin_clzll(blocks / AGES);
}

int ages_finish(struct merge *m)
{
	const struct sheet_input *in = m->in;
	struct sheet *sheet = m->sheet;
	struct kept {
		size_t at;
		uint32_t met, mask;
	} *kept = calloc((size_t)in->group_count + 1, sizeof(*kept));
	size_t sum = 0;
	for (uint32_t i = 0; i < in->group_count && kept; i++) {
		unsigned shift = age_shift(sheet->groups[i].blocks);
		kept[i].at = sum;
		kept[i].mask = (1u << shift) - 1;
		sum += (sheet->groups[i].blocks >> shift) + 1;
	}
	uint32_t *ages = malloc((sum + 1) * sizeof(*ages));
	int rc = kept && ages ? 0 : -ENOMEM;
	for (size_t i = 0; i < in->block_count && !rc; i++) {
		const struct sheet_block *b = &in->blocks[i];
		if (!(b->group & DROPPED) && !(kept[b->group].met++ & kept[b->group].mask))
			ages[kept[b->group].at++] =
				in->now_ms > b->time_ms ? (uint32_t)(in->now_ms - b->time_ms) : 0;
	}
	sum = 0;
	for (uint32_t i = 0; i < in->group_count && !rc; i++) {
		struct sheet_group *g = &sheet->groups[i];
		static const unsigned percents[3] = { 5, 50, 95 };
		size_t count = kept[i].at - sum;
		for (unsigned k = 0; k < 3 && count; k++)
			g->age_ms[k] =
				select_age(ages + sum, count, (count - 1) * percents[k] / 100);
		sum += (g->blocks >> age_shift(g->blocks)) + 1;
	}
	free(kept);
	free(ages);
	return rc;
}

/* ---- sorting --------------------------------------------------------------------------------- */

static void insert_all(struct sheet_block *blocks, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct sheet_block one = blocks[i];
		size_t at = i;
		for (; at && blocks[at - 1].addr > one.addr; at--)
			blocks[at] = blocks[at - 1];
		blocks[at] = one;
	}
}

/* By one byte of the address, in place; then each part by the next one. */
static void sort_from(struct sheet_block *blocks, size_t count, unsigned shift)
{
	size_t start[257] = { 0 }, next[256];
	if (count < 64) {
		insert_all(blocks, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		start[(blocks[i].addr >> shift & 255) + 1]++;
	for (unsigned i = 0; i < 256; i++)
		start[i + 1] += start[i];
	memcpy(next, start, sizeof(next));
	for (unsigned bucket = 0; bucket < 256; bucket++) {
		while (next[bucket] < start[bucket + 1]) {
			struct sheet_block one = blocks[next[bucket]];
			unsigned to = one.addr >> shift & 255;
			while (to != bucket) {
				struct sheet_block other = blocks[next[to]];
				blocks[next[to]++] = one;
				one = other;
				to = one.addr >> shift & 255;
			}
			blocks[next[bucket]++] = one;
		}
	}
	for (unsigned i = 0; i < 256 && shift; i++)
		if (start[i + 1] - start[i] > 1)
			sort_from(blocks + start[i], start[i + 1] - start[i], shift - 8);
}

static void sort_all(struct sheet_block *blocks, size_t count)
{
	uint64_t differ = 0;
	for (size_t i = 1; i < count; i++)
		differ |= blocks[i].addr ^ blocks[0].addr;
	if (differ)
		sort_from(blocks, count, (63u - (unsigned)__builtin_clzll(differ)) / 8 * 8);
}

/*
 * Heaps grow upwards, and blocks come in the order of their allocation: most of them are in order
 * already. The others are taken out, sorted, and merged in again from the top. Where they are more
 * than a quarter, all are sorted.
 */
void blocks_sort(struct sheet_block *blocks, size_t count)
{
	size_t most = count / 4, strays = 0, kept = 0;
	struct sheet_block *stray = count > 4096 ? malloc(most * sizeof(*stray)) : NULL;
	if (!stray) {
		sort_all(blocks, count);
		return;
	}
	/*
	 * one far above all others would make strays of all that follow: in order is what is not
	 * above its successor's successor
	 */
	uint64_t top = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t addr = blocks[i].addr;
		int leaps = i + 2 < count && addr > blocks[i + 1].addr && addr > blocks[i + 2].addr;
		if (addr >= top && !leaps) {
			top = addr;
			blocks[kept++] = blocks[i];
		} else if (strays < most) {
			stray[strays++] = blocks[i];
		} else {
			/* back to where they were taken from: anywhere will do */
			memcpy(blocks + kept, stray, strays * sizeof(*stray));
			free(stray);
			sort_all(blocks, count);
			return;
		}
	}
	sort_all(stray, strays);
	for (size_t to = count; strays;) {
		if (kept && blocks[kept - 1].addr > stray[strays - 1].addr)
			blocks[--to] = blocks[--kept];
		else
			blocks[--to] = stray[--strays];
	}
	free(stray);
}
