/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - stacks folded into a call tree of functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "view/impl.h"

/** struct build - the tree while it grows: nodes in order of appearance, found by (parent, function, module). */
struct build {
	const struct prof *prof;
	struct view_node *nodes;
	uint32_t count, cap;
	struct idtab tab;
	uint64_t seed;
	uint32_t *node_of;   /* of a stack row, 0 = not yet; callers on top only */
	enum view_cost cost; /* of the totals */
	struct cost whole;
	uint8_t *fold; /* by module: its functions without a name are one node; NULL = none are */
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot build the call tree");
}

static int is_same(const struct view_node *n, uint32_t parent, const struct view_frame *frame)
{
	/* Unknown functions of one module differ by address. */
	return n->parent == parent && n->frame.function == frame->function &&
	       n->frame.module == frame->module &&
	       (frame->function || frame->folded || n->frame.offset == frame->offset);
}

static uint32_t add_node(struct build *b, uint32_t parent, const struct view_frame *frame)
{
	if (b->count == b->cap) {
		uint32_t cap = b->cap ? b->cap * 2 : 1024;
		struct view_node *nodes = realloc(b->nodes, (size_t)cap * sizeof(*nodes));
		if (!nodes)
			return 0;
		b->nodes = nodes;
		b->cap = cap;
	}
	b->nodes[b->count] = (struct view_node){ .frame = *frame, .parent = parent };
	return b->count++;
}

/**
 * child() - the node of @frame below @parent, made if there is none; 0 without memory (0 is the root, never a child). The
 * first child of a node is known to it, and most have no other one; the others are found in a table.
 */
static uint32_t child(struct build *b, uint32_t parent, const struct view_frame *frame)
{
	const struct view_node *above = &b->nodes[parent];
	if (frame->folded && above->frame.folded && above->frame.module == frame->module)
		return parent;
	uint32_t first = above->first_child;
	if (!first) {
		first = add_node(b, parent, frame);
		b->nodes[parent].first_child = first;
		return first;
	}
	if (is_same(&b->nodes[first], parent, frame))
		return first;
	if (idtab_reserve(&b->tab) < 0)
		return 0;
	uint64_t offset = frame->function || frame->folded ? 0 : frame->offset;
	uint32_t hash =
		(uint32_t)hash_u64((uintptr_t)frame->function ^ offset,
				   hash_u64((uintptr_t)frame->module, parent, b->seed), b->seed);
	uint32_t at = idtab_first(&b->tab, hash);
	for (; b->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&b->tab, at))
		if (b->tab.slots[at].hash == hash &&
		    is_same(&b->nodes[b->tab.slots[at].id], parent, frame))
			return b->tab.slots[at].id;
	uint32_t node = add_node(b, parent, frame);
	if (node)
		idtab_put(&b->tab, at, hash, node);
	return node;
}

static uint32_t stop_child(struct build *b, uint32_t parent, unsigned stop)
{
	struct view_frame label = { .function = view_stop_label(stop) };
	return child(b, parent, &label);
}

/** frame_at() - entry @i of frame @f, as this tree shows it. */
static void frame_at(const struct build *b, const struct prof_frame *f, uint32_t i,
		     struct view_frame *frame)
{
	view_frame_at(b->prof, f, i, frame);
	frame->folded = !frame->function && b->fold && b->fold[f->module.v];
}

/** enter_frame() - entries @from.. of @stack's frame below @node, outermost first. */
static uint32_t enter_frame(struct build *b, uint32_t node, const struct prof_frame *f,
			    uint32_t from)
{
	for (uint32_t i = view_frame_count(f); i-- > from;) {
		struct view_frame frame;
		frame_at(b, f, i, &frame);
		node = child(b, node, &frame);
		if (node == 0)
			return 0;
	}
	return node;
}

/**
 * whole_stack() - the node of a stack row with all its entries; remembered, so each row is entered once. Goes down to the
 * nearest remembered caller and comes back up, without recursion: stacks are up to 65 535 frames deep.
 */
static uint32_t whole_stack(struct build *b, struct stack_id stack)
{
	uint32_t depth = 0;
	struct stack_id at = stack;
	while (at.v && !b->node_of[at.v]) {
		depth++;
		at = prof_stack(b->prof, at)->parent;
	}
	if (depth == 0)
		return b->node_of[stack.v];
	uint32_t *path = malloc(depth * sizeof(*path));
	if (!path)
		return 0;
	at = stack;
	for (uint32_t i = depth; i-- > 0;) {
		path[i] = at.v;
		at = prof_stack(b->prof, at)->parent;
	}
	uint32_t node = at.v ? b->node_of[at.v] : 0;
	for (uint32_t i = 0; i < depth; i++) {
		const struct prof_stack *s = prof_stack(b->prof, (struct stack_id){ path[i] });
		node = s->stop ? stop_child(b, node, s->stop)
			       : enter_frame(b, node, prof_frame(b->prof, s->frame), 0);
		if (node == 0)
			break;
		b->node_of[path[i]] = node;
	}
	free(path);
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
	return enter_frame(b, node, f, hidden);
}

static uint32_t enter_inverted(struct build *b, struct stack_id stack, uint64_t value)
{
	uint32_t node = 0;
	struct stack_id at = stack;
	for (int innermost = 1; at.v; innermost = 0) {
		const struct prof_stack *s = prof_stack(b->prof, at);
		if (s->stop) {
			node = stop_child(b, node, s->stop);
			if (node == 0)
				return 0;
			b->nodes[node].total += value;
			break;
		}
		const struct prof_frame *f = prof_frame(b->prof, s->frame);
		uint32_t count = view_frame_count(f);
		uint32_t i = innermost ? view_frame_hidden(f) : 0;
		for (i = i < count ? i : 0; i < count; i++) {
			struct view_frame frame;
			uint32_t above = node;
			frame_at(b, f, i, &frame);
			node = child(b, node, &frame);
			if (node == 0)
				return 0;
			if (node != above)
				b->nodes[node].total += value;
		}
		at = s->parent;
	}
	return node;
}

static int fill(struct build *b, int inverted, struct err *err)
{
	uint32_t stacks = prof_stack_count(b->prof);
	for (uint32_t i = 0; i < stacks; i++) {
		struct cost cost;
		prof_stack_cost(b->prof, (struct stack_id){ i }, &cost);
		if (cost.allocations == 0 && cost.frees == 0 && cost.peak_bytes == 0 &&
		    cost.leaked == 0 && cost.uncertain == 0)
			continue;
		cost_add(&b->whole, &cost);
		struct stack_id stack = view_canonical(b->prof, (struct stack_id){ i });
		uint32_t node = 0;
		if (stack.v) {
			node = inverted ? enter_inverted(b, stack, view_cost_of(&cost, b->cost))
					: enter_top_down(b, stack);
			if (node == 0)
				return no_memory(err);
		}
		cost_add(&b->nodes[node].self, &cost);
	}
	if (inverted) {
		b->nodes[0].total = view_cost_of(&b->whole, b->cost);
		return 0;
	}
	/* A parent is always made before its children: one pass backwards sums everything up. */
	for (uint32_t i = b->count; i-- > 0;) {
		b->nodes[i].total += view_cost_of(&b->nodes[i].self, b->cost);
		if (i)
			b->nodes[b->nodes[i].parent].total += b->nodes[i].total;
	}
	return 0;
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

/** lay_out() - copy the nodes so that children are contiguous and sorted: breadth first from the root. */
static struct view_node *lay_out(const struct build *b)
{
	struct order *order = malloc((size_t)b->count * sizeof(*order));
	/* place in order[] behind a node's last child so far; once all are in, of the next node's first child */
	uint32_t *end = calloc((size_t)b->count + 1, sizeof(*end));
	struct view_node *out = malloc((size_t)b->count * sizeof(*out));
	if (!order || !end || !out) {
		free(order);
		free(end);
		free(out);
		return NULL;
	}
	for (uint32_t i = 1; i < b->count; i++)
		end[b->nodes[i].parent + 1]++;
	for (uint32_t i = 0; i < b->count; i++)
		end[i + 1] += end[i];
	for (uint32_t i = 1; i < b->count; i++)
		order[end[b->nodes[i].parent]++] = (struct order){ b->nodes[i].total, i };
	/* @from: which node of the build stands at out[i]; kept in out[i].first_child until its children are placed. */
	uint32_t placed = 1;
	out[0] = b->nodes[0];
	out[0].first_child = 0;
	for (uint32_t i = 0; i < placed; i++) {
		uint32_t from = out[i].first_child;
		uint32_t first = from ? end[from - 1] : 0, count = end[from] - first;
		out[i].first_child = placed;
		out[i].child_count = count;
		if (count > 1)
			qsort(order + first, count, sizeof(*order), by_cost);
		for (uint32_t k = first; k < first + count; k++) {
			out[placed] = b->nodes[order[k].node];
			out[placed].parent = i;
			out[placed].first_child = order[k].node;
			placed++;
		}
	}
	free(order);
	free(end);
	return out;
}

/** Below this part of all allocations and bytes a module's unnamed functions are no matter of their own. */
#define UNNAMED_MATTERS 10

/**
 * choose_folds() - which modules' unnamed functions become one node: those with names beside them, those where little is
 * allocated, and code of no module (made at run time, mostly). NULL without memory.
 */
static uint8_t *choose_folds(const struct prof *prof)
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
	for (uint32_t i = 0; i < prof_stack_count(prof); i++) {
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

struct view_tree *view_tree_new(const struct prof *prof, enum view_cost cost, unsigned how,
				struct err *err)
{
	struct build b = {
		.prof = prof, .cost = cost, .seed = hash_seed(), .count = 1, .cap = 1024
	};
	struct view_tree *tree = calloc(1, sizeof(*tree));
	int inverted = (how & VIEW_TREE_INVERTED) != 0, folded = how & VIEW_TREE_FOLD_UNNAMED;
	b.nodes = calloc(b.cap, sizeof(*b.nodes));
	b.node_of = calloc(inverted ? 1 : prof_stack_count(prof), sizeof(*b.node_of));
	b.fold = folded ? choose_folds(prof) : NULL;
	int ready = tree && b.nodes && b.node_of && (b.fold || !folded);
	int rc = ready ? fill(&b, inverted, err) : no_memory(err);
	idtab_fini(&b.tab);
	free(b.node_of);
	free(b.fold);
	if (rc == 0) {
		tree->nodes = lay_out(&b);
		tree->count = b.count;
		tree->cost = cost;
		tree->whole = b.whole;
		tree->inverted = inverted;
		if (!tree->nodes)
			rc = no_memory(err);
	}
	free(b.nodes);
	if (rc < 0) {
		free(tree);
		return NULL;
	}
	return tree;
}

void view_tree_free(struct view_tree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	free(tree);
}

void view_tree_freep(struct view_tree **tree)
{
	view_tree_free(*tree);
	*tree = NULL;
}
