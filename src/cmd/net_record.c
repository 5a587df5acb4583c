/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_record.c - `byteledger net --config`: capture -> decode -> store -> HTTP, and log lines beside it.
 *
 * Threads: this one drains the capture and decodes ("drain"); one receives log lines ("logs"); one a node stores rows
 * ("store", net_writer.h); the HTTP servers have their own and only read.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/net_job.h"
#include "cmd/net_node.h"
#include "cmd/net_privileges.h"
#include "net/decode.h"
#include "source/logs.h"

#define TICK_MS 250
#define REPORT_TICKS 40 /* rows of open connections are brought up to date every 10 s */
#define COMPACT_MS 120000
#define SERVERS_MAX (NET_CONFIG_NODES_MAX + 2)
#define DRAIN_MS 5000 /* what was captured before the end is decoded for so long at most */

struct recorder {
	struct netcap_sink sink;
	struct net_config *config;
	struct net_rec_node *nodes[NET_CONFIG_NODES_MAX];
	struct logs *logs[NET_CONFIG_NODES_MAX];
	struct netcap *cap;
	struct api_net *api;
	struct http_server *servers[SERVERS_MAX];
	struct http_route routes[SERVERS_MAX][API_NET_ROUTES_MAX];
	size_t server_count;
	pthread_t log_thread;
	int log_thread_runs, log_epoll, log_stop;
	pthread_mutex_t lock; /* of capture */
	struct api_net_capture capture;
};

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
}

static void say(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "byteledger: %s\n", text);
}

/* ---- what the capture says, to the node it belongs to -------------------------------------------------------------- */

static struct net_rec_node *node_of_port(struct recorder *r, uint16_t port)
{
	for (size_t i = 0; i < r->config->node_count; i++) {
		if (port && r->config->nodes[i].p2p_port == port)
			return r->nodes[i];
	}
	return NULL;
}

static struct net_rec_node *node_of_conn(struct recorder *r, uint64_t conn)
{
	/* a node whose store could not be opened is NULL: what was captured meanwhile is drained all the same */
	for (size_t i = 0; i < r->config->node_count; i++) {
		if (r->nodes[i] && net_node_has(r->nodes[i], conn))
			return r->nodes[i];
	}
	return NULL;
}

static int on_open(struct netcap_sink *sink, const struct netcap_conn *conn, struct err *err)
{
	struct net_rec_node *node = node_of_port((struct recorder *)sink, conn->node_port);
	return node ? net_node_open(node, conn, err) : 0;
}

static int on_data(struct netcap_sink *sink, uint64_t conn, int outgoing, uint64_t time_ns,
		   uint64_t offset, const void *bytes, size_t len, struct err *err)
{
	struct net_rec_node *node = node_of_conn((struct recorder *)sink, conn);
	(void)offset;
	return node ? net_node_data(node, conn, outgoing, time_ns, bytes, len, err) : 0;
}

static int on_gap(struct netcap_sink *sink, uint64_t conn, int outgoing, uint64_t time_ns,
		  uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err)
{
	struct net_rec_node *node = node_of_conn((struct recorder *)sink, conn);
	(void)offset;
	/* what went before is said by attached_late, it is not lost here */
	if (!node || why == NETCAP_GAP_BEFORE)
		return 0;
	return net_node_gap(node, conn, outgoing, time_ns, lost, err);
}

static int on_close(struct netcap_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct net_rec_node *node = node_of_conn((struct recorder *)sink, conn);
	return node ? net_node_close(node, conn, time_ns, reason, err) : 0;
}

static int on_process(struct netcap_sink *sink, enum netcap_process what, uint32_t pid,
		      uint16_t node_port, uint64_t time_ns, struct err *err)
{
	struct net_rec_node *node = node_of_port((struct recorder *)sink, node_port);
	char text[128];
	(void)err;
	if (!node)
		return 0;
	snprintf(text, sizeof(text), "node '%s': process %u %s port %u", node->config->name, pid,
		 what == NETCAP_NODE_LISTENS ? "listens on" : "no longer has", node_port);
	say(NULL, text);
	return net_node_process(node, what, pid, time_ns);
}

/* ---- what the API asks --------------------------------------------------------------------------------------------------- */

static int decode(enum message_type type, unsigned tag, const uint8_t *plain, size_t len,
		  struct buf *json, char error[128])
{
	struct net_decode_error why = { "" };
	int rc;
	switch (type) {
	case MESSAGE_CONNECTION:
		rc = net_decode_connection(plain, len, json, &why);
		break;
	case MESSAGE_METADATA:
		rc = net_decode_metadata(plain, len, json, &why);
		break;
	case MESSAGE_ACK:
		rc = net_decode_ack(plain, len, json, &why);
		break;
	default:
		if (len < 6) {
			snprintf(error, 128, "a message of %zu bytes has no room for its tag", len);
			return -EBADMSG;
		}
		rc = net_decode_peer((uint16_t)tag, plain + 6, len - 6, json, &why);
	}
	snprintf(error, 128, "%s", why.text);
	return rc;
}

static void live(void *ctx, size_t index, struct api_net_live *out)
{
	struct recorder *r = ctx;
	net_node_live(r->nodes[index], out);
	if (!r->logs[index])
		return;
	struct logs_stats stats;
	logs_stats(r->logs[index], &stats);
	out->logs_received = stats.received + stats.kernel_dropped;
	out->logs_bytes = stats.bytes;
	out->logs_malformed = stats.malformed;
	out->logs_dropped = stats.dropped + stats.kernel_dropped;
	out->logs_truncated = stats.truncated;
	out->logs_refused_senders = stats.refused_clients;
}

static void capture(void *ctx, struct api_net_capture *out)
{
	struct recorder *r = ctx;
	pthread_mutex_lock(&r->lock);
	*out = r->capture;
	pthread_mutex_unlock(&r->lock);
}

static int compact(void *ctx, size_t index, struct err *err)
{
	struct recorder *r = ctx;
	return net_writer_compact(r->nodes[index]->writer, COMPACT_MS, err);
}

static void publish_capture(struct recorder *r)
{
	struct netcap_stats s = { 0 };
	struct err err = { 0 };
	if (!r->cap || netcap_stats(r->cap, &s, &err) < 0)
		return;
	int packets = netcap_backend(r->cap) == NETCAP_PACKET;
	const char *why = netcap_why(r->cap);
	struct api_net_capture now = { .backend = packets ? "packet" : "bpf",
				       .backend_reason = *why ? why : NULL,
				       .dropped_packets = s.dropped_packets,
				       .unowned_connections = s.unowned_connections,
				       .hidden_nodes = s.hidden_nodes,
				       .unreadable = s.unreadable,
				       .refused_connections = s.refused_connections,
				       .lost_events = s.lost_events,
				       .bad_records = s.bad_records,
				       .unknown_segments = s.unknown_segments,
				       .nodes = s.nodes,
				       .ring_bytes = s.ring_bytes,
				       .ring_high_water = s.ring_high_water };
	for (int i = 0; i < 2; i++) {
		now.segments[i] = s.segments[i];
		now.bytes[i] = s.bytes[i];
		now.delivered_bytes[i] = s.delivered_bytes[i];
		now.lost_segments[i] = s.lost_segments[i];
		now.lost_bytes[i] = s.lost_bytes[i];
		now.duplicate_bytes[i] = s.duplicate_bytes[i];
		now.gaps[i] = s.gaps[i];
		now.gap_bytes[i] = s.gap_bytes[i];
	}
	pthread_mutex_lock(&r->lock);
	int hidden = now.hidden_nodes > r->capture.hidden_nodes;
	r->capture = now;
	pthread_mutex_unlock(&r->lock);
	if (hidden)
		say(NULL, "a node belongs to another user: what it connects to cannot be told from "
			  "others' traffic and is not recorded, without CAP_SYS_PTRACE and "
			  "CAP_DAC_READ_SEARCH or BPF");
}

/* ---- log lines -------------------------------------------------------------------------------------------------------------- */

static int on_line(void *ctx, const struct log_line *line)
{
	struct net_rec_node *node = ctx;
	return net_writer_log(node->writer, line);
}

static void *receive_logs(void *arg)
{
	struct recorder *r = arg;
	struct epoll_event events[16];
	for (;;) {
		int count = epoll_wait(r->log_epoll, events, (int)ARRAY_LEN(events), -1);
		for (int i = 0; i < count; i++) {
			size_t index = (size_t)events[i].data.u64;
			if (index == NET_CONFIG_NODES_MAX)
				goto end;
			logs_receive(r->logs[index], on_line, r->nodes[index]);
		}
	}
end:
	/* what was sent before the end is there already: one more look at each */
	for (size_t i = 0; i < r->config->node_count; i++) {
		if (r->logs[i])
			logs_receive(r->logs[i], on_line, r->nodes[i]);
	}
	return NULL;
}

static void open_logs(struct recorder *r, size_t i)
{
	const struct net_config_node *config = &r->config->nodes[i];
	struct logs_opt opt = { .address = config->log_bind,
				.udp_port = config->log_port,
				.tcp_port = config->log_tcp_port,
				.unix_path = config->log_unix };
	struct err err = { 0 };
	char text[1400];
	if (!config->has_log || logs_open(&opt, &r->logs[i], &err) == 0)
		return;
	snprintf(text, sizeof(text), "node '%s': %s; it goes on without logs", config->name,
		 err.msg);
	say(NULL, text);
}

static int start_logs(struct recorder *r, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = NET_CONFIG_NODES_MAX };
	r->log_epoll = epoll_create1(EPOLL_CLOEXEC);
	r->log_stop = eventfd(0, EFD_CLOEXEC);
	int rc = r->log_epoll < 0 || r->log_stop < 0 ? -errno : 0;
	if (rc == 0)
		rc = epoll_ctl(r->log_epoll, EPOLL_CTL_ADD, r->log_stop, &event) < 0 ? -errno : 0;
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++) {
		event.data.u64 = i;
		if (r->logs[i] &&
		    epoll_ctl(r->log_epoll, EPOLL_CTL_ADD, logs_fd(r->logs[i]), &event) < 0)
			rc = -errno;
	}
	if (rc == 0)
		rc = -pthread_create(&r->log_thread, NULL, receive_logs, r);
	if (rc < 0)
		return err_set(err, rc, "cannot receive logs");
	pthread_setname_np(r->log_thread, "logs");
	r->log_thread_runs = 1;
	return 0;
}

static void stop_logs(struct recorder *r)
{
	uint64_t one = 1;
	if (r->log_thread_runs && write(r->log_stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(r->log_thread, NULL);
	r->log_thread_runs = 0;
	if (r->log_epoll >= 0)
		close(r->log_epoll);
	if (r->log_stop >= 0)
		close(r->log_stop);
}

/* ---- opening ------------------------------------------------------------------------------------------------------------------ */

static int open_node(struct recorder *r, size_t i, struct err *err)
{
	const struct net_config_node *config = &r->config->nodes[i];
	struct store_limits limits = { .messages = config->message_limit,
				       .logs = config->log_limit,
				       .payload_bytes = config->store_bytes,
				       .age_ns = config->store_age_s * 1000000000u,
				       .no_search = config->disable_search };
	struct store *store = NULL;
	struct net_rec_node *node = calloc(1, sizeof(*node));
	if (!node)
		return err_set(err, -ENOMEM, "cannot allocate a node");
	int rc = store_open(config->db, &limits, &store, err);
	if (rc == 0)
		rc = net_node_init(node, config, store, say, NULL, err);
	if (rc < 0) {
		struct err ignored = { 0 };
		store_close(store, &ignored);
		free(node);
		return err_wrap(err, "node '%s'", config->name);
	}
	r->nodes[i] = node;
	return 0;
}

static int open_capture(struct recorder *r, struct err *err)
{
	uint16_t ports[NET_CONFIG_NODES_MAX], skip[NET_CONFIG_NODES_MAX + 4] = { 22, 53, 80, 443 };
	struct netcap_opt opt = { .ports = ports,
				  .skip_remote_ports = skip,
				  .skip_remote_port_count = 4 };
	for (size_t i = 0; i < r->config->node_count; i++) {
		const struct net_config_node *node = &r->config->nodes[i];
		if (node->has_p2p)
			ports[opt.port_count++] = node->p2p_port;
		if (node->log_tcp_port && opt.skip_remote_port_count < NETCAP_PORTS_MAX)
			skip[opt.skip_remote_port_count++] = node->log_tcp_port;
	}
	opt.backend = r->config->capture;
	int rc = opt.port_count ? netcap_open(&opt, &r->cap, err) : 0;
	if (rc == 0 && r->cap && *netcap_why(r->cap)) {
		char text[800];
		snprintf(text, sizeof(text),
			 "capturing by packet sockets, for BPF is not to be had: %s",
			 netcap_why(r->cap));
		say(NULL, text);
	}
	return rc;
}

static int serve(struct recorder *r, unsigned port, size_t route_count, const char *what,
		 struct err *err)
{
	const struct net_config *c = r->config;
	char address[80], text[400];
	snprintf(address, sizeof(address), strchr(c->bind, ':') ? "[%s]:%u" : "%s:%u", c->bind,
		 port);
	struct http_opt opt = { .address = address,
				.token_file = c->token_file,
				.no_auth = c->no_auth,
				.cors = c->cors,
				.hosts = c->hosts,
				.routes = r->routes[r->server_count],
				.route_count = route_count };
	int rc = http_server_start(&opt, &r->servers[r->server_count], err);
	if (rc < 0)
		return err_wrap(err, "%s", what);
	const char *note = http_server_note(r->servers[r->server_count]);
	snprintf(text, sizeof(text), "%s: %s%s%s", what,
		 http_server_url(r->servers[r->server_count]), note ? " - " : "", note ? note : "");
	say(NULL, text);
	r->server_count++;
	return 0;
}

static int open_servers(struct recorder *r, struct err *err)
{
	const struct net_config *c = r->config;
	struct api_net_node nodes[NET_CONFIG_NODES_MAX];
	struct api_net_opt opt = { .nodes = nodes,
				   .node_count = c->node_count,
				   .version = BYTELEDGER_VERSION,
				   .decode = decode,
				   .live = live,
				   .capture = capture,
				   .compact = compact,
				   .ctx = r };
	char what[160];
	for (size_t i = 0; i < c->node_count; i++)
		nodes[i] = (struct api_net_node){ c->nodes[i].name, c->nodes[i].db,
						  c->nodes[i].disable_search };
	r->api = api_net_new(&opt, err);
	int rc = r->api ? 0 : err->code;
	if (rc == 0 && c->http_v2)
		rc = serve(r, c->http_v2, api_net_v2_routes(r->api, r->routes[r->server_count]),
			   "http_v2", err);
	if (rc == 0 && c->http_v2)
		rc = serve(r, c->http_v2 + 1u,
			   api_net_compact_routes(r->api, r->routes[r->server_count]),
			   "http_v2 + 1 (/compact)", err);
	for (size_t i = 0; rc == 0 && i < c->node_count; i++) {
		if (!c->nodes[i].http_v3)
			continue;
		snprintf(what, sizeof(what), "http_v3 of node '%s'", c->nodes[i].name);
		rc = serve(r, c->nodes[i].http_v3,
			   api_net_v3_routes(r->api, i, r->routes[r->server_count]), what, err);
	}
	return rc;
}

/* ---- recording ------------------------------------------------------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000u;
}

static void tick(struct recorder *r, uint64_t number)
{
	publish_capture(r);
	for (size_t i = 0; i < r->config->node_count; i++) {
		struct net_rec_node *node = r->nodes[i];
		if (number % 4 == 0) {
			net_node_identities(node);
			net_node_reprocess(node, 1);
		}
		if (number % REPORT_TICKS == 0)
			net_node_report(node);
	}
}

static int record(struct recorder *r, struct err *err)
{
	uint64_t ticks = 0, next_ms = now_ms();
	while (!stopping) {
		int wait_ms = TICK_MS;
		for (size_t i = 0; i < r->config->node_count; i++) {
			if (net_node_reprocess(r->nodes[i], 0))
				wait_ms = 1;
		}
		uint64_t now = now_ms();
		if (now >= next_ms) {
			tick(r, ticks++);
			next_ms = now + TICK_MS;
		}
		if (r->cap) {
			int rc = netcap_poll(r->cap, wait_ms, &r->sink, err);
			if (rc < 0 && rc != -EINTR)
				return rc;
		} else {
			struct timespec pause = { .tv_nsec = wait_ms * 1000000L };
			nanosleep(&pause, NULL); /* a signal ends it */
		}
	}
	return 0;
}

/* Everything that was captured before the end is decoded and stored. */
static int finish_capture(struct recorder *r, struct err *err)
{
	uint64_t until = now_ms() + DRAIN_MS;
	int rc = 1;
	if (!r->cap)
		return 0;
	netcap_detach(r->cap);
	while (rc > 0 && now_ms() < until)
		rc = netcap_poll(r->cap, 0, &r->sink, err);
	publish_capture(r);
	int last = netcap_finish(r->cap, &r->sink, err);
	netcap_close(r->cap);
	r->cap = NULL;
	return rc < 0 ? rc : last;
}

/* Servers first: they read what is released next. The first failure is the one that is told. */
static int finish(struct recorder *r, int rc, struct err *err)
{
	struct err next = { 0 };
	if (finish_capture(r, &next) < 0 && rc >= 0) {
		*err = next;
		rc = next.code;
	}
	stop_logs(r);
	for (size_t i = 0; i < r->server_count; i++)
		http_server_stop(r->servers[i]);
	api_net_free(r->api);
	for (size_t i = 0; i < r->config->node_count; i++) {
		if (r->logs[i])
			logs_close(r->logs[i]);
		if (!r->nodes[i])
			continue;
		struct api_net_live counts;
		net_node_live(r->nodes[i], &counts);
		err_init(&next);
		if (net_node_fini(r->nodes[i], &next) < 0 && rc >= 0) {
			*err = next;
			rc = next.code;
		}
		if (counts.rows_lost)
			fprintf(stderr,
				"byteledger: node '%s': %llu rows could not be stored and are "
				"lost\n",
				r->config->nodes[i].name, (unsigned long long)counts.rows_lost);
		free(r->nodes[i]);
	}
	pthread_mutex_destroy(&r->lock);
	return rc;
}

static void catch_signals(void)
{
	/* no SA_RESTART: the wait for traffic ends */
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

/* Threads that are started inherit the mask: signals are this thread's. */
static void block_signals(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(how, &set, NULL);
}

static int open_all(struct recorder *r, struct err *err)
{
	int rc = net_seal_init(err);
	if (rc == 0)
		rc = open_capture(r, err);
	/* sockets and stores that another program holds are found before anything is recorded */
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++)
		open_logs(r, i);
	if (rc == 0)
		net_privileges_drop(r->config, r->cap);
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++)
		rc = open_node(r, i, err);
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++)
		net_node_identities(r->nodes[i]);
	if (rc == 0)
		rc = open_servers(r, err);
	if (rc == 0)
		rc = start_logs(r, err);
	return rc;
}

int net_record(const struct net_job *job, struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "cannot allocate a recorder");
	r->sink = (struct netcap_sink){ on_open, on_data, on_gap, on_close, on_process };
	r->log_epoll = r->log_stop = -1;
	pthread_mutex_init(&r->lock, NULL);
	r->config = net_config_load(job->config, say, NULL, err);
	if (!r->config) {
		pthread_mutex_destroy(&r->lock);
		free(r);
		return err->code;
	}
	catch_signals();
	block_signals(SIG_BLOCK);
	int rc = open_all(r, err);
	block_signals(SIG_UNBLOCK);
	if (rc == 0) {
		say(NULL, r->cap ? "recording; SIGTERM or Ctrl-C ends it"
				 : "recording log lines only; SIGTERM or Ctrl-C ends it");
		rc = record(r, err);
	}
	rc = finish(r, rc, err);
	net_config_free(r->config);
	free(r);
	return rc < 0 ? rc : 0;
}
