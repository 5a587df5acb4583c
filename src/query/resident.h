/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident.h - the other book of a recording: readings of its process's resident pages by call
 * stack, as `run` takes them along.
 *
 * A reading is a struct page_shot of one process (model/pages.h) whose times are the recording's:
 * rows of one stack (or of one reason why there is none), kind and mapping name, which add up to
 * its RSS. Mappings have the names that `regions` and SNAPSHOT blocks have, so that a line of a
 * balance sheet finds its stacks by label; a reading is taken right behind the snapshot of the same
 * moment. Rows of equal stacks share one struct page_stack in all readings of one struct resident.
 * One thread at a time.
 */
#ifndef QUERY_RESIDENT_H
#define QUERY_RESIDENT_H

#include "base/err.h"
#include "model/pages.h"
#include "query/query.h"
#include "trace/trace.h"

struct resident;

/**
 * resident_open() - find the readings of @path. NULL: it has none (@err code 0, also for other
 * kinds of recordings), or @err says why.
 */
struct resident *resident_open(const char *path, struct err *err);
/** resident_free() - readings that it made may stay. */
void resident_free(struct resident *resident);
void resident_freep(struct resident **resident);

size_t resident_count(const struct resident *resident);
/** resident_reading() - when it was, and its RSS; @i below the count. Lent. */
const struct trace_pages_reading *resident_reading(const struct resident *resident, size_t i);
/**
 * resident_at() - the last one that was not later than @time_ns; the first where all are.
 * UINT64_MAX: the last.
 */
size_t resident_at(const struct resident *resident, uint64_t time_ns);
/** resident_peak() - the one with the most RSS. */
size_t resident_peak(const struct resident *resident);
/**
 * resident_load() - one reading, its frames named: as stored, else from the files of this machine.
 * Put by the caller. NULL with @err.
 */
struct page_shot *resident_load(struct resident *resident, size_t i, struct err *err);
/** resident_nearest() - whichever of @path is nearest to @time_ns, for a single look. */
struct page_shot *resident_nearest(const char *path, uint64_t time_ns, struct err *err);

/** struct paged - zero-initialised: none. */
struct paged {
	struct resident *resident;
	/* NULL: the recording has none */
	struct page_shot *shot;
};

/**
 * paged_open() - the reading at @at, by default the one with the most RSS. @whole: of the
 * recording. 0, without any, too; or negative errno.
 */
int paged_open(struct paged *paged, const char *path, const struct query_time *at,
	       const struct prof *whole, struct err *err);
void paged_fini(struct paged *paged);

#endif
