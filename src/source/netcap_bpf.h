/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap_bpf.h - the loader of bpf/net.bpf.c: the back end behind NETCAP_BPF. Calls in order of
 * use, one thread.
 */
#ifndef SOURCE_NETCAP_BPF_H
#define SOURCE_NETCAP_BPF_H

#include "source/netcap.h"
#include "wire/netcap.h"

struct netcap_bpf;

/**
 * netcap_bpf_load() - size the maps and pass the verifier; nothing is attached yet. The kernel's
 * reason is in @err.
 */
int netcap_bpf_load(const struct netcap_opt *opt, struct netcap_bpf **out, struct err *err);
/** netcap_bpf_attach() - from here on everything is seen; then running nodes are adopted. */
int netcap_bpf_attach(struct netcap_bpf *bpf, struct err *err);
/**
 * netcap_bpf_arm() - when the next record is to end a wait; forgotten once it did. Drain again
 * before waiting for the first.
 */
void netcap_bpf_arm(struct netcap_bpf *bpf, enum wire_net_wake wake);
/** netcap_bpf_wait() - up to @timeout_ms. 0, or -EINTR. */
int netcap_bpf_wait(struct netcap_bpf *bpf, int timeout_ms);
#define NETCAP_BPF_DRAIN_MAX 10000
/**
 * netcap_bpf_drain() - records in the ring, this many at most: fewer were all. @record's negative
 * errno stops and comes back.
 */
int netcap_bpf_drain(struct netcap_bpf *bpf,
		     int (*record)(void *ctx, const void *bytes, size_t len), void *ctx);
/**
 * netcap_bpf_socket() - the kernel's entry of a followed socket, lent until the next call; NULL
 * with errno, ENOENT = none.
 */
const struct wire_net_socket *netcap_bpf_socket(struct netcap_bpf *bpf, uint64_t cookie);
int netcap_bpf_counters(struct netcap_bpf *bpf, struct wire_net_counters *sum, uint64_t *processes,
			struct err *err);
uint32_t netcap_bpf_ring_bytes(const struct netcap_bpf *bpf);
void netcap_bpf_detach(struct netcap_bpf *bpf);
void netcap_bpf_free(struct netcap_bpf *bpf);
void netcap_bpf_freep(struct netcap_bpf **bpf);

#endif
