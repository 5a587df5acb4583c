/* SPDX-License-Identifier: Apache-2.0 */
#include "base/zonce.h"

#include <errno.h>
#include <zlib.h>
#include <zstd.h>

int zonce_gzip(struct buf *to, const void *from, size_t len)
{
	z_stream z = { .next_in = (Bytef *)from };
	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	/* zlib counts in 32 bits: in pieces */
	int rc = Z_OK;
	while (rc == Z_OK) {
		if (!z.avail_in) {
			z.avail_in = len > 1u << 30 ? 1u << 30 : (uInt)len;
			len -= z.avail_in;
		}
		size_t room = z.avail_in + 1024;
		room = room > 1u << 20 ? 1u << 20 : room;
		z.next_out = (Bytef *)buf_reserve(to, room);
		if (!z.next_out)
			break;
		z.avail_out = (uInt)room;
		rc = deflate(&z, len ? Z_NO_FLUSH : Z_FINISH);
		to->len += room - z.avail_out;
	}
	deflateEnd(&z);
	return rc == Z_STREAM_END && !buf_failed(to) ? 0 : -ENOMEM;
}

int zonce_zstd(struct buf *to, const void *from, size_t len)
{
	size_t room = ZSTD_compressBound(len);
	char *out = buf_reserve(to, room);
	size_t made = out ? ZSTD_compress(out, room, from, len, 1) : 0;
	if (!out || ZSTD_isError(made))
		return -ENOMEM;
	to->len += made;
	return 0;
}
