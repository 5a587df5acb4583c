/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey.c - what a recording is made of: blocks and columns, with their sizes; checks every
 * checksum, decodes nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/fileio.h"
#include "base/varint.h"
#include "trace/events.h"
#include "trace/reader.h"

static const char *const type_names[TRACE_TYPES] = {
	[0] = "other",
	[BLT_DEFS] = "definitions",
	[BLT_EVENTS] = "events",
	[BLT_SUMMARY] = "summary",
	[BLT_INDEX] = "index",
	[BLT_END] = "end",
	[BLT_PENDING] = "pending",
	[BLT_FILE] = "files",
	[BLT_SNAPSHOT] = "snapshots",
	[BLT_PAGES] = "pages",
};

/* Sizes as the directory tells them. Return: 0, -EBADMSG. */
static int add_columns(struct trace_survey *survey, const struct blt_head *head, const uint8_t *at)
{
	const uint8_t *end = at + head->stored;
	unsigned count = head->stored ? *at++ : 0;
	for (unsigned i = 0; i < count; i++) {
		uint64_t raw, stored;
		if (end - at < 2)
			return -EBADMSG;
		unsigned id = *at;
		at = varint_get(at + 2, end, &raw);
		at = at ? varint_get(at, end, &stored) : NULL;
		if (!at)
			return -EBADMSG;
		const char *name = events_col_name(id);
		if (head->type != BLT_EVENTS || !name || id >= TRACE_COLUMNS)
			continue;
		survey->column[id].name = name;
		survey->column[id].raw_bytes += raw;
		survey->column[id].stored_bytes += stored;
	}
	return 0;
}

int trace_reader_survey(struct trace_reader *r, struct trace_survey *survey,
			const struct trace_read_opt *opt, struct err *err)
{
	*survey = (struct trace_survey){ .version = r->header.version,
					 .machine = r->header.machine,
					 .realtime_ns = r->header.realtime_ns,
					 .monotonic_ns = r->header.monotonic_ns,
					 .header_damaged = r->header_damaged };
	memcpy(survey->boot_id, r->header.boot_id, sizeof(survey->boot_id));
	for (unsigned i = 0; i < TRACE_TYPES; i++)
		survey->type[i].name = type_names[i];
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes;) {
		struct blt_head head;
		uint64_t next = r->info.file_bytes;
		int rc = reader_head(r, at, &head);
		if (rc == 0) {
			rc = reader_resync(r, at + 1, &next);
			survey->unreadable_bytes += next - at;
			survey->damaged_stretches += rc > 0;
		} else if (rc > 0) {
			const uint8_t *payload;
			unsigned type = head.type < TRACE_TYPES ? head.type : 0;
			next = at + BLT_BLOCK_HEADER + head.stored;
			rc = reader_payload(r, at, &head, &payload);
			if (rc >= 0)
				rc = add_columns(survey, &head, payload);
			if (rc == -EBADMSG) {
				survey->damaged_stretches++;
				survey->unreadable_bytes += next - at;
				rc = 0;
			} else {
				survey->type[type].blocks++;
				survey->type[type].rows += head.rows;
				survey->type[type].stored_bytes += next - at;
				survey->key_blocks += type == BLT_EVENTS && head.flags & BLT_F_KEY;
			}
		}
		if (rc < 0)
			return err_set(err, rc, "cannot read '%s'", r->path);
		at = next;
		if (opt && opt->progress)
			opt->progress(opt->progress_ctx, at, r->info.file_bytes);
	}
	return 0;
}
