/* SPDX-License-Identifier: Apache-2.0 */
/* net_status.c - the recorder's counters, as JSON and for Prometheus. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/net_internal.h"
#include "node/nodes.h"
#include "out/metrics.h"

static const char *const ways[2] = { "incoming", "outgoing" };

/* What the recorder knows; zeros where nothing is being recorded. */
static void get_counts(struct net_node *node, struct node_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (node->net->opt.recorder)
		nodes_counts(node->net->opt.recorder, node->index, counts);
}

static void get_capture(struct api_net *net, struct node_capture *capture)
{
	memset(capture, 0, sizeof(*capture));
	if (net->opt.recorder)
		nodes_capture(net->opt.recorder, capture);
}

/* ---- /v3/status ------------------------------------------------------------------------------ */

static void both(struct jsonw *w, const char *key, const uint64_t value[2])
{
	jsonw_object(w, key);
	jsonw_u64(w, "incoming", value[0]);
	jsonw_u64(w, "outgoing", value[1]);
	jsonw_object_end(w);
}

static void put_counter(struct jsonw *w, const struct node_counter *c, const uint64_t *value)
{
	switch (c->shape) {
	case NODE_COUNTER_TWO:
		both(w, c->key, value);
		break;
	case NODE_COUNTER_BY_TYPE:
		jsonw_object(w, c->key);
		for (unsigned i = 0; i < NODE_TYPES; i++)
			jsonw_u64(w, node_type_word(i), value[i]);
		jsonw_object_end(w);
		break;
	case NODE_COUNTER_ONE:
	case NODE_COUNTER_NS:
		jsonw_u64(w, c->key, *value);
		break;
	}
}

static void put_capture(struct jsonw *w, const struct node_capture *c)
{
	if (!c->backend) {
		jsonw_null(w, "capture");
		return;
	}
	jsonw_object(w, "capture");
	jsonw_str(w, "backend", c->backend);
	jsonw_str(w, "backend_reason", c->backend_reason);
	for (size_t i = 0; i < capture_counter_count; i++)
		put_counter(w, &capture_counters[i],
			    node_counter_at(&capture_counters[i], &c->stats));
	jsonw_object_end(w);
}

/*
 * Sections stand together in the table; the last one, the writer's, has some text behind its
 * numbers.
 */
static void put_counts(struct jsonw *w, const struct node_counts *counts)
{
	const char *section = NULL;
	for (size_t i = 0; i < node_counter_count; i++) {
		const struct node_counter *c = &node_counters[i];
		int same = c->section == section ||
			   (c->section && section && strcmp(c->section, section) == 0);
		if (!same && section)
			jsonw_object_end(w);
		if (!same && c->section)
			jsonw_object(w, c->section);
		section = c->section;
		put_counter(w, c, node_counter_at(c, counts));
	}
	jsonw_str(w, "trouble", counts->store_trouble[0] ? counts->store_trouble : NULL);
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
	struct node_counts counts;
	get_counts(node, &counts);
	jsonw_object(w, NULL);
	jsonw_str(w, "name", node->name);
	jsonw_array(w, "pids");
	for (size_t i = 0; i < counts.pid_count; i++)
		jsonw_u64(w, NULL, counts.pids[i]);
	jsonw_array_end(w);
	if (counts.attached_since_ns)
		jsonw_u64(w, "attached_since", counts.attached_since_ns);
	else
		jsonw_null(w, "attached_since");
	put_counts(w, &counts);
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
	struct node_capture capture;
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

/* ---- /metrics -------------------------------------------------------------------------------- */

/* @node: NULL for a counter of the capture. */
static void put_metric(struct buf *out, const struct node_counter *c, const char *node,
		       const uint64_t *value)
{
	size_t count = c->shape == NODE_COUNTER_TWO       ? 2
		       : c->shape == NODE_COUNTER_BY_TYPE ? NODE_TYPES
							  : 1;
	for (size_t i = 0; i < count; i++) {
		metric_begin(out, c->family);
		if (node)
			metric_label(out, "node", node);
		if (c->shape == NODE_COUNTER_TWO)
			metric_label(out, "direction", ways[i]);
		if (c->shape == NODE_COUNTER_BY_TYPE)
			metric_label(out, "type", node_type_word((unsigned)i));
		if (c->shape == NODE_COUNTER_NS)
			metric_double(out, (double)value[i] * 1e-9);
		else
			metric_u64(out, value[i]);
	}
}

static void begin_family(struct buf *out, const struct node_counter *c)
{
	metric_family(out, c->family, c->is_gauge ? "gauge" : "counter", c->help);
}

static void capture_metrics(const struct node_capture *capture, struct buf *out)
{
	for (size_t i = 0; i < capture_counter_count; i++) {
		const struct node_counter *c = &capture_counters[i];
		if (!c->family)
			continue;
		begin_family(out, c);
		put_metric(out, c, NULL, node_counter_at(c, &capture->stats));
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
	struct node_capture capture;
	struct node_counts counts;
	get_capture(net, &capture);
	if (capture.backend)
		capture_metrics(&capture, out);
	/* a family stands together: Prometheus wants its lines in one place */
	for (size_t f = 0; f < node_counter_count; f++) {
		const struct node_counter *c = &node_counters[f];
		if (!c->family)
			continue;
		begin_family(out, c);
		for (size_t n = 0; n < net->node_count; n++) {
			if (only && only != &net->nodes[n])
				continue;
			get_counts(&net->nodes[n], &counts);
			put_metric(out, c, net->nodes[n].name, node_counter_at(c, &counts));
		}
	}
	latency_metrics(net, only, out);
}
