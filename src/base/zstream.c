/* SPDX-License-Identifier: Apache-2.0 */
#include "base/zstream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define IN_BYTES (128 * 1024)
#define OUT_BYTES (128 * 1024)
#define WINDOW_LOG_MAX 27 /* 128 MiB: what a hostile zstd frame may make us allocate */

struct zstream {
	/* -1: bytes in memory */
	int fd;
	char *name;
	enum zstream_kind kind;
	/* IN_BYTES; with bytes in memory not owned: points into them */
	unsigned char *buf;
	/* unread input is buf[pos, len) */
	size_t pos, len;
	int input_ended;
	/* nothing more comes out */
	int ended;
	const char *damaged;
	/* compressed bytes read from the file; its size */
	uint64_t taken, total;
	z_stream gz;
	/* inflateInit done */
	int gz_live;
	/* a whole gzip member or zstd frame has ended: end of input is clean here */
	int between_frames;
	ZSTD_DStream *zstd;
};

void zstream_free(struct zstream *stream)
{
	if (!stream)
		return;
	if (stream->gz_live)
		inflateEnd(&stream->gz);
	ZSTD_freeDStream(stream->zstd);
	if (stream->fd >= 0) {
		close(stream->fd);
		free(stream->buf);
	}
	free(stream->name);
	free(stream);
}

void zstream_freep(struct zstream **stream)
{
	zstream_free(*stream);
	*stream = NULL;
}

/*
 * Top up the input buffer; what is unread stays. Returns 0 at the end of the input too
 * (input_ended).
 */
static int fill(struct zstream *stream, struct err *err)
{
	if (stream->input_ended || stream->fd < 0) {
		stream->input_ended = 1;
		return 0;
	}
	if (stream->pos) {
		memmove(stream->buf, stream->buf + stream->pos, stream->len - stream->pos);
		stream->len -= stream->pos;
		stream->pos = 0;
	}
	if (stream->len == IN_BYTES)
		return 0;
	ssize_t got;
	do {
		got = read(stream->fd, stream->buf + stream->len, IN_BYTES - stream->len);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_set(err, -errno, "cannot read '%s'", stream->name);
	if (got == 0)
		stream->input_ended = 1;
	stream->len += (size_t)got;
	stream->taken += (uint64_t)got;
	return 0;
}

/* The first bytes decide; a fifo may deliver them one by one. */
static int tell_kind(struct zstream *stream, struct err *err)
{
	while (stream->len < 4 && !stream->input_ended) {
		int rc = fill(stream, err);
		if (rc < 0)
			return rc;
	}
	static const unsigned char zstd_magic[4] = { 0x28, 0xb5, 0x2f, 0xfd };
	if (stream->len >= 4 && memcmp(stream->buf, zstd_magic, 4) == 0) {
		stream->kind = ZSTREAM_ZSTD;
		stream->zstd = ZSTD_createDStream();
		if (!stream->zstd)
			return err_set(err, -ENOMEM, "cannot allocate a zstd reader");
		ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	} else if (stream->len >= 2 && stream->buf[0] == 0x1f && stream->buf[1] == 0x8b) {
		stream->kind = ZSTREAM_GZIP;
		if (inflateInit2(&stream->gz, 15 + 16) != Z_OK)
			return err_set(err, -ENOMEM, "cannot allocate a gzip reader");
		stream->gz_live = 1;
	}
	return 0;
}

struct zstream *zstream_open(const char *path, struct err *err)
{
	CLEANUP(zstream_freep) struct zstream *stream = calloc(1, sizeof(*stream));
	if (!stream) {
		err_set(err, -ENOMEM, "cannot allocate a file reader");
		return NULL;
	}
	stream->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (stream->fd < 0) {
		err_set(err, -errno, "cannot open '%s'", path);
		return NULL;
	}
	struct stat st;
	if (fstat(stream->fd, &st) == 0) {
		if (S_ISDIR(st.st_mode)) {
			err_set(err, -EISDIR, "cannot read '%s'", path);
			return NULL;
		}
		if (S_ISREG(st.st_mode))
			stream->total = (uint64_t)st.st_size;
	}
	stream->name = strdup(path);
	stream->buf = malloc(IN_BYTES);
	if (!stream->name || !stream->buf) {
		err_set(err, -ENOMEM, "cannot allocate a file reader");
		return NULL;
	}
	if (tell_kind(stream, err) < 0)
		return NULL;
	return STEAL(stream);
}

struct zstream *zstream_open_bytes(const void *bytes, size_t len, struct err *err)
{
	CLEANUP(zstream_freep) struct zstream *stream = calloc(1, sizeof(*stream));
	if (!stream) {
		err_set(err, -ENOMEM, "cannot allocate a file reader");
		return NULL;
	}
	stream->fd = -1;
	stream->buf = (unsigned char *)bytes;
	stream->len = len;
	stream->taken = stream->total = len;
	stream->input_ended = 1;
	if (tell_kind(stream, err) < 0)
		return NULL;
	return STEAL(stream);
}

static void end_damaged(struct zstream *stream, const char *why)
{
	stream->ended = 1;
	stream->damaged = why;
}

static ssize_t read_plain(struct zstream *stream, void *to, size_t max)
{
	size_t part = stream->len - stream->pos;
	if (part > max)
		part = max;
	memcpy(to, stream->buf + stream->pos, part);
	stream->pos += part;
	return (ssize_t)part;
}

/* Returns bytes written into @to, or negative errno; sets ended. Input is not empty. */
static ssize_t read_gzip(struct zstream *stream, void *to, size_t max, struct err *err)
{
	if (stream->between_frames) {
		/*
		 * Several members in a row are one file; anything else behind a member is padding
		 * or damage.
		 */
		if (stream->buf[stream->pos] != 0x1f) {
			end_damaged(stream, "bytes behind the compressed data");
			return 0;
		}
		inflateReset(&stream->gz);
		stream->between_frames = 0;
	}
	stream->gz.next_in = stream->buf + stream->pos;
	stream->gz.avail_in =
		(uInt)(stream->len - stream->pos > IN_BYTES ? IN_BYTES : stream->len - stream->pos);
	stream->gz.next_out = to;
	stream->gz.avail_out = (uInt)(max > OUT_BYTES ? OUT_BYTES : max);
	uInt room = stream->gz.avail_out;
	int rc = inflate(&stream->gz, Z_NO_FLUSH);
	stream->pos = (size_t)(stream->gz.next_in - stream->buf);
	if (rc == Z_STREAM_END)
		stream->between_frames = 1;
	else if (rc == Z_MEM_ERROR)
		return err_set(err, -ENOMEM, "cannot decompress");
	else if (rc != Z_OK && rc != Z_BUF_ERROR)
		end_damaged(stream, "compressed data is damaged");
	return (ssize_t)(room - stream->gz.avail_out);
}

static ssize_t read_zstd(struct zstream *stream, void *to, size_t max, struct err *err)
{
	ZSTD_inBuffer in = { stream->buf, stream->len, stream->pos };
	ZSTD_outBuffer out = { to, max, 0 };
	size_t rc = ZSTD_decompressStream(stream->zstd, &out, &in);
	stream->pos = in.pos;
	if (ZSTD_isError(rc)) {
		if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
			return err_set(err, -ENOMEM, "cannot decompress");
		end_damaged(stream,
			    ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge
				    ? "compressed data asks for too much memory"
				    : "compressed data is damaged");
		return (ssize_t)out.pos;
	}
	stream->between_frames = rc == 0;
	return (ssize_t)out.pos;
}

ssize_t zstream_read(struct zstream *stream, void *to, size_t max, struct err *err)
{
	while (!stream->ended && max) {
		/*
		 * zstd may hold decoded bytes back with its input used up: it is asked once more
		 * before the end.
		 */
		if (stream->pos == stream->len && !stream->input_ended) {
			int rc = fill(stream, err);
			if (rc < 0)
				return rc;
		}
		int empty = stream->pos == stream->len;
		if (empty && (stream->kind == ZSTREAM_PLAIN || stream->between_frames ||
			      stream->kind == ZSTREAM_GZIP)) {
			if (!stream->input_ended)
				continue;
			stream->ended = 1;
			if (stream->kind != ZSTREAM_PLAIN && !stream->between_frames)
				stream->damaged = "compressed data ends early";
			break;
		}
		ssize_t got;
		size_t before = stream->pos;
		if (stream->kind == ZSTREAM_PLAIN)
			got = read_plain(stream, to, max);
		else if (stream->kind == ZSTREAM_GZIP)
			got = read_gzip(stream, to, max, err);
		else
			got = read_zstd(stream, to, max, err);
		if (got != 0)
			return got;
		if (stream->pos == before && !stream->ended && stream->input_ended)
			end_damaged(stream, "compressed data ends early");
	}
	return 0;
}

enum zstream_kind zstream_kind(const struct zstream *stream)
{
	return stream->kind;
}

const char *zstream_damaged(const struct zstream *stream)
{
	return stream->damaged;
}

void zstream_progress(const struct zstream *stream, uint64_t *done, uint64_t *total)
{
	*done = stream->taken - (stream->len - stream->pos);
	*total = stream->total;
}
