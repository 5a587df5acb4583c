/* SPDX-License-Identifier: Apache-2.0 */
/* shelf.c - what is kept, who waits for what, and who works. */
#include "api/shelf_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/spare.h"

/* ---- what is kept ---------------------------------------------------------------------------- */

void shelf_book_unref(struct own_book *book)
{
	if (!book || --book->refs)
		return;
	if (book->book.snap)
		snap_unref(book->book.snap);
	else
		prof_free(book->book.names);
	free(book->book.stacks);
	free(book);
}

static void reading_free(struct own_reading *r)
{
	if (!r)
		return;
	shelf_book_unref((struct own_book *)r->reading.book);
	for (uint32_t i = 0; i < r->reading.thread_count; i++)
		free(r->reading.threads[i].name);
	if (r->reading.product.free)
		r->reading.product.free(r->reading.product.data);
	free(r->reading.threads);
	spare_free(r->reading.costs);
	free(r->key);
	free(r);
}

void shelf_reading_unref(struct own_reading *r)
{
	if (r && --r->refs == 0)
		reading_free(r);
}

static void take_off(struct shelf *shelf, struct own_reading **at)
{
	struct own_reading *r = *at;
	*at = r->next;
	r->on_shelf = 0;
	shelf->bytes -= r->bytes;
	shelf_reading_unref(r);
}

/** make_room() - the least recently used goes first; the newest always stays. */
static void make_room(struct shelf *shelf)
{
	while (shelf->bytes > SHELF_BYTES_MAX && shelf->readings && shelf->readings->next) {
		struct own_reading **at = &shelf->readings;
		while ((*at)->next)
			at = &(*at)->next;
		take_off(shelf, at);
	}
}

void shelf_keep(struct shelf *shelf, struct own_reading *r)
{
	if (r->on_shelf)
		return;
	r->on_shelf = 1;
	r->refs++;
	r->next = shelf->readings;
	shelf->readings = r;
	shelf->bytes += r->bytes;
	make_room(shelf);
}

struct own_reading *shelf_find(struct shelf *shelf, size_t source, const char *key)
{
	for (struct own_reading **at = &shelf->readings; *at; at = &(*at)->next) {
		struct own_reading *r = *at;
		if (r->source != source || strcmp(r->key, key) != 0)
			continue;
		*at = r->next;
		r->next = shelf->readings;
		shelf->readings = r;
		return r;
	}
	return NULL;
}

void shelf_forget(struct shelf *shelf, size_t source)
{
	for (struct own_reading **at = &shelf->readings; *at;) {
		if ((*at)->source == source)
			take_off(shelf, at);
		else
			at = &(*at)->next;
	}
	shelf_reading_unref(shelf->slots[source].whole);
	shelf_reading_unref(shelf->slots[source].sliced);
	shelf->slots[source].whole = shelf->slots[source].sliced = NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void job_unref(struct job *job)
{
	if (--job->refs)
		return;
	shelf_reading_unref(job->made);
	shelf_reading_unref(job->shown);
	free(job->key);
	free(job->regex);
	free(job->module);
	free(job->args);
	free(job);
}

static void drop_job(struct shelf *shelf, struct job *job)
{
	for (struct job **at = &shelf->jobs; *at; at = &(*at)->next) {
		if (*at == job) {
			*at = job->next;
			shelf->job_count--;
			job_unref(job);
			return;
		}
	}
}

size_t shelf_shed(struct shelf *shelf)
{
	pthread_mutex_lock(&shelf->lock);
	for (struct job *job = shelf->jobs, *next; job; job = next) {
		next = job->next;
		/* who was told to come back for it may be on the way */
		if (job->state == JOB_DONE && !job->waiters &&
		    (!job->returning ||
		     clock_ns(CLOCK_MONOTONIC) - job->asked_ns > SHELF_PATIENCE_NS))
			drop_job(shelf, job);
	}
	for (struct own_reading **at = &shelf->readings; *at;) {
		if ((*at)->refs == 1)
			take_off(shelf, at);
		else
			at = &(*at)->next;
	}
	size_t jobs = shelf->job_count;
	pthread_mutex_unlock(&shelf->lock);
	shelf_shed_folds(shelf);
	spare_give_back();
	malloc_trim(0);
	return jobs;
}

/** is_read() - is an answer being made of what @job shows? It and its maker hold one each. */
static int is_read(const struct job *job)
{
	return job->shown && job->shown->refs > 2;
}

void shelf_look(struct shelf *shelf)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	for (struct job *job = shelf->jobs, *next; job; job = next) {
		next = job->next;
		if (job->indexes || job->waiters || now - job->asked_ns < SHELF_PATIENCE_NS ||
		    (is_read(job) && job->returning))
			continue;
		atomic_store(&job->unwanted, 1);
		if (job->state != JOB_RUNS)
			drop_job(shelf, job);
	}
}

static void work(struct shelf *shelf, int indexes)
{
	pthread_mutex_lock(&shelf->lock);
	while (!shelf->ends) {
		struct job *job = NULL;
		shelf_look(shelf);
		for (struct job *at = shelf->jobs; at; at = at->next)
			if (at->state == JOB_QUEUED && at->indexes == indexes)
				job = at; /* new ones stand in front: the oldest */
		if (!job) {
			pthread_cond_wait(&shelf->work, &shelf->lock);
			continue;
		}
		job->state = JOB_RUNS;
		job->refs++;
		pthread_mutex_unlock(&shelf->lock);
		struct own_reading *made = NULL;
		struct err err = { 0 };
		int rc = shelf_work(job, &made, &err);
		pthread_mutex_lock(&shelf->lock);
		job->err = err;
		job->err.code = rc;
		job->state = JOB_DONE;
		job->made = made;
		shelf_reading_unref(job->shown);
		job->shown = NULL;
		if (made)
			shelf_keep(shelf, made);
		if (atomic_load(&job->unwanted) || job->indexes)
			drop_job(shelf, job);
		job_unref(job);
		pthread_cond_broadcast(&shelf->changed);
	}
	pthread_mutex_unlock(&shelf->lock);
}

static void *worker(void *ctx)
{
	work(ctx, 0);
	return NULL;
}

static void *indexer(void *ctx)
{
	work(ctx, 1);
	return NULL;
}

static struct job *find_job(struct shelf *shelf, size_t source, const char *key)
{
	for (struct job *job = shelf->jobs; job; job = job->next)
		if (job->source == source && strcmp(job->key, key) == 0 &&
		    !atomic_load(&job->unwanted))
			return job;
	return NULL;
}

static struct job *add_job(struct shelf *shelf, const struct shelf_query *query, struct err *err)
{
	if (shelf->job_count >= SHELF_JOBS_MAX) {
		err_set(err, -EBUSY, "too many questions are being worked on: at most %d",
			SHELF_JOBS_MAX);
		return NULL;
	}
	struct job *job = calloc(1, sizeof(*job));
	const char *regex = query->query.function_regex, *module = query->query.module;
	if (job)
		*job = (struct job){ .key = strdup(query->key),
				     .regex = regex ? strdup(regex) : NULL,
				     .module = module ? strdup(module) : NULL,
				     .source = query->source,
				     .query = query->query,
				     .make = query->make,
				     .streams = query->streams,
				     .threads = query->threads,
				     .sums = query->sums,
				     .args = query->args_len ? malloc(query->args_len) : NULL,
				     .shelf = shelf,
				     .refs = 1 };
	if (!job || !job->key || (regex && !job->regex) || (module && !job->module) ||
	    (query->args_len && !job->args)) {
		if (job)
			job_unref(job);
		err_set(err, -ENOMEM, "cannot begin to read");
		return NULL;
	}
	job->query.function_regex = job->regex;
	job->query.module = job->module;
	if (query->args_len)
		memcpy(job->args, query->args, query->args_len);
	job->next = shelf->jobs;
	shelf->jobs = job;
	shelf->job_count++;
	pthread_cond_broadcast(&shelf->work);
	return job;
}

void shelf_index(struct shelf *shelf, size_t source)
{
	const struct shelf_query query = { .source = source, .key = "#slices" };
	struct err none = { 0 };
	pthread_mutex_lock(&shelf->lock);
	if (!shelf->ends && !shelf->slots[source].sliced && !find_job(shelf, source, query.key)) {
		struct job *job = add_job(shelf, &query, &none);
		if (job)
			job->indexes = 1;
	}
	pthread_mutex_unlock(&shelf->lock);
}

/** await() - until @job is done, time is up, or the client went. Under the lock. */
static int await(struct shelf *shelf, struct job *job, const struct shelf_patience *patience)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + patience->wait_ns;
	while (job->state != JOB_DONE) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC), next = now + SHELF_LOOK_NS;
		if (patience->has_wait && now >= until)
			return 0;
		if (patience->gone && patience->gone(patience->ctx))
			return -ECANCELED;
		if (patience->has_wait && next > until)
			next = until;
		shelf_look(shelf);
		struct timespec time = clock_time(next);
		pthread_cond_clockwait(&shelf->changed, &shelf->lock, CLOCK_MONOTONIC, &time);
	}
	return 1;
}

static int is_current(const struct shelf *shelf, const struct own_reading *r)
{
	const struct shelf_item *item = &shelf->slots[r->source].item;
	return !item->identity || item->identity(item->ctx) == r->reading.book->identity;
}

/** take_kept() - what is there of @key, with a reference; NULL. Under the lock. */
static struct own_reading *take_kept(struct shelf *shelf, size_t source, const char *key)
{
	struct own_reading *r = shelf_find(shelf, source, key);
	if (!r || !is_current(shelf, r))
		return NULL;
	r->refs++;
	return r;
}

/** stop() - one of those who were to come back to @job (NULL: none) does not. Under the lock. */
static void stop(struct shelf *shelf, struct job *job)
{
	if (!job)
		return;
	job->returning -= job->returning > 0;
	if (!job->returning)
		job->asked_ns = 0;
	shelf_look(shelf);
}

static int get(struct shelf *shelf, const struct shelf_query *query,
	       const struct shelf_patience *patience, struct reading **out, double *progress,
	       struct err *err)
{
	*out = NULL;
	pthread_mutex_lock(&shelf->lock);
	struct own_reading *r = take_kept(shelf, query->source, query->key);
	if (r) {
		pthread_mutex_unlock(&shelf->lock);
		*out = &r->reading;
		return 1;
	}
	struct job *job = find_job(shelf, query->source, query->key);
	if (patience->stops) {
		stop(shelf, job);
		pthread_mutex_unlock(&shelf->lock);
		return 0;
	}
	if (!job)
		job = add_job(shelf, query, err);
	if (!job) {
		pthread_mutex_unlock(&shelf->lock);
		return err->code;
	}
	job->waiters++;
	job->refs++;
	if (patience->has_wait) {
		job->asked_ns = clock_ns(CLOCK_MONOTONIC);
		job->returning -= job->returning > 0;
	}
	int rc = await(shelf, job, patience);
	job->waiters--;
	if (rc > 0) {
		if (job->made) {
			job->made->refs++;
			*out = &job->made->reading;
		} else {
			*err = job->err;
			rc = err->code ? err->code : -EIO;
		}
		if (!job->waiters)
			drop_job(shelf, job);
	} else if (rc == 0) {
		*progress = (double)atomic_load(&job->permille) / 1000;
		job->returning++;
		if (patience->has_wait)
			job->asked_ns = clock_ns(CLOCK_MONOTONIC);
		if (patience->takes_part && job->shown) {
			job->shown->refs++;
			*out = &job->shown->reading;
		}
	} else {
		err_set(err, rc, "the client went");
		if (!job->returning)
			job->asked_ns = 0; /* nor does it come back */
		shelf_look(shelf);         /* at once, where nobody else waits */
	}
	job_unref(job);
	pthread_mutex_unlock(&shelf->lock);
	return rc;
}

int shelf_get(struct shelf *shelf, const struct shelf_query *query,
	      const struct shelf_patience *patience, struct reading **out, double *progress,
	      struct err *err)
{
	if (!query->sums)
		return get(shelf, query, patience, out, progress, err);
	pthread_mutex_lock(&shelf->lock);
	struct own_reading *r = take_kept(shelf, query->source, query->key);
	pthread_mutex_unlock(&shelf->lock);
	if (r) {
		*out = &r->reading;
		return 1;
	}
	CLEANUP(buf_fini) struct buf key = { 0 };
	struct shelf_query sums = *query;
	buf_printf(&key, "%s" SHELF_SUMS, query->key);
	sums.key = buf_cstr(&key);
	return get(shelf, &sums, patience, out, progress, err);
}

void shelf_put(struct shelf *shelf, struct reading *reading)
{
	if (!reading)
		return;
	pthread_mutex_lock(&shelf->lock);
	/* who is to come back counts from the answer on: that of many rows takes its time */
	for (struct job *job = shelf->jobs; job; job = job->next)
		if (job->shown && &job->shown->reading == reading && job->returning)
			job->asked_ns = clock_ns(CLOCK_MONOTONIC);
	shelf_reading_unref((struct own_reading *)reading);
	pthread_mutex_unlock(&shelf->lock);
}

int shelf_grows(struct shelf *shelf, size_t source)
{
	pthread_mutex_lock(&shelf->lock);
	const struct slot *slot = &shelf->slots[source];
	int grows = slot->item.hold && (!slot->whole || slot->whole->reading.book->being_written);
	pthread_mutex_unlock(&shelf->lock);
	return grows;
}

struct reading *shelf_peek(struct shelf *shelf, size_t source)
{
	pthread_mutex_lock(&shelf->lock);
	struct own_reading *r = shelf->slots[source].whole;
	if (r)
		r->refs++;
	pthread_mutex_unlock(&shelf->lock);
	return r ? &r->reading : NULL;
}

const char *shelf_failure(struct shelf *shelf, size_t source, char text[256])
{
	pthread_mutex_lock(&shelf->lock);
	memcpy(text, shelf->slots[source].failure, 256);
	pthread_mutex_unlock(&shelf->lock);
	return text[0] ? text : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct shelf *shelf_new(const struct shelf_item *items, size_t count, struct err *err)
{
	struct shelf *shelf = calloc(1, sizeof(*shelf));
	struct slot *slots = calloc(count + SHELF_SOURCES_MORE, sizeof(*slots));
	if (!shelf || !slots) {
		free(shelf);
		free(slots);
		err_set(err, -ENOMEM, "cannot serve recordings");
		return NULL;
	}
	shelf->slots = slots;
	atomic_store(&shelf->count, count);
	shelf->room = count + SHELF_SOURCES_MORE;
	for (size_t i = 0; i < count; i++)
		slots[i].item = items[i];
	pthread_mutex_init(&shelf->lock, NULL);
	pthread_mutex_init(&shelf->folding, NULL);
	pthread_mutex_init(&shelf->resolving, NULL);
	pthread_cond_init(&shelf->changed, NULL);
	pthread_cond_init(&shelf->work, NULL);
	for (; shelf->thread_count <= SHELF_REPLAYS; shelf->thread_count++) {
		int rc = pthread_create(&shelf->threads[shelf->thread_count], NULL,
					shelf->thread_count < SHELF_REPLAYS ? worker : indexer,
					shelf);
		if (rc) {
			err_set(err, -rc, "cannot start a thread");
			shelf_free(shelf);
			return NULL;
		}
	}
	return shelf;
}

void shelf_free(struct shelf *shelf)
{
	if (!shelf)
		return;
	pthread_mutex_lock(&shelf->lock);
	shelf->ends = 1;
	for (struct job *job = shelf->jobs; job; job = job->next)
		atomic_store(&job->unwanted, 1);
	pthread_cond_broadcast(&shelf->work);
	pthread_mutex_unlock(&shelf->lock);
	for (unsigned i = 0; i < shelf->thread_count; i++)
		pthread_join(shelf->threads[i], NULL);
	while (shelf->jobs)
		drop_job(shelf, shelf->jobs);
	shelf_free_folds(shelf);
	for (size_t i = 0; i < shelf_count(shelf); i++)
		shelf_forget(shelf, i);
	pthread_mutex_destroy(&shelf->lock);
	pthread_mutex_destroy(&shelf->folding);
	pthread_mutex_destroy(&shelf->resolving);
	pthread_cond_destroy(&shelf->changed);
	pthread_cond_destroy(&shelf->work);
	free(shelf->slots);
	free(shelf);
}

int shelf_add(struct shelf *shelf, const struct shelf_item *item, struct err *err)
{
	size_t count = atomic_load(&shelf->count);
	if (count == shelf->room)
		return err_set(err, -E2BIG, "too many recordings are served");
	shelf->slots[count].item = *item;
	atomic_store(&shelf->count, count + 1);
	return 0;
}

size_t shelf_count(const struct shelf *shelf)
{
	return atomic_load(&shelf->count);
}

const struct shelf_item *shelf_at(const struct shelf *shelf, size_t source)
{
	return &shelf->slots[source].item;
}
