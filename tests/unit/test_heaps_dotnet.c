/* SPDX-License-Identifier: Apache-2.0 */
/* The collector of .NET and the pages of V8 12: whose memory it is, and what it takes to say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_dotnet.h"
#include "fake_reader.h"
#include "proc/owned.h"

static const char *label_at(const struct owned *owned, uint64_t addr)
{
	for (size_t i = 0; i < owned->count; i++)
		if (addr >= owned->spans[i].start && addr < owned->spans[i].end)
			return owned->spans[i].label;
	return "";
}

static void check(struct fake *f, const char *tables, const char *first, const char *second)
{
	struct owned owned = { 0 };
	f->b.owned = &owned;
	fake_keep(f);
	assert_null(read_once(f, heaps_dotnet)); /* names, no figures */
	assert_int_equal(owned_sort(&owned), 0);
	assert_string_equal(label_at(&owned, DN_DATA), "");
	assert_string_equal(label_at(&owned, DN_TABLES), tables);
	assert_string_equal(label_at(&owned, DN_TABLES + 0x10000), "");
	assert_string_equal(label_at(&owned, DN_LOW), first);
	assert_string_equal(label_at(&owned, DN_LOW + 0x10000), ""); /* a reserve stays one */
	assert_string_equal(label_at(&owned, DN_LOW + 0x11ffff), second);
	assert_string_equal(label_at(&owned, DN_HIGH), "");
	owned_fini(&owned);
	fake_end(f);
}

static void regions_are_told_by_the_range_that_header_and_runtime_agree_on(void **state)
{
	(void)state;
	check(fake_new(fake_dotnet), ".NET heap tables", ".NET heap", ".NET heap");
}

static void segments_are_told_by_their_own_headers(void **state)
{
	(void)state;
	check(fake_new(fake_dotnet_31), ".NET heap tables", ".NET heap", "");
}

static void a_header_that_the_runtime_does_not_know_proves_nothing(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_dotnet);
	fake_put(f, DN_DATA + 0x108, DN_HIGH + 0x1000);
	check(f, "", "", "");
}

static void without_the_runtime_nothing_is_looked_for(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_dotnet);
	f->regions[0].name = "/usr/lib/libother.so";
	check(f, "", "", "");
}

static void compiled_ahead_of_time_it_is_found_by_what_it_reserves(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_dotnet);
	f->regions[0].name = "/srv/service";
	fake_map(f, DN_HIGH + 0x10000, 1ull << 30, REGION_RESERVED, "");
	f->regions[f->count - 1].perms = 0;
	check(f, ".NET heap tables", ".NET heap", ".NET heap");
}

static void a_range_with_a_hole_or_a_file_in_it_is_no_reservation(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_dotnet);
	f->regions[4].end -= 0x1000;
	check(f, "", "", "");
	f = fake_new(fake_dotnet);
	f->regions[5].inode = 1;
	check(f, "", "", "");
}

static void fake_v8_12_page(struct fake *f, uint64_t at)
{
	fake_put(f, at, 4);
	fake_put(f, at + 8, at);
	fake_put(f, at + 16, 0x40000);
	fake_put(f, at + 24, FAKE_OWN + 0x100);
	fake_put(f, at + 32, at + 0x1140);
}

static void pages_of_v8_12_describe_themselves(void **state)
{
	(void)state;
	for (uint64_t wrong = 0; wrong < 2; wrong++) {
		struct fake *f = fake_new(fake_proofs);
		struct owned owned = { 0 };
		f->b.owned = &owned;
		fake_v8_12_page(f, FAKE_HEAP);
		fake_v8_12_page(f, FAKE_HEAP + 0x40000);
		fake_put(f, FAKE_HEAP + 8, FAKE_HEAP + wrong * 0x40000);
		fake_keep(f);
		read_once(f, heaps_proofs);
		assert_int_equal(owned_sort(&owned), 0);
		assert_string_equal(label_at(&owned, FAKE_HEAP), wrong ? "" : "V8 heap");
		assert_string_equal(label_at(&owned, FAKE_HEAP + 0x7ffff), wrong ? "" : "V8 heap");
		assert_string_equal(label_at(&owned, FAKE_HEAP + 0x80000), "");
		owned_fini(&owned);
		fake_end(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_are_told_by_the_range_that_header_and_runtime_agree_on),
		cmocka_unit_test(segments_are_told_by_their_own_headers),
		cmocka_unit_test(a_header_that_the_runtime_does_not_know_proves_nothing),
		cmocka_unit_test(without_the_runtime_nothing_is_looked_for),
		cmocka_unit_test(pages_of_v8_12_describe_themselves),
		cmocka_unit_test(compiled_ahead_of_time_it_is_found_by_what_it_reserves),
		cmocka_unit_test(a_range_with_a_hole_or_a_file_in_it_is_no_reservation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
