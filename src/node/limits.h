/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - what the jobs of `byteledger net` share. */
#ifndef NODE_LIMITS_H
#define NODE_LIMITS_H

#define NODE_POW_DIFFICULTY 26.0 /* what nodes demand by default */
#define NET_REPLAY_SEEK_BUDGET \
	(64ull << 30) /* nothing waits for a replay: up to a minute for a gap */

#endif
