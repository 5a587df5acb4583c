/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_back.h"

#include <errno.h>
#include <sys/stat.h>

#include "recorder/rewrite.h"

static void write_file(struct trace_writer *w, const char *name, const char *content)
{
	struct err err = { 0 };
	const struct trace_file file = { .path = name, .bytes = strlen(content) };
	assert_done(trace_writer_attach(w, &file, content, &err), err);
}

static char told[16][256];
static size_t told_count;

static void note(void *ctx, const char *name, const char *made)
{
	(void)ctx;
	(void)name;
	assert_true(told_count < 16);
	snprintf(told[told_count++], sizeof(told[0]), "%s", made ? made : "-");
}

static void assert_file(const char *below, const char *content)
{
	char where[256], got[64] = "";
	snprintf(where, sizeof(where), "%s/out/%s", dir, below);
	FILE *file = fopen(where, "r");
	if (!file)
		fail_msg("there is no %s", where);
	got[fread(got, 1, sizeof(got) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(got, content);
}

static void nothing_is_unpacked_outside_of_the_folder(void **state)
{
	(void)state;
	struct err err = { 0 };
	char out[128], outside[128];
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	if (!w)
		fail_msg("%s", err.msg);
	write_file(w, "/etc/passwd", "one");
	write_file(w, "../../outside", "two");
	write_file(w, "a/../../../b/./c", "three");
	write_file(w, "/etc/passwd", "four");
	write_file(w, "bell\a", "five");
	assert_done(trace_writer_finish(w, NULL, &err), err);
	snprintf(out, sizeof(out), "%s/out", dir);
	snprintf(outside, sizeof(outside), "%s/outside", dir);
	told_count = 0;
	assert_done(recorder_extract(path, out, note, NULL, &err), err);
	assert_int_equal(told_count, 5);
	assert_file("etc/passwd", "one");
	assert_file("outside", "two");
	assert_file("a/b/c", "three");
	assert_file("etc/passwd.000", "four");
	assert_file("bell\a", "five");
	assert_null(strchr(told[4], '\a'));
	assert_int_equal(access(outside, F_OK), -1);
}

static void a_name_that_names_nothing_is_refused(void **state)
{
	(void)state;
	static const char *const names[] = { "/", "..", "./../." };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct err err = { 0 };
		char out[128];
		snprintf(out, sizeof(out), "%s/none", dir);
		unlink(path);
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		assert_non_null(w);
		write_file(w, names[i], "x");
		assert_done(trace_writer_finish(w, NULL, &err), err);
		told_count = 0;
		assert_int_equal(recorder_extract(path, out, note, NULL, &err), -EINVAL);
		assert_int_equal(told_count, 0);
	}
}

/** strip() - what is left of a random recording, read again; with sums of all of it. */
static struct prof *strip(const char *to, uint64_t lifetime_ns, struct rewrite_result *result)
{
	struct err err = { 0 };
	const struct rewrite_opt opt = { .strips = 1, .lifetime_ns = lifetime_ns };
	struct recording *rec = recording_open(path, NULL, &err);
	if (!rec)
		fail_msg("%s", err.msg);
	assert_done(recorder_rewrite(rec, &opt, to, result, &err), err);
	recording_freep(&rec);
	rec = recording_open(result->path, NULL, &err);
	assert_non_null(rec);
	struct prof *prof = recording_read(rec, NULL, &err);
	if (!prof)
		fail_msg("%s", err.msg);
	recording_freep(&rec);
	return prof;
}

static void totals_and_peak_of_what_was_stripped_are_those_of_all(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct err err = { 0 };
		struct stream s;
		char to[128];
		unlink(path);
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		struct prof *whole = prof_new(&err);
		assert_true(w && whole);
		struct sink_tee tee;
		sink_tee_init(&tee);
		sink_tee_add(&tee, prof_sink(whole));
		sink_tee_add(&tee, trace_writer_sink(w));
		stream_init(&s, seed, 3000);
		stream_run(&s, &tee.sink, 30000);
		stream_fini(&s);
		assert_done(trace_writer_finish(w, whole, &err), err);
		struct prof_totals all, left;
		prof_totals(whole, &all);
		/* all that was freed; what was freed soon, in the stream's own time; nothing */
		const uint64_t lifetimes[] = { UINT64_MAX, all.runtime_ns / 50, 0 };
		for (size_t i = 0; i < 3; i++) {
			struct rewrite_result result;
			snprintf(to, sizeof(to), "%s/s%zu.blt", dir, i);
			struct prof *prof = strip(to, lifetimes[i], &result);
			prof_totals(prof, &left);
			assert_int_equal(left.cost.allocations, all.cost.allocations);
			assert_int_equal(left.cost.allocated_bytes, all.cost.allocated_bytes);
			assert_int_equal(left.cost.frees, all.cost.frees);
			assert_int_equal(left.cost.temporary, all.cost.temporary);
			assert_int_equal(left.cost.leaked_bytes, all.cost.leaked_bytes);
			assert_int_equal(left.cost.peak_bytes, all.cost.peak_bytes);
			assert_int_equal(left.cost.peak_blocks, all.cost.peak_blocks);
			assert_int_equal(left.peak_time_ns, all.peak_time_ns);
			assert_int_equal(left.culled_allocations, result.left_out_allocations);
			if (i == 2)
				assert_int_equal(result.left_out_allocations, 0);
			else
				assert_true(result.left_out_allocations > 0);
			unlink(result.path);
			free(result.path);
			prof_free(prof);
		}
		prof_free(whole);
	}
}

static void a_block_whose_free_nobody_saw_is_not_stripped(void **state)
{
	(void)state;
	struct err err = { 0 };
	char to[128];
	unlink(path);
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	assert_non_null(w);
	struct sink *sink = trace_writer_sink(w);
	const struct def defs[] = {
		{ .kind = DEF_THREAD, .id = 0, .thread = { .tid = 100 } },
		{ .kind = DEF_FRAME, .id = 1, .frame = { .offset = 16 } },
		{ .kind = DEF_STACK, .id = 1, .stack = { .frame = { 1 } } },
	};
	for (size_t i = 0; i < sizeof(defs) / sizeof(defs[0]); i++)
		assert_done(sink->define(sink, &defs[i], &err), err);
	const struct event lost = {
		.kind = EVENT_LOST, .value = LOSS_RING_FULL, .addr = 1, .block.v = 1
	};
	const struct event block = { .kind = EVENT_ALLOC,
				     .time_ns = 1,
				     .addr = 4096,
				     .bytes = 100,
				     .stack.v = 1,
				     .block.v = 1 };
	struct event events[] = { lost, block, block, block, block };
	for (size_t i = 2; i < 5; i++)
		events[i].time_ns = i;
	events[2].kind = events[4].kind = EVENT_FREE;
	events[2].flags = EVENT_F_IMPLIED;
	assert_done(sink->put(sink, events, 5, &err), err);
	assert_done(trace_writer_finish(w, NULL, &err), err);
	struct rewrite_result result;
	snprintf(to, sizeof(to), "%s/s.blt", dir);
	struct prof *prof = strip(to, UINT64_MAX, &result);
	struct prof_totals left;
	prof_totals(prof, &left);
	assert_int_equal(result.left_out_allocations, 1);
	assert_int_equal(left.cost.allocations, 2);
	assert_int_equal(left.cost.frees, 1);
	unlink(result.path);
	free(result.path);
	prof_free(prof);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_unpacked_outside_of_the_folder),
		cmocka_unit_test(a_name_that_names_nothing_is_refused),
		cmocka_unit_test(a_block_whose_free_nobody_saw_is_not_stripped),
		cmocka_unit_test(totals_and_peak_of_what_was_stripped_are_those_of_all),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
