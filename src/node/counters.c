/* SPDX-License-Identifier: Apache-2.0 */
#include "node/counters.h"

#include "base/cleanup.h"
#include "model/message.h"

#define ROW(field, section, key, family, is_gauge, unit, help, loss, shape)                      \
	{ section, key, family, is_gauge, unit, help, loss, offsetof(struct node_counts, field), \
	  shape },
#define ROW_ONE(...) ROW(__VA_ARGS__, NODE_COUNTER_ONE)
#define ROW_TWO(...) ROW(__VA_ARGS__, NODE_COUNTER_TWO)
#define ROW_NS(...) ROW(__VA_ARGS__, NODE_COUNTER_NS)
#define ROW_BY_TYPE(...) ROW(__VA_ARGS__, NODE_COUNTER_BY_TYPE)
const struct node_counter node_counters[] = { NODE_COUNTERS(ROW_ONE, ROW_TWO, ROW_NS,
							    ROW_BY_TYPE) };
const size_t node_counter_count = ARRAY_LEN(node_counters);

const struct node_counter capture_counters[] = {
	{ NULL, "nodes", NULL, 1, "processes", "Node processes now", NULL,
	  offsetof(struct netcap_stats, nodes), NODE_COUNTER_ONE },
	{ NULL, "segments", NULL, 0, "segments", "Segments seen on recorded connections", NULL,
	  offsetof(struct netcap_stats, segments), NODE_COUNTER_TWO },
	{ NULL, "bytes", "byteledger_net_capture_bytes_total", 0, "bytes", "Payload bytes seen",
	  NULL, offsetof(struct netcap_stats, bytes), NODE_COUNTER_TWO },
	{ NULL, "delivered_bytes", NULL, 0, "bytes", "Of them handed on to be decoded", NULL,
	  offsetof(struct netcap_stats, delivered_bytes), NODE_COUNTER_TWO },
	{ NULL, "lost_segments", "byteledger_net_capture_lost_segments_total", 0, "segments",
	  "Segments that found no room in the ring", "bytes of a stream",
	  offsetof(struct netcap_stats, lost_segments), NODE_COUNTER_TWO },
	{ NULL, "lost_bytes", "byteledger_net_capture_lost_bytes_total", 0, "bytes",
	  "Payload bytes that found no room in the ring", "bytes of a stream",
	  offsetof(struct netcap_stats, lost_bytes), NODE_COUNTER_TWO },
	{ NULL, "duplicate_bytes", NULL, 0, "bytes", "Payload bytes that TCP sent again", NULL,
	  offsetof(struct netcap_stats, duplicate_bytes), NODE_COUNTER_TWO },
	{ NULL, "gaps", NULL, 0, "gaps", "Places where bytes of a stream are missing",
	  "bytes of a stream", offsetof(struct netcap_stats, gaps), NODE_COUNTER_TWO },
	{ NULL, "gap_bytes", NULL, 0, "bytes", "Bytes known to be missing", "bytes of a stream",
	  offsetof(struct netcap_stats, gap_bytes), NODE_COUNTER_TWO },
	{ NULL, "unreadable", NULL, 0, "segments", "Segments that the kernel would not copy",
	  "bytes of a stream", offsetof(struct netcap_stats, unreadable), NODE_COUNTER_ONE },
	{ NULL, "refused_connections", NULL, 0, "connections",
	  "Connections for which the kernel's table had no room", "all that they carry",
	  offsetof(struct netcap_stats, refused_connections), NODE_COUNTER_ONE },
	{ NULL, "lost_events", "byteledger_net_capture_lost_events_total", 0, "events",
	  "Openings and closings of connections that found no room in the ring",
	  "when a connection began or ended", offsetof(struct netcap_stats, lost_events),
	  NODE_COUNTER_ONE },
	{ NULL, "bad_records", "byteledger_net_capture_bad_records_total", 0, "records",
	  "Records of the ring that broke a rule", "what they said",
	  offsetof(struct netcap_stats, bad_records), NODE_COUNTER_ONE },
	{ NULL, "unknown_segments", "byteledger_net_capture_unknown_segments_total", 0, "segments",
	  "Segments of connections that nobody opened", "bytes of a stream",
	  offsetof(struct netcap_stats, unknown_segments), NODE_COUNTER_ONE },
	{ NULL, "dropped_packets", "byteledger_net_capture_dropped_packets_total", 0, "packets",
	  "Packets of any connection that found no room, where a packet socket captures",
	  "bytes of a stream", offsetof(struct netcap_stats, dropped_packets), NODE_COUNTER_ONE },
	{ NULL, "unowned_connections", NULL, 0, "connections",
	  "Connections whose process was gone before it could be told", "all that they carry",
	  offsetof(struct netcap_stats, unowned_connections), NODE_COUNTER_ONE },
	{ NULL, "hidden_nodes", NULL, 1, "processes",
	  "Listening processes that this user may not see", "all that they send and receive",
	  offsetof(struct netcap_stats, hidden_nodes), NODE_COUNTER_ONE },
	{ NULL, "ring_bytes", "byteledger_net_ring_bytes", 1, "bytes", "Size of the capture ring",
	  NULL, offsetof(struct netcap_stats, ring_bytes), NODE_COUNTER_ONE },
	{ NULL, "ring_high_water", "byteledger_net_ring_high_water_bytes", 1, "bytes",
	  "Most that was ever in the capture ring", NULL,
	  offsetof(struct netcap_stats, ring_high_water), NODE_COUNTER_ONE },
};
const size_t capture_counter_count = ARRAY_LEN(capture_counters);

const char *node_type_word(unsigned index)
{
	static const char *const handshake[] = { "connection_message", "metadata", "ack_message" };
	return index < ARRAY_LEN(handshake) ? handshake[index]
	       : index == NODE_TYPES - 1    ? "unknown"
					    : message_type_kind((enum message_type)index);
}
