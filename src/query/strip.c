/* SPDX-License-Identifier: Apache-2.0 */
/* strip.c - the first pass learns which blocks live for long, the second tells of these alone. */
#include "query/strip.h"

#include <errno.h>

#include "base/chunked.h"
#include "base/cleanup.h"
#include "query/impl.h"

#define SUMS_MAX (1u << 20) /* 96 MiB of them at most */

/** struct strip_block - one that lives. */
struct strip_block {
	/* of its chain: when it began, and the number of its first allocation; 0: before all */
	uint64_t born_ns, first;
	/* its allocation, for the sums */
	uint64_t time_ns, bytes;
	struct stack_id stack;
	struct thread_id thread;
	/* 0: none lives under this number */
	uint32_t lives;
};

/** struct strip_half - between the free and the allocation of a realloc. */
struct strip_half {
	uint64_t born_ns, first;
	int waits;
};

struct strip {
	struct sink sink;
	uint64_t lifetime_ns;
	/* by number of first allocations: 1 = the chain was short-lived */
	struct bits *bits;
	struct chunked blocks, halves;
	/* allocations that begin a chain */
	uint64_t count;
	/* second pass: whom it is told; NULL in the first */
	struct cull *cull;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot keep the live blocks");
}

static int tell(struct strip *s, const struct event *ev, struct err *err)
{
	struct sink *to = s->cull ? cull_sink(s->cull) : NULL;
	return to ? to->put(to, ev, 1, err) : 0;
}

static int is_short(const struct strip *s, uint64_t first)
{
	return first && bits_get(s->bits, first);
}

static int take_alloc(struct strip *s, const struct event *ev, struct err *err)
{
	struct strip_block *b = chunked_touch(&s->blocks, ev->block.v);
	struct strip_half *half = chunked_touch(&s->halves, ev->thread.v);
	if (!b || !half)
		return no_memory(err);
	*b = (struct strip_block){ .born_ns = ev->time_ns,
				   .time_ns = ev->time_ns,
				   .bytes = ev->bytes,
				   .stack = ev->stack,
				   .thread = ev->thread,
				   .lives = 1 };
	if (half->waits && ev->flags & EVENT_F_REALLOC) {
		b->born_ns = half->born_ns;
		b->first = half->first;
	} else if (!(ev->flags & EVENT_F_INHERITED)) {
		b->first = ++s->count;
		if (!s->cull && bits_grow(s->bits, b->first, err) < 0)
			return err->code;
	}
	half->waits = 0;
	if (!s->cull)
		return 0;
	if (!is_short(s, b->first))
		return tell(s, ev, err);
	cull_skip(s->cull);
	return 0;
}

static int take_free(struct strip *s, const struct event *ev, struct err *err)
{
	struct strip_block *b = chunked_touch(&s->blocks, ev->block.v);
	struct strip_half *half = chunked_touch(&s->halves, ev->thread.v);
	if (!b || !half)
		return no_memory(err);
	if (!b->lives)
		return tell(s, ev, err);
	b->lives = 0;
	if (ev->flags & EVENT_F_REALLOC)
		*half = (struct strip_half){ b->born_ns, b->first, 1 };
	if (!s->cull) {
		/* a free that nobody saw says when the address came again: the block stays */
		if (!(ev->flags & (EVENT_F_REALLOC | EVENT_F_IMPLIED)) && b->first &&
		    ev->time_ns - b->born_ns < s->lifetime_ns)
			bits_set(s->bits, b->first);
		return 0;
	}
	if (!is_short(s, b->first))
		return tell(s, ev, err);
	const struct event alloc = { .kind = EVENT_ALLOC,
				     .thread = b->thread,
				     .time_ns = b->time_ns,
				     .bytes = b->bytes,
				     .stack = b->stack };
	cull_skip(s->cull);
	return cull_leave_out(s->cull, &alloc, ev, err);
}

static int strip_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct strip *s = (struct strip *)sink;
	struct sink *to = s->cull ? cull_sink(s->cull) : NULL;
	return to ? to->define(to, def, err) : 0;
}

static int strip_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct strip *s = (struct strip *)sink;
	int rc = 0;
	for (size_t i = 0; i < count && rc >= 0; i++) {
		const struct event *ev = &events[i];
		int is_block = ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE;
		if (is_block && ev->block.v == BLOCK_NONE)
			return err_set(err, -EINVAL,
				       "this recording does not tell its blocks apart");
		rc = !is_block                 ? tell(s, ev, err)
		     : ev->kind == EVENT_ALLOC ? take_alloc(s, ev, err)
					       : take_free(s, ev, err);
	}
	return rc;
}

static int pass(struct strip *s, struct recording *recording, struct sink *sink, struct err *err)
{
	s->blocks = (struct chunked)CHUNKED_INIT(struct strip_block);
	s->halves = (struct chunked)CHUNKED_INIT(struct strip_half);
	s->count = 0;
	int rc = recording_run(recording, sink, err);
	chunked_fini(&s->blocks);
	chunked_fini(&s->halves);
	return rc;
}

int strip_run(struct recording *recording, uint64_t lifetime_ns, struct prof *sums, int known,
	      struct sink *to, struct cull_result *left_out, struct err *err)
{
	/* it leaves nothing out by itself; what it counts is told late, in few events */
	const struct cull_opt nothing = { .sums_max = SUMS_MAX };
	CLEANUP(bits_fini) struct bits bits = { 0 };
	struct strip s = { .sink = { .define = strip_define, .put = strip_put },
			   .lifetime_ns = lifetime_ns,
			   .bits = &bits };
	int rc = pass(&s, recording, &s.sink, err);
	if (rc < 0)
		return rc;
	CLEANUP(cull_freep) struct cull *cull = cull_new(&nothing, sums, to, err);
	if (!cull)
		return err->code;
	struct sink_tee tee;
	sink_tee_init(&tee);
	if (!known)
		sink_tee_add(&tee, prof_sink(sums)); /* first: it knows where the peak lies */
	sink_tee_add(&tee, &s.sink);
	s.cull = cull;
	rc = pass(&s, recording, &tee.sink, err);
	if (rc >= 0)
		rc = cull_finish(cull, err);
	cull_result(cull, left_out);
	return rc;
}
