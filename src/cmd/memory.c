/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/memory.h"

#include <stdint.h>
#include <string.h>

#include "base/bound.h"
#include "cmd/cmd.h"
#include "query/query.h"

#define LEAST (16ull << 20) /* below that nothing can be read at all */

enum { OPT_MEMORY = 0x4d00 }; /* beside the keys of whoever has this as a child */

static uint64_t most = MEMORY_DEFAULT;

static const struct argp_option options[] = {
	{ "memory", OPT_MEMORY, "SIZE", 0,
	  "Take at most SIZE of memory (default 512M), or unlimited: what a file unfolds to is up "
	  "to whoever wrote it",
	  5 },
	{ 0 },
};

void memory_bound(void)
{
	bound_memory(most);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct err err = { 0 };
	(void)state;
	switch (key) {
	case OPT_MEMORY:
		if (strcmp(arg, "unlimited") == 0)
			most = UINT64_MAX;
		else if (query_size_parse(arg, &most, &err) < 0)
			cmd_refuse(&err);
		else if (most < LEAST)
			cmd_usage("--memory is 16M or more, or unlimited, not '%s'", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_and_bound(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_SUCCESS)
		return parse(key, arg, state);
	memory_bound();
	return 0;
}

const struct argp memory_argp = { .options = options, .parser = parse_and_bound };
const struct argp memory_later_argp = { .options = options, .parser = parse };
