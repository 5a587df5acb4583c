/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - what the files of this room share. */
#ifndef QUERY_IMPL_H
#define QUERY_IMPL_H

#include "base/chunked.h"
#include "model/cull.h"
#include "query/query.h"

/**
 * scratch_open() - a file without a name, where TMPDIR, else /var/tmp or /tmp, is; negative errno
 * with @err.
 */
int scratch_open(struct err *err);

/**
 * struct bits - one bit an allocation, in an unlinked temporary file: it grows with events, so it
 * is not our memory.
 */
struct bits {
	uint64_t *words;
	/* in bits */
	uint64_t capacity;
	/* 0 = not open */
	int fd;
};
/** bits_grow() - make bits up to @bit addressable, cleared; 0 or negative errno with @err. */
int bits_grow(struct bits *bits, uint64_t bit, struct err *err);
static inline void bits_set(struct bits *bits, uint64_t bit)
{
	bits->words[bit / 64] |= 1ull << (bit % 64);
}
static inline int bits_get(const struct bits *bits, uint64_t bit)
{
	return bit < bits->capacity && (bits->words[bit / 64] >> (bit % 64) & 1);
}
void bits_fini(struct bits *bits);

/** struct plan - a query with its moments as numbers and its regex as a set of stacks. */
struct plan {
	/* to_ns UINT64_MAX = no end */
	uint64_t from_ns, to_ns;
	uint64_t min_size, max_size;
	uint64_t lifetime_min_ns, lifetime_max_ns;
	/* of the recording: a block never freed lives so long */
	uint64_t end_ns;
	int has_at, at_by_event;
	/* the last one that counts */
	uint64_t at_ns, at_event;
	/* tid, where there is @mine */
	uint32_t thread;
	/* uint8_t by the producer's thread number: it is that one; NULL = all are */
	struct chunked *mine;
	int leaked;
	/* the end of a block decides */
	int needs_fate;
	/* what comes behind the asked moment is wanted all the same */
	int to_the_end;
	/* with a regex: its rows are what @stacks says yes or no to */
	const struct prof *names;
	/* by row of @names; NULL = all */
	uint8_t *stacks;
	/* blocks that touch them; 0 and UINT64_MAX: all do */
	uint64_t address_from, address_to;
};

/**
 * plan_make() - what @q means; @whole may be NULL where none of its words needs it. @mine and
 * @stacks stay to be set. -EINVAL with @err.
 */
int plan_make(struct plan *plan, const struct query *q, const struct prof *whole, struct err *err);

/** plan_is_mine() - was it made by the thread that was asked for? */
static inline int plan_is_mine(const struct plan *plan, const struct event *ev)
{
	return !plan->mine || (chunked_has(plan->mine, ev->thread.v) &&
			       *(const uint8_t *)chunked_at(plan->mine, ev->thread.v));
}
/** plan_define() - learn who is who, from each pass's definitions. -ENOMEM. */
static inline int plan_define(const struct plan *plan, const struct def *def, struct err *err)
{
	if (!plan->mine || def->kind != DEF_THREAD)
		return 0;
	uint8_t *mine = chunked_touch(plan->mine, def->id);
	if (!mine)
		return err_set(err, -ENOMEM, "cannot keep the threads");
	*mine = def->thread.tid == plan->thread;
	return 0;
}
/** plan_takes() - what can be said of an allocation when it is made. */
static inline int plan_takes(const struct plan *plan, const struct event *ev)
{
	if (ev->bytes < plan->min_size || ev->bytes > plan->max_size ||
	    ev->time_ns < plan->from_ns || ev->time_ns >= plan->to_ns || !plan_is_mine(plan, ev) ||
	    !query_touches(plan->address_from, plan->address_to, ev->addr, ev->bytes))
		return 0;
	return !plan->stacks || plan->stacks[prof_stack_row(plan->names, ev->stack).v];
}
/**
 * plan_takes_culled() - of blocks that a recording knows by their sums, sizes are not told apart,
 * nor addresses, and the time is that of the sum.
 */
static inline int plan_takes_culled(const struct plan *plan, const struct event *ev)
{
	if (plan->min_size || plan->max_size != UINT64_MAX || plan->address_from ||
	    plan->address_to != UINT64_MAX || ev->time_ns < plan->from_ns ||
	    ev->time_ns >= plan->to_ns || !plan_is_mine(plan, ev))
		return 0;
	return !plan->stacks || plan->stacks[prof_stack_row(plan->names, ev->stack).v];
}
/**
 * plan_misses() - may blocks that a recording knows by their sums belong to the selection, which
 * cannot take them? A sum is told after its blocks were freed, at the latest when the whole chain
 * of their reallocs was; the largest of them and the class of lifetime may say that none belongs.
 */
static inline int plan_misses(const struct plan *plan, const struct event *ev)
{
	uint64_t limit_ns = 1000000;
	for (unsigned i = cull_value_class(ev->value); i > 0 && i < CULL_CLASSES; i--)
		limit_ns *= 10;
	if (cull_value_class(ev->value) >= CULL_CLASSES - 1)
		limit_ns = UINT64_MAX;
	if (plan->leaked || ev->time_ns < plan->from_ns || !plan_is_mine(plan, ev) ||
	    (plan->has_at && ev->time_ns <= plan->at_ns) ||
	    cull_value_largest(ev->value) < plan->min_size || limit_ns <= plan->lifetime_min_ns)
		return 0;
	return !plan->stacks || plan->stacks[prof_stack_row(plan->names, ev->stack).v];
}
/**
 * plan_before_at() - does the event, number @event of all allocations and frees, come up to the
 * asked moment?
 */
static inline int plan_before_at(const struct plan *plan, uint64_t time_ns, uint64_t event)
{
	if (!plan->has_at)
		return 1;
	return plan->at_by_event ? event <= plan->at_event : time_ns <= plan->at_ns;
}

/**
 * plan_run() - replay as far as it matters: what happens after the asked moment decides only how
 * blocks ended, and nothing asks for that unless lifetimes or leaks are selected.
 */
static inline int plan_run(const struct query_source *source, const struct plan *plan,
			   struct sink *sink, struct err *err)
{
	int all = !plan->has_at || plan->leaked || plan->lifetime_min_ns ||
		  plan->lifetime_max_ns != UINT64_MAX;
	if (all || plan->to_the_end || plan->at_ns == UINT64_MAX || !source->run_until)
		return source->run(source->ctx, sink, err);
	return source->run_until(source->ctx, plan->at_ns, sink, err);
}

/**
 * module_stacks() - the same for those with a frame in the module called @name: into *@stacks,
 * which is made if it is NULL and else keeps only those that were in it. -ENOMEM.
 */
int module_stacks(const struct prof *prof, const char *name, uint8_t **stacks, struct err *err);

/** one_stack() - the same for the one with row @row; -EINVAL with @err where there is none. */
int one_stack(const struct prof *prof, uint32_t row, uint8_t **stacks, struct err *err);

/**
 * fate_run() - replay once and set the bit of each allocation (by its number) that @plan selects.
 */
int fate_run(const struct query_source *source, const struct plan *plan, struct bits *bits,
	     struct err *err);
/** struct outcome - what a pass learnt beside the events that it handed on. */
struct outcome {
	/* known by their sums only; the selection may lack them */
	uint64_t missed_allocations, missed_bytes;
	/* with `at` and without fates: when the last of the bytes that live then were asked for */
	uint64_t last_ns;
};
/**
 * filter_run() - replay into @to what @plan selects; @bits: the fates, NULL where none is needed.
 */
int filter_run(const struct query_source *source, const struct plan *plan, const struct bits *bits,
	       struct sink *to, struct outcome *outcome, struct err *err);

/**
 * struct filter - the same for who reads on by himself: events go into filter_sink(), the plan has
 * to stay and needs no fates. What was handed on is in @to once filter_flush() was called.
 * filter_misses() - outcome.missed_allocations by now.
 */
struct filter;
struct filter *filter_new(const struct plan *plan, struct sink *to, struct err *err);
struct sink *filter_sink(struct filter *filter);
int filter_flush(struct filter *filter, struct err *err);
uint64_t filter_misses(const struct filter *filter);
void filter_free(struct filter *filter);

#endif
