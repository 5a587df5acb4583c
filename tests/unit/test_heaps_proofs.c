/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a stretch of memory is: what proves it, what does not, and who has what several claim. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_allocators.h"
#include "fake_reader.h"
#include "proc/owned.h"

static const struct owned_span *stretch_at(const struct owned *owned, uint64_t addr)
{
	for (size_t i = 0; i < owned->count; i++)
		if (addr >= owned->spans[i].start && addr < owned->spans[i].end)
			return &owned->spans[i];
	return NULL;
}

static void headers_that_lead_back_prove_whose_memory_it_is(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_proofs);
	struct owned owned = { 0 };
	f->b.owned = &owned;
	read_once(f, heaps_proofs);
	assert_int_equal(owned_sort(&owned), 0);
	const struct {
		uint64_t at;
		const char *label;
	} told[] = { { FAKE_HEAP, "V8 heap" },
		     { FAKE_HEAP + 0x7ffff, "V8 heap" },
		     { FAKE_HEAP + 0x80000, NULL },
		     { FAKE_HEAP + 0x200000, "PHP heap" },
		     { FAKE_HEAP + 0x400000, "BEAM carriers" },
		     { FAKE_HEAP + 0x41ffff, "BEAM carriers" },
		     { FAKE_HEAP + 0x600000, "OCaml minor heap" },
		     { FAKE_HEAP + 0x603fff, "OCaml minor heap" },
		     { FAKE_HEAP + 0x604000, NULL },
		     { FAKE_HEAP + 0x608000, "OCaml heap" },
		     { FAKE_HEAP + 0x617fff, "OCaml heap" },
		     { FAKE_HEAP + 0x620000, NULL },
		     { FAKE_OWN, NULL },
		     { FAKE_OWN + 0x8000, "musl malloc" },
		     { FAKE_OWN + 0xffff, "musl malloc" } };
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		const struct owned_span *s = stretch_at(&owned, told[i].at);
		if (told[i].label) {
			assert_non_null(s);
			assert_string_equal(s->label, told[i].label);
		} else {
			assert_null(s);
		}
	}
	owned_fini(&owned);
	f->b.owned = NULL;
	fake_end(f);
}

static void one_header_alone_proves_nothing(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_proofs);
	struct owned owned = { 0 };
	struct err err = { 0 };
	f->b.owned = &owned;
	fake_reset(f);
	fake_put(f, FAKE_HEAP + 0x40000 + 16, FAKE_OWN + 0x200); /* another heap's */
	fake_put(f, FAKE_OWN + 0xc000, FAKE_OWN + 0x1100);       /* its meta is of another group */
	fake_put(f, FAKE_HEAP + 0x200000 + 16,
		 FAKE_HEAP); /* the one before it knows nothing of it */
	/* each carrier's neighbour is another's */
	fake_put(f, FAKE_HEAP + 0x400008, FAKE_HEAP + 0x401000);
	fake_put(f, FAKE_HEAP + 0x410010, FAKE_HEAP + 0x401000);
	fake_put(f, FAKE_HEAP + 0x620008, FAKE_HEAP); /* no domain: it allocates elsewhere */
	assert_int_equal(heaps_proofs(&f->b, &f->memory, &err), 0);
	assert_int_equal(owned.count, 0);
	owned_fini(&owned);
	f->b.owned = NULL;
	fake_end(f);
}

static void two_addresses_within_one_heap_bound_no_minor_heaps(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_proofs);
	struct owned owned = { 0 };
	const uint64_t minor = FAKE_HEAP + 0x600000;
	f->b.owned = &owned;
	fake_put(f, 0x400308, minor + 0x1000);
	for (size_t i = 0; i < f->b.region_count; i++)
		if (f->b.regions[i].start == minor + 0x30000)
			f->b.regions[i].perms = REGION_READ | REGION_WRITE;
	fake_keep(f);
	read_once(f, heaps_proofs);
	assert_int_equal(owned_sort(&owned), 0);
	assert_null(stretch_at(&owned, minor));
	assert_null(stretch_at(&owned, minor + 0x8000));
	owned_fini(&owned);
	f->b.owned = NULL;
	fake_end(f);
}

static void stretches_claimed_twice_are_the_firmer_ones(void **state)
{
	(void)state;
	struct owned owned = { 0 };
	const struct owned_span spans[] = {
		{ 0x1000, 0x9000, "mapping", NULL, 0, 0, OWNED_MAPPING, 1 },
		{ 0x3000, 0x5000, "part", NULL, 0, 0, OWNED_PART, 0 },
		{ 0x4000, 0x4800, "stack", NULL, 0, 0, OWNED_STACK, 0 },
		{ 0x5000, 0x6000, "part", NULL, 0, 0, OWNED_PART, 0 },
		{ 0x8000, 0xa000, "part", NULL, 0, 0, OWNED_PART, 1 },
	};
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		assert_int_equal(owned_add(&owned, &spans[i]), 0);
	assert_int_equal(owned_sort(&owned), 0);
	static const struct {
		uint64_t start, end;
		const char *label;
	} want[] = { { 0x1000, 0x3000, "mapping" }, { 0x3000, 0x4000, "part" },
		     { 0x4000, 0x4800, "stack" },   { 0x4800, 0x6000, "part" },
		     { 0x6000, 0x8000, "mapping" }, { 0x8000, 0xa000, "part" } };
	assert_int_equal(owned.count, sizeof(want) / sizeof(want[0]));
	for (size_t i = 0; i < owned.count; i++) {
		assert_int_equal(owned.spans[i].start, want[i].start);
		assert_int_equal(owned.spans[i].end, want[i].end);
		assert_string_equal(owned.spans[i].label, want[i].label);
	}
	assert_int_equal(owned.spans[4].grows, 0); /* something lies behind it */
	assert_int_equal(owned.spans[5].grows, 1);
	owned_fini(&owned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_that_lead_back_prove_whose_memory_it_is),
		cmocka_unit_test(one_header_alone_proves_nothing),
		cmocka_unit_test(two_addresses_within_one_heap_bound_no_minor_heaps),
		cmocka_unit_test(stretches_claimed_twice_are_the_firmer_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
