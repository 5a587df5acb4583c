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
	assert_int_equal(glibc_walk(&image->fake.memory, reading, NULL, NULL, &err), 0);
}

static uint64_t accounted(const struct glibc_totals *t)
{
	return t->live_bytes + t->free_bytes + t->tcache_bytes + t->fastbin_bytes +
	       t->metadata_bytes;
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
	assert_int_equal(r.totals.cached_count, 3);
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

static void other_layouts_before_the_bins_are_found_out(void **state)
{
	(void)state;
	for (uint64_t before = 104; before <= 128; before += 8) {
		struct image *image = image_new(before);
		struct glibc_reading r;
		read_image(image, &r);
		assert_int_equal(r.arenas[0].bins - r.arenas[0].addr, before);
		assert_int_equal(r.totals.fastbin_bytes, 48);
		assert_true(r.consistency == 100.0);
		glibc_fini(&r);
		image_end(image);
	}
}

static void a_heap_without_symbols_or_params_is_walked_too(void **state)
{
	(void)state;
	struct image *image = image_new(112);
	image_put(image, IMAGE_LIBC + 0x1000 + 112,
		  4096); /* a tunable changed mp_.tcache_max_bytes */
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

static void what_was_swapped_out_is_unclear_and_not_read(void **state)
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
	assert_in_range(less.totals.unclear_bytes, 2 * FAKE_PAGE, 8 * FAKE_PAGE);
	assert_in_range(all.totals.live_bytes - less.totals.live_bytes, 2 * FAKE_PAGE,
			2 * FAKE_PAGE + 3 * 64 + FILLED_LIVE_MAIN);
	assert_true(less.consistency < 100.0);
	glibc_fini(&all);
	glibc_fini(&less);
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
		glibc_walk(&image->fake.memory, &r, NULL, NULL, &err);
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
		cmocka_unit_test(other_layouts_before_the_bins_are_found_out),
		cmocka_unit_test(a_heap_without_symbols_or_params_is_walked_too),
		cmocka_unit_test(a_damaged_size_costs_its_chunk_and_is_said),
		cmocka_unit_test(what_was_swapped_out_is_unclear_and_not_read),
		cmocka_unit_test(lists_that_run_in_circles_end),
		cmocka_unit_test(a_heap_that_was_trimmed_meanwhile_is_unclear_not_a_crash),
		cmocka_unit_test(a_program_that_never_called_malloc_has_no_reading),
		cmocka_unit_test(unused_blocks_of_the_size_of_a_cache_are_live),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
