/* SPDX-License-Identifier: Apache-2.0 */
#include "net/frames.h"

#include <string.h>

#define COUNT_DIGITS_MAX 6

/*
 * "123 <27>1 ...": the length of the count with its blank; 0 = a line, -1 = more bytes are needed
 * to tell.
 */
static int count_length(const char *data, size_t len, size_t *count)
{
	size_t i = 0;
	*count = 0;
	for (; i < len && i <= COUNT_DIGITS_MAX && data[i] >= '0' && data[i] <= '9'; i++)
		*count = *count * 10 + (size_t)(data[i] - '0');
	if (i == len)
		return -1;
	/* a line may begin with a number too; a counted message begins with a priority */
	if (i == 0 || i > COUNT_DIGITS_MAX || !*count || data[i] != ' ')
		return 0;
	if (i + 1 == len)
		return -1;
	return data[i + 1] == '<' ? (int)i + 1 : 0;
}

/*
 * Bytes taken off the front of what is left; 0 = more are needed. A full buffer always gives some.
 */
static size_t take_counted(struct net_frames *f, size_t at, size_t head, size_t count, int ended,
			   net_frame_fn fn, void *ctx)
{
	size_t len = f->len - at, whole = head + count;
	size_t most = whole < NET_FRAME_MAX ? whole : NET_FRAME_MAX;
	if (len < most && !ended)
		return 0;
	if (len > most)
		len = most;
	fn(ctx, f->data + at + head, len - head, len < whole);
	f->skip = ended ? 0 : whole - len;
	return len;
}

static size_t take_line(struct net_frames *f, size_t at, int ended, net_frame_fn fn, void *ctx)
{
	const char *data = f->data + at, *end = memchr(data, '\n', f->len - at);
	size_t len = end ? (size_t)(end - data) : f->len - at;
	if (!end && !ended && len < NET_FRAME_MAX)
		return 0;
	/* empty lines are nothing: some senders put one behind each counted frame */
	if (!f->skip_line && len)
		fn(ctx, data, len, !end && !ended);
	f->skip_line = !end && !ended;
	return end ? len + 1 : len;
}

static size_t take(struct net_frames *f, size_t at, int ended, net_frame_fn fn, void *ctx)
{
	size_t count, len = f->len - at;
	if (f->skip) {
		size_t n = f->skip < len ? f->skip : len;
		f->skip -= n;
		return n;
	}
	int head = f->skip_line ? 0 : count_length(f->data + at, len, &count);
	if (head > 0)
		return take_counted(f, at, (size_t)head, count, ended, fn, ctx);
	return head < 0 && !ended ? 0 : take_line(f, at, ended, fn, ctx);
}

char *net_frames_room(struct net_frames *frames, size_t *bytes)
{
	*bytes = sizeof(frames->data) - frames->len;
	return frames->data + frames->len;
}

void net_frames_fed(struct net_frames *frames, size_t bytes, int ended, net_frame_fn fn, void *ctx)
{
	size_t at = 0, n;
	frames->len += bytes;
	while (at < frames->len && (n = take(frames, at, ended, fn, ctx)))
		at += n;
	memmove(frames->data, frames->data + at, frames->len - at);
	frames->len -= at;
}
