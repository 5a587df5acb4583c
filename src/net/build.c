/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - plaintext to messages: three handshake chunks, then one stream of length-prefixed peer
 * messages.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/conn_internal.h"
#include "net/decode.h"

#define SMALL_MESSAGE 4096u /* is put together whatever others hold */

/* Empty; a buffer that one large message needed is not kept for the next. */
static void empty(struct buf *buf)
{
	if (buf->cap > NET_MESSAGE_OWN)
		buf_fini(buf);
	else
		buf_clear(buf);
}

/* What a message of @len bytes under construction takes from the budget. */
static uint64_t beyond_own(uint64_t len)
{
	return len > NET_MESSAGE_OWN ? len - NET_MESSAGE_OWN : 0;
}

void build_drop(struct net_conn *conn, struct net_half *half)
{
	conn->budget->used -= beyond_own(half->message.len);
	empty(&half->message);
}

static int report(struct net_conn *conn, struct net_half *half, struct message *message,
		  int decoded, const struct net_decode_error *error, struct err *err)
{
	message->connection = conn->row.id;
	message->sender = half->sender;
	message->initiator = conn->row.initiator;
	message->remote_addr = conn->row.remote_addr;
	if (decoded == 0) {
		message->json = buf_cstr(conn->json);
		message->json_len = conn->json->len;
	} else {
		message->error = error->text;
	}
	int rc = conn->sink->message(conn->sink, message, err);
	empty(conn->json);
	return rc;
}

int build_hello(struct net_conn *conn, struct net_half *half, struct err *err)
{
	struct buf *raw = &conn->hello[half->sender];
	conn->row.chunks[half->sender]++;
	struct message_chunk chunk = { .connection = conn->row.id,
				       .sender = half->sender,
				       .time_ns = conn->hello_time_ns[half->sender],
				       .raw = (const uint8_t *)raw->data,
				       .raw_len = raw->len,
				       .plain = (const uint8_t *)raw->data + 2,
				       .plain_len = raw->len - 2 };
	int rc = conn->sink->chunk(conn->sink, &chunk, err);
	if (rc < 0)
		return rc;
	struct net_decode_error error = { "" };
	buf_clear(conn->json);
	struct message message = { .time_ns = chunk.time_ns,
				   .type = MESSAGE_CONNECTION,
				   .plain = chunk.plain,
				   .plain_len = chunk.plain_len };
	int decoded = net_decode_connection(chunk.plain, chunk.plain_len, conn->json, &error);
	return report(conn, half, &message, decoded, &error, err);
}

static int handshake_message(struct net_conn *conn, struct net_half *half, uint64_t counter,
			     uint64_t time_ns, const uint8_t *plain, size_t len, struct err *err)
{
	struct net_decode_error error = { "" };
	buf_clear(conn->json);
	struct message message = { .time_ns = time_ns,
				   .type = counter == 1 ? MESSAGE_METADATA : MESSAGE_ACK,
				   .first_chunk = counter,
				   .last_chunk = counter,
				   .plain = plain,
				   .plain_len = len };
	int decoded = counter == 1 ? net_decode_metadata(plain, len, conn->json, &error)
				   : net_decode_ack(plain, len, conn->json, &error);
	return report(conn, half, &message, decoded, &error, err);
}

/*
 * Both sides send metadata and ack unasked, so which of the two comes first is a matter of
 * microseconds. Their numbers are always the same, as tools and tests expect: the initiator's
 * first. The responder's waits for it, but not for long.
 */
static int waits_for_initiator(const struct net_conn *conn, const struct net_half *half,
			       uint64_t counter)
{
	const struct net_half *initiator = &conn->half[conn->row.initiator];
	return half != initiator && initiator->state == HALF_OPEN && initiator->counter <= counter;
}

static int hold(struct net_half *half, uint64_t counter, uint64_t time_ns, const uint8_t *plain,
		size_t len, struct err *err)
{
	struct net_held *held = &half->held[counter - 1];
	held->any = 1;
	held->time_ns = time_ns;
	buf_put(&held->plain, plain, len);
	return buf_failed(&held->plain)
		       ? err_set(err, -ENOMEM, "cannot allocate memory for a message")
		       : 0;
}

/* Report what is held up to the chunk @counter of @half. */
static int release(struct net_conn *conn, struct net_half *half, uint64_t counter, struct err *err)
{
	int rc = 0;
	for (uint64_t c = 1; rc >= 0 && c <= 2 && c <= counter; c++) {
		struct net_held *held = &half->held[c - 1];
		if (!held->any)
			continue;
		held->any = 0;
		rc = handshake_message(conn, half, c, held->time_ns,
				       (const uint8_t *)buf_cstr(&held->plain), held->plain.len,
				       err);
		buf_fini(&held->plain);
	}
	return rc;
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One whole message at @plain: length, tag, body. */
static int peer_message(struct net_conn *conn, struct net_half *half, uint64_t last,
			uint64_t time_ns, const uint8_t *plain, size_t len, const char *cut_off,
			struct err *err)
{
	struct net_decode_error error = { "" };
	buf_clear(conn->json);
	struct message message = { .time_ns = time_ns,
				   .type = MESSAGE_UNKNOWN,
				   .first_chunk = half->message_first_chunk,
				   .last_chunk = last,
				   .first_offset = half->message_first_offset,
				   .plain = plain,
				   .plain_len = len };
	int decoded = -EBADMSG;
	if (len >= 6) {
		message.tag = (uint16_t)((unsigned)plain[4] << 8 | plain[5]);
		message.type = net_tag_type(message.tag);
	}
	if (cut_off)
		snprintf(error.text, sizeof(error.text), "%s", cut_off);
	else if (len < 6)
		snprintf(error.text, sizeof(error.text),
			 "a message of %zu bytes has no room for its tag", len - 4);
	else
		decoded = net_decode_peer(message.tag, plain + 6, len - 6, conn->json, &error);
	return report(conn, half, &message, decoded, &error, err);
}

/*
 * Behind a gap the next plaintext may lie in the middle of a message. Octez begins every message in
 * a chunk of its own, so a chunk is taken as a beginning where its first bytes read as length and
 * known tag and, if the whole message lies in the chunk, its body decodes or its tag is unknown
 * only by type.
 */
static int looks_like_start(struct net_conn *conn, const uint8_t *plain, size_t len)
{
	if (len < 6)
		return 0;
	uint32_t claimed = be32(plain);
	uint16_t tag = (uint16_t)((unsigned)plain[4] << 8 | plain[5]);
	if (claimed < 2 || claimed > NET_MESSAGE_MAX || net_tag_type(tag) == MESSAGE_UNKNOWN)
		return 0;
	if (claimed + 4ull > len)
		return 1;
	struct net_decode_error error;
	buf_clear(conn->json);
	return net_decode_peer(tag, plain + 6, claimed - 2, conn->json, &error) == 0;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one state machine */
static int stream_bytes(struct net_conn *conn, struct net_half *half, uint64_t counter,
			uint64_t time_ns, const uint8_t *plain, size_t len, struct err *err)
{
	struct buf *message = &half->message;
	const uint8_t *begin = plain;
	while (len) {
		if (half->message_skip) {
			size_t skip = len < half->message_skip ? len : (size_t)half->message_skip;
			half->message_skip -= skip;
			plain += skip;
			len -= skip;
			continue;
		}
		if (!message->len) {
			half->message_first_chunk = counter;
			half->message_first_offset = (uint64_t)(plain - begin);
		}
		/* a whole message in this very chunk needs no copy */
		if (!message->len && len >= 4 && be32(plain) <= NET_MESSAGE_MAX &&
		    len >= be32(plain) + 4ull) {
			size_t whole = be32(plain) + (size_t)4;
			int rc =
				peer_message(conn, half, counter, time_ns, plain, whole, NULL, err);
			if (rc < 0)
				return rc;
			plain += whole;
			len -= whole;
			continue;
		}
		size_t want = message->len < 4 ? 4 - message->len
					       : be32((const uint8_t *)message->data) + (size_t)4 -
							 message->len;
		size_t take = len < want ? len : want;
		uint64_t more = beyond_own(message->len + take) - beyond_own(message->len);
		if (conn->budget->used + more > NET_BUDGET_BYTES ||
		    (message->len + take > SMALL_MESSAGE && conn_full(conn))) {
			int rc = peer_message(conn, half, counter, time_ns,
					      (const uint8_t *)message->data, message->len,
					      "too much is under construction at once", err);
			half->message_skip = want;
			build_drop(conn, half);
			if (rc < 0)
				return rc;
			continue;
		}
		buf_put(message, plain, take);
		if (buf_failed(message))
			return err_set(err, -ENOMEM, "cannot allocate memory for a message");
		conn->budget->used += more;
		plain += take;
		len -= take;
		if (message->len < 4)
			continue;
		uint64_t total = be32((const uint8_t *)message->data) + 4ull;
		if (total > NET_MESSAGE_MAX) {
			/* its body is passed over as it comes; the row says why it has none */
			int rc = peer_message(conn, half, counter, time_ns,
					      (const uint8_t *)message->data, message->len,
					      "claims more than 100 MiB", err);
			half->message_skip = total - message->len;
			build_drop(conn, half);
			if (rc < 0)
				return rc;
		} else if (message->len == total) {
			int rc = peer_message(conn, half, counter, time_ns,
					      (const uint8_t *)message->data, message->len, NULL,
					      err);
			build_drop(conn, half);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int build_plain(struct net_conn *conn, struct net_half *half, uint64_t counter, uint64_t time_ns,
		const uint8_t *plain, size_t len, struct err *err)
{
	int rc;
	if (counter < 3) {
		half->unplaced = 0;
		if (waits_for_initiator(conn, half, counter))
			return hold(half, counter, time_ns, plain, len, err);
		rc = release(conn, half, counter, err);
		if (rc >= 0)
			rc = handshake_message(conn, half, counter, time_ns, plain, len, err);
		/* the other side's may have waited for this one */
		return rc < 0 ? rc : release(conn, &conn->half[!half->sender], counter, err);
	}
	rc = release(conn, half, counter, err);
	if (rc < 0)
		return rc;
	if (half->unplaced) {
		if (!looks_like_start(conn, plain, len))
			return 0; /* the chunk is kept; what message it belongs to cannot be told */
		half->unplaced = 0;
	}
	return stream_bytes(conn, half, counter, time_ns, plain, len, err);
}

int build_gap(struct net_conn *conn, struct net_half *half, uint64_t time_ns, const char *why,
	      struct err *err)
{
	int rc = 0;
	half->message_skip = 0;
	for (int i = 0; i < 2 && rc >= 0; i++)
		rc = release(conn, &conn->half[i], 2, err);
	if (rc >= 0 && half->message.len)
		rc = peer_message(conn, half, half->counter ? half->counter - 1 : 0, time_ns,
				  (const uint8_t *)half->message.data, half->message.len, why, err);
	build_drop(conn, half);
	return rc;
}
