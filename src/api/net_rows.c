/* SPDX-License-Identifier: Apache-2.0 */
/* net_rows.c - lists of messages and of log lines, whole, in pieces, and as a stream of events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/net_internal.h"
#include "base/clock.h"
#include "model/log.h"

#define ARGS_MAX 16
#define STREAM_ROWS 200       /* that one look at the store hands to an event stream */
#define SEARCH_ROWS_MAX 65536 /* a search is ranked as a whole, so it cannot be fetched in pieces */

/* Parameters outlive their request where rows are fetched while the answer is under way. */
struct args {
	struct {
		const char *key;
		char *value;
	} kept[ARGS_MAX];
	size_t count;
};

static const char *const message_keys[] = { "cursor",   "cursor_id",   "limit",       "direction",
					    "from",     "to",          "timestamp",   "types",
					    "incoming", "remote_addr", "source_type", NULL };
static const char *const log_keys[] = { "cursor", "cursor_id", "limit",           "direction",
					"from",   "to",        "timestamp",       "log_level",
					"level",  "query",     "query_no_quotes", NULL };

struct rows {
	struct net_node *node;
	struct args args;
	struct net_query query;
	int logs, any;
	uint64_t left;
};

static const char *kept_arg(const void *ctx, const char *key)
{
	const struct args *args = ctx;
	for (size_t i = 0; i < args->count; i++) {
		if (strcmp(args->kept[i].key, key) == 0)
			return args->kept[i].value;
	}
	return NULL;
}

static void rows_free(void *ctx)
{
	struct rows *rows = ctx;
	for (size_t i = 0; i < rows->args.count; i++)
		free(rows->args.kept[i].value);
	free(rows);
}

/* The request's parameters, parsed; NULL with a reply. */
static struct rows *rows_new(struct net_node *node, const struct http_request *request, int logs,
			     int stream, struct http_reply *reply)
{
	struct err err = { 0 };
	struct rows *rows = calloc(1, sizeof(*rows));
	if (!rows) {
		http_reply_error(reply, 500, "out of memory");
		return NULL;
	}
	rows->node = node;
	rows->logs = logs;
	for (const char *const *key = logs ? log_keys : message_keys; *key; key++) {
		const char *value = http_request_arg(request, *key);
		/* new rows come after a moment, never before it */
		if (stream && strcmp(*key, "direction") == 0)
			value = http_request_arg(request, "timestamp") ? "forward" : NULL;
		char *copy = value ? strdup(value) : NULL;
		if (!copy)
			continue;
		rows->args.kept[rows->args.count].key = *key;
		rows->args.kept[rows->args.count++].value = copy;
	}
	if (net_query_parse(kept_arg, &rows->args, logs, &rows->query, &err) < 0) {
		http_reply_err(reply, &err);
		rows_free(rows);
		return NULL;
	}
	rows->left = rows->query.store.limit;
	return rows;
}

/* ---- one row --------------------------------------------------------------------------------- */

static void message_row(struct jsonw *w, const struct store_message_row *row)
{
	char tag[16];
	const char *kind = message_type_kind(row->type);
	jsonw_object(w, NULL);
	jsonw_u64(w, "id", row->id);
	jsonw_u64(w, "timestamp", row->time_ns);
	jsonw_str(w, "remote_addr", row->remote_addr ? row->remote_addr : "");
	jsonw_str(w, "source_type", row->initiator == MESSAGE_LOCAL ? "local" : "remote");
	jsonw_bool(w, "incoming", row->sender == MESSAGE_REMOTE);
	jsonw_str(w, "category", message_type_category(row->type));
	jsonw_str(w, "kind", kind);
	if (row->type == MESSAGE_UNKNOWN) {
		snprintf(tag, sizeof(tag), "0x%04x", row->tag);
		jsonw_str(w, "tag", tag);
	}
	jsonw_str(w, "message_preview", row->preview);
	jsonw_object_end(w);
}

static void log_row(struct jsonw *w, const struct store_log_row *row)
{
	const char *level = log_level_name(row->level);
	jsonw_object(w, NULL);
	jsonw_u64(w, "id", row->id);
	jsonw_str(w, "level", level ? level : "Fatal");
	jsonw_u64(w, "timestamp", row->time_ns);
	jsonw_strn(w, "section", row->section ? row->section : "", row->section_len);
	jsonw_strn(w, "message", row->message ? row->message : "", row->message_len);
	jsonw_object_end(w);
}

static uint64_t row_id(const struct rows *rows, const struct store_page *page, size_t i)
{
	return rows->logs ? store_page_log(page, i)->id : store_page_message(page, i)->id;
}

static void put_row(const struct rows *rows, const struct store_page *page, size_t i,
		    struct jsonw *w)
{
	if (rows->logs)
		log_row(w, store_page_log(page, i));
	else
		message_row(w, store_page_message(page, i));
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* A reader is held for one page only: a slow client must not keep one from the others. */
static int fetch(struct rows *rows, struct store_page **page, struct err *err)
{
	const struct store_query *q = &rows->query.store;
	struct store_reader *reader = net_reader_take(rows->node, err);
	if (!reader)
		return err->code;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	int rc;
	if (rows->query.text)
		rc = store_search_logs(reader, rows->query.text, !rows->query.no_quotes, q->limit,
				       page, err);
	else if (rows->logs)
		rc = store_logs(reader, q, page, err);
	else
		rc = store_messages(reader, q, page, err);
	net_latency_add(rows->node, start);
	net_reader_give(rows->node, reader);
	return rc;
}

/* All rows of a page with commas between them. */
static int put_rows(const struct rows *rows, const struct store_page *page, struct buf *out)
{
	struct json_text json;
	if (json_text_begin(&json) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < store_page_count(page); i++) {
		if (i)
			fputc(',', json.file);
		jsonw_init(&json.w, json.file);
		put_row(rows, page, i, &json.w);
	}
	json_text_done(&json, out);
	return 0;
}

/*
 * The page that follows; @out gets its rows. Return: 1 = more may follow, 0 = these were the last.
 */
static int piece(struct rows *rows, struct buf *out, struct err *err)
{
	struct store_query *q = &rows->query.store;
	struct store_page *page = NULL;
	uint64_t most = rows->query.text ? SEARCH_ROWS_MAX : NET_PAGE_ROWS;
	q->limit = rows->left < most ? rows->left : most;
	int rc = fetch(rows, &page, err);
	if (rc < 0)
		return rc;
	size_t count = store_page_count(page);
	if (count)
		buf_putc(out, rows->any ? ',' : '[');
	rows->any |= count > 0;
	if (count && put_rows(rows, page, out) < 0) {
		store_page_free(page);
		return err_set(err, -ENOMEM, "cannot allocate a page");
	}
	rows->left -= count;
	int more = count == q->limit && rows->left && !rows->query.text;
	if (more) {
		uint64_t last = row_id(rows, page, count - 1);
		more = q->forward || last > 0;
		q->has_cursor = 1;
		q->cursor = q->forward ? last + 1 : last - 1;
	}
	if (!more)
		buf_puts(out, rows->any ? "]" : "[]");
	store_page_free(page);
	return more;
}

static int next_piece(void *ctx, struct buf *out)
{
	struct err err = { 0 };
	return piece(ctx, out, &err);
}

static void list(struct net_node *node, const struct http_request *request, int logs,
		 struct http_reply *reply)
{
	struct err err = { 0 };
	struct rows *rows = rows_new(node, request, logs, 0, reply);
	if (!rows)
		return;
	if (rows->query.text && node->no_search) {
		http_reply_error(reply, 500, "database error: there is no log indexer");
		rows_free(rows);
		return;
	}
	/*
	 * the first piece shows whether it can be read at all: afterwards the status has been sent
	 */
	int rc = piece(rows, &reply->body, &err);
	if (rc < 0) {
		http_reply_err(reply, &err);
	} else if (rc > 0) {
		reply->body_more = next_piece;
		reply->stream = rows;
		reply->stream_free = rows_free;
		return;
	}
	rows_free(rows);
}

void net_messages(struct net_node *node, const struct http_request *request,
		  struct http_reply *reply)
{
	list(node, request, 0, reply);
}

void net_logs(struct net_node *node, const struct http_request *request, struct http_reply *reply)
{
	list(node, request, 1, reply);
}

/* ---- event streams --------------------------------------------------------------------------- */

static int events_more(void *ctx, struct buf *out)
{
	struct rows *rows = ctx;
	struct store_query *q = &rows->query.store;
	struct store_page *page = NULL;
	struct err err = { 0 };
	struct json_text json;
	q->limit = STREAM_ROWS;
	if (fetch(rows, &page, &err) < 0)
		return -1;
	size_t count = store_page_count(page);
	for (size_t i = 0; i < count; i++) {
		if (json_text_begin(&json) < 0)
			break;
		buf_printf(out, "id: %llu\ndata: ", (unsigned long long)row_id(rows, page, i));
		put_row(rows, page, i, &json.w);
		json_text_done(&json, out);
		buf_puts(out, "\n\n");
		q->cursor = row_id(rows, page, i) + 1;
	}
	store_page_free(page);
	return 0;
}

/* Number of the row that will be stored next. */
static int next_row(struct rows *rows, uint64_t *next, struct err *err)
{
	struct store_query newest = { .limit = 1 };
	struct store_page *page = NULL;
	struct store_reader *reader = net_reader_take(rows->node, err);
	if (!reader)
		return err->code;
	int rc = rows->logs ? store_logs(reader, &newest, &page, err)
			    : store_messages(reader, &newest, &page, err);
	net_reader_give(rows->node, reader);
	if (rc == 0)
		*next = store_page_count(page) ? row_id(rows, page, 0) + 1 : 0;
	if (rc == 0)
		store_page_free(page);
	return rc;
}

/*
 * New rows from now on; with a cursor, or after a broken connection (Last-Event-ID), from there on.
 */
static void events(struct net_node *node, const struct http_request *request, int logs,
		   struct http_reply *reply)
{
	struct err err = { 0 };
	struct rows *rows = rows_new(node, request, logs, 1, reply);
	if (!rows)
		return;
	struct store_query *q = &rows->query.store;
	const char *last = http_request_header(request, "Last-Event-ID");
	uint64_t id;
	/* hits are ranked as a whole, and new lines come one by one */
	if (rows->query.text) {
		http_reply_error(reply, 400,
				 "an event stream takes no 'query': filter by 'log_level'");
		rows_free(rows);
		return;
	}
	q->forward = 1;
	if (last && net_query_number(last, &id) == 0 && id < INT64_MAX) {
		q->cursor = id + 1;
	} else if (!q->has_cursor && next_row(rows, &q->cursor, &err) < 0) {
		http_reply_err(reply, &err);
		rows_free(rows);
		return;
	}
	q->has_cursor = 1;
	reply->stream_more = events_more;
	reply->stream = rows;
	reply->stream_free = rows_free;
}

void net_messages_stream(struct net_node *node, const struct http_request *request,
			 struct http_reply *reply)
{
	events(node, request, 0, reply);
}

void net_logs_stream(struct net_node *node, const struct http_request *request,
		     struct http_reply *reply)
{
	events(node, request, 1, reply);
}
