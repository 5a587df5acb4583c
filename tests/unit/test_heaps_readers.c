/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators read from small heaps made by hand: the figures to the byte, and what damage and malice do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_mimalloc.h"
#include "fake_reader.h"
#include "heaps/scan.h"

static void jemallocs_extents_and_caches_are_told_apart(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc);
	const struct allocator_reading *a = read_once(f, heaps_jemalloc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 195 * 16 + 14336);
	assert_int_equal(a->live_count, 196);
	assert_int_equal(a->cache_bytes, 5 * 16);
	assert_int_equal(a->free_page_bytes, 2 * 4096);
	assert_int_equal(a->hole_bytes, 4096 - 200 * 16 + 0x5000 - 14336);
	assert_int_equal(a->reserved_bytes, 8 * 4096);
	assert_true(a->metadata_bytes > 0);
	assert_int_equal(a->resident_bytes, 8 * 4096 + a->metadata_bytes);
	assert_true(a->consistency == 100.0);
	assert_string_equal(f->regions[1].label, "jemalloc");
	fake_end(f);
}

static void jemalloc_built_for_57_bit_addresses_says_the_same(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc_57);
	const struct allocator_reading *a = read_once(f, heaps_jemalloc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 195 * 16 + 14336);
	assert_int_equal(a->live_count, 196);
	assert_int_equal(a->cache_bytes, 5 * 16);
	assert_int_equal(a->free_page_bytes, 2 * 4096);
	assert_int_equal(a->reserved_bytes, 8 * 4096);
	assert_true(a->consistency == 100.0);
	fake_end(f);
}

/* The first thread's storage was mapped right behind a library's data, and the kernel made one mapping of both. */
static void fake_jemalloc_behind_data(struct fake *f)
{
	fake_jemalloc_in(f, REGION_LIBRARY_BSS);
}

static void a_cache_behind_a_librarys_data_is_found(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc_behind_data);
	const struct allocator_reading *a = read_once(f, heaps_jemalloc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 195 * 16 + 14336);
	assert_int_equal(a->cache_bytes, 5 * 16);
	fake_end(f);
}

/* As in CPython's heap, some runs in a hundred: three words for a descriptor, of which the size is a pointer. */
static void words_that_pass_for_an_extent_of_terabytes_are_no_jemalloc(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc);
	for (uint64_t p = 0; p < 8; p++)
		fake_put(f, JE_LEAF + p * 8, 0);
	fake_put(f, JE_LEAF + 3 * 8, JE_EXTENT(0));
	fake_put(f, JE_EXTENT(0), 0);
	fake_put(f, JE_EXTENT(0) + 8, 0x5b3000);
	fake_put(f, JE_EXTENT(0) + 16, FAKE_OWN);
	fake_keep(f);
	for (uint64_t left = 1 << 12; left < 1 << 24; left *= 2) {
		struct memory_work work = { .left = left };
		fake_reset(f);
		f->memory.work = &work;
		assert_null(read_once(f, heaps_jemalloc));
	}
	fake_end(f);
}

static void jemallocs_classes_eight_bytes_apart_are_found_out(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc);
	fake_reset(f);
	/* 8, 16, 24 ... 64, 80: class 2 is 24 bytes, 512 of them in three pages, 300 unused; class 36 is 12 KiB */
	je_extent(f, 0, FAKE_HEAP + 0x8000, 0x3000, 0, 2, 1, 300);
	je_extent(f, 1, FAKE_HEAP + 0x1000, 0x4000, 0, 37, 0, 0);
	je_extent(f, 3, FAKE_HEAP + 0xb000, 0x3000, 0, 2, 1, 512);
	fake_put(f, JE_LEAF, 0);
	fake_put(f, JE_LEAF + 5 * 8, 0);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_jemalloc);
	assert_int_equal(a->live_bytes + a->cache_bytes, 212 * 24 + 12288);
	fake_end(f);
}

static void jemalloc_without_a_list_of_caches_says_so(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc);
	fake_put(f, JE_ARENA + JE_LIST, 0);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_jemalloc);
	assert_int_equal(a->cache_bytes, UINT64_MAX);
	assert_int_equal(a->live_bytes, 200 * 16 + 14336);
	assert_non_null(strstr(a->how, "counts as live"));
	fake_end(f);
}

static void what_was_never_touched_is_live_all_the_same(void **state)
{
	(void)state;
	static const struct {
		void (*build)(struct fake *);
		int (*reader)(struct breakdown *, const struct memory *, struct err *);
		/* first: bytes of the only span or extent that is there */
		uint64_t live, first;
	} all[] = { { fake_jemalloc, heaps_jemalloc, 195 * 16 + 14336, 4096 },
		    { fake_tcmalloc, heaps_tcmalloc, 61 * 16 + 3 * 8192, 8192 } };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct fake *f = calloc(1, sizeof(*f));
		assert_non_null(f);
		all[i].build(f);
		memset(f->parts[1].there, 0, f->parts[1].bytes / FAKE_PAGE);
		fake_touch(f, FAKE_HEAP, all[i].first);
		fake_keep(f);
		fake_reset(f);
		fake_cut(f, FAKE_HEAP + all[i].first); /* behind it nothing is there */
		struct err err = { 0 };
		assert_int_equal(all[i].reader(&f->b, &f->memory, &err), 0);
		assert_int_equal(f->regions[2].rss_bytes, 0);
		const struct allocator_reading *a = f->b.allocators;
		assert_non_null(a);
		assert_int_equal(a->live_bytes, all[i].live);
		fake_end(f);
	}
}

static void tcmallocs_spans_and_caches_are_told_apart(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_tcmalloc);
	const struct allocator_reading *a = read_once(f, heaps_tcmalloc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 61 * 16 + 3 * 8192);
	assert_int_equal(a->live_count, 62);
	assert_int_equal(a->cache_bytes, 39 * 16);
	assert_int_equal(a->free_page_bytes, 2 * 8192);
	assert_int_equal(a->hole_bytes, 8192 - 100 * 16);
	assert_true(a->consistency == 100.0);
	assert_string_equal(f->regions[1].label, "tcmalloc");
	fake_end(f);
}

/* A small number and a large one, where a root beside the true one would lead to a span. */
static void fake_tcmalloc_beside_a_look_alike(struct fake *f)
{
	uint64_t leaf = FAKE_OWN + 0x80000, object = FAKE_OWN + 0x20000;
	fake_tcmalloc(f);
	fake_put(f, TC_ROOT - 8 + (FAKE_HEAP >> 31 & 0x1ffff) * 8, leaf);
	fake_put(f, leaf + (FAKE_HEAP >> 13 & 0x3ffff) * 8, object);
	fake_put(f, object, 7);
	fake_put(f, object + 8, 0x3ffffffff);
}

static void what_only_looks_like_a_span_does_not_hide_the_page_map(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_tcmalloc_beside_a_look_alike);
	const struct allocator_reading *a = read_once(f, heaps_tcmalloc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 61 * 16 + 3 * 8192);
	assert_int_equal(a->live_count, 62);
	assert_true(a->consistency == 100.0);
	fake_end(f);
}

/* The program's break begins below one entry of the root, with what no page map knows, and all spans are below the next. */
static void fake_tcmalloc_across_an_entry(struct fake *f)
{
	const uint64_t entry = 0x7f0100000000;
	fake_map(f, FAKE_DATA, 0x140000, REGION_LIBRARY_BSS, "");
	fake_map(f, FAKE_OWN, 0x310000, REGION_ANONYMOUS, "");
	fake_map(f, entry - 0x10000, 0x50000, REGION_ALLOCATOR, "[heap]");
	fake_tcmalloc_at(f, entry);
}

static void a_heap_that_goes_on_below_the_next_entry_is_found(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_tcmalloc_across_an_entry);
	const struct allocator_reading *a = read_once(f, heaps_tcmalloc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 61 * 16 + 3 * 8192);
	assert_true(a->consistency == 100.0);
	fake_end(f);
}

static void a_central_list_that_counts_otherwise_lowers_the_consistency(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_tcmalloc);
	fake_put(f, TC_CENTRAL + 2 * 1216 + 120, 206);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_tcmalloc);
	assert_true(a->consistency == 50.0);
	fake_end(f);
}

static void gos_spans_stacks_and_gaps_are_told_apart(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_go);
	const struct allocator_reading *a = read_once(f, heaps_go);
	assert_int_equal(f->b.allocator_count, 2);
	assert_int_equal(a[0].live_bytes, 17 * 3200 + 40960);
	assert_int_equal(a[0].live_count, 1701);
	assert_int_equal(a[0].hole_bytes, 17 * (8192 - 3200));
	assert_int_equal(a[0].free_page_bytes, 8192);
	assert_int_equal(a[1].live_bytes, 4 * 8192);
	assert_true(a[0].consistency == 100.0);
	assert_non_null(strstr(a[0].how, "go1.22.3"));
	assert_string_equal(f->regions[1].label, "Go heap");
	assert_string_equal(f->regions[2].label, "Go metadata");
	fake_end(f);
}

static void gos_threads_have_the_parts_of_spans_that_they_run_on(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_go);
	/* of the stacks' span, 32 KiB in parts of 8; a thread that has a stack; one in a span of objects; one beside all */
	struct thread_stack threads[] = {
		{ .tid = 1, .stack_pointer = GO_HEAP + 0x83100 },
		{ .tid = 2, .stack_pointer = GO_HEAP + 0x85100, .stack_start = 1, .stack_end = 2 },
		{ .tid = 3, .stack_pointer = GO_HEAP + 0x100 },
		{ .tid = 4, .stack_pointer = GO_HEAP + 0x90000 }
	};
	go_span(f, 18, GO_HEAP + 0x80000, 4, 8192, 0, 0, 2);
	fake_keep(f);
	f->b.threads = threads;
	f->b.thread_count = 4;
	assert_non_null(read_once(f, heaps_go));
	assert_int_equal(threads[0].stack_start, GO_HEAP + 0x82000);
	assert_int_equal(threads[0].stack_end, GO_HEAP + 0x84000);
	assert_int_equal(threads[0].rss_bytes, 8192);
	assert_int_equal(threads[1].stack_end, 2);
	assert_int_equal(threads[2].stack_end, 0);
	assert_int_equal(threads[3].stack_end, 0);
	/* a size that does not divide the span is none */
	threads[0].stack_start = threads[0].stack_end = 0;
	fake_reset(f);
	fake_put(f, GO_SPAN(18) + 104, 65536);
	fake_keep(f);
	assert_non_null(read_once(f, heaps_go));
	assert_int_equal(threads[0].stack_end, 0);
	fake_end(f);
}

static void a_go_heap_that_counts_otherwise_lowers_the_consistency(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_go);
	fake_put(f, GO_SLOT + 24, 44);
	fake_keep(f);
	assert_true(read_once(f, heaps_go)->consistency == 50.0);
	fake_end(f);
}

static void a_go_program_without_a_list_is_named_alone(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_go);
	fake_put(f, GO_SLOT, 0);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_go);
	assert_int_equal(a->live_bytes, UINT64_MAX);
	assert_string_equal(a->how,
			    "identified only, because no list of spans was found (go1.22.3)");
	fake_end(f);
}

static void cpythons_pools_are_counted(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_cpython);
	const struct allocator_reading *a = read_once(f, heaps_cpython);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 4800 + 5120);
	assert_int_equal(a->live_count, 110);
	assert_int_equal(a->free_page_bytes, 16384);
	fake_end(f);
}

static unsigned pieces_read;

static ssize_t read_and_count(void *ctx, const struct target_piece *pieces, unsigned count)
{
	pieces_read += count;
	return fake_read(ctx, pieces, count);
}

/* Every lead of a fake's data leads into its heap, or its own tables; the first look tells how many there are. */
static int count_leads(void *ctx, const struct scan_block *block)
{
	unsigned *leads = ctx;
	*leads += (unsigned)block->lead_count;
	for (size_t i = 0; i < block->lead_count; i++)
		assert_true(block->words[block->leads[i]] >= FAKE_DATA);
	return 0;
}

static void data_is_read_once_for_all_who_look_through_it(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc);
	struct scan_copies copies;
	unsigned without = 0, first = 0, second = 0;
	f->memory.read = read_and_count;
	assert_int_equal(scan_data(&f->b, &f->memory, 0, count_leads, &without), 0);
	assert_true(without > 0);
	scan_copies_init(&copies, &f->b);
	f->memory.copies = &copies;
	assert_int_equal(scan_data(&f->b, &f->memory, 0, count_leads, &first), 0);
	pieces_read = 0;
	/* a copy that has grown old in between is made again */
	for (unsigned tries = 0; tries < 1000 && (!tries || pieces_read); tries++) {
		pieces_read = second = 0;
		assert_int_equal(scan_data(&f->b, &f->memory, 0, count_leads, &second), 0);
	}
	assert_int_equal(pieces_read, 0);
	assert_true(first > 0 && first <= without);
	assert_int_equal(second, first);
	f->memory.copies = NULL;
	scan_copies_fini(&copies);
	fake_end(f);
}

static void fake_far_arena(struct fake *f)
{
	fake_cpython_between(f, 497);
}

static void arenas_among_much_other_memory_are_found_without_looking_everywhere(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_far_arena);
	pieces_read = 0;
	f->memory.read = read_and_count;
	const struct allocator_reading *a = read_once(f, heaps_cpython);
	assert_non_null(a);
	assert_int_equal(a->live_count, 1000);
	assert_int_equal(a->live_bytes, 48000);
	assert_true(pieces_read < 1004 / 2);
	fake_end(f);
}

static unsigned labels_given(const struct fake *f)
{
	unsigned labels = 0;
	for (size_t i = 0; i < f->b.region_count; i++)
		labels += f->regions[i].label[0] != '\0';
	return labels;
}

static void hotspots_spaces_are_added_up(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_hotspot);
	const struct allocator_reading *a = read_once(f, heaps_hotspot);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, 1300000);
	assert_int_equal(a->reserved_bytes, 4500000);
	fake_end(f);
}

static void hotspots_heap_is_told_by_what_it_may_grow_to(void **state)
{
	(void)state;
	/* generations that lie one behind the other; that share all of it, which G1 pads; and sizes that nothing has */
	static const struct {
		uint64_t max[2];
		int found;
	} sizes[] = {
		{ { 0x3000, 0x5000 }, 1 }, { { 0x8018, 0x8008 }, 1 },         { { 0, 0x8000 }, 1 },
		{ { 0x8000, 0x8000 }, 0 }, { { UINT64_MAX, UINT64_MAX }, 0 }, { { 0, 0 }, 0 }
	};
	struct fake *f = fake_new(fake_hotspot);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fake_reset(f);
		fake_put(f, FAKE_HEAP + 32 + 5 * 72 + 64, sizes[i].max[0]);
		fake_put(f, FAKE_HEAP + 32 + 6 * 72 + 64, sizes[i].max[1]);
		struct err err = { 0 };
		assert_int_equal(heaps_hotspot(&f->b, &f->memory, &err), 0);
		assert_int_equal(f->b.allocator_count, 1);
		assert_string_equal(f->regions[1].label, sizes[i].found ? "HotSpot heap" : "");
		assert_int_equal(labels_given(f), sizes[i].found);
		assert_int_equal(f->b.allocators[0].resident_bytes,
				 sizes[i].found ? 0x3000 : UINT64_MAX);
	}
	/* two of that size: neither is known to be it */
	fake_reset(f);
	f->regions[4].start = JAVA_HEAP + 0x10000;
	f->regions[4].end = JAVA_HEAP + 0x18000;
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_hotspot);
	assert_int_equal(labels_given(f), 0);
	assert_int_equal(a->resident_bytes, UINT64_MAX);
	fake_end(f);
}

static void hotspots_spaces_that_hold_more_than_they_can_are_not_told(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_hotspot);
	fake_put(f, FAKE_HEAP + 32 + 64, 5000000);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_hotspot);
	assert_int_equal(a->live_bytes, UINT64_MAX);
	assert_non_null(strstr(a->how, "not told: only 0 %"));
	fake_end(f);
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

static const struct {
	void (*build)(struct fake *);
	int (*reader)(struct breakdown *, const struct memory *, struct err *);
	/* of the heap, at FAKE_HEAP or GO_HEAP */
	uint64_t bytes;
} heaps[] = {
	{ fake_jemalloc, heaps_jemalloc, 0x8000 },    { fake_tcmalloc, heaps_tcmalloc, 0xc000 },
	{ fake_mimalloc, heaps_mimalloc, 0x60000 },   { fake_mimalloc22, heaps_mimalloc, 0x60000 },
	{ fake_mimalloc30, heaps_mimalloc, 0x60000 }, { fake_mimalloc36, heaps_mimalloc, 0x60000 },
	{ fake_cpython, heaps_cpython, 0xc000 },      { fake_go, heaps_go, 0x110000 },
};

static void a_mapping_cut_anywhere_changes_no_figure(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++) {
		struct fake *f = fake_new(heaps[i].build);
		struct allocator_reading whole[2] = { 0 };
		struct err err = { 0 };
		assert_non_null(read_once(f, heaps[i].reader));
		size_t count = f->b.allocator_count;
		assert_in_range(count, 1, 2);
		memcpy(whole, f->b.allocators, count * sizeof(whole[0]));
		uint64_t heap = heaps[i].build == fake_go ? GO_HEAP : FAKE_HEAP;
		for (uint64_t at = FAKE_PAGE; at < heaps[i].bytes; at += FAKE_PAGE) {
			fake_reset(f);
			fake_cut(f, heap + at);
			assert_int_equal(heaps[i].reader(&f->b, &f->memory, &err), 0);
			assert_int_equal(f->b.allocator_count, count);
			for (size_t k = 0; k < count; k++) {
				const struct allocator_reading *a = &f->b.allocators[k];
				assert_int_equal(a->live_bytes, whole[k].live_bytes);
				assert_int_equal(a->live_count, whole[k].live_count);
				assert_int_equal(a->free_page_bytes, whole[k].free_page_bytes);
				assert_int_equal(a->hole_bytes, whole[k].hole_bytes);
				assert_int_equal(a->cache_bytes, whole[k].cache_bytes);
				assert_int_equal(a->metadata_bytes, whole[k].metadata_bytes);
				assert_int_equal(a->reserved_bytes, whole[k].reserved_bytes);
				assert_int_equal(a->resident_bytes, whole[k].resident_bytes);
				assert_true(a->consistency == whole[k].consistency);
			}
		}
		fake_end(f);
	}
}

static void what_is_not_resident_is_never_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++) {
		struct fake *f = fake_new(heaps[i].build);
		struct err err = { 0 };
		for (unsigned k = 0; k < f->count; k++) {
			struct fake_part *part = &f->parts[k];
			for (uint64_t off = 0; off < part->bytes; off += FAKE_PAGE) {
				fake_reset(f);
				if (!part->there[off / FAKE_PAGE])
					continue;
				fake_leave(f, part->addr + off);
				assert_int_equal(heaps[i].reader(&f->b, &f->memory, &err), 0);
				assert_int_equal(f->reads_of_absent, 0);
			}
		}
		fake_end(f);
	}
}

static void what_was_swapped_out_of_a_heap_lowers_its_consistency(void **state)
{
	(void)state;
	static const struct {
		void (*build)(struct fake *);
		int (*reader)(struct breakdown *, const struct memory *, struct err *);
	} both[] = { { fake_cpython, heaps_cpython }, { fake_mimalloc, heaps_mimalloc } };
	for (size_t i = 0; i < 2; i++) {
		struct fake *f = fake_new(both[i].build);
		const struct allocator_reading *a = read_once(f, both[i].reader);
		assert_true(a->consistency == 100.0);
		struct region *heap = NULL;
		for (size_t k = 0; k < f->b.region_count; k++)
			heap = f->regions[k].label[0] ? &f->regions[k] : heap;
		assert_non_null(heap);
		size_t which = (size_t)(heap - f->regions);
		fake_reset(f);
		f->regions[which].swap_bytes = f->regions[which].rss_bytes / 4;
		fake_keep(f);
		a = read_once(f, both[i].reader);
		assert_true(a->consistency > 79.0 && a->consistency < 81.0);
		fake_reset(f);
		f->regions[which].swap_bytes = f->regions[which].rss_bytes * 2;
		f->b.swap_bytes = f->regions[which].swap_bytes;
		fake_keep(f);
		a = read_once(f, both[i].reader);
		assert_int_equal(a->live_bytes, UINT64_MAX);
		assert_non_null(strstr(
			a->how, "% of what was read agrees with itself, some was swapped out"));
		fake_end(f);
	}
}

static void a_malloc_whose_books_are_swapped_out_is_said(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_cpython);
	f->regions[0].name = "/usr/lib/x86_64-linux-gnu/libc.so.6";
	fake_keep(f);
	assert_null(read_once(f, heaps_glibc));
	f->b.swap_bytes = FAKE_PAGE;
	const struct allocator_reading *a = read_once(f, heaps_glibc);
	assert_non_null(a);
	assert_int_equal(a->live_bytes, UINT64_MAX);
	assert_non_null(strstr(a->how, "its books were not found, some memory is swapped out"));
	fake_end(f);
}

static void what_is_resident_is_asked_for_once_and_what_comes_later_is_seen(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_jemalloc);
	uint64_t at = f->parts[1].addr, words[2 * FAKE_PAGE / 8];
	fake_leave(f, at + FAKE_PAGE);
	f->asked = 0;
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(memory_read(&f->memory, at + i * 8, words, 8), 0);
	assert_int_equal(f->asked, 1);
	assert_int_equal(memory_read(&f->memory, at, words, sizeof(words)), -EFAULT);
	const struct target_piece pieces[] = { { at, words, 8 }, { at + FAKE_PAGE, words, 8 } };
	assert_int_equal(memory_read_pieces(&f->memory, pieces, 2), 8);
	assert_int_equal(memory_read_pieces(&f->memory, pieces + 1, 1), -EFAULT);
	fake_touch(f, at + FAKE_PAGE, FAKE_PAGE);
	assert_int_equal(memory_read(&f->memory, at, words, sizeof(words)), 0);
	/* a stretch that takes another's place, and back */
	uint64_t far = MEMORY_STRETCHES * MEMORY_STRETCH_PAGES * (uint64_t)FAKE_PAGE;
	assert_int_equal(memory_read(&f->memory, at + far, words, 8), -EFAULT);
	assert_int_equal(memory_read(&f->memory, at, words, 8), 0);
	assert_int_equal(memory_read(&f->memory, UINT64_MAX - 7, words, 8), -EFAULT);
	assert_int_equal(f->reads_of_absent, 0);
	fake_end(f);
}

static void work_that_memory_does_not_warrant_is_not_done(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++) {
		struct fake *f = fake_new(heaps[i].build);
		struct memory_work enough = { .left = 1 << 30 };
		struct err err = { 0 };
		f->memory.work = &enough;
		assert_non_null(read_once(f, heaps[i].reader));
		assert_true(labels_given(f) > 0);
		uint64_t cost = (1 << 30) - enough.left;
		unsigned given_up = 0;
		/* wherever it ends, there are no figures and no names */
		for (uint64_t left = 0; left < cost; left += left < 65536 ? 4096 : cost / 16) {
			struct memory_work work = { .left = left };
			fake_reset(f);
			f->memory.work = &work;
			assert_int_equal(heaps[i].reader(&f->b, &f->memory, &err), 0);
			assert_true(work.spent);
			assert_int_equal(labels_given(f), 0);
			for (size_t k = 0; k < f->b.allocator_count; k++) {
				assert_int_equal(f->b.allocators[k].live_bytes, UINT64_MAX);
				assert_int_equal(f->b.allocators[k].exact, 0);
				assert_non_null(strstr(f->b.allocators[k].how, "given up: "));
			}
			assert_in_range(f->b.allocator_count, 0, 1);
			given_up += (unsigned)f->b.allocator_count;
		}
		/* once it is known to be there that is said */
		assert_true(given_up > 0);
		fake_end(f);
	}
}

static void less_than_half_that_agrees_is_not_told(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_go);
	fake_put(f, GO_SLOT + 24, 45);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_go);
	assert_int_equal(f->b.allocator_count, 1);
	assert_int_equal(a->live_bytes, UINT64_MAX);
	assert_int_equal(a->exact, 0);
	assert_string_equal(a->how, "not told: only 49 % of what was read agrees with itself");
	assert_int_equal(labels_given(f), 0);
	fake_end(f);
	f = fake_new(fake_jemalloc);
	/* pages that claim to be of an extent that does not hold them */
	for (uint64_t p = 8; p < 32; p++)
		fake_put(f, JE_LEAF + p * 8, JE_EXTENT(0) | 1ull << 48 | 1);
	fake_keep(f);
	a = read_once(f, heaps_jemalloc);
	assert_string_equal(a->how, "not told: only 25 % of what was read agrees with itself");
	assert_int_equal(labels_given(f), 0);
	fake_end(f);
}

static void a_list_of_spans_longer_than_what_is_there_of_it_is_none(void **state)
{
	(void)state;
	struct fake *f = fake_new(fake_go);
	fake_put(f, GO_SLOT + 8, 0x10000 / 8 + 1);
	fake_put(f, GO_SLOT + 16, 0x20000 / 8);
	fake_keep(f);
	const struct allocator_reading *a = read_once(f, heaps_go);
	assert_int_equal(a->live_bytes, UINT64_MAX);
	assert_non_null(strstr(a->how, "no list of spans was found"));
	fake_end(f);
}

struct sparse {
	/* every @step bytes a page, up to @end */
	uint64_t step, end;
	unsigned calls;
};

static ssize_t sparse_resident(void *ctx, uint64_t start, uint64_t end, struct memory_run *runs,
			       size_t max)
{
	struct sparse *s = ctx;
	size_t count = 0;
	s->calls++;
	end = end < s->end ? end : s->end;
	for (uint64_t at = (start + s->step - 1) / s->step * s->step; at < end && count < max;
	     at += s->step)
		runs[count++] = (struct memory_run){ at, at + FAKE_PAGE };
	return (ssize_t)count;
}

static uint64_t sparse_bytes(struct sparse *s, uint64_t start, uint64_t end)
{
	struct memory memory = { .ctx = s, .page_bytes = FAKE_PAGE, .resident = sparse_resident };
	struct memory_pages *pages = calloc(1, sizeof(*pages));
	assert_non_null(pages);
	pages->memory = &memory;
	uint64_t bytes = memory_resident(pages, start, end);
	free(pages);
	return bytes;
}

static void terabytes_with_little_in_them_are_asked_for_at_once(void **state)
{
	(void)state;
	struct sparse few = { .step = 1ull << 36, .end = 1ull << 44 };
	assert_int_equal(sparse_bytes(&few, 0, 1ull << 44), 256 * FAKE_PAGE);
	assert_in_range(few.calls, 1, 2);
	/* more runs than there is room for: the rest is asked for in turn */
	struct sparse many = { .step = 2 * FAKE_PAGE, .end = 64ull << 20 };
	assert_int_equal(sparse_bytes(&many, 0, 1ull << 40), 32ull << 20);
	assert_int_equal(sparse_bytes(&many, FAKE_PAGE, 9 * FAKE_PAGE), 4 * FAKE_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jemallocs_extents_and_caches_are_told_apart),
		cmocka_unit_test(data_is_read_once_for_all_who_look_through_it),
		cmocka_unit_test(jemalloc_built_for_57_bit_addresses_says_the_same),
		cmocka_unit_test(a_cache_behind_a_librarys_data_is_found),
		cmocka_unit_test(words_that_pass_for_an_extent_of_terabytes_are_no_jemalloc),
		cmocka_unit_test(jemallocs_classes_eight_bytes_apart_are_found_out),
		cmocka_unit_test(jemalloc_without_a_list_of_caches_says_so),
		cmocka_unit_test(what_was_never_touched_is_live_all_the_same),
		cmocka_unit_test(tcmallocs_spans_and_caches_are_told_apart),
		cmocka_unit_test(a_heap_that_goes_on_below_the_next_entry_is_found),
		cmocka_unit_test(what_only_looks_like_a_span_does_not_hide_the_page_map),
		cmocka_unit_test(a_central_list_that_counts_otherwise_lowers_the_consistency),
		cmocka_unit_test(gos_spans_stacks_and_gaps_are_told_apart),
		cmocka_unit_test(gos_threads_have_the_parts_of_spans_that_they_run_on),
		cmocka_unit_test(a_go_heap_that_counts_otherwise_lowers_the_consistency),
		cmocka_unit_test(a_go_program_without_a_list_is_named_alone),
		cmocka_unit_test(cpythons_pools_are_counted),
		cmocka_unit_test(
			arenas_among_much_other_memory_are_found_without_looking_everywhere),
		cmocka_unit_test(hotspots_spaces_are_added_up),
		cmocka_unit_test(hotspots_heap_is_told_by_what_it_may_grow_to),
		cmocka_unit_test(hotspots_spaces_that_hold_more_than_they_can_are_not_told),
		cmocka_unit_test(a_mapping_cut_anywhere_changes_no_figure),
		cmocka_unit_test(what_is_not_resident_is_never_read),
		cmocka_unit_test(what_was_swapped_out_of_a_heap_lowers_its_consistency),
		cmocka_unit_test(a_malloc_whose_books_are_swapped_out_is_said),
		cmocka_unit_test(what_is_resident_is_asked_for_once_and_what_comes_later_is_seen),
		cmocka_unit_test(work_that_memory_does_not_warrant_is_not_done),
		cmocka_unit_test(less_than_half_that_agrees_is_not_told),
		cmocka_unit_test(a_list_of_spans_longer_than_what_is_there_of_it_is_none),
		cmocka_unit_test(terabytes_with_little_in_them_are_asked_for_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
