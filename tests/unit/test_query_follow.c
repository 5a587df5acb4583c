/* SPDX-License-Identifier: Apache-2.0 */
/* A recording that is followed while it is written: nothing twice, nothing left out, and the end as it was. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "model/prof.h"
#include "query/follow.h"
#include "query/recording.h"
#include "trace/trace.h"
#include "trace_folder.h"
#include "trace_stream.h"

#define LONG_NS 20000000000u

static struct trace_writer *writer_made(void)
{
	struct err err = { 0 };
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	if (!w)
		fail_msg("%s", err.msg);
	return w;
}

static struct follow *follow_made(uint64_t interval_ns)
{
	struct err err = { 0 };
	const struct follow_opt opt = { .interval_ns = interval_ns, .no_names = 1 };
	struct follow *f = follow_new(path, &opt, &err);
	if (!f)
		fail_msg("%s", err.msg);
	return f;
}

static void assert_same_sums(const struct prof *a, const struct prof *b)
{
	struct prof_totals x, y;
	prof_totals(a, &x);
	prof_totals(b, &y);
	assert_memory_equal(&x.cost, &y.cost, sizeof(x.cost));
	assert_memory_equal(x.lost, y.lost, sizeof(x.lost));
	assert_memory_equal(x.loss_reports, y.loss_reports, sizeof(x.loss_reports));
	assert_int_equal(x.foreign_frees, y.foreign_frees);
	assert_int_equal(x.stacks, y.stacks);
}

/* The first snap that has all of @prof's events. */
static struct snap *caught_up(struct follow *f, const struct prof *prof)
{
	uint64_t seen = 0;
	struct prof_totals want, have;
	struct snap *snap;
	prof_totals(prof, &want);
	while ((snap = follow_wait(f, seen, LONG_NS))) {
		prof_totals(snap_prof(snap), &have);
		if (have.cost.allocations == want.cost.allocations &&
		    have.cost.frees == want.cost.frees)
			return snap;
		seen = snap_number(snap);
		snap_unref(snap);
	}
	fail_msg("no snap has what was flushed");
	return NULL;
}

static void what_is_flushed_is_seen_while_the_writer_goes_on(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct stream s;
	struct trace_writer *w = writer_made();
	struct prof *prof = prof_new(&err);
	struct sink_tee tee;
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(w));
	sink_tee_add(&tee, prof_sink(prof));
	struct follow *f = follow_made(1000000);
	stream_init(&s, 5, 3000);
	for (int i = 0; i < 8; i++) {
		stream_run(&s, &tee.sink, 9000);
		assert_done(trace_writer_flush(w, &err), err);
		struct snap *snap = caught_up(f, prof);
		assert_same_sums(snap_prof(snap), prof);
		snap_unref(snap);
	}
	struct follow_state at;
	follow_state(f, &at);
	assert_int_equal(at.over, 0);
	assert_int_equal(at.read_bytes, at.file_bytes);
	follow_freep(&f);
	stream_fini(&s);
	assert_done(trace_writer_finish(w, NULL, &err), err);
	prof_free(prof);
}

static struct prof *chosen_by_a_replay(const struct query *query)
{
	struct err err = { 0 };
	struct recording *rec = recording_open(path, NULL, &err);
	struct prof *prof = rec ? recording_read(rec, query, &err) : NULL;
	if (!prof)
		fail_msg("%s", err.msg);
	recording_freep(&rec);
	return prof;
}

static void assert_same_stacks(const struct prof *a, const struct prof *b)
{
	struct prof_totals x, y;
	assert_same_sums(a, b);
	prof_totals(a, &x);
	prof_totals(b, &y);
	assert_int_equal(x.peak_time_ns, y.peak_time_ns);
	assert_int_equal(prof_stack_count(a), prof_stack_count(b));
	for (uint32_t i = 0; i < prof_stack_count(a); i++) {
		struct cost p, q;
		prof_stack_cost(a, (struct stack_id){ i }, &p);
		prof_stack_cost(b, (struct stack_id){ i }, &q);
		assert_memory_equal(&p, &q, sizeof(p));
	}
}

/* Asks, compares, and tells how many bytes of the file were read for it. */
static uint64_t read_for(struct follow *f, const struct query *query, uint64_t *at)
{
	struct err err = { 0 };
	struct follow_held held;
	struct follow_state before, after;
	const struct follow_want want = { .query = query };
	follow_state(f, &before);
	if (follow_hold(f, &want, &held, &err) != 1)
		fail_msg("not held: %s", err.msg);
	assert_non_null(held.chosen);
	struct prof *replayed = chosen_by_a_replay(query);
	assert_same_stacks(held.chosen, replayed);
	prof_free(replayed);
	snap_unref(held.snap);
	follow_go_on(f);
	follow_state(f, &after);
	*at = after.read_bytes;
	return after.chosen_bytes - before.chosen_bytes;
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx, (void)done, (void)total;
	return 1;
}

static void what_sizes_choose_is_read_on_and_never_again(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct stream s;
	struct trace_writer *w = writer_made();
	struct prof *prof = prof_new(&err);
	struct sink_tee tee;
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(w));
	sink_tee_add(&tee, prof_sink(prof));
	const struct follow_opt opt = { .interval_ns = 1000000, .no_names = 1, .index = 1 };
	const struct query large = { .min_size = 2000 },
			   some = { .min_size = 16, .max_size = 300, .has_max_size = 1 };
	stream_init(&s, 5, 3000);
	stream_run(&s, &tee.sink, 9000);
	assert_done(trace_writer_flush(w, &err), err);
	struct follow *f = follow_new(path, &opt, &err);
	assert_non_null(f);
	uint64_t last = 0, at = 0;
	for (int i = 0; i < 6; i++) {
		snap_unref(caught_up(f, prof));
		if (!i) { /* who goes leaves nothing half: the next one reads on */
			struct follow_held held;
			const struct follow_want want = { .query = &large,
							  .patience = { stop_at_once, NULL } };
			assert_int_equal(follow_hold(f, &want, &held, &err), -ECANCELED);
			err_init(&err);
		}
		uint64_t bytes = read_for(f, &large, &at);
		assert_true(i ? bytes == at - last : bytes > at * 9 / 10 && bytes <= at);
		assert_int_equal(read_for(f, &large, &at), 0);
		bytes = read_for(f, &some, &at);
		assert_true(i ? bytes == at - last : bytes > at * 9 / 10 && bytes <= at);
		last = at;
		stream_run(&s, &tee.sink, 9000);
		assert_done(trace_writer_flush(w, &err), err);
	}
	/* the one that was asked for longest ago makes room for a third */
	snap_unref(caught_up(f, prof));
	read_for(f, &large, &at);
	assert_true(read_for(f, &(struct query){ .min_size = 5 }, &at) > at * 9 / 10);
	assert_int_equal(read_for(f, &large, &at), 0);
	assert_true(read_for(f, &some, &at) > at * 9 / 10);
	/* lifetimes are known at the end: nothing is kept of them */
	assert_false(chosen_can(&(struct query){ .min_size = 5, .has_lifetime_min = 1 }));
	assert_false(chosen_can(&(struct query){ 0 }));
	follow_freep(&f);
	stream_fini(&s);
	assert_done(trace_writer_finish(w, NULL, &err), err);
	prof_free(prof);
}

static struct snap *last_of(struct follow *f)
{
	uint64_t seen = 0;
	struct snap *snap = NULL, *next;
	while ((next = follow_wait(f, seen, LONG_NS))) {
		snap_unref(snap);
		snap = next;
		seen = snap_number(snap);
	}
	assert_non_null(snap);
	return snap;
}

static void its_end_is_the_reading_of_the_finished_file(void **state)
{
	(void)state;
	for (int killed = 0; killed < 2; killed++) {
		struct err err = { 0 };
		struct stream s;
		struct def def = { .kind = DEF_PROCESS, .process = { .ended = 1, .complete = 1 } };
		unlink(path);
		struct trace_writer *w = writer_made();
		struct follow *f = follow_made(1000000);
		stream_init(&s, 6, 3000);
		stream_run(&s, trace_writer_sink(w), 50000);
		stream_define(&s, trace_writer_sink(w), &def);
		if (killed) {
			stream_define(&s, trace_writer_sink(w),
				      &(struct def){ .kind = DEF_PROCESS });
			assert_done(trace_writer_flush(w, &err), err);
			trace_writer_freep(&w);
		} else {
			assert_done(trace_writer_finish(w, NULL, &err), err);
		}
		struct snap *snap = last_of(f);
		struct follow_state at;
		follow_state(f, &at);
		assert_int_equal(at.over, 1);
		assert_int_equal(at.err.code, 0);
		struct recording *rec = recording_open(path, NULL, &err);
		struct prof *prof = rec ? recording_read(rec, NULL, &err) : NULL;
		if (!prof)
			fail_msg("%s", err.msg);
		assert_same_sums(snap_prof(snap), prof);
		struct prof_totals totals;
		prof_totals(prof, &totals);
		assert_int_equal(totals.loss_reports[LOSS_RECORDER_DIED], killed);
		prof_free(prof);
		recording_freep(&rec);
		follow_freep(&f);
		snap_unref(snap);
		stream_fini(&s);
	}
}

/* Half a block at the end: it is waited for, and no damage; then the rest comes. */
static void a_block_that_is_half_written_is_waited_for(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct stream s;
	char whole[sizeof(path) + 8];
	struct trace_writer *w = writer_made();
	stream_init(&s, 8, 3000);
	stream_run(&s, trace_writer_sink(w), 30000);
	assert_done(trace_writer_finish(w, NULL, &err), err);
	stream_fini(&s);
	snprintf(whole, sizeof(whole), "%s.all", path);
	assert_int_equal(rename(path, whole), 0);
	int from = open(whole, O_RDONLY), to = open(path, O_WRONLY | O_CREAT, 0600);
	struct stat st;
	assert_true(from >= 0 && to >= 0 && fstat(from, &st) == 0);
	static char bytes[64 << 20];
	assert_int_equal(read(from, bytes, sizeof(bytes)), st.st_size);
	assert_int_equal(write(to, bytes, 4096), 4096);
	struct prof *prof = prof_new(&err);
	struct trace_follow *f = trace_follow_new(path, prof_sink(prof), &err);
	if (!f)
		fail_msg("%s", err.msg);
	/* by whom the file is written is told by its lock: hold it as a writer does */
	assert_int_equal(flock(to, LOCK_EX), 0);
	struct trace_follow_state at;
	for (off_t done = 4096; done < st.st_size;) {
		off_t step = st.st_size - done < 3001 ? st.st_size - done : 3001;
		assert_int_equal(pwrite(to, bytes + done, (size_t)step, done), step);
		done += step;
		while (trace_follow_drain(f, &err) > 0)
			;
		trace_follow_state(f, &at);
		assert_int_equal(err.code, 0);
		assert_int_equal(at.damaged_blocks, 0);
		assert_int_equal(at.over, 0);
	}
	assert_int_equal(at.read_bytes, st.st_size);
	close(to);
	assert_true(trace_follow_drain(f, &err) >= 0);
	trace_follow_state(f, &at);
	assert_int_equal(at.over, 1);
	struct recording *rec = recording_open(whole, NULL, &err);
	struct prof *read = recording_read(rec, NULL, &err);
	assert_non_null(read);
	struct prof_totals x, y;
	prof_totals(read, &x);
	prof_totals(prof, &y);
	assert_memory_equal(&x.cost, &y.cost, sizeof(x.cost));
	prof_free(read);
	recording_freep(&rec);
	trace_follow_freep(&f);
	prof_free(prof);
	close(from);
}

static void damage_is_passed_over_and_counted(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct stream s;
	struct trace_writer *w = writer_made();
	stream_init(&s, 9, 3000);
	for (int i = 0; i < 6; i++) {
		stream_run(&s, trace_writer_sink(w), 20000);
		assert_done(trace_writer_flush(w, &err), err);
	}
	assert_done(trace_writer_finish(w, NULL, &err), err);
	stream_fini(&s);
	struct stat st;
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	for (off_t at = st.st_size / 3; at < st.st_size / 2; at += 7)
		assert_int_equal(pwrite(fd, "?", 1, at), 1);
	close(fd);
	struct follow *f = follow_made(1000000);
	struct snap *snap = last_of(f);
	struct follow_state at;
	follow_state(f, &at);
	assert_int_equal(at.err.code, 0);
	assert_true(at.damaged_blocks > 0);
	struct recording *rec = recording_open(path, NULL, &err);
	struct prof *prof = prof_new(&err);
	assert_done(recording_run(rec, prof_sink(prof), &err), err);
	assert_same_sums(snap_prof(snap), prof);
	prof_free(prof);
	recording_freep(&rec);
	follow_freep(&f);
	snap_unref(snap);
}

static void other_files_are_refused(void **state)
{
	(void)state;
	struct err err = { 0 };
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "v 10100 3\n", 10), 10);
	close(fd);
	assert_null(follow_new(path, NULL, &err));
	assert_int_equal(err.code, -EINVAL);
	assert_true(err.hint[0] != 0);
	unlink(path);
	assert_null(follow_new(path, NULL, &err));
	assert_int_equal(err.code, -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_flushed_is_seen_while_the_writer_goes_on,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_sizes_choose_is_read_on_and_never_again,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(its_end_is_the_reading_of_the_finished_file, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_block_that_is_half_written_is_waited_for, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(damage_is_passed_over_and_counted, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(other_files_are_refused, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
