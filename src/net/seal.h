/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal.h - identities, keys, nonces and sealed chunks of the Tezos peer-to-peer protocol.
 *
 * Secrets live in memory from sodium_malloc(): locked, guarded, wiped when released. All functions
 * may be called from any thread after net_seal_init().
 */
#ifndef NET_SEAL_H
#define NET_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NET_KEY_BYTES 32
#define NET_NONCE_BYTES 24
#define NET_AUTH_BYTES 16           /* authenticator in front of each sealed chunk */
#define NET_PEER_ID_TEXT 32         /* "id..." with its NUL */
#define NET_CONNECTION_CHUNK_MIN 92 /* smallest connection chunk: empty chain name */

/** net_seal_init() - once per process, before anything else here; -EIO where libsodium refuses. */
int net_seal_init(struct err *err);

/** struct net_identity - a node's identity.json; opaque because it holds a secret key. */
struct net_identity;

/**
 * net_identity_load() - read an identity.json; @path is lent. The public key must belong to the
 * secret key. Return: release with net_identity_free(); NULL with @err (-EINVAL: not an identity,
 * or damaged).
 */
struct net_identity *net_identity_load(const char *path, struct err *err);
/** net_identity_parse() - the same from memory; @name is for messages. */
struct net_identity *net_identity_parse(const char *json, size_t len, const char *name,
					struct err *err);
void net_identity_free(struct net_identity *identity);
const uint8_t *net_identity_public_key(const struct net_identity *identity);
const uint8_t *net_identity_stamp(const struct net_identity *identity);
/** net_identity_peer_id() - base58check text, lent. */
const char *net_identity_peer_id(const struct net_identity *identity);

/** net_peer_id() - text of the peer id that belongs to a public key. */
void net_peer_id(const uint8_t public_key[32], char out[NET_PEER_ID_TEXT]);

/** struct net_key - the precomputed key of a connection, locked memory; opaque. */
struct net_key;
/**
 * net_key_new() - NULL where the remote key is unusable (low order point) or memory cannot be had.
 */
struct net_key *net_key_new(const struct net_identity *local, const uint8_t remote_public_key[32]);
void net_key_free(struct net_key *key);
const uint8_t *net_key_peek(const struct net_key *key); /* 32 bytes, for tests */

/**
 * net_start_nonces() - first nonce of each sender from the two raw connection chunks, length bytes
 * included. The names in the protocol are the other way round than one expects: the initiator sends
 * with "Resp -> Init".
 */
void net_start_nonces(const uint8_t *initiator_chunk, size_t initiator_len,
		      const uint8_t *responder_chunk, size_t responder_len,
		      uint8_t initiator_sends[NET_NONCE_BYTES],
		      uint8_t responder_sends[NET_NONCE_BYTES]);

/** net_nonce_add() - add @n to a nonce as a 192-bit big-endian number, wrapping to zero. */
void net_nonce_add(uint8_t nonce[NET_NONCE_BYTES], uint64_t n);

/**
 * net_open() - authenticate and decrypt a chunk body (authenticator first); @plain gets len -
 * NET_AUTH_BYTES bytes. Return: 0, or -EBADMSG where it does not authenticate (also for bodies
 * below NET_AUTH_BYTES).
 */
int net_open(const struct net_key *key, const uint8_t nonce[NET_NONCE_BYTES], const uint8_t *body,
	     size_t len, uint8_t *plain);

/**
 * net_key_stream() - the first @len bytes that sealing mixes with a plaintext (at most 32):
 * XSalsa20 behind the 32 bytes that become the authenticator's key.
 */
void net_key_stream(const struct net_key *key, const uint8_t nonce[NET_NONCE_BYTES], uint8_t *to,
		    size_t len);

/** net_sha256_hex() - digest as 64 lower-case hex digits and a NUL. */
void net_sha256_hex(const void *bytes, size_t len, char out[65]);

/** net_pow_ok() - 1 if Blake2b-32(key || stamp) passes @difficulty (nodes use 26.0). */
int net_pow_ok(const uint8_t public_key[32], const uint8_t stamp[24], double difficulty);

#endif
