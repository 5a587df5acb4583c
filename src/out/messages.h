/* SPDX-License-Identifier: Apache-2.0 */
/* messages.h - network messages and connections as JSON lines and as a table for people. */
#ifndef OUT_MESSAGES_H
#define OUT_MESSAGES_H

#include <stdint.h>
#include <stdio.h>

#include "base/jsonw.h"
#include "model/message.h"

#define OUT_PREVIEW_BYTES 100

/**
 * out_preview_len() - bytes of the preview of compact JSON: at most OUT_PREVIEW_BYTES, cut at a
 * character border.
 */
size_t out_preview_len(const char *json, size_t len);

/**
 * out_message_json() - one message, with the keys of docs/rules.md; @sha256: hex digest of the
 * plaintext.
 */
void out_message_json(struct jsonw *w, const struct message *message, uint64_t id,
		      const char *sha256);
/** out_connection_json() - one member of summary.connections. */
void out_connection_json(struct jsonw *w, const struct message_connection *row);

/**
 * out_message_table_head(), out_message_table_row() - a line a message; names and addresses escaped
 * for a terminal.
 */
void out_message_table_head(FILE *to);
void out_message_table_row(FILE *to, const struct message *message, uint64_t id);
void out_connection_table(FILE *to, const struct message_connection *row);

#endif
