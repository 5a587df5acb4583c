/* SPDX-License-Identifier: Apache-2.0 */
#include "net/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A segment that waits for something before it. */
struct net_order_held {
	struct net_order_held *next;
	uint32_t seq, len;
	uint64_t time_ns;
	uint8_t bytes[];
};

/* How far @a lies behind @b in the stream; negative = before it. */
static int32_t ahead(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

static int give_data(struct net_order *order, uint64_t time_ns, const uint8_t *bytes, size_t len,
		     const struct net_order_to *to, struct err *err)
{
	uint64_t offset = order->offset;
	order->next += (uint32_t)len;
	order->offset += len;
	return len ? to->data(to->ctx, time_ns, offset, bytes, len, err) : 0;
}

static int give_gap(struct net_order *order, uint64_t time_ns, uint32_t lost,
		    const struct net_order_to *to, struct err *err)
{
	uint64_t offset = order->offset;
	order->next += lost;
	order->offset += lost;
	return to->gap(to->ctx, time_ns, offset, lost, err);
}

static struct net_order_held *take_first(struct net_order *order)
{
	struct net_order_held *held = order->held;
	order->held = held->next;
	order->held_bytes -= held->len;
	order->held_segments--;
	if (order->held_memory)
		*order->held_memory -= sizeof(*held) + held->len;
	return held;
}

/* Hand over what has become contiguous. */
static int drain(struct net_order *order, const struct net_order_to *to, struct err *err)
{
	int rc = 0;
	while (rc >= 0 && order->held && ahead(order->held->seq, order->next) <= 0) {
		struct net_order_held *held = take_first(order);
		uint32_t old = order->next - held->seq;
		order->duplicate_bytes += old < held->len ? old : held->len;
		if (old < held->len)
			rc = give_data(order, held->time_ns, held->bytes + old, held->len - old, to,
				       err);
		free(held);
	}
	return rc;
}

/* What is missing before the first held segment is given up. */
static int skip_to_held(struct net_order *order, const struct net_order_to *to, struct err *err)
{
	int rc = give_gap(order, order->held->time_ns, order->held->seq - order->next, to, err);
	return rc < 0 ? rc : drain(order, to, err);
}

static int hold(struct net_order *order, uint32_t seq, uint64_t time_ns, const uint8_t *bytes,
		uint32_t len)
{
	struct net_order_held **at = &order->held;
	while (*at && ahead((*at)->seq, seq) <= 0) {
		if ((*at)->seq == seq && (*at)->len >= len) {
			order->duplicate_bytes += len; /* sent again while it waits */
			return 0;
		}
		at = &(*at)->next;
	}
	struct net_order_held *held = malloc(sizeof(*held) + len);
	if (!held)
		return -ENOMEM;
	held->seq = seq;
	held->len = len;
	held->time_ns = time_ns;
	memcpy(held->bytes, bytes, len);
	held->next = *at;
	*at = held;
	order->held_bytes += len;
	order->held_segments++;
	if (order->held_memory)
		*order->held_memory += sizeof(*held) + len;
	return 0;
}

int net_order_start(struct net_order *order, uint32_t seq, uint64_t offset,
		    const struct net_order_to *to, struct err *err)
{
	order->known = 1;
	order->next = seq;
	order->offset = offset;
	return drain(order, to, err);
}

int net_order_put(struct net_order *order, uint32_t seq, uint64_t time_ns, const uint8_t *bytes,
		  size_t len, const struct net_order_to *to, struct err *err)
{
	int rc = 0;
	if (!len)
		return 0;
	if (len > INT32_MAX)
		return err_set(err, -EINVAL, "cannot take a segment of %zu bytes", len);
	if (order->known && ahead(seq, order->next) <= 0) {
		uint32_t old = order->next - seq;
		order->duplicate_bytes += old < len ? old : len;
		if (old < len)
			rc = give_data(order, time_ns, bytes + old, len - old, to, err);
		return rc < 0 ? rc : drain(order, to, err);
	}
	if (hold(order, seq, time_ns, bytes, (uint32_t)len) < 0)
		return err_set(err, -ENOMEM, "cannot hold back a segment");
	while (rc >= 0 && (order->held_bytes > NET_ORDER_HELD_MAX ||
			   order->held_segments > NET_ORDER_HELD_SEGMENTS)) {
		if (!order->known) {
			/* the start was never told: the earliest byte that came is taken for it */
			order->known = 1;
			order->next = order->held->seq;
			rc = drain(order, to, err);
		} else {
			rc = skip_to_held(order, to, err);
		}
	}
	return rc;
}

int net_order_settle(struct net_order *order, uint32_t seq, int also_tail, uint64_t time_ns,
		     const struct net_order_to *to, struct err *err)
{
	int rc = 0;
	if (!order->known)
		return 0;
	while (rc >= 0 && order->held && ahead(seq, order->held->seq) > 0)
		rc = skip_to_held(order, to, err);
	if (rc >= 0 && also_tail && !order->held && ahead(seq, order->next) > 0)
		rc = give_gap(order, time_ns, seq - order->next, to, err);
	return rc;
}

int net_order_flush(struct net_order *order, const struct net_order_to *to, struct err *err)
{
	int rc = 0;
	if (order->held && !order->known) {
		order->known = 1;
		order->next = order->held->seq;
		rc = drain(order, to, err);
	}
	while (rc >= 0 && order->held)
		rc = skip_to_held(order, to, err);
	return rc;
}

void net_order_fini(struct net_order *order)
{
	while (order->held)
		free(take_first(order));
}
