/* SPDX-License-Identifier: Apache-2.0 */
/* The histogram of a stack, byte by byte. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/prof.h"
#include "model/samples.h"
#include "out/sample.h"
#include "out/sample_impl.h"

#define HEAD                                                   \
	"Size       | Count     | Percentage | Distribution\n" \
	"-----------+-----------+------------+-------------\n"
#define BAR50 "##################################################"

static void check(const uint64_t *sizes, size_t count, const char *expected)
{
	double size[SAMPLES_SIZES] = { 0 }, bytes = 0;
	struct buf text = { 0 };
	for (size_t i = 0; i < count; i++) {
		size[sizes[i] ? 63 - __builtin_clzll(sizes[i]) : 0]++;
		bytes += (double)sizes[i];
	}
	sample_histogram(&text, size, bytes, (double)count, 0);
	assert_string_equal(buf_cstr(&text), expected);
	buf_fini(&text);
}

static void bars_fit_a_terminal(void **state)
{
	double size[SAMPLES_SIZES] = { 1, 2 };
	struct buf text = { 0 };
	(void)state;
	sample_histogram(&text, size, 3, 3, 80);
	for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1)
		assert_true(end - line <= 80);
	assert_non_null(
		strstr(buf_cstr(&text), "66.67% | #########################################\n"));
	buf_fini(&text);
}

static void nothing_is_a_head_and_a_sum(void **state)
{
	(void)state;
	check(NULL, 0, HEAD "Total allocations: 0 B in 0 allocations\n");
}

static void one_byte_is_a_full_bar(void **state)
{
	const uint64_t sizes[] = { 1 };
	(void)state;
	check(sizes, 1,
	      HEAD "1 B        | 1         |    100.00% | " BAR50
		   "\nTotal allocations: 1 B in 1 allocations\n");
}

static void sizes_stand_at_their_lower_power_of_two(void **state)
{
	const uint64_t sizes[] = { 1, 512, 1026 };
	(void)state;
	check(sizes, 3,
	      HEAD "1 B        | 1         |     33.33% | " BAR50
		   "\n512 B      | 1         |     33.33% | " BAR50
		   "\n1.0 kiB    | 1         |     33.33% | " BAR50
		   "\nTotal allocations: 1.5 kiB in 3 allocations\n");
}

static void large_sizes_have_larger_units(void **state)
{
	const uint64_t sizes[] = { 1 << 20, 1 << 30 };
	(void)state;
	check(sizes, 2,
	      HEAD "1.0 MiB    | 1         |     50.00% | " BAR50
		   "\n1.0 GiB    | 1         |     50.00% | " BAR50
		   "\nTotal allocations: 1.0 GiB in 2 allocations\n");
}

static void bars_are_measured_by_the_fullest(void **state)
{
	uint64_t sizes[1001];
	(void)state;
	for (int i = 0; i < 1000; i++)
		sizes[i] = 1;
	sizes[1000] = 1023;
	check(sizes, 1001,
	      HEAD "1 B        | 1000      |     99.90% | " BAR50
		   "\n512 B      | 1         |      0.10% | "
		   "\nTotal allocations: 2.0 kiB in 1001 allocations\n");
}

/* What is said of @rows stacks of which @top are shown, and what the budget left out. */
static char *text_of(uint32_t rows, uint32_t top, int has_live, const char *governed)
{
	struct err err = { 0 };
	struct samples *s = samples_new(&err);
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	samples_add_process(s, 1, "/bin/x");
	for (uint32_t i = 0; i < rows; i++) {
		const uint32_t frames[] = { samples_frame(s, 0, 1, 1),
					    samples_frame(s, 0, 2 + i, 2 + i) };
		struct sample_row *row = samples_add_row(s, 1, 77 + i, frames, 2, 0);
		row->raw.count = 1;
		row->raw.bytes = 100;
		row->raw.taken = 1;
		samples_scale(s, row);
	}
	snprintf(s->governed, sizeof(s->governed), "%s", governed);
	struct prof *prof = samples_prof(s, 0, &err);
	const struct out_sample_opt opt = { .top = top, .has_live = has_live };
	assert_int_equal(out_sample_text(to, s, prof, &opt, &err), 0);
	fclose(to);
	prof_free(prof);
	samples_free(s);
	return text;
}

static void one_is_not_spoken_of_as_several(void **state)
{
	(void)state;
	char *text = text_of(3, 2, 0, "");
	assert_non_null(strstr(text, "\n1 more stack (--top 0 shows all)\n"));
	free(text);
	text = text_of(4, 2, 0, "");
	assert_non_null(strstr(text, "\n2 more stacks (--top 0 shows all)\n"));
	free(text);
	text = text_of(0, 10, 1, "");
	assert_null(strstr(text, "Top 0"));
	assert_non_null(strstr(text, "] no outstanding allocations\n"));
	free(text);
}

static void a_long_sentence_fits_a_terminal(void **state)
{
	(void)state;
	char *text =
		text_of(0, 10, 0,
			"probes were in for 0.72 % of the time, to keep to the budget: figures are "
			"multiplied by what was left out, and are at least so much");
	assert_non_null(
		strstr(text, "\n  multiplied by what was left out, and are at least so much\n"));
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") < 80);
	free(text);
}

/* Four samples of 780 calls each: that many come of 11 in one of 50 times, which three errors have to reach. */
static void the_error_of_few_samples_reaches_to_more_of_them(void **state)
{
	struct err err = { 0 };
	struct sample_figures sums;
	struct samples *s = samples_new(&err);
	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct sample_row *row = samples_add_row(s, 1, 77 + i, NULL, 0, 0);
		row->raw.count = row->raw.error_count = 780;
		row->raw.bytes = row->raw.error_bytes = 780 * 650;
		row->raw.taken = 1;
		samples_scale(s, row);
	}
	sample_sums(s, 1, &sums);
	assert_true(fabs(sums.error_count / 780 - (sqrt(4.75) + 1)) < 1e-9);
	assert_true(fabs(sums.error_bytes / (780 * 650) - (sqrt(4.75) + 1)) < 1e-9);
	assert_true(sums.live_error_bytes == 0);
	/* and of many is what it was */
	for (size_t i = 0; i < s->row_count; i++) {
		s->rows[i].raw.count = 780 * 10000;
		s->rows[i].raw.error_count = 780 * 100;
		samples_scale(s, &s->rows[i]);
	}
	sample_sums(s, 1, &sums);
	assert_true(fabs(sums.error_count / (780 * 200) - 1) < 0.01);
	samples_free(s);
}

/* Windows that saw nothing do not say that there was nothing; probes that were in all of the time do. */
static void none_seen_in_windows_is_not_none(void **state)
{
	struct err err = { 0 };
	struct sample_figures sums;
	struct samples *s = samples_new(&err);
	(void)state;
	s->sample_bytes = 65536;
	sample_sums(s, 1, &sums);
	assert_true(sums.error_count == 0 && sums.error_bytes == 0);
	s->duty = 0.02;
	sample_sums(s, 1, &sums);
	assert_true(sums.count == 0 && fabs(sums.error_count - (sqrt(0.75) + 1) / 0.02) < 1e-9);
	assert_true(fabs(sums.error_bytes / sums.error_count - 256) < 1e-9);
	s->hits = 100; /* calls that were seen, of which none was taken */
	sample_sums(s, 1, &sums);
	assert_true(sums.error_count > 100 / 0.02 && sums.error_count < 115 / 0.02);
	samples_free(s);
}

/* Of windows; its error by all rows alike. */
static double told_error(double count, double error, double duty, int bounded)
{
	struct err err = { 0 };
	struct sample_figures sums;
	struct samples *s = samples_new(&err);
	s->times = s->scale = s->mean = 1;
	struct sample_row *row = samples_add_row(s, 1, 7, NULL, 0, 0);
	row->raw.count = row->raw.taken = (uint64_t)count;
	row->raw.bytes = count;
	samples_scale(s, row);
	assert_int_equal(samples_epoch(s, &err), 0);
	samples_doubt(s, error);
	s->duty = duty;
	s->bounded = bounded;
	sample_sums(s, 1, &sums);
	samples_free(s);
	return sums.error_count;
}

static void
a_figure_of_windows_that_is_less_sure_than_itself_may_be_as_many_times_too_small(void **state)
{
	(void)state;
	assert_true(fabs(told_error(1000, 900, 0.02, 0) - 900) < 1);
	assert_true(fabs(told_error(1000, 3000, 0.02, 0) - 9000) < 1);
	assert_true(fabs(told_error(1000, 3e6, 0.02, 0) - 3e7) < 10);
	assert_true(fabs(told_error(1000, 3000, 0.02, 1) - 3000) < 1);
	assert_true(fabs(told_error(1000, 3000, 1, 0) - 3000) < 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_a_head_and_a_sum),
		cmocka_unit_test(bars_fit_a_terminal),
		cmocka_unit_test(one_byte_is_a_full_bar),
		cmocka_unit_test(sizes_stand_at_their_lower_power_of_two),
		cmocka_unit_test(large_sizes_have_larger_units),
		cmocka_unit_test(bars_are_measured_by_the_fullest),
		cmocka_unit_test(one_is_not_spoken_of_as_several),
		cmocka_unit_test(a_long_sentence_fits_a_terminal),
		cmocka_unit_test(the_error_of_few_samples_reaches_to_more_of_them),
		cmocka_unit_test(none_seen_in_windows_is_not_none),
		cmocka_unit_test(
			a_figure_of_windows_that_is_less_sure_than_itself_may_be_as_many_times_too_small),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
