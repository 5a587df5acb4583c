/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks_select.c - the rows that a filter takes, without reading the others: each page of rows has
 * columns of 16 bits beside it, and what they lie between. A code says less than the value; rows
 * whose code is that of a bound are read themselves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/blocks_impl.h"
#include "query/impl.h"

#define SINGLES 48 /* so many rows of a page are read one by one; more: all of it */

/* ---- writing --------------------------------------------------------------------------------- */

static uint64_t lifetime_of(const struct block_row *r)
{
	return r->freed_ns > r->time_ns ? r->freed_ns - r->time_ns : 0;
}

static void widen(struct block_zone *zone, unsigned column, uint64_t value)
{
	if (value < zone->least[column])
		zone->least[column] = value;
	if (value > zone->most[column])
		zone->most[column] = value;
}

int blocks_put_page(struct blocks *blocks, const struct block_row *rows, size_t count,
		    const uint16_t *threads, struct err *err)
{
	unsigned char *page = calloc(1, BLOCK_PAGE_BYTES + BLOCK_PACKED_MAX);
	if (!page)
		return err_set(err, -ENOMEM, "cannot list the blocks");
	uint16_t *column[BLOCK_COLUMNS];
	struct block_zone zone = { .least_id = UINT64_MAX };
	memset(zone.least, 0xff, sizeof(zone.least));
	for (unsigned c = 0; c < BLOCK_COLUMNS; c++)
		column[c] = (uint16_t *)page + (size_t)c * BLOCK_PAGE;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		int never = r->freed_ns == BLOCK_NEVER;
		uint64_t lifetime = lifetime_of(r);
		zone.least_id = r->id < zone.least_id ? r->id : zone.least_id;
		zone.most_id = r->id > zone.most_id ? r->id : zone.most_id;
		widen(&zone, BLOCK_COLUMN_SIZE, r->bytes);
		widen(&zone, BLOCK_COLUMN_TIME, r->time_ns);
		widen(&zone, BLOCK_COLUMN_FREED, r->freed_ns);
		if (!never)
			widen(&zone, BLOCK_COLUMN_LIFETIME, lifetime);
		zone.unended += (uint32_t)never;
		column[BLOCK_COLUMN_SIZE][i] = block_code(r->bytes);
		column[BLOCK_COLUMN_TIME][i] = block_code(r->time_ns);
		column[BLOCK_COLUMN_FREED][i] = never ? BLOCK_CODE_NEVER : block_code(r->freed_ns);
		column[BLOCK_COLUMN_LIFETIME][i] =
			never ? BLOCK_CODE_UNENDED : block_code(lifetime);
		column[BLOCK_COLUMN_THREAD][i] = threads[i];
	}
	size_t number = (size_t)(blocks->rows / BLOCK_PAGE);
	int rc = blocks_write(blocks->columns_fd, page, BLOCK_PAGE_BYTES,
			      (uint64_t)number * BLOCK_PAGE_BYTES, err);
	size_t packed = block_pack(rows, count, &zone.packing, page + BLOCK_PAGE_BYTES);
	zone.packing.at = blocks->end;
	if (rc == 0)
		rc = blocks_write(blocks->rows_fd, page + BLOCK_PAGE_BYTES, packed, blocks->end,
				  err);
	free(page);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&blocks->lock);
	if (number >= blocks->zone_cap) {
		size_t cap = blocks->zone_cap ? 2 * blocks->zone_cap : 256;
		struct block_zone *zones = realloc(blocks->zones, cap * sizeof(*zones));
		if (zones) {
			blocks->zones = zones;
			blocks->zone_cap = cap;
		} else {
			rc = err_set(err, -ENOMEM, "cannot list the blocks");
		}
	}
	if (rc == 0) {
		blocks->zones[number] = zone;
		blocks->rows += count;
		blocks->end += packed;
	}
	pthread_mutex_unlock(&blocks->lock);
	return rc;
}

/* ---- a page, read as far as it is asked for -------------------------------------------------- */

struct block_view {
	const struct blocks *blocks;
	uint64_t page;
	uint32_t count, matched, singles;
	struct block_zone zone;
	uint8_t mask[BLOCK_PAGE], unsure[BLOCK_PAGE];
	/* which columns, the ids, the stacks */
	int has[BLOCK_COLUMNS + 2];
	int has_rows;
	struct block_row *rows;
	uint32_t ids[BLOCK_PAGE], stacks[BLOCK_PAGE];
	/* BLOCK_PAGE_BYTES, and BLOCK_PACKED_MAX behind them */
	unsigned char *bytes;
};

/** part() - bytes [at, at + len) of the page's columns, read once. */
static const void *part(struct block_view *v, unsigned number, size_t at, size_t len,
			struct err *err)
{
	if (!v->has[number]) {
		if (blocks_read_at(v->blocks->columns_fd, v->bytes + at, len,
				   v->page * BLOCK_PAGE_BYTES + at, err) < 0)
			return NULL;
		v->has[number] = 1;
	}
	return v->bytes + at;
}

static const uint16_t *codes(struct block_view *v, enum block_column column, struct err *err)
{
	return part(v, column, (size_t)column * BLOCK_PAGE * 2, BLOCK_PAGE * 2, err);
}

const uint16_t *block_view_sizes(struct block_view *v, struct err *err)
{
	return codes(v, BLOCK_COLUMN_SIZE, err);
}

const uint16_t *block_view_lifetimes(struct block_view *v, struct err *err)
{
	return codes(v, BLOCK_COLUMN_LIFETIME, err);
}

/** numbers() - a member of all rows, read once. */
static const uint32_t *numbers(struct block_view *v, enum block_field field, uint32_t *to,
			       struct err *err)
{
	unsigned number = BLOCK_COLUMNS + field;
	if (!v->has[number] && block_unpack_u32(v->blocks->rows_fd, &v->zone.packing, v->count,
						field, to, v->bytes + BLOCK_PAGE_BYTES, err) < 0)
		return NULL;
	v->has[number] = 1;
	return to;
}

const uint32_t *block_view_ids(struct block_view *v, struct err *err)
{
	return numbers(v, BLOCK_FIELD_ID, v->ids, err);
}

uint16_t blocks_code(uint64_t value)
{
	return block_code(value);
}

uint32_t block_view_count(const struct block_view *v)
{
	return v->count;
}

uint32_t block_view_matched(const struct block_view *v)
{
	return v->matched;
}

const uint8_t *block_view_mask(const struct block_view *v)
{
	return v->mask;
}

void block_view_id_range(const struct block_view *v, uint64_t *least, uint64_t *most)
{
	*least = v->zone.least_id;
	*most = v->zone.most_id;
}

static int read_rows(struct block_view *v, struct err *err)
{
	if (v->has_rows)
		return 0;
	v->has_rows = 1;
	return block_unpack(v->blocks->rows_fd, &v->zone.packing, v->count, v->rows,
			    v->bytes + BLOCK_PAGE_BYTES, err);
}

int block_view_row(struct block_view *v, uint32_t i, struct block_row *row, struct err *err)
{
	if (!v->has_rows && ++v->singles <= SINGLES)
		return block_unpack_one(v->blocks->rows_fd, &v->zone.packing, v->count, i, row,
					err);
	int rc = read_rows(v, err);
	if (rc == 0)
		*row = v->rows[i];
	return rc;
}

/* ---- filters --------------------------------------------------------------------------------- */

/**
 * struct bound - values of a column that are taken, as codes: outside of [lo, hi] none, inside of
 * [sure_lo, sure_hi] all.
 */
struct bound {
	uint64_t least, most;
	uint16_t lo, hi, sure_lo, sure_hi;
	int asked;
};

struct selection {
	const struct block_filter *filter;
	struct bound bound[BLOCK_COLUMN_THREAD];
	/* by code, where one is asked for; NULL */
	uint8_t *threads;
	uint32_t thread_count;
};

static void set_bound(struct bound *b, uint64_t least, uint64_t most)
{
	*b = (struct bound){ .least = least,
			     .most = most,
			     .lo = block_code(least),
			     .hi = block_code(most),
			     .asked = least > 0 || most < UINT64_MAX };
	b->sure_lo = block_code_least(b->lo) == least ? b->lo : (uint16_t)(b->lo + 1);
	b->sure_hi = most == UINT64_MAX || block_code_least(b->hi + 1u) - 1 == most
			     ? b->hi
			     : (uint16_t)(b->hi - 1);
}

static int selection_init(struct selection *s, const struct blocks *blocks,
			  const struct block_filter *f, struct err *err)
{
	*s = (struct selection){ .filter = f };
	uint64_t made_until = f->to_ns == UINT64_MAX ? UINT64_MAX : f->to_ns ? f->to_ns - 1 : 0;
	if (f->has_at && f->at_ns < made_until)
		made_until = f->at_ns;
	set_bound(&s->bound[BLOCK_COLUMN_SIZE], f->min_size, f->max_size);
	set_bound(&s->bound[BLOCK_COLUMN_TIME], f->from_ns, made_until);
	set_bound(&s->bound[BLOCK_COLUMN_LIFETIME], f->lifetime_min_ns, f->lifetime_max_ns);
	struct bound *freed = &s->bound[BLOCK_COLUMN_FREED];
	uint64_t ends_from = f->leaked || (f->has_at && f->at_ns == UINT64_MAX) ? BLOCK_NEVER
			     : f->has_at                                        ? f->at_ns + 1
										: 0;
	set_bound(freed, ends_from, UINT64_MAX);
	freed->hi = freed->sure_hi = BLOCK_CODE_NEVER;
	if (ends_from == BLOCK_NEVER)
		freed->lo = freed->sure_lo = BLOCK_CODE_NEVER;
	if (!f->has_thread)
		return 0;
	pthread_mutex_lock((pthread_mutex_t *)&blocks->lock);
	s->thread_count = blocks->tid_count;
	s->threads = calloc(65536, 1);
	for (uint32_t i = 0; s->threads && i < s->thread_count; i++)
		s->threads[i] = blocks->tids[i] == f->tid;
	pthread_mutex_unlock((pthread_mutex_t *)&blocks->lock);
	return s->threads ? 0 : err_set(err, -ENOMEM, "cannot select blocks");
}

/**
 * apply() - rows of a whole page whose code is outside go, those at a bound are looked at later.
 */
static void apply(struct block_view *v, const uint16_t *code, const struct bound *b,
		  uint16_t unended)
{
	uint16_t lo = b->lo, span = (uint16_t)(b->hi - b->lo), sure_lo = b->sure_lo;
	uint16_t sure_span = (uint16_t)(b->sure_hi - b->sure_lo);
	uint8_t never_sure = b->sure_lo > b->sure_hi;
	for (unsigned i = 0; i < BLOCK_PAGE; i++) {
		uint16_t c = code[i];
		v->mask[i] &= (uint8_t)(((uint16_t)(c - lo) <= span) | (c == unended));
		v->unsure[i] |= (uint8_t)(((uint16_t)(c - sure_lo) > sure_span) | never_sure);
	}
}

/**
 * narrow() - the mask of the page as far as the columns tell. 1: some rows are unsure; 0: none is;
 * negative errno.
 */
static int narrow(struct block_view *v, const struct selection *s, struct err *err)
{
	int unsure = 0;
	memset(v->mask, 1, v->count);
	memset(v->mask + v->count, 0, BLOCK_PAGE - v->count);
	memset(v->unsure, 0, sizeof(v->unsure));
	for (unsigned c = 0; c < BLOCK_COLUMN_THREAD; c++) {
		const struct bound *b = &s->bound[c];
		int ended = c != BLOCK_COLUMN_LIFETIME || !v->zone.unended;
		if (!b->asked ||
		    (ended && v->zone.least[c] >= b->least && v->zone.most[c] <= b->most))
			continue;
		const uint16_t *code = codes(v, (enum block_column)c, err);
		if (!code)
			return err->code;
		apply(v, code, b,
		      c == BLOCK_COLUMN_LIFETIME ? BLOCK_CODE_UNENDED : BLOCK_CODE_NEVER);
		unsure = 1;
	}
	if (s->threads) {
		const uint16_t *code = codes(v, BLOCK_COLUMN_THREAD, err);
		if (!code)
			return err->code;
		for (unsigned i = 0; i < BLOCK_PAGE; i++) {
			int known = code[i] != BLOCK_THREAD_OTHER && code[i] < s->thread_count;
			v->mask[i] &= known ? s->threads[code[i]] : 1;
			v->unsure[i] |= (uint8_t)!known;
		}
		unsure = 1;
	}
	if (s->filter->address_from || s->filter->address_to != UINT64_MAX) {
		memset(v->unsure, 1, v->count); /* no column has addresses */
		unsure = 1;
	}
	if (s->filter->stacks) {
		const uint32_t *stack = numbers(v, BLOCK_FIELD_STACK, v->stacks, err);
		if (!stack)
			return err->code;
		for (unsigned i = 0; i < v->count; i++)
			v->mask[i] &= s->filter->stacks[stack[i]];
	}
	return unsure;
}

/** none_of() - can no row of the page be taken? */
static int none_of(const struct block_view *v, const struct selection *s)
{
	const struct block_filter *f = s->filter;
	if (f->from_ns >= f->to_ns || (f->leaked && !v->zone.unended))
		return 1;
	for (unsigned c = 0; c < BLOCK_COLUMN_THREAD; c++) {
		const struct bound *b = &s->bound[c];
		if (b->least > b->most)
			return 1;
		if (c == BLOCK_COLUMN_LIFETIME && v->zone.unended)
			continue;
		if (b->asked && (v->zone.most[c] < b->least || v->zone.least[c] > b->most))
			return 1;
	}
	return 0;
}

static int select_page(struct block_view *v, const struct selection *s, struct err *err)
{
	memset(v->has, 0, sizeof(v->has));
	v->has_rows = 0;
	v->singles = v->matched = 0;
	if (none_of(v, s)) {
		memset(v->mask, 0, sizeof(v->mask));
		return 0;
	}
	int rc = narrow(v, s, err);
	for (uint32_t i = 0; rc > 0 && i < v->count; i++) {
		struct block_row row;
		if (!(v->mask[i] & v->unsure[i]))
			continue;
		if (block_view_row(v, i, &row, err) < 0)
			return err->code;
		v->mask[i] = (uint8_t)block_matches(s->filter, &row);
	}
	for (uint32_t i = 0; rc >= 0 && i < v->count; i++)
		v->matched += v->mask[i];
	return rc < 0 ? rc : 0;
}

uint64_t blocks_count(const struct blocks *blocks)
{
	pthread_mutex_lock((pthread_mutex_t *)&blocks->lock);
	uint64_t rows = blocks->rows;
	pthread_mutex_unlock((pthread_mutex_t *)&blocks->lock);
	return rows;
}

size_t blocks_page(const struct blocks *blocks, uint64_t page, struct block_zone *zone)
{
	pthread_mutex_lock((pthread_mutex_t *)&blocks->lock);
	uint64_t rows = blocks->rows - page * BLOCK_PAGE;
	*zone = blocks->zones[page];
	pthread_mutex_unlock((pthread_mutex_t *)&blocks->lock);
	return rows < BLOCK_PAGE ? (size_t)rows : BLOCK_PAGE;
}

static void view_fini(struct block_view *v)
{
	if (!v)
		return;
	free(v->rows);
	free(v->bytes);
	free(v);
}

static struct block_view *view_new(const struct blocks *blocks, struct err *err)
{
	struct block_view *v = calloc(1, sizeof(*v));
	if (v) {
		v->blocks = blocks;
		v->rows = malloc(BLOCK_PAGE * sizeof(*v->rows));
		v->bytes = malloc(BLOCK_PAGE_BYTES + BLOCK_PACKED_MAX);
	}
	if (v && v->rows && v->bytes)
		return v;
	view_fini(v);
	err_set(err, -ENOMEM, "cannot read the blocks");
	return NULL;
}

int blocks_select(const struct blocks *blocks, const struct block_filter *filter, int backwards,
		  int (*each)(void *ctx, struct block_view *view, struct err *err), void *ctx,
		  struct err *err)
{
	struct selection s;
	int rc = selection_init(&s, blocks, filter, err);
	struct block_view *v = rc == 0 ? view_new(blocks, err) : NULL;
	uint64_t rows = blocks_count(blocks), pages = (rows + BLOCK_PAGE - 1) / BLOCK_PAGE;
	if (!v)
		rc = err->code;
	for (uint64_t i = 0; i < pages && rc == 0; i++) {
		v->page = backwards ? pages - 1 - i : i;
		v->count = (uint32_t)blocks_page(blocks, v->page, &v->zone);
		rc = select_page(v, &s, err);
		if (rc == 0)
			rc = each(ctx, v, err);
	}
	view_fini(v);
	free(s.threads);
	return rc;
}

int blocks_find(const struct blocks *blocks, uint64_t id, struct block_row *row, struct err *err)
{
	struct block_view *v = view_new(blocks, err);
	uint64_t rows = blocks_count(blocks);
	int rc = v ? 0 : err->code;
	for (uint64_t page = 0; rc == 0 && page * BLOCK_PAGE < rows; page++) {
		v->count = (uint32_t)blocks_page(blocks, page, &v->zone);
		if (id < v->zone.least_id || id > v->zone.most_id)
			continue;
		memset(v->has, 0, sizeof(v->has));
		v->page = page;
		v->has_rows = 0;
		v->singles = 0;
		const uint32_t *ids = block_view_ids(v, err);
		rc = ids ? 0 : err->code;
		for (uint32_t i = 0; rc == 0 && i < v->count; i++) {
			if (ids[i] != (id < UINT32_MAX ? (uint32_t)id : UINT32_MAX))
				continue;
			rc = block_view_row(v, i, row, err);
			rc = rc == 0 && row->id == id ? 1 : rc;
		}
	}
	view_fini(v);
	return rc;
}
