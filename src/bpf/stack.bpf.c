/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stack.bpf.c - the stack of every call of one function, of programs with or without frame pointers. The step is the
 * very source that the preload library runs (unwind/step.h), the recipes are the tables of sym/unwind_rows.h.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#include "unwind/rule.h"

#include "bpf/walk.h"

/* 0: identities of the first pid namespace; else the loader's own */
const volatile uint64_t stack_pidns_dev = 0, stack_pidns_ino = 0;
/* 0: count only; the cost of walking is then seen without that of the ring */
const volatile uint32_t stack_send = 1;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* the loader's to settle */
} stack_ring SEC(".maps");

static UNWIND_INLINE int current_ids(uint32_t *pid, uint32_t *tid)
{
	if (stack_pidns_ino) {
		struct bpf_pidns_info ids = { 0 };
		if (bpf_get_ns_current_pid_tgid(stack_pidns_dev, stack_pidns_ino, &ids,
						sizeof(ids)))
			return -1;
		*pid = ids.tgid;
		*tid = ids.pid;
	} else {
		uint64_t ids = bpf_get_current_pid_tgid();
		*pid = (uint32_t)(ids >> 32);
		*tid = (uint32_t)ids;
	}
	return 0;
}

static UNWIND_INLINE void account(const struct walk *w)
{
	uint32_t zero = 0;
	struct walk_counters *c = bpf_map_lookup_elem(&walk_counters, &zero);
	if (!c)
		return;
	/* another program on this CPU may preempt this one: additions have to be whole */
	__sync_fetch_and_add(&c->v[WIRE_STACK_CAPTURES], 1);
	__sync_fetch_and_add(&c->v[(uint64_t)w->out.stop & 15], 1);
	__sync_fetch_and_add(&c->v[WIRE_STACK_FRAMES], w->frames);
	__sync_fetch_and_add(&c->v[WIRE_STACK_READS], w->reads);
	__sync_fetch_and_add(&c->v[WIRE_STACK_MISSED], w->missed);
	if (w->failed)
		__sync_fetch_and_add(&c->v[WIRE_STACK_READS_FAILED], w->failed);
	if (w->guessed)
		__sync_fetch_and_add(&c->v[WIRE_STACK_GUESSED], w->guessed);
}

SEC("uprobe")
int stack_at_function(struct pt_regs *regs)
{
	uint32_t pid, tid, slot = 0;
	struct walk *w;

	if (current_ids(&pid, &tid) < 0)
		return 0;
	w = walk_begin(tid, &slot);
	if (!w)
		return 0;
	if (!walk_stack(w, slot, pid, regs->ip, regs->sp, regs->bp, regs->bx)) {
		w->out.time_ns = bpf_ktime_get_ns();
		w->out.arg = regs->di;
		w->out.pid = pid;
		w->out.tid = tid;
		account(w);
		uint64_t bytes =
			__builtin_offsetof(struct wire_stack, frame) + (uint64_t)w->out.count * 8;
		if (stack_send && bytes <= sizeof(w->out) &&
		    bpf_ringbuf_output(&stack_ring, &w->out, bytes, 0))
			walk_count(WIRE_STACK_RING_FULL, 1);
	}
	walk_end(w);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
