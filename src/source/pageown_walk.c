/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_walk.c - the exact reading: each page that a process has in its page tables is looked up in the kernel side's table of
 * owners. What has no owner there is told by the 64 KiB window that it was mapped in, by the stack that it had at the last walk,
 * or stands on a line of its own with the reason; so the sum is what the kernel's own walk (smaps) finds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/classify.h"
#include "proc/proc.h"
#include "proc/smaps.h"
#include "source/pageown_impl.h"

#define PAGE 4096ull
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_FILE (1ull << 61)
#define ENTRY_GUARD (1ull << 58)
#define ENTRY_PFN ((1ull << 55) - 1)
#define FLAG_SWAPBACKED (1ull << 14)
#define FLAG_HUGE (1ull << 17)
#define FLAG_ZERO (1ull << 24)
#define CHUNK 65536u               /* entries read at once: 512 KiB */
#define SPARSE_BYTES (64ull << 20) /* of a mapping whose present stretches are asked for first */
#define ENDED_KEPT 256
#define HUGE (2ull << 20)

/* ---- the stack that a page had last time -------------------------------------------------------------------------- */

void sticky_free(struct sticky *sticky)
{
	if (!sticky)
		return;
	for (size_t i = 0; i < sticky->count; i++)
		free(sticky->blocks[i]);
	free(sticky->blocks);
	idtab_fini(&sticky->tab);
	free(sticky);
}

/* The block of @number; with @make a new one where there is none. NULL: none, or no memory. */
static struct sticky_block *sticky_block(struct sticky *sticky, uint64_t number, int make)
{
	uint32_t hash = (uint32_t)hash_u64(number, 0, hash_seed());
	if (!sticky || (!make && !sticky->count) || (make && idtab_reserve(&sticky->tab) < 0))
		return NULL;
	uint32_t at = idtab_first(&sticky->tab, hash);
	for (; sticky->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&sticky->tab, at))
		if (sticky->blocks[sticky->tab.slots[at].id]->number == number)
			return sticky->blocks[sticky->tab.slots[at].id];
	if (!make)
		return NULL;
	if (sticky->count == sticky->cap) {
		size_t cap = sticky->cap ? sticky->cap * 2 : 64;
		struct sticky_block **grown = realloc(sticky->blocks, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		sticky->blocks = grown;
		sticky->cap = cap;
	}
	struct sticky_block *block = calloc(1, sizeof(*block));
	if (!block)
		return NULL;
	block->number = number;
	sticky->blocks[sticky->count] = block;
	idtab_put(&sticky->tab, at, hash, (uint32_t)sticky->count++);
	return block;
}

/* ---- one walk ------------------------------------------------------------------------------------------------------- */

enum { COUNTED = PAGES_HUGETLB + 1 }; /* kinds that stand in page tables */

/* Pages of one stack, or without one for one reason (MISSING | reason), in mappings of one name. */
struct cell {
	uint32_t label, stack;
	uint32_t pages[COUNTED];
	uint32_t again
		[COUNTED]; /* those of them that another process has, too, and was asked before */
};
#define MISSING (1u << 31)

/* A mapping. */
struct mapping {
	uint64_t start, end;
	uint32_t label; /* number of its name */
	uint8_t is_file, hugetlb, shmem_known, shmem;
};

struct walk {
	struct pageown *p;
	struct followed *f;
	struct mapping *mappings;
	size_t count, cap;
	struct intern labels;
	struct cell *cells;
	struct idtab cell_tab;
	size_t cell_count, cell_cap, cell_last;
	int no_memory;
	uint32_t stacks; /* numbers of the kernel side */
	struct sticky *fresh;
	struct sticky_block *old_block, *new_block;
	uint64_t block_number;
	struct wire_pages_window window, window_before;
	uint64_t window_number; /* of window; window_before is the one below */
	uint64_t *entries;
	struct page_process *fresh_process;
	uint32_t *seen_cache, *seen_anon,
		*seen_kernel; /* pages of a stack that somebody has mapped; over all processes */
};

static int take_mapping(void *ctx, struct region *region)
{
	struct walk *w = ctx;
	if (w->count == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 256;
		struct mapping *grown = realloc(w->mappings, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		w->mappings = grown;
		w->cap = cap;
	}
	struct mapping *m = &w->mappings[w->count];
	*m = (struct mapping){ .start = region->start, .end = region->end };
	m->is_file = region->inode != 0;
	const char *label = region->label && region->label[0] ? region->label
							      : region_class_name(region->class);
	const char *kept = intern_str(&w->labels, label);
	if (!kept)
		return -ENOMEM;
	for (m->label = 0; m->label < w->labels.count && w->labels.strings[m->label] != kept;)
		m->label++;
	w->count++;
	return 0;
}

static uint64_t page_flags(const struct pageown *p, uint64_t pfn)
{
	uint64_t flags = 0;
	if (p->kpageflags < 0 || pread(p->kpageflags, &flags, 8, (off_t)(pfn * 8)) != 8)
		return 0;
	return flags;
}

/* A window, of the process or of whom it was forked from: fork copies page tables. */
static struct wire_pages_window find_window(struct walk *w, uint64_t number)
{
	struct wire_pages_window found = { 0 }, one;
	for (size_t i = 0; i < 1 + w->f->ancestor_count && !(found.file && found.anon); i++) {
		pid_t pid = i ? w->f->ancestors[i - 1] : w->f->pid;
		if (pageown_window(w->p, pid, number, &one) < 0)
			continue;
		found.file = found.file ? found.file : one.file;
		found.anon = found.anon ? found.anon : one.anon;
	}
	return found;
}

/* The kernel's window is 64 KiB; a fault around may begin in it and end in the next. */
static uint32_t window_file(struct walk *w, uint64_t addr)
{
	uint64_t number = addr >> WIRE_PAGES_WINDOW_SHIFT;
	if (w->window_number != number) {
		w->window = find_window(w, number);
		w->window_before = find_window(w, number - 1);
		w->window_number = number;
	}
	return w->window.file ? w->window.file : w->window_before.file;
}

static uint32_t window_anon(struct walk *w, uint64_t addr)
{
	window_file(w, addr);
	return w->window.anon;
}

static void enter_block(struct walk *w, uint64_t number)
{
	w->block_number = number;
	w->old_block = sticky_block(w->f->sticky, number, 0);
	w->new_block = sticky_block(w->fresh, number, 1);
}

/* Shared memory looks like a file to the page tables; one page of a mapping tells for all. */
static int is_shmem(struct walk *w, struct mapping *m, uint64_t pfn)
{
	if (!m->shmem_known) {
		m->shmem_known = 1;
		m->shmem = !!(page_flags(w->p, pfn) & FLAG_SWAPBACKED);
	}
	return m->shmem;
}

static int is_zero(struct walk *w, uint64_t addr, uint64_t pfn)
{
	struct pageown *p = w->p;
	if (pfn == p->zero_pfn || (pfn & ~511ull) == p->huge_zero_pfn)
		return 1;
	if ((addr >> 12 & 511) || (pfn & 511) || !(page_flags(p, pfn) & FLAG_ZERO))
		return 0;
	p->huge_zero_pfn = pfn;
	return 1;
}

/* Neighbours mostly have one stack. */
static void add_cell(struct walk *w, uint32_t label, uint32_t stack, unsigned kind, int first)
{
	if (w->cell_count && w->cells[w->cell_last].label == label &&
	    w->cells[w->cell_last].stack == stack) {
		w->cells[w->cell_last].pages[kind]++;
		w->cells[w->cell_last].again[kind] += !first;
		return;
	}
	uint32_t hash = (uint32_t)hash_u64(label, stack, 5);
	if (idtab_reserve(&w->cell_tab) < 0) {
		w->no_memory = 1;
		return;
	}
	uint32_t at = idtab_first(&w->cell_tab, hash);
	for (; w->cell_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&w->cell_tab, at)) {
		w->cell_last = w->cell_tab.slots[at].id;
		if (w->cells[w->cell_last].label == label &&
		    w->cells[w->cell_last].stack == stack) {
			w->cells[w->cell_last].pages[kind]++;
			w->cells[w->cell_last].again[kind] += !first;
			return;
		}
	}
	if (w->cell_count == w->cell_cap) {
		size_t cap = w->cell_cap ? w->cell_cap * 2 : 512;
		struct cell *grown = realloc(w->cells, cap * sizeof(*grown));
		if (!grown) {
			w->no_memory = 1;
			return;
		}
		w->cells = grown;
		w->cell_cap = cap;
	}
	w->cells[w->cell_count] = (struct cell){ .label = label, .stack = stack };
	w->cells[w->cell_count].pages[kind] = 1;
	w->cells[w->cell_count].again[kind] = !first;
	w->cell_last = w->cell_count;
	idtab_put(&w->cell_tab, at, hash, (uint32_t)w->cell_count++);
}

/* 1: nobody had this page in the same reading. */
static int is_first(struct walk *w, uint64_t pfn)
{
	uint64_t bit = 1ull << (pfn & 63);
	if (pfn >= w->p->owner_words)
		return 1;
	int first = !(w->p->seen[pfn / 64] & bit);
	w->p->seen[pfn / 64] |= bit;
	return first;
}

static void note_seen(struct walk *w, uint32_t owner)
{
	uint32_t id = WIRE_PAGES_STACK(owner);
	if (id >= w->stacks)
		return;
	if (owner & WIRE_PAGES_CACHE)
		w->seen_cache[id]++;
	else if (owner & WIRE_PAGES_KERNEL)
		w->seen_kernel[id]++;
	else
		w->seen_anon[id]++;
}

/* One page that is in the process's page tables. */
static void take_present(struct walk *w, struct mapping *m, uint64_t addr, uint64_t entry)
{
	uint64_t pfn = entry & ENTRY_PFN, slot = addr >> 12 & 511;
	uint32_t owner = pageown_owner_of(w->p, pfn), stack = WIRE_PAGES_STACK(owner);
	uint32_t before = w->old_block ? w->old_block->stack[slot] : 0;
	enum pages_kind kind = PAGES_ANON;
	enum page_reason reason = PAGES_KNOWN;
	if (m->hugetlb)
		kind = PAGES_HUGETLB;
	else if (entry & ENTRY_FILE)
		kind = is_shmem(w, m, pfn) ? PAGES_SHMEM : PAGES_FILE;
	/* told as a file's; the huge page of zeros was allocated for the first who read one, for the kernel's own use */
	if (!m->is_file && (!owner || owner & WIRE_PAGES_KERNEL) && is_zero(w, addr, pfn))
		return;
	int first = is_first(w, pfn);
	if (owner && first)
		note_seen(w, owner);
	if (owner) {
		; /* its stack it is */
	} else if (kind == PAGES_FILE || kind == PAGES_SHMEM) {
		stack = before == STICKY_BASELINE ? 0 : window_file(w, addr);
		if (!stack && before != STICKY_BASELINE)
			stack = before;
	} else if (kind == PAGES_ANON) {
		stack = before == STICKY_BASELINE ? 0 : before;
		if (!stack && !before)
			stack = window_anon(w, addr);
	}
	if (stack >= w->stacks)
		stack = 0;
	if (!stack) {
		int baseline = before == STICKY_BASELINE || (w->f->late && !w->f->first_walk_done);
		reason = baseline                                    ? PAGES_BEFORE_ATTACH
			 : kind == PAGES_HUGETLB                     ? PAGES_POOL
			 : kind == PAGES_FILE || kind == PAGES_SHMEM ? PAGES_NOT_SEEN
								     : PAGES_OTHER_TASK;
	} else if (stack < WIRE_PAGES_FIRST) {
		reason = stack == WIRE_PAGES_FULL ? PAGES_TABLE_FULL : PAGES_WALK_BUSY;
	}
	add_cell(w, m->label, reason == PAGES_KNOWN ? stack : MISSING | reason, kind, first);
	if (w->new_block)
		w->new_block->stack[slot] = reason == PAGES_KNOWN           ? stack
					    : reason == PAGES_BEFORE_ATTACH ? STICKY_BASELINE
									    : 0;
}

static void take_swapped(struct walk *w, struct mapping *m, uint64_t addr)
{
	uint64_t slot = addr >> 12 & 511;
	uint32_t before = w->old_block ? w->old_block->stack[slot] : 0, stack = before;
	if (before != STICKY_BASELINE && !stack)
		stack = window_anon(w, addr);
	if (before == STICKY_BASELINE || (!stack && w->f->late && !w->f->first_walk_done)) {
		add_cell(w, m->label, MISSING | PAGES_BEFORE_ATTACH, PAGES_SWAP, 1);
		before = STICKY_BASELINE;
	} else if (stack >= WIRE_PAGES_FIRST && stack < w->stacks) {
		add_cell(w, m->label, stack, PAGES_SWAP, 1);
		before = stack;
	} else {
		add_cell(w, m->label, MISSING | PAGES_OTHER_TASK, PAGES_SWAP, 1);
	}
	if (w->new_block)
		w->new_block->stack[slot] = before;
}

static int take_stretch(struct walk *w, struct mapping *m, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end;) {
		uint64_t want = (end - at) / PAGE < CHUNK ? (end - at) / PAGE : CHUNK;
		ssize_t got = pread(w->f->pagemap, w->entries, want * 8, (off_t)(at / PAGE * 8));
		if (got < 0)
			return -errno;
		if (got < 8) /* the process has ended: its pages are gone */
			return -ESRCH;
		uint64_t n = (uint64_t)got / 8;
		for (uint64_t i = 0; i < n; i++, at += PAGE) {
			uint64_t entry = w->entries[i];
			if (!(entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) || entry & ENTRY_GUARD)
				continue;
			if (at >> 21 != w->block_number)
				enter_block(w, at >> 21);
			if (entry & ENTRY_PRESENT)
				take_present(w, m, at, entry);
			else
				take_swapped(w, m, at);
		}
	}
	return 0;
}

struct stretch {
	struct walk *w;
	struct mapping *m;
};

static int take_run(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct stretch *s = ctx;
	(void)kinds;
	return take_stretch(s->w, s->m, start, end);
}

/* A mapping of the kernel's own that is no memory. */
static int is_no_memory(const struct walk *w, const struct mapping *m)
{
	const char *label = w->labels.strings[m->label];
	return !strncmp(label, "[vvar", 5) || !strcmp(label, "[vsyscall]");
}

static void ask_hugetlb(struct walk *w, struct mapping *m)
{
	/* a whole number of huge pages, of a file: only those are looked at twice */
	if (!m->is_file || (m->start | m->end) & (HUGE - 1))
		return;
	for (uint64_t at = m->start; at < m->end && at < m->start + 32 * HUGE; at += HUGE) {
		uint64_t entry = 0;
		if (pread(w->f->pagemap, &entry, 8, (off_t)(at / PAGE * 8)) == 8 &&
		    entry & ENTRY_PRESENT) {
			m->hugetlb = !!(page_flags(w->p, entry & ENTRY_PFN) & FLAG_HUGE);
			return;
		}
	}
}

/* Which mappings there are, called as `regions` calls them. */
static int list_mappings(struct walk *w, struct err *err)
{
	struct classifier classifier;
	struct reading reading = { 0 };
	classify_init(&classifier, &w->f->target, NULL, 0, take_mapping, w);
	int rc = maps_each(&w->f->target, classify_region, &classifier, &reading, err);
	if (!rc)
		rc = classify_end(&classifier);
	classify_fini(&classifier);
	if (!rc && !w->count)
		rc = -ESRCH;
	return rc;
}

static int walk_mappings(struct walk *w)
{
	struct pages scan = { .fd = -1 };
	struct err ignored = { 0 };
	int rc = 0, scans = 0;
	for (size_t i = 0; !rc && i < w->count; i++) {
		struct mapping *m = &w->mappings[i];
		if (m->start >> 47 || is_no_memory(w, m))
			continue;
		ask_hugetlb(w, m);
		if (m->end - m->start < SPARSE_BYTES) {
			rc = take_stretch(w, m, m->start, m->end);
			continue;
		}
		if (!scans)
			scans = pages_open(&scan, &w->f->target, &ignored) < 0 ? -1 : 1;
		struct stretch stretch = { w, m };
		uint64_t stall_ns = 0;
		rc = scans < 0 ? take_stretch(w, m, m->start, m->end)
			       : pages_each(&scan, m->start, m->end, PAGE_PRESENT | PAGE_SWAPPED,
					    take_run, &stretch, &stall_ns);
	}
	if (scans > 0)
		pages_close(&scan);
	return rc;
}

/* ---- what it comes to ----------------------------------------------------------------------------------------------- */

static int in_rss(unsigned kind)
{
	return kind == PAGES_ANON || kind == PAGES_SHMEM || kind == PAGES_FILE;
}

static int add_row(struct page_process *process, size_t *cap, const struct page_row *row)
{
	if (process->row_count == *cap) {
		size_t more = *cap ? *cap * 2 : 256;
		struct page_row *grown = realloc(process->rows, more * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		process->rows = grown;
		*cap = more;
	}
	page_stack_get(row->stack);
	process->rows[process->row_count++] = *row;
	process->kinds[row->kind] += row->bytes;
	if (in_rss(row->kind)) {
		process->rss_bytes += row->bytes;
		if (row->stack)
			process->attributed_bytes += row->bytes;
		else
			process->unattributed[row->reason] += row->bytes;
	}
	return 0;
}

static int add_stack_row(struct walk *w, struct page_process *process, size_t *cap, uint32_t id,
			 unsigned kind, uint64_t pages, const char *label)
{
	if (!pages)
		return 0;
	const struct page_stack *stack = pageown_stack(w->p, id);
	struct page_row row = { .bytes = pages * PAGE, .kind = (uint8_t)kind, .stack = stack };
	if (!stack || !stack->count) {
		row.stack = NULL;
		row.reason = id == WIRE_PAGES_FULL   ? PAGES_TABLE_FULL
			     : id == WIRE_PAGES_BUSY ? PAGES_WALK_BUSY
						     : PAGES_NO_FRAMES;
	}
	if (label && !(row.label = strdup(label)))
		return -ENOMEM;
	int rc = add_row(process, cap, &row);
	if (rc < 0)
		free((char *)row.label);
	return rc;
}

/* What the cells of @w come to; @once: pages that other processes have, too, are left to them. */
static int add_cells(struct walk *w, struct page_process *process, size_t *cap, int once)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < w->cell_count; i++) {
		const struct cell *cell = &w->cells[i];
		const char *label = w->labels.strings[cell->label];
		for (unsigned kind = 0; !rc && kind < COUNTED; kind++) {
			uint64_t pages = cell->pages[kind] - (once ? cell->again[kind] : 0);
			if (!(cell->stack & MISSING)) {
				rc = add_stack_row(w, process, cap, cell->stack, kind, pages,
						   label);
				continue;
			}
			struct page_row row = { .bytes = pages * PAGE,
						.kind = (uint8_t)kind,
						.reason = (uint8_t)(cell->stack & ~MISSING) };
			if (!pages)
				continue;
			row.label = strdup(label);
			rc = row.label ? add_row(process, cap, &row) : -ENOMEM;
			if (rc < 0)
				free((char *)row.label);
		}
	}
	return rc;
}

static int by_bytes(const void *a, const void *b)
{
	const struct page_row *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	uint32_t m = x->stack ? x->stack->number : 0, n = y->stack ? y->stack->number : 0;
	if (m != n)
		return m < n ? -1 : 1;
	return strcmp(x->label ? x->label : "", y->label ? y->label : "");
}

static void read_checks(struct followed *f, struct page_process *process)
{
	struct proc_totals totals;
	struct err ignored = { 0 };
	uint64_t rss, pss, stall = 0;
	process->smaps_rss_bytes = process->status_rss_bytes = process->rss_anon_bytes =
		process->rss_file_bytes = process->rss_shmem_bytes = PAGES_UNKNOWN;
	process->swap_bytes = process->hugetlb_bytes = PAGES_UNKNOWN;
	if (totals_read(&f->target, &totals, &ignored) == 0) {
		process->status_rss_bytes = totals.rss_bytes;
		process->rss_anon_bytes = totals.rss_anon_bytes;
		process->rss_file_bytes = totals.rss_file_bytes;
		process->rss_shmem_bytes = totals.rss_shmem_bytes;
		process->swap_bytes = totals.swap_bytes;
		process->hugetlb_bytes = totals.hugetlb_bytes;
	}
	/* last: it takes as long as the walk did */
	if (rollup_read(&f->target, &rss, &pss, &stall, &ignored) == 0)
		process->smaps_rss_bytes = rss;
}

static void walk_fini(struct walk *w)
{
	free(w->mappings);
	intern_fini(&w->labels);
	free(w->cells);
	idtab_fini(&w->cell_tab);
	sticky_free(w->fresh);
}

/* Count the pages of one process; rows that are in page tables only. */
static int walk_process(struct walk *w, struct page_process **out, size_t *cap, struct err *err)
{
	struct followed *f = w->f;
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	w->block_number = w->window_number = UINT64_MAX;
	w->fresh = calloc(1, sizeof(*w->fresh));
	struct page_process *process = page_process_new();
	int rc = w->fresh && process ? list_mappings(w, err)
				     : err_set(err, -ENOMEM, "cannot count the pages of process %d",
					       (int)f->pid);
	if (!rc)
		rc = walk_mappings(w);
	if (!rc && w->no_memory)
		rc = -ENOMEM;
	if (!rc) {
		process->pid = f->pid;
		process->time_ns = clock_ns(CLOCK_MONOTONIC);
		process->walk_ns = process->time_ns - began;
		process->was_late = f->late;
		snprintf(process->exe, sizeof(process->exe), "%s", f->target.exe);
		proc_comm(f->pid, f->pid, process->comm, sizeof(process->comm));
		ssize_t bytes = proc_cmdline(f->pid, &process->cmdline);
		process->cmdline_bytes = bytes > 0 ? (size_t)bytes : 0;
		read_checks(f, process);
		rc = add_cells(w, process, cap, 0);
	}
	if (rc < 0) {
		page_process_put(process);
		return rc;
	}
	sticky_free(f->sticky);
	f->sticky = STEAL(w->fresh);
	f->first_walk_done = 1;
	*out = process;
	return 0;
}

/* What stacks of this process have beside: page cache, the kernel's own, and what nobody has mapped. */
static int add_unmapped(struct walk *w, pid_t pid, struct page_process *to, size_t *cap)
{
	int rc = 0;
	for (uint32_t id = WIRE_PAGES_FIRST; !rc && id < w->stacks; id++) {
		if (w->p->heads[id].tgid != (uint32_t)pid)
			continue;
		const struct wire_pages_live *live = &w->p->live[id];
		int64_t cache = live->cache - w->seen_cache[id],
			held = live->anon - w->seen_anon[id],
			kernel = live->kernel - w->seen_kernel[id];
		if (cache > 0)
			rc = add_stack_row(w, to, cap, id, PAGES_CACHE, (uint64_t)cache, NULL);
		if (!rc && kernel > 0)
			rc = add_stack_row(w, to, cap, id, PAGES_KERNEL, (uint64_t)kernel, NULL);
		if (!rc && held > 0)
			rc = add_stack_row(w, to, cap, id, PAGES_HELD, (uint64_t)held, NULL);
	}
	return rc;
}

static uint64_t bytes_of(int64_t pages)
{
	return pages > 0 ? (uint64_t)pages * PAGE : 0;
}

/* What a process caused and nobody has freed, whoever has it mapped. */
static int add_live(struct walk *w, struct page_process *process)
{
	size_t cap = 0;
	for (uint32_t id = WIRE_PAGES_FIRST; id < w->stacks; id++) {
		const struct wire_pages_live *live = &w->p->live[id];
		if (w->p->heads[id].tgid != (uint32_t)process->pid ||
		    (live->anon <= 0 && live->cache <= 0 && live->kernel <= 0))
			continue;
		const struct page_stack *stack = pageown_stack(w->p, id);
		if (process->live_count == cap) {
			cap = cap ? cap * 2 : 256;
			struct page_live *grown = realloc(process->live, cap * sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			process->live = grown;
		}
		process->live[process->live_count++] =
			(struct page_live){ .stack = page_stack_get(stack),
					    .anon_bytes = bytes_of(live->anon),
					    .cache_bytes = bytes_of(live->cache),
					    .kernel_bytes = bytes_of(live->kernel) };
	}
	return 0;
}

static int same_row(const struct page_row *x, const struct page_row *y)
{
	return x->kind == y->kind && x->stack == y->stack && x->reason == y->reason &&
	       !strcmp(x->label ? x->label : "", y->label ? y->label : "");
}

static int by_what(const void *a, const void *b)
{
	const struct page_row *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->reason != y->reason)
		return x->reason < y->reason ? -1 : 1;
	return strcmp(x->label ? x->label : "", y->label ? y->label : "");
}

/* Rows that several processes have become one. */
static void merge_rows(struct page_process *process)
{
	size_t kept = 0;
	if (process->row_count)
		qsort(process->rows, process->row_count, sizeof(*process->rows), by_what);
	for (size_t i = 0; i < process->row_count; i++) {
		struct page_row *row = &process->rows[i];
		if (!kept || !same_row(&process->rows[kept - 1], row)) {
			process->rows[kept++] = *row;
			continue;
		}
		process->rows[kept - 1].bytes += row->bytes;
		page_stack_put(row->stack);
		free((char *)row->label);
	}
	process->row_count = kept;
	if (kept)
		qsort(process->rows, kept, sizeof(*process->rows), by_bytes);
}

/* All of them together, each page once. */
static int add_group(struct walk *walks, size_t count, struct page_shot *shot)
{
	struct page_process *group = page_process_new();
	size_t cap = 0;
	int rc = group ? 0 : -ENOMEM;
	shot->group = group;
	for (size_t i = 0; !rc && i < count; i++) {
		const struct page_process *one = walks[i].fresh_process;
		if (!one)
			continue;
		group->time_ns = one->time_ns;
		group->walk_ns += one->walk_ns;
		rc = add_cells(&walks[i], group, &cap, 1);
		if (!rc)
			rc = add_unmapped(&walks[i], one->pid, group, &cap);
	}
	if (rc)
		return rc;
	group->smaps_rss_bytes = group->status_rss_bytes = group->rss_anon_bytes =
		group->rss_file_bytes = group->rss_shmem_bytes = PAGES_UNKNOWN;
	group->swap_bytes = group->hugetlb_bytes = PAGES_UNKNOWN;
	merge_rows(group);
	return 0;
}

static void forget_old(struct pageown *p)
{
	size_t ended = 0;
	for (size_t i = 0; i < p->followed_count; i++)
		ended += p->followed[i].ended;
	for (size_t i = 0; i < p->followed_count && ended > ENDED_KEPT;) {
		struct followed *f = &p->followed[i];
		if (!f->ended) {
			i++;
			continue;
		}
		pageown_followed_fini(f);
		memmove(f, f + 1, (p->followed_count - i - 1) * sizeof(*f));
		p->followed_count--;
		ended--;
	}
}

static int read_all(struct pageown *p, struct page_shot **out, struct err *err)
{
	forget_old(p);
	pageown_take_stacks(p, 1);
	size_t words = p->owner_words / 64 + 1, count = p->followed_count;
	CLEANUP(page_shot_putp) struct page_shot *shot = calloc(1, sizeof(*shot));
	if (!shot)
		return err_set(err, -ENOMEM, "cannot count pages");
	atomic_init(&shot->refs, 1);
	shot->processes = calloc(count + 1, sizeof(*shot->processes));
	struct walk w = { .p = p, .stacks = pageown_next(p) };
	struct walk *walks = calloc(count + 1, sizeof(*walks));
	size_t *caps = calloc(count + 1, sizeof(*caps));
	if (!p->seen)
		p->seen = calloc(words, sizeof(*p->seen));
	else
		memset(p->seen, 0, words * sizeof(*p->seen));
	w.entries = malloc(CHUNK * 8);
	w.seen_cache = calloc(w.stacks, sizeof(*w.seen_cache));
	w.seen_anon = calloc(w.stacks, sizeof(*w.seen_anon));
	w.seen_kernel = calloc(w.stacks, sizeof(*w.seen_kernel));
	int rc = shot->processes && walks && caps && p->seen && w.entries && w.seen_cache &&
				 w.seen_anon && w.seen_kernel
			 ? 0
			 : err_set(err, -ENOMEM, "cannot count pages");
	for (size_t i = 0; !rc && i < count; i++) {
		struct followed *f = &p->followed[i];
		struct page_process *process = NULL;
		struct err one = { 0 };
		walks[i] = w;
		walks[i].f = f;
		if (!f->ended)
			rc = walk_process(&walks[i], &process, &caps[i], &one);
		if (rc == -ENOMEM) {
			err_set(err, rc, "cannot count the pages of process %d", (int)f->pid);
			break;
		}
		rc = 0; /* one that is ending keeps what it had */
		walks[i].fresh_process = process;
		if (process) {
			page_process_put(f->last);
			f->last = page_process_get(process);
			shot->processes[shot->count++] = process;
		} else if (f->last) {
			if (f->ended)
				f->last->ended = 1;
			shot->processes[shot->count++] = page_process_get(f->last);
		}
	}
	for (size_t i = 0; !rc && i < count; i++) {
		struct page_process *process = walks[i].fresh_process;
		if (!process)
			continue;
		rc = add_unmapped(&walks[i], process->pid, process, &caps[i]);
		if (!rc)
			rc = add_live(&walks[i], process);
		qsort(process->rows, process->row_count, sizeof(*process->rows), by_bytes);
	}
	if (!rc && shot->count > 1)
		rc = add_group(walks, count, shot);
	if (rc < 0)
		err_set(err, rc, "cannot count pages");
	for (size_t i = 0; walks && i < count; i++)
		walk_fini(&walks[i]);
	free(walks);
	free(caps);
	free(w.entries);
	free(w.seen_cache);
	free(w.seen_anon);
	free(w.seen_kernel);
	if (rc < 0)
		return rc;
	shot->time_ns = clock_ns(CLOCK_MONOTONIC);
	shot->realtime_ns = clock_ns(CLOCK_REALTIME);
	pageown_lost(p, shot->lost);
	pageown_moved(p, &shot->moved_pages, &shot->stale_pages);
	shot->kernel_bytes = p->kernel_bytes;
	shot->stacks = pageown_next(p) - WIRE_PAGES_FIRST;
	shot->stacks_max = p->stacks_max;
	*out = STEAL(shot);
	return 0;
}

int pageown_read(struct pageown *p, struct page_shot **out, struct err *err)
{
	pthread_mutex_lock(&p->lock);
	int rc = read_all(p, out, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* The page of zeros that every untouched page reads as: present, and no memory. */
int pageown_walk_init(struct pageown *p)
{
	p->kpageflags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	volatile char *at =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t entry = 0;
	if (fd >= 0 && at != MAP_FAILED && !at[0] &&
	    pread(fd, &entry, 8, (off_t)((uintptr_t)at / PAGE * 8)) == 8 && entry & ENTRY_PRESENT)
		p->zero_pfn = entry & ENTRY_PFN;
	if (at != MAP_FAILED)
		munmap((void *)at, PAGE);
	if (fd >= 0)
		close(fd);
	return 0;
}
