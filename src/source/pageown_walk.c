/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_walk.c - the exact reading: each page that a process has in its page tables is looked up in
 * the kernel side's table of owners. What has no owner there is told by the 64 KiB window that it
 * was mapped in, by the stack that it had at the last walk, or stands on a line of its own with the
 * reason; so the sum is what the kernel's own walk (smaps) finds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/classify.h"
#include "proc/proc.h"
#include "proc/smaps.h"
#include "source/pageown_walk.h"

#define PAGE 4096ull
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_FILE (1ull << 61)
#define ENTRY_GUARD (1ull << 58)
#define ENTRY_PFN ((1ull << 55) - 1)
#define ENTRY_SWAP_TYPE 31u
/* from there on it is none of a swap file: a page that is being moved, poisoned, a marker */
#define SWAP_TYPE_FILES 22u
#define SETTLE_NS 1000000
#define SETTLE_MOST 100u /* waits a walk */
#define FLAG_SWAPBACKED (1ull << 14)
#define FLAG_HEAD (1ull << 15)
#define FLAG_TAIL (1ull << 16)
#define FLAG_HUGE (1ull << 17)
#define FOLIO_PAGES 512
#define FLAG_HUGE_ANON (1ull << 22) /* part of a transparent huge page */
#define FLAG_ZERO (1ull << 24)
#define CHUNK PAGEOWN_CHUNK
#define SPARSE_BYTES (64ull << 20) /* of a mapping whose present stretches are asked for first */
#define HUGE (2ull << 20)

/* ---- the stack that a page had last time ----------------------------------------------------- */

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

/* ---- one walk -------------------------------------------------------------------------------- */

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

/*
 * From 6.18 on a fault maps all pages that the page cache holds as one, up to 2 MiB: its window is
 * the one of any of them.
 */
static uint32_t folio_file(struct walk *w, const struct mapping *m, uint64_t addr, uint64_t pfn)
{
	uint64_t flags[FOLIO_PAGES], first = pfn & ~(uint64_t)(FOLIO_PAGES - 1), at = pfn - first;
	if (addr >> WIRE_PAGES_WINDOW_SHIFT == w->folio_number)
		return w->folio_stack;
	/* its own flags first: most pages are held alone, and 512 of them are read for 10 us */
	if (!(page_flags(w->p, pfn) & (FLAG_HEAD | FLAG_TAIL)) ||
	    pread(w->p->kpageflags, flags, sizeof(flags), (off_t)(first * 8)) !=
		    (ssize_t)sizeof(flags) ||
	    !(flags[at] & (FLAG_HEAD | FLAG_TAIL)))
		return 0;
	uint64_t lo = at, hi = at + 1;
	while (lo > 0 && flags[lo] & FLAG_TAIL)
		lo--;
	while (hi < FOLIO_PAGES && flags[hi] & FLAG_TAIL)
		hi++;
	uint64_t start = addr - (at - lo) * PAGE, end = addr + (hi - at) * PAGE;
	start = start < m->start || start > addr ? m->start : start;
	end = end > m->end ? m->end : end;
	w->folio_number = addr >> WIRE_PAGES_WINDOW_SHIFT;
	w->folio_stack = 0;
	for (uint64_t number = start >> WIRE_PAGES_WINDOW_SHIFT;
	     !w->folio_stack && number <= (end - 1) >> WIRE_PAGES_WINDOW_SHIFT; number++)
		w->folio_stack = find_window(w, number).file;
	return w->folio_stack;
}

static uint32_t window_anon(struct walk *w, uint64_t addr)
{
	window_file(w, addr);
	return w->window.anon;
}

static uint32_t any_of(const struct sticky_block *block)
{
	for (unsigned i = 0; block && i < ARRAY_LEN(block->stack); i++)
		if (block->stack[i] && block->stack[i] != STICKY_BASELINE)
			return block->stack[i];
	return 0;
}

/*
 * khugepaged makes one page of 2 MiB of which some was touched: the rest is there because of
 * whoever touched that.
 */
static uint32_t huge_anon(struct walk *w, uint64_t addr, uint64_t pfn)
{
	uint64_t number = addr >> 21, first = addr >> 21 << (21 - WIRE_PAGES_WINDOW_SHIFT);
	if (!(page_flags(w->p, pfn) & FLAG_HUGE_ANON))
		return 0;
	if (number == w->huge_number)
		return w->huge_stack;
	w->huge_number = number;
	w->huge_stack = any_of(w->old_block);
	if (!w->huge_stack)
		w->huge_stack = any_of(w->new_block);
	for (uint64_t i = 0; !w->huge_stack && i < HUGE >> WIRE_PAGES_WINDOW_SHIFT; i++)
		w->huge_stack = find_window(w, first + i).anon;
	return w->huge_stack;
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
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one kind of page a case */
static void take_present(struct walk *w, struct mapping *m, uint64_t addr, uint64_t entry)
{
	uint64_t pfn = entry & ENTRY_PFN, slot = addr >> 12 & 511;
	uint32_t owner = pageown_owner_of(w->p, pfn), stack = WIRE_PAGES_STACK(owner);
	uint32_t before = w->old_block ? w->old_block->stack[slot] : 0;
	/* what is there when a process is taken up, unless its fault has been seen since */
	int taken_up = w->f->late && !w->f->first_walk_done;
	enum pages_kind kind = PAGES_ANON;
	enum page_reason reason = PAGES_KNOWN;
	if (m->hugetlb)
		kind = PAGES_HUGETLB;
	else if (entry & ENTRY_FILE)
		kind = is_shmem(w, m, pfn) ? PAGES_SHMEM : PAGES_FILE;
	if (kind == PAGES_FILE && w->f->at_exec)
		taken_up = 0;
	/*
	 * told as a file's; the huge page of zeros was allocated for the first who read one, for
	 * the kernel's own use
	 */
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
		if (!stack && before != STICKY_BASELINE && !taken_up)
			stack = folio_file(w, m, addr, pfn);
	} else if (kind == PAGES_HUGETLB) {
		stack = before == STICKY_BASELINE ? 0 : before;
		if (!stack && !before)
			stack = window_anon(w, addr & ~(HUGE - 1));
	} else if (kind == PAGES_ANON) {
		stack = before == STICKY_BASELINE ? 0 : before;
		if (!stack && !before)
			stack = window_anon(w, addr);
		if (!stack && !before)
			stack = huge_anon(w, addr, pfn);
	}
	if (stack >= w->stacks)
		stack = 0;
	if (!stack) {
		reason = before == STICKY_BASELINE || taken_up       ? PAGES_BEFORE_ATTACH
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

/*
 * A page that is being moved to another place is there again in a moment: its entry then, the same
 * one where it is none.
 */
static uint64_t settled(struct walk *w, uint64_t at, uint64_t entry)
{
	const struct timespec pause = { .tv_nsec = SETTLE_NS };
	while ((entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) == ENTRY_SWAPPED &&
	       (entry & ENTRY_SWAP_TYPE) >= SWAP_TYPE_FILES) {
		uint64_t again = entry;
		if (pread(w->f->pagemap, &again, 8, (off_t)(at / PAGE * 8)) != 8 ||
		    (again == entry && w->settling++ >= SETTLE_MOST))
			break;
		if (again == entry)
			nanosleep(&pause, NULL);
		entry = again;
	}
	return entry;
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
			entry = settled(w, at, entry);
			if (entry & ENTRY_PRESENT)
				take_present(w, m, at, entry);
			else if (entry & ENTRY_SWAPPED)
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

int pageown_walk(struct walk *w, struct err *err)
{
	int rc = list_mappings(w, err);
	if (!rc)
		rc = walk_mappings(w);
	return rc ? rc : w->no_memory ? -ENOMEM : 0;
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
