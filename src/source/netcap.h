/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap.h - live network traffic of processes as a source: every TCP byte that recorded processes
 * send and receive, per connection and direction, in stream order, with exact gaps.
 *
 * A connection is a kernel socket, known by its cookie: dup, fork, exec and descriptor passing
 * change nothing. Where both ends of a connection are recorded (two nodes on one machine) it is two
 * connections here, one for each socket. What a process wrote by any call (write, writev, sendmsg,
 * sendmmsg, sendfile, splice, io_uring ...) is seen as it leaves the socket, what it reads as it
 * arrives there; sequence numbers give order and gaps.
 *
 * Calls in order of use: open, then poll as long as wanted, stats at any time, detach, poll until 0
 * comes back, finish, close. One thread at a time. The recorded processes never wait: what finds no
 * room is counted, and becomes a gap of known length.
 */
#ifndef SOURCE_NETCAP_H
#define SOURCE_NETCAP_H

/*
 * A circle of files: each backend is behind this face, and takes its options and counters from
 * here.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/tcp.h"

struct netcap;

#define NETCAP_PORTS_MAX 64

enum netcap_backend {
	NETCAP_AUTO, /* BPF; where that is refused, packets */
	NETCAP_BPF,  /* sees recorded sockets only, in every network namespace */
	/*
	 * a packet socket: sees all TCP of this network namespace; see docs/netcap.md for what it
	 * cannot know
	 */
	NETCAP_PACKET
};

/** struct netcap_opt - copied. Lists may be empty, but not all of ports and pids. */
struct netcap_opt {
	/*
	 * A process that listens on one of these TCP ports is a node: it is recorded whether it
	 * runs already or starts later.
	 */
	const uint16_t *ports;
	size_t port_count;
	/* These processes are recorded from now on, with their open connections. */
	const uint32_t *pids;
	size_t pid_count;
	/*
	 * Connections to these remote ports are not recorded (22, 53, 80, 443 and the syslog ports
	 * by custom).
	 */
	const uint16_t *skip_remote_ports;
	size_t skip_remote_port_count;
	enum netcap_backend backend;
	/* room for a burst, a power of two; 0 = 64 MiB */
	uint32_t ring_bytes;
	/* at a time; 0 = 16384 */
	uint32_t connections_max;
};

/** struct netcap_conn - lent. */
struct netcap_conn {
	/* from 0 in order of appearance; never used again */
	uint64_t conn;
	/* the kernel's name of the socket; NETCAP_PACKET: a number of ours */
	uint64_t cookie;
	/* wall clock */
	uint64_t time_ns;
	/* who connected, or who listened; 0 = unknown */
	uint32_t pid;
	/* the watched port its process listens on; 0 = recorded by pid */
	uint16_t node_port;
	/* 1 = connect, 0 = accept */
	uint8_t local_initiated;
	/* was open before recording began */
	uint8_t attached_late;
	struct net_addr local, remote;
};

enum netcap_gap {
	NETCAP_GAP_BEFORE, /* moved before recording began */
	NETCAP_GAP_RING,   /* no room left for a burst */
	NETCAP_GAP_UNSEEN  /* never passed the place of capture (or was held back too long) */
};
/** netcap_gap_text() - a few words for logs and rows. */
const char *netcap_gap_text(enum netcap_gap why);

enum netcap_process {
	NETCAP_NODE_LISTENS, /* a process took a watched port: time to read its identity again */
	NETCAP_NODE_ENDED
};

/**
 * struct netcap_sink - takes what happened, in order within a connection. @conn as in struct
 * netcap_conn. @offset counts the direction's bytes from the connection's start, gaps included.
 * Times are wall clock of the moment in the kernel. Negative errno stops the poll and comes back
 * from it. @process may be NULL.
 */
struct netcap_sink {
	int (*open)(struct netcap_sink *sink, const struct netcap_conn *conn, struct err *err);
	int (*data)(struct netcap_sink *sink, uint64_t conn, int outgoing, uint64_t time_ns,
		    uint64_t offset, const void *bytes, size_t len, struct err *err);
	int (*gap)(struct netcap_sink *sink, uint64_t conn, int outgoing, uint64_t time_ns,
		   uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err);
	/** @reason: "closed by peer", "closed", "reset", "connection refused" ..., lent */
	int (*close)(struct netcap_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		     struct err *err);
	int (*process)(struct netcap_sink *sink, enum netcap_process what, uint32_t pid,
		       uint16_t node_port, uint64_t time_ns, struct err *err);
};

/**
 * netcap_open() - attach. Running processes are adopted before the return, their open connections
 * come with the first poll. Needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN until it returned, none
 * later but for netcap_stats() (CAP_BPF, or nothing where kernel.unprivileged_bpf_disabled is 0).
 * NETCAP_PACKET needs CAP_NET_RAW until it returned, and for processes of other users
 * CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH as long as it runs. Return: 0 and *@out, or negative errno
 * with the kernel's reason and a hint.
 */
int netcap_open(const struct netcap_opt *opt, struct netcap **out, struct err *err);
/**
 * netcap_backend() - which way is used: never NETCAP_AUTO. netcap_why() - why it is not BPF, lent;
 * "" if it is or was not asked.
 */
enum netcap_backend netcap_backend(const struct netcap *cap);
const char *netcap_why(const struct netcap *cap);

/**
 * netcap_poll() - hand over what came, waiting up to @timeout_ms for the first (0: not at all, -1:
 * without end). Under traffic it gathers for up to 5 ms, so that the recorded processes do not pay
 * for a wake-up each time; it comes back after some 10,000 records, so that the caller can do its
 * work. A signal ends the wait. Return: number of records, 0 = none in that time; negative errno.
 */
int netcap_poll(struct netcap *cap, int timeout_ms, struct netcap_sink *sink, struct err *err);

#define NETCAP_POLL_MANY 4096 /* a poll that hands over so many records left more behind */

/**
 * struct netcap_stats - since open; [0] incoming, [1] outgoing. seen = delivered + lost, duplicates
 * aside.
 */
struct netcap_stats {
	/* seen on recorded connections */
	uint64_t segments[2], bytes[2];
	/* handed to the sink */
	uint64_t delivered_bytes[2];
	/* found no room in the ring; NETCAP_PACKET: bytes of gaps */
	uint64_t lost_segments[2], lost_bytes[2];
	/* sent again by TCP, counted in bytes */
	uint64_t duplicate_bytes[2];
	/* told to the sink, "before" ones left out */
	uint64_t gaps[2], gap_bytes[2];
	/* payload that the kernel would not copy */
	uint64_t unreadable;
	/* no entry left in the kernel's table */
	uint64_t refused_connections;
	/* openings and closings that found no room */
	uint64_t lost_events;
	/* left out: broke a rule, of no known connection */
	uint64_t bad_records, unknown_segments;
	/* connections; node processes now */
	uint64_t opened, open, closed, nodes;
	/* size and most used */
	uint64_t ring_bytes, ring_high_water;
	/*
	 * NETCAP_PACKET only: packets of whatever connection that found no room; connections whose
	 * process was gone before it could be told, left out; listening processes that this user
	 * may not see
	 */
	uint64_t dropped_packets, unowned_connections, hidden_nodes;
	/* NETCAP_PACKET: bytes that wait to be polled; 0 with BPF, where a poll empties the ring */
	uint64_t ring_used;
};
int netcap_stats(struct netcap *cap, struct netcap_stats *stats, struct err *err);

/** netcap_detach() - nothing more is captured; what was captured can still be polled. */
void netcap_detach(struct netcap *cap);
/**
 * netcap_finish() - hand over what is held back and close every connection that is open ("recording
 * ended", or "closed, end not seen" where the kernel knows it no more).
 */
int netcap_finish(struct netcap *cap, struct netcap_sink *sink, struct err *err);
/** netcap_close() - release; without netcap_finish() what is held back is dropped. NULL is fine. */
void netcap_close(struct netcap *cap);

#endif
