/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn_internal.h"
#include "net/decode.h"

#define HELLO_PENDING_MAX \
	(128u << 10) /* one side speaks this much while the other is silent: not this protocol */

#define HELLO_MAX (NET_CONNECTION_CHUNK_MIN + 1024u) /* with the longest chain name that is read */
#define SCRATCH_KEPT (16u << 10)
#define SMALL_HOLDING 1024u /* who holds no more is no help */

const char *conn_half_word(const struct net_half *half)
{
	return half->sender == MESSAGE_REMOTE ? "incoming" : "outgoing";
}

void conn_comment(struct net_conn *conn, const char *fmt, ...)
{
	char text[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	for (size_t i = 0; i < conn->comment_count; i++) {
		if (strcmp(conn->comments[i], text) == 0)
			return;
	}
	if (conn->comment_count == ARRAY_LEN(conn->comments))
		return;
	char *copy = strdup(text);
	if (copy)
		conn->comments[conn->comment_count++] = copy;
}

const struct message_connection *net_conn_row(struct net_conn *conn)
{
	conn->row.comments = (const char *const *)conn->comments;
	conn->row.comment_count = conn->comment_count;
	return &conn->row;
}

int conn_report(struct net_conn *conn, struct err *err)
{
	return conn->sink->connection(conn->sink, net_conn_row(conn), err);
}

/* ---- what all connections hold --------------------------------------------------------------- */

void net_budget_fini(struct net_budget *budget)
{
	buf_fini(&budget->plain);
	buf_fini(&budget->json);
}

static void leave_list(struct net_conn *conn)
{
	struct net_budget *budget = conn->budget;
	if (conn->list < 0)
		return;
	*(conn->older ? &conn->older->newer : &budget->oldest[conn->list]) = conn->newer;
	*(conn->newer ? &conn->newer->older : &budget->newest[conn->list]) = conn->older;
	conn->list = -1;
}

static void enter_list(struct net_conn *conn, int list)
{
	struct net_budget *budget = conn->budget;
	leave_list(conn);
	conn->list = list;
	conn->newer = NULL;
	conn->older = budget->newest[list];
	*(conn->older ? &conn->older->newer : &budget->oldest[list]) = conn;
	budget->newest[list] = conn;
}

void conn_proved(struct net_conn *conn)
{
	leave_list(conn);
}

/* A buffer that holds nothing is not kept for the next burst where it is large. */
static uint64_t holds(struct buf *buf, int empty)
{
	if (empty && buf->cap > SCRATCH_KEPT)
		buf_fini(buf);
	return buf->cap;
}

static void account(struct net_conn *conn)
{
	uint64_t held = sizeof(*conn);
	for (int i = 0; i < 2; i++) {
		struct net_half *half = &conn->half[i];
		int empty = half->start == half->pending.len;
		held += holds(&half->pending, empty) + conn->hello[i].cap + half->message.cap +
			seek_bytes(half->seek) + half->held[0].plain.cap + half->held[1].plain.cap;
		if (!half->pending.cap)
			half->start = 0;
		held += half->boundaries ? NET_BOUNDARIES * sizeof(*half->boundaries) : 0;
	}
	conn->budget->held += held - conn->held;
	conn->held = held;
	holds(&conn->budget->plain, 1);
	holds(&conn->budget->json, 1);
}

static uint64_t held_max(const struct net_budget *budget)
{
	return budget->held_max ? budget->held_max : NET_HELD_BYTES;
}

static int give_up(struct net_conn *conn, const char *why, struct err *err);

/* Who proved nothing gives way: an eighth of it at once, for looking costs, too. */
static int make_room(struct net_budget *budget, struct err *err)
{
	uint64_t most = held_max(budget);
	int rc = 0;
	if (budget->held <= most)
		return 0;
	for (int list = 0; list < 2; list++) {
		struct net_conn *next, *conn = budget->oldest[list];
		for (; conn && rc >= 0 && budget->held > most - most / 8; conn = next) {
			next = conn->newer;
			if (conn->held < sizeof(*conn) + SMALL_HOLDING)
				continue;
			rc = give_up(conn,
				     "too much was held for all connections: nothing of this one "
				     "was proven, it is kept as it came",
				     err);
			account(conn);
		}
	}
	return rc;
}

int conn_full(struct net_conn *conn)
{
	return conn->budget->held > held_max(conn->budget);
}

static int settle(struct net_conn *conn, int rc, struct err *err)
{
	account(conn);
	return rc < 0 ? rc : make_room(conn->budget, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

void net_conn_free(struct net_conn *conn)
{
	if (!conn)
		return;
	for (int i = 0; i < 2; i++) {
		build_drop(conn, &conn->half[i]);
		half_fini(&conn->half[i]);
		buf_fini(&conn->hello[i]);
	}
	for (size_t i = 0; i < conn->comment_count; i++)
		free(conn->comments[i]);
	net_key_free(conn->key);
	leave_list(conn);
	conn->budget->held -= conn->held;
	net_budget_fini(&conn->own_budget);
	free(conn);
}

struct net_conn *net_conn_new(const struct net_conn_opt *opt, struct err *err)
{
	struct net_conn *conn = calloc(1, sizeof(*conn));
	if (!conn) {
		err_set(err, -ENOMEM, "cannot allocate a connection");
		return NULL;
	}
	conn->sink = opt->sink;
	conn->keyring = opt->keyring;
	conn->budget = opt->budget ? opt->budget : &conn->own_budget;
	conn->plain = &conn->budget->plain;
	conn->json = &conn->budget->json;
	conn->list = -1;
	conn->role = opt->role;
	conn->difficulty = opt->difficulty;
	conn->seek_limit = opt->seek ? opt->seek : &net_seek_live;
	if (opt->remote_addr)
		snprintf(conn->addr[MESSAGE_REMOTE], sizeof(conn->addr[0]), "%s", opt->remote_addr);
	if (opt->local_addr)
		snprintf(conn->addr[MESSAGE_LOCAL], sizeof(conn->addr[0]), "%s", opt->local_addr);
	conn->half[MESSAGE_LOCAL].sender = MESSAGE_LOCAL;
	conn->half[MESSAGE_REMOTE].sender = MESSAGE_REMOTE;
	conn->row.id = opt->id;
	conn->row.started_ns = opt->started_ns;
	conn->row.remote_addr = conn->addr[MESSAGE_REMOTE];
	conn->row.attached_late = opt->attached_late;
	if (conn->role == NET_ROLE_UNKNOWN) {
		/* halves are named at the handshake; until then the initiator counts as ours */
		conn->role = NET_ROLE_INITIATOR;
		conn->role_guessed = 1;
	}
	conn->row.initiator = conn->role == NET_ROLE_INITIATOR ? MESSAGE_LOCAL : MESSAGE_REMOTE;
	if (opt->attached_late) {
		conn->half[0].state = conn->half[1].state = HALF_RAW;
		conn_comment(conn, "recording began in the middle of the connection: the handshake "
				   "is missing, nothing can be decrypted");
	}
	if (conn_report(conn, err) < 0) {
		net_conn_free(conn);
		return NULL;
	}
	if (!opt->attached_late)
		enter_list(conn, 0);
	account(conn);
	return conn;
}

static struct net_half *half_of(struct net_conn *conn, int from_initiator)
{
	enum message_sender initiator = conn->row.initiator;
	return &conn->half[from_initiator ? initiator : !initiator];
}

const void *net_conn_pending(const struct net_conn *conn, int from_initiator, size_t *len)
{
	enum message_sender initiator = conn->row.initiator;
	const struct net_half *half = &conn->half[from_initiator ? initiator : !initiator];
	*len = half->pending.len - half->start;
	return *len ? half->pending.data + half->start : "";
}

void net_conn_set_gaps(struct net_conn *conn, const uint64_t gaps[2], const uint64_t gap_bytes[2])
{
	memcpy(conn->row.gaps, gaps, sizeof(conn->row.gaps));
	memcpy(conn->row.gap_bytes, gap_bytes, sizeof(conn->row.gap_bytes));
}

void net_conn_set_sink(struct net_conn *conn, struct message_sink *sink)
{
	conn->sink = sink;
}

/* A connection chunk's own public key, or NULL where the chunk is too short to hold one. */
static const uint8_t *hello_key(const struct buf *hello)
{
	return hello->len >= NET_CONNECTION_CHUNK_MIN ? (const uint8_t *)hello->data + 4 : NULL;
}

static const struct net_identity *identity_of(const struct net_conn *conn, const struct buf *hello)
{
	const uint8_t *key = hello_key(hello);
	for (size_t i = 0; key && conn->keyring && i < conn->keyring->count; i++) {
		if (memcmp(net_identity_public_key(conn->keyring->identities[i]), key, 32) == 0)
			return conn->keyring->identities[i];
	}
	return NULL;
}

static void swap_sides(struct net_conn *conn)
{
	struct net_half half = conn->half[0];
	conn->half[0] = conn->half[1];
	conn->half[1] = half;
	struct buf hello = conn->hello[0];
	conn->hello[0] = conn->hello[1];
	conn->hello[1] = hello;
	char addr[sizeof(conn->addr[0])];
	memcpy(addr, conn->addr[0], sizeof(addr));
	memcpy(conn->addr[0], conn->addr[1], sizeof(addr));
	memcpy(conn->addr[1], addr, sizeof(addr));
	uint64_t time_ns = conn->hello_time_ns[0];
	conn->hello_time_ns[0] = conn->hello_time_ns[1];
	conn->hello_time_ns[1] = time_ns;
	for (int i = 0; i < 2; i++)
		conn->half[i].sender = (enum message_sender)i;
	conn->row.initiator = !conn->row.initiator;
	conn->role = conn->role == NET_ROLE_INITIATOR ? NET_ROLE_RESPONDER : NET_ROLE_INITIATOR;
	uint64_t *pairs[] = { conn->row.chunks, conn->row.undecrypted, conn->row.gaps,
			      conn->row.gap_bytes, conn->row.resyncs };
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		uint64_t v = pairs[i][0];
		pairs[i][0] = pairs[i][1];
		pairs[i][1] = v;
	}
}

/* Both connection chunks are there: who is ours, which key, which nonces. */
static int handshake(struct net_conn *conn, struct err *err)
{
	if (conn->role_guessed && !identity_of(conn, &conn->hello[MESSAGE_LOCAL]) &&
	    identity_of(conn, &conn->hello[MESSAGE_REMOTE]))
		swap_sides(conn);
	const struct buf *local = &conn->hello[MESSAGE_LOCAL],
			 *remote = &conn->hello[MESSAGE_REMOTE];
	const struct net_identity *identity = identity_of(conn, local);
	if (hello_key(local)) {
		net_peer_id(hello_key(local), conn->local_peer_id);
		conn->row.local_peer_id = conn->local_peer_id;
	}
	if (hello_key(remote)) {
		net_peer_id(hello_key(remote), conn->remote_peer_id);
		conn->row.remote_peer_id = conn->remote_peer_id;
	}
	for (int i = 1; i >= 0; i--) {
		const struct buf *hello = &conn->hello[i];
		const char *word = conn_half_word(&conn->half[i]);
		if (!hello_key(hello))
			conn_comment(conn, "%s connection message is too short: %zu bytes", word,
				     hello->len);
		else if (!net_pow_ok(hello_key(hello), hello_key(hello) + 32, conn->difficulty))
			conn_comment(conn, "%s connection message bad proof-of-work, target: %g",
				     word, conn->difficulty);
	}
	int have_ring = conn->keyring && conn->keyring->count;
	if (!identity && have_ring && hello_key(local))
		conn_comment(conn,
			     "outgoing connection message public key does not match with identity");
	if (identity && hello_key(remote))
		conn->key = net_key_new(identity, hello_key(remote));
	if (conn->key) {
		const struct buf *i = &conn->hello[conn->row.initiator],
				 *r = &conn->hello[!conn->row.initiator];
		net_start_nonces((const uint8_t *)i->data, i->len, (const uint8_t *)r->data, r->len,
				 conn->half[conn->row.initiator].nonce,
				 conn->half[!conn->row.initiator].nonce);
	}
	for (int i = 0; i < 2; i++)
		conn->half[i].state = conn->key ? HALF_OPEN : HALF_SEALED;
	int rc = conn_report(conn, err);
	for (int i = 0; i < 2 && rc >= 0; i++) {
		rc = build_hello(conn, &conn->half[i], err);
		buf_fini(&conn->hello[i]);
	}
	enter_list(conn, 1);
	for (int i = 0; i < 2 && rc >= 0; i++)
		rc = half_run(conn, &conn->half[i], err);
	return rc;
}

static int give_up(struct net_conn *conn, const char *why, struct err *err)
{
	conn_comment(conn, "%s", why);
	leave_list(conn);
	for (int i = 0; i < 2; i++) {
		struct net_half *half = &conn->half[i];
		int gap = build_gap(conn, half, half->pending_time_ns, why, err);
		if (gap < 0)
			return gap;
		half->state = HALF_RAW;
		seek_free(half->seek);
		half->seek = NULL;
		if (conn->hello[i].len) {
			struct message_chunk piece = { .connection = conn->row.id,
						       .counter = MESSAGE_NO_COUNTER,
						       .sender = half->sender,
						       .time_ns = conn->hello_time_ns[i],
						       .raw = (const uint8_t *)conn->hello[i].data,
						       .raw_len = conn->hello[i].len };
			int rc = conn->sink->chunk(conn->sink, &piece, err);
			if (rc < 0)
				return rc;
			buf_fini(&conn->hello[i]);
		}
		int rc = half_flush_raw(conn, half, err);
		if (rc < 0)
			return rc;
	}
	return conn_report(conn, err);
}

/*
 * Is the first chunk of a half, as far as it is there, a connection message? Its structure says so;
 * one whose key is ours is one whatever else is wrong with it. 1 yes, 0 no, 2 = cannot be told yet.
 */
static int is_hello(const struct net_conn *conn, const uint8_t *p, size_t have)
{
	if (have < 2)
		return 2;
	size_t len = 2u + ((size_t)p[0] << 8 | p[1]);
	struct buf seen = { .data = (char *)p, .len = have < len ? have : len };
	if (seen.len >= NET_CONNECTION_CHUNK_MIN && identity_of(conn, &seen))
		return have < len ? 2 : 1;
	if (have < len && have < NET_CONNECTION_CHUNK_MIN && len >= NET_CONNECTION_CHUNK_MIN)
		return 2;
	if (len < NET_CONNECTION_CHUNK_MIN || len > HELLO_MAX)
		return 0;
	if (have < len)
		return 2;
	return net_is_connection(p + 2, len - 2);
}

/* Take the first chunk off a half that has none yet. 1 = it is none. */
static int take_hello(struct net_conn *conn, struct net_half *half)
{
	const uint8_t *p = half_bytes(half);
	int is = is_hello(conn, p, half_len(half));
	if (is != 1)
		return is == 0;
	size_t len = 2u + ((size_t)p[0] << 8 | p[1]);
	buf_put(&conn->hello[half->sender], p, len);
	if (buf_failed(&conn->hello[half->sender]))
		return -ENOMEM;
	conn->hello_time_ns[half->sender] = half->pending_time_ns;
	half->start += len;
	half->pending_offset += len;
	half->counter = 1;
	half->state = HALF_WAIT;
	return 0;
}

static int feed(struct net_conn *conn, struct net_half *half, uint64_t time_ns, const void *bytes,
		size_t len, struct err *err)
{
	if (half_append(half, bytes, len, time_ns) < 0)
		return err_set(err, -ENOMEM, "cannot keep %zu bytes of a connection", len);
	int none = half->state == HALF_HELLO ? take_hello(conn, half) : 0;
	if (none < 0)
		return err_set(err, -ENOMEM, "cannot keep a connection message");
	if (none)
		return give_up(conn,
			       half->sender == MESSAGE_REMOTE
				       ? "incoming data does not look like a connection message"
				       : "outgoing data does not look like a connection message",
			       err);
	if (conn->half[0].state == HALF_WAIT && conn->half[1].state == HALF_WAIT)
		return handshake(conn, err);
	if (half->state == HALF_WAIT && half->pending.len - half->start > HELLO_PENDING_MAX)
		return give_up(conn,
			       half->sender == MESSAGE_REMOTE
				       ? "outgoing data does not look like a connection message"
				       : "incoming data does not look like a connection message",
			       err);
	return half_run(conn, half, err);
}

int net_conn_feed(struct net_conn *conn, int from_initiator, uint64_t time_ns, const void *bytes,
		  size_t len, struct err *err)
{
	if (!len)
		return 0;
	seek_grant(conn, time_ns, len);
	seek_slice(conn);
	int rc = feed(conn, half_of(conn, from_initiator), time_ns, bytes, len, err);
	seek_slice_end(conn);
	return settle(conn, rc, err);
}

int net_conn_gap(struct net_conn *conn, int from_initiator, uint64_t time_ns, uint64_t lost,
		 struct err *err)
{
	struct net_half *half = half_of(conn, from_initiator);
	seek_grant(conn, time_ns, 0);
	conn->row.gaps[half->sender]++;
	conn->row.gap_bytes[half->sender] += lost;
	half->pending_time_ns = time_ns;
	if (half->state == HALF_HELLO || half->state == HALF_WAIT)
		return settle(conn,
			      give_up(conn,
				      "bytes of the handshake were lost: nothing can be decrypted",
				      err),
			      err);
	return settle(conn, seek_gap(conn, half, lost, err), err);
}

int net_conn_busy(const struct net_conn *conn)
{
	return seek_busy(&conn->half[0]) || seek_busy(&conn->half[1]);
}

/* All that can be done now; @conn->slice_left says how much. */
static int work(struct net_conn *conn, struct err *err)
{
	int rc = 0;
	for (int i = 0; i < 2 && rc >= 0; i++) {
		struct net_half *half = &conn->half[i];
		if (seek_busy(half))
			rc = half_run(conn, half, err);
		if (rc >= 0 && conn->ending && !seek_busy(half))
			rc = seek_end(conn, half, err);
	}
	return rc < 0 ? rc : 0;
}

int net_conn_work(struct net_conn *conn, struct err *err)
{
	seek_slice(conn);
	int rc = work(conn, err);
	seek_slice_end(conn);
	return settle(conn, rc, err);
}

int net_conn_end(struct net_conn *conn, struct err *err)
{
	conn->ending = 1;
	return net_conn_work(conn, err);
}

int net_conn_hurry(struct net_conn *conn, int on, struct err *err)
{
	int rc = 0;
	conn->hurries = on;
	for (int i = 0; i < 2 && rc >= 0; i++) {
		struct net_half *half = &conn->half[i];
		if (half->state != HALF_SEEK)
			continue;
		rc = half_run(conn, half, err);
		/* what comes from now on is looked at */
		if (rc >= 0 && !on && half->state == HALF_SEEK)
			rc = seek_again(conn, half, err);
	}
	return rc < 0 ? rc : 0;
}

uint64_t net_conn_spent(const struct net_conn *conn)
{
	return conn->seek_spent;
}

int net_conn_close(struct net_conn *conn, uint64_t time_ns, const char *reason, struct err *err)
{
	conn->slice_left = UINT64_MAX;
	conn->ending = 0;
	int rc = work(conn, err);
	/* a connection that never came to a handshake still shows what was said */
	for (int i = 0; i < 2 && rc >= 0; i++) {
		struct net_half *half = &conn->half[i];
		if (half->state == HALF_WAIT)
			rc = build_hello(conn, half, err);
		if (rc >= 0)
			rc = seek_end(conn, half, err);
		if (rc >= 0)
			rc = build_gap(conn, half, time_ns,
				       "the connection ended inside the message", err);
		if (rc >= 0)
			rc = half_flush_raw(conn, half, err);
	}
	conn->row.closed_ns = time_ns;
	snprintf(conn->close_reason, sizeof(conn->close_reason), "%s", reason ? reason : "closed");
	conn->row.close_reason = conn->close_reason;
	if (rc >= 0)
		rc = conn_report(conn, err);
	net_conn_free(conn);
	return rc;
}
