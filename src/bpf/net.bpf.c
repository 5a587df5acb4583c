/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * net.bpf.c - what recorded processes send and receive by TCP, at the place where every kind of
 * call comes together.
 *
 * Payload: cgroup_skb programs see each segment as it leaves a socket or reaches it, whatever call
 * moved it (write, sendmsg, sendfile, splice, io_uring), with its sequence number. Sockets: their
 * state changes. Processes: fork and exit. Nothing here waits: what finds no room is counted and,
 * by sequence numbers, missed to the byte by the reader.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "wire/netcap.h"

#define WINDOW_MAX (64 << 20) /* bytes: far more than receive windows are */
#define INLINE static __attribute__((always_inline)) inline

enum { IPPROTO_TCP = 6, AF_INET = 2, AF_INET6 = 10 };
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN
};

/* 0: identities of the first pid namespace; else the loader's own */
const volatile uint32_t net_pidns_ino = 0;
const volatile uint64_t net_ring_bytes = 0;

/* of enum wire_net_wake; its own map, so that the loader may map it */
volatile uint32_t net_wake = WIRE_NET_WAKE_NOT;
/*
 * net_find runs three times: listeners on watched ports, other listeners of the processes found,
 * their connections
 */
volatile uint32_t net_find_pass = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* the loader's to settle */
	__uint(max_entries, 1 << 20);
} net_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	/* the loader's to settle */
	__uint(max_entries, 16384);
	/* cookie */
	__type(key, uint64_t);
	__type(value, struct wire_net_socket);
} net_sockets SEC(".maps");

struct process {
	uint16_t node_port;
	/* as one that listens: so is its end */
	uint16_t announced;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_NET_PROCESSES_MAX);
	/* process id */
	__type(key, uint32_t);
	__type(value, struct process);
} net_processes SEC(".maps");

struct listener_key {
	uint32_t netns;
	uint16_t port, reserved;
};
struct listener {
	uint32_t pid;
	uint16_t node_port;
	/* another port of a node: what it accepts there (RPC) is not recorded */
	uint16_t ignored;
	/* followed ones that listen there: one a family, address or thread */
	uint32_t sockets;
	uint32_t reserved;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_NET_LISTENERS_MAX);
	__type(key, struct listener_key);
	__type(value, struct listener);
} net_listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_NET_WATCH_MAX);
	__type(key, uint16_t);
	__type(value, uint8_t);
} net_watch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_NET_SKIP_MAX);
	__type(key, uint16_t);
	__type(value, uint8_t);
} net_skip SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct wire_net_counters);
} net_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_NET_SLOTS);
	__type(key, uint32_t);
	__type(value, struct wire_net_slot);
} net_slots SEC(".maps");

INLINE struct wire_net_counters *counters(void)
{
	uint32_t zero = 0;
	return bpf_map_lookup_elem(&net_counters, &zero);
}

/* How this record wakes the reader. */
INLINE uint64_t wake_flags(uint64_t used)
{
	uint32_t wake = net_wake;
	if (wake == WIRE_NET_WAKE_FIRST ||
	    (wake == WIRE_NET_WAKE_HALF && used > net_ring_bytes / 2)) {
		net_wake = WIRE_NET_WAKE_NOT;
		return BPF_RB_FORCE_WAKEUP;
	}
	return BPF_RB_NO_WAKEUP;
}

/* Anything but payload: small, and there is room kept for it. */
INLINE void put_event(void *record, uint64_t bytes)
{
	uint64_t used = bpf_ringbuf_query(&net_ring, BPF_RB_AVAIL_DATA);
	if (bpf_ringbuf_output(&net_ring, record, bytes, wake_flags(used))) {
		struct wire_net_counters *c = counters();
		if (c)
			__sync_fetch_and_add(&c->lost_events, 1);
	}
}

/* ---- payload --------------------------------------------------------------------------------- */

INLINE struct wire_net_slot *slot_take(void)
{
	for (uint32_t i = 0; i < WIRE_NET_SLOTS; i++) {
		uint32_t key = i;
		struct wire_net_slot *slot = bpf_map_lookup_elem(&net_slots, &key);
		if (slot && __sync_val_compare_and_swap(&slot->busy, 0, 1) == 0)
			return slot;
	}
	return 0;
}

struct segment {
	/* bytes, from the IP header */
	uint32_t total, payload_at, len;
	uint32_t seq;
	uint8_t syn, fin;
};

/* 1 = a TCP segment that moves the stream; others need not be looked at. */
INLINE int parse(struct __sk_buff *skb, struct segment *seg)
{
	uint8_t *p = (uint8_t *)(long)skb->data, *end = (uint8_t *)(long)skb->data_end;
	uint64_t at;
	if (p + 40 > end)
		return 0;
	if (p[0] >> 4 == 4) {
		if (p[9] != IPPROTO_TCP)
			return 0;
		at = (uint32_t)(p[0] & 15) * 4;
	} else {
		uint8_t next = p[6];
		at = 40;
		/* hop-by-hop, routing, destination options */
		for (int i = 0; i < 3 && (next == 0 || next == 43 || next == 60); i++) {
			uint8_t option[2];
			if (bpf_skb_load_bytes(skb, at, option, 2))
				return 0;
			next = option[0];
			at += 8 + (uint64_t)option[1] * 8;
		}
		if (next != IPPROTO_TCP)
			return 0;
	}
	/* headers of what leaves or reaches a socket lie in the packet's first part */
	const uint8_t *tcp = p + at;
	if (tcp + 20 > end)
		return 0;
	seg->payload_at = (uint32_t)at + (uint32_t)(tcp[12] >> 4) * 4;
	seg->total = skb->len;
	if (seg->total < seg->payload_at)
		return 0;
	seg->len = seg->total - seg->payload_at;
	seg->fin = tcp[13] & 1;
	seg->syn = tcp[13] >> 1 & 1;
	seg->seq =
		((uint32_t)tcp[4] << 24 | (uint32_t)tcp[5] << 16 | (uint32_t)tcp[6] << 8 | tcp[7]) +
		seg->syn;
	return seg->len || seg->fin;
}

INLINE void lose(struct wire_net_socket *socket, struct wire_net_counters *c, int out,
		 uint32_t bytes)
{
	__sync_fetch_and_add(&socket->lost_segments[out], 1);
	__sync_fetch_and_add(&socket->lost_bytes[out], bytes);
	__sync_fetch_and_add(&c->lost_segments[out], 1);
	__sync_fetch_and_add(&c->lost_bytes[out], bytes);
}

INLINE void copy(struct __sk_buff *skb, struct wire_net_socket *socket, struct wire_net_counters *c,
		 const struct segment *seg, uint64_t cookie, uint32_t settled, int out)
{
	/*
	 * a socket that was not there yet: the reader finds it by the addresses, so headers come
	 * along
	 */
	int early = socket->listener;
	struct wire_net_slot *slot = slot_take();
	if (!slot) {
		__sync_fetch_and_add(&c->segments[out], 1);
		__sync_fetch_and_add(&c->bytes[out], seg->len);
		lose(socket, c, out, seg->len);
		return;
	}
	slot->segments[out]++;
	slot->bytes[out] += seg->len;
	slot->record.head.time_ns = bpf_ktime_get_ns();
	slot->record.head.cookie = cookie;
	slot->record.head.kind = early ? WIRE_NET_EARLY : WIRE_NET_DATA;
	slot->record.head.outgoing = (uint8_t)out;
	slot->record.head.reserved = 0;
	slot->record.seq = seg->seq;
	slot->record.settled = settled;
	slot->record.reserved = 0;
	slot->from = early ? 0 : seg->payload_at;
	slot->left = early ? seg->total : seg->len;
	if (early && slot->left > WIRE_NET_PIECE)
		slot->left = WIRE_NET_PIECE;
	for (int i = 0; i < WIRE_NET_PIECES; i++) {
		volatile struct wire_net_slot *state = slot;
		uint32_t n = state->left, from = state->from;
		if (n > WIRE_NET_PIECE)
			n = WIRE_NET_PIECE;
		if (!n)
			break;
		/* says 1 to WIRE_NET_PIECE so that the verifier of 6.1 sees it too */
		uint32_t last = n - 1;
		asm volatile("" : "+r"(last));
		n = (last & (WIRE_NET_PIECE - 1)) + 1;
		uint64_t used = bpf_ringbuf_query(&net_ring, BPF_RB_AVAIL_DATA);
		slot->record.head.bytes = n;
		slot->record.lost = (uint32_t)socket->lost_segments[out];
		if (used + WIRE_NET_HEADROOM + WIRE_NET_PIECE > net_ring_bytes) {
			lose(socket, c, out, n);
		} else if (bpf_skb_load_bytes(skb, from, slot->payload, n)) {
			__sync_fetch_and_add(&c->unreadable, 1);
			lose(socket, c, out, n);
		} else if (bpf_ringbuf_output(&net_ring, &slot->record, sizeof(slot->record) + n,
					      wake_flags(used))) {
			lose(socket, c, out, n);
		}
		if (used > c->high_water)
			c->high_water = used;
		slot->record.seq += n;
		state->from = from + n;
		state->left -= n;
	}
	if (slot->left)
		lose(socket, c, out, slot->left);
	__sync_lock_test_and_set(&slot->busy, 0);
}

INLINE void take(struct __sk_buff *skb, int out)
{
	struct segment seg = { 0 };
	if (!parse(skb, &seg))
		return;
	uint64_t cookie = bpf_get_socket_cookie(skb);
	struct wire_net_socket *socket = bpf_map_lookup_elem(&net_sockets, &cookie);
	struct wire_net_counters *c = counters();
	if (!socket || !c || (socket->listener && out))
		return;
	uint32_t settled = seg.seq, end = seg.seq + seg.len;
	if (!out && !socket->listener) {
		struct bpf_sock *sk = skb->sk;
		sk = sk ? bpf_sk_fullsock(sk) : 0;
		struct bpf_tcp_sock *tcp = sk ? bpf_tcp_sock(sk) : 0;
		if (tcp && socket->up) {
			settled = tcp->rcv_nxt;
			/* received before, or nothing that this connection can have asked for */
			int32_t beyond = (int32_t)(end - settled);
			if ((seg.len && beyond <= 0) || beyond > WINDOW_MAX)
				return;
		}
	}
	if (!socket->listener) {
		if (!socket->end_known[out] || (int32_t)(end - socket->end[out]) > 0) {
			socket->end[out] = end;
			socket->end_known[out] = 1;
		} else if (out) {
			return; /* sent again */
		}
	}
	if (!seg.len)
		return; /* a bare FIN: the end of the stream is all it tells */
	copy(skb, socket, c, &seg, cookie, settled, out);
}

SEC("cgroup_skb/egress")
int net_egress(struct __sk_buff *skb)
{
	take(skb, WIRE_NET_OUT);
	return 1;
}

SEC("cgroup_skb/ingress")
int net_ingress(struct __sk_buff *skb)
{
	take(skb, WIRE_NET_IN);
	return 1;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* The process's id as the loader sees it; 0 = it does not. */
INLINE uint32_t process_of(struct task_struct *task)
{
	if (!net_pidns_ino)
		return (uint32_t)BPF_CORE_READ(task, tgid);
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	uint32_t level = BPF_CORE_READ(pid, level);
	for (uint32_t i = 0; i < 33 && i <= level; i++) {
		void *at = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			   i * bpf_core_type_size(struct upid);
		int nr = 0;
		struct pid_namespace *ns = 0;
		unsigned int inum = 0;
		bpf_probe_read_kernel(&nr, sizeof(nr), at + bpf_core_field_offset(struct upid, nr));
		bpf_probe_read_kernel(&ns, sizeof(ns), at + bpf_core_field_offset(struct upid, ns));
		bpf_probe_read_kernel(&inum, sizeof(inum),
				      (void *)ns +
					      bpf_core_field_offset(struct pid_namespace, ns.inum));
		if (inum == net_pidns_ino)
			return (uint32_t)nr;
	}
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(net_fork, struct task_struct *parent, struct task_struct *child)
{
	uint32_t from = process_of(parent), to = process_of(child);
	struct process *known = from != to ? bpf_map_lookup_elem(&net_processes, &from) : 0;
	if (known && to) {
		struct process copied = { .node_port = known->node_port };
		bpf_map_update_elem(&net_processes, &to, &copied, BPF_NOEXIST);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(net_exit, struct task_struct *task)
{
	uint32_t pid = process_of(task);
	struct process *known = bpf_map_lookup_elem(&net_processes, &pid);
	if (!known || BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	struct wire_net_process event = {
		.head = { .time_ns = bpf_ktime_get_ns(), .kind = WIRE_NET_EXIT },
		.pid = pid,
		.node_port = known->node_port,
	};
	int announced = known->announced;
	if (!bpf_map_delete_elem(&net_processes, &pid) && announced)
		put_event(&event, sizeof(event));
	return 0;
}

/* ---- sockets --------------------------------------------------------------------------------- */

INLINE void map_v4(uint8_t ip[16], uint32_t v4)
{
	__builtin_memset(ip, 0, 10);
	ip[10] = ip[11] = 0xff;
	__builtin_memcpy(ip + 12, &v4, 4);
}

INLINE void addresses(struct sock *sk, struct wire_net_socket *socket)
{
	uint16_t dport = BPF_CORE_READ(sk, __sk_common.skc_dport);
	socket->remote_port = (uint16_t)(dport >> 8 | dport << 8);
	socket->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET) {
		map_v4(socket->local_ip, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
		map_v4(socket->remote_ip, BPF_CORE_READ(sk, __sk_common.skc_daddr));
	} else {
		BPF_CORE_READ_INTO((struct in6_addr *)socket->local_ip, sk,
				   __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_addr *)socket->remote_ip, sk,
				   __sk_common.skc_v6_daddr);
	}
}

/*
 * Where both streams begin. TCP counts the bytes it moved, and one for the SYN that it sent itself.
 * Read without the socket's lock where it was found open, so until two readings agree.
 */
INLINE void firsts(struct sock *sk, struct wire_net_socket *socket)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
	uint64_t acked, received, again;
	uint32_t una, next;
	for (int i = 0; i < 4; i++) {
		acked = BPF_CORE_READ(tcp, bytes_acked);
		una = BPF_CORE_READ(tcp, snd_una);
		again = BPF_CORE_READ(tcp, bytes_acked);
		if (again == acked)
			break;
	}
	for (int i = 0; i < 4; i++) {
		received = BPF_CORE_READ(tcp, bytes_received);
		next = BPF_CORE_READ(tcp, rcv_nxt);
		again = BPF_CORE_READ(tcp, bytes_received);
		if (again == received)
			break;
	}
	if (socket->local_initiated && acked)
		acked--;
	socket->first[WIRE_NET_OUT] = una - (uint32_t)acked;
	socket->first[WIRE_NET_IN] = next - (uint32_t)received;
	if (socket->late) {
		socket->before[WIRE_NET_OUT] = acked;
		socket->before[WIRE_NET_IN] = received;
	}
	socket->up = 1;
}

INLINE int is_skipped(uint16_t port)
{
	return bpf_map_lookup_elem(&net_skip, &port) != 0;
}

/* Follow @socket from here on; the first that says so announces it, and has 1. */
INLINE int follow(struct wire_net_socket *socket)
{
	uint64_t cookie = socket->head.cookie;
	/* an int of the kernel's before 6.4: the upper half of the register says nothing */
	int rc = (int)bpf_map_update_elem(&net_sockets, &cookie, socket, BPF_NOEXIST);
	if (!rc) {
		if (!socket->listener)
			put_event(socket, sizeof(*socket));
		return 1;
	}
	struct wire_net_counters *c = rc != -17 /* EEXIST */ ? counters() : 0;
	if (c)
		__sync_fetch_and_add(&c->refused, 1);
	return 0;
}

INLINE uint32_t netns_of(struct sock *sk)
{
	return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

/*
 * A function of its own: the compiler would mix the two answers' pointers, which the verifier
 * forbids.
 */
static __attribute__((noinline)) int is_watched(uint16_t port)
{
	return bpf_map_lookup_elem(&net_watch, &port) ? 1 : 0;
}

/*
 * Connections to @key are the latest listener's; @more is 1 for a socket that was not counted there
 * yet.
 */
INLINE void put_listener(const struct listener_key *key, struct listener *listener, uint32_t more)
{
	listener->sockets = more;
	/* twice: another CPU may put its own in between */
	for (int i = 0; i < 2; i++) {
		struct listener *known = bpf_map_lookup_elem(&net_listeners, key);
		if (known) {
			known->pid = listener->pid;
			known->node_port = listener->node_port;
			known->ignored = listener->ignored;
			__sync_fetch_and_add(&known->sockets, more);
			return;
		}
		if (!(int)bpf_map_update_elem(&net_listeners, key, listener, BPF_NOEXIST))
			return;
	}
	struct wire_net_counters *c = counters();
	if (c)
		__sync_fetch_and_add(&c->refused, 1);
}

/* A process begins to listen, or was found listening. */
INLINE void listening(struct sock *sk, uint64_t cookie, uint32_t pid, int announce)
{
	uint16_t port = BPF_CORE_READ(sk, __sk_common.skc_num);
	int watched = is_watched(port);
	struct process *known = bpf_map_lookup_elem(&net_processes, &pid);
	if (!watched && !known)
		return;
	struct listener_key key = { .netns = netns_of(sk), .port = port };
	struct listener listener = { .pid = pid,
				     .node_port = watched ? port : 0,
				     .ignored = !watched && known->node_port };
	if (listener.ignored) {
		put_listener(&key, &listener, 0);
		return;
	}
	if (watched) {
		struct process process = { .node_port = port,
					   .announced = known ? known->announced : 0 };
		bpf_map_update_elem(&net_processes, &pid, &process, 0);
	}
	struct wire_net_socket socket = {
		.head = { .time_ns = bpf_ktime_get_ns(), .cookie = cookie, .kind = WIRE_NET_OPEN },
		.pid = pid,
		.node_port = listener.node_port,
		.listener = 1,
		.local_port = port
	};
	int fresh = follow(&socket);
	put_listener(&key, &listener, (uint32_t)fresh);
	if (fresh && watched && announce) {
		struct wire_net_process event = {
			.head = { .time_ns = socket.head.time_ns, .kind = WIRE_NET_LISTEN },
			.pid = pid,
			.node_port = port,
		};
		put_event(&event, sizeof(event));
		struct process *listens = bpf_map_lookup_elem(&net_processes, &pid);
		if (listens)
			listens->announced = 1;
	}
}

INLINE void connecting(struct sock *sk, uint64_t cookie)
{
	uint32_t pid = process_of(bpf_get_current_task_btf());
	struct process *known = bpf_map_lookup_elem(&net_processes, &pid);
	if (!known)
		return;
	struct wire_net_socket socket = {
		.head = { .time_ns = bpf_ktime_get_ns(), .cookie = cookie, .kind = WIRE_NET_OPEN },
		.pid = pid,
		.node_port = known->node_port,
		.local_initiated = 1
	};
	addresses(sk, &socket);
	if (!is_skipped(socket.remote_port))
		follow(&socket);
}

INLINE void accepted(struct sock *sk, uint64_t cookie)
{
	struct listener_key key = { .netns = netns_of(sk),
				    .port = BPF_CORE_READ(sk, __sk_common.skc_num) };
	struct listener *listener = bpf_map_lookup_elem(&net_listeners, &key);
	if (!listener || listener->ignored)
		return;
	struct wire_net_socket socket = {
		.head = { .time_ns = bpf_ktime_get_ns(), .cookie = cookie, .kind = WIRE_NET_OPEN },
		.pid = listener->pid,
		.node_port = listener->node_port
	};
	addresses(sk, &socket);
	firsts(sk, &socket);
	if (!is_skipped(socket.remote_port))
		follow(&socket);
}

INLINE void established(struct sock *sk, uint64_t cookie, int old)
{
	struct wire_net_socket *known = bpf_map_lookup_elem(&net_sockets, &cookie);
	if (!known) {
		if (old == TCP_SYN_RECV)
			accepted(sk, cookie);
		return;
	}
	if (known->up || known->listener)
		return;
	addresses(sk, known);
	firsts(sk, known);
	struct wire_net_socket event = *known;
	event.head.kind = WIRE_NET_UP;
	event.head.time_ns = bpf_ktime_get_ns();
	put_event(&event, sizeof(event));
}

INLINE void closed(struct sock *sk, uint64_t cookie, int old)
{
	struct wire_net_socket *known = bpf_map_lookup_elem(&net_sockets, &cookie);
	if (!known)
		return;
	struct wire_net_socket event = *known;
	if (bpf_map_delete_elem(&net_sockets, &cookie))
		return; /* somebody else said it already */
	if (event.listener) {
		struct listener_key key = { .netns = netns_of(sk), .port = event.local_port };
		struct listener *listener = bpf_map_lookup_elem(&net_listeners, &key);
		/* the other family's or another address's may go on */
		if (listener && __sync_fetch_and_add(&listener->sockets, -1) == 1)
			bpf_map_delete_elem(&net_listeners, &key);
		return;
	}
	event.head.kind = WIRE_NET_CLOSE;
	event.head.time_ns = bpf_ktime_get_ns();
	event.state = (uint8_t)old;
	event.error = BPF_CORE_READ(sk, sk_err);
	/* what came out of order and was never received belongs to no stream */
	uint32_t next = BPF_CORE_READ((const struct tcp_sock *)sk, rcv_nxt);
	if ((int32_t)(event.end[WIRE_NET_IN] - next) > 0)
		event.end[WIRE_NET_IN] = next;
	put_event(&event, sizeof(event));
}

INLINE void state(struct sock *sk, int old, int new)
{
	uint16_t family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP ||
	    (family != AF_INET && family != AF_INET6))
		return;
	uint64_t cookie = bpf_get_socket_cookie(sk);
	if (new == TCP_SYN_SENT) {
		connecting(sk, cookie);
	} else if (new == TCP_ESTABLISHED) {
		established(sk, cookie, old);
	} else if (new == TCP_LISTEN) {
		listening(sk, cookie, process_of(bpf_get_current_task_btf()), 1);
	} else if (new == TCP_CLOSE) {
		closed(sk, cookie, old);
	} else if (new == TCP_FIN_WAIT1 || new == TCP_CLOSE_WAIT) {
		struct wire_net_socket *known = bpf_map_lookup_elem(&net_sockets, &cookie);
		if (known && !known->first_fin)
			known->first_fin = new == TCP_FIN_WAIT1 ? 1 : 2;
	}
}

/*
 * Twice: a program is left out where it interrupts itself on a CPU (a connection that arrives while
 * a process is inside connect()), and then the other copy is not running. The first of the two does
 * the work.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(net_state, struct sock *sk, int old, int new)
{
	state(sk, old, new);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(net_state_again, struct sock *sk, int old, int new)
{
	state(sk, old, new);
	return 0;
}

/* ---- what runs already ----------------------------------------------------------------------- */

/* Over the open files of all processes: first the nodes, then everything of theirs. */
SEC("iter/task_file")
int net_find(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	if (!task || !file)
		return 0;
	struct socket *sock = bpf_sock_from_file(file);
	struct sock *sk = sock ? sock->sk : 0;
	if (!sk)
		return 0;
	uint16_t family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP ||
	    (family != AF_INET && family != AF_INET6))
		return 0;
	uint32_t pid = process_of(task);
	uint8_t tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
	uint64_t cookie = bpf_get_socket_cookie(sk);
	if (tcp_state == TCP_LISTEN) {
		listening(sk, cookie, pid, net_find_pass == 0);
		return 0;
	}
	struct process *known = bpf_map_lookup_elem(&net_processes, &pid);
	if (net_find_pass < 2 || !known || tcp_state == TCP_CLOSE || tcp_state == TCP_TIME_WAIT ||
	    tcp_state == TCP_SYN_RECV)
		return 0;
	struct wire_net_socket socket = {
		.head = { .time_ns = bpf_ktime_get_ns(), .cookie = cookie, .kind = WIRE_NET_OPEN },
		.pid = pid,
		.node_port = known->node_port
	};
	addresses(sk, &socket);
	/*
	 * nothing in the kernel remembers who opened it: who shares a port with a listener was
	 * accepted
	 */
	struct listener_key key = { .netns = netns_of(sk), .port = socket.local_port };
	struct listener *listener = bpf_map_lookup_elem(&net_listeners, &key);
	if (listener && listener->ignored)
		return 0;
	socket.local_initiated = !listener;
	if (tcp_state != TCP_SYN_SENT) {
		socket.late = 1;
		firsts(sk, &socket);
	}
	if (!is_skipped(socket.remote_port))
		follow(&socket);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
