/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define CLASSES_SHOWN 16u

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

int ledger_add(struct ledger *l, const struct breakdown *b)
{
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 16;
		struct ledger_row *grown = realloc(l->rows, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->rows = grown;
		l->room = room;
	}
	struct ledger_row *row = &l->rows[l->count++];
	*row = (struct ledger_row){ .pid = b->pid,
				    .rss_bytes = b->rss_bytes,
				    .pss_bytes = b->pss_bytes,
				    .swap_bytes = b->swap_bytes,
				    .page_table_bytes = b->totals.page_table_bytes,
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
	const struct beside *s = b->beside;
	if (!s)
		return 0;
	/* a file that several hold is told once for each: what is said is a bound from above */
	l->held_bytes += s->held_bytes;
	l->held_count += s->held_count;
	if (!s->cgroup.version)
		return 0;
	if (!l->cgroups) {
		l->cgroups = 1;
		l->cgroup = s->cgroup;
	} else if (strcmp(l->cgroup.path, s->cgroup.path) != 0) {
		l->cgroups = 2;
	}
	return 0;
}

static int by_keys(uint64_t x, uint64_t y, const void *a, const void *b)
{
	return x != y ? (x < y ? 1 : -1)
		      : ((const struct ledger_row *)a)->pid - ((const struct ledger_row *)b)->pid;
}

static int by_pss(const void *a, const void *b)
{
	return by_keys(((const struct ledger_row *)a)->pss_bytes,
		       ((const struct ledger_row *)b)->pss_bytes, a, b);
}

static int by_rss(const void *a, const void *b)
{
	return by_keys(((const struct ledger_row *)a)->rss_bytes,
		       ((const struct ledger_row *)b)->rss_bytes, a, b);
}

static int by_swap(const void *a, const void *b)
{
	return by_keys(((const struct ledger_row *)a)->swap_bytes,
		       ((const struct ledger_row *)b)->swap_bytes, a, b);
}

static int by_class(const void *a, const void *b)
{
	const struct ledger_class *x = a, *y = b;
	if (x->pss_bytes != y->pss_bytes)
		return x->pss_bytes < y->pss_bytes ? 1 : -1;
	return x->class != y->class ? (x->class < y->class ? -1 : 1) : strcmp(x->label, y->label);
}

void ledger_sort(struct ledger *l, enum regions_sort sort)
{
	if (l->count)
		qsort(l->rows, l->count, sizeof(*l->rows),
		      sort == REGIONS_BY_RSS    ? by_rss
		      : sort == REGIONS_BY_SWAP ? by_swap
						: by_pss);
	if (l->class_count)
		qsort(l->classes, l->class_count, sizeof(*l->classes), by_class);
	idtab_fini(&l->index); /* its numbers are those before */
}

void ledger_fini(struct ledger *l)
{
	free(l->rows);
	free(l->classes);
	intern_fini(&l->names);
	idtab_fini(&l->index);
	*l = (struct ledger){ 0 };
}

/* ---- text ------------------------------------------------------------------------------------------------------------ */

static const char *size(char to[TEXT_NUMBER_MAX], uint64_t bytes, int raw)
{
	if (bytes == UINT64_MAX)
		return "-";
	if (!raw)
		return text_bytes(to, bytes);
	snprintf(to, TEXT_NUMBER_MAX, "%" PRIu64, bytes);
	return to;
}

static void put_row(struct buf *to, const struct ledger_row *r, int columns,
		    const struct regions_text_opt *opt)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX], d[TEXT_NUMBER_MAX],
		e[TEXT_NUMBER_MAX];
	buf_printf(to, "%*s%*s%*s%*s%*s%9d  ", columns, size(a, r->pss_bytes, opt->raw), columns,
		   size(b, r->rss_bytes, opt->raw), columns, size(c, r->private_bytes, opt->raw),
		   columns, size(d, r->verdict.free_pages + r->verdict.holes, opt->raw), columns,
		   size(e, r->page_table_bytes, opt->raw), (int)r->pid);
	text_escape(to, r->comm, opt->ascii);
	if (r->swap_bytes)
		buf_printf(to, "  swap %s", size(a, r->swap_bytes, opt->raw));
	buf_putc(to, '\n');
}

static void put_part(struct buf *to, int columns, uint64_t bytes, const char *what,
		     const struct regions_text_opt *opt)
{
	char text[TEXT_NUMBER_MAX];
	if (bytes == UINT64_MAX || (!bytes && !opt->all))
		return;
	buf_printf(to, "%*s  %s\n", columns, size(text, bytes, opt->raw), what);
}

static void put_cgroup(struct buf *to, const struct cgroup_memory *m, int columns,
		       const struct regions_text_opt *opt)
{
	char text[TEXT_NUMBER_MAX], limit[TEXT_NUMBER_MAX], share[TEXT_NUMBER_MAX];
	buf_puts(to, "the cgroup ");
	text_escape(to, m->path, opt->ascii);
	buf_putc(to, '\n');
	buf_printf(to, "%*s  charged for", columns, size(text, m->current_bytes, opt->raw));
	if (m->limit_bytes != UINT64_MAX)
		buf_printf(to, ", %s of its limit of %s",
			   text_percent(share, m->current_bytes, m->limit_bytes),
			   size(limit, m->limit_bytes, opt->raw));
	buf_putc(to, '\n');
	put_part(to, columns, cgroup_working_set(m), "working set, which kubelet counts", opt);
	put_part(to, columns, m->peak_bytes, "at its highest", opt);
	put_part(to, columns, m->anon_bytes, "anonymous memory", opt);
	put_part(to, columns, m->file_bytes, "page cache, of that", opt);
	put_part(to, columns, m->inactive_file_bytes, "  not used lately: it goes first", opt);
	put_part(to, columns, m->active_file_bytes, "  used lately", opt);
	put_part(to, columns, m->file_mapped_bytes, "  mapped by a process", opt);
	put_part(to, columns, m->shmem_bytes, "  shared memory, which cannot go without swap", opt);
	put_part(to, columns, m->page_table_bytes, "page tables", opt);
	put_part(to, columns, m->slab_reclaimable_bytes, "slab that can go", opt);
	put_part(to, columns, m->slab_unreclaimable_bytes, "slab that stays", opt);
	put_part(to, columns, m->socket_bytes, "socket buffers", opt);
	put_part(to, columns, m->kernel_stack_bytes, "kernel stacks", opt);
	put_part(to, columns, m->percpu_bytes, "per CPU", opt);
	if (m->version == 1)
		put_part(to, columns, m->kernel_bytes, "of the kernel", opt);
	put_part(to, columns, m->swap_bytes, "swapped out", opt);
	if (m->pressure_some >= 0)
		buf_printf(
			to,
			"%*.1f %%  of the last 10 s some task waited for memory, all in %.1f %%\n",
			columns - 2, m->pressure_some, m->pressure_full);
	if (m->oom_kills != UINT64_MAX && (m->oom_kills || opt->all))
		buf_printf(to, "%*" PRIu64 "  processes ended by the OOM killer\n", columns,
			   m->oom_kills);
	buf_putc(to, '\n');
}

void ledger_text(struct buf *to, const struct ledger *l, const char *title,
		 const struct regions_text_opt *opt)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	int columns = opt->raw ? 15 : 11;
	struct ledger_row sum = { 0 };
	for (size_t i = 0; i < l->count; i++) {
		sum.pss_bytes += l->rows[i].pss_bytes;
		sum.rss_bytes += l->rows[i].rss_bytes;
		sum.private_bytes += l->rows[i].private_bytes;
		sum.swap_bytes += l->rows[i].swap_bytes;
		sum.verdict.free_pages += l->rows[i].verdict.free_pages;
		sum.verdict.holes += l->rows[i].verdict.holes;
		sum.verdict.live += l->rows[i].verdict.live;
		if (l->rows[i].page_table_bytes != UINT64_MAX)
			sum.page_table_bytes += l->rows[i].page_table_bytes;
	}
	text_escape(to, title, opt->ascii);
	buf_printf(to, ": %zu process%s %s together (PSS; their RSS sums to %s)\n", l->count,
		   l->count == 1 ? " has" : "es have", size(a, sum.pss_bytes, opt->raw),
		   size(b, sum.rss_bytes, opt->raw));
	buf_printf(to, "  %s live in blocks, %s free but not given back; beside it page tables %s",
		   size(a, sum.verdict.live, opt->raw),
		   size(b, sum.verdict.free_pages + sum.verdict.holes, opt->raw),
		   size(c, sum.page_table_bytes, opt->raw));
	if (sum.swap_bytes)
		buf_printf(to, ", swapped out %s", size(a, sum.swap_bytes, opt->raw));
	if (l->held_bytes)
		buf_printf(to, ",\n  %s in open files without a name that are not mapped",
			   size(a, l->held_bytes, opt->raw));
	buf_puts(to, "\n\n");
	buf_printf(to, "%*s%*s%*s%*s%*s%9s  name\n", columns, "PSS", columns, "RSS", columns,
		   "private", columns, "free", columns, "tables", "pid");
	size_t limit = opt->all || l->count < opt->top ? l->count : opt->top;
	for (size_t i = 0; i < limit; i++)
		put_row(to, &l->rows[i], columns, opt);
	if (limit < l->count)
		buf_printf(to, "%*s %zu more: --all\n", columns, "...", l->count - limit);
	buf_printf(to, "%*s%*s%*s%*s%*s%9s  sum\n\n", columns, size(a, sum.pss_bytes, opt->raw),
		   columns, size(b, sum.rss_bytes, opt->raw), columns,
		   size(c, sum.private_bytes, opt->raw), columns, "", columns, "", "");
	buf_printf(to, "%*s%*s%8s%11s  class, what\n", columns, "PSS", columns, "RSS", "share",
		   "processes");
	limit = opt->all || l->class_count < CLASSES_SHOWN ? l->class_count : CLASSES_SHOWN;
	uint64_t rest = sum.pss_bytes;
	for (size_t i = 0; i < limit; i++) {
		const struct ledger_class *r = &l->classes[i];
		if (!opt->all && r->pss_bytes < sum.pss_bytes / 100)
			break;
		buf_printf(to, "%*s%*s%8s%11" PRIu64 "  %s  ", columns,
			   size(a, r->pss_bytes, opt->raw), columns,
			   size(b, r->rss_bytes, opt->raw),
			   text_percent(c, r->pss_bytes, sum.pss_bytes), r->processes,
			   region_class_name(r->class));
		text_escape(to, r->label, opt->ascii);
		buf_putc(to, '\n');
		rest -= r->pss_bytes < rest ? r->pss_bytes : rest;
	}
	if (rest && !opt->all)
		buf_printf(to, "%*s%*s%8s%11s  what is below 1 %%: --all\n", columns,
			   size(a, rest, opt->raw), columns, "",
			   text_percent(c, rest, sum.pss_bytes), "");
	buf_putc(to, '\n');
	if (l->cgroups == 1)
		put_cgroup(to, &l->cgroup, columns, opt);
	if (l->unread)
		buf_printf(to, "%" PRIu64 " more could not be read\n", l->unread);
}
