/* SPDX-License-Identifier: Apache-2.0 */
#include "out/regions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "out/csv.h"
#include "out/failed.h"
#include "proc/beside.h"
#include "proc/numa.h"
#include "proc/settings.h"
#include "proc/verdict.h"

static void number(struct jsonw *json, const char *key, uint64_t value, int known)
{
	if (known)
		jsonw_u64(json, key, value);
	else
		jsonw_null(json, key);
}

static void known(struct jsonw *json, const char *key, uint64_t value)
{
	number(json, key, value, value != UINT64_MAX);
}

static void put_classes(struct jsonw *json, const struct breakdown *b, const int64_t *growth)
{
	jsonw_array(json, "classes");
	for (size_t i = 0; i < b->class_count; i++) {
		const struct class_row *row = &b->classes[i];
		jsonw_object(json, NULL);
		jsonw_str(json, "class", region_class_name(row->class));
		jsonw_str(json, "label", row->label);
		jsonw_u64(json, "rss_bytes", row->rss_bytes);
		number(json, "pss_bytes", row->pss_bytes, b->full);
		jsonw_u64(json, "virtual_bytes", row->virtual_bytes);
		jsonw_u64(json, "swap_bytes", row->swap_bytes);
		jsonw_u64(json, "hugetlb_bytes", row->hugetlb_bytes);
		jsonw_u64(json, "count", row->count);
		jsonw_str(json, "how", region_how_name(row->how));
		number(json, "private_bytes", row->private_bytes, b->full);
		number(json, "shared_bytes", row->shared_bytes, b->full);
		number(json, "dirty_bytes", row->dirty_bytes, b->full);
		number(json, "thp_bytes", row->thp_bytes, b->full);
		number(json, "lazy_free_bytes", row->lazy_free_bytes, b->full);
		number(json, "ksm_bytes", row->ksm_bytes, b->full);
		number(json, "locked_bytes", row->locked_bytes, b->full);
		number(json, "referenced_bytes", row->referenced_bytes, b->full);
		if (growth)
			jsonw_i64(json, "growth_bytes", growth[i]);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

static void put_numa(struct jsonw *json, const struct numa_row *numa)
{
	char node[16];
	if (!numa) {
		jsonw_null(json, "numa");
		return;
	}
	jsonw_object(json, "numa");
	jsonw_str(json, "policy", numa->policy);
	jsonw_object(json, "node_bytes");
	for (unsigned i = 0; i < NUMA_NODES_MAX; i++) {
		snprintf(node, sizeof(node), "%u", i);
		if (numa->node_bytes[i])
			jsonw_u64(json, node, numa->node_bytes[i]);
	}
	if (numa->other_bytes)
		jsonw_u64(json, "other", numa->other_bytes);
	jsonw_object_end(json);
	jsonw_object_end(json);
}

static void put_region(struct jsonw *json, const struct breakdown *b, const struct region *r,
		       const struct out_regions_opt *opt)
{
	char perms[5];
	jsonw_object(json, NULL);
	jsonw_u64(json, "start", opt->no_addresses ? 0 : r->start);
	jsonw_u64(json, "end", opt->no_addresses ? r->end - r->start : r->end);
	jsonw_str(json, "perms", region_perms(r, perms));
	jsonw_u64(json, "offset", r->offset);
	jsonw_u64(json, "rss_bytes", r->rss_bytes);
	number(json, "pss_bytes", r->pss_bytes, b->full);
	number(json, "private_bytes", region_private_bytes(r), b->full);
	number(json, "shared_bytes", region_shared_bytes(r), b->full);
	jsonw_u64(json, "swap_bytes", r->swap_bytes);
	jsonw_str(json, "name", r->name);
	jsonw_str(json, "class", region_class_name(r->class));
	jsonw_str(json, "label", r->label);
	jsonw_str(json, "owner", r->owner);
	jsonw_str(json, "how", region_how_name(r->how));
	if (opt->all) {
		char flags[REGION_FLAGS_TEXT];
		jsonw_str(json, "flags", b->full ? region_flags_text(r, flags) : NULL);
		number(json, "page_bytes", r->page_bytes, b->full);
		number(json, "swap_pss_bytes", r->swap_pss_bytes, b->full);
		number(json, "pss_dirty_bytes", r->pss_dirty_bytes, b->full);
		jsonw_bool(json, "guessed", r->guessed_rss);
		number(json, "protection_key", r->key, b->full);
		put_numa(json, numa_at(b->numa, r->start));
	}
	number(json, "anonymous_bytes", r->anonymous_bytes, b->full);
	number(json, "hugetlb_bytes", region_hugetlb_bytes(r), b->full);
	number(json, "thp_bytes", r->anon_huge_bytes + r->shmem_huge_bytes + r->file_huge_bytes,
	       b->full);
	number(json, "lazy_free_bytes", r->lazy_free_bytes, b->full);
	number(json, "ksm_bytes", r->ksm_bytes, b->full);
	number(json, "locked_bytes", r->locked_bytes, b->full);
	number(json, "referenced_bytes", r->referenced_bytes, b->full);
	jsonw_object_end(json);
}

static void put_threads(struct jsonw *json, const struct breakdown *b,
			const struct out_regions_opt *opt)
{
	jsonw_array(json, "threads");
	for (size_t i = 0; i < b->thread_count; i++) {
		const struct thread_stack *t = &b->threads[i];
		int found = t->stack_end > t->stack_start;
		jsonw_object(json, NULL);
		jsonw_i64(json, "tid", t->tid);
		jsonw_str(json, "name", t->name);
		number(json, "stack_start", opt->no_addresses ? 0 : t->stack_start, found);
		number(json, "stack_end",
		       opt->no_addresses ? t->stack_end - t->stack_start : t->stack_end, found);
		number(json, "used_bytes", t->stack_end - t->stack_pointer,
		       found && t->stack_pointer >= t->stack_start &&
			       t->stack_pointer < t->stack_end);
		number(json, "rss_bytes", t->rss_bytes, found);
		jsonw_str(json, "how", found ? region_how_name(t->how) : NULL);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

static void put_allocators(struct jsonw *json, const struct breakdown *b)
{
	jsonw_array(json, "allocators");
	for (size_t i = 0; i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		jsonw_object(json, NULL);
		jsonw_str(json, "allocator", a->allocator);
		known(json, "live_bytes", a->live_bytes);
		known(json, "free_page_bytes", a->free_page_bytes);
		known(json, "hole_bytes", a->hole_bytes);
		known(json, "cache_bytes", a->cache_bytes);
		known(json, "metadata_bytes", a->metadata_bytes);
		jsonw_double(json, "consistency", a->consistency);
		known(json, "reserved_bytes", a->reserved_bytes);
		known(json, "resident_bytes", a->resident_bytes);
		known(json, "live_count", a->live_count);
		jsonw_bool(json, "exact", a->exact);
		if (a->paced) {
			jsonw_i64(json, "gc_percent", a->gc_percent);
			known(json, "goal_bytes", a->goal_bytes);
			known(json, "idle_bytes", a->idle_bytes);
			known(json, "released_bytes", a->released_bytes);
		}
		jsonw_str(json, "how", a->how);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

static void put_cgroup(struct jsonw *json, const struct cgroup_memory *m)
{
	jsonw_object(json, "cgroup");
	jsonw_i64(json, "version", m->version);
	jsonw_str(json, "path", m->path);
	known(json, "current_bytes", m->current_bytes);
	known(json, "limit_bytes", m->limit_bytes);
	known(json, "peak_bytes", m->peak_bytes);
	known(json, "working_set_bytes", cgroup_working_set(m));
	known(json, "swap_bytes", m->swap_bytes);
	known(json, "anon_bytes", m->anon_bytes);
	known(json, "page_cache_bytes", m->file_bytes);
	known(json, "page_cache_inactive_bytes", m->inactive_file_bytes);
	known(json, "page_cache_active_bytes", m->active_file_bytes);
	known(json, "page_cache_mapped_bytes", m->file_mapped_bytes);
	known(json, "page_cache_reclaimable_bytes", cgroup_cache_reclaimable(m));
	known(json, "page_cache_held_bytes", cgroup_cache_held(m));
	known(json, "page_cache_dirty_bytes", m->dirty_bytes);
	known(json, "unevictable_bytes", m->unevictable_bytes);
	known(json, "shmem_bytes", m->shmem_bytes);
	known(json, "kernel_bytes", m->kernel_bytes);
	known(json, "page_table_bytes", m->page_table_bytes);
	known(json, "slab_reclaimable_bytes", m->slab_reclaimable_bytes);
	known(json, "slab_unreclaimable_bytes", m->slab_unreclaimable_bytes);
	known(json, "socket_bytes", m->socket_bytes);
	known(json, "kernel_stack_bytes", m->kernel_stack_bytes);
	known(json, "percpu_bytes", m->percpu_bytes);
	known(json, "oom_kills", m->oom_kills);
	if (m->pressure_some >= 0) {
		jsonw_double(json, "pressure_some_percent", m->pressure_some);
		jsonw_double(json, "pressure_full_percent", m->pressure_full);
		jsonw_bool(json, "pressure_of_machine", m->pressure_of_machine);
	}
	jsonw_object_end(json);
}

static void put_verdict(struct jsonw *json, const struct verdict *v)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	verdict_sentence(&text, v, 0);
	jsonw_object(json, "verdict");
	jsonw_u64(json, "live_bytes", v->live);
	jsonw_u64(json, "free_page_bytes", v->free_pages);
	jsonw_u64(json, "hole_bytes", v->holes);
	jsonw_u64(json, "cache_bytes", v->caches);
	jsonw_u64(json, "metadata_bytes", v->metadata);
	jsonw_u64(json, "heap_not_split_bytes", v->unread);
	jsonw_u64(json, "file_bytes", v->files);
	jsonw_u64(json, "variable_bytes", v->data);
	jsonw_u64(json, "stack_bytes", v->stacks);
	jsonw_u64(json, "shared_bytes", v->shared);
	jsonw_u64(json, "named_bytes", v->named);
	jsonw_u64(json, "anonymous_bytes", v->anonymous);
	jsonw_u64(json, "byteledger_bytes", v->own);
	jsonw_u64(json, "other_bytes", v->rest);
	jsonw_object_end(json);
	jsonw_array(json, "verdict_sentences");
	for (char *line = text.len ? (char *)(uintptr_t)buf_cstr(&text) : NULL, *next; line;
	     line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		jsonw_str(json, NULL, line);
	}
	jsonw_array_end(json);
}

static void put_beside(struct jsonw *json, const struct beside *s)
{
	jsonw_object(json, "beside");
	known(json, "page_table_bytes", s->page_table_bytes);
	known(json, "locked_bytes", s->locked_bytes);
	known(json, "pinned_bytes", s->pinned_bytes);
	jsonw_u64(json, "oom_bytes", s->oom_bytes);
	number(json, "oom_score", (uint64_t)s->oom_score, s->oom_score >= 0);
	known(json, "socket_bytes", s->socket_bytes);
	known(json, "sockets", s->sockets);
	jsonw_u64(json, "mappings", s->mappings);
	known(json, "mappings_max", s->mappings_max);
	number(json, "unmapped_file_bytes", s->held_bytes, s->held_known);
	number(json, "unmapped_files", s->held_count, s->held_known);
	jsonw_str(json, "unmapped_file_largest", s->held_count ? s->held_name : NULL);
	put_cgroup(json, &s->cgroup);
	jsonw_object_end(json);
}

/* What a quick one has not. */
static void put_ledger_parts(struct jsonw *json, const struct ledger *l,
			     const struct ledger_row *sum)
{
	known(json, "socket_bytes", sum->socket_bytes);
	jsonw_array(json, "classes");
	for (size_t i = 0; i < l->class_count; i++) {
		const struct ledger_class *r = &l->classes[i];
		jsonw_object(json, NULL);
		jsonw_str(json, "class", region_class_name(r->class));
		jsonw_str(json, "label", r->label);
		jsonw_u64(json, "pss_bytes", r->pss_bytes);
		jsonw_u64(json, "rss_bytes", r->rss_bytes);
		jsonw_u64(json, "swap_bytes", r->swap_bytes);
		jsonw_u64(json, "count", r->count);
		jsonw_u64(json, "processes", r->processes);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_u64(json, "unmapped_file_bytes", l->held_bytes);
	jsonw_u64(json, "unmapped_files", l->held_count);
	jsonw_array(json, "held");
	for (size_t i = 0; i < l->held_listed; i++) {
		jsonw_object(json, NULL);
		jsonw_str(json, "name", l->held[i].name);
		jsonw_u64(json, "bytes", l->held[i].bytes);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

int out_ledger_json(struct jsonw *json, const struct ledger *l, const char *title, struct err *err)
{
	struct ledger_row sum = ledger_sums(l);
	jsonw_object(json, NULL);
	jsonw_str(json, "title", title);
	jsonw_u64(json, "time_ns", clock_ns(CLOCK_REALTIME));
	jsonw_array(json, "processes");
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_row *r = &l->rows[i];
		jsonw_object(json, NULL);
		jsonw_i64(json, "pid", r->pid);
		jsonw_str(json, "name", r->comm);
		jsonw_u64(json, "rss_bytes", r->rss_bytes);
		jsonw_u64(json, "pss_bytes", r->pss_bytes);
		jsonw_u64(json, "private_bytes", r->private_bytes);
		jsonw_u64(json, "swap_bytes", r->swap_bytes);
		jsonw_u64(json, "virtual_bytes", r->virtual_bytes);
		known(json, "page_table_bytes", r->page_table_bytes);
		known(json, "oom_bytes", r->oom_bytes);
		number(json, "oom_score", (uint64_t)r->oom_score, r->oom_score >= 0);
		if (l->quick) {
			jsonw_i64(json, "growth_bytes", r->grown_bytes);
		} else {
			known(json, "socket_bytes", r->socket_bytes);
			jsonw_u64(json, "mappings", r->mappings);
			put_verdict(json, &r->verdict);
		}
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_u64(json, "pss_bytes", sum.pss_bytes);
	jsonw_u64(json, "rss_sum_bytes", sum.rss_bytes);
	jsonw_u64(json, "swap_bytes", sum.swap_bytes);
	jsonw_u64(json, "page_table_bytes", sum.page_table_bytes);
	jsonw_u64(json, "unread", l->unread);
	if (!l->quick)
		put_ledger_parts(json, l, &sum);
	if (l->cgroups == 1)
		put_cgroup(json, &l->cgroup);
	else
		jsonw_null(json, "cgroup");
	jsonw_object_end(json);
	return out_failed(json->to, "cannot write JSON", err);
}

int out_regions_json(struct jsonw *json, const char *key, const struct breakdown *b,
		     const struct out_regions_opt *opt, uint64_t age_ns, struct err *err)
{
	const struct region **list = regions_order(b, opt->sort, opt->growth);
	if (!list)
		return err_set(err, -ENOMEM, "cannot write JSON");
	jsonw_object(json, key);
	jsonw_i64(json, "pid", b->pid);
	jsonw_str(json, "name", b->comm);
	jsonw_u64(json, "time_ns", b->time_ns);
	jsonw_u64(json, "rss_bytes", b->rss_bytes);
	number(json, "pss_bytes", b->pss_bytes, b->full);
	jsonw_u64(json, "virtual_bytes", b->virtual_bytes);
	jsonw_u64(json, "reserved_bytes", b->reserved_bytes);
	jsonw_u64(json, "swap_bytes", b->swap_bytes);
	number(json, "hugetlb_bytes", b->full ? b->hugetlb_bytes : b->totals.hugetlb_bytes,
	       b->full || b->totals.hugetlb_bytes != UINT64_MAX);
	jsonw_u64(json, "own_rss_bytes", b->own_rss_bytes);
	known(json, "page_table_bytes", b->totals.page_table_bytes);
	jsonw_u64(json, "mappings", b->region_total);
	struct verdict verdict = verdict_of(b);
	put_verdict(json, &verdict);
	if (b->beside)
		put_beside(json, b->beside);
	put_classes(json, b, opt->growth);
	jsonw_array(json, "regions");
	size_t limit = opt->all ? b->region_count : opt->top;
	for (size_t i = 0; i < b->region_count && i < limit; i++)
		put_region(json, b, list[i], opt);
	jsonw_array_end(json);
	free(list);
	put_threads(json, b, opt);
	put_allocators(json, b);
	jsonw_array(json, "settings");
	for (size_t i = 0; b->settings && i < b->settings->count; i++) {
		jsonw_object(json, NULL);
		jsonw_str(json, "name", b->settings->rows[i].name);
		jsonw_str(json, "value", b->settings->rows[i].value);
		jsonw_str(json, "from", b->settings->rows[i].from);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_object(json, "checks");
	number(json, "smaps_rss_bytes", b->rss_bytes, b->full);
	known(json, "rollup_rss_bytes", b->rollup_rss_bytes);
	known(json, "status_rss_bytes", b->totals.rss_bytes);
	jsonw_object_end(json);
	jsonw_object(json, "unknown_fields"); /* of smaps: those that this version does not name */
	for (unsigned i = 0; i < b->reading.unknown_count; i++)
		jsonw_u64(json, b->reading.unknown[i].key, b->reading.unknown[i].bytes);
	jsonw_object_end(json);
	jsonw_str(json, "source", b->full ? "smaps" : b->reading.pages);
	jsonw_u64(json, "age_ns", age_ns);
	/*
	 * the reading of allocators that labels rest on is older where mappings are looked at more
	 * often
	 */
	number(json, "labels_age_ns",
	       age_ns + (b->end_ns > b->named_ns ? b->end_ns - b->named_ns : 0), b->named_ns != 0);
	jsonw_u64(json, "stall_ns", b->reading.stall_ns);
	jsonw_object_end(json);
	return out_failed(json->to, "cannot write JSON", err);
}

static void put_csv_row(struct buf *line, const struct breakdown *b, const struct region *r,
			int no_addresses)
{
	char perms[5];
	buf_printf(line, "%d,%" PRIu64 ",%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64, (int)b->pid,
		   no_addresses ? 0 : r->start, no_addresses ? r->end - r->start : r->end,
		   region_perms(r, perms), r->offset, r->rss_bytes);
	if (b->full)
		buf_printf(line, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, r->pss_bytes,
			   region_private_bytes(r), region_shared_bytes(r));
	else
		buf_puts(line, ",,,");
	buf_printf(line, ",%" PRIu64 ",%" PRIu64, r->swap_bytes, region_hugetlb_bytes(r));
	csv_field(line, r->name);
	csv_field(line, region_class_name(r->class));
	csv_field(line, r->label);
	csv_field(line, r->owner);
	csv_field(line, region_how_name(r->how));
	buf_puts(line, "\r\n");
}

int out_regions_csv(FILE *to, const struct breakdown *b, const struct out_regions_opt *opt,
		    int header, struct err *err)
{
	const struct region **list = regions_order(b, opt->sort, opt->growth);
	if (!list)
		return err_set(err, -ENOMEM, "cannot write CSV");
	if (header)
		fputs("pid,start,end,perms,offset,rss_bytes,pss_bytes,private_bytes,shared_bytes,"
		      "swap_bytes,hugetlb_bytes,name,class,label,owner,how\r\n",
		      to);
	size_t limit = opt->all ? b->region_count : opt->top;
	CLEANUP(buf_fini) struct buf line = { 0 };
	for (size_t i = 0; i < b->region_count && i < limit && !buf_failed(&line); i++) {
		buf_clear(&line);
		put_csv_row(&line, b, list[i], opt->no_addresses);
		fwrite(buf_cstr(&line), 1, line.len, to);
	}
	free(list);
	if (buf_failed(&line))
		return err_set(err, -ENOMEM, "cannot write CSV");
	return out_failed(to, "cannot write CSV", err);
}

int out_regions_file(const struct breakdown *b, const char *comm, char **made, struct err *err)
{
	char path[160], name[32];
	struct out_regions_opt opt = { .all = 1 };
	struct jsonw json;
	snprintf(name, sizeof(name), "%s", comm);
	for (char *c = name; *c; c++)
		*c = *c == '/' || (unsigned char)*c < 32 || *c == 127 ? '_' : *c;
	snprintf(path, sizeof(path), "byteledger_%s_%d.json", name, (int)b->pid);
	FILE *to = outfile_create(path, made, err);
	if (!to)
		return err->code;
	jsonw_init(&json, to);
	int rc = out_regions_json(&json, NULL, b, &opt, 0, err);
	jsonw_line(&json);
	if (fclose(to) != 0 && rc == 0)
		rc = err_set(err, -errno, "cannot write '%s'", *made);
	return rc;
}
