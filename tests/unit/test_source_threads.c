/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "heap_fixture.h"
#include "source/heap_internal.h"

static void threads_beyond_the_first_65536_share_a_row_and_their_blocks_stay_exact(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	const uint32_t many = HEAP_THREADS_MAX + 1000;
	for (uint32_t tid = 1; tid <= many; tid++) {
		produce_thread(&f.a, tid);
		produce_alloc(&f.a, 0x1000, 8, 0);
		produce_free(&f.a, 0x1000);
		produce(&f.a, 1, word0(WIRE_THREAD_END, tid), 0, 0);
		if (tid % 4096 == 0)
			fixture_drain(&f);
	}
	/* what the last of a row's threads allocated last is not the last block of another one */
	produce_alloc(&f.a, 0x2000, 8, 0);
	produce_thread(&f.a, many + 1);
	produce_free(&f.a, 0x2000);
	/* a thread that has its row keeps it, whichever ring it comes back in, and its last block with it */
	produce_alloc(&f.a, 0x3000, 8, 0);
	produce_thread(&f.b, 7);
	produce_alloc(&f.b, 0x4000, 8, 0);
	produce_thread(&f.b, many + 2);
	fixture_drain(&f); /* a ring that is new is only seen by the first */
	fixture_drain(&f);
	produce_thread(&f.a, 7);
	produce_free(&f.a, 0x4000);
	fixture_drain(&f);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->last.thread.v, 6);
	assert_int_equal(f.books->threads, HEAP_THREADS_MAX + 1);
	assert_int_equal(f.books->thread[HEAP_THREADS_MAX - 1].tid, HEAP_THREADS_MAX);
	assert_int_equal(f.books->thread[HEAP_THREADS_MAX].tid, 0);
	assert_string_equal(f.books->thread[HEAP_THREADS_MAX].name, "(further threads)");
	assert_int_equal(f.books->temporary, many + 1);
	fixture_close(&f);
}

static void only_threads_that_live_are_asked_for_their_names(void **state)
{
	(void)state;
	struct fixture f;
	struct err err = { 0 };
	fixture_open(&f);
	source_heap_set_pid(f.heap, getpid());
	for (uint32_t i = 0; i < 1000; i++) {
		produce_thread(&f.a, 100000 + i);
		produce(&f.a, 1, word0(WIRE_THREAD_END, 100000 + i), 0, 0);
	}
	produce_thread(&f.b, (uint32_t)gettid());
	fixture_drain(&f);
	assert_int_equal(f.heap->names.thread_count, 1001);
	assert_int_equal(pthread_setname_np(pthread_self(), "renamed"), 0);
	assert_int_equal(source_heap_housekeep(f.heap, &f.books->sink, 1, &err), 0);
	assert_int_equal(f.heap->names.living_count, 1);
	uint32_t mine = f.heap->names.living[0];
	assert_int_equal(f.books->thread[mine].tid, gettid());
	assert_string_equal(f.books->thread[mine].name, "renamed");
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* Counts what came before each name of the thread. */
struct namer {
	struct sink sink;
	uint64_t events, at[4];
	uint32_t names;
	char name[4][32];
};

static int namer_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct namer *n = (struct namer *)sink;
	(void)err;
	if (def->kind != DEF_THREAD)
		return 0;
	assert_true(n->names < 4);
	n->at[n->names] = n->events;
	snprintf(n->name[n->names++], 32, "%s", def->thread.name ? def->thread.name : "-");
	return 0;
}

static int namer_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)events;
	(void)err;
	((struct namer *)sink)->events += count;
	return 0;
}

static void produce_name(struct producer *p, uint32_t tid, const char *name)
{
	uint64_t words[2] = { 0 };
	memcpy(words, name, strlen(name));
	produce(p, 3, word0(WIRE_NAME, tid), words[0], words[1]);
}

static void a_name_in_a_ring_holds_from_its_place_on(void **state)
{
	(void)state;
	struct fixture f;
	struct err err = { 0 };
	struct namer namer = { .sink = { .define = namer_define, .put = namer_put } };
	fixture_open(&f);
	source_heap_set_pid(f.heap, getpid());
	produce_thread(&f.a, (uint32_t)gettid());
	produce_name(&f.a, (uint32_t)gettid(), "first");
	for (uint64_t i = 0; i < 5; i++)
		produce_alloc(&f.a, 0x1000 + 16 * i, 8, 0);
	produce_name(&f.a, (uint32_t)gettid(), "first");
	produce_alloc(&f.a, 0x2000, 8, 0);
	produce_name(&f.a, (uint32_t)gettid(), "as long as it is");
	produce_alloc(&f.a, 0x3000, 8, 0);
	assert_true(source_heap_drain(f.heap, &namer.sink, &err) >= 0);
	/* the name that it has by now is no longer asked for */
	assert_int_equal(pthread_setname_np(pthread_self(), "much later"), 0);
	assert_int_equal(source_heap_housekeep(f.heap, &namer.sink, 1, &err), 0);
	assert_int_equal(namer.events, 7);
	assert_int_equal(namer.names, 3);
	assert_string_equal(namer.name[1], "first");
	assert_int_equal(namer.at[1], 0);
	assert_string_equal(namer.name[2], "as long as it i"); /* its last byte is a NUL */
	assert_int_equal(namer.at[2], 6);
	fixture_close(&f);
}

/* The table of nodes is the target's: what it made of it since costs a block its callers in the next file, and nothing else. */
static void a_stack_that_was_written_over_does_not_keep_another_file_from_beginning(void **state)
{
	(void)state;
	struct fixture f;
	struct err err = { 0 };
	const uint32_t node = WIRE_STOP_MAX + 1;
	fixture_open(&f);
	struct wire_node *nodes = (struct wire_node *)(f.a.base + f.a.header->nodes_off);
	nodes[node] = (struct wire_node){ .pc = 0x400100 };
	nodes[node + 1] = (struct wire_node){ .pc = 0x400200 };
	produce_thread(&f.a, (uint32_t)gettid());
	produce_alloc(&f.a, 0x1000, 8, node);
	produce_alloc(&f.a, 0x2000, 8, node + 1);
	fixture_drain(&f);
	nodes[node].parent = node + 5;
	struct books *next_file = books_new();
	assert_int_equal(source_heap_renew(f.heap, &next_file->sink, &err), 0);
	assert_int_equal(next_file->allocs, 2);
	assert_int_equal(next_file->stack[next_file->block[0].stack].stop, WIRE_STOP_NODES_FULL);
	assert_int_equal(next_file->stack[next_file->block[1].stack].stop, 0);
	assert_int_equal(next_file->wrong, 0);
	free(next_file);
	fixture_close(&f);
}

/* No sum over what lives is watched further on: a reader that meets one beyond 64 bits takes the recording for a bad one. */
static void a_ring_with_more_bytes_than_have_addresses_is_closed_and_the_other_goes_on(void **state)
{
	(void)state;
	const uint64_t huge = 1ULL << 63;
	for (int by_realloc = 0; by_realloc < 2; by_realloc++) {
		struct fixture f;
		fixture_open(&f);
		produce_thread(&f.a, 1);
		produce_thread(&f.b, 2);
		produce_alloc(&f.a, 0x1000, WIRE_SIZE_SMALL, 0);
		if (by_realloc) {
			produce(&f.a, 1, word0(WIRE_REALLOC_BEGIN, 0x1000), 0, 0);
			produce(&f.a, 3, word0(WIRE_REALLOC_END_BIG, 0x2000), 0, huge);
		} else {
			produce_alloc(&f.a, 0x2000, huge, 0);
		}
		fixture_drain(&f);
		produce_alloc(&f.b, 0x3000, 20, 0);
		fixture_finish(&f);
		assert_int_equal(f.a.slot->closed, 1);
		assert_int_equal(f.b.slot->closed, 0);
		assert_int_equal(f.books->lost_events[LOSS_RING_DAMAGED], 1);
		assert_int_equal(f.books->live_bytes, WIRE_SIZE_SMALL + 20);
		assert_int_equal(f.books->wrong, 0);
		fixture_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			threads_beyond_the_first_65536_share_a_row_and_their_blocks_stay_exact),
		cmocka_unit_test(only_threads_that_live_are_asked_for_their_names),
		cmocka_unit_test(a_name_in_a_ring_holds_from_its_place_on),
		cmocka_unit_test(
			a_stack_that_was_written_over_does_not_keep_another_file_from_beginning),
		cmocka_unit_test(
			a_ring_with_more_bytes_than_have_addresses_is_closed_and_the_other_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
