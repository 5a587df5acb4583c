/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - stacks folded into a call tree of functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "view/impl.h"

/** struct way - how far a stack was followed outwards: the next of its entries. */
struct way {
	/* its row; 0 = to the end */
	uint32_t stack;
	uint32_t entry;
};

/**
 * struct build - the tree while it grows: nodes in order of appearance, found by (parent, function,
 * module).
 */
struct build {
	const struct prof *prof;
	struct view_node *nodes;
	uint32_t count, cap;
	struct idtab tab;
	uint64_t seed;
	/* of a stack row, 0 = not yet; callers on top only */
	uint32_t *node_of;
	/* of the totals */
	enum view_cost cost;
	struct cost whole;
	/* by module: its functions without a name are one node; NULL = none are */
	uint8_t *fold;

	struct view_frame *frames;
	/* by frame: the first one that makes the same node */
	uint32_t *same;
	uint32_t frame_count, frame_cap;
	struct idtab frame_tab;
	/* by frame row: where its entries begin among @frames; 0 = not entered yet */
	uint32_t *first_of;
	uint32_t stop_of[STACK_STOP_MAX];
	struct view_self *selfs;
	uint32_t self_count, self_cap;
	/* whole_stack()'s way back up */
	uint32_t *path;
	uint32_t path_cap;
	/* by node, inverted only: what of the one stack that got there is not entered yet */
	struct way *rest;
	uint32_t rest_cap, nodes_max, cut;
	/* a node was refused */
	int full;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot build the call tree");
}

/** grown() - @items with room for one more than @count, which doubles; NULL without memory. */
static inline void *grown(void *items, uint32_t count, uint32_t *cap, size_t item_bytes)
{
	if (count < *cap)
		return items;
	uint64_t want = *cap ? 2 * (uint64_t)*cap : 1024;
	items = want > UINT32_MAX ? NULL : realloc(items, want * item_bytes);
	if (items)
		*cap = (uint32_t)want;
	return items;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int is_same(const struct view_frame *a, const struct view_frame *b)
{
	/* Unknown functions of one module differ by address. */
	return a->function == b->function && a->module == b->module && a->folded == b->folded &&
	       (a->function || a->folded || a->offset == b->offset);
}

/** add_frame() - its number; 0 without memory (0 is the root's). */
static uint32_t add_frame(struct build *b, const struct view_frame *frame)
{
	uint32_t cap = b->frame_cap;
	uint32_t *same = grown(b->same, b->frame_count, &cap, sizeof(*same));
	if (!same || idtab_reserve(&b->frame_tab) < 0)
		return 0;
	b->same = same;
	struct view_frame *frames =
		grown(b->frames, b->frame_count, &b->frame_cap, sizeof(*frames));
	if (!frames)
		return 0;
	b->frames = frames;
	uint64_t offset = frame->function || frame->folded ? frame->folded : frame->offset;
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)frame->function ^ offset,
					   (uintptr_t)frame->module, b->seed);
	uint32_t id = b->frame_count++, at = idtab_first(&b->frame_tab, hash);
	b->frames[id] = *frame;
	b->same[id] = id;
	for (; b->frame_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&b->frame_tab, at)) {
		uint32_t other = b->frame_tab.slots[at].id;
		if (b->frame_tab.slots[at].hash == hash && is_same(&b->frames[other], frame)) {
			b->same[id] = other;
			return id;
		}
	}
	idtab_put(&b->frame_tab, at, hash, id);
	return id;
}

/**
 * first_entry() - the number of a frame row's innermost entry, the others follow; 0 without memory.
 */
static uint32_t first_entry(struct build *b, struct frame_id row)
{
	uint32_t first = b->first_of[row.v];
	if (first)
		return first;
	const struct prof_frame *f = prof_frame(b->prof, row);
	first = b->frame_count;
	for (uint32_t i = 0, count = view_frame_count(f); i < count; i++) {
		struct view_frame frame;
		view_frame_at(b->prof, f, i, &frame);
		frame.folded = !frame.function && b->fold && b->fold[f->module.v];
		if (!add_frame(b, &frame))
			return 0;
	}
	b->first_of[row.v] = first;
	return first;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint32_t add_node(struct build *b, uint32_t parent, uint32_t frame)
{
	if (b->count >= b->nodes_max) {
		b->full = 1;
		return 0;
	}
	struct view_node *nodes = grown(b->nodes, b->count, &b->cap, sizeof(*nodes));
	if (!nodes)
		return 0;
	b->nodes = nodes;
	b->nodes[b->count] = (struct view_node){ .frame = frame, .parent = parent };
	return b->count++;
}

/**
 * through() - @node, which a stack comes to by way of @frame, perhaps another line of the same
 * function.
 */
static uint32_t through(struct build *b, uint32_t node, uint32_t frame)
{
	struct view_node *n = &b->nodes[node];
	if (b->frames[n->frame].line != b->frames[frame].line)
		n->other_lines = 1;
	return node;
}

/**
 * child() - the node of @frame below @parent, made if there is none; 0 without memory (0 is the
 * root, never a child), or where there may be no more nodes (build.full). The first child of a node
 * is known to it, and most have no other one; the others are found in a table.
 */
static uint32_t child(struct build *b, uint32_t parent, uint32_t frame)
{
	const struct view_node *above = &b->nodes[parent];
	uint32_t same = b->same[frame];
	if (b->same[above->frame] == same && b->frames[frame].folded)
		return parent;
	uint32_t first = above->first_child;
	if (!first) {
		first = add_node(b, parent, frame);
		b->nodes[parent].first_child = first; /* 0 still, if refused */
		return first;
	}
	if (b->same[b->nodes[first].frame] == same)
		return through(b, first, frame);
	if (idtab_reserve(&b->tab) < 0)
		return 0;
	uint32_t hash = (uint32_t)hash_u64(same, parent, b->seed);
	uint32_t at = idtab_first(&b->tab, hash);
	for (; b->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&b->tab, at)) {
		if (b->tab.slots[at].hash != hash)
			continue;
		const struct view_node *n = &b->nodes[b->tab.slots[at].id];
		if (n->parent == parent && b->same[n->frame] == same)
			return through(b, b->tab.slots[at].id, frame);
	}
	uint32_t node = add_node(b, parent, frame);
	if (node)
		idtab_put(&b->tab, at, hash, node);
	return node;
}

/** stop_entry() - the frame that says why a stack ended early; 0 without memory. */
static uint32_t stop_entry(struct build *b, unsigned stop)
{
	if (!b->stop_of[stop]) {
		struct view_frame label = { .function = view_stop_label(stop) };
		b->stop_of[stop] = add_frame(b, &label);
	}
	return b->stop_of[stop];
}

static uint32_t stop_child(struct build *b, uint32_t parent, unsigned stop)
{
	uint32_t frame = stop_entry(b, stop);
	return frame ? child(b, parent, frame) : 0;
}

/** enter_frame() - entries @from.. of a frame row below @node, outermost first. */
static uint32_t enter_frame(struct build *b, uint32_t node, struct frame_id row, uint32_t from)
{
	uint32_t first = first_entry(b, row), i = view_frame_count(prof_frame(b->prof, row));
	if (!first)
		return 0;
	while (i-- > from && (node = child(b, node, first + i)))
		;
	return node;
}

/**
 * whole_stack() - the node of a stack row with all its entries; remembered, so each row is entered
 * once. Goes down to the nearest remembered caller and comes back up, without recursion: stacks are
 * up to 65 535 frames deep.
 */
static uint32_t whole_stack(struct build *b, struct stack_id stack)
{
	uint32_t depth = 0;
	struct stack_id at = stack;
	for (; at.v && !b->node_of[at.v]; at = prof_stack(b->prof, at)->parent) {
		uint32_t *path = grown(b->path, depth, &b->path_cap, sizeof(*path));
		if (!path)
			return 0;
		b->path = path;
		b->path[depth++] = at.v;
	}
	uint32_t node = at.v ? b->node_of[at.v] : 0;
	while (depth) {
		uint32_t row = b->path[--depth];
		const struct prof_stack *s = prof_stack(b->prof, (struct stack_id){ row });
		node = s->stop ? stop_child(b, node, s->stop) : enter_frame(b, node, s->frame, 0);
		if (node == 0)
			break;
		b->node_of[row] = node;
	}
	return node;
}

static uint32_t enter_top_down(struct build *b, struct stack_id stack)
{
	const struct prof_stack *s = prof_stack(b->prof, stack);
	const struct prof_frame *f = prof_frame(b->prof, s->frame);
	uint32_t hidden = s->stop ? 0 : view_frame_hidden(f);
	if (hidden == 0 || hidden >= view_frame_count(f))
		return whole_stack(b, stack);
	uint32_t node = s->parent.v ? whole_stack(b, s->parent) : 0;
	if (s->parent.v && node == 0)
		return 0;
	return enter_frame(b, node, s->frame, hidden);
}

/* ---- inverted -------------------------------------------------------------------------------- */

/*
 * Turned around, stacks share nothing but a few inner frames, and recursion makes them deep: 20,000
 * stacks of up to 20,000 frames would be 200 million nodes. So a stack is entered up to where
 * nobody else came; the rest stands in the recording (build.rest) and moves on by a node when
 * another stack comes by. At the end what room is left is shared out among the rests.
 */

/** way_next() - the next entry of @way in @frame. Return: 1, 0 at the end, -1 without memory. */
static int way_next(struct build *b, struct way *way, uint32_t *frame)
{
	if (!way->stack)
		return 0;
	const struct prof_stack *s = prof_stack(b->prof, (struct stack_id){ way->stack });
	if (s->stop) {
		way->stack = 0;
		*frame = stop_entry(b, s->stop);
		return *frame ? 1 : -1;
	}
	uint32_t first = first_entry(b, s->frame);
	if (!first)
		return -1;
	*frame = first + way->entry;
	if (++way->entry >= view_frame_count(prof_frame(b->prof, s->frame)))
		*way = (struct way){ .stack = s->parent.v };
	return 1;
}

static int set_rest(struct build *b, uint32_t node, struct way way)
{
	uint32_t before = b->rest_cap;
	struct way *rest = grown(b->rest, node, &b->rest_cap, sizeof(*rest));
	if (!rest)
		return -1;
	memset(rest + before, 0, (b->rest_cap - before) * sizeof(*rest));
	b->rest = rest;
	rest[node] = way;
	return 0;
}

/** note_cut() - the way of what @self stands for goes on, but not in the tree. */
static void note_cut(struct build *b, uint32_t self)
{
	b->selfs[self].cut = 1;
	b->cut++;
}

/**
 * step_out() - move the rest of @node's stack, and its cost, to a node of its own. Return: that
 * one, @node at the end; 0 without memory.
 */
static uint32_t step_out(struct build *b, uint32_t node)
{
	struct way way = b->rest[node];
	uint32_t self = b->nodes[node].self, frame, next = node;
	int rc = 1;
	b->rest[node] = (struct way){ 0 };
	while (next == node && (rc = way_next(b, &way, &frame)) > 0) {
		next = child(b, node, frame); /* @node where it is one more without a name */
		if (!next) {
			note_cut(b, self);
			return b->full ? node : 0;
		}
	}
	if (rc < 0 || next == node)
		return rc < 0 ? 0 : node;
	b->nodes[next].self = self;
	b->selfs[self].node = next;
	b->nodes[node].self = 0;
	return set_rest(b, next, way) < 0 ? 0 : next;
}

/**
 * enter_inverted() - *@end: where @stack ends, for now; *@cut: it goes on, but there is no room.
 * Return: 0, -1 without memory.
 */
static int enter_inverted(struct build *b, struct stack_id stack, uint32_t *end, int *cut)
{
	const struct prof_stack *s = prof_stack(b->prof, stack);
	const struct prof_frame *f = prof_frame(b->prof, s->frame);
	uint32_t hidden = s->stop ? 0 : view_frame_hidden(f), node = 0, frame;
	struct way way = { stack.v, hidden < view_frame_count(f) ? hidden : 0 };
	int rc = 0;
	for (;;) {
		*end = node;
		if (node < b->rest_cap && b->rest[node].stack && !step_out(b, node))
			return -1;
		rc = way_next(b, &way, &frame);
		if (rc <= 0)
			return rc;
		uint32_t count = b->count;
		node = child(b, node, frame);
		if (node == 0) {
			*cut = b->full;
			return b->full ? 0 : -1;
		}
		*end = node;
		if (b->count > count)
			return set_rest(b, node, way);
	}
}

/** spread_out() - enter what is left of each stack, as far as its share of the room goes. */
static int spread_out(struct build *b)
{
	uint32_t count = b->count, rests = 0;
	for (uint32_t i = 0; i < count && i < b->rest_cap; i++)
		rests += b->rest[i].stack != 0;
	for (uint32_t i = 0; i < count && i < b->rest_cap; i++) {
		if (!b->rest[i].stack)
			continue;
		uint32_t node = i, left = (b->nodes_max - b->count) / rests--;
		while (b->rest[node].stack && left) {
			uint32_t before = b->count;
			node = step_out(b, node);
			if (!node)
				return -1;
			left -= b->count - before;
		}
		if (b->rest[node].stack)
			note_cut(b, b->nodes[node].self);
	}
	return 0;
}

static int add_self(struct build *b, uint32_t node, const struct cost *cost)
{
	uint32_t *self = &b->nodes[node].self;
	if (!*self) {
		struct view_self *selfs =
			grown(b->selfs, b->self_count, &b->self_cap, sizeof(*selfs));
		if (!selfs)
			return -1;
		b->selfs = selfs;
		*self = b->self_count++;
		selfs[*self] = (struct view_self){ .node = node };
	}
	cost_add(&b->selfs[*self].cost, cost);
	return 0;
}

static int fill(struct build *b, int inverted, struct err *err)
{
	uint32_t stacks = prof_stack_count(b->prof);
	for (uint32_t i = prof_stack_used(b->prof, 0); i < stacks;
	     i = prof_stack_used(b->prof, i + 1)) {
		struct cost cost;
		prof_stack_cost(b->prof, (struct stack_id){ i }, &cost);
		if (cost.allocations == 0 && cost.frees == 0 && cost.peak_bytes == 0 &&
		    cost.leaked == 0 && cost.uncertain == 0)
			continue;
		cost_add(&b->whole, &cost);
		struct stack_id stack = view_canonical(b->prof, (struct stack_id){ i });
		uint32_t node = 0;
		int cut = 0;
		if (stack.v && inverted && enter_inverted(b, stack, &node, &cut) < 0)
			return no_memory(err);
		if (stack.v && !inverted && !(node = enter_top_down(b, stack)))
			return no_memory(err);
		if (add_self(b, node, &cost) < 0)
			return no_memory(err);
		if (cut)
			note_cut(b, b->nodes[node].self);
	}
	if (inverted && spread_out(b) < 0)
		return no_memory(err);
	for (uint32_t i = 1; i < b->self_count; i++)
		b->nodes[b->selfs[i].node].total += view_cost_of(&b->selfs[i].cost, b->cost);
	/* A parent is always made before its children: one pass backwards sums everything up. */
	for (uint32_t i = b->count; i-- > 1;)
		b->nodes[b->nodes[i].parent].total += b->nodes[i].total;
	return 0;
}

/**
 * sort_children() - descending by cost, first come first where equal. Most nodes have one child,
 * nearly all others a few.
 */
static void sort_children(const struct view_node *nodes, uint32_t *children, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		uint32_t moving = children[i], k = i;
		for (; k && nodes[children[k - 1]].total < nodes[moving].total; k--)
			children[k] = children[k - 1];
		children[k] = moving;
	}
}

struct order {
	uint64_t key;
	uint32_t node;
};

static int by_cost(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/** sort_many() - the same for more; the few nodes with so many children share @order. */
static void sort_many(const struct view_node *nodes, uint32_t *children, uint32_t count,
		      struct order *order)
{
	for (uint32_t i = 0; i < count; i++)
		order[i] = (struct order){ nodes[children[i]].total, children[i] };
	qsort(order, count, sizeof(*order), by_cost);
	for (uint32_t i = 0; i < count; i++)
		children[i] = order[i].node;
}

#define CHILDREN_FEW 16

/**
 * lay_out() - the nodes stay where they are: a list names the children of each, one after the
 * other; NULL without memory.
 */
static uint32_t *lay_out(struct build *b)
{
	struct view_node *nodes = b->nodes;
	uint32_t *children = malloc((size_t)b->count * sizeof(*children)), at = 0, most = 0;
	if (!children)
		return NULL;
	for (uint32_t i = 1; i < b->count; i++)
		nodes[nodes[i].parent].child_count++;
	for (uint32_t i = 0; i < b->count; i++) {
		nodes[i].first_child = at;
		at += nodes[i].child_count;
		most = nodes[i].child_count > most ? nodes[i].child_count : most;
		nodes[i].child_count = 0;
	}
	for (uint32_t i = 1; i < b->count; i++) {
		struct view_node *above = &nodes[nodes[i].parent];
		children[above->first_child + above->child_count++] = i;
	}
	struct order *order = most > CHILDREN_FEW ? malloc(most * sizeof(*order)) : NULL;
	if (most > CHILDREN_FEW && !order) {
		free(children);
		return NULL;
	}
	for (uint32_t i = 0; i < b->count; i++) {
		uint32_t *first = &children[nodes[i].first_child], count = nodes[i].child_count;
		if (count > CHILDREN_FEW)
			sort_many(nodes, first, count, order);
		else
			sort_children(nodes, first, count);
	}
	free(order);
	return children;
}

/**
 * Below this part of all allocations and bytes a module's unnamed functions are no matter of their
 * own.
 */
#define UNNAMED_MATTERS 10

uint8_t *view_choose_folds(const struct prof *prof)
{
	uint32_t modules = prof_module_count(prof), frames = prof_frame_count(prof);
	uint8_t *fold = calloc((size_t)modules + 1, sizeof(*fold));
	struct cost *inner = calloc((size_t)modules + 1, sizeof(*inner)), all = { 0 };
	if (!fold || !inner) {
		free(fold);
		free(inner);
		return NULL;
	}
	for (uint32_t i = 0; i < frames; i++) {
		const struct prof_frame *f = prof_frame(prof, (struct frame_id){ i });
		for (uint32_t k = 0; k < f->symbol_count; k++)
			fold[f->module.v] |= f->symbols[k].function != NULL;
	}
	uint32_t stacks = prof_stack_count(prof);
	for (uint32_t i = prof_stack_used(prof, 0); i < stacks; i = prof_stack_used(prof, i + 1)) {
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ i }, &cost);
		if (!cost.allocations)
			continue;
		cost_add(&all, &cost);
		struct stack_id at = view_canonical(prof, (struct stack_id){ i });
		const struct prof_stack *s = prof_stack(prof, at);
		if (at.v && !s->stop)
			cost_add(&inner[prof_frame(prof, s->frame)->module.v], &cost);
	}
	for (uint32_t m = 0; m < modules; m++)
		fold[m] |= m == 0 ||
			   (inner[m].allocations < all.allocations / UNNAMED_MATTERS &&
			    inner[m].allocated_bytes < all.allocated_bytes / UNNAMED_MATTERS);
	free(inner);
	return fold;
}

/** begin() - the root, the empty frame and the empty costs. */
static int begin(struct build *b, int inverted)
{
	const struct view_frame none = { 0 };
	b->node_of = calloc(inverted ? 1 : prof_stack_count(b->prof), sizeof(*b->node_of));
	b->first_of = calloc(prof_frame_count(b->prof), sizeof(*b->first_of));
	b->selfs = grown(NULL, 0, &b->self_cap, sizeof(*b->selfs));
	if (!b->node_of || !b->first_of || !b->selfs)
		return -1;
	b->selfs[b->self_count++] = (struct view_self){ 0 };
	add_frame(b, &none);
	add_node(b, 0, 0);
	return b->frame_count && b->count ? 0 : -1;
}

struct view_tree *view_tree_new(const struct prof *prof, enum view_cost cost, unsigned how,
				struct err *err)
{
	struct build b = { .prof = prof, .cost = cost, .seed = hash_seed() };
	struct view_tree *tree = calloc(1, sizeof(*tree));
	int inverted = (how & VIEW_TREE_INVERTED) != 0, folded = how & VIEW_TREE_FOLD_UNNAMED;
	b.nodes_max = inverted ? VIEW_TREE_INVERTED_MAX : UINT32_MAX;
	b.fold = folded ? view_choose_folds(prof) : NULL;
	int ready = tree && (b.fold || !folded) && begin(&b, inverted) == 0;
	int rc = ready ? fill(&b, inverted, err) : no_memory(err);
	idtab_fini(&b.tab);
	idtab_fini(&b.frame_tab);
	free(b.node_of);
	free(b.first_of);
	free(b.same);
	free(b.path);
	free(b.rest);
	free(b.fold);
	if (rc == 0) {
		tree->children = lay_out(&b);
		if (!tree->children)
			rc = no_memory(err);
	}
	if (rc < 0) {
		free(b.nodes);
		free(b.frames);
		free(b.selfs);
		free(tree);
		return NULL;
	}
	tree->nodes = b.nodes;
	tree->frames = b.frames;
	tree->selfs = b.selfs;
	tree->count = b.count;
	tree->frame_count = b.frame_count;
	tree->self_count = b.self_count;
	tree->cost = cost;
	tree->whole = b.whole;
	tree->inverted = inverted;
	tree->cut = b.cut;
	return tree;
}

void view_tree_free(struct view_tree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	free(tree->children);
	free(tree->frames);
	free(tree->selfs);
	free(tree);
}

void view_tree_freep(struct view_tree **tree)
{
	view_tree_free(*tree);
	*tree = NULL;
}
