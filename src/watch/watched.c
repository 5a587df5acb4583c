/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watched.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "heaps/heaps.h"
#include "proc/beside.h"
#include "proc/owned.h"
#include "proc/settings.h"
#include "source/heapfiles.h"
#include "source/threadfacts.h"

const double memory_stall_bounds[MEMORY_STALL_BUCKETS] = { 0.0001, 0.0005, 0.001, 0.005,
							   0.01,   0.05,   0.1,   0.5 };

#define NAMES_BUDGET 0.001       /* of one CPU, for reading allocators at the usual pace */
#define NAMES_HURRY_BUDGET 0.004 /* where much is there that has no name yet */
#define NAMES_HURRY_BYTES (4ull << 20)
#define PSS_BUDGET 0.001

/* ---- names of allocators --------------------------------------------------------------------- */

static uint64_t unnamed(const struct breakdown *b)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < b->class_count; i++)
		bytes += b->classes[i].class == REGION_ANONYMOUS ? b->classes[i].rss_bytes : 0;
	return bytes;
}

/* @b's names become those by which later readings are called. */
static void keep_names(struct watched *w, struct breakdown *b)
{
	struct allocator_reading *copy = calloc(b->allocator_count + 1, sizeof(*copy));
	if (!copy)
		return; /* the older ones go on */
	if (b->allocator_count)
		memcpy(copy, b->allocators, b->allocator_count * sizeof(*copy));
	pthread_mutex_lock(&w->lock);
	struct owned *old = w->owned;
	struct allocator_reading *old_allocators = w->allocators;
	w->owned = b->owned;
	w->allocators = copy;
	w->allocator_count = b->allocator_count;
	pthread_mutex_unlock(&w->lock);
	b->owned = NULL;
	free(old_allocators);
	if (old)
		owned_fini(old);
	free(old);
}

static int use_names(struct watched *w, struct breakdown *b, struct err *err)
{
	pthread_mutex_lock(&w->lock);
	int rc = owned_apply(w->owned, b, watch_target(w->watch), err);
	b->allocators = calloc(w->allocator_count + 1, sizeof(*b->allocators));
	if (b->allocators) {
		memcpy(b->allocators, w->allocators, w->allocator_count * sizeof(*b->allocators));
		b->allocator_count = w->allocator_count;
	}
	b->named_ns = w->owned->read_ns;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/*
 * A look counts pages; whose they are the allocators' books tell, and reading those costs more. So
 * it is done now and then, and what it told names the mappings of the looks between.
 */
static int name_mappings(struct watched *w, struct breakdown *b, struct err *err)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int rc = 0;
	if (w->owned && now < w->owned_due_ns) {
		rc = use_names(w, b, err);
		uint64_t without = unnamed(b),
			 news = without > w->unnamed_bytes ? without - w->unnamed_bytes : 0;
		if (rc < 0 || now < w->owned_hurry_ns || news < NAMES_HURRY_BYTES ||
		    news < b->rss_bytes / 20)
			return rc;
		free(b->allocators);
		b->allocators = NULL;
		b->allocator_count = 0;
	}
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	b->files = &heapfiles;
	rc = heaps_read(b, watch_target(w->watch), err);
	if (rc < 0)
		return rc;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	w->unnamed_bytes = unnamed(b);
	w->owned_due_ns = now + watch_period(cpu, 0, 0, NAMES_BUDGET);
	w->owned_hurry_ns = now + watch_period(cpu, 0, 0, NAMES_HURRY_BUDGET);
	keep_names(w, b);
	return 0;
}

/* ---- shots ----------------------------------------------------------------------------------- */

void shot_put(struct shot *shot)
{
	if (shot && atomic_fetch_sub(&shot->refs, 1) == 1) {
		breakdown_free(shot->breakdown);
		free(shot);
	}
}

/* Takes @breakdown; NULL without memory. */
static struct shot *shot_new(struct breakdown *breakdown)
{
	struct shot *shot = malloc(sizeof(*shot));
	if (!shot) {
		breakdown_free(breakdown);
		return NULL;
	}
	atomic_init(&shot->refs, 1);
	shot->breakdown = breakdown;
	return shot;
}

static struct shot *shot_get(struct shot *shot)
{
	if (shot)
		atomic_fetch_add(&shot->refs, 1);
	return shot;
}

struct shot *watched_shot(struct watched *w, int full)
{
	pthread_mutex_lock(&w->lock);
	struct shot *shot = shot_get(full ? w->full : w->quick);
	pthread_mutex_unlock(&w->lock);
	return shot;
}

static void publish(struct watched *w, struct shot **place, struct shot *shot)
{
	pthread_mutex_lock(&w->lock);
	struct shot *old = *place;
	*place = shot;
	pthread_mutex_unlock(&w->lock);
	shot_put(old);
}

static int fresh(const struct shot *shot)
{
	return shot &&
	       clock_ns(CLOCK_MONOTONIC) - shot->breakdown->end_ns < MEMORY_FULL_SECONDS * NS_PER_S;
}

struct shot *watched_full(struct watched *w, struct err *err)
{
	pthread_mutex_lock(&w->full_lock);
	struct shot *shot = watched_shot(w, 1);
	if (!fresh(shot)) {
		const struct target *target = watch_target(w->watch);
		struct breakdown_opt opt = { .labels_max = 4096, .facts = threadfacts_read };
		struct breakdown *b = breakdown_read(target, &opt, err);
		if (b) {
			b->files = &heapfiles;
			b->settings = calloc(1, sizeof(*b->settings));
		}
		if (b && b->settings)
			settings_read(b->settings, target);
		/* what was read before a process ended stays worth showing, with its age */
		if (b && ((w->names && mapnames_apply(w->names, b, target, err) < 0) ||
			  heaps_read(b, target, err) < 0)) {
			breakdown_free(b);
			b = NULL;
		}
		if (b) {
			b->beside = calloc(1, sizeof(*b->beside));
			if (b->beside)
				beside_read(target, b, 1, b->beside);
			keep_names(w, b);
		}
		struct shot *made = b ? shot_new(b) : NULL;
		if (made) {
			shot_put(shot);
			shot = shot_get(made);
			publish(w, &w->full, made);
		} else if (b) {
			err_set(err, -ENOMEM, "cannot keep a reading of process %d", (int)w->pid);
		}
	}
	pthread_mutex_unlock(&w->full_lock);
	return shot;
}

/* ---- looks ----------------------------------------------------------------------------------- */

int watched_open(struct watched *w, pid_t pid, const struct watched_opt *how,
		 struct history *history, struct err *err)
{
	struct watch_opt opt = { .period_ns = (uint64_t)(how->seconds * 1e9), .names = how->names };
	memset(w, 0, sizeof(*w));
	w->names = how->names;
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->full_lock, NULL);
	w->pid = pid;
	w->pidfd = (int)syscall(SYS_pidfd_open, pid,
				0); /* -1: the end is then seen at the next look */
	w->history = history;
	w->facts.pid = pid;
	int rc = watch_open(pid, &opt, &w->watch, err);
	if (rc < 0)
		return rc;
	w->rules = alert_set_new(how->rules, how->rule_count);
	if (!w->rules)
		return err_set(err, -ENOMEM, "cannot watch process %d", (int)pid);
	const struct target *target = watch_target(w->watch);
	w->facts = (struct memory_facts){ .pid = pid,
					  .history = history,
					  .limit_bytes = watch_limit(target) };
	memcpy(w->facts.comm, target->comm, sizeof(w->facts.comm));
	w->since_ns = clock_ns(CLOCK_REALTIME);
	w->unmapped_bytes = UINT64_MAX;
	w->pss_bytes = w->others_rss_bytes = w->others_pss_bytes = UINT64_MAX;
	w->facts.cgroup.version = 0;
	struct history_run run = { .time_ns = clock_ns(CLOCK_REALTIME), .pid = pid };
	memcpy(run.comm, target->comm, sizeof(run.comm));
	run.comm[sizeof(run.comm) - 1] = '\0';
	return history_start(history, &run, err);
}

void watched_close(struct watched *w)
{
	shot_put(w->quick);
	shot_put(w->full);
	alert_set_free(w->rules);
	if (w->owned)
		owned_fini(w->owned);
	free(w->owned);
	free(w->allocators);
	watch_close(w->watch);
	if (w->pidfd >= 0)
		close(w->pidfd);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->full_lock);
}

#define BESIDE_ROWS 8u
#define KIND_ROWS 3u

/* What the kernel's own sums are made of, of each look: mappings are read more seldom. */
static size_t kind_rows(const struct proc_totals *totals, struct history_row *rows)
{
	const struct {
		const char *label;
		uint64_t bytes;
	} kinds[KIND_ROWS] = { { "anon", totals->rss_anon_bytes },
			       { "file", totals->rss_file_bytes },
			       { "shmem", totals->rss_shmem_bytes } };
	size_t count = 0;
	for (size_t i = 0; i < KIND_ROWS; i++)
		if (kinds[i].bytes != UINT64_MAX)
			rows[count++] = (struct history_row){ .class = HISTORY_CLASS_KIND,
							      .label = kinds[i].label,
							      .rss_bytes = kinds[i].bytes };
	return count;
}

/* What is no part of RSS, and grows all the same. */
static size_t beside_rows(const struct watched *w, const struct proc_totals *totals,
			  struct history_row *rows)
{
	const struct cgroup_memory *m = &w->cgroup;
	uint64_t slab = m->slab_reclaimable_bytes == UINT64_MAX
				? UINT64_MAX
				: m->slab_reclaimable_bytes + m->slab_unreclaimable_bytes;
	const struct {
		const char *label;
		uint64_t bytes;
	} parts[] = { { "page tables", totals->page_table_bytes },
		      { "cgroup", m->version ? m->current_bytes : UINT64_MAX },
		      { "cgroup working set", m->version ? cgroup_working_set(m) : UINT64_MAX },
		      { "cgroup page cache", m->version ? m->file_bytes : UINT64_MAX },
		      { "cgroup slab", m->version ? slab : UINT64_MAX },
		      { "cgroup sockets", m->version ? m->socket_bytes : UINT64_MAX },
		      { "cgroup of the kernel", m->version ? m->kernel_bytes : UINT64_MAX } };
	_Static_assert(ARRAY_LEN(parts) <= BESIDE_ROWS, "there is room");
	size_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (parts[i].bytes != UINT64_MAX)
			rows[count++] = (struct history_row){ .class = HISTORY_CLASS_BESIDE,
							      .label = parts[i].label,
							      .rss_bytes = parts[i].bytes };
	return count;
}

/* The labels of the last reading, the sums of the last look. */
static int keep_sample(struct watched *w, struct err *err)
{
	const struct breakdown *b = w->quick->breakdown;
	const struct proc_totals *totals = watch_totals(w->watch);
	struct history_row *rows =
		calloc(b->class_count + 1 + BESIDE_ROWS + KIND_ROWS, sizeof(*rows));
	if (!rows)
		return err_set(err, -ENOMEM, "cannot keep a sample");
	size_t beside = beside_rows(w, totals, rows + 1);
	beside += kind_rows(totals, rows + 1 + beside);
	rows[0] = (struct history_row){ "",
					"",
					totals->rss_bytes,
					totals->virtual_bytes,
					totals->swap_bytes == UINT64_MAX ? 0 : totals->swap_bytes,
					b->region_total };
	for (size_t i = 0; i < b->class_count; i++) {
		const struct class_row *r = &b->classes[i];
		rows[i + 1 + beside] = (struct history_row){ region_class_name(r->class),
							     r->label,
							     r->rss_bytes,
							     r->virtual_bytes,
							     r->swap_bytes,
							     r->count };
	}
	int rc = history_add(w->history, watch_time_ns(w->watch), rows, b->class_count + 1 + beside,
			     err);
	free(rows);
	return rc;
}

static void keep_facts(struct watched *w, int mappings, int alerts)
{
	struct watch_cost cost;
	watch_cost(w->watch, &cost);
	pthread_mutex_lock(&w->lock);
	struct memory_facts *f = &w->facts;
	f->totals = *watch_totals(w->watch);
	f->time_ns = watch_time_ns(w->watch);
	f->period_ns = cost.period_ns;
	f->reading_cpu_ns = cost.reading_cpu_ns;
	f->cpu_share = cost.since_ns ? (double)cost.cpu_ns / (double)cost.since_ns : 0;
	f->alerts += (uint64_t)alerts;
	f->pss_bytes = w->pss_bytes;
	f->mappings = w->quick->breakdown->region_total;
	f->mappings_max = w->mappings_max;
	f->cgroup = w->cgroup;
	if (mappings) {
		/* of its allocators' books, too */
		double stall = (double)w->quick->breakdown->reading.stall_ns / 1e9;
		unsigned i = 0;
		while (i < MEMORY_STALL_BUCKETS && stall > memory_stall_bounds[i])
			i++;
		f->stalls[i]++;
		f->stall_sum_seconds += stall;
		f->reading_ns = w->quick->breakdown->reading.total_ns;
	}
	pthread_mutex_unlock(&w->lock);
}

static void tell(struct alert_facts *facts, enum alert_kind kind, uint64_t value)
{
	facts->beside[kind] = value == UINT64_MAX ? NAN : (double)value;
}

/* What the history does not hold. */
static void tell_beside(struct watched *w, struct alert_facts *facts)
{
	const struct breakdown *b = w->quick->breakdown;
	const struct proc_totals *t = watch_totals(w->watch);
	uint64_t free_bytes = 0, live = 0;
	for (int i = 0; i < ALERT_KIND_COUNT; i++)
		facts->beside[i] = NAN;
	for (size_t i = 0; i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		if (a->live_bytes == UINT64_MAX || a->free_page_bytes == UINT64_MAX)
			continue;
		live += a->live_bytes;
		free_bytes += a->free_page_bytes +
			      (a->hole_bytes == UINT64_MAX ? 0 : a->hole_bytes) +
			      (a->cache_bytes == UINT64_MAX ? 0 : a->cache_bytes);
	}
	if (live) {
		tell(facts, ALERT_FREE, free_bytes);
		facts->beside[ALERT_FREE_LIVE] = (double)free_bytes / (double)live * 100;
	}
	tell(facts, ALERT_PSS, w->pss_bytes);
	tell(facts, ALERT_SWAP, t->swap_bytes);
	tell(facts, ALERT_PAGE_TABLES, t->page_table_bytes);
	tell(facts, ALERT_MAPPINGS, b->region_total);
	facts->mappings_max = w->mappings_max == UINT64_MAX ? 0 : w->mappings_max;
	if (w->others_rss_bytes != UINT64_MAX)
		tell(facts, ALERT_RSS_SUM, w->others_rss_bytes + t->rss_bytes);
	if (w->others_pss_bytes != UINT64_MAX && w->pss_bytes != UINT64_MAX)
		tell(facts, ALERT_PSS_SUM, w->others_pss_bytes + w->pss_bytes);
	if (t->rss_bytes != UINT64_MAX && t->page_table_bytes != UINT64_MAX)
		tell(facts, ALERT_OOM,
		     t->rss_bytes + t->page_table_bytes +
			     (t->swap_bytes == UINT64_MAX ? 0 : t->swap_bytes));
	tell(facts, ALERT_UNMAPPED, w->unmapped_bytes);
	if (w->cgroup.version) {
		tell(facts, ALERT_PAGE_CACHE, w->cgroup.file_bytes);
		if (w->cgroup.pressure_some >= 0)
			facts->beside[ALERT_PRESSURE] = w->cgroup.pressure_some;
		tell(facts, ALERT_CGROUP, w->cgroup.current_bytes);
		tell(facts, ALERT_WORKING_SET, cgroup_working_set(&w->cgroup));
		tell(facts, ALERT_SOCKETS, w->cgroup.socket_bytes);
		if (w->cgroup.slab_reclaimable_bytes != UINT64_MAX)
			tell(facts, ALERT_SLAB,
			     w->cgroup.slab_reclaimable_bytes + w->cgroup.slab_unreclaimable_bytes);
	}
}

/*
 * Walks all pages, some 37 ns each, so that it is done as seldom as that costs; nobody asks, nobody
 * pays.
 */
static void read_pss(struct watched *w)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), rss, stall = 0;
	struct err ignored = { 0 };
	if (!alert_set_asks(w->rules, ALERT_PSS) && !alert_set_asks(w->rules, ALERT_PSS_SUM))
		return;
	if (now < w->pss_due_ns)
		return;
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (rollup_read(watch_target(w->watch), TURNS_RAISED, &rss, &w->pss_bytes, &stall,
			&ignored) < 0)
		w->pss_bytes = UINT64_MAX;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	w->pss_due_ns = now + watch_period(cpu, 0, 0, PSS_BUDGET);
}

/* Costs 2 us a descriptor, so that only a rule makes it. */
static void read_unmapped(struct watched *w, const struct breakdown *b)
{
	struct beside *beside = calloc(1, sizeof(*beside));
	if (!beside)
		return;
	beside_read(watch_target(w->watch), b, 0, beside);
	w->unmapped_bytes = beside->held_known ? beside->held_bytes : UINT64_MAX;
	beside_free(beside);
}

uint64_t watched_pss(const struct watched *w)
{
	return w->pss_bytes;
}

static int check_rules(struct watched *w, struct alert_event *events)
{
	const struct breakdown *b = w->quick->breakdown;
	double rss = (double)b->totals.rss_bytes;
	struct watch_cost cost;
	watch_cost(w->watch, &cost);
	struct alert_facts facts = { .time_ns = watch_time_ns(w->watch),
				     .at_ns = watch_at_ns(w->watch),
				     .limit_bytes = w->facts.limit_bytes,
				     .unaccounted =
					     rss > 0 && rss > (double)b->rss_bytes
						     ? (rss - (double)b->rss_bytes) / rss * 100
						     : 0,
				     .readings = cost.readings,
				     .pid = w->pid,
				     .comm = w->facts.comm };
	tell_beside(w, &facts);
	uint64_t now = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int growth = alert_set_judges_growth(w->rules) && now >= w->rules_due_ns;
	facts.skip_growth = !growth;
	int met = alert_check(w->rules, w->history, &facts, events);
	if (growth) {
		w->rules_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		w->rules_period_ns = watch_period(w->rules_cpu_ns, 0, 0, WATCH_RULES_BUDGET);
		w->rules_due_ns = now + w->rules_period_ns;
	}
	return met;
}

/* It runs another program: nothing that was known of its memory holds. */
static void forget_names(struct watched *w)
{
	pthread_mutex_lock(&w->lock);
	memcpy(w->facts.comm, watch_target(w->watch)->comm, sizeof(w->facts.comm));
	if (w->owned)
		owned_fini(w->owned);
	free(w->owned);
	free(w->allocators);
	w->owned = NULL;
	w->allocators = NULL;
	w->allocator_count = 0;
	pthread_mutex_unlock(&w->lock);
}

int watched_look(struct watched *w, struct alert_event *events, int *count, struct err *err)
{
	*count = 0;
	int mappings = watch_look(w->watch, err);
	if (watch_programs(w->watch) != w->programs)
		forget_names(w);
	w->programs = watch_programs(w->watch);
	if (mappings < 0) {
		pthread_mutex_lock(&w->lock);
		w->facts.ended = 1;
		pthread_mutex_unlock(&w->lock);
		return mappings;
	}
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (mappings) {
		struct breakdown *b = watch_take(w->watch);
		/* where names cannot be had the mappings are called by rules */
		struct err ignored = { 0 };
		name_mappings(w, b, &ignored);
		cgroup_memory_read(watch_target(w->watch), &w->cgroup);
		if (alert_set_asks(w->rules, ALERT_UNMAPPED))
			read_unmapped(w, b);
		if (!w->mappings_max)
			w->mappings_max = beside_mappings_max();
		struct shot *shot = shot_new(b);
		if (!shot)
			return err_set(err, -ENOMEM, "cannot keep a reading of process %d",
				       (int)w->pid);
		publish(w, &w->quick, shot);
	}
	read_pss(w);
	int rc = keep_sample(w, err);
	int met = check_rules(w, events);
	*count = met > 0 ? met : 0;
	keep_facts(w, mappings, *count);
	watch_spent(w->watch, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu);
	if (rc == 0 && met < 0)
		rc = err_set(err, met, "cannot check the alert rules");
	return rc < 0 ? rc : mappings;
}

/* ---- for HTTP -------------------------------------------------------------------------------- */

static struct watched *find(struct watched_set *set, int32_t pid)
{
	for (size_t i = 0; i < set->count; i++) {
		if (!pid || set->all[i].pid == pid)
			return &set->all[i];
	}
	return NULL;
}

static size_t source_facts(void *ctx, struct memory_facts *facts)
{
	struct watched_set *set = ctx;
	pthread_rwlock_rdlock(&set->lock);
	size_t count = set->count < MEMORY_TARGETS_MAX ? set->count : MEMORY_TARGETS_MAX;
	for (size_t i = 0; i < count; i++) {
		pthread_mutex_lock(&set->all[i].lock);
		facts[i] = set->all[i].facts;
		pthread_mutex_unlock(&set->all[i].lock);
	}
	pthread_rwlock_unlock(&set->lock);
	return count;
}

static void fill(struct memory_shot *out, struct shot *shot)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	*out = (struct memory_shot){ .breakdown = shot->breakdown,
				     .age_ns = now > shot->breakdown->end_ns
						       ? now - shot->breakdown->end_ns
						       : 0,
				     .own = shot };
}

static int source_get(void *ctx, int32_t pid, int full, struct memory_shot *out, struct err *err)
{
	struct watched_set *set = ctx;
	pthread_rwlock_rdlock(&set->lock);
	struct watched *w = find(set, pid);
	struct shot *shot = w && !full ? watched_shot(w, 0) : NULL;
	if (!w)
		err_set(err, -ENOENT, "process %d is not one of those watched here", (int)pid);
	else if (!shot) /* also for who asks before the first look */
		shot = watched_full(w, err);
	pthread_rwlock_unlock(&set->lock);
	if (!shot)
		return err->code;
	fill(out, shot);
	return 0;
}

static int source_peek(void *ctx, int32_t pid, struct memory_shot *out)
{
	struct watched_set *set = ctx;
	pthread_rwlock_rdlock(&set->lock);
	struct watched *w = find(set, pid);
	struct shot *shot = w ? watched_shot(w, 1) : NULL;
	pthread_rwlock_unlock(&set->lock);
	if (!shot)
		return -ENOENT;
	fill(out, shot);
	return 0;
}

static void source_put(void *ctx, struct memory_shot *shot)
{
	(void)ctx;
	shot_put(shot->own);
}

void watched_source(struct memory_source *source, struct watched_set *set)
{
	*source = (struct memory_source){ .ctx = set,
					  .facts = source_facts,
					  .get = source_get,
					  .peek = source_peek,
					  .put = source_put };
}

/* Small shifts are not news. */
static int is_news(uint64_t *said_ns, uint64_t period_ns)
{
	if (*said_ns && period_ns < *said_ns * 2 && period_ns > *said_ns / 2)
		return 0;
	*said_ns = period_ns;
	return 1;
}

void watched_tell_cost(struct watched *w, uint64_t look_period_ns, void (*say)(const char *text))
{
	struct watch_cost cost;
	char cpu[TEXT_NUMBER_MAX], period[TEXT_NUMBER_MAX], line[256];
	watch_cost(w->watch, &cost);
	if (is_news(&w->said_period_ns, cost.period_ns)) {
		snprintf(line, sizeof(line),
			 "process %d: a reading of %llu mappings takes %s of CPU: one every %s "
			 "(%.1f %% of one CPU)",
			 (int)w->pid,
			 (unsigned long long)(w->quick ? w->quick->breakdown->region_total : 0),
			 text_duration(cpu, cost.reading_cpu_ns),
			 text_duration(period, cost.period_ns), WATCH_BUDGET * 100);
		say(line);
	}
	if (w->rules_period_ns > look_period_ns &&
	    is_news(&w->said_rules_period_ns, w->rules_period_ns)) {
		snprintf(line, sizeof(line),
			 "process %d: judging growth for the alerts takes %s of CPU: once every %s "
			 "(%.1f %% of one CPU)",
			 (int)w->pid, text_duration(cpu, w->rules_cpu_ns),
			 text_duration(period, w->rules_period_ns), WATCH_RULES_BUDGET * 100);
		say(line);
	}
}
