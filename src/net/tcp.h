/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.h - TCP segments, as captured, to two ordered byte streams a connection: by sequence number,
 * out of order, retransmitted, overlapping and wrapped ones included. What was never captured
 * becomes an explicit gap, at the beginning and at the end of a stream, too. What comes again
 * behind a connection's end opens no new one.
 *
 * One thread. Memory is bounded: what net/order.h holds back a direction, NET_TCP_HELD_MAX over all
 * of them (then those that were silent for longest give up what they wait for), NET_TCP_FLOWS_MAX
 * open connections (the one that was silent for longest is closed for a new one), NET_TCP_OVER_MAX
 * closed ones that are remembered for a minute.
 */
#ifndef NET_TCP_H
#define NET_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NET_TCP_FLOWS_MAX 65536
#define NET_TCP_OVER_MAX 16384
#define NET_TCP_HELD_MAX (128u << 20)

/** struct net_addr - IPv4 is stored v4-mapped; text form by net_addr_text(). */
struct net_addr {
	uint8_t ip[16];
	uint16_t port;
};
#define NET_ADDR_TEXT_MAX 56
/** net_addr_text() - "1.2.3.4:80" or "[::1]:80"; v4-mapped addresses print as IPv4. */
void net_addr_text(const struct net_addr *addr, char out[NET_ADDR_TEXT_MAX]);

/**
 * net_addr_parse() - "1.2.3.4", "1.2.3.4:80", "::1", "[::1]", "[::1]:80"; port 0 where none is
 * given. 0 or -EINVAL.
 */
int net_addr_parse(const char *text, struct net_addr *out);

/**
 * What comes out. @flow numbers connections from 0 in order of their first segment. Negative errno
 * stops.
 */
struct net_tcp_sink {
	/**
	 * @syn_seen 0: the capture began later; the initiator is then the side with the higher
	 * port.
	 */
	int (*open)(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns,
		    const struct net_addr *initiator, const struct net_addr *responder,
		    int syn_seen, struct err *err);
	int (*data)(struct net_tcp_sink *sink, uint64_t flow, int from_initiator, uint64_t time_ns,
		    const uint8_t *bytes, size_t len, struct err *err);
	int (*gap)(struct net_tcp_sink *sink, uint64_t flow, int from_initiator, uint64_t time_ns,
		   uint64_t lost, struct err *err);
	int (*close)(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns, const char *reason,
		     struct err *err);
};

/** struct net_tcp_segment - one captured segment; @captured < @len where the capture cut it off. */
struct net_tcp_segment {
	uint64_t time_ns;
	struct net_addr from, to;
	uint32_t seq, ack;
	uint8_t syn, fin, rst, has_ack;
	const uint8_t *bytes;
	size_t captured, len;
};

struct net_tcp;
struct net_tcp *net_tcp_new(struct net_tcp_sink *sink, struct err *err);
int net_tcp_segment(struct net_tcp *tcp, const struct net_tcp_segment *segment, struct err *err);
/**
 * net_tcp_finish() - the capture ended: hand over what is held back (with its gaps) and close
 * everything.
 */
int net_tcp_finish(struct net_tcp *tcp, uint64_t time_ns, struct err *err);
/**
 * net_tcp_fullest() - connections in the fullest place of the table: for tests that choose
 * addresses badly. O(table).
 */
size_t net_tcp_fullest(const struct net_tcp *tcp);
void net_tcp_free(struct net_tcp *tcp);

#endif
