/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample_hooks.h - what allocators sample by themselves: jemalloc's events, and static probes by
 * the otel_memory contract. A part of sample.bpf.c.
 */
#ifndef BPF_SAMPLE_HOOKS_H
#define BPF_SAMPLE_HOOKS_H

/*
 * Of jemalloc 5.3's te_ctx_t: which of a thread's two counters passed its mark, the counter, and
 * what it was the last time.
 */
struct jemalloc_event {
	uint8_t is_alloc, reserved[7];
	uint64_t current, last;
};

/* When this CPU saw its last event of a counter. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint64_t);
} sample_counted SEC(".maps");

/*
 * An event's stack costs what two traps do. Where events of a CPU come closer than this each is
 * taken by the chance of how long after the last one it came, but no rarer than one in 16: walks
 * cost a hundredth or two of a CPU then. That is settled before the draw, whatever the stack is,
 * so what is taken stands for the others.
 */
#define COUNTED_NS_SHIFT 17
#define COUNTED_CHANCE_MIN (1u << 28)

static UNWIND_INLINE uint32_t draw_counted(void)
{
	uint32_t zero = 0, chance;
	uint64_t *last = bpf_map_lookup_elem(&sample_counted, &zero), now = bpf_ktime_get_ns();
	uint64_t since;
	if (!last)
		return WIRE_SAMPLE_ALWAYS;
	since = now - *last;
	*last = now;
	if (since >> COUNTED_NS_SHIFT)
		return WIRE_SAMPLE_ALWAYS;
	chance = (uint32_t)since << (32 - COUNTED_NS_SHIFT);
	if (chance < COUNTED_CHANCE_MIN)
		chance = COUNTED_CHANCE_MIN;
	return bpf_get_prandom_u32() < chance ? chance : 0;
}

/* Bytes alone: neither how many blocks they were nor how large is known here. */
static UNWIND_INLINE int take_counter(struct pt_regs *regs, uint64_t cookie)
{
	struct jemalloc_event event = { 0 };
	uint64_t now = 0, before = 0, weight;
	uint32_t pid, tid, chance;
	struct sample_room *room;

	if (bpf_probe_read_user(&event, sizeof(event), (void *)reg_of(regs, cookie & 15)) ||
	    event.is_alloc != 1 || !(chance = draw_counted()) ||
	    bpf_probe_read_user(&now, sizeof(now), (void *)event.current) ||
	    bpf_probe_read_user(&before, sizeof(before), (void *)event.last))
		return 0;
	weight = now - before;
	if (!weight || weight >> 44 || current_ids(&pid, &tid) < 0 || !is_asked_thread(tid))
		return 0;
	weight = weigh(weight, chance);
	room = room_begin(tid);
	if (!room)
		return 0;
	count_by(WIRE_SAMPLE_TAKEN, 1);
	struct wire_sample_row_key key = { .stack = stack_here(regs, pid, tid, room), .pid = pid };
	struct wire_sample_row *row =
		row_of(&key, room, cookie >> 32 & (WIRE_SAMPLE_FUNCTIONS_MAX - 1));
	if (row) {
		__sync_fetch_and_add(&row->taken, 1);
		__sync_fetch_and_add(&row->bytes, weight);
		__sync_fetch_and_add(&row->variance_bytes,
				     (weight >> (sample_square_shift & 63)) *
					     (weight >> (sample_square_shift & 63)));
		row->last_ns = bpf_ktime_get_ns();
	} else {
		count_by(WIRE_SAMPLE_LOST_ROWS, 1);
		count_by(WIRE_SAMPLE_TAKEN_BYTES, weight);
	}
	room_end(room);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_SAMPLE_FUNCTIONS_MAX);
	__type(key, uint32_t);
	__type(value, struct wire_sample_usdt);
} sample_usdts SEC(".maps");

static UNWIND_INLINE uint64_t usdt_value(const struct all_regs *all,
					 const struct wire_sample_arg *arg)
{
	uint64_t v = arg->value;
	uint32_t unused = 64 - 8 * (arg->bytes & 15);
	if (arg->kind == WIRE_SAMPLE_ARG_REGISTER)
		v = all->v[arg->reg & 31];
	else if (arg->kind == WIRE_SAMPLE_ARG_MEMORY &&
		 bpf_probe_read_user(&v, sizeof(v), (void *)(all->v[arg->reg & 31] + arg->value)))
		return 0;
	return unused && unused < 64 && arg->kind ? v << unused >> unused : v;
}

/* otel_memory:free(ptr) */
static UNWIND_INLINE int usdt_free(uint32_t pid, uint32_t tid, uint64_t addr)
{
	struct wire_sample_live live;
	if (!addr || !take_live(pid, addr, &live))
		return 0;
	leave_row(pid, &live, bpf_ktime_get_ns());
	count_by(WIRE_SAMPLE_FREES_KNOWN, 1);
	if (sample_send)
		put_event(WIRE_SAMPLE_FREE, pid, tid, addr, &live);
	return 0;
}

/* otel_memory:alloc(ptr, size, weighted_bytes): one that the program has drawn. */
static UNWIND_INLINE int usdt_alloc(struct pt_regs *regs, uint32_t pid, uint32_t tid,
				    uint32_t number, const struct wire_sample_usdt *u,
				    struct sample_room *room)
{
	uint64_t addr = usdt_value(&room->regs, &u->arg[0]);
	uint64_t weight = usdt_value(&room->regs, &u->arg[2]);
	struct wire_sample_live live = { .time_ns = bpf_ktime_get_ns(), .tid = tid };
	live.bytes = usdt_value(&room->regs, &u->arg[1]);
	live.chance =
		live.bytes >= weight || live.bytes >> 31
			? WIRE_SAMPLE_ALWAYS
			: (uint32_t)(((live.bytes ? live.bytes : 1) << 32) / (weight ? weight : 1));
	if (live.bytes >> 47 || !live.chance || !is_asked_thread(tid))
		return 0;
	if (live.bytes < sample_bytes_min || live.bytes > sample_bytes_max) {
		count_by(WIRE_SAMPLE_FILTERED, 1);
		return 0;
	}
	count_by(WIRE_SAMPLE_TAKEN, 1);
	live.stack = stack_here(regs, pid, tid, room);
	enter_row(pid, live.stack, live.bytes, live.chance, number, room);
	if (sample_track && addr)
		put_live(pid, addr, &live);
	if (sample_send)
		put_event(WIRE_SAMPLE_ALLOC, pid, tid, addr, &live);
	return 0;
}

SEC("uprobe")
int sample_usdt(struct pt_regs *regs)
{
	uint64_t cookie = bpf_get_attach_cookie(regs);
	uint32_t number = cookie >> 32 & (WIRE_SAMPLE_FUNCTIONS_MAX - 1), pid, tid;
	struct wire_sample_usdt *u = bpf_map_lookup_elem(&sample_usdts, &number);
	struct sample_room *room;

	hit(regs, cookie);
	if (!u || !sample_on || current_ids(&pid, &tid) < 0)
		return 0;
	room = room_begin(tid);
	if (!room)
		return 0;
	if (bpf_probe_read_kernel(&room->regs, 8 * WIRE_SAMPLE_SLOTS, regs) == 0) {
		if (u->is_free)
			usdt_free(pid, tid, usdt_value(&room->regs, &u->arg[0]));
		else
			usdt_alloc(regs, pid, tid, number, u, room);
	}
	room_end(room);
	return 0;
}

#endif
