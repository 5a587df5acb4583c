/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned.h - which stretches of a process's memory an allocator, a runtime or a thread owns, as a
 * reading of its own books told. Put over a breakdown it names the mappings, and cuts those that
 * hold more than one owner's; kept, it names those of later, cheaper readings likewise, so that
 * whoever watches says what a full reading says.
 */
#ifndef PROC_OWNED_H
#define PROC_OWNED_H

#include "base/err.h"
#include "base/intern.h"
#include "proc/breakdown.h"

#define OWNED_MAX \
	(1u << 16) /* stretches; more are left out, and their mappings keep what they were called */
/* a rest smaller than that and than an eighth of its mapping is not worth a line of its own */
#define OWNED_CUT_MIN (64u << 10)

enum { OWNED_STACK, OWNED_PART, OWNED_MAPPING };

struct owned_span {
	uint64_t start, end;
	/* interned; owner NULL: unknown */
	const char *label, *owner;
	uint8_t class, how;
	/* OWNED_STACK ...: what is claimed twice is the firmer one's */
	uint8_t weak;
	/* it reached its mapping's end: where that moves up later, it is this owner's, too */
	uint8_t grows;
};

/** struct owned - zeroed is empty. */
struct owned {
	/* after owned_sort(): by address, not overlapping, neighbours of one name joined */
	struct owned_span *spans;
	size_t count, room;
	struct intern texts;
	/* CLOCK_MONOTONIC of the reading; 0: none */
	uint64_t read_ns;
};

void owned_fini(struct owned *owned);
/** owned_add() - one more; texts are copied. Empty ones are passed over. -ENOMEM. */
int owned_add(struct owned *owned, const struct owned_span *span);
/**
 * owned_sort() - put in order; what is claimed twice is the firmer one's, else the lower one's.
 * -ENOMEM.
 */
int owned_sort(struct owned *owned);
/**
 * owned_apply() - name the mappings of @breakdown, which must keep every one, by @owned, which is
 * in order; -ENOMEM with @err. What is resident of pieces is counted by pagemap. Sums are computed
 * anew.
 */
int owned_apply(const struct owned *owned, struct breakdown *breakdown, const struct target *target,
		struct err *err);

#endif
