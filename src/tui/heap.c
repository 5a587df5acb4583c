/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - what the screens of a heap show, and what keys do to it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "tui/heap_internal.h"
#include "tui/paint.h"

#define CHANGE_NS 10000000000ull

struct heap_view *heap_view_new(const struct heap_opt *opt, struct err *err)
{
	struct heap_view *v = calloc(1, sizeof(*v));
	if (!v) {
		err_set(err, -ENOMEM, "cannot show a heap");
		return NULL;
	}
	v->opt = *opt;
	if (v->opt.by == VIEW_BY_STACK || v->opt.by == VIEW_BY_THREAD)
		v->opt.by = VIEW_BY_FUNCTION;
	v->screen = opt->by == VIEW_BY_STACK ? HEAP_TREE : HEAP_TABLE;
	return v;
}

static void drop_fold(struct heap_view *v)
{
	fold_picks_fini(&v->picks);
	v->picks = (struct fold_picks){ 0 };
	fold_freep(&v->fold);
}

void heap_view_freep(struct heap_view **view)
{
	struct heap_view *v = *view;
	if (!v)
		return;
	drop_fold(v);
	for (unsigned i = 0; i < v->past_count; i++)
		free(v->past[i].values);
	free(v->base.values);
	free(v->stacks);
	free(v->rows);
	free(v->open);
	free(v);
	*view = NULL;
}

enum heap_screen heap_view_screen(const struct heap_view *view)
{
	return view->screen;
}

int heap_view_holds(const struct heap_view *view)
{
	return view->holds;
}

void heap_view_remark(struct heap_view *view, const char *remark)
{
	snprintf(view->remark, sizeof(view->remark), "%s", remark);
}

void heap_view_say(struct heap_view *view, const char *said)
{
	snprintf(view->said, sizeof(view->said), "%s", said);
}

void heap_view_tabs(struct heap_view *view, const char *tabs)
{
	view->tabs = tabs;
}

void heap_name(const struct heap_view *v, const struct fold_frame *f, struct buf *to, int ascii)
{
	if (f->function && !f->folded) {
		if (v->opt.short_name && !f->reason)
			v->opt.short_name(to, f->function, ascii);
		else
			buf_puts(to, f->function);
		return;
	}
	if (f->file && !f->folded) {
		const char *slash = strrchr(f->file, '/');
		buf_puts(to, slash && slash[1] ? slash + 1 : f->file);
		if (f->line)
			buf_printf(to, ":%u", f->line);
		return;
	}
	buf_printf(to, f->folded ? "[%s]" : "%s", f->module ? f->module : "no module");
	if (!f->folded)
		buf_printf(to, "+0x%llx", (unsigned long long)f->offset);
}

int heap_matches(const struct heap_view *v, const struct fold_frame *f)
{
	const char *const texts[] = { f->function, f->module, f->file };
	if (!v->find_len)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i] && strcasestr(texts[i], v->find))
			return 1;
	return 0;
}

/* ---- which nodes are open -------------------------------------------------------------------- */

static size_t open_at(const struct heap_view *v, uint64_t key)
{
	size_t low = 0, high = v->open_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (v->open[mid] < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int is_open(const struct heap_view *v, uint64_t key)
{
	size_t at = open_at(v, key);
	return at < v->open_count && v->open[at] == key;
}

/* Where memory is out nothing opens. */
static void set_open(struct heap_view *v, uint64_t key, int open)
{
	size_t at = open_at(v, key);
	int was = at < v->open_count && v->open[at] == key;
	if (was == open)
		return;
	if (!open) {
		memmove(&v->open[at], &v->open[at + 1], (--v->open_count - at) * sizeof(*v->open));
		return;
	}
	if (v->open_count == v->open_room) {
		size_t room = v->open_room ? v->open_room * 2 : 64;
		uint64_t *grown = reallocarray(v->open, room, sizeof(*grown));
		if (!grown)
			return;
		v->open = grown;
		v->open_room = room;
	}
	memmove(&v->open[at + 1], &v->open[at], (v->open_count++ - at) * sizeof(*v->open));
	v->open[at] = key;
}

/* From the top along the costliest child, as long as it has most of its parent's. */
static void open_hot_path(struct heap_view *v)
{
	const struct fold_pick *all = v->picks.all;
	v->open_count = 0;
	for (uint32_t i = 0; i + 1 < v->picks.count; i++) {
		set_open(v, all[i].key, 1);
		if (all[i + 1].parent != i || all[i + 1].total < all[i].total / 2)
			break;
	}
}

/* ---- readings -------------------------------------------------------------------------------- */

/* By stack row, so that a later reading of the same recording finds its own again. */
static uint64_t *values_of(const struct heap_view *v, enum view_cost cost, uint32_t *count)
{
	*count = prof_stack_count(v->prof);
	uint64_t *values = calloc((size_t)*count + 1, sizeof(*values));
	for (uint32_t i = 0; values && i < v->stack_count; i++) {
		struct cost c;
		prof_stack_cost(v->prof, (struct stack_id){ v->stacks[i] }, &c);
		values[v->stacks[i]] = view_cost_of(&c, cost);
	}
	return values;
}

static void remember(struct heap_view *v)
{
	struct heap_past now = { .time_ns = v->time_ns };
	if (!v->opt.live ||
	    (v->past_count && v->time_ns < v->past[v->past_count - 1].time_ns + 900000000ull))
		return;
	now.values = values_of(v, v->opt.cost, &now.count);
	if (!now.values)
		return;
	if (v->past_count == HEAP_PAST) {
		free(v->past[0].values);
		memmove(&v->past[0], &v->past[1], (HEAP_PAST - 1) * sizeof(v->past[0]));
		v->past_count--;
	}
	v->past[v->past_count++] = now;
}

/*
 * The reading that changes are told from: the reader's own, else the newest that is ten seconds
 * old, else the oldest.
 */
static const struct heap_past *before(const struct heap_view *v)
{
	const struct heap_past *found = NULL;
	if (v->base.values)
		return &v->base;
	for (unsigned i = 0; i + 1 < v->past_count; i++)
		if (!found || v->past[i].time_ns + CHANGE_NS <= v->time_ns)
			found = &v->past[i];
	return found;
}

static int list_stacks(struct heap_view *v)
{
	uint32_t rows = prof_stack_count(v->prof), count = 0;
	uint32_t *stacks = calloc((size_t)rows + 1, sizeof(*stacks));
	if (!stacks)
		return -ENOMEM;
	for (uint32_t i = prof_stack_used(v->prof, 0); i < rows;
	     i = prof_stack_used(v->prof, i + 1))
		stacks[count++] = i;
	free(v->stacks);
	v->stacks = stacks;
	v->stack_count = count;
	return 0;
}

/* By account, which is what the fold asks for. */
static uint64_t *by_account(const struct heap_view *v, const uint64_t *by_row, uint32_t count)
{
	uint64_t *values = calloc((size_t)v->stack_count + 1, sizeof(*values));
	for (uint32_t i = 0; values && i < v->stack_count; i++)
		values[i] = v->stacks[i] < count ? by_row[v->stacks[i]] : 0;
	return values;
}

static int sum_rows(const struct heap_view *v, const uint64_t *by_row, uint32_t count,
		    struct fold_sums *sums, struct err *err)
{
	uint64_t *values = by_account(v, by_row, count);
	int rc = values ? fold_sum(v->fold, 0, values, sums, err) : -ENOMEM;
	free(values);
	return rc;
}

struct sums {
	struct fold_sums cost, blocks, base;
	/* by stack row */
	uint64_t *values;
	/* of the cost, by account */
	uint64_t *accounts;
};

static void sums_fini(struct sums *s)
{
	fold_sums_fini(&s->cost);
	fold_sums_fini(&s->blocks);
	fold_sums_fini(&s->base);
	free(s->values);
	free(s->accounts);
}

static int add_up(struct heap_view *v, struct sums *s, struct err *err)
{
	const struct heap_past *past = before(v);
	uint32_t count;
	s->values = values_of(v, v->opt.cost, &count);
	s->accounts = s->values ? by_account(v, s->values, count) : NULL;
	int rc = s->accounts ? fold_sum(v->fold, 0, s->accounts, &s->cost, err) : -ENOMEM;
	v->whole = 0;
	for (uint32_t i = 0; rc == 0 && i < v->stack_count; i++)
		sum_add(&v->whole, s->values[v->stacks[i]]);
	for (uint32_t i = 0; rc == 0 && i < v->stack_count; i++) {
		struct cost c;
		prof_stack_cost(v->prof, (struct stack_id){ v->stacks[i] }, &c);
		s->values[v->stacks[i]] = v->opt.cost == VIEW_COST_LIVE && !v->opt.moment
						  ? c.leaked + c.uncertain
						  : c.allocations;
	}
	if (rc == 0)
		rc = sum_rows(v, s->values, count, &s->blocks, err);
	v->has_before = past != NULL;
	if (rc == 0 && past) {
		v->before_ns = past->time_ns;
		rc = sum_rows(v, past->values, past->count, &s->base, err);
	}
	return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int tree_rows(struct heap_view *v)
{
	const struct fold_picks *p = &v->picks;
	uint8_t *hidden = calloc((size_t)p->count + 1, 1);
	uint32_t *last = calloc((size_t)p->count + 1, sizeof(*last));
	v->rows = calloc((size_t)p->count + 1, sizeof(*v->rows));
	if (!hidden || !last || !v->rows) {
		free(hidden);
		free(last);
		return -ENOMEM;
	}
	for (uint32_t i = 1; i < p->count; i++)
		last[p->all[i].parent] = i;
	for (uint32_t i = 1; i < p->count; i++) { /* 0 is the root */
		const struct fold_pick *pick = &p->all[i];
		int closed = pick->parent && !is_open(v, p->all[pick->parent].key);
		hidden[i] = hidden[pick->parent] || closed;
		if (hidden[i])
			continue;
		struct heap_row *row = &v->rows[v->row_count++];
		*row = (struct heap_row){ .key = pick->key,
					  .total = pick->total,
					  .self = pick->self,
					  .blocks = pick->blocks,
					  .before = pick->base,
					  .frame = pick->frame,
					  .pick = i,
					  .depth = (uint16_t)(pick->depth ? pick->depth - 1 : 0),
					  .opens = pick->children != 0,
					  .is_open = is_open(v, pick->key),
					  .last = last[pick->parent] == i };
		uint64_t guides = 0;
		for (uint32_t up = pick->parent; up; up = p->all[up].parent)
			if (p->all[up].depth >= 1 && p->all[up].depth <= 64 &&
			    last[p->all[up].parent] != up)
				guides |= 1ull << (p->all[up].depth - 1);
		row->guides = guides;
	}
	free(hidden);
	free(last);
	return 0;
}

static int by_sort(const void *a, const void *b, void *ctx)
{
	const struct heap_row *x = a, *y = b;
	const struct heap_view *v = ctx;
	int order = 0;
	if (v->sort == SORT_CHANGE) {
		int64_t dx = (int64_t)(x->total - x->before), dy = (int64_t)(y->total - y->before);
		order = dx > dy ? -1 : dx < dy;
	} else if (v->sort == SORT_NAME) {
		const struct fold_frame *fx = &v->fold->frames[x->frame],
					*fy = &v->fold->frames[y->frame];
		order = strcmp(fx->function ? fx->function : "~",
			       fy->function ? fy->function : "~");
	} else {
		uint64_t nx = v->sort == SORT_SELF ? x->self : x->total;
		uint64_t ny = v->sort == SORT_SELF ? y->self : y->total;
		order = nx > ny ? -1 : nx < ny;
	}
	if (v->ascending)
		order = -order;
	return order ? order : x->key < y->key ? -1 : x->key > y->key;
}

static int table_rows(struct heap_view *v, const struct sums *s)
{
	uint32_t frames = v->fold->frame_count;
	uint64_t *own = calloc(4 * (size_t)frames + 1, sizeof(*own));
	v->rows = calloc((size_t)frames + 1, sizeof(*v->rows));
	if (!own || !v->rows) {
		free(own);
		return -ENOMEM;
	}
	uint64_t *all = own + frames, *blocks = all + frames, *past = blocks + frames;
	struct err err = { 0 };
	if (fold_own_sums(v->fold, 0, s->accounts, own, &err) < 0) {
		free(own);
		return -ENOMEM;
	}
	fold_inclusive_sums(v->fold, &s->cost, all);
	fold_inclusive_sums(v->fold, &s->blocks, blocks);
	if (v->has_before)
		fold_inclusive_sums(v->fold, &s->base, past);
	for (uint32_t i = 1; i < frames; i++) {
		if (!all[i] && !past[i])
			continue;
		v->rows[v->row_count++] = (struct heap_row){ .key = v->fold->frames[i].key,
							     .total = all[i],
							     .self = own[i],
							     .blocks = blocks[i],
							     .before = past[i],
							     .frame = i };
	}
	free(own);
	qsort_r(v->rows, v->row_count, sizeof(*v->rows), by_sort, v);
	return 0;
}

static uint64_t row_key(void *ctx, uint32_t row)
{
	const struct heap_view *v = ctx;
	return v->rows[row].key;
}

static int make_rows(struct heap_view *v, const struct sums *s)
{
	free(v->rows);
	v->rows = NULL;
	v->row_count = 0;
	int rc = v->screen == HEAP_TREE ? tree_rows(v) : table_rows(v, s);
	if (rc == 0)
		list_renew(&v->list, v->row_count, row_key, v);
	return rc;
}

/* Everything anew for what is asked: folded, added up, laid out. */
static int build(struct heap_view *v, struct err *err)
{
	struct sums s = { 0 };
	struct fold_opt opt = { .by = v->opt.by };
	struct fold_side side;
	if (!v->prof)
		return 0;
	drop_fold(v);
	prof_totals(v->prof, &v->totals);
	int rc = list_stacks(v);
	side = (struct fold_side){ v->prof, v->stacks, v->stack_count };
	if (rc == 0 && !(v->fold = fold_new(&opt, &side, 1, err)))
		rc = -ENOMEM;
	if (rc == 0)
		rc = add_up(v, &s, err);
	if (rc == 0 && v->screen == HEAP_TREE) {
		struct fold_ask ask = { .cost = s.cost,
					.blocks = s.blocks,
					.base = s.base,
					.inverted = v->opt.inverted,
					.nodes_max = HEAP_NODES_MAX };
		rc = fold_choose(v->fold, &ask, &v->picks, err);
		if (rc == 0 && !v->touched)
			open_hot_path(v);
	}
	if (rc == 0)
		rc = make_rows(v, &s);
	sums_fini(&s);
	return rc < 0 ? err_set(err, rc, "cannot lay out the heap") : 0;
}

/* Opening and closing changes nothing but which rows there are. */
static int relayout(struct heap_view *v, struct err *err)
{
	int rc = v->screen == HEAP_TREE && v->picks.count ? make_rows(v, NULL) : build(v, err);
	return rc < 0 ? err_set(err, rc, "cannot lay out the heap") : 0;
}

int heap_view_feed(struct heap_view *v, const struct prof *prof, uint64_t time_ns, struct err *err)
{
	v->prof = prof;
	v->time_ns = time_ns;
	int rc = list_stacks(v);
	if (rc == 0)
		remember(v);
	return rc < 0 ? err_set(err, rc, "cannot lay out the heap") : build(v, err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static struct heap_row *row_under(const struct heap_view *v)
{
	return v->list.cursor < v->row_count ? &v->rows[v->list.cursor] : NULL;
}

static void move_to_parent(struct heap_view *v, const struct heap_row *row)
{
	for (uint32_t i = v->list.cursor; i-- > 0;) {
		if (v->rows[i].depth < row->depth) {
			list_goto(&v->list, i);
			return;
		}
	}
}

static int open_or_close(struct heap_view *v, int key, struct err *err)
{
	struct heap_row *row = row_under(v);
	if (!row || v->screen != HEAP_TREE)
		return 1;
	int open = key == PAINT_ENTER ? !row->is_open : key == PAINT_RIGHT;
	if (!open && !row->is_open) {
		move_to_parent(v, row);
		return 1;
	}
	if (!row->opens)
		return 1;
	v->list.key = row->key;
	v->list.has_key = 1;
	v->touched = 1;
	set_open(v, row->key, open);
	int rc = relayout(v, err);
	return rc < 0 ? rc : 1;
}

/* The next row below or above that has what is looked for, around the end. */
static void find(struct heap_view *v, int back)
{
	for (uint32_t i = 1; i <= v->row_count; i++) {
		uint32_t row = (v->list.cursor + (back ? v->row_count - i : i)) % v->row_count;
		if (heap_matches(v, &v->fold->frames[v->rows[row].frame])) {
			list_goto(&v->list, row);
			return;
		}
	}
}

static int type_find(struct heap_view *v, int key)
{
	if (key == PAINT_ENTER || key == PAINT_ESCAPE) {
		v->finding = 0;
		if (key == PAINT_ESCAPE)
			v->find[v->find_len = 0] = 0;
		else if (v->row_count)
			find(v, 0);
	} else if (key == PAINT_BACKSPACE) {
		while (v->find_len && ((unsigned char)v->find[--v->find_len] & 0xc0) == 0x80)
			;
		v->find[v->find_len] = 0;
	} else if (key >= 32 && key < 127 && v->find_len < HEAP_FIND_MAX) {
		v->find[v->find_len++] = (char)key;
		v->find[v->find_len] = 0;
	}
	return 1;
}

static void set_base(struct heap_view *v)
{
	free(v->base.values);
	v->base = (struct heap_past){ .time_ns = v->time_ns };
	v->base.values = values_of(v, v->opt.cost, &v->base.count);
}

/* Values of another cost say nothing about this one. */
static void next_cost(struct heap_view *v)
{
	static const enum view_cost order[] = { VIEW_COST_LIVE, VIEW_COST_PEAK, VIEW_COST_ALLOCATED,
						VIEW_COST_ALLOCATIONS, VIEW_COST_TEMPORARY };
	size_t at = 0;
	while (at + 1 < ARRAY_LEN(order) && order[at] != v->opt.cost)
		at++;
	v->opt.cost = order[(at + 1) % ARRAY_LEN(order)];
	for (unsigned i = 0; i < v->past_count; i++)
		free(v->past[i].values);
	v->past_count = 0;
	free(v->base.values);
	v->base = (struct heap_past){ 0 };
	if (v->prof)
		remember(v);
}

static void next_by(struct heap_view *v)
{
	static const enum view_by order[] = { VIEW_BY_FUNCTION, VIEW_BY_MODULE, VIEW_BY_FILE,
					      VIEW_BY_LINE };
	size_t at = 0;
	while (at + 1 < ARRAY_LEN(order) && order[at] != v->opt.by)
		at++;
	v->opt.by = order[(at + 1) % ARRAY_LEN(order)];
	v->touched = 0;
}

static void next_sort(struct heap_view *v)
{
	v->sort = (enum heap_sort)((v->sort + 1) % SORT_WORDS);
	if (v->sort == SORT_CHANGE && !v->has_before)
		v->sort = SORT_NAME;
}

int heap_view_key(struct heap_view *v, int key, struct err *err)
{
	v->said[0] = '\0';
	if (v->finding)
		return type_find(v, key);
	if (v->help && key != PAINT_RESIZE) {
		v->help = 0;
		return 1;
	}
	if (list_key(&v->list, key)) {
		const struct heap_row *row = row_under(v);
		if (row) {
			v->list.key = row->key;
			v->list.has_key = 1;
		}
		return 1;
	}
	switch (key) {
	case PAINT_ENTER:
	case PAINT_RIGHT:
	case PAINT_LEFT:
		return open_or_close(v, key, err);
	case '/':
		v->finding = 1;
		v->find[v->find_len = 0] = 0;
		return 1;
	case 'n':
	case 'N':
		if (v->row_count)
			find(v, key == 'N');
		return 1;
	case '?':
	case 'h':
		v->help = 1;
		return 1;
	case ' ':
		v->holds = !v->holds;
		return 1;
	case 'c':
		next_cost(v);
		break;
	case 'm':
		next_by(v);
		break;
	case 'i':
		v->opt.inverted = !v->opt.inverted;
		v->touched = 0;
		break;
	case 's':
		next_sort(v);
		break;
	case 'S':
		v->ascending = !v->ascending;
		break;
	case 'd':
		set_base(v);
		break;
	case '3':
	case 't':
		v->screen = HEAP_TREE;
		break;
	case '4':
		v->screen = HEAP_TABLE;
		break;
	default:
		return 0;
	}
	int rc = build(v, err);
	return rc < 0 ? rc : 1;
}

void heap_view_path(const struct heap_view *v, struct buf *to)
{
	const struct heap_row *row = row_under(v);
	if (!row)
		return;
	if (v->screen == HEAP_TABLE) {
		heap_name(v, &v->fold->frames[row->frame], to, 0);
		buf_putc(to, '\n');
		return;
	}
	for (uint32_t at = row->pick; at; at = v->picks.all[at].parent) {
		heap_name(v, &v->fold->frames[v->picks.all[at].frame], to, 0);
		buf_putc(to, '\n');
	}
}
