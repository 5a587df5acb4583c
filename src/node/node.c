/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "node/inbox.h"
#include "node/limits.h"
#include "node/reprocess.h"

#define SYNC_MS 50
#define SLICE_BYTES (512u << 10) /* decoded between two looks at the capture: some 10 ms */

struct node_conn {
	/* all of the node */
	struct node_conn *next, *prev;
	/* of one place in the table */
	struct node_conn *chain;
	/* the capture's number, the sink's */
	uint64_t conn, id;
	int local_initiated;
	/* what the row counted when it was stored last */
	uint64_t reported;
	/* that were counted */
	uint64_t resyncs[2];
	/* it was counted that a chunk was not decrypted */
	int sealed;
	struct net_conn *net;
	/* while it searches */
	struct node_conn *queue_next;
	int queued;
	struct node_inbox inbox;
	/* nothing more comes: it is closed when its search is over */
	int ended;
	uint64_t ended_ns;
	char end_reason[64];
};

/* ---- counting what is decoded ---------------------------------------------------------------- */

/* Ways back that were found since the last call. */
static void count_resyncs(struct node *node, struct node_conn *c,
			  const struct message_connection *row)
{
	if (memcmp(row->resyncs, c->resyncs, sizeof(c->resyncs)) == 0)
		return;
	pthread_mutex_lock(&node->lock);
	for (int sender = 0; sender < 2; sender++) {
		/* decoded once more, with a new identity, it may have found fewer */
		if (row->resyncs[sender] > c->resyncs[sender])
			node->live.resyncs[sender == MESSAGE_LOCAL] +=
				row->resyncs[sender] - c->resyncs[sender];
		c->resyncs[sender] = row->resyncs[sender];
	}
	pthread_mutex_unlock(&node->lock);
}

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct node *node = (struct node *)sink;
	struct message_sink *to = node_writer_sink(node->writer);
	if (node->closing)
		count_resyncs(node, node->closing, row);
	return to->connection(to, row, err);
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct node *node = (struct node *)sink;
	struct message_sink *to = node_writer_sink(node->writer);
	int way = chunk->sender == MESSAGE_LOCAL;
	pthread_mutex_lock(&node->lock);
	if (chunk->counter == MESSAGE_NO_COUNTER)
		node->live.pieces[way]++;
	else
		node->live.chunks[way]++;
	if (!chunk->plain && chunk->counter != MESSAGE_NO_COUNTER) {
		node->live.chunks_sealed[way]++;
		if (node->feeding && !node->feeding->sealed) {
			node->feeding->sealed = 1;
			node->live.connections_sealed++;
		}
	}
	pthread_mutex_unlock(&node->lock);
	node->sealed_seen |= !chunk->plain;
	return to->chunk(to, chunk, err);
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct node *node = (struct node *)sink;
	struct message_sink *to = node_writer_sink(node->writer);
	unsigned type = message->type < NODE_TYPES - 1 ? message->type : NODE_TYPES - 1;
	pthread_mutex_lock(&node->lock);
	node->live.messages[type]++;
	node->live.undecodable += message->json == NULL;
	pthread_mutex_unlock(&node->lock);
	return to->message(to, message, err);
}

int node_init(struct node *node, const struct node_config *config, struct store *store,
	      node_writer_say say, void *ctx, struct err *err)
{
	node->sink = (struct message_sink){ on_connection, on_chunk, on_message };
	node->config = config;
	node->budget = &node->own_budget;
	node->seek = net_seek_live;
	node->seek.slice = NODE_SEEK_SLICE;
	node->queue_end = &node->queue;
	node->first_connection = store_first_connection(store);
	node->say = say;
	node->say_ctx = ctx;
	node->sealed_seen = 1; /* an earlier run may have left something */
	pthread_mutex_init(&node->lock, NULL);
	for (size_t i = 0; i < config->identity_count; i++)
		node->files[i].path = config->identities[i];
	return node_writer_new(store, config->name, say, ctx, &node->writer, err);
}

/* ---- identities ------------------------------------------------------------------------------ */

static int have_key(const struct node *node, const struct net_identity *identity)
{
	for (size_t i = 0; i < node->keyring.count; i++) {
		if (memcmp(net_identity_public_key(node->identities[i]),
			   net_identity_public_key(identity), 32) == 0)
			return 1;
	}
	return 0;
}

static int keep_identity(struct node *node, struct net_identity *identity)
{
	if (node->keyring.count == node->identity_cap) {
		size_t cap = node->identity_cap ? node->identity_cap * 2 : 4;
		struct net_identity **more = realloc(node->identities, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		node->identities = more;
		node->identity_cap = cap;
		node->keyring.identities = more;
	}
	node->identities[node->keyring.count++] = identity;
	node->reprocess = 1;
	pthread_mutex_lock(&node->lock);
	node->live.identities = node->keyring.count;
	pthread_mutex_unlock(&node->lock);
	return 0;
}

static void complain(struct node *node, struct node_identity_file *file, const char *why)
{
	char text[1400];
	if (file->complained)
		return;
	file->complained = 1;
	snprintf(text, sizeof(text),
		 "node '%s': %s; what it needs stays sealed and is decoded when the file can be "
		 "used",
		 node->config->name, why);
	node->say(node->say_ctx, text);
}

static void look_at(struct node *node, struct node_identity_file *file)
{
	struct stat st;
	struct err err = { 0 };
	char text[400];
	if (stat(file->path, &st) < 0) {
		snprintf(text, sizeof(text), "cannot read identity '%s': %s", file->path,
			 strerror(errno));
		complain(node, file, text);
		file->known = 0;
		return;
	}
	int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	if (file->known && file->mtime_ns == mtime_ns && file->inode == st.st_ino &&
	    file->size == (uint64_t)st.st_size)
		return;
	if (file->known)
		file->complained = 0;
	file->known = 1;
	file->mtime_ns = mtime_ns;
	file->inode = st.st_ino;
	file->size = (uint64_t)st.st_size;
	struct net_identity *identity = net_identity_load(file->path, &err);
	if (!identity) {
		file->complained = 0;
		complain(node, file, err.msg);
		return;
	}
	if (have_key(node, identity) || keep_identity(node, identity) < 0) {
		net_identity_free(identity);
		return;
	}
	file->complained = 0;
	snprintf(text, sizeof(text), "node '%s': identity %s from '%s'", node->config->name,
		 net_identity_peer_id(identity), file->path);
	node->say(node->say_ctx, text);
}

void node_identities(struct node *node)
{
	for (size_t i = 0; i < node->config->identity_count; i++)
		look_at(node, &node->files[i]);
}

/* ---- connections ----------------------------------------------------------------------------- */

static struct node_conn **place(struct node *node, uint64_t conn)
{
	struct node_conn **at = &node->table[conn % ARRAY_LEN(node->table)];
	while (*at && (*at)->conn != conn)
		at = &(*at)->chain;
	return at;
}

int node_has(const struct node *node, uint64_t conn)
{
	return *place((struct node *)node, conn) != NULL;
}

static void unlink_conn(struct node *node, struct node_conn *c)
{
	struct node_conn **at = place(node, c->conn);
	*at = c->chain;
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		node->conns = c->next;
	node_inbox_fini(&c->inbox);
	free(c);
}

int node_open(struct node *node, const struct netcap_conn *info, struct err *err)
{
	char remote[NET_ADDR_TEXT_MAX], local[NET_ADDR_TEXT_MAX];
	node_identities(node);
	struct node_conn *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "cannot allocate a connection");
	net_addr_text(&info->remote, remote);
	net_addr_text(&info->local, local);
	struct net_conn_opt opt = { .id = node->connection_ids,
				    .started_ns = info->time_ns,
				    .role = info->local_initiated ? NET_ROLE_INITIATOR
								  : NET_ROLE_RESPONDER,
				    .remote_addr = remote,
				    .local_addr = local,
				    .keyring = &node->keyring,
				    .budget = node->budget,
				    .seek = &node->seek,
				    .sink = &node->sink,
				    .difficulty = NODE_POW_DIFFICULTY,
				    .attached_late = info->attached_late };
	c->conn = info->conn;
	c->id = node->connection_ids++;
	c->local_initiated = info->local_initiated;
	c->net = net_conn_new(&opt, err);
	if (!c->net) {
		free(c);
		return err->code;
	}
	*place(node, c->conn) = c;
	c->next = node->conns;
	if (c->next)
		c->next->prev = c;
	node->conns = c;
	pthread_mutex_lock(&node->lock);
	node->live.connections_open++;
	node->live.connections_opened++;
	node->live.connections_late += info->attached_late;
	pthread_mutex_unlock(&node->lock);
	return 0;
}

/* ---- those that search ----------------------------------------------------------------------- */

static void enqueue(struct node *node, struct node_conn *c)
{
	c->queued = 1;
	c->queue_next = NULL;
	*node->queue_end = c;
	node->queue_end = &c->queue_next;
}

/* The first of the queue. */
static struct node_conn *dequeue(struct node *node)
{
	struct node_conn *c = node->queue;
	node->queue = c->queue_next;
	if (!node->queue)
		node->queue_end = &node->queue;
	c->queued = 0;
	return c;
}

static int close_conn(struct node *node, struct node_conn *c, struct err *err)
{
	node->closing = c;
	int rc = net_conn_close(c->net, c->ended_ns, c->end_reason, err);
	node->closing = NULL;
	unlink_conn(node, c);
	pthread_mutex_lock(&node->lock);
	node->live.connections_open--;
	pthread_mutex_unlock(&node->lock);
	return rc;
}

static int apply(struct node_conn *c, const struct node_event *event, const void *bytes,
		 struct err *err)
{
	int from_initiator = c->local_initiated == event->outgoing;
	if (event->kind == NODE_EVENT_DATA)
		return net_conn_feed(c->net, from_initiator, event->time_ns, bytes, event->len,
				     err);
	if (event->kind == NODE_EVENT_GAP)
		return net_conn_gap(c->net, from_initiator, event->time_ns, event->lost, err);
	return net_conn_end(c->net, err);
}

/* Up to @most bytes of what came meanwhile, until it searches again or has spent so much. */
static int apply_inbox(struct node *node, struct node_conn *c, size_t most, uint64_t spent,
		       struct err *err)
{
	struct node_event event;
	const void *bytes;
	size_t before = node_inbox_bytes(&c->inbox);
	int rc = 0;
	while (rc >= 0 && !net_conn_busy(c->net) && net_conn_spent(c->net) <= spent &&
	       before - node_inbox_bytes(&c->inbox) <= most &&
	       node_inbox_take(&c->inbox, &event, &bytes))
		rc = apply(c, &event, bytes, err);
	node->queue_bytes -= before - node_inbox_bytes(&c->inbox);
	return rc;
}

int node_work(struct node *node, struct err *err)
{
	if (!node->queue)
		return 0;
	struct node_conn *c = dequeue(node);
	uint64_t until = net_conn_spent(c->net) + NODE_SEEK_SLICE;
	node->feeding = c;
	int rc = net_conn_busy(c->net) ? net_conn_work(c->net, err) : 0;
	if (rc >= 0)
		rc = apply_inbox(node, c, NODE_INBOX_STEP, until, err);
	node->feeding = NULL;
	count_resyncs(node, c, net_conn_row(c->net));
	if (rc >= 0 && (net_conn_busy(c->net) || node_inbox_bytes(&c->inbox)))
		enqueue(node, c);
	else if (rc >= 0 && c->ended)
		rc = close_conn(node, c, err);
	return rc < 0 ? rc : node->queue != NULL;
}

/*
 * Too much waits for it: it gives its search up. It stays in the queue, with nothing to do there.
 */
static int catch_up(struct node *node, struct node_conn *c, struct err *err)
{
	node->feeding = c;
	int rc = net_conn_hurry(c->net, 1, err);
	if (rc >= 0)
		rc = apply_inbox(node, c, SIZE_MAX, UINT64_MAX, err);
	if (rc >= 0)
		rc = net_conn_hurry(c->net, 0, err);
	node->feeding = NULL;
	return rc;
}

static int wait_for_turn(struct node *node, struct node_conn *c, const struct node_event *event,
			 const void *bytes, struct err *err)
{
	size_t before = node_inbox_bytes(&c->inbox);
	if (before + event->len > NODE_INBOX_MAX ||
	    node->queue_bytes + event->len > NODE_INBOXES_MAX) {
		int rc = catch_up(node, c, err);
		if (rc < 0)
			return rc;
		before = 0;
	}
	if (node_inbox_put(&c->inbox, event, bytes) < 0)
		return err_set(err, -ENOMEM, "cannot keep %zu bytes of a connection", event->len);
	node->queue_bytes += node_inbox_bytes(&c->inbox) - before;
	return 0;
}

/* Now, or when the search that is under way is over. */
static int happen(struct node *node, struct node_conn *c, const struct node_event *event,
		  const void *bytes, struct err *err)
{
	if (c->queued)
		return wait_for_turn(node, c, event, bytes, err);
	node->feeding = c;
	int rc = apply(c, event, bytes, err);
	node->feeding = NULL;
	count_resyncs(node, c, net_conn_row(c->net));
	if (net_conn_busy(c->net))
		enqueue(node, c);
	return rc;
}

int node_data(struct node *node, uint64_t conn, int outgoing, uint64_t time_ns, const void *bytes,
	      size_t len, struct err *err)
{
	struct node_conn *c = *place(node, conn);
	if (!c)
		return 0;
	pthread_mutex_lock(&node->lock);
	node->live.stream_bytes[outgoing] += len;
	pthread_mutex_unlock(&node->lock);
	struct node_event event = {
		.kind = NODE_EVENT_DATA, .time_ns = time_ns, .outgoing = outgoing, .len = len
	};
	return happen(node, c, &event, bytes, err);
}

int node_gap(struct node *node, uint64_t conn, int outgoing, uint64_t time_ns, uint64_t lost,
	     struct err *err)
{
	struct node_conn *c = *place(node, conn);
	if (!c)
		return 0;
	pthread_mutex_lock(&node->lock);
	node->live.gaps[outgoing]++;
	node->live.gap_bytes[outgoing] += lost;
	pthread_mutex_unlock(&node->lock);
	struct node_event event = {
		.kind = NODE_EVENT_GAP, .time_ns = time_ns, .outgoing = outgoing, .lost = lost
	};
	return happen(node, c, &event, NULL, err);
}

int node_close(struct node *node, uint64_t conn, uint64_t time_ns, const char *reason,
	       struct err *err)
{
	struct node_conn *c = *place(node, conn);
	if (!c || c->ended)
		return 0;
	c->ended = 1;
	c->ended_ns = time_ns;
	snprintf(c->end_reason, sizeof(c->end_reason), "%s", reason ? reason : "closed");
	struct node_event event = { .kind = NODE_EVENT_END, .time_ns = time_ns };
	int rc = happen(node, c, &event, NULL, err);
	return rc >= 0 && !c->queued ? close_conn(node, c, err) : rc;
}

int node_process(struct node *node, enum netcap_process what, uint32_t pid, uint64_t time_ns)
{
	struct node_counts *live = &node->live;
	pthread_mutex_lock(&node->lock);
	size_t at = 0;
	while (at < live->pid_count && live->pids[at] != pid)
		at++;
	if (what == NETCAP_NODE_LISTENS && at == live->pid_count && at < ARRAY_LEN(live->pids)) {
		live->pids[live->pid_count++] = pid;
		live->attached_since_ns = time_ns;
	} else if (what == NETCAP_NODE_ENDED && at < live->pid_count) {
		live->pids[at] = live->pids[--live->pid_count];
	}
	pthread_mutex_unlock(&node->lock);
	/* a node that starts may have a new identity */
	if (what == NETCAP_NODE_LISTENS)
		node_identities(node);
	return 0;
}

void node_report(struct node *node)
{
	struct err err = { 0 };
	for (struct node_conn *c = node->conns; c; c = c->next) {
		const struct message_connection *row = net_conn_row(c->net);
		/* every way in which a row becomes another makes one of these larger */
		uint64_t news = row->comment_count + row->chunks[0] + row->chunks[1] +
				row->gaps[0] + row->gaps[1] + row->undecrypted[0] +
				row->undecrypted[1];
		if (news == c->reported)
			continue;
		c->reported = news;
		on_connection(&node->sink, row, &err);
	}
}

/* ---- decoding what is stored ----------------------------------------------------------------- */

static int unseal(void *ctx, const struct message_chunk *chunk, struct err *err)
{
	struct node *node = ctx;
	(void)err;
	node_writer_unseal(node->writer, chunk);
	return 0;
}

static struct node_conn *by_id(struct node *node, uint64_t connection)
{
	struct node_conn *c = node->conns;
	while (c && node->first_connection + c->id != connection)
		c = c->next;
	return c;
}

static int is_live(void *ctx, uint64_t connection)
{
	return by_id(ctx, connection) != NULL;
}

/*
 * The new connection has seen all chunks; it gets what was not cut yet, and then the place of the
 * old one.
 */
static int take_over(void *ctx, uint64_t connection, struct net_conn *net, struct err *err)
{
	struct node *node = ctx;
	struct node_conn *c = by_id(node, connection);
	uint64_t now = clock_ns(CLOCK_REALTIME);
	int rc = 0;
	const struct message_connection *row = net_conn_row(c->net);
	net_conn_set_gaps(net, row->gaps, row->gap_bytes);
	net_conn_set_sink(net, &node->sink);
	for (int from_initiator = 0; rc >= 0 && from_initiator < 2; from_initiator++) {
		size_t len;
		const void *bytes = net_conn_pending(c->net, from_initiator, &len);
		rc = net_conn_feed(net, from_initiator, now, bytes, len, err);
	}
	net_conn_free(c->net);
	c->net = net;
	on_connection(&node->sink, net_conn_row(net), err);
	return rc;
}

static int sync_store(void *ctx, struct err *err)
{
	struct node *node = ctx;
	return node_writer_sync(node->writer, SYNC_MS, err);
}

static int begin_job(struct node *node, struct err *err)
{
	node_report(node);
	/*
	 * the chunks that are to be read must have been written; a store that fails is asked again
	 * a second later
	 */
	if (sync_store(node, err) < 0)
		return 0;
	struct node_reprocess *job = calloc(1, sizeof(*job));
	if (!job)
		return err_set(err, -ENOMEM, "cannot allocate a job");
	node->reprocess = 0;
	node->job = job;
	*job = (struct node_reprocess){ .keyring = &node->keyring,
					.first_connection = node->first_connection,
					.difficulty = NODE_POW_DIFFICULTY,
					.budget = node->budget,
					.sink = &node->sink,
					.unseal = unseal,
					.take_over = take_over,
					.is_live = is_live,
					.sync = sync_store,
					.ctx = node };
	int rc = store_reader_open(node->config->db, &node->job_reader, err);
	return rc < 0 ? rc : node_reprocess_begin(job, node->job_reader, err);
}

static void end_job(struct node *node)
{
	if (node->job)
		node_reprocess_end(node->job);
	free(node->job);
	store_reader_close(node->job_reader);
	node->job = NULL;
	node->job_reader = NULL;
}

/* Rows that are decoded must find room behind those that are recorded, without a wait. */
static int writer_keeps_up(struct node *node)
{
	struct node_writer_stats stats;
	node_writer_stats(node->writer, &stats);
	return stats.queue_bytes < stats.queue_bytes_max / 4;
}

int node_reprocess(struct node *node, int may_begin)
{
	struct err err = { 0 };
	char text[1200];
	int rc = 0;
	if (!node->job) {
		if (!may_begin || !node->reprocess || !node->keyring.count)
			return 0;
		if (!node->sealed_seen) {
			node->reprocess = 0;
			return 0;
		}
		rc = begin_job(node, &err);
		if (!node->job)
			return 0;
	}
	uint64_t before = node->job->chunks;
	if (rc == 0 && !writer_keeps_up(node))
		return 1;
	if (rc == 0)
		rc = node_reprocess_step(node->job, node->job_reader, SLICE_BYTES, &err);
	pthread_mutex_lock(&node->lock);
	node->live.reprocessed_chunks += node->job->chunks - before;
	pthread_mutex_unlock(&node->lock);
	if (rc > 0)
		return 1;
	if (rc < 0)
		snprintf(text, sizeof(text), "node '%s': cannot decode what is stored: %s",
			 node->config->name, err.msg);
	else
		snprintf(text, sizeof(text),
			 "node '%s': %llu stored chunks of %llu connections were decoded",
			 node->config->name, (unsigned long long)node->job->chunks,
			 (unsigned long long)node->job->connections);
	if (rc < 0 || node->job->chunks)
		node->say(node->say_ctx, text);
	end_job(node);
	return 0;
}

void node_live(struct node *node, struct node_counts *live)
{
	struct node_writer_stats stats;
	pthread_mutex_lock(&node->lock);
	*live = node->live;
	pthread_mutex_unlock(&node->lock);
	node_writer_stats(node->writer, &stats);
	live->queue_bytes = stats.queue_bytes;
	live->queue_bytes_max = stats.queue_bytes_max;
	live->queue_high_water = stats.queue_high_water;
	live->queue_delay_ns = stats.queue_delay_ns;
	live->flushes = stats.flushes;
	live->store_failures = stats.failures;
	live->rows_lost = stats.rows_lost;
	memcpy(live->store_trouble, stats.trouble, sizeof(live->store_trouble));
}

int node_fini(struct node *node, struct err *err)
{
	struct err ignored = { 0 };
	end_job(node);
	while (node->queue) {
		/* nobody waits for the end of a search */
		struct node_conn *c = dequeue(node);
		if (catch_up(node, c, &ignored) >= 0 && c->ended)
			close_conn(node, c, &ignored);
	}
	while (node->conns) {
		struct net_conn *net = node->conns->net;
		unlink_conn(node, node->conns);
		net_conn_free(net); /* what the capture did not close was never opened properly */
	}
	net_budget_fini(&node->own_budget);
	int rc = node_writer_close(node->writer, NULL, err);
	node->writer = NULL;
	for (size_t i = 0; i < node->keyring.count; i++)
		net_identity_free(node->identities[i]);
	free(node->identities);
	pthread_mutex_destroy(&node->lock);
	return rc;
}
