/* SPDX-License-Identifier: Apache-2.0 */
/* net_replay.c - `byteledger net replay`: what a capture holds (node/replay.h), printed. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/jsonw.h"
#include "cmd/net_job.h"
#include "net/seal.h"
#include "node/replay.h"
#include "out/messages.h"

struct printing {
	struct message_sink sink; /* first: what is handed over */
	enum net_format format;
	uint64_t message_ids;
	struct jsonw json;
	/* rows of closed connections, written as text at once: the list is printed behind the messages */
	FILE *rows;
	char *rows_text;
	size_t rows_len;
	struct jsonw rows_json;
};

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct printing *p = (struct printing *)sink;
	(void)err;
	if (!row->close_reason)
		return 0;
	if (p->format == NET_FORMAT_TABLE)
		out_connection_table(p->rows, row);
	else
		out_connection_json(&p->rows_json, row);
	return 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	(void)sink;
	(void)chunk;
	(void)err;
	return 0;
}

static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct printing *p = (struct printing *)sink;
	char sha256[65];
	uint64_t id = p->message_ids++;
	if (p->format == NET_FORMAT_TABLE) {
		out_message_table_row(stdout, message, id);
	} else {
		net_sha256_hex(message->plain, message->plain_len, sha256);
		out_message_json(&p->json, message, id, sha256);
		jsonw_line(&p->json);
	}
	return ferror(stdout) ? err_set(err, -EIO, "cannot write the messages") : 0;
}

static int begin(struct printing *p, struct err *err)
{
	p->rows = open_memstream(&p->rows_text, &p->rows_len);
	if (!p->rows)
		return err_set(err, -errno, "cannot allocate the summary");
	jsonw_init(&p->json, stdout);
	jsonw_init(&p->rows_json, p->rows);
	if (p->format == NET_FORMAT_JSON) {
		jsonw_object(&p->json, NULL);
		jsonw_array(&p->json, "messages");
	} else if (p->format == NET_FORMAT_TABLE) {
		out_message_table_head(stdout);
	}
	if (p->format != NET_FORMAT_TABLE) {
		jsonw_object(&p->rows_json, NULL);
		jsonw_array(&p->rows_json, "connections");
	}
	return 0;
}

static int finish(struct printing *p, const struct capture_stats *stats, struct err *err)
{
	if (p->format != NET_FORMAT_TABLE) {
		jsonw_array_end(&p->rows_json);
		jsonw_u64(&p->rows_json, "records", stats->records);
		jsonw_u64(&p->rows_json, "payload_bytes", stats->payload_bytes);
		jsonw_u64(&p->rows_json, "not_tcp", stats->not_tcp);
		jsonw_u64(&p->rows_json, "damaged", stats->damaged);
		jsonw_u64(&p->rows_json, "fragments", stats->fragments);
		jsonw_object_end(&p->rows_json);
	}
	if (fflush(p->rows) != 0)
		return err_set(err, -ENOMEM, "cannot allocate the summary");
	if (p->format == NET_FORMAT_TABLE) {
		fwrite(p->rows_text, 1, p->rows_len, stdout);
	} else {
		if (p->format == NET_FORMAT_JSON)
			jsonw_array_end(&p->json);
		else
			jsonw_object(&p->json, NULL);
		jsonw_raw(&p->json, "summary", p->rows_text, p->rows_len);
		jsonw_object_end(&p->json);
		jsonw_line(&p->json);
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return err_set(err, -EIO, "cannot write the messages");
	return 0;
}

int net_replay(const struct net_job *job, struct err *err)
{
	struct printing p = { .sink = { on_connection, on_chunk, on_message },
			      .format = job->format };
	const struct node_replay_opt opt = { .input = job->input,
					     .identity_paths = job->identity_paths,
					     .identity_count = job->identity_count,
					     .local = job->local,
					     .local_addr = job->local_addr,
					     .role = job->role,
					     .store_path = job->store_path,
					     .sink = &p.sink };
	struct capture_stats stats = { 0 };
	CLEANUP(node_replay_freep) struct node_replay *replay = node_replay_new(&opt, err);
	int rc = replay ? begin(&p, err) : err->code;
	if (rc == 0)
		rc = node_replay_run(replay, &stats, err);
	if (rc == 0)
		rc = finish(&p, &stats, err);
	if (rc == 0 && job->local && !node_replay_local_seen(replay))
		fprintf(stderr,
			"byteledger: no connection of '%s' has the address '%s' of --local: "
			"it was passed over\n",
			job->input, job->local);
	if (rc == 0 && stats.damaged)
		fprintf(stderr,
			"byteledger: %llu damaged or cut-off records of '%s' were passed over\n",
			(unsigned long long)stats.damaged, job->input);
	if (p.rows)
		fclose(p.rows);
	free(p.rows_text);
	return rc;
}
