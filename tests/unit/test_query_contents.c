/* SPDX-License-Identifier: Apache-2.0 */
/* What `byteledger info` says of a file: the same numbers as whoever counts what went in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "query/contents.h"
#include "trace/trace.h"
#include "trace_folder.h"
#include "trace_stream.h"

struct went {
	struct sink sink;
	uint64_t kinds[EVENT_KIND_MAX], defs[DEF_RULE + 1], lost, lost_bytes, events;
};

static int on_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)err;
	((struct went *)sink)->defs[def->kind]++;
	return 0;
}

static int on_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct went *w = (struct went *)sink;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		w->kinds[events[i].kind]++;
		if (events[i].kind != EVENT_LOST)
			continue;
		w->lost += events[i].addr + events[i].block.v;
		w->lost_bytes += events[i].bytes;
	}
	w->events += count;
	return 0;
}

static void record(struct went *went, size_t count)
{
	struct err err = { 0 };
	struct stream s;
	struct sink_tee tee;
	struct trace_writer *writer = trace_writer_new(path, NULL, &err);
	*went = (struct went){ .sink = { on_define, on_put } };
	if (!writer)
		fail_msg("%s", err.msg);
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(writer));
	sink_tee_add(&tee, &went->sink);
	stream_init(&s, 7, 5000);
	for (size_t done = 0; done < count; done += 5000) {
		stream_run(&s, &tee.sink, 5000);
		assert_done(trace_writer_flush(writer, &err), err);
	}
	stream_fini(&s);
	assert_done(trace_writer_finish(writer, NULL, &err), err);
}

static void read_back(struct contents *contents)
{
	struct err err = { 0 };
	CLEANUP(recording_freep) struct recording *recording = recording_open(path, NULL, &err);
	*contents = (struct contents){ 0 };
	if (!recording)
		fail_msg("%s", err.msg);
	assert_done(contents_read(recording, NULL, contents, &err), err);
}

static void everything_that_went_in_is_counted(void **state)
{
	(void)state;
	struct went went;
	struct contents c;
	struct stat st;
	record(&went, 100000);
	read_back(&c);
	assert_int_equal(c.kind, RECORDING_BLT);
	uint64_t lost = 0;
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		lost += c.lost[i];
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		assert_int_equal(c.kinds[i], went.kinds[i]);
	assert_int_equal(c.defs[DEF_STACK], went.defs[DEF_STACK]);
	assert_int_equal(c.defs[DEF_FRAME], went.defs[DEF_FRAME]);
	assert_int_equal(c.defs[DEF_MODULE], went.defs[DEF_MODULE]);
	assert_int_equal(lost, went.lost);
	assert_int_equal(c.lost_bytes, went.lost_bytes);
	assert_int_equal(c.file.events, went.events);
	assert_int_equal(c.file.damaged_blocks, 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(c.file.file_bytes, st.st_size);
	assert_true(c.process.known);
	assert_int_equal(c.process.pid, 4242);
	assert_string_equal(c.process.exe, "/usr/bin/prog");
	contents_fini(&c);
	assert_null(c.process.exe);
}

static void what_is_damaged_is_left_out_and_named(void **state)
{
	(void)state;
	struct went went;
	struct contents c;
	struct stat st;
	struct err err = { 0 };
	record(&went, 100000);
	FILE *file = fopen(path, "r+e");
	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	assert_int_equal(fseek(file, st.st_size / 2, SEEK_SET), 0);
	assert_int_equal(fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, file), 8);
	assert_int_equal(fclose(file), 0);
	read_back(&c);
	assert_true(c.file.damaged_blocks >= 1);
	uint64_t left = 0;
	for (unsigned i = 0; i < EVENT_KIND_MAX; i++)
		left += c.kinds[i];
	assert_true(left > 0 && left < went.events);
	assert_int_equal(contents_damaged(&c, path, &err), -EBADMSG);
	assert_non_null(strstr(err.msg, path));
	assert_non_null(strstr(err.msg, "is damaged"));
	contents_fini(&c);
}

static void a_recording_without_events_has_a_length_of_nothing(void **state)
{
	(void)state;
	struct went went;
	struct contents c;
	record(&went, 0);
	read_back(&c);
	assert_int_equal(c.file.events, 0);
	assert_int_equal(c.runtime_ns, 0);
	assert_false(c.process.known);
	assert_int_equal(c.file_count, 0);
	contents_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(everything_that_went_in_is_counted, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_is_damaged_is_left_out_and_named, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_recording_without_events_has_a_length_of_nothing,
						set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
