/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole connection: streams, chunks, sealed boxes, builder, decoders, the way back after gaps. The input is a script:
 * pieces of the two streams with good or broken handshakes, chunks sealed with the right key around any plaintext, raw
 * noise, gaps, closings. Memory is bounded and rows add up whatever comes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "net/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct checker {
	struct message_sink sink;
	uint64_t raw_bytes, fed_bytes, closed;
};

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	(void)err;
	((struct checker *)sink)->closed += row->close_reason != NULL;
	return 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	(void)err;
	((struct checker *)sink)->raw_bytes += chunk->raw_len;
	return 0;
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	(void)sink, (void)err;
	if (!message->json == !message->error || message->plain_len > NET_MESSAGE_MAX + 4)
		abort();
	return 0;
}

static uint8_t keys[2][2][32]; /* [side][public, secret] */
static struct net_identity *ours;

static void prepare(void)
{
	struct err err = { 0 };
	char json[512], hex[2][65];
	if (net_seal_init(&err) < 0)
		abort();
	for (int side = 0; side < 2; side++) {
		memset(keys[side][1], 7 + side, 32);
		crypto_scalarmult_base(keys[side][0], keys[side][1]);
	}
	sodium_bin2hex(hex[0], 65, keys[0][0], 32);
	sodium_bin2hex(hex[1], 65, keys[0][1], 32);
	int n = snprintf(json, sizeof(json),
			 "{\"public_key\":\"%s\",\"secret_key\":\"%s\",\"proof_of_work_stamp\":"
			 "\"000000000000000000000000000000000000000000000000\"}",
			 hex[0], hex[1]);
	ours = net_identity_parse(json, (size_t)n, "fuzz", &err);
	if (!ours)
		abort();
}

static size_t hello(int side, uint8_t out[92])
{
	memset(out, 0, 92);
	out[1] = 90;
	memcpy(out + 4, keys[side][0], 32);
	out[91] = 1;
	return 92;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct checker checker = { .sink = { on_connection, on_chunk, on_message } };
	struct err err = { 0 };
	uint8_t hellos[2][92], nonce[2][24], key[32], chunk[2 + 16 + 256];
	if (!ours)
		prepare();
	struct net_keyring ring = { &ours, 1 };
	if (size < 1)
		return 0;
	const struct net_seek_limit limit = { .burst = 1 << 20,
					      .per_second = 1 << 20,
					      .slice = data[0] & 4 ? 5000 : 0 };
	struct net_conn_opt opt = { .role = (enum net_role)(data[0] % 3),
				    .remote_addr = "1.2.3.4:5",
				    .keyring = &ring,
				    .sink = &checker.sink,
				    .difficulty = 26.0,
				    .attached_late = data[0] >> 7,
				    .seek = &limit };
	struct net_conn *conn = net_conn_new(&opt, &err);
	if (!conn)
		abort();
	/* side 0 is ours and, but for the role of a responder, the initiator */
	int initiator = opt.role == NET_ROLE_RESPONDER ? 1 : 0;
	hello(0, hellos[0]);
	hello(1, hellos[1]);
	net_start_nonces(hellos[initiator], 92, hellos[!initiator], 92, nonce[initiator],
			 nonce[!initiator]);
	if (crypto_box_beforenm(key, keys[1][0], keys[0][1]) != 0)
		abort();
	for (size_t at = 1, turn = 0; size - at >= 3 && turn < 2000; turn++) {
		int what = data[at] & 7, side = data[at] >> 3 & 1, from = side == initiator;
		size_t len = data[at + 1];
		uint8_t arg = data[at + 2];
		at += 3;
		const uint8_t *bytes = data + at;
		if (len > size - at)
			len = size - at;
		int rc = 0;
		switch (what) {
		case 0:
			bytes = hellos[side];
			len = 92;
			break;
		case 1: /* noise */
			at += len;
			break;
		case 2:
			rc = net_conn_gap(conn, from, turn, arg, &err);
			len = 0;
			break;
		case 3:
			rc = net_conn_gap(conn, from, turn, (uint64_t)arg << 54, &err);
			len = 0;
			break;
		default: /* a sealed chunk; some damaged, some left out, some in two pieces */
			at += len;
			chunk[0] = (uint8_t)((len + 16) >> 8);
			chunk[1] = (uint8_t)(len + 16);
			crypto_box_easy_afternm(chunk + 2, bytes, len, nonce[side], key);
			net_nonce_add(nonce[side], 1);
			chunk[2] ^= arg == 1;
			bytes = chunk;
			len = arg == 2 ? 0 : 18 + len;
			if (len && arg >= 128) {
				rc = net_conn_feed(conn, from, turn, bytes, arg % len, &err);
				checker.fed_bytes += arg % len;
				bytes += arg % len;
				len -= arg % len;
			}
			break;
		}
		if (rc >= 0 && len) {
			rc = net_conn_feed(conn, from, turn, bytes, len, &err);
			checker.fed_bytes += len;
		}
		if (rc < 0)
			abort();
		while (data[0] & 8 && net_conn_busy(conn)) {
			if (net_conn_work(conn, &err) < 0)
				abort();
		}
		if (what == 1 && len == 7 && net_conn_hurry(conn, arg & 1, &err) < 0)
			abort();
		net_conn_row(conn);
	}
	if (net_conn_close(conn, 1, "closed", &err) < 0 || checker.closed != 1)
		abort();
	/* every byte that came is in exactly one chunk or piece */
	if (checker.raw_bytes != checker.fed_bytes)
		abort();
	return 0;
}
