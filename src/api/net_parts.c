/* SPDX-License-Identifier: Apache-2.0 */
/* net_parts.c - one message with its bytes; connections; chunks. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/net_internal.h"
#include "base/clock.h"
#include "node/nodes.h"

#define DETAIL_MAX \
	(16u << 20) /* plaintext of a message that is shown; larger ones are left to /v3/chunk */
#define DETAIL_BIG (256u << 10) /* more than this is big, and at most */
#define DETAIL_BIG_AT_ONCE 4    /* of those are shown at once */
#define HEX_PIECE 16384         /* bytes of a message that are spelled out at a time */
#define CHUNK_SHOWN (64u << 10)
#define CHUNKS_PIECE 64
#define CONNECTIONS_PIECE 500
#define LIMIT_DEFAULT 100

static const char hex[] = "0123456789abcdef";

/* ---- one message ----------------------------------------------------------------------------- */

struct detail {
	struct api_net *net;
	struct buf raw, plain, json;
	char error[160];
	/* where the message begins in its first chunk, and how long it is */
	uint64_t id, skip, want;
	int big, started, part;
	size_t at;
};

static void detail_free(void *ctx)
{
	struct detail *d = ctx;
	if (d->big)
		atomic_fetch_sub(&d->net->big, 1);
	buf_fini(&d->raw);
	buf_fini(&d->plain);
	buf_fini(&d->json);
	free(d);
}

static int add_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	struct detail *d = ctx;
	if (d->raw.len + chunk->raw_len > 2 * (size_t)DETAIL_MAX)
		return -E2BIG;
	buf_put(&d->raw, chunk->raw, chunk->raw_len);
	size_t skip = d->skip < chunk->plain_len ? (size_t)d->skip : chunk->plain_len;
	d->skip -= skip;
	size_t len = chunk->plain_len - skip;
	if (len > d->want - d->plain.len)
		len = (size_t)(d->want - d->plain.len);
	if (chunk->plain)
		buf_put(&d->plain, chunk->plain + skip, len);
	return buf_failed(&d->raw) || buf_failed(&d->plain) ? -ENOMEM : 0;
}

static void put_hex_bytes(struct buf *out, const struct buf *bytes, size_t from, size_t count)
{
	char *to = buf_reserve(out, count * 5);
	if (!to)
		return;
	for (size_t i = 0; i < count; i++, to += 5) {
		unsigned char byte = (unsigned char)bytes->data[from + i];
		to[0] = '"';
		to[1] = hex[byte >> 4];
		to[2] = hex[byte & 15];
		to[3] = '"';
		to[4] = ',';
	}
	out->len += count * 5;
}

/* The pieces of the answer: head, both arrays of bytes bit by bit, error. */
static int detail_more(void *ctx, struct buf *out)
{
	struct detail *d = ctx;
	if (!d->started) {
		d->started = 1;
		buf_printf(out, "{\"id\":%" PRIu64 ",\"message\":%s,\"original_bytes\":[", d->id,
			   d->json.len ? buf_cstr(&d->json) : "null");
		return 1;
	}
	struct buf *bytes = d->part == 0 ? &d->raw : &d->plain;
	size_t count = bytes->len - d->at < HEX_PIECE ? bytes->len - d->at : HEX_PIECE;
	put_hex_bytes(out, bytes, d->at, count);
	d->at += count;
	if (d->at < bytes->len)
		return 1;
	if (bytes->len && out->len)
		out->len--; /* the last comma */
	d->at = 0;
	if (d->part++ == 0) {
		buf_puts(out, "],\"decrypted_bytes\":[");
		return 1;
	}
	buf_puts(out, "],\"error\":");
	struct json_text json;
	if (json_text_begin(&json) < 0)
		return -ENOMEM;
	jsonw_str(&json.w, NULL, d->error[0] ? d->error : NULL);
	json_text_done(&json, out);
	buf_puts(out, "}");
	return 0;
}

/* Read and decode the message; 1 found, 0 there is none of that number. */
static int detail_load(struct net_node *node, struct store_reader *reader, struct detail *d,
		       struct err *err)
{
	struct store_query q = { .has_cursor = 1, .cursor = d->id, .limit = 1 };
	struct store_page *page = NULL;
	if (store_messages(reader, &q, &page, err) < 0)
		return err->code;
	const struct store_message_row *row =
		store_page_count(page) ? store_page_message(page, 0) : NULL;
	if (!row || row->id != d->id) {
		store_page_free(page);
		return 0;
	}
	int rc = 0;
	if (row->error)
		snprintf(d->error, sizeof(d->error), "%s", row->error);
	d->skip = row->first_offset;
	d->want = row->plain_len;
	d->big = row->plain_len > DETAIL_BIG;
	if (d->big && atomic_fetch_add(&node->net->big, 1) >= DETAIL_BIG_AT_ONCE)
		rc = err_set(err, -EBUSY, "large messages are being shown to others: ask again");
	else if (row->plain_len > DETAIL_MAX)
		snprintf(d->error, sizeof(d->error),
			 "the message has %" PRIu64
			 " bytes: too many to show, /v3/chunk gives its chunks",
			 row->plain_len);
	else
		rc = store_message_chunks(reader, row, add_chunk, d, err);
	if (rc == -E2BIG) {
		buf_clear(&d->raw);
		buf_clear(&d->plain);
		snprintf(d->error, sizeof(d->error),
			 "the chunks of the message have more than %u bytes: too many to show, "
			 "/v3/chunk gives them",
			 2 * DETAIL_MAX);
		rc = 0;
	} else if (rc == -ENOMEM) {
		err_set(err, rc, "cannot allocate a message");
	}
	if (rc == 0 && row->plain_len <= DETAIL_MAX && !d->error[0]) {
		char why[128] = "";
		if (d->plain.len != row->plain_len)
			snprintf(d->error, sizeof(d->error),
				 "only %zu of %" PRIu64 " bytes of the message are stored",
				 d->plain.len, row->plain_len);
		else if (nodes_decode(row->type, row->tag,
				      (const uint8_t *)(d->plain.len ? d->plain.data : ""),
				      d->plain.len, &d->json, why) < 0)
			snprintf(d->error, sizeof(d->error), "%s", why);
	}
	store_page_free(page);
	return rc < 0 ? rc : 1;
}

void net_message(struct net_node *node, const struct http_request *request,
		 struct http_reply *reply)
{
	struct err err = { 0 };
	uint64_t id;
	if (net_query_number(http_request_tail(request), &id) < 0) {
		http_reply_error(reply, 404, "no such path: a message is named by its number");
		return;
	}
	struct detail *d = calloc(1, sizeof(*d));
	if (!d) {
		http_reply_error(reply, 500, "out of memory");
		return;
	}
	d->net = node->net;
	d->id = id;
	struct store_reader *reader = net_reader_take(node, &err);
	int rc = reader ? detail_load(node, reader, d, &err) : err.code;
	if (reader)
		net_reader_give(node, reader);
	if (rc > 0) {
		reply->body_more = detail_more;
		reply->stream = d;
		reply->stream_free = detail_free;
		return;
	}
	if (rc < 0)
		http_reply_err(reply, &err);
	else
		buf_puts(&reply->body, "null"); /* older clients expect 200 */
	detail_free(d);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void put_start(char to[40], uint64_t started_ns)
{
	snprintf(to, 40, "%" PRIu64 ".%09" PRIu64, started_ns / NS_PER_S, started_ns % NS_PER_S);
}

static void connection_object(struct jsonw *w, const struct message_connection *row)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "initiator", row->initiator == MESSAGE_LOCAL ? "local" : "remote");
	jsonw_str(w, "remote_addr", row->remote_addr ? row->remote_addr : "");
	jsonw_str(w, "peer_id", row->remote_peer_id ? row->remote_peer_id : "unknown");
	jsonw_array(w, "comments");
	for (size_t i = 0; i < row->comment_count; i++)
		jsonw_str(w, NULL, row->comments[i]);
	jsonw_array_end(w);
	jsonw_u64(w, "started_at", row->started_ns);
	if (row->close_reason) {
		jsonw_u64(w, "closed_at", row->closed_ns);
		jsonw_str(w, "close_reason", row->close_reason);
	} else {
		jsonw_null(w, "closed_at");
		jsonw_null(w, "close_reason");
	}
	jsonw_str(w, "local_peer_id", row->local_peer_id ? row->local_peer_id : "unknown");
	jsonw_u64(w, "chunks_local", row->chunks[MESSAGE_LOCAL]);
	jsonw_u64(w, "chunks_remote", row->chunks[MESSAGE_REMOTE]);
	jsonw_u64(w, "undecrypted_local", row->undecrypted[MESSAGE_LOCAL]);
	jsonw_u64(w, "undecrypted_remote", row->undecrypted[MESSAGE_REMOTE]);
	jsonw_u64(w, "gaps", row->gaps[0] + row->gaps[1]);
	jsonw_u64(w, "gap_bytes", row->gap_bytes[0] + row->gap_bytes[1]);
	jsonw_bool(w, "attached_late", row->attached_late);
	jsonw_object_end(w);
}

/* A list under way: connections by number, or chunks by place. */
struct listing {
	struct net_node *node;
	int backward, any;
	uint64_t left, next, last_id;
	struct store_chunk_query chunks;
	struct store_chunk_place last;
	/* of the piece at hand */
	struct json_text json;
	size_t rows;
};

static void separate(struct listing *l)
{
	fputc(l->any ? ',' : '[', l->json.file);
	l->any = 1;
	l->rows++;
	jsonw_init(&l->json.w, l->json.file);
}

static int put_connection(void *ctx, const struct message_connection *row)
{
	struct listing *l = ctx;
	char id[40];
	separate(l);
	put_start(id, row->started_ns);
	jsonw_array(&l->json.w, NULL);
	jsonw_str(&l->json.w, NULL, id);
	connection_object(&l->json.w, row);
	jsonw_array_end(&l->json.w);
	l->last_id = row->id;
	return 0;
}

/* One piece of @want rows by @fetch; 1 = more follows. */
static int list_piece(struct listing *l, uint64_t want, struct buf *out, struct err *err,
		      int (*fetch)(struct listing *l, struct store_reader *reader, uint64_t want,
				   struct err *err))
{
	struct store_reader *reader = net_reader_take(l->node, err);
	if (!reader)
		return err->code;
	if (want > l->left)
		want = l->left;
	l->rows = 0;
	int rc =
		json_text_begin(&l->json) < 0 ? err_set(err, -ENOMEM, "cannot allocate a page") : 0;
	if (rc == 0) {
		uint64_t start = clock_ns(CLOCK_MONOTONIC);
		rc = want ? fetch(l, reader, want, err) : 0;
		net_latency_add(l->node, start);
		json_text_done(&l->json, out);
	}
	net_reader_give(l->node, reader);
	if (rc < 0)
		return rc;
	l->left -= l->rows;
	if (l->rows == want && l->left && want)
		return 1;
	buf_puts(out, l->any ? "]" : "[]");
	return 0;
}

static int fetch_connections(struct listing *l, struct store_reader *reader, uint64_t want,
			     struct err *err)
{
	int rc = l->backward ? store_connections_back(reader, l->next, want, put_connection, l, err)
			     : store_connections(reader, l->next, want, put_connection, l, err);
	l->next = l->backward ? l->last_id - 1 : l->last_id + 1;
	if (l->backward && l->rows && l->last_id == 0)
		l->left = l->rows; /* nothing stands before number 0 */
	return rc;
}

static int more_connections(void *ctx, struct buf *out)
{
	struct err err = { 0 };
	return list_piece(ctx, CONNECTIONS_PIECE, out, &err, fetch_connections);
}

/*
 * Number of the connection that began at @started_ns, or, for a cursor whose connection retention
 * has taken, of the next one in the list's direction: 1 where it is another one, -ENOENT where
 * there is none.
 */
static int cursor_number(struct listing *l, uint64_t started_ns, uint64_t *id, struct err *err)
{
	struct store_reader *reader = net_reader_take(l->node, err);
	if (!reader)
		return err->code;
	int rc = store_connection_at(reader, started_ns, id, err);
	if (rc == -ENOENT) {
		err_init(err);
		rc = store_connection_near(reader, started_ns, l->backward, id, err);
		rc = rc < 0 ? rc : 1;
	}
	net_reader_give(l->node, reader);
	return rc;
}

static int connection_number(struct net_node *node, uint64_t started_ns, uint64_t *id,
			     struct err *err)
{
	struct store_reader *reader = net_reader_take(node, err);
	if (!reader)
		return err->code;
	int rc = store_connection_at(reader, started_ns, id, err);
	net_reader_give(node, reader);
	return rc;
}

/* limit and direction; -EINVAL with a reply. */
static struct listing *listing_new(struct net_node *node, const struct http_request *request,
				   struct http_reply *reply)
{
	uint64_t limit = LIMIT_DEFAULT;
	const char *direction = http_request_arg(request, "direction");
	if (http_request_u64(request, "limit", &limit, reply) < 0)
		return NULL;
	if (direction && strcmp(direction, "forward") != 0 && strcmp(direction, "backward") != 0) {
		http_reply_error(reply, 400, "direction is forward or backward");
		return NULL;
	}
	struct listing *l = calloc(1, sizeof(*l));
	if (!l) {
		http_reply_error(reply, 500, "out of memory");
		return NULL;
	}
	l->node = node;
	l->left = limit;
	l->backward = direction && strcmp(direction, "backward") == 0;
	return l;
}

/* The beginning of a list could not be found: nothing stands there, or why. */
static void no_list(struct listing *l, const struct err *err, struct http_reply *reply)
{
	if (err->code == -ENOENT)
		buf_puts(&reply->body, "[]");
	else
		http_reply_err(reply, err);
	free(l);
}

static void begin_list(struct listing *l, int (*more)(void *, struct buf *),
		       int (*first)(struct listing *, struct buf *, struct err *),
		       struct http_reply *reply)
{
	struct err err = { 0 };
	int rc = first(l, &reply->body, &err);
	if (rc > 0) {
		reply->body_more = more;
		reply->stream = l;
		reply->stream_free = free;
		return;
	}
	if (rc < 0)
		http_reply_err(reply, &err);
	free(l);
}

static int first_connections(struct listing *l, struct buf *out, struct err *err)
{
	return list_piece(l, CONNECTIONS_PIECE, out, err, fetch_connections);
}

void net_connections(struct net_node *node, const struct http_request *request,
		     struct http_reply *reply)
{
	struct err err = { 0 };
	struct listing *l = listing_new(node, request, reply);
	const char *cursor = http_request_arg(request, "cursor");
	uint64_t started_ns;
	if (!l)
		return;
	l->next = l->backward ? UINT64_MAX : 0;
	if (cursor && net_query_connection(cursor, strlen(cursor), &started_ns) < 0) {
		http_reply_error(reply, 400, "'cursor' is a connection's id, not '%.60s'", cursor);
		free(l);
		return;
	}
	if (cursor && cursor_number(l, started_ns, &l->next, &err) < 0) {
		no_list(l, &err, reply);
		return;
	}
	begin_list(l, more_connections, first_connections, reply);
}

static int put_one_connection(void *ctx, const struct message_connection *row)
{
	connection_object(ctx, row);
	return 0;
}

void net_connection(struct net_node *node, const struct http_request *request,
		    struct http_reply *reply)
{
	struct err err = { 0 };
	const char *text = http_request_tail(request);
	uint64_t started_ns, id;
	struct json_text json;
	if (net_query_connection(text, strlen(text), &started_ns) < 0) {
		http_reply_error(reply, 404, "no such path: a connection is named SECONDS.NANOS");
		return;
	}
	struct store_reader *reader = net_reader_take(node, &err);
	int rc = reader ? store_connection_at(reader, started_ns, &id, &err) : err.code;
	if (rc == 0 && json_text_begin(&json) < 0)
		rc = err_set(&err, -ENOMEM, "cannot allocate a page");
	if (rc == 0) {
		rc = store_connections(reader, id, 1, put_one_connection, &json.w, &err);
		json_text_done(&json, &reply->body);
	}
	if (reader)
		net_reader_give(node, reader);
	if (rc == -ENOENT)
		http_reply_error(reply, 404, "no such connection: %.60s", text);
	else if (rc < 0)
		http_reply_err(reply, &err);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static void put_hex(struct jsonw *w, const char *key, const uint8_t *bytes, size_t len, size_t most)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	size_t shown = len < most ? len : most;
	char *to = buf_reserve(&text, shown * 2 + 1);
	for (size_t i = 0; to && i < shown; i++) {
		to[2 * i] = hex[bytes[i] >> 4];
		to[2 * i + 1] = hex[bytes[i] & 15];
	}
	text.len = to ? shown * 2 : 0;
	if (shown < len)
		buf_printf(&text, "...truncated %zu bytes", len - shown);
	jsonw_str(w, key, buf_cstr(&text));
}

static void chunk_object(struct jsonw *w, const struct store_chunk_row *chunk, size_t most)
{
	jsonw_object(w, NULL);
	jsonw_bool(w, "net", 1);
	jsonw_u64(w, "timestamp", chunk->time_ns / NS_PER_S);
	put_hex(w, "bytes", chunk->raw, chunk->raw_len, most);
	put_hex(w, "plain", chunk->plain, chunk->plain_len, most);
	jsonw_bool(w, "decrypted", chunk->plain != NULL);
	if (chunk->gone)
		jsonw_bool(w, "gone", 1);
	jsonw_object_end(w);
}

static int put_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	struct listing *l = ctx;
	char start[40], id[96];
	l->last = (struct store_chunk_place){ chunk->connection, chunk->counter, chunk->sender,
					      chunk->id };
	const char *sender = chunk->sender == MESSAGE_LOCAL ? "local" : "remote";
	put_start(start, chunk->started_ns);
	if (chunk->counter == MESSAGE_NO_COUNTER)
		snprintf(id, sizeof(id), "%s-%s-raw.%" PRIu64, start, sender, chunk->id);
	else
		snprintf(id, sizeof(id), "%s-%s-%" PRIu64, start, sender, chunk->counter);
	separate(l);
	jsonw_array(&l->json.w, NULL);
	jsonw_str(&l->json.w, NULL, id);
	chunk_object(&l->json.w, chunk, CHUNK_SHOWN);
	jsonw_array_end(&l->json.w);
	return 0;
}

/* A piece begins behind the last row of the former one, which may be gone meanwhile. */
static int fetch_chunks(struct listing *l, struct store_reader *reader, uint64_t want,
			struct err *err)
{
	l->chunks.limit = want;
	int rc = store_list_chunks(reader, &l->chunks, put_chunk, l, err);
	l->chunks.has_cursor = l->chunks.exclusive = 1;
	l->chunks.cursor = l->last;
	return rc;
}

static int first_chunks(struct listing *l, struct buf *out, struct err *err)
{
	return list_piece(l, CHUNKS_PIECE, out, err, fetch_chunks);
}

static int more_chunks(void *ctx, struct buf *out)
{
	struct err err = { 0 };
	return list_piece(ctx, CHUNKS_PIECE, out, &err, fetch_chunks);
}

void net_chunks(struct net_node *node, const struct http_request *request, struct http_reply *reply)
{
	struct err err = { 0 };
	struct listing *l = listing_new(node, request, reply);
	const char *cn = http_request_arg(request, "cn"),
		   *cursor = http_request_arg(request, "cursor");
	uint64_t started_ns;
	int rc = l ? 0 : -ENOMEM;
	if (rc < 0)
		return;
	l->chunks.backward = l->backward;
	if (cn) {
		l->chunks.has_connection = 1;
		if (net_query_connection(cn, strlen(cn), &started_ns) < 0)
			rc = err_set(&err, -EINVAL, "'cn' is a connection's id, not '%.60s'", cn);
		else
			rc = connection_number(node, started_ns, &l->chunks.connection, &err);
	}
	if (rc == 0 && cursor) {
		l->chunks.has_cursor = 1;
		if (net_query_chunk(cursor, &started_ns, &l->chunks.cursor) < 0)
			rc = err_set(&err, -EINVAL, "'cursor' is a chunk's id, not '%.80s'",
				     cursor);
		else
			rc = cursor_number(l, started_ns, &l->chunks.cursor.connection, &err);
	}
	/*
	 * another connection than the one that was named begins with its first chunk, or ends with
	 * its last
	 */
	if (rc > 0 && l->backward)
		l->chunks.cursor.counter = MESSAGE_NO_COUNTER;
	else if (rc > 0)
		l->chunks.cursor.counter = 0;
	if (rc > 0) {
		l->chunks.cursor.sender = MESSAGE_LOCAL;
		l->chunks.cursor.id = INT64_MAX;
	}
	if (rc < 0)
		no_list(l, &err, reply); /* an unknown connection has no chunks, as before */
	else
		begin_list(l, more_chunks, first_chunks, reply);
}

struct wanted {
	struct store_chunk_place place;
	struct jsonw *w;
	int found;
};

static int put_one_chunk(void *ctx, const struct store_chunk_row *chunk)
{
	struct wanted *want = ctx;
	if (chunk->counter != want->place.counter || chunk->sender != want->place.sender ||
	    (chunk->counter == MESSAGE_NO_COUNTER && chunk->id != want->place.id))
		return 0;
	want->found = 1;
	chunk_object(want->w, chunk, SIZE_MAX);
	return 0;
}

void net_chunk(struct net_node *node, const struct http_request *request, struct http_reply *reply)
{
	struct err err = { 0 };
	struct wanted want = { 0 };
	struct json_text json;
	const char *text = http_request_tail(request);
	uint64_t started_ns;
	if (net_query_chunk(text, &started_ns, &want.place) < 0) {
		http_reply_error(reply, 400,
				 "a chunk is named CONNECTION-local|remote-COUNTER, not '%.80s'",
				 text);
		return;
	}
	struct store_reader *reader = net_reader_take(node, &err);
	int rc = reader ? store_connection_at(reader, started_ns, &want.place.connection, &err)
			: err.code;
	if (rc == 0 && json_text_begin(&json) < 0)
		rc = err_set(&err, -ENOMEM, "cannot allocate a page");
	if (rc == 0) {
		struct store_chunk_query q = { .has_connection = 1,
					       .connection = want.place.connection,
					       .has_cursor = 1,
					       .cursor = want.place,
					       .limit = 1 };
		want.w = &json.w;
		rc = store_list_chunks(reader, &q, put_one_chunk, &want, &err);
		json_text_done(&json, &reply->body);
	}
	if (reader)
		net_reader_give(node, reader);
	if (rc < 0 && rc != -ENOENT)
		http_reply_err(reply, &err);
	else if (!want.found)
		buf_puts(&reply->body, "null");
}
