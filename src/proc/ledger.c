/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

static struct ledger_class *find(struct ledger *l, unsigned class, const char *label)
{
	uint32_t hash = (uint32_t)hash_bytes(label, strlen(label), hash_seed() + class);
	if (idtab_reserve(&l->index) < 0)
		return NULL;
	uint32_t at = idtab_first(&l->index, hash);
	for (; l->index.slots[at].id != IDTAB_NONE; at = idtab_next(&l->index, at)) {
		struct ledger_class *row = &l->classes[l->index.slots[at].id];
		if (l->index.slots[at].hash == hash && row->class == class &&
		    strcmp(row->label, label) == 0)
			return row;
	}
	if (l->class_count >= LEDGER_CLASSES_MAX && strcmp(label, "(other)") != 0)
		return find(l, class, "(other)");
	if (l->class_count == l->class_room) {
		size_t room = l->class_room ? l->class_room * 2 : 64;
		struct ledger_class *grown = realloc(l->classes, room * sizeof(*grown));
		if (!grown)
			return NULL;
		l->classes = grown;
		l->class_room = room;
	}
	const char *own = intern_str(&l->names, label);
	if (!own)
		return NULL;
	struct ledger_class *row = &l->classes[l->class_count];
	*row = (struct ledger_class){ .class = class, .label = own };
	idtab_put(&l->index, at, hash, (uint32_t)l->class_count++);
	return row;
}

static struct ledger_row *new_row(struct ledger *l)
{
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 16;
		struct ledger_row *grown = realloc(l->rows, room * sizeof(*grown));
		if (!grown)
			return NULL;
		l->rows = grown;
		l->room = room;
	}
	return &l->rows[l->count++];
}

static void take_cgroup(struct ledger *l, const struct cgroup_memory *m)
{
	if (!m->version)
		return;
	if (!l->cgroups) {
		l->cgroups = 1;
		l->cgroup = *m;
	} else if (strcmp(l->cgroup.path, m->path) != 0) {
		l->cgroups = 2;
	}
}

/* Room for @more behind @count; the list, or NULL. */
static struct held_file *longer(struct held_file **list, size_t count, size_t more)
{
	struct held_file *grown = realloc(*list, (count + more) * sizeof(**list));
	if (grown)
		*list = grown;
	return grown;
}

/*
 * What it holds, and what it maps that somebody else may hold: files that have no name any more, or
 * never had one.
 */
static int take_files(struct ledger *l, const struct breakdown *b)
{
	const struct beside *s = b->beside;
	if (s->held_listed) {
		if (!longer(&l->held, l->held_listed, s->held_listed))
			return -ENOMEM;
		memcpy(l->held + l->held_listed, s->held, s->held_listed * sizeof(*s->held));
		l->held_listed += s->held_listed;
	}
	size_t files = 0;
	for (size_t i = 0; i < b->region_count; i++)
		files += b->regions[i].inode != 0;
	if (!files)
		return 0;
	if (!longer(&l->mapped, l->mapped_count, files))
		return -ENOMEM;
	uint64_t last = 0;
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		if (!r->inode || r->inode == last)
			continue;
		last = r->inode;
		l->mapped[l->mapped_count++] =
			(struct held_file){ .device = makedev(r->dev_major, r->dev_minor),
					    .inode = r->inode };
	}
	return 0;
}

int ledger_add(struct ledger *l, const struct breakdown *b)
{
	const struct beside *s = b->beside;
	struct ledger_row *row = new_row(l);
	if (!row)
		return -ENOMEM;
	*row = (struct ledger_row){ .pid = b->pid,
				    .rss_bytes = b->rss_bytes,
				    .pss_bytes = b->pss_bytes,
				    .swap_bytes = b->swap_bytes,
				    .virtual_bytes = b->virtual_bytes,
				    .page_table_bytes = b->totals.page_table_bytes,
				    .socket_bytes = s ? s->socket_bytes : UINT64_MAX,
				    .oom_bytes = s ? s->oom_bytes : UINT64_MAX,
				    .oom_score = s ? s->oom_score : -1,
				    .mappings = b->region_total,
				    .verdict = verdict_of(b) };
	memcpy(row->comm, b->comm, sizeof(row->comm));
	for (size_t i = 0; i < b->class_count; i++) {
		const struct class_row *from = &b->classes[i];
		struct ledger_class *to = find(l, from->class, from->label);
		if (!to)
			return -ENOMEM;
		to->rss_bytes += from->rss_bytes;
		to->pss_bytes += from->pss_bytes;
		to->swap_bytes += from->swap_bytes;
		to->count += from->count;
		to->processes += to->last != b->pid;
		to->last = b->pid;
		row->private_bytes += from->private_bytes;
	}
	if (!s)
		return 0;
	take_cgroup(l, &s->cgroup);
	return take_files(l, b);
}

int ledger_add_quick(struct ledger *l, const struct target *target, struct err *err)
{
	struct proc_totals totals;
	struct rollup rollup;
	struct cgroup_memory cgroup;
	int rc = totals_read(target, &totals, err);
	if (rc == 0)
		rc = rollup_all(target, TURNS_RAISED, &rollup, NULL, err);
	if (rc < 0)
		return rc;
	struct ledger_row *row = new_row(l);
	if (!row)
		return err_set(err, -ENOMEM, "cannot add up the processes");
	l->quick = 1;
	*row = (struct ledger_row){ .pid = target->pid,
				    .rss_bytes = rollup.rss_bytes,
				    .pss_bytes = rollup.pss_bytes,
				    .private_bytes = rollup.private_bytes,
				    .swap_bytes = rollup.swap_bytes,
				    .virtual_bytes = totals.virtual_bytes,
				    .page_table_bytes = totals.page_table_bytes,
				    .socket_bytes = UINT64_MAX,
				    .oom_score = beside_oom_score(target) };
	memcpy(row->comm, target->comm, sizeof(row->comm));
	row->oom_bytes = rollup.rss_bytes + rollup.swap_bytes +
			 (totals.page_table_bytes == UINT64_MAX ? 0 : totals.page_table_bytes);
	if (l->cgroups < 2 && cgroup_memory_read(target, &cgroup) == 0)
		take_cgroup(l, &cgroup);
	return 0;
}

void ledger_grown(struct ledger *l, const struct ledger *before)
{
	for (size_t i = 0; i < l->count; i++)
		for (size_t j = 0; j < before->count; j++)
			if (before->rows[j].pid == l->rows[i].pid)
				l->rows[i].grown_bytes = (int64_t)l->rows[i].pss_bytes -
							 (int64_t)before->rows[j].pss_bytes;
}

static int64_t key_of(const struct ledger_row *r, enum regions_sort sort)
{
	switch (sort) {
	case REGIONS_BY_RSS:
		return (int64_t)r->rss_bytes;
	case REGIONS_BY_SWAP:
		return (int64_t)r->swap_bytes;
	case REGIONS_BY_VIRTUAL:
		return (int64_t)r->virtual_bytes;
	case REGIONS_BY_GROWTH:
		return llabs(r->grown_bytes);
	default:
		return (int64_t)r->pss_bytes;
	}
}

static int by_order(const void *a, const void *b, void *sort)
{
	const struct ledger_row *p = a, *q = b;
	enum regions_sort *by = sort;
	int64_t x = key_of(p, *by), y = key_of(q, *by);
	if (x != y)
		return x < y ? 1 : -1;
	if (p->pss_bytes != q->pss_bytes)
		return p->pss_bytes < q->pss_bytes ? 1 : -1;
	return p->pid - q->pid;
}

static int by_class(const void *a, const void *b)
{
	const struct ledger_class *x = a, *y = b;
	if (x->pss_bytes != y->pss_bytes)
		return x->pss_bytes < y->pss_bytes ? 1 : -1;
	return x->class != y->class ? (x->class < y->class ? -1 : 1) : strcmp(x->label, y->label);
}

static int by_file(const void *a, const void *b)
{
	const struct held_file *x = a, *y = b;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static int by_bytes(const void *a, const void *b)
{
	const struct held_file *x = a, *y = b;
	return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : by_file(a, b);
}

/* Each file once, and none that one of them maps: that is in its RSS. */
static void count_held(struct ledger *l)
{
	size_t kept = 0;
	if (l->held_listed)
		qsort(l->held, l->held_listed, sizeof(*l->held), by_file);
	if (l->mapped_count)
		qsort(l->mapped, l->mapped_count, sizeof(*l->mapped), by_file);
	l->held_bytes = 0;
	for (size_t i = 0; i < l->held_listed; i++) {
		if ((kept && by_file(&l->held[kept - 1], &l->held[i]) == 0) ||
		    (l->mapped_count &&
		     bsearch(&l->held[i], l->mapped, l->mapped_count, sizeof(*l->mapped), by_file)))
			continue;
		l->held_bytes += l->held[i].bytes;
		l->held[kept++] = l->held[i];
	}
	l->held_count = l->held_listed = kept;
	if (kept)
		qsort(l->held, kept, sizeof(*l->held), by_bytes);
}

void ledger_sort(struct ledger *l, enum regions_sort sort)
{
	if (l->count)
		qsort_r(l->rows, l->count, sizeof(*l->rows), by_order, &sort);
	if (l->class_count)
		qsort(l->classes, l->class_count, sizeof(*l->classes), by_class);
	idtab_fini(&l->index); /* its numbers are those before */
	count_held(l);
}

struct ledger_row ledger_sums(const struct ledger *l)
{
	struct ledger_row sum = { .socket_bytes = UINT64_MAX };
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_row *r = &l->rows[i];
		sum.pss_bytes += r->pss_bytes;
		sum.rss_bytes += r->rss_bytes;
		sum.private_bytes += r->private_bytes;
		sum.swap_bytes += r->swap_bytes;
		sum.grown_bytes += r->grown_bytes;
		sum.verdict.free_pages += r->verdict.free_pages;
		sum.verdict.holes += r->verdict.holes;
		sum.verdict.live += r->verdict.live;
		if (r->page_table_bytes != UINT64_MAX)
			sum.page_table_bytes += r->page_table_bytes;
		if (r->socket_bytes != UINT64_MAX)
			sum.socket_bytes = (sum.socket_bytes == UINT64_MAX ? 0 : sum.socket_bytes) +
					   r->socket_bytes;
	}
	return sum;
}

void ledger_fini(struct ledger *l)
{
	free(l->rows);
	free(l->classes);
	free(l->held);
	free(l->mapped);
	intern_fini(&l->names);
	idtab_fini(&l->index);
	*l = (struct ledger){ 0 };
}
