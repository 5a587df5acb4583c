/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pageown_rows.c - what walks over page tables come to: rows that add up, per process and for all
 * of them together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/proc.h"
#include "proc/smaps.h"
#include "source/pageown_walk.h"

#define PAGE 4096ull
#define CHUNK PAGEOWN_CHUNK
#define ENDED_KEPT 256

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

/* What the kernel says of that moment: at once behind the walk. */
static void read_totals(struct followed *f, struct page_process *process)
{
	struct proc_totals totals;
	struct err ignored = { 0 };
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
}

/* Last: it takes as long as the walk did. */
static void read_smaps(struct followed *f, struct page_process *process)
{
	struct err ignored = { 0 };
	uint64_t rss, pss, stall = 0;
	if (rollup_read(&f->target, TURNS_PAUSES, &rss, &pss, &stall, &ignored) == 0)
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
	const uint32_t epoch = f->epoch;
	w->block_number = w->window_number = w->folio_number = w->huge_number = UINT64_MAX;
	w->fresh = calloc(1, sizeof(*w->fresh));
	struct page_process *process = page_process_new();
	int rc = w->fresh && process ? pageown_open(f, err)
				     : err_set(err, -ENOMEM, "cannot count the pages of process %d",
					       (int)f->pid);
	if (!rc)
		rc = pageown_walk(w, err);
	if (!rc) {
		read_totals(f, process);
		process->pid = f->pid;
		process->time_ns = clock_ns(CLOCK_MONOTONIC);
		process->walk_ns = process->time_ns - began;
		process->was_late = f->late;
		snprintf(process->exe, sizeof(process->exe), "%s", f->target.exe);
		proc_comm(f->pid, f->pid, process->comm, sizeof(process->comm));
		ssize_t bytes = proc_cmdline(f->pid, &process->cmdline);
		process->cmdline_bytes = bytes > 0 ? (size_t)bytes : 0;
		read_smaps(f, process);
		/*
		 * Stacks that came during the walk, too: on a busy machine it lasts. What else is
		 * told meanwhile may move the list of processes, or be another program in this one.
		 */
		rc = add_cells(w, process, cap, 0);
		f = w->f = &w->p->followed[w->at];
	}
	if (rc < 0) {
		page_process_put(process);
		return rc;
	}
	if (f->epoch == epoch) {
		sticky_free(f->sticky);
		f->sticky = STEAL(w->fresh);
		f->first_walk_done = 1;
	}
	*out = process;
	return 0;
}

/*
 * What stacks of this process have beside: page cache, the kernel's own, and what nobody has
 * mapped.
 */
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
	pageown_sweep_frames(p);
	size_t words = p->owner_words / 64 + 1, count = p->followed_count;
	CLEANUP(page_shot_putp) struct page_shot *shot = calloc(1, sizeof(*shot));
	if (!shot)
		return err_set(err, -ENOMEM, "cannot count pages");
	atomic_init(&shot->refs, 1);
	shot->processes = calloc(count + 1, sizeof(*shot->processes));
	struct walk w = { .p = p, .stacks = p->stacks_max };
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
		walks[i].at = i;
		if (!f->ended)
			rc = walk_process(&walks[i], &process, &caps[i], &one);
		f = &p->followed[i];
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
		walks[i].stacks = pageown_next(p);
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
