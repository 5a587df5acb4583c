/* SPDX-License-Identifier: Apache-2.0 */
/* view/pages: a tree of resident pages loses no byte, whichever way round, wherever it is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/pages.h"

static const struct page_module program = { .path = "/bin/p", .name = "p" };
static const struct page_module library = { .path = "/lib/l.so", .name = "l.so" };
static struct symbol names[] = { { .function = "main" },
				 { .function = "grow", .language = SYMBOL_RUST },
				 { .function = "memset" } };
static struct page_frame frames[4];

static const struct page_stack *make_stack(const unsigned *which, uint16_t count)
{
	struct page_stack *stack = calloc(1, sizeof(*stack) + count * sizeof(stack->frames[0]));
	atomic_init(&stack->refs, 1);
	stack->pid = 7;
	stack->program = &program;
	stack->count = count;
	for (uint16_t i = 0; i < count; i++)
		stack->frames[i] = &frames[which[i]];
	return stack;
}

/* memset <- grow <- main 6 MiB; memset <- main 1 MiB of page cache; a frame without a name 2 MiB; no stack 3 MiB. */
static struct page_process *make_process(void)
{
	struct page_process *process = page_process_new();
	const struct page_row rows[] = {
		{ .bytes = 6 << 20,
		  .stack = make_stack((unsigned[]){ 2, 1, 0 }, 3),
		  .kind = PAGES_ANON },
		{ .bytes = 1 << 20,
		  .stack = make_stack((unsigned[]){ 2, 0 }, 2),
		  .kind = PAGES_FILE },
		{ .bytes = 2 << 20, .stack = make_stack((unsigned[]){ 3 }, 1), .kind = PAGES_ANON },
		{ .bytes = 3 << 20, .kind = PAGES_ANON, .reason = PAGES_BEFORE_ATTACH },
		{ .bytes = 9 << 20,
		  .stack = make_stack((unsigned[]){ 2, 0 }, 2),
		  .kind = PAGES_SWAP },
	};
	for (unsigned i = 0; i < 4; i++) {
		frames[i].module = i < 2 ? &program : &library;
		frames[i].offset = frames[i].file_offset = 0x1000 + i;
		atomic_init(&frames[i].symbols, i < 3 ? &names[i] : NULL);
		atomic_init(&frames[i].symbol_count, i < 3);
	}
	process->pid = 7;
	process->row_count = sizeof(rows) / sizeof(rows[0]);
	process->rows = calloc(process->row_count, sizeof(*process->rows));
	memcpy(process->rows, rows, sizeof(rows));
	return process;
}

static void check_sums(const struct pages_node *node)
{
	uint64_t sum = node->self_bytes + node->under_bytes + node->unknown_bytes,
		 cache = node->self_cache_bytes + node->under_cache_bytes +
			 node->unknown_cache_bytes;
	for (uint32_t i = 0; i < node->count; i++) {
		sum += node->children[i]->bytes;
		cache += node->children[i]->cache_bytes;
		check_sums(node->children[i]);
	}
	assert_int_equal(sum, node->bytes);
	assert_int_equal(cache, node->cache_bytes);
	assert_true(node->cache_bytes <= node->bytes);
}

static void both_orientations_have_the_same_root_and_lose_no_byte(void **state)
{
	(void)state;
	struct page_process *process = make_process();
	for (int reverse = 0; reverse < 2; reverse++) {
		for (uint64_t threshold = 0; threshold < 8 << 20; threshold += 1 << 20) {
			struct err err = { 0 };
			const struct pages_tree_opt opt = { .reverse = reverse,
							    .threshold_bytes = threshold };
			struct pages_tree *tree = pages_tree_new(process, &opt, &err);
			const struct pages_node *root = pages_tree_root(tree);
			assert_int_equal(root->bytes, 12 << 20); /* without what is swapped out */
			assert_int_equal(root->cache_bytes, 1 << 20);
			assert_int_equal(root->unknown_bytes, 3 << 20);
			check_sums(root);
			pages_tree_free(tree);
		}
	}
	page_process_put(process);
}

static void innermost_functions_stand_on_top_unless_it_is_reversed(void **state)
{
	(void)state;
	struct page_process *process = make_process();
	struct err err = { 0 };
	struct pages_tree_opt opt = { 0 };
	struct pages_tree *tree = pages_tree_new(process, &opt, &err);
	const struct pages_node *root = pages_tree_root(tree);
	assert_int_equal(root->count, 2);
	assert_string_equal(root->children[0]->symbol->function, "memset");
	assert_int_equal(root->children[0]->bytes, 7 << 20);
	assert_string_equal(root->children[0]->children[0]->symbol->function, "grow");
	assert_null(root->children[1]->symbol);
	pages_tree_free(tree);
	opt.reverse = 1;
	tree = pages_tree_new(process, &opt, &err);
	root = pages_tree_root(tree);
	assert_string_equal(root->children[0]->symbol->function, "main");
	assert_int_equal(root->children[0]->bytes, 7 << 20);
	pages_tree_free(tree);
	page_process_put(process);
}

static void depth_and_limit_add_up_what_they_leave_out(void **state)
{
	(void)state;
	struct page_process *process = make_process();
	struct err err = { 0 };
	const struct pages_tree_opt opt = { .depth = 1, .limit = 1 };
	struct pages_tree *tree = pages_tree_new(process, &opt, &err);
	const struct pages_node *root = pages_tree_root(tree);
	assert_int_equal(root->count, 1);
	assert_int_equal(root->under_bytes, 2 << 20);
	assert_int_equal(root->children[0]->count, 0);
	assert_int_equal(root->children[0]->under_bytes, 7 << 20);
	check_sums(root);
	pages_tree_free(tree);
	page_process_put(process);
}

static void categories_are_told_by_the_executable_and_the_language(void **state)
{
	(void)state;
	page_process_put(make_process());
	assert_string_equal(pages_category(&frames[0], &names[0], &program), "nodeCpp");
	assert_string_equal(pages_category(&frames[1], &names[1], &program), "nodeRust");
	assert_string_equal(pages_category(&frames[2], &names[2], &program), "systemLib");
	assert_string_equal(pages_category(&frames[0], NULL, NULL), "systemLib");
}

static void a_process_without_rows_is_an_empty_root(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct pages_tree *tree = pages_tree_new(NULL, NULL, &err);
	assert_int_equal(pages_tree_root(tree)->bytes, 0);
	assert_int_equal(pages_tree_root(tree)->count, 0);
	pages_tree_free(tree);
}

/* Names as they come when asked for: the same tree, of fewer questions. */
static unsigned asked[4];
static void name_when_asked(void *ctx, const struct page_frame *const *some, size_t count)
{
	(void)ctx;
	for (size_t i = 0; i < count; i++) {
		ptrdiff_t which = some[i] - frames;
		asked[which]++;
		atomic_store(&frames[which].symbols, which < 3 ? &names[which] : NULL);
		atomic_store(&frames[which].symbol_count, which < 3);
	}
}

static void only_frames_of_what_is_shown_are_named(void **state)
{
	(void)state;
	struct page_process *process = make_process();
	struct err err = { 0 };
	struct pages_tree_opt opt = { .threshold_bytes = 2 << 20, .name = name_when_asked };
	for (unsigned i = 0; i < 3; i++) {
		atomic_store(&frames[i].symbols, NULL);
		asked[i] = 0;
	}
	struct pages_tree *tree = pages_tree_new(process, &opt, &err);
	const struct pages_node *root = pages_tree_root(tree);
	assert_string_equal(root->children[0]->symbol->function, "memset");
	assert_string_equal(root->children[0]->children[0]->symbol->function, "grow");
	assert_string_equal(root->children[0]->children[0]->children[0]->symbol->function, "main");
	assert_int_equal(root->children[0]->under_bytes, 1 << 20);
	check_sums(root);
	pages_tree_free(tree);
	for (unsigned i = 0; i < 4; i++) {
		atomic_store(&frames[i].symbols, NULL);
		asked[i] = 0;
	}
	opt.threshold_bytes = 8 << 20;
	tree = pages_tree_new(process, &opt, &err);
	assert_int_equal(pages_tree_root(tree)->count, 0);
	assert_int_equal(pages_tree_root(tree)->under_bytes, 9 << 20);
	assert_int_equal(asked[2], 2);
	assert_int_equal(asked[0] + asked[1], 0);
	pages_tree_free(tree);
	page_process_put(process);
}

static void growth_is_what_became_more_row_by_row(void **state)
{
	(void)state;
	struct page_process *then = make_process(), *now = page_process_new();
	now->pid = 7;
	now->row_count = then->row_count;
	now->rows = calloc(now->row_count, sizeof(*now->rows));
	for (size_t i = 0; i < now->row_count; i++) {
		now->rows[i] = then->rows[i];
		page_stack_get(now->rows[i].stack);
	}
	now->rows[0].bytes += 5 << 20;
	now->rows[1].bytes -= 4096;
	now->rows[3].bytes += 8192;
	struct page_process *growth = pages_growth(now, then);
	assert_int_equal(growth->pid, 7);
	assert_int_equal(growth->row_count, 2);
	assert_ptr_equal(growth->rows[0].stack, now->rows[0].stack);
	assert_int_equal(growth->rows[0].bytes, 5 << 20);
	assert_int_equal(growth->rows[1].reason, PAGES_BEFORE_ATTACH);
	assert_int_equal(growth->kinds[PAGES_ANON], (5 << 20) + 8192);
	page_process_put(growth);
	growth = pages_growth(now, NULL); /* it was not there */
	assert_int_equal(growth->row_count, now->row_count);
	page_process_put(growth);
	page_process_put(now);
	page_process_put(then);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_orientations_have_the_same_root_and_lose_no_byte),
		cmocka_unit_test(innermost_functions_stand_on_top_unless_it_is_reversed),
		cmocka_unit_test(depth_and_limit_add_up_what_they_leave_out),
		cmocka_unit_test(categories_are_told_by_the_executable_and_the_language),
		cmocka_unit_test(a_process_without_rows_is_an_empty_root),
		cmocka_unit_test(only_frames_of_what_is_shown_are_named),
		cmocka_unit_test(growth_is_what_became_more_row_by_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
