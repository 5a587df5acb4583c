/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_config.c - TOML and what the network recorder takes from it: accepted whole and consistent, or refused with words. */
#include <stdlib.h>

#include "node/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct nodes_config *config =
		nodes_config_parse((const char *)data, size, "fuzz.toml", NULL, NULL, &err);
	if (!config != (err.code < 0) || (err.code && !err.msg[0]))
		abort();
	for (size_t i = 0; config && i < config->node_count; i++) {
		if (!config->nodes[i].name[0] || !config->nodes[i].db[0])
			abort();
	}
	nodes_config_free(config);
	return 0;
}
