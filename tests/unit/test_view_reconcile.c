/* SPDX-License-Identifier: Apache-2.0 */
/* Balance sheets of memory made up by hand: every byte on one line, holes to whom they belong, and random ones that must add up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/reconcile_impl.h"

#define PAGE 4096ull
#define HEAP 0x10000000ull
#define MAPS 0x20000000ull

/* One heap of chunks of @pages, all resident. */
struct scene {
	struct snapshot s;
	struct snapshot_region regions[4];
	struct snapshot_run runs[8];
	struct snapshot_unit units[8];
	struct snapshot_piece pieces[64];
	struct snapshot_allocator allocators[1];
	struct sheet_block blocks[64];
	struct sheet_map maps[4];
	struct sheet_input in;
	char text[64];
};

static void scene_init(struct scene *x, uint64_t pages)
{
	memset(x, 0, sizeof(*x));
	memcpy(x->text, "\0glibc malloc\0heap (brk)\0", 26);
	x->s.text = x->text;
	x->s.text_bytes = 26;
	x->s.page_bytes = PAGE;
	x->s.regions = x->regions;
	x->s.runs = x->runs;
	x->s.units = x->units;
	x->s.pieces = x->pieces;
	x->s.allocators = x->allocators;
	x->allocators[0] = (struct snapshot_allocator){ .name = 1, .how = 1, .consistency = 10000 };
	x->s.allocator_count = 1;
	x->regions[0] = (struct snapshot_region){ .start = HEAP,
						  .end = HEAP + pages * PAGE,
						  .rss_bytes = pages * PAGE,
						  .anonymous_bytes = pages * PAGE,
						  .private_bytes = pages * PAGE,
						  .label = 14,
						  .class = SHEET_METADATA,
						  .flags = SNAPSHOT_PAGED | SNAPSHOT_ALLOCATOR };
	x->s.region_count = 1;
	x->runs[0] = (struct snapshot_run){ HEAP, HEAP + pages * PAGE, PAGE_IS_PRESENT };
	x->s.run_count = 1;
	x->s.rss_bytes = pages * PAGE;
	x->in = (struct sheet_input){ .snapshot = &x->s,
				      .blocks = x->blocks,
				      .maps = x->maps,
				      .group_count = 4,
				      .recorded = 1,
				      .complete = 1 };
}

static void unit(struct scene *x, uint64_t start, uint64_t bytes, unsigned kind, uint64_t slot,
		 uint32_t used)
{
	x->units[x->s.unit_count++] = (struct snapshot_unit){ .start = start,
							      .bytes = bytes,
							      .slot = slot,
							      .used = used,
							      .kind = (uint8_t)kind,
							      .flags = SNAPSHOT_MAIN };
}

static void piece(struct scene *x, uint64_t start, uint64_t bytes, unsigned kind)
{
	x->pieces[x->s.piece_count].start = start;
	x->pieces[x->s.piece_count].bytes = bytes & ((1ull << 56) - 1);
	x->pieces[x->s.piece_count++].kind = kind;
}

static void block(struct scene *x, uint64_t addr, uint64_t bytes, uint32_t group)
{
	x->blocks[x->in.block_count++] = (struct sheet_block){ addr, bytes, group, 0 };
}

static struct sheet *close_books(struct scene *x)
{
	struct err err = { 0 };
	struct sheet *sheet = reconcile(&x->in, &err);
	if (!sheet)
		print_error("%s\n", err.msg);
	assert_non_null(sheet);
	uint64_t sum = 0;
	for (size_t i = 0; i < sheet->line_count; i++)
		sum += sheet->lines[i].bytes;
	assert_int_equal(sum + (uint64_t)sheet->unexplained_bytes, x->s.rss_bytes);
	return sheet;
}

static void a_page_goes_to_who_holds_it_and_comes_back_when_he_lets_go(void **state)
{
	(void)state;
	struct scene x;
	scene_init(&x, 4);
	unit(&x, HEAP, 4 * PAGE, SNAPSHOT_CHUNKS, 0, 0);
	/* page 0: 100 bytes of group 0; pages 1 and 2: free; page 3: 200 bytes of 1 and 100 of 2, the rest free */
	block(&x, HEAP + 16, 100, 0);
	piece(&x, HEAP + 112, 3 * PAGE - 112, SNAPSHOT_PIECE_FREE);
	block(&x, HEAP + 3 * PAGE + 16, 200, 1);
	block(&x, HEAP + 3 * PAGE + 224, 100, 2);
	piece(&x, HEAP + 3 * PAGE + 320, PAGE - 320, SNAPSHOT_PIECE_FREE);
	struct sheet *s = close_books(&x);
	assert_int_equal(s->unexplained_bytes, 0);
	assert_int_equal(s->class_bytes[SHEET_LIVE], 400);
	assert_int_equal(s->class_bytes[SHEET_FREE_PAGES], 2 * PAGE);
	assert_int_equal(s->trim_bytes, 2 * PAGE);
	assert_int_equal(s->groups[0].alone_bytes, PAGE);
	assert_int_equal(s->groups[1].alone_bytes, 0);
	assert_int_equal(s->groups[1].unit_bytes, PAGE);
	/* holes of page 3: two thirds of the owners' bytes are group 1's, waste included */
	uint64_t both = s->groups[1].hole_bytes + s->groups[2].hole_bytes;
	uint64_t caches = s->groups[4 + SHEET_GROUP_CACHES]
				  .hole_bytes; /* of the eight bytes before the first chunk */
	assert_int_equal(both + caches + s->groups[0].hole_bytes, s->class_bytes[SHEET_HOLES]);
	assert_in_range(s->groups[1].hole_bytes, both * 64 / 100, both * 68 / 100);
	assert_int_equal(s->pair_count, 1);
	assert_int_equal(s->pairs[0].bytes, PAGE);
	sheet_free(s);
}

static void what_a_slab_holds_is_known_by_number_where_it_is_not_by_place(void **state)
{
	(void)state;
	struct scene x;
	scene_init(&x, 2);
	/* 256 slots of 32 bytes: 10 in use, of which 3 are cached; the recording knows 6 */
	unit(&x, HEAP, 2 * PAGE, SNAPSHOT_SLAB, 32, 10);
	x.units[0].cached = 3;
	x.in.complete = 0;
	for (unsigned i = 0; i < 6; i++)
		block(&x, HEAP + i * 320, 20, i % 2);
	struct sheet *s = close_books(&x);
	assert_int_equal(s->class_bytes[SHEET_LIVE], 6 * 20 + 32);
	assert_int_equal(s->class_bytes[SHEET_WASTE], 6 * 12);
	assert_int_equal(s->class_bytes[SHEET_CACHES], 3 * 32);
	assert_int_equal(s->class_bytes[SHEET_HOLES], 2 * PAGE - 10 * 32);
	assert_int_equal(s->groups[0].waste_bytes, 3 * 12);
	sheet_free(s);
}

/* As of a 32-bit program, or of a version that is not known. */
static void a_heap_that_nobody_reads_is_free_only_where_all_blocks_are_known(void **state)
{
	(void)state;
	for (int complete = 0; complete < 2; complete++) {
		struct scene x;
		scene_init(&x, 4);
		x.regions[0].class = SHEET_FREE_PAGES;
		x.in.complete = complete;
		block(&x, HEAP + PAGE, 1000, 0);
		struct sheet *sheet = close_books(&x);
		assert_int_equal(sheet->groups[0].live_bytes, 1000);
		assert_int_equal(sheet->class_bytes[SHEET_FREE_PAGES], complete ? 3 * PAGE : 0);
		assert_int_equal(sheet->class_bytes[SHEET_RUNTIME], complete ? 0 : 4 * PAGE - 1000);
		sheet_free(sheet);
	}
}

static void bytes_that_nobody_claims_are_unexplained_and_mappings_have_stacks(void **state)
{
	(void)state;
	struct scene x;
	scene_init(&x, 1);
	unit(&x, HEAP, PAGE, SNAPSHOT_TABLES, 0, 0);
	x.regions[1] = (struct snapshot_region){ .start = MAPS,
						 .end = MAPS + 8 * PAGE,
						 .rss_bytes = 8 * PAGE,
						 .anonymous_bytes = 8 * PAGE,
						 .class = SHEET_UNEXPLAINED,
						 .flags = SNAPSHOT_PAGED };
	x.runs[1] = (struct snapshot_run){ MAPS, MAPS + 7 * PAGE, PAGE_IS_PRESENT };
	x.s.region_count = x.s.run_count = 2;
	x.s.rss_bytes += 8 * PAGE; /* a page came after the look at them */
	x.maps[0] = (struct sheet_map){ MAPS, MAPS + 3 * PAGE, 3, 0 };
	x.in.map_count = 1;
	struct snapshot_range own = { MAPS + 2 * PAGE, MAPS + 4 * PAGE };
	x.s.own = &own;
	x.s.own_count = 1;
	struct sheet *s = close_books(&x);
	assert_int_equal(s->class_bytes[SHEET_METADATA], PAGE);
	assert_int_equal(s->class_bytes[SHEET_MMAP], 2 * PAGE);
	assert_int_equal(s->groups[3].mapped_bytes, 2 * PAGE);
	assert_int_equal(s->class_bytes[SHEET_BYTELEDGER], 2 * PAGE);
	assert_int_equal(s->unexplained_bytes, 4 * PAGE);
	assert_int_equal(s->moved_bytes, PAGE);
	sheet_free(s);
}

static void where_frees_were_lost_the_walk_is_believed(void **state)
{
	(void)state;
	struct scene x;
	scene_init(&x, 1);
	unit(&x, HEAP, PAGE, SNAPSHOT_CHUNKS, 0, 0);
	block(&x, HEAP + 16, 100, 0);
	block(&x, HEAP + 512 + 16, 400, 1);
	piece(&x, HEAP + 112, PAGE - 112, SNAPSHOT_PIECE_FREE);
	struct sheet *s = close_books(&x);
	assert_int_equal(s->contradictions, 1);
	assert_int_equal(s->class_bytes[SHEET_LIVE], 500);
	sheet_free(s);
	x.in.lossy = 1;
	x.in.complete = 0;
	s = close_books(&x);
	assert_int_equal(s->dropped_blocks, 1);
	assert_int_equal(s->groups[0].live_bytes, 100);
	assert_int_equal(s->groups[1].live_bytes, 0);
	sheet_free(s);
}

static uint64_t seed = 88172645463325252ull;
static uint64_t dice(uint64_t sides)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % sides;
}

static void whatever_is_said_the_lines_add_up(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct scene x;
		uint64_t pages = 1 + dice(8), at = HEAP;
		scene_init(&x, pages);
		x.runs[0].end = HEAP + (1 + dice(pages)) * PAGE;
		x.regions[0].class =
			(uint8_t)(dice(4) ? SHEET_METADATA + dice(SHEET_CLASSES - SHEET_METADATA)
					  : SHEET_FREE_PAGES);
		while (x.s.unit_count < 6 && at < HEAP + pages * PAGE) {
			uint64_t bytes = (1 + dice(3)) * PAGE;
			unit(&x, at, bytes, 1 + (unsigned)dice(8), dice(3) ? 16 + dice(500) : 0,
			     (uint32_t)dice(300));
			x.units[x.s.unit_count - 1].cached = (uint32_t)dice(100);
			x.units[x.s.unit_count - 1].head = dice(2) ? 0 : dice(PAGE);
			at += bytes + dice(2) * PAGE;
		}
		at = HEAP;
		while (x.s.piece_count < 60 && at < HEAP + pages * PAGE) {
			uint64_t bytes = 16 + dice(2 * PAGE);
			piece(&x, at, bytes, 1 + (unsigned)dice(4));
			at += bytes + dice(3) * dice(PAGE);
		}
		while (x.in.block_count < 60)
			block(&x, HEAP + dice(pages * PAGE + 64) - 32,
			      dice(3) ? dice(600) : dice(3 * PAGE), (uint32_t)dice(4));
		if (dice(100) == 0)
			x.blocks[3].bytes = UINT64_MAX;
		x.in.lossy = dice(2) == 0;
		x.in.complete = dice(2) == 0;
		x.maps[0] = (struct sheet_map){ HEAP + dice(4) * PAGE, HEAP + (5 + dice(4)) * PAGE,
						1, 0 };
		x.in.map_count = dice(2);
		struct sheet *s = close_books(&x);
		uint64_t holes = 0;
		for (unsigned i = 0; i < 4 + SHEET_PSEUDO; i++)
			holes += s->groups[i].hole_bytes;
		assert_int_equal(holes, s->class_bytes[SHEET_HOLES]);
		sheet_free(s);
	}
}

static void the_sheet_of_2_to_the_46_bytes_takes_no_time(void **state)
{
	(void)state;
	struct scene x;
	scene_init(&x, 1ull << 34);
	unit(&x, HEAP, PAGE << 34, SNAPSHOT_CHUNKS, 0, 0);
	piece(&x, HEAP + 64, (PAGE << 34) - 64, SNAPSHOT_PIECE_FREE);
	block(&x, HEAP + 16, 40, 0);
	struct sheet *s = close_books(&x);
	assert_int_equal(s->class_bytes[SHEET_FREE_PAGES], (PAGE << 34) - PAGE);
	sheet_free(s);
}

static uint64_t number = 88172645463325252ull;

static uint64_t any(void)
{
	number ^= number << 13;
	number ^= number >> 7;
	number ^= number << 17;
	return number;
}

/* In order but for every @stray-th, which lies anywhere; 1: none is in order. */
static void sort_of(size_t count, unsigned stray)
{
	struct sheet_block *blocks = calloc(count, sizeof(*blocks));
	uint64_t sum = 0;
	assert_non_null(blocks);
	for (size_t i = 0; i < count; i++) {
		uint64_t addr = stray && i % stray == 0 ? any() >> 20 : HEAP + i * 64;
		blocks[i] = (struct sheet_block){ .addr = addr, .bytes = addr ^ 77 };
		sum += addr;
	}
	blocks_sort(blocks, count);
	for (size_t i = 0; i < count; i++) {
		assert_true(!i || blocks[i - 1].addr <= blocks[i].addr);
		assert_int_equal(blocks[i].bytes, blocks[i].addr ^ 77);
		sum -= blocks[i].addr;
	}
	assert_int_equal(sum, 0);
	free(blocks);
}

static void blocks_are_sorted_however_far_they_are_in_order(void **state)
{
	(void)state;
	static const unsigned strays[] = { 0, 1, 2, 3, 4, 5, 8, 100, 5000 };
	static const size_t counts[] = { 0, 1, 2, 63, 64, 4096, 4097, 50000 };
	for (size_t i = 0; i < sizeof(strays) / sizeof(strays[0]); i++)
		for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
			sort_of(counts[k], strays[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_sorted_however_far_they_are_in_order),
		cmocka_unit_test(a_page_goes_to_who_holds_it_and_comes_back_when_he_lets_go),
		cmocka_unit_test(what_a_slab_holds_is_known_by_number_where_it_is_not_by_place),
		cmocka_unit_test(a_heap_that_nobody_reads_is_free_only_where_all_blocks_are_known),
		cmocka_unit_test(bytes_that_nobody_claims_are_unexplained_and_mappings_have_stacks),
		cmocka_unit_test(where_frees_were_lost_the_walk_is_believed),
		cmocka_unit_test(whatever_is_said_the_lines_add_up),
		cmocka_unit_test(the_sheet_of_2_to_the_46_bytes_takes_no_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
