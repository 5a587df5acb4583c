/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample.bpf.c - calls of allocators, some of them taken: where each came from, how large it was,
 * and while leaks are looked for which of them are live. A probe costs half a microsecond by
 * itself, so what matters here is only that the call which is not taken leaves at once.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "unwind/rule.h"

#include "bpf/walk.h"
#include "wire/sample.h"

#define ENTRY_DONE 1 /* a session's entry that wants no return */
#define TEMPORARY_NS 1000000ULL
#define CALL_NS \
	1000000000ULL /* a call that was taken and did not return by then was left otherwise */

/* 0: identities of the first pid namespace; else the loader's own */
const volatile uint64_t sample_pidns_dev = 0, sample_pidns_ino = 0;
const volatile uint64_t sample_bytes_min = 0, sample_bytes_max = ~0ULL;
const volatile uint32_t sample_every = 0; /* not 0: each call with the same chance, 1 in so many */
const volatile uint32_t sample_track = 0; /* 1: what is live is followed */
/*
 * 1: returns are trapped by a link of their own, and so of every call. The kernel's return address
 * then stands below whatever a function jumps to, where no stack can be walked: what otherwise
 * counts where it arrives counts where it begins.
 */
const volatile uint32_t sample_two_links = 0;
/* not 0: of this thread alone; of threads of this name alone */
const volatile uint32_t sample_tid = 0, sample_has_comm = 0;
const volatile char sample_comm[16] = "";
const volatile uint32_t sample_send = 0; /* 1: events go into the ring */
/* 0: a window has ended and its probes are on their way out; they cost, and count for nothing */
volatile uint32_t sample_on = 1;
const volatile uint32_t sample_square_shift = 0, sample_count_shift = 12;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct wire_sample_chances);
} sample_chances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	/* the loader's to settle, as that of the next ones */
	__uint(max_entries, 1);
	__type(key, struct wire_sample_row_key);
	__type(value, struct wire_sample_row);
} sample_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, uint64_t);
	__type(value, struct wire_sample_stack);
} sample_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct wire_sample_live_key);
	__type(value, struct wire_sample_live);
} sample_live SEC(".maps");

struct {
	/* a thread that dies in a call, or leaves it by longjmp, takes no place for ever */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct wire_sample_pending);
} sample_pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} sample_ring SEC(".maps");

struct sample_counters {
	uint64_t v[WIRE_SAMPLE_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct sample_counters);
} sample_counters SEC(".maps");

/* Calls by function. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_SAMPLE_FUNCTIONS_MAX);
	__type(key, uint32_t);
	__type(value, uint64_t);
} sample_hits SEC(".maps");

/*
 * How many calls this CPU may still see until the loader looks at what they cost; 0: nobody asked.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint64_t);
} sample_quota SEC(".maps");

/* Wakes the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} sample_wake SEC(".maps");

/* Room for what is too large for the stack; with a mark, as one program may interrupt another. */
/*
 * A copy of the registers, which may be indexed; the context may not. The layout is the
 * architecture's and never changes.
 */
struct all_regs {
	/* WIRE_SAMPLE_SLOTS of them */
	uint64_t v[32];
};
/*
 * What stack_at() and enter_told() are told. The verifier looks through both once in a program,
 * wherever they are called.
 */
struct sample_told {
	uint64_t ip, sp, bp, bx;
	uint64_t stack, bytes;
	uint32_t pid, tid, chance, number;
};
struct sample_room {
	uint64_t busy;
	struct sample_told told;
	struct wire_sample_row row;
	struct wire_sample_stack stack;
	struct wire_sample_pending pending;
	struct all_regs regs;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct sample_room);
} sample_rooms SEC(".maps");

/* Processes that were met and are not followed, for the loader to look at. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, uint32_t);
	__type(value, uint32_t);
} sample_strangers SEC(".maps");

WALK_APART int count_by(uint32_t which, uint64_t by)
{
	uint32_t zero = 0;
	struct sample_counters *c = bpf_map_lookup_elem(&sample_counters, &zero);
	if (c)
		__sync_fetch_and_add(&c->v[which & (WIRE_SAMPLE_COUNTERS - 1)], by);
	return 0;
}

static UNWIND_INLINE int current_ids(uint32_t *pid, uint32_t *tid)
{
	if (sample_pidns_ino) {
		struct bpf_pidns_info ids = { 0 };
		if (bpf_get_ns_current_pid_tgid(sample_pidns_dev, sample_pidns_ino, &ids,
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

/* Of a call that was drawn: whether its thread is one of those that are asked about. */
static UNWIND_INLINE int is_asked_thread(uint32_t tid)
{
	char comm[16];
	if (sample_tid && tid != sample_tid)
		return 0;
	if (!sample_has_comm)
		return 1;
	if (bpf_get_current_comm(comm, sizeof(comm)))
		return 0;
	for (int i = 0; i < 16; i++) {
		if (comm[i] != sample_comm[i])
			return 0;
		if (!comm[i])
			return 1;
	}
	return 1;
}

/*
 * The register that four bits of a cookie name. A variable index into the context is refused, and
 * so is what the compiler makes of branches that look alike: a load at an offset that it computes.
 * Each has a text of its own.
 */
#define REG_OF(name)                                        \
	({                                                  \
		uint64_t v_ = regs->name;                   \
		__asm__ volatile("# " #name "" : "+r"(v_)); \
		v_;                                         \
	})
static UNWIND_INLINE uint64_t reg_of(struct pt_regs *regs, uint32_t which)
{
	switch (which & 15) {
	case WIRE_SAMPLE_DI:
		return REG_OF(di);
	case WIRE_SAMPLE_SI:
		return REG_OF(si);
	case WIRE_SAMPLE_DX:
		return REG_OF(dx);
	case WIRE_SAMPLE_CX:
		return REG_OF(cx);
	case WIRE_SAMPLE_R8:
		return REG_OF(r8);
	case WIRE_SAMPLE_R9:
		return REG_OF(r9);
	case WIRE_SAMPLE_AX:
		return REG_OF(ax);
	default:
		return REG_OF(bx);
	}
}

static UNWIND_INLINE int has_reg(uint64_t cookie, uint32_t at)
{
	return (cookie >> at & 15) != WIRE_SAMPLE_NONE;
}

#include "bpf/sample_chance.h"

/* The row of that stack, made where there is none; 0 where there is no room. */
static UNWIND_INLINE struct wire_sample_row *row_of(const struct wire_sample_row_key *key,
						    struct sample_room *room, uint32_t number)
{
	struct wire_sample_row *row = bpf_map_lookup_elem(&sample_rows, key);
	if (row)
		return row;
	room->row.function = number;
	bpf_map_update_elem(&sample_rows, key, &room->row, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sample_rows, key);
}

static UNWIND_INLINE void put_event(uint32_t kind, uint32_t pid, uint32_t tid, uint64_t addr,
				    const struct wire_sample_live *live)
{
	struct wire_sample_event event = { .time_ns = bpf_ktime_get_ns(),
					   .addr = addr,
					   .bytes = live->bytes,
					   .stack = live->stack,
					   .pid = pid,
					   .tid = tid,
					   .kind = kind,
					   .chance = live->chance };
	if (bpf_ringbuf_output(&sample_ring, &event, sizeof(event), BPF_RB_NO_WAKEUP))
		count_by(WIRE_SAMPLE_LOST_EVENTS, 1);
}

/*
 * This CPU's room, by whoever has begun it: what is only handed on to a function may not be handed
 * to a map by Linux 6.1.
 */
static UNWIND_INLINE struct sample_room *room_told(void)
{
	uint32_t zero = 0;
	return bpf_map_lookup_elem(&sample_rooms, &zero);
}

/*
 * The stack of the place that the room was told: its hash, kept; 0 where there is none or no room.
 */
WALK_APART uint64_t stack_at(void)
{
	struct sample_room *room = room_told();
	uint32_t slot = 0, one = 1, pid;
	uint64_t hash = 0;
	if (!room)
		return 0;
	pid = room->told.pid;
	struct walk *w = walk_begin(room->told.tid, &slot);
	if (!w) {
		count_by(WIRE_SAMPLE_STACKLESS, 1);
		return 0;
	}
	if (walk_stack(w, slot, pid, room->told.ip, room->told.sp, room->told.bp, room->told.bx)) {
		bpf_map_update_elem(&sample_strangers, &pid, &one, BPF_ANY);
		count_by(WIRE_SAMPLE_STACKLESS, 1);
		walk_end(w);
		return 0;
	}
	hash = walk_mix(w->hash, w->stop) | 1; /* 0 means none */
	if (!bpf_map_lookup_elem(&sample_stacks, &hash)) {
		room->stack.count = w->out.count;
		room->stack.stop = w->out.stop;
		room->stack.guessed = w->out.guessed;
		bpf_probe_read_kernel(room->stack.frame, sizeof(room->stack.frame), w->out.frame);
		if (bpf_map_update_elem(&sample_stacks, &hash, &room->stack, BPF_ANY)) {
			count_by(WIRE_SAMPLE_LOST_STACKS, 1);
			hash = 0;
		}
	}
	walk_end(w);
	return hash;
}

/* The stack of the place where the thread stands. */
static UNWIND_INLINE uint64_t stack_here(struct pt_regs *regs, uint32_t pid, uint32_t tid,
					 struct sample_room *room)
{
	room->told.pid = pid;
	room->told.tid = tid;
	room->told.ip = regs->ip;
	room->told.sp = regs->sp;
	room->told.bp = regs->bp;
	room->told.bx = regs->bx;
	return stack_at();
}

/* The sample that the room was told enters its row. */
WALK_APART int enter_told(void)
{
	struct sample_room *room = room_told();
	if (!room)
		return 0;
	uint32_t chance = room->told.chance;
	uint64_t bytes = room->told.bytes;
	struct wire_sample_row_key key = { .stack = room->told.stack, .pid = room->told.pid };
	struct wire_sample_row *row = row_of(&key, room, room->told.number);
	uint64_t weight = weight_of(chance), weighed = weigh(bytes, chance);
	uint32_t size = bytes ? log2_of(bytes) : 0;

	if (!row) {
		count_by(WIRE_SAMPLE_LOST_ROWS, 1);
		count_by(WIRE_SAMPLE_TAKEN_BYTES, weighed);
		return 0;
	}
	if (size >= WIRE_SAMPLE_SIZES)
		size = WIRE_SAMPLE_SIZES - 1;
	__sync_fetch_and_add(&row->taken, 1);
	__sync_fetch_and_add(&row->count, weight);
	__sync_fetch_and_add(&row->bytes, weighed);
	__sync_fetch_and_add(&row->variance_bytes,
			     variance_of(weighed, sample_square_shift, chance));
	__sync_fetch_and_add(&row->variance_count, variance_of(weight, sample_count_shift, chance));
	__sync_fetch_and_add(&row->size[size], weight);
	row->last_ns = bpf_ktime_get_ns();
	return 0;
}

static UNWIND_INLINE void enter_row(uint32_t pid, uint64_t stack, uint64_t bytes, uint32_t chance,
				    uint32_t number, struct sample_room *room)
{
	room->told.pid = pid;
	room->told.stack = stack;
	room->told.bytes = bytes;
	room->told.chance = chance;
	room->told.number = number;
	enter_told();
}

/* A block that was followed is no more. */
static UNWIND_INLINE void leave_row(uint32_t pid, const struct wire_sample_live *live, uint64_t now)
{
	struct wire_sample_row_key key = { .stack = live->stack, .pid = pid };
	struct wire_sample_row *row = bpf_map_lookup_elem(&sample_rows, &key);
	uint64_t weight = weight_of(live->chance), weighed = weigh(live->bytes, live->chance);
	uint64_t age = now > live->time_ns ? now - live->time_ns : 0;
	uint32_t life = log2_of(age >> 10 | 1);

	if (!row)
		return;
	if (life >= WIRE_SAMPLE_LIVES)
		life = WIRE_SAMPLE_LIVES - 1;
	__sync_fetch_and_add(&row->freed_count, weight);
	__sync_fetch_and_add(&row->freed_bytes, weighed);
	__sync_fetch_and_add(&row->life[life], weighed);
	__sync_fetch_and_sub(&row->live_variance_bytes,
			     variance_of(weighed, sample_square_shift, live->chance));
	if (age < TEMPORARY_NS)
		__sync_fetch_and_add(&row->temporary, weight);
}

static UNWIND_INLINE struct sample_room *room_begin(uint32_t tid)
{
	uint32_t zero = 0;
	struct sample_room *room = bpf_map_lookup_elem(&sample_rooms, &zero);
	if (!room || __sync_val_compare_and_swap(&room->busy, 0, (uint64_t)tid + 1) != 0) {
		count_by(WIRE_SAMPLE_LOST_PENDING, 1);
		return 0;
	}
	return room;
}

static UNWIND_INLINE void room_end(struct sample_room *room)
{
	__sync_lock_test_and_set(&room->busy, 0);
}

#include "bpf/sample_activity.h"

static UNWIND_INLINE void hit(struct pt_regs *regs, uint64_t cookie)
{
	uint32_t number = cookie >> 32 & (WIRE_SAMPLE_FUNCTIONS_MAX - 1);
	uint64_t *hits = bpf_map_lookup_elem(&sample_hits, &number), *quota, one = 1;
	uint32_t zero = 0, window = sample_window;
	if (hits)
		(*hits)++;
	quota = bpf_map_lookup_elem(&sample_quota, &zero);
	if (quota && *quota && --*quota == 0)
		bpf_ringbuf_output(&sample_wake, &one, sizeof(one), BPF_RB_FORCE_WAKEUP);
	if (window && regs)
		note_caller(regs, number, window);
}

/*
 * The size that a call asks for, saturating. 1: another function that is probed is going to get it;
 * -1: it will be refused.
 */
static UNWIND_INLINE int size_of_call(struct pt_regs *regs, uint64_t cookie, uint64_t *bytes)
{
	uint64_t size = reg_of(regs, cookie & 15), times;

	if (has_reg(cookie, 4) && !(cookie >> 16 & WIRE_SAMPLE_F_WEIGHED)) {
		times = reg_of(regs, cookie >> 4 & 15);
		if (size >> 32 || times >> 32)
			size = !size || !times             ? 0
			       : size >> 32 && times >> 32 ? ~0ULL
							   : size * times;
		else
			size *= times;
	}
	/* posix_memalign() that is going to refuse */
	if ((cookie >> 16 & WIRE_SAMPLE_F_STORED) && (regs->si < 8 || (regs->si & (regs->si - 1))))
		return -1;
	*bytes = size;
	if ((cookie >> 16 & WIRE_SAMPLE_F_OLD_NULL_ELSEWHERE) && !reg_of(regs, cookie >> 8 & 15))
		return 1;
	return has_reg(cookie, 12) && reg_of(regs, cookie >> 12 & 15) <= 16;
}

/* --- what is live --- */

/* The block that was live at @addr, which is so no more. Return: 1 there was one. */
static UNWIND_INLINE int take_live(uint32_t pid, uint64_t addr, struct wire_sample_live *out)
{
	struct wire_sample_live_key key = { .addr = addr, .pid = pid };
	struct wire_sample_live *live = bpf_map_lookup_elem(&sample_live, &key);
	if (!live)
		return 0;
	*out = *live; /* before its key goes */
	return bpf_map_delete_elem(&sample_live, &key) == 0;
}

static UNWIND_INLINE void put_live(uint32_t pid, uint64_t addr, const struct wire_sample_live *live)
{
	struct wire_sample_live_key key = { .addr = addr, .pid = pid };
	struct wire_sample_row_key row_key = { .stack = live->stack, .pid = pid };
	struct wire_sample_live before;
	struct wire_sample_row *row;
	uint64_t weight = weight_of(live->chance);

	if (take_live(pid, addr, &before)) {
		count_by(WIRE_SAMPLE_REPLACED, 1);
		leave_row(pid, &before, live->time_ns);
	}
	if (bpf_map_update_elem(&sample_live, &key, live, BPF_ANY)) {
		struct wire_sample_live lost = *live;
		count_by(WIRE_SAMPLE_LOST_LIVE, 1);
		row = bpf_map_lookup_elem(&sample_rows, &row_key);
		if (row) { /* it shall not look as if it stayed */
			__sync_fetch_and_add(&row->freed_count, weight);
			__sync_fetch_and_add(&row->freed_bytes, weigh(lost.bytes, lost.chance));
		}
		return;
	}
	row = bpf_map_lookup_elem(&sample_rows, &row_key);
	if (row)
		__sync_fetch_and_add(&row->live_variance_bytes,
				     variance_of(weigh(live->bytes, live->chance),
						 sample_square_shift, live->chance));
}

#include "bpf/sample_hooks.h"

/*
 * Allocations alone: nothing is known of the result, so a call that fails counts, which asks for
 * too much to be missed.
 */

static UNWIND_INLINE int take_call(struct pt_regs *regs)
{
	uint64_t cookie = bpf_get_attach_cookie(regs), bytes, stack;
	uint32_t pid, tid, chance;
	struct sample_room *room;

	hit(regs, cookie);
	if (!sample_on)
		return 0;
	if (cookie >> 16 & WIRE_SAMPLE_F_COUNTER)
		return take_counter(regs, cookie);
	if (size_of_call(regs, cookie, &bytes))
		return 0;
	/* realloc(p, 0) gives back; of what is in place nothing is asked for anew */
	if (!bytes && has_reg(cookie, 8) && !(cookie >> 16 & WIRE_SAMPLE_F_STORED))
		return 0;
	if (bytes < sample_bytes_min || bytes > sample_bytes_max) {
		count_by(WIRE_SAMPLE_FILTERED, 1);
		return 0;
	}
	chance = cookie >> 16 & (WIRE_SAMPLE_F_HOOK | WIRE_SAMPLE_F_WEIGHED)
			 ? hook_chance(regs, cookie, bytes)
			 : draw(bytes);
	if (!chance || current_ids(&pid, &tid) < 0 || !is_asked_thread(tid))
		return 0;
	if (bytes >> 47) { /* no address space has it: calloc() that overflows, malloc(-1) */
		count_by(WIRE_SAMPLE_FAILED, 1);
		return 0;
	}
	room = room_begin(tid);
	if (!room)
		return 0;
	count_by(WIRE_SAMPLE_TAKEN, 1);
	stack = stack_here(regs, pid, tid, room);
	enter_row(pid, stack, bytes, chance, cookie >> 32 & (WIRE_SAMPLE_FUNCTIONS_MAX - 1), room);
	if (sample_send) {
		struct wire_sample_live live = { .bytes = bytes, .stack = stack, .chance = chance };
		put_event(WIRE_SAMPLE_ALLOC, pid, tid, 0, &live);
	}
	room_end(room);
	return 0;
}

/* While one kind of link takes the other's place both are there, and the new one waits. */
volatile uint32_t sample_waits = 0;

SEC("uprobe")
int sample_call(struct pt_regs *regs)
{
	return sample_waits == WIRE_SAMPLE_CALL_WAITS ? 0 : take_call(regs);
}

/* The same by one link of many probes, which is put in and taken out at once. */
SEC("uprobe")
int sample_call_multi(struct pt_regs *regs)
{
	return sample_waits == WIRE_SAMPLE_MULTI_WAITS ? 0 : take_call(regs);
}

/* --- what is live is followed: entry and return --- */

/* Return: 1 where the call's return is wanted. */
static UNWIND_INLINE int call_begins(struct pt_regs *regs, uint64_t cookie)
{
	uint64_t bytes, flags = cookie >> 16 & 255, old = 0, caller = 0;
	uint32_t pid, tid, chance = 0;
	struct wire_sample_live live = { 0 };
	struct sample_room *room;
	struct wire_sample_pending *outer;
	int had = 0, jumps;

	hit(regs, cookie);
	jumps = size_of_call(regs, cookie, &bytes);
	if (jumps < 0 || (jumps && !sample_two_links))
		return 0;
	if (bytes >= sample_bytes_min && bytes <= sample_bytes_max)
		chance = draw(bytes);
	else
		count_by(WIRE_SAMPLE_FILTERED, 1);
	if (has_reg(cookie, 8) && !(flags & WIRE_SAMPLE_F_STORED))
		old = reg_of(regs, cookie >> 8 & 15);
	if ((!chance && !old && !jumps) || current_ids(&pid, &tid) < 0)
		return 0;
	if (chance && !is_asked_thread(tid))
		chance = 0;
	outer = bpf_map_lookup_elem(&sample_pending, &tid);
	bpf_probe_read_user(&caller, sizeof(caller), (void *)regs->sp);
	if (!(caller &
	      /* somebody else's return probe; told by the place where it really returns to */
	      0xfff)) {
		uint64_t real = walk_real_return(regs->sp);
		caller = real ? real : caller;
	}
	if (outer) {
		/*
		 * What is called by the outer one, or jumped to from it, stands above its return
		 * address, which is the kernel's as long as it has not returned: the beginning of a
		 * page. Where another call has been made from the same place since, the outer one
		 * was left by longjmp() or an exception.
		 */
		uint64_t there = 0;
		if (bpf_ktime_get_ns() - outer->time_ns < CALL_NS && regs->sp <= outer->sp &&
		    !bpf_probe_read_user(&there, sizeof(there), (void *)outer->sp) &&
		    !(there & 0xfff)) {
			count_by(WIRE_SAMPLE_NESTED, 1);
			return 0;
		}
		/* its return was not seen */
		count_by(WIRE_SAMPLE_STALE, 1);
		bpf_map_delete_elem(&sample_pending, &tid);
	}
	/* before the call: another thread may own the address the instant it is given back */
	if (old)
		had = take_live(pid, old, &live);
	/* noted even where it was not drawn: what it jumps to has no draw of its own */
	if (!chance && !had && !jumps)
		return 0;
	room = room_begin(tid);
	if (!room)
		return 0;
	struct wire_sample_pending *p = &room->pending;
	p->sp = regs->sp;
	p->caller = caller;
	p->bytes = bytes;
	p->time_ns = bpf_ktime_get_ns();
	p->chance = chance;
	p->pid = pid;
	p->cookie = cookie;
	p->place = flags & WIRE_SAMPLE_F_STORED ? reg_of(regs, cookie >> 8 & 15) : 0;
	p->old_addr = had ? old : 0;
	p->old = live;
	p->stack = 0;
	if (chance) {
		count_by(WIRE_SAMPLE_TAKEN, 1);
		p->stack = stack_here(regs, pid, tid, room);
	}
	int rc = bpf_map_update_elem(&sample_pending, &tid, p, BPF_ANY);
	room_end(room);
	if (rc) {
		count_by(WIRE_SAMPLE_LOST_PENDING, 1);
		return 0;
	}
	return 1;
}

static UNWIND_INLINE void call_ends(struct pt_regs *regs)
{
	uint32_t pid, tid;
	uint64_t addr = regs->ax, now = bpf_ktime_get_ns();
	struct wire_sample_pending *p;

	if (current_ids(&pid, &tid) < 0)
		return;
	p = bpf_map_lookup_elem(&sample_pending, &tid);
	if (!p)
		return;
	/* the return address has been taken from the stack; calls in between were nested ones */
	if (p->sp + 8 != regs->sp) {
		if (regs->sp > p->sp + 8) {
			count_by(WIRE_SAMPLE_STALE, 1);
			bpf_map_delete_elem(&sample_pending, &tid);
		}
		return;
	}
	uint64_t flags = p->cookie >> 16 & 255, bytes = p->bytes, old_addr = p->old_addr;
	struct wire_sample_live live = {
		.bytes = bytes, .time_ns = now, .stack = p->stack, .chance = p->chance, .tid = tid
	};
	struct wire_sample_live old = p->old;
	uint64_t place = p->place, cookie = p->cookie;
	bpf_map_delete_elem(&sample_pending, &tid);

	if (flags & WIRE_SAMPLE_F_STORED) {
		if (addr || bpf_probe_read_user(&addr, sizeof(addr), (void *)place))
			addr = 0;
	} else if (flags & WIRE_SAMPLE_F_IN_PLACE) {
		addr = old_addr;
		if (regs->ax < bytes)
			addr = 0;
	}
	if (old_addr) {
		if (!addr && bytes) { /* it failed, and the old block stays */
			put_live(pid, old_addr, &old);
		} else {
			leave_row(pid, &old, now);
			count_by(WIRE_SAMPLE_FREES_KNOWN, 1);
			if (sample_send)
				put_event(WIRE_SAMPLE_FREE, pid, tid, old_addr, &old);
		}
	}
	if (!live.chance)
		return;
	if (!addr) {
		count_by(WIRE_SAMPLE_FAILED, 1);
		return;
	}
	struct sample_room *room = room_begin(tid);
	if (!room)
		return;
	enter_row(pid, live.stack, bytes, live.chance,
		  cookie >> 32 & (WIRE_SAMPLE_FUNCTIONS_MAX - 1), room);
	room_end(room);
	put_live(pid, addr, &live);
	if (sample_send)
		put_event(WIRE_SAMPLE_ALLOC, pid, tid, addr, &live);
}

/*
 * Whether a session's program stands at the return. The kernel would say so by a function whose
 * type has changed after 6.18, and the loader refuses what has the other one; so it is told by
 * where the thread is. At the entry that is the probe, of whose address the cookie has the place in
 * its page; where a caller's place is the same by chance the address of the call that was noted
 * tells.
 */
static UNWIND_INLINE int is_return(struct pt_regs *regs, uint64_t cookie)
{
	uint32_t pid, tid;
	struct wire_sample_pending *p;
	if ((regs->ip & 0xfff) != cookie >> WIRE_SAMPLE_PLACE_SHIFT)
		return 1;
	if (current_ids(&pid, &tid) < 0)
		return 0;
	p = bpf_map_lookup_elem(&sample_pending, &tid);
	return p && p->caller == regs->ip;
}

/* From Linux 6.13 on: one link, and the return is trapped only of a call that was taken. */
SEC("uprobe")
int sample_session(struct pt_regs *regs)
{
	uint64_t cookie = bpf_get_attach_cookie(regs);
	if (is_return(regs, cookie)) {
		call_ends(regs);
		return 0;
	}
	return call_begins(regs, cookie) ? 0 : ENTRY_DONE;
}

/* The same by two links: every return is trapped. */
SEC("uprobe")
int sample_begin(struct pt_regs *regs)
{
	call_begins(regs, bpf_get_attach_cookie(regs));
	return 0;
}

SEC("uretprobe")
int sample_end(struct pt_regs *regs)
{
	call_ends(regs);
	return 0;
}

SEC("uprobe")
int sample_free(struct pt_regs *regs)
{
	uint64_t cookie = bpf_get_attach_cookie(regs), addr;
	uint32_t pid, tid;
	struct wire_sample_live live;

	hit(regs, cookie);
	addr = reg_of(regs, cookie >> 8 & 15);
	if (!addr || current_ids(&pid, &tid) < 0 || !take_live(pid, addr, &live))
		return 0;
	leave_row(pid, &live, bpf_ktime_get_ns());
	count_by(WIRE_SAMPLE_FREES_KNOWN, 1);
	if (sample_send)
		put_event(WIRE_SAMPLE_FREE, pid, tid, addr, &live);
	return 0;
}

#include "bpf/sample_kernel.h"

/* A program that does nothing: what a probe costs by itself is measured with it. */
SEC("uprobe")
int sample_nothing(struct pt_regs *regs)
{
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
