/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who reads another process goes before ordinary threads during the calls that hold its lock, and
 * only then: a caller that loses its CPU amid such a call keeps the target's mmap() waiting until
 * it has one again. How long that may be is tested with a clock and a scheduler of the test's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "proc/breakdown.h"
#include "proc/memory.h"
#include "proc/numa.h"
#include "proc/smaps.h"
#include "proc/turns.h"

#define TARGET 4000000 /* no process: no PID is as large */
#define MS 1000000u
#define US 1000u

/* The clock and the scheduler, where @on. The thread runs whenever it does not sleep. */
static struct {
	int on, policy, may, may_unflag, cpus, target_cpus;
	unsigned raises, pauses;
	/* since when raised; how long in all */
	uint64_t now, slept, since, raised, longest;
} fake;

static void make_fake(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.on = fake.may = fake.may_unflag = 1;
	fake.cpus = fake.target_cpus = 2;
	fake.now = MS;
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __real_sched_getscheduler(pid_t pid);
int __wrap_sched_getscheduler(pid_t pid);
int __real_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param);
int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!fake.on)
		return __real_clock_gettime(clock, t);
	uint64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? fake.now - fake.slept : fake.now;
	*t = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u) };
	return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	if (!fake.on)
		return __real_nanosleep(t, left);
	fake.pauses++;
	fake.slept += (uint64_t)t->tv_nsec;
	fake.now += (uint64_t)t->tv_nsec;
	return 0;
}

int __wrap_sched_getscheduler(pid_t pid)
{
	return fake.on ? fake.policy : __real_sched_getscheduler(pid);
}

int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	if (!fake.on)
		return __real_sched_setscheduler(pid, policy, param);
	int raises = (policy & ~SCHED_RESET_ON_FORK) == SCHED_RR;
	if ((raises && !fake.may) ||
	    (fake.policy & ~policy & SCHED_RESET_ON_FORK && !fake.may_unflag)) {
		errno = EPERM;
		return -1;
	}
	if (raises) {
		fake.raises++;
		fake.since = fake.now;
	} else if (fake.policy & SCHED_RR) {
		uint64_t took = fake.now - fake.since;
		fake.raised += took;
		fake.longest = took > fake.longest ? took : fake.longest;
	}
	fake.policy = policy;
	return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpus)
{
	if (!fake.on)
		return __real_sched_getaffinity(pid, size, cpus);
	CPU_ZERO_S(size, cpus);
	for (int i = 0; i < (pid == 0 ? fake.cpus : fake.target_cpus); i++)
		CPU_SET_S(i, size, cpus);
	return 0;
}

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

/*
 * Whether this user may be raised here at all; what follows then holds as well, with nobody raised.
 * Asked by a child, so that nothing of it stays.
 */
static int raised(void)
{
	cpu_set_t cpus;
	int status = 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(sched_getaffinity(0, sizeof(cpus), &cpus) != 0 || CPU_COUNT(&cpus) == 1 ||
		      sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK,
					 &(struct sched_param){ .sched_priority = 1 }) != 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0 ? SCHED_RR : SCHED_OTHER;
}

static pid_t make_child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static int note_policy(void *ctx, struct region *region)
{
	(void)region;
	*(int *)ctx |= 1 << policy();
	return 0;
}

static void a_reading_of_another_process_goes_before_and_then_no_longer(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct target target = { 0 };
	struct reading reading = { 0 };
	pid_t child = make_child();
	int seen = 0, may = raised();
	assert_int_equal(target_open(&target, child, &err), 0);
	assert_int_equal(smaps_each(&target, TURNS_RAISED, note_policy, &seen, &reading, &err), 0);
	assert_true(seen & 1 << may);
	assert_int_equal(policy(), SCHED_OTHER);
	uint64_t rss, pss, stall = 0;
	assert_int_equal(rollup_read(&target, TURNS_RAISED, &rss, &pss, &stall, &err), 0);
	assert_int_equal(policy(), SCHED_OTHER);
	assert_true(stall > 0);
	/* a walk of all pages is told, too */
	struct numa numa = { 0 };
	stall = 0;
	if (numa_read(&target, &numa, &stall) == 0)
		assert_true(stall > 0);
	assert_int_equal(policy(), SCHED_OTHER);
	free(numa.rows);
	target_close(&target);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void a_reading_of_this_process_changes_nothing(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct target target = { 0 };
	struct reading reading = { 0 };
	int seen = 0;
	assert_int_equal(target_open(&target, getpid(), &err), 0);
	assert_int_equal(smaps_each(&target, TURNS_RAISED, note_policy, &seen, &reading, &err), 0);
	assert_int_equal(seen, 1 << SCHED_OTHER);
	target_close(&target);
}

static void who_has_a_policy_keeps_it(void **state)
{
	(void)state;
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 }), 0);
	struct turns turns;
	turns_init(&turns, TURNS_RAISED, getppid());
	turns_end(&turns, turns_begin(&turns), NULL);
	assert_int_equal(policy(), SCHED_BATCH);
	turns_over(&turns);
	assert_int_equal(policy(), SCHED_BATCH);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }), 0);
}

/* A call that takes @call_ns; the thread works for @work_ns behind it. */
static uint64_t call(struct turns *turns, uint64_t call_ns, uint64_t work_ns)
{
	uint64_t stall = 0, before = turns_begin(turns);
	fake.now += call_ns;
	turns_end(turns, before, &stall);
	fake.now += work_ns;
	return stall;
}

static void calls_without_a_pause_between_are_one_wait(void **state)
{
	(void)state;
	struct turns turns;
	make_fake();
	turns_init(&turns, TURNS_PAUSES, TARGET);
	assert_int_equal(call(&turns, 100 * US, 0), 100 * US);
	assert_int_equal(call(&turns, 100 * US, 60 * US), 200 * US);
	/* the lock was free for too short a time for whoever waits to take it */
	assert_int_equal(call(&turns, 100 * US, 61 * US), 360 * US);
	assert_int_equal(call(&turns, 100 * US, 0), 100 * US);
	assert_int_equal(fake.pauses, 0);
	assert_int_equal(call(&turns, 400 * US, 0), 500 * US);
	assert_int_equal(fake.pauses, 1);
	assert_int_equal(fake.slept, 60 * US);
	assert_int_equal(call(&turns, 100 * US, 0), 100 * US);
	assert_int_equal(fake.raises, 0);
	/* without turns each call stands for itself, and nobody waits */
	turns_init(&turns, TURNS_NONE, TARGET);
	for (int i = 0; i < 9; i++)
		assert_int_equal(call(&turns, 100 * US, 0), 100 * US);
	assert_int_equal(fake.pauses, 1);
	fake.on = 0;
}

static void it_goes_before_for_two_milliseconds_at_a_time(void **state)
{
	(void)state;
	struct turns turns;
	make_fake();
	turns_init(&turns, TURNS_RAISED, TARGET);
	/* with pauses and without, for what lies between is a pause for the lock alone */
	for (int work = 0; work <= 100; work += 100) {
		fake.longest = 0;
		for (int i = 0; i < 200; i++)
			call(&turns, 150 * US, (uint64_t)work * US);
		assert_true(fake.raises > 1);
		assert_in_range(fake.longest, 2 * MS - 250 * US, 2 * MS + 250 * US);
	}
	call(&turns, 0, 0);
	assert_int_equal(policy(), SCHED_RR);
	turns_over(&turns);
	assert_int_equal(policy(), SCHED_OTHER);
	/* and then it pauses, or ordinary threads would still have nothing of it */
	turns_init(&turns, TURNS_RAISED, TARGET);
	unsigned pauses = fake.pauses;
	for (int i = 0; i < 8; i++) {
		assert_int_equal(fake.pauses, pauses);
		call(&turns, 150 * US, 100 * US);
	}
	call(&turns, 150 * US, 100 * US);
	assert_int_equal(fake.pauses, pauses + 1);
	assert_int_equal(policy(), SCHED_OTHER);
	fake.on = 0;
}

/* What a look at a watched process is: short calls, and each is thought over. */
static void who_has_time_takes_a_third_of_a_cpu_at_most(void **state)
{
	(void)state;
	struct turns turns;
	static const struct {
		uint64_t call_ns, work_ns;
	} looks[] = {
		{ 150 * US, 100 * US }, { 100 * US, 61 * US }, { 150 * US, 0 },
		{ 10 * US, 0 },         { 240 * US, 5 * US },  { 3 * MS, 0 },
		{ 10 * US, 4 * MS },    { 1 * US, 1 * US },
	};
	for (size_t i = 0; i < sizeof(looks) / sizeof(*looks); i++) {
		make_fake();
		turns_init(&turns, TURNS_GENTLY, TARGET);
		uint64_t began = fake.now, one = looks[i].call_ns + looks[i].work_ns;
		for (int n = 0; n < 1000; n++)
			call(&turns, looks[i].call_ns, looks[i].work_ns);
		assert_true(fake.raises > 1);
		/* to the end of the call that passes 250 us */
		assert_in_range(fake.longest, 1, 250 * US + one + looks[i].call_ns);
		assert_true(fake.raised * 3 <= fake.now - began);
		turns_over(&turns);
		assert_int_equal(policy(), SCHED_OTHER);
	}
	/* nobody waits for an answer for long */
	make_fake();
	turns_init(&turns, TURNS_GENTLY, TARGET);
	call(&turns, 900 * MS, 0);
	assert_int_equal(fake.slept, 20 * MS);
	/* who may not be raised pauses as well */
	make_fake();
	fake.may = 0;
	turns_init(&turns, TURNS_GENTLY, TARGET);
	for (int i = 0; i < 6; i++)
		call(&turns, 125 * US, 0);
	assert_int_equal(fake.slept, 3 * 500 * US);
	fake.on = 0;
}

/* What was read is sorted: for a large heap that takes 50 ms and no call. */
static void who_thinks_for_long_is_an_ordinary_thread(void **state)
{
	(void)state;
	struct pages pages = { .fd = -1 };
	struct memory_process process = { .pages = &pages };
	struct memory memory;
	make_fake();
	memory_of_process(&memory, &process);
	turns_init(&pages.turns, TURNS_RAISED, TARGET);
	call(&pages.turns, US, 0);
	assert_int_equal(policy(), SCHED_RR);
	memory_think(&memory);
	assert_int_equal(policy(), SCHED_OTHER);
	call(&pages.turns, US, 0);
	assert_int_equal(policy(), SCHED_RR);
	turns_over(&pages.turns);
	fake.on = 0;
}

static void nobody_is_raised_where_the_target_could_not_run(void **state)
{
	(void)state;
	for (int how = TURNS_RAISED; how <= TURNS_GENTLY; how++)
		for (int one = 0; one < 3; one++) {
			struct turns turns;
			make_fake();
			fake.cpus = one == 1 ? 1 : 2;
			fake.target_cpus = one == 2 ? 1 : 2;
			turns_init(&turns, (enum turns_how)how, TARGET);
			call(&turns, 100 * US, 0);
			call(&turns, 100 * US, 0);
			assert_int_equal(fake.raises, one == 0);
			call(&turns, 300 * US, 0);
			assert_int_equal(fake.pauses, 1);
		}
	fake.on = 0;
}

static void nobody_is_raised_for_a_long_call(void **state)
{
	(void)state;
	struct turns turns;
	make_fake();
	turns_init(&turns, TURNS_RAISED, TARGET);
	turns_expect(&turns, 2 * MS + 1);
	call(&turns, US, 0);
	assert_int_equal(fake.raises, 0);
	turns_expect(&turns, 2 * MS);
	call(&turns, US, 0);
	assert_int_equal(policy(), SCHED_RR);
	turns_expect(&turns, 2 * MS + 1);
	assert_int_equal(policy(), SCHED_OTHER);
	fake.on = 0;
}

static void the_flag_for_children_does_not_stay(void **state)
{
	(void)state;
	struct turns turns;
	make_fake();
	turns_init(&turns, TURNS_RAISED, TARGET);
	call(&turns, US, 0);
	assert_int_equal(fake.policy, SCHED_RR | SCHED_RESET_ON_FORK);
	turns_over(&turns);
	assert_int_equal(fake.policy, SCHED_OTHER);
	/* the kernel keeps it with whoever has no CAP_SYS_NICE */
	fake.may_unflag = 0;
	call(&turns, US, 0);
	turns_over(&turns);
	assert_int_equal(fake.policy, SCHED_OTHER | SCHED_RESET_ON_FORK);
	/* and who had it before keeps it */
	fake.may_unflag = 1;
	call(&turns, US, 0);
	turns_over(&turns);
	assert_int_equal(fake.policy, SCHED_OTHER | SCHED_RESET_ON_FORK);
	fake.on = 0;
}

static void a_child_forked_later_has_its_parents_nice(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		struct turns turns;
		if (setpriority(PRIO_PROCESS, 0, -5) != 0)
			_exit(0); /* not permitted, and neither is the rest */
		turns_init(&turns, TURNS_RAISED, getppid());
		turns_end(&turns, turns_begin(&turns), NULL);
		turns_over(&turns);
		pid_t child = fork();
		if (child == 0)
			_exit(getpriority(PRIO_PROCESS, 0) != -5);
		_exit(waitpid(child, &status, 0) != child || status != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- a process of files ----------------------------------------------------------------------- */

static const char *const files[] = { "smaps", "smaps_rollup", "statm", "status" };

static void put(const struct target *target, const char *name, const char *text)
{
	int fd = openat(target->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* Of @pages pages, @resident of which are resident and @swap_kib KiB in swap. */
static void set_size(const struct target *target, uint64_t pages, uint64_t resident,
		     uint64_t swap_kib)
{
	char text[256];
	snprintf(text, sizeof(text), "%lu %lu 0 0 0 0 0\n", (unsigned long)pages,
		 (unsigned long)resident);
	put(target, "statm", text);
	snprintf(text, sizeof(text), "Name:\tmade\nVmRSS:\t%lu kB\nVmSwap:\t%lu kB\nThreads:\t1\n",
		 (unsigned long)(resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024),
		 (unsigned long)swap_kib);
	put(target, "status", text);
}

static char folder[64];

static void make_target(struct target *target)
{
	strcpy(folder, "/tmp/unit_proc_turns.XXXXXX");
	assert_non_null(mkdtemp(folder));
	*target = (struct target){ .pid = TARGET, .tid = TARGET };
	target->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(target->dir >= 0);
	put(target, "smaps",
	    "10000-20000 rw-p 00000000 00:00 0 \nSize: 64 kB\nRss: 64 kB\nPss: 64 kB\n"
	    "30000-40000 rw-p 00000000 00:00 0 \nSize: 64 kB\nRss: 64 kB\nPss: 64 kB\n");
	put(target, "smaps_rollup",
	    "10000-40000 ---p 00000000 00:00 0 [rollup]\nRss: 128 kB\nPss: 128 kB\n");
	set_size(target, 32, 32, 0);
	make_fake();
}

static void remove_target(struct target *target)
{
	fake.on = 0;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		unlinkat(target->dir, files[i], 0);
	close(target->dir);
	assert_int_equal(rmdir(folder), 0);
}

static int stop_here(void *ctx, struct region *region)
{
	(void)region;
	*(int *)ctx = policy();
	return 7;
}

static int go_on(void *ctx, struct region *region)
{
	(void)ctx;
	(void)region;
	return 0;
}

static unsigned rollup_raises(const struct target *target, enum turns_how how)
{
	struct err err = { 0 };
	uint64_t rss = 0, pss = 0, stall = 0;
	unsigned raises = fake.raises;
	assert_int_equal(rollup_read(target, how, &rss, &pss, &stall, &err), 0);
	assert_int_equal(rss, 128 * 1024);
	assert_int_equal(policy(), SCHED_OTHER);
	return fake.raises - raises;
}

static unsigned smaps_raises(const struct target *target, enum turns_how how)
{
	struct err err = { 0 };
	struct reading reading = { 0 };
	unsigned raises = fake.raises;
	assert_int_equal(smaps_each(target, how, go_on, NULL, &reading, &err), 0);
	assert_int_equal(reading.regions, 2);
	assert_int_equal(policy(), SCHED_OTHER);
	return fake.raises - raises;
}

static void a_walk_of_many_pages_is_an_ordinary_threads(void **state)
{
	(void)state;
	struct target target;
	/* 37 ns a page: 2 ms are 54,054 of them */
	static const struct {
		uint64_t pages, resident, swap_pages;
		int raised;
	} sizes[] = {
		{ 54054, 54054, 0, 1 },       { 54055, 54054, 0, 1 },
		{ 54055, 54055, 0, 0 },       { 1 << 24, 40000, 14054, 1 },
		{ 1 << 24, 40000, 14055, 0 }, { 1 << 24, 1 << 24, 0, 0 },
	};
	make_target(&target);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		set_size(&target, sizes[i].pages, sizes[i].resident,
			 sizes[i].swap_pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024);
		assert_int_equal(rollup_raises(&target, TURNS_RAISED), sizes[i].raised);
		assert_int_equal(smaps_raises(&target, TURNS_RAISED) != 0, sizes[i].raised);
	}
	/* what is not told may be anything */
	unlinkat(target.dir, "statm", 0);
	unlinkat(target.dir, "status", 0);
	assert_int_equal(rollup_raises(&target, TURNS_RAISED), 0);
	remove_target(&target);
}

static void a_failed_or_stopped_reading_leaves_an_ordinary_thread(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct reading reading = { 0 };
	struct target target;
	int seen = 0;
	make_target(&target);
	assert_int_equal(smaps_each(&target, TURNS_RAISED, stop_here, &seen, &reading, &err), 7);
	assert_int_equal(seen, SCHED_RR);
	assert_int_equal(fake.policy, SCHED_OTHER);
	put(&target, "smaps", "10000-20000 rw-p 00000000 00:00 0 \nno line of it\n");
	assert_true(smaps_each(&target, TURNS_RAISED, go_on, NULL, &reading, &err) < 0);
	assert_int_equal(fake.raises, 2);
	assert_int_equal(fake.policy, SCHED_OTHER);
	/* as of a process that ended meanwhile */
	unlinkat(target.dir, "smaps_rollup", 0);
	uint64_t rss, pss, stall = 0;
	assert_int_equal(rollup_read(&target, TURNS_RAISED, &rss, &pss, &stall, &err), -ESRCH);
	assert_int_equal(fake.raises, 3);
	assert_int_equal(fake.policy, SCHED_OTHER);
	remove_target(&target);
}

/* These files know no PROCMAP_QUERY, as kernels before 6.11, so that smaps is read. */
static void a_recordings_snapshot_raises_nobody(void **state)
{
	(void)state;
	struct target target;
	struct err err = { 0 };
	make_target(&target);
	assert_int_equal(rollup_raises(&target, TURNS_PAUSES), 0);
	assert_int_equal(smaps_raises(&target, TURNS_PAUSES), 0);
	for (int parts = 0; parts < 2; parts++) {
		const struct breakdown_opt opt = { .parts = parts, .no_threads = 1 };
		fake.raises = 0;
		struct breakdown *b = breakdown_read(&target, &opt, &err);
		assert_non_null(b);
		assert_int_equal(b->full, 1);
		assert_int_equal(b->rollup_pss_bytes, 128 * 1024);
		assert_int_equal(b->turns, parts ? TURNS_PAUSES : TURNS_RAISED);
		assert_int_equal(fake.raises != 0, !parts);
		breakdown_free(b);
	}
	remove_target(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reading_of_another_process_goes_before_and_then_no_longer),
		cmocka_unit_test(a_reading_of_this_process_changes_nothing),
		cmocka_unit_test(who_has_a_policy_keeps_it),
		cmocka_unit_test(calls_without_a_pause_between_are_one_wait),
		cmocka_unit_test(it_goes_before_for_two_milliseconds_at_a_time),
		cmocka_unit_test(who_has_time_takes_a_third_of_a_cpu_at_most),
		cmocka_unit_test(who_thinks_for_long_is_an_ordinary_thread),
		cmocka_unit_test(nobody_is_raised_where_the_target_could_not_run),
		cmocka_unit_test(nobody_is_raised_for_a_long_call),
		cmocka_unit_test(the_flag_for_children_does_not_stay),
		cmocka_unit_test(a_child_forked_later_has_its_parents_nice),
		cmocka_unit_test(a_walk_of_many_pages_is_an_ordinary_threads),
		cmocka_unit_test(a_failed_or_stopped_reading_leaves_an_ordinary_thread),
		cmocka_unit_test(a_recordings_snapshot_raises_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
