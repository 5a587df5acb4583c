/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zwriter.c - the writing half of zstream.h: a stdio stream whose bytes are compressed on their way
 * into another one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>

#include "base/zstream.h"

#define CHUNK_BYTES (128 * 1024)

struct zwriter {
	FILE *to;
	enum zstream_kind kind;
	z_stream gz;
	ZSTD_CStream *zstd;
	unsigned char chunk[CHUNK_BYTES];
};

static int drain_gzip(struct zwriter *writer, int flush)
{
	int rc;
	do {
		writer->gz.next_out = writer->chunk;
		writer->gz.avail_out = CHUNK_BYTES;
		rc = deflate(&writer->gz, flush);
		size_t have = CHUNK_BYTES - writer->gz.avail_out;
		if (rc == Z_STREAM_ERROR || fwrite(writer->chunk, 1, have, writer->to) != have)
			return -1;
	} while (flush == Z_FINISH ? rc != Z_STREAM_END : writer->gz.avail_out == 0);
	return 0;
}

static int drain_zstd(struct zwriter *writer, ZSTD_inBuffer *in, ZSTD_EndDirective how)
{
	size_t rest;
	do {
		ZSTD_outBuffer out = { writer->chunk, CHUNK_BYTES, 0 };
		rest = ZSTD_compressStream2(writer->zstd, &out, in, how);
		if (ZSTD_isError(rest) || fwrite(writer->chunk, 1, out.pos, writer->to) != out.pos)
			return -1;
	} while (how == ZSTD_e_end ? rest != 0 : in->pos < in->size);
	return 0;
}

static ssize_t cookie_write(void *cookie, const char *bytes, size_t len)
{
	struct zwriter *writer = cookie;
	int rc;
	if (writer->kind == ZSTREAM_GZIP) {
		if (len > 1u << 30) /* zlib counts in 32 bits; stdio offers the rest again */
			len = 1u << 30;
		writer->gz.next_in = (Bytef *)bytes;
		writer->gz.avail_in = (uInt)len;
		rc = drain_gzip(writer, Z_NO_FLUSH);
	} else {
		ZSTD_inBuffer in = { bytes, len, 0 };
		rc = drain_zstd(writer, &in, ZSTD_e_continue);
	}
	/* fopencookie(3): 0, not -1, is how a write function reports failure */
	return rc < 0 ? 0 : (ssize_t)len;
}

static int cookie_close(void *cookie)
{
	struct zwriter *writer = cookie;
	int rc;
	if (writer->kind == ZSTREAM_GZIP) {
		writer->gz.avail_in = 0;
		rc = drain_gzip(writer, Z_FINISH);
		deflateEnd(&writer->gz);
	} else {
		ZSTD_inBuffer in = { NULL, 0, 0 };
		rc = drain_zstd(writer, &in, ZSTD_e_end);
		ZSTD_freeCStream(writer->zstd);
	}
	free(writer);
	return rc;
}

FILE *zstream_writer(FILE *to, enum zstream_kind kind, struct err *err)
{
	if (kind != ZSTREAM_GZIP && kind != ZSTREAM_ZSTD) {
		err_set(err, -EINVAL, "cannot write a compressed stream without a compression");
		return NULL;
	}
	struct zwriter *writer = calloc(1, sizeof(*writer));
	if (!writer)
		goto no_memory;
	writer->to = to;
	writer->kind = kind;
	if (kind == ZSTREAM_GZIP) {
		if (deflateInit2(&writer->gz, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
		    Z_OK)
			goto no_memory;
	} else {
		writer->zstd = ZSTD_createCStream();
		if (!writer->zstd)
			goto no_memory;
		ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_checksumFlag, 1);
	}
	static const cookie_io_functions_t io = { .write = cookie_write, .close = cookie_close };
	FILE *out = fopencookie(writer, "w", io);
	if (out) {
		setvbuf(out, NULL, _IOFBF, 64 * 1024);
		return out;
	}
	if (kind == ZSTREAM_GZIP)
		deflateEnd(&writer->gz);
	else
		ZSTD_freeCStream(writer->zstd);
no_memory:
	free(writer);
	err_set(err, -ENOMEM, "cannot allocate a compressing writer");
	return NULL;
}

static int ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);
	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

enum zstream_kind zstream_kind_for_name(const char *path)
{
	if (ends_with(path, ".gz"))
		return ZSTREAM_GZIP;
	return ends_with(path, ".zst") ? ZSTREAM_ZSTD : ZSTREAM_PLAIN;
}
