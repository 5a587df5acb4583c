/* SPDX-License-Identifier: Apache-2.0 */
/* p2pbody.h - the content of every peer message a pseudo-node sends: well-formed, reproducible; for p2pnode.c. */
#ifndef P2PBODY_H
#define P2PBODY_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
	uint8_t *at;
	size_t len, cap;
};

void put(struct bytes *b, const void *p, size_t n);
/** put_int() - the low @bytes bytes of @v, big-endian. */
void put_int(struct bytes *b, uint64_t v, int bytes);
/** put_text() - its length in 4 bytes, then the text. */
void put_text(struct bytes *b, const char *text);

#define P2P_TAGS 26
extern const uint16_t
	p2p_tags[P2P_TAGS]; /* every known one that keeps a talk going, and an unknown one last */
/** p2p_noise_start() - the same @seed gives the same messages; operations have @size bytes of data. */
void p2p_noise_start(uint64_t seed, uint64_t size);
/** put_body() - the body of a message of that tag. */
void put_body(struct bytes *b, uint16_t tag);

#endif
