/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_query.c - query strings of the network routes: "key=value&..." without escapes, as the HTTP server has undone them. */
#include <stdlib.h>
#include <string.h>

#include "api/net_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *find(const void *ctx, const char *key)
{
	size_t len = strlen(key);
	for (const char *p = ctx; *p; p += strlen(p) + 1) {
		if (strncmp(p, key, len) == 0 && p[len] == '=')
			return p + len + 1;
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *args = malloc(size + 2);
	struct store_chunk_place place;
	uint64_t ns;
	if (!args)
		return 0;
	memcpy(args, data, size);
	args[size] = args[size + 1] = '\0';
	for (char *p = args; p < args + size; p++)
		*p = *p == '&' ? '\0' : *p;
	for (int logs = 0; logs < 2; logs++) {
		struct net_query q;
		struct err err = { 0 };
		int rc = net_query_parse(find, args, logs, &q, &err);
		if ((rc < 0) != (err.code < 0) || (rc == 0 && q.store.type_count > sizeof(q.types)))
			abort();
	}
	net_query_chunk(args, &ns, &place);
	net_query_connection(args, strlen(args), &ns);
	free(args);
	return 0;
}
