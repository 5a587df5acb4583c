/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/breakdown.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/search.h"
#include "proc/beside.h"
#include "proc/classify.h"
#include "proc/numa.h"
#include "proc/owned.h"

#define LABELS_DEFAULT 4096u
#define SPARSE_MAX \
	(1ull << 30) /* pagemap lists 8 bytes a page: larger reservations are not read through it */

/* ---- rows ------------------------------------------------------------------------------------ */

/**
 * find_row() - the row of a class and label; a new one while there is room, else the class's
 * "(other)". NULL: no memory.
 */
static struct class_row *find_row(struct breakdown *b, unsigned class, const char *label)
{
	uint32_t hash = (uint32_t)hash_bytes(label, strlen(label), hash_seed() + class);
	if (idtab_reserve(&b->rows) < 0)
		return NULL;
	uint32_t at = idtab_first(&b->rows, hash);
	for (; b->rows.slots[at].id != IDTAB_NONE; at = idtab_next(&b->rows, at)) {
		struct class_row *row = &b->classes[b->rows.slots[at].id];
		if (b->rows.slots[at].hash == hash && row->class == class &&
		    strcmp(row->label, label) == 0)
			return row;
	}
	/* the rows beyond the bound are one for each class at most */
	if (b->class_count >= b->labels_max && strcmp(label, "(other)") != 0)
		return find_row(b, class, "(other)");
	if (b->class_count == b->class_cap) {
		size_t cap = b->class_cap ? b->class_cap * 2 : 64;
		struct class_row *grown = realloc(b->classes, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		b->classes = grown;
		b->class_cap = cap;
	}
	const char *own = intern_str(&b->names, label);
	if (!own)
		return NULL;
	struct class_row *row = &b->classes[b->class_count];
	*row = (struct class_row){ .class = class, .label = own };
	idtab_put(&b->rows, at, hash, (uint32_t)b->class_count++);
	return row;
}

void class_row_add(struct class_row *row, const struct region *r)
{
	row->rss_bytes += r->rss_bytes;
	row->pss_bytes += r->pss_bytes;
	row->virtual_bytes += r->end - r->start;
	row->swap_bytes += r->swap_bytes;
	row->hugetlb_bytes += region_hugetlb_bytes(r);
	row->private_bytes += region_private_bytes(r);
	row->shared_bytes += region_shared_bytes(r);
	row->dirty_bytes += r->private_dirty_bytes + r->shared_dirty_bytes;
	row->thp_bytes += r->anon_huge_bytes + r->shmem_huge_bytes + r->file_huge_bytes;
	row->lazy_free_bytes += r->lazy_free_bytes;
	row->ksm_bytes += r->ksm_bytes;
	row->locked_bytes += r->locked_bytes;
	row->referenced_bytes += r->referenced_bytes;
	if (row->count++ == 0 || r->rss_bytes > row->largest_bytes) {
		row->largest_bytes = r->rss_bytes;
		row->how = r->how;
	}
}

/**
 * is_copied() - private mappings of shared things: what was written to is a copy of the process's
 * own.
 */
static int is_copied(const struct region *r)
{
	return !(r->perms & REGION_SHARED) && r->anonymous_bytes &&
	       (r->class == REGION_MEMFD || r->class == REGION_POSIX_SHM ||
		r->class == REGION_MAPPED_FILE);
}

static int add_region(struct breakdown *b, const struct region *r)
{
	b->rss_bytes += r->rss_bytes;
	b->pss_bytes += r->pss_bytes;
	b->virtual_bytes += r->end - r->start;
	b->swap_bytes += r->swap_bytes;
	b->hugetlb_bytes += region_hugetlb_bytes(r);
	if (r->class == REGION_RESERVED)
		b->reserved_bytes += r->end - r->start;
	if (r->class == REGION_BYTELEDGER)
		b->own_rss_bytes += r->rss_bytes;
	/* neighbours are often of one kind: the class's last row before the table */
	uint32_t last = b->last_row[r->class];
	struct class_row *row = last < b->class_count && b->classes[last].class == r->class &&
						strcmp(b->classes[last].label, r->label) == 0
					? &b->classes[last]
					: find_row(b, r->class, r->label);
	if (!row)
		return -ENOMEM;
	b->last_row[r->class] = (uint32_t)(row - b->classes);
	class_row_add(row, r);
	if (!is_copied(r))
		return 0;
	/* moved, not added: the sums stay exact */
	char label[LABEL_MAX + 16];
	size_t len = strlen(r->label);
	len = len < LABEL_MAX ? len : LABEL_MAX - 1; /* a relabelled one may be of any length */
	memcpy(label, r->label, len);
	memcpy(label + len, " (copied)", sizeof(" (copied)"));
	size_t from = (size_t)(row - b->classes);
	struct class_row *copied = find_row(b, r->class, label);
	if (!copied)
		return -ENOMEM;
	row = &b->classes[from];
	uint64_t rss = r->anonymous_bytes < r->rss_bytes ? r->anonymous_bytes : r->rss_bytes;
	uint64_t pss = rss < r->pss_bytes ? rss : r->pss_bytes;
	uint64_t own = rss < region_private_bytes(r) ? rss : region_private_bytes(r);
	uint64_t dirty = r->private_dirty_bytes + r->shared_dirty_bytes;
	dirty = rss < dirty ? rss : dirty;
	row->rss_bytes -= rss;
	row->pss_bytes -= pss;
	row->private_bytes -= own;
	row->dirty_bytes -= dirty;
	copied->rss_bytes += rss;
	copied->pss_bytes += pss;
	copied->private_bytes += own;
	copied->dirty_bytes += dirty;
	copied->count++;
	copied->how = HOW_FLAGS;
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const struct class_row *x = a, *y = b;
	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	if (x->virtual_bytes != y->virtual_bytes)
		return x->virtual_bytes < y->virtual_bytes ? 1 : -1;
	return x->class != y->class ? (x->class < y->class ? -1 : 1) : strcmp(x->label, y->label);
}

static void sort_rows(struct breakdown *b)
{
	if (b->class_count)
		qsort(b->classes, b->class_count, sizeof(*b->classes), by_size);
	idtab_fini(&b->rows); /* the numbers in it are those before sorting */
}

/* ---- mappings -------------------------------------------------------------------------------- */

struct collect {
	struct breakdown *b;
	/* 0: every one */
	size_t keep;
	const struct names *names;
	struct pages pages;
};

/** own_text() - the largest mappings own their text: one block, which begins with the name. */
static int own_text(struct region *r)
{
	size_t name = strlen(r->name) + 1, label = strlen(r->label) + 1,
	       owner = r->owner ? strlen(r->owner) + 1 : 0;
	char *text = malloc(name + label + owner);
	if (!text)
		return -ENOMEM;
	r->name = memcpy(text, r->name, name);
	r->label = memcpy(text + name, r->label, label);
	if (owner)
		r->owner = memcpy(text + name + label, r->owner, owner);
	return 0;
}

static void forget(struct region *r)
{
	free((char *)(uintptr_t)r->name);
}

static int keep_every(struct breakdown *b, const struct region *r)
{
	if (b->region_count == b->region_cap) {
		size_t cap = b->region_cap ? b->region_cap * 2 : 128;
		struct region *grown = realloc(b->regions, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		b->regions = grown;
		b->region_cap = cap;
	}
	struct region *own = &b->regions[b->region_count];
	*own = *r;
	own->name = intern_str(&b->names, r->name);
	own->label = intern_str(&b->names, r->label);
	own->owner = r->owner ? intern_str(&b->names, r->owner) : NULL;
	if (!own->name || !own->label || (r->owner && !own->owner))
		return -ENOMEM;
	b->region_count++;
	return 0;
}

/** sift() - the smallest kept mapping belongs to index 0. */
static void sift(struct region *heap, size_t count, size_t at)
{
	for (;;) {
		size_t least = at, left = at * 2 + 1;
		for (size_t child = left; child < left + 2 && child < count; child++)
			if (heap[child].rss_bytes < heap[least].rss_bytes)
				least = child;
		if (least == at)
			return;
		struct region swap = heap[at];
		heap[at] = heap[least];
		heap[least] = swap;
		at = least;
	}
}

static int keep_largest(struct breakdown *b, const struct region *r, size_t keep)
{
	size_t at = b->region_count;
	if (at == keep && (r->rss_bytes <= b->regions[0].rss_bytes || keep == 0))
		return 0;
	if (b->regions == NULL) {
		b->regions = calloc(keep, sizeof(*b->regions));
		if (!b->regions)
			return -ENOMEM;
	}
	struct region own = *r;
	if (own_text(&own) < 0)
		return -ENOMEM;
	if (at == keep) {
		forget(&b->regions[0]);
		b->regions[0] = own;
		sift(b->regions, keep, 0);
		return 0;
	}
	b->regions[b->region_count++] = own;
	for (size_t i = b->region_count == keep ? keep / 2 + 1 : 0; i-- > 0;)
		sift(b->regions, b->region_count, i);
	return 0;
}

static int collect_one(void *ctx, struct region *r)
{
	struct collect *c = ctx;
	if (c->keep == 0)
		return keep_every(c->b, r); /* summed afterwards: names may still change */
	int rc = add_region(c->b, r);
	return rc ? rc : keep_largest(c->b, r, c->keep);
}

static int collect(void *ctx, struct region *r)
{
	struct collect *c = ctx;
	c->b->region_total++;
	return c->names ? names_put(c->names, r, &c->pages, collect_one, c) : collect_one(c, r);
}

int breakdown_cut(struct breakdown *b, const struct target *target, const struct names *names,
		  int (*wants)(const struct region *))
{
	struct collect c = { .b = b };
	struct err ignored = { 0 };
	if (pages_open(&c.pages, target, &ignored) < 0)
		c.pages.fd = -1;
	struct region *old = b->regions;
	size_t count = b->region_count;
	b->regions = NULL;
	b->region_count = b->region_cap = 0;
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = wants && !wants(&old[i])
			     ? collect_one(&c, &old[i])
			     : names_put(names, &old[i], &c.pages, collect_one, &c);
	pages_close(&c.pages);
	free(old);
	return rc;
}

/** apply_names() - the program's own table, if it has one, over the mappings that are all kept. */
static int apply_names(struct breakdown *b, const struct target *target)
{
	size_t at = 0;
	while (at < b->region_count && strcmp(b->regions[at].name, NAMES_PATH) != 0)
		at++;
	struct names names;
	struct pages pages;
	struct err ignored = { 0 };
	if (at == b->region_count || pages_open(&pages, target, &ignored) < 0)
		return 0;
	int rc = names_read(target, &pages, b->regions[at].start,
			    b->regions[at].end - b->regions[at].start, &names);
	pages_close(&pages);
	if (rc < 0)
		return 0; /* hostile or half-written: the mappings stay what they are */
	b->names_used = names.count;
	b->names_dropped = names.dropped;
	rc = breakdown_cut(b, target, &names, NULL);
	names_fini(&names);
	return rc;
}

static int largest_first(const void *a, const void *b)
{
	const struct region *x = a, *y = b;
	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	return x->start < y->start ? -1 : x->start > y->start;
}

size_t breakdown_find(const struct breakdown *b, uint64_t addr)
{
	size_t at = search_beyond(b->regions, b->region_count, sizeof(*b->regions),
				  offsetof(struct region, end), addr);
	return at < b->region_count && b->regions[at].start <= addr ? at : b->region_count;
}

int breakdown_relabel(struct breakdown *b, size_t index, enum region_class class, const char *label,
		      const char *owner, enum region_how how)
{
	const char *own = intern_str(&b->names, label);
	const char *by = owner ? intern_str(&b->names, owner) : NULL;
	if (!own || (owner && !by))
		return -ENOMEM;
	struct region *r = &b->regions[index];
	r->class = (uint8_t) class;
	r->how = (uint8_t)how;
	r->label = own;
	if (by)
		r->owner = by;
	return 0;
}

int breakdown_sum(struct breakdown *b, struct err *err)
{
	b->rss_bytes = b->pss_bytes = b->virtual_bytes = b->reserved_bytes = b->swap_bytes =
		b->hugetlb_bytes = b->own_rss_bytes = 0;
	b->class_count = 0;
	idtab_fini(&b->rows);
	b->rows = (struct idtab){ 0 };
	for (size_t i = 0; i < b->region_count; i++)
		if (add_region(b, &b->regions[i]) < 0)
			return err_set(err, -ENOMEM, "cannot add up the mappings of process %d",
				       (int)b->pid);
	sort_rows(b);
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/** struct quick - the list first, then what is resident of each, mapping by mapping. */
struct quick {
	struct classifier *classifier;
	struct pages pages;
	struct reading *reading;
	int parts;
};

struct parts {
	struct quick *quick;
	struct region *region;
};

static int tell_shared(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct region *r = ctx;
	if (kinds & PAGE_SHARED)
		r->shared_clean_bytes += end - start;
	return 0;
}

static int tell_part(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct parts *p = ctx;
	struct region *r = p->region;
	if (kinds & PAGE_GUARD)
		r->flags |= REGION_FLAG_GUARD;
	if (kinds & PAGE_SWAPPED)
		r->swap_bytes += end - start;
	/* the page of zeroes is part of no RSS */
	if (!(kinds & PAGE_PRESENT) || kinds & PAGE_ZERO)
		return 0;
	r->rss_bytes += end - start;
	if (!(kinds & PAGE_FILE)) {
		r->anonymous_bytes += end - start;
		r->anon_huge_bytes += kinds & PAGE_HUGE ? end - start : 0;
	}
	return pages_each(&p->quick->pages, start, end, PAGE_PRESENT | PAGE_SHARED, tell_shared, r,
			  &p->quick->reading->stall_ns);
}

/* As smaps tells it; what of it is clean nobody knows. */
static int quick_parts(struct quick *q, struct region *r)
{
	struct parts p = { q, r };
	int rc = pages_each(&q->pages, r->start, r->end,
			    PAGE_PRESENT | PAGE_SWAPPED | PAGE_FILE | PAGE_ZERO | PAGE_HUGE |
				    (q->pages.guards ? PAGE_GUARD : 0),
			    tell_part, &p, &q->reading->stall_ns);
	/* told by another call: it moved in between */
	if (r->shared_clean_bytes > r->rss_bytes)
		r->shared_clean_bytes = r->rss_bytes;
	r->private_clean_bytes = r->rss_bytes - r->shared_clean_bytes;
	return rc;
}

static int quick_region(void *ctx, struct region *r)
{
	struct quick *q = ctx;
	if (strncmp(r->name, "/anon_hugepage", 14) == 0 || r->page_bytes > 65536)
		r->flags |= REGION_FLAG_HUGETLB;
	/* vvar and the like are not memory of the process; hugetlb pages are not part of RSS */
	int skip = r->flags & REGION_FLAG_HUGETLB || strncmp(r->name, "[vvar", 5) == 0 ||
		   (!q->pages.scan && !(r->perms & 7) && r->end - r->start > SPARSE_MAX);
	if (!skip) {
		int rc = q->parts ? quick_parts(q, r)
				  : pages_count(&q->pages, r->start, r->end, &r->rss_bytes,
						&r->swap_bytes, &q->reading->stall_ns);
		if (rc < 0)
			return rc;
	}
	r->guessed_rss = 1;
	return classify_region(q->classifier, r);
}

static int query_each(const struct target *target, struct quick *q)
{
	struct maps_query query;
	struct err ignored = { 0 };
	int rc = maps_query_open(&query, target, &ignored);
	if (rc < 0)
		return -ENOTTY;
	struct region region;
	uint64_t at = 0;
	memset(q->reading, 0, sizeof(*q->reading));
	while (rc == 0 && (rc = maps_query_at(&query, at, 1, &region)) == 0) {
		at = region.end;
		q->reading->regions++;
		rc = quick_region(q, &region);
	}
	maps_query_close(&query);
	q->reading->list = "PROCMAP_QUERY";
	return rc == -ENOENT ? 0 : rc;
}

/** tells_parts() - 1 where mappings and the kinds of their pages can be asked for singly. */
static int tells_parts(const struct target *target)
{
	struct maps_query query;
	struct pages pages;
	struct err ignored = { 0 };
	if (maps_query_open(&query, target, &ignored) < 0)
		return 0;
	maps_query_close(&query);
	int tells = pages_open(&pages, target, &ignored) == 0 && pages.scan;
	pages_close(&pages);
	return tells;
}

static int read_quick(const struct target *target, struct classifier *classifier,
		      const struct breakdown_opt *opt, enum turns_how how, struct reading *reading,
		      struct err *err)
{
	struct quick q = { .classifier = classifier, .reading = reading, .parts = opt->parts };
	int rc = pages_open(&q.pages, target, err);
	if (rc < 0)
		return rc;
	pages_turns(&q.pages, how);
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	rc = query_each(target, &q);
	if (rc == -ENOTTY)
		rc = maps_each(target, quick_region, &q, reading, err);
	else if (rc < 0)
		rc = target_fail(target, rc, "mappings", err);
	reading->pages = q.pages.scan ? "PAGEMAP_SCAN" : "pagemap";
	reading->total_ns = clock_ns(CLOCK_MONOTONIC) - began;
	pages_close(&q.pages);
	return rc;
}

/**
 * is_doubtful() - the counters lag behind by some pages a CPU; more is worth another walk of all
 * pages.
 */
static int is_doubtful(const struct breakdown *b)
{
	uint64_t a = b->rss_bytes, c = b->totals.rss_bytes;
	return (a > c ? a - c : c - a) > a / 100;
}

static int fill(struct breakdown *b, const struct target *target, const struct breakdown_opt *opt,
		struct err *err)
{
	int rc;
	if (!opt->no_threads) {
		rc = threads_read(target, opt->facts, &b->threads, &b->thread_count, err);
		if (rc < 0)
			return rc;
	}
	struct collect c = { .b = b, .keep = opt->keep, .names = opt->names };
	struct err ignored = { 0 };
	if (!opt->names || pages_open(&c.pages, target, &ignored) < 0)
		c.pages.fd = -1;
	struct classifier classifier;
	classify_init(&classifier, target, b->threads, b->thread_count, collect, &c);
	classifier.modules = opt->modules;
	classifier.module_count = opt->module_count;
	rc = !b->full
		     ? read_quick(target, &classifier, opt, b->turns, &b->reading, err)
		     : smaps_each(target, b->turns, classify_region, &classifier, &b->reading, err);
	if (rc == 0)
		rc = classify_end(&classifier);
	b->idle_stacks = classifier.idle;
	classifier.idle = (struct stack_blocks){ 0 };
	classify_fini(&classifier);
	pages_close(&c.pages);
	if (rc == 0 && opt->keep == 0)
		rc = apply_names(b, target);
	if (rc == -ENOMEM && err && !err->code)
		err_set(err, rc, "cannot keep the mappings of process %d", (int)target->pid);
	if (rc)
		return rc;
	b->end_ns = clock_ns(CLOCK_MONOTONIC);
	memset(&b->totals, 0xff, sizeof(b->totals)); /* UINT64_MAX: not told */
	b->rollup_rss_bytes = b->rollup_pss_bytes = UINT64_MAX;
	if (!opt->no_checks && (rc = totals_read(target, &b->totals, err)) < 0)
		return rc;
	if (opt->keep == 0 && (rc = breakdown_sum(b, err)) < 0)
		return rc;
	if (!opt->no_checks && b->full && (!opt->doubt_only || is_doubtful(b))) {
		/*
		 * a check that cannot be made is shown as missing; the breakdown stands without it
		 */
		rollup_read(target, b->turns, &b->rollup_rss_bytes, &b->rollup_pss_bytes,
			    &b->reading.stall_ns, &ignored);
	}
	if (opt->keep == 0)
		return 0;
	sort_rows(b);
	if (b->region_count)
		qsort(b->regions, b->region_count, sizeof(*b->regions), largest_first);
	return 0;
}

struct breakdown *breakdown_read(const struct target *target, const struct breakdown_opt *opt,
				 struct err *err)
{
	struct breakdown *b = calloc(1, sizeof(*b));
	if (!b) {
		err_set(err, -ENOMEM, "cannot look at process %d", (int)target->pid);
		return NULL;
	}
	b->pid = target->pid;
	memcpy(b->comm, target->comm, sizeof(b->comm));
	b->labels_max = opt->labels_max ? opt->labels_max : LABELS_DEFAULT;
	b->full = !opt->quick && !(opt->parts && tells_parts(target));
	b->turns = opt->parts || target->pid == getpid() ? TURNS_PAUSES
		   : opt->quick                          ? TURNS_GENTLY
							 : TURNS_RAISED;
	b->keeps_all = opt->keep == 0;
	b->time_ns = clock_ns(CLOCK_REALTIME);
	b->start_ns = clock_ns(CLOCK_MONOTONIC);
	if (fill(b, target, opt, err) != 0) {
		breakdown_free(b);
		return NULL;
	}
	return b;
}

void breakdown_free(struct breakdown *b)
{
	if (!b)
		return;
	if (!b->keeps_all)
		for (size_t i = 0; i < b->region_count; i++)
			forget(&b->regions[i]);
	free(b->regions);
	free(b->classes);
	free(b->threads);
	free(b->idle_stacks.blocks);
	free(b->allocators);
	beside_free(b->beside);
	numa_free(b->numa);
	free(b->settings);
	if (b->owned)
		owned_fini(b->owned);
	free(b->owned);
	intern_fini(&b->names);
	idtab_fini(&b->rows);
	free(b);
}

void breakdown_freep(struct breakdown **b)
{
	breakdown_free(*b);
}
