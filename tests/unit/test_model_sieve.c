/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/prof.h"
#include "model/sieve.h"
#include "wire/heap_filter.h"

#define THREADS 4
#define MODULES 3
#define STACKS \
	6 /* each has a frame of its own: two of each module; stack 0 and frames of module 0 have none */
#define BLOCKS 300

/* Takes what is handed on and holds it against what it must be. */
struct taker {
	struct sink sink;
	struct prof *prof;
	uint8_t lives[BLOCKS], half[THREADS];
	uint64_t last_ns, half_reallocs;
	struct event forked;
};

static int take_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct taker *t = (struct taker *)sink;
	return prof_sink(t->prof)->define(prof_sink(t->prof), def, err);
}

static int take_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct taker *t = (struct taker *)sink;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		uint8_t *half = &t->half[ev->thread.v];
		assert_true(ev->time_ns >= t->last_ns);
		t->last_ns = ev->time_ns;
		if (ev->kind == EVENT_FORKED)
			t->forked = *ev;
		if (ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE) {
			assert_int_equal(t->lives[ev->block.v], ev->kind == EVENT_FREE);
			t->lives[ev->block.v] ^= 1;
			/* both halves, one behind the other, or neither */
			t->half_reallocs +=
				*half != (ev->kind == EVENT_ALLOC && ev->flags & EVENT_F_REALLOC);
			*half = ev->kind == EVENT_FREE && ev->flags & EVENT_F_REALLOC;
		}
	}
	return prof_sink(t->prof)->put(prof_sink(t->prof), events, count, err);
}

static uint64_t rand_state;
static uint32_t below(uint32_t n)
{
	rand_state = rand_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rand_state >> 33) % n;
}

static const char *const names[] = { "main", "worker-1", "worker-2", "idle", "" };
static const char *const paths[] = { "", "/usr/bin/prog", "/lib/libone.so", "/lib/libtwo.so" };

struct world {
	struct err err;
	struct taker taker;
	struct sieve *sieve;
	const char *name[THREADS];
	/* more than the sieve's own */
	struct event batch[700];
	size_t count;
};

static void define(struct world *w, const struct def *def)
{
	assert_int_equal(sieve_sink(w->sieve)->define(sieve_sink(w->sieve), def, &w->err), 0);
}

static void name_thread(struct world *w, uint32_t id, const char *name)
{
	const struct def def = { .kind = DEF_THREAD,
				 .id = id,
				 .thread = { .tid = 100 + id, .name = *name ? name : NULL } };
	w->name[id] = name;
	define(w, &def);
}

static void define_world(struct world *w)
{
	for (uint32_t i = 0; i < THREADS; i++)
		name_thread(w, i, names[i]);
	for (uint32_t i = 1; i <= MODULES; i++) {
		const struct def def = { .kind = DEF_MODULE,
					 .id = i,
					 .module = { .path = paths[i] } };
		define(w, &def);
	}
	for (uint32_t i = 1; i <= STACKS; i++) {
		const struct def frame = { .kind = DEF_FRAME,
					   .id = i,
					   .frame = { .module = { i % (MODULES + 1) },
						      .offset = i } };
		const struct def stack = { .kind = DEF_STACK,
					   .id = i,
					   .stack = { .parent = { i - 1 }, .frame = { i } } };
		define(w, &frame);
		define(w, &stack);
	}
}

static void begin(struct world *w, const struct sieve_word *words, size_t count)
{
	*w = (struct world){ .taker = { .sink = { .define = take_define, .put = take_put } } };
	w->taker.prof = prof_new(&w->err);
	w->sieve = sieve_new(words, count, &w->taker.sink, &w->err);
	assert_non_null(w->sieve);
	define_world(w);
}

static void end(struct world *w)
{
	sieve_freep(&w->sieve);
	prof_free(w->taker.prof);
}

static void put(struct world *w)
{
	struct sink *sink = sieve_sink(w->sieve);
	assert_int_equal(sink->put(sink, w->batch, w->count, &w->err), 0);
	w->count = 0;
}

/* What the words below mean, said once more. */
static int wanted(const char *thread, uint32_t stack)
{
	uint32_t module = stack % (MODULES + 1);
	return strncmp(thread, "worker-", 7) == 0 && strcmp(thread, "worker-2") != 0 &&
	       strcmp(paths[module], "/lib/libtwo.so") != 0;
}

static const struct sieve_word words[] = {
	{ SIEVE_THREAD, 0, "work*" },
	{ SIEVE_THREAD, 1, "*-2" },
	{ SIEVE_MODULE, 1, "libtwo.so" },
};

struct sums {
	uint64_t allocations, bytes, frees, live;
};

static void run_random(uint64_t seed)
{
	struct world w;
	struct event live[BLOCKS];
	uint8_t state[BLOCKS] = { 0 }; /* 1 kept, 2 left out */
	struct sums sum[3] = { 0 };
	uint64_t peak = 0;
	rand_state = seed;
	begin(&w, words, 3);
	for (uint64_t ns = 0; ns < 30000; ns++) {
		uint32_t thread = below(THREADS), block = below(BLOCKS), old = 0;
		if (below(200) == 0) {
			put(&w);
			name_thread(&w, thread, names[below(5)]);
		}
		if (w.count + 2 > 1 + below(699))
			put(&w);
		struct event ev = { .kind = EVENT_FREE, .thread = { thread }, .time_ns = ns };
		if (state[block]) {
			ev = live[block];
			ev.kind = EVENT_FREE;
			ev.thread.v = thread;
			ev.time_ns = ns;
			ev.flags = below(3) ? 0 : EVENT_F_REALLOC;
			old = ev.flags;
			sum[state[block]].frees++;
			sum[state[block]].live -= ev.bytes;
			state[block] = 0;
			w.batch[w.count++] = ev;
			if (!old)
				continue;
			if (below(20) == 0)
				put(&w);
		}
		ev.kind = EVENT_ALLOC;
		ev.flags = (uint8_t)old;
		ev.bytes = 1 + below(1000);
		ev.stack.v = below(STACKS + 1);
		ev.block.v = block;
		live[block] = ev;
		state[block] = wanted(w.name[thread], ev.stack.v) ? 1 : 2;
		sum[state[block]].allocations++;
		sum[state[block]].bytes += ev.bytes;
		sum[state[block]].live += ev.bytes;
		peak = sum[1].live > peak ? sum[1].live : peak;
		w.batch[w.count++] = ev;
	}
	put(&w);
	assert_int_equal(sieve_tell(w.sieve, &w.err), 0);
	struct prof_totals t;
	prof_totals(w.taker.prof, &t);
	assert_true(sum[1].allocations > 1000 && sum[2].allocations > 1000);
	assert_int_equal(t.cost.allocations, sum[1].allocations);
	assert_int_equal(t.cost.allocated_bytes, sum[1].bytes);
	assert_int_equal(t.cost.frees, sum[1].frees);
	assert_int_equal(t.cost.leaked_bytes, sum[1].live);
	assert_int_equal(t.cost.peak_bytes, peak);
	assert_int_equal(t.filtered_allocations, sum[2].allocations);
	assert_int_equal(t.filtered_bytes, sum[2].bytes);
	assert_int_equal(t.filtered_frees, sum[2].frees);
	assert_int_equal(w.taker.half_reallocs, 0);
	end(&w);
}

static void what_is_kept_and_what_is_left_out_are_counted_exactly(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		run_random(seed);
}

static struct event alloc(uint32_t thread, uint32_t stack, uint32_t block, uint8_t flags)
{
	return (struct event){ .kind = EVENT_ALLOC,
			       .flags = flags,
			       .thread = { thread },
			       .bytes = 10 + block,
			       .stack = { stack },
			       .block = { block } };
}

static void what_lives_when_a_file_begins_stays_what_it_was_judged_to_be(void **state)
{
	(void)state;
	struct world w;
	begin(&w, words, 1);
	w.batch[0] = alloc(1, 1, 1, 0); /* of a worker */
	w.batch[1] = alloc(0, 1, 2, 0);
	w.batch[2] = alloc(0, 1, 3, 0);
	w.count = 3;
	put(&w);
	assert_int_equal(sieve_tell(w.sieve, &w.err), 0);
	sieve_restart(w.sieve);
	prof_free(w.taker.prof);
	w.taker.prof = prof_new(&w.err);
	memset(w.taker.lives, 0, sizeof(w.taker.lives));
	define_world(&w);
	for (uint32_t i = 1; i <= 3; i++) /* by the first thread, as the source hands them over */
		w.batch[i - 1] = alloc(0, 1, i, EVENT_F_INHERITED);
	w.batch[3] = (struct event){
		.kind = EVENT_FORKED, .value = 7, .addr = 3, .bytes = 11 + 12 + 13, .block = { 1 }
	};
	w.batch[4] = alloc(0, 1, 2, 0);
	w.batch[4].kind = EVENT_FREE;
	w.count = 5;
	put(&w);
	assert_int_equal(sieve_tell(w.sieve, &w.err), 0);
	struct prof_totals t;
	prof_totals(w.taker.prof, &t);
	assert_int_equal(t.cost.allocations, 1);
	assert_int_equal(t.cost.allocated_bytes, 11);
	assert_int_equal(t.inherited_allocations, 1);
	assert_int_equal(t.inherited_bytes, 11);
	assert_int_equal(t.filtered_allocations, 2);
	assert_int_equal(t.filtered_bytes, 12 + 13);
	assert_int_equal(t.filtered_frees, 1);
	/* which the file before has counted */
	assert_int_equal(t.filtered_inherited_allocations, 2);
	assert_int_equal(t.filtered_inherited_bytes, 12 + 13);
	/* what this file leaves out itself */
	w.batch[0] = alloc(0, 1, 2, 0);
	w.count = 1;
	put(&w);
	assert_int_equal(sieve_tell(w.sieve, &w.err), 0);
	prof_totals(w.taker.prof, &t);
	assert_int_equal(t.filtered_allocations, 3);
	assert_int_equal(t.filtered_inherited_allocations, 2);
	assert_int_equal(t.filtered_inherited_bytes, 12 + 13);
	end(&w);
}

static void code_without_a_module_has_the_empty_name(void **state)
{
	(void)state;
	const struct sieve_word any[] = { { SIEVE_MODULE, 0, "?*" } };
	struct world w;
	begin(&w, any, 1);
	w.batch[0] = alloc(0, 0, 1, 0); /* no frame at all */
	w.batch[1] = alloc(0, 4, 2, 0); /* a frame of module 0 */
	w.batch[2] = alloc(0, 5, 3, 0);
	w.count = 3;
	put(&w);
	assert_int_equal(sieve_tell(w.sieve, &w.err), 0);
	struct prof_totals t;
	prof_totals(w.taker.prof, &t);
	assert_int_equal(t.cost.allocated_bytes, 13);
	assert_int_equal(t.filtered_allocations, 2);
	end(&w);
}

static void a_filter_consists_of_words(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int check;
	} cases[] = {
		{ "", 0 },
		{ "module:a", 1 },
		{ "thread:a", 2 },
		{ "!thread:a b*,module:lib[a-c].so,thread:?", 3 },
		{ "thread:!a", 2 },
		{ ",", -1 },
		{ "thread:", -1 },
		{ "thread:a,", -1 },
		{ "thread:,module:a", -1 },
		{ "!!thread:a", -1 },
		{ "threads:a", -1 },
		{ "module", -1 },
		{ "a", -1 },
		{ "thread:a,b", -1 },
		{ " thread:a", -1 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(wire_filter_check(cases[i].text), cases[i].check);
	char text[WIRE_FILTER_BYTES + 1] = "thread:";
	memset(text + 7, 'x', WIRE_FILTER_BYTES - 7);
	assert_int_equal(wire_filter_check(text), -1);
	text[WIRE_FILTER_BYTES - 1] = '\0';
	assert_int_equal(wire_filter_check(text), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_and_what_is_left_out_are_counted_exactly),
		cmocka_unit_test(what_lives_when_a_file_begins_stays_what_it_was_judged_to_be),
		cmocka_unit_test(code_without_a_module_has_the_empty_name),
		cmocka_unit_test(a_filter_consists_of_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
