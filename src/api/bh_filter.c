/* SPDX-License-Identifier: Apache-2.0 */
/* bh_filter.c - the filter words of the bytehound-compatible routes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh_internal.h"

const char *bh_arg(const struct bh_call *b, const char *key)
{
	const char *value = http_request_arg(b->call.request, key);
	return value && *value ? value : NULL;
}

static int bad(struct err *err, const char *key, const char *value, const char *expected)
{
	return err_set(err, -EINVAL, "'%s' is %s, not '%.60s'", key, expected, value);
}

/**
 * take_time() - milliseconds since 1970, or "N%" of the run; as ns from the start. @end: the whole
 * millisecond is meant.
 */
static int take_time(const struct bh_call *b, const char *key, int end, uint64_t *ns,
		     struct err *err)
{
	const char *value = bh_arg(b, key);
	char *rest;
	if (!value)
		return 0;
	double number = strtod(value, &rest);
	if (rest == value || number < 0 || number > 1e18 || (strcmp(rest, "%") != 0 && *rest))
		return bad(err, key, value, "milliseconds since 1970 or a percentage such as 50%");
	if (*rest == '%') {
		*ns = number > 100 ? UINT64_MAX : (uint64_t)(number / 100 * (double)b->length_ns);
		return 1;
	}
	double since = number * 1e6 - (double)b->start_ns + (end ? 999999 : 0);
	/* of numbers this large a double keeps less than a millisecond: the whole part is exact */
	if (strspn(value, "0123456789") == strlen(value)) {
		uint64_t at = strtoull(value, NULL, 10) * 1000000 + (end ? 999999 : 0);
		*ns = at > b->start_ns ? at - b->start_ns : 0;
	} else {
		*ns = since > 0 ? (uint64_t)since : 0;
	}
	return 1;
}

static int take_number(const struct bh_call *b, const char *key, uint64_t *to, struct err *err)
{
	const char *value = bh_arg(b, key);
	char *rest;
	if (!value)
		return 0;
	errno = 0;
	unsigned long long number = strtoull(value, &rest, 0);
	if (*value >= '0' && *value <= '9' && !*rest && !errno) {
		*to = number;
		return 1;
	}
	struct err none = { 0 };
	if (query_size_parse(value, to, &none) == 0)
		return 1;
	return bad(err, key, value, "a number");
}

static int take_duration(const struct bh_call *b, const char *key, uint64_t *to, struct err *err)
{
	const char *value = bh_arg(b, key);
	struct err none = { 0 };
	if (!value)
		return 0;
	return query_duration_parse(value, to, &none) < 0
		       ? bad(err, key, value, "a duration such as 1h30m, 10s, 250ms, 5us")
		       : 1;
}

/** take_part() - a duration, or "N%" of the run. */
static int take_part(const struct bh_call *b, const char *key, uint64_t *to, struct err *err)
{
	const char *value = bh_arg(b, key);
	char *rest;
	if (!value || !strchr(value, '%'))
		return take_duration(b, key, to, err);
	double share = strtod(value, &rest);
	if (rest == value || strcmp(rest, "%") != 0 || share < 0)
		return bad(err, key, value, "a duration or a percentage");
	*to = (uint64_t)(share / 100 * (double)b->length_ns);
	return 1;
}

static int take_choice(const struct bh_call *b, const char *key, const char *yes, const char *no,
		       int *to, struct err *err)
{
	const char *value = bh_arg(b, key);
	char expected[64];
	*to = -1;
	if (!value)
		return 0;
	snprintf(expected, sizeof(expected), "%s or %s", yes, no);
	if (strcmp(value, yes) != 0 && strcmp(value, no) != 0)
		return bad(err, key, value, expected);
	*to = strcmp(value, yes) == 0;
	return 1;
}

static int take_regex(struct bh_call *b, const char *key, int source, int negative, struct err *err)
{
	const char *value = bh_arg(b, key);
	struct bh_filter *f = &b->filter;
	uint32_t count = prof_stack_count(b->names);
	if (!value)
		return 0;
	uint8_t *mask = query_mask(b->names, value, source, err);
	if (!mask)
		return err->code;
	for (uint32_t i = 0; i < count; i++)
		mask[i] = (uint8_t)((mask[i] ^ negative) & (f->stacks ? f->stacks[i] : 1));
	free(f->stacks);
	f->stacks = mask;
	return 1;
}

static int take_life(struct bh_call *b, struct err *err)
{
	static const char *const words[] = { "all", "only_leaked", "only_chain_leaked",
					     "only_temporary", "only_whole_group_leaked" };
	const char *value = bh_arg(b, "lifetime");
	if (!value)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(value, words[i]) == 0) {
			b->filter.life = (int)i;
			b->filter.has_group |= b->filter.life == BH_WHOLE_GROUP_LEAKED;
			return 0;
		}
	}
	return bad(
		err, "lifetime", value,
		"all, only_leaked, only_chain_leaked, only_temporary or only_whole_group_leaked");
}

/** take_leaked() - a number, or "N%" of the group. */
static int take_leaked(struct bh_call *b, const char *key, uint64_t *number, double *share,
		       struct err *err)
{
	const char *value = bh_arg(b, key);
	char *rest;
	if (!value)
		return 0;
	b->filter.has_group = 1;
	if (!strchr(value, '%'))
		return take_number(b, key, number, err);
	*share = strtod(value, &rest) / 100;
	return rest == value || strcmp(rest, "%") != 0
		       ? bad(err, key, value, "a number or a percentage")
		       : 1;
}

int bh_filter_parse(struct bh_call *b, struct err *err)
{
	struct bh_filter *f = &b->filter;
	static const struct bh_range any = { 0, UINT64_MAX };
	*f = (struct bh_filter){ .time = any,
				 .lifetime = any,
				 .chain_lifetime = any,
				 .size = any,
				 .first_size = any,
				 .last_size = any,
				 .address = any,
				 .depth = any,
				 .chain_length = any,
				 .position = any,
				 .group_interval = any,
				 .group_count = any,
				 .group_leaked = any,
				 .group_most_ns = any,
				 .backtrace = UINT64_MAX,
				 .deallocation = UINT64_MAX,
				 .group_leaked_min_share = -1,
				 .group_leaked_max_share = 2 };
	const struct {
		const char *key;
		uint64_t *to;
		int (*take)(const struct bh_call *b, const char *key, uint64_t *to,
			    struct err *err);
		int group;
	} words[] = {
		{ "lifetime_min", &f->lifetime.min, take_duration, 0 },
		{ "lifetime_max", &f->lifetime.max, take_duration, 0 },
		{ "chain_lifetime_min", &f->chain_lifetime.min, take_duration, 0 },
		{ "chain_lifetime_max", &f->chain_lifetime.max, take_duration, 0 },
		{ "size_min", &f->size.min, take_number, 0 },
		{ "size_max", &f->size.max, take_number, 0 },
		{ "first_size_min", &f->first_size.min, take_number, 0 },
		{ "first_size_max", &f->first_size.max, take_number, 0 },
		{ "last_size_min", &f->last_size.min, take_number, 0 },
		{ "last_size_max", &f->last_size.max, take_number, 0 },
		{ "address_min", &f->address.min, take_number, 0 },
		{ "address_max", &f->address.max, take_number, 0 },
		{ "backtrace_depth_min", &f->depth.min, take_number, 0 },
		{ "backtrace_depth_max", &f->depth.max, take_number, 0 },
		{ "backtraces", &f->backtrace, take_number, 0 },
		{ "deallocation_backtraces", &f->deallocation, take_number, 0 },
		{ "chain_length_min", &f->chain_length.min, take_number, 0 },
		{ "chain_length_max", &f->chain_length.max, take_number, 0 },
		{ "position_in_chain_min", &f->position.min, take_number, 0 },
		{ "position_in_chain_max", &f->position.max, take_number, 0 },
		{ "group_interval_min", &f->group_interval.min, take_part, 1 },
		{ "group_interval_max", &f->group_interval.max, take_part, 1 },
		{ "group_allocations_min", &f->group_count.min, take_number, 1 },
		{ "group_allocations_max", &f->group_count.max, take_number, 1 },
		{ "group_max_total_usage_first_seen_min", &f->group_most_ns.min, take_part, 1 },
		{ "group_max_total_usage_first_seen_max", &f->group_most_ns.max, take_part, 1 },
	};
	int rc = take_time(b, "from", 0, &f->time.min, err);
	if (rc >= 0)
		rc = take_time(b, "to", 1, &f->time.max, err);
	if (rc >= 0)
		rc = f->has_alive[0] = take_time(b, "alive_at", 0, &f->alive_at[0], err);
	if (rc >= 0)
		rc = f->has_alive[1] = take_time(b, "alive_at_2", 0, &f->alive_at[1], err);
	for (size_t i = 0; i < ARRAY_LEN(words) && rc >= 0; i++) {
		rc = words[i].take(b, words[i].key, words[i].to, err);
		f->has_group |= rc > 0 && words[i].group;
	}
	if (rc >= 0)
		rc = take_life(b, err);
	if (rc >= 0)
		rc = take_leaked(b, "group_leaked_allocations_min", &f->group_leaked.min,
				 &f->group_leaked_min_share, err);
	if (rc >= 0)
		rc = take_leaked(b, "group_leaked_allocations_max", &f->group_leaked.max,
				 &f->group_leaked_max_share, err);
	if (rc >= 0)
		rc = take_choice(b, "mmaped", "yes", "no", &f->mmaped, err);
	if (rc >= 0)
		rc = take_choice(b, "arena", "main", "non_main", &f->main_arena, err);
	f->jemalloc = -1;
	if (rc >= 0 && !b->wants_maps) /* of mappings it is another word, with other values */
		rc = take_choice(b, "jemalloc", "yes", "no", &f->jemalloc, err);
	if (rc >= 0)
		rc = take_regex(b, "function_regex", 0, 0, err);
	if (rc >= 0)
		rc = take_regex(b, "negative_function_regex", 0, 1, err);
	if (rc >= 0)
		rc = take_regex(b, "source_regex", 1, 0, err);
	if (rc >= 0)
		rc = take_regex(b, "negative_source_regex", 1, 1, err);
	static const char *const missing[] = { "marker", "from_map" };
	for (size_t i = 0; i < ARRAY_LEN(missing) && rc >= 0; i++)
		if (bh_arg(b, missing[i]))
			rc = err_set(err, -EINVAL, "'%s' is not served", missing[i]);
	if (rc < 0)
		bh_filter_fini(f);
	return rc < 0 ? rc : 0;
}

void bh_filter_fini(struct bh_filter *f)
{
	free(f->stacks);
	f->stacks = NULL;
}

static int within(const struct bh_range *r, uint64_t value)
{
	return value >= r->min && value <= r->max;
}

static uint64_t span(const struct bh_call *b, uint64_t from, uint64_t to)
{
	to = to == BLOCK_NEVER ? b->length_ns : to;
	return to > from ? to - from : 0;
}

static int group_matches(const struct bh_call *b, const struct block_row *r)
{
	const struct bh_filter *f = &b->filter;
	const struct block_group *g = &b->groups->all[r->stack];
	double share = g->count ? (double)g->leaked / (double)g->count : 0;
	return within(&f->group_interval, span(b, g->first_ns, g->last_ns)) &&
	       within(&f->group_count, g->count) && within(&f->group_leaked, g->leaked) &&
	       within(&f->group_most_ns, g->most_ns) && share >= f->group_leaked_min_share &&
	       share <= f->group_leaked_max_share &&
	       (f->life != BH_WHOLE_GROUP_LEAKED || g->leaked == g->count);
}

int bh_matches(const struct bh_call *b, const struct block_row *r)
{
	const struct bh_filter *f = &b->filter;
	const struct block_chain *c = r->chain ? blocks_chain(b->blocks, r->chain) : NULL;
	int leaked = r->freed_ns == BLOCK_NEVER;
	if (b->custom && !(b->custom[(r->id - 1) / 8] >> (r->id - 1) % 8 & 1))
		return 0;
	if (!within(&f->time, r->time_ns) || !within(&f->size, r->bytes) ||
	    !within(&f->address, r->addr) || (f->stacks && !f->stacks[r->stack]) ||
	    !within(&f->lifetime, span(b, r->time_ns, r->freed_ns)))
		return 0;
	for (int i = 0; i < 2; i++)
		if (f->has_alive[i] &&
		    !(r->time_ns <= f->alive_at[i] && r->freed_ns > f->alive_at[i]))
			return 0;
	if ((f->life == BH_LEAKED && !leaked) || (f->life == BH_TEMPORARY && leaked) ||
	    (f->life == BH_CHAIN_LEAKED && (c ? c->freed_ns : r->freed_ns) != BLOCK_NEVER))
		return 0;
	if (!within(&f->chain_lifetime, c ? span(b, c->first_time_ns, c->freed_ns)
					  : span(b, r->time_ns, r->freed_ns)) ||
	    !within(&f->first_size, c ? c->first_bytes : r->bytes) ||
	    !within(&f->last_size, c ? c->last_bytes : r->bytes) ||
	    !within(&f->chain_length, c ? c->length : 1) || !within(&f->position, r->position))
		return 0;
	if ((f->backtrace != UINT64_MAX && f->backtrace != r->stack) ||
	    (f->deallocation != UINT64_MAX && f->deallocation != r->free_stack) ||
	    !within(&f->depth, prof_stack(b->names, (struct stack_id){ r->stack })->depth))
		return 0;
	if ((f->mmaped >= 0 && f->mmaped != block_is_mmaped(r)) ||
	    (f->main_arena >= 0 && f->main_arena != block_in_main_arena(r)) ||
	    (f->jemalloc >= 0 && f->jemalloc != b->has_jemalloc))
		return 0;
	return !f->has_group || group_matches(b, r);
}
