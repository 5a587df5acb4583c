/* SPDX-License-Identifier: Apache-2.0 */
/* SNAPSHOT blocks: what goes in comes out, and what is changed on the way is refused or still adds up. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/shot.h"
#include "trace/trace.h"
#include "view/reconcile.h"

#define PAGE 4096ull
#define HEAP 0x555500000000ull

static struct snapshot *sample(void)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	s->pid = 4242;
	s->page_bytes = PAGE;
	s->time_ns = 123456789;
	s->status_rss_bytes = UINT64_MAX;
	memcpy(s->comm, "sample", 7);
	snapshot_text(s, "");
	uint32_t name = snapshot_text(s, "glibc malloc"), heap = snapshot_text(s, "heap (brk)");
	s->regions = calloc(3, sizeof(*s->regions));
	s->regions[0] = (struct snapshot_region){ .start = HEAP,
						  .end = HEAP + 16 * PAGE,
						  .rss_bytes = 12 * PAGE,
						  .anonymous_bytes = 12 * PAGE,
						  .private_bytes = 12 * PAGE,
						  .label = heap,
						  .class = SHEET_METADATA,
						  .flags = SNAPSHOT_PAGED | SNAPSHOT_ALLOCATOR };
	s->regions[1] = (struct snapshot_region){ .start = 0x7fff00000000ull,
						  .end = 0x7fff00002000ull,
						  .rss_bytes = PAGE,
						  .anonymous_bytes = PAGE,
						  .class = SHEET_STACKS,
						  .exact = 1,
						  .label = name };
	s->regions[2] = (struct snapshot_region){ .start = 0xffffffffff600000ull,
						  .end = 0xffffffffff601000ull,
						  .class = SHEET_KERNEL };
	s->region_count = 3;
	s->rss_bytes = 13 * PAGE;
	s->runs = calloc(2, sizeof(*s->runs));
	s->runs[0] = (struct snapshot_run){ HEAP, HEAP + 8 * PAGE, PAGE_IS_PRESENT };
	s->runs[1] = (struct snapshot_run){ HEAP + 10 * PAGE, HEAP + 14 * PAGE,
					    PAGE_IS_PRESENT | PAGE_IS_SHARED };
	s->run_count = 2;
	s->units = calloc(3, sizeof(*s->units));
	s->units[0] = (struct snapshot_unit){
		.start = HEAP, .bytes = 8 * PAGE, .kind = SNAPSHOT_CHUNKS, .flags = SNAPSHOT_MAIN
	};
	s->units[1] = (struct snapshot_unit){ .start = HEAP + 9 * PAGE,
					      .bytes = 4 * PAGE,
					      .kind = SNAPSHOT_SLAB,
					      .slot = 48,
					      .used = 100,
					      .cached = 7 };
	s->units[2] = (struct snapshot_unit){ .start = HEAP + 13 * PAGE,
					      .bytes = PAGE,
					      .kind = SNAPSHOT_FREE };
	s->unit_count = 3;
	s->pieces = calloc(20, sizeof(*s->pieces));
	for (unsigned i = 0; i < 20; i++) {
		s->pieces[i].start = HEAP + i * 1600 + 64;
		s->pieces[i].bytes = 800;
		s->pieces[i].kind = i % 4 + 1;
	}
	s->piece_count = 20;
	s->stacks = calloc(1, sizeof(*s->stacks));
	s->stacks[0] = (struct snapshot_stack){ 0x7fff00001000ull, 0x7fff00002000ull, 4242 };
	s->stack_count = 1;
	s->own = calloc(1, sizeof(*s->own));
	s->own[0] = (struct snapshot_range){ HEAP + 14 * PAGE, HEAP + 15 * PAGE };
	s->own_count = 1;
	s->allocators = calloc(1, sizeof(*s->allocators));
	s->allocators[0] = (struct snapshot_allocator){
		.name = name, .how = name, .cache_bytes = UINT64_MAX, .consistency = 9999
	};
	s->allocator_count = 1;
	s->sizes = calloc(1, sizeof(*s->sizes));
	s->sizes[0] = (struct snapshot_size){ 24, 10, 240 };
	s->size_count = 1;
	return s;
}

static void view_of(const struct blt_cols *cols, struct blt_view *view)
{
	memset(view, 0, sizeof(*view));
	for (unsigned i = 0; i < 8; i++) {
		view->col[i].at = (const uint8_t *)cols->col[i].data;
		view->col[i].end = view->col[i].at + cols->col[i].len;
	}
}

static void what_goes_in_comes_out(void **state)
{
	(void)state;
	struct snapshot *s = sample(), *again;
	struct blt_cols cols = { 0 }, twice = { 0 };
	struct blt_view view;
	int rc;
	assert_int_equal(snapshot_check(s), 0);
	shot_encode(&cols, s);
	view_of(&cols, &view);
	again = shot_decode(&view, &rc);
	assert_non_null(again);
	assert_string_equal(again->comm, "sample");
	assert_int_equal(again->status_rss_bytes, UINT64_MAX);
	assert_int_equal(again->allocators[0].cache_bytes, UINT64_MAX);
	assert_int_equal(again->regions[2].end, 0xffffffffff601000ull);
	assert_string_equal(snapshot_string(again, again->regions[0].label), "heap (brk)");
	uint64_t rss;
	assert_int_equal(shot_time(&view, &rss), 123456789);
	assert_int_equal(rss, 13 * PAGE);
	shot_encode(&twice, again);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(cols.col[i].len, twice.col[i].len);
		assert_memory_equal(cols.col[i].data, twice.col[i].data, cols.col[i].len);
	}
	blt_cols_fini(&cols);
	blt_cols_fini(&twice);
	snapshot_free(s);
	snapshot_free(again);
}

/* The first ones ended behind the command's name. */
static void a_block_of_before_has_no_figures_beside_and_smaps_is_its_rss(void **state)
{
	(void)state;
	struct snapshot *s = sample(), *again;
	struct blt_cols cols = { 0 };
	struct blt_view view;
	int rc;
	s->smaps_rss_bytes = 5;
	s->held_bytes = s->cgroup_cache_bytes = s->cgroup_socket_bytes = 0;
	shot_encode(&cols, s);
	view_of(&cols, &view);
	view.col[SHC_HEAD].end -= 4; /* a byte each */
	again = shot_decode(&view, &rc);
	assert_non_null(again);
	assert_string_equal(again->comm, "sample");
	assert_int_equal(again->smaps_rss_bytes, again->rss_bytes);
	assert_int_equal(again->held_bytes, UINT64_MAX);
	assert_int_equal(again->cgroup_socket_bytes, UINT64_MAX);
	snapshot_free(again);
	view.col[SHC_HEAD].end += 3; /* within them */
	assert_null(shot_decode(&view, &rc));
	assert_int_equal(rc, -EBADMSG);
	blt_cols_fini(&cols);
	snapshot_free(s);
}

static uint64_t seed = 88172645463325252ull;
static uint64_t dice(uint64_t sides)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % sides;
}

static void what_was_changed_is_refused_or_adds_up(void **state)
{
	(void)state;
	struct snapshot *s = sample();
	unsigned kept = 0;
	for (int round = 0; round < 60000; round++) {
		struct blt_cols cols = { 0 };
		struct blt_view view;
		struct sheet_block blocks[6];
		struct err err = { 0 };
		int rc;
		shot_encode(&cols, s);
		for (uint64_t n = 1 + dice(4); n; n--) {
			struct buf *col = &cols.col[dice(8)];
			if (col->len)
				col->data[dice(col->len)] =
					(char)(dice(2) ? dice(256) : 0x7f + dice(3));
		}
		view_of(&cols, &view);
		unsigned cut = (unsigned)dice(40);
		if (cut < 8 && cols.col[cut].len)
			view.col[cut].end -= dice(cols.col[cut].len);
		struct snapshot *got = shot_decode(&view, &rc);
		assert_true(got || rc == -EBADMSG);
		if (got) {
			for (unsigned i = 0; i < 6; i++)
				blocks[i] = (struct sheet_block){ HEAP + dice(17 * PAGE),
								  dice(3 * PAGE), (uint32_t)dice(2),
								  0 };
			const struct sheet_input in = { .snapshot = got,
							.blocks = blocks,
							.block_count = 6,
							.group_count = 2,
							.recorded = 1,
							.complete = dice(2) == 0,
							.lossy = dice(2) == 0 };
			struct sheet *sheet = reconcile(&in, &err);
			assert_non_null(sheet);
			sheet_free(sheet);
			kept++;
		}
		snapshot_free(got);
		blt_cols_fini(&cols);
	}
	assert_in_range(kept, 1000, 60000);
	snapshot_free(s);
}

/* A process's next snapshot is nearly its last one. */
static void snapshots_that_resemble_the_first_take_little_and_need_it(void **state)
{
	(void)state;
	char path[] = "/tmp/byteledger-shot-XXXXXX";
	struct err err = { 0 };
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	assert_non_null(w);
	struct snapshot *s = sample();
	uint64_t sizes[3] = { trace_writer_bytes(w) };
	for (unsigned i = 0; i < 2; i++) {
		s->time_ns = 1000 + i;
		assert_int_equal(trace_writer_snapshot(w, s, &err), 0);
		sizes[i + 1] = trace_writer_bytes(w);
	}
	assert_int_equal(trace_writer_finish(w, NULL, &err), 0);
	assert_true(sizes[2] - sizes[1] < sizes[1] - sizes[0]);
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		struct trace_reader *r = trace_reader_new(path, &err);
		struct trace_shot *shots = NULL;
		size_t count, bad;
		assert_non_null(r);
		assert_int_equal(trace_reader_shots(r, &shots, &count, &bad, &err), 0);
		assert_int_equal(count, damaged ? 0 : 2);
		assert_int_equal(bad, damaged ? 2 : 0);
		for (size_t i = count; i--;) {
			struct blt_cols in = { 0 }, out = { 0 };
			struct snapshot *got = trace_reader_shot(r, &shots[i], &err);
			assert_non_null(got);
			assert_int_equal(got->time_ns, 1000 + i);
			s->time_ns = 1000 + i;
			shot_encode(&in, s);
			shot_encode(&out, got);
			for (unsigned c = 0; c < 8; c++) {
				assert_int_equal(in.col[c].len, out.col[c].len);
				assert_memory_equal(in.col[c].data, out.col[c].data, in.col[c].len);
			}
			blt_cols_fini(&in);
			blt_cols_fini(&out);
			snapshot_free(got);
		}
		free(shots);
		trace_reader_freep(&r);
		int file = open(path, O_WRONLY | O_CLOEXEC);
		assert_int_equal(pwrite(file, "\xff\xff", 2, (off_t)sizes[0] + 60), 2);
		close(file);
	}
	snapshot_free(s);
	unlink(path);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshots_that_resemble_the_first_take_little_and_need_it),
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(a_block_of_before_has_no_figures_beside_and_smaps_is_its_rss),
		cmocka_unit_test(what_was_changed_is_refused_or_adds_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
