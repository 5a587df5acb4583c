/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c - the pass that hands the selected blocks on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "query/impl.h"

#define BATCH 512

struct filter {
	struct sink sink;
	const struct plan *plan;
	const struct bits *bits;
	struct sink *to;
	/* uint8_t by block number: its allocation was handed on */
	struct chunked taken;
	/* uint64_t by block number: when, + 1; for what is live then */
	struct chunked since;
	/* block number in @since, plus one */
	uint32_t highest;
	uint64_t allocations, events;
	struct outcome outcome;
	size_t held;
	struct event batch[BATCH];
};

int filter_flush(struct filter *f, struct err *err)
{
	size_t count = f->held;
	f->held = 0;
	return count ? f->to->put(f->to, f->batch, count, err) : 0;
}

static int filter_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct filter *f = (struct filter *)sink;
	int rc = filter_flush(f, err);
	if (rc == 0)
		rc = plan_define(f->plan, def, err);
	return rc < 0 ? rc : f->to->define(f->to, def, err);
}

/**
 * keeps_since() - what is live at a moment was most when the last of it was made: later frees
 * decide which that was.
 */
static int keeps_since(const struct filter *f)
{
	return f->plan->has_at && !f->bits;
}

static int note_since(struct filter *f, const struct event *ev, uint64_t since, struct err *err)
{
	uint64_t *at = chunked_touch(&f->since, ev->block.v);
	if (!at)
		return err_set(err, -ENOMEM, "cannot keep the live blocks");
	if (ev->block.v >= f->highest)
		f->highest = ev->block.v + 1;
	*at = since;
	return 1;
}

/** wanted() - 1 to hand @ev on, 0 not to, negative errno. */
static int wanted(struct filter *f, const struct event *ev, struct err *err)
{
	const struct plan *plan = f->plan;
	if (ev->kind == EVENT_CULLED) {
		int takes = !f->bits && !plan->has_at && plan_takes_culled(plan, ev);
		if (!takes && plan_misses(plan, ev)) {
			f->outcome.missed_allocations += ev->addr;
			f->outcome.missed_bytes += ev->bytes;
		}
		return takes;
	}
	if (ev->kind != EVENT_ALLOC && ev->kind != EVENT_FREE)
		return plan_before_at(plan, ev->time_ns, f->events);
	f->events++;
	if (ev->block.v == BLOCK_NONE)
		return err_set(err, -EINVAL, "this recording does not tell its blocks apart");
	int before = plan_before_at(plan, ev->time_ns, f->events);
	if (ev->kind == EVENT_FREE) {
		/*
		 * With fates, a block that is live at the asked moment has no end in this reading.
		 */
		if (!before || (f->bits && plan->has_at) || !chunked_has(&f->taken, ev->block.v) ||
		    !*(uint8_t *)chunked_at(&f->taken, ev->block.v))
			return 0;
		return keeps_since(f) ? note_since(f, ev, 0, err) : 1;
	}
	f->allocations++;
	uint8_t *taken = chunked_touch(&f->taken, ev->block.v);
	if (!taken)
		return err_set(err, -ENOMEM, "cannot keep the live blocks");
	*taken = before && (f->bits ? bits_get(f->bits, f->allocations) : plan_takes(plan, ev));
	if (!*taken || !keeps_since(f))
		return *taken;
	return note_since(f, ev, ev->bytes ? ev->time_ns + 1 : 0, err);
}

static int filter_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct filter *f = (struct filter *)sink;
	for (size_t i = 0; i < count; i++) {
		int rc = wanted(f, &events[i], err);
		if (rc < 0)
			return rc;
		if (!rc)
			continue;
		f->batch[f->held++] = events[i];
		if (f->held == BATCH && (rc = filter_flush(f, err)) < 0)
			return rc;
	}
	return 0;
}

int filter_run(const struct query_source *source, const struct plan *plan, const struct bits *bits,
	       struct sink *to, struct outcome *outcome, struct err *err)
{
	struct filter f = {
		.sink = { .define = filter_define, .put = filter_put },
		.plan = plan,
		.bits = bits,
		.to = to,
		.taken = CHUNKED_INIT(uint8_t),
		.since = CHUNKED_INIT(uint64_t),
	};
	int rc = plan_run(source, plan, &f.sink, err);
	if (rc == 0)
		rc = filter_flush(&f, err);
	*outcome = f.outcome;
	for (uint32_t i = 0; i < f.highest && rc == 0; i++) {
		const uint64_t *since = chunked_has(&f.since, i) ? chunked_at(&f.since, i) : NULL;
		if (since && *since > outcome->last_ns)
			outcome->last_ns = *since - 1;
	}
	chunked_fini(&f.taken);
	chunked_fini(&f.since);
	return rc;
}

struct filter *filter_new(const struct plan *plan, struct sink *to, struct err *err)
{
	struct filter *f = calloc(1, sizeof(*f));
	if (!f) {
		err_set(err, -ENOMEM, "cannot choose blocks");
		return NULL;
	}
	f->sink = (struct sink){ .define = filter_define, .put = filter_put };
	f->plan = plan;
	f->to = to;
	f->taken = (struct chunked)CHUNKED_INIT(uint8_t);
	f->since = (struct chunked)CHUNKED_INIT(uint64_t);
	return f;
}

struct sink *filter_sink(struct filter *f)
{
	return &f->sink;
}

uint64_t filter_misses(const struct filter *f)
{
	return f->outcome.missed_allocations;
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	chunked_fini(&f->taken);
	chunked_fini(&f->since);
	free(f);
}
