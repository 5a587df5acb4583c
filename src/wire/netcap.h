/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * netcap.h - what bpf/net.bpf.c hands over: records of one ring buffer, a table of followed
 * sockets, counters.
 *
 * Every record begins with struct wire_net_head. Within a socket and direction the order of records
 * is that of the hook; order in the stream is by sequence number. Addresses are in network order,
 * IPv4 ones v4-mapped; ports and sequence numbers are in the host's order.
 */
#ifndef WIRE_NETCAP_H
#define WIRE_NETCAP_H

#include <stdint.h>

#define WIRE_NET_PIECE 16384u /* most payload bytes of one record */
#define WIRE_NET_PIECES 64    /* of one segment: 1 MiB, twice what the largest offload makes */
#define WIRE_NET_HEADROOM (256u << 10) /* of the ring: kept for everything but payload */
#define WIRE_NET_SLOTS 4 /* scratch of a CPU: programs interrupt and preempt each other */
#define WIRE_NET_WATCH_MAX 64
#define WIRE_NET_SKIP_MAX 256
#define WIRE_NET_PROCESSES_MAX 4096
#define WIRE_NET_LISTENERS_MAX 4096

enum wire_net_kind {
	WIRE_NET_DATA = 1, /* struct wire_net_data, then its payload */
	/* the same, but the payload begins at the IP header: the socket did not exist yet */
	WIRE_NET_EARLY,
	WIRE_NET_OPEN, /* struct wire_net_socket: connecting, accepted or found */
	/* struct wire_net_socket: a connect succeeded; addresses and first bytes are final */
	WIRE_NET_UP,
	WIRE_NET_CLOSE,  /* struct wire_net_socket */
	WIRE_NET_LISTEN, /* struct wire_net_process: it took a watched port */
	WIRE_NET_EXIT    /* struct wire_net_process: it ended */
};

struct wire_net_head {
	/* CLOCK_MONOTONIC */
	uint64_t time_ns;
	/* of the socket; 0 = not about one */
	uint64_t cookie;
	uint8_t kind;
	uint8_t outgoing;
	uint16_t reserved;
	/* of payload behind the record's struct */
	uint32_t bytes;
};
_Static_assert(sizeof(struct wire_net_head) == 24, "wire_net_head");

struct wire_net_data {
	struct wire_net_head head;
	/* of the first payload byte; EARLY: unused */
	uint32_t seq;
	/* incoming: what TCP had received in order before; outgoing: equal to seq */
	uint32_t settled;
	/* segments of this socket and direction that found no room so far, modulo 2^32 */
	uint32_t lost;
	uint32_t reserved;
};
_Static_assert(sizeof(struct wire_net_data) == 40, "wire_net_data");

enum { WIRE_NET_IN = 0, WIRE_NET_OUT = 1 };

/** A followed socket; the value of the table by cookie, and the body of OPEN, UP and CLOSE. */
struct wire_net_socket {
	struct wire_net_head head;
	/* process that connected or listened */
	uint32_t pid;
	uint16_t node_port;
	uint8_t local_initiated;
	/* found open */
	uint8_t late;
	/* stands for the sockets that it will accept */
	uint8_t listener;
	/* handshake done, @first is valid */
	uint8_t up;
	/* TCP state before the closing */
	uint8_t state;
	/* 1 = we closed first, 2 = the peer did, 0 = nobody */
	uint8_t first_fin;
	/* the socket's, positive errno */
	int32_t error;
	uint16_t local_port, remote_port;
	uint8_t local_ip[16], remote_ip[16];
	/* sequence number of each direction's first byte */
	uint32_t first[2];
	/* behind the last byte that the hook saw */
	uint32_t end[2];
	uint8_t end_known[2];
	uint8_t reserved[10];
	/* bytes moved before the socket was followed */
	uint64_t before[2];
	uint64_t lost_segments[2], lost_bytes[2];
};
_Static_assert(sizeof(struct wire_net_socket) == 152, "wire_net_socket");

struct wire_net_process {
	struct wire_net_head head;
	uint32_t pid;
	/* 0 = followed by pid */
	uint16_t node_port;
	uint16_t reserved;
};
_Static_assert(sizeof(struct wire_net_process) == 32, "wire_net_process");

/** Scratch of one program run; the loader reads only the counters. */
struct wire_net_slot {
	uint64_t busy;
	/*
	 * loop state in map memory: the verifier sees unknown values there, so that all turns look
	 * alike
	 */
	uint32_t from, left;
	/* seen by whoever had this slot: no atomic additions */
	uint64_t segments[2], bytes[2];
	struct wire_net_data record;
	uint8_t payload[WIRE_NET_PIECE];
};
_Static_assert(sizeof(struct wire_net_slot) == 88 + WIRE_NET_PIECE, "wire_net_slot");

/**
 * Counters of one CPU, by direction where two; the loader adds them up, and the slots' to segments
 * and bytes.
 */
struct wire_net_counters {
	uint64_t segments[2], bytes[2], lost_segments[2], lost_bytes[2];
	uint64_t unreadable, refused, lost_events, high_water;
};

/** How the reader wants to be woken; written by it, cleared by the program that does. */
enum wire_net_wake { WIRE_NET_WAKE_NOT = 0, WIRE_NET_WAKE_FIRST = 1, WIRE_NET_WAKE_HALF = 2 };

#endif
