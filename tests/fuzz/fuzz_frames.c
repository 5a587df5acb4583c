/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_frames.c - syslog over TCP: what comes out does not depend on how the stream came in pieces; each line parses or is refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* with a buffer that short inputs fill */
#define NET_FRAME_MAX 128
#include "net/frames.c"

#include "net/syslog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t hash, lines, bytes;
};

static void on_line(void *ctx, const char *text, size_t len, int cut)
{
	struct seen *seen = ctx;
	struct log_line line;
	for (size_t i = 0; i < len; i++)
		seen->hash = (seen->hash ^ (uint8_t)text[i]) * 0x100000001b3ull;
	seen->hash = (seen->hash ^ (cut ? 257u : 256u)) * 0x100000001b3ull;
	seen->lines++;
	seen->bytes += len;
	if (net_syslog_parse(text, len, 1700000000000000000u, &line) == 0 && line.message_len > len)
		abort();
}

/* In pieces of at most @piece bytes, 0 = as they fit. */
static struct seen feed(const uint8_t *data, size_t size, size_t piece)
{
	struct net_frames *frames = calloc(1, sizeof(*frames));
	struct seen seen = { 0 };
	if (!frames)
		abort();
	for (size_t at = 0, n; at < size; at += n) {
		char *to = net_frames_room(frames, &n);
		if (!n)
			abort();
		n = n < size - at ? n : size - at;
		n = piece && piece < n ? piece : n;
		memcpy(to, data + at, n);
		net_frames_fed(frames, n, 0, on_line, &seen);
	}
	net_frames_fed(frames, 0, 1, on_line, &seen);
	if (frames->len)
		abort();
	free(frames);
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t piece = 1 + data[0] % 100;
	struct seen whole = feed(data + 1, size - 1, 0), pieces = feed(data + 1, size - 1, piece);
	if (memcmp(&whole, &pieces, sizeof(whole)) != 0 || whole.bytes > size - 1)
		abort();
	return 0;
}
