/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - `byteledger net replay`: decode a capture without a kernel (contract 6). */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "cmd/cmd.h"
#include "net/conn.h"
#include "out/messages.h"
#include "source/capture.h"
#include "store/store.h"

#define IDENTITIES_MAX 64
#define SEEK_BUDGET (64ull << 30) /* nothing waits for a replay: up to a minute for a gap */
#define POW_DIFFICULTY 26.0       /* what nodes demand by default */

enum format { FORMAT_JSONL, FORMAT_JSON, FORMAT_TABLE };

struct open_conn {
	uint64_t conn; /* the capture's number */
	struct net_conn *net;
};

struct replay {
	struct capture_sink capture;
	struct message_sink messages;
	/* options */
	const char *identity_paths[IDENTITIES_MAX];
	size_t identity_count;
	const char *local; /* ADDR or ADDR:PORT */
	enum net_role role;
	enum format format;
	const char *input;
	const char *store_path;
	/* state */
	struct store *store;
	struct net_identity *identities[IDENTITIES_MAX];
	struct net_keyring keyring;
	struct open_conn *open;
	size_t open_count, open_cap;
	uint64_t conn_ids, message_ids;
	struct jsonw json;
	/* rows of closed connections, written as text at once: the list is printed behind the messages */
	FILE *rows;
	char *rows_text;
	size_t rows_len;
	struct jsonw rows_json;
};

/* ---- what was decoded ---------------------------------------------------------------------------------------- */

static struct replay *of_messages(struct message_sink *sink)
{
	return (struct replay *)((char *)sink - offsetof(struct replay, messages));
}

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct replay *replay = of_messages(sink);
	struct message_sink *store = replay->store ? store_message_sink(replay->store) : NULL;
	int rc = store ? store->connection(store, row, err) : 0;
	if (rc < 0 || !row->close_reason)
		return rc;
	if (replay->format == FORMAT_TABLE)
		out_connection_table(replay->rows, row);
	else
		out_connection_json(&replay->rows_json, row);
	return 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	struct replay *replay = of_messages(sink);
	struct message_sink *store = replay->store ? store_message_sink(replay->store) : NULL;
	return store ? store->chunk(store, chunk, err) : 0;
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct replay *replay = of_messages(sink);
	char sha256[65];
	uint64_t id = replay->message_ids++;
	struct message_sink *store = replay->store ? store_message_sink(replay->store) : NULL;
	int rc = store ? store->message(store, message, err) : 0;
	if (rc < 0)
		return rc;
	if (replay->format == FORMAT_TABLE) {
		out_message_table_row(stdout, message, id);
	} else {
		net_sha256_hex(message->plain, message->plain_len, sha256);
		out_message_json(&replay->json, message, id, sha256);
		jsonw_line(&replay->json);
	}
	return ferror(stdout) ? err_set(err, -EIO, "cannot write the messages") : 0;
}

/* ---- what the capture says ------------------------------------------------------------------------------------ */

/* 1 if "ip:port" @addr is the one the user named, with or without a port. */
static int is_local(const struct replay *replay, const char *addr)
{
	size_t len = strlen(replay->local);
	if (!addr || strncmp(addr, replay->local, len) != 0)
		return addr && addr[0] == '[' && strncmp(addr + 1, replay->local, len) == 0 &&
		       addr[len + 1] == ']';
	return addr[len] == '\0' || addr[len] == ':';
}

static struct open_conn *find_conn(struct replay *replay, uint64_t conn)
{
	for (size_t i = replay->open_count; i-- > 0;) {
		if (replay->open[i].conn == conn)
			return &replay->open[i];
	}
	return NULL;
}

static int on_open(struct capture_sink *sink, const struct capture_conn *info, struct err *err)
{
	struct replay *replay = (struct replay *)sink;
	enum net_role role = replay->role;
	if (replay->local) {
		if (is_local(replay, info->initiator_addr))
			role = NET_ROLE_INITIATOR;
		else if (is_local(replay, info->responder_addr))
			role = NET_ROLE_RESPONDER;
	}
	struct net_conn_opt opt = { .id = replay->conn_ids++,
				    .started_ns = info->time_ns,
				    .role = role,
				    .remote_addr = role == NET_ROLE_RESPONDER
							   ? info->initiator_addr
							   : info->responder_addr,
				    .local_addr = role == NET_ROLE_RESPONDER ? info->responder_addr
									     : info->initiator_addr,
				    .keyring = &replay->keyring,
				    .sink = &replay->messages,
				    .difficulty = POW_DIFFICULTY,
				    .seek_budget = SEEK_BUDGET,
				    .attached_late = info->attached_late };
	if (replay->open_count == replay->open_cap) {
		size_t cap = replay->open_cap ? replay->open_cap * 2 : 64;
		struct open_conn *open = realloc(replay->open, cap * sizeof(*open));
		if (!open)
			return err_set(err, -ENOMEM, "cannot allocate the connection table");
		replay->open = open;
		replay->open_cap = cap;
	}
	struct net_conn *net = net_conn_new(&opt, err);
	if (!net)
		return err->code;
	replay->open[replay->open_count++] = (struct open_conn){ info->conn, net };
	return 0;
}

static int on_data(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		   const void *bytes, size_t len, struct err *err)
{
	struct open_conn *open = find_conn((struct replay *)sink, conn);
	return open ? net_conn_feed(open->net, from_initiator, time_ns, bytes, len, err) : 0;
}

static int on_gap(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		  uint64_t lost, struct err *err)
{
	struct open_conn *open = find_conn((struct replay *)sink, conn);
	return open ? net_conn_gap(open->net, from_initiator, time_ns, lost, err) : 0;
}

static int on_close(struct capture_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct replay *replay = (struct replay *)sink;
	struct open_conn *open = find_conn(replay, conn);
	if (!open)
		return 0;
	struct net_conn *net = open->net;
	*open = replay->open[--replay->open_count];
	return net_conn_close(net, time_ns, reason, err);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static int run(struct replay *replay, struct err *err)
{
	int rc = net_seal_init(err);
	for (size_t i = 0; rc >= 0 && i < replay->identity_count; i++) {
		replay->identities[i] = net_identity_load(replay->identity_paths[i], err);
		if (!replay->identities[i])
			return err->code;
		replay->keyring.count++;
	}
	if (rc < 0)
		return rc;
	replay->keyring.identities = replay->identities;
	if (replay->store_path &&
	    (rc = store_open(replay->store_path, NULL, &replay->store, err)) < 0)
		return rc;
	replay->rows = open_memstream(&replay->rows_text, &replay->rows_len);
	if (!replay->rows)
		return err_set(err, -errno, "cannot allocate the summary");
	jsonw_init(&replay->json, stdout);
	jsonw_init(&replay->rows_json, replay->rows);
	if (replay->format == FORMAT_JSON) {
		jsonw_object(&replay->json, NULL);
		jsonw_array(&replay->json, "messages");
	} else if (replay->format == FORMAT_TABLE) {
		out_message_table_head(stdout);
	}
	if (replay->format != FORMAT_TABLE) {
		jsonw_object(&replay->rows_json, NULL);
		jsonw_array(&replay->rows_json, "connections");
	}
	struct capture_stats stats = { 0 };
	rc = capture_read(replay->input, &replay->capture, &stats, err);
	if (rc < 0)
		return rc;
	if (replay->store) {
		struct store *store = STEAL(replay->store);
		rc = store_close(store, err);
		if (rc < 0)
			return rc;
	}
	if (replay->format != FORMAT_TABLE) {
		jsonw_array_end(&replay->rows_json);
		jsonw_u64(&replay->rows_json, "records", stats.records);
		jsonw_u64(&replay->rows_json, "payload_bytes", stats.payload_bytes);
		jsonw_u64(&replay->rows_json, "not_tcp", stats.not_tcp);
		jsonw_u64(&replay->rows_json, "damaged", stats.damaged);
		jsonw_u64(&replay->rows_json, "fragments", stats.fragments);
		jsonw_object_end(&replay->rows_json);
	}
	if (fflush(replay->rows) != 0)
		return err_set(err, -ENOMEM, "cannot allocate the summary");
	if (replay->format == FORMAT_TABLE) {
		fwrite(replay->rows_text, 1, replay->rows_len, stdout);
	} else {
		if (replay->format == FORMAT_JSON)
			jsonw_array_end(&replay->json);
		else
			jsonw_object(&replay->json, NULL);
		jsonw_raw(&replay->json, "summary", replay->rows_text, replay->rows_len);
		jsonw_object_end(&replay->json);
		jsonw_line(&replay->json);
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return err_set(err, -EIO, "cannot write the messages");
	if (stats.damaged)
		fprintf(stderr,
			"byteledger: %llu damaged or cut-off records of '%s' were passed over\n",
			(unsigned long long)stats.damaged, replay->input);
	return 0;
}

static void release(struct replay *replay)
{
	for (size_t i = 0; i < replay->open_count; i++)
		net_conn_free(replay->open[i].net);
	for (size_t i = 0; i < replay->identity_count; i++)
		net_identity_free(replay->identities[i]);
	free(replay->open);
	if (replay->store) {
		struct err ignored = { 0 };
		store_close(replay->store, &ignored);
	}
	if (replay->rows)
		fclose(replay->rows);
	free(replay->rows_text);
}

enum { OPT_IDENTITY = 256, OPT_LOCAL, OPT_ROLE, OPT_FORMAT, OPT_STORE };

static const struct argp_option options[] = {
	{ "identity", OPT_IDENTITY, "FILE", 0,
	  "identity.json of the recorded node; may be given again", 0 },
	{ "local", OPT_LOCAL, "ADDR[:PORT]", 0, "which side of a pcap is ours", 0 },
	{ "role", OPT_ROLE, "initiator|responder", 0,
	  "which side is ours, by who opened the connection", 0 },
	{ "format", OPT_FORMAT, "jsonl|json|table", 0, "how to print (default jsonl)", 0 },
	{ "store", OPT_STORE, "DB", 0,
	  "keep everything in this store too (a folder, made if missing)", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct replay *replay = state->input;
	switch (key) {
	case OPT_IDENTITY:
		if (replay->identity_count == IDENTITIES_MAX)
			argp_error(state, "at most %d identities", IDENTITIES_MAX);
		replay->identity_paths[replay->identity_count++] = arg;
		return 0;
	case OPT_LOCAL:
		replay->local = arg;
		return 0;
	case OPT_ROLE:
		if (strcmp(arg, "initiator") == 0)
			replay->role = NET_ROLE_INITIATOR;
		else if (strcmp(arg, "responder") == 0)
			replay->role = NET_ROLE_RESPONDER;
		else
			argp_error(state, "unknown role '%s': initiator or responder", arg);
		return 0;
	case OPT_STORE:
		replay->store_path = arg;
		return 0;
	case OPT_FORMAT:
		if (strcmp(arg, "jsonl") == 0)
			replay->format = FORMAT_JSONL;
		else if (strcmp(arg, "json") == 0)
			replay->format = FORMAT_JSON;
		else if (strcmp(arg, "table") == 0)
			replay->format = FORMAT_TABLE;
		else
			argp_error(state, "unknown format '%s': jsonl, json or table", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0 && strcmp(arg, "replay") == 0)
			return 0;
		if (state->arg_num == 0)
			argp_error(state, "unknown job '%s': replay", arg);
		if (replay->input)
			argp_error(state, "one INPUT at a time, and '%s' is the second", arg);
		replay->input = arg;
		return 0;
	case ARGP_KEY_END:
		if (!replay->input)
			argp_error(state, "no INPUT: a pcap, pcapng or .jsonl file");
		if (replay->local && replay->role)
			argp_error(state, "--local and --role exclude each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_net(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"replay INPUT",
		"Decode recorded traffic of a Tezos node: every message of both directions, with "
		"only the node's identity.\v"
		"INPUT is a pcap or pcapng file, or JSON lines "
		"{\"from\":\"initiator\"|\"responder\",\"hex\":\"...\"} with "
		"optional \"conn\", \"time_ns\" and \"gap\" (bytes known lost). Without --identity "
		"everything stays sealed; "
		"without --local or --role ours is the side whose key an identity has, else the "
		"initiator.",
		NULL,
		NULL,
		NULL
	};
	struct replay replay = { .capture = { on_open, on_data, on_gap, on_close },
				 .messages = { on_connection, on_chunk, on_message } };
	struct err err = { 0 };
	int rest;
	if (cmd_parse(&argp, argc, argv, &rest, &replay) < 0)
		return CMD_USAGE;
	int rc = run(&replay, &err);
	release(&replay);
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
