/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/ends.h"
#include "view/view.h"

static void define(struct prof *prof, const struct def *def)
{
	struct err err = { 0 };
	if (prof_sink(prof)->define(prof_sink(prof), def, &err) < 0)
		fail_msg("%s", err.msg);
}

static void name(struct prof *prof, uint32_t frame, const char *function, uint32_t line)
{
	struct symbol s = { .function = function, .file = function ? "a.c" : NULL, .line = line };
	define(prof, &(struct def){ .kind = DEF_SYMBOL, .id = frame, .symbol = { &s, 1 } });
}

static uint32_t block;

static void alloc(struct prof *prof, uint32_t stack, uint64_t bytes)
{
	struct event ev = {
		.kind = EVENT_ALLOC, .bytes = bytes, .stack = { stack }, .block = { block++ }
	};
	prof_sink(prof)->put(prof_sink(prof), &ev, 1, NULL);
}

/*
 * Frames: 1 main, 2 parse, 3 operator new, 4 operator new (another address), 5 unknown, 6 helper inlined into parse.
 * Stacks: 1 main | 2 main parse | 3 main parse new | 4 main parse new' | 5 main unknown | 6 main parse+helper |
 *         7 (too deep) | 8 (too deep) parse
 */
static struct prof *world(void)
{
	struct prof *prof = prof_new(NULL);
	block = 0;
	define(prof, &(struct def){ .kind = DEF_THREAD, .id = 0, .thread = { .tid = 7 } });
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/demo" } });
	for (uint32_t i = 1; i <= 6; i++)
		define(prof,
		       &(struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i * 16 } });
	name(prof, 1, "main", 1);
	name(prof, 2, "parse", 2);
	name(prof, 3, "operator new(unsigned long)", 3);
	name(prof, 4, "operator new[](unsigned long)", 4);
	struct symbol inlined[] = { { "helper", "h.h", 9, 1 }, { "parse", "a.c", 3, 0 } };
	define(prof, &(struct def){ .kind = DEF_SYMBOL, .id = 6, .symbol = { inlined, 2 } });
	const uint32_t stacks[][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 2, 4 }, { 1, 5 }, { 1, 6 } };
	for (uint32_t i = 0; i < 6; i++)
		define(prof, &(struct def){ .kind = DEF_STACK,
					    .id = i + 1,
					    .stack = { { stacks[i][0] }, { stacks[i][1] }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 7, .stack = { .stop = 6 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 8, .stack = { { 7 }, { 2 }, 0 } });
	return prof;
}

static struct view_table *table(const struct prof *prof, enum view_by by, enum view_cost cost,
				size_t limit)
{
	const struct view_opt opt = { .by = by, .cost = cost, .limit = limit };
	return view_table_new(prof, &opt, NULL);
}

static void rows_that_differ_only_in_operator_new_are_one(void **state)
{
	(void)state;
	struct prof *prof = world();
	alloc(prof, 3, 10);
	alloc(prof, 4, 20);
	alloc(prof, 2, 40);
	alloc(prof, 1, 5);
	struct view_table *t = table(prof, VIEW_BY_STACK, VIEW_COST_PEAK, 0);
	assert_int_equal(t->count, 2);
	assert_int_equal(t->rows[0].cost.peak_bytes, 70);
	assert_int_equal(t->rows[0].cost.allocations, 3);
	struct view_frame f[4];
	unsigned stop;
	assert_int_equal(view_frames(prof, t->rows[0].stack, f, 4, &stop), 2);
	assert_string_equal(f[0].function, "parse");
	assert_string_equal(f[0].module, "demo");
	assert_int_equal(f[0].offset, 32);
	assert_string_equal(f[1].function, "main");
	assert_int_equal(stop, 0);
	view_table_free(t);
	t = table(prof, VIEW_BY_STACK, VIEW_COST_PEAK, 1);
	assert_int_equal(t->count, 1);
	assert_int_equal(t->total, 2);
	view_table_free(t);
	prof_free(prof);
}

static void where_stacks_end_early_is_told_by_module_and_function(void **state)
{
	(void)state;
	struct prof *prof = world();
	struct view_end ends[STACK_STOP_MAX];
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 2, .module = { .path = "/lib/jit.so" } });
	define(prof, &(struct def){ .kind = DEF_FRAME, .id = 7, .frame = { { 2 }, 16 } });
	define(prof, &(struct def){ .kind = DEF_FRAME, .id = 8, .frame = { { 0 }, 99 } });
	/* (gap) jit parse new | (gap) parse | (no_module) nowhere */
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 9, .stack = { .stop = 1 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 10, .stack = { { 9 }, { 7 }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 11, .stack = { { 10 }, { 2 }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 12, .stack = { { 11 }, { 3 }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 13, .stack = { { 9 }, { 2 }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 14, .stack = { .stop = 2 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 15, .stack = { { 14 }, { 8 }, 0 } });
	/* (guessed) parse nowhere new */
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 16, .stack = { .stop = 7 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 17, .stack = { { 16 }, { 2 }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 18, .stack = { { 17 }, { 8 }, 0 } });
	define(prof, &(struct def){ .kind = DEF_STACK, .id = 19, .stack = { { 18 }, { 3 }, 0 } });
	alloc(prof, 19, 1);
	alloc(prof, 12, 1);
	alloc(prof, 12, 1);
	alloc(prof, 11, 1);
	alloc(prof, 13, 1);
	alloc(prof, 13, 1);
	alloc(prof, 15, 1);
	alloc(prof, 3, 1); /* complete */
	assert_int_equal(view_ends(prof, ends, NULL), 0);
	assert_int_equal(ends[1].in_module, 3);
	assert_string_equal(ends[1].module, "jit.so");
	assert_null(ends[1].function);
	assert_int_equal(ends[2].in_module, 1);
	assert_string_equal(ends[2].module, "");
	assert_null(ends[6].module);
	assert_int_equal(ends[7].in_module, 1);
	assert_string_equal(ends[7].module, "");
	name(prof, 7, "trace", 1);
	assert_int_equal(view_ends(prof, ends, NULL), 0);
	assert_string_equal(ends[1].function, "trace");
	assert_int_equal(ends[1].in_function, 3);
	assert_non_null(view_end_why(1));
	assert_string_equal(view_end_goes(1), "end in");
	assert_string_equal(view_end_goes(7), "go through");
	assert_null(view_end_why(0));
	assert_null(view_end_why(STACK_STOP_MAX));
	prof_free(prof);
}

static void inlined_frames_come_first_and_share_the_address(void **state)
{
	(void)state;
	struct prof *prof = world();
	struct view_frame f[4];
	unsigned stop;
	assert_int_equal(view_frames(prof, (struct stack_id){ 6 }, f, 4, &stop), 3);
	assert_string_equal(f[0].function, "helper");
	assert_int_equal(f[0].inlined, 1);
	assert_string_equal(f[1].function, "parse");
	assert_int_equal(f[1].offset, f[0].offset);
	assert_string_equal(f[2].function, "main");
	assert_int_equal(view_frames(prof, (struct stack_id){ 6 }, f, 2, &stop), 2);
	prof_free(prof);
}

static uint32_t frames_made;

/* A frame of its own for @function at @line of a.c. */
static uint32_t frame_at(struct prof *prof, const char *function, uint32_t line)
{
	uint32_t id = ++frames_made;
	define(prof, &(struct def){ .kind = DEF_FRAME, .id = id, .frame = { { 1 }, id * 16 } });
	name(prof, id, function, line);
	return id;
}

static struct prof *named_world(void)
{
	struct prof *prof = prof_new(NULL);
	block = frames_made = 0;
	define(prof, &(struct def){ .kind = DEF_THREAD, .id = 0, .thread = { .tid = 7 } });
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/demo" } });
	return prof;
}

static void stack(struct prof *prof, uint32_t id, uint32_t parent, uint32_t frame)
{
	define(prof,
	       &(struct def){ .kind = DEF_STACK, .id = id, .stack = { { parent }, { frame }, 0 } });
}

static void recursion_counts_a_stack_once_for_a_function(void **state)
{
	(void)state;
	struct prof *prof = named_world();
	uint32_t top = frame_at(prof, "main", 1), rec = frame_at(prof, "walk", 2);
	uint32_t leaf = frame_at(prof, "leaf", 3);
	stack(prof, 1, 0, top);
	stack(prof, 2, 1, rec);
	stack(prof, 3, 2, rec);
	stack(prof, 4, 3, leaf);
	stack(prof, 5, 4, rec); /* main walk walk leaf walk */
	alloc(prof, 4, 10);
	alloc(prof, 5, 100);
	alloc(prof, 2, 1);
	const struct view_opt opt = { .by = VIEW_BY_FUNCTION, .inclusive = 1 };
	struct view_table *t = view_table_new(prof, &opt, NULL);
	assert_int_equal(t->count, 3);
	for (size_t i = 0; i < t->count; i++) {
		const struct view_row *row = &t->rows[i];
		int is_leaf = strcmp(row->frame.function, "leaf") == 0;
		int is_walk = strcmp(row->frame.function, "walk") == 0;
		assert_int_equal(row->inclusive.peak_bytes, is_leaf ? 110 : 111);
		assert_int_equal(row->inclusive.allocations, is_leaf ? 2 : 3);
		assert_int_equal(row->cost.peak_bytes, is_leaf ? 10 : is_walk ? 101 : 0);
	}
	view_table_free(t);
	prof_free(prof);
}

static void allocation_wrappers_do_not_ask(void **state)
{
	(void)state;
	struct prof *prof = named_world();
	stack(prof, 1, 0, frame_at(prof, "loadDatabase", 1));
	stack(prof, 2, 1, frame_at(prof, "mine", 2));
	stack(prof, 3, 2, frame_at(prof, "zmalloc_usable", 3));
	stack(prof, 4, 3, frame_at(prof, "std::allocator<char>::allocate(unsigned long)", 4));
	alloc(prof, 4, 10);
	struct view_table *t = table(prof, VIEW_BY_FUNCTION, VIEW_COST_PEAK, 0);
	assert_string_equal(t->rows[0].frame.function, "mine");
	assert_int_equal(t->nonzero, 1);
	view_table_free(t);
	static const char *const patterns[] = { "^mi" };
	struct view_skip *more = view_skip_new(0, patterns, 1, NULL);
	struct view_opt opt = { .by = VIEW_BY_FUNCTION, .skip = more };
	t = view_table_new(prof, &opt, NULL);
	assert_string_equal(t->rows[0].frame.function, "loadDatabase");
	view_table_free(t);
	view_skip_freep(&more);
	opt.skip = more = view_skip_new(1, NULL, 0, NULL);
	t = view_table_new(prof, &opt, NULL);
	assert_string_equal(t->rows[0].frame.function,
			    "std::allocator<char>::allocate(unsigned long)");
	view_table_free(t);
	view_skip_freep(&more);
	struct err err = { 0 };
	static const char *const bad[] = { "(" };
	assert_null(view_skip_new(0, bad, 1, &err));
	assert_int_equal(err.code, -EINVAL);
	prof_free(prof);
}

static void names_tell_wrappers_from_code_of_ones_own(void **state)
{
	(void)state;
	static const char *const wrappers[] = { "zmalloc",
						"xrealloc",
						"g_try_malloc0",
						"g_strdup_printf",
						"sqlite3DbMallocRawNN",
						"PyMem_RawMalloc",
						"_PyObject_Malloc",
						"Perl_safesysmalloc",
						"ngx_palloc",
						"node::Malloc(unsigned long)",
						"Malloced::operator new(unsigned long)",
						"llvm::BumpPtrAllocatorImpl<int>::Allocate(int)",
						"ztrymalloc_usable_internal.constprop.0",
						"ruby_xmalloc2" };
	static const char *const own[] = { "alloc_nodes",
					   "do_alloc",
					   "leak_malloc_here",
					   "allocate",
					   "Pool::allocate",
					   "reallocate_table",
					   "dup",
					   "strdup_all",
					   "call_malloc",
					   "malloc_info",
					   "f(std::allocator<char>)" };
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++)
		if (view_role(wrappers[i]) != VIEW_HELPER)
			fail_msg("%s is no wrapper", wrappers[i]);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (view_role(own[i]) != VIEW_OWN)
			fail_msg("%s is a wrapper", own[i]);
}

static void a_path_is_told_by_its_lines(void **state)
{
	(void)state;
	struct prof *prof = named_world();
	uint32_t main1 = frame_at(prof, "main", 1), main2 = frame_at(prof, "main", 2);
	uint32_t work4 = frame_at(prof, "work", 4), work5 = frame_at(prof, "work", 5);
	uint32_t again5 = frame_at(prof, "work", 5); /* another address of that line */
	stack(prof, 1, 0, main1);
	stack(prof, 2, 0, main2);
	stack(prof, 3, 1, work4);
	stack(prof, 4, 1, work5);
	stack(prof, 5, 1, again5);
	stack(prof, 6, 2, work5);
	for (uint32_t i = 3; i <= 6; i++)
		alloc(prof, i, i);
	struct view_paths *paths = view_paths_new(prof, NULL, NULL);
	assert_int_equal(paths->count, 3);
	assert_int_equal(paths->items[0].cost.peak_bytes, 3);
	assert_int_equal(paths->items[1].cost.peak_bytes, 9);
	assert_int_equal(paths->items[2].cost.peak_bytes, 6);
	assert_int_equal(paths->whole.peak_bytes, 18);
	view_paths_freep(&paths);
	prof_free(prof);
}

static void groups_take_the_innermost_frame(void **state)
{
	(void)state;
	struct prof *prof = world();
	alloc(prof, 3, 10); /* parse */
	alloc(prof, 8, 7);  /* parse, partial */
	alloc(prof, 6, 30); /* helper */
	alloc(prof, 5, 1);  /* unknown */
	alloc(prof, 7, 2);  /* no frame at all */
	struct view_table *t = table(prof, VIEW_BY_FUNCTION, VIEW_COST_PEAK, 0);
	assert_int_equal(t->count, 5);
	assert_int_equal(t->nonzero, 4);
	assert_string_equal(t->rows[4].frame.function, "main");
	assert_int_equal(t->rows[4].cost.peak_bytes, 0);
	assert_int_equal(t->rows[4].inclusive.peak_bytes, 41); /* but for the partial ones */
	assert_int_equal(t->rows[1].inclusive.peak_bytes, 47); /* with the helper inlined there */
	assert_string_equal(t->rows[0].frame.function, "helper");
	assert_string_equal(t->rows[1].frame.function, "parse");
	assert_int_equal(t->rows[1].cost.peak_bytes, 17);
	assert_string_equal(t->rows[2].frame.function, "[partial: too_deep]");
	assert_null(t->rows[3].frame.function);
	assert_string_equal(t->rows[3].frame.module, "demo");
	view_table_free(t);
	t = table(prof, VIEW_BY_LINE, VIEW_COST_ALLOCATIONS, 0);
	assert_int_equal(t->rows[0].cost.allocations, 2);
	assert_int_equal(t->rows[0].frame.line, 2);
	view_table_free(t);
	t = table(prof, VIEW_BY_MODULE, VIEW_COST_PEAK, 0);
	assert_int_equal(t->rows[0].cost.peak_bytes, 48);
	assert_null(t->rows[0].frame.function);
	view_table_free(t);
	t = table(prof, VIEW_BY_THREAD, VIEW_COST_PEAK, 0);
	assert_int_equal(t->count, 1);
	assert_int_equal(t->rows[0].tid, 7);
	assert_int_equal(t->rows[0].cost.peak_bytes, 50);
	view_table_free(t);
	prof_free(prof);
}

static const struct view_node *child_named(const struct view_tree *t, const struct view_node *n,
					   const char *function)
{
	for (uint32_t i = 0; i < n->child_count; i++) {
		const struct view_node *c = &t->nodes[t->children[n->first_child + i]];
		const char *name = t->frames[c->frame].function;
		if (function ? name && strcmp(name, function) == 0 : !name)
			return c;
	}
	fail_msg("no child '%s'", function ? function : "(unknown)");
	return NULL;
}

static void the_tree_sums_up_from_callees_and_sorts_children(void **state)
{
	(void)state;
	struct prof *prof = world();
	alloc(prof, 1, 5);
	alloc(prof, 3, 10);
	alloc(prof, 4, 20);
	alloc(prof, 6, 30);
	alloc(prof, 5, 100);
	alloc(prof, 8, 3);
	struct view_tree *t = view_tree_new(prof, VIEW_COST_PEAK, 0, NULL);
	assert_int_equal(t->nodes[0].total, 168);
	const struct view_node *m = child_named(t, &t->nodes[0], "main");
	assert_int_equal(m->total, 165);
	assert_int_equal(t->selfs[m->self].cost.peak_bytes, 5);
	const struct view_node *p = child_named(t, m, "parse");
	assert_int_equal(t->selfs[p->self].cost.peak_bytes, 30); /* both operator new */
	assert_int_equal(p->total, 60);
	assert_int_equal(t->selfs[child_named(t, p, "helper")->self].cost.peak_bytes, 30);
	assert_int_equal(t->selfs[child_named(t, m, NULL)->self].cost.peak_bytes, 100);
	const struct view_node *d = child_named(t, &t->nodes[0], "[partial: too_deep]");
	assert_int_equal(t->selfs[child_named(t, d, "parse")->self].cost.peak_bytes, 3);
	for (uint32_t i = 1; i < t->count; i++) {
		assert_true(t->nodes[i].parent < i);
		for (uint32_t c = 0; c < t->nodes[i].child_count; c++) {
			uint32_t below = view_node_child(t, i, c);
			assert_int_equal(t->nodes[below].parent, i);
			assert_true(c == 0 || t->nodes[view_node_child(t, i, c - 1)].total >=
						      t->nodes[below].total);
		}
	}
	view_tree_free(t);
	t = view_tree_new(prof, VIEW_COST_PEAK, 1, NULL);
	assert_int_equal(t->nodes[0].total, 168);
	p = child_named(t, &t->nodes[0], "parse");
	assert_int_equal(p->total, 33);
	assert_int_equal(child_named(t, p, "main")->total, 30);
	assert_int_equal(child_named(t, p, "[partial: too_deep]")->total, 3);
	p = child_named(t, &t->nodes[0], "helper");
	assert_int_equal(child_named(t, child_named(t, p, "parse"), "main")->total, 30);
	view_tree_free(t);
	prof_free(prof);
}

/* A module: @names of its functions, 0 = none; one frame and one stack each, a chain from main inwards. */
static struct prof *chain(const char *const *functions, size_t count)
{
	struct prof *prof = prof_new(NULL);
	block = 0;
	define(prof, &(struct def){ .kind = DEF_THREAD, .id = 0 });
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/demo" } });
	for (uint32_t i = 1; i <= count; i++) {
		const struct symbol symbol = { .function = functions[i - 1] };
		define(prof, &(struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i } });
		define(prof, &(struct def){ .kind = DEF_STACK,
					    .id = i,
					    .stack = { { i - 1 }, { i }, 0 } });
		if (symbol.function)
			define(prof, &(struct def){ .kind = DEF_SYMBOL,
						    .id = i,
						    .symbol = { &symbol, 1 } });
	}
	return prof;
}

static void neighbours_without_names_fold_where_others_have_names(void **state)
{
	(void)state;
	const char *const functions[] = { "main", NULL, NULL, "work", NULL };
	for (unsigned inverted = 0; inverted <= VIEW_TREE_INVERTED; inverted++) {
		struct prof *prof = chain(functions, 5);
		alloc(prof, 5, 10);
		alloc(prof, 3, 5);
		struct view_tree *t = view_tree_new(prof, VIEW_COST_PEAK,
						    inverted | VIEW_TREE_FOLD_UNNAMED, NULL);
		assert_int_equal(t->nodes[0].total, 15);
		const struct view_node *n = child_named(t, &t->nodes[0], inverted ? NULL : "main");
		assert_int_equal(n->total, 15);
		if (!inverted)
			n = child_named(t, n, NULL);
		assert_true(t->frames[n->frame].folded);
		assert_int_equal(n->total, 15);
		n = child_named(t, n, "work");
		assert_int_equal(n->total, 10);
		n = child_named(t, n, NULL);
		assert_int_equal(n->total, 10);
		view_tree_free(t);
		prof_free(prof);
	}
}

static void a_module_without_any_name_keeps_its_addresses(void **state)
{
	(void)state;
	const char *const functions[] = { NULL, NULL, NULL };
	struct prof *prof = chain(functions, 3);
	alloc(prof, 3, 10);
	struct view_tree *t = view_tree_new(prof, VIEW_COST_PEAK, VIEW_TREE_FOLD_UNNAMED, NULL);
	assert_int_equal(t->count, 4);
	assert_false(view_node_frame(t, 3)->folded);
	assert_int_equal(view_node_frame(t, 3)->offset, 3);
	view_tree_free(t);
	prof_free(prof);
}

static void a_very_deep_stack_needs_no_recursion(void **state)
{
	(void)state;
	enum { DEPTH = 65535 };
	struct prof *prof = prof_new(NULL);
	block = 0;
	define(prof, &(struct def){ .kind = DEF_THREAD, .id = 0 });
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/demo" } });
	for (uint32_t i = 1; i <= DEPTH; i++) {
		define(prof, &(struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i } });
		define(prof, &(struct def){ .kind = DEF_STACK,
					    .id = i,
					    .stack = { { i - 1 }, { i }, 0 } });
	}
	alloc(prof, DEPTH, 1);
	struct view_tree *t = view_tree_new(prof, VIEW_COST_PEAK, 0, NULL);
	assert_int_equal(t->count, DEPTH + 1);
	assert_int_equal(t->nodes[DEPTH].total, 1);
	view_tree_free(t);
	prof_free(prof);
}

/* Each level of a recursion allocates: turned around, every stack is a path of its own, as long as it is deep. */
static void an_inverted_tree_of_deep_stacks_is_bounded_and_says_so(void **state)
{
	(void)state;
	enum { DEPTH = 12000, FRAMES = 61, INNER = 100 };
	struct prof *prof = prof_new(NULL);
	uint32_t random = 1;
	block = 0;
	define(prof, &(struct def){ .kind = DEF_THREAD, .id = 0 });
	define(prof,
	       &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/demo" } });
	for (uint32_t i = 1; i <= FRAMES; i++)
		define(prof, &(struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i } });
	for (uint32_t i = 1; i <= DEPTH; i++) {
		random = random * 1664525u + 1013904223u;
		define(prof,
		       &(struct def){ .kind = DEF_STACK,
				      .id = i,
				      .stack = { { i - 1 }, { 1 + (random >> 16) % FRAMES }, 0 } });
		alloc(prof, i, 1);
	}
	struct view_tree *t = view_tree_new(prof, VIEW_COST_PEAK, VIEW_TREE_INVERTED, NULL);
	assert_in_range(t->count, DEPTH * INNER, VIEW_TREE_INVERTED_MAX);
	assert_int_equal(t->nodes[0].total, DEPTH);
	assert_in_range(t->cut, 1, DEPTH);
	uint64_t sum = 0;
	uint32_t cut = 0;
	for (uint32_t i = 1; i < t->self_count; i++) {
		uint32_t depth = 0;
		for (uint32_t at = t->selfs[i].node; at; at = t->nodes[at].parent)
			depth++;
		sum += t->selfs[i].cost.allocations;
		cut += t->selfs[i].cut;
		/* what was cut is long; what was not is whole */
		assert_true(!t->selfs[i].cut || depth >= INNER);
	}
	assert_int_equal(sum, DEPTH);
	assert_int_equal(cut, t->cut);
	for (uint32_t i = 1; i < t->count; i++)
		assert_true(t->nodes[i].parent < i);
	view_tree_free(t);
	prof_free(prof);
}

static void wrappers_are_told_by_name(void **state)
{
	(void)state;
	assert_true(view_is_wrapper("operator new(unsigned long)"));
	assert_true(view_is_wrapper("operator new[](unsigned long, std::nothrow_t const&)"));
	assert_true(view_is_wrapper("_Znwm"));
	assert_true(view_is_wrapper("posix_memalign"));
	assert_false(view_is_wrapper("operator newer"));
	assert_false(view_is_wrapper("operator delete(void*)"));
	assert_false(view_is_wrapper("malloc_info"));
	assert_false(view_is_wrapper(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_that_differ_only_in_operator_new_are_one),
		cmocka_unit_test(where_stacks_end_early_is_told_by_module_and_function),
		cmocka_unit_test(inlined_frames_come_first_and_share_the_address),
		cmocka_unit_test(recursion_counts_a_stack_once_for_a_function),
		cmocka_unit_test(allocation_wrappers_do_not_ask),
		cmocka_unit_test(names_tell_wrappers_from_code_of_ones_own),
		cmocka_unit_test(a_path_is_told_by_its_lines),
		cmocka_unit_test(groups_take_the_innermost_frame),
		cmocka_unit_test(the_tree_sums_up_from_callees_and_sorts_children),
		cmocka_unit_test(neighbours_without_names_fold_where_others_have_names),
		cmocka_unit_test(a_module_without_any_name_keeps_its_addresses),
		cmocka_unit_test(a_very_deep_stack_needs_no_recursion),
		cmocka_unit_test(an_inverted_tree_of_deep_stacks_is_bounded_and_says_so),
		cmocka_unit_test(wrappers_are_told_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
