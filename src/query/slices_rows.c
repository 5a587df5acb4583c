/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices_rows.c - blocks that live across an edge of slices, in a file: their number grows with
 * events. What a question needs of them is what lived at one moment, in each slice one run of rows,
 * since they stand in order of their allocation there.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fileio.h"
#include "base/intern.h"
#include "base/search.h"
#include "query/slices_impl.h"

#define READ_CHUNKS 64 /* at once */
#define SUM_SEED 0x726f7773

static uint64_t sum_of(const struct freed_row *rows, size_t count)
{
	return hash_bytes(rows, count * sizeof(*rows), SUM_SEED);
}

static uint64_t seq_of(const struct freed_row *row)
{
	return row->seq_low | (uint64_t)row->seq_high << 32;
}

static int put_chunk(struct slices *s, const struct freed *rows, size_t count)
{
	struct freed_row raw[FREED_CHUNK];
	for (size_t i = 0; i < count; i++)
		raw[i] = (struct freed_row){ .seq_low = (uint32_t)rows[i].seq,
					     .seq_high = (uint16_t)(rows[i].seq >> 32),
					     .bytes_low = (uint32_t)rows[i].bytes,
					     .bytes_high = (uint16_t)(rows[i].bytes >> 32),
					     .stack = rows[i].stack,
					     .slot = rows[i].slot };
	if (s->chunk_count == s->chunk_cap) {
		size_t cap = s->chunk_cap ? s->chunk_cap * 2 : 1024;
		struct freed_chunk *chunks = realloc(s->chunks, cap * sizeof(*chunks));
		if (!chunks)
			return -ENOMEM;
		s->chunks = chunks;
		s->chunk_cap = cap;
	}
	s->chunks[s->chunk_count++] = (struct freed_chunk){ rows[0].seq, sum_of(raw, count) };
	int rc = fileio_pwrite(s->rows_fd, raw, count * sizeof(*raw),
			       s->rows_at + s->freed_count * sizeof(*raw));
	s->freed_count += count;
	return rc;
}

int slices_put_rows(struct slices *s, const struct freed *rows, size_t count)
{
	for (size_t at = 0; at < count; at += FREED_CHUNK) {
		int rc = put_chunk(s, rows + at,
				   count - at < FREED_CHUNK ? count - at : FREED_CHUNK);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void slices_rows_fini(struct slices_rows *reader)
{
	free(reader->raw);
	free(reader->rows);
	*reader = (struct slices_rows){ 0 };
}

/**
 * chunk_before() - the last chunk of [begin, end) whose first row is before @seq or is it; @begin
 * where none is.
 */
static size_t chunk_before(const struct slices *s, size_t begin, size_t end, uint64_t seq)
{
	size_t before = search_beyond(s->chunks + begin, end - begin, sizeof(*s->chunks),
				      offsetof(struct freed_chunk, seq), seq);
	return begin + (before ? before - 1 : 0);
}

static int changed(struct err *err)
{
	return err_set(err, -EBADMSG, "the index of the recording is damaged");
}

/**
 * decode() - @count rows of a chunk, from number @at of the slice on; only what is of [lo, hi) is
 * kept. How many, or -1.
 */
static int decode(const struct slices *s, const struct freed_row *raw, size_t count,
		  const struct freed_chunk *chunk, uint64_t lo, uint64_t hi, struct freed *to)
{
	int kept = 0;
	if (sum_of(raw, count) != chunk->sum)
		return -1;
	for (size_t i = 0; i < count; i++) {
		uint64_t seq = seq_of(&raw[i]);
		if (seq < lo || seq >= hi)
			continue;
		if (raw[i].stack >= s->stack_count ||
		    (raw[i].slot & ~SLICE_TEMPORARY) >= s->slot_count)
			return -1;
		to[kept++] = (struct freed){ .bytes = raw[i].bytes_low | (uint64_t)raw[i].bytes_high
										 << 32,
					     .seq = seq,
					     .stack = raw[i].stack,
					     .slot = raw[i].slot };
	}
	return kept;
}

int slices_rows_read(struct slices_rows *reader, const struct slices *s, size_t n, uint64_t lo,
		     uint64_t hi, void (*each)(void *ctx, const struct freed *rows, size_t count),
		     void *ctx, struct err *err)
{
	const struct slice *at = &s->slices[n];
	size_t begin = at->chunk_begin, end = at[1].chunk_begin;
	if (begin == end || lo >= hi)
		return 0;
	if (!reader->raw) {
		reader->raw = malloc(READ_CHUNKS * FREED_CHUNK * sizeof(*reader->raw));
		reader->rows = malloc(READ_CHUNKS * FREED_CHUNK * sizeof(*reader->rows));
		if (!reader->raw || !reader->rows)
			return err_set(err, -ENOMEM, "cannot read the index of a recording");
	}
	size_t from = chunk_before(s, begin, end, lo), to = chunk_before(s, begin, end, hi - 1) + 1;
	if (s->chunks[begin].seq >= hi)
		return 0;
	while (from < to) {
		size_t chunks = to - from < READ_CHUNKS ? to - from : READ_CHUNKS;
		uint64_t first = at->freed_begin + (from - begin) * FREED_CHUNK;
		uint64_t last = first + chunks * FREED_CHUNK;
		if (last > at[1].freed_begin)
			last = at[1].freed_begin;
		size_t bytes = (last - first) * sizeof(*reader->raw);
		if (fileio_pread(s->rows_fd, reader->raw, bytes,
				 s->rows_at + first * sizeof(*reader->raw)) != (ssize_t)bytes)
			return changed(err);
		size_t kept = 0;
		for (size_t i = 0; i < chunks; i++) {
			uint64_t left = last - first - i * FREED_CHUNK;
			int rc = decode(s, reader->raw + i * FREED_CHUNK,
					left < FREED_CHUNK ? left : FREED_CHUNK,
					&s->chunks[from + i], lo, hi, reader->rows + kept);
			if (rc < 0)
				return changed(err);
			kept += (size_t)rc;
		}
		if (kept)
			each(ctx, reader->rows, kept);
		from += chunks;
	}
	return 0;
}
