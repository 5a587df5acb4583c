/* SPDX-License-Identifier: Apache-2.0 */
#include "node/nodes.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/decode.h"
#include "node/node.h"
#include "node/privileges.h"
#include "source/logs.h"

#define TICK_MS 250
#define REPORT_TICKS 4 /* rows of open connections are brought up to date every second */
#define COMPACT_MS 120000
/* of its time the thread spends at most one part on searches, however many connections search */
#define SHARE 2
/* of these, between two looks at the capture; it holds more than that in its ring */
#define TURN_NS 8000000u
#define FULL_TURN_NS 1000000u /* where the capture has more than one look takes */
#define SEARCH_MS 2000        /* for so long the searches that are under way at the end go on */
#define DRAIN_MS 5000         /* what was captured before the end is decoded for so long at most */

struct nodes {
	struct netcap_sink sink;
	const struct nodes_config *config;
	nodes_say say;
	void *say_ctx;
	struct node *nodes[NODES_MAX];
	struct logs *logs[NODES_MAX];
	struct netcap *cap;
	/* what the connections of all nodes hold */
	struct net_budget budget;
	pthread_t log_thread;
	int log_thread_runs, log_epoll, log_stop;
	/* what searches may spend now: node->seek.turn */
	uint64_t turn;
	/* what they have not spent of their share of the time; until then */
	uint64_t share, shared_ns;
	/* the capture had more than one look takes */
	int full;
	/* atomic */
	int stopping;
	/* of capture */
	pthread_mutex_t lock;
	struct node_capture capture;
};

/* ---- what the capture says, to the node it belongs to ---------------------------------------- */

static struct node *node_of_port(struct nodes *r, uint16_t port)
{
	for (size_t i = 0; i < r->config->node_count; i++) {
		if (port && r->config->nodes[i].p2p_port == port)
			return r->nodes[i];
	}
	return NULL;
}

static struct node *node_of_conn(struct nodes *r, uint64_t conn)
{
	/*
	 * a node whose store could not be opened is NULL: what was captured meanwhile is drained
	 * all the same
	 */
	for (size_t i = 0; i < r->config->node_count; i++) {
		if (r->nodes[i] && node_has(r->nodes[i], conn))
			return r->nodes[i];
	}
	return NULL;
}

static int on_open(struct netcap_sink *sink, const struct netcap_conn *conn, struct err *err)
{
	struct node *node = node_of_port((struct nodes *)sink, conn->node_port);
	return node ? node_open(node, conn, err) : 0;
}

static int on_data(struct netcap_sink *sink, uint64_t conn, int outgoing, uint64_t time_ns,
		   uint64_t offset, const void *bytes, size_t len, struct err *err)
{
	struct node *node = node_of_conn((struct nodes *)sink, conn);
	(void)offset;
	return node ? node_data(node, conn, outgoing, time_ns, bytes, len, err) : 0;
}

static int on_gap(struct netcap_sink *sink, uint64_t conn, int outgoing, uint64_t time_ns,
		  uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err)
{
	struct node *node = node_of_conn((struct nodes *)sink, conn);
	(void)offset;
	/* what went before is said by attached_late, it is not lost here */
	if (!node || why == NETCAP_GAP_BEFORE)
		return 0;
	return node_gap(node, conn, outgoing, time_ns, lost, err);
}

static int on_close(struct netcap_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct node *node = node_of_conn((struct nodes *)sink, conn);
	return node ? node_close(node, conn, time_ns, reason, err) : 0;
}

static int on_process(struct netcap_sink *sink, enum netcap_process what, uint32_t pid,
		      uint16_t node_port, uint64_t time_ns, struct err *err)
{
	struct nodes *r = (struct nodes *)sink;
	struct node *node = node_of_port(r, node_port);
	char text[128];
	(void)err;
	if (!node)
		return 0;
	snprintf(text, sizeof(text), "node '%s': process %u %s port %u", node->config->name, pid,
		 what == NETCAP_NODE_LISTENS ? "listens on" : "no longer has", node_port);
	r->say(r->say_ctx, text);
	return node_process(node, what, pid, time_ns);
}

/* ---- what is asked --------------------------------------------------------------------------- */

int nodes_decode(enum message_type type, unsigned tag, const uint8_t *plain, size_t len,
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

void nodes_counts(struct nodes *r, size_t index, struct node_counts *out)
{
	node_live(r->nodes[index], out);
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

void nodes_capture(struct nodes *r, struct node_capture *out)
{
	pthread_mutex_lock(&r->lock);
	*out = r->capture;
	pthread_mutex_unlock(&r->lock);
}

int nodes_compact(struct nodes *r, size_t index, struct err *err)
{
	return node_writer_compact(r->nodes[index]->writer, COMPACT_MS, err);
}

static void publish_capture(struct nodes *r)
{
	struct node_capture now = { 0 };
	struct err err = { 0 };
	if (!r->cap || netcap_stats(r->cap, &now.stats, &err) < 0)
		return;
	const char *why = netcap_why(r->cap);
	now.backend = netcap_backend(r->cap) == NETCAP_PACKET ? "packet" : "bpf";
	now.backend_reason = *why ? why : NULL;
	pthread_mutex_lock(&r->lock);
	int hidden = now.stats.hidden_nodes > r->capture.stats.hidden_nodes;
	r->capture = now;
	pthread_mutex_unlock(&r->lock);
	if (hidden)
		r->say(r->say_ctx,
		       "a node belongs to another user: what it connects to cannot be told from "
		       "others' traffic and is not recorded, without CAP_SYS_PTRACE and "
		       "CAP_DAC_READ_SEARCH or BPF");
}

/* ---- log lines ------------------------------------------------------------------------------- */

static int on_line(void *ctx, const struct log_line *line)
{
	struct node *node = ctx;
	return node_writer_log(node->writer, line);
}

static void *receive_logs(void *arg)
{
	struct nodes *r = arg;
	struct epoll_event events[16];
	for (;;) {
		int count = epoll_wait(r->log_epoll, events, (int)ARRAY_LEN(events), -1);
		for (int i = 0; i < count; i++) {
			size_t index = (size_t)events[i].data.u64;
			if (index == NODES_MAX)
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

static void open_logs(struct nodes *r, size_t i)
{
	const struct node_config *config = &r->config->nodes[i];
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
	r->say(r->say_ctx, text);
}

static int start_logs(struct nodes *r, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = NODES_MAX };
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

static void stop_logs(struct nodes *r)
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

/* ---- opening --------------------------------------------------------------------------------- */

static int open_node(struct nodes *r, size_t i, struct err *err)
{
	const struct node_config *config = &r->config->nodes[i];
	struct store_limits limits = { .messages = config->message_limit,
				       .logs = config->log_limit,
				       .payload_bytes = config->store_bytes,
				       .age_ns = config->store_age_s * NS_PER_S,
				       .no_search = config->disable_search };
	struct store *store = NULL;
	struct node *node = calloc(1, sizeof(*node));
	if (!node)
		return err_set(err, -ENOMEM, "cannot allocate a node");
	int rc = store_open(config->db, &limits, &store, err);
	if (rc == 0)
		rc = node_init(node, config, store, r->say, r->say_ctx, err);
	if (rc < 0) {
		struct err ignored = { 0 };
		store_close(store, &ignored);
		free(node);
		return err_wrap(err, "node '%s'", config->name);
	}
	node->seek.turn = &r->turn;
	node->budget = &r->budget;
	r->nodes[i] = node;
	return 0;
}

static int open_capture(struct nodes *r, struct err *err)
{
	uint16_t ports[NODES_MAX], skip[NODES_MAX + 4] = { 22, 53, 80, 443 };
	struct netcap_opt opt = { .ports = ports,
				  .skip_remote_ports = skip,
				  .skip_remote_port_count = 4 };
	for (size_t i = 0; i < r->config->node_count; i++) {
		const struct node_config *node = &r->config->nodes[i];
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
		r->say(r->say_ctx, text);
	}
	return rc;
}

static int open_all(struct nodes *r, struct err *err)
{
	int rc = net_seal_init(err);
	if (rc == 0)
		rc = open_capture(r, err);
	/* sockets and stores that another program holds are found before anything is recorded */
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++)
		open_logs(r, i);
	if (rc == 0)
		rc = nodes_privileges_drop(r->config, r->cap, err);
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++)
		rc = open_node(r, i, err);
	for (size_t i = 0; rc == 0 && i < r->config->node_count; i++)
		node_identities(r->nodes[i]);
	if (rc == 0)
		rc = start_logs(r, err);
	return rc;
}

int nodes_open(const struct nodes_config *config, nodes_say say, void *ctx, struct nodes **nodes,
	       struct err *err)
{
	struct nodes *r = calloc(1, sizeof(*r));
	*nodes = NULL;
	if (!r)
		return err_set(err, -ENOMEM, "cannot allocate a recorder");
	r->sink = (struct netcap_sink){ on_open, on_data, on_gap, on_close, on_process };
	r->config = config;
	r->say = say;
	r->say_ctx = ctx;
	r->log_epoll = r->log_stop = -1;
	pthread_mutex_init(&r->lock, NULL);
	int rc = open_all(r, err);
	if (rc < 0) {
		struct err ignored = { 0 };
		nodes_drain(r, &ignored);
		nodes_close(r, &ignored);
		return rc;
	}
	*nodes = r;
	return 0;
}

int nodes_captures(const struct nodes *r)
{
	return r->cap != NULL;
}

/* ---- recording ------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000u;
}

static void tick(struct nodes *r, uint64_t number)
{
	publish_capture(r);
	for (size_t i = 0; i < r->config->node_count; i++) {
		struct node *node = r->nodes[i];
		if (number % 4 == 0) {
			node_identities(node);
			node_reprocess(node, 1);
		}
		if (number % REPORT_TICKS == 0)
			node_report(node);
	}
}

/* What searches may spend until the next call, of the time that passed since the last. */
static void begin_turn(struct nodes *r)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), most = r->full ? FULL_TURN_NS : TURN_NS;
	r->share += (now - r->shared_ns) / SHARE;
	r->shared_ns = now;
	/* what nobody spent is not kept for later */
	if (r->share > most)
		r->share = most;
	r->turn = r->share;
}

/* One slice for a connection of each node, around and around. 1 = there is more to do. */
static int search(struct nodes *r, uint64_t leave, struct err *err)
{
	int any = 1;
	while (any && r->turn > leave) {
		any = 0;
		for (size_t i = 0; i < r->config->node_count; i++) {
			int rc = r->nodes[i] ? node_work(r->nodes[i], err) : 0;
			if (rc < 0)
				return rc;
			any |= rc;
		}
	}
	return any;
}

int nodes_run(struct nodes *r, struct err *err)
{
	uint64_t ticks = 0, next_ms = now_ms();
	r->shared_ns = clock_ns(CLOCK_MONOTONIC);
	while (!__atomic_load_n(&r->stopping, __ATOMIC_RELAXED)) {
		int wait_ms = TICK_MS;
		for (size_t i = 0; i < r->config->node_count; i++) {
			if (node_reprocess(r->nodes[i], 0))
				wait_ms = 1;
		}
		uint64_t now = now_ms();
		if (now >= next_ms) {
			tick(r, ticks++);
			next_ms = now + TICK_MS;
		}
		begin_turn(r);
		uint64_t turn = r->turn;
		/* a part is left for searches that begin while the capture is looked at */
		int rc = search(r, turn / 2, err);
		if (rc < 0)
			return rc;
		if (rc)
			wait_ms = 1;
		if (r->cap) {
			rc = netcap_poll(r->cap, wait_ms, &r->sink, err);
			if (rc < 0 && rc != -EINTR)
				return rc;
			r->full = rc >= NETCAP_POLL_MANY;
		} else {
			struct timespec pause = { .tv_nsec = wait_ms * 1000000L };
			nanosleep(&pause, NULL); /* a signal ends it */
		}
		r->share -= turn - r->turn;
	}
	return 0;
}

void nodes_stop(struct nodes *r)
{
	__atomic_store_n(&r->stopping, 1, __ATOMIC_RELAXED);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Everything that was captured before the end is decoded and stored. */
static int finish_capture(struct nodes *r, struct err *err)
{
	uint64_t until = now_ms() + DRAIN_MS;
	int rc = 1;
	if (!r->cap)
		return 0;
	netcap_detach(r->cap);
	r->turn = 0;
	while (rc > 0 && now_ms() < until)
		rc = netcap_poll(r->cap, 0, &r->sink, err);
	publish_capture(r);
	int last = netcap_finish(r->cap, &r->sink, err);
	netcap_close(r->cap);
	r->cap = NULL;
	/* node_fini() gives up what is not found by then */
	for (int more = 1; last >= 0 && more > 0 && now_ms() < until + SEARCH_MS;) {
		r->turn = TURN_NS;
		more = search(r, 0, err);
		last = more < 0 ? more : last;
	}
	return rc < 0 ? rc : last;
}

int nodes_drain(struct nodes *r, struct err *err)
{
	int rc = finish_capture(r, err);
	stop_logs(r);
	return rc;
}

static int close_node(struct nodes *r, size_t i, struct err *err)
{
	struct node_counts counts;
	char text[160];
	if (!r->nodes[i])
		return 0;
	node_live(r->nodes[i], &counts);
	int rc = node_fini(r->nodes[i], err);
	if (counts.rows_lost) {
		snprintf(text, sizeof(text),
			 "node '%s': %llu rows could not be stored and are lost",
			 r->config->nodes[i].name, (unsigned long long)counts.rows_lost);
		r->say(r->say_ctx, text);
	}
	free(r->nodes[i]);
	return rc;
}

int nodes_close(struct nodes *r, struct err *err)
{
	int rc = 0;
	if (!r)
		return 0;
	for (size_t i = 0; i < r->config->node_count; i++) {
		struct err next = { 0 };
		if (r->logs[i])
			logs_close(r->logs[i]);
		if (close_node(r, i, &next) < 0 && rc == 0) {
			*err = next;
			rc = next.code;
		}
	}
	net_budget_fini(&r->budget);
	pthread_mutex_destroy(&r->lock);
	free(r);
	return rc;
}
