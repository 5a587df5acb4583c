/* SPDX-License-Identifier: Apache-2.0 */
/*
 * b58.h - base58check, the text form of Tezos hashes (Bitcoin alphabet, 4 bytes of a double
 * SHA-256).
 */
#ifndef NET_B58_H
#define NET_B58_H

#include <stddef.h>
#include <stdint.h>

/** Hash kinds by their base58check prefix; the bytes they take are net_hash_bytes(). */
enum net_hash {
	NET_HASH_CHAIN,
	NET_HASH_BLOCK,
	NET_HASH_CONTEXT,
	NET_HASH_OPERATION,
	NET_HASH_OPERATION_LIST,
	NET_HASH_OPERATION_LIST_LIST,
	NET_HASH_PROTOCOL,
	NET_HASH_PEER,
	NET_HASH_MAX
};

#define NET_HASH_TEXT_MAX 64 /* bytes of the longest text form with its NUL */

/** net_hash_bytes() - raw length of a hash of that kind: 4, 16 or 32. */
size_t net_hash_bytes(enum net_hash kind);

/**
 * net_hash_text() - write the text form of @data (net_hash_bytes() long) with a NUL; O(length^2).
 * Any thread.
 */
void net_hash_text(enum net_hash kind, const uint8_t *data, char out[NET_HASH_TEXT_MAX]);

/**
 * net_b58check() - base58check of @prefix followed by @data, together at most 96 bytes.
 * Return: length of the text in @out (NUL-terminated), or -1 where it does not fit into @cap bytes.
 */
int net_b58check(const uint8_t *prefix, size_t prefix_len, const uint8_t *data, size_t data_len,
		 char *out, size_t cap);

#endif
