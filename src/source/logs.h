/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logs.h - a node's log lines as a source: syslog over UDP, TCP (RFC 6587, both framings) and unix
 * datagram sockets, parsed by net/syslog.h. Receiving never waits for the sink.
 */
#ifndef SOURCE_LOGS_H
#define SOURCE_LOGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/syslog.h"

#define LOGS_LINE_MAX \
	65536 /* bytes of a datagram or line; the rest of a longer one is cut off and counted */
#define LOGS_CLIENTS_MAX \
	32 /* TCP senders at once; a new one takes the place of the one silent for longest */

struct logs;

/** struct logs_opt - where to listen; what is 0 or NULL is left out. */
struct logs_opt {
	/* IP to bind, NULL = 127.0.0.1 */
	const char *address;
	uint16_t udp_port, tcp_port;
	/* an old socket there is replaced, a file is not */
	const char *unix_path;
};

/** struct logs_stats - received = handed over + malformed + dropped. */
struct logs_stats {
	uint64_t received, bytes;
	/* not UTF-8, or empty */
	uint64_t malformed;
	/* refused by the sink */
	uint64_t dropped;
	/* found no room in a socket's buffer; not in @received */
	uint64_t kernel_dropped;
	/* came longer than LOGS_LINE_MAX, or a sender ended in the middle of one */
	uint64_t truncated;
	/* TCP senders that were closed for a new one */
	uint64_t refused_clients;
};

/** logs_open() - bind all sockets of @opt. -EADDRINUSE with the port. Release with logs_close(). */
int logs_open(const struct logs_opt *opt, struct logs **out, struct err *err);
/** logs_fd() - readable when there is something to receive (an epoll descriptor), lent. */
int logs_fd(const struct logs *logs);

/** Takes a line; strings are lent. Nonzero = no room: the line is dropped and counted. */
typedef int (*logs_fn)(void *ctx, const struct log_line *line);
/**
 * logs_receive() - hand over what is there, waiting for nothing; a bounded number of lines a call.
 * One thread at a time.
 */
void logs_receive(struct logs *logs, logs_fn fn, void *ctx);
/** logs_stats() - any thread. */
void logs_stats(struct logs *logs, struct logs_stats *stats);
void logs_close(struct logs *logs);

#endif
