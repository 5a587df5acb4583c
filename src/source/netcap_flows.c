/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap_flows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/order.h"
#include "net/packet.h"
#include "wire/netcap.h"

#define BUCKETS 16384u
#define EARLY_MAX 64 /* segments that wait for the connection they belong to */

/* One direction of a connection. */
struct way {
	struct net_order order;
	/* the kernel's count at the last record */
	uint32_t lost;
	/* what is missing now found no room */
	uint8_t ring_full;
};

struct flow {
	/* in its bucket */
	struct flow *next;
	uint64_t cookie, conn;
	struct net_addr local, remote;
	uint8_t late;
	/* at the last sweep */
	uint8_t missing;
	/* by WIRE_NET_IN, WIRE_NET_OUT */
	struct way way[2];
};

/* A segment whose socket did not exist yet when it came. */
struct early {
	struct net_addr from;
	uint16_t to_port;
	uint64_t time_ns;
	uint32_t seq;
	uint8_t *bytes;
	size_t len;
};

struct netcap_flows {
	struct flow *bucket[BUCKETS];
	int64_t clock_ns;
	uint64_t conns;
	/* a ring: the oldest is dropped for a new one */
	struct early early[EARLY_MAX];
	unsigned early_next;
	struct netcap_flows_stats stats;
};

/* What net/order's callbacks need. */
struct out {
	struct netcap_flows *flows;
	struct flow *flow;
	int outgoing;
	struct netcap_sink *sink;
};

static int out_data(void *ctx, uint64_t time_ns, uint64_t offset, const uint8_t *bytes, size_t len,
		    struct err *err)
{
	struct out *out = ctx;
	out->flows->stats.delivered_bytes[out->outgoing] += len;
	return out->sink->data(out->sink, out->flow->conn, out->outgoing, time_ns, offset, bytes,
			       len, err);
}

static int out_gap(void *ctx, uint64_t time_ns, uint64_t offset, uint64_t lost, struct err *err)
{
	struct out *out = ctx;
	struct way *way = &out->flow->way[out->outgoing];
	enum netcap_gap why = way->ring_full ? NETCAP_GAP_RING : NETCAP_GAP_UNSEEN;
	out->flows->stats.gaps[out->outgoing]++;
	out->flows->stats.gap_bytes[out->outgoing] += lost;
	return out->sink->gap(out->sink, out->flow->conn, out->outgoing, time_ns, offset, lost, why,
			      err);
}

const char *netcap_gap_text(enum netcap_gap why)
{
	switch (why) {
	case NETCAP_GAP_BEFORE:
		return "moved before recording began";
	case NETCAP_GAP_RING:
		return "the recorder could not keep up";
	default:
		return "never seen";
	}
}

struct netcap_flows *netcap_flows_new(struct err *err)
{
	struct netcap_flows *flows = calloc(1, sizeof(*flows));
	if (!flows)
		err_set(err, -ENOMEM, "cannot allocate the connection table");
	return flows;
}

static void flow_free(struct flow *flow)
{
	net_order_fini(&flow->way[0].order);
	net_order_fini(&flow->way[1].order);
	free(flow);
}

void netcap_flows_free(struct netcap_flows *flows)
{
	if (!flows)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (flows->bucket[i]) {
			struct flow *flow = flows->bucket[i];
			flows->bucket[i] = flow->next;
			flow_free(flow);
		}
	}
	for (unsigned i = 0; i < EARLY_MAX; i++)
		free(flows->early[i].bytes);
	free(flows);
}

void netcap_flows_clock(struct netcap_flows *flows, int64_t offset_ns)
{
	flows->clock_ns = offset_ns;
}

static struct flow **find(struct netcap_flows *flows, uint64_t cookie)
{
	/* cookies are counted up per CPU: their low bits spread well enough */
	struct flow **at = &flows->bucket[(cookie ^ cookie >> 14) % BUCKETS];
	while (*at && (*at)->cookie != cookie)
		at = &(*at)->next;
	return at;
}

static uint64_t wall(const struct netcap_flows *flows, const struct wire_net_head *head)
{
	return head->time_ns + (uint64_t)flows->clock_ns;
}

/* Put the segments that came before the connection was there into it. */
static int take_early(struct netcap_flows *flows, struct flow *flow, const struct net_order_to *to,
		      struct err *err)
{
	int rc = 0;
	for (unsigned n = 0; n < EARLY_MAX && rc >= 0; n++) {
		struct early *early = &flows->early[(flows->early_next + n) % EARLY_MAX];
		if (!early->bytes || early->to_port != flow->local.port ||
		    early->from.port != flow->remote.port ||
		    memcmp(early->from.ip, flow->remote.ip, 16) != 0)
			continue;
		rc = net_order_put(&flow->way[WIRE_NET_IN].order, early->seq, early->time_ns,
				   early->bytes, early->len, to, err);
		free(early->bytes);
		early->bytes = NULL;
	}
	return rc;
}

/* The first byte of both streams is known. */
static int start(struct netcap_flows *flows, struct flow *flow, const struct wire_net_socket *s,
		 struct netcap_sink *sink, struct err *err)
{
	uint64_t time_ns = wall(flows, &s->head);
	int rc = 0;
	for (int way = 0; way < 2 && rc >= 0; way++) {
		struct out out = { flows, flow, way, sink };
		struct net_order_to to = { out_data, out_gap, &out };
		uint64_t before = s->late ? s->before[way] : 0;
		if (flow->way[way].order.known)
			continue;
		if (before)
			rc = sink->gap(sink, flow->conn, way, time_ns, 0, before, NETCAP_GAP_BEFORE,
				       err);
		if (rc >= 0)
			rc = net_order_start(&flow->way[way].order,
					     s->first[way] + (uint32_t)before, before, &to, err);
		if (rc >= 0 && way == WIRE_NET_IN && !s->local_initiated)
			rc = take_early(flows, flow, &to, err);
	}
	return rc;
}

static int on_open(struct netcap_flows *flows, const struct wire_net_socket *s,
		   struct netcap_sink *sink, struct err *err)
{
	struct flow **at = find(flows, s->head.cookie);
	if (*at) {
		flows->stats.bad_records++;
		return 0;
	}
	struct flow *flow = calloc(1, sizeof(*flow));
	if (!flow)
		return err_set(err, -ENOMEM, "cannot allocate a connection");
	*at = flow;
	flow->cookie = s->head.cookie;
	flow->conn = flows->conns++;
	flow->late = s->late != 0;
	memcpy(flow->local.ip, s->local_ip, 16);
	memcpy(flow->remote.ip, s->remote_ip, 16);
	flow->local.port = s->local_port;
	flow->remote.port = s->remote_port;
	flows->stats.opened++;
	flows->stats.open++;
	struct netcap_conn conn = { .conn = flow->conn,
				    .cookie = flow->cookie,
				    .time_ns = wall(flows, &s->head),
				    .pid = s->pid,
				    .node_port = s->node_port,
				    .local_initiated = s->local_initiated != 0,
				    .attached_late = flow->late,
				    .local = flow->local,
				    .remote = flow->remote };
	int rc = sink->open(sink, &conn, err);
	return rc >= 0 && s->up ? start(flows, flow, s, sink, err) : rc;
}

static const char *close_reason(const struct wire_net_socket *s)
{
	enum { SYN_SENT = 2 };
	int connecting = s->state == SYN_SENT || !s->up;
	switch (s->error) {
	case 0:
		break;
	case ECONNREFUSED:
		return "connection refused";
	case ETIMEDOUT:
		return "timed out";
	case EHOSTUNREACH:
		return "no route to host";
	case ENETUNREACH:
		return "network unreachable";
	default:
		return connecting ? "connect failed" : "reset";
	}
	if (connecting)
		return "connect given up";
	return s->first_fin == 2 ? "closed by peer" : "closed";
}

static int close_flow(struct netcap_flows *flows, struct flow **at, uint64_t time_ns,
		      const char *reason, const struct wire_net_socket *s, struct netcap_sink *sink,
		      struct err *err)
{
	struct flow *flow = *at;
	int rc = 0;
	for (int way = 0; way < 2 && rc >= 0; way++) {
		struct out out = { flows, flow, way, sink };
		struct net_order_to to = { out_data, out_gap, &out };
		struct net_order *order = &flow->way[way].order;
		if (s && (uint32_t)s->lost_segments[way] != flow->way[way].lost)
			flow->way[way].ring_full = 1;
		rc = net_order_flush(order, &to, err);
		/* the kernel knows where the stream ended */
		if (rc >= 0 && s && s->end_known[way])
			rc = net_order_settle(order, s->end[way], 1, time_ns, &to, err);
		flows->stats.duplicate_bytes[way] += order->duplicate_bytes;
	}
	if (rc >= 0)
		rc = sink->close(sink, flow->conn, time_ns, reason, err);
	*at = flow->next;
	flow_free(flow);
	flows->stats.open--;
	flows->stats.closed++;
	return rc;
}

static int on_socket(struct netcap_flows *flows, const struct wire_net_socket *s,
		     struct netcap_sink *sink, struct err *err)
{
	if (s->head.kind == WIRE_NET_OPEN)
		return on_open(flows, s, sink, err);
	struct flow **at = find(flows, s->head.cookie);
	if (!*at) {
		/* its opening found no room: what is left of it is still told */
		int rc = on_open(flows, s, sink, err);
		at = find(flows, s->head.cookie);
		if (rc < 0 || !*at)
			return rc;
	}
	if (s->head.kind == WIRE_NET_CLOSE)
		return close_flow(flows, at, wall(flows, &s->head), close_reason(s), s, sink, err);
	(*at)->local.port = s->local_port;
	return start(flows, *at, s, sink, err);
}

int netcap_flows_data(struct netcap_flows *flows, const struct wire_net_data *d,
		      const uint8_t *bytes, struct netcap_sink *sink, struct err *err)
{
	struct flow *flow = *find(flows, d->head.cookie);
	int way = d->head.outgoing;
	if (!flow || way > 1) {
		flows->stats.unknown_segments++;
		return 0;
	}
	struct out out = { flows, flow, way, sink };
	struct net_order_to to = { out_data, out_gap, &out };
	struct way *side = &flow->way[way];
	uint64_t time_ns = wall(flows, &d->head);
	if (d->lost != side->lost) {
		side->lost = d->lost;
		side->ring_full = 1;
	}
	int rc = net_order_put(&side->order, d->seq, time_ns, bytes, d->head.bytes, &to, err);
	/*
	 * TCP has everything before that point, and it all passed here: what is missing before it
	 * is lost
	 */
	if (rc >= 0 && side->order.held)
		rc = net_order_settle(&side->order, d->settled + 1, 0, time_ns, &to, err);
	if (!side->order.held)
		side->ring_full = 0;
	return rc;
}

int netcap_flows_start(struct netcap_flows *flows, uint64_t cookie, int way, uint32_t seq,
		       struct netcap_sink *sink, struct err *err)
{
	struct flow *flow = *find(flows, cookie);
	if (!flow || flow->way[way].order.known)
		return 0;
	struct out out = { flows, flow, way, sink };
	struct net_order_to to = { out_data, out_gap, &out };
	return net_order_start(&flow->way[way].order, seq, 0, &to, err);
}

int netcap_flows_settle(struct netcap_flows *flows, uint64_t cookie, int way, uint32_t seq,
			uint64_t time_ns, struct netcap_sink *sink, struct err *err)
{
	struct flow *flow = *find(flows, cookie);
	if (!flow || !flow->way[way].order.held)
		return 0;
	struct out out = { flows, flow, way, sink };
	struct net_order_to to = { out_data, out_gap, &out };
	int rc = net_order_settle(&flow->way[way].order, seq + 1, 0, time_ns, &to, err);
	if (!flow->way[way].order.held)
		flow->way[way].ring_full = 0;
	return rc;
}

static int on_early(struct netcap_flows *flows, const struct wire_net_data *d, const uint8_t *bytes,
		    struct err *err)
{
	struct net_tcp_segment seg = { 0 };
	if (net_packet(bytes, d->head.bytes, &seg) != NET_PACKET_SEGMENT || !seg.captured) {
		flows->stats.bad_records++;
		return 0;
	}
	struct early *early = &flows->early[flows->early_next];
	free(early->bytes);
	early->bytes = malloc(seg.captured);
	if (!early->bytes)
		return err_set(err, -ENOMEM, "cannot hold back a segment");
	memcpy(early->bytes, seg.bytes, seg.captured);
	early->len = seg.captured;
	early->from = seg.from;
	early->to_port = seg.to.port;
	early->seq = seg.seq + seg.syn;
	early->time_ns = wall(flows, &d->head);
	flows->early_next = (flows->early_next + 1) % EARLY_MAX;
	return 0;
}

static int on_process(struct netcap_flows *flows, const struct wire_net_process *p,
		      struct netcap_sink *sink, struct err *err)
{
	if (!sink->process || !p->node_port)
		return 0;
	return sink->process(
		sink, p->head.kind == WIRE_NET_LISTEN ? NETCAP_NODE_LISTENS : NETCAP_NODE_ENDED,
		p->pid, p->node_port, wall(flows, &p->head), err);
}

int netcap_flows_record(struct netcap_flows *flows, const void *record, size_t bytes,
			struct netcap_sink *sink, struct err *err)
{
	const struct wire_net_head *head = record;
	if (bytes >= sizeof(*head)) {
		switch (head->kind) {
		case WIRE_NET_DATA:
		case WIRE_NET_EARLY: {
			const struct wire_net_data *data = record;
			const uint8_t *payload = (const uint8_t *)(data + 1);
			if (bytes < sizeof(*data) || head->bytes > bytes - sizeof(*data) ||
			    head->bytes > WIRE_NET_PIECE)
				break;
			return head->kind == WIRE_NET_DATA
				       ? netcap_flows_data(flows, data, payload, sink, err)
				       : on_early(flows, data, payload, err);
		}
		case WIRE_NET_OPEN:
		case WIRE_NET_UP:
		case WIRE_NET_CLOSE:
			if (bytes < sizeof(struct wire_net_socket))
				break;
			return on_socket(flows, record, sink, err);
		case WIRE_NET_LISTEN:
		case WIRE_NET_EXIT:
			if (bytes < sizeof(struct wire_net_process))
				break;
			return on_process(flows, record, sink, err);
		default:
			break;
		}
	}
	flows->stats.bad_records++;
	return 0;
}

int netcap_flows_finish(struct netcap_flows *flows, uint64_t time_ns, const char *reason,
			const struct wire_net_socket *(*last)(void *ctx, uint64_t cookie),
			void *ctx, struct netcap_sink *sink, struct err *err)
{
	int rc = 0;
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (flows->bucket[i] && rc >= 0) {
			const struct wire_net_socket *s =
				last ? last(ctx, flows->bucket[i]->cookie) : NULL;
			rc = close_flow(flows, &flows->bucket[i], time_ns, reason, s, sink, err);
		}
	}
	return rc;
}

int netcap_flows_sweep(struct netcap_flows *flows, uint64_t time_ns,
		       int (*is_there)(void *ctx, uint64_t cookie), void *ctx,
		       struct netcap_sink *sink, struct err *err)
{
	int rc = 0;
	for (unsigned i = 0; i < BUCKETS; i++) {
		struct flow **at = &flows->bucket[i];
		while (*at && rc >= 0) {
			uint8_t again = (*at)->missing;
			(*at)->missing = !is_there(ctx, (*at)->cookie);
			if (again && (*at)->missing)
				rc = close_flow(flows, at, time_ns, "closed, end not seen", NULL,
						sink, err);
			else
				at = &(*at)->next;
		}
	}
	return rc;
}

void netcap_flows_stats(const struct netcap_flows *flows, struct netcap_flows_stats *stats)
{
	*stats = flows->stats;
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (const struct flow *flow = flows->bucket[i]; flow; flow = flow->next) {
			for (int way = 0; way < 2; way++)
				stats->duplicate_bytes[way] += flow->way[way].order.duplicate_bytes;
		}
	}
}
