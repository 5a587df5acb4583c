/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample_activity.h - what the processes do while a window is open: how long they run, and whether
 * threads that call allocators have done what there was to do. For sample.bpf.c alone, before its
 * hit(). Every switch of a thread is seen as it leaves a processor; what runs when the window
 * begins and ends is looked at by an interrupt of that processor.
 */
#ifndef BPF_SAMPLE_ACTIVITY_H
#define BPF_SAMPLE_ACTIVITY_H

/* Number of the window that is open; 0: nobody asks what the processes do. */
volatile uint32_t sample_window = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct wire_sample_activity);
} sample_activity SEC(".maps");

/* By the kernel's own number of the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	/* the loader's to settle */
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct wire_sample_caller);
} sample_callers SEC(".maps");

#include "bpf/sample_ticks.h"

#define TASK_DEAD 0x80 /* of a thread's states */

/* A piece of time ends in which what runs here called now and then. */
static UNWIND_INLINE void end_slice(struct wire_sample_activity *a, uint64_t now)
{
	uint64_t from = a->slice_ns > a->since_ns ? a->slice_ns : a->since_ns;
	uint64_t ran = now > from ? now - from : 0, often;
	uint32_t at;
	often = a->slice_hits * 1024 / (ran / 1000 + 1);
	at = often ? log2_of(often) + 1 : 0;
	struct wire_sample_slice *s =
		&a->slice[at < WIRE_SAMPLE_SLICES ? at : WIRE_SAMPLE_SLICES - 1];
	s->hits += a->slice_hits;
	s->run_ns += ran;
	a->slice_hits = 0;
	a->slice_ns = now;
}

/* A thread that called an allocator, and from where. */
static UNWIND_INLINE void note_caller(struct pt_regs *regs, uint32_t number, uint32_t window)
{
	uint32_t zero = 0, tid = (uint32_t)bpf_get_current_pid_tgid();
	struct wire_sample_activity *a = bpf_map_lookup_elem(&sample_activity, &zero);
	struct wire_sample_caller caller = { .window = window }, *known;
	if (!a)
		return;
	if (a->window == caller.window) {
		uint64_t now = bpf_ktime_get_ns();
		uint64_t from = a->slice_ns > a->since_ns ? a->slice_ns : a->since_ns;
		a->slice_hits++;
		if (now - from >= WIRE_SAMPLE_SLICE_NS)
			end_slice(a, now);
	}
	if (a->place != regs->ip) {
		a->place = regs->ip;
		note_place(regs->ip, number);
	}
	if (a->caller == tid)
		return;
	a->caller = tid;
	known = bpf_map_lookup_elem(&sample_callers, &tid);
	if (known)
		caller.ticked = known->ticked;
	if (!known || known->window != window)
		bpf_map_update_elem(&sample_callers, &tid, &caller, BPF_ANY);
}

/* Whether it called in a window of late: pieces of its time tell how often it does. */
static UNWIND_INLINE int is_caller(const struct wire_sample_caller *caller, uint32_t window)
{
	return caller && window - caller->window < WIRE_SAMPLE_CALLER_WINDOWS;
}

/*
 * The thread that ran here until now, when it leaves the processor (@left), or a window begins or
 * ends.
 */
static UNWIND_INLINE void note_run(uint32_t window, int left, uint32_t state)
{
	uint32_t zero = 0, pid, tid, own = (uint32_t)bpf_get_current_pid_tgid();
	struct wire_sample_activity *a = bpf_map_lookup_elem(&sample_activity, &zero);
	struct wire_sample_caller *caller;
	uint64_t now = bpf_ktime_get_ns();

	if (!a)
		return;
	if (a->window != window) { /* it begins, or nobody told this CPU that it had */
		*a = (struct wire_sample_activity){ .window = window, .since_ns = now };
		return;
	}
	if (own && current_ids(&pid, &tid) == 0 && bpf_map_lookup_elem(&walk_processes, &pid)) {
		uint64_t ran = now > a->since_ns ? now - a->since_ns : 0, us = ran / 1000 + 1;
		a->run_ns += ran;
		caller = bpf_map_lookup_elem(&sample_callers, &own);
		if (is_caller(caller, window))
			end_slice(a, now);
		if (caller && caller->window == window) {
			a->called_us += us;
			a->called_squares += (2 * caller->run_us + us) * us;
			caller->run_us += us;
			if (!caller->awake_ns)
				caller->awake_ns = a->since_ns;
			/* it went on meanwhile, wherever it was made to wait */
			if (caller->waits) {
				a->waiting--;
				a->waiting_ns -= (int64_t)caller->awake_ns;
				if (a->since_ns > caller->left_ns)
					a->waited_ns += a->since_ns - caller->left_ns;
			}
			caller->waits = left && !state;
			if (caller->waits) {
				a->waiting++;
				a->waiting_ns += (int64_t)caller->awake_ns;
				caller->left_ns = now;
			} else if (!left) {
				a->running++;
				a->running_ns += caller->awake_ns;
			} else if (state & TASK_DEAD) { /* another one may call in its place */
				a->ended_us += caller->run_us;
				a->called_squares -= caller->run_us * caller->run_us;
			} else {
				a->sleeps++;
				caller->awake_ns = 0;
			}
		}
	}
	a->since_ns = a->slice_ns = now;
	a->slice_hits = 0;
	if (left)
		a->caller = 0;
}

/*
 * Whether it was made to leave, who, for whom, and from 5.18 on what it does now: 0 is nothing but
 * wait for a processor.
 */
SEC("raw_tp/sched_switch")
int sample_switched(uint64_t *ctx)
{
	uint32_t window = sample_window;
	if (window)
		note_run(window, 1, ctx[0] ? 0 : (uint32_t)ctx[3]);
	return 0;
}

/* Run by the loader on every CPU when a window begins and when it ends. */
SEC("raw_tp")
int sample_look(uint64_t *ctx)
{
	if (sample_window)
		note_run(sample_window, 0, 0);
	return 0;
}

#endif
