/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - plaintext to compact JSON in the API's spelling. Pure functions of their input; output
 * is at most about 8 times the input. Any thread.
 */
#ifndef NET_DECODE_H
#define NET_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/message.h"

/** What went wrong, for message.error; empty with success. */
struct net_decode_error {
	char text[120];
};

/**
 * Each appends the JSON to @json and returns 0, or returns -EBADMSG with @error and leaves @json as
 * it was. @body is the whole of the message and must be used up: connection message without its
 * chunk length, metadata, ack, or a peer message's body behind length and tag.
 */
int net_decode_connection(const uint8_t *body, size_t len, struct buf *json,
			  struct net_decode_error *error);
int net_decode_metadata(const uint8_t *body, size_t len, struct buf *json,
			struct net_decode_error *error);
int net_decode_ack(const uint8_t *body, size_t len, struct buf *json,
		   struct net_decode_error *error);
int net_decode_peer(uint16_t tag, const uint8_t *body, size_t len, struct buf *json,
		    struct net_decode_error *error);

/** net_is_connection() - 1 if @body is built as a connection message is, to its last byte. */
int net_is_connection(const uint8_t *body, size_t len);
/** net_tag_type() - the type of a peer message tag; MESSAGE_UNKNOWN for others. */
enum message_type net_tag_type(uint16_t tag);

#endif
