/* SPDX-License-Identifier: Apache-2.0 */
/* net_limits.h - what the jobs of `byteledger net` share. */
#ifndef CMD_NET_LIMITS_H
#define CMD_NET_LIMITS_H

#define NET_POW_DIFFICULTY 26.0 /* what nodes demand by default */
#define NET_REPLAY_SEEK_BUDGET \
	(64ull << 30) /* nothing waits for a replay: up to a minute for a gap */

#endif
