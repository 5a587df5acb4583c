/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - stacks grouped and sorted. Groups stay small (cost and one example) until a row is spelled out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "view/impl.h"

struct group {
	struct cost cost;
	uint32_t id; /* canonical stack, or thread */
	uint32_t order;
	uint64_t key;
};

struct groups {
	struct group *items;
	uint32_t count, cap;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot group the stacks");
}

static struct group *groups_add(struct groups *g, uint32_t id)
{
	if (g->count == g->cap) {
		uint32_t cap = g->cap ? g->cap * 2 : 1024;
		struct group *items = realloc(g->items, (size_t)cap * sizeof(*items));
		if (!items)
			return NULL;
		g->items = items;
		g->cap = cap;
	}
	struct group *item = &g->items[g->count];
	*item = (struct group){ .id = id, .order = g->count++ };
	return item;
}

static int cost_is_zero(const struct cost *cost)
{
	return !(cost->allocations | cost->allocated_bytes | cost->frees | cost->peak_bytes |
		 cost->leaked | cost->leaked_bytes | cost->uncertain);
}

/** group_frame() - the frame that stands for @stack's group: what one example can say of all of them. */
static void group_frame(const struct prof *prof, struct stack_id stack, enum view_by by,
			struct view_frame *f, unsigned *stop)
{
	*f = (struct view_frame){ 0 };
	if (view_frames(prof, stack, f, 1, stop) == 0)
		*f = (struct view_frame){ .function = view_stop_label(*stop) };
	if (by == VIEW_BY_LINE)
		return;
	f->offset = 0;
	f->line = 0;
	f->inlined = 0;
	if (by == VIEW_BY_FUNCTION)
		return;
	f->function = NULL;
	if (by == VIEW_BY_MODULE)
		f->file = NULL;
}

/* What is unknown groups by the next coarser thing that is known: a line by its address, a file by its module. */
static int same_group(const struct view_frame *a, const struct view_frame *b, enum view_by by)
{
	switch (by) {
	case VIEW_BY_FUNCTION:
		return a->function == b->function && a->module == b->module;
	case VIEW_BY_FILE:
		return a->file == b->file && (a->file || a->module == b->module);
	case VIEW_BY_LINE:
		if (a->file || b->file)
			return a->file == b->file && a->line == b->line;
		return a->module == b->module && a->offset == b->offset;
	default:
		return a->module == b->module;
	}
}

static uint32_t hash_group(const struct view_frame *f, enum view_by by, uint64_t seed)
{
	uintptr_t module = (uintptr_t)f->module, file = (uintptr_t)f->file;
	switch (by) {
	case VIEW_BY_FUNCTION:
		return (uint32_t)hash_u64((uintptr_t)f->function, module, seed);
	case VIEW_BY_FILE:
		return (uint32_t)hash_u64(file, file ? 0 : module, seed);
	case VIEW_BY_LINE:
		return (uint32_t)hash_u64(file ? file : module, file ? f->line : f->offset, seed);
	default:
		return (uint32_t)hash_u64(module, 0, seed);
	}
}

static int collect_threads(const struct prof *prof, struct groups *g, struct err *err)
{
	for (uint32_t i = 0; i < prof_thread_count(prof); i++) {
		const struct prof_thread *t = prof_thread(prof, (struct thread_id){ i });
		if (cost_is_zero(&t->cost))
			continue;
		struct group *item = groups_add(g, i);
		if (!item)
			return no_memory(err);
		item->cost = t->cost;
	}
	return 0;
}

static int collect_stacks(const struct prof *prof, enum view_by by, struct groups *g,
			  struct err *err)
{
	uint32_t stacks = prof_stack_count(prof);
	uint32_t *group_of = calloc(
		stacks, sizeof(*group_of)); /* of a canonical stack; 0 = none, else 1 + index */
	struct view_frame *keys = NULL;
	uint32_t keys_cap = 0;
	struct idtab tab = { 0 };
	uint64_t seed = hash_seed();
	int rc = group_of ? 0 : no_memory(err);
	for (uint32_t i = prof_stack_used(prof, 0); i < stacks && rc == 0;
	     i = prof_stack_used(prof, i + 1)) {
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ i }, &cost);
		if (cost_is_zero(&cost))
			continue;
		struct stack_id stack = view_canonical(prof, (struct stack_id){ i });
		uint32_t *known = &group_of[stack.v];
		if (*known) {
			cost_add(&g->items[*known - 1].cost, &cost);
			continue;
		}
		uint32_t at = 0, hash = 0;
		struct view_frame key;
		if (by != VIEW_BY_STACK) {
			unsigned stop;
			group_frame(prof, stack, by, &key, &stop);
			hash = hash_group(&key, by, seed);
			if (idtab_reserve(&tab) < 0) {
				rc = no_memory(err);
				break;
			}
			at = idtab_first(&tab, hash);
			for (; tab.slots[at].id != IDTAB_NONE; at = idtab_next(&tab, at))
				if (tab.slots[at].hash == hash &&
				    same_group(&keys[tab.slots[at].id], &key, by))
					break;
			if (tab.slots[at].id != IDTAB_NONE) {
				*known = tab.slots[at].id + 1;
				cost_add(&g->items[*known - 1].cost, &cost);
				continue;
			}
			if (g->count == keys_cap) {
				uint32_t cap = keys_cap ? keys_cap * 2 : 256;
				struct view_frame *fresh = realloc(keys, cap * sizeof(*keys));
				if (!fresh) {
					rc = no_memory(err);
					break;
				}
				keys = fresh;
				keys_cap = cap;
			}
			keys[g->count] = key;
		}
		struct group *item = groups_add(g, stack.v);
		if (!item) {
			rc = no_memory(err);
			break;
		}
		item->cost = cost;
		*known = g->count;
		if (by != VIEW_BY_STACK)
			idtab_put(&tab, at, hash, g->count - 1);
	}
	idtab_fini(&tab);
	free(keys);
	free(group_of);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	/* Where the asked cost is equal, more bytes first, then the order of definition: the same file prints the same. */
	if (x->cost.allocated_bytes != y->cost.allocated_bytes)
		return x->cost.allocated_bytes < y->cost.allocated_bytes ? 1 : -1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int collect(const struct prof *prof, enum view_by by, enum view_cost cost, struct groups *g,
		   struct err *err)
{
	int rc = by == VIEW_BY_THREAD ? collect_threads(prof, g, err)
				      : collect_stacks(prof, by, g, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < g->count; i++)
		g->items[i].key = view_cost_of(&g->items[i].cost, cost);
	if (g->count)
		qsort(g->items, g->count, sizeof(*g->items), by_key);
	return 0;
}

static void spell_out(const struct prof *prof, enum view_by by, const struct group *g,
		      struct view_row *row)
{
	*row = (struct view_row){ .cost = g->cost };
	if (by == VIEW_BY_THREAD) {
		const struct prof_thread *t = prof_thread(prof, (struct thread_id){ g->id });
		row->tid = t->tid;
		row->thread_name = t->name;
		return;
	}
	row->stack.v = g->id;
	if (by == VIEW_BY_STACK)
		row->stop = prof_stack(prof, row->stack)->partial;
	else
		group_frame(prof, row->stack, by, &row->frame, &row->stop);
}

struct view_table *view_table_new(const struct prof *prof, enum view_by by, enum view_cost cost,
				  size_t limit, struct err *err)
{
	struct groups g = { 0 };
	struct view_table *table = NULL;
	if (collect(prof, by, cost, &g, err) == 0) {
		size_t count = limit && limit < g.count ? limit : g.count;
		table = calloc(1, sizeof(*table));
		if (table)
			table->rows = calloc(count ? count : 1, sizeof(*table->rows));
		if (!table || !table->rows) {
			free(table);
			table = NULL;
			no_memory(err);
		} else {
			table->count = count;
			table->total = g.count;
			table->by = by;
			table->cost = cost;
			for (size_t i = 0; i < count; i++)
				spell_out(prof, by, &g.items[i], &table->rows[i]);
		}
	}
	free(g.items);
	return table;
}

int view_each(const struct prof *prof, enum view_by by, enum view_cost cost, size_t limit,
	      int (*fn)(void *ctx, const struct view_row *row), void *ctx, struct err *err)
{
	struct groups g = { 0 };
	int rc = collect(prof, by, cost, &g, err);
	size_t count = limit && limit < g.count ? limit : g.count;
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct view_row row;
		spell_out(prof, by, &g.items[i], &row);
		rc = fn(ctx, &row);
	}
	free(g.items);
	return rc;
}

void view_table_free(struct view_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table);
}

void view_table_freep(struct view_table **table)
{
	view_table_free(*table);
	*table = NULL;
}
