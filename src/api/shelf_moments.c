/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf_moments.c - what is live at the moments that a timeline shows, out of sums: a pass over the
 * events notes what each stack gained and lost between two of them; a moment is the sum of what
 * came before. Other moments are replayed.
 *
 * Only for recordings whose every event counts as it is: none lost, left out, sampled or inherited.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/shelf_internal.h"

#define STEPS_MAX (8u << 20) /* 128 MiB; a recording that needs more is replayed */

struct step {
	uint32_t account;
	int32_t blocks;
	int64_t bytes;
};

struct moments {
	/* ascending; all events up to and with this time */
	uint64_t *edges;
	/* by edge: steps up to here come before it */
	size_t *ends;
	size_t count;
	struct step *steps;
	size_t step_count, step_cap;
};

struct build {
	struct sink sink;
	struct moments *m;
	const struct book *book;
	/* by stack row, plus one */
	uint32_t *account_of;
	/* by account, of this stretch */
	struct step *sum;
	uint32_t *touched;
	uint32_t touched_count;
	size_t at;
};

static void moments_free(void *data)
{
	struct moments *m = data;
	free(m->edges);
	free(m->ends);
	free(m->steps);
	free(m);
}

static int end_stretch(struct build *b, struct err *err)
{
	struct moments *m = b->m;
	if (m->step_count + b->touched_count > m->step_cap) {
		size_t cap = m->step_cap ? m->step_cap * 2 : 65536;
		while (cap < m->step_count + b->touched_count)
			cap *= 2;
		struct step *steps = realloc(m->steps, cap * sizeof(*steps));
		if (!steps)
			return err_set(err, -ENOMEM, "cannot keep the moments");
		m->steps = steps;
		m->step_cap = cap;
	}
	for (uint32_t i = 0; i < b->touched_count; i++) {
		struct step *sum = &b->sum[b->touched[i]];
		if (sum->blocks || sum->bytes)
			m->steps[m->step_count++] = *sum;
		*sum = (struct step){ 0 };
	}
	b->touched_count = 0;
	m->ends[b->at++] = m->step_count;
	return 0;
}

static int moments_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static int moments_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct build *b = (struct build *)sink;
	struct moments *m = b->m;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		if (ev->kind != EVENT_ALLOC && ev->kind != EVENT_FREE)
			continue;
		while (b->at + 1 < m->count && ev->time_ns > m->edges[b->at]) {
			int rc = end_stretch(b, err);
			if (rc < 0)
				return rc;
		}
		if (m->step_count > STEPS_MAX)
			return err_set(err, SHELF_ENOUGH, "too many moments to keep");
		uint32_t account = b->account_of[prof_stack_row(b->book->names, ev->stack).v];
		if (!account)
			return err_set(err, SHELF_ENOUGH, "a stack that is not in the sums");
		struct step *sum = &b->sum[account - 1];
		if (!sum->account) {
			sum->account = account;
			b->touched[b->touched_count++] = account - 1;
		}
		sum->blocks += ev->kind == EVENT_ALLOC ? 1 : -1;
		sum->bytes += ev->kind == EVENT_ALLOC ? (int64_t)ev->bytes : -(int64_t)ev->bytes;
	}
	return 0;
}

/** take_edges() - the ends of the timeline's stretches. */
static int take_edges(struct moments *m, const struct prof *names)
{
	size_t count;
	const struct prof_point *points = prof_timeline(names, &count);
	m->edges = calloc(count + 2, sizeof(*m->edges));
	m->ends = calloc(count + 2, sizeof(*m->ends));
	if (!m->edges || !m->ends)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (!m->count || points[i].time_ns > m->edges[m->count - 1])
			m->edges[m->count++] = points[i].time_ns;
	m->edges[m->count++] = UINT64_MAX; /* what comes behind the last */
	return 0;
}

int shelf_make_moments(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	const struct book *book = task->book;
	struct moments *m = calloc(1, sizeof(*m));
	struct build b = { .sink = { .define = moments_define, .put = moments_put },
			   .m = m,
			   .book = book };
	(void)args;
	b.account_of = calloc((size_t)prof_stack_count(book->names) + 1, sizeof(*b.account_of));
	b.sum = calloc((size_t)book->count + 1, sizeof(*b.sum));
	b.touched = calloc((size_t)book->count + 1, sizeof(*b.touched));
	int rc = m && b.account_of && b.sum && b.touched && take_edges(m, book->names) == 0
			 ? 0
			 : err_set(err, -ENOMEM, "cannot keep the moments");
	for (uint32_t i = 0; rc == 0 && i < book->count; i++)
		b.account_of[book->stacks[i]] = i + 1;
	if (rc == 0)
		rc = task->source->run(task->source->ctx, &b.sink, err);
	while (rc == 0 && b.at < m->count)
		rc = end_stretch(&b, err);
	free(b.account_of);
	free(b.sum);
	free(b.touched);
	if (rc == SHELF_ENOUGH) { /* they cannot be told from sums here: an empty list says so */
		err_init(err);
		m->count = m->step_count = 0;
		rc = 0;
	}
	if (rc < 0) {
		if (m)
			moments_free(m);
		return rc;
	}
	*product = (struct shelf_product){ m, m->step_cap * sizeof(*m->steps), moments_free };
	return 0;
}

int shelf_has_moment(const struct book *book, uint64_t at_ns)
{
	size_t count;
	const struct prof_point *points = prof_timeline(book->names, &count);
	for (size_t i = 0; i < count; i++)
		if (points[i].time_ns == at_ns)
			return 1;
	return 0;
}

int shelf_take_moment(const void *data, uint64_t at_ns, struct cost *costs, uint32_t count,
		      struct cost *sum)
{
	const struct moments *m = data;
	size_t edge = 0;
	while (edge < m->count && m->edges[edge] != at_ns)
		edge++;
	if (edge == m->count)
		return 0;
	for (size_t i = 0; i < m->ends[edge]; i++) {
		struct cost *c = &costs[m->steps[i].account - 1];
		c->leaked += (uint64_t)(int64_t)m->steps[i].blocks;
		c->leaked_bytes += (uint64_t)m->steps[i].bytes;
	}
	*sum = (struct cost){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		struct cost *c = &costs[i];
		c->allocations = c->peak_blocks = c->leaked;
		c->allocated_bytes = c->peak_bytes = c->leaked_bytes;
		cost_add(sum, c);
	}
	return 1;
}
