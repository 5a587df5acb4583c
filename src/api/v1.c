/* SPDX-License-Identifier: Apache-2.0 */
/* v1.c - from a request to an answer: words, cache, waiting, errors. */
#include "api/v1.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/byteledger-openapi.h"
#include "api/v1_internal.h"
#include "base/clock.h"
#include "base/intern.h"

_Static_assert(V1_LIVE_FIRST >= SHELF_SOURCES_MAX, "numbers of recordings end before");

#define ANSWERS_MAX 64
#define ANSWER_BYTES_MAX (4u << 20)   /* a larger one is not kept */
#define ANSWERS_BYTES_MAX (32u << 20) /* of all of them */
#define WORK_LEAST 4 /* answers are put together so many at once, or two a processor */
#define WORK_MOST 32
#define TURN_NS (30 * NS_PER_S) /* a question waits so long for memory that others hold */
#define TURN_PAUSE_NS (20 * 1000000u)
#define RETRY_MS 100
#define PART_WAIT_MS 100

struct answer {
	char *question;
	uint64_t used;
	char etag[48];
	struct buf body;
};

struct v1_route {
	const char *path;
	unsigned words;
	v1_answer answer;
};

#define FOLDED (ASK_SRC | ASK_SELECTION | ASK_TRANSFORMS)

static const struct v1_route all_routes[] = {
	{ "/api/v1/sources", 0, v1_sources },
	{ "/api/v1/summary", ASK_SRC | ASK_WAIT, v1_summary },
	{ "/api/v1/timeline", ASK_SRC | ASK_SERIES | ASK_WAIT, v1_timeline },
	{ "/api/v1/tree", FOLDED | ASK_TREE | ASK_WAIT, v1_tree },
	{ "/api/v1/rows", FOLDED | ASK_ROWS | ASK_WAIT, v1_rows },
	{ "/api/v1/allocations", ASK_SRC | ASK_SELECTION | ASK_BLOCKS | ASK_WAIT, v1_allocations },
	{ "/api/v1/allocations/", ASK_SRC | ASK_WAIT, v1_allocation },
	{ "/api/v1/histogram", ASK_SRC | ASK_SELECTION | ASK_AXES | ASK_WAIT, v1_histogram },
	{ "/api/v1/maps", ASK_SRC | ASK_SELECTION | ASK_WAIT, v1_maps },
	{ "/api/v1/space", ASK_SRC | ASK_SELECTION | ASK_WIDTH | ASK_WAIT, v1_space },
	{ "/api/v1/address/", ASK_SRC | ASK_SELECTION | ASK_WAIT, v1_address },
	{ "/api/v1/growth", FOLDED | ASK_ROWS | ASK_MARKS | ASK_WAIT, v1_growth },
	{ "/api/v1/source", ASK_SRC | ASK_SELECTION | ASK_FILE | ASK_WAIT, v1_source },
	{ "/api/v1/explain", ASK_SRC | ASK_SHEET | ASK_WAIT, v1_explain },
	{ "/api/v1/events", ASK_SRC | ASK_TOPICS, v1_events },
	{ "/api/v1/alerts", 0, v1_alerts },
	{ "/api/v1/export", ASK_SRC | ASK_SELECTION | ASK_EXPORT | ASK_WAIT, v1_export },
	{ "/debug/pprof/heap", ASK_SRC | ASK_SELECTION, v1_pprof_heap },
	{ "/debug/pprof/allocs", ASK_SRC | ASK_SELECTION, v1_pprof_allocs },
	{ "/api/v1/search", FOLDED | ASK_FIND | ASK_WAIT, v1_search },
};

struct place {
	struct v1 *v1;
	const struct v1_route *route;
};

struct v1 {
	struct shelf *shelf;
	struct place places[ARRAY_LEN(all_routes)];
	pthread_mutex_t lock;
	struct answer answers[ANSWERS_MAX];
	/* of their bodies */
	size_t answers_bytes;
	uint64_t clock;
	/* questions of which an answer is put together, and how many may be */
	pthread_cond_t less;
	unsigned at_work, most_at_work;
	/* one at a time of those that found no memory */
	pthread_mutex_t turn;
	/* questions that are being answered, but for those that wait for their turn */
	atomic_uint asked;
	struct v1_live lives[V1_LIVES_MAX];
	size_t live_count;
	/* a ring, under lock */
	struct told {
		int32_t pid;
		uint64_t time_realtime_ns;
		char *text, *json;
	} told[V1_TOLD_MAX];
	uint64_t told_count;
};

/* ---- what is no recording -------------------------------------------------------------------- */

int v1_add_live(struct v1 *v1, const struct v1_live *live)
{
	if (v1->live_count == V1_LIVES_MAX)
		return -E2BIG;
	v1->lives[v1->live_count++] = *live;
	return 0;
}

const struct v1_live *v1_lives(const struct v1 *v1, size_t *count)
{
	*count = v1->live_count;
	return v1->lives;
}

void v1_tell(struct v1 *v1, const struct v1_alert *alert)
{
	struct told copy = { alert->pid, alert->time_realtime_ns, strdup(alert->text),
			     strdup(alert->json) };
	if (!copy.json || !copy.text) {
		free(copy.json);
		free(copy.text);
		return; /* whoever watches said it on stderr, too */
	}
	pthread_mutex_lock(&v1->lock);
	struct told *to = &v1->told[v1->told_count++ % V1_TOLD_MAX];
	free(to->json);
	free(to->text);
	*to = copy;
	pthread_mutex_unlock(&v1->lock);
}

static uint64_t v1_told_count(struct v1 *v1)
{
	pthread_mutex_lock(&v1->lock);
	uint64_t count = v1->told_count;
	pthread_mutex_unlock(&v1->lock);
	return count;
}

int v1_told(struct v1 *v1, uint64_t number, struct buf *to, uint64_t *last)
{
	int found = 0;
	pthread_mutex_lock(&v1->lock);
	*last = v1->told_count;
	if (number && number <= v1->told_count && v1->told_count - number < V1_TOLD_MAX) {
		buf_puts(to, v1->told[(number - 1) % V1_TOLD_MAX].json);
		found = 1;
	}
	pthread_mutex_unlock(&v1->lock);
	return found;
}

void v1_alert_flags(struct v1 *v1, int32_t pid, uint64_t from_ns, uint64_t to_ns,
		    void (*put)(void *ctx, uint64_t time_ns, const char *text), void *ctx)
{
	pthread_mutex_lock(&v1->lock);
	uint64_t i = v1->told_count > V1_TOLD_MAX ? v1->told_count - V1_TOLD_MAX : 0;
	for (; i < v1->told_count; i++) {
		const struct told *told = &v1->told[i % V1_TOLD_MAX];
		if (told->pid == pid && told->time_realtime_ns >= from_ns &&
		    told->time_realtime_ns <= to_ns)
			put(ctx, told->time_realtime_ns - from_ns, told->text);
	}
	pthread_mutex_unlock(&v1->lock);
}

/** is_live() - does the question mean a source that is no recording? */
static int is_live(const struct v1 *v1, uint64_t source)
{
	return source >= V1_LIVE_FIRST && source - V1_LIVE_FIRST < v1->live_count;
}

/* ---- readings of a question ------------------------------------------------------------------ */

static int is_gone(void *ctx)
{
	return http_request_gone(ctx);
}

/**
 * begin_work(), end_work() - each answer that is put together takes memory of its own: only as many
 * as the processors can do. Who waits for a reading is not one of them.
 */
static void begin_work(struct v1_call *call)
{
	struct v1 *v1 = call->v1;
	pthread_mutex_lock(&v1->lock);
	while (v1->at_work >= v1->most_at_work)
		pthread_cond_wait(&v1->less, &v1->lock);
	v1->at_work++;
	pthread_mutex_unlock(&v1->lock);
	call->works = 1;
}

static void end_work(struct v1_call *call)
{
	struct v1 *v1 = call->v1;
	if (!call->works)
		return;
	pthread_mutex_lock(&v1->lock);
	v1->at_work--;
	pthread_cond_signal(&v1->less);
	pthread_mutex_unlock(&v1->lock);
	call->works = 0;
}

int v1_reading(struct v1_call *call, const struct shelf_query *query, struct reading **out,
	       struct err *err)
{
	/*
	 * who can show a part has it soon: all of it takes longer than anybody likes to look at
	 * nothing
	 */
	uint64_t wait_ms = call->takes_part && call->ask.wait_ms > PART_WAIT_MS ? PART_WAIT_MS
										: call->ask.wait_ms;
	const struct shelf_patience patience = { .has_wait = call->ask.has_wait,
						 .stops = call->ask.stops,
						 .wait_ns = wait_ms * 1000000,
						 .takes_part = call->takes_part,
						 .gone = is_gone,
						 .ctx = (void *)call->request };
	end_work(call);
	int rc = shelf_get(call->shelf, query, &patience, out, &call->progress, err);
	if (call->takes_turns && rc > 0)
		begin_work(call);
	return rc > 0 ? 0 : rc == 0 ? V1_PENDING : rc;
}

/**
 * wants_sums() - is the question answered without the peak of a range, and what was temporary in
 * it? Or without that of the code that it names?
 */
static int wants_sums(const struct v1_call *call)
{
	const struct query *query = &call->ask.query;
	if (call->ask.cost == VIEW_COST_PEAK || query->at.kind)
		return 0;
	if (query->from.kind || query->to.kind)
		return call->wants_one && call->ask.cost != VIEW_COST_TEMPORARY;
	/* while it is written, a peak would be read for from the start, at each question */
	return (query->function_regex || query->module) &&
	       (call->wants_one || shelf_grows(call->shelf, call->source));
}

static int read_base(struct v1_call *call, struct err *err)
{
	const struct ask *ask = &call->ask;
	CLEANUP(buf_fini) struct buf key = { 0 };
	struct shelf_query query = { .source = ask->base_source,
				     .key = ask->reading,
				     .query = ask->query };
	query.sums = !ask->base_time && wants_sums(call);
	if (ask->base_source >= shelf_count(call->shelf))
		return err_set(err, -ENOENT, "there is no source %llu to compare with",
			       (unsigned long long)ask->base_source);
	if (ask->base_time) {
		buf_printf(&key, "at=%s", ask->base_time);
		if (ask->reading_but_at[0])
			buf_printf(&key, "&%s", ask->reading_but_at);
		query.key = buf_cstr(&key);
		query.query.at = ask->base_at;
	}
	return v1_reading(call, &query, &call->base, err);
}

int v1_read(struct v1_call *call, struct err *err)
{
	CLEANUP(buf_fini) struct buf key = { 0 };
	int threads = call->wants_threads && call->ask.reading[0];
	buf_printf(&key, "%s%s", call->ask.reading, threads ? "#threads" : "");
	const struct shelf_query query = { .source = call->source,
					   .key = buf_cstr(&key),
					   .query = call->ask.query,
					   .threads = threads,
					   .sums = !threads && wants_sums(call) };
	int rc = call->reading ? 0 : v1_reading(call, &query, &call->reading, err);
	if (rc == 0 && call->ask.has_base && !call->base)
		rc = read_base(call, err);
	return rc;
}

int v1_make(struct v1_call *call, const char *words,
	    int (*make)(const void *args, const struct shelf_task *task,
			struct shelf_product *product, struct err *err),
	    const void *args, size_t args_len, int streams, struct err *err)
{
	CLEANUP(buf_fini) struct buf key = { 0 };
	buf_printf(&key, "%s?%s", words, call->ask.reading);
	const struct shelf_query query = { .source = call->source,
					   .key = buf_cstr(&key),
					   .query = call->ask.query,
					   .make = make,
					   .args = args,
					   .args_len = args_len,
					   .streams = streams };
	return v1_reading(call, &query, &call->reading, err);
}

int v1_fold(struct v1_call *call, struct err *err)
{
	int rc = v1_read(call, err);
	if (rc)
		return rc;
	struct reading *const sides[] = { call->reading, call->base };
	unsigned count = call->base && call->base->book != call->reading->book ? 2 : 1;
	call->folded =
		shelf_fold(call->shelf, &call->ask.fold, call->ask.folding, sides, count, err);
	return call->folded ? 0 : err->code;
}

uint64_t *v1_values(const struct reading *reading, enum view_cost cost, struct err *err)
{
	uint32_t count = reading->book->count;
	uint64_t *values = malloc((count + 1) * sizeof(*values));
	if (!values)
		err_set(err, -ENOMEM, "cannot add up");
	for (uint32_t i = 0; values && i < count; i++)
		values[i] = view_cost_of(&reading->costs[i], cost);
	return values;
}

uint64_t *v1_blocks(const struct reading *reading, enum view_cost cost, struct err *err)
{
	uint32_t count = reading->book->count;
	uint64_t *values = malloc((count + 1) * sizeof(*values));
	if (!values)
		err_set(err, -ENOMEM, "cannot add up");
	for (uint32_t i = 0; values && i < count; i++) {
		const struct cost *c = &reading->costs[i];
		values[i] = cost == VIEW_COST_LIVE        ? c->leaked + c->uncertain
			    : cost == VIEW_COST_LEAKED    ? c->leaked
			    : cost == VIEW_COST_PEAK      ? c->peak_blocks
			    : cost == VIEW_COST_TEMPORARY ? c->temporary
							  : c->allocations;
	}
	return values;
}

void v1_unapplied(struct v1_call *call, const char *why, const char *word, const char *value)
{
	if (call->unapplied_count == V1_UNAPPLIED_MAX)
		return;
	snprintf(call->unapplied[call->unapplied_count].word, sizeof(call->unapplied[0].word),
		 value ? "%s=%.40s" : "%s", word, value);
	call->unapplied[call->unapplied_count++].why = why;
}

/* ---- one request ----------------------------------------------------------------------------- */

static const char *get_word(void *ctx, const char *key)
{
	return http_request_arg(ctx, key);
}

static void question_text(struct buf *to, const struct v1_route *route, const char *tail,
			  const struct ask *ask)
{
	buf_printf(to, "%s%s?src=%llu&%s&%s", route->path, tail, (unsigned long long)ask->source,
		   ask->selection, ask->rest);
}

/** make_etag() - of the question and of the state of the files that it is about. */
static void make_etag(const struct shelf *shelf, const struct ask *ask, const char *question,
		      char etag[48])
{
	uint64_t state = 0;
	const uint64_t sources[] = { ask->source, ask->has_base ? ask->base_source : ask->source };
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		const struct shelf_item *item =
			sources[i] < shelf_count(shelf) ? shelf_at(shelf, sources[i]) : NULL;
		if (item && item->identity)
			state = hash_u64(state, item->identity(item->ctx), 0x62797465);
	}
	snprintf(etag, 48, "\"%016llx%016llx\"", (unsigned long long)state,
		 (unsigned long long)hash_bytes(question, strlen(question), 0x6c656467));
}

static int find_answer(struct v1 *v1, const char *question, const char *etag, struct buf *body)
{
	int found = 0;
	pthread_mutex_lock(&v1->lock);
	for (size_t i = 0; i < ANSWERS_MAX && !found; i++) {
		struct answer *a = &v1->answers[i];
		if (!a->question || strcmp(a->etag, etag) != 0 ||
		    strcmp(a->question, question) != 0)
			continue;
		a->used = ++v1->clock;
		buf_put(body, a->body.data, a->body.len);
		found = !buf_failed(body);
		if (!found) /* it is made again, where there is room */
			buf_fini(body);
		break;
	}
	pthread_mutex_unlock(&v1->lock);
	return found;
}

/** drop_answer() - under the lock. */
static void drop_answer(struct v1 *v1, struct answer *a)
{
	v1->answers_bytes -= a->body.len;
	free(a->question);
	buf_fini(&a->body);
	*a = (struct answer){ 0 };
}

static void drop_answers(struct v1 *v1)
{
	pthread_mutex_lock(&v1->lock);
	for (size_t i = 0; i < ANSWERS_MAX; i++)
		drop_answer(v1, &v1->answers[i]);
	pthread_mutex_unlock(&v1->lock);
}

/** oldest_answer() - that is kept; NULL: none is. Under the lock. */
static struct answer *oldest_answer(struct v1 *v1)
{
	struct answer *oldest = NULL;
	for (size_t i = 0; i < ANSWERS_MAX; i++)
		if (v1->answers[i].question && (!oldest || v1->answers[i].used < oldest->used))
			oldest = &v1->answers[i];
	return oldest;
}

static void keep_answer(struct v1 *v1, const char *question, const char *etag,
			const struct buf *body)
{
	if (body->len > ANSWER_BYTES_MAX)
		return;
	pthread_mutex_lock(&v1->lock);
	struct answer *to = &v1->answers[0];
	for (size_t i = 0; i < ANSWERS_MAX; i++) {
		struct answer *a = &v1->answers[i];
		if (a->question && strcmp(a->question, question) == 0) {
			to = a;
			break;
		}
		if (a->used < to->used)
			to = a;
	}
	drop_answer(v1, to);
	while (v1->answers_bytes + body->len > ANSWERS_BYTES_MAX)
		drop_answer(v1, oldest_answer(v1));
	to->question = strdup(question);
	to->used = ++v1->clock;
	buf_put(&to->body, body->data, body->len);
	snprintf(to->etag, sizeof(to->etag), "%s", etag);
	v1->answers_bytes += to->body.len;
	if (!to->question || buf_failed(&to->body))
		drop_answer(v1, to);
	pthread_mutex_unlock(&v1->lock);
}

/** make_answer() - the object, into @body. As v1_answer. */
static int make_answer(const struct v1_route *route, struct v1_call *call, struct buf *body,
		       struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	if (!to)
		return err_set(err, -ENOMEM, "cannot answer");
	jsonw_init(&call->json, to);
	int rc = route->answer(call, err);
	if (fclose(to) != 0 && rc == 0)
		rc = err_set(err, -ENOMEM, "cannot answer");
	if (rc == 0 && !call->reply->body_more && !call->reply->stream_more) {
		buf_put(body, text, len);
		buf_putc(body, '\n');
		if (buf_failed(body))
			rc = err_set(err, -ENOMEM, "cannot answer");
	}
	free(text);
	return rc;
}

/** release() - what a question held, but not what it asks. */
static void release(struct v1_call *call)
{
	if (call->folded == &call->own)
		fold_free(call->own.fold);
	else
		shelf_unfold(call->shelf, call->folded);
	shelf_put(call->shelf, call->reading);
	shelf_put(call->shelf, call->base);
	end_work(call);
}

/** held_by_others() - come again: the memory that @call needs is there, but not now. */
static int held_by_others(const struct v1_call *call, struct err *err)
{
	if (call->ask.has_wait)
		return V1_PENDING;
	*err = (struct err){ 0 };
	err_set(err, -EBUSY, "other questions hold the memory that this one needs");
	return err_hint(err, "ask again, or let the server take more: '--memory 2G'");
}

/**
 * answer_in_turn() - @call found no memory: again, once others have given theirs back. -ENOMEM
 * where it found none alone, either, or has waited for long; who can come back is told to.
 */
static int answer_in_turn(const struct v1_route *route, struct v1_call *call,
			  const struct v1_call *fresh, struct buf *body, struct err *err)
{
	struct v1 *v1 = call->v1;
	const uint64_t wait_ns = call->ask.has_wait ? call->ask.wait_ms * 1000000 : TURN_NS;
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + wait_ns;
	const struct timespec pause = { .tv_nsec = TURN_PAUSE_NS }, last = clock_time(until);
	int rc = -ENOMEM, alone = 0;
	release(call);
	*call = *fresh;
	atomic_fetch_sub(&v1->asked, 1);
	if (pthread_mutex_clocklock(&v1->turn, CLOCK_MONOTONIC, &last) != 0) {
		atomic_fetch_add(&v1->asked, 1);
		return held_by_others(call, err);
	}
	do {
		nanosleep(&pause, NULL);
		drop_answers(v1);
		alone = shelf_shed(call->shelf) == 0;
		release(call);
		*call = *fresh;
		buf_clear(body);
		*err = (struct err){ 0 };
		alone &= atomic_fetch_add(&v1->asked, 1) == 0;
		rc = make_answer(route, call, body, err);
		alone &= atomic_fetch_sub(&v1->asked, 1) == 1;
	} while (rc == -ENOMEM && !alone && !http_request_gone(call->request) &&
		 clock_ns(CLOCK_MONOTONIC) < until);
	atomic_fetch_add(&v1->asked, 1);
	pthread_mutex_unlock(&v1->turn);
	return rc != -ENOMEM || alone ? rc : held_by_others(call, err);
}

static int answer(const struct v1_route *route, struct v1_call *call, struct buf *body,
		  struct err *err)
{
	const struct v1_call fresh = *call;
	atomic_fetch_add(&call->v1->asked, 1);
	int rc = make_answer(route, call, body, err);
	if (rc == -ENOMEM)
		rc = answer_in_turn(route, call, &fresh, body, err);
	atomic_fetch_sub(&call->v1->asked, 1);
	return rc;
}

static void put_pending(const struct v1_call *call, struct http_reply *reply)
{
	reply->status = 202;
	buf_printf(&reply->body, "{\"progress\":%.3f,\"retry_ms\":%d}\n", call->progress, RETRY_MS);
}

static void end_call(struct v1_call *call)
{
	release(call);
	ask_fini(&call->ask);
}

static void handle(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	const struct place *place = ctx;
	const struct v1_route *route = place->route;
	struct v1 *v1 = place->v1;
	struct v1_call call = {
		.v1 = v1, .shelf = v1->shelf, .request = request, .reply = reply, .takes_turns = 1
	};
	const char *names[ASK_NAMES_MAX + 1];
	char etag[48];
	struct err err = { 0 };
	CLEANUP(buf_fini) struct buf question = { 0 };
	if (http_request_bytes(request) > ASK_QUERY_MAX) {
		http_reply_error(reply, 414, "the question is longer than %d bytes", ASK_QUERY_MAX);
		return;
	}
	ask_names(route->words, names);
	if (http_request_only(request, names, reply) < 0)
		return;
	if (ask_parse(get_word, (void *)request, route->words, &call.ask, &err) < 0) {
		http_reply_err(reply, &err);
		return;
	}
	call.source = call.ask.source;
	if (route->words & ASK_SRC && route->answer != v1_events && !call.ask.source_given &&
	    !shelf_count(v1->shelf) && v1->live_count)
		call.source = V1_LIVE_FIRST;
	int about_live = route->words & ASK_SRC && is_live(v1, call.source);
	/* what the disk holds now is no state of the recording, nor what a store does */
	int cached = route->words != 0 && route->answer != v1_events &&
		     route->answer != v1_source && !about_live &&
		     !(route->answer == v1_timeline && v1_timeline_counts(call.ask.series));
	question_text(&question, route, http_request_tail(request), &call.ask);
	if (route->answer == v1_timeline) /* alerts are among its flags */
		buf_printf(&question, "#%llu", (unsigned long long)v1_told_count(v1));
	make_etag(v1->shelf, &call.ask, buf_cstr(&question), etag);
	int rc = 0;
	if (about_live && route->answer != v1_explain && route->answer != v1_events &&
	    !(route->answer == v1_timeline && v1->lives[call.source - V1_LIVE_FIRST].timeline)) {
		rc = err_set(&err, -ENOENT, "source %llu is no recording",
			     (unsigned long long)call.source);
	} else if (route->words & ASK_SRC && !about_live && call.source >= shelf_count(v1->shelf) &&
		   (call.ask.source_given || route->answer != v1_events)) {
		rc = err_set(&err, -ENOENT, "there is no source %llu: there are %zu",
			     (unsigned long long)call.ask.source, shelf_count(v1->shelf));
	} else if (cached && http_request_has_etag(request, etag)) {
		reply->status = 304;
	} else if (!cached || !find_answer(v1, buf_cstr(&question), etag, &reply->body)) {
		rc = answer(route, &call, &reply->body, &err);
		cached = cached && !call.in_part;
		if (rc == 0 && cached && !reply->body_more && !reply->stream_more &&
		    !buf_failed(&reply->body))
			keep_answer(v1, buf_cstr(&question), etag, &reply->body);
	}
	if (rc < 0) {
		http_reply_err(reply, &err);
	} else if (rc == V1_PENDING) {
		put_pending(&call, reply);
	} else if (cached) {
		memcpy(reply->etag, etag, sizeof(etag));
		reply->cache = "no-cache";
	}
	end_call(&call);
}

static void serve_openapi(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	static const char *const none[] = { NULL };
	(void)ctx;
	if (http_request_only(request, none, reply) < 0)
		return;
	buf_put(&reply->body, byteledger_openapi, sizeof(byteledger_openapi) - 1);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct v1 *v1_new(struct shelf *shelf, struct err *err)
{
	struct v1 *v1 = calloc(1, sizeof(*v1));
	if (!v1) {
		err_set(err, -ENOMEM, "cannot serve recordings");
		return NULL;
	}
	v1->shelf = shelf;
	pthread_mutex_init(&v1->lock, NULL);
	pthread_mutex_init(&v1->turn, NULL);
	pthread_cond_init(&v1->less, NULL);
	long most = 2 * sysconf(_SC_NPROCESSORS_ONLN);
	v1->most_at_work = most < WORK_LEAST  ? WORK_LEAST
			   : most > WORK_MOST ? WORK_MOST
					      : (unsigned)most;
	for (size_t i = 0; i < ARRAY_LEN(all_routes); i++)
		v1->places[i] = (struct place){ v1, &all_routes[i] };
	return v1;
}

void v1_free(struct v1 *v1)
{
	if (!v1)
		return;
	for (size_t i = 0; i < ANSWERS_MAX; i++) {
		free(v1->answers[i].question);
		buf_fini(&v1->answers[i].body);
	}
	for (size_t i = 0; i < V1_TOLD_MAX; i++) {
		free(v1->told[i].text);
		free(v1->told[i].json);
	}
	pthread_mutex_destroy(&v1->lock);
	pthread_mutex_destroy(&v1->turn);
	pthread_cond_destroy(&v1->less);
	free(v1);
}

size_t v1_routes(struct v1 *v1, struct http_route routes[V1_ROUTES_MAX])
{
	size_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(all_routes); i++)
		routes[count++] = (struct http_route){ .path = all_routes[i].path,
						       .handler = handle,
						       .ctx = &v1->places[i] };
	routes[count++] = (struct http_route){ .path = "/debug/pprof/", .handler = v1_pprof_index };
	routes[count++] = (struct http_route){ .path = "/openapi/byteledger-openapi.json",
					       .handler = serve_openapi };
	return count;
}
