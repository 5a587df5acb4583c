/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap_track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS 16384u
#define WINDOW_MAX (64 << 20) /* bytes: far more than receive windows are */
#define SLOT_BITS 20
#define SLOT_MASK ((1u << SLOT_BITS) - 1)
#define IN WIRE_NET_IN
#define OUT WIRE_NET_OUT

/*
 * A recorded socket. Of each direction what its bytes' receiver said it has, and where the stream
 * ends.
 */
struct tracked {
	/* in its bucket, or of the free ones */
	struct tracked *next;
	struct net_addr local, remote;
	/* its last word */
	struct wire_net_socket socket;
	uint32_t acked[2], fin_at[2];
	uint8_t started[2], fin[2];
	/* a connection that asks is one once it asks, one that is asked for once it is confirmed */
	uint8_t told;
	/* from the table of sockets, how many looks in a row */
	uint8_t missing;
	uint64_t last_ns, dropped_before;
};

struct netcap_track {
	struct netcap_flows *flows;
	struct netcap_track_opt opt;
	uint16_t skip[WIRE_NET_SKIP_MAX];
	struct tracked *all, *free, **bucket;
	uint32_t max, used, buckets;
	uint64_t serial, dropped;
	struct netcap_track_stats stats;
};

/* How far @a lies behind @b in the stream; negative = before it. */
static int32_t ahead(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

struct netcap_track *netcap_track_new(const struct netcap_track_opt *opt,
				      struct netcap_flows *flows, struct err *err)
{
	struct netcap_track *track = calloc(1, sizeof(*track));
	if (track) {
		track->flows = flows;
		track->opt = *opt;
		track->max = opt->connections_max ? opt->connections_max : CONNECTIONS;
		if (track->max > SLOT_MASK)
			track->max = SLOT_MASK;
		track->buckets = track->max;
		track->all = calloc(track->max, sizeof(*track->all));
		track->bucket = calloc(track->buckets, sizeof(*track->bucket));
		for (size_t i = 0; i < opt->skip_remote_port_count; i++)
			track->skip[i] = opt->skip_remote_ports[i];
	}
	if (!track || !track->all || !track->bucket) {
		err_set(err, -ENOMEM, "cannot allocate the connection table");
		netcap_track_free(track);
		return NULL;
	}
	return track;
}

void netcap_track_free(struct netcap_track *track)
{
	if (!track)
		return;
	free(track->all);
	free(track->bucket);
	free(track);
}

void netcap_track_dropped(struct netcap_track *track, uint64_t packets)
{
	track->dropped = packets;
}

void netcap_track_stats(const struct netcap_track *track, struct netcap_track_stats *stats)
{
	*stats = track->stats;
}

static struct tracked **find(struct netcap_track *track, const struct net_addr *local,
			     const struct net_addr *remote)
{
	uint64_t h = (uint64_t)local->port << 16 | remote->port;
	for (int i = 0; i < 16; i++)
		h = (h ^ remote->ip[i]) * 0x100000001b3ULL;
	struct tracked **at = &track->bucket[(h ^ h >> 29) % track->buckets];
	while (*at && ((*at)->local.port != local->port || (*at)->remote.port != remote->port ||
		       memcmp((*at)->local.ip, local->ip, 16) != 0 ||
		       memcmp((*at)->remote.ip, remote->ip, 16) != 0))
		at = &(*at)->next;
	return at;
}

static int is_skipped(const struct netcap_track *track, uint16_t port)
{
	for (size_t i = 0; i < track->opt.skip_remote_port_count; i++) {
		if (track->skip[i] == port)
			return 1;
	}
	return 0;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static struct tracked *take_slot(struct netcap_track *track)
{
	struct tracked *t = track->free;
	if (t)
		track->free = t->next;
	else if (track->used < track->max)
		t = &track->all[track->used++];
	else
		return NULL;
	memset(t, 0, sizeof(*t));
	return t;
}

/* The first byte of direction @way is known: the order of its bytes may begin. */
static int tell_first(struct netcap_track *track, const struct tracked *t, int way,
		      struct netcap_sink *sink, struct err *err)
{
	return t->told && t->started[way] ? netcap_flows_start(track->flows, t->socket.head.cookie,
							       way, t->socket.first[way], sink, err)
					  : 0;
}

static int tell(struct netcap_track *track, struct tracked *t, uint64_t time_ns,
		struct netcap_sink *sink, struct err *err)
{
	struct wire_net_socket open = t->socket;
	open.head.time_ns = time_ns;
	open.up = 0; /* where both directions begin is said for each by itself */
	t->told = 1;
	int rc = netcap_flows_record(track->flows, &open, sizeof(open), sink, err);
	for (int way = 0; way < 2 && rc >= 0; way++)
		rc = tell_first(track, t, way, sink, err);
	return rc;
}

static int begin(struct netcap_track *track, const struct net_addr *local,
		 const struct net_addr *remote, const struct netcap_owner_who *who, int accepted,
		 int late, uint64_t time_ns, struct netcap_sink *sink, struct err *err)
{
	if (is_skipped(track, remote->port))
		return 0;
	struct tracked *t = take_slot(track);
	if (!t) {
		track->stats.refused++;
		return 0;
	}
	*find(track, local, remote) = t;
	t->local = *local;
	t->remote = *remote;
	t->last_ns = time_ns;
	t->dropped_before = track->dropped;
	/* the number tells its slot, so that a cookie is looked up at once */
	t->socket = (struct wire_net_socket){ .head = { .time_ns = time_ns,
							.kind = WIRE_NET_OPEN,
							.cookie = ++track->serial << SLOT_BITS |
								  (uint32_t)(t - track->all) },
					      .pid = who->pid,
					      .node_port = who->node_port,
					      .local_initiated = !accepted,
					      .late = late != 0,
					      .local_port = local->port,
					      .remote_port = remote->port };
	memcpy(t->socket.local_ip, local->ip, 16);
	memcpy(t->socket.remote_ip, remote->ip, 16);
	t->socket.up = late != 0;
	return late || !accepted ? tell(track, t, time_ns, sink, err) : 0;
}

/*
 * What is known at the end. A receiver counts the end of the stream as a byte, and it may be the
 * very packet that is missing.
 */
static void last_word(const struct netcap_track *track, struct tracked *t, int ended)
{
	for (int way = 0; way < 2; way++) {
		if (t->fin[way]) {
			t->socket.end[way] = t->fin_at[way];
			t->socket.end_known[way] = 1;
		} else if (t->started[way] && (!t->socket.end_known[way] ||
					       ahead(t->acked[way], t->socket.end[way]) > 0)) {
			uint32_t more =
				t->socket.end_known[way] ? t->acked[way] - t->socket.end[way] : 0;
			t->socket.end[way] = t->acked[way] - (more && (ended || more == 1));
			t->socket.end_known[way] = 1;
		}
		t->socket.lost_segments[way] = track->dropped - t->dropped_before;
	}
}

static int end(struct netcap_track *track, struct tracked **at, uint64_t time_ns, int error,
	       struct netcap_sink *sink, struct err *err)
{
	enum { ESTABLISHED = 1, SYN_SENT = 2 };
	struct tracked *t = *at;
	last_word(track, t, 1);
	t->socket.head.kind = WIRE_NET_CLOSE;
	t->socket.head.time_ns = time_ns;
	t->socket.error = error;
	t->socket.state = t->socket.up ? ESTABLISHED : SYN_SENT;
	*at = t->next;
	int rc = t->told ? netcap_flows_record(track->flows, &t->socket, sizeof(t->socket), sink,
					       err)
			 : 0;
	t->socket.head.cookie = 0;
	t->next = track->free;
	track->free = t;
	return rc;
}

/* The first byte of a direction is @seq. */
static int start(struct netcap_track *track, struct tracked *t, int way, uint32_t seq,
		 struct netcap_sink *sink, struct err *err)
{
	if (t->started[way])
		return 0;
	t->started[way] = 1;
	t->acked[way] = t->socket.first[way] = seq;
	return tell_first(track, t, way, sink, err);
}

/* ---- segments -------------------------------------------------------------------------------- */

/*
 * Is @seg, that of socket @t which goes @way, a reset that the receiver would believe: exactly
 * where it waits.
 */
static int is_reset(const struct tracked *t, const struct net_tcp_segment *seg, int way)
{
	if (!seg->rst)
		return 0;
	if (way == OUT)
		return 1;
	if (!t->socket.up)
		return seg->has_ack && t->started[OUT] && seg->ack == t->acked[OUT];
	return seg->seq == t->acked[IN] ||
	       (t->socket.end_known[IN] && seg->seq == t->socket.end[IN]) ||
	       (t->fin[IN] && seg->seq == t->fin_at[IN] + 1);
}

static int take_ack(struct netcap_track *track, struct tracked *t, int other,
		    const struct net_tcp_segment *seg, struct netcap_sink *sink, struct err *err)
{
	int rc = 0;
	if (!seg->has_ack || seg->rst)
		return 0;
	/*
	 * of a connection that was found open, bytes are under way that nobody will see: its own
	 * first packet says more
	 */
	if (!t->started[other] && !t->socket.late)
		rc = start(track, t, other, seg->ack, sink, err);
	uint32_t to = seg->ack;
	if (t->fin[other] && to == t->fin_at[other] + 1)
		to = t->fin_at[other];
	int32_t more = ahead(to, t->acked[other]);
	if (rc < 0 || !t->started[other] || more <= 0 || more > WINDOW_MAX)
		return rc;
	t->acked[other] = to;
	return netcap_flows_settle(track->flows, t->socket.head.cookie, other, to, seg->time_ns,
				   sink, err);
}

static int take_payload(struct netcap_track *track, struct tracked *t, int way,
			const struct net_tcp_segment *seg, struct netcap_sink *sink,
			struct err *err)
{
	uint32_t seq = seg->seq + seg->syn, behind = seq + (uint32_t)seg->len;
	int rc = start(track, t, way, seq, sink, err);
	int32_t beyond = ahead(behind, t->acked[way]);
	if (rc < 0 || beyond > WINDOW_MAX || beyond < -WINDOW_MAX)
		return rc;
	if (seg->fin && !t->fin[way]) {
		t->fin[way] = 1;
		t->fin_at[way] = behind;
		if (!t->socket.first_fin)
			t->socket.first_fin = way == OUT ? 1 : 2;
	}
	if (!t->socket.end_known[way] || ahead(behind, t->socket.end[way]) > 0) {
		t->socket.end[way] = behind;
		t->socket.end_known[way] = 1;
	}
	if (!seg->captured)
		return 0;
	track->stats.segments[way]++;
	track->stats.bytes[way] += seg->captured;
	struct wire_net_data data = { .head = { .time_ns = seg->time_ns,
						.cookie = t->socket.head.cookie,
						.kind = WIRE_NET_DATA,
						.outgoing = (uint8_t)way,
						.bytes = (uint32_t)seg->captured },
				      .seq = seq,
				      .settled = t->acked[way],
				      .lost = (uint32_t)(track->dropped - t->dropped_before) };
	return netcap_flows_data(track->flows, &data, seg->bytes, sink, err);
}

static int is_ended(const struct tracked *t)
{
	return t->fin[IN] && t->fin[OUT] && t->acked[IN] == t->fin_at[IN] &&
	       t->acked[OUT] == t->fin_at[OUT];
}

/* @seg of the socket at *@at. */
static int take(struct netcap_track *track, struct tracked **at, const struct net_tcp_segment *seg,
		int way, struct netcap_sink *sink, struct err *err)
{
	struct tracked *t = *at;
	int rc;
	t->last_ns = seg->time_ns;
	t->missing = 0;
	if (is_reset(t, seg, way)) {
		int error = way == OUT ? 0 : t->socket.up ? ECONNRESET : ECONNREFUSED;
		return end(track, at, seg->time_ns, error, sink, err);
	}
	if (seg->rst)
		return 0;
	/* the peer confirmed; of one that only asked (and may be a scan) nothing is told */
	if (!t->told && !seg->syn && (way == IN || seg->len) &&
	    (rc = tell(track, t, seg->time_ns, sink, err)) < 0)
		return rc;
	rc = take_ack(track, t, !way, seg, sink, err);
	if (rc >= 0)
		rc = take_payload(track, t, way, seg, sink, err);
	/* the side that asked has its answer */
	if (t->started[IN] && t->started[OUT])
		t->socket.up = 1;
	return rc >= 0 && is_ended(t) ? end(track, at, seg->time_ns, 0, sink, err) : rc;
}

/* One end's view: @local sent @seg (@way OUT) or gets it. */
static int view(struct netcap_track *track, const struct net_tcp_segment *seg, int way,
		struct netcap_sink *sink, struct err *err)
{
	const struct net_addr *local = way == OUT ? &seg->from : &seg->to;
	const struct net_addr *remote = way == OUT ? &seg->to : &seg->from;
	struct tracked **at = find(track, local, remote);
	struct netcap_owner_who who;
	int rc = 0;
	if (way == OUT && seg->syn) {
		/* the same two ports again: what was there before has ended */
		if (*at && ((*at)->socket.late ||
			    ((*at)->started[OUT] && (*at)->socket.first[OUT] != seg->seq + 1)))
			rc = end(track, at, seg->time_ns, 0, sink, err);
		if (rc < 0)
			return rc;
		at = find(track, local, remote);
		if (!*at) {
			rc = track->opt.whose(track->opt.ctx, seg, &who);
			if (rc == -ENOENT)
				track->stats.unowned++;
			if (rc <= 0)
				return rc == -ENOENT ? 0 : rc;
			rc = begin(track, local, remote, &who, seg->has_ack, 0, seg->time_ns, sink,
				   err);
			if (rc < 0)
				return rc;
			at = find(track, local, remote);
		}
	}
	return *at ? take(track, at, seg, way, sink, err) : 0;
}

int netcap_track_segment(struct netcap_track *track, const struct net_tcp_segment *seg,
			 enum netcap_track_way way, struct netcap_sink *sink, struct err *err)
{
	int rc = 0;
	/*
	 * only the sender's view asks whose a socket is, so an -EAGAIN comes before anything has
	 * happened
	 */
	if (way & NETCAP_TRACK_LEAVES)
		rc = view(track, seg, OUT, sink, err);
	if (rc >= 0 && way & NETCAP_TRACK_REACHES)
		rc = view(track, seg, IN, sink, err);
	return rc;
}

int netcap_track_late(struct netcap_track *track, const struct net_addr *local,
		      const struct net_addr *remote, const struct netcap_owner_who *who,
		      int accepted, uint64_t time_ns, struct netcap_sink *sink, struct err *err)
{
	return *find(track, local, remote)
		       ? 0
		       : begin(track, local, remote, who, accepted, 1, time_ns, sink, err);
}

int netcap_track_has(struct netcap_track *track, const struct net_addr *local,
		     const struct net_addr *remote)
{
	return *find(track, local, remote) != NULL;
}

int netcap_track_sweep(struct netcap_track *track, uint64_t before_ns, uint64_t time_ns,
		       int (*is_there)(void *ctx, const struct net_addr *local,
				       const struct net_addr *remote),
		       void *ctx, struct netcap_sink *sink, struct err *err)
{
	enum { DENIED = 2 };
	int rc = 0;
	for (uint32_t i = 0; i < track->used && rc >= 0; i++) {
		struct tracked *t = &track->all[i];
		if (!t->socket.head.cookie || t->last_ns > before_ns)
			continue;
		t->missing = is_there(ctx, &t->local, &t->remote) ? 0 : t->missing + 1;
		if (t->missing >= DENIED)
			rc = end(track, find(track, &t->local, &t->remote), time_ns,
				 t->socket.up ? 0 : ETIMEDOUT, sink, err);
	}
	return rc;
}

const struct wire_net_socket *netcap_track_last(void *ctx, uint64_t cookie)
{
	struct netcap_track *track = ctx;
	uint32_t slot = (uint32_t)cookie & SLOT_MASK;
	if (slot >= track->used || track->all[slot].socket.head.cookie != cookie)
		return NULL;
	last_word(track, &track->all[slot], 0);
	return &track->all[slot].socket;
}
