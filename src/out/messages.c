/* SPDX-License-Identifier: Apache-2.0 */
#include "out/messages.h"
#include "base/clock.h"

#include <string.h>
#include <time.h>

static const char *side(enum message_sender sender)
{
	return sender == MESSAGE_REMOTE ? "remote" : "local";
}

static const char *address(const char *addr)
{
	return addr && addr[0] ? addr : NULL;
}

size_t out_preview_len(const char *json, size_t len)
{
	if (len <= OUT_PREVIEW_BYTES)
		return len;
	size_t cut = OUT_PREVIEW_BYTES;
	while (cut && ((unsigned char)json[cut] & 0xc0) == 0x80)
		cut--;
	return cut;
}

void out_message_json(struct jsonw *w, const struct message *message, uint64_t id,
		      const char *sha256)
{
	jsonw_object(w, NULL);
	jsonw_u64(w, "id", id);
	jsonw_u64(w, "connection", message->connection);
	jsonw_u64(w, "timestamp", message->time_ns);
	jsonw_bool(w, "incoming", message->sender == MESSAGE_REMOTE);
	jsonw_str(w, "source_type", side(message->initiator));
	jsonw_str(w, "remote_addr", address(message->remote_addr));
	jsonw_str(w, "category", message_type_category(message->type));
	jsonw_str(w, "kind", message_type_kind(message->type));
	jsonw_array(w, "sender_chunks");
	jsonw_u64(w, NULL, message->first_chunk);
	jsonw_u64(w, NULL, message->last_chunk);
	jsonw_array_end(w);
	jsonw_u64(w, "plain_len", message->plain_len);
	jsonw_str(w, "plain_sha256", sha256);
	if (message->json) {
		jsonw_raw(w, "message", message->json, message->json_len);
		jsonw_strn(w, "preview", message->json,
			   out_preview_len(message->json, message->json_len));
	} else {
		jsonw_null(w, "message");
		jsonw_null(w, "preview");
	}
	jsonw_str(w, "error", message->error);
	jsonw_object_end(w);
}

void out_connection_json(struct jsonw *w, const struct message_connection *row)
{
	jsonw_object(w, NULL);
	jsonw_u64(w, "id", row->id);
	jsonw_str(w, "remote_addr", address(row->remote_addr));
	jsonw_str(w, "local_peer_id", row->local_peer_id);
	jsonw_str(w, "remote_peer_id", row->remote_peer_id);
	jsonw_str(w, "initiator", side(row->initiator));
	jsonw_u64(w, "chunks_local", row->chunks[MESSAGE_LOCAL]);
	jsonw_u64(w, "chunks_remote", row->chunks[MESSAGE_REMOTE]);
	jsonw_array(w, "comments");
	for (size_t i = 0; i < row->comment_count; i++)
		jsonw_str(w, NULL, row->comments[i]);
	jsonw_array_end(w);
	jsonw_u64(w, "undecrypted_local", row->undecrypted[MESSAGE_LOCAL]);
	jsonw_u64(w, "undecrypted_remote", row->undecrypted[MESSAGE_REMOTE]);
	jsonw_u64(w, "gaps", row->gaps[MESSAGE_LOCAL] + row->gaps[MESSAGE_REMOTE]);
	jsonw_u64(w, "gap_bytes", row->gap_bytes[MESSAGE_LOCAL] + row->gap_bytes[MESSAGE_REMOTE]);
	jsonw_bool(w, "attached_late", row->attached_late);
	jsonw_str(w, "close_reason", row->close_reason);
	jsonw_object_end(w);
}

void out_message_table_head(FILE *to)
{
	fprintf(to, "%8s  %-23s %-3s %-24s %-44s %10s  %s\n", "id", "time (UTC)", "dir", "remote",
		"type", "bytes", "preview");
}

/*
 * Control characters of decoded text, C1 ones too, are escaped in its JSON already; all other
 * letters are kept as they are.
 */
void out_message_table_row(FILE *to, const struct message *message, uint64_t id)
{
	char when[32] = "-";
	time_t seconds = (time_t)(message->time_ns / NS_PER_S);
	struct tm tm;
	if (seconds && gmtime_r(&seconds, &tm)) {
		size_t len = strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
		snprintf(when + len, sizeof(when) - len, ".%03u",
			 (unsigned)(message->time_ns / 1000000u % 1000u));
	}
	const char *kind = message_type_kind(message->type);
	size_t shown = message->json ? out_preview_len(message->json, message->json_len) : 0;
	fprintf(to, "%8llu  %-23s %-3s %-24s %s%s%-*s %10zu  ", (unsigned long long)id, when,
		message->sender == MESSAGE_REMOTE ? "in" : "out",
		address(message->remote_addr) ? message->remote_addr : "-",
		message_type_category(message->type), kind ? " | " : "",
		(int)(44 - strlen(message_type_category(message->type)) - (kind ? 3 : 0)),
		kind ? kind : "", message->plain_len);
	if (message->json)
		fwrite(message->json, 1, shown, to);
	else
		fprintf(to, "(%s)", message->error ? message->error : "not decoded");
	fputc('\n', to);
}

void out_connection_table(FILE *to, const struct message_connection *row)
{
	fprintf(to,
		"connection %llu with %s, opened by %s, peer %s: %llu chunks out (%llu sealed), "
		"%llu in (%llu sealed), %llu gaps\n",
		(unsigned long long)row->id,
		address(row->remote_addr) ? row->remote_addr : "an unnamed address",
		side(row->initiator), row->remote_peer_id ? row->remote_peer_id : "unknown",
		(unsigned long long)row->chunks[MESSAGE_LOCAL],
		(unsigned long long)row->undecrypted[MESSAGE_LOCAL],
		(unsigned long long)row->chunks[MESSAGE_REMOTE],
		(unsigned long long)row->undecrypted[MESSAGE_REMOTE],
		(unsigned long long)(row->gaps[0] + row->gaps[1]));
	for (size_t i = 0; i < row->comment_count; i++)
		fprintf(to, "  %s\n", row->comments[i]);
}
