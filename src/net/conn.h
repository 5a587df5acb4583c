/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one recorded connection: two byte streams with explicit gaps go in, chunks and messages
 * come out.
 *
 * Pure: no sockets, no clock. One thread at a time per connection. Memory is bounded, by connection
 * (what is not yet cut into chunks, 64 KiB a direction and what was fed last, and the message that
 * is being put together, grown only as bytes really arrive) and by one budget for all connections
 * that share it.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/message.h"
#include "net/seal.h"

#define NET_MESSAGE_MAX \
	(100u << 20) /* Octez's own bound; a larger claim is reported, skipped, not stored */

/* A message that long can always be put together; what is beyond is taken from the budget. */
#define NET_MESSAGE_OWN (1u << 20)
#define NET_BUDGET_BYTES (256u << 20)

#define NET_HELD_BYTES (256u << 20)

/**
 * struct net_budget - what all connections that share it hold; zeroed is unused, end with
 * net_budget_fini(). One thread.
 * @used: bytes of long messages under construction, beyond NET_MESSAGE_OWN each. One that finds
 *   no room is reported as cut off
 * there, and its rest is passed over.
 * @held: connection messages, bytes not yet cut, tables of searches, messages. Beyond @held_max
 *   (0 = NET_HELD_BYTES) the
 * oldest connections that proved nothing are kept raw from there on: those without a handshake
 * first, then those that never sent a chunk that authenticates.
 */
struct net_budget {
	uint64_t used, held, held_max;
	/* that proved nothing: before and behind the handshake */
	struct net_conn *oldest[2], *newest[2];
	/* scratch */
	struct buf plain, json;
};
/** net_budget_fini() - when no connection uses it any more. */
void net_budget_fini(struct net_budget *budget);

/**
 * struct net_keyring - the identities that may be ours; shared by connections, which keep only a
 * pointer.
 */
struct net_keyring {
	struct net_identity *const *identities;
	size_t count;
};

/**
 * struct net_seek_limit - what finding the way back behind gaps and damaged chunks may cost, in
 * nanoseconds as a usual core takes them: 300 for a try and a third for each byte of its body, 100
 * for a place, 300 for a nonce made ready. A peer makes gaps and places as it likes, so nothing is
 * given anew at a gap: what is spent is spent.
 */
struct net_seek_limit {
	/* of a connection, from its first search on */
	uint64_t burst;
	/* given anew for each second of its time, up to @burst */
	uint64_t per_second;
	/* and for each byte that it moves */
	uint64_t per_byte;
	/*
	 * One call of net_conn_feed(), _gap(), _end() or _work() spends at most this much; the rest
	 * is net_conn_work()'s. 0 = no bound.
	 */
	uint64_t slice;
	/*
	 * with @slice: what all connections together may spend until it is filled again; may be
	 * NULL
	 */
	uint64_t *turn;
	/* what is left of it for bursts of all connections; NULL = no bound */
	uint64_t *bursts;
};
/** net_seek_live - unless told otherwise: 96 ms, 1.6 % of a core later on, no slices. */
extern const struct net_seek_limit net_seek_live;

enum net_role {
	/* ours is the side whose connection message has a key of the ring; else the initiator */
	NET_ROLE_UNKNOWN,
	NET_ROLE_INITIATOR,
	NET_ROLE_RESPONDER
};

struct net_conn_opt {
	uint64_t id, started_ns;
	/* of the recorded node */
	enum net_role role;
	/*
	 * Both copied, may be NULL. Where the role is only guessed and turns out the other way
	 * round they change places.
	 */
	const char *remote_addr, *local_addr;
	const struct net_keyring *keyring;
	/* kept as a pointer; NULL = NET_BUDGET_BYTES for this connection */
	struct net_budget *budget;
	struct message_sink *sink;
	/* proof of work that comments speak of; nodes use 26.0 */
	double difficulty;
	int attached_late;
	/* kept as a pointer; NULL = net_seek_live */
	const struct net_seek_limit *seek;
};

struct net_conn;

/** net_conn_new() - NULL without memory. The connection row is reported at once. */
struct net_conn *net_conn_new(const struct net_conn_opt *opt, struct err *err);
/**
 * net_conn_feed() - bytes sent by the TCP initiator (@from_initiator) or responder, as one system
 * call moved them.
 */
int net_conn_feed(struct net_conn *conn, int from_initiator, uint64_t time_ns, const void *bytes,
		  size_t len, struct err *err);
/**
 * net_conn_gap() - @lost bytes of that direction are missing here; 0 = some, but nobody knows how
 * many.
 */
int net_conn_gap(struct net_conn *conn, int from_initiator, uint64_t time_ns, uint64_t lost,
		 struct err *err);
/**
 * net_conn_busy() - 1 = a search was broken off by the slice: net_conn_work() goes on with it,
 * before anything else is fed.
 */
int net_conn_busy(const struct net_conn *conn);
/** net_conn_work() - search on for one slice. */
int net_conn_work(struct net_conn *conn, struct err *err);
/**
 * net_conn_hurry() - with @on, searches are given up and none is begun: what they pass is kept raw.
 */
int net_conn_hurry(struct net_conn *conn, int on, struct err *err);
/**
 * net_conn_end() - nothing more is fed: what net_conn_close() looks for may be busy before it.
 * Optional.
 */
int net_conn_end(struct net_conn *conn, struct err *err);
/** net_conn_spent() - what its searches have cost, as in struct net_seek_limit. */
uint64_t net_conn_spent(const struct net_conn *conn);
/** net_conn_close() - flush what is pending as raw pieces, report the final row, release @conn. */
int net_conn_close(struct net_conn *conn, uint64_t time_ns, const char *reason, struct err *err);
/** net_conn_free() - release without reporting anything: the work was broken off. */
void net_conn_free(struct net_conn *conn);
/**
 * net_conn_pending() - bytes of a direction that are not cut yet, lent until the next call on
 * @conn.
 */
const void *net_conn_pending(const struct net_conn *conn, int from_initiator, size_t *len);
/** net_conn_set_sink() - what is decoded goes there from now on. */
void net_conn_set_sink(struct net_conn *conn, struct message_sink *sink);
/**
 * net_conn_set_gaps() - the row counts these, by sender: what is fed again does not tell how much
 * was missing.
 */
void net_conn_set_gaps(struct net_conn *conn, const uint64_t gaps[2], const uint64_t gap_bytes[2]);
/** net_conn_row() - the row as of now, lent until the next call on @conn. */
const struct message_connection *net_conn_row(struct net_conn *conn);

#endif
