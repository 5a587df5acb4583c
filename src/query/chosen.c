/* SPDX-License-Identifier: Apache-2.0 */
#include "query/chosen.h"

#include <errno.h>
#include <stdlib.h>

#include "query/impl.h"

struct chosen {
	struct query query;
	struct plan plan;
	/* by the producer's thread number, where one thread is asked for */
	struct chunked mine;
	struct prof *prof;
	struct filter *filter;
	struct trace_follow *trace;
	uint64_t bytes;
};

int chosen_can(const struct query *query)
{
	struct query rest = *query;
	rest.min_size = 0;
	rest.has_max_size = rest.has_thread = rest.has_address = 0;
	return query_is_empty(&rest) && !query_is_empty(query);
}

int chosen_is(const struct chosen *c, const struct query *query)
{
	const struct query *q = &c->query;
	return q->min_size == query->min_size && q->has_max_size == query->has_max_size &&
	       (!q->has_max_size || q->max_size == query->max_size) &&
	       q->has_thread == query->has_thread && (!q->has_thread || q->thread == query->thread);
}

struct chosen *chosen_new(const char *path, const struct query *query, struct err *err)
{
	CLEANUP(chosen_freep) struct chosen *c = calloc(1, sizeof(*c));
	if (!c) {
		err_set(err, -ENOMEM, "cannot follow '%s'", path);
		return NULL;
	}
	c->query = *query;
	c->mine = (struct chunked)CHUNKED_INIT(uint8_t);
	if (plan_make(&c->plan, query, NULL, err) < 0)
		return NULL;
	c->plan.mine = query->has_thread ? &c->mine : NULL;
	c->prof = prof_new(err);
	c->filter = c->prof ? filter_new(&c->plan, prof_sink(c->prof), err) : NULL;
	c->trace = c->filter ? trace_follow_new(path, filter_sink(c->filter), err) : NULL;
	return c->trace ? STEAL(c) : NULL;
}

void chosen_freep(struct chosen **chosen)
{
	struct chosen *c = *chosen;
	*chosen = NULL;
	if (!c)
		return;
	trace_follow_freep(&c->trace);
	filter_free(c->filter);
	prof_freep(&c->prof);
	chunked_fini(&c->mine);
	free(c);
}

int chosen_read(struct chosen *c, uint64_t until, const struct chosen_patience *patience,
		struct err *err)
{
	struct trace_follow_state at;
	trace_follow_until(c->trace, until);
	for (;;) {
		trace_follow_state(c->trace, &at);
		if (at.read_bytes >= until)
			break;
		if (patience->look && patience->look(patience->ctx, at.read_bytes, until))
			return err_set(err, -ECANCELED, "nobody waits for the answer any more");
		uint64_t before = at.read_bytes;
		int rc = trace_follow_drain(c->trace, err);
		if (rc < 0)
			return rc;
		trace_follow_state(c->trace, &at);
		c->bytes += at.read_bytes - before;
		if (at.read_bytes == before)
			return 0;
	}
	int rc = filter_flush(c->filter, err);
	/* what is known by sums alone is told by a replay, with what it misses */
	return rc < 0 ? rc : at.read_bytes == until && !filter_misses(c->filter);
}

const struct prof *chosen_prof(const struct chosen *c)
{
	return c->prof;
}

uint64_t chosen_bytes(const struct chosen *c)
{
	return c->bytes;
}
