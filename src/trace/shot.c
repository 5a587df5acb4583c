/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/shot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/cursor.h"

#define SHOT_VERSION 1

/* Numbers that may be "not known" are stored one more, which makes that 0. */
static void put_known(struct buf *to, uint64_t v)
{
	put_num(to, v + 1);
}

static uint64_t get_known(struct cursor *c)
{
	return get_num(c) - 1;
}

static void put_head(struct buf *to, const struct snapshot *s)
{
	const uint64_t numbers[] = { SHOT_VERSION,
				     s->time_ns,
				     s->rss_bytes,
				     s->pid,
				     s->mode,
				     s->realtime_ns,
				     s->window_ns,
				     s->scan_ns,
				     s->stall_ns,
				     s->page_bytes,
				     s->pss_bytes,
				     s->swap_bytes,
				     s->hugetlb_bytes,
				     s->page_table_bytes,
				     s->status_rss_bytes,
				     s->start_age_ns,
				     s->limit_bytes,
				     (uint64_t)(s->has_settings != 0),
				     (uint64_t)(s->thresholds_set != 0),
				     s->trim_threshold,
				     s->mmap_threshold,
				     s->arena_max,
				     s->arenas,
				     s->region_count,
				     s->run_count,
				     s->unit_count,
				     s->piece_count,
				     s->stack_count,
				     s->own_count,
				     s->allocator_count,
				     s->size_count };
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		put_num(to, numbers[i]);
	size_t len = strnlen(s->comm, sizeof(s->comm) - 1);
	put_num(to, len);
	buf_put(to, s->comm, len);
	/* what older readers pass over */
	put_num(to, s->smaps_rss_bytes);
	put_known(to, s->held_bytes);
	put_known(to, s->cgroup_cache_bytes);
	put_known(to, s->cgroup_socket_bytes);
}

void shot_encode(struct blt_cols *cols, const struct snapshot *s)
{
	uint64_t last = 0, page = s->page_bytes;
	put_head(&cols->col[SHC_HEAD], s);
	buf_put(&cols->col[SHC_TEXT], s->text, s->text_bytes);
	struct buf *to = &cols->col[SHC_REGIONS];
	for (size_t i = 0; i < s->region_count; i++) {
		const struct snapshot_region *r = &s->regions[i];
		put_num(to, r->start - last);
		put_num(to, r->end - r->start);
		put_num(to, r->rss_bytes);
		put_num(to, r->private_bytes);
		put_num(to, r->shared_bytes);
		put_num(to, r->anonymous_bytes);
		put_num(to, r->swap_bytes);
		put_num(to, r->huge_bytes);
		put_num(to, r->lazy_free_bytes);
		put_num(to, r->label);
		put_num(to, (uint64_t)r->class << 8 | (uint64_t)r->flags << 1 | (r->exact != 0));
		last = r->end;
	}
	last = 0;
	to = &cols->col[SHC_RUNS];
	for (size_t i = 0; i < s->run_count; i++) {
		put_num(to, (s->runs[i].start - last) / page);
		put_num(to, (s->runs[i].end - s->runs[i].start) / page);
		put_num(to, s->runs[i].kinds);
		last = s->runs[i].end;
	}
	last = 0;
	to = &cols->col[SHC_UNITS];
	for (size_t i = 0; i < s->unit_count; i++) {
		const struct snapshot_unit *u = &s->units[i];
		put_num(to, u->start - last);
		put_num(to, u->bytes);
		put_num(to, (uint64_t)u->kind << 16 | (uint64_t)u->flags << 8 | u->allocator);
		put_num(to, u->slot);
		put_num(to, u->head);
		put_num(to, u->used);
		put_num(to, u->cached);
		put_num(to, u->arena);
		last = u->start + u->bytes;
	}
	last = 0;
	to = &cols->col[SHC_PIECES];
	for (size_t i = 0; i < s->piece_count; i++) {
		const struct snapshot_piece *p = &s->pieces[i];
		put_num(to, (p->start - last) << 2 | (p->kind - 1u));
		put_num(to, p->bytes);
		last = p->start + p->bytes;
	}
	last = 0;
	to = &cols->col[SHC_RANGES];
	for (size_t i = 0; i < s->stack_count; i++) {
		put_num(to, s->stacks[i].start - last);
		put_num(to, s->stacks[i].end - s->stacks[i].start);
		put_num(to, s->stacks[i].tid);
		last = s->stacks[i].end;
	}
	last = 0;
	for (size_t i = 0; i < s->own_count; i++) {
		put_num(to, s->own[i].start - last);
		put_num(to, s->own[i].end - s->own[i].start);
		last = s->own[i].end;
	}
	to = &cols->col[SHC_HEAPS];
	for (size_t i = 0; i < s->allocator_count; i++) {
		const struct snapshot_allocator *a = &s->allocators[i];
		put_num(to, a->name);
		put_num(to, a->how);
		put_known(to, a->live_bytes);
		put_known(to, a->free_page_bytes);
		put_known(to, a->hole_bytes);
		put_known(to, a->cache_bytes);
		put_known(to, a->metadata_bytes);
		put_known(to, a->live_count);
		put_num(to, a->consistency);
	}
	for (size_t i = 0; i < s->size_count; i++) {
		put_num(to, s->sizes[i].bytes);
		put_num(to, s->sizes[i].count);
		put_num(to, s->sizes[i].sum);
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

/*
 * A list of @count rows, each of which takes @least bytes of what is left of the column, or more.
 */
static void *rows(struct cursor *c, uint64_t count, size_t row_bytes, unsigned least, int *rc)
{
	if (c->bad || count > (uint64_t)(c->end - c->at) / least) {
		c->bad = 1;
		return NULL;
	}
	void *list = calloc(count + 1, row_bytes);
	if (!list)
		*rc = -ENOMEM;
	return list;
}

/*
 * The next address: a sum that a hostile file may carry over the end is found by snapshot_check().
 */
static uint64_t get_after(struct cursor *c, uint64_t last, uint64_t scale)
{
	uint64_t more = get_num(c), at = 0;
	if (__builtin_mul_overflow(more, scale, &more) || __builtin_add_overflow(last, more, &at))
		c->bad = 1;
	return c->bad ? 0 : at;
}

struct counts {
	uint64_t regions, runs, units, pieces, stacks, own, allocators, sizes;
};

static void get_head(struct cursor *c, struct snapshot *s, struct counts *n)
{
	if (get_num(c) != SHOT_VERSION)
		c->bad = 1;
	s->time_ns = get_num(c);
	s->rss_bytes = get_num(c);
	s->pid = get_u32(c);
	s->mode = get_num(c) == SNAPSHOT_FROZEN;
	s->realtime_ns = get_num(c);
	s->window_ns = get_num(c);
	s->scan_ns = get_num(c);
	s->stall_ns = get_num(c);
	s->page_bytes = get_num(c);
	s->pss_bytes = get_num(c);
	s->swap_bytes = get_num(c);
	s->hugetlb_bytes = get_num(c);
	s->page_table_bytes = get_num(c);
	s->status_rss_bytes = get_num(c);
	s->start_age_ns = get_num(c);
	s->limit_bytes = get_num(c);
	s->has_settings = get_num(c) != 0;
	s->thresholds_set = get_num(c) != 0;
	s->trim_threshold = get_num(c);
	s->mmap_threshold = get_num(c);
	s->arena_max = get_num(c);
	s->arenas = get_u32(c);
	uint64_t *counts[] = { &n->regions, &n->runs, &n->units,      &n->pieces,
			       &n->stacks,  &n->own,  &n->allocators, &n->sizes };
	for (unsigned i = 0; i < 8; i++)
		*counts[i] = get_num(c);
	uint64_t len = get_num(c);
	if (c->bad || len >= sizeof(s->comm) || len > (uint64_t)(c->end - c->at)) {
		c->bad = 1;
		return;
	}
	memcpy(s->comm, c->at, len);
	c->at += len;
	s->smaps_rss_bytes = s->rss_bytes;
	s->held_bytes = s->cgroup_cache_bytes = s->cgroup_socket_bytes = UINT64_MAX;
	if (c->at == c->end) /* written before there was more */
		return;
	s->smaps_rss_bytes = get_num(c);
	s->held_bytes = get_known(c);
	s->cgroup_cache_bytes = get_known(c);
	s->cgroup_socket_bytes = get_known(c);
}

static void get_regions(struct cursor *c, struct snapshot *s, uint64_t count, int *rc)
{
	uint64_t last = 0;
	s->regions = rows(c, count, sizeof(*s->regions), 11, rc);
	for (; s->regions && s->region_count < count && !c->bad; s->region_count++) {
		struct snapshot_region *r = &s->regions[s->region_count];
		r->start = get_after(c, last, 1);
		r->end = last = get_after(c, r->start, 1);
		r->rss_bytes = get_num(c);
		r->private_bytes = get_num(c);
		r->shared_bytes = get_num(c);
		r->anonymous_bytes = get_num(c);
		r->swap_bytes = get_num(c);
		r->huge_bytes = get_num(c);
		r->lazy_free_bytes = get_num(c);
		r->label = get_u32(c);
		uint64_t rest = get_num(c);
		r->class = rest >> 8 < SHEET_CLASSES ? (uint8_t)(rest >> 8) : SHEET_CLASSES;
		r->flags = rest >> 1 & 127;
		r->exact = rest & 1;
	}
}

static void get_runs(struct cursor *c, struct snapshot *s, uint64_t count, int *rc)
{
	uint64_t last = 0;
	s->runs = rows(c, count, sizeof(*s->runs), 3, rc);
	for (; s->runs && s->run_count < count && !c->bad; s->run_count++) {
		struct snapshot_run *r = &s->runs[s->run_count];
		r->start = get_after(c, last, s->page_bytes);
		r->end = last = get_after(c, r->start, s->page_bytes);
		r->kinds = get_u32(c);
	}
}

static void get_units(struct cursor *c, struct snapshot *s, uint64_t count, int *rc)
{
	uint64_t last = 0;
	s->units = rows(c, count, sizeof(*s->units), 8, rc);
	for (; s->units && s->unit_count < count && !c->bad; s->unit_count++) {
		struct snapshot_unit *u = &s->units[s->unit_count];
		u->start = get_after(c, last, 1);
		u->bytes = get_num(c);
		uint64_t kind = get_num(c);
		u->kind = kind >> 16 < SNAPSHOT_UNIT_KINDS ? (uint8_t)(kind >> 16) : 0;
		u->flags = kind >> 8 & 255;
		u->allocator = kind & 255;
		u->slot = get_num(c);
		u->head = get_num(c);
		u->used = get_u32(c);
		u->cached = get_u32(c);
		u->arena = (uint16_t)get_num(c);
		if (__builtin_add_overflow(u->start, u->bytes, &last))
			c->bad = 1;
	}
}

static void get_pieces(struct cursor *c, struct snapshot *s, uint64_t count, int *rc)
{
	uint64_t last = 0;
	s->pieces = rows(c, count, sizeof(*s->pieces), 2, rc);
	for (; s->pieces && s->piece_count < count && !c->bad; s->piece_count++) {
		struct snapshot_piece *p = &s->pieces[s->piece_count];
		uint64_t word = get_num(c), bytes = get_num(c), start;
		if (bytes >> 56 || __builtin_add_overflow(last, word >> 2, &start)) {
			c->bad = 1;
			return;
		}
		p->start = start;
		p->kind = (word & 3) + 1;
		p->bytes = bytes & ((1ull << 56) - 1);
		last = start + bytes;
	}
}

static void get_ranges(struct cursor *c, struct snapshot *s, const struct counts *n, int *rc)
{
	uint64_t last = 0;
	s->stacks = rows(c, n->stacks, sizeof(*s->stacks), 3, rc);
	for (; s->stacks && s->stack_count < n->stacks && !c->bad; s->stack_count++) {
		struct snapshot_stack *st = &s->stacks[s->stack_count];
		st->start = get_after(c, last, 1);
		st->end = last = get_after(c, st->start, 1);
		st->tid = get_u32(c);
	}
	last = 0;
	s->own = rows(c, n->own, sizeof(*s->own), 2, rc);
	for (; s->own && s->own_count < n->own && !c->bad; s->own_count++) {
		s->own[s->own_count].start = get_after(c, last, 1);
		s->own[s->own_count].end = last = get_after(c, s->own[s->own_count].start, 1);
	}
}

static void get_heaps(struct cursor *c, struct snapshot *s, const struct counts *n, int *rc)
{
	s->allocators = rows(c, n->allocators, sizeof(*s->allocators), 9, rc);
	for (; s->allocators && s->allocator_count < n->allocators && !c->bad;
	     s->allocator_count++) {
		struct snapshot_allocator *a = &s->allocators[s->allocator_count];
		a->name = get_u32(c);
		a->how = get_u32(c);
		a->live_bytes = get_known(c);
		a->free_page_bytes = get_known(c);
		a->hole_bytes = get_known(c);
		a->cache_bytes = get_known(c);
		a->metadata_bytes = get_known(c);
		a->live_count = get_known(c);
		a->consistency = get_u32(c);
	}
	s->sizes = rows(c, n->sizes, sizeof(*s->sizes), 3, rc);
	for (; s->sizes && s->size_count < n->sizes && !c->bad; s->size_count++) {
		s->sizes[s->size_count].bytes = get_num(c);
		s->sizes[s->size_count].count = get_num(c);
		s->sizes[s->size_count].sum = get_num(c);
	}
}

struct snapshot *shot_decode(const struct blt_view *view, int *rc)
{
	CLEANUP(snapshot_freep) struct snapshot *s = calloc(1, sizeof(*s));
	struct counts n = { 0 };
	*rc = s ? 0 : -ENOMEM;
	if (!s)
		return NULL;
	struct cursor head = cursor_column(view, SHC_HEAD), text = cursor_column(view, SHC_TEXT);
	struct cursor cols[5];
	for (unsigned i = 0; i < 5; i++)
		cols[i] = cursor_column(view, SHC_REGIONS + i);
	get_head(&head, s, &n);
	size_t bytes = (size_t)(text.end - text.at);
	if (head.bad || !bytes || bytes > 16u << 20) {
		*rc = -EBADMSG;
		return NULL;
	}
	s->text = malloc(bytes);
	if (s->text)
		memcpy(s->text, text.at, bytes);
	s->text_bytes = s->text_room = bytes;
	get_regions(&cols[0], s, n.regions, rc);
	get_runs(&cols[1], s, n.runs, rc);
	get_units(&cols[2], s, n.units, rc);
	get_pieces(&cols[3], s, n.pieces, rc);
	get_ranges(&cols[4], s, &n, rc);
	struct cursor heaps = cursor_column(view, SHC_HEAPS);
	get_heaps(&heaps, s, &n, rc);
	int bad = heaps.bad;
	for (unsigned i = 0; i < 5; i++)
		bad |= cols[i].bad;
	if (!s->text || *rc < 0) {
		*rc = -ENOMEM;
		return NULL;
	}
	if (bad || snapshot_check(s) < 0) {
		*rc = -EBADMSG;
		return NULL;
	}
	return STEAL(s);
}

uint64_t shot_time(const struct blt_view *view, uint64_t *rss_bytes)
{
	struct cursor c = cursor_column(view, SHC_HEAD);
	uint64_t version = get_num(&c), time_ns = get_num(&c);
	*rss_bytes = get_num(&c);
	return c.bad || version != SHOT_VERSION ? UINT64_MAX : time_ns;
}
