/* SPDX-License-Identifier: Apache-2.0 */
/* Single blocks: what the columns select is what every row, looked at by itself, says. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "query/blocks.h"
#include "trace_stream.h"

#define EVENTS 120000
#define FILTERS 300

static int run(void *ctx, struct sink *sink, struct err *err)
{
	struct stream s;
	(void)err;
	stream_init(&s, *(const uint64_t *)ctx, 5000);
	s.stacks_max = 500;
	stream_run(&s, sink, EVENTS);
	stream_fini(&s);
	return 0;
}

static struct prof *names_of(const struct query_source *source)
{
	struct err err = { 0 };
	struct prof *prof = prof_new(&err);
	assert_non_null(prof);
	assert_int_equal(source->run(source->ctx, prof_sink(prof), &err), 0);
	return prof;
}

struct seen {
	const struct block_filter *filter;
	uint64_t rows, matched, ids;
	/* one of them */
	struct block_row some;
};

static int scan_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct seen *seen = ctx;
	seen->rows += count;
	for (size_t i = 0; i < count; i++) {
		if (!block_matches(seen->filter, &rows[i]))
			continue;
		seen->matched++;
		seen->ids += rows[i].id * rows[i].id;
		seen->some = rows[i];
	}
	return 0;
}

static int select_each(void *ctx, struct block_view *view, struct err *err)
{
	struct seen *seen = ctx;
	uint64_t least, most;
	const uint8_t *mask = block_view_mask(view);
	const uint32_t *ids = block_view_ids(view, err);
	const uint16_t *sizes = block_view_sizes(view, err),
		       *lives = block_view_lifetimes(view, err);
	assert_true(ids && sizes && lives);
	block_view_id_range(view, &least, &most);
	seen->rows += block_view_count(view);
	seen->matched += block_view_matched(view);
	for (uint32_t i = 0; i < block_view_count(view); i++) {
		struct block_row row;
		if (!mask[i])
			continue;
		assert_int_equal(block_view_row(view, i, &row, err), 0);
		assert_int_equal(row.id, ids[i]);
		assert_in_range(row.id, least, most);
		assert_int_equal(sizes[i], blocks_code(row.bytes));
		if (row.freed_ns == BLOCK_NEVER)
			assert_int_equal(lives[i], BLOCK_CODE_UNENDED);
		else
			assert_int_equal(lives[i], blocks_code(row.freed_ns - row.time_ns));
		seen->ids += row.id * row.id;
	}
	return 0;
}

static uint64_t value(struct stream *s, uint64_t below)
{
	return stream_random(s) % 3 ? stream_random(s) % below : stream_random(s) % below / 1000000;
}

/* Bounds that hit values and that lie between them, empty ones, and a value of a row itself. */
static void draw(struct stream *s, struct block_filter *f, uint64_t end_ns, uint8_t *stacks,
		 const struct block_row *near)
{
	*f = (struct block_filter){ .to_ns = UINT64_MAX,
				    .at_ns = UINT64_MAX,
				    .max_size = UINT64_MAX,
				    .address_to = UINT64_MAX,
				    .lifetime_max_ns = UINT64_MAX,
				    .end_ns = end_ns };
	uint64_t dice = stream_random(s);
	if (dice & 1)
		f->min_size = dice & 2 ? near->bytes : value(s, 5000);
	if (dice & 4)
		f->max_size = dice & 8 ? near->bytes : value(s, 1 << 24);
	if (dice & 16)
		f->from_ns = dice & 32 ? near->time_ns : value(s, end_ns);
	if (dice & 64)
		f->to_ns = dice & 128 ? near->time_ns + 1 : value(s, end_ns);
	if ((dice >> 8 & 3) == 0)
		f->lifetime_min_ns = value(s, end_ns / 10);
	if ((dice >> 10 & 3) == 0)
		f->lifetime_max_ns = value(s, end_ns);
	if ((dice >> 12 & 3) == 0) {
		f->has_at = 1;
		f->at_ns = dice >> 14 & 1 ? UINT64_MAX - 1 : value(s, end_ns);
	}
	if ((dice >> 42 & 3) == 0) {
		f->address_from = dice >> 44 & 1 ? near->addr + near->bytes - 1 : near->addr / 2;
		f->address_to = dice >> 45 & 1 ? near->addr : near->addr + value(s, 1 << 24);
	}
	f->leaked = (dice >> 16 & 7) == 0;
	f->has_thread = (dice >> 20 & 7) == 0;
	f->tid = dice >> 24 & 1 ? 4242 : 5001 + (uint32_t)(dice >> 25) % 50;
	f->stacks = (dice >> 40 & 3) == 0 ? stacks : NULL;
}

static void a_filter_takes_the_rows_that_match_it(void **state)
{
	(void)state;
	struct err err = { 0 };
	uint64_t seed = 41;
	const struct query_source source = { .run = run, .ctx = &seed };
	struct prof *names = names_of(&source);
	struct blocks *blocks = blocks_new(&source, names, &err);
	assert_string_equal(err.msg, "");
	assert_non_null(blocks);
	struct stream dice;
	struct prof_totals totals;
	stream_init(&dice, 7, 1);
	prof_totals(names, &totals);
	uint8_t *stacks = calloc(prof_stack_count(names) + 1, 1);
	for (uint32_t i = 0; i < prof_stack_count(names); i++)
		stacks[i] = stream_random(&dice) % 3 == 0;
	struct seen all = { .filter = &(struct block_filter){ .to_ns = UINT64_MAX,
							      .max_size = UINT64_MAX,
							      .address_to = UINT64_MAX,
							      .lifetime_max_ns = UINT64_MAX } };
	assert_int_equal(blocks_scan(blocks, scan_each, &all, &err), 0);
	assert_int_equal(all.matched, blocks_count(blocks));
	assert_true(all.matched > 10 * BLOCK_PAGE);
	unsigned some = 0;
	struct block_row near = all.some;
	for (int i = 0; i < FILTERS; i++) {
		struct block_filter f;
		struct err none = { 0 };
		draw(&dice, &f, dice.time + 6000 * 1000000ull, stacks, &near);
		struct seen scanned = { .filter = &f }, chosen = { .filter = &f };
		assert_int_equal(blocks_scan(blocks, scan_each, &scanned, &none), 0);
		assert_int_equal(blocks_select(blocks, &f, i & 1, select_each, &chosen, &none), 0);
		assert_int_equal(chosen.rows, scanned.rows);
		assert_int_equal(chosen.matched, scanned.matched);
		assert_int_equal(chosen.ids, scanned.ids);
		some += scanned.matched && scanned.matched < scanned.rows;
		if (scanned.matched)
			near = scanned.some;
	}
	assert_true(some > FILTERS / 10);
	for (uint64_t id = 1; id <= blocks_count(blocks); id += 997) {
		struct block_row row;
		assert_int_equal(blocks_find(blocks, id, &row, &err), 1);
		assert_int_equal(row.id, id);
	}
	struct block_row row;
	assert_int_equal(blocks_find(blocks, blocks_count(blocks) + 1, &row, &err), 0);
	assert_int_equal(blocks_find(blocks, 0, &row, &err), 0);
	blocks_free(blocks);
	prof_free(names);
	free(stacks);
	stream_fini(&dice);
}

struct reader {
	const struct blocks *blocks;
	atomic_int ends;
	uint64_t looks, last;
	int shrank;
};

static void *read_on(void *ctx)
{
	struct reader *r = ctx;
	const struct block_filter f = { .to_ns = UINT64_MAX,
					.at_ns = UINT64_MAX,
					.min_size = 64,
					.max_size = UINT64_MAX,
					.address_to = UINT64_MAX,
					.lifetime_max_ns = UINT64_MAX };
	int last_look = 0;
	while (!last_look) {
		struct err err = { 0 };
		struct seen seen = { .filter = &f };
		last_look = atomic_load(&r->ends);
		if (blocks_select(r->blocks, &f, 0, select_each, &seen, &err) < 0 ||
		    seen.matched < r->last)
			r->shrank = 1;
		r->last = seen.matched;
		r->looks++;
	}
	return NULL;
}

static void what_was_written_so_far_can_be_read_meanwhile(void **state)
{
	(void)state;
	struct err err = { 0 };
	uint64_t seed = 42;
	const struct query_source source = { .run = run, .ctx = &seed };
	struct prof *names = names_of(&source);
	struct blocks *blocks = blocks_open(&err);
	assert_non_null(blocks);
	struct reader reader = { .blocks = blocks };
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, read_on, &reader), 0);
	assert_int_equal(blocks_fill(blocks, &source, names, &err), 0);
	atomic_store(&reader.ends, 1);
	pthread_join(thread, NULL);
	assert_int_equal(reader.shrank, 0);
	struct block_filter f = { .to_ns = UINT64_MAX,
				  .at_ns = UINT64_MAX,
				  .min_size = 64,
				  .max_size = UINT64_MAX,
				  .address_to = UINT64_MAX,
				  .lifetime_max_ns = UINT64_MAX };
	struct seen all = { .filter = &f };
	assert_int_equal(blocks_scan(blocks, scan_each, &all, &err), 0);
	assert_int_equal(reader.last, all.matched); /* its last look began behind the end */
	blocks_free(blocks);
	prof_free(names);
}

struct row_copy {
	struct block_row *rows;
	size_t count;
};

static int copy_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct row_copy *c = ctx;
	struct block_row *grown = realloc(c->rows, (c->count + count) * sizeof(*rows));
	assert_non_null(grown);
	c->rows = grown;
	memcpy(c->rows + c->count, rows, count * sizeof(*rows));
	c->count += count;
	return 0;
}

/* A replay ends where its sink fails; the stream would end the test. */
struct until_full {
	struct sink sink;
	struct sink *to;
	struct err err;
};

static int until_full_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct until_full *u = (struct until_full *)sink;
	return u->err.code ? 0 : u->to->define(u->to, def, err);
}

static int until_full_put(struct sink *sink, const struct event *events, size_t count,
			  struct err *err)
{
	struct until_full *u = (struct until_full *)sink;
	(void)err;
	if (!u->err.code)
		u->to->put(u->to, events, count, &u->err);
	return 0;
}

static int run_until_full(void *ctx, struct sink *sink, struct err *err)
{
	struct until_full u = { { until_full_define, until_full_put }, sink, { 0 } };
	run(ctx, &u.sink, err);
	*err = u.err;
	return u.err.code;
}

/* A disk that is full: by the limit on file size, which needs no file system of our own. */
static void rows_that_find_no_room_leave_those_before_them(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct rlimit was, limit;
	uint64_t seed = 43;
	const struct query_source source = { .run = run_until_full, .ctx = &seed };
	struct prof *names = names_of(&source);
	struct row_copy all = { 0 }, kept = { 0 };
	struct blocks *whole = blocks_new(&source, names, &err);
	assert_non_null(whole);
	assert_false(blocks_is_full(whole));
	assert_int_equal(blocks_scan(whole, copy_each, &all, &err), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	limit = (struct rlimit){ 600 << 10, was.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	struct blocks *blocks = blocks_open(&err);
	assert_non_null(blocks);
	assert_int_equal(blocks_fill(blocks, &source, names, &err), 0);
	struct err none = { 0 };
	assert_null(blocks_new(&source, names, &none));
	assert_int_equal(none.code, -ENOSPC);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_true(blocks_is_full(blocks));
	assert_string_equal(err.msg, "");
	assert_int_equal(blocks_scan(blocks, copy_each, &kept, &err), 0);
	assert_in_range(kept.count, BLOCK_PAGE, all.count - 1);
	assert_memory_equal(kept.rows, all.rows, kept.count * sizeof(*kept.rows));
	free(all.rows);
	free(kept.rows);
	blocks_free(whole);
	blocks_free(blocks);
	prof_free(names);
}

/* What a row takes on the disk, which at 10^9 events decides whether they fit. */
static void a_row_takes_less_than_half_of_its_bytes_on_the_disk(void **state)
{
	(void)state;
	struct err err = { 0 };
	uint64_t seed = 44;
	const struct query_source source = { .run = run, .ctx = &seed };
	struct prof *names = names_of(&source);
	struct blocks *blocks = blocks_new(&source, names, &err);
	assert_non_null(blocks);
	assert_in_range(blocks_disk(blocks) / blocks_count(blocks), 10, 41);
	blocks_free(blocks);
	prof_free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filter_takes_the_rows_that_match_it),
		cmocka_unit_test(what_was_written_so_far_can_be_read_meanwhile),
		cmocka_unit_test(rows_that_find_no_room_leave_those_before_them),
		cmocka_unit_test(a_row_takes_less_than_half_of_its_bytes_on_the_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
