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
	struct pages_node node;        /* first, so that one is the other */
	struct growing *parent, *next; /* next sibling */
	struct growing *first;
	uint32_t children;
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

/* What makes two frames the same node: names are lent from one pool, but equal ones may stand in several. */
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

/* One frame of machine code: the functions that are inlined there are frames of their own, unless sites are told apart. */
static struct growing *go_down(struct pages_tree *tree, struct growing *node,
			       const struct page_frame *frame, uint64_t bytes, int cache)
{
	const struct symbol *symbols = atomic_load_explicit(&frame->symbols, memory_order_acquire);
	uint32_t count =
		symbols ? atomic_load_explicit(&frame->symbol_count, memory_order_relaxed) : 1;
	for (uint32_t i = 0; node && i < count; i++) {
		const struct symbol *symbol = NULL;
		if (symbols && tree->opt->by_site)
			symbol = &symbols[count - 1]; /* the function that the code is in */
		else if (symbols)
			symbol = &symbols[tree->opt->reverse ? count - 1 - i : i];
		if (symbol && !symbol->function)
			symbol = NULL;
		node = child_of(tree, node, frame, symbol);
		if (node)
			add_to(node, bytes, cache);
		if (tree->opt->by_site)
			break;
	}
	return node;
}

static int add_row(struct pages_tree *tree, const struct page_row *row)
{
	int cache = pages_kind_is_cache(row->kind);
	struct growing *node = tree->root;
	add_to(node, row->bytes, cache);
	if (!row->stack) {
		node->node.unknown_bytes += row->bytes;
		node->node.unknown_cache_bytes += cache ? row->bytes : 0;
		return 0;
	}
	uint16_t count = row->stack->count;
	for (uint16_t i = 0; node && i < count; i++)
		node = go_down(tree, node,
			       row->stack->frames[tree->opt->reverse ? count - 1 - i : i],
			       row->bytes, cache);
	if (!node)
		return -ENOMEM;
	node->node.self_bytes += row->bytes;
	node->node.self_cache_bytes += cache ? row->bytes : 0;
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

/* Children in order; what is too small, too deep or one too many is added up. Depth is bounded by that of stacks. */
static int finish(struct pages_tree *tree, struct growing *node, unsigned level)
{
	struct pages_node *n = &node->node;
	int deep = tree->opt->depth && level >= tree->opt->depth;
	n->children = node->children ? calloc(node->children, sizeof(*n->children)) : NULL;
	if (node->children && !n->children)
		return -ENOMEM;
	for (struct growing *child = node->first; child; child = child->next) {
		if (deep || child->node.bytes < tree->opt->threshold_bytes) {
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
	int rc = 0;
	for (uint32_t i = 0; !rc && i < n->count; i++)
		rc = finish(tree, (struct growing *)n->children[i], level + 1);
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
	for (size_t i = 0; !rc && process && i < process->row_count; i++)
		if (kinds >> process->rows[i].kind & 1)
			rc = add_row(tree, &process->rows[i]);
	if (!rc)
		rc = finish(tree, tree->root, 0);
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
