/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap_track.h - packets of a whole network namespace to the records of recorded sockets: which
 * connections begin and end, which way a segment goes, what its receiver has. Pure but for the
 * question whose a socket is; feeds source/netcap_flows.h.
 *
 * Packets are strangers' bytes: a reset counts only where it can be real, memory is bounded by the
 * number of connections. One thread. A packet that acknowledges bytes has to come behind those
 * bytes, as it does where both pass one tap.
 */
#ifndef SOURCE_NETCAP_TRACK_H
#define SOURCE_NETCAP_TRACK_H

#include "net/tcp.h"
#include "source/netcap_flows.h"
#include "source/netcap_owner.h"

enum netcap_track_way {
	NETCAP_TRACK_LEAVES = 1,  /* a socket of this machine sent it */
	NETCAP_TRACK_REACHES = 2, /* a socket of this machine gets it */
	NETCAP_TRACK_BOTH = 3     /* loopback */
};

struct netcap_track_opt {
	uint32_t connections_max;
	/* copied */
	const uint16_t *skip_remote_ports;
	size_t skip_remote_port_count;
	/**
	 * @whose: who sent @syn: 1 and *@who = recorded, 0 = not, -ENOENT = nobody knows any
	 *   more, -EAGAIN = look first. With
	 * an acknowledgement it answers a connection, else it asks for one.
	 */
	int (*whose)(void *ctx, const struct net_tcp_segment *syn, struct netcap_owner_who *who);
	void *ctx;
};

struct netcap_track_stats {
	/* of recorded connections, as captured */
	uint64_t segments[2], bytes[2];
	/* connections: no room; whose they were could not be told */
	uint64_t refused, unowned;
};

struct netcap_track;

struct netcap_track *netcap_track_new(const struct netcap_track_opt *opt,
				      struct netcap_flows *flows, struct err *err);
void netcap_track_free(struct netcap_track *track);
/**
 * netcap_track_dropped() - packets that the tap had no room for, since its beginning: what is
 * missing next is lost there.
 */
void netcap_track_dropped(struct netcap_track *track, uint64_t packets);
/**
 * netcap_track_segment() - in the tap's order. -EAGAIN from @whose: nothing happened, come again
 * with the same.
 */
int netcap_track_segment(struct netcap_track *track, const struct net_tcp_segment *segment,
			 enum netcap_track_way way, struct netcap_sink *sink, struct err *err);
/** netcap_track_late() - a connection that was found open; nothing happens if it is known. */
int netcap_track_late(struct netcap_track *track, const struct net_addr *local,
		      const struct net_addr *remote, const struct netcap_owner_who *who,
		      int accepted, uint64_t time_ns, struct netcap_sink *sink, struct err *err);
/** netcap_track_has() - is this connection one of those that are open. */
int netcap_track_has(struct netcap_track *track, const struct net_addr *local,
		     const struct net_addr *remote);
/**
 * netcap_track_sweep() - close connections that were silent since @before_ns and whose socket
 * @is_there denies twice in a row: their last packets were not seen.
 */
int netcap_track_sweep(struct netcap_track *track, uint64_t before_ns, uint64_t time_ns,
		       int (*is_there)(void *ctx, const struct net_addr *local,
				       const struct net_addr *remote),
		       void *ctx, struct netcap_sink *sink, struct err *err);
/**
 * netcap_track_last() - what is known of the socket @cookie, for netcap_flows_finish(); @ctx is the
 * struct netcap_track.
 */
const struct wire_net_socket *netcap_track_last(void *ctx, uint64_t cookie);
void netcap_track_stats(const struct netcap_track *track, struct netcap_track_stats *stats);

#endif
