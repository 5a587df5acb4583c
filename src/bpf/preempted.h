/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * preempted.h - the same events once more, by another way. For pages.bpf.c alone, behind its
 * take_*() functions.
 *
 * From 7.0 on the kernel preempts programs on raw tracepoints, and leaves the same program out
 * wherever it would run on that CPU meanwhile: for a whole time slice of another thread. Those on
 * classic tracepoints it does not preempt, but leaves them out while a system call on a map is
 * preempted. What both tell is taken once: each of these finds what the other has done, or does it
 * again to the same end. The counters of RSS have no classic tracepoint that is cheap: two programs
 * on the raw one stand in for each other.
 */
#ifndef BPF_PREEMPTED_H
#define BPF_PREEMPTED_H

struct trace_event_raw_mm_page_alloc {
	unsigned long pfn;
	unsigned int order;
	unsigned long gfp_flags;
} KERNEL_TYPE;

struct trace_event_raw_mm_page_free {
	unsigned long pfn;
	unsigned int order;
} KERNEL_TYPE;

struct trace_event_raw_mm_filemap_op_page_cache {
	unsigned long pfn;
} KERNEL_TYPE;

struct trace_event_raw_exceptions {
	unsigned long address, error_code;
} KERNEL_TYPE;

struct trace_event_raw_migration_pte {
	unsigned long addr, pte;
} KERNEL_TYPE;

struct trace_event_raw_migration_pmd {
	unsigned long addr, pmd;
} KERNEL_TYPE;

/* What the other took has an owner by now. */
INLINE int was_taken(uint64_t pfn)
{
	uint64_t at = index_of(pfn);
	struct pages_part *part = part_of(pfn);
	return !part || at >= pages_part_len || part->v[at];
}

SEC("tp/kmem/mm_page_alloc")
int pages_alloc_classic(struct trace_event_raw_mm_page_alloc *ctx)
{
	uint64_t pfn = ctx->pfn;
	uint32_t pid, tid;
	if (pfn == (uint64_t)-1 || !current_ids(&pid, &tid) || was_taken(pfn))
		return 0;
	return take_alloc(ctx, pfn, ctx->order, (uint32_t)ctx->gfp_flags);
}

SEC("tp/kmem/mm_page_free")
int pages_free_classic(struct trace_event_raw_mm_page_free *ctx)
{
	clear(ctx->pfn, ctx->order);
	return 0;
}

SEC("tp/filemap/mm_filemap_add_to_page_cache")
int pages_cached_classic(struct trace_event_raw_mm_filemap_op_page_cache *ctx)
{
	return flip(ctx->pfn, FLIP_SET);
}

SEC("tp/filemap/mm_filemap_delete_from_page_cache")
int pages_uncached_classic(struct trace_event_raw_mm_filemap_op_page_cache *ctx)
{
	return flip(ctx->pfn, FLIP_CLEAR);
}

SEC("tp/exceptions/page_fault_user")
int pages_fault_user_classic(struct trace_event_raw_exceptions *ctx)
{
	return take_fault_user(ctx, ctx->address, ctx->error_code);
}

SEC("tp/exceptions/page_fault_kernel")
int pages_fault_kernel_classic(struct trace_event_raw_exceptions *ctx)
{
	return take_fault_kernel(ctx, ctx->address, ctx->error_code);
}

SEC("raw_tp/rss_stat")
int pages_mapped_again(uint64_t *ctx)
{
	return take_mapped(ctx);
}

SEC("tp/migrate/set_migration_pte")
int pages_move_begins_classic(struct trace_event_raw_migration_pte *ctx)
{
	move_begins(ctx->addr, ctx->pte);
	return 0;
}

SEC("tp/migrate/remove_migration_pte")
int pages_move_ends_classic(struct trace_event_raw_migration_pte *ctx)
{
	move_ends(ctx->addr, ctx->pte, 1);
	return 0;
}

SEC("tp/thp/set_migration_pmd")
int pages_move_huge_begins_classic(struct trace_event_raw_migration_pmd *ctx)
{
	move_begins(ctx->addr, ctx->pmd);
	return 0;
}

SEC("tp/thp/remove_migration_pmd")
int pages_move_huge_ends_classic(struct trace_event_raw_migration_pmd *ctx)
{
	move_ends(ctx->addr, ctx->pmd, 512);
	return 0;
}

#endif
