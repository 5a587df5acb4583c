/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a network namespace to connections (source/netcap_track.h): any packets, whoever they say sent them.
 * Every connection that is opened is closed.
 */
#include <errno.h>
#include <string.h>

#include "fuzz_capture.h"
#include "net/packet.h"
#include "source/netcap_track.h"

static int whose(void *ctx, const struct net_tcp_segment *syn, struct netcap_owner_who *who)
{
	static const int answers[4] = { 1, 1, 0, -ENOENT };
	(void)ctx;
	*who = (struct netcap_owner_who){ 1, 9732 };
	return answers[syn->from.port & 3];
}

static int is_there(void *ctx, const struct net_addr *local, const struct net_addr *remote)
{
	(void)ctx;
	return (local->port ^ remote->port) & 1;
}

/* A packet from 6 bytes: flags, which sockets, where in the streams, how much. */
static void packet(uint8_t out[60], const uint8_t *in)
{
	memset(out, 0, 60);
	out[0] = 0x45;
	out[3] = (uint8_t)(40 + in[5] % 20);
	out[9] = 6;
	out[15] = out[19] = 1;
	out[21] = in[1] & 7;
	out[23] = in[1] >> 3 & 7;
	out[26] = in[3] & 0x80;
	out[27] = in[2];
	out[30] = in[4] & 0x80;
	out[31] = in[3];
	out[32] = 0x50;
	out[33] = in[0] & 0x1f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct checker checker;
	struct err err = { 0 };
	checker_init(&checker);
	struct netcap_track_opt opt = { .connections_max = 8, .whose = whose };
	struct netcap_flows *flows = netcap_flows_new(&err);
	struct netcap_track *track = flows ? netcap_track_new(&opt, flows, &err) : NULL;
	if (!track)
		abort();
	for (size_t at = 0, n = 0; size - at >= 6 && n < CONNS / 2; at += 6, n++) {
		uint8_t bytes[60];
		struct net_tcp_segment seg;
		memset(&seg, 0, sizeof(seg));
		packet(bytes, data + at);
		seg.time_ns = n;
		if (data[at] >> 5 == 7) {
			netcap_track_dropped(track, n);
			if (netcap_track_sweep(track, n, n, is_there, NULL, &checker.sink, &err) <
			    0)
				abort();
		}
		if (net_packet(bytes, 40 + data[at + 5] % 20u, &seg) != NET_PACKET_SEGMENT)
			continue;
		if (data[at] >> 5 == 6) {
			struct netcap_owner_who who = { 1, 9732 };
			if (netcap_track_late(track, &seg.from, &seg.to, &who, 1, n, &checker.sink,
					      &err) < 0)
				abort();
		}
		if (netcap_track_segment(track, &seg, 1 + (data[at] >> 5) % 3, &checker.sink,
					 &err) < 0)
			abort();
	}
	if (netcap_flows_finish(flows, 1, "recording ended", netcap_track_last, track,
				&checker.sink, &err) < 0 ||
	    checker.closed != checker.opened)
		abort();
	netcap_track_free(track);
	netcap_flows_free(flows);
	return 0;
}
