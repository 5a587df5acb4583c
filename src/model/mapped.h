/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped.h - the books of what a program maps by itself: mmap, mremap, and the break where it moves
 * it. It stands beside the heap and is in none of its figures.
 *
 * What lives is kept as ranges by address, so that a part can be unmapped, or mapped over. What an
 * allocator maps within a call of its own holds blocks of the heap: it is told apart, and so are
 * files, and what was only reserved.
 */
#ifndef MODEL_MAPPED_H
#define MODEL_MAPPED_H

#include <stddef.h>
#include <stdint.h>

#include "model/event.h"

/*
 * In EVENT_MAP's value beside the protection: mapped by an allocator for blocks that are recorded.
 */
#define MAPPED_PROT_INNER 0x80u

enum mapped_kind {
	MAPPED_ANON,
	MAPPED_FILE,
	MAPPED_RESERVED,  /* PROT_NONE when it was made: addresses, not memory */
	MAPPED_ALLOCATOR, /* the heap's own */
	MAPPED_KINDS
};
/** mapped_kind_name() - "anonymous", "file", "reserved", "allocator". */
const char *mapped_kind_name(unsigned kind);

/** struct mapped_sum - bytes in whole pages. */
struct mapped_sum {
	/* mappings made, in all */
	uint64_t count, bytes;
	/* at the end of the reading; what is left of a mapping counts */
	uint64_t live_count, live_bytes;
	/* a kind's: its largest sum. A stack's: what it had when its kind had most */
	uint64_t peak_bytes;
	/* of kinds: when the heap was largest */
	uint64_t at_heap_peak_bytes;
	/* of kinds */
	uint64_t peak_time_ns;
};

/** struct mapped_row - of one stack and kind. */
struct mapped_row {
	/* a row of the prof that it belongs to */
	uint32_t stack;
	uint32_t kind;
	struct mapped_sum sum;
	/* private: see mapped.c */
	uint64_t epoch;
};

struct mapped;
struct mapped *mapped_new(void);
void mapped_free(struct mapped *mapped);
/** mapped_dup() - what it says now, to be read alone; NULL without memory. */
struct mapped *mapped_dup(const struct mapped *mapped);
/**
 * mapped_put() - @ev: EVENT_MAP, EVENT_UNMAP or EVENT_BRK; @row: of its stack. Return: 0, -ENOMEM.
 */
int mapped_put(struct mapped *mapped, const struct event *ev, uint32_t row);
/**
 * mapped_note_heap() - before mapped_put() and before reading: the heap's maximum has number
 * @epoch, which grows with it. O(1).
 */
void mapped_note_heap(struct mapped *mapped, uint64_t epoch);
/** mapped_sum() - of @kind. */
void mapped_sum(const struct mapped *mapped, enum mapped_kind kind, struct mapped_sum *sum);
size_t mapped_count(const struct mapped *mapped);
void mapped_row(const struct mapped *mapped, size_t at, struct mapped_row *row);
/** mapped_lost() - ranges that found no room: figures are too small from there on. */
uint64_t mapped_lost(const struct mapped *mapped);

/** mapped_load() - for trace/summary.c: of a finished reading. Return: 0, -ENOMEM. */
int mapped_load(struct mapped *mapped, const struct mapped_row *row);
void mapped_load_lost(struct mapped *mapped, uint64_t lost);
void mapped_load_sum(struct mapped *mapped, enum mapped_kind kind, const struct mapped_sum *sum);

#endif
