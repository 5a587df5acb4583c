/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readers.h - what the readers of single allocators share, and the readers themselves. Private to
 * the room, and for its tests.
 */
#ifndef HEAPS_READERS_H
#define HEAPS_READERS_H

#include <stdint.h>

#include "heaps/units.h"
#include "proc/breakdown.h"
#include "proc/memory.h"

/** heaps_add() - one more reading of @breakdown, zeroed; NULL without memory. */
struct allocator_reading *heaps_add(struct breakdown *breakdown);
/**
 * heaps_unread() - @allocator is in use here, but cannot be read: @why, for people. 0 or -ENOMEM.
 */
int heaps_unread(struct breakdown *breakdown, const char *allocator, const char *why);
/**
 * heaps_judge() - whether what was read of @allocator is worth telling. 1: it is; 0: not, a row
 * without figures says why (its mappings must keep their names, too); -ENOMEM. @consistency: per
 * cent.
 */
int heaps_judge(struct breakdown *breakdown, const struct memory *memory, const char *allocator,
		double consistency);
/**
 * heaps_own() - [@start, @end) is @label's, of class @class; @weak: OWNED_PART ... of proc/owned.h;
 * @how: enum region_how. 0 or -ENOMEM.
 */
int heaps_own(struct breakdown *breakdown, uint64_t start, uint64_t end, unsigned class,
	      const char *label, const char *owner, unsigned weak, unsigned how);
/**
 * heaps_claim() - name the mappings whose @claims entry n is not 0 @labels[n - 1]. 0 or -ENOMEM.
 */
int heaps_claim(struct breakdown *breakdown, const uint8_t *claims, unsigned class,
		const char *const *labels, const char *owner);
/**
 * heaps_present() - what of the @claims' mappings is resident, of what is or was swapped out: 0 to
 * 1.
 */
double heaps_present(const struct breakdown *breakdown, const uint8_t *claims);
/** The readers: 0 (whether there is something to read or not), or -ENOMEM. */
int heaps_glibc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_cpython(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_proofs(struct breakdown *breakdown, const struct memory *memory, struct err *err);
/** struct hotspot_places - of a JVM, by its own tables; {0, 0}: not known. */
#define HOTSPOT_METASPACES 256
struct hotspot_places {
	struct memory_run heap, code, cards, classes;
	/* mappings that hold classes' descriptions, or whole reservations for them */
	struct memory_run metaspace[HOTSPOT_METASPACES];
	unsigned metaspace_count;
	/* the class space's end is known, too */
	int classes_are_exact;
};
/** hotspot_places() - 1 found, 0 not, -ENOMEM. */
int hotspot_places(const struct breakdown *breakdown, const struct memory *memory,
		   struct hotspot_places *places);
/** hotspot_claim() - name what lies there; resident bytes of the heap, or -ENOMEM. */
int64_t hotspot_claim(struct breakdown *breakdown, const struct hotspot_places *places);
int heaps_hotspot(struct breakdown *breakdown, const struct memory *memory, struct err *err);
/** heaps_sbcl(), heaps_dotnet() - names only. */
int heaps_dotnet(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_sbcl(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_jemalloc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_partition(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_mimalloc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
/** mimalloc3_read() - version 3 of it: 1 there is a row of it now, 0 it is not there, -ENOMEM. */
int mimalloc3_read(struct breakdown *breakdown, const struct memory *memory);
int heaps_tcmalloc(struct breakdown *breakdown, const struct memory *memory, struct err *err);
/**
 * heaps_served() - which allocator serves which module, and settings that files name, into
 * @breakdown's settings; by files alone.
 */
int heaps_served(struct breakdown *breakdown, const struct memory *memory, struct err *err);
int heaps_go(struct breakdown *breakdown, const struct memory *memory, struct err *err);

#endif
