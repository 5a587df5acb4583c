/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 16384

/* A segment held back because something before it is missing; a list sorted by sequence number. */
struct held {
	struct held *next;
	uint32_t seq;
	uint32_t len;
	uint64_t time_ns;
	uint8_t bytes[];
};

struct side {
	struct net_addr addr;
	uint32_t next;      /* sequence number of the next byte to hand over */
	uint32_t fin_at;    /* sequence number of the FIN */
	uint8_t known, fin; /* @next is valid; a FIN was seen */
	struct held *held;
	size_t held_bytes;
};

struct flow {
	struct flow *next;          /* in its bucket */
	struct flow *older, *newer; /* by last segment */
	uint64_t number, last_ns;
	struct side side[2]; /* 0 = initiator */
};

struct net_tcp {
	struct net_tcp_sink *sink;
	struct flow *bucket[BUCKETS];
	struct flow *oldest, *newest;
	size_t flows;
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

struct net_tcp *net_tcp_new(struct net_tcp_sink *sink, struct err *err)
{
	struct net_tcp *tcp = calloc(1, sizeof(*tcp));
	if (!tcp)
		err_set(err, -ENOMEM, "cannot allocate the connection table");
	else
		tcp->sink = sink;
	return tcp;
}

static unsigned addr_hash(const struct net_addr *a)
{
	uint64_t h = a->port;
	for (int i = 0; i < 16; i++)
		h = (h ^ a->ip[i]) * 0x100000001b3ULL;
	return (unsigned)(h ^ h >> 29);
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

static void unlink_age(struct net_tcp *tcp, struct flow *flow)
{
	*(flow->older ? &flow->older->newer : &tcp->oldest) = flow->newer;
	*(flow->newer ? &flow->newer->older : &tcp->newest) = flow->older;
	flow->older = flow->newer = NULL;
}

static void link_newest(struct net_tcp *tcp, struct flow *flow)
{
	flow->older = tcp->newest;
	flow->newer = NULL;
	*(tcp->newest ? &tcp->newest->newer : &tcp->oldest) = flow;
	tcp->newest = flow;
}

static int give_data(struct net_tcp *tcp, struct flow *flow, int from, uint64_t time_ns,
		     const uint8_t *bytes, size_t len, struct err *err)
{
	flow->side[from].next += (uint32_t)len;
	return len ? tcp->sink->data(tcp->sink, flow->number, from == 0, time_ns, bytes, len, err)
		   : 0;
}

static int give_gap(struct net_tcp *tcp, struct flow *flow, int from, uint64_t time_ns,
		    uint32_t lost, struct err *err)
{
	flow->side[from].next += lost;
	return tcp->sink->gap(tcp->sink, flow->number, from == 0, time_ns, lost, err);
}

/* Hand over what has become contiguous. */
static int drain_held(struct net_tcp *tcp, struct flow *flow, int from, struct err *err)
{
	struct side *side = &flow->side[from];
	int rc = 0;
	while (rc >= 0 && side->held && (int32_t)(side->held->seq - side->next) <= 0) {
		struct held *h = side->held;
		side->held = h->next;
		side->held_bytes -= h->len;
		uint32_t old = side->next - h->seq;
		if (old < h->len)
			rc = give_data(tcp, flow, from, h->time_ns, h->bytes + old, h->len - old,
				       err);
		free(h);
	}
	return rc;
}

/* What is missing before the first held segment will not come any more. */
static int skip_to_held(struct net_tcp *tcp, struct flow *flow, int from, struct err *err)
{
	struct side *side = &flow->side[from];
	int rc = give_gap(tcp, flow, from, side->held->time_ns, side->held->seq - side->next, err);
	return rc < 0 ? rc : drain_held(tcp, flow, from, err);
}

static int hold(struct side *side, const struct net_tcp_segment *seg, uint32_t seq, uint32_t len)
{
	struct held **at = &side->held;
	while (*at && (int32_t)((*at)->seq - seq) <= 0) {
		if ((*at)->seq == seq && (*at)->len >= len)
			return 0; /* a retransmission of what waits already */
		at = &(*at)->next;
	}
	struct held *h = malloc(sizeof(*h) + len);
	if (!h)
		return -ENOMEM;
	h->seq = seq;
	h->len = len;
	h->time_ns = seg->time_ns;
	memcpy(h->bytes, seg->bytes + (seg->len - len), len);
	h->next = *at;
	*at = h;
	side->held_bytes += len;
	return 0;
}

static int close_flow(struct net_tcp *tcp, struct flow *flow, uint64_t time_ns, const char *reason,
		      struct err *err)
{
	int rc = 0;
	for (int from = 0; from < 2; from++) {
		while (rc >= 0 && flow->side[from].held)
			rc = skip_to_held(tcp, flow, from, err);
	}
	if (rc >= 0)
		rc = tcp->sink->close(tcp->sink, flow->number, time_ns, reason, err);
	struct flow **at = &tcp->bucket[bucket_of(&flow->side[0].addr, &flow->side[1].addr)];
	while (*at != flow)
		at = &(*at)->next;
	*at = flow->next;
	unlink_age(tcp, flow);
	tcp->flows--;
	for (int from = 0; from < 2; from++) {
		for (struct held *h = flow->side[from].held; h;) {
			struct held *next = h->next;
			free(h);
			h = next;
		}
	}
	free(flow);
	return rc;
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
	if (tcp->flows == NET_TCP_FLOWS_MAX &&
	    close_flow(tcp, tcp->oldest, seg->time_ns, "table full", err) < 0)
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
	unsigned b = bucket_of(&seg->from, &seg->to);
	flow->next = tcp->bucket[b];
	tcp->bucket[b] = flow;
	link_newest(tcp, flow);
	tcp->flows++;
	if (tcp->sink->open(tcp->sink, flow->number, seg->time_ns, &flow->side[0].addr,
			    &flow->side[1].addr, seg->syn, err) < 0)
		return NULL; /* stays in the table, released with it */
	return flow;
}

static int take_payload(struct net_tcp *tcp, struct flow *flow, int from,
			const struct net_tcp_segment *seg, struct err *err)
{
	struct side *side = &flow->side[from];
	uint32_t seq = seg->seq + seg->syn;
	if (!side->known) {
		side->next = seq;
		side->known = 1;
	}
	/* bytes that the capture cut off are missing like any others */
	uint32_t len = (uint32_t)seg->captured;
	int32_t ahead = (int32_t)(seq - side->next);
	int rc = 0;
	if (len && ahead <= 0) {
		uint32_t old = (uint32_t)-ahead;
		if (old < len)
			rc = give_data(tcp, flow, from, seg->time_ns, seg->bytes + old, len - old,
				       err);
		if (rc >= 0)
			rc = drain_held(tcp, flow, from, err);
	} else if (len) {
		struct net_tcp_segment whole = *seg;
		whole.len = seg->captured;
		if (hold(side, &whole, seq, len) < 0)
			return err_set(err, -ENOMEM, "cannot hold back a segment");
		while (rc >= 0 && side->held_bytes > NET_TCP_HELD_MAX)
			rc = skip_to_held(tcp, flow, from, err);
	}
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
	int rc = 0;
	if (!seg->has_ack || !peer->known)
		return 0;
	uint32_t end = seg->ack;
	if (peer->fin && end == peer->fin_at + 1)
		end = peer->fin_at;
	while (rc >= 0 && peer->held && (int32_t)(end - peer->held->seq) > 0)
		rc = skip_to_held(tcp, flow, !from, err);
	int32_t missing = (int32_t)(end - peer->next);
	/* packets of the two directions may be captured in the wrong order: only what is far behind is given up here */
	if (rc >= 0 && !peer->held && missing > (1 << 20))
		rc = give_gap(tcp, flow, !from, seg->time_ns, (uint32_t)missing, err);
	return rc;
}

int net_tcp_segment(struct net_tcp *tcp, const struct net_tcp_segment *seg, struct err *err)
{
	int from = 0, rc = 0;
	struct flow *flow = find(tcp, seg, &from);
	if (flow && seg->syn && !seg->has_ack && flow->side[from].known &&
	    flow->side[from].next != seg->seq + 1) {
		/* the same ports again: a new connection */
		rc = close_flow(tcp, flow, seg->time_ns, "ports used again", err);
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
	if (rc < 0)
		return rc;
	if (seg->rst)
		return close_flow(tcp, flow, seg->time_ns, "reset", err);
	const struct side *a = &flow->side[0], *b = &flow->side[1];
	if (a->fin && b->fin && a->next == a->fin_at && b->next == b->fin_at)
		return close_flow(tcp, flow, seg->time_ns, "closed", err);
	return 0;
}

int net_tcp_finish(struct net_tcp *tcp, uint64_t time_ns, struct err *err)
{
	int rc = 0;
	while (rc >= 0 && tcp->oldest)
		rc = close_flow(tcp, tcp->oldest, time_ns, "capture ended", err);
	return rc;
}

void net_tcp_free(struct net_tcp *tcp)
{
	if (!tcp)
		return;
	while (tcp->oldest) {
		struct flow *flow = tcp->oldest;
		tcp->oldest = flow->newer;
		for (int from = 0; from < 2; from++) {
			for (struct held *h = flow->side[from].held; h;) {
				struct held *next = h->next;
				free(h);
				h = next;
			}
		}
		free(flow);
	}
	free(tcp);
}
