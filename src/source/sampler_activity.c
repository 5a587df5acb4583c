/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_activity.c - what the processes do while probes are in for a window: how long they run, how often they have nothing to do. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "sample.skel.h"
#include "source/sampler_impl.h"

#ifndef BPF_F_TEST_RUN_ON_CPU
#define BPF_F_TEST_RUN_ON_CPU 1 /* since 5.10 */
#endif

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
	return 0;
}

int sampler_activity_take(struct sampler *s, struct sampler_activity *to)
{
	int cpus = libbpf_num_possible_cpus();
	struct wire_sample_activity *all = cpus > 0 ? calloc((size_t)cpus, sizeof(*all)) : NULL;
	uint32_t zero = 0;
	int rc = all ? 0 : -ENOMEM;
	double called_us = 0, squares = 0, now_ns = (double)clock_ns(CLOCK_MONOTONIC);
	memset(to, 0, sizeof(*to));
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
		to->waited_ns += (double)all[cpu].waited_ns;
		double pending = (double)all[cpu].waiting + (double)all[cpu].running;
		called_us += (double)all[cpu].called_us;
		squares += (double)all[cpu].called_squares;
		to->pending += pending;
		to->pending_ns += pending * now_ns - (double)all[cpu].waiting_ns -
				  (double)all[cpu].running_ns;
	}
	to->callers = squares > 0 ? called_us * called_us / squares : 0;
	if (to->pending < 0)
		to->pending = 0;
	if (to->pending_ns < 0)
		to->pending_ns = 0;
	free(all);
	return rc;
}

void sampler_activity_end(struct sampler *s)
{
	bpf_link__destroy(s->switches);
	s->switches = NULL;
}
