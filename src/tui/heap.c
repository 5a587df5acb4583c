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
	fold_sums_fini(&v->shown);
	v->shown = (struct fold_sums){ 0 };
	fold_freep(&v->fold);
}

void heap_view_freep(struct heap_view **view)
{
	struct heap_view *v = *view;
	if (!v)
		return;
	drop_fold(v);
	heap_forget(v);
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

/**
 * open_hot_path() - from pick @from along the costliest child, as long as it has most of its
 * parent's. Return: where it ends.
 */
static uint32_t open_hot_path(struct heap_view *v, uint32_t from)
{
	const struct fold_pick *all = v->picks.all;
	uint32_t i = from;
	for (; i + 1 < v->picks.count; i++) {
		if (all[i + 1].parent != i)
			break;
		set_open(v, all[i].key, 1);
		if (all[i + 1].total < all[i].total / 2)
			break;
	}
	return i;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define SMALL_OF_ALL 1000  /* a child that holds less of the whole, */
#define SMALL_OF_PARENT 20 /* and less of its parent, is put together with others like it, */
#define SMALL_LEAST 3      /* where there are so many */

/* The row of a parent's small children: open, they stand there one by one. */
static uint64_t key_of_small(const struct fold_pick *parent)
{
	return parent->key ^ 0x9e3779b97f4a7c15ull;
}

/** struct level - the children of a pick. */
struct level {
	/* first pick behind all that is below it; its last child that has a row */
	uint32_t end, last;
	/* children, those that are small, and those put together, with what they hold */
	uint32_t picked, small, smaller;
	uint64_t sum;
	/* of its small ones one is what the reader looks for */
	int found;
};

static int is_small(const struct heap_view *v, const struct fold_pick *pick)
{
	const struct fold_pick *parent = &v->picks.all[pick->parent];
	return pick->total < v->whole / SMALL_OF_ALL &&
	       pick->total < parent->total / SMALL_OF_PARENT;
}

static int is_folded(const struct level *level)
{
	return level->small >= SMALL_LEAST;
}

/* Which children stand in one row, and what lies behind the costliest picks. */
static void find_levels(const struct heap_view *v, struct level *levels)
{
	const struct fold_picks *p = &v->picks;
	for (uint32_t i = p->count; i-- > 1;) {
		struct level *up = &levels[p->all[i].parent];
		if (levels[i].end < i + 1)
			levels[i].end = i + 1;
		if (up->end < levels[i].end)
			up->end = levels[i].end;
		up->picked++;
		if (!is_small(v, &p->all[i]))
			continue;
		up->small++;
		up->sum += p->all[i].total;
		up->found |= heap_matches(v, &v->fold->frames[p->all[i].frame]);
	}
	for (uint32_t i = 0; i < p->count; i++) {
		struct level *level = &levels[i];
		if (level->found || is_open(v, key_of_small(&p->all[i])) || !is_folded(level))
			level->small = level->sum = 0;
		level->smaller = level->small + p->all[i].children - level->picked;
		level->sum += p->all[i].rest;
	}
	for (uint32_t i = 1; i < p->count; i++) {
		struct level *up = &levels[p->all[i].parent];
		/* one that has others behind it is no last one */
		up->last = up->smaller ? UINT32_MAX : i;
	}
}

static uint64_t guides_of(const struct heap_view *v, const struct level *levels, uint32_t from)
{
	const struct fold_pick *all = v->picks.all;
	uint64_t guides = 0;
	for (uint32_t up = from; up; up = all[up].parent)
		if (all[up].depth >= 1 && all[up].depth <= 64 && levels[all[up].parent].last != up)
			guides |= 1ull << (all[up].depth - 1);
	return guides;
}

/* Behind all that is below @pick. */
static void add_smaller(struct heap_view *v, const struct level *levels, uint32_t pick)
{
	const struct fold_pick *parent = &v->picks.all[pick];
	v->rows[v->row_count++] = (struct heap_row){ .key = key_of_small(parent),
						     .total = levels[pick].sum,
						     .frame = parent->frame,
						     .pick = pick,
						     .smaller = levels[pick].smaller,
						     .depth = (uint16_t)parent->depth,
						     .opens = levels[pick].small != 0,
						     .last = 1,
						     .guides = guides_of(v, levels, pick) };
}

static int tree_rows(struct heap_view *v)
{
	const struct fold_picks *p = &v->picks;
	uint8_t *hidden = calloc((size_t)p->count + 1, 1);
	struct level *levels = calloc((size_t)p->count + 1, sizeof(*levels));
	uint32_t up = 0; /* whose level it is */
	v->rows = calloc(2 * (size_t)p->count + 1, sizeof(*v->rows));
	if (!hidden || !levels || !v->rows) {
		free(hidden);
		free(levels);
		return -ENOMEM;
	}
	find_levels(v, levels);
	for (uint32_t i = 1; i <= p->count; i++) { /* 0 is the root */
		const struct fold_pick *pick = &p->all[i];
		/* levels that end here, the innermost first */
		while (p->count && i >= levels[up].end) {
			if (levels[up].smaller && !hidden[up] &&
			    (!up || is_open(v, p->all[up].key)))
				add_smaller(v, levels, up);
			if (!up)
				break;
			up = p->all[up].parent;
		}
		if (i >= p->count)
			break;
		up = i;
		int closed = pick->parent && !is_open(v, p->all[pick->parent].key);
		int folded = levels[pick->parent].small && is_small(v, pick);
		hidden[i] = hidden[pick->parent] || closed || folded;
		if (hidden[i])
			continue;
		v->rows[v->row_count++] =
			(struct heap_row){ .key = pick->key,
					   .total = pick->total,
					   .self = pick->self,
					   .blocks = pick->blocks,
					   .before = pick->base,
					   .frame = pick->frame,
					   .more = { pick->more[0], pick->more[1], pick->more[2],
						     pick->more[3] },
					   .pick = i,
					   .depth = (uint16_t)(pick->depth ? pick->depth - 1 : 0),
					   .opens = pick->children != 0,
					   .is_open = is_open(v, pick->key),
					   .last = levels[pick->parent].last == i,
					   .guides = guides_of(v, levels, pick->parent) };
	}
	free(hidden);
	free(levels);
	return 0;
}

static double sorts_as(const struct heap_view *v, const struct heap_row *row)
{
	switch (v->sort) {
	case SORT_SELF:
		return (double)row->self;
	case SORT_TEMPORARY:
		return heap_temporary(row);
	case SORT_PEAK:
		return (double)row->more[HEAP_PEAK];
	case SORT_RATE:
		return (double)row->more[HEAP_TRAFFIC];
	default:
		return (double)row->total;
	}
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
		double nx = sorts_as(v, x), ny = sorts_as(v, y);
		order = nx > ny ? -1 : nx < ny;
	}
	if (v->ascending)
		order = -order;
	return order ? order : x->key < y->key ? -1 : x->key > y->key;
}

static int table_rows(struct heap_view *v, const struct heap_sums *s)
{
	uint32_t frames = v->fold->frame_count;
	uint64_t *own = calloc((4 + HEAP_MORE) * (size_t)frames + 1, sizeof(*own));
	v->rows = calloc((size_t)frames + 1, sizeof(*v->rows));
	if (!own || !v->rows) {
		free(own);
		return -ENOMEM;
	}
	uint64_t *all = own + frames, *blocks = all + frames, *past = blocks + frames,
		 *more = past + frames;
	struct err err = { 0 };
	if (fold_own_sums(v->fold, 0, s->accounts, own, &err) < 0) {
		free(own);
		return -ENOMEM;
	}
	fold_inclusive_sums(v->fold, &s->cost, all);
	fold_inclusive_sums(v->fold, &s->blocks, blocks);
	if (v->has_before)
		fold_inclusive_sums(v->fold, &s->base, past);
	for (unsigned k = 0; k < HEAP_MORE; k++)
		if (s->more[k].total)
			fold_inclusive_sums(v->fold, &s->more[k], more + (size_t)k * frames);
	for (uint32_t i = 1; i < frames; i++) {
		if (!all[i] && !past[i])
			continue;
		v->rows[v->row_count++] = (struct heap_row){ .key = v->fold->frames[i].key,
							     .total = all[i],
							     .self = own[i],
							     .blocks = blocks[i],
							     .before = past[i],
							     .frame = i };
		for (unsigned k = 0; k < HEAP_MORE; k++)
			v->rows[v->row_count - 1].more[k] = more[(size_t)k * frames + i];
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

static int make_rows(struct heap_view *v, const struct heap_sums *s)
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
	struct heap_sums s = { 0 };
	struct fold_opt opt = { .by = v->opt.by, .step_count = v->step_count };
	struct fold_side side;
	if (!v->prof)
		return 0;
	drop_fold(v);
	memcpy(opt.steps, v->steps, sizeof(v->steps));
	prof_totals(v->prof, &v->totals);
	int rc = heap_list_stacks(v);
	side = (struct fold_side){ v->prof, v->stacks, v->stack_count };
	if (rc == 0 && !(v->fold = fold_new(&opt, &side, 1, err)))
		rc = -ENOMEM;
	if (rc == 0)
		rc = heap_add_up(v, &s, err);
	if (rc == 0 && v->screen == HEAP_TREE) {
		struct fold_ask ask = { .cost = s.cost,
					.blocks = s.blocks,
					.base = s.base,
					.inverted = v->opt.inverted,
					.nodes_max = HEAP_NODES_MAX };
		memcpy(ask.more, s.more, sizeof(ask.more));
		rc = fold_choose(v->fold, &ask, &v->picks, err);
		if (rc == 0 && !v->touched) {
			v->open_count = 0;
			open_hot_path(v, 0);
		}
	}
	if (rc == 0)
		rc = make_rows(v, &s);
	v->shown = s.cost;
	s.cost = (struct fold_sums){ 0 };
	heap_sums_fini(&s);
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
	int rc = heap_list_stacks(v);
	if (rc == 0)
		heap_remember(v);
	if (rc < 0)
		return err_set(err, rc, "cannot lay out the heap");
	rc = build(v, err);
	if (rc == 0)
		heap_trail(v);
	return rc;
}

int heap_widen(struct heap_view *v)
{
	struct err err = { 0 };
	return build(v, &err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static struct heap_row *row_under(const struct heap_view *v)
{
	return v->list.cursor < v->row_count ? &v->rows[v->list.cursor] : NULL;
}

/** go_to() - the cursor to that row, which it stays on wherever that goes. */
static void go_to(struct heap_view *v, uint32_t row)
{
	list_goto(&v->list, row);
	v->list.key = v->rows[row].key;
	v->list.has_key = 1;
}

static void move_to_parent(struct heap_view *v, const struct heap_row *row)
{
	for (uint32_t i = v->list.cursor; i-- > 0;) {
		if (v->rows[i].depth < row->depth) {
			go_to(v, i);
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
	if (!open) /* opened again, it begins with its large ones */
		set_open(v, key_of_small(&v->picks.all[row->pick]), 0);
	if (row->smaller) /* what stands there then; the cursor is on the first of them */
		v->list.has_key = 0;
	int rc = relayout(v, err);
	return rc < 0 ? rc : 1;
}

/* The next row below or above that has what is looked for, around the end. */
static void find(struct heap_view *v, int back)
{
	for (uint32_t i = 1; i <= v->row_count; i++) {
		uint32_t row = (v->list.cursor + (back ? v->row_count - i : i)) % v->row_count;
		if (!v->rows[row].smaller &&
		    heap_matches(v, &v->fold->frames[v->rows[row].frame])) {
			go_to(v, row);
			return;
		}
	}
}

static int type_find(struct heap_view *v, int key)
{
	if (key == PAINT_ENTER || key == PAINT_ESCAPE) {
		v->finding = 0;
		if (key == PAINT_ESCAPE) {
			v->find[v->find_len = 0] = 0;
		} else if (v->row_count) {
			/* what was put together with others may be what is looked for */
			struct err none = { 0 };
			if (relayout(v, &none) == 0 && v->row_count)
				find(v, 0);
		}
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

static void set_cost(struct heap_view *v, enum view_cost cost)
{
	v->opt.cost = cost;
	heap_forget(v); /* values of another cost say nothing about this one */
	if (v->prof)
		heap_remember(v);
}

static void next_cost(struct heap_view *v)
{
	static const enum view_cost order[] = { VIEW_COST_LIVE, VIEW_COST_PEAK, VIEW_COST_ALLOCATED,
						VIEW_COST_ALLOCATIONS, VIEW_COST_TEMPORARY };
	size_t at = 0;
	while (at + 1 < ARRAY_LEN(order) && order[at] != v->opt.cost)
		at++;
	set_cost(v, order[(at + 1) % ARRAY_LEN(order)]);
}

/** to_peak() - what was held at the peak, and back to what was looked at before. */
static void to_peak(struct heap_view *v)
{
	enum view_cost now = v->opt.cost;
	if (now != VIEW_COST_PEAK)
		v->before_peak = now;
	set_cost(v, now != VIEW_COST_PEAK              ? VIEW_COST_PEAK
		    : v->before_peak != VIEW_COST_PEAK ? v->before_peak
						       : VIEW_COST_LIVE);
}

/** add_step() - the function under the cursor: only what passes through it, or left out. */
static void add_step(struct heap_view *v, enum fold_op op)
{
	const struct heap_row *row = row_under(v);
	if (!row || row->smaller || v->step_count == HEAP_STEPS_MAX)
		return;
	const struct fold_frame *f = &v->fold->frames[row->frame];
	v->steps[v->step_count] = (struct fold_step){ .op = op, .key = f->key };
	CLEANUP(buf_fini) struct buf name = { 0 };
	heap_name(v, f, &name, 0);
	snprintf(v->step_names[v->step_count], sizeof(v->step_names[0]), "%s", buf_cstr(&name));
	v->step_count++;
	v->touched = 0;
	heap_drop_trail(v);
}

static void drop_step(struct heap_view *v)
{
	if (!v->step_count)
		return;
	v->step_count--;
	v->touched = 0;
	heap_drop_trail(v);
}

/** hot_path() - from the row on along the costliest callees; the cursor goes to the end of it. */
static void hot_path(struct heap_view *v)
{
	const struct heap_row *row = row_under(v);
	if (!row || v->screen != HEAP_TREE)
		return;
	v->touched = 1;
	v->list.key = v->picks.all[open_hot_path(v, row->pick)].key;
	v->list.has_key = 1;
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
	v->step_count = 0; /* a function's key is none of a module's */
	heap_drop_trail(v);
}

static void next_sort(struct heap_view *v)
{
	do
		v->sort = (enum heap_sort)((v->sort + 1) % SORT_WORDS);
	while ((v->sort == SORT_CHANGE && !v->has_before) ||
	       (v->sort >= SORT_TEMPORARY && v->sort <= SORT_RATE &&
		v->columns < (v->sort == SORT_TEMPORARY ? HEAP_WIDE : HEAP_WIDEST)) ||
	       (v->sort >= SORT_TEMPORARY && v->sort <= SORT_RATE && v->opt.moment));
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
		v->help = 1;
		return 1;
	case 'h':
		hot_path(v);
		break;
	case 'p':
		if (!v->opt.moment)
			to_peak(v);
		break;
	case 'f':
		add_step(v, FOLD_FOCUS);
		break;
	case '-':
		add_step(v, FOLD_HIDE);
		break;
	case PAINT_BACKSPACE:
		drop_step(v);
		break;
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
		heap_drop_trail(v);
		break;
	case 's': /* by the next column; again: the other way round */
		if (!(v->ascending = v->sorted && !v->ascending))
			next_sort(v);
		v->sorted = 1;
		break;
	case 'S':
		v->ascending = !v->ascending;
		break;
	case 'd':
		heap_set_base(v);
		break;
	case '3':
	case 't':
		v->screen = HEAP_TREE;
		heap_drop_trail(v);
		break;
	case '4':
		v->screen = HEAP_TABLE;
		heap_drop_trail(v);
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
