/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_internal.h - what conn.c (life of a connection), half.c (cutting, opening, finding back) and
 * build.c share.
 */
#ifndef NET_CONN_INTERNAL_H
#define NET_CONN_INTERNAL_H

#include "base/buf.h"
#include "net/conn.h"
#include "net/starts.h"

#define NET_BOUNDARIES 512   /* remembered starts of system calls: the likely places of a chunk */
#define NET_SEEK_NONCES 2500 /* chunks that may have been lost in a gap of unknown length */

enum half_state {
	HALF_HELLO,  /* before the connection chunk */
	HALF_WAIT,   /* has its connection chunk, the other half or the key is missing */
	HALF_OPEN,   /* chunks are cut and decrypted */
	HALF_SEALED, /* chunks are cut and kept as they are: no identity fits */
	HALF_SEEK,   /* lost its place: looks for the next chunk that authenticates */
	HALF_RAW,    /* never to be cut: no handshake seen, or nonsense */
};

struct seek; /* seek.c */

/**
 * One direction. Offsets count the sender's bytes from the start of the recording, gaps of known
 * length included.
 */
struct net_half {
	enum half_state state;
	enum message_sender sender;
	/* bytes not yet cut, [start, len) */
	struct buf pending;
	size_t start;
	/* stream offset of pending.data[start] */
	uint64_t pending_offset;
	uint64_t pending_time_ns;
	/* of the next chunk */
	uint64_t counter;
	/* of the next chunk */
	uint8_t nonce[NET_NONCE_BYTES];
	/* stream offsets, ascending, ring; NULL before the handshake */
	uint64_t *boundaries;
	unsigned boundary_first, boundary_count;
	/* NULL while the place is known */
	struct seek *seek;
	/* message under construction: plaintext behind chunk 2 is one stream */
	struct buf message;
	uint64_t message_first_chunk, message_first_offset;
	/* bytes of an oversized or unplaced message still to be passed over */
	uint64_t message_skip;
	/* behind a gap: not known whether the next plaintext begins a message */
	int unplaced;
	/* metadata and ack of the responder that came before those of the initiator */
	struct net_held {
		struct buf plain;
		uint64_t time_ns;
		int any;
	} held[2];
};

struct net_conn {
	struct message_connection row;
	/* by enum message_sender */
	struct net_half half[2];
	struct message_sink *sink;
	const struct net_keyring *keyring;
	struct net_budget *budget, own_budget;
	enum net_role role;
	int role_guessed;
	double difficulty;
	/*
	 * What finding the way back may still cost, by the limit: for all, and for places that
	 * nothing speaks for.
	 */
	const struct net_seek_limit *seek_limit;
	uint64_t seek_left, seek_weak_left, seek_paid_ns, seek_spent;
	/* of this call; seek_spent when it began */
	uint64_t slice_left, slice_from;
	int seek_began, hurries, ending;
	struct net_key *key;
	/* by sender */
	char addr[2][64];
	char local_peer_id[NET_PEER_ID_TEXT], remote_peer_id[NET_PEER_ID_TEXT];
	/* raw connection chunks, by sender */
	struct buf hello[2];
	uint64_t hello_time_ns[2];
	char *comments[16];
	size_t comment_count;
	char close_reason[64];
	/* scratch of the budget */
	struct buf *plain, *json;
	/* in the budget's list of those that proved nothing; -1 = in none */
	struct net_conn *older, *newer;
	int list;
	/* as it stands in the budget */
	uint64_t held;
};

/** conn_proved() - a chunk authenticated: the connection is nobody's guess. */
void conn_proved(struct net_conn *conn);
/** conn_full() - 1 = the budget is spent, and nobody is left who would have to give way. */
int conn_full(struct net_conn *conn);

/** conn_comment() - add a remark to the row once; the list is bounded, repeats are dropped. */
void conn_comment(struct net_conn *conn, const char *fmt, ...) PRINTF(2, 3);
/** conn_report() - hand the row to the sink. */
int conn_report(struct net_conn *conn, struct err *err);
/** conn_half_word() - "incoming" or "outgoing", as comments say it. */
const char *conn_half_word(const struct net_half *half);

/* half.c */
int half_append(struct net_half *half, const void *bytes, size_t len, uint64_t time_ns);
/**
 * half_run() - cut and hand over whatever the state permits; called after bytes came or the state
 * changed.
 */
int half_run(struct net_conn *conn, struct net_half *half, struct err *err);
/** half_flush_raw() - hand over all pending bytes as one uncut piece. */
int half_flush_raw(struct net_conn *conn, struct net_half *half, struct err *err);
/** half_flush_front() - the same for the first @len of them. */
int half_flush_front(struct net_conn *conn, struct net_half *half, size_t len, struct err *err);
/** half_open() - authenticate and decrypt a chunk into conn->plain; 0, -EBADMSG or -ENOMEM. */
int half_open(struct net_conn *conn, const uint8_t nonce[NET_NONCE_BYTES], const uint8_t *chunk,
	      size_t len);
/**
 * half_take() - the chunk of @len bytes at the front is good, its plaintext in conn->plain: hand it
 * over.
 */
int half_take(struct net_conn *conn, struct net_half *half, size_t len, struct err *err);
/** half_is_boundary() - 1 = a system call of the sender began at this stream offset. */
int half_is_boundary(const struct net_half *half, uint64_t offset);
void half_fini(struct net_half *half);

static inline const uint8_t *half_bytes(const struct net_half *half)
{
	return (const uint8_t *)half->pending.data + half->start;
}

static inline size_t half_len(const struct net_half *half)
{
	return half->pending.len - half->start;
}

/* seek.c */
/**
 * seek_grant() - time and bytes that passed give the connection some of its budget back; before
 * each call's work.
 */
void seek_grant(struct net_conn *conn, uint64_t time_ns, size_t bytes);
/**
 * seek_slice() - this call may spend so much; seek_slice_end() takes what it spent from what all
 * share.
 */
void seek_slice(struct net_conn *conn);
void seek_slice_end(struct net_conn *conn);
/** seek_gap() - the place is lost; @lost bytes are missing (0 = unknown). */
int seek_gap(struct net_conn *conn, struct net_half *half, uint64_t lost, struct err *err);
/** seek_begin() - look for the next chunk from here on, with so many nonces. */
int seek_begin(struct net_conn *conn, struct net_half *half, uint64_t nonces, int every_byte,
	       struct err *err);
/** seek_again() - the same search once more, behind what it gave up. */
int seek_again(struct net_conn *conn, struct net_half *half, struct err *err);
/**
 * seek_run() - go on as far as the slice allows. 1 = found: the chunk was handed over and the half
 * is open again.
 */
int seek_run(struct net_conn *conn, struct net_half *half, struct err *err);
/** seek_busy() - 1 = there are places to be looked at whose bytes are there. */
int seek_busy(const struct net_half *half);
/**
 * seek_end() - the stream ended inside a chunk: perhaps its length is no length, so look for chunks
 * inside it.
 */
int seek_end(struct net_conn *conn, struct net_half *half, struct err *err);
/** seek_bytes() - memory that it holds. */
size_t seek_bytes(const struct seek *seek);
void seek_free(struct seek *seek);

/* build.c */
/** build_hello() - report the connection message of one side. */
int build_hello(struct net_conn *conn, struct net_half *half, struct err *err);
/**
 * build_plain() - an opened chunk's plaintext: handshake message or a piece of the message stream.
 */
int build_plain(struct net_conn *conn, struct net_half *half, uint64_t counter, uint64_t time_ns,
		const uint8_t *plain, size_t len, struct err *err);
/**
 * build_drop() - forget the message under construction; what it took of the budget is free again.
 */
void build_drop(struct net_conn *conn, struct net_half *half);
/** build_gap() - the stream is interrupted: what was begun is reported as cut off. */
int build_gap(struct net_conn *conn, struct net_half *half, uint64_t time_ns, const char *why,
	      struct err *err);

#endif
