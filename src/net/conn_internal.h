/* SPDX-License-Identifier: Apache-2.0 */
/* conn_internal.h - what conn.c (life of a connection), half.c (cutting, opening, finding back) and build.c share. */
#ifndef NET_CONN_INTERNAL_H
#define NET_CONN_INTERNAL_H

#include "base/buf.h"
#include "net/conn.h"
#include "net/starts.h"

#define NET_BOUNDARIES 512 /* remembered starts of system calls: the likely places of a chunk */
#define NET_STARTS_FIRST \
	(2u * NET_STARTS_MAX) /* nonces that every connection may spend on finding its way back */
#define NET_STARTS_BYTES 16   /* and one more for so many bytes */
#define NET_SEEK_NONCES 2500  /* chunks that may have been lost in a gap of unknown length */

enum half_state {
	HALF_HELLO,  /* before the connection chunk */
	HALF_WAIT,   /* has its connection chunk, the other half or the key is missing */
	HALF_OPEN,   /* chunks are cut and decrypted */
	HALF_SEALED, /* chunks are cut and kept as they are: no identity fits */
	HALF_SEEK,   /* lost its place: looks for the next chunk that authenticates */
	HALF_RAW,    /* never to be cut: no handshake seen, or nonsense */
};

/** A place that may be the start of a chunk. */
struct seek_candidate {
	uint64_t at, end; /* stream offsets */
	int likely; /* a system call began here, or a chunk ended here if its length can be trusted */
};

/** One direction. Offsets count the sender's bytes from the start of the recording, gaps of known length included. */
struct net_half {
	enum half_state state;
	enum message_sender sender;
	struct buf pending; /* bytes not yet cut, [start, len) */
	size_t start;
	uint64_t pending_offset; /* stream offset of pending.data[start] */
	uint64_t pending_time_ns;
	uint64_t counter;                    /* of the next chunk */
	uint8_t nonce[NET_NONCE_BYTES];      /* of the next chunk */
	uint64_t boundaries[NET_BOUNDARIES]; /* stream offsets, ascending, ring */
	unsigned boundary_first, boundary_count;
	/* seeking */
	uint64_t
		seek_tried; /* every candidate below this stream offset was ruled out or stands in seek_waiting */
	uint64_t seek_chain; /* where the next chunk begins if only the last one was damaged */
	struct buf
		seek_waiting; /* struct seek_candidate[]: those that need bytes which have not come yet */
	uint64_t seek_wakes;  /* lowest stream end at which one of them can be tried */
	uint64_t seek_nonces; /* how many chunks may be missing */
	int seek_every_byte; /* the gap's length is known: few nonces, so any place may be tried with all */
	/* Bytes that may still be authenticated in vain: at likely places, and at all others. */
	uint64_t seek_budget, seek_weak_budget;
	struct net_starts *seek_starts; /* NULL while the place is known */
	/* message under construction: plaintext behind chunk 2 is one stream */
	struct buf message;
	uint64_t message_first_chunk, message_first_offset;
	uint64_t
		message_skip; /* bytes of an oversized or unplaced message still to be passed over */
	int unplaced; /* behind a gap: not known whether the next plaintext begins a message */
	/* metadata and ack of the responder that came before those of the initiator */
	struct net_held {
		struct buf plain;
		uint64_t time_ns;
		int any;
	} held[2];
};

struct net_conn {
	struct message_connection row;
	struct net_half half[2]; /* by enum message_sender */
	struct message_sink *sink;
	const struct net_keyring *keyring;
	struct net_budget *budget, own_budget;
	enum net_role role;
	int role_guessed;
	double difficulty;
	uint64_t seek_budget;
	uint64_t starts_left; /* nonces that may still be made ready for net_starts_next() */
	struct net_key *key;
	char addr[2][64]; /* by sender */
	char local_peer_id[NET_PEER_ID_TEXT], remote_peer_id[NET_PEER_ID_TEXT];
	struct buf hello[2]; /* raw connection chunks, by sender */
	uint64_t hello_time_ns[2];
	char *comments[16];
	size_t comment_count;
	char close_reason[64];
	struct buf plain, json; /* scratch */
};

/** conn_comment() - add a remark to the row once; the list is bounded, repeats are dropped. */
void conn_comment(struct net_conn *conn, const char *fmt, ...) PRINTF(2, 3);
/** conn_report() - hand the row to the sink. */
int conn_report(struct net_conn *conn, struct err *err);
/** conn_half_word() - "incoming" or "outgoing", as comments say it. */
const char *conn_half_word(const struct net_half *half);

/* half.c */
int half_append(struct net_half *half, const void *bytes, size_t len, uint64_t time_ns);
/** half_run() - cut and hand over whatever the state permits; called after bytes came or the state changed. */
int half_run(struct net_conn *conn, struct net_half *half, struct err *err);
/** half_flush_raw() - hand over all pending bytes as one uncut piece. */
int half_flush_raw(struct net_conn *conn, struct net_half *half, struct err *err);
/** half_seek() - the place is lost; @lost bytes are missing (0 = unknown). */
int half_seek(struct net_conn *conn, struct net_half *half, uint64_t lost, struct err *err);
/** half_settle() - the stream ended inside a chunk: perhaps its length is no length, so look for chunks inside it. */
int half_settle(struct net_conn *conn, struct net_half *half, struct err *err);
void half_fini(struct net_half *half);

/* build.c */
/** build_hello() - report the connection message of one side. */
int build_hello(struct net_conn *conn, struct net_half *half, struct err *err);
/** build_plain() - an opened chunk's plaintext: handshake message or a piece of the message stream. */
int build_plain(struct net_conn *conn, struct net_half *half, uint64_t counter, uint64_t time_ns,
		const uint8_t *plain, size_t len, struct err *err);
/** build_drop() - forget the message under construction; what it took of the budget is free again. */
void build_drop(struct net_conn *conn, struct net_half *half);
/** build_gap() - the stream is interrupted: what was begun is reported as cut off. */
int build_gap(struct net_conn *conn, struct net_half *half, uint64_t time_ns, const char *why,
	      struct err *err);

#endif
