/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - what a capture of network traffic holds, decoded: every message as it comes, and a
 * summary of the connections behind them. In order of use: out_capture_new(), its sink for who
 * decodes, out_capture_finish(), out_capture_free(). One thread.
 */
#ifndef OUT_CAPTURE_H
#define OUT_CAPTURE_H

#include <stdio.h>

#include "base/err.h"
#include "model/message.h"

enum out_capture_format { OUT_CAPTURE_JSONL, OUT_CAPTURE_JSON, OUT_CAPTURE_TABLE };

/** struct out_capture_sums - of the file itself. */
struct out_capture_sums {
	uint64_t records, payload_bytes, not_tcp, damaged, fragments;
};

/** Digest of @len bytes as 64 hex digits and a NUL. */
typedef void (*out_capture_hash)(const void *bytes, size_t len, char hex[65]);

struct out_capture;
struct out_capture *out_capture_new(FILE *to, enum out_capture_format format, out_capture_hash hash,
				    struct err *err);
/** out_capture_sink() - writes each message at once. Lent. */
struct message_sink *out_capture_sink(struct out_capture *capture);
/** out_capture_finish() - the summary. 0, or negative errno where not all could be written. */
int out_capture_finish(struct out_capture *capture, const struct out_capture_sums *sums,
		       struct err *err);
void out_capture_free(struct out_capture *capture);
void out_capture_freep(struct out_capture **capture);

#endif
