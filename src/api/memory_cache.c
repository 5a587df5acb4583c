/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_cache.c - what scrapes and questions make of a history is made once for all who ask: while
 * there is no newer sample, and while it is so young that making it again would take more than a
 * share of one CPU. One at a time: the lock is held meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/memory.h"
#include "base/clock.h"

#define TRENDS_BUDGET 0.001   /* of one CPU, for each process that is watched */
#define ANSWERS_BUDGET 0.02   /* of one CPU, for a question that is asked again and again */
#define ANSWERS 4             /* questions remembered */
#define ANSWER_MAX (4u << 20) /* bytes; longer ones are not */
#define SAME_NS (10 * NS_PER_S)
#define WINDOW_NS 600000000000ull

/** struct made - when something was made, and out of what. */
struct made {
	/* of the sample */
	uint64_t time_ns;
	/* CLOCK_MONOTONIC; 0 = never made */
	uint64_t at_ns, due_ns;
};

struct memory_cache {
	pthread_mutex_t lock;
	struct {
		int32_t pid;
		struct made made;
		struct memory_trends trends;
	} trends[MEMORY_TARGETS_MAX];
	struct {
		char *question;
		struct made made;
		struct buf body;
	} answers[ANSWERS];
};

struct memory_cache *memory_cache_new(void)
{
	struct memory_cache *c = calloc(1, sizeof(*c));
	if (c)
		pthread_mutex_init(&c->lock, NULL);
	return c;
}

void memory_cache_free(struct memory_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < ANSWERS; i++) {
		free(c->answers[i].question);
		buf_fini(&c->answers[i].body);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static int is_fresh(const struct made *made, uint64_t time_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	/* "five minutes ago" moves on where no samples come any more */
	return made->due_ns &&
	       (now < made->due_ns || (made->time_ns == time_ns && now - made->at_ns < SAME_NS));
}

static void was_made(struct made *made, uint64_t time_ns, uint64_t cpu_ns, double budget)
{
	uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	made->time_ns = time_ns;
	made->at_ns = clock_ns(CLOCK_MONOTONIC);
	made->due_ns = made->at_ns + (uint64_t)((double)took / budget);
}

/* ---- trends ---------------------------------------------------------------------------------- */

struct sized {
	size_t number;
	uint64_t bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* The process, and the labels that are largest now. */
static size_t largest(const struct history *history, struct sized *sized)
{
	struct history_point now[HISTORY_LABELS_MAX];
	size_t all = history_keys(history), keys = 0;
	if (history_newest(history, now, all) < 0)
		return 0;
	for (size_t i = 0; i < all; i++)
		if (strcmp(history_key(history, i).class, HISTORY_CLASS_KIND) != 0)
			sized[keys++] = (struct sized){ i, now[i].rss_bytes };
	qsort(sized + 1, keys - 1, sizeof(*sized), by_size);
	return keys <= MEMORY_METRIC_LABELS_MAX ? keys : MEMORY_METRIC_LABELS_MAX + 1;
}

static int judge(const struct memory_facts *facts, struct memory_trends *trends)
{
	struct sized sized[HISTORY_LABELS_MAX];
	size_t count = largest(facts->history, sized);
	uint64_t from = facts->time_ns > WINDOW_NS ? facts->time_ns - WINDOW_NS : 0;
	struct history_line lines[HISTORY_LINES_MAX];
	int rc = 0;
	trends->count = 0;
	while (trends->count < count && rc == 0) {
		size_t n = 0;
		for (; n < HISTORY_LINES_MAX && trends->count + n < count; n++)
			lines[n].number = sized[trends->count + n].number;
		rc = history_lines(facts->history, lines, n, from, facts->time_ns);
		for (size_t i = 0; i < n && rc == 0; i++) {
			struct memory_trend *t = &trends->rows[trends->count++];
			t->key = lines[i].key;
			rc = view_growth(lines[i].points, lines[i].count, &t->growth);
		}
		history_lines_fini(lines, n);
	}
	return rc;
}

/*
 * The place of this process, or of the one asked for the longest time ago: processes come and go.
 */
static size_t trends_of(const struct memory_cache *c, int32_t pid)
{
	size_t oldest = 0;
	for (size_t i = 0; i < MEMORY_TARGETS_MAX; i++) {
		if (c->trends[i].pid == pid)
			return i;
		if (c->trends[i].made.at_ns < c->trends[oldest].made.at_ns)
			oldest = i;
	}
	return oldest;
}

int memory_trends_get(struct memory_cache *c, const struct memory_facts *facts,
		      struct memory_trends *trends)
{
	int rc = 0;
	pthread_mutex_lock(&c->lock);
	size_t i = trends_of(c, facts->pid);
	if (c->trends[i].pid != facts->pid || !is_fresh(&c->trends[i].made, facts->time_ns)) {
		uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		c->trends[i].pid = facts->pid;
		rc = judge(facts, &c->trends[i].trends);
		if (rc == 0)
			was_made(&c->trends[i].made, facts->time_ns, cpu, TRENDS_BUDGET);
		else
			c->trends[i].made.due_ns = 0;
	}
	if (rc == 0)
		*trends = c->trends[i].trends;
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int remembered(const struct memory_cache *c, const char *question)
{
	for (int i = 0; i < ANSWERS; i++) {
		if (c->answers[i].question && strcmp(c->answers[i].question, question) == 0)
			return i;
	}
	return -1;
}

/* The place of the same question, or of the one asked the longest time ago. */
static int place_of(const struct memory_cache *c, const char *question)
{
	int place = remembered(c, question);
	for (int i = 0, oldest = place < 0; i < ANSWERS && oldest; i++) {
		if (place < 0 || c->answers[i].made.at_ns < c->answers[place].made.at_ns)
			place = i;
	}
	return place;
}

int memory_cache_answer(struct memory_cache *c, const char *question, uint64_t time_ns,
			memory_answer_fn make, void *ctx, struct buf *body)
{
	pthread_mutex_lock(&c->lock);
	int i = place_of(c, question), rc = 0;
	if (remembered(c, question) == i && is_fresh(&c->answers[i].made, time_ns)) {
		buf_put(body, c->answers[i].body.data, c->answers[i].body.len);
		pthread_mutex_unlock(&c->lock);
		return 0;
	}
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	size_t before = body->len;
	rc = make(ctx, body);
	free(c->answers[i].question);
	c->answers[i].question = NULL;
	buf_clear(&c->answers[i].body);
	if (rc == 0 && body->len - before <= ANSWER_MAX) {
		buf_put(&c->answers[i].body, body->data + before, body->len - before);
		if (!buf_failed(&c->answers[i].body))
			c->answers[i].question = strdup(question);
		was_made(&c->answers[i].made, time_ns, cpu, ANSWERS_BUDGET);
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}
