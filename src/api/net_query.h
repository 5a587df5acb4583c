/* SPDX-License-Identifier: Apache-2.0 */
/* net_query.h - query parameters of message and log lists into a store query (docs/network.md). */
#ifndef API_NET_QUERY_H
#define API_NET_QUERY_H

#include "base/err.h"
#include "store/store.h"

/** The value of a parameter, NULL where it is absent; lent for the call. */
typedef const char *(*net_arg_fn)(const void *ctx, const char *key);

/** struct net_query - in place; @store points into it, so it must not be copied. */
struct net_query {
	struct store_query store;
	unsigned char types[32];
	char addr[64];
	/* full-text search instead of all the rest; lent from the arguments */
	const char *text;
	int no_quotes;
};

/**
 * net_query_parse() - @logs: parameters of log lists. -EINVAL names the parameter. Any thread,
 * pure.
 */
int net_query_parse(net_arg_fn arg, const void *ctx, int logs, struct net_query *out,
		    struct err *err);
/**
 * net_query_connection() - "seconds.nanos", nine digits or (older) unpadded, into nanoseconds;
 * -EINVAL.
 */
int net_query_connection(const char *text, size_t len, uint64_t *started_ns);
/**
 * net_query_chunk() - "CONNECTION-local|remote-COUNTER" or "...-raw.ID" (a piece without a
 * counter); @place->connection is left alone.
 */
int net_query_chunk(const char *text, uint64_t *started_ns, struct store_chunk_place *place);
/** net_query_number() - a whole number of decimal digits; -EINVAL. */
int net_query_number(const char *text, uint64_t *out);

#endif
