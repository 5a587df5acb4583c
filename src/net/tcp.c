/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "net/order.h"

#define BUCKETS 16384
/* sequence numbers around the end of a connection that are still its own */
#define OVER_WINDOW (16 << 20)
/* how long a connection's end is remembered: as long as Linux keeps TIME_WAIT */
#define OVER_NS 60000000000u

struct side {
	struct net_addr addr;
	struct net_order order;
	/* sequence number of the first byte, once the order is known */
	uint32_t first;
	/* behind the last byte that was sent, captured whole or not */
	uint32_t sent;
	/* what the other side has: up to here */
	uint32_t acked;
	/* sequence number of the FIN */
	uint32_t fin_at;
	/* a FIN was seen */
	uint8_t fin;
	uint8_t has_sent, has_acked;
};

struct flow {
	/* in its bucket */
	struct flow *next;
	/* in its list */
	struct flow *older, *newer;
	uint64_t number, last_ns;
	/* its beginning was seen */
	uint8_t syn;
	/* closed, and remembered for what comes after */
	uint8_t over;
	/* 0 = initiator */
	struct side side[2];
};

/* Flows by their last segment. */
struct ages {
	struct flow *oldest, *newest;
	size_t count;
};

struct net_tcp {
	struct net_tcp_sink *sink;
	struct flow *bucket[BUCKETS];
	struct ages open, over;
	/* what all flows hold back, in bytes of memory */
	size_t held;
	uint64_t numbers;
};

void net_addr_text(const struct net_addr *addr, char out[NET_ADDR_TEXT_MAX])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char ip[INET6_ADDRSTRLEN];
	int v4 = memcmp(addr->ip, mapped, 12) == 0;
	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? addr->ip + 12 : addr->ip, ip, sizeof(ip)))
		ip[0] = '\0';
	snprintf(out, NET_ADDR_TEXT_MAX, v4 ? "%s:%u" : "[%s]:%u", ip, addr->port);
}

static int parse_ip(const char *text, size_t len, int v6, struct net_addr *out)
{
	char ip[INET6_ADDRSTRLEN];
	if (len >= sizeof(ip))
		return -EINVAL;
	memcpy(ip, text, len);
	ip[len] = '\0';
	*out = (struct net_addr){ .ip = { [10] = 0xff, [11] = 0xff } };
	int rc = v6 ? inet_pton(AF_INET6, ip, out->ip) : inet_pton(AF_INET, ip, out->ip + 12);
	return rc == 1 ? 0 : -EINVAL;
}

int net_addr_parse(const char *text, struct net_addr *out)
{
	const char *colon = strchr(text, ':'), *bracket = strchr(text, ']');
	const char *port = NULL;
	int rc;
	if (text[0] == '[') {
		if (!bracket || (bracket[1] && bracket[1] != ':'))
			return -EINVAL;
		port = bracket[1] ? bracket + 2 : NULL;
		rc = parse_ip(text + 1, (size_t)(bracket - text) - 1, 1, out);
	} else if (colon && strchr(colon + 1, ':')) {
		rc = parse_ip(text, strlen(text), 1, out);
	} else {
		port = colon ? colon + 1 : NULL;
		rc = parse_ip(text, colon ? (size_t)(colon - text) : strlen(text), 0, out);
	}
	if (rc < 0 || !port)
		return rc;
	unsigned long number = 0;
	for (const char *p = port; *p; p++) {
		if (*p < '0' || *p > '9' || (number = number * 10 + (unsigned)(*p - '0')) > 65535)
			return -EINVAL;
	}
	out->port = (uint16_t)number;
	return number ? 0 : -EINVAL;
}

struct net_tcp *net_tcp_new(struct net_tcp_sink *sink, struct err *err)
{
	struct net_tcp *tcp = calloc(1, sizeof(*tcp));
	if (!tcp)
		err_set(err, -ENOMEM, "cannot allocate the connection table");
	else
		tcp->sink = sink;
	return tcp;
}

/* Strangers choose addresses and ports, so the hash has a key that they do not know. */
static unsigned addr_hash(const struct net_addr *a)
{
	uint8_t bytes[18];
	memcpy(bytes, a->ip, 16);
	memcpy(bytes + 16, &a->port, 2);
	return (unsigned)hash_bytes(bytes, sizeof(bytes), hash_seed());
}

/* The same for both directions. */
static unsigned bucket_of(const struct net_addr *a, const struct net_addr *b)
{
	return (addr_hash(a) + addr_hash(b)) % BUCKETS;
}

static int same_addr(const struct net_addr *a, const struct net_addr *b)
{
	return a->port == b->port && memcmp(a->ip, b->ip, 16) == 0;
}

static struct ages *ages_of(struct net_tcp *tcp, const struct flow *flow)
{
	return flow->over ? &tcp->over : &tcp->open;
}

static void unlink_age(struct net_tcp *tcp, struct flow *flow)
{
	struct ages *ages = ages_of(tcp, flow);
	*(flow->older ? &flow->older->newer : &ages->oldest) = flow->newer;
	*(flow->newer ? &flow->newer->older : &ages->newest) = flow->older;
	flow->older = flow->newer = NULL;
	ages->count--;
}

static void link_newest(struct net_tcp *tcp, struct flow *flow)
{
	struct ages *ages = ages_of(tcp, flow);
	flow->older = ages->newest;
	flow->newer = NULL;
	*(ages->newest ? &ages->newest->newer : &ages->oldest) = flow;
	ages->newest = flow;
	ages->count++;
}

static void drop_flow(struct net_tcp *tcp, struct flow *flow)
{
	struct flow **at = &tcp->bucket[bucket_of(&flow->side[0].addr, &flow->side[1].addr)];
	while (*at != flow)
		at = &(*at)->next;
	*at = flow->next;
	unlink_age(tcp, flow);
	net_order_fini(&flow->side[0].order);
	net_order_fini(&flow->side[1].order);
	free(flow);
}

/* One direction of a flow, as net/order sees it. */
struct way {
	struct net_tcp *tcp;
	struct flow *flow;
	int from;
};

static int way_data(void *ctx, uint64_t time_ns, uint64_t offset, const uint8_t *bytes, size_t len,
		    struct err *err)
{
	struct way *way = ctx;
	(void)offset;
	return way->tcp->sink->data(way->tcp->sink, way->flow->number, way->from == 0, time_ns,
				    bytes, len, err);
}

static int way_gap(void *ctx, uint64_t time_ns, uint64_t offset, uint64_t lost, struct err *err)
{
	struct way *way = ctx;
	(void)offset;
	return way->tcp->sink->gap(way->tcp->sink, way->flow->number, way->from == 0, time_ns, lost,
				   err);
}

/* All that was held comes out, and what is known to have been sent and did not come is a gap. */
static int settle_end(struct net_tcp *tcp, struct flow *flow, int from, uint64_t time_ns,
		      struct err *err)
{
	struct side *side = &flow->side[from];
	struct way way = { tcp, flow, from };
	struct net_order_to to = { way_data, way_gap, &way };
	int rc = net_order_flush(&side->order, &to, err);
	if (rc >= 0 && (side->fin || side->has_sent))
		rc = net_order_settle(&side->order, side->fin ? side->fin_at : side->sent, 1,
				      time_ns, &to, err);
	/* a single number that was acknowledged and not seen is a FIN's */
	if (rc >= 0 && !side->fin && side->has_acked && side->acked != side->order.next + 1)
		rc = net_order_settle(&side->order, side->acked, 1, time_ns, &to, err);
	return rc;
}

/* @remember: what belongs to it may still come, and is dropped then. */
static int close_flow(struct net_tcp *tcp, struct flow *flow, uint64_t time_ns, const char *reason,
		      int remember, struct err *err)
{
	int rc = settle_end(tcp, flow, 0, time_ns, err);
	if (rc >= 0)
		rc = settle_end(tcp, flow, 1, time_ns, err);
	if (rc >= 0)
		rc = tcp->sink->close(tcp->sink, flow->number, time_ns, reason, err);
	if (!remember) {
		drop_flow(tcp, flow);
		return rc;
	}
	net_order_fini(&flow->side[0].order);
	net_order_fini(&flow->side[1].order);
	unlink_age(tcp, flow);
	flow->over = 1;
	link_newest(tcp, flow);
	if (tcp->over.count > NET_TCP_OVER_MAX)
		drop_flow(tcp, tcp->over.oldest);
	return rc;
}

/*
 * Does a segment from the side @from belong to @flow, or to a new connection between the same
 * ports?
 */
static int belongs(const struct flow *flow, int from, const struct net_tcp_segment *seg)
{
	const struct side *side = &flow->side[from];
	if (seg->syn)
		return side->order.known && side->first == seg->seq + 1;
	if (!flow->over || !side->order.known)
		return 1;
	int32_t behind = (int32_t)(seg->seq - side->order.next);
	return behind <= OVER_WINDOW && behind >= -OVER_WINDOW;
}

static struct flow *find(struct net_tcp *tcp, const struct net_tcp_segment *seg, int *from)
{
	for (struct flow *f = tcp->bucket[bucket_of(&seg->from, &seg->to)]; f; f = f->next) {
		for (int i = 0; i < 2; i++) {
			if (same_addr(&f->side[i].addr, &seg->from) &&
			    same_addr(&f->side[!i].addr, &seg->to)) {
				*from = i;
				return f;
			}
		}
	}
	return NULL;
}

static struct flow *open_flow(struct net_tcp *tcp, const struct net_tcp_segment *seg, int *from,
			      struct err *err)
{
	if (tcp->open.count == NET_TCP_FLOWS_MAX &&
	    close_flow(tcp, tcp->open.oldest, seg->time_ns, "table full", 0, err) < 0)
		return NULL;
	struct flow *flow = calloc(1, sizeof(*flow));
	if (!flow) {
		err_set(err, -ENOMEM, "cannot allocate a connection");
		return NULL;
	}
	int swapped = seg->syn ? seg->has_ack : seg->from.port < seg->to.port;
	*from = swapped;
	flow->side[swapped].addr = seg->from;
	flow->side[!swapped].addr = seg->to;
	flow->number = tcp->numbers++;
	flow->syn = seg->syn;
	flow->side[0].order.held_memory = flow->side[1].order.held_memory = &tcp->held;
	unsigned b = bucket_of(&seg->from, &seg->to);
	flow->next = tcp->bucket[b];
	tcp->bucket[b] = flow;
	link_newest(tcp, flow);
	if (tcp->sink->open(tcp->sink, flow->number, seg->time_ns, &flow->side[0].addr,
			    &flow->side[1].addr, seg->syn, err) < 0)
		return NULL; /* stays in the table, released with it */
	return flow;
}

static int start_side(struct net_tcp *tcp, struct flow *flow, int from, uint32_t seq,
		      struct err *err)
{
	struct way way = { tcp, flow, from };
	struct net_order_to to = { way_data, way_gap, &way };
	flow->side[from].first = seq;
	return net_order_start(&flow->side[from].order, seq, 0, &to, err);
}

static void raise_to(uint32_t *to, uint8_t *known, uint32_t seq)
{
	if (!*known || (int32_t)(seq - *to) > 0)
		*to = seq;
	*known = 1;
}

static int take_payload(struct net_tcp *tcp, struct flow *flow, int from,
			const struct net_tcp_segment *seg, struct err *err)
{
	struct side *side = &flow->side[from];
	struct way way = { tcp, flow, from };
	struct net_order_to to = { way_data, way_gap, &way };
	uint32_t seq = seg->seq + seg->syn;
	int rc = 0;
	if (!side->order.known)
		rc = start_side(tcp, flow, from, seq, err);
	/* bytes that the capture cut off are missing like any others */
	if (rc >= 0)
		rc = net_order_put(&side->order, seq, seg->time_ns, seg->bytes, seg->captured, &to,
				   err);
	if (seg->len)
		raise_to(&side->sent, &side->has_sent, seq + (uint32_t)seg->len);
	if (seg->fin) {
		side->fin = 1;
		side->fin_at = seq + (uint32_t)seg->len;
	}
	return rc;
}

/* The other side acknowledged bytes that the capture does not have: they exist, but not here. */
static int take_ack(struct net_tcp *tcp, struct flow *flow, int from,
		    const struct net_tcp_segment *seg, struct err *err)
{
	struct side *peer = &flow->side[!from];
	struct way way = { tcp, flow, !from };
	struct net_order_to to = { way_data, way_gap, &way };
	if (!seg->has_ack)
		return 0;
	if (!peer->order.known) {
		/* its SYN was not captured: the first thing that is acknowledged is that SYN */
		return flow->syn && !seg->rst ? start_side(tcp, flow, !from, seg->ack, err) : 0;
	}
	uint32_t end = seg->ack;
	if (peer->fin && end == peer->fin_at + 1)
		end = peer->fin_at;
	if (!seg->rst)
		raise_to(&peer->acked, &peer->has_acked, seg->ack);
	/*
	 * packets of the two directions may be captured in the wrong order: only what is far behind
	 * is given up unseen
	 */
	int far = (int32_t)(end - peer->order.next) > 1 << 20;
	return net_order_settle(&peer->order, end, far, seg->time_ns, &to, err);
}

/* The FIN of @side came, and so did, or was acknowledged, all that was sent before it. */
static int is_done(const struct side *side)
{
	return side->fin && (side->order.next == side->fin_at ||
			     (side->has_acked && side->acked == side->fin_at + 1));
}

/*
 * Too much is held back: those who were silent for longest wait for nothing any more. Half of it
 * goes, so that looking through all flows happens once for many segments.
 */
static int give_up_held(struct net_tcp *tcp, struct err *err)
{
	int rc = 0;
	for (struct flow *f = tcp->open.oldest; f && tcp->held > NET_TCP_HELD_MAX / 2;
	     f = f->newer) {
		for (int from = 0; rc >= 0 && from < 2; from++) {
			struct way way = { tcp, f, from };
			struct net_order_to to = { way_data, way_gap, &way };
			rc = net_order_flush(&f->side[from].order, &to, err);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int net_tcp_segment(struct net_tcp *tcp, const struct net_tcp_segment *seg, struct err *err)
{
	int from = 0, rc = 0;
	while (tcp->over.oldest && seg->time_ns > tcp->over.oldest->last_ns + OVER_NS)
		drop_flow(tcp, tcp->over.oldest);
	struct flow *flow = find(tcp, seg, &from);
	if (flow && flow->over) {
		if (belongs(flow, from, seg))
			return 0;
		drop_flow(tcp, flow);
		flow = NULL;
	}
	if (flow && seg->syn && !seg->has_ack && flow->side[from].order.known &&
	    !belongs(flow, from, seg)) {
		/* the same ports again: a new connection */
		rc = close_flow(tcp, flow, seg->time_ns, "ports used again", 0, err);
		if (rc < 0)
			return rc;
		flow = NULL;
	}
	if (!flow) {
		if (seg->rst || (!seg->syn && !seg->len))
			return 0;
		flow = open_flow(tcp, seg, &from, err);
		if (!flow)
			return err ? err->code : -EIO;
	}
	flow->last_ns = seg->time_ns;
	unlink_age(tcp, flow);
	link_newest(tcp, flow);
	rc = take_ack(tcp, flow, from, seg, err);
	if (rc >= 0)
		rc = take_payload(tcp, flow, from, seg, err);
	if (rc >= 0 && tcp->held > NET_TCP_HELD_MAX)
		rc = give_up_held(tcp, err);
	if (rc < 0)
		return rc;
	if (seg->rst)
		return close_flow(tcp, flow, seg->time_ns, "reset", 1, err);
	if (is_done(&flow->side[0]) && is_done(&flow->side[1]))
		return close_flow(tcp, flow, seg->time_ns, "closed", 1, err);
	return 0;
}

int net_tcp_finish(struct net_tcp *tcp, uint64_t time_ns, struct err *err)
{
	int rc = 0;
	while (rc >= 0 && tcp->open.oldest)
		rc = close_flow(tcp, tcp->open.oldest, time_ns, "capture ended", 0, err);
	return rc;
}

size_t net_tcp_fullest(const struct net_tcp *tcp)
{
	size_t most = 0;
	for (size_t i = 0; i < BUCKETS; i++) {
		size_t count = 0;
		for (const struct flow *f = tcp->bucket[i]; f; f = f->next)
			count++;
		most = count > most ? count : most;
	}
	return most;
}

void net_tcp_free(struct net_tcp *tcp)
{
	if (!tcp)
		return;
	while (tcp->open.oldest)
		drop_flow(tcp, tcp->open.oldest);
	while (tcp->over.oldest)
		drop_flow(tcp, tcp->over.oldest);
	free(tcp);
}
