/* SPDX-License-Identifier: Apache-2.0 */
/* The index of slices: whatever is asked of it is what a replay tells, stack by stack. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "query/follow.h"
#include "query/recording.h"
#include "query/slices.h"
#include "trace/trace.h"
#include "trace_stream.h"

#define STACKS 300
#define LIVE 4000
#define MS 1000000ull

static char path[] = "/tmp/byteledger-slices-XXXXXX";

/* Of a recording that is still being written: its index reads what it replays by this, and somebody looks where a flush was. */
static const struct query_source *held_source;
static void (*on_flush)(uint64_t events);

/* Random, plain: what is freed lived, sizes from 0 on; some blocks stay, some frees are temporary, a few of them late. */
static void write_recording(uint64_t seed, uint64_t events)
{
	struct err err = { 0 };
	struct stream s;
	struct sink_tee tee;
	static struct event block[LIVE];
	static uint32_t spare[LIVE], live[LIVE];
	uint32_t spare_count = 0, live_count = 0, made = UINT32_MAX, slow = UINT32_MAX;
	unlink(path);
	struct trace_writer *writer = trace_writer_new(path, NULL, &err);
	struct prof *prof = prof_new(&err);
	assert_non_null(writer);
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(writer));
	sink_tee_add(&tee, prof_sink(prof));
	stream_init(&s, seed, 16);
	stream_start(&s, &tee.sink);
	while (s.stacks < STACKS)
		stream_more_defs(&s, &tee.sink);
	for (uint32_t i = LIVE; i--;)
		spare[spare_count++] = i;
	for (uint64_t i = 0; i < events; i++) {
		uint64_t dice = stream_random(&s);
		struct event e = { 0 };
		if (i % 70001 == 60000 && slow != UINT32_MAX) {
			/* of a thread that did nothing meanwhile */
			e = block[slow];
			e.kind = EVENT_FREE;
			e.flags = EVENT_F_TEMPORARY;
			spare[spare_count++] = slow;
			slow = UINT32_MAX;
		} else if (!spare_count || (live_count && dice % 1000 < 495)) {
			uint32_t at = dice >> 20 & 3 ? live_count - 1
						     : (uint32_t)((dice >> 24) % live_count);
			uint32_t slot = live[at];
			live[at] = live[--live_count];
			e = block[slot];
			e.kind = EVENT_FREE;
			e.flags = slot == made ? EVENT_F_TEMPORARY : 0;
			spare[spare_count++] = slot;
		} else {
			uint32_t slot = spare[--spare_count];
			e.kind = EVENT_ALLOC;
			e.addr = 0x10000 + slot * 64ull;
			e.bytes = (dice >> 32) % 16 ? (dice >> 40) % 500 : 0;
			e.stack.v = 1 + (uint32_t)((dice >> 16) % STACKS);
			e.block.v = slot;
			block[slot] = e;
			if (i % 70001 >= 1000 && i % 70001 < 60000 && slow == UINT32_MAX) {
				slow = slot;
			} else {
				live[live_count++] = slot;
				made = slot;
			}
		}
		/* many events share a time, and some blocks of the file begin within one */
		e.time_ns = i / 3000 * MS;
		assert_int_equal(tee.sink.put(&tee.sink, &e, 1, &err), 0);
		/* as a recorder does, so that key blocks come often enough here */
		if (i % 50000 == 49999) {
			assert_int_equal(trace_writer_flush(writer, &err), 0);
			if (on_flush)
				on_flush(i + 1);
		}
	}
	struct def end = { .kind = DEF_PROCESS };
	end.process.pid = 4242;
	end.process.ended = end.process.complete = 1;
	end.process.runtime_ns = events / 3000 * MS;
	stream_define(&s, &tee.sink, &end);
	stream_fini(&s);
	assert_int_equal(trace_writer_finish(writer, prof, &err), 0);
	prof_free(prof);
}

/** compare_damaged() - the same to the byte, or, where @may_be_damaged, refused: 1. */
static int compare_damaged(struct recording *rec, const struct slices *slices, const char *from,
			   const char *to, const char *at, int may_be_damaged, int sums)
{
	struct err err = { 0 };
	struct query query = { 0 };
	struct query_source source;
	struct slices_ask ask = { .to_ns = UINT64_MAX, .at_ns = UINT64_MAX, .sums = sums };
	assert_int_equal(recording_source(rec, NULL, 0, &source, &err), 0);
	if (from) {
		assert_int_equal(query_time_parse(from, &query.from, &err), 0);
		ask.from_ns = query.from.value;
	}
	if (to) {
		assert_int_equal(query_time_parse(to, &query.to, &err), 0);
		ask.to_ns = query.to.value;
	}
	if (at) {
		assert_int_equal(query_time_parse(at, &query.at, &err), 0);
		ask.has_at = 1;
		ask.at_ns = query.at.value;
	}
	struct prof *known = query_run(&source, &query, &err);
	assert_non_null(known);
	uint32_t stacks = slices_stacks(slices), rows = prof_stack_count(known);
	struct cost *costs = calloc(rows + 1, sizeof(*costs));
	uint32_t *of = calloc(stacks + 1, sizeof(*of));
	for (uint32_t i = 1; i < stacks; i++)
		of[i] = prof_stack_row(known, (struct stack_id){ i }).v + 1;
	struct slices_answer answer = { .costs = costs, .account_of = of, .stack_count = stacks };
	int rc = slices_read(slices, held_source ? held_source : &source, &ask, &answer, &err);
	int refused = may_be_damaged && rc == -EBADMSG;
	if (!refused) {
		assert_string_equal(err.msg, "");
		assert_int_equal(rc, 0);
	}
	for (uint32_t i = 0; i < rows && !refused; i++) {
		struct cost c;
		prof_stack_cost(known, (struct stack_id){ i }, &c);
		if (sums && !at) /* what was not asked for stays 0 */
			c.temporary = c.peak_bytes = c.peak_blocks = 0;
		if (memcmp(&c, &costs[i], sizeof(c)) == 0)
			continue;
		print_message("%s to %s at %s: row %u: allocations %lu %lu bytes %lu %lu frees %lu "
			      "%lu temporary %lu %lu leaked %lu %lu peak %lu %lu blocks %lu %lu\n",
			      from ? from : "-", to ? to : "-", at ? at : "-", i, c.allocations,
			      costs[i].allocations, c.allocated_bytes, costs[i].allocated_bytes,
			      c.frees, costs[i].frees, c.temporary, costs[i].temporary, c.leaked,
			      costs[i].leaked, c.peak_bytes, costs[i].peak_bytes, c.peak_blocks,
			      costs[i].peak_blocks);
		fail();
	}
	free(costs);
	free(of);
	prof_free(known);
	return refused;
}

static void compare(struct recording *rec, const struct slices *slices, const char *from,
		    const char *to, const char *at)
{
	compare_damaged(rec, slices, from, to, at, 0, 1);
	compare_damaged(rec, slices, from, to, at, 0, 0);
}

static void any_moment_and_range_is_what_a_replay_tells(void **state)
{
	(void)state;
	struct err err = { 0 };
	for (uint64_t seed = 1; seed <= 1; seed++) {
		write_recording(seed, 1000000);
		struct recording *rec = recording_open(path, NULL, &err);
		struct query_source source;
		struct slices *slices = NULL;
		assert_non_null(rec);
		assert_int_equal(recording_source(rec, NULL, 0, &source, &err), 0);
		assert_int_equal(slices_build(&source, 0, &slices, &err), 0);
		assert_non_null(slices);
		assert_true(slices_count(slices) >= 3);
		assert_int_equal(slices_events(slices), 1000000);
		compare(rec, slices, NULL, NULL, "0ms");
		compare(rec, slices, NULL, NULL, "333ms");
		compare(rec, slices, "0ms", "333ms", NULL);
		compare(rec, slices, "111ms", "111ms", NULL);
		for (unsigned i = 0; i < 5; i++) {
			char from[16], to[16];
			unsigned a = (unsigned)(i * 97 + seed * 31) % 330,
				 b = a + (i * i * 17) % (334 - a);
			snprintf(from, sizeof(from), "%ums", a);
			snprintf(to, sizeof(to), "%ums", b);
			compare(rec, slices, NULL, NULL, from);
			compare(rec, slices, from, to, NULL);
			compare(rec, slices, from, to, to);
			compare(rec, slices, from, NULL, NULL);
			compare(rec, slices, NULL, to, NULL);
		}
		slices_free(slices);
		recording_freep(&rec);
	}
}

static struct follow *followed;
static struct follow_held held; /* while it holds */
static int holds;

static void let_go(void)
{
	if (!holds)
		return;
	holds = 0;
	held_source = NULL;
	snap_unref(held.snap);
	follow_go_on(followed);
}

/* A test that failed leaves its file, its follower and what it held: the next one has its own. */
static int leave_nothing(void **state)
{
	(void)state;
	on_flush = NULL;
	let_go();
	follow_freep(&followed);
	unlink(path);
	return 0;
}

/** hold_all() - the reading of @events, which were flushed. */
static void hold_all(uint64_t events)
{
	struct err err = { 0 };
	struct prof_totals totals;
	for (uint64_t seen = 0;;) {
		int rc = follow_hold(followed, &(struct follow_want){ 0 }, &held, &err);
		holds = rc > 0;
		assert_string_equal(err.msg, "");
		if (rc == 0) { /* nothing came yet */
			snap_unref(follow_wait(followed, seen, 20000000000ull));
			continue;
		}
		prof_totals(snap_prof(held.snap), &totals);
		if (totals.cost.allocations + totals.cost.frees == events)
			return;
		seen = snap_number(held.snap);
		let_go();
		struct snap *next = follow_wait(followed, seen, 20000000000ull);
		assert_non_null(next);
		snap_unref(next);
	}
}

static void compare_grown(uint64_t events)
{
	struct err err = { 0 };
	if (!followed) {
		const struct follow_opt opt = { .interval_ns = MS, .no_names = 1, .index = 1 };
		followed = follow_new(path, &opt, &err);
		assert_non_null(followed);
	}
	if (events % 200000)
		return;
	char from[16], to[16];
	uint64_t ms = events / 3000;
	snprintf(from, sizeof(from), "%ums", (unsigned)(ms * 3 / 10));
	snprintf(to, sizeof(to), "%ums", (unsigned)(ms * 8 / 10));
	hold_all(events);
	struct recording *rec = recording_open(path, NULL, &err);
	assert_non_null(rec);
	held_source = &held.source;
	assert_int_equal(slices_events(held.slices), events);
	compare(rec, held.slices, NULL, NULL, from);
	compare(rec, held.slices, from, to, NULL);
	compare(rec, held.slices, from, NULL, to);
	compare(rec, held.slices, from, NULL, NULL);
	recording_freep(&rec);
	let_go();
}

static void an_index_that_grows_tells_what_a_replay_of_the_file_by_then_tells(void **state)
{
	(void)state;
	on_flush = compare_grown;
	write_recording(3, 900000);
	assert_non_null(followed);
}

static void an_index_in_a_file_is_the_same_and_a_damaged_one_never_answers(void **state)
{
	(void)state;
	struct err err = { 0 };
	char file[] = "/tmp/byteledger-slices-file-XXXXXX";
	close(mkstemp(file));
	write_recording(3, 700000);
	struct recording *rec = recording_open(path, NULL, &err);
	struct query_source source;
	struct slices *made = NULL, *loaded = NULL;
	assert_int_equal(recording_source(rec, NULL, 0, &source, &err), 0);
	assert_int_equal(slices_build(&source, 0, &made, &err), 0);
	assert_int_equal(slices_save(made, file, 77, &err), 0);
	assert_int_equal(slices_load(file, 78, &loaded, &err), -ENOENT);
	assert_int_equal(slices_load(file, 77, &loaded, &err), 0);
	err_init(&err);
	compare(rec, loaded, "50ms", "200ms", NULL);
	compare(rec, loaded, NULL, NULL, "121ms");
	slices_free(loaded);
	loaded = NULL;
	FILE *f = fopen(file, "r+");
	fseek(f, 0, SEEK_END);
	long size = ftell(f);
	int none = 0, refused = 0;
	for (long at = 16; at < size; at += size / 31) {
		fseek(f, at, SEEK_SET);
		int byte = fgetc(f);
		fseek(f, at, SEEK_SET);
		fputc(byte ^ 0x41, f);
		fflush(f);
		/* all but the rows of blocks is looked at at once, and these where a question needs them */
		if (slices_load(file, 77, &loaded, &err) == 0) {
			refused += compare_damaged(rec, loaded, "1ms", "200ms", NULL, 1, 0);
			slices_free(loaded);
			loaded = NULL;
		} else {
			none++;
		}
		err_init(&err);
		fseek(f, at, SEEK_SET);
		fputc(byte, f);
		fflush(f);
	}
	assert_true(none > 0 && refused > 0);
	assert_int_equal(ftruncate(fileno(f), size - 8), 0);
	assert_int_equal(slices_load(file, 77, &loaded, &err), -ENOENT);
	fclose(f);
	unlink(file);
	slices_free(made);
	recording_freep(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(any_moment_and_range_is_what_a_replay_tells,
					  leave_nothing),
		cmocka_unit_test_teardown(
			an_index_that_grows_tells_what_a_replay_of_the_file_by_then_tells,
			leave_nothing),
		cmocka_unit_test_teardown(
			an_index_in_a_file_is_the_same_and_a_damaged_one_never_answers,
			leave_nothing),
	};
	close(mkstemp(path));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
