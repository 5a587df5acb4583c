/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one recorded connection: two byte streams with explicit gaps go in, chunks and messages come out.
 *
 * Pure: no sockets, no clock. One thread at a time per connection. Memory per connection is bounded: what is not yet cut
 * into chunks (a chunk of 64 KiB a direction, and what was fed last) and the message that is being put together
 * (NET_MESSAGE_OWN a direction, grown only as bytes really arrive). What longer messages have beyond that comes out of one
 * budget for all connections that share it; buffers grow by doubling, so up to twice as much memory is taken.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "model/message.h"
#include "net/seal.h"

#define NET_MESSAGE_MAX \
	(100u << 20) /* Octez's own bound; a larger claim is reported, skipped, not stored */

/* A message that long can always be put together; what is beyond is taken from the budget. */
#define NET_MESSAGE_OWN (1u << 20)
#define NET_BUDGET_BYTES (256u << 20)

/**
 * struct net_budget - bytes of long messages under construction in all connections that share it; zeroed is unused. One
 * thread. A message that finds no room is reported as cut off there, and its rest is passed over.
 */
struct net_budget {
	uint64_t used;
};

/** struct net_keyring - the identities that may be ours; shared by connections, which keep only a pointer. */
struct net_keyring {
	struct net_identity *const *identities;
	size_t count;
};

#define NET_SEEK_BUDGET \
	(128ull << 20) /* about an eighth of a second of one core: for live recording */

enum net_role {
	NET_ROLE_UNKNOWN, /* ours is the side whose connection message has a key of the ring; else the initiator */
	NET_ROLE_INITIATOR,
	NET_ROLE_RESPONDER
};

struct net_conn_opt {
	uint64_t id, started_ns;
	enum net_role role; /* of the recorded node */
	/* Both copied, may be NULL. Where the role is only guessed and turns out the other way round they change places. */
	const char *remote_addr, *local_addr;
	const struct net_keyring *keyring;
	struct net_budget
		*budget; /* kept as a pointer; NULL = NET_BUDGET_BYTES for this connection */
	struct message_sink *sink;
	double difficulty; /* proof of work that comments speak of; nodes use 26.0 */
	int attached_late;
	/* Bytes that may be authenticated in vain to find the way back behind one gap; 0 = NET_SEEK_BUDGET. */
	uint64_t seek_budget;
};

struct net_conn;

/** net_conn_new() - NULL without memory. The connection row is reported at once. */
struct net_conn *net_conn_new(const struct net_conn_opt *opt, struct err *err);
/** net_conn_feed() - bytes sent by the TCP initiator (@from_initiator) or responder, as one system call moved them. */
int net_conn_feed(struct net_conn *conn, int from_initiator, uint64_t time_ns, const void *bytes,
		  size_t len, struct err *err);
/** net_conn_gap() - @lost bytes of that direction are missing here; 0 = some, but nobody knows how many. */
int net_conn_gap(struct net_conn *conn, int from_initiator, uint64_t time_ns, uint64_t lost,
		 struct err *err);
/** net_conn_close() - flush what is pending as raw pieces, report the final row, release @conn. */
int net_conn_close(struct net_conn *conn, uint64_t time_ns, const char *reason, struct err *err);
/** net_conn_free() - release without reporting anything: the work was broken off. */
void net_conn_free(struct net_conn *conn);
/** net_conn_pending() - bytes of a direction that are not cut yet, lent until the next call on @conn. */
const void *net_conn_pending(const struct net_conn *conn, int from_initiator, size_t *len);
/** net_conn_set_sink() - what is decoded goes there from now on. */
void net_conn_set_sink(struct net_conn *conn, struct message_sink *sink);
/** net_conn_set_gaps() - the row counts these, by sender: what is fed again does not tell how much was missing. */
void net_conn_set_gaps(struct net_conn *conn, const uint64_t gaps[2], const uint64_t gap_bytes[2]);
/** net_conn_row() - the row as of now, lent until the next call on @conn. */
const struct message_connection *net_conn_row(struct net_conn *conn);

#endif
