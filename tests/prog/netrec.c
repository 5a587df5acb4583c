/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netrec.c - the live capture alone, joined to decoder and store in the plainest way; what tests and measurements drive.
 *
 * usage: netrec [-p PORT]... [-P PID]... [-i IDENTITY]... [-s STORE] [-r RING_BYTES] [-x REMOTE_PORT]... [-n] [-b bpf|packet]
 *        netrec -R STORE            read a store back
 * Prints "ready", "listens PORT" and "ends PORT" for each node, "accepts PORT" or "connects REMOTE_PORT" and "closes
 * REMOTE_PORT" for each connection, and waits for SIGTERM; at the end one JSON line a connection and a last one with the counters. SIGSTOP is how tests make it slow,
 * and after SIGCONT it says "empty" once it has taken everything. -n: do not decode.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "net/conn.h"
#include "source/netcap.h"
#include "store/store.h"

#define CONNS_MAX 65536
#define IDENTITIES_MAX 16

struct conn {
	struct netcap_conn info;
	struct net_conn *net;
	uint64_t bytes[2], gaps[2], gap_bytes[2], before[2], messages[2], errors[2];
	/* by enum message_sender */
	crypto_hash_sha256_state hash[2];
	char reason[40], comments[512];
};

static struct {
	struct netcap_sink sink;
	struct message_sink messages;
	struct store *store;
	struct net_identity *identities[IDENTITIES_MAX];
	struct net_keyring ring;
	struct conn *conns[CONNS_MAX];
	uint64_t count, listens, ends;
	int no_decode;
} rec;

static volatile sig_atomic_t stop, continued;

static void on_signal(int number)
{
	if (number == SIGCONT)
		continued = 1;
	else
		stop = 1;
}

static void must(int rc, const struct err *err)
{
	if (rc < 0) {
		fprintf(stderr, "netrec: %s\n%s%s\n", err->msg, err->hint[0] ? "hint: " : "",
			err->hint);
		exit(1);
	}
}

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct conn *conn = rec.conns[row->id];
	(void)sink;
	conn->comments[0] = '\0';
	for (size_t i = 0; i < row->comment_count; i++) {
		size_t used = strlen(conn->comments);
		snprintf(conn->comments + used, sizeof(conn->comments) - used, "%s%s",
			 used ? "; " : "", row->comments[i]);
	}
	return rec.store ? store_message_sink(rec.store)->connection(store_message_sink(rec.store),
								     row, err)
			 : 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	(void)sink;
	return rec.store ? store_message_sink(rec.store)->chunk(store_message_sink(rec.store),
								chunk, err)
			 : 0;
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct conn *conn = rec.conns[message->connection];
	(void)sink;
	if (message->type > MESSAGE_ACK) {
		conn->messages[message->sender]++;
		crypto_hash_sha256_update(&conn->hash[message->sender], message->plain,
					  message->plain_len);
	}
	conn->errors[message->sender] += message->error != NULL;
	return rec.store ? store_message_sink(rec.store)->message(store_message_sink(rec.store),
								  message, err)
			 : 0;
}

static int on_open(struct netcap_sink *sink, const struct netcap_conn *info, struct err *err)
{
	char local[NET_ADDR_TEXT_MAX], remote[NET_ADDR_TEXT_MAX];
	(void)sink;
	if (info->conn >= CONNS_MAX)
		return err_set(err, -ENOSPC, "too many connections for a test");
	struct conn *conn = calloc(1, sizeof(*conn));
	rec.conns[rec.count++] = conn;
	conn->info = *info;
	printf("%s %u\n", info->local_initiated ? "connects" : "accepts",
	       info->local_initiated ? info->remote.port : info->local.port);
	fflush(stdout);
	crypto_hash_sha256_init(&conn->hash[0]);
	crypto_hash_sha256_init(&conn->hash[1]);
	if (rec.no_decode)
		return 0;
	net_addr_text(&info->local, local);
	net_addr_text(&info->remote, remote);
	struct net_conn_opt opt = { .id = info->conn,
				    .started_ns = info->time_ns,
				    .role = info->local_initiated ? NET_ROLE_INITIATOR
								  : NET_ROLE_RESPONDER,
				    .remote_addr = remote,
				    .local_addr = local,
				    .keyring = &rec.ring,
				    .sink = &rec.messages,
				    .difficulty = 0,
				    .attached_late = info->attached_late };
	conn->net = net_conn_new(&opt, err);
	return conn->net ? 0 : -ENOMEM;
}

static int on_data(struct netcap_sink *sink, uint64_t number, int outgoing, uint64_t time_ns,
		   uint64_t offset, const void *bytes, size_t len, struct err *err)
{
	struct conn *conn = rec.conns[number];
	(void)sink;
	if (offset != conn->bytes[outgoing] + conn->gap_bytes[outgoing] + conn->before[outgoing])
		return err_set(err, -EIO, "offset %llu does not follow",
			       (unsigned long long)offset);
	conn->bytes[outgoing] += len;
	return conn->net ? net_conn_feed(conn->net, outgoing == conn->info.local_initiated, time_ns,
					 bytes, len, err)
			 : 0;
}

static int on_gap(struct netcap_sink *sink, uint64_t number, int outgoing, uint64_t time_ns,
		  uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err)
{
	struct conn *conn = rec.conns[number];
	(void)sink;
	if (offset != conn->bytes[outgoing] + conn->gap_bytes[outgoing] + conn->before[outgoing])
		return err_set(err, -EIO, "offset %llu does not follow",
			       (unsigned long long)offset);
	if (why == NETCAP_GAP_BEFORE) {
		conn->before[outgoing] += lost;
	} else {
		conn->gaps[outgoing]++;
		conn->gap_bytes[outgoing] += lost;
	}
	return conn->net ? net_conn_gap(conn->net, outgoing == conn->info.local_initiated, time_ns,
					lost, err)
			 : 0;
}

static int on_close(struct netcap_sink *sink, uint64_t number, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct conn *conn = rec.conns[number];
	struct net_conn *net = conn->net;
	(void)sink;
	snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
	printf("closes %u\n", conn->info.remote.port);
	fflush(stdout);
	conn->net = NULL;
	return net ? net_conn_close(net, time_ns, reason, err) : 0;
}

static int on_process(struct netcap_sink *sink, enum netcap_process what, uint32_t pid,
		      uint16_t port, uint64_t time_ns, struct err *err)
{
	(void)sink, (void)pid, (void)time_ns, (void)err;
	if (what == NETCAP_NODE_LISTENS)
		rec.listens++;
	else
		rec.ends++;
	printf("%s %u\n", what == NETCAP_NODE_LISTENS ? "listens" : "ends", port);
	fflush(stdout);
	return 0;
}

static const char *hex(crypto_hash_sha256_state state, char out[65])
{
	uint8_t digest[32];
	crypto_hash_sha256_final(&state, digest);
	return sodium_bin2hex(out, 65, digest, sizeof(digest));
}

static void print_conn(const struct conn *c)
{
	char local[NET_ADDR_TEXT_MAX], remote[NET_ADDR_TEXT_MAX], out[65], in[65];
	net_addr_text(&c->info.local, local);
	net_addr_text(&c->info.remote, remote);
	printf("{\"conn\":%llu,\"pid\":%u,\"node_port\":%u,\"local_initiated\":%u,\"late\":%u,"
	       "\"local\":\"%s\",\"remote\":\"%s\",\"reason\":\"%s\",\"time_ns\":%llu,",
	       (unsigned long long)c->info.conn, c->info.pid, c->info.node_port,
	       c->info.local_initiated, c->info.attached_late, local, remote, c->reason,
	       (unsigned long long)c->info.time_ns);
#define PAIR(key, a, b) \
	printf("\"" key "\":[%llu,%llu],", (unsigned long long)(a), (unsigned long long)(b))
	PAIR("bytes", c->bytes[0], c->bytes[1]);
	PAIR("gaps", c->gaps[0], c->gaps[1]);
	PAIR("gap_bytes", c->gap_bytes[0], c->gap_bytes[1]);
	PAIR("before", c->before[0], c->before[1]);
	PAIR("messages", c->messages[MESSAGE_REMOTE], c->messages[MESSAGE_LOCAL]);
	PAIR("errors", c->errors[MESSAGE_REMOTE], c->errors[MESSAGE_LOCAL]);
	printf("\"sha256\":[\"%s\",\"%s\"],\"comments\":\"%s\"}\n",
	       hex(c->hash[MESSAGE_REMOTE], in), hex(c->hash[MESSAGE_LOCAL], out), c->comments);
}

static void print_stats(struct netcap *cap)
{
	struct netcap_stats s;
	struct err err = { 0 };
	struct rusage usage;
	must(netcap_stats(cap, &s, &err), &err);
	getrusage(RUSAGE_SELF, &usage);
	printf("{");
	PAIR("segments", s.segments[0], s.segments[1]);
	PAIR("seen_bytes", s.bytes[0], s.bytes[1]);
	PAIR("delivered_bytes", s.delivered_bytes[0], s.delivered_bytes[1]);
	PAIR("lost_segments", s.lost_segments[0], s.lost_segments[1]);
	PAIR("lost_bytes", s.lost_bytes[0], s.lost_bytes[1]);
	PAIR("duplicate_bytes", s.duplicate_bytes[0], s.duplicate_bytes[1]);
	PAIR("all_gaps", s.gaps[0], s.gaps[1]);
	PAIR("all_gap_bytes", s.gap_bytes[0], s.gap_bytes[1]);
	printf("\"backend\":\"%s\",\"dropped_packets\":%llu,\"unowned\":%llu,\"hidden\":%llu,",
	       netcap_backend(cap) == NETCAP_PACKET ? "packet" : "bpf",
	       (unsigned long long)s.dropped_packets, (unsigned long long)s.unowned_connections,
	       (unsigned long long)s.hidden_nodes);
	printf("\"unreadable\":%llu,\"refused\":%llu,\"lost_events\":%llu,\"bad_records\":%llu,"
	       "\"unknown_segments\":%llu,\"opened\":%llu,\"open\":%llu,\"nodes\":%llu,\"ring_"
	       "bytes\":%llu,"
	       "\"ring_high_water\":%llu,\"listens\":%llu,\"ends\":%llu,\"cpu_us\":%lld}\n",
	       (unsigned long long)s.unreadable, (unsigned long long)s.refused_connections,
	       (unsigned long long)s.lost_events, (unsigned long long)s.bad_records,
	       (unsigned long long)s.unknown_segments, (unsigned long long)s.opened,
	       (unsigned long long)s.open, (unsigned long long)s.nodes,
	       (unsigned long long)s.ring_bytes, (unsigned long long)s.ring_high_water,
	       (unsigned long long)rec.listens, (unsigned long long)rec.ends,
	       (long long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
		       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- reading a store back: every message's bytes out of its chunks ------------------------------------------------- */

struct gather {
	uint8_t *bytes;
	size_t len, cap;
};

static int add_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	struct gather *g = ctx;
	if (g->len + chunk->plain_len > g->cap) {
		g->cap = (g->len + chunk->plain_len) * 2;
		g->bytes = realloc(g->bytes, g->cap);
	}
	if (chunk->plain_len)
		memcpy(g->bytes + g->len, chunk->plain, chunk->plain_len);
	g->len += chunk->plain_len;
	return 0;
}

static int read_back(const char *path)
{
	struct store_reader *reader;
	struct err err = { 0 };
	struct gather g = { 0 };
	uint64_t next = 0, half = 0;
	struct conn *conns[4096] = { 0 };
	must(store_reader_open(path, &reader, &err), &err);
	for (;;) {
		struct store_query query = {
			.has_cursor = 1, .cursor = next, .forward = 1, .limit = 1000
		};
		struct store_page *page;
		must(store_messages(reader, &query, &page, &err), &err);
		size_t n = store_page_count(page);
		for (size_t i = 0; i < n; i++) {
			const struct store_message_row *row = store_page_message(page, i);
			next = row->id + 1;
			if (row->connection >= 4096)
				continue;
			if (!conns[row->connection]) {
				struct conn *conn = conns[row->connection] =
					calloc(1, sizeof(*conn));
				crypto_hash_sha256_init(&conn->hash[0]);
				crypto_hash_sha256_init(&conn->hash[1]);
			}
			struct conn *conn = conns[row->connection];
			g.len = 0;
			must(store_message_chunks(reader, row, add_chunk, &g, &err), &err);
			if (row->first_offset > g.len ||
			    g.len - row->first_offset < row->plain_len) {
				half++;
				continue;
			}
			if (row->type <= MESSAGE_ACK)
				continue;
			conn->messages[row->sender]++;
			crypto_hash_sha256_update(&conn->hash[row->sender],
						  g.bytes + row->first_offset, row->plain_len);
		}
		store_page_free(page);
		if (!n)
			break;
	}
	for (size_t i = 0; i < 4096; i++) {
		if (conns[i]) {
			conns[i]->info.conn = i;
			print_conn(conns[i]);
		}
		free(conns[i]);
	}
	printf("{\"half_messages\":%llu}\n", (unsigned long long)half);
	free(g.bytes);
	store_reader_close(reader);
	return 0;
}

/* ---- recording ------------------------------------------------------------------------------------------------------ */

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int is_empty(struct netcap *cap)
{
	struct netcap_stats s;
	struct err err = { 0 };
	must(netcap_stats(cap, &s, &err), &err);
	return s.ring_used == 0;
}

int main(int argc, char **argv)
{
	uint16_t ports[NETCAP_PORTS_MAX], skip[16];
	uint32_t pids[16];
	struct netcap_opt opt = { .ports = ports, .pids = pids, .skip_remote_ports = skip };
	struct err err = { 0 };
	int option;
	must(net_seal_init(&err), &err);
	while ((option = getopt(argc, argv, "p:P:i:s:r:x:nR:b:")) != -1) {
		switch (option) {
		case 'p':
			ports[opt.port_count++] = (uint16_t)atoi(optarg);
			break;
		case 'P':
			pids[opt.pid_count++] = (uint32_t)atoi(optarg);
			break;
		case 'x':
			skip[opt.skip_remote_port_count++] = (uint16_t)atoi(optarg);
			break;
		case 'r':
			opt.ring_bytes = (uint32_t)atoi(optarg);
			break;
		case 'i':
			rec.identities[rec.ring.count] = net_identity_load(optarg, &err);
			if (!rec.identities[rec.ring.count++])
				must(-1, &err);
			break;
		case 's':
			must(store_open(optarg, NULL, &rec.store, &err), &err);
			break;
		case 'b':
			opt.backend = strcmp(optarg, "packet") == 0 ? NETCAP_PACKET : NETCAP_BPF;
			break;
		case 'n':
			rec.no_decode = 1;
			break;
		case 'R':
			return read_back(optarg);
		default:
			return 2;
		}
	}
	rec.ring.identities = rec.identities;
	rec.sink = (struct netcap_sink){ on_open, on_data, on_gap, on_close, on_process };
	rec.messages = (struct message_sink){ on_connection, on_chunk, on_message };
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGCONT, &action, NULL);
	struct netcap *cap;
	must(netcap_open(&opt, &cap, &err), &err);
	printf("ready\n");
	fflush(stdout);
	uint64_t flushed = now_ms();
	while (!stop) {
		int n = netcap_poll(cap, 100, &rec.sink, &err);
		must(n, &err);
		if (n == 0 && continued && is_empty(cap)) {
			continued = 0;
			printf("empty\n");
			fflush(stdout);
		}
		if (rec.store && (now_ms() - flushed >= 100)) {
			must(store_flush(rec.store, &err), &err);
			flushed = now_ms();
		}
	}
	must(netcap_finish(cap, &rec.sink, &err), &err);
	if (rec.store)
		must(store_close(rec.store, &err), &err);
	for (uint64_t i = 0; i < rec.count; i++)
		print_conn(rec.conns[i]);
	print_stats(cap);
	netcap_close(cap);
	for (uint64_t i = 0; i < rec.count; i++)
		free(rec.conns[i]);
	for (size_t i = 0; i < rec.ring.count; i++)
		net_identity_free(rec.identities[i]);
	return 0;
}
