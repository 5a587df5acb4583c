/* SPDX-License-Identifier: Apache-2.0 */
/*
 * past.h - what was shown before, so that changes can be told: readings of values by key, those of
 * the last ten seconds, and one that the reader has asked for.
 */
#ifndef TUI_PAST_H
#define TUI_PAST_H

#include <stddef.h>
#include <stdint.h>

#define PAST_READINGS 16

struct past_value {
	uint64_t key;
	int64_t value;
};

/** struct past_reading - by key; values NULL: there is none. */
struct past_reading {
	uint64_t time_ns;
	struct past_value *values;
	size_t count;
};

/** struct past - zero-initialised: nothing was shown yet. */
struct past {
	/* oldest first: one of ten seconds ago, if any is that old, and what came since */
	struct past_reading readings[PAST_READINGS];
	unsigned count;
	/* goes before all of them */
	struct past_reading base;
};

/** past_due() - is a reading of @time_ns to be kept? Not so soon after the last one: 0.9 s. */
int past_due(struct past *past, uint64_t time_ns);
/** past_new() - room for @count values, in any order, for past_keep() or past_base(). -ENOMEM. */
int past_new(struct past_reading *reading, uint64_t time_ns, size_t count);
/** past_sort() - as past_value() wants it; past_keep() and past_base() do that. */
void past_sort(struct past_reading *reading);
/** past_keep() - as the newest; @reading is taken. */
void past_keep(struct past *past, struct past_reading *reading);
/** past_base() - as what changes are told from, until past_drop_base(); @reading is taken. */
void past_base(struct past *past, struct past_reading *reading);
void past_drop_base(struct past *past);
/** past_before() - what changes are told from now; NULL: nothing yet. Lent. */
const struct past_reading *past_before(const struct past *past);
/** past_value() - of @key then; @missing where it was not there. */
int64_t past_value(const struct past_reading *reading, uint64_t key, int64_t missing);
/** past_move() - all but the base goes. */
void past_move(struct past *past);
void past_fini(struct past *past);

#endif
