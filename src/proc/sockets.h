/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sockets.h - the TCP sockets of this network namespace as /proc/net/tcp and tcp6 list them, and
 * which process has which of them open. Costs a pass over all sockets, and over /proc; any thread.
 */
#ifndef PROC_SOCKETS_H
#define PROC_SOCKETS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/** struct proc_socket - addresses in network order, IPv4 v4-mapped; ports in the host's. */
struct proc_socket {
	uint8_t local_ip[16], remote_ip[16];
	uint16_t local_port, remote_port;
	/* as linux/tcp.h counts them: 1 established, 2 SYN sent, 6 time wait, 10 listening ... */
	uint8_t state;
	/* 0 = no process has it open (any more, or not yet) */
	uint64_t inode;
};

struct proc_sockets {
	struct proc_socket *rows;
	size_t count, cap;
};

/**
 * proc_sockets_read() - replace @sockets' rows; release with proc_sockets_fini(). -ENOMEM, or why a
 * file cannot be read.
 */
int proc_sockets_read(struct proc_sockets *sockets, struct err *err);
/**
 * proc_sockets_parse() - add the rows of @text, the content of either file; lines that are none are
 * passed over.
 */
int proc_sockets_parse(struct proc_sockets *sockets, const char *text);
void proc_sockets_fini(struct proc_sockets *sockets);

/**
 * proc_socket_inodes() - call @each for every socket that process @pid has open; negative errno
 * where that may not be seen.
 */
int proc_socket_inodes(uint32_t pid, void (*each)(void *ctx, uint64_t inode), void *ctx);

/**
 * proc_each() - every process of this pid namespace with its parent's id; @start (clock ticks)
 * tells apart who had an id.
 */
int proc_each(void (*each)(void *ctx, uint32_t pid, uint32_t parent, uint64_t start), void *ctx);

#endif
