/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_text.c - the sheet of several processes, and the table of it that is made again and again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "proc/ledger.h"

#define CLASSES_SHOWN 16u
#define HELD_SHOWN 4u
#define SOCKETS_SHOWN (64u << 10)

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
	if (r->socket_bytes != UINT64_MAX && r->socket_bytes >= SOCKETS_SHOWN)
		buf_printf(to, "  sockets %s", size(a, r->socket_bytes, opt->raw));
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
	put_part(to, columns, cgroup_cache_reclaimable(m), "  can go when memory is wanted", opt);
	put_part(to, columns, m->inactive_file_bytes, "    not used lately: it goes first", opt);
	put_part(to, columns, m->dirty_bytes, "    written to first: it is dirty", opt);
	put_part(to, columns, cgroup_cache_held(m), "  cannot go", opt);
	put_part(to, columns, m->shmem_bytes, "    shared memory and tmpfs, without swap", opt);
	put_part(to, columns, m->file_mapped_bytes, "  mapped by a process, of either", opt);
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
		buf_printf(to,
			   "%*.1f %%  of the last 10 s some task%s waited for memory, all in %.1f "
			   "%%\n",
			   columns - 2, m->pressure_some,
			   m->pressure_of_machine ? " of the machine" : "", m->pressure_full);
	if (m->oom_kills != UINT64_MAX && (m->oom_kills || opt->all))
		buf_printf(to, "%*" PRIu64 "  processes ended by the OOM killer\n", columns,
			   m->oom_kills);
	buf_putc(to, '\n');
}

/* Whom it would end, and what it counts: not RSS alone. */
static void put_oom(struct buf *to, const struct ledger *l, const struct regions_text_opt *opt)
{
	const struct ledger_row *first = NULL;
	char text[TEXT_NUMBER_MAX];
	for (size_t i = 0; i < l->count; i++)
		if (l->rows[i].oom_score > 0 && (!first || l->rows[i].oom_score > first->oom_score))
			first = &l->rows[i];
	if (!first || l->count < 2)
		return;
	buf_printf(to, "  the OOM killer would take process %d first (", (int)first->pid);
	text_escape(to, first->comm, opt->ascii);
	buf_printf(to, "; it counts %s: RSS, swap, page tables)\n",
		   size(text, first->oom_bytes, opt->raw));
}

static void put_held(struct buf *to, const struct ledger *l, const struct regions_text_opt *opt)
{
	char text[TEXT_NUMBER_MAX];
	size_t limit = opt->all ? l->held_listed : HELD_SHOWN;
	if (!l->held_bytes || (l->held_bytes < 1u << 20 && !opt->all))
		return;
	buf_printf(to, "  %s in %" PRIu64 " open file%s without a name that none of them maps:\n",
		   size(text, l->held_bytes, opt->raw), l->held_count,
		   l->held_count == 1 ? "" : "s");
	for (size_t i = 0; i < l->held_listed && i < limit; i++) {
		buf_printf(to, "    %s  ", size(text, l->held[i].bytes, opt->raw));
		text_escape(to, l->held[i].name, opt->ascii);
		buf_putc(to, '\n');
	}
	if (limit < l->held_listed)
		buf_printf(to, "    ... %zu more: --all\n", l->held_listed - limit);
}

static void put_unread(struct buf *to, const struct ledger *l)
{
	if (l->unread)
		buf_printf(to, "%" PRIu64 " more could not be read\n", l->unread);
}

void ledger_text(struct buf *to, const struct ledger *l, const char *title,
		 const struct regions_text_opt *opt)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	int columns = opt->raw ? 15 : 11;
	struct ledger_row sum = ledger_sums(l);
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
	if (sum.socket_bytes != UINT64_MAX && (sum.socket_bytes || opt->all))
		buf_printf(to, ", sockets %s", size(a, sum.socket_bytes, opt->raw));
	buf_putc(to, '\n');
	put_oom(to, l, opt);
	put_held(to, l, opt);
	buf_putc(to, '\n');
	buf_printf(to, "%*s%*s%*s%*s%*s%9s  name\n", columns, "PSS", columns, "RSS", columns,
		   "private", columns, "free", columns, "tables", "pid");
	size_t limit = opt->all || l->count < opt->top ? l->count : opt->top;
	for (size_t i = 0; i < limit; i++)
		put_row(to, &l->rows[i], columns, opt);
	if (limit < l->count)
		buf_printf(to, "%*s %zu more: --all\n", columns, "...", l->count - limit);
	buf_printf(to, "%*s%*s%*s", columns, size(a, sum.pss_bytes, opt->raw), columns,
		   size(b, sum.rss_bytes, opt->raw), columns, size(c, sum.private_bytes, opt->raw));
	buf_printf(to, "%*s%*s%9s  sum\n\n", columns,
		   size(a, sum.verdict.free_pages + sum.verdict.holes, opt->raw), columns,
		   size(b, sum.page_table_bytes, opt->raw), "");
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
	put_unread(to, l);
}

/* ---- a table that is made again and again ---------------------------------------------------- */

static void put_change(struct buf *to, int columns, int64_t bytes, int raw)
{
	char text[TEXT_NUMBER_MAX], signed_text[TEXT_NUMBER_MAX + 1] = "";
	if (bytes)
		snprintf(signed_text, sizeof(signed_text), "%c%s", bytes < 0 ? '-' : '+',
			 size(text, (uint64_t)llabs(bytes), raw));
	buf_printf(to, "%*s", columns, signed_text);
}

#define LIVE_NAME 16 /* a process's name */

/* How many of the last columns a line has no room for: page tables first, then swap, private. */
static int left_out(int columns, const struct regions_text_opt *opt)
{
	int out = 0;
	while (opt->width && out < 3 && columns * (6 - out) + 1 + 11 + LIVE_NAME > opt->width)
		out++;
	return out;
}

static void put_live_row(struct buf *to, const struct ledger_row *r, int columns,
			 const struct regions_text_opt *opt)
{
	char text[TEXT_NUMBER_MAX];
	int out = left_out(columns, opt);
	buf_printf(to, "%*s", columns, size(text, r->pss_bytes, opt->raw));
	put_change(to, columns + 1, r->grown_bytes, opt->raw);
	buf_printf(to, "%*s", columns, size(text, r->rss_bytes, opt->raw));
	if (out < 3)
		buf_printf(to, "%*s", columns, size(text, r->private_bytes, opt->raw));
	if (out < 2)
		buf_printf(to, "%*s", columns, size(text, r->swap_bytes, opt->raw));
	if (out < 1)
		buf_printf(to, "%*s", columns, size(text, r->page_table_bytes, opt->raw));
}

void ledger_live_text(struct buf *to, const struct ledger *l, const char *title, size_t lines,
		      const struct regions_text_opt *opt)
{
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	int columns = opt->raw ? 15 : 10;
	struct ledger_row sum = ledger_sums(l);
	const struct cgroup_memory *m = &l->cgroup;
	text_escape(to, title, opt->ascii);
	buf_printf(to, ": %zu process%s %s together (PSS)\n", l->count,
		   l->count == 1 ? " has" : "es have", size(a, sum.pss_bytes, opt->raw));
	if (l->cgroups == 1 && m->current_bytes != UINT64_MAX && !opt->brief) {
		buf_printf(to, "cgroup: charged for %s", size(a, m->current_bytes, opt->raw));
		if (m->limit_bytes != UINT64_MAX)
			buf_printf(to, " of %s", size(a, m->limit_bytes, opt->raw));
		if (cgroup_working_set(m) != UINT64_MAX)
			buf_printf(to, ", kubelet counts %s",
				   size(a, cgroup_working_set(m), opt->raw));
		if (m->file_bytes != UINT64_MAX)
			buf_printf(to, ", page cache %s", size(b, m->file_bytes, opt->raw));
		buf_putc(to, '\n');
	}
	static const char *const more[] = { "private", "swap", "tables" };
	buf_printf(to, "%*s%*s%*s", columns, "PSS", columns + 1, "grown", columns, "RSS");
	for (int i = 0; i < 3 - left_out(columns, opt); i++)
		buf_printf(to, "%*s", columns, more[i]);
	buf_printf(to, "%9s  name\n", "pid");
	size_t limit = lines && lines < opt->top ? lines : opt->top;
	if (opt->all && !lines)
		limit = l->count;
	for (size_t i = 0; i < l->count && i < limit; i++) {
		put_live_row(to, &l->rows[i], columns, opt);
		buf_printf(to, "%9d  ", (int)l->rows[i].pid);
		text_escape(to, l->rows[i].comm, opt->ascii);
		buf_putc(to, '\n');
	}
	if (limit < l->count)
		buf_printf(to, "%*s %zu more\n", columns, "...", l->count - limit);
	put_live_row(to, &sum, columns, opt);
	buf_printf(to, "%9s  sum\n", "");
	put_unread(to, l);
}
