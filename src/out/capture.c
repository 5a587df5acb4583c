/* SPDX-License-Identifier: Apache-2.0 */
#include "out/capture.h"

#include <errno.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "out/messages.h"

struct out_capture {
	/* first: what is handed over */
	struct message_sink sink;
	enum out_capture_format format;
	out_capture_hash hash;
	FILE *to;
	uint64_t message_ids;
	struct jsonw json;
	/*
	 * rows of closed connections, written as text at once: the list is printed behind the
	 * messages
	 */
	FILE *rows;
	char *rows_text;
	size_t rows_len;
	struct jsonw rows_json;
};

static int on_connection(struct message_sink *sink, const struct message_connection *row,
			 struct err *err)
{
	struct out_capture *p = (struct out_capture *)sink;
	(void)err;
	if (!row->close_reason)
		return 0;
	if (p->format == OUT_CAPTURE_TABLE)
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
	struct out_capture *p = (struct out_capture *)sink;
	char sha256[65];
	uint64_t id = p->message_ids++;
	if (p->format == OUT_CAPTURE_TABLE) {
		out_message_table_row(p->to, message, id);
	} else {
		p->hash(message->plain, message->plain_len, sha256);
		out_message_json(&p->json, message, id, sha256);
		jsonw_line(&p->json);
	}
	return ferror(p->to) ? err_set(err, -EIO, "cannot write the messages") : 0;
}

struct out_capture *out_capture_new(FILE *to, enum out_capture_format format, out_capture_hash hash,
				    struct err *err)
{
	struct out_capture *p = calloc(1, sizeof(*p));
	if (!p || !(p->rows = open_memstream(&p->rows_text, &p->rows_len))) {
		err_set(err, -ENOMEM, "cannot allocate the summary");
		free(p);
		return NULL;
	}
	p->sink = (struct message_sink){ on_connection, on_chunk, on_message };
	p->format = format;
	p->hash = hash;
	p->to = to;
	jsonw_init(&p->json, p->to);
	jsonw_init(&p->rows_json, p->rows);
	if (p->format == OUT_CAPTURE_JSON) {
		jsonw_object(&p->json, NULL);
		jsonw_array(&p->json, "messages");
	} else if (p->format == OUT_CAPTURE_TABLE) {
		out_message_table_head(p->to);
	}
	if (p->format != OUT_CAPTURE_TABLE) {
		jsonw_object(&p->rows_json, NULL);
		jsonw_array(&p->rows_json, "connections");
	}
	return p;
}

struct message_sink *out_capture_sink(struct out_capture *p)
{
	return &p->sink;
}

int out_capture_finish(struct out_capture *p, const struct out_capture_sums *stats, struct err *err)
{
	if (p->format != OUT_CAPTURE_TABLE) {
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
	if (p->format == OUT_CAPTURE_TABLE) {
		fwrite(p->rows_text, 1, p->rows_len, p->to);
	} else {
		if (p->format == OUT_CAPTURE_JSON)
			jsonw_array_end(&p->json);
		else
			jsonw_object(&p->json, NULL);
		jsonw_raw(&p->json, "summary", p->rows_text, p->rows_len);
		jsonw_object_end(&p->json);
		jsonw_line(&p->json);
	}
	if (fflush(p->to) != 0 || ferror(p->to))
		return err_set(err, -EIO, "cannot write the messages");
	return 0;
}

void out_capture_free(struct out_capture *p)
{
	if (!p)
		return;
	fclose(p->rows);
	free(p->rows_text);
	free(p);
}

void out_capture_freep(struct out_capture **p)
{
	out_capture_free(*p);
}
