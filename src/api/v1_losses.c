/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_losses.c - when events were lost: flags of the timeline. Sums are in every answer; the moments
 * need a replay.
 */
#include <errno.h>
#include <stdlib.h>

#include "api/v1_internal.h"
#include "model/event.h"

#define SPANS_MAX 256

/**
 * struct span - losses of one reason that follow each other closely, from the last event before to
 * the first one behind.
 */
struct span {
	uint64_t begin_ns, end_ns, events, bytes;
	unsigned reason;
};

struct losses {
	struct sink sink;
	/* of one reason, and no further apart: one span */
	uint64_t gap_ns;
	/* the last event that was kept: what is missing came behind it */
	uint64_t before_ns;
	/* the last loss: nothing was kept since */
	struct span *open;
	size_t count;
	struct span spans[SPANS_MAX];
};

static int losses_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

/**
 * span_of() - the span that a loss at @time_ns belongs to: the last of its reason, or a new one, or
 * where there is no room the last.
 */
static struct span *span_of(struct losses *l, uint64_t time_ns, unsigned reason)
{
	for (size_t i = l->count; i--;) {
		struct span *s = &l->spans[i];
		if (s->reason != reason)
			continue;
		if (time_ns - s->end_ns <= l->gap_ns || l->count == SPANS_MAX)
			return s;
		break;
	}
	if (l->count == SPANS_MAX)
		return &l->spans[SPANS_MAX - 1];
	l->spans[l->count] =
		(struct span){ .begin_ns = l->before_ns < time_ns ? l->before_ns : time_ns,
			       .end_ns = time_ns,
			       .reason = reason };
	return &l->spans[l->count++];
}

static int losses_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct losses *l = (struct losses *)sink;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		if (ev->kind != EVENT_LOST || ev->value >= LOSS_REASON_MAX) {
			l->before_ns = ev->time_ns;
			if (l->open && ev->time_ns > l->open->end_ns)
				l->open->end_ns = ev->time_ns;
			l->open = NULL;
			continue;
		}
		uint64_t lost = ev->addr + ev->block.v; /* allocations, frees */
		if (!lost && !ev->bytes)
			continue;
		struct span *s = span_of(l, ev->time_ns, (unsigned)ev->value);
		s->end_ns = ev->time_ns > s->end_ns ? ev->time_ns : s->end_ns;
		s->events += lost;
		l->open = s;
		s->bytes += ev->bytes;
	}
	return 0;
}

static int make_losses(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	(void)args;
	struct losses *l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, -ENOMEM, "cannot list the losses");
	l->sink = (struct sink){ .define = losses_define, .put = losses_put };
	l->gap_ns = task->totals->runtime_ns / SPANS_MAX;
	*product = (struct shelf_product){ l, sizeof(*l), free };
	return task->source->run(task->source->ctx, &l->sink, err);
}

int v1_losses(struct v1_call *call, struct reading **reading, struct err *err)
{
	const struct shelf_query query = { .source = call->source,
					   .key = "losses?",
					   .make = make_losses };
	return v1_reading(call, &query, reading, err);
}

void v1_losses_put(struct v1_call *call, const struct reading *reading)
{
	const struct losses *l = reading->product.data;
	struct jsonw *json = &call->json;
	for (size_t i = 0; i < l->count; i++) {
		const struct span *s = &l->spans[i];
		const char *reason = loss_reason_name(s->reason);
		char label[120];
		snprintf(label, sizeof(label), "%llu events lost (%s)",
			 (unsigned long long)s->events, reason ? reason : "unknown");
		jsonw_object(json, NULL);
		jsonw_u64(json, "time_ns", s->begin_ns);
		jsonw_u64(json, "end_ns", s->end_ns);
		jsonw_str(json, "kind", "lost");
		jsonw_u64(json, "value", s->bytes);
		jsonw_u64(json, "events", s->events);
		jsonw_str(json, "label", label);
		jsonw_object_end(json);
	}
}
