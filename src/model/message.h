/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - what the network recorder keeps: connections, chunks, messages. Producers are net/,
 * consumers store/ and out/. Strings and bytes are lent for the call.
 */
#ifndef MODEL_MESSAGE_H
#define MODEL_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/** Kinds and their numbers in the store; never reused. */
enum message_type {
	MESSAGE_CONNECTION = 0,
	MESSAGE_METADATA = 1,
	MESSAGE_ACK = 2,
	MESSAGE_DISCONNECT = 3,
	MESSAGE_BOOTSTRAP = 4,
	MESSAGE_ADVERTISE = 5,
	MESSAGE_SWAP_REQUEST = 6,
	MESSAGE_SWAP_ACK = 7,
	MESSAGE_GET_CURRENT_BRANCH = 8,
	MESSAGE_CURRENT_BRANCH = 9,
	MESSAGE_DEACTIVATE = 10,
	MESSAGE_GET_CURRENT_HEAD = 11,
	MESSAGE_CURRENT_HEAD = 12,
	MESSAGE_GET_BLOCK_HEADERS = 13,
	MESSAGE_BLOCK_HEADER = 14,
	MESSAGE_GET_OPERATIONS = 15,
	MESSAGE_OPERATION = 16,
	MESSAGE_GET_PROTOCOLS = 17,
	MESSAGE_PROTOCOL = 18,
	MESSAGE_GET_OPERATION_HASHES_FOR_BLOCKS = 19,
	MESSAGE_OPERATION_HASHES_FOR_BLOCKS = 20,
	MESSAGE_GET_OPERATIONS_FOR_BLOCKS = 21,
	MESSAGE_OPERATIONS_FOR_BLOCKS = 22,
	MESSAGE_GET_CHECKPOINT = 23,
	MESSAGE_CHECKPOINT = 24,
	MESSAGE_GET_PROTOCOL_BRANCH = 25,
	MESSAGE_PROTOCOL_BRANCH = 26,
	MESSAGE_GET_PREDECESSOR_HEADER = 27,
	MESSAGE_PREDECESSOR_HEADER = 28,
	MESSAGE_UNKNOWN = 255
};

/**
 * message_type_kind() - the API's kind word, e.g. "get_current_head"; NULL for the three handshake
 * types.
 */
const char *message_type_kind(enum message_type type);
/** message_type_category() - "connection", "meta", "ack" or "p2p". */
const char *message_type_category(enum message_type type);
/** message_type_parse() - a word of the API's `types` filter; -EINVAL for an unknown one. */
int message_type_parse(const char *word, size_t len, enum message_type *type);

/** A direction is named by who sent, as seen from the recorded node. */
enum message_sender { MESSAGE_LOCAL = 0, MESSAGE_REMOTE = 1 };

/** struct message_connection - lent; grows more complete over the connection's life. */
struct message_connection {
	/* the producer's number, dense from 0 */
	uint64_t id;
	/* wall clock */
	uint64_t started_ns;
	/* 0 = open */
	uint64_t closed_ns;
	enum message_sender initiator;
	/* "ip:port", "[v6]:port"; IPv4 never v4-mapped */
	const char *remote_addr;
	/* NULL = unknown */
	const char *local_peer_id, *remote_peer_id;
	const char *const *comments;
	size_t comment_count;
	/* by enum message_sender */
	uint64_t chunks[2], undecrypted[2], gaps[2], gap_bytes[2];
	/* how often the way back was found; not stored */
	uint64_t resyncs[2];
	int attached_late;
	/* NULL while open */
	const char *close_reason;
};

/**
 * struct message_chunk - one chunk as it was on the wire, or a piece that could not be cut (counter
 * = NO_COUNTER).
 */
#define MESSAGE_NO_COUNTER UINT64_MAX
struct message_chunk {
	uint64_t connection, counter;
	enum message_sender sender;
	uint64_t time_ns;
	/* with its length bytes */
	const uint8_t *raw;
	size_t raw_len;
	/* NULL = not decrypted */
	const uint8_t *plain;
	size_t plain_len;
};

/** struct message - one whole message. */
struct message {
	uint64_t connection;
	/* of its last byte */
	uint64_t time_ns;
	enum message_sender sender, initiator;
	const char *remote_addr;
	enum message_type type;
	/* peer messages: the tag on the wire */
	uint16_t tag;
	/* the sender's counters */
	uint64_t first_chunk, last_chunk;
	/* where it begins in the first chunk's plaintext */
	uint64_t first_offset;
	/* without a chunk length; with the message's own length and tag */
	const uint8_t *plain;
	size_t plain_len;
	/* compact, NULL = could not be decoded */
	const char *json;
	size_t json_len;
	/* why not; NULL with json */
	const char *error;
};

/**
 * struct message_sink - takes them in order; one producer at a time. Negative errno stops the
 * producer.
 */
struct message_sink {
	/** New connection, or news about one (same id). */
	int (*connection)(struct message_sink *sink, const struct message_connection *connection,
			  struct err *err);
	int (*chunk)(struct message_sink *sink, const struct message_chunk *chunk, struct err *err);
	int (*message)(struct message_sink *sink, const struct message *message, struct err *err);
};

#endif
