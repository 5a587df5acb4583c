/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap_packet.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "base/clock.h"
#include "net/packet.h"
#include "source/netcap_filter.h"
#include "source/netcap_track.h"

#define RING_BYTES (64u << 20)
#define BLOCK_BYTES (128u << 10) /* more than the largest packet that offload makes */
#define RING_BLOCKS_MIN 8u
/*
 * How long packets may pile up in a block before it is handed over. A block that is not full counts
 * like one that is: with 60 ms the usual ring holds half a minute of thin traffic.
 */
#define RETIRE_MS 60
#define AROUND_NS NS_PER_S /* how often /proc is looked through when nothing asks for it */
#define LOOK_SHARE \
	9 /* a look is followed by so many times its length without one: a tenth of a CPU at most */
#define SILENT_NS \
	2000000000ull /* a connection without packets for so long is looked for in the table */
#define DRAIN_MAX 10000
#define SYNS_MAX 64
#define REST_MS 2000 /* the longest wait for the last block */

struct pair {
	struct net_addr local, remote;
};

/*
 * Whose a socket was when its SYN had just been sent. A short connection is over before the ring's
 * block is handed over, so these packets come by a socket of their own as well, at once.
 */
struct answer {
	struct pair pair;
	uint32_t seq;
	/* 1 = recorded, 0 = not */
	int rc;
	struct netcap_owner_who who;
};
#define ANSWERS 1024u /* the oldest is dropped for a new one */

struct netcap_packet {
	int fd, syn_fd;
	struct answer *answers;
	uint64_t answer_count;
	uint8_t *ring;
	uint32_t blocks;
	/* the next one to be read */
	uint32_t block;
	/* the next packet in it; NULL = its first */
	struct tpacket3_hdr *at;
	/* packets of it, @at included */
	uint32_t left;
	/* interface index */
	uint32_t loopback;
	/* read; that the kernel says it kept */
	uint64_t packets, kept;
	/* packets; bytes */
	uint64_t dropped, high_water;
	struct netcap_flows *flows;
	struct netcap_owner *owner;
	struct netcap_track *track;
	/*
	 * monotonic: of the last look around; earliest time of the next look, and of the next
	 * glance
	 */
	uint64_t around_ns, look_after_ns, glance_after_ns;
	/* wall clock at the last look's beginning; their number */
	uint64_t looked_wall_ns, looks;
	/* of looks when the packet at the front was refused */
	uint64_t asked_looks;
	/* the packet at the front waits for a look */
	int asked;
	/* connections that are open and were not seen to begin */
	struct pair *unknown, *unknown_before;
	size_t unknown_count, unknown_before_count, unknown_cap, unknown_before_cap;
	/* of the first look, until there is a sink */
	struct wire_net_process *events;
	size_t event_count;
	int adopted;
	/* while looking */
	struct netcap_sink *sink;
	struct err *err;
	int rc;
};

/* ---- opening --------------------------------------------------------------------------------- */

static int no_packets(int rc, const char *what, struct err *err)
{
	err_set(err, rc, "cannot %s", what);
	return rc == -EPERM || rc == -EACCES
		       ? err_hint(err,
				  "needs CAP_NET_RAW; 'byteledger check' lists what is missing")
		       : rc;
}

static int open_ring(struct netcap_packet *packet, const struct netcap_opt *opt, struct err *err)
{
	uint32_t bytes = opt->ring_bytes ? opt->ring_bytes : RING_BYTES;
	int version = TPACKET_V3;
	packet->blocks = bytes / BLOCK_BYTES;
	if (packet->blocks < RING_BLOCKS_MIN)
		packet->blocks = RING_BLOCKS_MIN;
	struct tpacket_req3 ring = { .tp_block_size = BLOCK_BYTES,
				     .tp_block_nr = packet->blocks,
				     .tp_frame_size = BLOCK_BYTES,
				     .tp_frame_nr = packet->blocks,
				     .tp_retire_blk_tov = RETIRE_MS };
	/*
	 * of no protocol until the filter is there; without link headers, so that all interfaces
	 * look alike
	 */
	packet->fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (packet->fd < 0)
		return no_packets(-errno, "open a packet socket", err);
	if (setsockopt(packet->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(packet->fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) < 0)
		return no_packets(-errno, "make the ring of a packet socket", err);
	void *at = mmap(NULL, (size_t)packet->blocks * BLOCK_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED, packet->fd, 0);
	if (at == MAP_FAILED)
		return no_packets(-errno, "map the ring of a packet socket", err);
	packet->ring = at;
	packet->syn_fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (packet->syn_fd < 0)
		return no_packets(-errno, "open a packet socket", err);
	packet->loopback = if_nametoindex("lo");
	int rc = netcap_filter_tcp(packet->fd, opt, packet->loopback);
	if (!rc)
		rc = netcap_filter_syn(packet->syn_fd);
	if (rc < 0)
		return no_packets(rc, "set the filter of a packet socket", err);
	return 0;
}

/* From here on packets are kept. */
static int begin(struct netcap_packet *packet, struct err *err)
{
	struct sockaddr_ll all = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	return bind(packet->fd, (struct sockaddr *)&all, sizeof(all)) < 0 ||
			       bind(packet->syn_fd, (struct sockaddr *)&all, sizeof(all)) < 0
		       ? no_packets(-errno, "bind a packet socket", err)
		       : 0;
}

static void freep(struct netcap_packet **packet)
{
	netcap_packet_free(*packet);
}

int netcap_packet_try(struct err *err)
{
	const struct netcap_opt opt = { .ring_bytes = RING_BLOCKS_MIN * BLOCK_BYTES };
	CLEANUP(freep) struct netcap_packet *packet = calloc(1, sizeof(*packet));
	if (!packet)
		return err_set(err, -ENOMEM, "cannot allocate the network capture");
	packet->fd = packet->syn_fd = -1;
	int rc = open_ring(packet, &opt, err);
	return rc < 0 ? rc : begin(packet, err);
}

static int is_same(const struct net_addr *a, const struct net_addr *b)
{
	return a->port == b->port && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

static const struct answer *answer_of(const struct netcap_packet *packet,
				      const struct net_tcp_segment *syn)
{
	uint64_t oldest = packet->answer_count > ANSWERS ? packet->answer_count - ANSWERS : 0;
	for (uint64_t i = packet->answer_count; i > oldest; i--) {
		const struct answer *answer = &packet->answers[(i - 1) % ANSWERS];
		if (answer->seq == syn->seq && is_same(&answer->pair.local, &syn->from) &&
		    is_same(&answer->pair.remote, &syn->to))
			return answer;
	}
	return NULL;
}

/*
 * Whose a socket that asks is, as it was answered at once, or as of a look that is newer than the
 * packet that asks.
 */
static int whose(void *ctx, const struct net_tcp_segment *syn, struct netcap_owner_who *who)
{
	struct netcap_packet *packet = ctx;
	if (syn->has_ack)
		return netcap_owner_accepts(packet->owner, &syn->from, who);
	const struct answer *answer = answer_of(packet, syn);
	if (answer) {
		packet->asked = 0;
		*who = answer->who;
		return answer->rc;
	}
	/* the clock may be set back: then the number of looks says so */
	if (packet->looked_wall_ns <= syn->time_ns &&
	    !(packet->asked && packet->looks > packet->asked_looks)) {
		if (!packet->asked) {
			packet->asked = 1;
			packet->asked_looks = packet->looks;
		}
		return -EAGAIN;
	}
	packet->asked = 0;
	return netcap_owner_connected(packet->owner, &syn->from, &syn->to, who);
}

void netcap_packet_free(struct netcap_packet *packet)
{
	if (!packet)
		return;
	if (packet->ring)
		munmap(packet->ring, (size_t)packet->blocks * BLOCK_BYTES);
	if (packet->fd >= 0)
		close(packet->fd);
	if (packet->syn_fd >= 0)
		close(packet->syn_fd);
	free(packet->answers);
	netcap_track_free(packet->track);
	netcap_owner_free(packet->owner);
	free(packet->unknown);
	free(packet->unknown_before);
	free(packet->events);
	free(packet);
}

/* ---- whose sockets --------------------------------------------------------------------------- */

static void on_process(void *ctx, enum netcap_process what, uint32_t pid, uint16_t node_port)
{
	struct netcap_packet *packet = ctx;
	struct wire_net_process event = {
		.head = { .time_ns = packet->looked_wall_ns,
			  .kind = what == NETCAP_NODE_LISTENS ? WIRE_NET_LISTEN : WIRE_NET_EXIT },
		.pid = pid,
		.node_port = node_port,
	};
	if (packet->rc >= 0 && packet->sink) {
		packet->rc = netcap_flows_record(packet->flows, &event, sizeof(event), packet->sink,
						 packet->err);
	} else if (packet->rc >= 0) {
		struct wire_net_process *events =
			realloc(packet->events, (packet->event_count + 1) * sizeof(*events));
		if (!events) {
			packet->rc = err_set(packet->err, -ENOMEM, "cannot hold what /proc says");
			return;
		}
		packet->events = events;
		events[packet->event_count++] = event;
	}
}

/* What a look costs counts, not how long this thread waited for its turn. */
static uint64_t next_after(uint64_t began_cpu_ns)
{
	return clock_ns(CLOCK_MONOTONIC) +
	       LOOK_SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_cpu_ns);
}

static int look(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err)
{
	uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	packet->looked_wall_ns = clock_ns(CLOCK_REALTIME);
	packet->sink = sink;
	packet->err = err;
	packet->rc = 0;
	int rc = netcap_owner_look(packet->owner, on_process, packet, err);
	packet->looks++;
	packet->look_after_ns = next_after(began);
	return rc < 0 ? rc : packet->rc;
}

/*
 * 1 = all of @syns were answered; 0 = one is of a process that was not known at the last look,
 * unless that was just now (@sure).
 */
static int answer(struct netcap_packet *packet, const struct net_tcp_segment *syns, size_t count,
		  int sure)
{
	int all = 1;
	for (size_t i = 0; i < count; i++) {
		struct answer a = { { syns[i].from, syns[i].to }, syns[i].seq, 0, { 0, 0 } };
		if (answer_of(packet, &syns[i]))
			continue;
		a.rc = netcap_owner_connected(packet->owner, &a.pair.local, &a.pair.remote, &a.who);
		all &= a.rc != 0;
		if (a.rc == 1 || (a.rc == 0 && sure))
			packet->answers[packet->answer_count++ % ANSWERS] = a;
	}
	return all;
}

/* Packets that ask for a connection, or grant one, just left: look who does. */
static int take_syns(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err)
{
	struct net_tcp_segment syns[SYNS_MAX];
	uint8_t bytes[256];
	size_t count = 0, asking = 0;
	ssize_t n;
	while (count < SYNS_MAX && (n = recv(packet->syn_fd, bytes, sizeof(bytes), 0)) >= 0) {
		struct net_tcp_segment syn;
		memset(&syn, 0, sizeof(syn));
		count++;
		if (net_packet(bytes, (size_t)n, &syn) == NET_PACKET_SEGMENT && !syn.has_ack)
			syns[asking++] = syn;
	}
	if (!count)
		return 0;
	uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	int rc = netcap_owner_glance(packet->owner, err);
	packet->glance_after_ns = next_after(began);
	if (rc < 0)
		return rc;
	/* of a process that is not known yet, a new listener or a child */
	if ((!answer(packet, syns, asking, 0) || rc == 1) &&
	    clock_ns(CLOCK_MONOTONIC) >= packet->look_after_ns) {
		rc = look(packet, sink, err);
		answer(packet, syns, asking, 1);
	}
	return rc < 0 ? rc : 0;
}

static int adopt(void *ctx, const struct net_addr *local, const struct net_addr *remote,
		 const struct netcap_owner_who *who, int accepted)
{
	struct netcap_packet *packet = ctx;
	return netcap_track_late(packet->track, local, remote, who, accepted,
				 packet->looked_wall_ns, packet->sink, packet->err);
}

/*
 * A connection that is in the table and not among the tracked ones may have its first packets in a
 * block that is not handed over yet, or have had its last ones between look and reading. One that
 * is so at two looks has not.
 */
static int adopt_unknown(void *ctx, const struct net_addr *local, const struct net_addr *remote,
			 const struct netcap_owner_who *who, int accepted)
{
	struct netcap_packet *packet = ctx;
	if (netcap_track_has(packet->track, local, remote))
		return 0;
	for (size_t i = 0; i < packet->unknown_before_count; i++) {
		const struct pair *pair = &packet->unknown_before[i];
		if (is_same(&pair->local, local) && is_same(&pair->remote, remote))
			return adopt(packet, local, remote, who, accepted);
	}
	if (packet->unknown_count == packet->unknown_cap) {
		size_t cap = packet->unknown_cap ? packet->unknown_cap * 2 : 16;
		struct pair *unknown = realloc(packet->unknown, cap * sizeof(*unknown));
		if (!unknown)
			return err_set(packet->err, -ENOMEM, "cannot hold the table of sockets");
		packet->unknown = unknown;
		packet->unknown_cap = cap;
	}
	packet->unknown[packet->unknown_count++] = (struct pair){ *local, *remote };
	return 0;
}

/* What the look at the beginning saw. */
static int begin_with(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err)
{
	int rc = 0;
	packet->sink = sink;
	packet->err = err;
	packet->adopted = 1;
	for (size_t i = 0; i < packet->event_count && rc >= 0; i++)
		rc = netcap_flows_record(packet->flows, &packet->events[i], sizeof(*packet->events),
					 sink, err);
	return rc < 0 ? rc : netcap_owner_each(packet->owner, adopt, packet);
}

static int is_there(void *ctx, const struct net_addr *local, const struct net_addr *remote)
{
	struct netcap_packet *packet = ctx;
	return netcap_owner_has(packet->owner, local, remote);
}

/* With nothing in the ring: connections whose beginning or end was not seen. */
static int look_around(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err)
{
	int rc = look(packet, sink, err);
	packet->around_ns = clock_ns(CLOCK_MONOTONIC);
	if (rc < 0)
		return rc;
	struct pair *before = packet->unknown_before;
	size_t cap = packet->unknown_before_cap;
	packet->unknown_before = packet->unknown;
	packet->unknown_before_count = packet->unknown_count;
	packet->unknown_before_cap = packet->unknown_cap;
	packet->unknown = before;
	packet->unknown_cap = cap;
	packet->unknown_count = 0;
	rc = netcap_owner_each(packet->owner, adopt_unknown, packet);
	if (rc < 0)
		return rc;
	return netcap_track_sweep(packet->track, packet->looked_wall_ns - SILENT_NS,
				  packet->looked_wall_ns, is_there, packet, sink, err);
}

int netcap_packet_open(const struct netcap_opt *opt, struct netcap_flows *flows,
		       struct netcap_packet **out, struct err *err)
{
	struct netcap_track_opt track = { .connections_max = opt->connections_max,
					  .skip_remote_ports = opt->skip_remote_ports,
					  .skip_remote_port_count = opt->skip_remote_port_count,
					  .whose = whose };
	CLEANUP(freep) struct netcap_packet *packet = calloc(1, sizeof(*packet));
	if (!packet)
		return err_set(err, -ENOMEM, "cannot allocate the network capture");
	packet->fd = packet->syn_fd = -1;
	packet->flows = flows;
	packet->answers = calloc(ANSWERS, sizeof(*packet->answers));
	if (!packet->answers)
		return err_set(err, -ENOMEM, "cannot allocate the network capture");
	track.ctx = packet;
	packet->owner = netcap_owner_new(opt, err);
	packet->track = packet->owner ? netcap_track_new(&track, flows, err) : NULL;
	int rc = packet->track ? open_ring(packet, opt, err) : err->code;
	/* what is open before the first packet is kept was not seen to begin */
	if (!rc)
		rc = look(packet, NULL, err);
	if (!rc)
		rc = begin(packet, err);
	if (!rc)
		*out = STEAL(packet);
	return rc;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static struct tpacket_block_desc *block_at(const struct netcap_packet *packet, uint32_t number)
{
	return (void *)(packet->ring + (size_t)(number % packet->blocks) * BLOCK_BYTES);
}

static int is_ready(const struct netcap_packet *packet, uint32_t number)
{
	return __atomic_load_n(&block_at(packet, number)->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
	       TP_STATUS_USER;
}

/* Blocks that are handed over and wait. */
static uint64_t ring_used(const struct netcap_packet *packet)
{
	uint32_t ready = 0;
	while (ready < packet->blocks && is_ready(packet, packet->block + ready))
		ready++;
	return (uint64_t)ready * BLOCK_BYTES;
}

/* The kernel forgets these once they are read. */
static void read_statistics(struct netcap_packet *packet)
{
	struct tpacket_stats_v3 stats;
	socklen_t len = sizeof(stats);
	if (getsockopt(packet->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) < 0)
		return;
	packet->kept += stats.tp_packets - stats.tp_drops;
	packet->dropped += stats.tp_drops;
	netcap_track_dropped(packet->track, packet->dropped);
}

static uint32_t sum16(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	if (len & 1)
		sum += (uint32_t)bytes[len - 1] << 8;
	return (sum & 0xffff) + (sum >> 16);
}

/* A packet that the network damaged is one that its socket never got. */
static int is_damaged(const struct net_tcp_segment *seg, const uint8_t *ip, size_t len)
{
	size_t tcp_len = seg->len + (size_t)(seg->bytes - ip);
	size_t header = ip[0] >> 4 == 4 ? (size_t)(ip[0] & 15) * 4 : 40;
	if (ip[0] >> 4 == 6 && ip[6] != IPPROTO_TCP)
		return 0; /* options before it; the receiver judges */
	tcp_len -= header;
	if (header + tcp_len > len)
		return 0; /* cut off, which is told as a gap */
	uint32_t sum = IPPROTO_TCP + (uint32_t)(tcp_len & 0xffff) + (uint32_t)(tcp_len >> 16);
	sum = ip[0] >> 4 == 4 ? sum16(sum, ip + 12, 8) : sum16(sum, ip + 8, 32);
	sum = sum16(sum, ip + header, tcp_len);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) != 0xffff;
}

static int take(struct netcap_packet *packet, const struct tpacket3_hdr *head,
		struct netcap_sink *sink, struct err *err)
{
	const struct sockaddr_ll *from =
		(const void *)((const uint8_t *)head + TPACKET_ALIGN(sizeof(*head)));
	const uint8_t *ip = (const uint8_t *)head + head->tp_net;
	struct net_tcp_segment seg;
	memset(&seg, 0, sizeof(seg));
	if (net_packet(ip, head->tp_snaplen, &seg) != NET_PACKET_SEGMENT)
		return 0;
	int leaves = from->sll_pkttype == PACKET_OUTGOING;
	int loops = (uint32_t)from->sll_ifindex == packet->loopback;
	seg.time_ns = (uint64_t)head->tp_sec * NS_PER_S + head->tp_nsec;
	if (!leaves && !loops &&
	    !(head->tp_status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY)) &&
	    is_damaged(&seg, ip, head->tp_snaplen))
		return 0;
	return netcap_track_segment(packet->track, &seg,
				    loops    ? NETCAP_TRACK_BOTH
				    : leaves ? NETCAP_TRACK_LEAVES
					     : NETCAP_TRACK_REACHES,
				    sink, err);
}

/*
 * What the ring holds, at most about DRAIN_MAX packets; packet->asked: the next one waits for a
 * look.
 */
static int drain(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err)
{
	int count = 0;
	uint64_t used = ring_used(packet);
	if (used > packet->high_water)
		packet->high_water = used;
	if (used)
		read_statistics(packet);
	while (count < DRAIN_MAX && is_ready(packet, packet->block)) {
		struct tpacket_block_desc *block = block_at(packet, packet->block);
		if (!packet->at) {
			packet->left = block->hdr.bh1.num_pkts;
			packet->at =
				(void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);
		}
		for (; packet->left; packet->left--) {
			int rc = take(packet, packet->at, sink, err);
			if (rc == -EAGAIN)
				return count;
			if (rc < 0)
				return rc;
			count++;
			packet->packets++;
			packet->at = (void *)((uint8_t *)packet->at + packet->at->tp_next_offset);
		}
		packet->at = NULL;
		packet->block = (packet->block + 1) % packet->blocks;
		__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
	return count;
}

/* Look if somebody asks, read, wait and read; *@left_ns is what remains of the caller's time. */
static int turn(struct netcap_packet *packet, uint64_t *left_ns, struct netcap_sink *sink,
		struct err *err)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC), wait = *left_ns;
	int rc = began >= packet->glance_after_ns ? take_syns(packet, sink, err) : 0;
	int n = rc < 0 ? rc : drain(packet, sink, err);
	if (n)
		return n;
	if (packet->asked && began >= packet->look_after_ns) {
		rc = look(packet, sink, err);
		return rc < 0 ? rc : drain(packet, sink, err);
	}
	if (!packet->asked && began - packet->around_ns >= AROUND_NS &&
	    (rc = look_around(packet, sink, err)) < 0)
		return rc;
	/* a packet that waits for a look stops the ring, and then only time goes on */
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t next = packet->asked ? packet->look_after_ns : packet->around_ns + AROUND_NS;
	int may_glance = now >= packet->glance_after_ns;
	if (!may_glance && next > packet->glance_after_ns)
		next = packet->glance_after_ns;
	if (next < now)
		next = now;
	if (wait > next - now)
		wait = next - now;
	struct pollfd fds[2] = { { .fd = packet->asked ? -1 : packet->fd, .events = POLLIN },
				 { .fd = may_glance ? packet->syn_fd : -1, .events = POLLIN } };
	struct timespec time = clock_time(wait);
	if (wait && ppoll(fds, 2, &time, NULL) < 0)
		rc = -errno;
	uint64_t spent = clock_ns(CLOCK_MONOTONIC) - began;
	*left_ns = rc == -EINTR || spent > *left_ns ? 0 : *left_ns - spent;
	if (fds[1].revents && (rc = take_syns(packet, sink, err)) < 0)
		return rc;
	return drain(packet, sink, err);
}

int netcap_packet_poll(struct netcap_packet *packet, int timeout_ms, struct netcap_sink *sink,
		       struct err *err)
{
	uint64_t left_ns = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * 1000000u;
	int n = 0;
	err_init(err);
	if (!packet->adopted && (n = begin_with(packet, sink, err)) < 0)
		return n;
	n = timeout_ms ? 0 : drain(packet, sink, err);
	while (!n && left_ns)
		n = turn(packet, &left_ns, sink, err);
	return n;
}

void netcap_packet_detach(struct netcap_packet *packet)
{
	netcap_filter_nothing(packet->fd);
	netcap_filter_nothing(packet->syn_fd);
}

int netcap_packet_rest(struct netcap_packet *packet, struct netcap_sink *sink, struct err *err)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + REST_MS * 1000000ull;
	int n = 0;
	read_statistics(packet);
	/*
	 * the last block is handed over when it is old enough, and the kernel has counted what is
	 * in it
	 */
	while (n >= 0 && packet->packets < packet->kept && clock_ns(CLOCK_MONOTONIC) < until) {
		struct pollfd ring = { .fd = packet->fd, .events = POLLIN };
		poll(&ring, 1, RETIRE_MS);
		n = drain(packet, sink, err);
		if (n >= 0 && packet->asked)
			n = look(packet, sink, err);
		if (n > 0)
			until = clock_ns(CLOCK_MONOTONIC) + REST_MS * 1000000ull;
	}
	return n < 0 ? n : 0;
}

const struct wire_net_socket *netcap_packet_last(void *packet, uint64_t cookie)
{
	return netcap_track_last(((struct netcap_packet *)packet)->track, cookie);
}

void netcap_packet_stats(struct netcap_packet *packet, struct netcap_stats *stats)
{
	struct netcap_track_stats track;
	netcap_track_stats(packet->track, &track);
	read_statistics(packet);
	for (int way = 0; way < 2; way++) {
		/* what is missing was never counted by anybody but the connections themselves */
		stats->segments[way] = track.segments[way];
		stats->lost_bytes[way] = stats->gap_bytes[way];
		stats->bytes[way] = track.bytes[way] + stats->gap_bytes[way];
	}
	stats->dropped_packets = packet->dropped;
	stats->refused_connections = track.refused;
	stats->unowned_connections = track.unowned;
	stats->hidden_nodes = netcap_owner_hidden(packet->owner);
	stats->nodes = netcap_owner_processes(packet->owner);
	stats->ring_bytes = (uint64_t)packet->blocks * BLOCK_BYTES;
	stats->ring_used = ring_used(packet);
	stats->ring_high_water = packet->high_water;
}
