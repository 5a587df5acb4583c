/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bigpcap.c - a capture of any length for `net replay`: a node talks to many peers over sealed connections, crypto straight
 * from libsodium. 90 % of the messages are operations, one peer says most; both directions.
 * usage: bigpcap CAPTURE IDENTITY MESSAGES [CONNECTIONS [OPERATION_BYTES]]; writes both files, prints the bytes of plaintext.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "p2pbody.h"

#define LINKTYPE_RAW 101
#define HELLO 92
#define PLAIN_MAX 65517

static uint64_t seed = 88172645463325252ULL;

static uint32_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32);
}

struct conn {
	uint32_t peer, seq[2];
	uint8_t key[32], nonce[2][24];
};

static FILE *out;
static uint64_t time_us = 1700000000000000ull;

/* From side 0, the node, or side 1, its peer, who is called. */
static void packet(struct conn *c, int side, int syn, const uint8_t *bytes, size_t len)
{
	uint8_t head[40] = { 0x45, [6] = 0x40, [8] = 64, [9] = 6, [32] = 0x50, [33] = 0x10 };
	uint16_t total = htons((uint16_t)(40 + len)), ports[2] = { htons(40000), htons(9732) };
	uint32_t addrs[2] = { htonl(0xc0000201), htonl(c->peer) }, seq = htonl(c->seq[side]),
		 ack = htonl(c->seq[!side]);
	uint32_t record[4] = { (uint32_t)(time_us / 1000000), (uint32_t)(time_us % 1000000),
			       (uint32_t)(40 + len), (uint32_t)(40 + len) };
	memcpy(head + 2, &total, 2);
	memcpy(head + 12, &addrs[side], 4);
	memcpy(head + 16, &addrs[!side], 4);
	memcpy(head + 20, &ports[side], 2);
	memcpy(head + 22, &ports[!side], 2);
	memcpy(head + 24, &seq, 4);
	memcpy(head + 28, &ack, 4);
	if (syn)
		head[33] = side ? 0x12 : 0x02;
	fwrite(record, sizeof(record), 1, out);
	fwrite(head, sizeof(head), 1, out);
	if (len)
		fwrite(bytes, len, 1, out);
	c->seq[side] += (uint32_t)len + (syn ? 1 : 0);
	time_us += 20;
}

static void send_sealed(struct conn *c, int side, const uint8_t *plain, size_t len)
{
	static uint8_t chunk[2 + 16 + PLAIN_MAX];
	do {
		size_t part = len < PLAIN_MAX ? len : PLAIN_MAX;
		chunk[0] = (uint8_t)((part + 16) >> 8);
		chunk[1] = (uint8_t)(part + 16);
		crypto_box_easy_afternm(chunk + 2, plain, part, c->nonce[side], c->key);
		for (int i = 23; i >= 0 && ++c->nonce[side][i] == 0; i--)
			;
		for (size_t at = 0; at < 18 + part; at += 1448)
			packet(c, side, 0, chunk + at,
			       18 + part - at < 1448 ? 18 + part - at : 1448);
		plain += part;
		len -= part;
	} while (len);
}

static void start(struct conn *c, uint32_t peer, uint8_t public_keys[2][32], uint8_t secret[32])
{
	static const char *const label[] = { "Resp -> Init", "Init -> Resp" };
	uint8_t hello[2][HELLO] = { 0 }, hash[32];
	crypto_generichash_state state;
	c->peer = peer;
	for (int side = 0; side < 2; side++) {
		c->seq[side] = rnd();
		packet(c, side, 1, NULL, 0);
	}
	for (int side = 0; side < 2; side++) {
		hello[side][1] = HELLO - 2;
		memcpy(hello[side] + 4, public_keys[side], 32);
		randombytes_buf(hello[side] + 60, 24);
		hello[side][HELLO - 1] = 1;
		packet(c, side, 0, hello[side], HELLO);
	}
	if (crypto_box_beforenm(c->key, public_keys[1], secret) != 0)
		exit(1);
	for (int side = 0; side < 2; side++) {
		crypto_generichash_init(&state, NULL, 0, 32);
		crypto_generichash_update(&state, hello[0], HELLO);
		crypto_generichash_update(&state, hello[1], HELLO);
		crypto_generichash_update(&state, (const uint8_t *)label[side], 12);
		crypto_generichash_final(&state, hash, 32);
		memcpy(c->nonce[side], hash, 24);
	}
	for (int side = 0; side < 2; side++)
		send_sealed(c, side, (const uint8_t *)"\0\0", 2);
	for (int side = 0; side < 2; side++)
		send_sealed(c, side, (const uint8_t *)"\0", 1);
}

/* Everything but the sources of a protocol, which are a hundred times as long. */
static uint16_t pick_tag(void)
{
	uint32_t r = rnd() % 1000;
	uint16_t tag = r < 900 ? 0x31 : r < 990 ? 0x21 : p2p_tags[rnd() % P2P_TAGS];
	return tag == 0x41 ? 0x31 : tag;
}

static void write_identity(const char *path, const uint8_t public_key[32], const uint8_t secret[32])
{
	char hex[2][65];
	FILE *file = fopen(path, "w");
	if (!file)
		exit(1);
	sodium_bin2hex(hex[0], 65, public_key, 32);
	sodium_bin2hex(hex[1], 65, secret, 32);
	fprintf(file,
		"{\"public_key\":\"%s\",\"secret_key\":\"%s\",\"proof_of_work_stamp\":"
		"\"000000000000000000000000000000000000000000000000\"}\n",
		hex[0], hex[1]);
	fclose(file);
}

int main(int argc, char **argv)
{
	uint8_t public_keys[2][32], secrets[2][32], key_seed[32] = { 0 };
	uint32_t head[6] = { 0xa1b2c3d4, 2 | 4 << 16, 0, 0, 262144, LINKTYPE_RAW };
	if (argc < 4 || sodium_init() < 0)
		return 2;
	uint64_t count = strtoull(argv[3], NULL, 10), plain = 0;
	size_t conns = argc > 4 ? strtoul(argv[4], NULL, 10) : 50;
	struct conn *all = calloc(conns ? conns : 1, sizeof(*all));
	out = fopen(argv[1], "w");
	if (!out || !all || !conns)
		return 1;
	for (int side = 0; side < 2; side++) {
		key_seed[0] = (uint8_t)(1 + side);
		crypto_box_seed_keypair(public_keys[side], secrets[side], key_seed);
	}
	write_identity(argv[2], public_keys[0], secrets[0]);
	p2p_noise_start(7, argc > 5 ? strtoull(argv[5], NULL, 10) : 128);
	fwrite(head, sizeof(head), 1, out);
	for (size_t i = 0; i < conns; i++)
		start(&all[i], 0x0a000001 + (uint32_t)i, public_keys, secrets[0]);
	struct bytes message = { 0 };
	for (uint64_t i = 0; i < count; i++) {
		struct conn *c = &all[rnd() % 2 ? 0 : rnd() % conns];
		uint16_t tag = pick_tag();
		message.len = 0;
		put_int(&message, 0, 4);
		put_int(&message, tag, 2);
		put_body(&message, tag);
		uint32_t len = htonl((uint32_t)(message.len - 4));
		memcpy(message.at, &len, 4);
		send_sealed(c, rnd() % 100 < 70, message.at, message.len);
		plain += message.len;
	}
	printf("%llu\n", (unsigned long long)plain);
	free(message.at);
	free(all);
	return fclose(out) == 0 ? 0 : 1;
}
