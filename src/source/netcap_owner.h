/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap_owner.h - whose a TCP socket is, for a capture that only sees packets: listeners on
 * watched ports, their processes and those processes' children, and the sockets that these have
 * open, all by looking through /proc. One thread.
 *
 * It knows what was so at the last look. Who asks about something newer looks again first.
 */
#ifndef SOURCE_NETCAP_OWNER_H
#define SOURCE_NETCAP_OWNER_H

#include "source/netcap.h"

struct netcap_owner;

struct netcap_owner_who {
	/* 0 = this user may not see */
	uint32_t pid;
	uint16_t node_port;
};

struct netcap_owner *netcap_owner_new(const struct netcap_opt *opt, struct err *err);
void netcap_owner_free(struct netcap_owner *owner);

/**
 * netcap_owner_look() - look through /proc. @process is told of every process that took a watched
 * port, and of every recorded one that ended, since the last look. Some ms; grows with sockets and
 * processes of the machine.
 */
int netcap_owner_look(struct netcap_owner *owner,
		      void (*process)(void *ctx, enum netcap_process what, uint32_t pid,
				      uint16_t node_port),
		      void *ctx, struct err *err);
/**
 * netcap_owner_glance() - the same for what known processes have open, in a fraction of the time:
 * no new process is found. 1 = there is a listener on a watched port whose process is not known:
 * look.
 */
int netcap_owner_glance(struct netcap_owner *owner, struct err *err);
/**
 * netcap_owner_accepts() - 1 = connections to @local are accepted by a recorded listener; or were,
 * if @local is an address of ours and its port is watched: who it was is then as last known.
 */
int netcap_owner_accepts(const struct netcap_owner *owner, const struct net_addr *local,
			 struct netcap_owner_who *who);
/**
 * netcap_owner_connected() - 1 = a recorded process's, 0 = another's, -ENOENT = nobody has it open
 * any more.
 */
int netcap_owner_connected(const struct netcap_owner *owner, const struct net_addr *local,
			   const struct net_addr *remote, struct netcap_owner_who *who);
/**
 * netcap_owner_has() - 1 = there is such a socket, and it is not merely waiting for late packets.
 */
int netcap_owner_has(const struct netcap_owner *owner, const struct net_addr *local,
		     const struct net_addr *remote);
/**
 * netcap_owner_each() - every connection of recorded processes that is open; a negative @each stops
 * and comes back.
 */
int netcap_owner_each(const struct netcap_owner *owner,
		      int (*each)(void *ctx, const struct net_addr *local,
				  const struct net_addr *remote, const struct netcap_owner_who *who,
				  int accepted),
		      void *ctx);
/** netcap_owner_processes() - recorded ones. */
size_t netcap_owner_processes(const struct netcap_owner *owner);
/**
 * netcap_owner_hidden() - listeners whose process this user may not see: what these connect to is
 * not recorded.
 */
size_t netcap_owner_hidden(const struct netcap_owner *owner);

#endif
