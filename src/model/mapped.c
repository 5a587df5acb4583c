/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mapped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/prof.h"

#define PAGE 4096u
#define RANGES_MAX (1u << 20)
#define ROWS_MAX (1u << 22)

struct range {
	uint64_t start, end;
	/* in rows */
	uint32_t row;
	uint32_t reserved;
};

/*
 * A stack's share of its kind's peak costs O(1) a change: a new maximum only bumps the kind's
 * epoch. Whoever changes a row whose epoch is older first saves what stood there when that maximum
 * was reached.
 */
struct mapped {
	/* by address */
	struct range *ranges;
	size_t range_count, range_room;
	struct mapped_row *rows;
	size_t row_count, row_room;
	/* (stack, kind) to its row + 1; open, a power of two */
	uint32_t *table;
	size_t table_size;
	struct mapped_sum kinds[MAPPED_KINDS];
	uint64_t epoch[MAPPED_KINDS];
	uint64_t brk, lost;
	/* of the heap's maximum that at_heap_peak_bytes belong to */
	uint64_t heap_epoch;
	/* of what a mremap took away: its new place keeps it */
	uint32_t moved_kind;
	int loaded;
};

const char *mapped_kind_name(unsigned kind)
{
	static const char *const names[] = { "anonymous", "file", "reserved", "allocator" };
	return kind < MAPPED_KINDS ? names[kind] : NULL;
}

struct mapped *mapped_new(void)
{
	return calloc(1, sizeof(struct mapped));
}

void mapped_free(struct mapped *m)
{
	if (!m)
		return;
	free(m->ranges);
	free(m->rows);
	free(m->table);
	free(m);
}

struct mapped *mapped_dup(const struct mapped *m)
{
	struct mapped *copy = calloc(1, sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *m;
	copy->ranges = NULL;
	copy->table = NULL;
	copy->range_count = copy->range_room = copy->table_size = 0;
	copy->rows = malloc((m->row_count ? m->row_count : 1) * sizeof(*copy->rows));
	if (!copy->rows) {
		free(copy);
		return NULL;
	}
	if (m->row_count)
		memcpy(copy->rows, m->rows, m->row_count * sizeof(*copy->rows));
	copy->row_room = m->row_count;
	return copy;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static size_t hash(uint32_t stack, uint32_t kind)
{
	uint64_t h = ((uint64_t)stack << 2 | kind) * 0x9e3779b97f4a7c15ull;
	return (size_t)(h >> 20);
}

static int rehash(struct mapped *m)
{
	size_t size = m->table_size ? 2 * m->table_size : 64;
	uint32_t *table = calloc(size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < m->row_count; i++) {
		size_t at = hash(m->rows[i].stack, m->rows[i].kind) & (size - 1);
		while (table[at])
			at = (at + 1) & (size - 1);
		table[at] = (uint32_t)i + 1;
	}
	free(m->table);
	m->table = table;
	m->table_size = size;
	return 0;
}

/* Return: the row's place; UINT32_MAX without memory, or room. */
static uint32_t row_of(struct mapped *m, uint32_t stack, uint32_t kind)
{
	if (2 * (m->row_count + 1) > m->table_size && rehash(m) < 0)
		return UINT32_MAX;
	size_t at = hash(stack, kind) & (m->table_size - 1);
	for (; m->table[at]; at = (at + 1) & (m->table_size - 1)) {
		const struct mapped_row *row = &m->rows[m->table[at] - 1];
		if (row->stack == stack && row->kind == kind)
			return m->table[at] - 1;
	}
	if (m->row_count == m->row_room) {
		size_t room = m->row_room ? 2 * m->row_room : 32;
		struct mapped_row *grown =
			room > ROWS_MAX ? NULL : reallocarray(m->rows, room, sizeof(*grown));
		if (!grown)
			return UINT32_MAX;
		m->rows = grown;
		m->row_room = room;
	}
	m->rows[m->row_count] = (struct mapped_row){ .stack = stack, .kind = kind };
	m->table[at] = (uint32_t)++m->row_count;
	return (uint32_t)m->row_count - 1;
}

static void save(const struct mapped *m, struct mapped_row *row)
{
	if (row->epoch == m->epoch[row->kind])
		return;
	row->sum.peak_bytes = row->sum.live_bytes;
	row->epoch = m->epoch[row->kind];
}

static void add(struct mapped *m, uint32_t at, uint64_t bytes, uint64_t time_ns)
{
	struct mapped_row *row = &m->rows[at];
	struct mapped_sum *kind = &m->kinds[row->kind];
	save(m, row);
	row->sum.live_bytes += bytes;
	row->sum.live_count++;
	kind->live_bytes += bytes;
	kind->live_count++;
	if (kind->live_bytes > kind->peak_bytes) {
		kind->peak_bytes = kind->live_bytes;
		kind->peak_time_ns = time_ns;
		m->epoch[row->kind]++;
	}
}

/* @whole: nothing is left of the range. */
static void take(struct mapped *m, uint32_t at, uint64_t bytes, int whole)
{
	struct mapped_row *row = &m->rows[at];
	save(m, row);
	row->sum.live_bytes -= bytes;
	row->sum.live_count -= (unsigned)whole;
	m->kinds[row->kind].live_bytes -= bytes;
	m->kinds[row->kind].live_count -= (unsigned)whole;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static size_t range_from(const struct mapped *m, uint64_t addr)
{
	size_t low = 0, high = m->range_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (m->ranges[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int insert(struct mapped *m, size_t at, const struct range *range)
{
	if (m->range_count == m->range_room) {
		size_t room = m->range_room ? 2 * m->range_room : 64;
		struct range *grown =
			room > RANGES_MAX ? NULL : reallocarray(m->ranges, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		m->ranges = grown;
		m->range_room = room;
	}
	memmove(&m->ranges[at + 1], &m->ranges[at], (m->range_count - at) * sizeof(*m->ranges));
	m->ranges[at] = *range;
	m->range_count++;
	return 0;
}

static void unmap(struct mapped *m, uint64_t start, uint64_t end)
{
	size_t at = range_from(m, start), gone;
	m->moved_kind = MAPPED_KINDS;
	if (at < m->range_count && m->ranges[at].start < end)
		m->moved_kind = m->rows[m->ranges[at].row].kind;
	if (at < m->range_count && m->ranges[at].start < start && m->ranges[at].end > start) {
		struct range rest = m->ranges[at];
		m->ranges[at].end = start;
		if (rest.end > end) {
			take(m, rest.row, end - start, 0);
			rest.start = end;
			m->rows[rest.row].sum.live_count++;
			m->kinds[m->rows[rest.row].kind].live_count++;
			if (insert(m, at + 1, &rest) < 0) {
				take(m, rest.row, rest.end - rest.start, 1);
				m->lost++;
			}
			return;
		}
		take(m, rest.row, rest.end - start, 0);
		at++;
	}
	for (gone = at; gone < m->range_count && m->ranges[gone].end <= end; gone++)
		take(m, m->ranges[gone].row, m->ranges[gone].end - m->ranges[gone].start, 1);
	if (gone > at && gone < m->range_count)
		memmove(&m->ranges[at], &m->ranges[gone],
			(m->range_count - gone) * sizeof(*m->ranges));
	m->range_count -= gone - at;
	if (at < m->range_count && m->ranges[at].start < end) {
		take(m, m->ranges[at].row, end - m->ranges[at].start, 0);
		m->ranges[at].start = end;
	}
}

/* The pages of @bytes at @start; 0: none, or beyond what addresses there are. */
static int pages(uint64_t start, uint64_t bytes, uint64_t *end)
{
	return bytes && bytes <= UINT64_MAX - (PAGE - 1) &&
	       !__builtin_add_overflow(start, (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1), end) &&
	       *end < 1ull << 62;
}

static int map(struct mapped *m, const struct event *ev, uint64_t start, uint64_t bytes,
	       uint32_t stack, uint32_t kind)
{
	uint64_t end;
	if (!pages(start, bytes, &end))
		return 0;
	unmap(m, start, end);
	uint32_t row = row_of(m, stack, kind);
	const struct range range = { start, end, row, 0 };
	if (row == UINT32_MAX || insert(m, range_from(m, start), &range) < 0) {
		m->lost++;
		return 0;
	}
	sum_add(&m->rows[row].sum.count, 1);
	sum_add(&m->rows[row].sum.bytes, end - start);
	sum_add(&m->kinds[kind].count, 1);
	sum_add(&m->kinds[kind].bytes, end - start);
	add(m, row, end - start, ev->time_ns);
	return 0;
}

static uint32_t kind_of(const struct mapped *m, const struct event *ev)
{
	if (ev->flags & EVENT_F_REALLOC)
		return m->moved_kind < MAPPED_KINDS ? m->moved_kind : MAPPED_ANON;
	uint32_t prot = (uint32_t)ev->value, flags = (uint32_t)(ev->value >> 32);
	if (prot & MAPPED_PROT_INNER)
		return MAPPED_ALLOCATOR;
	if (!(flags & MAP_ANONYMOUS))
		return MAPPED_FILE;
	return prot & (PROT_READ | PROT_WRITE | PROT_EXEC) ? MAPPED_ANON : MAPPED_RESERVED;
}

int mapped_put(struct mapped *m, const struct event *ev, uint32_t row)
{
	uint64_t end, before = m->brk;
	if (m->loaded)
		return 0;
	switch (ev->kind) {
	case EVENT_MAP:
		return map(m, ev, ev->addr, ev->bytes, row, kind_of(m, ev));
	case EVENT_UNMAP:
		if (pages(ev->addr, ev->bytes, &end))
			unmap(m, ev->addr, end);
		return 0;
	case EVENT_BRK:
		m->brk = ev->addr;
		if (before && ev->addr > before)
			return map(m, ev, before, ev->addr - before, row, MAPPED_ANON);
		if (before && ev->addr < before)
			unmap(m, (ev->addr + PAGE - 1) & ~(uint64_t)(PAGE - 1), before);
		return 0;
	default:
		return 0;
	}
}

void mapped_note_heap(struct mapped *m, uint64_t epoch)
{
	if (m->loaded || m->heap_epoch == epoch)
		return;
	m->heap_epoch = epoch;
	for (unsigned i = 0; i < MAPPED_KINDS; i++)
		m->kinds[i].at_heap_peak_bytes = m->kinds[i].live_bytes;
}

/* ---- reading --------------------------------------------------------------------------------- */

void mapped_sum(const struct mapped *m, enum mapped_kind kind, struct mapped_sum *sum)
{
	*sum = m->kinds[kind];
}

size_t mapped_count(const struct mapped *m)
{
	return m->row_count;
}

void mapped_row(const struct mapped *m, size_t at, struct mapped_row *row)
{
	*row = m->rows[at];
	if (!m->loaded)
		save(m, row);
}

uint64_t mapped_lost(const struct mapped *m)
{
	return m->lost;
}

int mapped_load(struct mapped *m, const struct mapped_row *row)
{
	m->loaded = 1;
	if (row->kind >= MAPPED_KINDS)
		return 0;
	uint32_t at = row_of(m, row->stack, row->kind);
	if (at == UINT32_MAX)
		return -ENOMEM;
	m->rows[at].sum = row->sum;
	return 0;
}

void mapped_load_lost(struct mapped *m, uint64_t lost)
{
	m->lost = lost;
}

void mapped_load_sum(struct mapped *m, enum mapped_kind kind, const struct mapped_sum *sum)
{
	m->loaded = 1;
	m->kinds[kind] = *sum;
}
