/* SPDX-License-Identifier: Apache-2.0 */
/* Processes watched over time by something that is no command: what is heard, and what other threads may ask meanwhile. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "watch/last.h"
#include "watch/reading.h"
#include "watch/rules.h"
#include "watch/table.h"
#include "watch/watchers.h"

#define MIB (1u << 20)

/* A child that touches a MiB every 20 ms, @most of them, and stays until it is killed or @life_ms are over. */
static pid_t grower(unsigned most, unsigned life_ms)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	for (unsigned i = 0; i < life_ms / 20; i++) {
		if (i < most) {
			void *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(at, 1, MIB);
		}
		usleep(20000);
	}
	_exit(0);
}

static void *reap(void *pid)
{
	waitpid((pid_t)(intptr_t)pid, NULL, 0);
	return NULL;
}

struct heard {
	struct watchers *watchers;
	int looks, readings, met, warned, stop_after;
	char said[8][200];
	int said_count;
	struct memory_source source;
	/* by the source */
	uint64_t rss_seen;
	/* killed once its growth is kept; 0: nobody */
	pid_t ends;
};

/** growth_is_kept() - three points at least, the last 10 MiB above the first. */
static int growth_is_kept(const struct history *history)
{
	struct history_line line = { .number = 0 };
	int kept = 0;
	if (history_lines(history, &line, 1, 0, UINT64_MAX) == 0 && line.count >= 3)
		kept = line.points[line.count - 1].rss_bytes >= line.points[0].rss_bytes + 10 * MIB;
	history_lines_fini(&line, 1);
	return kept;
}

static void on_say(void *ctx, const char *text)
{
	struct heard *h = ctx;
	if (h->said_count < 8)
		snprintf(h->said[h->said_count++], sizeof(h->said[0]), "%s", text);
}

static void on_warn(void *ctx, const struct err *what)
{
	(void)what;
	((struct heard *)ctx)->warned++;
}

static int on_looked(void *ctx, struct watched *w, int mappings, struct err *err)
{
	struct heard *h = ctx;
	struct memory_facts facts[MEMORY_TARGETS_MAX];
	struct memory_shot shot;
	h->looks++;
	h->readings += mappings;
	watched_source(&h->source, watchers_set(h->watchers));
	assert_true(h->source.facts(h->source.ctx, facts) >= 1);
	assert_int_equal(h->source.get(h->source.ctx, w->pid, 0, &shot, err), 0);
	h->rss_seen = shot.breakdown->rss_bytes;
	h->source.put(h->source.ctx, &shot);
	assert_int_equal(h->source.get(h->source.ctx, 1 << 22, 0, &shot, err), -ENOENT);
	if (h->stop_after && h->looks == h->stop_after)
		watchers_stop(h->watchers);
	if (h->ends && h->looks >= 3 && h->readings && growth_is_kept(w->history)) {
		kill(h->ends, SIGKILL);
		h->ends = 0;
	}
	return 0;
}

static void on_met(void *ctx, struct watched *w, const struct alert_event *event)
{
	struct heard *h = ctx;
	assert_int_equal(event->pid, w->pid);
	h->met++;
}

static struct watchers *made(struct heard *h, const struct watchers_opt *base, pid_t pid)
{
	struct err err = { 0 };
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	struct watchers_opt opt = *base;
	int stop_after = h->stop_after;
	pid_t ends = h->ends;
	*h = (struct heard){ .stop_after = stop_after, .ends = ends };
	opt.ears = (struct watchers_ears){
		.ctx = h, .say = on_say, .warn = on_warn, .looked = on_looked, .met = on_met
	};
	opt.signals = -1;
	assert_int_equal(target_list_add(&list, pid, &err), 0);
	assert_int_equal(target_list_add(&list, pid, &err), 0); /* once */
	assert_int_equal(list.count, 1);
	h->watchers = watchers_new(&opt, &list, &err);
	if (!h->watchers)
		fail_msg("%s", err.msg);
	return h->watchers;
}

static void a_process_is_looked_at_until_it_ends_and_its_growth_is_kept(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct heard h = { 0 };
	struct targets targets = { 0 };
	struct watchers_opt opt = { .each = { .seconds = 0.1 }, .targets = &targets };
	/* it lives until what is asserted below was there to be seen, however slow the machine is */
	pid_t pid = grower(30, 120000);
	pthread_t thread;
	h.ends = pid;
	struct watchers *w = made(&h, &opt, pid);
	/* a zombie has not ended yet: somebody takes its status */
	assert_int_equal(pthread_create(&thread, NULL, reap, (void *)(intptr_t)pid), 0);
	assert_int_equal(watchers_run(w, &err), 0);
	pthread_join(thread, NULL);
	assert_int_equal(watchers_stopped(w), 0);
	assert_true(h.looks >= 3);
	assert_true(h.readings >= 1);
	assert_int_equal(h.said_count, 1);
	assert_non_null(strstr(h.said[0], "has ended"));
	struct watched_set *set = watchers_set(w);
	assert_int_equal(set->count, 1);
	assert_int_equal(set->all[0].facts.ended, 1);
	assert_true(growth_is_kept(set->all[0].history));
	watchers_freep(&w);
}

static void a_rule_is_met_once_and_the_ears_may_stop_it(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct heard h = { .stop_after = 12 };
	struct targets targets = { 0 };
	struct alert_rule rule;
	assert_int_equal(alert_parse("rss>8M", &rule, &err), 0);
	struct watchers_opt opt = { .each = { .seconds = 0.1, .rules = &rule, .rule_count = 1 },
				    .targets = &targets };
	pid_t pid = grower(20, 60000);
	struct watchers *w = made(&h, &opt, pid);
	assert_int_equal(watchers_run(w, &err), 0);
	assert_int_equal(watchers_stopped(w), 1);
	assert_int_equal(h.looks, 12);
	assert_int_equal(h.met, 1);
	assert_true(h.rss_seen > 8 * MIB);
	watchers_freep(&w);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void its_time_is_over_when_it_was_said_to_be(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct heard h = { 0 };
	struct targets targets = { 0 };
	pid_t pid = grower(1, 60000);
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	struct watchers_opt opt = { .each = { .seconds = 5 },
				    .targets = &targets,
				    .end_ns = began + 400000000u };
	struct watchers *w = made(&h, &opt, pid);
	assert_int_equal(watchers_run(w, &err), 0);
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - began;
	assert_int_equal(watchers_stopped(w), 1);
	assert_true(took >= 400000000u);
	assert_int_equal(h.looks, 1); /* the second would have come after 5 s */
	watchers_freep(&w);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void a_child_that_comes_gets_a_place_of_its_own(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct heard h = { .stop_after = 26 };
	struct targets targets = { .follow_children = 1 };
	struct watchers_opt opt = { .each = { .seconds = 0.1 }, .targets = &targets };
	pid_t pid = fork();
	if (pid == 0) {
		usleep(300000);
		pid_t child = grower(2, 60000);
		waitpid(child, NULL, 0);
		_exit(0);
	}
	struct watchers *w = made(&h, &opt, pid);
	assert_int_equal(watchers_run(w, &err), 0);
	struct watched_set *set = watchers_set(w);
	assert_int_equal(set->count, 2);
	assert_true(h.said_count >= 1);
	assert_non_null(strstr(h.said[0], "watching process"));
	kill(set->all[1].pid, SIGKILL);
	watchers_freep(&w);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void a_history_of_several_and_too_many_are_refused(void **state)
{
	(void)state;
	struct err err = { 0 };
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	struct targets targets = { 0 };
	struct watchers_opt opt = { .targets = &targets, .history = "/nowhere/h", .signals = -1 };
	target_list_add(&list, getpid(), &err);
	target_list_add(&list, getppid(), &err);
	assert_null(watchers_new(&opt, &list, &err));
	assert_int_equal(err.code, -EINVAL);
	assert_true(err.hint[0] != 0);
	opt.history = NULL;
	for (pid_t pid = 100000; list.count <= TARGETS_GIVEN_MAX; pid++)
		target_list_add(&list, pid, &err);
	assert_null(watchers_new(&opt, &list, &err));
	assert_int_equal(err.code, -EINVAL);
}

/* ---- the last reading ----------------------------------------------------------------------------------------------- */

struct lasts {
	int reads, told, ended, unread;
	uint64_t rss_bytes, age_ns, first_read_ns;
	/* once it has been seen with what it is to have; 0: none */
	pid_t ends;
};

static int never(void *ctx)
{
	(void)ctx;
	return 0;
}

static struct breakdown *on_read(void *ctx, const struct target *target, struct err *err)
{
	const struct breakdown_opt opt = { .quick = 1, .no_threads = 1 };
	struct lasts *l = ctx;
	if (!l->reads++)
		l->first_read_ns = clock_ns(CLOCK_MONOTONIC);
	struct breakdown *b = breakdown_read(target, &opt, err);
	if (b && l->ends && l->reads >= 4 && b->rss_bytes > 12 * MIB)
		kill(l->ends, SIGKILL);
	return b;
}

static int on_tell(void *ctx, const struct breakdown *b, const char *exe, uint64_t age_ns,
		   int ended, struct err *err)
{
	struct lasts *l = ctx;
	(void)err;
	assert_non_null(exe);
	l->told++;
	l->ended = ended;
	l->rss_bytes = b->rss_bytes;
	l->age_ns = age_ns;
	return 0;
}

static void on_unread(void *ctx, const struct err *why)
{
	assert_true(why->code < 0);
	((struct lasts *)ctx)->unread++;
}

static void on_full(void *ctx, unsigned most)
{
	(void)ctx;
	fail_msg("more than %u", most);
}

static void the_last_reading_of_a_process_that_ended_is_told_with_its_age(void **state)
{
	(void)state;
	struct err err = { 0 };
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	struct targets targets = { 0 };
	struct lasts l = { 0 };
	int stopped = -1;
	pid_t pid = grower(20, 60000);
	struct last_opt opt = { .targets = &targets,
				.program = pid,
				.signals = -1,
				.ctx = &l,
				.signalled = never,
				.read = on_read,
				.tell = on_tell,
				.unread = on_unread,
				.full = on_full };
	l.ends = pid;
	target_list_add(&list, pid, &err);
	assert_int_equal(watch_last(&opt, &list, &stopped, &err), 0);
	assert_int_equal(stopped, 0);
	assert_int_equal(l.told, 1);
	assert_int_equal(l.ended, 1);
	assert_true(l.reads >= 3);
	assert_true(l.rss_bytes > 10 * MIB);
	assert_true(l.age_ns < clock_ns(CLOCK_MONOTONIC) - l.first_read_ns);
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* its status is still to be had */
	/* one that has gone already was never read; for a time it is this moment that counts */
	l = (struct lasts){ 0 };
	opt.program = 0;
	watch_last(&opt, &list, &stopped, &err);
	assert_int_equal(l.unread, 1);
	l = (struct lasts){ 0 };
	list.pids[0] = getppid();
	opt.end_ns = clock_ns(CLOCK_MONOTONIC) + 200000000u;
	assert_int_equal(watch_last(&opt, &list, &stopped, &err), 0);
	assert_int_equal(stopped, 1);
	assert_int_equal(l.ended, 0);
	assert_int_equal(l.told, 1);
}

static const char *waited_for;

static void on_waiting(const char *name)
{
	waited_for = name;
}

static void targets_are_found_once_and_a_name_is_waited_for(void **state)
{
	(void)state;
	struct err err = { 0 };
	CLEANUP(target_list_fini) struct target_list list = { 0 };
	struct targets two = { .pids = { getpid(), getpid() }, .pid_count = 2 };
	assert_int_equal(targets_given(&two), 1);
	assert_int_equal(targets_follow(&two), 0);
	assert_int_equal(targets_find(&two, 0, &list, &err), 0);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.pids[0], getpid());
	struct targets none = { .name = "no-such-program-*", .waiting = on_waiting };
	target_list_fini(&list);
	assert_int_equal(targets_find(&none, clock_ns(CLOCK_MONOTONIC) + 120000000u, &list, &err),
			 -EINVAL);
	assert_string_equal(waited_for, "no-such-program-*");
	struct targets nowhere = { .cgroup = "no/such/cgroup" };
	assert_true(targets_find(&nowhere, 0, &list, &err) < 0);
}

static void a_reading_adds_up_quick_or_not(void **state)
{
	(void)state;
	for (int quick = 0; quick < 2; quick++) {
		const struct reading_opt opt = { .quick = quick };
		struct target target;
		struct err err = { 0 };
		uint64_t sum = 0;
		assert_int_equal(target_open(&target, getpid(), &err), 0);
		struct breakdown *b = reading_take(&target, &opt, &err);
		if (!b)
			fail_msg("%s", err.msg);
		for (size_t i = 0; i < b->class_count; i++)
			sum += b->classes[i].rss_bytes;
		assert_int_equal(sum, b->rss_bytes);
		if (!quick)
			assert_in_range(b->pss_bytes, 1, b->rss_bytes);
		assert_non_null(b->settings);
		assert_non_null(b->beside);
		breakdown_free(b);
		target_close(&target);
	}
}

struct seen {
	int tables, left;
	uint64_t rss_bytes;
};

static int on_table(void *ctx, struct ledger *ledger, struct err *err)
{
	struct seen *seen = ctx;
	(void)err;
	seen->tables++;
	seen->rss_bytes = ledger_sums(ledger).rss_bytes;
	return --seen->left ? 0 : -EPIPE;
}

static void on_slowed(void *ctx, size_t count, uint64_t cpu_ns, uint64_t period_ns)
{
	(void)ctx;
	assert_int_equal(count, 1);
	assert_true(period_ns >= cpu_ns);
}

static int on_no_signal(void *ctx)
{
	(void)ctx;
	return 0;
}

static void tables_come_again_until_somebody_has_seen_enough(void **state)
{
	(void)state;
	struct err err = { 0 };
	pid_t own = getpid();
	const struct target_list list = { &own, 1 };
	const struct targets targets = { .pids = { own }, .pid_count = 1 };
	struct seen seen = { .left = 2 };
	const struct table_opt opt = { .targets = &targets,
				       .period_ns = 1000000,
				       .sort = REGIONS_BY_PSS,
				       .signals = -1,
				       .ctx = &seen,
				       .signalled = on_no_signal,
				       .show = on_table,
				       .slowed = on_slowed };
	if (watch_table(&opt, &list, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(seen.tables, 2);
	assert_true(seen.rss_bytes > MIB / 2);
}

static int checked(const char *text, uint64_t period_ns, struct err *err)
{
	struct alert_rule rule;
	err_init(err);
	assert_int_equal(alert_parse(text, &rule, err), 0);
	return watch_rules_check(&rule, 1, period_ns, err);
}

static void rules_that_never_can_be_met_are_refused_before_the_watch(void **state)
{
	(void)state;
	struct err err;
	assert_int_equal(checked("rss>2G", 7200000000000u, &err), 0);
	assert_int_equal(checked("rate>1M/min for 5m", 0, &err), 0);
	assert_int_equal(checked("rate>1M/min for 5m", 3600000000000u, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "would never be met"));
	assert_int_equal(checked("rss:allocator>1G", 0, &err), 0);
	assert_int_equal(checked("rss:allocato>1G", 0, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "did you mean 'allocator'"));
	assert_non_null(strstr(err.hint, "named/allocato"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reading_adds_up_quick_or_not),
		cmocka_unit_test(rules_that_never_can_be_met_are_refused_before_the_watch),
		cmocka_unit_test(tables_come_again_until_somebody_has_seen_enough),
		cmocka_unit_test(a_process_is_looked_at_until_it_ends_and_its_growth_is_kept),
		cmocka_unit_test(a_rule_is_met_once_and_the_ears_may_stop_it),
		cmocka_unit_test(its_time_is_over_when_it_was_said_to_be),
		cmocka_unit_test(a_child_that_comes_gets_a_place_of_its_own),
		cmocka_unit_test(a_history_of_several_and_too_many_are_refused),
		cmocka_unit_test(the_last_reading_of_a_process_that_ended_is_told_with_its_age),
		cmocka_unit_test(targets_are_found_once_and_a_name_is_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
