/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's pure parts: where a probe stands, what a trend is, how epochs of different scale add up. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/samples.h"
#include "source/sampler_impl.h"
#include "sym/functions.h"
#include "view/leak.h"
#include "wire/sample.h"

#define DI (1u << WIRE_SAMPLE_DI)

static struct site choose(const char *code, size_t bytes, uint32_t wanted)
{
	struct site site;
	site_choose((const uint8_t *)code, bytes, 0x1000, wanted, &site);
	return site;
}
#define CHOOSE(code, wanted) choose(code, sizeof(code) - 1, wanted)

static void a_push_at_the_entry_is_taken(void **state)
{
	(void)state;
	struct site site = CHOOSE("\x41\x54\x55\xc3", DI); /* push r12; push rbp; ret */
	assert_int_equal(site.offset, 0);
	assert_int_equal(site.kind, SITE_EMULATED);
}

static void a_branch_behind_a_test_of_the_argument_is_taken(void **state)
{
	(void)state;
	/* test rdi,rdi; je +2; push rbp; ret */
	struct site site = CHOOSE("\x48\x85\xff\x74\x02\x55\xc3\xc3", DI);
	assert_int_equal(site.offset, 3);
	assert_int_equal(site.kind, SITE_EMULATED);
}

static void what_a_place_leads_to_is_known(void **state)
{
	(void)state;
	struct site site = CHOOSE("\x41\x54\x55\xc3", DI); /* push r12 of two bytes */
	assert_int_equal(site.leads_to[0], 2);
	assert_int_equal(site.leads_to[1], 0);
	/* at 3: je +2 */
	site = CHOOSE("\x48\x85\xff\x74\x02\x55\xc3\xc3", DI);
	assert_int_equal(site.leads_to[0], 2);
	assert_int_equal(site.leads_to[1], 4);
	site = CHOOSE("\xe9\xfb\x0f\x00\x00", DI); /* jmp 0x2000 at 0x1000 */
	assert_int_equal(site.leads_to[0], 0x1000);
	assert_int_equal(site.leads_to[1], 0);
}

static void nothing_is_taken_behind_a_lost_argument(void **state)
{
	(void)state;
	/* xor edi,edi; push rbp; ret: the argument is gone at the push */
	struct site site = CHOOSE("\x31\xff\x55\xc3", DI);
	assert_int_equal(site.offset, 0);
	assert_int_equal(site.kind, SITE_STEPPED);
	/* of a function whose argument is another one it is still there */
	site = CHOOSE("\x31\xff\x55\xc3", 1u << WIRE_SAMPLE_SI);
	assert_int_equal(site.offset, 2);
}

static void nothing_is_taken_where_the_return_address_is_not_on_top(void **state)
{
	(void)state;
	/* sub rsp,8; push rbp: a return probe would take another word for it */
	struct site site = CHOOSE("\x48\x83\xec\x08\x55\xc3", DI);
	assert_int_equal(site.offset, 0);
	assert_int_equal(site.kind, SITE_STEPPED);
}

static void a_nop_of_five_bytes_is_never_chosen(void **state)
{
	(void)state;
	struct site site = CHOOSE("\x0f\x1f\x44\x00\x00\x55\xc3", DI); /* nop5; push rbp */
	assert_int_equal(site.offset, 5);
	assert_int_equal(site.kind, SITE_EMULATED);
	/* what is stepped over behind it is better, too */
	site = CHOOSE("\x0f\x1f\x44\x00\x00\x48\x89\xf8\xc3", DI);
	assert_int_equal(site.offset, 5);
	assert_int_equal(site.kind, SITE_STEPPED);
	/* a nop5 alone is said to be one */
	site = CHOOSE("\x0f\x1f\x44\x00\x00", DI);
	assert_int_equal(site.kind, SITE_NOP5);
}

static void edges_are_those_that_can_be_reached(void **state)
{
	(void)state;
	/* test edi,edi; je +6; ret; call 0x2000 (the next function's); jmp 0x3000, reached by the je */
	static const uint8_t code[] = { 0x85, 0xff, 0x74, 0x06, 0xc3, 0xe8, 0xf6, 0x0f,
					0x00, 0x00, 0xe9, 0xf1, 0x1f, 0x00, 0x00 };
	uint64_t edges[SITE_EDGES_MAX];
	assert_int_equal(site_edges(code, sizeof(code), 0x1000, edges), 1);
	assert_int_equal(edges[0], 0x3000);
}

static void a_loop_back_to_the_head_is_not_counted_twice(void **state)
{
	(void)state;
	/* mov rax,rdi; [3] test rax,rax; push rbp at 6 is reached by jne 3 again */
	struct site site = CHOOSE("\x48\x89\xf8\x48\x85\xc0\x55\x5d\x75\xf9\xc3", DI);
	assert_int_equal(site.offset, 0);
}

static void calls_and_jumps_out_are_edges(void **state)
{
	(void)state;
	/* call 0x2000; jmp 0x3000 */
	struct site site = CHOOSE("\xe8\xfb\x0f\x00\x00\xe9\xf6\x1f\x00\x00", DI);
	assert_int_equal(site.edge_count, 2);
	assert_int_equal(site.edges[0], 0x2000);
	assert_int_equal(site.edges[1], 0x3000);
	assert_false(site.jumps_at_once);
	site = CHOOSE("\xe9\xfb\x0f\x00\x00", DI);
	assert_true(site.jumps_at_once);
}

static void chances_grow_with_size_and_reach_certainty(void **state)
{
	struct wire_sample_chances chances;
	(void)state;
	sampler_chances(512 << 10, &chances);
	for (unsigned i = 1; i < WIRE_SAMPLE_CHANCES; i++)
		assert_true(chances.v[i] >= chances.v[i - 1]);
	assert_true(chances.v[0] > 0);
	assert_int_equal(chances.v[WIRE_SAMPLE_CHANCES - 1], WIRE_SAMPLE_ALWAYS);
	sampler_chances(1, &chances);
	assert_int_equal(chances.v[0], WIRE_SAMPLE_ALWAYS);
}

static void a_trend_is_one_only_where_values_rise(void **state)
{
	double rising[20], level[20], falling[20];
	(void)state;
	for (int i = 0; i < 20; i++) {
		rising[i] = i * 10 + (i % 3) * 7;
		level[i] = (i * 7 % 5);
		falling[i] = -rising[i];
	}
	assert_true(leak_trend(rising, 20) > 4);
	assert_true(leak_trend(level, 20) < 2.33 && leak_trend(level, 20) > -2.33);
	assert_true(leak_trend(falling, 20) < -4);
	double same[5] = { 3, 3, 3, 3, 3 };
	assert_true(leak_trend(same, 5) == 0);
	assert_true(leak_trend(same, 0) == 0);
}

static void survival_counts_what_is_live_for_as_long_as_it_is_old(void **state)
{
	struct sample_row row = { 0 };
	(void)state;
	row.now.life[0] = 50;    /* freed within 1 to 2 us */
	row.ages.bytes[20] = 50; /* live for seconds */
	double survives = leak_survival(&row, 1000000);
	assert_true(survives > 0.49 && survives < 0.51);
	assert_true(leak_survival(&row, 0) == 1);
}

static struct sample_row *row_of(struct samples *s)
{
	const uint32_t frames[] = { samples_frame(s, 0, 1, 1), samples_frame(s, 0, 2, 2) };
	return samples_add_row(s, 1, 77, frames, 2, 0);
}

static void epochs_keep_their_own_scale(void **state)
{
	struct err err = { 0 };
	(void)state;
	struct samples *s = samples_new(&err);
	struct sample_row *row = row_of(s);
	row->raw.count = 10;
	row->raw.bytes = 1000;
	samples_scale(s, row);
	assert_true(row->now.count == 10);
	assert_int_equal(samples_epoch(s, &err), 0);
	s->scale = 100;
	row->raw.count = 13;
	row->raw.bytes = 1300;
	samples_scale(s, row);
	assert_true(row->now.count == 310);
	assert_true(row->now.bytes == 31000);
	samples_free(s);
}

static void a_reading_for_other_formats_has_the_rows(void **state)
{
	struct err err = { 0 };
	struct prof_totals totals;
	(void)state;
	struct samples *s = samples_new(&err);
	s->tracked = 1;
	struct sample_row *row = row_of(s);
	row->raw.count = 4;
	row->raw.bytes = 400;
	row->raw.freed_count = 1;
	row->raw.freed_bytes = 100;
	samples_scale(s, row);
	samples_add_process(s, 1, "/bin/x");
	struct prof *prof = samples_prof(s, 0, &err);
	assert_non_null(prof);
	prof_totals(prof, &totals);
	assert_int_equal(totals.cost.allocations, 4);
	assert_int_equal(totals.cost.leaked_bytes, 300);
	prof_free(prof);
	row->hidden = 1;
	prof = samples_prof(s, 0, &err);
	prof_totals(prof, &totals);
	assert_int_equal(totals.cost.allocations, 0);
	prof_free(prof);
	samples_free(s);
}

static void the_threads_that_ran_most_are_kept_of_however_many(void **state)
{
	struct sampler_busy busy = { 0 };
	uint64_t sum = 0;
	(void)state;
	for (uint32_t i = 0; i < 4096; i++)
		sampler_busy_add(&busy, i + 1, (i * 2654435761u) % 4096);
	assert_int_equal(busy.count, SAMPLER_TICKS_MAX);
	for (unsigned i = 0; i < busy.count; i++)
		sum += busy.all[i].run_us;
	assert_int_equal(sum, 32 * 4096 - 32 * 33 / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_push_at_the_entry_is_taken),
		cmocka_unit_test(a_branch_behind_a_test_of_the_argument_is_taken),
		cmocka_unit_test(what_a_place_leads_to_is_known),
		cmocka_unit_test(nothing_is_taken_behind_a_lost_argument),
		cmocka_unit_test(nothing_is_taken_where_the_return_address_is_not_on_top),
		cmocka_unit_test(a_nop_of_five_bytes_is_never_chosen),
		cmocka_unit_test(a_loop_back_to_the_head_is_not_counted_twice),
		cmocka_unit_test(calls_and_jumps_out_are_edges),
		cmocka_unit_test(chances_grow_with_size_and_reach_certainty),
		cmocka_unit_test(a_trend_is_one_only_where_values_rise),
		cmocka_unit_test(survival_counts_what_is_live_for_as_long_as_it_is_old),
		cmocka_unit_test(edges_are_those_that_can_be_reached),
		cmocka_unit_test(epochs_keep_their_own_scale),
		cmocka_unit_test(a_reading_for_other_formats_has_the_rows),
		cmocka_unit_test(the_threads_that_ran_most_are_kept_of_however_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
