/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lives at a moment, straight out of the reader's table: the same as a replay says, of whole files and damaged ones, and whether
 * what happened next is counted, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/huge.h"
#include "model/instant.h"
#include "model/prof.h"
#include "trace/trace.h"
#include "trace_back.h"

static void record(uint64_t seed, size_t count)
{
	struct err err = { 0 };
	struct stream s;
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	if (!w)
		fail_msg("%s", err.msg);
	stream_init(&s, seed, 5000);
	for (size_t done = 0; done < count; done += 5000) {
		stream_run(&s, trace_writer_sink(w), 5000);
		assert_done(trace_writer_flush(w, &err), err);
	}
	stream_fini(&s);
	assert_done(trace_writer_finish(w, NULL, &err), err);
}

/* The naive way: a table by block number. */
static size_t replayed(const struct copy *copy, uint64_t until_ns, struct sheet_block **out,
		       size_t *others)
{
	uint32_t max = 0;
	size_t kept = 0;
	for (size_t i = 0; i < copy->count; i++)
		if (copy->events[i].kind == EVENT_ALLOC && copy->events[i].block.v > max)
			max = copy->events[i].block.v;
	struct sheet_block *table = calloc((size_t)max + 1, sizeof(*table));
	uint8_t *lives = calloc((size_t)max + 1, 1);
	assert_true(table && lives);
	*others = 0;
	for (size_t i = 0; i < copy->count && copy->events[i].time_ns <= until_ns; i++) {
		const struct event *e = &copy->events[i];
		if (e->kind == EVENT_ALLOC) {
			table[e->block.v] =
				(struct sheet_block){ e->addr, e->bytes, e->stack.v,
						      (uint32_t)(e->time_ns / 1000000u) };
			lives[e->block.v] = 1;
		} else if (e->kind == EVENT_FREE) {
			lives[e->block.v] = 0;
		} else {
			++*others;
		}
	}
	for (uint32_t i = 0; i <= max; i++)
		if (lives[i])
			table[kept++] = table[i];
	free(lives);
	*out = table;
	return kept;
}

static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct sheet_block));
}

static void compare_at(const struct copy *copy, uint64_t until_ns, uint64_t beyond_ns)
{
	struct err err = { 0 };
	struct trace_living living = { .beyond_ns = beyond_ns };
	struct sheet_block *known;
	struct copy rest;
	size_t others, blocks = 0, count = replayed(copy, until_ns, &known, &others);
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, &err);
	assert_non_null(reader);
	copy_init(&rest);
	assert_done(trace_reader_living(reader, &rest.sink, until_ns, &living, &err), err);
	for (size_t i = 0; i < rest.count; i++)
		blocks += rest.events[i].kind == EVENT_ALLOC || rest.events[i].kind == EVENT_FREE;
	assert_int_equal(blocks, 0);
	assert_int_equal(rest.count, others);
	assert_int_equal(living.count, count);
	if (count) { /* where nothing lives there is no table */
		qsort(known, count, sizeof(*known), by_address);
		qsort(living.blocks, living.count, sizeof(*living.blocks), by_address);
		assert_memory_equal(known, living.blocks, count * sizeof(*known));
	}
	if (beyond_ns) {
		uint64_t made = 0, freed = 0;
		for (size_t i = 0; i < copy->count; i++) {
			const struct event *e = &copy->events[i];
			if (e->time_ns <= until_ns || e->time_ns > until_ns + beyond_ns)
				continue;
			made += e->kind == EVENT_ALLOC ? e->bytes : 0;
			freed += e->kind == EVENT_FREE ? e->bytes : 0;
		}
		assert_true(living.has_sums);
		assert_int_equal(living.allocated_bytes, made);
		assert_int_equal(living.freed_bytes, freed);
	}
	free(known);
	huge_free(living.blocks, living.room_bytes);
	copy_fini(&rest);
}

static void read_all(struct copy *copy)
{
	struct err err = { 0 };
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, &err);
	assert_non_null(reader);
	copy_init(copy);
	assert_done(trace_reader_run(reader, &copy->sink, NULL, &err), err);
}

static void at_each_moment(const struct copy *copy)
{
	uint64_t whole = copy->events[copy->count - 1].time_ns;
	compare_at(copy, 0, 0);
	compare_at(copy, 0, whole);
	compare_at(copy, UINT64_MAX, 0);
	compare_at(copy, whole, 1);
	for (size_t i = 1; i < 40; i++) {
		uint64_t ns = copy->events[copy->count * i / 40].time_ns;
		compare_at(copy, ns, 0);
		compare_at(copy, ns, whole / 50);
		compare_at(copy, ns ? ns - 1 : 0, whole / 3);
	}
}

static void what_lives_at_a_moment_is_what_a_replay_says(void **state)
{
	(void)state;
	struct copy copy;
	record(1, 200000);
	read_all(&copy);
	at_each_moment(&copy);
	copy_fini(&copy);
	unlink(path);
}

static void behind_damage_lives_what_a_replay_says(void **state)
{
	(void)state;
	for (unsigned part = 1; part < 8; part++) {
		struct copy copy;
		record(part, 400000);
		int fd = open(path, O_RDWR);
		assert_true(fd >= 0);
		off_t at = lseek(fd, 0, SEEK_END) * part / 8;
		assert_int_equal(pwrite(fd, "damaged", 7, at), 7);
		close(fd);
		read_all(&copy);
		compare_at(&copy, UINT64_MAX, 0);
		copy_fini(&copy);
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_lives_at_a_moment_is_what_a_replay_says),
		cmocka_unit_test(behind_damage_lives_what_a_replay_says),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
