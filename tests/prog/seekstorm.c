/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seekstorm.c - lines for `byteledger net replay` of connections whose peer makes the decoder search again and again.
 *
 *   seekstorm IDENTITY CONNECTIONS BYTES
 *
 * Every connection opens as it should; then its initiator, whose identity is ours, sends BYTES of chunks that authenticate
 * nowhere and chunks that do as many nonces later as are tried at most.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "net/seal.h"

static void put(size_t conn, const char *from, const void *bytes, size_t len)
{
	char *hex = malloc(len * 2 + 1);
	if (!hex)
		exit(1);
	sodium_bin2hex(hex, len * 2 + 1, bytes, len);
	printf("{\"conn\":%zu,\"from\":\"%s\",\"hex\":\"%s\"}\n", conn, from, hex);
	free(hex);
}

static void hello(const uint8_t key[32], uint8_t out[97])
{
	memset(out, 0, 97);
	out[1] = 95;
	memcpy(out + 4, key, 32);
	randombytes_buf(out + 60, 24);
	out[87] = 5;
	memcpy(out + 88, "STORM", 5);
	out[96] = 1;
}

static void storm(struct net_identity *ours, size_t conn, size_t bytes)
{
	static const uint8_t nowhere[18] = { 0, 16 };
	uint8_t secret[32], public[32], hellos[2][97], nonce[24], other[24];
	crypto_box_keypair(public, secret);
	struct net_key *key = net_key_new(ours, public);
	uint8_t *all = malloc(bytes + 64);
	size_t len = 0;
	if (!key || !all)
		exit(1);
	hello(net_identity_public_key(ours), hellos[0]);
	hello(public, hellos[1]);
	put(conn, "initiator", hellos[0], 97);
	put(conn, "responder", hellos[1], 97);
	net_start_nonces(hellos[0], 97, hellos[1], 97, nonce, other);
	while (len < bytes) {
		memcpy(all + len, nowhere, sizeof(nowhere));
		len += sizeof(nowhere);
		net_nonce_add(nonce, 2498);
		all[len] = 0;
		all[len + 1] = 16;
		crypto_box_easy_afternm(all + len + 2, NULL, 0, nonce, net_key_peek(key));
		net_nonce_add(nonce, 1);
		len += 18;
	}
	put(conn, "initiator", all, len);
	free(all);
	net_key_free(key);
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct net_identity *ours =
		argc == 4 && net_seal_init(&err) == 0 ? net_identity_load(argv[1], &err) : NULL;
	if (!ours) {
		fprintf(stderr, "usage: seekstorm IDENTITY CONNECTIONS BYTES: %s\n", err.msg);
		return 2;
	}
	for (size_t i = 0; i < strtoull(argv[2], NULL, 10); i++)
		storm(ours, i, strtoull(argv[3], NULL, 10));
	net_identity_free(ours);
	return 0;
}
