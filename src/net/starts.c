/* SPDX-License-Identifier: Apache-2.0 */
/* starts.c - six bytes of key stream for each nonce, found by what they make of the tag. */
#include "net/starts.h"

#include <stdlib.h>
#include <string.h>

#include "net/conn.h"
#include "net/decode.h"

#define TAG_MAX 0x100u
#define SIZE_MIN 2u /* a message has a tag at least */

struct stream {
	/* key stream over the length, big-endian as a number */
	uint32_t size;
	uint16_t tag;
	/* index + 1 of the next one in the bucket */
	uint32_t next;
};

struct net_starts {
	/* left: those from 0 on are still to be made */
	uint32_t count, mask, left;
	uint8_t first[NET_NONCE_BYTES];
	uint32_t tag_count;
	uint16_t tags[TAG_MAX];
	/* by the key stream over the tag: index + 1 of the first */
	uint32_t *buckets;
	struct stream streams[];
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint16_t be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

struct net_starts *net_starts_new(const uint8_t first[NET_NONCE_BYTES], uint64_t nonces)
{
	uint32_t count = nonces < NET_STARTS_MAX ? (uint32_t)nonces : NET_STARTS_MAX, size = 1;
	struct net_starts *starts = malloc(sizeof(*starts) + count * sizeof(struct stream));
	if (!starts)
		return NULL;
	while (size < count && size < 1u << 16)
		size *= 2;
	starts->buckets = calloc(size, sizeof(*starts->buckets));
	if (!starts->buckets) {
		free(starts);
		return NULL;
	}
	starts->count = count;
	starts->mask = size - 1;
	starts->tag_count = 0;
	for (uint16_t tag = 0; tag < TAG_MAX; tag++) {
		if (net_tag_type(tag) != MESSAGE_UNKNOWN)
			starts->tags[starts->tag_count++] = tag;
	}
	starts->left = count;
	memcpy(starts->first, first, sizeof(starts->first));
	return starts;
}

uint32_t net_starts_make(struct net_starts *starts, const struct net_key *key, uint32_t most)
{
	/* from the last on, so that each bucket lists the nearest first */
	for (; starts->left && most; most--) {
		uint32_t i = --starts->left;
		uint8_t nonce[NET_NONCE_BYTES], bytes[NET_START_BYTES];
		memcpy(nonce, starts->first, sizeof(nonce));
		net_nonce_add(nonce, i);
		net_key_stream(key, nonce, bytes, sizeof(bytes));
		uint32_t *bucket = &starts->buckets[be16(bytes + 4) & starts->mask];
		starts->streams[i] = (struct stream){ be32(bytes), be16(bytes + 4), *bucket };
		*bucket = i + 1;
	}
	return starts->left;
}

size_t net_starts_bytes(const struct net_starts *starts)
{
	return starts ? sizeof(*starts) + starts->count * sizeof(struct stream) +
				(starts->mask + 1ull) * sizeof(*starts->buckets)
		      : 0;
}

void net_starts_free(struct net_starts *starts)
{
	if (!starts)
		return;
	free(starts->buckets);
	free(starts);
}

/*
 * The cursor: which tag, and behind which stream of its bucket the search goes on (0: at its head).
 */
int net_starts_next(const struct net_starts *starts, const uint8_t *text, uint64_t *cursor,
		    struct net_start *start)
{
	uint32_t tag = (uint32_t)(*cursor >> 32), last = (uint32_t)*cursor;
	for (; tag < starts->tag_count; tag++, last = 0) {
		uint16_t wanted = be16(text + 4) ^ starts->tags[tag];
		uint32_t at = last ? starts->streams[last - 1].next
				   : starts->buckets[wanted & starts->mask];
		for (; at; at = starts->streams[at - 1].next) {
			const struct stream *stream = &starts->streams[at - 1];
			uint32_t size = be32(text) ^ stream->size;
			if (stream->tag != wanted || size < SIZE_MIN || size > NET_MESSAGE_MAX)
				continue;
			*start = (struct net_start){ .missed = at - 1, .size = size };
			*cursor = (uint64_t)tag << 32 | at;
			return 1;
		}
	}
	return 0;
}
