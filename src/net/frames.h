/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h - syslog messages out of a TCP stream: both framings of RFC 6587, a count of bytes in
 * front ("123 <27>1 ...") or a line end behind, told apart message by message. What comes out does
 * not depend on how the bytes came in.
 */
#ifndef NET_FRAMES_H
#define NET_FRAMES_H

#include <stddef.h>

/*
 * Bytes of a message with its count or line end; of a longer one the rest is cut off. Smaller where
 * it is fuzzed.
 */
#ifndef NET_FRAME_MAX
#define NET_FRAME_MAX 65536
#endif

/** struct net_frames - one stream; zero-initialised is empty and valid, nothing to release. */
struct net_frames {
	size_t len;
	/* bytes to come of a counted frame that was too long */
	size_t skip;
	/* the rest of the line at hand belongs to one that was too long */
	int skip_line;
	char data[NET_FRAME_MAX];
};

/** A message, lent, without its frame (a line end may be left). @cut: its end is missing. */
typedef void (*net_frame_fn)(void *ctx, const char *text, size_t len, int cut);

/** net_frames_room() - where the next bytes of the stream go, and how many fit; never 0. */
char *net_frames_room(struct net_frames *frames, size_t *bytes);
/**
 * net_frames_fed() - @bytes came there; hands over every message that is complete, with @ended also
 * one that is not.
 */
void net_frames_fed(struct net_frames *frames, size_t bytes, int ended, net_frame_fn fn, void *ctx);

#endif
