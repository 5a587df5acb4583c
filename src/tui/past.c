/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHANGE_NS 10000000000ull
#define APART_NS 900000000ull

static int by_key(const void *a, const void *b)
{
	const struct past_value *x = a, *y = b;
	return x->key < y->key ? -1 : x->key > y->key;
}

void past_sort(struct past_reading *reading)
{
	qsort(reading->values, reading->count, sizeof(*reading->values), by_key);
}

static void drop(struct past_reading *reading)
{
	free(reading->values);
	*reading = (struct past_reading){ 0 };
}

int past_new(struct past_reading *reading, uint64_t time_ns, size_t count)
{
	*reading = (struct past_reading){ .time_ns = time_ns,
					  .values = calloc(count + 1, sizeof(*reading->values)),
					  .count = count };
	return reading->values ? 0 : -ENOMEM;
}

/* The oldest go, as long as one of ten seconds ago is left. */
static void forget(struct past *past, uint64_t time_ns)
{
	while (past->count == PAST_READINGS ||
	       (past->count > 1 && past->readings[1].time_ns + CHANGE_NS <= time_ns)) {
		drop(&past->readings[0]);
		memmove(past->readings, past->readings + 1,
			--past->count * sizeof(*past->readings));
	}
}

int past_due(struct past *past, uint64_t time_ns)
{
	forget(past, time_ns);
	return !past->count || time_ns >= past->readings[past->count - 1].time_ns + APART_NS;
}

void past_keep(struct past *past, struct past_reading *reading)
{
	forget(past, reading->time_ns);
	past_sort(reading);
	past->readings[past->count++] = *reading;
	*reading = (struct past_reading){ 0 };
}

void past_base(struct past *past, struct past_reading *reading)
{
	drop(&past->base);
	past_sort(reading);
	past->base = *reading;
	*reading = (struct past_reading){ 0 };
}

void past_drop_base(struct past *past)
{
	drop(&past->base);
}

const struct past_reading *past_before(const struct past *past)
{
	if (past->base.values)
		return &past->base;
	return past->count ? &past->readings[0] : NULL;
}

int64_t past_value(const struct past_reading *reading, uint64_t key, int64_t missing)
{
	const struct past_value wanted = { .key = key };
	const struct past_value *value =
		bsearch(&wanted, reading->values, reading->count, sizeof(wanted), by_key);
	return value ? value->value : missing;
}

void past_move(struct past *past)
{
	while (past->count)
		drop(&past->readings[--past->count]);
}

void past_fini(struct past *past)
{
	past_move(past);
	drop(&past->base);
}
