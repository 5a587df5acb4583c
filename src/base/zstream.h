/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstream.h - read plain, gzip and zstd files as one stream of bytes, told apart by content; write
 * gzip and zstd.
 *
 * Reading is streaming in bounded memory (a zstd window of at most 128 MiB, else some 400 KiB) and
 * tolerant: a compressed file that was cut or damaged yields everything that could be decoded, then
 * ends; zstream_damaged() tells.
 */
#ifndef BASE_ZSTREAM_H
#define BASE_ZSTREAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

enum zstream_kind { ZSTREAM_PLAIN = 0, ZSTREAM_GZIP, ZSTREAM_ZSTD };

struct zstream;

/**
 * zstream_open() - open @path (regular file, fifo or character device; not a folder) for reading.
 * Return: a stream, release with zstream_free(); NULL with @err.
 */
struct zstream *zstream_open(const char *path, struct err *err);
/** zstream_open_bytes() - the same over @len bytes in memory, which must outlive the stream. */
struct zstream *zstream_open_bytes(const void *bytes, size_t len, struct err *err);
void zstream_free(struct zstream *stream);
void zstream_freep(struct zstream **stream);

/**
 * zstream_read() - the next decoded bytes, at most @max; blocks like read(2). Return: > 0 bytes, 0
 * at the end (also where damage ends what can be decoded), negative errno with @err when the
 * operating system fails or memory is short.
 */
ssize_t zstream_read(struct zstream *stream, void *to, size_t max, struct err *err);

/** zstream_kind() - what the content turned out to be; known once the stream is open. */
enum zstream_kind zstream_kind(const struct zstream *stream);
/**
 * zstream_damaged() - NULL, or after the end why decoding ended early ("compressed data ends
 * early", ...).
 */
const char *zstream_damaged(const struct zstream *stream);
/**
 * zstream_progress() - compressed bytes consumed so far, and their total (0 where unknown: not a
 * regular file).
 */
void zstream_progress(const struct zstream *stream, uint64_t *done, uint64_t *total);

/**
 * zstream_writer() - a stdio stream that compresses into @to; fclose() it to finish the frame (it
 * reports failed writes),
 * @to stays open. ZSTREAM_PLAIN is refused (-EINVAL): use @to itself. NULL with @err.
 */
FILE *zstream_writer(FILE *to, enum zstream_kind kind, struct err *err);
/**
 * zstream_kind_for_name() - the compression that a file name ending in ".gz" or ".zst" asks for,
 * else plain.
 */
enum zstream_kind zstream_kind_for_name(const char *path);

#endif
