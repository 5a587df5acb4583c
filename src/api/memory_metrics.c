/* SPDX-License-Identifier: Apache-2.0 */
/* memory_metrics.c - a scrape serves the last sample: nothing is read for it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/memory.h"
#include "out/metrics.h"

/** Everything that one scrape tells of one process. */
struct scrape {
	struct memory_facts facts;
	struct memory_shot quick, full;
	int has_quick, has_full;
	char pid[16];
	struct memory_trends trends;
};

static void family(struct buf *out, const char *name, const char *unit, const char *type,
		   const char *help)
{
	metric_family(out, name, type, help);
	if (unit)
		buf_printf(out, "# UNIT %s %s\n", name, unit);
}

static void begin(struct buf *out, const char *name, const struct scrape *s)
{
	metric_begin(out, name);
	metric_label(out, "pid", s->pid);
	metric_label(out, "comm", s->facts.comm);
}

static void row(struct buf *out, const char *name, const struct scrape *s, const char *key,
		const char *word, uint64_t value)
{
	begin(out, name, s);
	if (key)
		metric_label(out, key, word);
	metric_u64(out, value);
}

/* ---- by label -------------------------------------------------------------------------------- */

static void label_row(struct buf *out, const char *name, const struct scrape *s, const char *class,
		      const char *label, uint64_t value)
{
	begin(out, name, s);
	metric_label(out, "class", class);
	metric_label(out, "label", label);
	metric_u64(out, value);
}

/* Rows stand in order of size. */
static void put_labels(struct buf *out, const char *name, const struct scrape *s,
		       const struct breakdown *b, int pss)
{
	uint64_t other = 0;
	for (size_t i = 0; i < b->class_count; i++) {
		const struct class_row *r = &b->classes[i];
		uint64_t value = pss ? r->pss_bytes : r->rss_bytes;
		if (i < MEMORY_METRIC_LABELS_MAX)
			label_row(out, name, s, region_class_name(r->class), r->label, value);
		else
			other += value;
	}
	if (b->class_count > MEMORY_METRIC_LABELS_MAX)
		label_row(out, name, s, "other", "other", other);
}

enum column { VIRTUAL, SWAP, COUNT };

static void put_classes(struct buf *out, const char *name, const struct scrape *s,
			enum column column)
{
	const struct breakdown *b = s->quick.breakdown;
	uint64_t sums[REGION_CLASS_COUNT] = { 0 };
	int present[REGION_CLASS_COUNT] = { 0 };
	for (size_t i = 0; i < b->class_count; i++) {
		const struct class_row *r = &b->classes[i];
		if (r->class >= REGION_CLASS_COUNT)
			continue;
		present[r->class] = 1;
		sums[r->class] += column == VIRTUAL ? r->virtual_bytes
				  : column == SWAP  ? r->swap_bytes
						    : r->count;
	}
	for (unsigned c = 0; c < REGION_CLASS_COUNT; c++) {
		if (present[c])
			row(out, name, s, "class", region_class_name(c), sums[c]);
	}
}

/* ---- families -------------------------------------------------------------------------------- */

typedef void (*put_fn)(struct buf *out, const char *name, const struct scrape *s);

static void put_resident(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_quick)
		put_labels(out, name, s, s->quick.breakdown, 0);
}

static void put_proportional(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_full)
		put_labels(out, name, s, s->full.breakdown, 1);
}

static void put_virtual(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_quick)
		put_classes(out, name, s, VIRTUAL);
}

static void put_swap(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_quick)
		put_classes(out, name, s, SWAP);
}

static void put_regions(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_quick)
		put_classes(out, name, s, COUNT);
}

static void put_reserved(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_quick)
		row(out, name, s, NULL, NULL, s->quick.breakdown->reserved_bytes);
}

static void put_hugepages(struct buf *out, const char *name, const struct scrape *s)
{
	uint64_t thp = 0;
	for (size_t i = 0; s->has_full && i < s->full.breakdown->class_count; i++)
		thp += s->full.breakdown->classes[i].thp_bytes;
	if (s->has_full)
		row(out, name, s, "kind", "thp", thp);
	if (s->facts.totals.hugetlb_bytes != UINT64_MAX)
		row(out, name, s, "kind", "hugetlb", s->facts.totals.hugetlb_bytes);
}

enum allocator_column { LIVE, FREE, METADATA };

static void put_allocators(struct buf *out, const char *name, const struct scrape *s,
			   enum allocator_column column)
{
	/*
	 * a watcher's look carries the figures of the last reading of allocators; so does a full
	 * one, but it may be older
	 */
	const struct breakdown *b = s->has_quick && s->quick.breakdown->named_ns
					    ? s->quick.breakdown
				    : s->has_full ? s->full.breakdown
						  : NULL;
	for (size_t i = 0; b && i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		const struct {
			const char *kind;
			uint64_t bytes;
		} parts[] = { { "page", a->free_page_bytes },
			      { "hole", a->hole_bytes },
			      { "cache", a->cache_bytes } };
		for (size_t k = 0; column == FREE && k < ARRAY_LEN(parts); k++) {
			if (parts[k].bytes == UINT64_MAX) /* not known */
				continue;
			begin(out, name, s);
			metric_label(out, "allocator", a->allocator);
			metric_label(out, "kind", parts[k].kind);
			metric_u64(out, parts[k].bytes);
		}
		uint64_t value = column == LIVE ? a->live_bytes : a->metadata_bytes;
		if (column != FREE && value != UINT64_MAX)
			row(out, name, s, "allocator", a->allocator, value);
	}
}

static void put_live(struct buf *out, const char *name, const struct scrape *s)
{
	put_allocators(out, name, s, LIVE);
}

static void put_free(struct buf *out, const char *name, const struct scrape *s)
{
	put_allocators(out, name, s, FREE);
}

static void put_metadata(struct buf *out, const char *name, const struct scrape *s)
{
	put_allocators(out, name, s, METADATA);
}

static void put_stacks(struct buf *out, const char *name, const struct scrape *s)
{
	uint64_t resident = 0, reserved = 0;
	for (size_t i = 0; s->has_quick && i < s->quick.breakdown->thread_count; i++) {
		const struct thread_stack *t = &s->quick.breakdown->threads[i];
		resident += t->rss_bytes;
		reserved += t->stack_end - t->stack_start;
	}
	if (s->has_quick) {
		row(out, name, s, "state", "resident", resident);
		row(out, name, s, "state", "reserved", reserved);
	}
}

static void put_page_tables(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->facts.totals.page_table_bytes != UINT64_MAX)
		row(out, name, s, NULL, NULL, s->facts.totals.page_table_bytes);
}

static void put_labels_age(struct buf *out, const char *name, const struct scrape *s)
{
	if (!s->has_quick || !s->quick.breakdown->named_ns)
		return;
	const struct breakdown *b = s->quick.breakdown;
	uint64_t before = b->end_ns > b->named_ns ? b->end_ns - b->named_ns : 0;
	begin(out, name, s);
	metric_double(out, (double)(s->quick.age_ns + before) / 1e9);
}

static void put_pss(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->has_full)
		row(out, name, s, NULL, NULL, s->full.breakdown->pss_bytes);
	else if (s->facts.pss_bytes != UINT64_MAX && s->facts.pss_bytes)
		row(out, name, s, NULL, NULL, s->facts.pss_bytes);
}

static void put_mappings(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->facts.mappings)
		row(out, name, s, NULL, NULL, s->facts.mappings);
}

static void put_mappings_max(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->facts.mappings_max && s->facts.mappings_max != UINT64_MAX)
		row(out, name, s, NULL, NULL, s->facts.mappings_max);
}

static void put_oom(struct buf *out, const char *name, const struct scrape *s)
{
	const struct proc_totals *t = &s->facts.totals;
	if (t->rss_bytes != UINT64_MAX && t->swap_bytes != UINT64_MAX &&
	    t->page_table_bytes != UINT64_MAX)
		row(out, name, s, NULL, NULL, t->rss_bytes + t->swap_bytes + t->page_table_bytes);
}

static void put_unmapped(struct buf *out, const char *name, const struct scrape *s)
{
	const struct beside *beside = s->has_full ? s->full.breakdown->beside : NULL;
	if (beside && beside->held_known)
		row(out, name, s, NULL, NULL, beside->held_bytes);
}

static void put_limit(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->facts.limit_bytes)
		row(out, name, s, NULL, NULL, s->facts.limit_bytes);
}

static void put_cgroup(struct buf *out, const char *name, const struct scrape *s)
{
	const struct cgroup_memory *m = &s->facts.cgroup;
	const struct {
		const char *kind;
		uint64_t bytes;
	} parts[] = { { "current", m->current_bytes },
		      { "working_set", cgroup_working_set(m) },
		      { "anon", m->anon_bytes },
		      { "page_cache", m->file_bytes },
		      { "page_cache_inactive", m->inactive_file_bytes },
		      { "page_cache_reclaimable", cgroup_cache_reclaimable(m) },
		      { "page_cache_held", cgroup_cache_held(m) },
		      { "page_cache_dirty", m->dirty_bytes },
		      { "peak", m->peak_bytes },
		      { "shmem", m->shmem_bytes },
		      { "page_tables", m->page_table_bytes },
		      { "slab_reclaimable", m->slab_reclaimable_bytes },
		      { "slab_unreclaimable", m->slab_unreclaimable_bytes },
		      { "sockets", m->socket_bytes },
		      { "kernel_stacks", m->kernel_stack_bytes },
		      { "kernel", m->kernel_bytes },
		      { "swap", m->swap_bytes } };
	for (size_t i = 0; m->version && i < ARRAY_LEN(parts); i++)
		if (parts[i].bytes != UINT64_MAX)
			row(out, name, s, "kind", parts[i].kind, parts[i].bytes);
}

static void put_pressure(struct buf *out, const char *name, const struct scrape *s)
{
	const struct cgroup_memory *m = &s->facts.cgroup;
	if (!m->version || m->pressure_some < 0)
		return;
	begin(out, name, s);
	metric_label(out, "kind", "some");
	metric_double(out, m->pressure_some / 100);
	begin(out, name, s);
	metric_label(out, "kind", "full");
	metric_double(out, m->pressure_full / 100);
}

static void put_oom_kills(struct buf *out, const char *name, const struct scrape *s)
{
	const struct cgroup_memory *m = &s->facts.cgroup;
	if (m->version && m->oom_kills != UINT64_MAX)
		row(out, name, s, NULL, NULL, m->oom_kills);
}

static void put_sockets(struct buf *out, const char *name, const struct scrape *s)
{
	const struct beside *beside = s->has_full ? s->full.breakdown->beside : NULL;
	if (beside && beside->socket_bytes != UINT64_MAX)
		row(out, name, s, NULL, NULL, beside->socket_bytes);
}

static void put_unattributed(struct buf *out, const char *name, const struct scrape *s)
{
	if (!s->has_quick)
		return;
	const struct breakdown *b = s->quick.breakdown;
	begin(out, name, s);
	metric_double(out, (double)b->totals.rss_bytes - (double)b->rss_bytes);
}

static void put_growth(struct buf *out, const char *name, const struct scrape *s)
{
	for (size_t i = 0; i < s->trends.count; i++) {
		const struct memory_trend *t = &s->trends.rows[i];
		int trend = t->growth.verdict == GROWTH_GROWING ||
			    t->growth.verdict == GROWTH_SHRINKING;
		begin(out, name, s);
		metric_label(out, "class", i ? t->key.class : "process");
		metric_label(out, "label", i ? t->key.label : "process");
		metric_double(out, trend ? t->growth.bytes_per_second : 0);
	}
}

static void put_eta(struct buf *out, const char *name, const struct scrape *s)
{
	if (!s->facts.limit_bytes || !s->trends.count)
		return;
	double eta = view_growth_eta(&s->trends.rows[0].growth, s->facts.limit_bytes);
	begin(out, name, s);
	if (isfinite(eta)) {
		metric_double(out, eta);
		return;
	}
	/* "%g" would say inf, the format wants +Inf */
	buf_puts(out, "} +Inf\n");
}

static void put_scrape(struct buf *out, const char *name, const struct scrape *s)
{
	begin(out, name, s);
	metric_label(out, "source", "mappings");
	metric_double(out, (double)s->facts.reading_ns / 1e9);
	if (!s->has_full)
		return;
	begin(out, name, s);
	metric_label(out, "source", "smaps");
	metric_double(out, (double)s->full.breakdown->reading.total_ns / 1e9);
}

static void put_period(struct buf *out, const char *name, const struct scrape *s)
{
	begin(out, name, s);
	metric_double(out, (double)s->facts.period_ns / 1e9);
}

static void put_cpu(struct buf *out, const char *name, const struct scrape *s)
{
	begin(out, name, s);
	metric_double(out, s->facts.cpu_share);
}

static void put_age(struct buf *out, const char *name, const struct scrape *s)
{
	if (!s->has_full)
		return;
	begin(out, name, s);
	metric_double(out, (double)s->full.age_ns / 1e9);
}

static void put_alerts(struct buf *out, const char *name, const struct scrape *s)
{
	row(out, name, s, NULL, NULL, s->facts.alerts);
}

static void put_stalls(struct buf *out, const char *name, const struct scrape *s)
{
	char part[96], bound[32];
	uint64_t sum = 0;
	snprintf(part, sizeof(part), "%s_bucket", name);
	for (unsigned i = 0; i <= MEMORY_STALL_BUCKETS; i++) {
		sum += s->facts.stalls[i];
		if (i < MEMORY_STALL_BUCKETS)
			snprintf(bound, sizeof(bound), "%g", memory_stall_bounds[i]);
		row(out, part, s, "le", i < MEMORY_STALL_BUCKETS ? bound : "+Inf", sum);
	}
	snprintf(part, sizeof(part), "%s_sum", name);
	begin(out, part, s);
	metric_double(out, s->facts.stall_sum_seconds);
	snprintf(part, sizeof(part), "%s_count", name);
	row(out, part, s, NULL, NULL, sum);
}

static void put_rss(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->facts.totals.rss_bytes != UINT64_MAX)
		row(out, name, s, NULL, NULL, s->facts.totals.rss_bytes);
}

static void put_vsize(struct buf *out, const char *name, const struct scrape *s)
{
	if (s->facts.totals.virtual_bytes != UINT64_MAX)
		row(out, name, s, NULL, NULL, s->facts.totals.virtual_bytes);
}

static void put_up(struct buf *out, const char *name, const struct scrape *s)
{
	row(out, name, s, NULL, NULL, !s->facts.ended);
}

static const struct {
	const char *name, *unit, *type, *help;
	put_fn put;
} families[] = {
	{ "byteledger_target_up", NULL, "gauge", "1 while the process runs.", put_up },
	{ "process_resident_memory_bytes", "bytes", "gauge", "Resident memory size in bytes.",
	  put_rss },
	{ "process_virtual_memory_bytes", "bytes", "gauge", "Virtual memory size in bytes.",
	  put_vsize },
	{ "byteledger_resident_bytes", "bytes", "gauge", "Resident memory by what it is.",
	  put_resident },
	{ "byteledger_proportional_bytes", "bytes", "gauge",
	  "Proportional set size by what it is, as of the last full reading.", put_proportional },
	{ "byteledger_smaps_age_seconds", "seconds", "gauge", "Age of the last full reading.",
	  put_age },
	{ "byteledger_virtual_bytes", "bytes", "gauge", "Address space by class.", put_virtual },
	{ "byteledger_reserved_bytes", "bytes", "gauge", "Address space that may not be accessed.",
	  put_reserved },
	{ "byteledger_swap_bytes", "bytes", "gauge", "Swapped out memory by class.", put_swap },
	{ "byteledger_hugepage_bytes", "bytes", "gauge", "Memory in huge pages.", put_hugepages },
	{ "byteledger_regions", NULL, "gauge", "Number of mappings by class.", put_regions },
	{ "byteledger_allocator_live_bytes", "bytes", "gauge",
	  "Handed out, as of the last full reading.", put_live },
	{ "byteledger_allocator_free_resident_bytes", "bytes", "gauge",
	  "Free though resident: whole pages, holes in pages, caches.", put_free },
	{ "byteledger_allocator_metadata_bytes", "bytes", "gauge",
	  "The allocator's own bookkeeping.", put_metadata },
	{ "byteledger_thread_stack_bytes", "bytes", "gauge", "Stacks of live threads.",
	  put_stacks },
	{ "byteledger_page_table_bytes", "bytes", "gauge", "Page tables of the process.",
	  put_page_tables },
	{ "byteledger_labels_age_seconds", "seconds", "gauge",
	  "Age of the reading of allocators that labels and allocator figures rest on.",
	  put_labels_age },
	{ "byteledger_pss_bytes", "bytes", "gauge",
	  "Proportional set size, as of the last time it was read.", put_pss },
	{ "byteledger_mappings", NULL, "gauge", "Mappings of the process.", put_mappings },
	{ "byteledger_mappings_max", NULL, "gauge", "Mappings that a process may have.",
	  put_mappings_max },
	{ "byteledger_oom_bytes", "bytes", "gauge",
	  "What the OOM killer counts: RSS, swap and page tables.", put_oom },
	{ "byteledger_unmapped_file_bytes", "bytes", "gauge",
	  "Memfds and deleted files that are open and not mapped, as of the last full reading.",
	  put_unmapped },
	{ "byteledger_limit_bytes", "bytes", "gauge",
	  "The lowest memory limit of the cgroup, or the machine's memory.", put_limit },
	{ "byteledger_cgroup_bytes", "bytes", "gauge", "What the process's cgroup is charged for.",
	  put_cgroup },
	{ "byteledger_cgroup_pressure_ratio", NULL, "gauge",
	  "Share of the last ten seconds in which some task, or all, waited for memory.",
	  put_pressure },
	{ "byteledger_cgroup_oom_kills_total", NULL, "counter",
	  "Processes of the cgroup that the OOM killer ended.", put_oom_kills },
	{ "byteledger_socket_buffer_bytes", "bytes", "gauge",
	  "Buffers of the process's sockets, as of the last full reading.", put_sockets },
	{ "byteledger_unattributed_bytes", "bytes", "gauge",
	  "The kernel's RSS less the sum of all classes (its counters lag).", put_unattributed },
	{ "byteledger_growth_bytes_per_second", NULL, "gauge",
	  "Trend of the last ten minutes, 0 unless it is certain.", put_growth },
	{ "byteledger_limit_eta_seconds", "seconds", "gauge",
	  "Time until the memory limit is reached at this rate.", put_eta },
	{ "byteledger_alerts_total", NULL, "counter", "Alert rules that were met.", put_alerts },
	{ "byteledger_scrape_duration_seconds", "seconds", "gauge",
	  "Time that the last reading took.", put_scrape },
	{ "byteledger_reading_period_seconds", "seconds", "gauge",
	  "Time between readings of the mappings now.", put_period },
	{ "byteledger_reading_cpu_share", NULL, "gauge", "Share of one CPU that watching takes.",
	  put_cpu },
	{ "byteledger_target_stall_seconds", "seconds", "histogram",
	  "Longest system call of a reading, which the process's mmap() may have to wait for.",
	  put_stalls },
};

void memory_metrics_put(const struct memory_source *source, struct buf *out)
{
	struct memory_facts *facts = calloc(MEMORY_TARGETS_MAX, sizeof(*facts));
	size_t count = facts ? source->facts(source->ctx, facts) : 0;
	struct scrape *scrapes = calloc(count ? count : 1, sizeof(*scrapes));
	count = scrapes ? count : 0;
	struct err ignored = { 0 };
	for (size_t i = 0; i < count; i++) {
		struct scrape *s = &scrapes[i];
		s->facts = facts[i];
		snprintf(s->pid, sizeof(s->pid), "%d", (int)facts[i].pid);
		s->has_quick = source->get(source->ctx, facts[i].pid, 0, &s->quick, &ignored) == 0;
		s->has_full = source->peek(source->ctx, facts[i].pid, &s->full) == 0;
		if (memory_trends_get(source->cache, &facts[i], &s->trends) < 0)
			s->trends.count = 0; /* no memory: absent is not zero */
	}
	for (size_t f = 0; f < ARRAY_LEN(families); f++) {
		family(out, families[f].name, families[f].unit, families[f].type, families[f].help);
		for (size_t i = 0; i < count; i++)
			families[f].put(out, families[f].name, &scrapes[i]);
	}
	for (size_t i = 0; i < count; i++) {
		if (scrapes[i].has_quick)
			source->put(source->ctx, &scrapes[i].quick);
		if (scrapes[i].has_full)
			source->put(source->ctx, &scrapes[i].full);
	}
	free(facts);
	free(scrapes);
}

void memory_metrics(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)request;
	reply->content_type = METRICS_CONTENT_TYPE;
	memory_metrics_put(ctx, &reply->body);
}
