/* SPDX-License-Identifier: Apache-2.0 */
/* Growth and alert rules on made-up histories: leaks, sawteeth, noise, steps, limits, hysteresis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <math.h>
#include <signal.h>

#include <cmocka.h>

#include "alert/alert.h"
#include "view/growth.h"

#define SECOND 1000000000ull
#define START (1700000000ull * SECOND)
#define MIB (1024.0 * 1024.0)

/* A repeatable noise in [-1, 1). */
static double noise(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15ull;
	i ^= i >> 29;
	i *= 0xbf58476d1ce4e5b9ull;
	return (double)(i >> 40) / (1 << 23) - 1;
}

static struct growth judge(double (*bytes)(uint64_t second), uint64_t seconds)
{
	struct history_point *points = calloc(seconds, sizeof(*points));
	struct growth growth;
	for (uint64_t s = 0; s < seconds; s++)
		points[s] = (struct history_point){ .time_ns = START + s * SECOND,
						    .rss_bytes = (uint64_t)bytes(s) };
	assert_int_equal(view_growth(points, seconds, &growth), 0);
	free(points);
	return growth;
}

static double leak(uint64_t s)
{
	return 100 * MIB + 0.05 * MIB * (double)s + 0.3 * MIB * noise(s);
}

static double sawtooth(uint64_t s)
{
	return 100 * MIB + 3 * MIB * (double)(s % 20) + 0.5 * MIB * noise(s);
}

static double leaking_sawtooth(uint64_t s)
{
	return sawtooth(s) + 0.05 * MIB * (double)s;
}

static double flat(uint64_t s)
{
	return 100 * MIB + 0.3 * MIB * noise(s);
}

static double shrinking(uint64_t s)
{
	return 100 * MIB - 0.05 * MIB * (double)s + 0.3 * MIB * noise(s);
}

/* Short bursts of use on top: the slope must not follow them. */
static double bursts(uint64_t s)
{
	return leak(s) + (s % 10 == 3 ? 20 * MIB * fabs(noise(s)) : 0);
}

static double constant(uint64_t s)
{
	(void)s;
	return 7 * MIB;
}

static void a_leak_is_growing_at_its_rate(void **state)
{
	(void)state;
	struct growth g = judge(leak, 300);
	assert_int_equal(g.verdict, GROWTH_GROWING);
	assert_false(g.lows);
	assert_true(fabs(g.bytes_per_second - 0.05 * MIB) < 0.002 * MIB);
	assert_true(g.confidence > 0.999);
	assert_true(fabs(view_growth_eta(&g, g.last_bytes + (uint64_t)(50 * MIB)) - 1000) < 50);
	assert_true(view_growth_eta(&g, 1) <= 0);
}

static void bursts_do_not_move_the_rate(void **state)
{
	(void)state;
	struct growth g = judge(bursts, 300);
	assert_int_equal(g.verdict, GROWTH_GROWING);
	assert_true(fabs(g.bytes_per_second - 0.05 * MIB) < 0.01 * MIB);
}

static void a_sawtooth_is_steady_at_any_moment(void **state)
{
	(void)state;
	for (uint64_t seconds = 100; seconds < 500; seconds += 7) {
		struct growth g = judge(sawtooth, seconds);
		assert_true(g.verdict == GROWTH_STEADY || g.verdict == GROWTH_UNKNOWN);
		assert_true(isinf(view_growth_eta(&g, UINT64_MAX)));
	}
}

static void a_leak_below_a_sawtooth_is_found_by_its_lows(void **state)
{
	(void)state;
	struct growth g = judge(leaking_sawtooth, 400);
	assert_int_equal(g.verdict, GROWTH_GROWING);
	assert_true(g.lows);
	assert_true(fabs(g.bytes_per_second - 0.05 * MIB) < 0.01 * MIB);
}

static void noise_and_nothing_are_steady(void **state)
{
	(void)state;
	assert_int_equal(judge(flat, 300).verdict, GROWTH_STEADY);
	assert_int_equal(judge(constant, 300).verdict, GROWTH_STEADY);
	assert_int_equal(judge(shrinking, 300).verdict, GROWTH_SHRINKING);
	assert_int_equal(judge(leak, 5).verdict, GROWTH_UNKNOWN);
	assert_int_equal(judge(leak, 0).verdict, GROWTH_UNKNOWN);
	/* many points are put together, not refused; all pairs of them would take too long */
	struct growth many = judge(leak, 5000);
	assert_int_equal(many.verdict, GROWTH_GROWING);
	assert_true(fabs(many.bytes_per_second - 0.05 * MIB) < 0.001 * MIB);
	assert_in_range(many.points, GROWTH_POINTS_MIN, GROWTH_POINTS_MAX);
	assert_true(GROWTH_POINTS_MAX <= 100);
}

/* ---- rules --------------------------------------------------------------------------------------------------------- */

static struct alert_rule rule(const char *text)
{
	struct alert_rule r;
	struct err err = { 0 };
	if (alert_parse(text, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

static void rules_are_read(void **state)
{
	(void)state;
	assert_true(rule("rss>2G").threshold == 2048 * MIB);
	assert_true(rule("rss > 1.5 MiB").threshold == 1.5 * MIB);
	struct alert_rule r = rule("rss:allocator>512K for 1m30s");
	assert_string_equal(r.select, "allocator");
	assert_int_equal(r.for_ns, 90 * SECOND);
	assert_string_equal(rule("rss:a>b>1M").select, "a>b");
	r = rule("rate>6M/min for 5m");
	assert_true(fabs(r.threshold - 0.1 * MIB) < 1);
	assert_int_equal(r.for_ns, 300 * SECOND);
	assert_int_equal(alert_longest_period_ns(&r), 60 * SECOND);
	r = rule("eta<2h");
	assert_int_equal(alert_longest_period_ns(&r), UINT64_MAX);
	assert_true(fabs(rule("rate>360M/h").threshold - 0.1 * MIB) < 1);
	assert_int_equal(rule("rss>1G for 30s1m").for_ns, 90 * SECOND);
	assert_int_equal(rule("rss>1G for 1m1m").for_ns, 120 * SECOND);
	assert_true(rule("eta<2h").threshold == 7200);
	assert_int_equal(rule("eta<30m of 4G").limit_bytes, (uint64_t)(4096 * MIB));
	assert_true(rule("unaccounted>5%").threshold == 5);
	assert_true(rule("new>64M").threshold == 64 * MIB);
	assert_true(rule("step>100M").threshold == 100 * MIB);
}

static void rules_that_mean_nothing_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "",
					   "rss",
					   "rss<2G",
					   "rss>",
					   "rss>-1",
					   "rss>2X",
					   "rss>2G/min",
					   "rate>1M",
					   "rate>1M/d",
					   "eta>2h",
					   "eta<2",
					   "new:x>1M",
					   "unaccounted>5",
					   "unaccounted>500%",
					   "rss>2G for",
					   "rss>2G for x",
					   "rss>2G of 1G",
					   "rss>2G junk",
					   "rss:>1",
					   "mem>1",
					   "rss>1e400",
					   "rss>nan",
					   "eta<99999999999999d" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct alert_rule r;
		struct err err = { 0 };
		if (alert_parse(bad[i], &r, &err) != -EINVAL)
			fail_msg("'%s' was accepted", bad[i]);
		assert_true(err.hint[0]);
	}
	char rule_text[400];
	memset(rule_text, 'x', sizeof(rule_text) - 1);
	rule_text[sizeof(rule_text) - 1] = '\0';
	struct alert_rule r;
	struct err err = { 0 };
	assert_int_equal(alert_parse(rule_text, &r, &err), -EINVAL);
}

static void actions_are_read(void **state)
{
	(void)state;
	struct alert_action a;
	struct err err = { 0 };
	assert_int_equal(alert_action_parse("exec:echo $X", &a, &err), 0);
	assert_string_equal(a.argument, "echo $X");
	assert_int_equal(alert_action_parse("post:https://x/y", &a, &err), 0);
	assert_int_equal(alert_action_parse("snapshot", &a, &err), 0);
	assert_int_equal(alert_action_parse("post:file:///etc/passwd", &a, &err), -EINVAL);
	assert_int_equal(alert_action_parse("exec:", &a, &err), -EINVAL);
	assert_int_equal(alert_action_parse("", &a, &err), -EINVAL);
}

struct watch {
	struct history *history;
	struct alert_set *set;
	struct alert_facts facts;
	struct alert_event events[ALERT_RULES_MAX];
	/* how wrong the clock is */
	uint64_t clock_off_ns;
};

static void watch_init(struct watch *w, const char *text)
{
	struct alert_rule r = rule(text);
	struct err err = { 0 };
	memset(w, 0, sizeof(*w));
	assert_int_equal(history_open(NULL, 1, &w->history, &err), 0);
	w->set = alert_set_new(&r, 1);
	w->facts.comm = "program";
}

static void watch_fini(struct watch *w)
{
	alert_set_free(w->set);
	history_close(w->history);
}

/* One second of a process with @rss bytes, @named of it in a named mapping; how many alerts came. */
static int second(struct watch *w, uint64_t s, double rss, double named)
{
	struct history_row rows[3] = { { "", "", (uint64_t)rss, 0, 0, 1 },
				       { "allocator", "heap (brk)", (uint64_t)(rss - named), 0, 0,
					 1 },
				       { "named", "cache", (uint64_t)named, 0, 0, 1 } };
	struct err err = { 0 };
	w->facts.time_ns = START + s * SECOND + w->clock_off_ns;
	w->facts.at_ns = s * SECOND;
	assert_int_equal(history_add(w->history, w->facts.time_ns, rows, named > 0 ? 3 : 2, &err),
			 0);
	int met = alert_check(w->set, w->history, &w->facts, w->events);
	assert_true(met >= 0);
	return met;
}

static void a_size_alerts_once_until_it_went_back(void **state)
{
	(void)state;
	struct watch w;
	watch_init(&w, "rss>100M for 3s");
	int met = 0;
	for (uint64_t s = 0; s < 3; s++)
		met += second(&w, s, 120 * MIB, 0);
	assert_int_equal(met, 0);
	assert_int_equal(second(&w, 3, 120 * MIB, 0), 1);
	assert_string_equal(w.events[0].comm, "program");
	/* around the threshold: no flutter */
	for (uint64_t s = 4; s < 30; s++)
		met += second(&w, s, (s % 2 ? 95 : 105) * MIB, 0);
	assert_int_equal(met, 0);
	second(&w, 30, 50 * MIB, 0);
	for (uint64_t s = 31; s < 40; s++)
		met += second(&w, s, 120 * MIB, 0);
	assert_int_equal(met, 1);
	watch_fini(&w);
}

static void a_class_or_label_can_be_chosen(void **state)
{
	(void)state;
	struct watch w;
	watch_init(&w, "rss:named>10M");
	assert_int_equal(second(&w, 0, 100 * MIB, 5 * MIB), 0);
	assert_int_equal(second(&w, 1, 100 * MIB, 15 * MIB), 1);
	watch_fini(&w);
	watch_init(&w, "rss:heap (brk)>90M");
	assert_int_equal(second(&w, 0, 100 * MIB, 50 * MIB), 0);
	assert_int_equal(second(&w, 1, 100 * MIB, 0), 1);
	watch_fini(&w);
}

static void a_leak_alerts_and_a_sawtooth_does_not(void **state)
{
	(void)state;
	struct watch w;
	int met = 0;
	watch_init(&w, "rate>1M/min for 2m");
	for (uint64_t s = 0; s < 100; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 0); /* two minutes have not been seen yet */
	for (uint64_t s = 100; s < 300; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 1);
	watch_fini(&w);
	met = 0;
	watch_init(&w, "rate>1M/min for 2m");
	for (uint64_t s = 0; s < 900; s++)
		met += second(&w, s, sawtooth(s), 0);
	assert_int_equal(met, 0);
	watch_fini(&w);
}

/* As a garbage collector does it that runs once in five minutes. */
static double slow_sawtooth(uint64_t s)
{
	return 100 * MIB + 0.5 * MIB * (double)(s % 300) + 0.5 * MIB * noise(s);
}

static double leaking_slow_sawtooth(uint64_t s)
{
	return slow_sawtooth(s) + 0.05 * MIB * (double)s;
}

static int met_in(const char *text, double (*bytes)(uint64_t), uint64_t seconds)
{
	struct watch w;
	int met = 0;
	watch_init(&w, text);
	for (uint64_t s = 0; s < seconds; s++) {
		w.facts.skip_growth = s % 5 != 0; /* as where judging must be earned */
		met += second(&w, s, bytes(s), 0);
	}
	watch_fini(&w);
	return met;
}

static void six_hours_of_sawtooth_alert_nobody(void **state)
{
	(void)state;
	const uint64_t hours = 6 * 3600;
	assert_int_equal(met_in("rate>1M/min for 2m", sawtooth, hours), 0);
	assert_int_equal(met_in("eta<2h of 400M", sawtooth, hours), 0);
	assert_int_equal(met_in("rate>1M/min for 1h", slow_sawtooth, hours), 0);
	assert_int_equal(met_in("rate>1M/min for 2m", flat, hours), 0);
	assert_int_equal(met_in("rate>1M/min for 2m", leaking_sawtooth, hours), 1);
	assert_int_equal(met_in("rate>1M/min for 1h", leaking_slow_sawtooth, hours), 1);
}

static void an_eta_needs_growth_and_a_limit(void **state)
{
	(void)state;
	struct watch w;
	int met = 0;
	watch_init(&w, "eta<10m of 130M");
	for (uint64_t s = 0; s < 60; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 0); /* too early to tell */
	for (uint64_t s = 60; s < 90; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 1); /* 3 MiB a minute, 26 to go */
	watch_fini(&w);
	met = 0;
	watch_init(&w, "eta<10m");
	for (uint64_t s = 0; s < 60; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 0);
	w.facts.limit_bytes = (uint64_t)(130 * MIB);
	for (uint64_t s = 60; s < 90; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 1);
	watch_fini(&w);
	met = 0;
	watch_init(&w, "eta<10m of 130M");
	for (uint64_t s = 0; s < 200; s++)
		met += second(&w, s, flat(s), 0);
	assert_int_equal(met, 0);
	watch_fini(&w);
}

/* A second in which the labels "l0" to "l@labels - 1" have @each bytes each, and no others are there. */
static int labels_second(struct watch *w, uint64_t s, unsigned first, unsigned labels, double each)
{
	struct history_row rows[600];
	char names[600][16];
	struct err err = { 0 };
	size_t count = 1;
	rows[0] = (struct history_row){ "", "", (uint64_t)(each * labels), 0, 0, 1 };
	for (unsigned i = first; i < first + labels; i++, count++) {
		snprintf(names[count], sizeof(names[count]), "l%u", i);
		rows[count] =
			(struct history_row){ "named", names[count], (uint64_t)each, 0, 0, 1 };
	}
	w->facts.time_ns = START + s * SECOND;
	w->facts.at_ns = s * SECOND;
	assert_int_equal(history_add(w->history, w->facts.time_ns, rows, count, &err), 0);
	int met = alert_check(w->set, w->history, &w->facts, w->events);
	assert_true(met >= 0);
	return met;
}

static void each_new_label_alerts_by_itself(void **state)
{
	(void)state;
	struct watch w;
	int met = 0;
	watch_init(&w, "new>10M");
	assert_int_equal(labels_second(&w, 0, 0, 2, 20 * MIB), 0); /* there from the start */
	assert_int_equal(labels_second(&w, 1, 0, 3, 20 * MIB), 1);
	assert_string_equal(w.events[0].label, "named/l2");
	/* that one is still there, and others come: one alert a look, none is forgotten */
	char told[64] = "";
	for (uint64_t s = 2; s < 10; s++) {
		if (labels_second(&w, s, 0, 6, 20 * MIB)) {
			strcat(told, w.events[0].label);
			met++;
		}
	}
	assert_int_equal(met, 3);
	assert_string_equal(told, "named/l3named/l4named/l5");
	/* the same ones again after they went back */
	labels_second(&w, 10, 0, 6, 1 * MIB);
	for (uint64_t s = 11; s < 20; s++)
		met += labels_second(&w, s, 0, 6, 20 * MIB);
	assert_int_equal(met, 3 + 4);
	watch_fini(&w);
	/* `for` counts by label, too */
	met = 0;
	watch_init(&w, "new>10M for 3s");
	labels_second(&w, 0, 0, 1, 20 * MIB);
	for (uint64_t s = 1; s < 30; s++)
		met += labels_second(&w, s, 1 + (unsigned)s / 2, 1, 20 * MIB);
	assert_int_equal(met, 0);
	for (uint64_t s = 30; s < 34; s++)
		met += labels_second(&w, s, 100, 1, 20 * MIB);
	assert_int_equal(met, 1);
	watch_fini(&w);
}

static void a_class_is_all_of_it_however_many_labels_it_has(void **state)
{
	(void)state;
	struct watch w;
	watch_init(&w, "rss:named>450M");
	assert_int_equal(labels_second(&w, 0, 0, 400, 1 * MIB), 0);
	assert_int_equal(labels_second(&w, 1, 0, 500, 1 * MIB), 1);
	watch_fini(&w);
	/* and stays so while labels retire and get other numbers */
	watch_init(&w, "step:named>2M");
	for (unsigned s = 0; s < 3000; s++)
		assert_int_equal(labels_second(&w, s, s * 3, 50, 1 * MIB), 0);
	assert_int_equal(labels_second(&w, 3000, 9000, 53, 1 * MIB), 1);
	watch_fini(&w);
}

static void growth_that_may_not_be_judged_yet_leaves_its_rules_as_they_are(void **state)
{
	(void)state;
	struct watch w;
	int met = 0;
	watch_init(&w, "rate>1M/min for 2m");
	assert_true(alert_set_judges_growth(w.set));
	w.facts.skip_growth = 1;
	for (uint64_t s = 0; s < 300; s++)
		met += second(&w, s, leak(s), 0);
	assert_int_equal(met, 0);
	w.facts.skip_growth = 0;
	assert_int_equal(second(&w, 300, leak(300), 0), 1);
	w.facts.skip_growth = 1; /* raised stays raised */
	for (uint64_t s = 301; s < 310; s++)
		met += second(&w, s, 100 * MIB, 0);
	w.facts.skip_growth = 0;
	assert_int_equal(met + second(&w, 310, leak(310), 0), 0);
	watch_fini(&w);
	/* the others look at each sample all the same */
	watch_init(&w, "rss>110M");
	assert_false(alert_set_judges_growth(w.set));
	w.facts.skip_growth = 1;
	assert_int_equal(second(&w, 0, 120 * MIB, 0), 1);
	watch_fini(&w);
}

/* A watch of @before seconds with a clock that is wrong by @off_ns, then of @after with the right one. */
static int with_wrong_clock(const char *text, double (*bytes)(uint64_t), uint64_t off_ns,
			    uint64_t before, uint64_t after)
{
	struct watch w;
	int met = 0;
	watch_init(&w, text);
	w.clock_off_ns = off_ns;
	for (uint64_t s = 0; s < before; s++)
		met += second(&w, s, bytes(s), 0);
	w.clock_off_ns = 0;
	for (uint64_t s = before; s < before + after; s++)
		met += second(&w, s, bytes(s), 0);
	watch_fini(&w);
	return met;
}

static void a_clock_that_was_wrong_makes_rules_neither_blind_nor_hasty(void **state)
{
	(void)state;
	const uint64_t day = 86400 * SECOND;
	/* ahead by a year, by a quarter of an hour (which comes to pass again), behind by a day */
	const uint64_t offs[] = { 365 * day, 900 * SECOND, 200 * SECOND, -day };
	for (size_t i = 0; i < sizeof(offs) / sizeof(*offs); i++) {
		assert_int_equal(with_wrong_clock("rate>1M/min for 2m", leak, offs[i], 60, 300), 1);
		assert_int_equal(with_wrong_clock("rate>1M/min for 2m", flat, offs[i], 60, 900), 0);
		assert_int_equal(with_wrong_clock("eta<10m of 130M", leak, offs[i], 3, 90), 1);
		assert_int_equal(with_wrong_clock("rss>90M for 1m", flat, offs[i], 30, 20), 0);
		assert_int_equal(with_wrong_clock("rss>90M for 1m", flat, offs[i], 30, 40), 1);
		assert_int_equal(with_wrong_clock("step>50M", flat, offs[i], 30, 40), 0);
	}
}

static void a_limit_that_is_reached_alerts_at_once(void **state)
{
	(void)state;
	assert_int_equal(met_in("eta<10m of 90M", flat, 3), 1);
	assert_int_equal(met_in("eta<10m of 90M", flat, 300), 1);
	assert_int_equal(met_in("eta<10m of 90M", shrinking, 100), 1);
}

static void new_labels_steps_and_gaps_alert(void **state)
{
	(void)state;
	struct watch w;
	watch_init(&w, "new>10M");
	assert_int_equal(second(&w, 0, 100 * MIB, 0), 0);
	assert_int_equal(second(&w, 1, 100 * MIB, 5 * MIB), 0);
	assert_int_equal(second(&w, 2, 100 * MIB, 15 * MIB), 1);
	assert_string_equal(w.events[0].label, "named/cache");
	watch_fini(&w);
	watch_init(&w, "new>10M");
	assert_int_equal(second(&w, 0, 100 * MIB, 5 * MIB), 0); /* there from the start */
	assert_int_equal(second(&w, 1, 100 * MIB, 50 * MIB), 0);
	watch_fini(&w);
	watch_init(&w, "step>20M");
	assert_int_equal(second(&w, 0, 100 * MIB, 0), 0);
	assert_int_equal(second(&w, 1, 115 * MIB, 0), 0);
	assert_int_equal(second(&w, 2, 90 * MIB, 0), 1); /* down counts, too */
	watch_fini(&w);
	watch_init(&w, "unaccounted>5%");
	/* each reading's per cent, and whether it is told then: what comes and goes between two readings is not missing */
	static const struct {
		double unaccounted;
		int told;
	} readings[] = { { -1, 0 }, { 7, 0 }, { 7, 0 }, { 2, 0 },
			 { 9, 0 },  { 9, 0 }, { 6, 1 }, { 6, 0 } };
	uint64_t s = 0;
	for (size_t i = 0; i < sizeof(readings) / sizeof(*readings); i++) {
		w.facts.unaccounted = readings[i].unaccounted;
		w.facts.readings++;
		assert_int_equal(second(&w, s++, 100 * MIB, 0), readings[i].told);
		/* between two readings nothing new is known */
		for (int k = 0; k < 5; k++)
			assert_int_equal(second(&w, s++, 100 * MIB, 0), 0);
	}
	watch_fini(&w);
}

static void a_command_whose_end_cannot_be_learnt_has_not_failed(void **state)
{
	(void)state;
	struct alert_runner *runner = alert_runner_new();
	struct alert_action action;
	struct alert_rule rule;
	struct err err = { 0 };
	char failure[256];
	assert_int_equal(alert_action_parse("exec:exit 0", &action, &err), 0);
	assert_int_equal(alert_parse("rss>1", &rule, &err), 0);
	struct alert_event event = { .rule = &rule };
	/* as a child of a program that ignores its children: the kernel keeps no status for us */
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 20; i++) {
		int rc;
		while ((rc = alert_run(runner, &action, &event, &err)) == -EBUSY)
			assert_int_equal(alert_runner_failed(runner, failure, sizeof(failure)), 0);
		assert_int_equal(rc, 0);
	}
	alert_runner_free(runner);
	signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leak_is_growing_at_its_rate),
		cmocka_unit_test(bursts_do_not_move_the_rate),
		cmocka_unit_test(a_sawtooth_is_steady_at_any_moment),
		cmocka_unit_test(a_leak_below_a_sawtooth_is_found_by_its_lows),
		cmocka_unit_test(noise_and_nothing_are_steady),
		cmocka_unit_test(rules_are_read),
		cmocka_unit_test(rules_that_mean_nothing_are_refused),
		cmocka_unit_test(actions_are_read),
		cmocka_unit_test(a_size_alerts_once_until_it_went_back),
		cmocka_unit_test(a_class_or_label_can_be_chosen),
		cmocka_unit_test(a_leak_alerts_and_a_sawtooth_does_not),
		cmocka_unit_test(six_hours_of_sawtooth_alert_nobody),
		cmocka_unit_test(an_eta_needs_growth_and_a_limit),
		cmocka_unit_test(each_new_label_alerts_by_itself),
		cmocka_unit_test(a_class_is_all_of_it_however_many_labels_it_has),
		cmocka_unit_test(growth_that_may_not_be_judged_yet_leaves_its_rules_as_they_are),
		cmocka_unit_test(a_clock_that_was_wrong_makes_rules_neither_blind_nor_hasty),
		cmocka_unit_test(a_limit_that_is_reached_alerts_at_once),
		cmocka_unit_test(new_labels_steps_and_gaps_alert),
		cmocka_unit_test(a_command_whose_end_cannot_be_learnt_has_not_failed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
