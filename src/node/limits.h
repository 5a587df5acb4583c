/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - what the jobs of `byteledger net` share. */
#ifndef NODE_LIMITS_H
#define NODE_LIMITS_H

#include "base/clock.h"

#define NODE_POW_DIFFICULTY 26.0 /* what nodes demand by default */
/*
 * Nothing waits for a replay, but its captures come from strangers, too: 0.3 s for a connection, 16
 * s for all of them, and 1 us for each byte.
 */
#define NODE_REPLAY_BURSTS (16ull * NS_PER_S)
#define NODE_REPLAY_SEEK(left)                                               \
	{                                                                    \
		.burst = 256u * 1000000u, .per_byte = 1000, .bursts = (left) \
	}

/*
 * A connection that searches gives way to others after 2 ms, and after so many bytes of what came
 * for it meanwhile.
 */
#define NODE_SEEK_SLICE 2000000u
#define NODE_INBOX_STEP (256u << 10)

#endif
