/* SPDX-License-Identifier: Apache-2.0 */
/* Selections on random streams, compared with somebody who keeps a list of all blocks and looks at each. */
#include <errno.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/query.h"

#define STACKS 8
#define EVENTS 400
#define SLOTS 24
#define MS 1000000ull

static const char *const names[STACKS + 1] = {
	NULL,           "main",   "parse(int)", "std::vector<a>", "helper",
	"operator new", "run_it", NULL,         "Parser::go"
};
/* parent of each stack; the frame of stack n is frame n */
static const uint32_t parents[STACKS + 1] = { 0, 0, 1, 2, 1, 4, 0, 6, 7 };

struct stream {
	struct event events[EVENTS];
	size_t count;
	uint64_t runtime_ns;
};

static void make_stream(struct stream *s)
{
	struct {
		int live;
		uint64_t bytes;
		uint32_t stack;
	} slot[SLOTS] = { 0 };
	uint64_t now = 0;
	s->count = 1 + (size_t)random() % EVENTS;
	for (size_t i = 0; i < s->count; i++) {
		uint32_t b = (uint32_t)random() % SLOTS;
		/* many events share a time, as they do in a recording of 1 ms resolution */
		now += random() % 3 ? 0 : (uint64_t)random() % 20 * MS;
		struct event *ev = &s->events[i];
		*ev = (struct event){ .kind = slot[b].live ? EVENT_FREE : EVENT_ALLOC,
				      .time_ns = now,
				      .thread = { (uint32_t)random() % 2 },
				      .block = { b } };
		if (!slot[b].live) {
			slot[b].bytes = (uint64_t)random() % 10;
			slot[b].stack = 1 + (uint32_t)random() % STACKS;
		} else if (random() % 3 == 0) {
			ev->flags = EVENT_F_TEMPORARY;
		}
		slot[b].live ^= 1;
		ev->bytes = slot[b].bytes;
		ev->stack.v = slot[b].stack;
	}
	s->runtime_ns = now + (uint64_t)random() % 5 * MS;
}

static int stream_run(void *ctx, struct sink *sink, struct err *err)
{
	struct stream *s = ctx;
	sink->define(sink,
		     &(struct def){ .kind = DEF_PROCESS,
				    .process = { .pid = 1, .start_realtime_ns = 1000 * MS } },
		     err);
	for (uint32_t i = 0; i < 2; i++)
		sink->define(sink,
			     &(struct def){ .kind = DEF_THREAD, .id = i, .thread = { .tid = i } },
			     err);
	sink->define(sink, &(struct def){ .kind = DEF_MODULE, .id = 1, .module = { .path = "/a" } },
		     err);
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct symbol symbol = { .function = names[i] };
		sink->define(sink,
			     &(struct def){ .kind = DEF_FRAME, .id = i, .frame = { { 1 }, i } },
			     err);
		sink->define(sink,
			     &(struct def){ .kind = DEF_STACK,
					    .id = i,
					    .stack = { { parents[i] }, { i }, 0 } },
			     err);
		if (names[i])
			sink->define(sink,
				     &(struct def){ .kind = DEF_SYMBOL,
						    .id = i,
						    .symbol = { &symbol, 1 } },
				     err);
	}
	for (size_t i = 0; i < s->count;) {
		size_t n = 1 + (size_t)random() % 50;
		if (n > s->count - i)
			n = s->count - i;
		int rc = sink->put(sink, s->events + i, n, err);
		if (rc < 0)
			return rc;
		i += n;
	}
	return sink->define(sink,
			    &(struct def){ .kind = DEF_PROCESS,
					   .process = { .ended = 1, .runtime_ns = s->runtime_ns } },
			    err);
}

/* As a file does that passes blocks over: whatever is later may be missing, from any place on. */
static int stream_run_until(void *ctx, uint64_t until_ns, struct sink *sink, struct err *err)
{
	struct stream part = *(struct stream *)ctx;
	size_t keep = 0;
	while (keep < part.count && part.events[keep].time_ns <= until_ns)
		keep++;
	part.count = keep + (size_t)random() % (part.count - keep + 1);
	return stream_run(&part, sink, err);
}

/* ---- the naive reading ------------------------------------------------------------------------------------------ */

struct naive {
	struct cost stack[STACKS + 1];
	uint64_t peak, peak_ns;
};

static int64_t free_of(const struct stream *s, size_t alloc)
{
	for (size_t i = alloc + 1; i < s->count; i++)
		if (s->events[i].kind == EVENT_FREE &&
		    s->events[i].block.v == s->events[alloc].block.v)
			return (int64_t)i;
	return -1;
}

static void whole_peak(const struct stream *s, uint64_t *time_ns, int64_t *index)
{
	uint64_t live = 0, max = 0;
	*time_ns = 0;
	*index = -1;
	for (size_t i = 0; i < s->count; i++) {
		live += s->events[i].kind == EVENT_ALLOC ? s->events[i].bytes : -s->events[i].bytes;
		if (live > max) {
			max = live;
			*time_ns = s->events[i].time_ns;
			*index = (int64_t)i;
		}
	}
}

static uint64_t moment(const struct stream *s, const struct query_time *t)
{
	uint64_t peak;
	int64_t index;
	whole_peak(s, &peak, &index);
	switch (t->kind) {
	case QUERY_TIME_START_NS:
		return t->value;
	case QUERY_TIME_END_NS:
		return t->value > s->runtime_ns ? 0 : s->runtime_ns - t->value;
	case QUERY_TIME_PERMILLION:
		return s->runtime_ns * t->value / 1000000;
	case QUERY_TIME_PEAK:
		return peak;
	case QUERY_TIME_WALL_NS:
		return t->value - 1000 * MS;
	default:
		return s->runtime_ns;
	}
}

static int stack_matches(uint32_t stack, const char *regex)
{
	regex_t re;
	assert_int_equal(regcomp(&re, regex, REG_EXTENDED | REG_NOSUB), 0);
	int found = 0;
	for (; stack; stack = parents[stack])
		found |= names[stack] && regexec(&re, names[stack], 0, NULL, 0) == 0;
	regfree(&re);
	return found;
}

static void naive_read(const struct stream *s, const struct query *q, struct naive *out)
{
	static uint8_t selected[EVENTS];
	int64_t peak_index;
	uint64_t unused;
	whole_peak(s, &unused, &peak_index);
	int64_t cut = (int64_t)s->count - 1; /* last event up to `at` */
	if (q->at.kind == QUERY_TIME_PEAK)
		cut = peak_index;
	else if (q->at.kind && q->at.kind != QUERY_TIME_END)
		while (cut >= 0 && s->events[cut].time_ns > moment(s, &q->at))
			cut--;
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < s->count; i++) {
		const struct event *ev = &s->events[i];
		selected[i] = 0;
		if (ev->kind != EVENT_ALLOC)
			continue;
		int64_t end = free_of(s, i);
		uint64_t end_ns = end < 0 ? s->runtime_ns : s->events[end].time_ns;
		uint64_t life = end_ns - ev->time_ns;
		int to_end = !q->to.kind || q->to.kind == QUERY_TIME_END ||
			     (q->to.kind == QUERY_TIME_PERMILLION && q->to.value == 1000000);
		selected[i] =
			ev->bytes >= q->min_size &&
			(!q->has_max_size || ev->bytes <= q->max_size) &&
			(!q->from.kind || ev->time_ns >= moment(s, &q->from)) &&
			(to_end || ev->time_ns < moment(s, &q->to)) &&
			(!q->has_lifetime_min || life >= q->lifetime_min_ns) &&
			(!q->has_lifetime_max || life <= q->lifetime_max_ns) &&
			(!q->leaked || end < 0) &&
			(!q->function_regex || stack_matches(ev->stack.v, q->function_regex)) &&
			(!q->at.kind || ((int64_t)i <= cut && (end < 0 || end > cut)));
	}
	uint64_t live[STACKS + 1] = { 0 }, sum = 0;
	for (size_t i = 0; i < s->count; i++) {
		const struct event *ev = &s->events[i];
		struct cost *c = &out->stack[ev->stack.v];
		if (ev->kind == EVENT_ALLOC && selected[i]) {
			c->allocations++;
			c->allocated_bytes += ev->bytes;
			c->leaked++;
			c->leaked_bytes += ev->bytes;
			live[ev->stack.v] += ev->bytes;
			sum += ev->bytes;
		} else if (ev->kind == EVENT_FREE && !q->at.kind) {
			size_t from = i;
			while (s->events[from].kind != EVENT_ALLOC ||
			       s->events[from].block.v != ev->block.v)
				from--;
			if (!selected[from])
				continue;
			c->frees++;
			c->temporary += !!(ev->flags & EVENT_F_TEMPORARY);
			c->leaked--;
			c->leaked_bytes -= ev->bytes;
			live[ev->stack.v] -= ev->bytes;
			sum -= ev->bytes;
		}
		if (sum > out->peak) {
			out->peak = sum;
			out->peak_ns = ev->time_ns;
			for (int k = 1; k <= STACKS; k++) {
				out->stack[k].peak_bytes = live[k];
				out->stack[k].peak_blocks = out->stack[k].leaked;
			}
		}
	}
	/* what lived at that moment is all there is */
	for (int k = 1; q->at.kind && k <= STACKS; k++)
		out->stack[k].peak_blocks = out->stack[k].leaked;
}

/* ---- random questions ------------------------------------------------------------------------------------------- */

static struct query_time random_time(const struct stream *s)
{
	struct query_time t = { .kind = 1 + (unsigned)random() % 6 };
	if (t.kind == QUERY_TIME_PERMILLION)
		t.value = random() % 4 ? (uint64_t)random() % 1000000 : 1000000;
	else if (t.kind == QUERY_TIME_WALL_NS)
		t.value = 1000 * MS + (uint64_t)random() % (s->runtime_ns + 2 * MS);
	else
		t.value = (uint64_t)random() % (s->runtime_ns + 2 * MS);
	if (random() % 2 && t.kind == QUERY_TIME_START_NS) /* exactly at an event */
		t.value = s->events[(size_t)random() % s->count].time_ns;
	return t;
}

static void random_query(const struct stream *s, struct query *q)
{
	static const char *const regexes[] = { "^main$",  "pars|Pars", "new",
					       "vector<", "zzz",       "^run" };
	memset(q, 0, sizeof(*q));
	if (random() % 3 == 0)
		q->at = random_time(s);
	if (random() % 4 == 0)
		q->from = random_time(s);
	if (random() % 4 == 0)
		q->to = random_time(s);
	if (random() % 4 == 0)
		q->min_size = (uint64_t)random() % 10;
	if (random() % 4 == 0) {
		q->has_max_size = 1;
		q->max_size = (uint64_t)random() % 10;
	}
	if (random() % 4 == 0) {
		q->has_lifetime_min = 1;
		q->lifetime_min_ns = (uint64_t)random() % 60 * MS;
	}
	if (random() % 4 == 0) {
		q->has_lifetime_max = 1;
		q->lifetime_max_ns = (uint64_t)random() % 200 * MS;
	}
	q->leaked = random() % 6 == 0;
	if (random() % 4 == 0)
		q->function_regex = regexes[(size_t)random() % 6];
}

static void compare(const struct stream *s, const struct query *q, unsigned seed)
{
	struct query_source source = { .run = stream_run, .ctx = (void *)s };
	if (seed % 2)
		source.run_until = stream_run_until;
	struct err err = { 0 };
	struct naive want;
	naive_read(s, q, &want);
	struct prof *got = query_run(&source, q, &err);
	if (!got)
		fail_msg("seed %u: %s", seed, err.msg);
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct cost c;
		prof_stack_cost(got, (struct stack_id){ i }, &c);
		const uint64_t *x = (const uint64_t *)&c, *y = (const uint64_t *)&want.stack[i];
		for (size_t k = 0; k < sizeof(c) / sizeof(*x); k++)
			if (x[k] != y[k])
				fail_msg("seed %u, stack %u, counter %zu: %llu, the naive reading "
					 "says %llu",
					 seed, i, k, (unsigned long long)x[k],
					 (unsigned long long)y[k]);
	}
	struct prof_totals totals;
	prof_totals(got, &totals);
	assert_int_equal(totals.cost.peak_bytes, want.peak);
	assert_int_equal(totals.peak_time_ns, want.peak_ns);
	assert_int_equal(totals.runtime_ns, s->runtime_ns > s->events[s->count - 1].time_ns
						    ? s->runtime_ns
						    : s->events[s->count - 1].time_ns);
	if (q->function_regex) /* what was resolved to match is not resolved again */
		assert_ptr_not_equal(prof_frame(got, (struct frame_id){ 1 })->symbols, NULL);
	prof_free(got);
}

static void selections_equal_a_naive_reading(void **state)
{
	(void)state;
	static struct stream s;
	for (unsigned seed = 1; seed <= 1500; seed++) {
		srandom(seed);
		make_stream(&s);
		struct query q;
		random_query(&s, &q);
		compare(&s, &q, seed);
	}
}

static void one_pass_and_two_passes_agree_on_what_was_live(void **state)
{
	(void)state;
	static struct stream s;
	for (unsigned seed = 1; seed <= 300; seed++) {
		srandom(seed);
		make_stream(&s);
		struct query q = { .at = random_time(&s) };
		compare(&s, &q, seed);
		q.has_lifetime_min =
			1; /* at least 0 ns: true of every block, but takes the other path */
		compare(&s, &q, seed);
	}
}

static void moments_are_read_in_every_form(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned kind;
		uint64_t value;
	} good[] = {
		{ "10s", QUERY_TIME_START_NS, 10000 * MS },
		{ "1h30m", QUERY_TIME_START_NS, 5400000 * MS },
		{ "1.5s", QUERY_TIME_START_NS, 1500 * MS },
		{ "0.25ms", QUERY_TIME_START_NS, MS / 4 },
		{ "7", QUERY_TIME_START_NS, 7000 * MS },
		{ "3us", QUERY_TIME_START_NS, 3000 },
		{ "-5m", QUERY_TIME_END_NS, 300000 * MS },
		{ "50%", QUERY_TIME_PERMILLION, 500000 },
		{ "12.5%", QUERY_TIME_PERMILLION, 125000 },
		{ "100%", QUERY_TIME_PERMILLION, 1000000 },
		{ "peak", QUERY_TIME_PEAK, 0 },
		{ "end", QUERY_TIME_END, 0 },
		{ "mark:7", QUERY_TIME_MARK, 7 },
		{ "14:03", QUERY_TIME_CLOCK_NS, 50580000 * MS },
		{ "14:03:10.5", QUERY_TIME_CLOCK_NS, 50590500 * MS },
		{ "1970-01-02T00:00:00Z", QUERY_TIME_WALL_NS, 86400000 * MS },
		{ "1970-01-02t01:30:00.25+01:00", QUERY_TIME_WALL_NS, 88200250 * MS },
		{ "2024-02-29T12:00:00-05:00", QUERY_TIME_WALL_NS, 1709226000000 * MS },
		{ "2016-12-31T23:59:60Z", QUERY_TIME_WALL_NS, 1483228800000 * MS },
	};
	static const char *const bad[] = {
		"",
		"x",
		"10x",
		"-",
		"10s5h",
		"1h1h",
		"101%",
		"100.1%",
		"%",
		"5 s",
		"-50%",
		"1.s",
		".5s",
		"99999999999999999999s",
		"2024-02-30T12:00:00Z",
		"2024-02-30 12:00",
		"14:60",
		"24:00",
		"14:3",
		"14:03:1",
		"14:03:99",
		"2024-01-01",
		"2024-13-01T12:00:00Z",
		"2024-01-01T12:00:00Zx",
		"1h7",
		"-peak",
		"mark:",
		"mark:sync",
		"mark:-1",
		"mark:99999999999999999999",
	};
	struct query_time t;
	struct err err;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (query_time_parse(good[i].text, &t, &err) < 0)
			fail_msg("%s: %s", good[i].text, err.msg);
		assert_int_equal(t.kind, good[i].kind);
		if (t.value != good[i].value)
			fail_msg("%s: %llu, not %llu", good[i].text, (unsigned long long)t.value,
				 (unsigned long long)good[i].value);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (query_time_parse(bad[i], &t, &err) != -EINVAL)
			fail_msg("'%s' was accepted", bad[i]);
		assert_non_null(strstr(err.hint, "peak"));
	}
}

static void sizes_are_powers_of_1024(void **state)
{
	(void)state;
	uint64_t v;
	struct err err;
	assert_int_equal(query_size_parse("100", &v, &err), 0);
	assert_int_equal(v, 100);
	assert_int_equal(query_size_parse("64K", &v, &err), 0);
	assert_int_equal(v, 65536);
	assert_int_equal(query_size_parse("1.5MiB", &v, &err), 0);
	assert_int_equal(v, 1572864);
	assert_int_equal(query_size_parse("2gb", &v, &err), 0);
	assert_int_equal(v, 2147483648u);
	const char *const bad[] = { "",    "K",  "-1", "1.5", "16E", "99999999999999999999",
				    "1KK", "1 K" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (query_size_parse(bad[i], &v, &err) != -EINVAL)
			fail_msg("'%s' was accepted as %llu", bad[i], (unsigned long long)v);
}

static void a_bad_regex_is_refused_with_its_reason(void **state)
{
	(void)state;
	static struct stream s;
	srandom(1);
	make_stream(&s);
	struct query_source source = { .run = stream_run, .ctx = &s };
	struct query q = { .function_regex = "a(b" };
	struct err err = { 0 };
	assert_null(query_run(&source, &q, &err));
	assert_int_equal(err.code, -EINVAL);
	assert_non_null(strstr(err.msg, "a(b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selections_equal_a_naive_reading),
		cmocka_unit_test(one_pass_and_two_passes_agree_on_what_was_live),
		cmocka_unit_test(moments_are_read_in_every_form),
		cmocka_unit_test(sizes_are_powers_of_1024),
		cmocka_unit_test(a_bad_regex_is_refused_with_its_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
