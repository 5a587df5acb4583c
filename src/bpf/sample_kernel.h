/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample_kernel.h - the kernel's own allocations, at its tracepoints: slab objects, what kmalloc()
 * gives, pages and per-CPU memory. A part of sample.bpf.c, whose tables, chances and books it
 * shares; rows are of no process.
 */
#ifndef BPF_SAMPLE_KERNEL_H
#define BPF_SAMPLE_KERNEL_H

#define KERNEL_PAGE 4096ULL

/* not 0: what these threads ask for alone; a free counts whoever frees */
const volatile uint32_t sample_kernel_only = 0;

struct kmem_cache {
	unsigned int object_size;
	const char *name;
} KERNEL_TYPE;

struct raw_args {
	uint64_t v[0];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} sample_kernel_pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, uint64_t);
	__type(value, struct wire_sample_cache);
} sample_caches SEC(".maps");

static UNWIND_INLINE int is_wanted_thread(void)
{
	uint32_t pid, tid;
	if (!sample_kernel_only && !sample_tid && !sample_has_comm)
		return 1;
	if (current_ids(&pid, &tid) < 0 || !is_asked_thread(tid))
		return 0;
	return !sample_kernel_only || bpf_map_lookup_elem(&sample_kernel_pids, &pid) != 0;
}

/* Travels on the BPF stack. */
struct kernel_mix {
	struct sample_room *room;
	uint64_t hash;
};

/*
 * As a function of its own: unrolled, with all that may come before it, it is more than Linux 6.1
 * looks through.
 */
static long kernel_mix_frame(uint32_t i, struct kernel_mix *mix)
{
	struct wire_sample_stack *stack = &mix->room->stack;
	uint64_t at = (uint64_t)i + WIRE_SAMPLE_KERNEL_FRAMES;

	__asm__ volatile("" : "+r"(at)); /* what is compared is what is added */
	if (at >= WIRE_SAMPLE_FRAMES_MAX)
		return 1;
	if (at >= stack->count)
		stack->frame[at] = 0;
	else
		mix->hash = walk_mix(mix->hash, stack->frame[at]);
	return 0;
}

/* The kernel's stack, behind what it is of: a slab cache, pages, per-CPU memory. */
static UNWIND_INLINE uint64_t kernel_stack(void *ctx, uint64_t what, struct sample_room *room)
{
	struct kernel_mix mix = { room, walk_mix(0x9e3779b97f4a7c15ULL, what) };
	long bytes = bpf_get_stack(ctx, &room->stack.frame[WIRE_SAMPLE_KERNEL_FRAMES],
				   sizeof(room->stack.frame) - 8 * WIRE_SAMPLE_KERNEL_FRAMES, 0);
	uint32_t count = bytes > 0 ? (uint32_t)bytes / 8 : 0;
	uint64_t hash;

	room->stack.frame[0] = room->stack.frame[1] = what;
	room->stack.count = count + WIRE_SAMPLE_KERNEL_FRAMES;
	room->stack.stop = room->stack.guessed = 0;
	bpf_loop(WIRE_SAMPLE_FRAMES_MAX - WIRE_SAMPLE_KERNEL_FRAMES, kernel_mix_frame, &mix, 0);
	hash = mix.hash;
	hash |= 1;
	if (!bpf_map_lookup_elem(&sample_stacks, &hash) &&
	    bpf_map_update_elem(&sample_stacks, &hash, &room->stack, BPF_ANY)) {
		count_by(WIRE_SAMPLE_LOST_STACKS, 1);
		return 0;
	}
	return hash;
}

static UNWIND_INLINE int kernel_takes(void *ctx, uint32_t number, uint64_t addr, uint64_t bytes,
				      uint64_t what)
{
	uint32_t tid = (uint32_t)bpf_get_current_pid_tgid(), chance;
	struct sample_room *room;

	hit(0, (uint64_t)number << 32);
	if (!addr)
		return 0;
	if (bytes < sample_bytes_min || bytes > sample_bytes_max) {
		count_by(WIRE_SAMPLE_FILTERED, 1);
		return 0;
	}
	chance = draw(bytes);
	if (!chance || !is_wanted_thread())
		return 0;
	room = room_begin(tid);
	if (!room)
		return 0;
	count_by(WIRE_SAMPLE_TAKEN, 1);
	struct wire_sample_live live = { .bytes = bytes,
					 .time_ns = bpf_ktime_get_ns(),
					 .stack = kernel_stack(ctx, what, room),
					 .chance = chance,
					 .tid = tid };
	enter_row(0, live.stack, bytes, chance, number, room);
	room_end(room);
	if (sample_track)
		put_live(0, addr, &live);
	return 0;
}

static UNWIND_INLINE int kernel_frees(uint32_t number, uint64_t addr)
{
	struct wire_sample_live live;
	hit(0, (uint64_t)number << 32);
	if (addr && take_live(0, addr, &live)) {
		leave_row(0, &live, bpf_ktime_get_ns());
		count_by(WIRE_SAMPLE_FREES_KNOWN, 1);
	}
	return 0;
}

/* (call_site, ptr, bytes_req, bytes_alloc, flags, node), from Linux 6.1 on */
SEC("raw_tp/kmalloc")
int kernel_kmalloc(struct raw_args *ctx)
{
	return kernel_takes(ctx, WIRE_SAMPLE_KMALLOC, ctx->v[1], ctx->v[3], WIRE_SAMPLE_KMALLOC);
}

/* (call_site, ptr, cache, ...) */
SEC("raw_tp/kmem_cache_alloc")
int kernel_cache_alloc(struct raw_args *ctx)
{
	struct kmem_cache *cache = (struct kmem_cache *)ctx->v[2];
	uint64_t key = ctx->v[2];
	if (!bpf_map_lookup_elem(&sample_caches, &key)) {
		struct wire_sample_cache named = { 0 };
		const char *name = 0;
		bpf_core_read(&name, sizeof(name), &cache->name);
		bpf_probe_read_kernel_str(named.name, sizeof(named.name), name);
		bpf_map_update_elem(&sample_caches, &key, &named, BPF_ANY);
	}
	unsigned int bytes = 0;
	bpf_core_read(&bytes, sizeof(bytes), &cache->object_size);
	return kernel_takes(ctx, WIRE_SAMPLE_SLAB, ctx->v[1], bytes, key);
}

/* (page, order, flags, type): a page is known by where its descriptor is */
SEC("raw_tp/mm_page_alloc")
int kernel_page_alloc(struct raw_args *ctx)
{
	return kernel_takes(ctx, WIRE_SAMPLE_PAGES, ctx->v[0], KERNEL_PAGE << (ctx->v[1] & 31),
			    WIRE_SAMPLE_PAGES);
}

/* (call_site, reserved, atomic, size, align, base, offset, ptr, bytes_alloc, flags) */
SEC("raw_tp/percpu_alloc_percpu")
int kernel_percpu_alloc(struct raw_args *ctx)
{
	return kernel_takes(ctx, WIRE_SAMPLE_PERCPU, ctx->v[7], ctx->v[8], WIRE_SAMPLE_PERCPU);
}

SEC("raw_tp/kfree")
int kernel_kfree(struct raw_args *ctx)
{
	return kernel_frees(WIRE_SAMPLE_KFREE, ctx->v[1]);
}

SEC("raw_tp/kmem_cache_free")
int kernel_cache_free(struct raw_args *ctx)
{
	return kernel_frees(WIRE_SAMPLE_SLAB_FREE, ctx->v[1]);
}

SEC("raw_tp/mm_page_free")
int kernel_page_free(struct raw_args *ctx)
{
	return kernel_frees(WIRE_SAMPLE_PAGES_FREE, ctx->v[0]);
}

/* (base, offset, ptr) */
SEC("raw_tp/percpu_free_percpu")
int kernel_percpu_free(struct raw_args *ctx)
{
	return kernel_frees(WIRE_SAMPLE_PERCPU_FREE, ctx->v[2]);
}

#endif
