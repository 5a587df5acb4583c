/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cull.h - leave short-lived blocks out of a recording: a sink that hands events on once it is
 * known which blocks live longer than a threshold, and instead of the others sums by stack
 * (EVENT_CULLED).
 *
 * Everything that is handed on keeps its order and its times; it comes later by up to the
 * threshold. A chain of reallocs is one block, as old as its first allocation: all of it is kept,
 * or nothing; one whose free nobody saw is kept. Memory: 96 bytes for each undecided event, with a
 * bound; 24 for each block number. Cost: some 50 ns an event. One thread.
 */
#ifndef MODEL_CULL_H
#define MODEL_CULL_H

#include <stdint.h>

#include "model/event.h"
#include "model/prof.h"

struct cull;

#define CULL_PENDING_DEFAULT (1u << 20)

struct cull_opt {
	/* what was freed sooner is left out */
	uint64_t lifetime_ns;
	/* undecided events; beyond, the oldest are handed on whatever their age. 0 = the default */
	uint32_t pending_max;
	/* sums that are held back, by stack, thread and class of lifetime; 0 = the default */
	uint32_t sums_max;
};

/**
 * cull_new() - hand on to @to. @sums: a reading that is given each event before the culling is,
 * which is asked where the peak lies; NULL: nobody will want to know.
 */
struct cull *cull_new(const struct cull_opt *opt, const struct prof *sums, struct sink *to,
		      struct err *err);
void cull_freep(struct cull **cull);
/** cull_sink() - belongs to @cull. */
struct sink *cull_sink(struct cull *cull);
/**
 * cull_advance() - now and then: hand on what is old enough at @now_ns, and sums of what was left
 * out.
 */
int cull_advance(struct cull *cull, uint64_t now_ns, struct err *err);
/**
 * cull_leave_out() - who knows by other means that a block was short-lived tells of neither its
 * allocation nor its free: they go into the sums. cull_skip() - where each of the two stood.
 */
int cull_leave_out(struct cull *cull, const struct event *alloc, const struct event *freed,
		   struct err *err);
void cull_skip(struct cull *cull);
/**
 * cull_tell() - put into @to what cull_finish() would hand on now; nothing changes. Between
 * cull_advance() and the next event, and once a second: then a recorder that is killed loses a
 * second, and not what was undecided. All of it each time: with the writing, some 3 % of a CPU for
 * 800,000 undecided events, twice a second.
 */
int cull_tell(struct cull *cull, struct sink *to, struct err *err);
/** cull_finish() - the end: nothing that is undecided was short-lived. */
int cull_finish(struct cull *cull, struct err *err);

struct cull_result {
	/* left out */
	uint64_t allocations, bytes;
	/* how many allocations and frees were handed on up to @sums' peak */
	uint64_t peak_event;
};
void cull_result(const struct cull *cull, struct cull_result *result);

/* Classes of lifetime, in EVENT_CULLED: below 1 ms, 10 ms, 100 ms, 1 s, 10 s, and above. */
#define CULL_CLASSES 6
static inline unsigned cull_class(uint64_t lifetime_ns)
{
	unsigned class = 0;
	for (uint64_t limit = 1000000; lifetime_ns >= limit && class < CULL_CLASSES - 1;
	     limit *= 10)
		class ++;
	return class;
}
/** cull_value(), cull_value_class(), cull_value_largest() - the value of an EVENT_CULLED. */
static inline uint64_t cull_value(unsigned class, uint64_t largest)
{
	const uint64_t most = (1ULL << 56) - 1;
	return (uint64_t) class << 56 | (largest < most ? largest : most);
}
static inline unsigned cull_value_class(uint64_t value)
{
	return (unsigned)(value >> 56);
}
static inline uint64_t cull_value_largest(uint64_t value)
{
	return value & ((1ULL << 56) - 1);
}

#endif
