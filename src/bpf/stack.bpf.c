/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stack.bpf.c - the stack of every call of one function, of programs with or without frame
 * pointers, and those of the system calls that map memory. The step is the very source that the
 * preload library runs (unwind/step.h), the recipes are the tables of sym/unwind_rows.h.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#include "unwind/rule.h"

#include "bpf/walk.h"

/* 0: identities of the first pid namespace; else the loader's own */
const volatile uint64_t stack_pidns_dev = 0, stack_pidns_ino = 0;
/* 0: count only; the cost of walking is then seen without that of the ring */
const volatile uint32_t stack_send = 1;

#define EXTENT_FRAMES_MAX 48 /* of a stack that count: what asked for memory is near */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* the loader's to settle */
	__uint(max_entries, 1 << 20);
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

/* --- what a process maps: who asked for it, and names that the kernel does not keep --- */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	/* the loader's to settle, as that of the next two */
	__uint(max_entries, 1);
	__type(key, struct wire_extent_key);
	__type(value, struct wire_extent);
} extents SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct wire_extent_key);
	__type(value, struct wire_extent_name);
} extent_names SEC(".maps");

/* Stacks that were sent already, by their hash. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, uint64_t);
	__type(value, uint32_t);
} extent_stacks SEC(".maps");

static UNWIND_INLINE uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + 4095) & ~4095ULL;
}

/*
 * The stack of the system call: its hash, which the first record of each carries; 0 = it could not
 * be walked or sent.
 */
static UNWIND_INLINE uint64_t stack_of_call(struct pt_regs *regs, uint32_t pid, uint32_t tid)
{
	uint32_t slot = 0, one = 1;
	uint64_t hash = 0x9e3779b97f4a7c15ULL;
	struct walk *w = walk_begin(tid, &slot);
	if (!w)
		return 0;
	/* the instruction pointer stands behind the call, as a return address does */
	if (walk_stack(w, slot, pid, regs->ip - 1, regs->sp, regs->bp, regs->bx)) {
		walk_end(w);
		return 0;
	}
	for (uint32_t i = 0; i < EXTENT_FRAMES_MAX && i < w->frames; i++) {
		hash ^= w->out.frame[(uint64_t)i & (WIRE_STACK_FRAMES_MAX - 1)];
		hash *= 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	hash |= 1; /* 0 means none */
	account(w);
	if (!bpf_map_update_elem(&extent_stacks, &hash, &one, BPF_NOEXIST)) {
		w->out.time_ns = bpf_ktime_get_ns();
		w->out.arg = hash;
		w->out.pid = pid;
		w->out.tid = tid;
		uint64_t bytes =
			__builtin_offsetof(struct wire_stack, frame) + (uint64_t)w->out.count * 8;
		if (bytes > sizeof(w->out) ||
		    bpf_ringbuf_output(&stack_ring, &w->out, bytes, BPF_RB_NO_WAKEUP)) {
			bpf_map_delete_elem(&extent_stacks, &hash);
			walk_count(WIRE_STACK_RING_FULL, 1);
		}
	}
	walk_end(w);
	return hash;
}

static UNWIND_INLINE void put_extent(struct wire_extent_key *key, struct wire_extent *extent)
{
	extent->time_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&extents, key, extent, BPF_ANY))
		walk_count(WIRE_STACK_EXTENTS_LOST, 1);
}

/*
 * What begins at @start goes, or begins where the hole ends. A hole in its middle is the reader's
 * to find: nothing is mapped.
 */
static UNWIND_INLINE void cut_extent(uint32_t pid, uint64_t start, uint64_t bytes)
{
	struct wire_extent_key key = { .start = start, .pid = pid };
	struct wire_extent *found = bpf_map_lookup_elem(&extents, &key);
	if (!found)
		return;
	struct wire_extent rest = *found;
	bpf_map_delete_elem(&extents, &key);
	if (rest.bytes <= bytes)
		return;
	rest.bytes -= bytes;
	key.start += bytes;
	put_extent(&key, &rest);
}

static UNWIND_INLINE void move_extent(uint32_t pid, uint64_t from, uint64_t to, uint64_t bytes)
{
	struct wire_extent_key key = { .start = from, .pid = pid };
	struct wire_extent moved = { 0 };
	struct wire_extent *found = bpf_map_lookup_elem(&extents, &key);
	if (found)
		moved.stack = found->stack;
	bpf_map_delete_elem(&extents, &key);
	moved.bytes = bytes;
	key.start = to;
	put_extent(&key, &moved);
}

/*
 * prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, start, bytes, name) that failed: a kernel without names,
 * or one that objects.
 */
static UNWIND_INLINE void put_name(struct pt_regs *regs, uint32_t pid)
{
	struct wire_extent_key key = { .start = regs->dx, .pid = pid };
	struct wire_extent_name name = { .bytes = whole_pages(regs->r10) };
	if (regs->r8 && bpf_probe_read_user_str(name.name, sizeof(name.name), (void *)regs->r8) < 0)
		return;
	name.time_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&extent_names, &key, &name, BPF_ANY))
		walk_count(WIRE_STACK_EXTENTS_LOST, 1);
}

SEC("tp_btf/sys_exit")
int extent_changed(uint64_t *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx[0];
	uint64_t result = ctx[1], call = regs->orig_ax;
	uint32_t pid, tid;

	if (call != CALL_MMAP && call != CALL_MUNMAP && call != CALL_MREMAP && call != CALL_PRCTL)
		return 0;
	if (current_ids(&pid, &tid) < 0 || !bpf_map_lookup_elem(&walk_processes, &pid))
		return 0;
	if (call == CALL_PRCTL) {
		if (regs->di == PR_SET_VMA && regs->si == PR_SET_VMA_ANON_NAME && result)
			put_name(regs, pid);
		return 0;
	}
	if (result >= (uint64_t)-4095LL)
		return 0;
	if (call == CALL_MUNMAP) {
		cut_extent(pid, regs->di, whole_pages(regs->si));
	} else if (call == CALL_MREMAP) {
		move_extent(pid, regs->di, result, whole_pages(regs->dx));
	} else if (regs->r10 & MAP_ANONYMOUS) {
		struct wire_extent_key key = { .start = result, .pid = pid };
		struct wire_extent extent = { .bytes = whole_pages(regs->si),
					      .stack = stack_of_call(regs, pid, tid) };
		put_extent(&key, &extent);
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
