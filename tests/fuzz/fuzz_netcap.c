/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the kernel's ring to connections (source/netcap_flows.h): any record, any order.
 */
#include <string.h>

#include "fuzz_capture.h"
#include "source/netcap_flows.h"

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
	checker_init(&checker);
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
