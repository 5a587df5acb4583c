/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap_packet.h - the back end behind NETCAP_PACKET: an AF_PACKET socket with a ring (TPACKET_V3)
 * that sees every TCP packet of this network namespace, for where BPF is not permitted. Needs
 * CAP_NET_RAW to open, nothing later; without CAP_SYS_PTRACE (and CAP_DAC_READ_SEARCH) only
 * processes of the same user are recognised. One thread.
 */
#ifndef SOURCE_NETCAP_PACKET_H
#define SOURCE_NETCAP_PACKET_H

#include "source/netcap.h"
#include "source/netcap_flows.h"

struct netcap_packet;

/** netcap_packet_open() - from here on packets are kept; then running nodes are looked for. */
int netcap_packet_open(const struct netcap_opt *opt, struct netcap_flows *flows,
		       struct netcap_packet **out, struct err *err);
/** netcap_packet_try() - whether a small one can be opened. */
int netcap_packet_try(struct err *err);
/** netcap_packet_poll() - as netcap_poll(). */
int netcap_packet_poll(struct netcap_packet *packet, int timeout_ms, struct netcap_sink *sink,
		       struct err *err);
/** netcap_packet_stats() - the part of @stats that the flows do not know; zeroed by the caller. */
void netcap_packet_stats(struct netcap_packet *packet, struct netcap_stats *stats);
/** netcap_packet_detach() - nothing more is kept. */
void netcap_packet_detach(struct netcap_packet *packet);
/** netcap_packet_rest() - wait for the ring's last block and hand it over. */
int netcap_packet_rest(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err);
/** netcap_packet_last() - for netcap_flows_finish(). */
const struct wire_net_socket *netcap_packet_last(void *packet, uint64_t cookie);
void netcap_packet_free(struct netcap_packet *packet);

#endif
