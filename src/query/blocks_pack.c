/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks_pack.c - rows of blocks as they lie in the file: each member of a page's rows one after
 * the other, in as many bytes as its values span; a third of what the rows are in memory.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "query/blocks_impl.h"

/* Little endian: a value's low bytes come first, here and in the file. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are packed by their low bytes");

static const struct {
	uint8_t at, size;
} field[BLOCK_FIELDS] = {
#define FIELD(member)                                                                       \
	{                                                                                   \
		offsetof(struct block_row, member), sizeof(((struct block_row *)0)->member) \
	}
	[BLOCK_FIELD_ID] = FIELD(id),
	[BLOCK_FIELD_STACK] = FIELD(stack),
	[BLOCK_FIELD_FREED] = FIELD(freed_ns),
	FIELD(time_ns),
	FIELD(addr),
	FIELD(bytes),
	FIELD(free_stack),
	FIELD(tid),
	FIELD(free_tid),
	FIELD(chain),
	FIELD(flags),
	FIELD(position),
};

static uint64_t load(const struct block_row *row, unsigned f)
{
	const char *from = (const char *)row + field[f].at;
	uint64_t v = 0;
	if (field[f].size == 8)
		memcpy(&v, from, 8);
	else if (field[f].size == 4)
		memcpy(&v, from, 4);
	else
		memcpy(&v, from, 2);
	return v;
}

static void store(struct block_row *row, unsigned f, uint64_t v)
{
	char *to = (char *)row + field[f].at;
	if (field[f].size == 8)
		memcpy(to, &v, 8);
	else if (field[f].size == 4)
		memcpy(to, &v, 4);
	else
		memcpy(to, &v, 2);
}

static uint64_t mask_of(unsigned width)
{
	return width >= 8 ? UINT64_MAX : (1ull << 8 * width) - 1;
}

/** never_of() - what stands for BLOCK_NEVER in a column of @width bytes. */
static uint64_t never_of(const struct block_packing *how, unsigned f)
{
	return f == BLOCK_FIELD_FREED && how->never ? mask_of(how->width[f]) : UINT64_MAX;
}

static void choose(const struct block_row *rows, size_t count, unsigned f,
		   struct block_packing *how)
{
	uint64_t least = UINT64_MAX, most = 0;
	int never = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t v = load(&rows[i], f);
		if (f == BLOCK_FIELD_FREED && v == BLOCK_NEVER) {
			never = 1;
			continue;
		}
		least = v < least ? v : least;
		most = v > most ? v : most;
	}
	uint64_t span = most > least ? most - least : 0;
	unsigned width = 0;
	while (width < 8 && (span > mask_of(width) || (never && span >= mask_of(width))))
		width++;
	how->base[f] = least;
	how->width[f] = (uint8_t)width;
	how->never |= (uint8_t)never;
}

size_t block_pack(const struct block_row *rows, size_t count, struct block_packing *how,
		  unsigned char *to)
{
	unsigned char *at = to;
	how->never = 0;
	for (unsigned f = 0; f < BLOCK_FIELDS; f++) {
		choose(rows, count, f, how);
		uint64_t never = never_of(how, f);
		unsigned width = how->width[f];
		for (size_t i = 0; width && i < count; i++, at += width) {
			uint64_t v = load(&rows[i], f);
			v = f == BLOCK_FIELD_FREED && v == BLOCK_NEVER ? never : v - how->base[f];
			memcpy(at, &v, 8); /* the next one covers what is too much */
		}
	}
	return (size_t)(at - to);
}

/** column_at() - where the column @f of the page begins, and its bytes. */
static uint64_t column_at(const struct block_packing *how, size_t count, unsigned f, size_t *bytes)
{
	uint64_t at = how->at;
	for (unsigned i = 0; i < f; i++)
		at += (uint64_t)how->width[i] * count;
	*bytes = (size_t)how->width[f] * count;
	return at;
}

static uint64_t value_at(const struct block_packing *how, unsigned f, const unsigned char *from)
{
	uint64_t v = 0;
	if (how->width[f])
		memcpy(&v, from, 8);
	v &= mask_of(how->width[f]);
	return f == BLOCK_FIELD_FREED && how->never && v == never_of(how, f) ? BLOCK_NEVER
									     : v + how->base[f];
}

int block_unpack(int fd, const struct block_packing *how, size_t count, struct block_row *rows,
		 unsigned char *scratch, struct err *err)
{
	size_t bytes, last;
	uint64_t end = column_at(how, count, BLOCK_FIELDS - 1, &last) + last;
	bytes = (size_t)(end - how->at);
	if (blocks_read_at(fd, scratch, bytes, how->at, err) < 0)
		return err->code;
	const unsigned char *at = scratch;
	for (unsigned f = 0; f < BLOCK_FIELDS; f++)
		for (size_t i = 0; i < count; i++, at += how->width[f])
			store(&rows[i], f, value_at(how, f, at));
	return 0;
}

int block_unpack_one(int fd, const struct block_packing *how, size_t count, size_t i,
		     struct block_row *row, struct err *err)
{
	for (unsigned f = 0; f < BLOCK_FIELDS; f++) {
		unsigned char value[8] = { 0 };
		size_t bytes;
		uint64_t at = column_at(how, count, f, &bytes) + i * how->width[f];
		if (how->width[f] && blocks_read_at(fd, value, how->width[f], at, err) < 0)
			return err->code;
		store(row, f, value_at(how, f, value));
	}
	return 0;
}

int block_unpack_u32(int fd, const struct block_packing *how, size_t count, unsigned f,
		     uint32_t *to, unsigned char *scratch, struct err *err)
{
	size_t bytes;
	uint64_t from = column_at(how, count, f, &bytes);
	if (bytes && blocks_read_at(fd, scratch, bytes, from, err) < 0)
		return err->code;
	const unsigned char *at = scratch;
	for (size_t i = 0; i < count; i++, at += how->width[f]) {
		uint64_t v = value_at(how, f, at);
		to[i] = v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
	}
	return 0;
}
