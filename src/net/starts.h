/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starts.h - which of the nonces that may come next make sealed bytes read like the start of a
 * message.
 *
 * To authenticate a chunk costs a pass over all of it for each nonce; behind a gap there are many
 * places and many nonces. A chunk that begins a message begins with its length and a known tag, and
 * these six bytes can be read with six bytes of key stream that are made once per nonce. About one
 * of 100,000 pairs of place and nonce passes by chance.
 */
#ifndef NET_STARTS_H
#define NET_STARTS_H

#include <stddef.h>
#include <stdint.h>

#include "net/seal.h"

#define NET_START_BYTES 6          /* of sealed text that net_starts_next() looks at */
#define NET_STARTS_MAX (32u << 10) /* nonces that are kept: 384 KiB and 128 KiB of index */

struct net_starts;

/**
 * net_starts_new() - for @count nonces from @nonce on; more than NET_STARTS_MAX are left out. None
 * is ready yet. Return: release with net_starts_free(); NULL without memory.
 */
struct net_starts *net_starts_new(const uint8_t nonce[NET_NONCE_BYTES], uint64_t count);
/**
 * net_starts_make() - make up to @most more nonces ready, some 300 ns each. Return: how many are
 * still to be made.
 */
uint32_t net_starts_make(struct net_starts *starts, const struct net_key *key, uint32_t most);
/** net_starts_bytes() - memory that it holds. */
size_t net_starts_bytes(const struct net_starts *starts);
void net_starts_free(struct net_starts *starts);

/** struct net_start - a nonce that fits, and what it makes of the bytes. */
struct net_start {
	/* nonces before it */
	uint64_t missed;
	/* of the message behind its length */
	uint32_t size;
};

/**
 * net_starts_next() - the next fitting nonce for the sealed text @text (behind the authenticator),
 * at least NET_START_BYTES of it, once all are made. @cursor is 0 at first and belongs to the
 * function. Return: 1 and @start, 0 when there are no more. Costs about 100 ns a place for a few
 * thousand nonces.
 */
int net_starts_next(const struct net_starts *starts, const uint8_t *text, uint64_t *cursor,
		    struct net_start *start);

#endif
