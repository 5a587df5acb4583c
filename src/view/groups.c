/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - stacks grouped by a frame: what each asked for itself, and what came through it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "view/groups.h"

/** struct frames - which groups the frames of a recording belong to, as they come by. */
struct frames {
	const struct prof *prof;
	enum view_by by;
	struct groups *groups;
	/* by group */
	struct view_frame *keys;
	uint32_t key_cap;
	struct idtab tab;
	uint64_t seed;
	/* by frame row: 1 + where its entries begin among @entries; 0 = not entered yet */
	uint32_t *first;
	/* groups */
	uint32_t *entries;
	uint32_t entry_count, entry_cap;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot group the stacks");
}

struct group *groups_add(struct groups *g, uint32_t id)
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

/** simplify() - of @f only what its group has in common. */
static void simplify(struct view_frame *f, enum view_by by)
{
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

/*
 * What is unknown groups by the next coarser thing that is known: a line by its address, a file by
 * its module.
 */
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

/** group_of() - the group of @frame, made if there is none; UINT32_MAX without memory. */
static uint32_t group_of(struct frames *fs, struct view_frame *frame)
{
	struct idtab *tab = &fs->tab;
	simplify(frame, fs->by);
	uint32_t hash = hash_group(frame, fs->by, fs->seed);
	if (idtab_reserve(tab) < 0)
		return UINT32_MAX;
	uint32_t at = idtab_first(tab, hash);
	for (; tab->slots[at].id != IDTAB_NONE; at = idtab_next(tab, at))
		if (tab->slots[at].hash == hash &&
		    same_group(&fs->keys[tab->slots[at].id], frame, fs->by))
			return tab->slots[at].id;
	uint32_t id = fs->groups->count;
	if (id == fs->key_cap) {
		uint32_t cap = fs->key_cap ? fs->key_cap * 2 : 256;
		struct view_frame *keys = realloc(fs->keys, cap * sizeof(*keys));
		if (!keys)
			return UINT32_MAX;
		fs->keys = keys;
		fs->key_cap = cap;
	}
	if (!groups_add(fs->groups, 0))
		return UINT32_MAX;
	fs->keys[id] = *frame;
	idtab_put(tab, at, hash, id);
	return id;
}

/**
 * entries_of() - the groups of a frame row's entries, innermost first; NULL without memory. Lent
 * until the next call.
 */
static const uint32_t *entries_of(struct frames *fs, struct frame_id row)
{
	const struct prof_frame *f = prof_frame(fs->prof, row);
	uint32_t count = view_frame_count(f);
	if (fs->first[row.v])
		return &fs->entries[fs->first[row.v] - 1];
	if (fs->entry_count + count > fs->entry_cap) {
		uint64_t cap = 2 * (uint64_t)fs->entry_cap + count + 1024;
		uint32_t *entries = cap > UINT32_MAX
					    ? NULL
					    : realloc(fs->entries, (size_t)cap * sizeof(*entries));
		if (!entries)
			return NULL;
		fs->entries = entries;
		fs->entry_cap = (uint32_t)cap;
	}
	uint32_t first = fs->entry_count;
	for (uint32_t i = 0; i < count; i++) {
		struct view_frame frame;
		view_frame_at(fs->prof, f, i, &frame);
		uint32_t group = group_of(fs, &frame);
		if (group == UINT32_MAX)
			return NULL;
		fs->entries[first + i] = group;
	}
	fs->entry_count += count;
	fs->first[row.v] = first + 1;
	return &fs->entries[first];
}

/* ---- own ------------------------------------------------------------------------------------- */

static int collect_own(struct frames *fs, const struct view_skip *skip)
{
	struct view_owns owns;
	uint32_t stacks = prof_stack_count(fs->prof);
	int rc = view_owns_init(&owns, fs->prof, skip);
	for (uint32_t i = prof_stack_used(fs->prof, 0); i < stacks && rc == 0;
	     i = prof_stack_used(fs->prof, i + 1)) {
		struct cost cost;
		struct frame_id row = { 0 };
		uint32_t entry = 0, group;
		prof_stack_cost(fs->prof, (struct stack_id){ i }, &cost);
		if (cost_is_zero(&cost))
			continue;
		if (view_owns_stack(&owns, (struct stack_id){ i }, &row, &entry)) {
			const uint32_t *entries = entries_of(fs, row);
			group = entries ? entries[entry] : UINT32_MAX;
		} else {
			unsigned stop = prof_stack(fs->prof, (struct stack_id){ i })->partial;
			struct view_frame label = { .function = view_stop_label(stop) };
			group = group_of(fs, &label);
			if (group != UINT32_MAX)
				cost_add(&fs->groups->items[group].inclusive, &cost);
		}
		if (group == UINT32_MAX) {
			rc = -ENOMEM;
			break;
		}
		struct group *item = &fs->groups->items[group];
		cost_add(&item->cost, &cost);
		if (!item->id)
			item->id = i;
	}
	view_owns_fini(&owns);
	return rc;
}

/* ---- inclusive ------------------------------------------------------------------------------- */

/*
 * Once around the tree of stacks: what hangs below a row is known when it is left, and belongs to
 * the groups of its frame that do not stand further out as well. So it takes as long as there are
 * rows, however deep they are.
 */
struct level {
	uint32_t row;
	/* with its own */
	struct cost below;
};

struct walk {
	struct level *levels;
	uint32_t depth, cap;
	/* by row; 0 = none */
	uint32_t *child, *next;
	/* by group: how often it stands on the way here */
	uint32_t *open;
};

static int enter(struct frames *fs, struct walk *w, uint32_t row)
{
	if (w->depth == w->cap) {
		uint32_t cap = w->cap ? 2 * w->cap : 256;
		struct level *levels = realloc(w->levels, cap * sizeof(*levels));
		if (!levels)
			return -ENOMEM;
		w->levels = levels;
		w->cap = cap;
	}
	struct level *level = &w->levels[w->depth++];
	level->row = row;
	prof_stack_cost(fs->prof, (struct stack_id){ row }, &level->below);
	return 0;
}

static int is_frame(const struct prof_stack *s, uint32_t row)
{
	return row && !s->stop;
}

/**
 * open_groups() - @by is 1 on the way in and -1 on the way out, where what is open no more gets
 * @cost.
 */
static void open_groups(struct frames *fs, struct walk *w, uint32_t row, const struct cost *cost)
{
	const struct prof_stack *s = prof_stack(fs->prof, (struct stack_id){ row });
	if (!is_frame(s, row))
		return;
	const struct prof_frame *f = prof_frame(fs->prof, s->frame);
	const uint32_t *entries = &fs->entries[fs->first[s->frame.v] - 1];
	for (uint32_t i = 0, count = view_frame_count(f); i < count; i++) {
		if (i < f->symbol_count && view_is_wrapper(f->symbols[i].function))
			continue; /* the allocator itself */
		if (!cost)
			w->open[entries[i]]++;
		else if (--w->open[entries[i]] == 0)
			cost_add(&fs->groups->items[entries[i]].inclusive, cost);
	}
}

static int walk_all(struct frames *fs, struct walk *w)
{
	int rc = enter(fs, w, 0);
	while (rc == 0 && w->depth) {
		struct level *level = &w->levels[w->depth - 1];
		uint32_t child = w->child[level->row];
		if (child) {
			w->child[level->row] = w->next[child];
			rc = enter(fs, w, child);
			open_groups(fs, w, child, NULL);
			continue;
		}
		struct cost below = level->below;
		open_groups(fs, w, level->row, &below);
		if (--w->depth)
			cost_add(&w->levels[w->depth - 1].below, &below);
	}
	return rc;
}

static int collect_inclusive(struct frames *fs)
{
	uint32_t rows = prof_stack_count(fs->prof);
	struct walk w = { 0 };
	w.child = calloc(rows, sizeof(*w.child));
	w.next = calloc(rows, sizeof(*w.next));
	int rc = w.child && w.next ? 0 : -ENOMEM;
	/* all groups first, so that their numbers are known */
	for (uint32_t row = 1; row < rows && rc == 0; row++) {
		const struct prof_stack *s = prof_stack(fs->prof, (struct stack_id){ row });
		w.next[row] = w.child[s->parent.v];
		w.child[s->parent.v] = row;
		if (is_frame(s, row) && !entries_of(fs, s->frame))
			rc = -ENOMEM;
	}
	w.open = rc == 0 ? calloc(fs->groups->count + 1u, sizeof(*w.open)) : NULL;
	rc = w.open ? walk_all(fs, &w) : -ENOMEM;
	free(w.open);
	free(w.child);
	free(w.next);
	free(w.levels);
	return rc;
}

int groups_of_frames(const struct prof *prof, enum view_by by, const struct view_skip *skip,
		     struct groups *g, struct err *err)
{
	struct frames fs = { .prof = prof, .by = by, .groups = g, .seed = hash_seed() };
	fs.first = calloc(prof_frame_count(prof) + 1u, sizeof(*fs.first));
	int rc = fs.first ? collect_own(&fs, skip) : -ENOMEM;
	if (rc == 0)
		rc = collect_inclusive(&fs);
	/* those of frames that are in no stack with any cost */
	uint32_t kept = 0;
	for (uint32_t i = 0; i < g->count && rc == 0; i++) {
		if (cost_is_zero(&g->items[i].cost) && cost_is_zero(&g->items[i].inclusive))
			continue;
		g->items[kept] = g->items[i];
		g->items[kept].frame = fs.keys[i];
		kept++;
	}
	g->count = kept;
	idtab_fini(&fs.tab);
	free(fs.keys);
	free(fs.first);
	free(fs.entries);
	return rc < 0 ? no_memory(err) : 0;
}
