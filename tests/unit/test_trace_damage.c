/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_damage.c - recordings without an end that are damaged: what is missing is counted as far as anything tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace_back.h"

#define BLOCK 20
#define BLOCKS 8

static void assert_at_least(const struct sums *told, const struct sums *least)
{
	assert_true(told->allocations >= least->allocations);
	assert_true(told->bytes >= least->bytes);
	assert_true(told->frees >= least->frees);
}

/* Its writer was killed, so that no index says how much there was: each block says what came before it. */
static void damage_of_a_recording_without_an_end_is_counted_up_to_its_last_block(void **state)
{
	(void)state;
	struct copy in;
	struct stream s;
	struct sink_tee tee;
	struct err err = { 0 };
	size_t len;
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	assert_non_null(w);
	copy_init(&in);
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(w));
	sink_tee_add(&tee, &in.sink);
	stream_init(&s, 11, 5000);
	for (int i = 0; i < BLOCKS; i++) {
		stream_run(&s, &tee.sink, BLOCK);
		assert_done(trace_writer_flush(w, &err), err);
	}
	stream_fini(&s);
	trace_writer_freep(&w);
	char *data = slurp(&len);
	const struct sums all = sums(&in);
	/* what is damaged may be the last block, and then its number as well */
	const struct sums least = sums_of(in.events, BLOCK * (BLOCKS - 2));
	for (size_t at = 64; at < len; at++) {
		struct copy out;
		struct trace_reader_info info;
		data[at] ^= 0x10;
		spill(data, len);
		data[at] ^= 0x10;
		read_back(&out, &info);
		assert_int_equal(info.indexed, 0);
		const struct sums told = sums(&out);
		assert_at_least(&told, &least);
		assert_at_least(&all, &told);
		copy_fini(&out);
	}
	free(data);
	copy_fini(&in);
}

static void frees_of_an_undecided_end_are_counted_where_their_blocks_are_damaged(void **state)
{
	(void)state;
	enum { FULL = 65536, KEPT = 100000, WAITING = 5000 };
	struct copy in, out;
	struct stream s;
	struct err err = { 0 };
	struct trace_reader_info info;
	size_t len;
	const struct trace_writer_opt opt = { .culling = 1 };
	struct trace_writer *w = trace_writer_new(path, &opt, &err);
	assert_non_null(w);
	struct late late = { .to = trace_writer_sink(w) };
	copy_init(&late.copy);
	late.copy.sink.define = late_define;
	copy_init(&in);
	stream_init(&s, 71, 5000);
	stream_run(&s, late.to, KEPT);
	stream_run(&s, &late.copy.sink, WAITING);
	stream_fini(&s);
	assert_done(trace_writer_flush(w, &err), err);
	struct sink *pending = trace_writer_pending(w);
	assert_non_null(pending);
	assert_done(pending->put(pending, late.copy.events, late.copy.count, &err), err);
	assert_done(trace_writer_pending_end(w, &err), err);
	trace_writer_freep(&w);
	/* the last block, of KEPT - FULL events */
	char *data = slurp(&len);
	data[len - 1000] ^= 0x10;
	spill(data, len);
	free(data);
	stream_init(&s, 71, 5000);
	stream_run(&s, &in.sink, FULL);
	stream_fini(&s);
	struct sums all = sums(&in);
	const struct sums end = sums(&late.copy);
	all.allocations += end.allocations;
	all.bytes += end.bytes;
	all.frees += end.frees;
	read_back(&out, &info);
	assert_int_equal(info.damaged_blocks, 1);
	const struct sums told = sums(&out);
	assert_same_sums(&told, &all);
	copy_fini(&late.copy);
	copy_fini(&in);
	copy_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			damage_of_a_recording_without_an_end_is_counted_up_to_its_last_block,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			frees_of_an_undecided_end_are_counted_where_their_blocks_are_damaged,
			set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
