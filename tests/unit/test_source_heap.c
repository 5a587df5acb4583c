/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "heap_fixture.h"
#include "source/heap_internal.h"

static void make_node(struct producer *p, uint32_t number, uint64_t pc, uint32_t parent)
{
	struct wire_node *nodes = (struct wire_node *)(p->base + p->header->nodes_off);
	nodes[number] = (struct wire_node){ .pc = pc, .parent = parent };
}

static void blocks_of_one_thread_become_events_with_stacks_and_flags(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	make_node(&f.a, 16, 0x401005, 0);
	make_node(&f.a, 17, 0x402005, 16);
	produce_thread(&f.a, 4242);
	produce_alloc(&f.a, 0x1000, 100, 17);
	produce_free(&f.a, 0x1000); /* temporary */
	produce_alloc(&f.a, 0x2000, 1ULL << 40, 16);
	produce_alloc(&f.a, 0x3000, 0, 17);
	produce_free(&f.a, 0x2000);                   /* not the last one */
	produce_realloc(&f.a, 0x3000, 0x4000, 7, 17); /* its free is of the last one */
	produce(&f.a, 1, word0(WIRE_REALLOC_BEGIN, 0x4000), 0, 0);
	produce(&f.a, 1, word0(WIRE_REALLOC_FAIL, 0x4000), 0, 0);
	produce_free(&f.a, 0x9999000); /* never seen */
	fixture_drain(&f);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 4);
	assert_int_equal(f.books->frees, 3);
	assert_int_equal(f.books->reallocs, 1);
	assert_int_equal(f.books->temporary, 2);
	assert_int_equal(f.books->foreign, 1);
	assert_int_equal(f.books->live_bytes, 7);
	assert_int_equal(f.books->stacks, 2);
	assert_int_equal(f.books->frame[f.books->stack[1].frame].offset, 0x401004);
	assert_int_equal(f.books->stack[2].parent, 1);
	assert_int_equal(f.books->thread[0].tid, 4242);
	assert_int_equal(f.a.slot->tail, f.a.slot->head);
	fixture_finish(&f);
	fixture_close(&f);
}

static void nodes_are_copied_before_their_places_are_used_again(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	struct wire_heap_header *h = f.a.header;
	const uint32_t max = h->node_max, made = max / 2 + 5;
	assert_int_equal(max & (max - 1), 0);
	produce_thread(&f.a, 1);
	for (uint32_t n = WIRE_STOP_MAX; n < made; n++)
		make_node(&f.a, n, 0x401005 + (n - 16) * 8ull, n == 17 ? 16 : 0);
	produce_alloc(&f.a, 0x1000, 1, 16);
	produce_alloc(&f.a, 0x2000, 1, 17);
	h->node_count = max / 2 - 1;
	fixture_drain(&f);
	assert_int_equal(h->node_tail, 0); /* it costs nothing before the table is half full */
	h->node_count = made;
	fixture_drain(&f);
	assert_int_equal(h->node_tail, made);
	assert_int_equal(f.books->stacks, 2);

	/* their places are others' now, and the same two paths have numbers of the second lap; what lies between is on its way */
	const uint64_t lap = 1ull << WIRE_NODE_PC_BITS;
	h->node_count = max + 22;
	make_node(&f.a, 16, lap | 0x999005, 0);
	make_node(&f.a, 20, lap | 0x401005, 0);
	make_node(&f.a, 21, lap | 0x40100d, max + 20);
	produce_alloc(&f.a, 0x3000, 1, max + 21);
	produce_alloc(&f.a, 0x4000, 1, 17);
	produce_alloc(&f.a, 0x5000, 1, 18); /* never used while it stood in the table */
	produce_alloc(&f.a, 0x6000, 1, max + 16);
	fixture_drain(&f);
	assert_int_equal(h->node_tail, made); /* as long as somebody may yet write it */
	assert_int_equal(f.books->stacks, 4);
	assert_int_equal(f.books->block[2].stack, f.books->block[1].stack);
	assert_int_equal(f.books->block[3].stack, f.books->block[1].stack);
	assert_int_equal(f.books->frame[f.books->stack[f.books->block[4].stack].frame].offset,
			 0x401014);
	assert_int_equal(f.books->frame[f.books->stack[f.books->block[5].stack].frame].offset,
			 0x999004);

	/* a number that nobody will write any more does not hold up the others for ever */
	h->node_count = made + max / 4 * 3 + 1;
	fixture_drain(&f);
	assert_int_equal(h->node_tail, made);
	while (h->node_tail < h->node_count) {
		usleep(50000);
		fixture_drain(&f);
	}
	/* whoever writes one of them after all has a stack that found no room */
	produce_alloc(&f.a, 0x7000, 1, made);
	fixture_drain(&f);
	assert_int_equal(f.books->stack[f.books->block[6].stack].stop, WIRE_STOP_NODES_FULL);
	assert_int_equal(f.books->wrong, 0);
	fixture_finish(&f);
	fixture_close(&f);
}

/* A node whose content is of another lap than its number says is none: the ring that names it is closed. */
static void a_node_of_another_lap_is_not_taken_for_it(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	make_node(&f.a, 16, 1ull << WIRE_NODE_PC_BITS | 0x401005, 0);
	produce_alloc(&f.a, 0x1000, 1, 16);
	fixture_drain(&f);
	assert_int_equal(f.books->allocs, 0);
	assert_int_equal(f.a.slot->closed, 1);
	fixture_finish(&f);
	fixture_close(&f);
}

static void a_free_read_before_its_allocation_waits_for_it(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	for (int i = 0; i < 100; i++)
		produce_alloc(&f.b, 0x1000 + (uint64_t)i * 16, 8, 0);
	for (int i = 0; i < 100; i++)
		produce_free(&f.a, 0x1000 + (uint64_t)i * 16);
	/* the same address round and round: a frees what b allocated each time */
	for (int i = 0; i < 100; i++) {
		produce_alloc(&f.b, 0x1000, 8, 0);
		produce_free(&f.a, 0x1000);
	}
	fixture_drain(&f);
	struct source_heap_stats stats;
	source_heap_stats(f.heap, &stats);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 200);
	assert_int_equal(f.books->frees, 200);
	assert_int_equal(f.books->foreign, 0);
	assert_int_equal(stats.contradictions, 0);
	assert_true(stats.waits > 0);
	fixture_close(&f);
}

static void an_address_that_a_pending_realloc_gave_up_is_taken_over_at_once(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	produce_alloc(&f.a, 0x1000, 8, 0);
	produce(&f.a, 1, word0(WIRE_REALLOC_BEGIN, 0x1000), 0, 0);
	produce_alloc(&f.b, 0x1000, 24, 0); /* a is still inside realloc() */
	fixture_drain(&f);
	assert_int_equal(f.books->live, 1);
	produce(&f.a, 2, word0(WIRE_REALLOC_END, 0x2000), 16ULL << WIRE_NODE_BITS, 0);
	fixture_drain(&f);
	fixture_finish(&f);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 3);
	assert_int_equal(f.books->frees, 1);
	assert_int_equal(f.books->foreign, 0);
	assert_int_equal(f.books->implied, 0);
	assert_int_equal(f.books->live_bytes, 40);
	fixture_close(&f);
}

static void a_free_is_not_taken_before_the_ring_of_a_new_thread_was_read(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_alloc(&f.a, 0x1000, 8, 0);
	fixture_drain(&f); /* from here on only this ring is known */
	produce_thread(&f.b, 2);
	produce_free(&f.b, 0x1000);
	produce_alloc(&f.b, 0x1000, 24, 0);
	produce_free(&f.a, 0x1000); /* of b's block, not of the first one */
	fixture_drain(&f);
	fixture_finish(&f);
	struct source_heap_stats stats;
	source_heap_stats(f.heap, &stats);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 2);
	assert_int_equal(f.books->frees, 2);
	assert_int_equal(f.books->foreign, 0);
	assert_int_equal(f.books->live_bytes, 0);
	assert_int_equal(stats.contradictions, 0);
	fixture_close(&f);
}

/* ---- two real threads, no stamps at all ---------------------------------------------------------------------------- */

#define HANDED 400000
#define POOL 64

struct exchange {
	struct producer *p;
	uint32_t tid;
	uint64_t seed;
	/* addresses passed from hand to hand; 0 = empty */
	_Atomic uint64_t *cells;
	/* addresses that the "allocator" may give out; 0 = in use */
	_Atomic uint64_t *pool;
	uint64_t allocs, frees;
	/* every 16 records, as the hooks do */
	bool stamps;
};

static uint64_t take_any(_Atomic uint64_t *cells, uint64_t from)
{
	for (unsigned i = 0; i < POOL; i++) {
		uint64_t addr = atomic_exchange_explicit(&cells[(from + i) % POOL], 0,
							 memory_order_acq_rel);
		if (addr)
			return addr;
	}
	return 0;
}

static bool give_any(_Atomic uint64_t *cells, uint64_t from, uint64_t addr)
{
	for (unsigned i = 0; i < POOL; i++) {
		uint64_t none = 0;
		if (atomic_compare_exchange_strong_explicit(&cells[(from + i) % POOL], &none, addr,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

static void *exchange_run(void *arg)
{
	struct exchange *x = arg;
	uint64_t rnd = x->seed;
	uint32_t tick = 0;
	produce_thread(x->p, x->tid);
	for (int i = 0; i < HANDED; i++) {
		rnd = rnd * 6364136223846793005ULL + 1442695040888963407ULL;
		uint64_t at = rnd >> 33, addr;
		if (x->stamps &&
		    (i % 16 == 0 || tick != *(volatile uint32_t *)&x->p->header->tick)) {
			tick = *(volatile uint32_t *)&x->p->header->tick;
			produce(x->p, 1, word0(WIRE_TIME, heap_cycles() & ((1ULL << 56) - 1)), 0,
				0);
		}
		if (at & 1 && (addr = take_any(x->pool, at >> 1)) != 0) {
			produce_alloc(x->p, addr, 16 + at % 100, 0); /* after it was obtained */
			x->allocs++;
			while (!give_any(x->cells, at >> 2, addr))
				sched_yield();
		} else if ((addr = take_any(x->cells, at >> 1)) != 0) {
			produce_free(x->p, addr); /* before it is released */
			x->frees++;
			give_any(x->pool, at >> 3, addr);
		}
	}
	return NULL;
}

static void exchange_between_two_threads(bool stamps, struct source_heap_stats *stats)
{
	struct fixture f;
	fixture_open(&f);
	static _Atomic uint64_t cells[POOL], pool[POOL];
	for (unsigned i = 0; i < POOL / 2; i++)
		pool[i] = 0x10000 + i * 64;
	struct exchange x[2] = { { &f.a, 11, 1, cells, pool, 0, 0, stamps },
				 { &f.b, 12, 2, cells, pool, 0, 0, stamps } };
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, exchange_run, &x[i]), 0);
	/* both, however long it takes: a thread left behind would write into memory that is gone */
	for (int running = 2; running;) {
		source_heap_beat(f.heap);
		fixture_drain(&f);
		if (pthread_tryjoin_np(threads[2 - running], NULL) == 0)
			running--;
		sched_yield();
	}
	fixture_finish(&f);
	source_heap_stats(f.heap, stats);
	print_message("# %llu events, %llu waits, %llu swapped, %llu contradictions, %llu "
		      "foreign\n",
		      (unsigned long long)stats->events, (unsigned long long)stats->waits,
		      (unsigned long long)stats->swapped, (unsigned long long)stats->contradictions,
		      (unsigned long long)f.books->foreign);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, x[0].allocs + x[1].allocs);
	assert_int_equal(f.books->frees + f.books->foreign, x[0].frees + x[1].frees);
	assert_true(f.books->allocs > HANDED / 4);
	fixture_close(&f);
}

static void rings_stamped_every_16_records_merge_without_one_contradiction(void **state)
{
	(void)state;
	struct source_heap_stats stats;
	exchange_between_two_threads(true, &stats);
	assert_int_equal(stats.contradictions, 0);
	assert_int_equal(stats.foreign_frees, 0);
}

/* ---- hostile rings --------------------------------------------------------------------------------------------------- */

static void break_tag(struct producer *p)
{
	produce(p, 1, 0xff, 0, 0);
}
static void break_by_truncation(struct producer *p)
{
	produce(p, 1, word0(WIRE_ALLOC, 0x1000), 0, 0);
}
static void break_node(struct producer *p)
{
	produce_alloc(p, 0x1000, 1, WIRE_NODE_MAX - 1);
}
static void break_node_without_content(struct producer *p)
{
	produce_alloc(p, 0x1000, 1, 4000);
}
static void break_parent(struct producer *p)
{
	make_node(p, 30, 0x1234, 30);
	produce_alloc(p, 0x1000, 1, 30);
}
static void break_realloc(struct producer *p)
{
	produce(p, 2, word0(WIRE_REALLOC_END, 0x1000), 0, 0);
}
static void break_head(struct producer *p)
{
	p->slot->head += 5ULL << 20;
}
static void break_head_backwards(struct producer *p)
{
	p->slot->head = 8;
}
static void break_alignment(struct producer *p)
{
	p->slot->head += 4;
}
static void break_thread(struct producer *p)
{
	produce(p, 2, word0(WIRE_THREAD, 0), 0, 0);
}

static void a_ring_that_breaks_a_rule_is_closed_and_counted_and_the_others_go_on(void **state)
{
	(void)state;
	void (*const breaks[])(struct producer *) = {
		break_tag,       break_by_truncation, break_node, break_node_without_content,
		break_parent,    break_realloc,       break_head, break_head_backwards,
		break_alignment, break_thread,
	};
	for (size_t i = 0; i < ARRAY_LEN(breaks); i++) {
		struct fixture f;
		fixture_open(&f);
		produce_thread(&f.a, 1);
		produce_thread(&f.b, 2);
		produce_alloc(&f.a, 0x5000, 10, 0);
		fixture_drain(&f);
		breaks[i](&f.a);
		produce_alloc(&f.b, 0x7000, 20, 0);
		fixture_drain(&f);
		produce_free(&f.b, 0x7000);
		fixture_drain(&f);
		fixture_finish(&f);
		assert_int_equal(f.a.slot->closed, 1);
		assert_int_equal(f.b.slot->closed, 0);
		assert_int_equal(f.books->lost_events[LOSS_RING_DAMAGED], 1);
		assert_int_equal(f.books->wrong, 0);
		assert_int_equal(f.books->allocs, 2);
		assert_int_equal(f.books->frees, 1);
		fixture_close(&f);
	}
}

static void what_stands_in_a_closed_ring_is_counted_record_by_record(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	for (uint64_t i = 1; i <= 10; i++)
		produce_alloc(&f.a, i << 12, 10, 0);
	fixture_drain(&f);
	break_realloc(&f.a); /* an end without a beginning: one allocation */
	for (uint64_t i = 11; i <= 110; i++)
		produce_alloc(&f.a, i << 12, 10, 0);
	for (uint64_t i = 1; i <= 20; i++)
		produce_free(&f.a, i << 12);
	produce_realloc(&f.a, 21 << 12, 21 << 12, 90, 0);
	produce(&f.a, 1, word0(WIRE_REALLOC_BEGIN, 22 << 12), 0, 0);
	produce(&f.a, 1, word0(WIRE_REALLOC_FAIL, 22 << 12), 0, 0);
	fixture_drain(&f);
	assert_int_equal(f.books->lost_allocs, 102);
	assert_int_equal(f.books->lost_frees, 21);
	/* the producer looks only now and then whether its ring was closed */
	produce_alloc(&f.a, 0x9999000, 10, 0);
	produce_free(&f.a, 0x9999000);
	fixture_finish(&f);
	assert_int_equal(f.books->lost_allocs, 103);
	assert_int_equal(f.books->lost_frees, 22);
	assert_int_equal(f.books->lost_events[LOSS_RING_DAMAGED], 2);
	assert_int_equal(f.books->allocs, 10);
	assert_int_equal(f.books->wrong, 0);
	fixture_close(&f);
}

static void one_remap_is_one_move_and_a_map_beside_it_is_not(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce(&f.a, 3, word0(WIRE_REMAP, 0x10000), 0, 4096);
	produce(&f.a, 3, word0(WIRE_MAP, 0x20000), 0, 8192);
	fixture_drain(&f);
	assert_int_equal(f.books->last.kind, EVENT_MAP);
	assert_int_equal(f.books->last.bytes, 8192);
	assert_int_equal(f.books->last.flags, EVENT_F_REALLOC);
	produce(&f.a, 3, word0(WIRE_MAP, 0x30000), 3ULL << 32 | 0x22ULL << 40, 4096);
	fixture_drain(&f);
	assert_int_equal(f.books->last.flags, 0);
	assert_int_equal(f.books->last.value & 0xff, 3);
	assert_int_equal(f.books->last.value >> 32, 0x22);
	fixture_close(&f);
}

static void a_shared_file_with_a_wrong_layout_or_without_seals_is_refused(void **state)
{
	(void)state;
	struct err err = { 0 };
	int fd = memfd_create("test", MFD_ALLOW_SEALING);
	assert_null(source_heap_adopt(dup(fd), &err)); /* not sealed */
	assert_int_equal(err.code, -EBADMSG);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_null(source_heap_adopt(fd, &err)); /* sealed, but empty */
	assert_int_equal(err.code, -EBADMSG);

	const struct source_heap_opt opt = { 0 };
	struct source_heap *heap = source_heap_new(&opt, &err);
	assert_non_null(heap);
	struct wire_heap_header *h =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, source_heap_fd(heap), 0);
	const struct wire_heap_header good = *h;
	struct source_heap *again = source_heap_adopt(dup(source_heap_fd(heap)), &err);
	assert_non_null(again);
	source_heap_free(again);
	for (int i = 0; i < 9; i++) {
		*h = good;
		switch (i) {
		case 0:
			h->nodes_off = UINT64_MAX - 7;
			break;
		case 1:
			h->node_max = WIRE_NODE_MAX + 1;
			break;
		case 2:
			h->slot_count = 1u << 20;
			break;
		case 3:
			h->total_bytes *= 2;
			break;
		case 4:
			h->strings_off = h->total_bytes;
			break;
		case 5:
			h->version = 99;
			break;
		case 6:
			h->index_entries = UINT32_MAX;
			break;
		case 7:
			h->index_off = h->total_bytes - 4096;
			break;
		default:
			h->slots_off = 8;
			break;
		}
		assert_null(source_heap_adopt(dup(source_heap_fd(heap)), &err));
		assert_int_equal(err.code, -EBADMSG);
	}
	munmap(h, 4096);
	source_heap_free(heap);
}

static void the_program_that_attached_is_named_by_itself(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct source_heap_opt opt = { 0 };
	struct source_heap *heap = source_heap_new(&opt, &err);
	assert_non_null(heap);
	struct wire_heap_header *h =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, source_heap_fd(heap), 0);
	assert_ptr_not_equal(h, MAP_FAILED);
	char path[64] = "x";
	assert_int_equal(source_heap_exe(heap, path, sizeof(path)), 0);
	assert_string_equal(path, "");
	strcpy(h->exe, "/usr/bin/dash");
	assert_int_equal(source_heap_exe(heap, path, sizeof(path)), 1);
	assert_string_equal(path, "/usr/bin/dash");
	assert_int_equal(source_heap_exe(heap, path, 13), 0); /* no room for the NUL */
	assert_string_equal(path, "");
	char large[WIRE_EXE_BYTES];
	memset(h->exe, 'a', sizeof(h->exe)); /* hostile: no end */
	assert_int_equal(source_heap_exe(heap, large, sizeof(large)), 0);

	size_t bytes = 1;
	assert_null(source_heap_cmdline(heap, &bytes));
	assert_int_equal(bytes, 0);
	assert_int_equal(pwrite(source_heap_fd(heap), "dash\0-x", 8, (off_t)h->strings_off + 5), 8);
	h->cmdline_off = 5;
	h->cmdline_bytes = 8;
	char *text = source_heap_cmdline(heap, &bytes);
	assert_int_equal(bytes, 8);
	assert_memory_equal(text, "dash\0-x", 8);
	free(text);
	h->cmdline_bytes = 7; /* hostile: its last argument has no end */
	text = source_heap_cmdline(heap, &bytes);
	assert_memory_equal(text, "dash\0-\0", 7);
	free(text);
	const uint32_t beyond[][2] = { { 5, WIRE_CMDLINE_BYTES + 1 },
				       { h->string_bytes - 7, 8 },
				       { UINT32_MAX - 3, 8 },
				       { 0, UINT32_MAX } };
	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		h->cmdline_off = beyond[i][0];
		h->cmdline_bytes = beyond[i][1];
		assert_null(source_heap_cmdline(heap, &bytes));
	}
	munmap(h, 4096);
	source_heap_free(heap);
}

/* ---- clock, raw files --------------------------------------------------------------------------------------------------- */

static void a_raw_file_replays_like_the_rings_it_was_and_a_cut_one_gives_its_part(void **state)
{
	(void)state;
	struct fixture f;
	struct err err = { 0 };
	char path[] = "/tmp/recorder-raw-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	fixture_open(&f);
	produce_thread(&f.a, 1);
	produce_thread(&f.b, 2);
	produce(&f.a, 1, word0(WIRE_MARK, 7), 0, 0); /* windows end amid a record */
	for (uint64_t i = 0; i < 20000; i++) {       /* many windows; b frees what a allocated */
		produce_alloc(&f.a, 0x100000 + i * 16, 16, 0);
		produce_free(&f.b, 0x100000 + i * 16);
	}
	f.a.header->end_cycles = heap_cycles();
	f.a.header->end_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t total = f.a.header->total_bytes;
	assert_int_equal(write(fd, f.a.base, total), (ssize_t)total);
	assert_int_equal(source_heap_is_raw(path, &err), 1);
	struct source_heap *raw = source_heap_raw(path, &err);
	assert_non_null(raw);
	assert_int_equal(source_heap_finish(raw, &f.books->sink, 0, &err), 0);
	assert_int_equal(f.books->wrong, 0);
	assert_int_equal(f.books->allocs, 20000);
	assert_int_equal(f.books->frees, 20000);
	assert_int_equal(f.books->foreign, 0);
	source_heap_free(raw);

	struct books *part = books_new();
	assert_int_equal(ftruncate(fd, (off_t)(f.a.slot->ring_off + 100000)), 0);
	raw = source_heap_raw(path, &err);
	assert_non_null(raw);
	assert_int_equal(source_heap_finish(raw, &part->sink, 0, &err), 0);
	assert_true(part->allocs > 6000 && part->allocs < 6300);
	assert_int_equal(part->wrong, 0);
	source_heap_free(raw);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_null(source_heap_raw(path, &err));
	assert_int_equal(err.code, -EBADMSG);
	free(part);
	close(fd);
	unlink(path);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_one_thread_become_events_with_stacks_and_flags),
		cmocka_unit_test(nodes_are_copied_before_their_places_are_used_again),
		cmocka_unit_test(a_node_of_another_lap_is_not_taken_for_it),
		cmocka_unit_test(a_free_read_before_its_allocation_waits_for_it),
		cmocka_unit_test(an_address_that_a_pending_realloc_gave_up_is_taken_over_at_once),
		cmocka_unit_test(a_free_is_not_taken_before_the_ring_of_a_new_thread_was_read),
		cmocka_unit_test(rings_stamped_every_16_records_merge_without_one_contradiction),
		cmocka_unit_test(
			a_ring_that_breaks_a_rule_is_closed_and_counted_and_the_others_go_on),
		cmocka_unit_test(what_stands_in_a_closed_ring_is_counted_record_by_record),
		cmocka_unit_test(one_remap_is_one_move_and_a_map_beside_it_is_not),
		cmocka_unit_test(a_shared_file_with_a_wrong_layout_or_without_seals_is_refused),
		cmocka_unit_test(the_program_that_attached_is_named_by_itself),
		cmocka_unit_test(
			a_raw_file_replays_like_the_rings_it_was_and_a_cut_one_gives_its_part),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
