/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the kernel's ring to connections (source/netcap_flows.h): any record, any order. Offsets of a direction are
 * without a hole: the next one is where data or gap before it ended.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/netcap_flows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNS 256

struct checker {
	struct netcap_sink sink;
	uint64_t opened, closed;
	uint64_t offset[CONNS][2];
	uint8_t state[CONNS]; /* 1 open, 2 closed */
};

static struct checker *of(struct netcap_sink *sink, uint64_t conn)
{
	struct checker *checker = (struct checker *)sink;
	if (conn >= CONNS || checker->state[conn] != 1)
		abort();
	return checker;
}

static int on_open(struct netcap_sink *sink, const struct netcap_conn *conn, struct err *err)
{
	struct checker *checker = (struct checker *)sink;
	(void)err;
	if (conn->conn != checker->opened++ || conn->conn >= CONNS)
		abort();
	checker->state[conn->conn] = 1;
	return 0;
}

static int on_data(struct netcap_sink *sink, uint64_t conn, int out, uint64_t time_ns,
		   uint64_t offset, const void *bytes, size_t len, struct err *err)
{
	uint64_t *next = &of(sink, conn)->offset[conn][out];
	volatile uint8_t last = ((const uint8_t *)bytes)[len - 1];
	(void)time_ns, (void)err, (void)last;
	if (!len || offset != *next)
		abort();
	*next += len;
	return 0;
}

static int on_gap(struct netcap_sink *sink, uint64_t conn, int out, uint64_t time_ns,
		  uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err)
{
	uint64_t *next = &of(sink, conn)->offset[conn][out];
	(void)time_ns, (void)err;
	if (!lost || offset != *next || !netcap_gap_text(why)[0])
		abort();
	*next += lost;
	return 0;
}

static int on_close(struct netcap_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct checker *checker = of(sink, conn);
	(void)time_ns, (void)err;
	if (!reason[0])
		abort();
	checker->state[conn] = 2;
	checker->closed++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct checker checker;
	struct err err = { 0 };
	union {
		uint64_t align;
		uint8_t bytes[512];
		struct wire_net_head head;
		struct wire_net_data data;
		struct wire_net_socket socket;
	} record;
	memset(&checker, 0, sizeof(checker));
	checker.sink = (struct netcap_sink){ on_open, on_data, on_gap, on_close, NULL };
	struct netcap_flows *flows = netcap_flows_new(&err);
	if (!flows)
		abort();
	/* two bytes: how much of the input this record takes, and how much more it claims to be */
	for (size_t at = 0, n = 0; size - at >= 2 && n < CONNS; n++) {
		size_t given = data[at], bytes = given + (size_t)data[at + 1] % 200;
		at += 2;
		if (given > size - at)
			given = size - at;
		memset(&record, 0, sizeof(record));
		memcpy(&record, data + at, given);
		at += given;
		record.head.cookie &= 7; /* so that records meet */
		if (record.head.kind == WIRE_NET_DATA) {
			record.data.seq &= 0xfff;
			record.data.settled &= 0xfff;
		} else {
			record.socket.first[0] &= 0xff;
			record.socket.first[1] &= 0xff;
		}
		if (netcap_flows_record(flows, &record, bytes, &checker.sink, &err) < 0)
			abort();
	}
	struct netcap_flows_stats stats;
	if (netcap_flows_finish(flows, 1, "recording ended", NULL, NULL, &checker.sink, &err) < 0 ||
	    checker.closed != checker.opened)
		abort();
	netcap_flows_stats(flows, &stats);
	if (stats.opened != checker.opened || stats.open)
		abort();
	netcap_flows_free(flows);
	return 0;
}
