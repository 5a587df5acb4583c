/* SPDX-License-Identifier: Apache-2.0 */
#include "source/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/intern.h"

#define LINE_MAX_BYTES (64u << 20) /* a payload of 32 MiB; no system call moves more */
#define LINE_STEP 65536
#define CONNS_MAX 65536

struct conns {
	uint64_t *open;
	size_t count, cap;
	struct idtab index;
};

static void free_conns(struct conns *conns)
{
	free(conns->open);
	idtab_fini(&conns->index);
}

static void closep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static void decrefp(json_t **p)
{
	json_decref(*p);
}

static int unhex(const char *hex, size_t len, struct buf *out)
{
	if (len % 2)
		return -EINVAL;
	buf_clear(out);
	uint8_t *to = (uint8_t *)buf_reserve(out, len / 2 + 1);
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		char c = hex[i];
		int v = c >= '0' && c <= '9'   ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
					       : -1;
		if (v < 0)
			return -EINVAL;
		to[i / 2] = (uint8_t)(i % 2 ? to[i / 2] | v : v << 4);
	}
	out->len = len / 2;
	return 0;
}

static int want_open(struct conns *conns, uint64_t conn, uint64_t time_ns,
		     struct capture_sink *sink, struct err *err)
{
	uint32_t hash = (uint32_t)hash_u64(conn, 0, hash_seed());
	if (idtab_reserve(&conns->index) < 0)
		return err_set(err, -ENOMEM, "cannot allocate the connection table");
	uint32_t at = idtab_first(&conns->index, hash);
	for (; conns->index.slots[at].id != IDTAB_NONE; at = idtab_next(&conns->index, at)) {
		if (conns->open[conns->index.slots[at].id] == conn)
			return 0;
	}
	if (conns->count == CONNS_MAX)
		return err_set(err, -ENOSPC, "cannot follow more than %d connections of one file",
			       CONNS_MAX);
	if (conns->count == conns->cap) {
		size_t cap = conns->cap ? conns->cap * 2 : 16;
		uint64_t *open = realloc(conns->open, cap * sizeof(*open));
		if (!open)
			return err_set(err, -ENOMEM, "cannot allocate the connection table");
		conns->open = open;
		conns->cap = cap;
	}
	idtab_put(&conns->index, at, hash, (uint32_t)conns->count);
	conns->open[conns->count++] = conn;
	struct capture_conn info = { .conn = conn, .time_ns = time_ns };
	return sink->open(sink, &info, err);
}

static int take_line(const char *line, size_t len, unsigned long number, struct conns *conns,
		     struct buf *bytes, struct capture_sink *sink, struct capture_stats *stats,
		     uint64_t *time_ns, struct err *err)
{
	json_error_t why;
	CLEANUP(decrefp) json_t *root = json_loadb(line, len, 0, &why);
	if (!root)
		return err_set(err, -EINVAL, "cannot read line %lu: %s", number, why.text);
	const char *from = json_string_value(json_object_get(root, "from"));
	int initiator = from && strcmp(from, "initiator") == 0;
	if (!initiator && !(from && strcmp(from, "responder") == 0))
		return err_set(
			err, -EINVAL,
			"cannot read line %lu: \"from\" is neither \"initiator\" nor \"responder\"",
			number);
	json_t *conn_value = json_object_get(root, "conn"),
	       *time_value = json_object_get(root, "time_ns");
	json_t *gap_value = json_object_get(root, "gap"), *hex_value = json_object_get(root, "hex");
	if ((conn_value && !json_is_integer(conn_value)) ||
	    (time_value && !json_is_integer(time_value)) ||
	    (gap_value && (!json_is_integer(gap_value) || json_integer_value(gap_value) < 0)))
		return err_set(
			err, -EINVAL,
			"cannot read line %lu: \"conn\", \"time_ns\" and \"gap\" are whole numbers",
			number);
	uint64_t conn = (uint64_t)json_integer_value(conn_value);
	if (time_value)
		*time_ns = (uint64_t)json_integer_value(time_value);
	int rc = want_open(conns, conn, *time_ns, sink, err);
	if (rc >= 0 && gap_value)
		rc = sink->gap(sink, conn, initiator, *time_ns,
			       (uint64_t)json_integer_value(gap_value), err);
	if (rc < 0 || !hex_value)
		return rc;
	const char *hex = json_string_value(hex_value);
	rc = hex ? unhex(hex, json_string_length(hex_value), bytes) : -EINVAL;
	if (rc < 0)
		return err_set(err, rc, "cannot read line %lu: \"hex\" is not pairs of hex digits",
			       number);
	stats->payload_bytes += bytes->len;
	return sink->data(sink, conn, initiator, *time_ns, bytes->data, bytes->len, err);
}

/*
 * The next line with its end, and never much more of it than a line may have. Return: its length, 0
 * at the end.
 */
static ssize_t read_line(FILE *file, struct buf *line)
{
	buf_clear(line);
	for (;;) {
		char *to = buf_reserve(line, LINE_STEP);
		size_t n = 0;
		int c = 0;
		if (!to)
			return -ENOMEM;
		while (n < LINE_STEP && c != '\n' && (c = getc_unlocked(file)) != EOF)
			to[n++] = (char)c;
		line->len += n;
		if (line->len > LINE_MAX_BYTES)
			return -EINVAL;
		if (c == '\n' || c == EOF)
			return ferror(file) ? 0 : (ssize_t)line->len;
	}
}

int capture_read_jsonl(const char *path, struct capture_sink *sink, struct capture_stats *stats,
		       struct err *err)
{
	CLEANUP(closep) FILE *file = fopen(path, "re");
	if (!file)
		return err_set(err, -errno, "cannot open capture '%s'", path);
	CLEANUP(free_conns) struct conns conns = { 0 };
	CLEANUP(buf_fini) struct buf bytes = { 0 };
	CLEANUP(buf_fini) struct buf line = { 0 };
	uint64_t time_ns = 0;
	int rc = 0;
	for (unsigned long number = 1; rc >= 0; number++) {
		ssize_t len = read_line(file, &line);
		if (len == 0)
			break;
		if (len < 0)
			return err_set(err, (int)len, "cannot read line %lu of '%s'%s", number,
				       path, len == -EINVAL ? ": longer than 64 MiB" : "");
		if (strspn(buf_cstr(&line), " \t\r\n") == (size_t)len)
			continue;
		stats->records++;
		rc = take_line(line.data, (size_t)len, number, &conns, &bytes, sink, stats,
			       &time_ns, err);
	}
	if (rc >= 0 && ferror(file))
		rc = err_set(err, -errno, "cannot read capture '%s'", path);
	for (size_t i = 0; rc >= 0 && i < conns.count; i++)
		rc = sink->close(sink, conns.open[i], time_ns, "capture ended", err);
	return rc;
}
