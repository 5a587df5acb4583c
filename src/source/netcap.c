/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "source/netcap_bpf.h"
#include "source/netcap_flows.h"
#include "source/netcap_packet.h"

#define GATHER_NS \
	5000000ull        /* under traffic: how long records may pile up before they are fetched */
#define WAIT_MS 100       /* the longest single wait */
#define SWEEP_NS NS_PER_S /* how often it is asked whether closings were lost */
/*
 * the first marks who is gone, the second closes them and marks whose opening was still on its way,
 * the third closes these
 */
#define SWEEPS 3
#define CLOCK_NS NS_PER_S /* how often wall clock is compared with the records' clock */

struct netcap {
	/* one of the two */
	struct netcap_bpf *bpf;
	struct netcap_packet *packet;
	/* not BPF */
	char why[512];
	struct netcap_flows *flows;
	uint64_t clock_read_ns, drained_ns, swept_ns;
	/* at the last sweep */
	uint64_t lost_events;
	/* still to do */
	int sweeps;
	/* the last drain found something */
	int busy;
	/* while polling */
	struct netcap_sink *sink;
	struct err *err;
};

/* Wall clock is stepped and slewed: the difference is taken again and again. */
static void read_clock(struct netcap *cap, uint64_t now)
{
	if (cap->clock_read_ns && now - cap->clock_read_ns < CLOCK_NS)
		return;
	uint64_t before = clock_ns(CLOCK_MONOTONIC), wall = clock_ns(CLOCK_REALTIME),
		 after = clock_ns(CLOCK_MONOTONIC);
	netcap_flows_clock(cap->flows, (int64_t)(wall - (before + (after - before) / 2)));
	cap->clock_read_ns = now;
}

static int open_bpf(struct netcap *cap, const struct netcap_opt *opt, struct err *err)
{
	int rc = netcap_bpf_load(opt, &cap->bpf, err);
	if (rc < 0)
		return rc;
	read_clock(cap, clock_ns(CLOCK_MONOTONIC));
	return netcap_bpf_attach(cap->bpf, err);
}

/* BPF is refused, @err says why: that stays the error unless packets can be had. */
static int fall_back(struct netcap *cap, const struct netcap_opt *opt, struct err *err)
{
	struct err packets = { 0 };
	netcap_bpf_free(cap->bpf);
	cap->bpf = NULL;
	netcap_flows_clock(cap->flows, 0);
	snprintf(cap->why, sizeof(cap->why), "%s", err->msg);
	if (netcap_packet_open(opt, cap->flows, &cap->packet, &packets) < 0) {
		int code = err->code;
		char hint[sizeof(err->hint)];
		snprintf(hint, sizeof(hint), "%s", err->hint);
		err_set(err, -EINVAL, "%s; without BPF: %s", cap->why, packets.msg);
		err->code = code;
		return err_hint(err, "%.400s; CAP_NET_RAW is enough for packet sockets", hint);
	}
	err_init(err);
	return 0;
}

int netcap_open(const struct netcap_opt *opt, struct netcap **out, struct err *err)
{
	if (!opt->port_count && !opt->pid_count)
		return err_set(err, -EINVAL,
			       "cannot capture: neither a port nor a process is given");
	if (opt->port_count > NETCAP_PORTS_MAX || opt->skip_remote_port_count > WIRE_NET_SKIP_MAX)
		return err_set(err, -EINVAL, "cannot capture on more than %d ports",
			       NETCAP_PORTS_MAX);
	struct netcap *cap = calloc(1, sizeof(*cap));
	if (!cap)
		return err_set(err, -ENOMEM, "cannot allocate the network capture");
	cap->flows = netcap_flows_new(err);
	int rc = cap->flows ? 0 : -ENOMEM;
	if (!rc)
		rc = opt->backend == NETCAP_PACKET
			     ? netcap_packet_open(opt, cap->flows, &cap->packet, err)
			     : open_bpf(cap, opt, err);
	if (rc < 0 && rc != -ENOMEM && opt->backend == NETCAP_AUTO)
		rc = fall_back(cap, opt, err);
	if (rc < 0) {
		netcap_close(cap);
		return rc;
	}
	*out = cap;
	return 0;
}

enum netcap_backend netcap_backend(const struct netcap *cap)
{
	return cap->packet ? NETCAP_PACKET : NETCAP_BPF;
}

const char *netcap_why(const struct netcap *cap)
{
	return cap->why;
}

static int take_record(void *ctx, const void *bytes, size_t len)
{
	struct netcap *cap = ctx;
	return netcap_flows_record(cap->flows, bytes, len, cap->sink, cap->err);
}

static int is_there(void *ctx, uint64_t cookie)
{
	return netcap_bpf_socket(ctx, cookie) || errno != ENOENT;
}

/*
 * The ring was just emptied. Where closings found no room in it, the kernel's table tells which
 * connections are gone.
 */
static int sweep(struct netcap *cap, struct netcap_sink *sink, struct err *err)
{
	struct wire_net_counters kernel;
	uint64_t processes;
	if (cap->drained_ns - cap->swept_ns < SWEEP_NS)
		return 0;
	cap->swept_ns = cap->drained_ns;
	int rc = netcap_bpf_counters(cap->bpf, &kernel, &processes, err);
	if (rc < 0) {
		/* without CAP_BPF nobody can tell, which netcap_stats() says */
		err_init(err);
		return 0;
	}
	if (kernel.lost_events != cap->lost_events)
		cap->sweeps = SWEEPS;
	cap->lost_events = kernel.lost_events;
	if (!cap->sweeps)
		return 0;
	cap->sweeps--;
	return netcap_flows_sweep(cap->flows, clock_ns(CLOCK_REALTIME), is_there, cap->bpf, sink,
				  err);
}

static int drain(struct netcap *cap, struct netcap_sink *sink, struct err *err)
{
	cap->sink = sink;
	cap->err = err;
	err_init(err);
	int n = netcap_bpf_drain(cap->bpf, take_record, cap);
	if (n < 0 && !err->code)
		err_set(err, n, "cannot read the ring of network records");
	cap->busy = n > 0;
	cap->drained_ns = clock_ns(CLOCK_MONOTONIC);
	int rc = n >= 0 && n < NETCAP_BPF_DRAIN_MAX ? sweep(cap, sink, err) : 0;
	return rc < 0 ? rc : n;
}

/* Wait and drain once; *@left_ms is what remains of the caller's time. */
static int turn(struct netcap *cap, uint64_t *left_ns, struct netcap_sink *sink, struct err *err)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC), wait = *left_ns;
	int rc = 0;
	read_clock(cap, began);
	if (cap->busy) {
		uint64_t since = began - cap->drained_ns;
		wait = since < GATHER_NS ? GATHER_NS - since : 0;
		netcap_bpf_arm(cap->bpf, WIRE_NET_WAKE_HALF);
	} else {
		int n;
		netcap_bpf_arm(cap->bpf, WIRE_NET_WAKE_FIRST);
		if ((n = drain(cap, sink, err)) != 0)
			return n;
	}
	if (wait > *left_ns)
		wait = *left_ns;
	if (wait > WAIT_MS * 1000000ull)
		wait = WAIT_MS * 1000000ull;
	if (wait)
		rc = netcap_bpf_wait(cap->bpf, (int)((wait + 999999) / 1000000));
	int n = drain(cap, sink, err);
	uint64_t spent = cap->drained_ns - began;
	*left_ns = rc == -EINTR || spent > *left_ns ? 0 : *left_ns - spent;
	return n;
}

int netcap_poll(struct netcap *cap, int timeout_ms, struct netcap_sink *sink, struct err *err)
{
	uint64_t left_ns = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * 1000000u;
	if (cap->packet)
		return netcap_packet_poll(cap->packet, timeout_ms, sink, err);
	int n = timeout_ms ? 0 : drain(cap, sink, err);
	while (!n && left_ns)
		n = turn(cap, &left_ns, sink, err);
	return n;
}

static int bpf_stats(struct netcap *cap, struct netcap_stats *stats, struct err *err)
{
	struct wire_net_counters kernel;
	uint64_t processes;
	int rc = netcap_bpf_counters(cap->bpf, &kernel, &processes, err);
	if (rc < 0)
		return rc;
	for (int way = 0; way < 2; way++) {
		stats->segments[way] = kernel.segments[way];
		stats->bytes[way] = kernel.bytes[way];
		stats->lost_segments[way] = kernel.lost_segments[way];
		stats->lost_bytes[way] = kernel.lost_bytes[way];
	}
	stats->unreadable = kernel.unreadable;
	stats->refused_connections = kernel.refused;
	stats->lost_events = kernel.lost_events;
	stats->nodes = processes;
	stats->ring_bytes = netcap_bpf_ring_bytes(cap->bpf);
	stats->ring_high_water = kernel.high_water;
	return 0;
}

int netcap_stats(struct netcap *cap, struct netcap_stats *stats, struct err *err)
{
	struct netcap_flows_stats flows;
	memset(stats, 0, sizeof(*stats));
	netcap_flows_stats(cap->flows, &flows);
	for (int way = 0; way < 2; way++) {
		stats->delivered_bytes[way] = flows.delivered_bytes[way];
		stats->duplicate_bytes[way] = flows.duplicate_bytes[way];
		stats->gaps[way] = flows.gaps[way];
		stats->gap_bytes[way] = flows.gap_bytes[way];
	}
	stats->bad_records = flows.bad_records;
	stats->unknown_segments = flows.unknown_segments;
	stats->opened = flows.opened;
	stats->open = flows.open;
	stats->closed = flows.closed;
	if (!cap->packet)
		return bpf_stats(cap, stats, err);
	netcap_packet_stats(cap->packet, stats);
	return 0;
}

void netcap_detach(struct netcap *cap)
{
	if (cap->packet)
		netcap_packet_detach(cap->packet);
	else
		netcap_bpf_detach(cap->bpf);
}

static const struct wire_net_socket *last_word(void *ctx, uint64_t cookie)
{
	return netcap_bpf_socket(ctx, cookie);
}

int netcap_finish(struct netcap *cap, struct netcap_sink *sink, struct err *err)
{
	netcap_detach(cap);
	int n = 1;
	while (n > 0)
		n = cap->packet ? netcap_packet_poll(cap->packet, 0, sink, err)
				: drain(cap, sink, err);
	if (n >= 0 && cap->packet)
		n = netcap_packet_rest(cap->packet, sink, err);
	/*
	 * all that the kernel said was handed over: who is gone has closed, whatever the sweeps
	 * have seen of it by now
	 */
	for (int pass = 0; n >= 0 && cap->bpf && pass < 2; pass++)
		n = netcap_flows_sweep(cap->flows, clock_ns(CLOCK_REALTIME), is_there, cap->bpf,
				       sink, err);
	if (n < 0)
		return n;
	return netcap_flows_finish(cap->flows, clock_ns(CLOCK_REALTIME), "recording ended",
				   cap->packet ? netcap_packet_last : last_word,
				   cap->packet ? (void *)cap->packet : (void *)cap->bpf, sink, err);
}

void netcap_close(struct netcap *cap)
{
	if (!cap)
		return;
	netcap_bpf_free(cap->bpf);
	netcap_packet_free(cap->packet);
	netcap_flows_free(cap->flows);
	free(cap);
}
