/* SPDX-License-Identifier: Apache-2.0 */
#include "net/packet.h"

#include <string.h>

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)be16(p) << 16 | be16(p + 2);
}

enum net_packet net_packet(const uint8_t *p, size_t len, struct net_tcp_segment *seg)
{
	size_t at, total;
	if (len < 20) {
		return NET_PACKET_OTHER;
	}
	if (p[0] >> 4 == 4) {
		at = (size_t)(p[0] & 15) * 4;
		total = be16(p + 2);
		if (at < 20) {
			return NET_PACKET_DAMAGED;
		}
		if (be16(p + 6) & 0x3fff) {
			return NET_PACKET_FRAGMENT;
		}
		if (p[9] != 6) {
			return NET_PACKET_OTHER;
		}
		seg->from.ip[10] = seg->from.ip[11] = seg->to.ip[10] = seg->to.ip[11] = 0xff;
		memcpy(seg->from.ip + 12, p + 12, 4);
		memcpy(seg->to.ip + 12, p + 16, 4);
		/* segmentation offload leaves the length empty */
		if (total == 0)
			total = len;
	} else if (p[0] >> 4 == 6 && len >= 40) {
		unsigned next = p[6];
		at = 40;
		total = be16(p + 4) ? 40 + (size_t)be16(p + 4) : len;
		memcpy(seg->from.ip, p + 8, 16);
		memcpy(seg->to.ip, p + 24, 16);
		while ((next == 0 || next == 43 || next == 60) && len >= at + 8) {
			next = p[at];
			at += 8 + (size_t)p[at + 1] * 8;
		}
		if (next == 44) {
			return NET_PACKET_FRAGMENT;
		}
		if (next != 6) {
			return NET_PACKET_OTHER;
		}
	} else {
		return NET_PACKET_OTHER;
	}
	if (len < at + 20 || total < at + 20) {
		return NET_PACKET_DAMAGED;
	}
	const uint8_t *t = p + at;
	size_t header = (size_t)(t[12] >> 4) * 4;
	if (header < 20 || total < at + header || len < at + header) {
		return NET_PACKET_DAMAGED;
	}
	seg->from.port = (uint16_t)be16(t);
	seg->to.port = (uint16_t)be16(t + 2);
	seg->seq = be32(t + 4);
	seg->ack = be32(t + 8);
	seg->fin = t[13] & 1;
	seg->syn = t[13] >> 1 & 1;
	seg->rst = t[13] >> 2 & 1;
	seg->has_ack = t[13] >> 4 & 1;
	seg->bytes = t + header;
	seg->len = total - at - header;
	seg->captured = len - at - header < seg->len ? len - at - header : seg->len;
	return NET_PACKET_SEGMENT;
}
