/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths.c - stacks that look the same in the source. A path is told by a 64-bit hash of what its
 * frames show, seeded anew in each process: of a million paths two are mistaken for one in one run
 * of forty million.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "view/groups.h"

/*
 * By stack row: the hash of what it shows, and the module whose unnamed functions its innermost
 * entry is folded into.
 */
struct shown {
	uint64_t hash;
	/* module row + 1 */
	uint32_t folded;
};

struct build {
	const struct prof *prof;
	struct view_paths *paths;
	struct view_owns owns;
	/* by stack row */
	struct shown *shown;
	uint64_t seed;
	struct idtab tab;
	/* by path */
	uint64_t *hashes;
	size_t cap;
};

/** add_entries() - @to goes on with the entries of a frame row, outermost first, down to @from. */
static void add_entries(struct build *b, struct shown *to, struct frame_id row, uint32_t from)
{
	const struct prof_frame *f = prof_frame(b->prof, row);
	uint32_t skipped = view_owns_first(&b->owns, row);
	for (uint32_t i = view_frame_count(f); i-- > from;) {
		struct view_frame frame;
		view_frame_at(b->prof, f, i, &frame);
		uint64_t module = (uintptr_t)frame.module;
		if (!frame.function && b->paths->fold[f->module.v]) {
			if (to->folded == f->module.v + 1)
				continue;
			to->folded = f->module.v + 1;
			to->hash = hash_u64(to->hash, module, b->seed);
			continue;
		}
		to->folded = 0;
		to->hash = hash_u64(to->hash, (uintptr_t)frame.function ^ module << 1, b->seed);
		if (!frame.function)
			to->hash = hash_u64(to->hash, frame.offset, b->seed);
		else if (frame.line && i >= skipped)
			to->hash = hash_u64(to->hash,
					    (uintptr_t)frame.file ^ (uint64_t)frame.line << 48,
					    b->seed + 1);
	}
}

static struct view_path *path_of(struct build *b, uint64_t hash, uint32_t stack)
{
	uint32_t low = (uint32_t)hash;
	if (idtab_reserve(&b->tab) < 0)
		return NULL;
	uint32_t at = idtab_first(&b->tab, low);
	for (; b->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&b->tab, at))
		if (b->hashes[b->tab.slots[at].id] == hash)
			return &b->paths->items[b->tab.slots[at].id];
	size_t id = b->paths->count;
	if (id == b->cap) {
		size_t cap = b->cap ? 2 * b->cap : 1024;
		uint64_t *hashes = realloc(b->hashes, cap * sizeof(*hashes));
		if (!hashes)
			return NULL;
		b->hashes = hashes;
		struct view_path *items = realloc(b->paths->items, cap * sizeof(*items));
		if (!items)
			return NULL;
		b->paths->items = items;
		b->cap = cap;
	}
	b->hashes[id] = hash;
	b->paths->items[id] = (struct view_path){ .stack = { stack } };
	b->paths->count++;
	idtab_put(&b->tab, at, low, (uint32_t)id);
	return &b->paths->items[id];
}

/** inner_shown() - what the stack row @row shows without the allocator calls at its end. */
static struct shown inner_shown(struct build *b, struct stack_id row)
{
	const struct prof_stack *s = prof_stack(b->prof, row);
	if (row.v == 0 || s->stop)
		return b->shown[row.v];
	const struct prof_frame *f = prof_frame(b->prof, s->frame);
	uint32_t hidden = view_frame_hidden(f);
	if (hidden == 0 || hidden >= view_frame_count(f))
		return b->shown[row.v];
	struct shown shown = b->shown[s->parent.v];
	add_entries(b, &shown, s->frame, hidden);
	return shown;
}

static int build(struct build *b)
{
	uint32_t rows = prof_stack_count(b->prof);
	b->shown = calloc(rows, sizeof(*b->shown));
	b->paths->fold = view_choose_folds(b->prof);
	if (!b->shown || !b->paths->fold)
		return -ENOMEM;
	for (uint32_t i = 1; i < rows; i++) {
		const struct prof_stack *s = prof_stack(b->prof, (struct stack_id){ i });
		b->shown[i] = b->shown[s->parent.v];
		if (s->stop)
			b->shown[i].hash = hash_u64(b->shown[i].hash, s->stop, b->seed + 2);
		else
			add_entries(b, &b->shown[i], s->frame, 0);
	}
	for (uint32_t i = prof_stack_used(b->prof, 0); i < rows;
	     i = prof_stack_used(b->prof, i + 1)) {
		struct cost cost;
		prof_stack_cost(b->prof, (struct stack_id){ i }, &cost);
		if (cost_is_zero(&cost))
			continue;
		struct stack_id stack = view_canonical(b->prof, (struct stack_id){ i });
		struct view_path *path = path_of(b, inner_shown(b, stack).hash, stack.v);
		if (!path)
			return -ENOMEM;
		cost_add(&path->cost, &cost);
		cost_add(&b->paths->whole, &cost);
	}
	return 0;
}

struct view_paths *view_paths_new(const struct prof *prof, const struct view_skip *skip,
				  struct err *err)
{
	CLEANUP(view_paths_freep) struct view_paths *paths = calloc(1, sizeof(*paths));
	struct build b = { .prof = prof, .paths = paths, .seed = hash_seed() };
	int rc = paths ? view_owns_init(&b.owns, prof, skip) : -ENOMEM;
	if (rc == 0)
		rc = build(&b);
	view_owns_fini(&b.owns);
	idtab_fini(&b.tab);
	free(b.shown);
	free(b.hashes);
	if (rc == 0)
		return STEAL(paths);
	err_set(err, -ENOMEM, "cannot group the stacks");
	return NULL;
}

void view_paths_freep(struct view_paths **paths)
{
	if (*paths) {
		free((*paths)->items);
		free((*paths)->fold);
	}
	free(*paths);
	*paths = NULL;
}

size_t view_path_frames(const struct prof *prof, const struct view_paths *paths,
			struct stack_id stack, struct view_frame *out, size_t max, unsigned *stop)
{
	size_t n = 0, kept = 0;
	struct stack_id at = view_canonical(prof, stack);
	const struct prof_stack *s = prof_stack(prof, at);
	*stop = s->partial;
	for (int innermost = 1; at.v != 0 && !s->stop && n < max; innermost = 0) {
		const struct prof_frame *f = prof_frame(prof, s->frame);
		uint32_t count = view_frame_count(f);
		uint32_t i = innermost ? view_frame_hidden(f) : 0;
		for (i = i < count ? i : 0; i < count && n < max; i++) {
			struct view_frame *frame = &out[n];
			view_frame_at(prof, f, i, frame);
			frame->folded = !frame->function && paths->fold[f->module.v];
			kept = frame->folded && n && out[n - 1].folded &&
			       out[n - 1].module == frame->module;
			n += !kept;
		}
		at = s->parent;
		s = prof_stack(prof, at);
	}
	return n;
}

size_t view_skip_count(const struct view_skip *skip, const struct view_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum view_role role = view_skip_role(skip, frames[i].function);
		if (role == VIEW_START)
			return 0;
		if (role == VIEW_OWN)
			return i;
	}
	return 0;
}
