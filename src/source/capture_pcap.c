/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "source/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcap/pcap.h>

#include "base/late.h"
#include "net/packet.h"

static struct {
	__typeof__(&pcap_close) close;
	__typeof__(&pcap_datalink) datalink;
	__typeof__(&pcap_next_ex) next_ex;
	__typeof__(&pcap_open_offline_with_tstamp_precision) open_offline_with_tstamp_precision;
} library;

static int get_library(struct err *err)
{
	static const char *const files[] = { "libpcap.so.0.8", "libpcap.so.1", NULL };
	static const struct late_function functions[] = {
		LATE_FUNCTION(library, pcap_, close),
		LATE_FUNCTION(library, pcap_, datalink),
		LATE_FUNCTION(library, pcap_, next_ex),
		LATE_FUNCTION(library, pcap_, open_offline_with_tstamp_precision),
	};
	static struct late late = { .files = files,
				    .package = "libpcap0.8",
				    .functions = functions,
				    .count = ARRAY_LEN(functions),
				    .lock = PTHREAD_MUTEX_INITIALIZER };
	return late_get(&late, err);
}

/* Adapts net/tcp's sink to the capture's. */
struct adapter {
	struct net_tcp_sink tcp_sink;
	struct capture_sink *sink;
	struct capture_stats *stats;
};

static int on_open(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns,
		   const struct net_addr *initiator, const struct net_addr *responder, int syn_seen,
		   struct err *err)
{
	struct adapter *a = (struct adapter *)sink;
	char from[NET_ADDR_TEXT_MAX], to[NET_ADDR_TEXT_MAX];
	net_addr_text(initiator, from);
	net_addr_text(responder, to);
	struct capture_conn conn = { .conn = flow,
				     .time_ns = time_ns,
				     .initiator_addr = from,
				     .responder_addr = to,
				     .attached_late = !syn_seen };
	return a->sink->open(a->sink, &conn, err);
}

static int on_data(struct net_tcp_sink *sink, uint64_t flow, int from_initiator, uint64_t time_ns,
		   const uint8_t *bytes, size_t len, struct err *err)
{
	struct adapter *a = (struct adapter *)sink;
	a->stats->payload_bytes += len;
	return a->sink->data(a->sink, flow, from_initiator, time_ns, bytes, len, err);
}

static int on_gap(struct net_tcp_sink *sink, uint64_t flow, int from_initiator, uint64_t time_ns,
		  uint64_t lost, struct err *err)
{
	struct adapter *a = (struct adapter *)sink;
	return a->sink->gap(a->sink, flow, from_initiator, time_ns, lost, err);
}

static int on_close(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct adapter *a = (struct adapter *)sink;
	return a->sink->close(a->sink, flow, time_ns, reason, err);
}

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* Link header in front of the IP header: its length, or -1 where the packet is no IP. */
static int link_header(int type, const uint8_t *p, size_t len)
{
	size_t at;
	unsigned proto;
	switch (type) {
	case DLT_EN10MB:
		at = 12;
		while (len >= at + 2 && (be16(p + at) == 0x8100 || be16(p + at) == 0x88a8))
			at += 4;
		if (len < at + 2)
			return -1;
		proto = be16(p + at);
		at += 2;
		break;
	case DLT_LINUX_SLL:
		if (len < 16)
			return -1;
		proto = be16(p + 14);
		at = 16;
		break;
	case DLT_LINUX_SLL2:
		if (len < 20)
			return -1;
		proto = be16(p);
		at = 20;
		break;
	case DLT_NULL:
	case DLT_LOOP:
		return len > 4 ? 4 : -1;
	case DLT_RAW:
	case DLT_IPV4:
	case DLT_IPV6:
		return 0;
	default:
		return -1;
	}
	return proto == 0x0800 || proto == 0x86dd ? (int)at : -1;
}

static int packet(struct net_tcp *tcp, const uint8_t *bytes, size_t len,
		  struct net_tcp_segment *seg, struct capture_stats *stats, struct err *err)
{
	switch (net_packet(bytes, len, seg)) {
	case NET_PACKET_SEGMENT:
		return net_tcp_segment(tcp, seg, err);
	case NET_PACKET_FRAGMENT:
		stats->fragments++;
		return 0;
	case NET_PACKET_DAMAGED:
		stats->damaged++;
		return 0;
	default:
		stats->not_tcp++;
		return 0;
	}
}

static void closep(pcap_t **pcap)
{
	if (*pcap)
		library.close(*pcap);
}

static void freep_tcp(struct net_tcp **tcp)
{
	net_tcp_free(*tcp);
}

int capture_read_pcap(const char *path, struct capture_sink *sink, struct capture_stats *stats,
		      struct err *err)
{
	char why[PCAP_ERRBUF_SIZE] = "";
	if (get_library(err) < 0)
		return err->code;
	CLEANUP(closep)
	pcap_t *pcap =
		library.open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, why);
	if (!pcap)
		return err_set(err, -EINVAL, "cannot read capture '%s': %s", path, why);
	struct adapter adapter = { .tcp_sink = { on_open, on_data, on_gap, on_close },
				   .sink = sink,
				   .stats = stats };
	CLEANUP(freep_tcp) struct net_tcp *tcp = net_tcp_new(&adapter.tcp_sink, err);
	if (!tcp)
		return -ENOMEM;
	int type = library.datalink(pcap), rc = 0, got;
	uint64_t time_ns = 0;
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	while (rc >= 0 && (got = library.next_ex(pcap, &header, &bytes)) == 1) {
		stats->records++;
		time_ns = (uint64_t)header->ts.tv_sec * NS_PER_S + (uint64_t)header->ts.tv_usec;
		struct net_tcp_segment seg = { .time_ns = time_ns };
		int skip = link_header(type, bytes, header->caplen);
		if (skip < 0)
			stats->not_tcp++;
		else
			rc = packet(tcp, bytes + skip, header->caplen - (size_t)skip, &seg, stats,
				    err);
	}
	if (rc >= 0 && got == PCAP_ERROR)
		stats->damaged++;
	return rc < 0 ? rc : net_tcp_finish(tcp, time_ns, err);
}

int capture_read(const char *path, struct capture_sink *sink, struct capture_stats *stats,
		 struct err *err)
{
	FILE *file = fopen(path, "re");
	if (!file)
		return err_set(err, -errno, "cannot open capture '%s'", path);
	uint8_t magic[4] = { 0 };
	size_t n = fread(magic, 1, 4, file);
	fclose(file);
	static const uint8_t pcaps[][4] = { { 0xd4, 0xc3, 0xb2, 0xa1 },
					    { 0xa1, 0xb2, 0xc3, 0xd4 },
					    { 0x4d, 0x3c, 0xb2, 0xa1 },
					    { 0xa1, 0xb2, 0x3c, 0x4d },
					    { 0x0a, 0x0d, 0x0d, 0x0a } };
	for (size_t i = 0; n == 4 && i < ARRAY_LEN(pcaps); i++) {
		if (memcmp(magic, pcaps[i], 4) == 0)
			return capture_read_pcap(path, sink, stats, err);
	}
	size_t blank = 0;
	while (blank < n && (magic[blank] == ' ' || magic[blank] == '\n' || magic[blank] == '\r' ||
			     magic[blank] == '\t'))
		blank++;
	if (n && (blank == n || magic[blank] == '{'))
		return capture_read_jsonl(path, sink, stats, err);
	err_set(err, -EINVAL,
		n ? "cannot read capture '%s': neither pcap, pcapng nor JSON lines"
		  : "cannot read capture '%s': it is empty",
		path);
	return err_hint(err, "record one with tcpdump -w, or see 'byteledger net replay --help' "
			     "for the JSON lines form");
}
