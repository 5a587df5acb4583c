/* SPDX-License-Identifier: Apache-2.0 */
/* net_status.c - the recorder's counters, as JSON and for Prometheus. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/metrics.h"
#include "api/net_internal.h"

static const char *const ways[2] = { "incoming", "outgoing" };

static const char *type_word(unsigned index)
{
	static const char *const handshake[] = { "connection_message", "metadata", "ack_message" };
	return index < 3                    ? handshake[index]
	       : index == API_NET_TYPES - 1 ? "unknown"
					    : message_type_kind((enum message_type)index);
}

/* What the recorder knows; zeros where nothing is being recorded. */
static void get_live(struct net_node *node, struct api_net_live *live)
{
	memset(live, 0, sizeof(*live));
	if (node->net->opt.live)
		node->net->opt.live(node->net->opt.ctx, node->index, live);
}

static void get_capture(struct api_net *net, struct api_net_capture *capture)
{
	memset(capture, 0, sizeof(*capture));
	if (net->opt.capture)
		net->opt.capture(net->opt.ctx, capture);
}

/* ---- /v3/status --------------------------------------------------------------------------------------------------- */

static void both(struct jsonw *w, const char *key, const uint64_t value[2])
{
	jsonw_object(w, key);
	jsonw_u64(w, "incoming", value[0]);
	jsonw_u64(w, "outgoing", value[1]);
	jsonw_object_end(w);
}

static void put_capture(struct jsonw *w, const struct api_net_capture *c)
{
	if (!c->backend) {
		jsonw_null(w, "capture");
		return;
	}
	jsonw_object(w, "capture");
	jsonw_str(w, "backend", c->backend);
	if (c->backend_reason)
		jsonw_str(w, "backend_reason", c->backend_reason);
	else
		jsonw_null(w, "backend_reason");
	jsonw_u64(w, "nodes", c->nodes);
	both(w, "segments", c->segments);
	both(w, "bytes", c->bytes);
	both(w, "delivered_bytes", c->delivered_bytes);
	both(w, "lost_segments", c->lost_segments);
	both(w, "lost_bytes", c->lost_bytes);
	both(w, "duplicate_bytes", c->duplicate_bytes);
	both(w, "gaps", c->gaps);
	both(w, "gap_bytes", c->gap_bytes);
	jsonw_u64(w, "unreadable", c->unreadable);
	jsonw_u64(w, "refused_connections", c->refused_connections);
	jsonw_u64(w, "lost_events", c->lost_events);
	jsonw_u64(w, "bad_records", c->bad_records);
	jsonw_u64(w, "unknown_segments", c->unknown_segments);
	jsonw_u64(w, "dropped_packets", c->dropped_packets);
	jsonw_u64(w, "unowned_connections", c->unowned_connections);
	jsonw_u64(w, "hidden_nodes", c->hidden_nodes);
	jsonw_u64(w, "ring_bytes", c->ring_bytes);
	jsonw_u64(w, "ring_high_water", c->ring_high_water);
	jsonw_object_end(w);
}

static void put_store(struct jsonw *w, struct net_node *node)
{
	struct err err = { 0 };
	struct store_stats stats = { 0 };
	struct store_reader *reader = net_reader_take(node, &err);
	int rc = reader ? store_reader_stats(reader, &stats, &err) : err.code;
	if (reader)
		net_reader_give(node, reader);
	jsonw_object(w, "store");
	jsonw_str(w, "path", node->store_path);
	if (rc < 0) {
		jsonw_str(w, "error", err.msg);
	} else {
		jsonw_u64(w, "messages", stats.messages);
		jsonw_u64(w, "logs", stats.logs);
		jsonw_u64(w, "chunks", stats.chunks);
		jsonw_u64(w, "connections", stats.connections);
		jsonw_u64(w, "database_bytes", stats.database_bytes);
		jsonw_u64(w, "segment_bytes", stats.segment_bytes);
	}
	jsonw_object_end(w);
}

static void put_node(struct jsonw *w, struct net_node *node)
{
	struct api_net_live live;
	get_live(node, &live);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", node->name);
	jsonw_array(w, "pids");
	for (size_t i = 0; i < live.pid_count; i++)
		jsonw_u64(w, NULL, live.pids[i]);
	jsonw_array_end(w);
	if (live.attached_since_ns)
		jsonw_u64(w, "attached_since", live.attached_since_ns);
	else
		jsonw_null(w, "attached_since");
	jsonw_u64(w, "identities", live.identities);
	jsonw_object(w, "connections");
	jsonw_u64(w, "open", live.connections_open);
	jsonw_u64(w, "opened", live.connections_opened);
	jsonw_u64(w, "attached_late", live.connections_late);
	jsonw_u64(w, "sealed", live.connections_sealed);
	jsonw_object_end(w);
	both(w, "stream_bytes", live.stream_bytes);
	both(w, "gaps", live.gaps);
	both(w, "gap_bytes", live.gap_bytes);
	both(w, "resyncs", live.resyncs);
	both(w, "chunks", live.chunks);
	both(w, "chunks_not_decrypted", live.chunks_sealed);
	both(w, "raw_pieces", live.pieces);
	jsonw_u64(w, "reprocessed_chunks", live.reprocessed_chunks);
	jsonw_object(w, "messages");
	for (unsigned i = 0; i < API_NET_TYPES; i++)
		jsonw_u64(w, type_word(i), live.messages[i]);
	jsonw_object_end(w);
	jsonw_u64(w, "undecodable", live.undecodable);
	jsonw_object(w, "logs");
	jsonw_u64(w, "received", live.logs_received);
	jsonw_u64(w, "bytes", live.logs_bytes);
	jsonw_u64(w, "malformed", live.logs_malformed);
	jsonw_u64(w, "dropped", live.logs_dropped);
	jsonw_u64(w, "truncated", live.logs_truncated);
	jsonw_u64(w, "refused_senders", live.logs_refused_senders);
	jsonw_object_end(w);
	jsonw_object(w, "writer");
	jsonw_u64(w, "queue_bytes", live.queue_bytes);
	jsonw_u64(w, "queue_bytes_max", live.queue_bytes_max);
	jsonw_u64(w, "queue_high_water", live.queue_high_water);
	jsonw_u64(w, "delay_ns", live.queue_delay_ns);
	jsonw_u64(w, "flushes", live.flushes);
	jsonw_u64(w, "failures", live.store_failures);
	jsonw_u64(w, "rows_lost", live.rows_lost);
	jsonw_str(w, "trouble", live.store_trouble[0] ? live.store_trouble : NULL);
	jsonw_object_end(w);
	uint64_t queries = atomic_load(&node->queries);
	jsonw_object(w, "queries");
	jsonw_u64(w, "count", queries);
	jsonw_u64(w, "mean_ns", queries ? atomic_load(&node->latency_ns) / queries : 0);
	jsonw_object_end(w);
	put_store(w, node);
	jsonw_object_end(w);
}

void net_status(struct api_net *net, struct net_node *node, struct http_reply *reply)
{
	struct api_net_capture capture;
	struct json_text json;
	if (json_text_begin(&json) < 0) {
		http_reply_error(reply, 500, "out of memory");
		return;
	}
	get_capture(net, &capture);
	jsonw_object(&json.w, NULL);
	jsonw_str(&json.w, "version", net->version);
	put_capture(&json.w, &capture);
	jsonw_array(&json.w, "nodes");
	for (size_t i = 0; i < net->node_count; i++) {
		if (!node || node == &net->nodes[i])
			put_node(&json.w, &net->nodes[i]);
	}
	jsonw_array_end(&json.w);
	jsonw_object_end(&json.w);
	json_text_done(&json, &reply->body);
}

/* ---- /metrics ------------------------------------------------------------------------------------------------------- */

struct family {
	const char *name, *type, *help;
	void (*put)(struct buf *out, const struct family *family, const char *node,
		    const struct api_net_live *live);
	size_t offset;
};

static uint64_t begin_one(struct buf *out, const struct family *f, const char *node,
			  const struct api_net_live *live)
{
	uint64_t value;
	memcpy(&value, (const char *)live + f->offset, sizeof(value));
	metric_begin(out, f->name);
	metric_label(out, "node", node);
	return value;
}

static void put_one(struct buf *out, const struct family *f, const char *node,
		    const struct api_net_live *live)
{
	metric_u64(out, begin_one(out, f, node, live));
}

static void put_seconds(struct buf *out, const struct family *f, const char *node,
			const struct api_net_live *live)
{
	metric_double(out, (double)begin_one(out, f, node, live) * 1e-9);
}

static void put_two(struct buf *out, const struct family *f, const char *node,
		    const struct api_net_live *live)
{
	uint64_t values[2];
	memcpy(values, (const char *)live + f->offset, sizeof(values));
	for (int i = 0; i < 2; i++) {
		metric_begin(out, f->name);
		metric_label(out, "node", node);
		metric_label(out, "direction", ways[i]);
		metric_u64(out, values[i]);
	}
}

static void put_types(struct buf *out, const struct family *f, const char *node,
		      const struct api_net_live *live)
{
	for (unsigned i = 0; i < API_NET_TYPES; i++) {
		metric_begin(out, f->name);
		metric_label(out, "node", node);
		metric_label(out, "type", type_word(i));
		metric_u64(out, live->messages[i]);
	}
}

#define LIVE(field) offsetof(struct api_net_live, field)

static const struct family families[] = {
	{ "byteledger_net_connections_open", "gauge", "Connections that are recorded now", put_one,
	  LIVE(connections_open) },
	{ "byteledger_net_connections_total", "counter", "Connections recorded", put_one,
	  LIVE(connections_opened) },
	{ "byteledger_net_connections_sealed_total", "counter",
	  "Connections with a chunk that was not decrypted when it came", put_one,
	  LIVE(connections_sealed) },
	{ "byteledger_net_stream_bytes_total", "counter", "Bytes of recorded TCP streams", put_two,
	  LIVE(stream_bytes) },
	{ "byteledger_net_gaps_total", "counter", "Places where bytes of a stream are missing",
	  put_two, LIVE(gaps) },
	{ "byteledger_net_gap_bytes_total", "counter", "Bytes known to be missing", put_two,
	  LIVE(gap_bytes) },
	{ "byteledger_net_resyncs_total", "counter", "Times that the way back was found", put_two,
	  LIVE(resyncs) },
	{ "byteledger_net_chunks_total", "counter", "Chunks cut", put_two, LIVE(chunks) },
	{ "byteledger_net_chunks_sealed_total", "counter", "Chunks that were not decrypted",
	  put_two, LIVE(chunks_sealed) },
	{ "byteledger_net_raw_pieces_total", "counter", "Pieces that could not be cut into chunks",
	  put_two, LIVE(pieces) },
	{ "byteledger_net_messages_total", "counter", "Messages by type", put_types, 0 },
	{ "byteledger_net_undecodable_total", "counter", "Messages whose body was not understood",
	  put_one, LIVE(undecodable) },
	{ "byteledger_log_lines_total", "counter", "Log datagrams and lines received", put_one,
	  LIVE(logs_received) },
	{ "byteledger_log_malformed_total", "counter", "Of them not UTF-8", put_one,
	  LIVE(logs_malformed) },
	{ "byteledger_log_dropped_total", "counter", "Of them lost for want of room", put_one,
	  LIVE(logs_dropped) },
	{ "byteledger_log_truncated_total", "counter", "Of them cut at 64 KiB or by their sender",
	  put_one, LIVE(logs_truncated) },
	{ "byteledger_log_refused_senders_total", "counter",
	  "TCP senders closed for a new one beyond 32", put_one, LIVE(logs_refused_senders) },
	{ "byteledger_net_queue_bytes", "gauge", "Rows waiting to be stored, in bytes", put_one,
	  LIVE(queue_bytes) },
	{ "byteledger_net_queue_delay_seconds", "gauge", "How long the rows stored last had waited",
	  put_seconds, LIVE(queue_delay_ns) },
	{ "byteledger_net_rows_lost_total", "counter", "Rows that could not be stored", put_one,
	  LIVE(rows_lost) },
	{ "byteledger_net_store_failures_total", "counter", "Writes to the store that failed",
	  put_one, LIVE(store_failures) },
};

static void capture_metrics(const struct api_net_capture *c, struct buf *out)
{
	const struct {
		const char *name, *help;
		const uint64_t *value;
	} two[] = {
		{ "byteledger_net_capture_bytes_total", "Payload bytes seen", c->bytes },
		{ "byteledger_net_capture_lost_bytes_total",
		  "Payload bytes that found no room in the ring", c->lost_bytes },
		{ "byteledger_net_capture_lost_segments_total",
		  "Segments that found no room in the ring", c->lost_segments },
	};
	for (size_t i = 0; i < ARRAY_LEN(two); i++) {
		metric_family(out, two[i].name, "counter", two[i].help);
		for (int way = 0; way < 2; way++) {
			metric_begin(out, two[i].name);
			metric_label(out, "direction", ways[way]);
			metric_u64(out, two[i].value[way]);
		}
	}
	metric_family(
		out, "byteledger_net_capture_dropped_packets_total", "counter",
		"Packets of any connection that found no room, where a packet socket captures");
	metric_begin(out, "byteledger_net_capture_dropped_packets_total");
	metric_u64(out, c->dropped_packets);
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} one[] = {
		{ "byteledger_net_capture_lost_events_total", "counter",
		  "Openings and closings of connections that found no room in the ring",
		  c->lost_events },
		{ "byteledger_net_capture_bad_records_total", "counter",
		  "Records of the ring that broke a rule", c->bad_records },
		{ "byteledger_net_capture_unknown_segments_total", "counter",
		  "Segments of connections that nobody opened", c->unknown_segments },
		{ "byteledger_net_ring_high_water_bytes", "gauge",
		  "Most that was ever in the capture ring", c->ring_high_water },
		{ "byteledger_net_ring_bytes", "gauge", "Size of the capture ring", c->ring_bytes },
	};
	for (size_t i = 0; i < ARRAY_LEN(one); i++) {
		metric_family(out, one[i].name, one[i].type, one[i].help);
		metric_begin(out, one[i].name);
		metric_u64(out, one[i].value);
	}
}

static void latency_metrics(struct api_net *net, struct net_node *only, struct buf *out)
{
	const char *name = "byteledger_net_query_seconds";
	metric_family(out, name, "histogram", "Time that a page took");
	for (size_t n = 0; n < net->node_count; n++) {
		struct net_node *node = &net->nodes[n];
		uint64_t sum = 0;
		if (only && only != node)
			continue;
		for (unsigned i = 0; i < NET_LATENCY_BUCKETS; i++) {
			char bound[32];
			sum += atomic_load(&node->latency[i]);
			if (i == NET_LATENCY_BUCKETS - 1)
				snprintf(bound, sizeof(bound), "+Inf");
			else
				snprintf(bound, sizeof(bound), "%g", 0.00025 * (1u << i));
			metric_begin(out, "byteledger_net_query_seconds_bucket");
			metric_label(out, "node", node->name);
			metric_label(out, "le", bound);
			metric_u64(out, sum);
		}
		metric_begin(out, "byteledger_net_query_seconds_sum");
		metric_label(out, "node", node->name);
		metric_double(out, (double)atomic_load(&node->latency_ns) * 1e-9);
		metric_begin(out, "byteledger_net_query_seconds_count");
		metric_label(out, "node", node->name);
		metric_u64(out, sum);
	}
}

void net_metrics(struct api_net *net, struct net_node *only, struct buf *out)
{
	struct api_net_capture capture;
	struct api_net_live live;
	get_capture(net, &capture);
	if (capture.backend)
		capture_metrics(&capture, out);
	/* a family stands together: Prometheus wants its lines in one place */
	for (size_t f = 0; f < ARRAY_LEN(families); f++) {
		metric_family(out, families[f].name, families[f].type, families[f].help);
		for (size_t n = 0; n < net->node_count; n++) {
			if (only && only != &net->nodes[n])
				continue;
			get_live(&net->nodes[n], &live);
			families[f].put(out, &families[f], net->nodes[n].name, &live);
		}
	}
	latency_metrics(net, only, out);
}
