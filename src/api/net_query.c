/* SPDX-License-Identifier: Apache-2.0 */
#include "api/net_query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/log.h"
#include "model/message.h"

#define LIMIT_DEFAULT 100
#define NANOSECONDS_FROM 100000000000000000ull /* 1e17: larger times are in ns */

int net_query_number(const char *text, uint64_t *out)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return -EINVAL;
	*out = value;
	return 0;
}

/* 1 present, 0 absent. The first name that is given counts: the later ones are aliases. */
static int number(net_arg_fn arg, const void *ctx, const char *key, const char *alias,
		  uint64_t *out, struct err *err)
{
	const char *text = arg(ctx, key);
	if (!text && alias)
		text = arg(ctx, key = alias);
	if (!text)
		return 0;
	if (net_query_number(text, out) < 0)
		return err_set(err, -EINVAL,
			       "'%s' is a whole number from 0 to 18446744073709551615, not '%.40s'",
			       key, text);
	return 1;
}

static int boolean(net_arg_fn arg, const void *ctx, const char *key, int *out, struct err *err)
{
	const char *text = arg(ctx, key);
	if (!text)
		return 0;
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		return err_set(err, -EINVAL, "'%s' is true or false, not '%.40s'", key, text);
	*out = text[0] == 't';
	return 1;
}

/* Seconds, milliseconds, microseconds or nanoseconds since 1970, told by their size. */
static uint64_t time_of(uint64_t value)
{
	uint64_t unit = value < 100000000000ull      ? NS_PER_S
			: value < 100000000000000ull ? 1000000u
			: value < NANOSECONDS_FROM   ? 1000u
						     : 1u;
	uint64_t ns;
	if (__builtin_mul_overflow(value, unit, &ns) || ns > INT64_MAX)
		ns = INT64_MAX;
	return ns;
}

static int parse_times(net_arg_fn arg, const void *ctx, struct store_query *q, struct err *err)
{
	uint64_t from = 0, to = 0, pivot = 0;
	int has_from = number(arg, ctx, "from", NULL, &from, err);
	int has_to = has_from < 0 ? has_from : number(arg, ctx, "to", NULL, &to, err);
	int has_pivot = has_to < 0 ? has_to : number(arg, ctx, "timestamp", NULL, &pivot, err);
	if (has_pivot < 0)
		return has_pivot;
	/*
	 * the older front end searches a time with `from` in ns and a direction: it means the
	 * moment to look around
	 */
	if (has_from && !has_to && !has_pivot && from >= NANOSECONDS_FROM &&
	    arg(ctx, "direction")) {
		has_pivot = 1;
		has_from = 0;
		pivot = from;
	}
	if (has_from) {
		q->has_from = 1;
		q->from_ns = time_of(from);
	}
	if (has_to) {
		q->has_to = 1;
		q->to_ns = time_of(to);
	}
	if (has_pivot && q->forward) {
		uint64_t after = time_of(pivot) + 1;
		if (!q->has_from || q->from_ns < after)
			q->from_ns = after;
		q->has_from = 1;
	} else if (has_pivot) {
		if (!q->has_to || q->to_ns > time_of(pivot))
			q->to_ns = time_of(pivot);
		q->has_to = 1;
	}
	/* nothing is earlier than the first moment: the store binds signed numbers */
	if (q->has_from && q->from_ns > INT64_MAX)
		q->from_ns = INT64_MAX;
	return 0;
}

/* Calls @fn for every word of a comma list; an empty word is wrong. */
static int words(const char *text, int (*fn)(struct net_query *out, const char *word, size_t len),
		 struct net_query *out)
{
	for (;;) {
		size_t len = strcspn(text, ",");
		if (!len || fn(out, text, len) < 0)
			return -EINVAL;
		if (!text[len])
			return 0;
		text += len + 1;
	}
}

static int add_type(struct net_query *out, const char *word, size_t len)
{
	enum message_type type;
	if (message_type_parse(word, len, &type) < 0)
		return -EINVAL;
	for (size_t i = 0; i < out->store.type_count; i++) {
		if (out->types[i] == type)
			return 0; /* said twice: one cursor is enough, two would give rows twice */
	}
	if (out->store.type_count == sizeof(out->types))
		return -EINVAL;
	out->types[out->store.type_count++] = (unsigned char)type;
	return 0;
}

static int add_level(struct net_query *out, const char *word, size_t len)
{
	unsigned level = log_level_parse(word, len);
	out->store.levels |= level;
	return level ? 0 : -EINVAL;
}

/*
 * "ip:port", "[v6]:port" in the spelling of the store: IPv4 never v4-mapped, IPv6 as inet_ntop()
 * has it.
 */
static int normal_addr(const char *text, char out[64])
{
	char host[64];
	uint8_t ip[16];
	uint64_t port;
	const char *colon = strrchr(text, ':');
	if (!colon || net_query_number(colon + 1, &port) < 0 || port > 65535)
		return -EINVAL;
	size_t len = (size_t)(colon - text);
	int bracket = text[0] == '[';
	if (bracket) {
		if (len < 2 || text[len - 1] != ']')
			return -EINVAL;
		text++;
		len -= 2;
	}
	if (!len || len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	if (!bracket) {
		if (inet_pton(AF_INET, host, ip) != 1)
			return -EINVAL;
		snprintf(out, 64, "%s:%llu", host, (unsigned long long)port);
		return 0;
	}
	if (inet_pton(AF_INET6, host, ip) != 1)
		return -EINVAL;
	char shown[INET6_ADDRSTRLEN];
	int mapped = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip);
	inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? ip + 12 : ip, shown, sizeof(shown));
	snprintf(out, 64, mapped ? "%s:%llu" : "[%s]:%llu", shown, (unsigned long long)port);
	return 0;
}

static int parse_message_filters(net_arg_fn arg, const void *ctx, struct net_query *out,
				 struct err *err)
{
	struct store_query *q = &out->store;
	const char *text = arg(ctx, "types");
	if (text) {
		q->types = out->types;
		if (words(text, add_type, out) < 0)
			return err_set(err, -EINVAL, "'types' has an unknown word: '%.200s'", text);
	}
	text = arg(ctx, "remote_addr");
	if (text) {
		if (normal_addr(text, out->addr) < 0)
			return err_set(err, -EINVAL,
				       "'remote_addr' is ip:port or [v6]:port, not '%.80s'", text);
		q->remote_addr = out->addr;
	}
	text = arg(ctx, "source_type");
	if (text) {
		if (strcmp(text, "local") != 0 && strcmp(text, "remote") != 0)
			return err_set(err, -EINVAL,
				       "'source_type' is local or remote, not '%.40s'", text);
		q->has_initiator = 1;
		q->initiator = text[0] == 'l' ? MESSAGE_LOCAL : MESSAGE_REMOTE;
	}
	q->has_incoming = boolean(arg, ctx, "incoming", &q->incoming, err);
	return q->has_incoming < 0 ? q->has_incoming : 0;
}

static int parse_log_filters(net_arg_fn arg, const void *ctx, struct net_query *out,
			     struct err *err)
{
	const char *key = "log_level", *text = arg(ctx, key);
	if (!text)
		text = arg(ctx, key = "level");
	if (text && words(text, add_level, out) < 0)
		return err_set(err, -EINVAL, "'%s' has an unknown word: '%.200s'", key, text);
	int rc = boolean(arg, ctx, "query_no_quotes", &out->no_quotes, err);
	out->text = arg(ctx, "query");
	return rc < 0 ? rc : 0;
}

int net_query_parse(net_arg_fn arg, const void *ctx, int logs, struct net_query *out,
		    struct err *err)
{
	*out = (struct net_query){ .store = { .limit = LIMIT_DEFAULT } };
	struct store_query *q = &out->store;
	const char *direction = arg(ctx, "direction");
	q->forward = direction && strcmp(direction, "forward") == 0;
	if (direction && !q->forward && strcmp(direction, "backward") != 0) {
		err_set(err, -EINVAL, "direction is forward or backward, not '%s'", direction);
		return -EINVAL;
	}
	q->has_cursor = number(arg, ctx, "cursor", "cursor_id", &q->cursor, err);
	if (q->has_cursor < 0)
		return q->has_cursor;
	int rc = number(arg, ctx, "limit", NULL, &q->limit, err);
	if (rc >= 0)
		rc = parse_times(arg, ctx, q, err);
	if (rc < 0)
		return rc;
	return logs ? parse_log_filters(arg, ctx, out, err)
		    : parse_message_filters(arg, ctx, out, err);
}

int net_query_connection(const char *text, size_t len, uint64_t *started_ns)
{
	uint64_t part[2] = { 0, 0 };
	int at = 0, digits = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '.' && at == 0 && digits) {
			at = 1;
			digits = 0;
			continue;
		}
		if (text[i] < '0' || text[i] > '9' || ++digits > 19)
			return -EINVAL;
		part[at] = part[at] * 10 + (uint64_t)(text[i] - '0');
	}
	if (!digits || part[1] > 999999999 ||
	    __builtin_mul_overflow(part[0], NS_PER_S, started_ns) ||
	    __builtin_add_overflow(*started_ns, part[1], started_ns))
		return -EINVAL;
	return 0;
}

int net_query_chunk(const char *text, uint64_t *started_ns, struct store_chunk_place *place)
{
	const char *dash = strchr(text, '-');
	if (!dash || net_query_connection(text, (size_t)(dash - text), started_ns) < 0)
		return -EINVAL;
	if (strncmp(dash, "-local-", 7) == 0) {
		place->sender = MESSAGE_LOCAL;
		dash += 7;
	} else if (strncmp(dash, "-remote-", 8) == 0) {
		place->sender = MESSAGE_REMOTE;
		dash += 8;
	} else {
		return -EINVAL;
	}
	place->id = 0;
	if (strncmp(dash, "raw.", 4) == 0) {
		place->counter = MESSAGE_NO_COUNTER;
		return net_query_number(dash + 4, &place->id);
	}
	int rc = net_query_number(dash, &place->counter);
	return rc == 0 && place->counter > INT64_MAX ? -EINVAL : rc;
}
