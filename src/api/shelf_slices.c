/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf_slices.c - moments and ranges out of the index of slices (query/slices.h), which is made
 * once for each source, by a thread of its own behind the first reading, or by whoever needs it
 * first. It lies in a file beside the recording, or in the user's cache.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/shelf_internal.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/intern.h"
#include "base/spare.h"
#include "query/blocks.h"
#include "query/slices.h"

#define WORTH_EVENTS \
	2000000ull /* a smaller recording is replayed within the time that an answer may take */
#define TOTAL_MAX (384ull << 20) /* of all sources' indices; the one used last stays in any case */

static void free_slices(void *data)
{
	slices_free(data);
}

/** is_whole() - do all events of the recording count as they are? */
static int is_whole(const struct reading *whole)
{
	const struct prof_totals *t = &whole->totals;
	const struct prof_process *p = prof_process(whole->book->names);
	return !whole->estimates && !t->lost_events && !t->culled_allocations &&
	       !t->filtered_allocations && !t->forked_from && !t->cost.uncertain &&
	       !(p && p->sample_bytes) && !whole->book->warning[0];
}

/** is_plain() - and will no more come? */
static int is_plain(const struct reading *whole)
{
	return !whole->book->being_written && is_whole(whole);
}

/* ---- the index of a source ------------------------------------------------------------------- */

/**
 * paths() - where the index of the recording @path (NULL: none) is looked for, and put: beside it,
 * else in the cache.
 */
static void paths(const char *path, struct buf *beside, struct buf *cache)
{
	const char *home = getenv("XDG_CACHE_HOME"), *user = getenv("HOME");
	if (!path)
		return;
	buf_printf(beside, "%s.slices", path);
	if (home && *home == '/')
		buf_printf(cache, "%s/byteledger", home);
	else if (user && *user == '/')
		buf_printf(cache, "%s/.cache/byteledger", user);
	if (cache->len)
		buf_printf(cache, "/%016llx.slices",
			   (unsigned long long)hash_bytes(path, strlen(path), 0x736c6963));
}

static int load(const struct shelf_item *item, uint64_t identity, struct slices **out)
{
	CLEANUP(buf_fini) struct buf beside = { 0 };
	CLEANUP(buf_fini) struct buf cache = { 0 };
	struct err none = { 0 };
	paths(item->path, &beside, &cache);
	return (beside.len && slices_load(buf_cstr(&beside), identity, out, &none) == 0) ||
	       (cache.len && slices_load(buf_cstr(&cache), identity, out, &none) == 0);
}

int shelf_has_slices(const char *path, uint64_t identity)
{
	CLEANUP(buf_fini) struct buf beside = { 0 };
	CLEANUP(buf_fini) struct buf cache = { 0 };
	paths(path, &beside, &cache);
	return (beside.len && slices_are_there(buf_cstr(&beside), identity)) ||
	       (cache.len && slices_are_there(buf_cstr(&cache), identity));
}

/* A folder that nobody may write to, a full disk: then it is made again next time. */
static int save(const struct shelf_item *item, uint64_t identity, const struct slices *slices)
{
	CLEANUP(buf_fini) struct buf beside = { 0 };
	CLEANUP(buf_fini) struct buf cache = { 0 };
	struct err none = { 0 };
	paths(item->path, &beside, &cache);
	if (beside.len && slices_save(slices, buf_cstr(&beside), identity, &none) == 0)
		return 1;
	if (!cache.len)
		return 0;
	char *slash = strrchr(cache.data, '/');
	*slash = '\0';
	mkdir(cache.data, 0700);
	*slash = '/';
	return slices_save(slices, buf_cstr(&cache), identity, &none) == 0;
}

/**
 * make_room() - the indices of others go, used longest ago first, while all are too large. Under
 * the lock.
 */
static void make_room(struct shelf *shelf, size_t keep)
{
	for (;;) {
		uint64_t bytes = 0, oldest = UINT64_MAX;
		size_t at = keep;
		for (size_t i = 0; i < shelf_count(shelf); i++) {
			struct slot *slot = &shelf->slots[i];
			if (!slot->sliced)
				continue;
			bytes += slot->sliced->bytes;
			if (i != keep && slot->sliced->bytes && slot->sliced_used < oldest) {
				oldest = slot->sliced_used;
				at = i;
			}
		}
		if (bytes <= TOTAL_MAX || at == keep)
			return;
		shelf_reading_unref(shelf->slots[at].sliced);
		shelf->slots[at].sliced = NULL;
	}
}

/**
 * begin() - 1: *@out is the index, with a reference; 0: the caller makes it; negative: nobody waits
 * any more.
 */
static int begin(struct job *job, const struct book *book, struct own_reading **out,
		 struct err *err)
{
	struct shelf *shelf = job->shelf;
	struct slot *slot = &shelf->slots[job->source];
	int rc = 0;
	pthread_mutex_lock(&shelf->lock);
	while (slot->slicing && !atomic_load(&job->unwanted)) {
		uint64_t next = clock_ns(CLOCK_MONOTONIC) + SHELF_LOOK_NS;
		const struct timespec time = clock_time(next);
		atomic_store(&job->permille, atomic_load(&slot->slicing->permille));
		shelf_look(shelf);
		pthread_cond_clockwait(&shelf->changed, &shelf->lock, CLOCK_MONOTONIC, &time);
	}
	if (slot->sliced && slot->sliced->reading.book == book) {
		*out = slot->sliced;
		(*out)->refs++;
		slot->sliced_used = clock_ns(CLOCK_MONOTONIC);
		rc = 1;
	} else if (atomic_load(&job->unwanted)) {
		rc = err_set(err, -ECANCELED, "nobody waits for the answer any more");
	} else {
		slot->slicing = job;
	}
	pthread_mutex_unlock(&shelf->lock);
	return rc;
}

static void end(struct job *job, struct own_reading *made)
{
	struct shelf *shelf = job->shelf;
	struct slot *slot = &shelf->slots[job->source];
	pthread_mutex_lock(&shelf->lock);
	slot->slicing = NULL;
	if (made) {
		shelf_reading_unref(slot->sliced);
		slot->sliced = made;
		made->refs++;
		slot->sliced_used = clock_ns(CLOCK_MONOTONIC);
		make_room(shelf, job->source);
	}
	pthread_cond_broadcast(&shelf->changed);
	pthread_mutex_unlock(&shelf->lock);
}

int shelf_slices(struct job *job, const struct own_reading *whole,
		 const struct query_source *source, struct own_reading **out, struct err *err)
{
	const struct book *book = whole->reading.book;
	const struct shelf_item *item = shelf_at(job->shelf, job->source);
	*out = NULL;
	if (!source->run_keys || !is_plain(&whole->reading))
		return 0;
	int rc = begin(job, book, out, err);
	if (rc)
		return rc;
	struct slices *slices = NULL;
	struct own_reading *r = calloc(1, sizeof(*r));
	if (!r || !(r->key = strdup("slices")))
		rc = err_set(err, -ENOMEM, "cannot keep the index of a recording");
	if (rc == 0 && !load(item, book->identity, &slices)) {
		const struct cost *all = &whole->reading.totals.cost;
		rc = slices_build(source, all->allocations + all->frees, &slices, err);
		struct slices *saved = NULL;
		if (rc == 0 && slices && slices_events(slices) > WORTH_EVENTS &&
		    save(item, book->identity, slices) && load(item, book->identity, &saved)) {
			slices_free(slices); /* its rows are on disk once from here on */
			slices = saved;
		}
	}
	if (rc == 0) {
		r->refs = 1;
		r->source = job->source;
		r->reading.product = (struct shelf_product){ slices, 0, free_slices };
		r->bytes = slices ? slices_bytes(slices) : 0;
		pthread_mutex_lock(&job->shelf->lock);
		r->reading.book = book;
		((struct own_book *)book)->refs++;
		pthread_mutex_unlock(&job->shelf->lock);
	} else if (r) {
		free(r->key);
		free(r);
		r = NULL;
	}
	end(job, r);
	*out = r;
	return rc < 0 ? rc : 1;
}

int shelf_wants_slices(const struct own_reading *whole)
{
	return is_plain(&whole->reading) &&
	       whole->reading.totals.cost.allocations + whole->reading.totals.cost.frees >
		       WORTH_EVENTS;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int is_end(const struct query_time *time)
{
	return time->kind == QUERY_TIME_NONE || time->kind == QUERY_TIME_END ||
	       (time->kind == QUERY_TIME_PERMILLION && time->value == 1000000);
}

/**
 * take_times() - 1: the query says nothing but times, which are in @ask, and stacks; 0: it needs
 * more; negative errno. Which stacks is no matter of events, but the peak of some of them is: only
 * @sums of a range are told.
 */
static int take_times(const struct query *query, const struct book *book, int sums,
		      struct slices_ask *ask, struct err *err)
{
	struct query rest = *query;
	rest.at.kind = rest.from.kind = rest.to.kind = QUERY_TIME_NONE;
	*ask = (struct slices_ask){ .to_ns = UINT64_MAX, .at_ns = UINT64_MAX, .sums = sums };
	if (sums || query->at.kind != QUERY_TIME_NONE)
		rest.function_regex = rest.module = NULL;
	if (query_is_empty(query) || !query_is_empty(&rest) || query->at.kind == QUERY_TIME_PEAK)
		return 0;
	ask->has_at = query->at.kind != QUERY_TIME_NONE;
	int rc = query->from.kind ? query_time_resolve_inside(&query->from, book->names, 0,
							      &ask->from_ns, err)
				  : 0;
	if (rc == 0 && !is_end(&query->to))
		rc = query_time_resolve_inside(&query->to, book->names, 0, &ask->to_ns, err);
	if (rc == 0 && !is_end(&query->at))
		rc = query_time_resolve_inside(&query->at, book->names, 1, &ask->at_ns, err);
	return rc < 0 ? rc : 1;
}

/**
 * by_stack() - by the producer's number, which @numbered knows: 1 + its account, of those in @mask
 * (NULL: all); malloc'd.
 */
static uint32_t *by_stack(const struct book *book, const struct prof *numbered, const uint8_t *mask,
			  uint32_t *count)
{
	uint32_t rows = prof_stack_count(book->names), numbers = *count;
	uint32_t *accounts = spare_calloc((size_t)rows + 1, sizeof(*accounts));
	uint32_t *of = spare_calloc((size_t)numbers + 1, sizeof(*of));
	for (uint32_t i = 0; accounts && i < book->count; i++)
		accounts[book->stacks[i]] = i + 1;
	for (uint32_t i = 0; accounts && of && i < numbers; i++) {
		uint32_t row = prof_stack_row(numbered, (struct stack_id){ i }).v;
		of[i] = row < rows && (!mask || mask[row]) ? accounts[row] : 0;
	}
	if (!accounts || !of) {
		spare_free(of);
		of = NULL;
	}
	spare_free(accounts);
	return of;
}

/** peak_of() - what lived at the peak is known of the whole. */
static void peak_of(const struct reading *whole, struct reading *r)
{
	struct cost sum = { 0 };
	for (uint32_t i = 0; i < whole->book->count; i++) {
		const struct cost *from = &whole->costs[i];
		struct cost *c = &r->costs[i];
		c->allocations = c->leaked = c->peak_blocks = from->peak_blocks;
		c->allocated_bytes = c->leaked_bytes = c->peak_bytes = from->peak_bytes;
		cost_add(&sum, c);
	}
	r->totals.cost = sum;
}

/**
 * tell() - @r out of @slices, of the stacks that @query names: 1; 0: they do not fit; negative
 * errno.
 */
static int tell(const struct own_reading *whole, const struct prof *numbered,
		const struct query *query, const struct slices *slices,
		const struct query_source *source, const struct slices_ask *ask,
		struct own_reading *r, struct err *err)
{
	const struct book *book = whole->reading.book;
	const struct query named = { .function_regex = query->function_regex,
				     .module = query->module };
	CLEANUP(block_filter_fini) struct block_filter stacks = { 0 };
	uint32_t count = slices_stacks(slices);
	if (block_filter_init(&stacks, &named, book->names, err) < 0)
		return err->code;
	uint32_t *of = by_stack(book, numbered, stacks.stacks, &count);
	struct slices_answer answer = { .costs = r->reading.costs,
					.account_of = of,
					.stack_count = count };
	int rc = of ? slices_read(slices, source, ask, &answer, err)
		    : err_set(err, -ENOMEM, "cannot keep a reading");
	spare_free(of);
	if (rc == -EBADMSG) { /* it does not fit: the events themselves do */
		err_init(err);
		return 0;
	}
	if (rc < 0)
		return rc;
	struct cost sum = { 0 };
	for (uint32_t i = 0; i < book->count; i++)
		cost_add(&sum, &r->reading.costs[i]);
	r->reading.totals.cost = sum;
	if (!ask->has_at)
		r->reading.totals.peak_time_ns = answer.peak_time_ns;
	return 1;
}

/** only_names() - are the sums of some stacks asked for, and nothing else? */
static int only_names(const struct job *job)
{
	struct query rest = job->query;
	rest.function_regex = rest.module = NULL;
	return job->sums && query_is_empty(&rest);
}

/** some_of() - @r out of @whole: the stacks that the query names. 1, or negative errno. */
static int some_of(const struct own_reading *whole, const struct query *query,
		   struct own_reading *r, struct err *err)
{
	const struct book *book = whole->reading.book;
	CLEANUP(block_filter_fini) struct block_filter named = { 0 };
	struct cost sum = { 0 };
	if (block_filter_init(&named, query, book->names, err) < 0)
		return err->code;
	for (uint32_t i = 0; i < book->count; i++) {
		struct cost *c = &r->reading.costs[i];
		if (named.stacks && !named.stacks[book->stacks[i]])
			continue;
		*c = whole->reading.costs[i];
		c->peak_blocks = c->peak_bytes = 0; /* of all, not of these */
		cost_add(&sum, c);
	}
	r->reading.totals.cost = sum;
	r->reading.lacks_peaks = 1;
	return 1;
}

/** ready() - room for the sums of @r. 1, or negative errno. */
static int ready(const struct own_reading *whole, struct own_reading *r, struct err *err)
{
	uint32_t count = whole->reading.book->count;
	r->reading.costs = spare_calloc((size_t)count + 1, sizeof(*r->reading.costs));
	r->reading.totals = whole->reading.totals;
	r->reading.knows_peak_blocks = 1;
	r->bytes = sizeof(*r) + (size_t)count * sizeof(*r->reading.costs);
	return r->reading.costs ? 1 : err_set(err, -ENOMEM, "cannot keep a reading");
}

static void unready(struct own_reading *r)
{
	spare_free(r->reading.costs);
	r->reading.costs = NULL;
}

int shelf_read_held(struct job *job, const struct own_reading *whole,
		    const struct follow_held *held, struct own_reading *r, struct err *err)
{
	struct slices_ask ask;
	if (!is_whole(&whole->reading))
		return 0;
	if (!held->named && (job->query.function_regex || job->query.module))
		return 0;
	int names = only_names(job);
	int rc = names ? 1 : take_times(&job->query, whole->reading.book, job->sums, &ask, err);
	if (rc == 1)
		rc = ready(whole, r, err);
	if (rc == 1 && names)
		rc = some_of(whole, &job->query, r, err);
	else if (rc == 1)
		rc = tell(whole, held->prof, &job->query, held->slices, &held->source, &ask, r,
			  err);
	if (rc <= 0)
		unready(r);
	return rc;
}

int shelf_read_times(struct job *job, const struct own_reading *whole,
		     const struct query_source *source, struct own_reading *r, struct err *err)
{
	const struct book *book = whole->reading.book;
	struct own_reading *index = NULL;
	struct slices_ask ask;
	if (job->threads || !source->run_keys || !is_plain(&whole->reading))
		return 0;
	struct query only = job->query;
	only.at.kind = QUERY_TIME_NONE;
	int is_peak = job->query.at.kind == QUERY_TIME_PEAK && query_is_empty(&only) &&
		      whole->reading.knows_peak_blocks;
	int names = only_names(job), no_events = is_peak || names;
	int rc = no_events ? 1 : take_times(&job->query, book, job->sums, &ask, err);
	if (rc == 1 && !no_events)
		rc = shelf_slices(job, whole, source, &index, err);
	if (rc <= 0)
		return rc;
	const struct slices *slices = index ? index->reading.product.data : NULL;
	rc = no_events || slices ? ready(whole, r, err) : 0;
	if (rc == 1 && is_peak)
		peak_of(&whole->reading, &r->reading);
	else if (rc == 1 && names)
		rc = some_of(whole, &job->query, r, err);
	else if (rc == 1)
		rc = tell(whole, book->names, &job->query, slices, source, &ask, r, err);
	if (rc <= 0)
		unready(r);
	pthread_mutex_lock(&job->shelf->lock);
	shelf_reading_unref(index);
	pthread_mutex_unlock(&job->shelf->lock);
	return rc;
}
