/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP reassembly on any segments. Each 8 input bytes are a segment of one of four connections: what comes out has to be the
 * stream that the sequence numbers say, every byte once and in order or in a gap.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct checker {
	struct net_tcp_sink sink;
	uint64_t opened, closed;
};

/* A byte's value is told by its place in the sequence space, so that a misplaced one shows. */
static uint8_t byte_at(uint32_t seq)
{
	return (uint8_t)(seq * 2654435761u >> 24);
}

static int on_open(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns,
		   const struct net_addr *initiator, const struct net_addr *responder, int syn_seen,
		   struct err *err)
{
	struct checker *checker = (struct checker *)sink;
	char text[NET_ADDR_TEXT_MAX];
	(void)time_ns, (void)syn_seen, (void)err;
	net_addr_text(initiator, text);
	net_addr_text(responder, text);
	if (flow != checker->opened++)
		abort();
	return 0;
}

static int on_data(struct net_tcp_sink *sink, uint64_t flow, int from, uint64_t time_ns,
		   const uint8_t *bytes, size_t len, struct err *err)
{
	(void)sink, (void)flow, (void)from, (void)time_ns, (void)err;
	if (!len)
		abort();
	/* consecutive places: each value has to be that of a place one behind its neighbour's */
	for (uint32_t base = 0, tried = 0; tried < 1u << 16; tried++, base++) {
		size_t i = 0;
		while (i < len && i < 16 && byte_at(base + (uint32_t)i) == bytes[i])
			i++;
		if (i == len || i == 16)
			return 0;
	}
	abort();
}

static int on_gap(struct net_tcp_sink *sink, uint64_t flow, int from, uint64_t time_ns,
		  uint64_t lost, struct err *err)
{
	(void)sink, (void)flow, (void)from, (void)time_ns, (void)err;
	if (!lost || lost > UINT32_MAX)
		abort();
	return 0;
}

static int on_close(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct checker *checker = (struct checker *)sink;
	(void)flow, (void)time_ns, (void)err;
	if (!reason || checker->closed++ >= checker->opened)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct checker checker = { .sink = { on_open, on_data, on_gap, on_close } };
	struct err err = { 0 };
	uint8_t payload[256];
	struct net_tcp *tcp = net_tcp_new(&checker.sink, &err);
	if (!tcp)
		abort();
	for (size_t at = 0; size - at >= 8 && at < 8 * 4096; at += 8) {
		const uint8_t *p = data + at;
		/* 16 bits of sequence space, across the wrap */
		uint32_t seq = 0xffff8000u + ((uint32_t)p[0] << 8 | p[1]);
		uint32_t ack = 0xffff8000u + ((uint32_t)p[2] << 8 | p[3]);
		struct net_tcp_segment seg = { .time_ns = at,
					       .seq = seq,
					       .ack = ack,
					       .fin = p[4] & 1,
					       .syn = p[4] >> 1 & 1,
					       .rst = (p[4] >> 2 & 7) == 7,
					       .has_ack = p[4] >> 5 & 1,
					       .bytes = payload,
					       .captured = p[5],
					       .len = (size_t)p[5] + (p[6] >> 7) * 5u };
		for (size_t i = 0; i < seg.captured; i++)
			payload[i] = byte_at(seq + seg.syn + (uint32_t)i - 0xffff8000u);
		seg.from.port = (uint16_t)(10 + (p[7] & 3));
		seg.to.port = 20;
		if (p[7] & 4) {
			struct net_addr swap = seg.from;
			seg.from = seg.to;
			seg.to = swap;
		}
		if (net_tcp_segment(tcp, &seg, &err) < 0)
			abort();
	}
	if (net_tcp_finish(tcp, size, &err) < 0 || checker.closed != checker.opened)
		abort();
	net_tcp_free(tcp);
	return 0;
}
