/* SPDX-License-Identifier: Apache-2.0 */
/* Node numbers from several threads at once, the table's end, table look-ups and the step. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#define UNWIND_LOAD(ctx, addr, out) test_load((ctx), (addr), (out))
static int test_load(void *ctx, uint64_t addr, uint64_t *out);
#include "unwind/nodes.h"
#include "unwind/step.h"
#include "unwind/table.h"
#include "wire/heap_layout.h"

#define THREADS 4
#define PATHS 3000
#define DEPTH 12

static struct wire_heap_header *heap;
static pthread_barrier_t barrier;

static void make_heap(uint32_t node_max)
{
	struct wire_heap_header layout = { 0 };
	wire_heap_layout(&layout, 32u << 20);
	free(heap);
	heap = calloc(1, layout.total_bytes);
	assert_non_null(heap);
	*heap = layout;
	if (node_max)
		heap->node_max = node_max;
}

/* The pcs of path @path, outermost first: every level takes one of a few values. */
static uint64_t pc_of(unsigned path, unsigned level)
{
	return 0x401000 + level * 64 + (path * 2654435761u >> (level + 3)) % 5;
}

static uint32_t number_path(struct unwind_nodes *nodes, unsigned path)
{
	struct unwind_nodes_taken taken = { 0 };
	uint32_t node = 0;
	for (unsigned level = 0; level < DEPTH && node != UNWIND_NODE_NONE; level++)
		node = unwind_node_get(nodes, pc_of(path, level), node, 0, DEPTH - 1 - level,
				       &taken);
	unwind_node_return(nodes, &taken);
	return node;
}

static void *number_all(void *arg)
{
	uint32_t *out = arg;
	struct unwind_nodes nodes;
	unwind_nodes_init(&nodes, heap);
	pthread_barrier_wait(&barrier);
	for (unsigned path = 0; path < PATHS; path++)
		out[path] = number_path(&nodes, path);
	return NULL;
}

static void threads_agree_on_every_node_and_parents_come_first(void **state)
{
	static uint32_t out[THREADS][PATHS];
	pthread_t id[THREADS];
	(void)state;
	for (int round = 0; round < 20; round++) {
		make_heap(0);
		pthread_barrier_init(&barrier, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&id[i], NULL, number_all, out[i]), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(id[i], NULL);
		pthread_barrier_destroy(&barrier);
		const struct wire_node *nodes = (const void *)((char *)heap + heap->nodes_off);
		for (unsigned path = 0; path < PATHS; path++) {
			uint32_t node = out[0][path];
			for (int i = 1; i < THREADS; i++)
				assert_int_equal(out[i][path], node);
			for (unsigned level = DEPTH; level-- > 0; node = nodes[node].parent) {
				assert_true(nodes[node].pc == pc_of(path, level));
				assert_true(nodes[node].parent < node);
			}
			assert_int_equal(node, 0);
		}
	}
}

static void numbers_that_are_not_needed_are_written_and_parents_come_first(void **state)
{
	struct unwind_nodes_taken slow = { 0 }, quick = { 0 };
	struct unwind_nodes nodes;
	(void)state;
	make_heap(0);
	unwind_nodes_init(&nodes, heap);
	const struct wire_node *table = (const void *)((char *)heap + heap->nodes_off);
	/* two walks along one path: the slow one has taken numbers for what the quick one then makes */
	uint32_t first = unwind_node_get(&nodes, 0x401000, 0, 0, 3, &slow);
	uint32_t second = unwind_node_get(&nodes, 0x402000, first, 0, 3, &quick);
	assert_int_equal(unwind_node_get(&nodes, 0x402000, first, 0, 2, &slow), second);
	uint32_t third = unwind_node_get(&nodes, 0x403000, second, 0, 1, &slow);
	assert_true(third > second);
	assert_int_equal(table[third].parent, second);
	unwind_node_return(&nodes, &slow);
	unwind_node_return(&nodes, &quick);
	for (uint32_t node = WIRE_STOP_MAX; node < heap->node_count; node++)
		assert_true(table[node].pc != 0); /* the recorder waits for each */
}

static void who_comes_late_leaves_the_place_to_its_next_node(void **state)
{
	struct unwind_nodes nodes;
	(void)state;
	make_heap(0);
	unwind_nodes_init(&nodes, heap);
	const struct wire_node *table = (const void *)((char *)heap + heap->nodes_off);
	const uint32_t number = 99, next = number + nodes.place_mask + 1;
	assert_true(unwind_node_put(&nodes, number, 0x401000, 16, 0));
	assert_true(unwind_node_put(&nodes, next, 0x402000, 17, 0));
	assert_false(unwind_node_put(&nodes, number, 0x403000, 18, 0));
	assert_int_equal(table[number].pc, 0x402000 | 1ull << WIRE_NODE_PC_BITS);
	assert_int_equal(table[number].parent, 17);
}

#define PLACES 4096
#define NUMBERS (1u << 21)

/* The recorder's part: all nodes in turn, once they are complete. */
static struct wire_node *copies;
static uint32_t done;

static void *copy_all(void *arg)
{
	const struct wire_node *nodes = (const void *)((char *)heap + heap->nodes_off);
	uint32_t tail = WIRE_STOP_MAX;
	for (;;) {
		int last = __atomic_load_n(&done, __ATOMIC_ACQUIRE);
		uint32_t count = __atomic_load_n(&heap->node_count, __ATOMIC_RELAXED);
		while (tail < count) {
			const struct wire_node *at = &nodes[tail & (PLACES - 1)];
			uint64_t pc = __atomic_load_n(&at->pc, __ATOMIC_ACQUIRE);
			if (tail & (PLACES - 1)) {
				if (!pc || pc >> WIRE_NODE_PC_BITS != tail / PLACES)
					break;
				copies[tail] = (struct wire_node){ pc & WIRE_NODE_PC_MASK,
								   at->parent, at->gen };
			}
			tail++;
		}
		__atomic_store_n(&heap->node_tail, tail, __ATOMIC_RELEASE);
		if (last && tail == count)
			return arg;
		sched_yield();
	}
}

/* Others' paths than those of the test before: most are new, some come back. */
static void *number_again(void *arg)
{
	uint32_t *out = arg;
	struct unwind_nodes nodes;
	unwind_nodes_init(&nodes, heap);
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < PATHS; i++)
		while ((out[i] = number_path(&nodes, i * 7919)) == UNWIND_NODE_NONE)
			sched_yield(); /* until the copier has caught up */
	return NULL;
}

static void places_are_used_again_once_their_nodes_were_copied(void **state)
{
	static uint32_t out[THREADS][PATHS];
	pthread_t id[THREADS], copier;
	uint32_t laps = 0;
	(void)state;
	copies = calloc(NUMBERS, sizeof(*copies));
	assert_non_null(copies);
	for (int round = 0; round < 5; round++) {
		make_heap(PLACES);
		heap->node_tail = WIRE_STOP_MAX;
		done = 0;
		memset(copies, 0, NUMBERS * sizeof(*copies));
		pthread_barrier_init(&barrier, NULL, THREADS);
		assert_int_equal(pthread_create(&copier, NULL, copy_all, NULL), 0);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&id[i], NULL, number_again, out[i]), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(id[i], NULL);
		__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
		pthread_join(copier, NULL);
		pthread_barrier_destroy(&barrier);
		assert_true(heap->node_count < NUMBERS);
		laps = heap->node_count / PLACES;
		for (unsigned i = 0; i < THREADS * PATHS; i++) {
			uint32_t node = out[i / PATHS][i % PATHS];
			for (unsigned level = DEPTH; level-- > 0; node = copies[node].parent) {
				assert_true(copies[node].pc == pc_of(i % PATHS * 7919, level));
				assert_true(copies[node].parent < node);
			}
			assert_int_equal(node, 0);
		}
	}
	assert_true(laps >= 2);
	free(copies);
}

static void a_full_table_gives_no_number_and_does_not_count_on(void **state)
{
	struct unwind_nodes nodes;
	uint32_t refused = 0;
	(void)state;
	make_heap(200);
	unwind_nodes_init(&nodes, heap);
	for (int round = 0; round < 10; round++) {
		for (unsigned path = 0; path < PATHS; path++)
			refused += number_path(&nodes, path) == UNWIND_NODE_NONE;
	}
	assert_true(refused > 0);
	assert_int_equal(heap->node_count, 200);
}

/* ---- table ---- */

static void a_table_answers_at_every_address(void **state)
{
	enum { ROWS = 1000, RULES = 50 };
	static uint32_t from[ROWS];
	static union {
		struct wire_unwind head;
		uint8_t bytes[1 << 17];
	} blob;
	uint32_t grains, at = 0;
	(void)state;
	for (unsigned i = 0; i < ROWS; i++) {
		from[i] = at;
		at += i % 7 == 0 ? 700
		      : i % 3    ? 1
				 : 90; /* dense grains, empty grains, crossings of 64 KiB */
	}
	uint32_t text = at + 300;
	grains = (text + 255) / 256;
	blob.head = (struct wire_unwind){
		.magic = WIRE_UNWIND_MAGIC,
		.version = WIRE_UNWIND_VERSION,
		.machine = WIRE_UNWIND_MACHINE_X86_64,
		.text_bytes = text,
		.idx_count = grains + 1,
		.row_count = ROWS + 1,
		.rule_count = RULES,
		.idx_off = sizeof(struct wire_unwind),
	};
	blob.head.row_off = blob.head.idx_off + 4 * blob.head.idx_count;
	blob.head.rule_off = (blob.head.row_off + 4 * blob.head.row_count + 7) / 8 * 8;
	blob.head.total_bytes = blob.head.rule_off + 8 * RULES;
	assert_true(blob.head.total_bytes < sizeof(blob));
	uint32_t *idx = (uint32_t *)(blob.bytes + blob.head.idx_off);
	uint32_t *row = (uint32_t *)(blob.bytes + blob.head.row_off);
	uint64_t *rule = (uint64_t *)(blob.bytes + blob.head.rule_off);
	for (unsigned i = 0; i < RULES; i++)
		rule[i] = i ? unwind_rule_make(WIRE_RULE_SP, (int32_t)i, 0, 0) : 0;
	row[0] = 0;
	for (unsigned i = 0; i < ROWS; i++)
		row[i + 1] = from[i] << 16 | (1 + i % (RULES - 1));
	for (uint32_t g = 0, r = 1; g <= grains; g++) {
		while (r <= ROWS && from[r - 1] < g * 256)
			r++;
		idx[g] = r;
	}
	assert_true(unwind_table_valid(&blob, sizeof(blob)));
	for (uint32_t off = 0, r = 0; off < text; off++) {
		while (r + 1 < ROWS && from[r + 1] <= off)
			r++;
		assert_true(unwind_table_lookup(&blob.head, off) == rule[1 + r % (RULES - 1)]);
	}
	assert_false(unwind_table_valid(&blob, blob.head.total_bytes - 1));
	blob.head.row_count = 1u << 30;
	assert_false(unwind_table_valid(&blob, sizeof(blob)));
}

/* ---- step ---- */

static uint64_t words[64]; /* the stack, at address 0x1000 */

static int test_load(void *ctx, uint64_t addr, uint64_t *out)
{
	(void)ctx;
	if (addr < 0x1000 || addr >= 0x1000 + sizeof(words) || addr % 8)
		return 1;
	*out = words[(addr - 0x1000) / 8];
	return 0;
}

static void steps_take_registers_from_where_the_recipe_says(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 64; i++)
		words[i] = 0x5000 + i;
	struct unwind_frame f = { 0x4001, 0x1000, 0x1080, 0x1100 };
	/* CFA = rsp + 32: return address at 24, rbp at CFA - 16, rbx at CFA - 24 */
	assert_int_equal(unwind_step(NULL, &f, unwind_rule_make(WIRE_RULE_SP, 4, -2, -3)),
			 UNWIND_GO_ON);
	assert_true(f.ip == 0x5003 && f.sp == 0x1020 && f.bp == 0x5002 && f.bx == 0x5001);
	f = (struct unwind_frame){ 0x4001, 0x1000, 0x1080, 0x1100 };
	assert_int_equal(unwind_step(NULL, &f, unwind_rule_make(WIRE_RULE_BP, 2, -2, 0)),
			 UNWIND_GO_ON);
	assert_true(f.ip == 0x5011 && f.sp == 0x1090 && f.bp == 0x5010 && f.bx == 0x1100);
	f = (struct unwind_frame){ 0x4001, 0x1000, 0x1080, 0x1100 };
	assert_int_equal(unwind_step(NULL, &f, unwind_rule_make(WIRE_RULE_BX, 1, 0, 0)),
			 UNWIND_GO_ON);
	assert_true(f.ip == 0x5020 && f.sp == 0x1108 && f.bp == 0x1080);
	/* realigned: CFA in memory, rbp at *(rbp) */
	words[15] = 0x1180;
	f = (struct unwind_frame){ 0x4001, 0x1000, 0x1080, 0x1100 };
	assert_int_equal(unwind_step(NULL, &f, unwind_rule_make(WIRE_RULE_DRAP, -1, 0, 0)),
			 UNWIND_GO_ON);
	assert_true(f.ip == 0x502f && f.sp == 0x1180 && f.bp == 0x5010);
	/* PLT: one word more from the 11th byte of an entry on */
	f = (struct unwind_frame){ 0x400a + 1, 0x1000, 0, 0 };
	assert_int_equal(unwind_step(NULL, &f, unwind_rule_make(WIRE_RULE_PLT, 11, 0, 0)),
			 UNWIND_GO_ON);
	assert_true(f.ip == 0x5000 && f.sp == 0x1008);
	f = (struct unwind_frame){ 0x400b + 1, 0x1000, 0, 0 };
	assert_int_equal(unwind_step(NULL, &f, unwind_rule_make(WIRE_RULE_PLT, 11, 0, 0)),
			 UNWIND_GO_ON);
	assert_true(f.ip == 0x5001 && f.sp == 0x1010);
	/* a signal frame gives the exact place: address + 1 */
	f = (struct unwind_frame){ 0x4001, 0x1000, 0, 0 };
	assert_int_equal(unwind_step(NULL, &f, WIRE_RULE_SIGNAL), UNWIND_GO_ON);
	assert_true(f.ip == 0x5015 + 1 && f.sp == 0x5014 && f.bp == 0x1180 && f.bx == 0x5010);
	/* a guess knows nothing of rbx */
	f = (struct unwind_frame){ 0x4001, 0x1000, 0x1080, 0x1100 };
	assert_int_equal(unwind_guess(NULL, &f), UNWIND_GO_ON);
	assert_true(f.ip == 0x5011 && f.sp == 0x1090 && f.bp == 0x5010 && f.bx == 0);
}

static void steps_that_cannot_be_done_say_why_and_change_nothing(void **state)
{
	const struct unwind_frame start = { 0x4001, 0x1010, 0x1080, 0 };
	static const struct {
		uint32_t kind;
		int cfa, stop;
	} cases[] = {
		{ WIRE_RULE_GAP, 0, WIRE_STOP_GAP },
		{ WIRE_RULE_END, 0, WIRE_STOP_END },
		{ WIRE_RULE_EVAL, 0, WIRE_STOP_UNSUPPORTED },
		{ WIRE_RULE_SP, 0, WIRE_STOP_NO_PROGRESS },
		{ WIRE_RULE_SP, -1, WIRE_STOP_NO_PROGRESS },
		{ WIRE_RULE_BP, 1000, WIRE_STOP_READ },
		{ WIRE_RULE_DRAP, 1000, WIRE_STOP_READ },
	};
	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct unwind_frame f = start;
		uint64_t rule = unwind_rule_make(cases[i].kind, cases[i].cfa, 0, 0);
		assert_int_equal(unwind_step(NULL, &f, rule), cases[i].stop);
		assert_memory_equal(&f, &start, sizeof(f));
	}
	struct unwind_frame f = { 0x4001, 0x1010, 0, 0 };
	assert_int_equal(unwind_guess(NULL, &f), WIRE_STOP_END);
	f.bp = 0x1008; /* below the stack pointer */
	assert_int_equal(unwind_guess(NULL, &f), WIRE_STOP_GAP);
	f.bp = 0x1010 + (2u << 20);
	assert_int_equal(unwind_guess(NULL, &f), WIRE_STOP_GAP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_agree_on_every_node_and_parents_come_first),
		cmocka_unit_test(numbers_that_are_not_needed_are_written_and_parents_come_first),
		cmocka_unit_test(who_comes_late_leaves_the_place_to_its_next_node),
		cmocka_unit_test(places_are_used_again_once_their_nodes_were_copied),
		cmocka_unit_test(a_full_table_gives_no_number_and_does_not_count_on),
		cmocka_unit_test(a_table_answers_at_every_address),
		cmocka_unit_test(steps_take_registers_from_where_the_recipe_says),
		cmocka_unit_test(steps_that_cannot_be_done_say_why_and_change_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
