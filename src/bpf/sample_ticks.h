/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample_ticks.h - a clock that looks where the processes are while a window is open: at work of
 * their own, or in a probe. Its share of their time is what the probes take from them, whatever
 * that is on this machine and at this load: nobody has to know the price of a probe. For
 * sample_activity.h alone.
 *
 * On the way out of a probe no interrupt comes until the next instruction of the program's is about
 * to run: a tick that meets the processes exactly there is the probe's.
 */
#ifndef BPF_SAMPLE_TICKS_H
#define BPF_SAMPLE_TICKS_H

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	/* the loader's to settle */
	__uint(max_entries, 1);
	__type(key, uint64_t);
	__type(value, uint32_t);
} sample_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_SAMPLE_FUNCTIONS_MAX);
	__type(key, uint32_t);
	__type(value, struct wire_sample_behind);
} sample_behinds SEC(".maps");

/* Where instructions are stepped over, outside of the program's own code. */
struct xol_area {
	unsigned long vaddr;
} KERNEL_TYPE;
struct uprobes_state {
	struct xol_area *xol_area;
} KERNEL_TYPE;
struct mm_struct___xol {
	struct uprobes_state uprobes_state;
} KERNEL_TYPE;
struct task_struct___xol {
	struct mm_struct___xol *mm;
} KERNEL_TYPE;
#define XOL_BYTES 4096
#define BEHIND_BYTES 4 /* the interrupt may come an instruction late */

/*
 * Of what the program of a perf event is given: the registers as the architecture has them, words
 * 16 and 17 of which are these.
 */
struct tick_context {
	uint64_t others[16];
	uint64_t ip, cs;
};

/* A probe that was met for the first time: its address in this process, and what it leads to. */
static UNWIND_INLINE void note_place(uint64_t ip, uint32_t number)
{
	uint32_t probe = WIRE_SAMPLE_PLACE_PROBE, behind = WIRE_SAMPLE_PLACE_BEHIND;
	struct wire_sample_behind *leads;
	uint64_t at = ip + 1; /* behind the breakpoint, until the kernel has set it back */

	if (bpf_map_lookup_elem(&sample_places, &ip))
		return;
	bpf_map_update_elem(&sample_places, &ip, &probe, BPF_ANY);
	bpf_map_update_elem(&sample_places, &at, &probe, BPF_ANY);
	leads = bpf_map_lookup_elem(&sample_behinds, &number);
	for (int i = 0; leads && i < 2; i++) {
		if (!leads->v[i])
			continue;
		for (int k = 0; k < BEHIND_BYTES; k++) {
			at = ip + (uint64_t)leads->v[i] + (uint64_t)k;
			bpf_map_update_elem(&sample_places, &at, &behind, BPF_ANY);
		}
	}
}

/* Whether the thread that runs here is in a probe. */
static UNWIND_INLINE int is_in_probe(struct tick_context *ctx)
{
	struct task_struct___xol *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs((void *)task);
	struct xol_area *area = 0;
	uint64_t ip = 0, call = 0, vaddr = 0;

	if (ctx->cs & 3) {
		ip = ctx->ip;
		return bpf_map_lookup_elem(&sample_places, &ip) != 0;
	}
	bpf_probe_read_kernel(&call, sizeof(call), &regs->orig_ax);
	bpf_probe_read_kernel(&ip, sizeof(ip), &regs->ip);
	if ((int64_t)call >= 0) /* a system call of its own */
		return 0;
	if (bpf_map_lookup_elem(&sample_places, &ip))
		return 1;
	area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	vaddr = area ? BPF_CORE_READ(area, vaddr) : 0;
	return vaddr && ip - vaddr < XOL_BYTES;
}

SEC("perf_event")
int sample_tick(struct tick_context *ctx)
{
	uint32_t zero = 0, pid, tid, own = (uint32_t)bpf_get_current_pid_tgid();
	struct wire_sample_caller *caller;
	struct wire_sample_activity *a = bpf_map_lookup_elem(&sample_activity, &zero);
	if (!a || !sample_window || a->window != sample_window)
		return 0;
	if (!own || current_ids(&pid, &tid) < 0 || !bpf_map_lookup_elem(&walk_processes, &pid))
		return 0;
	caller = bpf_map_lookup_elem(&sample_callers, &own);
	if (caller)
		caller->ticked = a->window;
	if (is_in_probe(ctx))
		a->probe_ticks++;
	else
		a->own_ticks++;
	return 0;
}

#endif
