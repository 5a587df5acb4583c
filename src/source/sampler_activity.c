/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_activity.c - what the processes do while probes are in for a window: how long they run,
 * how often they have nothing to do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/clock.h"
#include "sample.skel.h"
#include "source/sampler_impl.h"

#ifndef BPF_F_TEST_RUN_ON_CPU
#define BPF_F_TEST_RUN_ON_CPU 1 /* since 5.10 */
#endif

#define PRICE_TICK_NS 100000
#define PRICE_SPIN 400000
#define PRICE_ROUNDS 5
#define PRICE_LEAST_NS 1000
#define CALLERS_BATCH 512u

/* A clock that runs while the thread does; a thread that is no more has none. */
static void add_ticks(struct sampler *s, pid_t tid, uint64_t period_ns)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = period_ns,
					.disabled = 1 };
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0 &&
	    ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(s->skeleton->progs.sample_tick)) < 0)
		close(fd);
	else if (fd >= 0)
		s->ticks[s->tick_count++] = (struct sampler_tick){ fd, (uint32_t)tid };
}

static void switch_ticks(struct sampler *s, unsigned long what)
{
	for (unsigned i = 0; i < s->tick_count; i++)
		ioctl(s->ticks[i].fd, what, 0);
}

static void end_ticks(struct sampler *s)
{
	while (s->tick_count)
		close(s->ticks[--s->tick_count].fd);
}

void sampler_ticks_begin(struct sampler *s, uint64_t period_ns)
{
	end_ticks(s);
	for (unsigned i = 0; i < s->callers.count; i++)
		add_ticks(s, (pid_t)s->callers.all[i].tid, period_ns);
	for (size_t i = 0; i < s->set_count && s->tick_count < SAMPLER_TICKS_MAX; i++) {
		int known = !s->sets[i].pid;
		for (unsigned k = 0; !known && k < s->callers.count; k++)
			known = s->callers.all[k].tid == s->sets[i].pid;
		if (!known)
			add_ticks(s, (pid_t)s->sets[i].pid, period_ns);
	}
}

void sampler_busy_add(struct sampler_busy *busy, uint32_t tid, uint64_t run_us)
{
	unsigned least = 0;
	if (busy->count < SAMPLER_TICKS_MAX) {
		busy->all[busy->count++] = (struct sampler_busy_thread){ tid, run_us, 0 };
		return;
	}
	for (unsigned i = 1; i < busy->count; i++)
		if (busy->all[i].run_us < busy->all[least].run_us)
			least = i;
	if (run_us > busy->all[least].run_us)
		busy->all[least] = (struct sampler_busy_thread){ tid, run_us, 0 };
}

/* CPU time that a thread has used in all its life; 0: it is gone. */
static uint64_t cpu_of(uint32_t tid)
{
	char path[64];
	unsigned long long ns = 0;
	snprintf(path, sizeof(path), "/proc/%u/schedstat", tid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu", &ns) != 1)
		ns = 0;
	fclose(file);
	return ns;
}

void sampler_callers_mark(struct sampler *s)
{
	for (unsigned i = 0; i < s->callers.count; i++)
		s->callers.all[i].cpu_ns = cpu_of(s->callers.all[i].tid);
}

double sampler_callers_used(struct sampler *s)
{
	double used = 0;
	unsigned left = 0;
	for (unsigned i = 0; i < s->callers.count; i++) {
		struct sampler_busy_thread *t = &s->callers.all[i];
		uint64_t now = t->cpu_ns ? cpu_of(t->tid) : 0;
		if (!now || now < t->cpu_ns)
			continue;
		used += (double)(now - t->cpu_ns);
		s->callers.all[left++] = *t;
	}
	s->callers.count = left;
	return left ? used : -1;
}

static int is_known(const struct sampler *s, uint32_t tid)
{
	for (unsigned i = 0; i < s->callers.count; i++)
		if (s->callers.all[i].tid == tid)
			return 1;
	return 0;
}

/* How long threads with a clock ran in the window, which the clock has counted as well. */
static void note_clocks(struct sampler *s, struct sampler_activity *to)
{
	for (unsigned i = 0; i < s->tick_count; i++) {
		uint64_t ns = 0;
		if (read(s->ticks[i].fd, &ns, sizeof(ns)) != (ssize_t)sizeof(ns))
			continue;
		to->ticked_ns += (double)ns;
		if (is_known(s, s->ticks[i].tid))
			to->known_run_ns += (double)ns;
	}
}

static int has_clock(const struct sampler *s, uint32_t tid)
{
	for (unsigned i = 0; i < s->tick_count; i++)
		if (s->ticks[i].tid == tid)
			return 1;
	return 0;
}

/*
 * Who called in the window that ends, and how much of their time had a clock; those that ran for
 * longest are known in the next one, as many as there may be clocks.
 */
static void note_callers(struct sampler *s, struct sampler_activity *to)
{
	int fd = bpf_map__fd(s->skeleton->maps.sample_callers), rc;
	uint32_t keys[CALLERS_BATCH], at = 0, count;
	struct wire_sample_caller values[CALLERS_BATCH];
	/*
	 * numbers of threads are the first namespace's; who is in another one knows those of
	 * processes alone
	 */
	int are_ours = !s->skeleton->rodata->sample_pidns_ino, first = 1;
	struct sampler_busy busy = { 0 };
	do {
		count = CALLERS_BATCH;
		rc = bpf_map_lookup_batch(fd, first ? NULL : &at, &at, keys, values, &count, NULL);
		if (rc < 0 && errno != ENOENT)
			return;
		first = 0;
		for (uint32_t i = 0; i < count; i++) {
			double run_ns = (double)values[i].run_us * 1000;
			if (values[i].window != s->window)
				continue;
			if (values[i].ticked == s->window || (are_ours && has_clock(s, keys[i])))
				to->covered_ns += run_ns;
			if (are_ours && is_known(s, keys[i]))
				to->known_called_ns += run_ns;
			if (are_ours)
				sampler_busy_add(&busy, keys[i], values[i].run_us);
		}
	} while (rc == 0);
	if (busy.count) /* else none had time to: those of the window before are not forgotten */
		s->callers = busy;
}

/* CPU time of a loop that does nothing. */
static double spin_ns(void)
{
	struct timespec from, to;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (unsigned i = 0; i < PRICE_SPIN; i++)
		__asm__ volatile("" : : "r"(i));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
}

double sampler_ticks_price(struct sampler *s)
{
	double best[2] = { 0, 0 };
	add_ticks(s, 0, PRICE_TICK_NS);
	if (!s->tick_count)
		return 0;
	for (int round = 0; round < 2 * PRICE_ROUNDS; round++) {
		int on = round & 1;
		switch_ticks(s, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE);
		double ns = spin_ns();
		if (best[on] <= 0 || ns < best[on])
			best[on] = ns;
	}
	end_ticks(s);
	double ticks = best[1] / PRICE_TICK_NS;
	double price_ns = ticks > 0 ? (best[1] - best[0]) / ticks : 0;
	/* on a busy machine the difference may be lost; no interrupt costs less */
	return price_ns > PRICE_LEAST_NS ? price_ns : PRICE_LEAST_NS;
}

/* What runs there is looked at, not stopped: by an interrupt of that processor. */
static void look_at_all(struct sampler *s)
{
	int fd = bpf_program__fd(s->skeleton->progs.sample_look), cpus = libbpf_num_possible_cpus();
	for (int cpu = 0; cpu < cpus; cpu++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .flags = BPF_F_TEST_RUN_ON_CPU,
			    .cpu = (uint32_t)cpu);
		bpf_prog_test_run_opts(fd, &opts); /* one that is not there refuses */
	}
}

int sampler_activity_begin(struct sampler *s)
{
	if (!s->opt.windows)
		return -ENOTSUP;
	if (!s->switches)
		s->switches = bpf_program__attach(s->skeleton->progs.sample_switched);
	if (!s->switches)
		return -errno;
	if (!++s->window)
		s->window = 1;
	__atomic_store_n(&s->skeleton->bss->sample_window, s->window, __ATOMIC_SEQ_CST);
	look_at_all(s);
	switch_ticks(s, PERF_EVENT_IOC_ENABLE);
	return 0;
}

int sampler_activity_take(struct sampler *s, struct sampler_activity *to)
{
	int cpus = libbpf_num_possible_cpus();
	struct wire_sample_activity *all = cpus > 0 ? calloc((size_t)cpus, sizeof(*all)) : NULL;
	uint32_t zero = 0;
	int rc = all ? 0 : -ENOMEM;
	double called_us = 0, squares = 0, left_us, now_ns = (double)clock_ns(CLOCK_MONOTONIC);
	memset(to, 0, sizeof(*to));
	switch_ticks(s, PERF_EVENT_IOC_DISABLE);
	if (!s->switches)
		rc = -ENOTSUP;
	else
		look_at_all(s);
	__atomic_store_n(&s->skeleton->bss->sample_window, 0, __ATOMIC_SEQ_CST);
	if (!rc &&
	    bpf_map_lookup_elem(bpf_map__fd(s->skeleton->maps.sample_activity), &zero, all) < 0)
		rc = -errno;
	for (int cpu = 0; !rc && cpu < cpus; cpu++) {
		if (all[cpu].window != s->window)
			continue;
		to->run_ns += (double)all[cpu].run_ns;
		to->sleeps += (double)all[cpu].sleeps;
		to->own_ticks += (double)all[cpu].own_ticks;
		for (unsigned i = 0; i < WIRE_SAMPLE_SLICES; i++) {
			to->slice[i].hits += (double)all[cpu].slice[i].hits;
			to->slice[i].run_ns += (double)all[cpu].slice[i].run_ns;
		}
		to->probe_ticks += (double)all[cpu].probe_ticks;
		to->waited_ns += (double)all[cpu].waited_ns;
		double pending = (double)all[cpu].waiting + (double)all[cpu].running;
		called_us += (double)all[cpu].called_us;
		to->ended_ns += (double)all[cpu].ended_us * 1000;
		squares += (double)all[cpu].called_squares;
		to->pending += pending;
		to->pending_ns += pending * now_ns - (double)all[cpu].waiting_ns -
				  (double)all[cpu].running_ns;
	}
	to->called_run_ns = called_us * 1000;
	left_us = called_us - to->ended_ns / 1000;
	to->callers = squares > 0 ? left_us * left_us / squares : 0;
	if (to->pending < 0)
		to->pending = 0;
	if (to->pending_ns < 0)
		to->pending_ns = 0;
	free(all);
	if (!rc) {
		note_clocks(s, to);
		note_callers(s, to);
	}
	return rc;
}

void sampler_activity_end(struct sampler *s)
{
	end_ticks(s);
	bpf_link__destroy(s->switches);
	s->switches = NULL;
}
