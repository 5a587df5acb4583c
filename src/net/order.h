/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h - one direction of a TCP connection: segments in any order, repeated, overlapping or with
 * wrapped sequence numbers go in, bytes in stream order and explicit gaps come out.
 *
 * Pure; one thread. What waits for bytes before it is bounded by NET_ORDER_HELD_MAX bytes and
 * NET_ORDER_HELD_SEGMENTS segments; then the missing bytes are given up as a gap.
 */
#ifndef NET_ORDER_H
#define NET_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NET_ORDER_HELD_MAX (4u << 20)
#define NET_ORDER_HELD_SEGMENTS 4096u

/**
 * struct net_order_to - where it goes; @offset counts the stream's bytes, gaps included. Negative
 * errno stops.
 */
struct net_order_to {
	int (*data)(void *ctx, uint64_t time_ns, uint64_t offset, const uint8_t *bytes, size_t len,
		    struct err *err);
	int (*gap)(void *ctx, uint64_t time_ns, uint64_t offset, uint64_t lost, struct err *err);
	void *ctx;
};

struct net_order_held;

/**
 * struct net_order - zeroed is empty: the first byte is not known yet, and all segments are held
 * until it is.
 */
struct net_order {
	/* of the next byte to hand over */
	uint64_t offset;
	/* its sequence number */
	uint32_t next;
	int known;
	/* by sequence number */
	struct net_order_held *held;
	size_t held_bytes, held_segments;
	/* of all that share it: what is held takes of the heap; NULL = not counted */
	size_t *held_memory;
	/* came again and were dropped */
	uint64_t duplicate_bytes;
};

/**
 * net_order_start() - sequence number @seq is stream offset @offset; what was held for it comes
 * out. Once.
 */
int net_order_start(struct net_order *order, uint32_t seq, uint64_t offset,
		    const struct net_order_to *to, struct err *err);
/**
 * net_order_put() - a segment, lent. Half of the sequence space behind the next byte is "later",
 * the rest is "old".
 */
int net_order_put(struct net_order *order, uint32_t seq, uint64_t time_ns, const uint8_t *bytes,
		  size_t len, const struct net_order_to *to, struct err *err);
/**
 * net_order_settle() - bytes before @seq will not come any more: what is missing before held
 * segments that begin before @seq becomes a gap; with @also_tail and nothing held, so does what is
 * missing before @seq.
 */
int net_order_settle(struct net_order *order, uint32_t seq, int also_tail, uint64_t time_ns,
		     const struct net_order_to *to, struct err *err);
/**
 * net_order_flush() - nothing will come any more: hand over all that is held, with the gaps
 * between.
 */
int net_order_flush(struct net_order *order, const struct net_order_to *to, struct err *err);
/** net_order_fini() - drop what is held. */
void net_order_fini(struct net_order *order);

#endif
