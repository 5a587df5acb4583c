/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h - the IP and TCP headers of a captured packet. Pure; any thread. */
#ifndef NET_PACKET_H
#define NET_PACKET_H

#include "net/tcp.h"

enum net_packet { NET_PACKET_SEGMENT, NET_PACKET_OTHER, NET_PACKET_FRAGMENT, NET_PACKET_DAMAGED };

/**
 * net_packet() - @bytes begin at the IP header (4 or 6); what is cut off behind @len counts as not
 * captured. Fills
 * @seg, which the caller zeroed, but for its time; its bytes are lent from @bytes. Valid with
 * NET_PACKET_SEGMENT only.
 */
enum net_packet net_packet(const uint8_t *bytes, size_t len, struct net_tcp_segment *seg);

#endif
