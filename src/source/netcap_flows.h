/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcap_flows.h - records of wire/netcap.h to connections, ordered bytes and gaps of
 * source/netcap.h. Pure: no kernel, no clock. Records are validated; one that breaks a rule is
 * counted and left out. One thread.
 */
#ifndef SOURCE_NETCAP_FLOWS_H
#define SOURCE_NETCAP_FLOWS_H

#include "source/netcap.h"
#include "wire/netcap.h"

struct netcap_flows;

struct netcap_flows_stats {
	uint64_t delivered_bytes[2], duplicate_bytes[2], gaps[2], gap_bytes[2];
	uint64_t opened, open, closed, bad_records, unknown_segments;
};

struct netcap_flows *netcap_flows_new(struct err *err);
void netcap_flows_free(struct netcap_flows *flows);
/**
 * netcap_flows_clock() - what to add to the records' CLOCK_MONOTONIC to have wall clock, from now
 * on.
 */
void netcap_flows_clock(struct netcap_flows *flows, int64_t offset_ns);
/** netcap_flows_record() - one record, lent; negative errno comes from @sink or -ENOMEM. */
int netcap_flows_record(struct netcap_flows *flows, const void *record, size_t bytes,
			struct netcap_sink *sink, struct err *err);
/**
 * netcap_flows_data() - a segment's payload of head.bytes bytes, any number, beside its record;
 * @data is a DATA record.
 */
int netcap_flows_data(struct netcap_flows *flows, const struct wire_net_data *data,
		      const uint8_t *bytes, struct netcap_sink *sink, struct err *err);
/**
 * netcap_flows_start() - for back ends that learn it by direction: the first byte of @way has
 * sequence number @seq. Once.
 */
int netcap_flows_start(struct netcap_flows *flows, uint64_t cookie, int way, uint32_t seq,
		       struct netcap_sink *sink, struct err *err);
/**
 * netcap_flows_settle() - the receiver has everything before @seq: what is held and begins there or
 * before waits no longer.
 */
int netcap_flows_settle(struct netcap_flows *flows, uint64_t cookie, int way, uint32_t seq,
			uint64_t time_ns, struct netcap_sink *sink, struct err *err);
/**
 * netcap_flows_finish() - hand over what is held back and close everything, with @reason. @last may
 * be NULL; it lends the kernel's last word on a socket (NULL = it has none), so that bytes missing
 * at the very end are told too.
 */
int netcap_flows_finish(struct netcap_flows *flows, uint64_t time_ns, const char *reason,
			const struct wire_net_socket *(*last)(void *ctx, uint64_t cookie),
			void *ctx, struct netcap_sink *sink, struct err *err);
/**
 * netcap_flows_sweep() - close what @is_there denies twice in a row: its closing found no room.
 * What the kernel said before a sweep has to be handed over before the next one.
 */
int netcap_flows_sweep(struct netcap_flows *flows, uint64_t time_ns,
		       int (*is_there)(void *ctx, uint64_t cookie), void *ctx,
		       struct netcap_sink *sink, struct err *err);
void netcap_flows_stats(const struct netcap_flows *flows, struct netcap_flows_stats *stats);

#endif
