/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_full.c - no room left: what was written stays readable, and what was not is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace_back.h"

/* Allocations, bytes and frees, by where a reader of events finds them. */
struct account {
	/* of now, inherited */
	uint64_t own[3], lost[LOSS_REASON_MAX][3], filtered[2][3];
};

static void account_add(struct account *a, const struct event *events, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		uint64_t *to = a->own, many[3] = { e->addr, e->bytes, e->block.v };
		if (e->kind == EVENT_LOST) {
			to = a->lost[e->value];
		} else if (e->kind == EVENT_CULLED) {
			many[2] = e->addr;
		} else if (e->kind == EVENT_FILTERED) {
			to = a->filtered[e->flags == EVENT_F_INHERITED];
			many[2] = e->value;
		} else {
			many[0] = e->kind == EVENT_ALLOC;
			many[1] = e->kind == EVENT_ALLOC ? e->bytes : 0;
			many[2] = e->kind == EVENT_FREE_FOREIGN ||
				  (e->kind == EVENT_FREE && !(e->flags & EVENT_F_IMPLIED));
		}
		for (int k = 0; k < 3; k++)
			to[k] += many[k];
	}
}

/* What stands for many others: some with the last events that find room, some behind them. */
static const struct event spoken[] = {
	{ .kind = EVENT_CULLED, .addr = 5, .bytes = 50, .block = { 1 } },
	{ .kind = EVENT_FILTERED, .addr = 9, .bytes = 90, .value = 4 },
	{ .kind = EVENT_FILTERED, .addr = 2, .bytes = 20, .flags = EVENT_F_INHERITED },
	{ .kind = EVENT_LOST, .value = LOSS_EARLY, .addr = 11, .bytes = 70, .block = { 3 } },
};

static void speak(struct sink *to, uint64_t time_ns)
{
	struct err err = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(spoken); i++) {
		struct event e = spoken[i];
		e.time_ns = time_ns;
		assert_done(to->put(to, &e, 1, &err), err);
	}
}

/* A disk that is full: by the limit on file size, which needs no file system of our own. */
static void a_full_disk_counts_the_rest_and_keeps_the_file_readable(void **state)
{
	(void)state;
	struct copy in, out;
	struct trace_reader_info info;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = { 0 };
		struct stream s;
		struct rlimit limit = { 1 << 20, 1 << 20 };
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(2);
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		stream_init(&s, 31, 5000);
		/* so often that the block which finds no room holds some of them, too */
		for (int i = 0; i < 40; i++) {
			stream_run(&s, trace_writer_sink(w), 10000);
			speak(trace_writer_sink(w), s.time);
		}
		if (trace_writer_flush(w, &err) != -EFBIG || !trace_writer_lost(w))
			_exit(3);
		if (trace_writer_has_room(
			    w)) /* a limit is no full disk: another file is not what was asked for */
			_exit(5);
		stream_run(&s, trace_writer_sink(w), 100000);
		_exit(trace_writer_finish(w, NULL, &err) == -EFBIG ? 0 : 4);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	struct stream s;
	copy_init(&in);
	stream_init(&s, 31, 5000);
	for (int i = 0; i < 40; i++) {
		stream_run(&s, &in.sink, 10000);
		speak(&in.sink, s.time);
	}
	stream_run(&s, &in.sink, 100000);
	stream_fini(&s);
	read_back(&out, &info);
	assert_int_equal(info.indexed, 1);
	assert_true(out.count > 10000 && out.count < 400000);
	/* behind the last whole block: what others lost, what a filter left out, what found no room */
	const size_t kept = out.count - LOSS_SECCOMP - 3;
	assert_same_events(&in, &out, kept);
	for (size_t i = kept; i < out.count; i++)
		assert_int_equal(out.events[i].kind, i == out.count - 3 || i == out.count - 2
							     ? EVENT_FILTERED
							     : EVENT_LOST);
	assert_int_equal(out.events[out.count - 1].value, LOSS_WRITE_FAILED);
	struct account did = { 0 }, told = { 0 };
	account_add(&did, in.events, in.count);
	account_add(&told, out.events, out.count);
	for (int k = 0; k < 3; k++) {
		assert_true(told.lost[LOSS_WRITE_FAILED][k] > 0);
		assert_int_equal(did.own[k], told.own[k] + told.lost[LOSS_WRITE_FAILED][k]);
		assert_int_equal(did.filtered[0][k], told.filtered[0][k]);
		assert_int_equal(did.filtered[1][k], told.filtered[1][k]);
		for (int i = 0; i < LOSS_SECCOMP; i++)
			assert_int_equal(did.lost[i][k], told.lost[i][k]);
	}
	copy_fini(&in);
	copy_fini(&out);
}

static void where_a_summary_finds_no_room_the_index_is_written_all_the_same(void **state)
{
	(void)state;
	struct copy out;
	struct trace_reader_info info;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = { 0 };
		struct stream s;
		struct sink_tee tee;
		struct prof *prof = prof_new(&err);
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		sink_tee_init(&tee);
		sink_tee_add(&tee, prof_sink(prof));
		sink_tee_add(&tee, trace_writer_sink(w));
		stream_init(&s, 31, 5000);
		stream_run(&s, &tee.sink, 70000);
		if (trace_writer_flush(w, &err) < 0)
			_exit(2);
		struct rlimit limit = { trace_writer_bytes(w) + 1000, RLIM_INFINITY };
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(3);
		_exit(trace_writer_finish(w, prof, &err) == -EFBIG ? 0 : 4);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	read_back(&out, &info);
	assert_int_equal(info.has_summary, 0);
	assert_int_equal(info.indexed, 1);
	assert_int_equal(out.count, 70000);
	copy_fini(&out);
}

static void the_floor_of_free_space_is_kept(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct trace_writer_opt opt = { .min_free_bytes = 1ULL << 60 };
	/* not even the first block fits above such a floor */
	assert_null(trace_writer_new(path, &opt, &err));
	assert_int_equal(err.code, -ENOSPC);
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_full_disk_counts_the_rest_and_keeps_the_file_readable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			where_a_summary_finds_no_room_the_index_is_written_all_the_same, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(the_floor_of_free_space_is_kept, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
