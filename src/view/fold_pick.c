/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fold_pick.c - the costliest nodes of a folded tree, in order of drawing. A node's children cost
 * no more than it does, so the dearest candidate is taken next and brings its children; what is
 * left when there are enough is each parent's rest.
 *
 * Turned around, a node is a range of cursors: a node of the tree where something was asked for
 * (leaf), and how far outwards it was followed (at). Its children are that range sorted by the next
 * frame, so the turned tree is never built.
 *
 * Callees: a node is a range of nodes of the tree that have the same way from the function. They
 * are laid behind one another as they are opened: each once at most, since they stand below one
 * place alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/fold.h"

#define SEARCH_STEPS_MAX 200000000ull /* frames looked at for a key of the turned tree */

struct cursor {
	uint32_t at, leaf;
};

struct candidate {
	uint64_t key, weight;
	uint64_t total, blocks, base;
	uint32_t frame, parent, depth;
	/* the node; turned around: the range of cursors */
	uint32_t at, end;
};

struct choice {
	const struct fold *fold;
	const struct fold_ask *ask;
	struct candidate *heap;
	uint32_t heap_count, heap_cap;
	struct fold_pick *picks;
	uint32_t count, cap;

	/* turned around only */

	/* begun: cursors stand on what is shown, the next frame is their parent's */
	int turned, begun;
	struct cursor *cursors, *sorted;
	uint32_t cursor_count;
	/* callees only: nodes of the tree, a range for each candidate */
	uint32_t *same;
	uint32_t same_count;
	/* by frame: 1 + its place in @group while a range is sorted */
	uint32_t *slot;
	struct group {
		uint32_t frame, count, begin;
		uint64_t total, blocks, base;
	} * groups;
	uint32_t group_cap;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot choose what to show");
}

static uint64_t at_or_0(const uint64_t *values, uint32_t i)
{
	return values ? values[i] : 0;
}

/* ---- the heap of candidates ------------------------------------------------------------------ */

static int before(const struct candidate *a, const struct candidate *b)
{
	return a->weight != b->weight ? a->weight > b->weight : a->key < b->key;
}

static int push(struct choice *c, const struct candidate *one)
{
	if (c->heap_count == c->heap_cap) {
		uint32_t cap = c->heap_cap ? c->heap_cap * 2 : 256;
		struct candidate *heap = realloc(c->heap, cap * sizeof(*heap));
		if (!heap)
			return -1;
		c->heap = heap;
		c->heap_cap = cap;
	}
	uint32_t i = c->heap_count++;
	for (; i && before(one, &c->heap[(i - 1) / 2]); i = (i - 1) / 2)
		c->heap[i] = c->heap[(i - 1) / 2];
	c->heap[i] = *one;
	return 0;
}

static struct candidate pop(struct choice *c)
{
	struct candidate top = c->heap[0], last = c->heap[--c->heap_count];
	uint32_t i = 0;
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child >= c->heap_count)
			break;
		if (child + 1 < c->heap_count && before(&c->heap[child + 1], &c->heap[child]))
			child++;
		if (!before(&c->heap[child], &last))
			break;
		c->heap[i] = c->heap[child];
		i = child;
	}
	c->heap[i] = last;
	return top;
}

/* ---- callers on top -------------------------------------------------------------------------- */

static int offer_children(struct choice *c, uint32_t pick, uint32_t node)
{
	const struct fold *f = c->fold;
	const struct fold_ask *ask = c->ask;
	struct fold_pick *p = &c->picks[pick];
	p->self = ask->cost.self[node];
	p->base_self = at_or_0(ask->base.self, node);
	for (uint32_t i = f->nodes[node].first_child; i; i = f->nodes[i].next) {
		struct candidate one = { .key = f->nodes[i].key,
					 .total = ask->cost.total[i],
					 .blocks = at_or_0(ask->blocks.total, i),
					 .base = at_or_0(ask->base.total, i),
					 .frame = f->nodes[i].frame,
					 .parent = pick,
					 .depth = p->depth + 1,
					 .at = i };
		one.weight = one.total > one.base ? one.total : one.base;
		if (!one.weight && !one.blocks)
			continue; /* nothing of this selection is there */
		p->children++;
		if (push(c, &one) < 0)
			return -1;
	}
	return 0;
}

/* ---- turned around --------------------------------------------------------------------------- */

/* What a leaf stands for: what was asked for there; for callers, what passes through it. */
static uint64_t weigh(const struct choice *c, const struct fold_sums *sums, uint32_t leaf)
{
	return at_or_0(c->ask->callers ? sums->total : sums->self, leaf);
}

/** gather() - all leaves, standing on themselves. */
static int gather(struct choice *c, uint32_t function)
{
	const struct fold *f = c->fold;
	c->cursors = calloc(f->node_count, sizeof(*c->cursors));
	c->sorted = calloc(f->node_count, sizeof(*c->sorted));
	c->slot = calloc(f->frame_count, sizeof(*c->slot));
	if (!c->cursors || !c->sorted || !c->slot)
		return -1;
	for (uint32_t i = 1; i < f->node_count; i++) {
		if (c->ask->callers && (f->nodes[i].frame != function || f->nodes[i].recurs))
			continue;
		if (weigh(c, &c->ask->cost, i) || weigh(c, &c->ask->base, i) ||
		    weigh(c, &c->ask->blocks, i))
			c->cursors[c->cursor_count++] = (struct cursor){ i, i };
	}
	return 0;
}

/** next_of() - where a cursor goes next; 0: its path ends. */
static uint32_t next_of(const struct choice *c, uint32_t at, int begun)
{
	return begun ? c->fold->nodes[at].parent : at;
}

/** group_of() - that of @frame among the children that are being counted; NULL without memory. */
static struct group *group_of(struct choice *c, uint32_t frame, uint32_t *groups)
{
	uint32_t *slot = &c->slot[frame];
	if (!*slot) {
		if (*groups == c->group_cap) {
			uint32_t cap = c->group_cap ? c->group_cap * 2 : 64;
			struct group *more = realloc(c->groups, cap * sizeof(*more));
			if (!more)
				return NULL;
			c->groups = more;
			c->group_cap = cap;
		}
		c->groups[*groups] = (struct group){ .frame = frame };
		*slot = ++*groups;
	}
	return &c->groups[*slot - 1];
}

static int offer_callers(struct choice *c, uint32_t pick, uint32_t begin, uint32_t end, int begun)
{
	const struct fold *f = c->fold;
	struct fold_pick *p = &c->picks[pick];
	uint32_t groups = 0;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t next = next_of(c, c->cursors[i].at, begun), leaf = c->cursors[i].leaf;
		uint64_t total = weigh(c, &c->ask->cost, leaf),
			 base = weigh(c, &c->ask->base, leaf);
		if (!next) {
			sum_add(&p->self, total);
			sum_add(&p->base_self, base);
			continue;
		}
		struct group *g = group_of(c, f->nodes[next].frame, &groups);
		if (!g)
			return -1;
		g->count++;
		sum_add(&g->total, total);
		sum_add(&g->base, base);
		sum_add(&g->blocks, weigh(c, &c->ask->blocks, leaf));
	}
	uint32_t place = begin;
	for (uint32_t i = 0; i < groups; i++) {
		c->groups[i].begin = place;
		place += c->groups[i].count;
		c->groups[i].count = 0;
	}
	for (uint32_t i = begin; i < end; i++) {
		uint32_t next = next_of(c, c->cursors[i].at, begun);
		if (!next)
			continue;
		struct group *g = &c->groups[c->slot[f->nodes[next].frame] - 1];
		c->sorted[g->begin + g->count++] = (struct cursor){ next, c->cursors[i].leaf };
	}
	memcpy(c->cursors + begin, c->sorted + begin, (place - begin) * sizeof(*c->cursors));
	p->children = groups;
	for (uint32_t i = 0; i < groups; i++) {
		const struct group *g = &c->groups[i];
		struct candidate one = { .key = view_key_mix(p->key, f->frames[g->frame].key),
					 .total = g->total,
					 .blocks = g->blocks,
					 .base = g->base,
					 .weight = g->total > g->base ? g->total : g->base,
					 .frame = g->frame,
					 .parent = pick,
					 .depth = p->depth + 1,
					 .at = g->begin,
					 .end = g->begin + g->count };
		c->slot[g->frame] = 0;
		if (push(c, &one) < 0)
			return -1;
	}
	return 0;
}

/* ---- callees --------------------------------------------------------------------------------- */

static int offer_merged(struct choice *c, uint32_t pick, uint32_t begin, uint32_t end)
{
	const struct fold *f = c->fold;
	const struct fold_ask *ask = c->ask;
	struct fold_pick *p = &c->picks[pick];
	uint32_t groups = 0;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t node = c->same[i];
		sum_add(&p->self, ask->cost.self[node]);
		sum_add(&p->base_self, at_or_0(ask->base.self, node));
		for (uint32_t k = f->nodes[node].first_child; k; k = f->nodes[k].next) {
			struct group *g = group_of(c, f->nodes[k].frame, &groups);
			if (!g)
				return -1;
			g->count++;
			sum_add(&g->total, ask->cost.total[k]);
			sum_add(&g->base, at_or_0(ask->base.total, k));
			sum_add(&g->blocks, at_or_0(ask->blocks.total, k));
		}
	}
	for (uint32_t i = 0; i < groups; i++) {
		c->groups[i].begin = c->same_count;
		c->same_count += c->groups[i].count;
		c->groups[i].count = 0;
	}
	for (uint32_t i = begin; i < end; i++) {
		for (uint32_t k = f->nodes[c->same[i]].first_child; k; k = f->nodes[k].next) {
			struct group *g = &c->groups[c->slot[f->nodes[k].frame] - 1];
			c->same[g->begin + g->count++] = k;
		}
	}
	for (uint32_t i = 0; i < groups; i++) {
		const struct group *g = &c->groups[i];
		struct candidate one = { .key = view_key_mix(p->key, f->frames[g->frame].key),
					 .total = g->total,
					 .blocks = g->blocks,
					 .base = g->base,
					 .weight = g->total > g->base ? g->total : g->base,
					 .frame = g->frame,
					 .parent = pick,
					 .depth = p->depth + 1,
					 .at = g->begin,
					 .end = g->begin + g->count };
		c->slot[g->frame] = 0;
		if (!one.weight && !one.blocks)
			continue; /* nothing of this selection is there */
		p->children++;
		if (push(c, &one) < 0)
			return -1;
	}
	return 0;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static int unknown_node(struct err *err)
{
	err_set(err, -ENOENT, "there is no node with this key in the selection");
	return err_hint(err, "leave out 'n' for the whole tree");
}

static void begin_with(struct candidate *first, const struct choice *c, uint32_t node)
{
	const struct fold_ask *ask = c->ask;
	*first = (struct candidate){ .key = c->fold->nodes[node].key,
				     .total = ask->cost.total[node],
				     .blocks = at_or_0(ask->blocks.total, node),
				     .base = at_or_0(ask->base.total, node),
				     .frame = c->fold->nodes[node].frame,
				     .parent = FOLD_NONE,
				     .at = node };
}

static int add_path(struct fold_picks *picks, uint32_t count)
{
	picks->path = calloc(count + 1, sizeof(*picks->path));
	picks->path_count = count;
	return picks->path ? 0 : -1;
}

static int begin_down(struct choice *c, struct candidate *first, struct fold_picks *picks,
		      struct err *err)
{
	const struct fold *f = c->fold;
	uint32_t node = 0, depth = 0;
	if (c->ask->has_node && c->ask->node != VIEW_KEY_ROOT) {
		for (node = 1; node < f->node_count && f->nodes[node].key != c->ask->node; node++)
			;
		if (node == f->node_count)
			return unknown_node(err);
	}
	begin_with(first, c, node);
	for (uint32_t at = node; at && f->nodes[at].parent; at = f->nodes[at].parent)
		depth++;
	if (add_path(picks, depth) < 0)
		return no_memory(err);
	for (uint32_t at = node; depth;) {
		at = f->nodes[at].parent;
		picks->path[--depth] = (struct fold_pick){ .key = f->nodes[at].key,
							   .frame = f->nodes[at].frame,
							   .total = c->ask->cost.total[at] };
	}
	return 0;
}

/** sum_range() - what the cursors from @begin on stand for, as a candidate's sums. */
static void sum_cursors(const struct choice *c, struct candidate *first)
{
	for (uint32_t i = 0; i < c->cursor_count; i++) {
		uint32_t leaf = c->cursors[i].leaf;
		sum_add(&first->total, weigh(c, &c->ask->cost, leaf));
		sum_add(&first->base, weigh(c, &c->ask->base, leaf));
		sum_add(&first->blocks, weigh(c, &c->ask->blocks, leaf));
	}
	first->at = 0;
	first->end = c->cursor_count;
}

/**
 * zoom_turned() - keep the cursors whose way outwards leads through the node with the asked key,
 * standing on it, and tell the ways frames.
 */
static int zoom_turned(struct choice *c, uint64_t root, struct candidate *first,
		       struct fold_picks *picks, struct err *err)
{
	const struct fold *f = c->fold;
	uint32_t depth = 0, kept = 0;
	uint64_t steps = 0;
	for (uint32_t i = 0; i < c->cursor_count; i++) {
		uint64_t key = root;
		uint32_t at = c->cursors[i].at, d = 0;
		if (c->begun)
			at = f->nodes[at].parent;
		for (; at && (!depth || d < depth); at = f->nodes[at].parent) {
			key = view_key_mix(key, f->frames[f->nodes[at].frame].key);
			d++;
			if (++steps > SEARCH_STEPS_MAX)
				return err_set(err, -EOVERFLOW,
					       "the node lies too deep to be found");
			if (key == c->ask->node)
				break;
		}
		if (!at || key != c->ask->node)
			continue;
		depth = d;
		c->cursors[kept++] = (struct cursor){ at, c->cursors[i].leaf };
	}
	if (!kept)
		return unknown_node(err);
	if (add_path(picks, depth - 1) < 0)
		return no_memory(err);
	uint64_t key = root;
	uint32_t at = c->cursors[0].leaf;
	if (c->begun)
		at = f->nodes[at].parent;
	for (uint32_t d = 0; d + 1 < depth; d++, at = f->nodes[at].parent) {
		key = view_key_mix(key, f->frames[f->nodes[at].frame].key);
		picks->path[d] = (struct fold_pick){ .key = key, .frame = f->nodes[at].frame };
	}
	c->cursor_count = kept;
	c->begun = 1;
	*first = (struct candidate){ .key = c->ask->node,
				     .frame = f->nodes[c->cursors[0].at].frame,
				     .parent = FOLD_NONE };
	sum_cursors(c, first);
	return 0;
}

static int begin_turned(struct choice *c, struct candidate *first, struct fold_picks *picks,
			struct err *err)
{
	uint32_t function = 0;
	uint64_t root = VIEW_KEY_ROOT;
	if (c->ask->callers) {
		function = fold_frame_of(c->fold, c->ask->function);
		if (function == FOLD_NONE)
			return err_set(err, -ENOENT,
				       "there is no frame with this key in the selection");
		root = view_key_mix(VIEW_KEY_ROOT, c->ask->function);
		c->begun = 1;
	}
	if (gather(c, function) < 0)
		return no_memory(err);
	if (c->ask->has_node && c->ask->node != root)
		return zoom_turned(c, root, first, picks, err);
	*first = (struct candidate){ .key = root, .frame = function, .parent = FOLD_NONE };
	sum_cursors(c, first);
	return add_path(picks, 0) < 0 ? no_memory(err) : 0;
}

/** sum_same() - what the nodes of the range say together, as a candidate's sums. */
static void sum_same(const struct choice *c, struct candidate *first)
{
	for (uint32_t i = 0; i < c->same_count; i++) {
		uint32_t node = c->same[i];
		sum_add(&first->total, c->ask->cost.total[node]);
		sum_add(&first->base, at_or_0(c->ask->base.total, node));
		sum_add(&first->blocks, at_or_0(c->ask->blocks.total, node));
	}
	first->at = 0;
	first->end = c->same_count;
}

/** zoom_merged() - the nodes whose way from the function has the asked key, and the ways frames. */
static int zoom_merged(struct choice *c, uint32_t function, struct fold_picks *picks,
		       struct err *err)
{
	const struct fold *f = c->fold;
	uint64_t root = view_key_mix(VIEW_KEY_ROOT, c->ask->function);
	uint64_t *key = calloc(f->node_count, sizeof(*key)); /* 0: not below the function */
	uint32_t depth = 0;
	if (!key)
		return no_memory(err);
	c->same_count = 0;
	for (uint32_t i = 1; i < f->node_count; i++) {
		const struct fold_node *n = &f->nodes[i];
		if (n->frame == function && !n->recurs)
			key[i] = root;
		else if (key[n->parent])
			key[i] = view_key_mix(key[n->parent], f->frames[n->frame].key);
		if (key[i] == c->ask->node)
			c->same[c->same_count++] = i;
	}
	int rc = c->same_count ? 0 : unknown_node(err);
	for (uint32_t at = rc == 0 ? c->same[0] : 0; at && key[at] != root;
	     at = f->nodes[at].parent)
		depth++;
	if (rc == 0 && add_path(picks, depth) < 0)
		rc = no_memory(err);
	for (uint32_t at = rc == 0 ? c->same[0] : 0; depth;) {
		at = f->nodes[at].parent;
		picks->path[--depth] =
			(struct fold_pick){ .key = key[at], .frame = f->nodes[at].frame };
	}
	free(key);
	return rc;
}

static int begin_merged(struct choice *c, struct candidate *first, struct fold_picks *picks,
			struct err *err)
{
	const struct fold *f = c->fold;
	uint64_t root = view_key_mix(VIEW_KEY_ROOT, c->ask->function);
	uint32_t function = fold_frame_of(f, c->ask->function);
	if (function == FOLD_NONE)
		return err_set(err, -ENOENT, "there is no frame with this key in the selection");
	c->same = malloc(2 * (size_t)f->node_count * sizeof(*c->same));
	c->slot = calloc(f->frame_count, sizeof(*c->slot));
	if (!c->same || !c->slot)
		return no_memory(err);
	*first = (struct candidate){ .key = root, .frame = function, .parent = FOLD_NONE };
	if (c->ask->has_node && c->ask->node != root) {
		int rc = zoom_merged(c, function, picks, err);
		if (rc < 0)
			return rc;
		first->key = c->ask->node;
		first->frame = f->nodes[c->same[0]].frame;
	} else {
		for (uint32_t i = 1; i < f->node_count; i++)
			if (f->nodes[i].frame == function && !f->nodes[i].recurs)
				c->same[c->same_count++] = i;
		if (add_path(picks, 0) < 0)
			return no_memory(err);
	}
	sum_same(c, first);
	return 0;
}

/* ---- further costs --------------------------------------------------------------------------- */

/** tell_more() - what the node or range of @one comes to in each of fold_ask.more. */
static void tell_more(const struct choice *c, const struct candidate *one, struct fold_pick *pick)
{
	for (unsigned k = 0; k < FOLD_MORE_MAX; k++) {
		const struct fold_sums *sums = &c->ask->more[k];
		if (!sums->total)
			continue;
		if (c->ask->callees)
			for (uint32_t i = one->at; i < one->end; i++)
				sum_add(&pick->more[k], sums->total[c->same[i]]);
		else if (c->turned)
			for (uint32_t i = one->at; i < one->end; i++)
				sum_add(&pick->more[k], weigh(c, sums, c->cursors[i].leaf));
		else
			pick->more[k] = sums->total[one->at];
	}
}

/* ---- the end --------------------------------------------------------------------------------- */

/** in_order() - depth first; picks of one parent came in the order that they are shown in. */
static int in_order(struct choice *c, struct fold_picks *out)
{
	uint32_t n = c->count;
	uint32_t *first = malloc((size_t)n * sizeof(*first)),
		 *next = malloc((size_t)n * sizeof(*next)),
		 *place = malloc((size_t)n * sizeof(*place));
	out->all = malloc((size_t)n * sizeof(*out->all));
	int ready = first && next && place && out->all;
	for (uint32_t i = 0; ready && i < n; i++)
		first[i] = next[i] = FOLD_NONE;
	for (uint32_t i = n; ready && i-- > 1;) { /* backwards, so that the list runs forwards */
		next[i] = first[c->picks[i].parent];
		first[c->picks[i].parent] = i;
	}
	for (uint32_t at = 0; ready && at != FOLD_NONE;) {
		place[at] = out->count;
		out->all[out->count] = c->picks[at];
		if (at)
			out->all[out->count].parent = place[c->picks[at].parent];
		out->count++;
		if (first[at] != FOLD_NONE) {
			at = first[at];
			continue;
		}
		while (at != FOLD_NONE && next[at] == FOLD_NONE)
			at = c->picks[at].parent;
		at = at == FOLD_NONE ? at : next[at];
	}
	free(first);
	free(next);
	free(place);
	return ready ? 0 : -1;
}

/**
 * join_trunks() - what has one child and nothing of its own is one row with it, below the first.
 */
static void join_trunks(struct fold_picks *p)
{
	uint32_t kept = 1;
	uint32_t *place = calloc(
		p->count, sizeof(*place)); /* 1 + where it went; of a joined one: its parent's */
	if (!place)
		return; /* rows stay apart: nothing is wrong */
	place[0] = 1;
	for (uint32_t i = 1, trunk = 0; i < p->count; i++) {
		struct fold_pick one = p->all[i];
		uint32_t parent = place[one.parent] - 1;
		if (one.children == 1 && !one.self && !one.base_self && i + 1 < p->count &&
		    p->all[i + 1].parent == i) {
			place[i] = parent + 1;
			trunk++;
			continue;
		}
		one.trunk = trunk;
		one.parent = parent;
		one.depth = p->all[parent].depth + 1;
		trunk = 0;
		place[i] = kept + 1;
		p->all[kept++] = one;
	}
	p->count = kept;
	free(place);
}

static int choose(struct choice *c, struct fold_picks *picks, struct err *err)
{
	struct candidate first;
	int rc = c->ask->callees ? begin_merged(c, &first, picks, err)
		 : c->turned     ? begin_turned(c, &first, picks, err)
				 : begin_down(c, &first, picks, err);
	if (rc < 0)
		return rc;
	uint32_t most = c->ask->nodes_max ? c->ask->nodes_max : 1;
	if (push(c, &first) < 0)
		return no_memory(err);
	while (c->heap_count && c->count < most) {
		struct candidate one = pop(c);
		if (c->count == c->cap) {
			uint32_t cap = c->cap ? c->cap * 2 : 1024;
			struct fold_pick *more = realloc(c->picks, cap * sizeof(*more));
			if (!more)
				return no_memory(err);
			c->picks = more;
			c->cap = cap;
		}
		uint32_t pick = c->count++;
		c->picks[pick] = (struct fold_pick){ .key = one.key,
						     .total = one.total,
						     .blocks = one.blocks,
						     .base = one.base,
						     .frame = one.frame,
						     .depth = one.depth,
						     .parent = one.parent };
		tell_more(c, &one, &c->picks[pick]);
		rc = c->ask->callees ? offer_merged(c, pick, one.at, one.end)
		     : c->turned     ? offer_callers(c, pick, one.at, one.end, c->begun || pick)
				     : offer_children(c, pick, one.at);
		if (rc < 0)
			return no_memory(err);
	}
	for (uint32_t i = 0; i < c->heap_count; i++)
		sum_add(&c->picks[c->heap[i].parent].rest, c->heap[i].total);
	if (in_order(c, picks) < 0)
		return no_memory(err);
	if (c->ask->trunk)
		join_trunks(picks);
	return 0;
}

int fold_choose(const struct fold *fold, const struct fold_ask *ask, struct fold_picks *picks,
		struct err *err)
{
	struct choice c = { .fold = fold, .ask = ask, .turned = ask->inverted || ask->callers };
	*picks = (struct fold_picks){ 0 };
	int rc = choose(&c, picks, err);
	free(c.heap);
	free(c.picks);
	free(c.cursors);
	free(c.same);
	free(c.sorted);
	free(c.slot);
	free(c.groups);
	if (rc < 0)
		fold_picks_fini(picks);
	return rc;
}

void fold_picks_fini(struct fold_picks *picks)
{
	free(picks->all);
	free(picks->path);
	*picks = (struct fold_picks){ 0 };
}
