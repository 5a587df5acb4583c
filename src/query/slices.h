/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices.h - an index over a recording's events, so that moments and ranges need no replay of all
 * of it: the events are cut at key blocks into slices of a quarter of a million and more, and of
 * each slice is known what was asked for in it, by stack, and which blocks of before were freed in
 * it. What lives at a moment is then: the blocks of before that later slices free, those never
 * freed, and one slice replayed.
 *
 * Exact, event by event. Only for recordings whose every event counts as it is: none lost, left
 * out, sampled or inherited; the caller knows (whole readings say so), and a build that meets such
 * an event gives up. Memory: 24 bytes for each block that lives for good and for each stack of each
 * slice, 8 for each pair of slices. On disk 20 bytes for each block that lived across a slice's
 * edge. Where these are more than SLICES_FREED_MAX, or SLICES_MADE_MAX stacks of slices, it is made
 * again of larger slices.
 */
#ifndef QUERY_SLICES_H
#define QUERY_SLICES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"
#include "query/query.h"

#define SLICES_MADE_MAX (6u << 20)
#define SLICES_FREED_MAX (48u << 20)

struct slices;

/**
 * slices_build() - one pass over @source, whose run_keys is there. @events: how many there are
 * about, 0: not known. Needs disk space where TMPDIR, else /var/tmp or /tmp, is. *@out: NULL where
 * it cannot be had (no error). 0 or negative errno.
 */
int slices_build(const struct query_source *source, uint64_t events, struct slices **out,
		 struct err *err);
void slices_free(struct slices *slices);
void slices_freep(struct slices **slices);
/** slices_bytes() - of memory that it takes. */
size_t slices_bytes(const struct slices *slices);
/** slices_count() - how many. */
size_t slices_count(const struct slices *slices);
/** slices_stacks() - the producer's stack numbers are below. slices_events() - of the recording. */
uint32_t slices_stacks(const struct slices *slices);
uint64_t slices_events(const struct slices *slices);

/**
 * struct slices_ask - all blocks, those allocated in [from_ns, to_ns), those that live after all
 * events up to @at_ns, or both.
 */
struct slices_ask {
	/* 0, UINT64_MAX: no bound */
	uint64_t from_ns, to_ns;
	int has_at;
	/* UINT64_MAX: the end */
	uint64_t at_ns;
	/* of a range: no peak is asked for, nor what was temporary */
	int sums;
};
/** struct slices_answer - @costs and @account_of are the caller's. */
struct slices_answer {
	/* by account, zeroed */
	struct cost *costs;
	/* by the producer's stack number: 1 + its account; 0: none */
	const uint32_t *account_of;
	/* of @account_of */
	uint32_t stack_count;
	/* of the selection; with has_at not told */
	uint64_t peak_time_ns;
};
/**
 * slices_read() - what query_run() would count for the same words; with has_at everything is what
 * lives then. @source: of the same recording, open for this thread. Cost: the blocks that live at
 * the moment and up to three slices replayed as far as the question's times lie in them. A range's
 * peak and what was temporary in it want those two slices to their ends, and some more where it is
 * not clear in which one the peak lies: with @sums they stay 0. 0 or negative errno; -EBADMSG where
 * index and recording do not fit.
 */
int slices_read(const struct slices *slices, const struct query_source *source,
		const struct slices_ask *ask, struct slices_answer *answer, struct err *err);

/**
 * struct slices_grow - an index that is made while its recording is: whoever reads it hands events
 * on (slices_grow_sink(), which never fails) and tells of key blocks before their events. Memory as
 * of an index, and 24 bytes a slot. One thread at a time.
 */
struct slices_grow;
struct slices_grow *slices_grow_new(void); /* NULL: no memory, or no disk space */
void slices_grow_freep(struct slices_grow **grow);
struct sink *slices_grow_sink(struct slices_grow *grow);
void slices_grow_key(struct slices_grow *grow, const struct query_key *key);
/**
 * slices_grow_end() - the index of what came by now, which ends at byte @at of the file; NULL: it
 * cannot be had of this recording. Good until slices_grow_go_on(), which has to come before the
 * next event. Cost: the live blocks, and what the last slice freed.
 */
const struct slices *slices_grow_end(struct slices_grow *grow, uint64_t at);
void slices_grow_go_on(struct slices_grow *grow);

/**
 * slices_save() - into @path, replacing it atomically, 0600; @identity names the recording's state.
 * slices_load() - -ENOENT: there is none for that state, or it is another user's or damaged.
 */
int slices_save(const struct slices *slices, const char *path, uint64_t identity, struct err *err);
int slices_load(const char *path, uint64_t identity, struct slices **out, struct err *err);
/**
 * slices_are_there() - of that state, as far as the first bytes of the file tell: it was read to
 * its end then, and nothing was missing.
 */
int slices_are_there(const char *path, uint64_t identity);

#endif
