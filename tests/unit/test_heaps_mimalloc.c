/* SPDX-License-Identifier: Apache-2.0 */
/* mimalloc read from small heaps made by hand, version by version: the figures to the byte, and what damage does to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_mimalloc.h"
#include "fake_reader.h"

static void pages_and_what_others_freed_are_told_apart(void **state)
{
	(void)state;
	static const struct {
		void (*build)(struct fake *);
		const char *how;
	} versions[] = { { fake_mimalloc, "2.0: every page of 1 segment," },
			 { fake_mimalloc22, "2.2: every page of 1 segment," } };
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct fake *f = fake_new(versions[i].build);
		const struct allocator_reading *a = read_once(f, heaps_mimalloc);
		assert_non_null(a);
		assert_int_equal(a->live_bytes, 97 * 64 + 3 * 8192);
		assert_int_equal(a->live_count, 100);
		assert_int_equal(a->cache_bytes, 3 * 64);
		assert_int_equal(a->free_page_bytes, 0x10000);
		assert_int_equal(a->hole_bytes, 2 * 0x10000 - 100 * 64 - 3 * 8192);
		assert_int_equal(a->metadata_bytes, 0x10000);
		assert_int_equal(a->reserved_bytes, 32 << 20);
		assert_true(a->consistency == 100.0);
		assert_non_null(strstr(a->how, versions[i].how));
		assert_string_equal(f->regions[0].label, "mimalloc");
		fake_end(f);
	}
}

static void pages_of_version_3_are_found_by_their_map(void **state)
{
	(void)state;
	static const struct {
		void (*build)(struct fake *);
		const char *how;
	} versions[] = { { fake_mimalloc30, "3.0: every page of 1 arena," },
			 { fake_mimalloc36, "3.6: every page of 1 arena," } };
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct fake *f = fake_new(versions[i].build);
		const struct allocator_reading *a = read_once(f, heaps_mimalloc);
		assert_non_null(a);
		assert_non_null(strstr(a->how, versions[i].how));
		assert_int_equal(a->live_bytes, 98 * 64 + 3 * 8192);
		assert_int_equal(a->live_count, 101);
		assert_int_equal(a->cache_bytes, 2 * 64);
		/* one that was never anybody's, one that was given back */
		assert_int_equal(a->free_page_bytes, 2 * 0x10000);
		/* in each page what lies before its first block is a page that is there */
		assert_int_equal(a->hole_bytes + 2 * 128, 2 * 0x10000 - 100 * 64 - 3 * 8192);
		assert_int_equal(a->reserved_bytes, 32 << 20);
		assert_true(a->consistency == 100.0);
		assert_string_equal(f->regions[1].label, "mimalloc");
		assert_string_equal(f->regions[2].label, "mimalloc");
		fake_end(f);
	}
}

static void heads_that_do_not_agree_with_the_map_lower_the_consistency(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_mimalloc30);
	fake_put(f, MI3_PAGE(2) + 40, 1ull << 40); /* larger than the page */
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_mimalloc);
	assert_true(a->consistency > 49.0 && a->consistency < 51.0);
	/* its place in the arena is another's */
	fake_put(f, MI3_PAGE(2) + 40, 8192);
	fake_put(f, MI3_PAGE(1) + 13 * 8, 2 | 1ull << 32);
	fake_put(f, MI3_PAGE(2) + 13 * 8, 1 | 1ull << 32);
	fake_keep(f);
	assert_null(read_once(f, heaps_mimalloc));
	fake_end(f);
}

static void a_map_whose_first_entry_leads_elsewhere_is_none(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_mimalloc30);
	fake_put(f, FAKE_OWN, FAKE_OWN + 0x100000008);
	fake_keep(f);
	assert_null(read_once(f, heaps_mimalloc));
	fake_end(f);
}

static void a_list_of_freed_blocks_that_runs_in_a_circle_ends(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_mimalloc);
	fake_put(f, FAKE_HEAP + 0x10440, FAKE_HEAP + 0x10400);
	fake_put(f, FAKE_HEAP + 0x10800, FAKE_HEAP + 0x10800);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_mimalloc);
	assert_true(a->live_bytes + a->cache_bytes <= 100 * 64 + 3 * 8192);
	fake_end(f);
	f = fake_new(fake_mimalloc36);
	fake_put(f, MI3_PAGE(1) + 0x440, MI3_PAGE(1) + 0x400);
	fake_keep(f);
	a = read_once(f, heaps_mimalloc);
	assert_true(a->live_bytes + a->cache_bytes <= 100 * 64 + 3 * 8192);
	fake_end(f);
}

static void a_segment_that_claims_more_than_is_mapped_is_none(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_mimalloc);
	fake_put(f, FAKE_HEAP + 224, 1 << 20);
	fake_put(f, FAKE_HEAP + 240, 1);
	fake_keep(f);
	assert_null(read_once(f, heaps_mimalloc));
	fake_end(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_and_what_others_freed_are_told_apart),
		cmocka_unit_test(pages_of_version_3_are_found_by_their_map),
		cmocka_unit_test(heads_that_do_not_agree_with_the_map_lower_the_consistency),
		cmocka_unit_test(a_map_whose_first_entry_leads_elsewhere_is_none),
		cmocka_unit_test(a_list_of_freed_blocks_that_runs_in_a_circle_ends),
		cmocka_unit_test(a_segment_that_claims_more_than_is_mapped_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
