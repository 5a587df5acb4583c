/* SPDX-License-Identifier: Apache-2.0 */
#include "view/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "view/view.h"

int pages_kind_is_cache(unsigned kind)
{
	return kind == PAGES_FILE || kind == PAGES_SHMEM || kind == PAGES_CACHE;
}

const char *pages_category(const struct page_frame *frame, const struct symbol *symbol,
			   const struct page_module *program)
{
	if (!frame || !program || frame->module != program)
		return "systemLib";
	return symbol && symbol->language == SYMBOL_RUST ? "nodeRust" : "nodeCpp";
}

/* A node while the tree grows. */
struct growing {
	/* first, so that one is the other */
	struct pages_node node;
	/* next sibling */
	struct growing *parent, *next;
	struct growing *first;
	uint32_t children;
	/* rows that come through here */
	size_t ways;
	/* its number on its level + 1; 0: it is not shown */
	size_t span;
	uint64_t key;
};

struct pages_tree {
	struct growing *root;
	struct growing **all;
	size_t count, cap;
	struct idtab tab;
	const struct pages_tree_opt *opt;
};

void pages_tree_free(struct pages_tree *tree)
{
	if (!tree)
		return;
	for (size_t i = 0; i < tree->count; i++) {
		free(tree->all[i]->node.children);
		free(tree->all[i]);
	}
	free(tree->all);
	idtab_fini(&tree->tab);
	free(tree);
}

void pages_tree_freep(struct pages_tree **tree)
{
	pages_tree_free(*tree);
}

const struct pages_node *pages_tree_root(const struct pages_tree *tree)
{
	return &tree->root->node;
}

/*
 * What makes two frames the same node: names are lent from one pool, but equal ones may stand in
 * several.
 */
static uint64_t key_of(const struct pages_tree *tree, const struct page_frame *frame,
		       const struct symbol *symbol)
{
	if (tree->opt->by_site || !symbol || !symbol->function)
		return hash_u64((uintptr_t)frame->module, frame->offset, 1) | 1;
	return hash_bytes(symbol->function, strlen(symbol->function), (uintptr_t)frame->module) &
	       ~1ull;
}

static int same(const struct pages_tree *tree, const struct growing *node,
		const struct page_frame *frame, const struct symbol *symbol)
{
	if (node->node.frame->module != frame->module)
		return 0;
	if (tree->opt->by_site || !symbol || !symbol->function)
		return node->node.frame->offset == frame->offset && node->node.symbol == symbol;
	return node->node.symbol && node->node.symbol->function &&
	       !strcmp(node->node.symbol->function, symbol->function);
}

static struct growing *new_node(struct pages_tree *tree)
{
	if (tree->count == tree->cap) {
		size_t cap = tree->cap ? tree->cap * 2 : 1024;
		struct growing **grown = realloc(tree->all, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		tree->all = grown;
		tree->cap = cap;
	}
	struct growing *node = calloc(1, sizeof(*node));
	if (node)
		tree->all[tree->count++] = node;
	return node;
}

static struct growing *child_of(struct pages_tree *tree, struct growing *parent,
				const struct page_frame *frame, const struct symbol *symbol)
{
	uint64_t key = key_of(tree, frame, symbol);
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)parent, key, 2);
	if (idtab_reserve(&tree->tab) < 0)
		return NULL;
	uint32_t at = idtab_first(&tree->tab, hash);
	for (; tree->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&tree->tab, at)) {
		struct growing *known = tree->all[tree->tab.slots[at].id];
		if (tree->tab.slots[at].hash == hash && known->parent == parent &&
		    known->key == key && same(tree, known, frame, symbol))
			return known;
	}
	struct growing *node = new_node(tree);
	if (!node)
		return NULL;
	node->parent = parent;
	node->key = key;
	node->node.frame = frame;
	node->node.symbol = symbol;
	node->node.id = (uint32_t)hash_u64(parent->node.id, key, 3);
	node->next = parent->first;
	parent->first = node;
	parent->children++;
	idtab_put(&tree->tab, at, hash, (uint32_t)(tree->count - 1));
	return node;
}

static void add_to(struct growing *node, uint64_t bytes, int cache)
{
	node->node.bytes += bytes;
	if (cache)
		node->node.cache_bytes += bytes;
}

/* Where a row has come to: its next frame, and which of the functions that are inlined there. */
struct way {
	const struct page_row *row;
	struct growing *to;
	uint16_t at;
	uint16_t inlined;
};

/* The rows of one node; those of a level stand behind each other. */
struct span {
	struct growing *node;
	size_t first, count;
};

struct level {
	struct way *ways;
	struct span *spans;
	size_t span_count;
};

static void level_fini(struct level *level)
{
	free(level->ways);
	free(level->spans);
	*level = (struct level){ 0 };
}

static const struct page_frame *frame_of(const struct pages_tree *tree, const struct way *way)
{
	const struct page_stack *stack = way->row->stack;
	return stack->frames[tree->opt->reverse ? stack->count - 1 - way->at : way->at];
}

static int ends(const struct way *way)
{
	return way->at == way->row->stack->count;
}

/*
 * One frame of machine code: the functions that are inlined there are frames of their own, unless
 * sites are told apart. @way goes on to the next.
 */
static const struct symbol *next_symbol(const struct pages_tree *tree, struct way *way,
					const struct page_frame *frame)
{
	const struct symbol *symbols = atomic_load_explicit(&frame->symbols, memory_order_acquire),
			    *symbol = NULL;
	uint32_t count =
		symbols ? atomic_load_explicit(&frame->symbol_count, memory_order_relaxed) : 1;
	uint32_t at = tree->opt->by_site ? 0 : way->inlined;
	if (symbols && tree->opt->by_site)
		symbol = &symbols[count - 1]; /* the function that the code is in */
	else if (symbols)
		symbol = &symbols[tree->opt->reverse ? count - 1 - at : at];
	way->inlined = (uint16_t)(at + 1);
	if (tree->opt->by_site || at + 1 >= count) {
		way->inlined = 0;
		way->at++;
	}
	return symbol && symbol->function ? symbol : NULL;
}

static int name_level(struct pages_tree *tree, const struct level *level)
{
	size_t all = 0, count = 0;
	if (!tree->opt->name)
		return 0;
	for (size_t i = 0; i < level->span_count; i++)
		all += level->spans[i].count;
	const struct page_frame **frames = all ? calloc(all, sizeof(*frames)) : NULL;
	if (all && !frames)
		return -ENOMEM;
	for (size_t i = 0; i < all; i++) {
		const struct way *way = &level->ways[i];
		if (!ends(way) && !way->inlined)
			frames[count++] = frame_of(tree, way);
	}
	if (count)
		tree->opt->name(tree->opt->name_ctx, frames, count);
	free(frames);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	const struct pages_node *x = *(struct pages_node *const *)a,
				*y = *(struct pages_node *const *)b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	const char *m = x->symbol ? x->symbol->function : "",
		   *n = y->symbol ? y->symbol->function : "";
	int order = strcmp(m, n);
	if (order)
		return order;
	return x->frame->file_offset < y->frame->file_offset ? -1 : 1;
}

/* Children in order; what is too small, or one too many is added up. */
static int finish(struct pages_tree *tree, struct growing *node)
{
	struct pages_node *n = &node->node;
	n->children = node->children ? calloc(node->children, sizeof(*n->children)) : NULL;
	if (node->children && !n->children)
		return -ENOMEM;
	for (struct growing *child = node->first; child; child = child->next) {
		if (child->node.bytes < tree->opt->threshold_bytes) {
			n->under_bytes += child->node.bytes;
			n->under_cache_bytes += child->node.cache_bytes;
		} else {
			n->children[n->count++] = &child->node;
		}
	}
	if (n->count)
		qsort(n->children, n->count, sizeof(*n->children), by_bytes);
	while (tree->opt->limit && n->count > tree->opt->limit) {
		n->under_bytes += n->children[--n->count]->bytes;
		n->under_cache_bytes += n->children[n->count]->cache_bytes;
	}
	return 0;
}

/* The children of @span's node, whose rows are @ways. Return: 0. */
static int expand(struct pages_tree *tree, const struct span *span, struct way *ways, int deep)
{
	struct pages_node *n = &span->node->node;
	for (size_t i = 0; i < span->count; i++) {
		struct way *way = &ways[i];
		uint64_t bytes = way->row->bytes;
		int cache = pages_kind_is_cache(way->row->kind);
		way->to = NULL;
		if (ends(way)) {
			n->self_bytes += bytes;
			n->self_cache_bytes += cache ? bytes : 0;
		} else if (deep) {
			n->under_bytes += bytes;
			n->under_cache_bytes += cache ? bytes : 0;
		} else {
			const struct page_frame *frame = frame_of(tree, way);
			const struct symbol *symbol = next_symbol(tree, way, frame);
			way->to = child_of(tree, span->node, frame, symbol);
			if (!way->to)
				return -ENOMEM;
			add_to(way->to, bytes, cache);
			way->to->ways++;
		}
	}
	return finish(tree, span->node);
}

/* Below @level: the rows of each child that is shown, in the order in which they were. */
static int go_down(const struct level *level, struct level *below)
{
	size_t ways = 0, spans = 0;
	for (size_t i = 0; i < level->span_count; i++) {
		const struct pages_node *n = &level->spans[i].node->node;
		for (uint32_t k = 0; k < n->count; k++)
			ways += ((struct growing *)n->children[k])->ways;
		spans += n->count;
	}
	*below = (struct level){ .ways = calloc(ways + 1, sizeof(*below->ways)),
				 .spans = calloc(spans + 1, sizeof(*below->spans)) };
	if (!below->ways || !below->spans)
		return -ENOMEM;
	ways = 0;
	for (size_t i = 0; i < level->span_count; i++) {
		const struct span *span = &level->spans[i];
		for (uint32_t k = 0; k < span->node->node.count; k++) {
			struct growing *child = (struct growing *)span->node->node.children[k];
			below->spans[below->span_count++] =
				(struct span){ .node = child, .first = ways };
			child->span = below->span_count;
			ways += child->ways;
		}
		for (size_t k = 0; k < span->count; k++) {
			const struct way *way = &level->ways[span->first + k];
			struct span *to =
				way->to && way->to->span ? &below->spans[way->to->span - 1] : NULL;
			if (to)
				below->ways[to->first + to->count++] = *way;
		}
	}
	return 0;
}

/* Rows without a stack end at the root. */
static int begin(struct pages_tree *tree, const struct page_process *process, uint32_t kinds,
		 struct level *level)
{
	size_t count = process ? process->row_count : 0;
	*level = (struct level){ .ways = calloc(count + 1, sizeof(*level->ways)),
				 .spans = calloc(1, sizeof(*level->spans)),
				 .span_count = 1 };
	if (!level->ways || !level->spans)
		return -ENOMEM;
	struct span *span = &level->spans[0];
	struct pages_node *n = &tree->root->node;
	span->node = tree->root;
	for (size_t i = 0; i < count; i++) {
		const struct page_row *row = &process->rows[i];
		int cache = pages_kind_is_cache(row->kind);
		if (!(kinds >> row->kind & 1))
			continue;
		add_to(tree->root, row->bytes, cache);
		if (row->stack) {
			level->ways[span->count++].row = row;
		} else {
			n->unknown_bytes += row->bytes;
			n->unknown_cache_bytes += cache ? row->bytes : 0;
		}
	}
	return 0;
}

/* A level of the tree at a time: what is too small to be shown is never gone into. */
static int grow(struct pages_tree *tree, const struct page_process *process, uint32_t kinds)
{
	struct level level, below;
	int rc = begin(tree, process, kinds, &level);
	for (unsigned depth = 0; !rc && level.span_count; depth++) {
		int deep = tree->opt->depth && depth >= tree->opt->depth;
		rc = deep ? 0 : name_level(tree, &level);
		for (size_t i = 0; !rc && i < level.span_count; i++)
			rc = expand(tree, &level.spans[i], level.ways + level.spans[i].first, deep);
		if (rc)
			break;
		rc = go_down(&level, &below);
		level_fini(&level);
		level = below;
	}
	level_fini(&level);
	return rc;
}

struct pages_tree *pages_tree_new(const struct page_process *process,
				  const struct pages_tree_opt *opt, struct err *err)
{
	static const struct pages_tree_opt defaults;
	struct pages_tree *tree = calloc(1, sizeof(*tree));
	int rc = tree ? 0 : -ENOMEM;
	if (!rc) {
		tree->opt = opt ? opt : &defaults;
		tree->root = new_node(tree);
		rc = tree->root ? 0 : -ENOMEM;
	}
	uint32_t kinds = opt && opt->kinds ? opt->kinds : PAGES_TREE_KINDS;
	if (!rc)
		rc = grow(tree, process, kinds);
	if (rc < 0) {
		pages_tree_free(tree);
		err_set(err, rc, "cannot make a tree of pages");
		return NULL;
	}
	tree->opt = NULL;
	return tree;
}

static const char *function_of(const struct page_frame *frame)
{
	const struct symbol *symbols = atomic_load_explicit(&frame->symbols, memory_order_acquire);
	return symbols ? symbols[0].function : NULL;
}

static int is_library(const struct page_frame *frame)
{
	static const char *const names[] = { "libc.so",      "ld-linux",    "libbyteledger-heap",
					     "libstdc++.so", "libgcc_s.so", "[vdso]" };
	const char *function = function_of(frame);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(frame->module->name, names[i], strlen(names[i])))
			return 1;
	enum view_role role = function ? view_skip_role(NULL, function) : VIEW_OWN;
	return role == VIEW_HELPER || role == VIEW_STANDARD;
}

uint16_t pages_stack_first(const struct page_stack *stack)
{
	for (uint16_t i = 0; i < stack->count; i++)
		if (!is_library(stack->frames[i]))
			return i;
	return 0;
}

static int by_stack(const void *a, const void *b)
{
	const struct page_row *x = *(const struct page_row *const *)a,
			      *y = *(const struct page_row *const *)b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->reason != y->reason)
		return x->reason < y->reason ? -1 : 1;
	return strcmp(x->label ? x->label : "", y->label ? y->label : "");
}

struct page_process *pages_growth(const struct page_process *now, const struct page_process *then)
{
	struct page_process *growth = page_process_new();
	const struct page_row **before = calloc(then ? then->row_count + 1 : 1, sizeof(*before));
	if (growth)
		growth->rows = calloc(now->row_count + 1, sizeof(*growth->rows));
	if (!growth || !before || !growth->rows) {
		free(before);
		page_process_put(growth);
		return NULL;
	}
	size_t count = then ? then->row_count : 0;
	for (size_t i = 0; i < count; i++)
		before[i] = &then->rows[i];
	if (count)
		qsort(before, count, sizeof(*before), by_stack);
	growth->pid = now->pid;
	memcpy(growth->exe, now->exe, sizeof(growth->exe));
	memcpy(growth->comm, now->comm, sizeof(growth->comm));
	growth->time_ns = now->time_ns;
	growth->walk_ns = now->walk_ns;
	growth->ended = now->ended;
	for (size_t i = 0; i < now->row_count; i++) {
		const struct page_row *row = &now->rows[i];
		const struct page_row **was =
			count ? bsearch(&row, before, count, sizeof(*before), by_stack) : NULL;
		uint64_t bytes = was ? (*was)->bytes : 0;
		if (row->bytes <= bytes)
			continue;
		struct page_row *more = &growth->rows[growth->row_count++];
		*more = *row;
		more->bytes = row->bytes - bytes;
		more->label = row->label ? strdup(row->label) : NULL;
		page_stack_get(row->stack);
		growth->kinds[row->kind] += more->bytes;
	}
	free(before);
	return growth;
}
