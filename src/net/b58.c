/* SPDX-License-Identifier: Apache-2.0 */
#include "net/b58.h"

#include <string.h>

#include <sodium.h>

#include "base/cleanup.h"

#define LIMB_DIGITS 5
#define LIMB 656356768u /* 58^5 */

static const struct {
	uint8_t prefix[3];
	uint8_t prefix_len, bytes;
} kinds[NET_HASH_MAX] = {
	[NET_HASH_CHAIN] = { { 87, 82, 0 }, 3, 4 },
	[NET_HASH_BLOCK] = { { 1, 52 }, 2, 32 },
	[NET_HASH_CONTEXT] = { { 79, 199 }, 2, 32 },
	[NET_HASH_OPERATION] = { { 5, 116 }, 2, 32 },
	[NET_HASH_OPERATION_LIST] = { { 133, 233 }, 2, 32 },
	[NET_HASH_OPERATION_LIST_LIST] = { { 29, 159, 109 }, 3, 32 },
	[NET_HASH_PROTOCOL] = { { 2, 170 }, 2, 32 },
	[NET_HASH_PEER] = { { 153, 103 }, 2, 16 },
};

size_t net_hash_bytes(enum net_hash kind)
{
	return kinds[kind].bytes;
}

int net_b58check(const uint8_t *prefix, size_t prefix_len, const uint8_t *data, size_t data_len,
		 char *out, size_t cap)
{
	static const char alphabet[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	uint8_t bytes[100], sum[crypto_hash_sha256_BYTES];
	if (prefix_len + data_len > sizeof(bytes) - 4)
		return -1;
	memcpy(bytes, prefix, prefix_len);
	memcpy(bytes + prefix_len, data, data_len);
	size_t len = prefix_len + data_len;
	crypto_hash_sha256(sum, bytes, len);
	crypto_hash_sha256(sum, sum, sizeof(sum));
	memcpy(bytes + len, sum, 4);
	len += 4;

	/*
	 * words of four bytes into limbs of five digits, least significant first: 32 bits are 1.1
	 * limbs
	 */
	uint32_t limbs[sizeof(bytes) / 4 + sizeof(bytes) / 32 + 2];
	size_t limb_count = 0, zeros = 0;
	while (zeros < len && bytes[zeros] == 0)
		zeros++;
	for (size_t i = zeros; i < len;) {
		size_t word_bytes = (len - i) % 4 ? (len - i) % 4 : 4;
		uint64_t carry = 0;
		for (size_t k = 0; k < word_bytes; k++)
			carry = carry << 8 | bytes[i + k];
		i += word_bytes;
		for (size_t k = 0; k < limb_count; k++) {
			carry += (uint64_t)limbs[k] << (8 * word_bytes);
			limbs[k] = (uint32_t)(carry % LIMB);
			carry /= LIMB;
		}
		for (; carry; carry /= LIMB)
			limbs[limb_count++] = (uint32_t)(carry % LIMB);
	}
	uint8_t digits[ARRAY_LEN(limbs) * LIMB_DIGITS];
	size_t count = 0;
	for (size_t k = 0; k < limb_count; k++) {
		for (uint32_t n = 0, rest = limbs[k]; n < LIMB_DIGITS; n++, rest /= 58)
			digits[count++] = (uint8_t)(rest % 58);
	}
	while (count && digits[count - 1] == 0)
		count--;
	if (zeros + count + 1 > cap)
		return -1;
	memset(out, '1', zeros);
	for (size_t i = 0; i < count; i++)
		out[zeros + i] = alphabet[digits[count - 1 - i]];
	out[zeros + count] = '\0';
	return (int)(zeros + count);
}

void net_hash_text(enum net_hash kind, const uint8_t *data, char out[NET_HASH_TEXT_MAX])
{
	net_b58check(kinds[kind].prefix, kinds[kind].prefix_len, data, kinds[kind].bytes, out,
		     NET_HASH_TEXT_MAX);
}
