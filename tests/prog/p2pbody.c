/* SPDX-License-Identifier: Apache-2.0 */
#include "p2pbody.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "p2pio.h"

void put(struct bytes *b, const void *p, size_t n)
{
	if (b->len + n > b->cap) {
		b->cap = (b->len + n) * 2;
		b->at = realloc(b->at, b->cap);
		if (!b->at)
			p2pio_die("realloc");
	}
	memcpy(b->at + b->len, p, n);
	b->len += n;
}

void put_int(struct bytes *b, uint64_t v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--) {
		uint8_t byte = (uint8_t)(v >> (8 * i));
		put(b, &byte, 1);
	}
}

/* Reproducible noise: two runs with the same seed send the same. */
static uint64_t noise_state, operation_bytes;

void p2p_noise_start(uint64_t seed, uint64_t size)
{
	noise_state = seed;
	operation_bytes = size;
}

static uint64_t noise(void)
{
	uint64_t z = (noise_state += 0x9e3779b97f4a7c15ull);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void put_noise(struct bytes *b, size_t n)
{
	while (n) {
		uint64_t word = noise();
		size_t part = n < 8 ? n : 8;
		put(b, &word, part);
		n -= part;
	}
}

void put_text(struct bytes *b, const char *text)
{
	put_int(b, strlen(text), 4);
	put(b, text, strlen(text));
}

static void put_header(struct bytes *b)
{
	put_int(b, noise() & 0xffffff, 4);
	put_int(b, 4, 1);
	put_noise(b, 32);
	put_int(b, 1568622928, 8);
	put_int(b, 4, 1);
	put_noise(b, 32);
	put_int(b, 17, 4); /* fitness of two items */
	put_int(b, 1, 4);
	put_int(b, 0, 1);
	put_int(b, 8, 4);
	put_noise(b, 8);
	put_noise(b, 32);
	put_noise(b, 79);
}

static void put_hashes(struct bytes *b, int n)
{
	put_int(b, (uint64_t)n * 32, 4);
	put_noise(b, (size_t)n * 32);
}

static void put_dyn_header(struct bytes *b)
{
	size_t at = b->len;
	put_int(b, 0, 4);
	put_header(b);
	uint32_t n = htonl((uint32_t)(b->len - at - 4));
	memcpy(b->at + at, &n, 4);
}

const uint16_t p2p_tags[] = { 0x02, 0x03, 0x04, 0x05, 0x10, 0x11, 0x12, 0x13, 0x14,
			      0x20, 0x21, 0x30, 0x31, 0x40, 0x41, 0x50, 0x51, 0x60,
			      0x61, 0x70, 0x71, 0x80, 0x81, 0x90, 0x91, 0x22 };
_Static_assert(sizeof(p2p_tags) / sizeof(p2p_tags[0]) == P2P_TAGS, "p2p_tags");

void put_body(struct bytes *b, uint16_t tag)
{
	switch (tag) {
	case 0x03:
		put_text(b, "203.0.113.7:9732");
		put_text(b, "[2001:db8::1]:9732");
		break;
	case 0x04:
	case 0x05:
		put_text(b, "203.0.113.8:9732");
		put_noise(b, 16);
		break;
	case 0x10:
	case 0x12:
	case 0x13:
	case 0x70:
		put_noise(b, 4);
		break;
	case 0x11:
		put_noise(b, 4);
		put_dyn_header(b);
		put_noise(b, 32 * 20);
		break;
	case 0x14:
		put_noise(b, 4);
		put_dyn_header(b);
		put_hashes(b, 3);
		put_int(b, 4 + 64, 4);
		put_hashes(b, 2);
		break;
	case 0x20:
	case 0x30:
	case 0x40:
		put_hashes(b, 7);
		break;
	case 0x21:
		put_header(b);
		break;
	case 0x31:
		put_noise(b, 32 + operation_bytes);
		break;
	case 0x41: /* one component with an interface, over several chunks */
		put_int(b, 0, 2);
		put_int(b, 4 + 4 + 1 + 4 + 4 + 4 + 100000, 4);
		put_text(b, "main");
		put_int(b, 0xff, 1);
		put_text(b, "type");
		put_int(b, 100000, 4);
		for (int i = 0; i < 100000; i += 10)
			put(b, "let x = 1\n", 10);
		break;
	case 0x50:
	case 0x60:
		put_int(b, 66, 4);
		put_noise(b, 32);
		put_int(b, 1, 1);
		put_noise(b, 32);
		put_int(b, 2, 1);
		break;
	case 0x51:
	case 0x61:
		put_noise(b, 32);
		put_int(b, 1, 1);
		put_int(b, 0xf0, 1); /* left, then right sibling behind the end mark */
		put_int(b, 0, 1);
		put_noise(b, 32);
		if (tag == 0x51) {
			put_noise(b, 64);
		} else {
			put_int(b, 32 + 50, 4);
			put_noise(b, 32 + 50);
		}
		break;
	case 0x71:
		put_noise(b, 4);
		put_header(b);
		break;
	case 0x80:
		put_noise(b, 4);
		put_int(b, 7, 1);
		break;
	case 0x81:
		put_noise(b, 4);
		put_int(b, 7, 1);
		put_dyn_header(b);
		put_noise(b, 64);
		break;
	case 0x90:
	case 0x91:
		put_noise(b, 32);
		put_int(b, 3, 4);
		if (tag == 0x91)
			put_header(b);
		break;
	case 0x22:
		put_noise(b, 40);
		break;
	default:
		break;
	}
}
