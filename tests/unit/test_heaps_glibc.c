/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's heap read from images made by hand: the totals to the byte, and what damage, races and malice do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "heap_image.h"

static struct image *image_new(uint64_t before)
{
	struct image *image = malloc(sizeof(*image));
	assert_non_null(image);
	image_init(image, before);
	image_fill(image);
	return image;
}

static void image_end(struct image *image)
{
	fake_fini(&image->fake);
	free(image);
}

static void read_image(struct image *image, struct glibc_reading *reading)
{
	struct err err = { 0 };
	assert_int_equal(glibc_find(&image->fake.memory, image->fake.regions, 4, reading, &err), 1);
	assert_int_equal(glibc_walk(&image->fake.memory, reading, NULL, &err), 0);
}

static uint64_t accounted(const struct glibc_totals *t)
{
	return t->live_bytes + t->free_bytes + t->tcache_bytes + t->metadata_bytes;
}

static void every_byte_is_accounted_for(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	struct glibc_reading r;
	read_image(image, &r);
	assert_int_equal(r.arena_count, 2);
	assert_int_equal(r.span_count, 3);
	assert_int_equal(r.params, IMAGE_LIBC + 0x1000);
	assert_int_equal(r.totals.live_bytes, FILLED_LIVE_MAIN + 0x2000 + IMAGE_LARGE_BYTES);
	assert_int_equal(r.totals.live_count, 4);
	assert_int_equal(r.totals.tcache_bytes, 64);
	assert_int_equal(r.totals.fastbin_bytes, 48);
	assert_int_equal(r.totals.cached_count, 2);
	assert_int_equal(r.totals.thread_caches, 1);
	assert_int_equal(r.totals.unclear_bytes, 0);
	assert_int_equal(accounted(&r.totals), r.claimed_bytes);
	assert_true(r.consistency == 100.0);
	glibc_fini(&r);
	image_end(image);
}

static void whole_free_pages_and_holes_are_told_apart(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	struct glibc_reading all, less;
	read_image(image, &all);
	/* the free chunk of 0x3000 bytes begins at +0x1300: pages 2 and 3 lie wholly inside it */
	fake_leave(&image->fake, IMAGE_BRK + 2 * FAKE_PAGE);
	image->fake.reads_of_absent = 0;
	read_image(image, &less);
	assert_int_equal(all.totals.free_page_bytes - less.totals.free_page_bytes, FAKE_PAGE);
	assert_int_equal(all.totals.hole_bytes, less.totals.hole_bytes);
	assert_int_equal(all.totals.free_page_bytes + all.totals.hole_bytes, all.totals.free_bytes);
	/* reading a page that is not there would put one there */
	assert_int_equal(image->fake.reads_of_absent, 0);
	glibc_fini(&all);
	glibc_fini(&less);
	image_end(image);
}

static void the_known_layouts_are_read_and_others_are_unknown(void **state)
{
	(void)state;
	static const struct {
		uint64_t before;
		uint32_t table;
		int known;
	} cases[] = { { 24, 0, 1 }, { 104, 0, 1 }, { 112, 0, 1 },     { 112, 0x300, 1 },
		      { 32, 0, 0 }, { 120, 0, 0 }, { 112, 0x310, 0 }, { 24, 0x320, 0 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct image *image = malloc(sizeof(*image));
		assert_non_null(image);
		image_init(image, cases[i].before);
		image->table = cases[i].table;
		image_fill(image);
		struct glibc_reading r;
		read_image(image, &r);
		assert_int_equal(r.arenas[0].bins - r.arenas[0].addr, cases[i].before);
		assert_int_equal(!r.unknown, cases[i].known);
		if (cases[i].known) {
			assert_int_equal(r.params, IMAGE_LIBC + 0x1000);
			assert_int_equal(r.totals.thread_caches, 1);
			assert_int_equal(r.totals.tcache_bytes, 64);
			assert_int_equal(r.totals.fastbin_bytes, cases[i].before == 24 ? 0 : 48);
			assert_int_equal(r.totals.mmapped_bytes, IMAGE_LARGE_BYTES);
			assert_int_equal(accounted(&r.totals), r.claimed_bytes);
			assert_true(r.consistency == 100.0);
		}
		glibc_fini(&r);
		image_end(image);
	}
}

static void a_heap_without_an_empty_bin_is_found(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	/* a chunk in each of both arenas' bins: @at holds it, and its links lead back */
	uint64_t bins = image->main_arena + 112, at = IMAGE_BRK + 0x1300 + 0x100;
	for (unsigned i = 1; i < 127; i++, at += 32) {
		image_put(image, bins + i * 16, at);
		image_put(image, bins + i * 16 + 8, at);
		image_put(image, at + 16, bins + i * 16 - 16);
		image_put(image, at + 24, bins + i * 16 - 16);
	}
	struct glibc_reading r;
	read_image(image, &r);
	assert_int_equal(r.totals.live_bytes, FILLED_LIVE_MAIN + 0x2000 + IMAGE_LARGE_BYTES);
	glibc_fini(&r);
	image_end(image);
}

static void merged_fastbins_make_whole_pages_free(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	/* the further heap full of chunks of 48 bytes, all but the first in one fastbin, last freed first */
	uint64_t at = (image->arena + 112 + 2088 + 15) & ~15ull, first = at,
		 end = IMAGE_HEAP + IMAGE_HEAP_BYTES;
	for (int i = 0; i < 2000; i++) {
		image_chunk(image, at, 48, 0, 5);
		uint64_t next = i > 1 ? at - 48 : 0;
		image_put(image, at + 16, (at + 16) >> 12 ^ next);
		at += 48;
	}
	image_put(image, at + 8, (end - at) | 5);
	image_put(image, image->arena + 112 - 16, at);
	image_put(image, image->arena + 112 - 16 - 80 + 8, at - 48);
	struct glibc_reading r;
	struct units units = { 0 };
	struct err err = { 0 };
	assert_int_equal(glibc_find(&image->fake.memory, image->fake.regions, 4, &r, &err), 1);
	assert_int_equal(glibc_walk(&image->fake.memory, &r, &units, &err), 0);
	assert_int_equal(r.totals.fastbin_bytes, 1999 * 48 + 48);
	/* they reach the top: one free stretch from behind the first to the heap's end */
	uint64_t whole = end - ((first + 48 + 48 + 4095) & ~4095ull);
	assert_in_range(r.totals.free_page_bytes, whole, whole + 0x21000 + 0x3000);
	const struct piece *last = &units.pieces[units.piece_count - 1];
	assert_int_equal(last->start, first + 48);
	assert_int_equal(last->start + last->bytes, end);
	assert_int_equal(last->kind, PIECE_TOP);
	assert_int_equal(accounted(&r.totals), r.claimed_bytes);
	units_fini(&units);
	glibc_fini(&r);
	image_end(image);
}

static void a_large_block_that_advice_cut_is_one_block(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	struct region regions[5];
	memcpy(regions, image->fake.regions, sizeof(regions[0]) * 4);
	regions[4] = regions[3];
	regions[3].end = regions[4].start = IMAGE_LARGE + 0x20000;
	struct glibc_reading r;
	struct err err = { 0 };
	assert_int_equal(glibc_find(&image->fake.memory, regions, 5, &r, &err), 1);
	assert_int_equal(glibc_walk(&image->fake.memory, &r, NULL, &err), 0);
	assert_int_equal(r.totals.mmapped_bytes, IMAGE_LARGE_BYTES);
	assert_int_equal(r.totals.mmapped_count, 1);
	assert_true(r.consistency == 100.0);
	glibc_fini(&r);
	image_end(image);
}

static void settings_in_force_are_told_with_thresholds_that_rose(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	image_put(image, IMAGE_LIBC + 0x1000, 2 * 12582912);
	image_put(image, IMAGE_LIBC + 0x1000 + 16, 12582912);
	image_put(image, IMAGE_LIBC + 0x1000 + 112, 4096); /* and a tunable for thread caches */
	struct glibc_reading r;
	read_image(image, &r);
	assert_int_equal(r.params, IMAGE_LIBC + 0x1000);
	assert_int_equal(r.mmap_threshold, 12582912);
	assert_int_equal(r.trim_threshold, 2 * 12582912);
	assert_false(r.no_dyn_threshold);
	glibc_fini(&r);
	image_end(image);
}

static void a_heap_without_symbols_or_params_is_walked_too(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	/* tunables changed mp_.tcache_max_bytes and both thresholds */
	image_put(image, IMAGE_LIBC + 0x1000 + 112, 4096);
	image_put(image, IMAGE_LIBC + 0x1000, 1 << 20);
	struct glibc_reading r;
	read_image(image, &r);
	assert_int_equal(r.params, 0);
	assert_int_equal(r.totals.live_bytes, FILLED_LIVE_MAIN + 0x2000 + IMAGE_LARGE_BYTES);
	assert_true(r.consistency == 100.0);
	glibc_fini(&r);
	image_end(image);
}

static void a_damaged_size_costs_its_chunk_and_is_said(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	/* many blocks, so that a chain can be found again behind the damage */
	uint64_t at = image->arena + 112 + 2088;
	at = (at + 15) & ~15ull;
	uint64_t first = at, end = IMAGE_HEAP + IMAGE_HEAP_BYTES;
	for (int i = 0; i < 64; i++)
		at = image_chunk(image, at, 64, 0, 5);
	image_put(image, at + 8, (end - at) | 5);
	image_put(image, image->arena + 112 - 16, at);
	image_put(image, first + 10 * 64 + 8, 0x123456789); /* what the eleventh claims */
	struct glibc_reading r;
	read_image(image, &r);
	assert_in_range(r.totals.unclear_bytes, 64, 192);
	assert_true(r.consistency < 100.0);
	assert_true(r.consistency > 99.0);
	assert_int_equal(accounted(&r.totals) + r.totals.unclear_bytes, r.claimed_bytes);
	glibc_fini(&r);
	image_end(image);
}

static void what_was_swapped_out_is_left_out_and_not_read(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	uint64_t at = (image->arena + 112 + 2088 + 15) & ~15ull,
		 end = IMAGE_HEAP + IMAGE_HEAP_BYTES;
	for (int i = 0; i < 512; i++)
		at = image_chunk(image, at, 64, 0, 5);
	image_put(image, at + 8, (end - at) | 5);
	image_put(image, image->arena + 112 - 16, at);
	struct glibc_reading all, less;
	read_image(image, &all);
	assert_int_equal(all.totals.unclear_bytes, 0);
	/* two pages full of blocks, and one that is free: a chunk's links may lead there */
	fake_leave(&image->fake, IMAGE_HEAP + 3 * FAKE_PAGE);
	fake_leave(&image->fake, IMAGE_HEAP + 4 * FAKE_PAGE);
	fake_leave(&image->fake, IMAGE_BRK + FAKE_PAGE);
	image->fake.regions[0].swap_bytes = FAKE_PAGE;
	read_image(image, &less);
	assert_int_equal(image->fake.reads_of_absent, 0);
	assert_in_range(less.totals.absent_bytes, 2 * FAKE_PAGE, 4 * FAKE_PAGE);
	assert_in_range(less.totals.unclear_bytes, 0, 4 * FAKE_PAGE);
	assert_in_range(all.totals.live_bytes - less.totals.live_bytes, 2 * FAKE_PAGE,
			2 * FAKE_PAGE + 3 * 64 + FILLED_LIVE_MAIN);
	assert_true(less.consistency < 100.0);
	glibc_fini(&all);
	glibc_fini(&less);
	image_end(image);
}

/* A program at work: what the first look saw half made is whole at the second. */
static struct image *moving;
static uint64_t moved_first;
static ssize_t (*still_read)(void *, const struct target_piece *, unsigned);

static void put_sizes(struct image *image, uint64_t first, uint64_t size)
{
	for (uint64_t i = 6; i < 60; i += 2)
		image_put(image, first + i * 64 + 8, size);
}

static ssize_t read_moving(void *ctx, const struct target_piece *pieces, unsigned count)
{
	ssize_t got = still_read(ctx, pieces, count);
	for (unsigned i = 0; i < count; i++)
		if (moving && pieces[i].addr <= moved_first + 6 * 64 &&
		    pieces[i].addr + pieces[i].len > moved_first + 58 * 64 + 16) {
			put_sizes(moving, moved_first, 64 | 5);
			moving = NULL;
		}
	return got;
}

static void a_heap_that_moves_is_read_again_and_says_so(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	uint64_t at = (image->arena + 112 + 2088 + 15) & ~15ull,
		 end = IMAGE_HEAP + IMAGE_HEAP_BYTES;
	uint64_t first = at;
	for (int i = 0; i < 64; i++)
		at = image_chunk(image, at, 64, 0, 5);
	image_put(image, at + 8, (end - at) | 5);
	image_put(image, image->arena + 112 - 16, at);
	struct glibc_reading still, moved, never;
	read_image(image, &still);
	assert_int_equal(still.retried, 0);
	put_sizes(image, first, 0x123456789);
	still_read = image->fake.memory.read;
	image->fake.memory.read = read_moving;
	struct err err = { 0 };
	assert_int_equal(glibc_find(&image->fake.memory, image->fake.regions, 4, &moved, &err), 1);
	moving = image;
	moved_first = first;
	assert_int_equal(glibc_walk(&image->fake.memory, &moved, NULL, &err), 0);
	assert_null(moving);
	assert_int_equal(moved.retried, 1);
	assert_int_equal(moved.totals.live_bytes, still.totals.live_bytes);
	assert_int_equal(moved.totals.unclear_bytes, 0);
	/* one that stays broken is not read a third time, and says how much of it is clear */
	put_sizes(image, first, 0x123456789);
	read_image(image, &never);
	assert_int_equal(never.retried, 1);
	assert_true(never.totals.unclear_bytes > 0 && never.consistency < 100.0);
	glibc_fini(&still);
	glibc_fini(&moved);
	glibc_fini(&never);
	image_end(image);
}

static void lists_that_run_in_circles_end(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	uint64_t fast = IMAGE_BRK + GLIBC_TCACHE_CHUNK + 64;
	image_put(image, fast + 16, (fast + 16) >> 12 ^ fast);
	uint64_t cached = IMAGE_BRK + GLIBC_TCACHE_CHUNK;
	image_put(image, IMAGE_BRK + 16, 60000);
	image_cached(image, cached, cached + 16);
	struct glibc_reading r;
	read_image(image, &r);
	/* what does not fit is not taken away from the live blocks */
	assert_true(r.totals.live_bytes <= r.claimed_bytes);
	assert_int_equal(accounted(&r.totals), r.claimed_bytes);
	glibc_fini(&r);
	image_end(image);
}

/* More cached blocks than are followed, of 17 sizes. */
static void a_list_that_was_not_followed_to_its_end_is_said(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	uint64_t table = IMAGE_BRK + 16, at = IMAGE_BRK + GLIBC_TCACHE_CHUNK + 64 + 48;
	uint64_t end = at + 0x1000;
	struct glibc_reading r;
	read_image(image, &r);
	assert_int_equal(r.limited, 0);
	glibc_fini(&r);
	/* of each size one block that is its own next, told as 65,535 */
	for (unsigned bin = 1; bin <= 17; bin++) {
		uint64_t size = (uint64_t)(bin + 2) * 16;
		image_chunk(image, at, size, 0, 1);
		image_cached(image, at, at + 16);
		image_put(image, table + 128 + bin * 8, at + 16);
		at += size;
	}
	image_chunk(image, at, end - at, 0, 1);
	for (unsigned i = 0; i < 5; i++)
		image_put(image, table + i * 8, i < 4 ? UINT64_MAX : UINT32_MAX);
	read_image(image, &r);
	assert_int_equal(r.limited, 1);
	/* the sums stay those of the heap */
	assert_true(r.totals.live_bytes <= r.claimed_bytes);
	assert_int_equal(accounted(&r.totals), r.claimed_bytes);
	glibc_fini(&r);
	image_end(image);
}

static void a_heap_that_was_trimmed_meanwhile_is_unclear_not_a_crash(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	image->fake.parts[2].used = 0x2000; /* before the header of the topmost chunk */
	struct glibc_reading r;
	read_image(image, &r);
	assert_true(r.consistency < 100.0);
	image->fake.parts[0].used = 0;
	glibc_fini(&r);
	struct err err = { 0 };
	int rc = glibc_find(&image->fake.memory, image->fake.regions, 4, &r, &err);
	if (rc == 1)
		glibc_walk(&image->fake.memory, &r, NULL, &err);
	glibc_fini(&r);
	image_end(image);
}

static void a_program_that_never_called_malloc_has_no_reading(void **state)
{
	(void)state;
	struct image *image = malloc(sizeof(*image));
	assert_non_null(image);
	image_init(image, 112); /* the arena is still all zeros */
	struct glibc_reading r;
	struct err err = { 0 };
	assert_int_equal(glibc_find(&image->fake.memory, image->fake.regions, 4, &r, &err), 0);
	/* and a ring of arenas that leads elsewhere is none */
	image_fill(image);
	image_put(image, image->arena + 112 + 2048, image->arena);
	assert_int_equal(glibc_find(&image->fake.memory, image->fake.regions, 4, &r, &err), 0);
	image_end(image);
}

static void unused_blocks_of_the_size_of_a_cache_are_live(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	/* a block of the program's own with the bytes of a table, whose blocks carry no key */
	uint64_t at = IMAGE_BRK + GLIBC_TCACHE_CHUNK;
	image_put(image, at + 24, 0);
	struct glibc_reading r;
	read_image(image, &r);
	assert_int_equal(r.totals.thread_caches, 0);
	assert_int_equal(r.totals.tcache_bytes, 0);
	assert_int_equal(accounted(&r.totals), r.claimed_bytes);
	glibc_fini(&r);
	image_end(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_accounted_for),
		cmocka_unit_test(whole_free_pages_and_holes_are_told_apart),
		cmocka_unit_test(the_known_layouts_are_read_and_others_are_unknown),
		cmocka_unit_test(a_heap_without_an_empty_bin_is_found),
		cmocka_unit_test(merged_fastbins_make_whole_pages_free),
		cmocka_unit_test(a_large_block_that_advice_cut_is_one_block),
		cmocka_unit_test(settings_in_force_are_told_with_thresholds_that_rose),
		cmocka_unit_test(a_heap_without_symbols_or_params_is_walked_too),
		cmocka_unit_test(a_damaged_size_costs_its_chunk_and_is_said),
		cmocka_unit_test(what_was_swapped_out_is_left_out_and_not_read),
		cmocka_unit_test(a_heap_that_moves_is_read_again_and_says_so),
		cmocka_unit_test(lists_that_run_in_circles_end),
		cmocka_unit_test(a_list_that_was_not_followed_to_its_end_is_said),
		cmocka_unit_test(a_heap_that_was_trimmed_meanwhile_is_unclear_not_a_crash),
		cmocka_unit_test(a_program_that_never_called_malloc_has_no_reading),
		cmocka_unit_test(unused_blocks_of_the_size_of_a_cache_are_live),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
