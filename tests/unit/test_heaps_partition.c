/* SPDX-License-Identifier: Apache-2.0 */
/* PartitionAlloc, V8 in its sandbox and Oilpan, read from a process made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_partition.h"
#include "fake_reader.h"
#include "proc/owned.h"

static const char *label_at(const struct owned *owned, uint64_t addr)
{
	for (size_t i = 0; i < owned->count; i++)
		if (addr >= owned->spans[i].start && addr < owned->spans[i].end)
			return owned->spans[i].label;
	return "";
}

/* Reads as heaps_read() does, and hands out what is whose. */
static const struct allocator_reading *read_all(struct fake *f, struct owned *owned)
{
	struct err err = { 0 };
	*owned = (struct owned){ 0 };
	f->b.owned = owned;
	assert_int_equal(heaps_partition(&f->b, &f->memory, &err), 0);
	assert_int_equal(heaps_proofs(&f->b, &f->memory, &err), 0);
	assert_int_equal(owned_sort(owned), 0);
	assert_int_equal(f->reads_of_absent, 0);
	f->b.owned = NULL;
	return f->b.allocator_count ? f->b.allocators : NULL;
}

static void partitions_are_counted_by_their_own_tables(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_partition);
	struct owned owned;
	fake_reset(f);
	const struct allocator_reading *a = read_all(f, &owned);
	assert_non_null(a);
	assert_string_equal(a->allocator, "PartitionAlloc");
	assert_int_equal(a->live_count, 100 + 128 + 1);
	assert_int_equal(a->live_bytes, 100 * 16 + 128 * 128 + (3 << 19));
	assert_int_equal(a->free_page_bytes, 16384);
	/* of the first span all but what is in use; of the large block nothing: its half is live */
	assert_int_equal(a->hole_bytes, 16384 - 1600);
	assert_int_equal(a->metadata_bytes, 2 * 4096);
	assert_int_equal(a->resident_bytes, 0x14000 + 0xc0000 + 2 * 4096);
	assert_true(a->consistency > 99.9);
	assert_non_null(strstr(a->how, "2 super pages in 1 partition,"));
	assert_string_equal(label_at(&owned, PA_POOL + 0x4000), "PartitionAlloc");
	assert_string_equal(label_at(&owned, PA_POOL + 0x204000), "PartitionAlloc");
	assert_string_equal(label_at(&owned, PA_POOL + 0x3ff000), "PartitionAlloc");
	assert_string_equal(label_at(&owned, PA_PAGE), "PartitionAlloc metadata");
	assert_string_equal(label_at(&owned, PA_POOL), ""); /* no access: a guard */
	owned_fini(&owned);
	fake_end(f);
}

static void v8_in_its_sandbox_and_oilpan_are_named_beside_it(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_partition);
	struct owned owned;
	fake_reset(f);
	read_all(f, &owned);
	assert_string_equal(label_at(&owned, PA_CAGE + 0x40000), "V8 heap");
	assert_string_equal(label_at(&owned, PA_CAGE + 0x13ffff), "V8 heap");
	assert_string_equal(label_at(&owned, PA_CAGE + 0x140000),
			    ""); /* another number than its place */
	assert_string_equal(label_at(&owned, PA_OILPAN + 0x3ffff), "Oilpan heap");
	assert_string_equal(label_at(&owned, PA_OILPAN + 0x40000 + 150000), "Oilpan heap");
	assert_string_equal(label_at(&owned, PA_OILPAN + 0x66000), "");
	owned_fini(&owned);
	fake_end(f);
}

/* One word of the proof is another each time. */
static void without_a_row_of_sizes_and_reciprocals_nothing_is_named(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_partition);
	const struct {
		uint64_t at, value;
	} wrong[] = {
		{ PA_BUCKETS + 40, 1 },                     /* the first reciprocal */
		{ PA_BUCKETS + 3 * 56 + 40, 3 },            /* the fourth */
		{ PA_BUCKETS + 2 * 56 + 24, 8 },            /* sizes that fall */
		{ PA_ROOT + 144, PA_PAGE - PA_POOL + 4096 } /* no super page lies there */
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct owned owned;
		fake_reset(f);
		fake_put(f, wrong[i].at, wrong[i].value);
		assert_null(read_all(f, &owned));
		assert_int_equal(owned.count, 0);
		owned_fini(&owned);
	}
	fake_end(f);
}

/* The tables of a version that counts otherwise: whose it is stays proven, how much is in use is not told. */
static void spans_that_cannot_be_have_no_figures(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_partition);
	struct owned owned;
	fake_reset(f);
	pa_span(f, PA_PAGE, 1, PA_POOL + 0x4010, PA_BUCKETS, 2000, 24); /* more than fit */
	pa_span(f, PA_PAGE, 2, PA_POOL, PA_BUCKETS + 7 * 56, 128, 0);   /* its list is elsewhere */
	pa_span(f, PA_PAGE, 3, PA_POOL + 0xc000, PA_BUCKETS + 3 * 56 + 8, 0,
		0); /* no bucket begins there */
	const struct allocator_reading *a = read_all(f, &owned);
	assert_non_null(a);
	assert_string_equal(a->allocator, "PartitionAlloc");
	assert_true(a->live_bytes == UINT64_MAX);
	assert_string_equal(label_at(&owned, PA_POOL + 0x4000), "PartitionAlloc");
	owned_fini(&owned);
	fake_end(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(partitions_are_counted_by_their_own_tables),
		cmocka_unit_test(v8_in_its_sandbox_and_oilpan_are_named_beside_it),
		cmocka_unit_test(without_a_row_of_sizes_and_reciprocals_nothing_is_named),
		cmocka_unit_test(spans_that_cannot_be_have_no_figures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
