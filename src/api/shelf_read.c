/* SPDX-License-Identifier: Apache-2.0 */
/* shelf_read.c - replays: a source as a whole, once, and selections of it. */
#include "api/shelf_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/spare.h"
#include "query/instant.h"

/* ---- a replay -------------------------------------------------------------------------------- */

/** struct run - a reader with the sink that stops it when nobody wants the answer any more. */
struct run {
	struct shelf_reader reader;
	struct job *job;
	/* NULL: it is made now */
	const struct book *book;
};

struct brake {
	struct sink sink;
	struct sink *to;
	struct job *job;
	uint64_t looked_ns;
};

static int is_unwanted(struct job *job, struct err *err)
{
	if (!atomic_load(&job->unwanted))
		return 0;
	return err_set(err, -ECANCELED, "nobody waits for the answer any more");
}

static int brake_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct brake *brake = (struct brake *)sink;
	return brake->to->define(brake->to, def, err);
}

static int brake_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct brake *brake = (struct brake *)sink;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now - brake->looked_ns >
	    SHELF_LOOK_NS) { /* all others may be busy: it looks after itself */
		struct shelf *shelf = brake->job->shelf;
		brake->looked_ns = now;
		pthread_mutex_lock(&shelf->lock);
		shelf_look(shelf);
		pthread_mutex_unlock(&shelf->lock);
	}
	int rc = is_unwanted(brake->job, err);
	return rc < 0 ? rc : brake->to->put(brake->to, events, count, err);
}

static int run_run(void *ctx, struct sink *sink, struct err *err)
{
	struct run *run = ctx;
	struct brake brake = { { brake_define, brake_put }, sink, run->job, 0 };
	return run->reader.query.run(run->reader.query.ctx, &brake.sink, err);
}

static int run_run_until(void *ctx, uint64_t until_ns, struct sink *sink, struct err *err)
{
	struct run *run = ctx;
	struct brake brake = { { brake_define, brake_put }, sink, run->job, 0 };
	return run->reader.query.run_until(run->reader.query.ctx, until_ns, &brake.sink, err);
}

static int run_living(void *ctx, uint64_t until_ns, struct sink *sink, struct trace_living *living,
		      struct err *err)
{
	struct run *run = ctx;
	struct brake brake = { { brake_define, brake_put }, sink, run->job, 0 };
	return run->reader.query.living(run->reader.query.ctx, until_ns, &brake.sink, living, err);
}

static int run_run_keys(void *ctx, void (*key)(void *key_ctx, const struct query_key *key),
			void *key_ctx, struct sink *sink, struct err *err)
{
	struct run *run = ctx;
	struct brake brake = { { brake_define, brake_put }, sink, run->job, 0 };
	return run->reader.query.run_keys(run->reader.query.ctx, key, key_ctx, &brake.sink, err);
}

static int run_run_from(void *ctx, const struct query_key *key, uint64_t until,
			const struct query_seed *seeds, size_t count, struct sink *sink,
			struct err *err)
{
	struct run *run = ctx;
	struct brake brake = { { brake_define, brake_put }, sink, run->job, 0 };
	return run->reader.query.run_from(run->reader.query.ctx, key, until, seeds, count,
					  &brake.sink, err);
}

static int run_summary(void *ctx, struct prof *prof, struct err *err)
{
	struct run *run = ctx;
	int rc = is_unwanted(run->job, err);
	return rc < 0 ? rc : run->reader.query.summary(run->reader.query.ctx, prof, err);
}

/**
 * run_resolve() - the book knows the names already; rows agree, as both read the same definitions
 * in the same order.
 */
static int run_resolve(void *ctx, struct prof *prof, struct err *err)
{
	struct run *run = ctx;
	struct shelf *shelf = run->job->shelf;
	if (run->book) {
		struct sink *sink = prof_symbol_sink(prof);
		uint32_t count = prof_frame_count(prof);
		for (uint32_t i = 1; i < count && i < prof_frame_count(run->book->names); i++) {
			const struct prof_frame *a = prof_frame(prof, (struct frame_id){ i });
			const struct prof_frame *b =
				prof_frame(run->book->names, (struct frame_id){ i });
			if (prof_frame_knows(a) >= prof_frame_knows(b) || a->offset != b->offset)
				continue;
			struct def def = { .kind = DEF_SYMBOL,
					   .id = i,
					   .symbol = { b->symbols, b->symbol_count } };
			int rc = sink->define(sink, &def, err);
			if (rc < 0)
				return rc;
		}
		return 0;
	}
	if (!run->reader.query.resolve)
		return 0;
	pthread_mutex_lock(&shelf->resolving);
	int rc = run->reader.query.resolve(run->reader.query.ctx, prof, err);
	pthread_mutex_unlock(&shelf->resolving);
	return rc;
}

static struct query_source run_source(struct run *run)
{
	const struct query_source *q = &run->reader.query;
	return (struct query_source){ .run = run_run,
				      .run_until = q->run_until ? run_run_until : NULL,
				      .living = q->living ? run_living : NULL,
				      .summary = q->summary ? run_summary : NULL,
				      .run_keys = q->run_keys ? run_run_keys : NULL,
				      .run_from = q->run_from ? run_run_from : NULL,
				      .resolve = run_resolve,
				      .ctx = run };
}

static void on_tick(void *ctx, uint64_t done, uint64_t total)
{
	struct job *job = ctx;
	if (total)
		atomic_store(&job->permille, (uint32_t)(1000.0 * (double)done / (double)total));
}

static int copy_threads(struct own_reading *r, const struct prof *prof)
{
	uint32_t count = prof_thread_count(prof);
	r->reading.threads = calloc(count + 1, sizeof(*r->reading.threads));
	if (!r->reading.threads)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct prof_thread *t = prof_thread(prof, (struct thread_id){ i });
		if (!(t->cost.allocations | t->cost.allocated_bytes | t->cost.frees |
		      t->cost.peak_bytes | t->cost.leaked | t->cost.uncertain))
			continue;
		struct shelf_thread *to = &r->reading.threads[r->reading.thread_count];
		*to = (struct shelf_thread){ .tid = t->tid, .cost = t->cost };
		to->name = strdup(t->name ? t->name : "");
		if (!to->name)
			return -ENOMEM;
		r->reading.thread_count++;
	}
	return 0;
}

/** same_place() - do both readings mean the same stack by one row? */
static int same_place(const struct prof *a, const struct prof *b, uint32_t row)
{
	if (row >= prof_stack_count(b))
		return 0;
	const struct prof_stack *x = prof_stack(a, (struct stack_id){ row }),
				*y = prof_stack(b, (struct stack_id){ row });
	return x->parent.v == y->parent.v && x->frame.v == y->frame.v && x->stop == y->stop;
}

/** keep() - the sums of @prof under the book's accounts. */
static int keep(struct own_reading *r, const struct prof *prof, struct err *err)
{
	const struct book *book = r->reading.book;
	r->reading.costs = spare_calloc((size_t)book->count + 1, sizeof(*r->reading.costs));
	if (!r->reading.costs || copy_threads(r, prof) < 0)
		return err_set(err, -ENOMEM, "cannot keep a reading");
	uint32_t account = 0;
	for (uint32_t row = prof_stack_used(prof, 0); row < prof_stack_count(prof);
	     row = prof_stack_used(prof, row + 1)) {
		while (account < book->count && book->stacks[account] < row)
			account++;
		if (account == book->count || book->stacks[account] != row ||
		    !same_place(prof, book->names, row)) {
			err_set(err, -EAGAIN, "the recording changed while it was read");
			return err_hint(err, "ask again");
		}
		prof_stack_cost(prof, (struct stack_id){ row }, &r->reading.costs[account]);
	}
	prof_totals(prof, &r->reading.totals);
	r->reading.estimates = prof_estimates(prof);
	r->reading.lacks_culled = prof_lacks_culled(prof);
	r->reading.knows_peak_blocks = prof_knows_peak_blocks(prof);
	r->bytes = sizeof(*r) + (size_t)book->count * sizeof(*r->reading.costs) +
		   r->reading.thread_count * sizeof(*r->reading.threads);
	return 0;
}

static int list_accounts(struct book *book, struct err *err)
{
	uint32_t rows = prof_stack_count(book->names);
	for (uint32_t i = prof_stack_used(book->names, 0); i < rows;
	     i = prof_stack_used(book->names, i + 1))
		book->count++;
	book->stacks = calloc((size_t)book->count + 1, sizeof(*book->stacks));
	if (!book->stacks)
		return err_set(err, -ENOMEM, "cannot keep a recording's stacks");
	book->count = 0;
	for (uint32_t i = prof_stack_used(book->names, 0); i < rows;
	     i = prof_stack_used(book->names, i + 1))
		book->stacks[book->count++] = i;
	return 0;
}

/** new_whole() - the reading of everything, empty; it and its book have one reference. */
static struct own_reading *new_whole(const struct job *job, struct err *err)
{
	struct own_book *book = calloc(1, sizeof(*book));
	struct own_reading *r = calloc(1, sizeof(*r));
	if (!book || !r || !(r->key = strdup(""))) {
		free(book);
		free(r);
		err_set(err, -ENOMEM, "cannot open a recording");
		return NULL;
	}
	book->refs = 1;
	r->refs = 1;
	r->reading.book = &book->book;
	r->source = job->source;
	return r;
}

/**
 * open_book() - read everything, once, and resolve its names: those that run->book knows already,
 * or on this machine.
 */
static int open_book(struct job *job, struct run *run, struct own_reading **out, struct err *err)
{
	struct own_reading *r = new_whole(job, err);
	if (!r)
		return err->code;
	struct book *book = (struct book *)r->reading.book;
	const struct shelf_item *item = shelf_at(job->shelf, job->source);
	int rc = item->prepare(&run->reader, NULL, 0, err);
	struct query_source source = run_source(run);
	if (rc == 0 && !(book->names = query_run(&source, NULL, err)))
		rc = err->code ? err->code : -EIO;
	if (rc == 0)
		rc = run_resolve(run, book->names, err);
	if (rc == 0)
		rc = list_accounts(book, err);
	if (rc == 0)
		rc = keep(r, book->names, err);
	if (rc < 0) {
		shelf_reading_unref(r);
		return rc;
	}
	if (item->warn)
		item->warn(&run->reader);
	book->identity = run->reader.identity;
	book->being_written = run->reader.being_written;
	book->read_at_ns = clock_ns(CLOCK_MONOTONIC);
	snprintf(book->kind, sizeof(book->kind), "%s", run->reader.kind);
	snprintf(book->warning, sizeof(book->warning), "%s",
		 run->reader.warning ? run->reader.warning : "");
	*out = r;
	return 0;
}

/** book_of_snap() - a live reading, which has its names and sums already. Takes the reference. */
static int book_of_snap(struct job *job, struct snap *snap, struct own_reading **out,
			struct err *err)
{
	struct own_reading *r = new_whole(job, err);
	if (!r) {
		snap_unref(snap);
		return err->code;
	}
	struct book *book = (struct book *)r->reading.book;
	book->snap = snap;
	book->names = (struct prof *)snap_prof(snap);
	book->identity = snap_number(snap);
	book->being_written = 1;
	book->read_at_ns = snap_time_ns(snap);
	snprintf(book->kind, sizeof(book->kind), "recording");
	int rc = list_accounts(book, err);
	if (rc == 0)
		rc = keep(r, book->names, err);
	if (rc < 0) {
		shelf_reading_unref(r);
		return rc;
	}
	*out = r;
	return 0;
}

/** has_snapshots() - of a recording that grows it is asked until it has. */
static int has_snapshots(struct job *job)
{
	struct slot *slot = &job->shelf->slots[job->source];
	pthread_mutex_lock(&job->shelf->lock);
	int has = slot->has_snapshots;
	pthread_mutex_unlock(&job->shelf->lock);
	return has ? has : instant_is_there(slot->item.path) > 0;
}

/**
 * put_whole() - *@r is the slot's from here on; what was kept of another state is forgotten. Where
 * another question has read the same state meanwhile, that one is the slot's, and *@r: what is made
 * of two books does not fit together. A reference stays with the caller.
 */
static void put_whole(struct job *job, struct own_reading **r)
{
	struct shelf *shelf = job->shelf;
	struct slot *slot = &shelf->slots[job->source];
	int has = has_snapshots(job);
	pthread_mutex_lock(&shelf->lock);
	struct own_reading *there = slot->whole;
	if (there && there->reading.book->identity == (*r)->reading.book->identity) {
		shelf_reading_unref(*r);
		*r = there;
	} else {
		slot->failure[0] = '\0';
		slot->has_snapshots = ((struct book *)(*r)->reading.book)->has_snapshots = has;
		shelf_forget(shelf, job->source);
		((struct book *)(*r)->reading.book)->generation = ++slot->generation;
		slot->whole = *r;
	}
	(*r)->refs++;
	pthread_mutex_unlock(&shelf->lock);
}

/** whole_now() - what the slot has, if it is of state @identity. A reference. */
static struct own_reading *whole_now(struct job *job, uint64_t identity)
{
	struct shelf *shelf = job->shelf;
	pthread_mutex_lock(&shelf->lock);
	struct own_reading *r = shelf->slots[job->source].whole;
	if (r && r->reading.book->identity == identity)
		r->refs++;
	else
		r = NULL;
	pthread_mutex_unlock(&shelf->lock);
	return r;
}

static void put_failure(struct job *job, const struct err *err)
{
	pthread_mutex_lock(&job->shelf->lock);
	snprintf(job->shelf->slots[job->source].failure, 256, "%s", err->msg);
	pthread_mutex_unlock(&job->shelf->lock);
}

/**
 * whole_of() - the reading of everything, made if it is not there or of another state of the file.
 * A reference.
 */
static int whole_of(struct job *job, struct run *run, struct own_reading **out, struct err *err)
{
	*out = whole_now(job, run->reader.identity);
	if (*out)
		return 0;
	int rc = open_book(job, run, out, err);
	if (rc == 0) {
		put_whole(job, out);
		if (shelf_wants_slices(*out) && run->reader.query.run_keys && !job->indexes)
			shelf_index(job->shelf, job->source);
	}
	if (rc < 0 && rc != -ECANCELED)
		put_failure(job, err);
	return rc;
}

/** whole_live() - the same of one that is being written: its newest snap. Takes the reference. */
static int whole_live(struct job *job, struct snap *snap, struct own_reading **out, struct err *err)
{
	*out = whole_now(job, snap_number(snap));
	if (*out) {
		snap_unref(snap);
		return 0;
	}
	int rc = book_of_snap(job, snap, out, err);
	if (rc == 0)
		put_whole(job, out);
	return rc;
}

/** struct showing - whose product it is that shelf_show() shows. */
struct showing {
	struct job *job;
	struct own_reading *reading;
};

void shelf_show(const struct shelf_task *task)
{
	const struct showing *showing = task->own;
	struct job *job = showing->job;
	pthread_mutex_lock(&job->shelf->lock);
	if (!job->shown) {
		job->shown = showing->reading;
		job->shown->refs++;
	}
	pthread_mutex_unlock(&job->shelf->lock);
}

static int make_product(struct job *job, const struct own_reading *whole, struct own_reading *r,
			const struct query_source *source, struct own_reading **out,
			struct err *err)
{
	struct showing showing = { job, r };
	const struct shelf_task task = { .book = r->reading.book,
					 .totals = &whole->reading.totals,
					 .source = source,
					 .query = &job->query,
					 .own = &showing };
	r->reading.totals = whole->reading.totals;
	int rc = job->make(job->args, &task, &r->reading.product, err);
	if (rc < 0) {
		pthread_mutex_lock(&job->shelf->lock);
		shelf_reading_unref(r);
		pthread_mutex_unlock(&job->shelf->lock);
		return rc;
	}
	r->bytes = sizeof(*r) + r->reading.product.bytes;
	*out = r;
	return 0;
}

/** is_plain() - do all events of the recording count as they are? */
static int is_plain(const struct reading *whole)
{
	const struct prof_totals *t = &whole->totals;
	const struct prof_process *p = prof_process(whole->book->names);
	return !whole->book->being_written && !whole->estimates && !t->lost_events &&
	       !t->culled_allocations && !t->filtered_allocations && !t->forked_from &&
	       !t->cost.uncertain && !(p && p->sample_bytes) && !whole->book->warning[0];
}

/** only_moment() - is that all that is selected, and one that the timeline shows? */
static int only_moment(const struct query *query, const struct book *book, uint64_t *at_ns)
{
	struct query rest = *query;
	struct err none = { 0 };
	rest.at.kind = QUERY_TIME_NONE;
	return query->at.kind && query->at.kind != QUERY_TIME_PEAK &&
	       query->at.kind != QUERY_TIME_END && query_is_empty(&rest) &&
	       query_time_resolve_inside(&query->at, book->names, 1, at_ns, &none) == 0 &&
	       shelf_has_moment(book, *at_ns);
}

/** get_moments() - of the source, made by a replay if they are not there. A reference. */
static int get_moments(struct job *job, const struct own_reading *whole,
		       const struct query_source *source, struct own_reading **out, struct err *err)
{
	struct shelf *shelf = job->shelf;
	pthread_mutex_lock(&shelf->lock);
	struct own_reading *r = shelf_find(shelf, job->source, "moments?");
	if (r && r->reading.book == whole->reading.book) {
		r->refs++;
		pthread_mutex_unlock(&shelf->lock);
		*out = r;
		return 0;
	}
	pthread_mutex_unlock(&shelf->lock);
	r = calloc(1, sizeof(*r));
	if (!r || !(r->key = strdup("moments?"))) {
		free(r);
		return err_set(err, -ENOMEM, "cannot keep the moments");
	}
	const struct shelf_task task = { .book = whole->reading.book,
					 .totals = &whole->reading.totals,
					 .source = source };
	r->refs = 1;
	r->source = job->source;
	int rc = shelf_make_moments(NULL, &task, &r->reading.product, err);
	pthread_mutex_lock(&shelf->lock);
	r->reading.book = whole->reading.book;
	((struct own_book *)r->reading.book)->refs++;
	r->bytes = sizeof(*r) + r->reading.product.bytes;
	if (rc < 0)
		shelf_reading_unref(r);
	else
		shelf_keep(shelf, r);
	pthread_mutex_unlock(&shelf->lock);
	*out = r;
	return rc;
}

/**
 * read_moment() - 1: @r is filled out of sums; 0: it has to be replayed. Threads are not told apart
 * there.
 */
static int read_moment(struct job *job, const struct own_reading *whole,
		       const struct query_source *source, struct own_reading *r, struct err *err)
{
	const struct book *book = whole->reading.book;
	struct own_reading *moments = NULL;
	uint64_t at_ns;
	if (job->threads || !is_plain(&whole->reading) || !only_moment(&job->query, book, &at_ns))
		return 0;
	int rc = get_moments(job, whole, source, &moments, err);
	if (rc < 0)
		return rc;
	r->reading.costs = spare_calloc((size_t)book->count + 1, sizeof(*r->reading.costs));
	rc = r->reading.costs ? 0 : err_set(err, -ENOMEM, "cannot keep a reading");
	r->reading.totals = whole->reading.totals;
	if (rc == 0)
		rc = shelf_take_moment(moments->reading.product.data, at_ns, r->reading.costs,
				       book->count, &r->reading.totals.cost);
	if (rc == 1) {
		r->reading.knows_peak_blocks = 1;
		r->bytes = sizeof(*r) + (size_t)book->count * sizeof(*r->reading.costs);
	} else {
		spare_free(r->reading.costs);
		r->reading.costs = NULL;
	}
	pthread_mutex_lock(&job->shelf->lock);
	shelf_reading_unref(moments);
	pthread_mutex_unlock(&job->shelf->lock);
	return rc;
}

/** new_reading() - an empty one for the answer of @job, of the book of @whole. */
static struct own_reading *new_reading(struct job *job, const struct own_reading *whole,
				       struct err *err)
{
	struct own_reading *r = calloc(1, sizeof(*r));
	if (!r || !(r->key = strdup(job->key))) {
		free(r);
		err_set(err, -ENOMEM, "cannot keep a reading");
		return NULL;
	}
	r->refs = 1;
	r->source = job->source;
	r->reading.book = whole->reading.book;
	pthread_mutex_lock(&job->shelf->lock);
	((struct own_book *)r->reading.book)->refs++;
	pthread_mutex_unlock(&job->shelf->lock);
	return r;
}

static void unref(struct job *job, struct own_reading *r)
{
	pthread_mutex_lock(&job->shelf->lock);
	shelf_reading_unref(r);
	pthread_mutex_unlock(&job->shelf->lock);
}

/** look_held() - of chosen_read(): others may be busy, so it looks after itself. */
static int look_held(void *ctx, uint64_t done, uint64_t total)
{
	struct job *job = ctx;
	pthread_mutex_lock(&job->shelf->lock);
	shelf_look(job->shelf);
	pthread_mutex_unlock(&job->shelf->lock);
	on_tick(job, done, total);
	return atomic_load(&job->unwanted);
}

/** keep_chosen() - blocks that are chosen when they are made. 1, or negative errno. */
static int keep_chosen(const struct follow_held *held, struct own_reading *r, struct err *err)
{
	int rc = keep(r, held->chosen, err);
	return rc < 0 ? rc : 1;
}

/**
 * read_held() - a moment or a range of a recording that is being written: 1; 0: it needs more than
 * an index; negative errno.
 */
static int read_held(struct job *job, struct own_reading **out, struct err *err)
{
	const struct shelf_item *item = shelf_at(job->shelf, job->source);
	struct own_reading *whole = NULL, *r = NULL;
	struct follow_held held;
	if (!item->hold || job->make || job->threads)
		return 0;
	const struct follow_want want = { .names = job->query.function_regex || job->query.module,
					  .query = &job->query,
					  .patience = { look_held, job } };
	int rc = item->hold(item->ctx, &want, &held, err);
	if (rc <= 0)
		return rc;
	rc = whole_live(job, held.snap, &whole, err);
	if (rc == 0)
		r = new_reading(job, whole, err);
	if (rc == 0)
		rc = !r            ? err->code
		     : held.chosen ? keep_chosen(&held, r, err)
				   : shelf_read_held(job, whole, &held, r, err);
	item->go_on(item->ctx);
	unref(job, whole);
	if (rc == 1)
		*out = r;
	else
		unref(job, r);
	return rc;
}

static int read_selection(struct job *job, struct run *run, struct own_reading *whole,
			  struct own_reading **out, struct err *err)
{
	struct own_reading *r = new_reading(job, whole, err);
	if (!r)
		return err->code;
	run->book = r->reading.book;
	CLEANUP(prof_freep) struct prof *prof = NULL;
	int rc = shelf_at(job->shelf, job->source)
			 ->prepare(&run->reader, &job->query, job->streams, err);
	struct query_source source = run_source(run);
	if (rc == 0 && job->make)
		return make_product(job, whole, r, &source, out, err);
	int told = rc == 0 ? shelf_read_times(job, whole, &source, r, err) : 0;
	if (told == 0 && rc == 0 && !source.run_keys)
		told = read_moment(job, whole, &source, r, err);
	if (told > 0) {
		*out = r;
		return 0;
	}
	rc = told < 0 ? told : rc;
	if (rc == 0)
		prof = query_run(&source, &job->query, err);
	rc = prof ? keep(r, prof, err) : err->code ? err->code : -EIO;
	if (job->sums) /* all is told, whatever was asked for */
		r->key[strlen(r->key) - strlen(SHELF_SUMS)] = '\0';
	if (rc < 0) {
		pthread_mutex_lock(&job->shelf->lock);
		shelf_reading_unref(r);
		pthread_mutex_unlock(&job->shelf->lock);
		return rc;
	}
	*out = r;
	return 0;
}

/** index_only() - for who asks about moments later. */
static int index_only(struct job *job, struct run *run, const struct own_reading *whole,
		      struct err *err)
{
	struct own_reading *index = NULL;
	int rc = shelf_at(job->shelf, job->source)->prepare(&run->reader, NULL, 0, err);
	struct query_source source = run_source(run);
	if (rc == 0)
		rc = shelf_slices(job, whole, &source, &index, err);
	pthread_mutex_lock(&job->shelf->lock);
	shelf_reading_unref(index);
	pthread_mutex_unlock(&job->shelf->lock);
	return rc < 0 ? rc : 0;
}

int shelf_work(struct job *job, struct own_reading **out, struct err *err)
{
	const struct shelf_item *item = shelf_at(job->shelf, job->source);
	struct run run = { .job = job };
	struct own_reading *whole = NULL, *as_file = NULL;
	struct snap *snap = item->live ? item->live(item->ctx) : NULL;
	int rc = snap ? whole_live(job, snap, &whole, err) : 0;
	if (rc == 0 && whole && !job->key[0]) {
		*out = whole;
		return 0;
	}
	if (rc == 0 && whole && (rc = read_held(job, out, err)) != 0) {
		unref(job, whole);
		return rc < 0 ? rc : 0;
	}
	if (rc == 0)
		rc = item->open(item->ctx, on_tick, job, &run.reader, err);
	if (rc < 0) {
		put_failure(job, err);
	} else if (whole) {
		/*
		 * a selection needs the events that the file holds by now, and a book of just
		 * these: more came since the snap
		 */
		run.book = whole->reading.book;
		run.reader.identity = whole->reading.book->identity;
		rc = open_book(job, &run, &as_file, err);
		if (rc == 0)
			((struct book *)as_file->reading.book)->generation = run.book->generation;
		if (rc == 0)
			rc = read_selection(job, &run, as_file, out, err);
	} else {
		rc = whole_of(job, &run, &whole, err);
		if (rc == 0 && job->indexes)
			rc = index_only(job, &run, whole, err);
		else if (rc == 0 && !job->key[0])
			*out = STEAL(whole);
		else if (rc == 0)
			rc = read_selection(job, &run, whole, out, err);
	}
	pthread_mutex_lock(&job->shelf->lock);
	shelf_reading_unref(whole);
	shelf_reading_unref(as_file);
	pthread_mutex_unlock(&job->shelf->lock);
	if (run.reader.close)
		run.reader.close(run.reader.own);
	return rc;
}
