/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - the words for groups and costs (docs/rules.md). */
#include <errno.h>
#include <string.h>

#include "view/view.h"

static const char *const by_words[] = {
	[VIEW_BY_STACK] = "stack", [VIEW_BY_FUNCTION] = "function", [VIEW_BY_MODULE] = "module",
	[VIEW_BY_FILE] = "file",   [VIEW_BY_LINE] = "line",         [VIEW_BY_THREAD] = "thread",
};
static const char *const cost_words[] = {
	[VIEW_COST_PEAK] = "peak",           [VIEW_COST_ALLOCATIONS] = "allocations",
	[VIEW_COST_ALLOCATED] = "allocated", [VIEW_COST_TEMPORARY] = "temporary",
	[VIEW_COST_LEAKED] = "leaked",       [VIEW_COST_LIVE] = "live",
};

int view_by_parse(const char *word, enum view_by *by, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(by_words); i++) {
		if (strcmp(word, by_words[i]) == 0) {
			*by = (enum view_by)i;
			return 0;
		}
	}
	err_set(err, -EINVAL, "unknown grouping '%s'", word);
	return err_hint(err, "one of: stack function module file line thread");
}

int view_cost_parse(const char *word, enum view_cost *cost, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(cost_words); i++) {
		if (strcmp(word, cost_words[i]) == 0) {
			*cost = (enum view_cost)i;
			return 0;
		}
	}
	err_set(err, -EINVAL, "unknown cost '%s'", word);
	return err_hint(err, "one of: allocations allocated temporary leaked peak live");
}

const char *view_cost_name(enum view_cost cost)
{
	return cost_words[cost];
}

uint64_t view_cost_of(const struct cost *cost, enum view_cost which)
{
	switch (which) {
	case VIEW_COST_PEAK:
		return cost->peak_bytes;
	case VIEW_COST_ALLOCATIONS:
		return cost->allocations;
	case VIEW_COST_ALLOCATED:
		return cost->allocated_bytes;
	case VIEW_COST_TEMPORARY:
		return cost->temporary;
	case VIEW_COST_LEAKED:
		return cost->leaked_bytes;
	case VIEW_COST_LIVE:
		return cost->leaked_bytes + cost->uncertain_bytes;
	}
	return 0;
}

const char *view_stop_label(unsigned stop)
{
	static const char *const labels[STACK_STOP_MAX] = {
		[1] = "[partial: gap]",
		[2] = "[partial: no_module]",
		[3] = "[partial: unsupported]",
		[4] = "[partial: unreadable]",
		[5] = "[partial: no_progress]",
		[6] = "[partial: too_deep]",
		[7] = "[partial: guessed]",
		[8] = "[partial: node_table_full]",
		[9] = "[partial: no_scratch]",
		[10] = "[partial: stacks_off]",
		[STACK_STOP_DAMAGED] = "[partial: file_damaged]",
		[STACK_STOP_UNSAMPLED] = "[not sampled]",
	};
	if (stop == 0)
		return NULL;
	return stop < STACK_STOP_MAX && labels[stop] ? labels[stop] : "[partial]";
}
