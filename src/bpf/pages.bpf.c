/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pages.bpf.c - who owns each physical page: the process and the call stack for which the page
 * allocator handed it out.
 *
 * A word a page, written when a page is allocated for a process that is followed and cleared when
 * it is freed by whomever. Page cache and migration change it. Faults that map what was there
 * already are noted by 64 KiB windows. Nothing is streamed: user space maps the tables and joins
 * them with the page tables of its targets (source/pageown_walk.c).
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "unwind/rule.h"

#include "bpf/owner.h"
#include "bpf/walk.h"
#include "wire/pages.h"

enum { GFP_USER_BITS = 0xa /* HIGHMEM, MOVABLE */, GFP_MAY_SLEEP = 0x400 };
enum { MM_FILEPAGES = 0, MM_SHMEMPAGES = 3 };
enum { FAULT_PRESENT = 1, FAULT_WRITE = 2 };
#define POPULATE_MAX 4096 /* windows, 256 MiB */
#define ASK_EVERY_NS 250000000ull

/* 0: identities of the first pid namespace; else the loader's own */
const volatile uint64_t pages_pidns_dev = 0, pages_pidns_ino = 0;
const volatile uint64_t pages_pool_words = 512;
const volatile uint32_t pages_stacks_max = 64;
const volatile uint32_t pages_by_error_code = 0; /* no rss_stat for each change here (before 6.2) */
const volatile uint32_t pages_hugetlb =
	0; /* there is a pool of huge pages, of which no allocation tells */
const volatile char pages_name[16] = ""; /* a process of that name is taken up as it execs */
const volatile uint32_t pages_name_flags = 0;
const volatile uint32_t pages_tell_execs = 0; /* of all processes */

uint64_t pages_calibrated[64] = { 0 };
uint32_t pages_calibrated_count = 0, pages_calibrated_tid = 0;
uint32_t pages_next_stack = WIRE_PAGES_FIRST;
uint64_t pages_pool_used = 0;
uint64_t pages_counters[WIRE_PAGES_COUNTERS] = { 0 };
uint32_t pages_asleep = 0; /* user space waits to be told of the next stack that is new */
struct wire_pages_ring pages_given_back[WIRE_PAGES_CLASSES] = { 0 };
/*
 * How many followed processes have these low bits in their id: most of the machine is told from
 * ours by one load.
 */
uint32_t pages_maybe[65536] = { 0 };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, uint64_t);
	__type(value, uint32_t);
} pages_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 64);
	__type(key, uint32_t);
	__type(value, struct wire_pages_stack_head);
} pages_heads SEC(".maps");

struct pages_pool {
	/* as long as the map's value */
	uint64_t v[512];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(struct pages_pool));
} pages_pool SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_PAGES_PROCESSES_MAX);
	__type(key, uint32_t);
	__type(value, struct wire_pages_process);
} pages_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wire_pages_window_key);
	__type(value, struct wire_pages_window);
} pages_windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_PAGES_FAULTS);
	__type(key, uint32_t);
	__type(value, struct wire_pages_fault);
} pages_faults SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} pages_events SEC(".maps");

INLINE void count(uint32_t which, uint64_t by)
{
	__sync_fetch_and_add(&pages_counters[which & (WIRE_PAGES_COUNTERS - 1)], by);
}

#include "bpf/moves.h"

INLINE int current_ids(uint32_t *pid, uint32_t *tid)
{
	*pid = *tid = 0;
	if (pages_pidns_ino) {
		struct bpf_pidns_info ids = { 0 };
		if (bpf_get_ns_current_pid_tgid(pages_pidns_dev, pages_pidns_ino, &ids,
						sizeof(ids)))
			return 0;
		*pid = ids.tgid;
		*tid = ids.pid;
	} else {
		uint64_t ids = bpf_get_current_pid_tgid();
		*pid = (uint32_t)(ids >> 32);
		*tid = (uint32_t)ids;
	}
	return pages_maybe[*pid & 0xffff];
}

INLINE struct wire_pages_process *followed(uint32_t *pid, uint32_t *tid)
{
	return current_ids(pid, tid) ? bpf_map_lookup_elem(&pages_processes, pid) : 0;
}

INLINE void tell(uint32_t kind, uint32_t pid, uint32_t other, uint32_t epoch)
{
	struct wire_pages_event event = { .time_ns = bpf_ktime_get_ns(),
					  .kind = kind,
					  .pid = pid,
					  .other = other,
					  .epoch = epoch };
	if (bpf_ringbuf_output(&pages_events, &event, sizeof(event), 0))
		count(WIRE_PAGES_COUNT_EVENTS_LOST, 1);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* A number that user space has given back, with room for that many words; 0: none. */
INLINE uint32_t take_given_back(uint32_t class)
{
	struct wire_pages_ring *ring =
		&pages_given_back[(uint64_t) class & (WIRE_PAGES_CLASSES - 1)];
	uint32_t head = ring->head;
	if (head == *(volatile uint32_t *)&ring->tail)
		return 0;
	uint32_t id = ring->stack[(uint64_t)head & (WIRE_PAGES_RING - 1)];
	return __sync_val_compare_and_swap(&ring->head, head, head + 1) == head ? id : 0;
}

/* A number that nobody had, and the place of its frames; 0: the tables are full. */
INLINE uint32_t take_new(uint32_t words, uint64_t *at)
{
	if (pages_next_stack >= pages_stacks_max) {
		count(WIRE_PAGES_COUNT_STACKS_FULL, 1);
		return 0;
	}
	*at = pages_pool_used;
	if (*at <= pages_pool_words - WIRE_STACK_FRAMES_MAX)
		*at = __sync_fetch_and_add(&pages_pool_used, words);
	if (*at > pages_pool_words - WIRE_STACK_FRAMES_MAX) {
		count(WIRE_PAGES_COUNT_POOL_FULL, 1);
		return 0;
	}
	return __sync_fetch_and_add(&pages_next_stack, 1);
}

INLINE uint32_t keep_stack(struct walk *w, uint64_t hash, uint32_t tgid, uint32_t epoch,
			   uint8_t flags)
{
	uint32_t zero = 0;
	struct pages_pool *pool = bpf_map_lookup_elem(&pages_pool, &zero);
	uint64_t n = w->frames, at = 0;
	if (n > WIRE_STACK_FRAMES_MAX)
		n = WIRE_STACK_FRAMES_MAX;
	uint32_t class = (uint32_t)(n + WIRE_PAGES_CLASS_WORDS - 1) / WIRE_PAGES_CLASS_WORDS;
	uint32_t id = take_given_back(class), again = id;
	if (!id)
		id = take_new(class * WIRE_PAGES_CLASS_WORDS, &at);
	struct wire_pages_stack_head *head = bpf_map_lookup_elem(&pages_heads, &id);
	struct wire_pages_live *live = bpf_map_lookup_elem(&pages_live, &id);
	if (!pool || !id || !head || !live)
		return WIRE_PAGES_FULL;
	if (again) {
		head->first_ns = 0;
		at = head->at;
		live->ever = 0;
	}
	OPAQUE(at);
	if (at > pages_pool_words - WIRE_STACK_FRAMES_MAX)
		return WIRE_PAGES_FULL;
	bpf_probe_read_kernel(&pool->v[at], n * 8, w->out.frame);
	head->hash = hash;
	head->tgid = tgid;
	head->epoch = epoch;
	head->at = (uint32_t)at;
	head->count = (uint16_t)n;
	head->stop = (uint8_t)w->stop;
	head->flags = flags;
	__sync_fetch_and_add(&head->first_ns, bpf_ktime_get_ns());
	if (pages_asleep && __sync_lock_test_and_set(&pages_asleep, 0))
		tell(WIRE_PAGES_STACK_CAME, tgid, 0, epoch);
	int rc = (int)bpf_map_update_elem(&pages_ids, &hash, &id, BPF_NOEXIST);
	if (!rc)
		return id;
	/* another CPU came first: its number counts, ours stays empty */
	uint32_t *known = bpf_map_lookup_elem(&pages_ids, &hash);
	if (known)
		return *known;
	/* refused for the moment: this number serves once, the stack gets another next time */
	count(WIRE_PAGES_COUNT_ID_BUSY, 1);
	return id;
}

#define UNTABLED_MAX 32u /* frames, of what may be junk */

static long untabled_frame(uint32_t i, struct walk **at)
{
	struct walk *w = *at;
	uint64_t frame = w->out.frame[(uint64_t)i & (WIRE_STACK_FRAMES_MAX - 1)];
	if (i && (frame >> 47 || frame < 4096)) {
		w->frames = i; /* no address of a program's: rbp was no frame pointer */
		return 1;
	}
	w->hash = walk_mix(w->hash, frame);
	return 0;
}

/* The kernel's own walk, by frame pointers, of a process whose code is not described yet. */
INLINE void walk_untabled(void *ctx, struct walk *w, uint64_t ip)
{
	long bytes = bpf_get_stack(ctx, w->out.frame, sizeof(w->out.frame), 1 << 8 /* user */);
	count(WIRE_PAGES_COUNT_UNTABLED, 1);
	w->hash = 0;
	w->frames = 1;
	w->stop = WIRE_STOP_NO_MODULE;
	if (bytes > 8 && bytes <= (long)sizeof(w->out.frame))
		w->frames = (uint32_t)bytes / 8;
	w->out.frame[0] = ip;
	if (w->frames > UNTABLED_MAX)
		w->frames = UNTABLED_MAX;
	bpf_loop(w->frames, untabled_frame, &w, 0);
}

/* Code that nobody has told of, a quarter of a second apart: what a runtime makes stays so. */
INLINE void ask_for_code(uint32_t pid)
{
	struct wire_pages_process *process = bpf_map_lookup_elem(&pages_processes, &pid);
	uint64_t now = bpf_ktime_get_ns();
	if (!process || now - process->asked_ns < ASK_EVERY_NS)
		return;
	process->asked_ns = now;
	tell(WIRE_PAGES_CODE, pid, 0, process->epoch);
}

/* The number of the stack on which the current thread of @process entered the kernel. */
static __attribute__((noinline)) uint32_t stack_of(void *ctx, uint32_t pid, uint32_t tid,
						   uint32_t owner, uint32_t epoch)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	uint32_t slot = 0, id;
	struct walk *w = walk_begin(tid, &slot);
	if (!w) {
		count(WIRE_PAGES_COUNT_BUSY, 1);
		return WIRE_PAGES_BUSY;
	}
	uint64_t ip = regs ? regs->ip : 0;
	/* behind the instruction of a system call, at that of a fault */
	uint32_t exact = regs && (int64_t)regs->orig_ax < 0;
	uint8_t flags = exact ? WIRE_PAGES_EXACT : 0;
	w->frames = 0;
	w->stop = WIRE_STOP_NO_SCRATCH; /* a worker thread of the kernel's own making */
	w->hash = 0;
	if (ip) {
		/* no table yet of this process, or of what it has just mapped */
		if (walk_stack(w, slot, pid, exact ? ip : ip - 1, regs->sp, regs->bp, regs->bx) ||
		    !w->frames) {
			walk_untabled(ctx, w, ip + exact);
			flags |= WIRE_PAGES_UNTABLED;
		} else {
			count(WIRE_PAGES_COUNT_WALKS, 1);
		}
		if (w->stop == WIRE_STOP_NO_MODULE)
			ask_for_code(pid);
	}
	uint64_t hash = walk_mix(walk_mix(w->hash, (uint64_t)epoch << 32 | owner),
				 (uint64_t)w->stop << 16 | w->frames << 1 | exact);
	uint32_t *known = bpf_map_lookup_elem(&pages_ids, &hash);
	if (known)
		id = *known;
	else
		id = keep_stack(w, hash, owner, epoch, flags);
	walk_end(w);
	return id;
}

/* ---- pages come and go ----------------------------------------------------------------------- */

/* This thread's fault, if it is handling one. */
INLINE struct wire_pages_fault *fault_of(uint32_t tid)
{
	uint32_t key = tid & (WIRE_PAGES_FAULTS - 1);
	return bpf_map_lookup_elem(&pages_faults, &key);
}

INLINE void put_window(struct wire_pages_fault *fault, uint32_t tgid, uint32_t stack, int anon)
{
	struct wire_pages_window_key key = { .window = fault->addr >> WIRE_PAGES_WINDOW_SHIFT,
					     .tgid = tgid };
	struct wire_pages_window *known;
	/* a thread that goes through memory stays in one window for a while */
	if (anon && fault->window == key.window + 1 && fault->window_stack == stack)
		return;
	known = bpf_map_lookup_elem(&pages_windows, &key);
	if (known) {
		if (anon && known->anon != stack)
			known->anon = stack;
		else if (!anon && known->file != stack)
			known->file = stack;
	} else {
		struct wire_pages_window fresh = { .file = anon ? 0 : stack,
						   .anon = anon ? stack : 0 };
		if (bpf_map_update_elem(&pages_windows, &key, &fresh, BPF_ANY))
			count(WIRE_PAGES_COUNT_WINDOWS_FULL, 1);
	}
	if (anon) {
		fault->window = key.window + 1;
		fault->window_stack = stack;
	}
}

INLINE int take_alloc(void *ctx, uint64_t pfn, uint32_t order, uint32_t gfp)
{
	uint32_t pid, tid, owner;
	struct wire_pages_process *process;

	process = followed(&pid, &tid);
	/* an interrupt's are nobody's */
	if (!process || ((gfp & GFP_USER_BITS) != GFP_USER_BITS && !(gfp & GFP_MAY_SLEEP))) {
		if (clear(pfn, order))
			count(WIRE_PAGES_COUNT_STALE, 1);
		return 0;
	}
	uint32_t charged = process->owner;
	uint32_t stack = stack_of(ctx, pid, tid, charged, process->epoch);
	/* decided behind the walk, or the verifier would go through that for each of both */
	OPAQUE(gfp);
	owner = (gfp & GFP_USER_BITS) == GFP_USER_BITS ? 0 : WIRE_PAGES_KERNEL;
	owner |= stack | (order & 15) << WIRE_PAGES_ORDER_SHIFT;
	int rc = write_run(pfn, order, owner, 0);
	if (rc < 0) {
		count(WIRE_PAGES_COUNT_BEYOND, 1ULL << (order & 31));
		return 0;
	}
	if (rc)
		count(WIRE_PAGES_COUNT_STALE, 1);
	struct wire_pages_live *live = bpf_map_lookup_elem(&pages_live, &stack);
	if (live) {
		int64_t pages = 1LL << (order & 31);
		if (owner & WIRE_PAGES_KERNEL)
			__sync_fetch_and_add(&live->kernel, pages);
		else
			__sync_fetch_and_add(&live->anon, pages);
		__sync_fetch_and_add(&live->ever, (uint64_t)pages);
	}
	if (owner & WIRE_PAGES_KERNEL)
		return 0;
	struct wire_pages_fault *fault = fault_of(tid);
	if (fault && fault->tid == tid && fault->pending)
		put_window(fault, charged, stack, 1);
	return 0;
}

SEC("raw_tp/mm_page_alloc")
int pages_alloc(uint64_t *ctx)
{
	uint64_t page = ctx[0];
	if (!page) /* none was left */
		return 0;
	return take_alloc(ctx, pfn_of(page), (uint32_t)ctx[1], (uint32_t)ctx[2]);
}

SEC("raw_tp/mm_page_free")
int pages_free(uint64_t *ctx)
{
	clear(pfn_of(ctx[0]), (uint32_t)ctx[1]);
	return 0;
}

INLINE int flip(uint64_t pfn, uint32_t how)
{
	uint64_t at = index_of(pfn);
	struct pages_part *part = part_of(pfn);
	if (!part || at >= pages_part_len)
		return 0;
	uint32_t owner = part->v[at];
	if (owner)
		write_run(pfn, WIRE_PAGES_ORDER(owner), 0, how);
	return 0;
}

SEC("raw_tp/mm_filemap_add_to_page_cache")
int pages_cached(uint64_t *ctx)
{
	return flip(pfn_of(ctx[0]), FLIP_SET);
}

SEC("raw_tp/mm_filemap_delete_from_page_cache")
int pages_uncached(uint64_t *ctx)
{
	return flip(pfn_of(ctx[0]), FLIP_CLEAR);
}

/* ---- faults ---------------------------------------------------------------------------------- */

#define VM_HUGETLB 0x400000ul
#define HUGE_BYTES (2ull << 20)

static long is_hugetlb(struct task_struct *task, struct vm_area_struct *vma, uint32_t *found)
{
	(void)task;
	*found = (BPF_CORE_READ(vma, vm_flags) & VM_HUGETLB) != 0;
	return 0;
}

/* No counter of RSS moves for it, so that nothing else tells: the mapping itself is asked. */
INLINE void note_hugetlb(void *ctx, uint64_t addr, struct wire_pages_process *process, uint32_t pid,
			 uint32_t tid)
{
	uint32_t found = 0;
	struct wire_pages_window fresh = { 0 };
	if (bpf_find_vma(bpf_get_current_task_btf(), addr, is_hugetlb, &found, 0) || !found)
		return;
	struct wire_pages_window_key key = { .window = (addr & ~(HUGE_BYTES - 1)) >>
						       WIRE_PAGES_WINDOW_SHIFT,
					     .tgid = process->owner };
	fresh.anon = stack_of(ctx, pid, tid, process->owner, process->epoch);
	if (bpf_map_update_elem(&pages_windows, &key, &fresh, BPF_ANY))
		count(WIRE_PAGES_COUNT_WINDOWS_FULL, 1);
}

/* Whoever maps code reads in it before it runs there: user space hears of it at that fault. */
INLINE void note_code(struct wire_pages_process *process, uint32_t pid)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	uint64_t pages = mm ? mm->exec_vm : 0;
	if (!pages || process->code_pages == pages)
		return;
	process->code_pages = pages;
	tell(WIRE_PAGES_CODE, pid, 0, process->epoch);
}

INLINE void note_fault(void *ctx, uint64_t addr, uint64_t code, struct wire_pages_process *process,
		       uint32_t pid, uint32_t tid)
{
	struct wire_pages_fault *fault = fault_of(tid);
	if (!fault)
		return;
	if (fault->tid != tid) {
		fault->tid = tid;
		fault->window = 0;
	}
	fault->addr = addr;
	fault->pending = 1;
	if (pages_hugetlb && !(code & FAULT_PRESENT))
		note_hugetlb(ctx, addr, process, pid, tid);
	/* a reading fault mostly maps what is there; a writing one allocates */
	if (pages_by_error_code && !(code & (FAULT_PRESENT | FAULT_WRITE)))
		put_window(fault, process->owner,
			   stack_of(ctx, pid, tid, process->owner, process->epoch), 0);
}

INLINE int take_fault_user(void *ctx, uint64_t addr, uint64_t code)
{
	uint32_t pid, tid;
	struct wire_pages_process *process = followed(&pid, &tid);
	if (process) {
		note_code(process, pid);
		note_fault(ctx, addr, code, process, pid, tid);
	}
	return 0;
}

SEC("raw_tp/page_fault_user")
int pages_fault_user(uint64_t *ctx)
{
	return take_fault_user(ctx, ctx[0], ctx[2]);
}

/* A system call touches memory. Our own reading of stacks does, too, and maps nothing. */
INLINE int take_fault_kernel(void *ctx, uint64_t addr, uint64_t code)
{
	uint32_t pid, tid;
	struct wire_pages_process *process = followed(&pid, &tid);
	if (!process || addr >> 47)
		return 0;
	for (uint32_t i = 0; i < WIRE_STACK_SLOTS; i++) {
		uint32_t key = i;
		struct walk *w = bpf_map_lookup_elem(&walk_scratch, &key);
		if (w && w->busy == (uint64_t)tid + 1)
			return 0;
	}
	note_fault(ctx, addr, code, process, pid, tid);
	return 0;
}

SEC("raw_tp/page_fault_kernel")
int pages_fault_kernel(uint64_t *ctx)
{
	return take_fault_kernel(ctx, ctx[0], ctx[2]);
}

struct populate {
	struct wire_pages_window_key key;
	uint64_t first;
	uint32_t stack;
	uint32_t reserved;
};

static long populate_window(uint32_t i, struct populate *p)
{
	struct wire_pages_window fresh = { .file = p->stack };
	struct wire_pages_window *known;
	p->key.window = p->first + i;
	known = bpf_map_lookup_elem(&pages_windows, &p->key);
	if (known)
		known->file = p->stack;
	else if (bpf_map_update_elem(&pages_windows, &p->key, &fresh, BPF_ANY))
		count(WIRE_PAGES_COUNT_WINDOWS_FULL, 1);
	return 0;
}

/*
 * No fault: a system call maps what it was told to. Its windows are noted with the first of its
 * pages. Return: how many there are; 0: this is no such call, or the same one.
 */
INLINE uint32_t populates(struct pt_regs *regs, struct wire_pages_fault *fault)
{
	uint64_t call = regs->orig_ax, addr = regs->di, bytes = regs->si;
	if ((call != CALL_MADVISE && call != CALL_MLOCK && call != CALL_MLOCK2) ||
	    fault->populated == addr + 1)
		return 0;
	fault->populated = addr + 1;
	uint64_t windows = ((addr + bytes - 1) >> WIRE_PAGES_WINDOW_SHIFT) -
			   (addr >> WIRE_PAGES_WINDOW_SHIFT) + 1;
	return windows < POPULATE_MAX ? (uint32_t)windows : POPULATE_MAX;
}

/*
 * Pages of files or of shared memory were mapped: for whom, the fault says. Sums are never made of
 * these.
 */
INLINE int take_mapped(uint64_t *ctx)
{
	uint32_t member = (uint32_t)ctx[1], pid, tid;
	if (member != MM_FILEPAGES && member != MM_SHMEMPAGES)
		return 0;
	struct wire_pages_process *process = followed(&pid, &tid);
	if (!process)
		return 0;
	struct wire_pages_fault *fault = fault_of(tid);
	struct task_struct *task = bpf_get_current_task_btf();
	if (!fault ||
	    (uint64_t)BPF_CORE_READ(task, mm) != ctx[0]) /* a copy for a child, or its end */
		return 0;
	struct populate p = { .key = { .tgid = process->owner } };
	if (fault->tid != tid || !fault->pending) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
		fault->windows = regs ? populates(regs, fault) : 0;
		if (!fault->windows)
			return 0;
	} else {
		fault->pending = 0;
		fault->populated = 0;
		fault->windows = 0;
	}
	p.stack = stack_of(ctx, pid, tid, process->owner, process->epoch);
	p.first = (fault->populated - 1) >> WIRE_PAGES_WINDOW_SHIFT;
	/*
	 * how many stands in the table and not in a register: the walk is looked through once for
	 * both ways
	 */
	if (fault->windows)
		bpf_loop(fault->windows, populate_window, &p, 0);
	else
		put_window(fault, p.key.tgid, p.stack, 0);
	return 0;
}

SEC("raw_tp/rss_stat")
int pages_mapped(uint64_t *ctx)
{
	return take_mapped(ctx);
}

#include "bpf/preempted.h"

/* ---- processes ------------------------------------------------------------------------------- */

#define LEVELS_MAX 33 /* of pid namespaces */

/* What the loader's pid namespace calls the process of @task; 0: nothing. */
INLINE uint32_t process_of(struct task_struct *task)
{
	if (!pages_pidns_ino)
		return (uint32_t)BPF_CORE_READ(task, tgid);
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	if (!pid)
		return 0;
	uint32_t level = BPF_CORE_READ(pid, level);
	for (uint32_t i = 0; i < LEVELS_MAX && i <= level; i++) {
		struct upid upid = { 0 };
		void *at = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			   (uint64_t)i * bpf_core_type_size(struct upid);
		struct pid_namespace *ns = 0;
		int nr = 0;
		bpf_probe_read_kernel(&nr, sizeof(nr), at + bpf_core_field_offset(struct upid, nr));
		bpf_probe_read_kernel(&ns, sizeof(ns), at + bpf_core_field_offset(struct upid, ns));
		(void)upid;
		if (ns && BPF_CORE_READ(ns, ns.inum) == (uint32_t)pages_pidns_ino)
			return (uint32_t)nr;
	}
	return 0;
}

INLINE int follow(uint32_t pid, const struct wire_pages_process *process)
{
	if (bpf_map_update_elem(&pages_processes, &pid, process, BPF_NOEXIST)) {
		if (!bpf_map_lookup_elem(&pages_processes, &pid))
			count(WIRE_PAGES_COUNT_PROCESSES_FULL, 1);
		return 0;
	}
	__sync_fetch_and_add(&pages_maybe[pid & 0xffff], 1);
	return 1;
}

INLINE void unfollow(uint32_t pid)
{
	bpf_map_delete_elem(&walk_processes, &pid);
	if (!bpf_map_delete_elem(&pages_processes, &pid))
		__sync_fetch_and_add(&pages_maybe[pid & 0xffff], -1);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(pages_fork, struct task_struct *parent, struct task_struct *child)
{
	uint32_t from, tid;
	struct wire_pages_process *process = followed(&from, &tid);
	if (!process)
		return 0;
	uint32_t to = process_of(child);
	if (!to || to == from)
		return 0;
	int borrows = BPF_CORE_READ(child, mm) == BPF_CORE_READ(parent, mm);
	if (!borrows && !(process->flags & WIRE_PAGES_FOLLOW))
		return 0;
	struct wire_pages_process fresh = { .epoch = borrows ? process->epoch : 0,
					    .owner = borrows ? process->owner : to,
					    .flags = process->flags & WIRE_PAGES_FOLLOW,
					    .code_pages = process->code_pages };
	if (borrows)
		fresh.flags |= WIRE_PAGES_BORROWS;
	/* the same code at the same addresses, until somebody looks */
	struct wire_stack_process *places = bpf_map_lookup_elem(&walk_processes, &from);
	if (places) {
		struct wire_stack_process copy = *places;
		bpf_map_update_elem(&walk_processes, &to, &copy, BPF_ANY);
	}
	if (follow(to, &fresh) && !borrows)
		tell(WIRE_PAGES_FORK, to, from, 0);
	return 0;
}

INLINE int has_name(struct task_struct *task)
{
	char comm[16] = "";
	if (!pages_name[0] || BPF_CORE_READ_INTO(&comm, task, comm))
		return 0;
	for (int i = 0; i < 15; i++) {
		if (comm[i] != pages_name[i])
			return 0;
		if (!comm[i])
			break;
	}
	return 1;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(pages_exec, struct task_struct *task)
{
	uint32_t pid = process_of(task);
	struct wire_pages_process *process;
	if (!pid)
		return 0;
	process = pages_maybe[pid & 0xffff] ? bpf_map_lookup_elem(&pages_processes, &pid) : 0;
	if (process) {
		/* what is known of the code is of the image that is gone */
		bpf_map_delete_elem(&walk_processes, &pid);
		if (process->flags & WIRE_PAGES_BORROWS && !(process->flags & WIRE_PAGES_FOLLOW)) {
			unfollow(pid);
			process = 0;
		} else if (process->flags & WIRE_PAGES_BORROWS) {
			process->flags &= ~WIRE_PAGES_BORROWS;
			process->owner = pid;
			process->epoch = 1;
		} else {
			process->epoch++;
		}
	}
	if (!process && has_name(task)) {
		struct wire_pages_process fresh = {
			.owner = pid, .epoch = 1, .flags = pages_name_flags | WIRE_PAGES_BY_NAME
		};
		follow(pid, &fresh);
		process = bpf_map_lookup_elem(&pages_processes, &pid);
	}
	if (process) {
		/*
		 * read, not followed: a pointer behind @task takes the verifier as long as a small
		 * program
		 */
		process->code_pages = BPF_CORE_READ(task, mm, exec_vm);
		tell(WIRE_PAGES_EXEC, pid, 0, process->epoch);
	}
	if (!process && pages_tell_execs)
		tell(WIRE_PAGES_EXEC, pid, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(pages_exit, struct task_struct *task)
{
	uint32_t pid = process_of(task);
	struct wire_pages_process *process =
		pages_maybe[pid & 0xffff] ? bpf_map_lookup_elem(&pages_processes, &pid) : 0;
	if (!process || BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	int borrows = !!(process->flags & WIRE_PAGES_BORROWS);
	uint32_t epoch = process->epoch;
	unfollow(pid);
	if (!borrows)
		tell(WIRE_PAGES_EXIT, pid, 0, epoch);
	return 0;
}

/* ---- before all of it: where the kernel has its list of pages -------------------------------- */

SEC("raw_tp/mm_page_alloc")
int pages_calibrate(uint64_t *ctx)
{
	uint32_t pid, tid;
	current_ids(&pid, &tid);
	if (!tid || tid != pages_calibrated_tid || ctx[1] ||
	    (ctx[2] & GFP_USER_BITS) != GFP_USER_BITS)
		return 0;
	uint32_t n = pages_calibrated_count;
	pages_calibrated[(uint64_t)n & 63] = ctx[0];
	pages_calibrated_count = n + 1;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
