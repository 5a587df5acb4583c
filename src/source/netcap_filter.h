/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap_filter.h - what a packet socket is to keep, as classic BPF: nobody needs a permission for
 * it. 0, or negative errno.
 */
#ifndef SOURCE_NETCAP_FILTER_H
#define SOURCE_NETCAP_FILTER_H

#include "source/netcap.h"

/**
 * netcap_filter_tcp() - TCP packets that this machine's sockets send or get; what passes interface
 * @loopback once, on its arrival. Connections to a port that is left out are not kept, unless it or
 * the other one is watched.
 */
int netcap_filter_tcp(int fd, const struct netcap_opt *opt, uint32_t loopback);
/**
 * netcap_filter_syn() - of these only what asks for a connection or answers, as it leaves; IPv6
 * without options.
 */
int netcap_filter_syn(int fd);
int netcap_filter_nothing(int fd);

#endif
