/* SPDX-License-Identifier: Apache-2.0 */
/* Three rings and more: which record's waiting is over, and when no ring is looked at any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "heap_fixture.h"
#include "source/heap_internal.h"

#define STAMP_NS 10000

/* A stamp @n steps behind time 0, all of which is past. */
static void produce_stamp(struct producer *p, const struct source_heap *heap, uint64_t n)
{
	uint64_t start = p->header->start_cycles, cycles = heap_cycles() - start;
	uint64_t ns = source_heap_now_ns(heap);
	uint64_t at = start + (uint64_t)((double)cycles / (double)ns * (double)(n * STAMP_NS));
	produce(p, 1, word0(WIRE_TIME, at & ((1ULL << 56) - 1)), 0, 0);
}

/*
 * A realloc waits for the free of the address that it got. That comes, and with it everything else is past the realloc, while
 * a third ring waits for something of its own: nothing is missing, and nothing may be made up.
 */
static void a_realloc_whose_wait_has_ended_frees_nothing_out_of_turn(void **state)
{
	(void)state;
	struct fixture f;
	struct producer c;
	fixture_open(&f);
	producer_open(&c, f.heap, 2);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	const uint64_t taken = 0x1000, old = 0x2000, passed = 0x3000, foreign = 0x4000;

	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	produce_alloc(&f.a, old, 16, 0);
	produce_realloc(&f.a, old, taken, 32, 0);
	produce_stamp(&f.a, f.heap, 20);

	produce_thread(&f.b, 2);
	produce_alloc(&f.b, taken, 8, 0);
	produce_stamp(&f.b, f.heap, 15);
	produce_free(&f.b, passed); /* waits for the third ring, which then waits itself */
	produce_free(&f.b, taken);
	produce_stamp(&f.b, f.heap, 80);

	produce_thread(&c, 3);
	produce_stamp(&c, f.heap, 70);
	produce_alloc(&c, passed, 8, 0);
	produce_free(&c, foreign);
	fixture_drain(&f);

	produce_stamp(&f.b, f.heap, 150);
	produce_free(&f.b, taken);
	fixture_drain(&f);
	fixture_finish(&f);
	struct source_heap_stats stats;
	source_heap_stats(f.heap, &stats);
	assert_int_equal(stats.swapped, 0);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 4);
	assert_int_equal(f.books->frees, 4);
	assert_int_equal(f.books->foreign, 1);
	assert_int_equal(f.books->live, 0);
	assert_int_equal(f.books->lost_frees, 0);
	producer_close(&c);
	fixture_close(&f);
}

/* The free of a block that nobody saw waits, its stamp being a whole stretch of small records away. */
static void a_record_at_the_beginning_of_a_stretch_waits_for_nothing_behind_it(void **state)
{
	(void)state;
	struct fixture f;
	const uint64_t block = 0x1000;
	fixture_open(&f);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	produce_free(&f.a, block);
	for (unsigned i = 1; i < WIRE_STAMP_BYTES / 8; i++)
		produce(&f.a, 1, word0(WIRE_MARK, i), 0, 0);
	produce_stamp(&f.a, f.heap, 20);
	produce_thread(&f.b, 2);
	produce_stamp(&f.b, f.heap, 30);
	produce_alloc(&f.b, block, 8, 0);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->foreign, 1);
	assert_int_equal(f.books->live, 1);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* Neither is past the other; the third ring is past both, and what it holds can end no wait of theirs. */
static void two_records_that_wait_at_one_time_wait_for_nothing_much_later(void **state)
{
	(void)state;
	struct fixture f;
	struct producer c;
	const uint64_t one = 0x1000, other = 0x2000;
	fixture_open(&f);
	producer_open(&c, f.heap, 2);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	produce_free(&f.a, one);
	produce_stamp(&f.a, f.heap, 20);
	produce_thread(&f.b, 2);
	produce_stamp(&f.b, f.heap, 12);
	produce_free(&f.b, other);
	produce_stamp(&f.b, f.heap, 22);
	produce_thread(&c, 3);
	produce_stamp(&c, f.heap, 30);
	produce_alloc(&c, one, 8, 0);
	produce_alloc(&c, other, 8, 0);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->foreign, 2);
	assert_int_equal(f.books->live, 2);
	assert_int_equal(f.books->wrong, 0);
	producer_close(&c);
	fixture_close(&f);
}

/* What an allocation waits for stands behind a record that has only just begun to wait, and does so in vain. */
static void a_wait_is_not_given_up_for_a_ring_that_has_just_begun_to_wait(void **state)
{
	(void)state;
	struct fixture f;
	struct producer c;
	struct source_heap_stats stats;
	const uint64_t block = 0x1000, foreign = 0x2000, stranger = 0x3000;
	fixture_open(&f);
	producer_open(&c, f.heap, 2);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	produce_alloc(&f.a, block, 16, 0); /* before which stamp is not known yet */
	produce_thread(&f.b, 2);
	produce_alloc(&f.b, block, 8, 0);
	produce_stamp(&f.b, f.heap, 40);
	produce_free(&f.b, foreign);
	produce_free(&f.b, block);
	produce_thread(&c, 3);
	produce_stamp(&c, f.heap, 20);
	produce_free(&c, stranger); /* for its sake the heads are read again, between the two */
	produce_stamp(&c, f.heap, 30);
	fixture_drain(&f);
	fixture_finish(&f);
	source_heap_stats(f.heap, &stats);
	assert_int_equal(stats.swapped, 0);
	assert_int_equal(f.books->foreign, 2);
	assert_int_equal(f.books->frees, 1);
	assert_int_equal(f.books->live_bytes, 16);
	assert_int_equal(f.books->wrong, 0);
	producer_close(&c);
	fixture_close(&f);
}

/* An address that was freed lately is remembered although another one was freed since whose place is the same. */
static void a_free_is_owed_although_another_address_took_its_place(void **state)
{
	(void)state;
	struct fixture f;
	const uint64_t block = 0x1000;
	uint64_t same_place = block + 16;
	fixture_open(&f);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	while (heap_recent_pair(&f.heap->books, block) !=
	       heap_recent_pair(&f.heap->books, same_place))
		same_place += 16;
	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	produce_alloc(&f.a, block, 8, 0);
	produce_free(&f.a, block);
	produce_alloc(&f.a, same_place, 8, 0);
	produce_free(&f.a, same_place);
	produce_stamp(&f.a, f.heap, 40);
	produce_thread(&f.b, 2);
	produce_stamp(&f.b, f.heap, 20);
	produce_free(&f.b, block); /* the other one was taken for it */
	produce_stamp(&f.b, f.heap, 30);
	produce_alloc(&f.b, block, 8, 0);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->foreign, 0);
	assert_int_equal(f.books->frees, 3);
	assert_int_equal(f.books->live, 0);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* So little was read that only a part of the other ring may be searched: what is waited for stands behind that. */
static void what_was_not_searched_whole_is_not_said_to_lack_a_record(void **state)
{
	(void)state;
	struct fixture f;
	const uint64_t block = 0x1000, foreign = 0x2000;
	fixture_open(&f);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	produce_free(&f.a, block);
	produce_stamp(&f.a, f.heap, 20);
	produce_thread(&f.b, 2);
	produce_stamp(&f.b, f.heap, 12);
	produce_free(&f.b, foreign);
	for (unsigned i = 4; i < WIRE_STAMP_BYTES / 8; i++)
		produce(&f.b, 1, word0(WIRE_MARK, i), 0, 0);
	produce_alloc(&f.b, block, 8, 0);
	produce_stamp(&f.b, f.heap, 22);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->foreign, 1);
	assert_int_equal(f.books->frees, 1);
	assert_int_equal(f.books->live, 0);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* What is taken before the end may be taken may be told long before it: the old block lives until then. */
static void a_realloc_whose_end_may_not_be_taken_yet_has_released_nothing(void **state)
{
	(void)state;
	const uint64_t old = 0x1000, moved = 0x2000;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, old, 16, 0);
	fixture_drain(&f);
	struct heap_ring *ring = &f.heap->merge.rings[f.heap->merge.active[0]];
	produce_realloc(&f.a, old, moved, 32, 0);
	ring->head = __atomic_load_n(&ring->slot->head, __ATOMIC_ACQUIRE);
	assert_int_equal(ring->head - ring->tail, 24);
	ring->safe = ring->tail + 8;
	assert_int_equal(heap_run_ring(f.heap, ring, UINT64_MAX, false), HEAP_RUN_EMPTY);
	assert_int_equal(ring->tail, ring->safe);
	assert_true(ring->realloc_pending && !ring->realloc_freed);
	assert_int_not_equal(live_find(&f.heap->books.live, old), BLOCK_NONE);
	ring->safe = ring->head;
	assert_int_equal(heap_run_ring(f.heap, ring, UINT64_MAX, false), HEAP_RUN_EMPTY);
	assert_false(ring->realloc_pending);
	assert_int_equal(live_find(&f.heap->books.live, old), BLOCK_NONE);
	assert_int_not_equal(live_find(&f.heap->books.live, moved), BLOCK_NONE);
	fixture_finish(&f);
	assert_int_equal(f.books->allocs, 2);
	assert_int_equal(f.books->frees, 1);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* Arenas lie 64 MiB apart, and threads use theirs in the same way: what one freed must not make us forget another's. */
static void addresses_freed_lately_are_known_in_every_arena(void **state)
{
	(void)state;
	const uint64_t each = 250, blocks = 4 * each;
	struct fixture f;
	fixture_open(&f);
	for (int look = 0; look < 2; look++) {
		for (uint64_t n = 0; n < blocks; n++) {
			uint64_t addr = 0x7f0000000000 + n / each * (64 << 20) + n % each * 64;
			if (!look) {
				heap_note_free(&f.heap->books, addr, f.heap->last_ns);
				continue;
			}
			const struct heap_recent *pair = heap_recent_pair(&f.heap->books, addr);
			assert_true(pair[0].addr == heap_recent_addr(addr) ||
				    pair[1].addr == heap_recent_addr(addr));
		}
	}
	fixture_close(&f);
}

/* ---- a target that writes on after it was told to stop ---- */

struct stubborn {
	struct producer p;
	int stop;
};

static void *stubborn_run(void *arg)
{
	struct stubborn *s = arg;
	const uint64_t mask = s->p.slot->ring_bytes - 1;
	for (uint64_t n = 0; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); n++) {
		uint64_t head = s->p.slot->head;
		if (head + 8 - __atomic_load_n(&s->p.slot->tail, __ATOMIC_ACQUIRE) > mask + 1)
			continue;
		*(uint64_t *)(s->p.ring + (head & mask)) =
			word0(WIRE_FREE, 0x10000000 + n % 4096 * 16);
		__atomic_store_n(&s->p.slot->head, head + 8, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void a_target_that_goes_on_writing_does_not_keep_a_recording_from_its_end(void **state)
{
	(void)state;
	struct fixture f;
	struct stubborn s = { 0 };
	struct err err = { 0 };
	pthread_t thread;
	fixture_open(&f);
	producer_open(&s.p, f.heap, 3);
	produce_thread(&s.p, 1);
	assert_int_equal(pthread_create(&thread, NULL, stubborn_run, &s), 0);
	while (__atomic_load_n(&s.p.slot->head, __ATOMIC_ACQUIRE) < 1024)
		;
	alarm(20); /* it would never return */
	assert_int_equal(source_heap_finish(f.heap, &f.books->sink, 1, &err), 0);
	alarm(0);
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_true(f.books->foreign > 0);
	assert_int_equal(f.books->wrong, 0);
	producer_close(&s.p);
	fixture_close(&f);
}

static void who_lets_a_program_go_tells_its_hooks_to_look(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	uint32_t tick = f.a.header->tick;
	source_heap_detach(f.heap);
	assert_int_equal(f.a.header->detach, 1);
	assert_int_not_equal(f.a.header->tick, tick);
	fixture_close(&f);
}

/* What was produced, read into the books as a file that no recorder has emptied. */
static void read_raw(struct fixture *f)
{
	struct err err = { 0 };
	char path[] = "/tmp/merge-raw-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	f->a.header->end_cycles = heap_cycles();
	f->a.header->end_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t total = f->a.header->total_bytes;
	assert_int_equal(write(fd, f->a.base, total), (ssize_t)total);
	struct source_heap *raw = source_heap_raw(path, &err);
	assert_non_null(raw);
	assert_int_equal(source_heap_finish(raw, &f->books->sink, 0, &err), 0);
	source_heap_free(raw);
	close(fd);
	unlink(path);
}

/*
 * Two rings wait for what stands behind the other's waiting record, and of one of them more than the window that a raw file
 * is read by lies between: it comes all the same, and nothing is a foreign block's free.
 */
static void what_a_raw_file_holds_behind_the_window_is_not_missing(void **state)
{
	(void)state;
	struct fixture f;
	struct producer c;
	fixture_open(&f);
	producer_open(&c, f.heap, 2);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	const uint64_t far = 0x1000, near = 0x2000, own = 0x3000;

	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 5);
	for (int i = 0; i < 1000; i++) { /* so much may be searched as was taken, and more */
		produce_alloc(&f.a, own, 16, 0);
		produce_free(&f.a, own);
	}
	produce_stamp(&f.a, f.heap, 10);
	produce_free(&f.a, near);
	produce_stamp(&f.a, f.heap, 20);
	for (int i = 0; i < 4000; i++) {
		produce_alloc(&f.a, own, 16, 0);
		produce_free(&f.a, own);
	}
	produce_alloc(&f.a, far, 16, 0);
	produce_stamp(&f.a, f.heap, 30);

	produce_thread(&f.b, 2);
	produce_stamp(&f.b, f.heap, 10);
	produce_free(&f.b, far);
	produce_stamp(&f.b, f.heap, 20);
	produce_alloc(&f.b, near, 16, 0);
	produce_stamp(&f.b, f.heap, 30);

	produce_thread(&c, 3);
	produce_stamp(&c, f.heap, 100);
	produce_alloc(&c, 0x4000, 8, 0);

	read_raw(&f);
	assert_int_equal(f.books->foreign, 0);
	assert_int_equal(f.books->allocs, 5003);
	assert_int_equal(f.books->frees, 5002);
	producer_close(&c);
	fixture_close(&f);
}

/* A record ends where the window ends: its ring is not done with, and what is later in another one has to wait. */
static void a_raw_files_ring_is_not_passed_by_at_the_end_of_its_window(void **state)
{
	(void)state;
	struct fixture f;
	const uint64_t window = 64u << 10, late = 0x2000;
	fixture_open(&f);
	while (source_heap_now_ns(f.heap) < 200 * STAMP_NS)
		;
	produce_thread(&f.a, 1);
	produce_stamp(&f.a, f.heap, 10);
	while (f.a.slot->head < window - WIRE_RECORD_WORDS_MAX * 8)
		produce(&f.a, 1, word0(WIRE_PAD, 0), 0, 0);
	produce_alloc(&f.a, 0x1000, WIRE_SIZE_SMALL, 0);
	assert_int_equal(f.a.slot->head, window);
	produce_free(&f.a, 0x1000);
	produce_thread(&f.b, 2);
	produce_stamp(&f.b, f.heap, 100);
	produce_alloc(&f.b, late, 8, 0);

	read_raw(&f);
	assert_int_equal(f.books->allocs, 2);
	assert_int_equal(f.books->frees, 1);
	assert_int_equal(f.books->last.kind, EVENT_ALLOC);
	assert_int_equal(f.books->last.addr, late);
	fixture_close(&f);
}

/* ---- threads that contradict each other as fast as their records are taken ---- */

#define ROUND_BLOCKS 40u /* more than make a crowd of the waits */
#define ROUNDS 30000u
struct endless {
	struct sink sink;
	struct fixture *f;
	uint64_t rounds, steps;
};

/* A free of a block that nobody saw waits for the other ring, which is past it: all heads are to be read again. */
static void endless_round(struct endless *e)
{
	struct fixture *f = e->f;
	e->steps += 3;
	while (source_heap_now_ns(f->heap) < e->steps * STAMP_NS)
		;
	produce_stamp(&f->a, f->heap, e->steps - 3);
	produce_free(&f->a, 0x1000);
	produce_stamp(&f->a, f->heap, e->steps - 2);
	produce_stamp(&f->b, f->heap, e->steps - 1);
	for (unsigned i = 0; i < ROUND_BLOCKS; i++) {
		produce_alloc(&f->b, 0x2000, 8, 0);
		produce_free(&f->b, 0x2000);
	}
	e->rounds++;
}

static int endless_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct books *books = ((struct endless *)sink)->f->books;
	return books->sink.define(&books->sink, def, err);
}

static int endless_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct endless *e = (struct endless *)sink;
	for (size_t i = 0; i < count && e->rounds < ROUNDS; i++)
		if (events[i].kind == EVENT_FREE_FOREIGN)
			endless_round(e);
	return e->f->books->sink.put(&e->f->books->sink, events, count, err);
}

static void a_program_that_goes_on_contradicting_itself_leaves_the_recorder_its_turn(void **state)
{
	(void)state;
	struct fixture f;
	struct err err = { 0 };
	struct endless e = { .sink = { .define = endless_define, .put = endless_put }, .f = &f };
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	while (e.rounds < 30) /* more than a batch of events has */
		endless_round(&e);
	assert_true(source_heap_drain(f.heap, &e.sink, &err) >= 0);
	print_message("# %u rounds in one call\n", (unsigned)e.rounds);
	assert_true(e.rounds > 30 && e.rounds < ROUNDS);
	fixture_finish(&f);
	assert_int_equal(f.books->foreign, e.rounds);
	assert_int_equal(f.books->allocs, e.rounds * ROUND_BLOCKS);
	assert_int_equal(f.books->live, 0);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

/* Without a key for thread ends the slot of one that is gone is given to another, whatever the last record in it is. */
static void a_slot_goes_on_whose_thread_ended_inside_a_realloc(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	produce_alloc(&f.a, 0x1000, 8, 0);
	produce(&f.a, 1, word0(WIRE_REALLOC_BEGIN, 0x1000), 0, 0);
	produce_thread(&f.a, 3);
	produce_alloc(&f.a, 0x2000, 16, 0);
	produce_realloc(&f.a, 0x2000, 0x3000, 32, 0);
	fixture_drain(&f);
	produce_free(&f.b, 0x1000);
	produce_free(&f.b, 0x3000);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.a.slot->closed, 0);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 3);
	assert_int_equal(f.books->frees, 3);
	assert_int_equal(f.books->live, 0);
	assert_int_equal(f.books->lost_events[LOSS_RING_DAMAGED] +
				 f.books->lost_events[LOSS_DISORDER] + f.books->foreign,
			 0);
	fixture_close(&f);
}

/* What the shared file holds of its pages. */
static int64_t bytes_there(const struct fixture *f)
{
	struct stat st;
	assert_int_equal(fstat(source_heap_fd(f->heap), &st), 0);
	return (int64_t)st.st_blocks * 512;
}

static void a_busy_program_finds_the_pages_that_it_comes_to(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	struct wire_heap_header *h = f.a.header;
	produce_thread(&f.a, 1);
	h->node_count = 1000;
	fixture_drain(&f);
	int64_t before = bytes_there(&f);
	fixture_drain(&f);
	assert_int_equal(bytes_there(&f), before); /* a small one costs nothing */
	h->node_count = 5000;
	fixture_drain(&f);
	int64_t with_nodes = bytes_there(&f);
	/* nodes to come, and what leads to them */
	assert_true(with_nodes - before >= 2 * (128 << 10));
	assert_true(with_nodes - before <= 2 * (512 << 10));
	for (unsigned i = 0; i < 3000; i++) {
		produce_alloc(&f.a, 0x1000, 1, 0);
		produce_free(&f.a, 0x1000);
	}
	fixture_drain(&f);
	int64_t with_ring = bytes_there(&f);
	assert_true(with_ring - with_nodes >= 200 << 10);
	assert_true(with_ring - with_nodes <= 512 << 10);
	/* hostile, more than there can be: all of both tables, nothing behind them */
	h->node_count = UINT32_MAX;
	fixture_drain(&f);
	int64_t tables = (int64_t)h->node_max * 16 + (int64_t)h->index_entries * 4;
	assert_true(bytes_there(&f) >= tables);
	assert_true(bytes_there(&f) - with_ring <= tables);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_realloc_whose_end_may_not_be_taken_yet_has_released_nothing),
		cmocka_unit_test(addresses_freed_lately_are_known_in_every_arena),
		cmocka_unit_test(a_realloc_whose_wait_has_ended_frees_nothing_out_of_turn),
		cmocka_unit_test(
			a_record_at_the_beginning_of_a_stretch_waits_for_nothing_behind_it),
		cmocka_unit_test(two_records_that_wait_at_one_time_wait_for_nothing_much_later),
		cmocka_unit_test(a_wait_is_not_given_up_for_a_ring_that_has_just_begun_to_wait),
		cmocka_unit_test(a_free_is_owed_although_another_address_took_its_place),
		cmocka_unit_test(what_was_not_searched_whole_is_not_said_to_lack_a_record),
		cmocka_unit_test(what_a_raw_file_holds_behind_the_window_is_not_missing),
		cmocka_unit_test(a_raw_files_ring_is_not_passed_by_at_the_end_of_its_window),
		cmocka_unit_test(
			a_program_that_goes_on_contradicting_itself_leaves_the_recorder_its_turn),
		cmocka_unit_test(
			a_target_that_goes_on_writing_does_not_keep_a_recording_from_its_end),
		cmocka_unit_test(a_slot_goes_on_whose_thread_ended_inside_a_realloc),
		cmocka_unit_test(who_lets_a_program_go_tells_its_hooks_to_look),
		cmocka_unit_test(a_busy_program_finds_the_pages_that_it_comes_to),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
