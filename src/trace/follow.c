/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.c - a recording read while it is written. Its writer puts whole blocks behind each other
 * and flushes them once a second; what is whole is handed on, and the rest waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "trace/ending.h"
#include "trace/replay.h"

#define DRAIN_BYTES (1u << 20) /* some tenths of a second of work: others wait for a turn */

struct trace_follow {
	struct trace_reader *reader;
	/* in front of the sink */
	struct ending ending;
	struct replay *replay;
	struct events_dec *dec;
	uint64_t at;
	/* 0: as far as there is something */
	uint64_t until;
	int over;
	void (*key)(void *ctx, const struct trace_key *key);
	void *key_ctx;
};

struct trace_follow *trace_follow_new(const char *path, struct sink *sink, struct err *err)
{
	CLEANUP(trace_follow_freep) struct trace_follow *f = calloc(1, sizeof(*f));
	if (!f) {
		err_set(err, -ENOMEM, "cannot follow '%s'", path);
		return NULL;
	}
	f->reader = trace_reader_new(path, err);
	if (!f->reader)
		return NULL;
	f->reader->info.damaged_blocks = (uint64_t)f->reader->header_damaged;
	f->reader->info.skipped_bytes = 0;
	trace_reader_freep(&f->reader->side);
	f->replay = replay_new(f->reader, ending_init(&f->ending, sink), err);
	f->dec = f->replay ? replay_decoder(f->replay, err) : NULL;
	f->at = BLT_FILE_HEADER;
	return f->dec ? STEAL(f) : NULL;
}

void trace_follow_freep(struct trace_follow **follow)
{
	struct trace_follow *f = *follow;
	*follow = NULL;
	if (!f)
		return;
	events_dec_free(f->dec);
	replay_freep(&f->replay);
	trace_reader_freep(&f->reader);
	free(f);
}

void trace_follow_keys(struct trace_follow *f, void (*key)(void *ctx, const struct trace_key *key),
		       void *ctx)
{
	f->key = key;
	f->key_ctx = ctx;
}

int trace_follow_from(const struct trace_follow *f, const struct trace_key *key, uint64_t until,
		      const struct trace_seed *seeds, size_t count, struct sink *sink,
		      struct err *err)
{
	return trace_reader_from(f->reader, key, until ? until : f->at, seeds, count, sink, err);
}

static int fail(const struct trace_follow *f, int code, struct err *err)
{
	return err_set(err, code, "cannot read '%s'", f->reader->path);
}

/*
 * Where no block begins: damage, if there is one further on; else what is being written. Return: 1
 * go on, 0 wait.
 */
static int pass_damage(struct trace_follow *f, struct err *err)
{
	uint64_t next;
	int rc = reader_resync(f->reader, f->at + 1, &next);
	if (rc <= 0)
		return rc < 0 ? fail(f, rc, err) : 0;
	f->reader->info.skipped_bytes += next - f->at;
	f->reader->info.damaged_blocks++;
	events_dec_miss(f->dec);
	f->at = next;
	return 1;
}

static int take_block(struct trace_follow *f, const struct blt_head *head, struct err *err)
{
	struct trace_reader_info *info = &f->reader->info;
	uint64_t bytes = BLT_BLOCK_HEADER + (uint64_t)head->stored;
	if (f->key && head->type == BLT_EVENTS && head->flags & BLT_F_KEY)
		f->key(f->key_ctx, &(struct trace_key){ f->at, head->first, head->time_ns });
	int rc = replay_block(f->replay, f->reader, f->dec, f->at, head, err);
	if (replay_sink_failed(f->replay) || (rc < 0 && rc != -EBADMSG))
		return rc;
	f->at += bytes;
	if (rc)
		info->skipped_bytes += bytes;
	if (rc == -EBADMSG) {
		info->damaged_blocks++;
		events_dec_miss(f->dec);
		err_init(err);
	}
	return 0;
}

/* The writer has gone, and nothing more can come. */
static int end(struct trace_follow *f, struct err *err)
{
	struct trace_reader *r = f->reader;
	r->info.truncated = f->at < r->info.file_bytes;
	r->info.being_written = 0;
	f->over = 1;
	int rc = events_dec_end(f->dec, r->info.indexed ? &r->total : NULL, err);
	return rc < 0 ? rc : ending_tell(&f->ending, r, 0, err);
}

void trace_follow_until(struct trace_follow *f, uint64_t until)
{
	f->until = until;
}

int trace_follow_drain(struct trace_follow *f, struct err *err)
{
	struct err own = { 0 };
	struct stat st;
	if (!err)
		err = &own;
	if (f->over)
		return 0;
	/* asked first: what was written by then is there */
	int written = reader_is_written(f->reader->fd);
	if (fstat(f->reader->fd, &st) < 0)
		return fail(f, -errno, err);
	f->reader->info.file_bytes = (uint64_t)st.st_size;
	replay_fit(f->replay);
	uint64_t began = f->at, most = f->reader->info.file_bytes;
	if (f->until && f->until < most)
		most = f->until;
	while (f->at < most && f->at - began < DRAIN_BYTES) {
		struct blt_head head;
		int rc = reader_head(f->reader, f->at, &head);
		if (rc < 0)
			return fail(f, rc, err);
		if (rc)
			rc = take_block(f, &head, err);
		else if ((rc = pass_damage(f, err)) == 0)
			break; /* half written */
		if (rc < 0)
			return rc;
	}
	int all = f->at - began < DRAIN_BYTES;
	if (!written && all && !f->until) {
		int rc = end(f, err);
		return rc < 0 ? rc : 1;
	}
	return f->at != began;
}

void trace_follow_state(const struct trace_follow *f, struct trace_follow_state *state)
{
	*state = (struct trace_follow_state){
		.file_bytes = f->reader->info.file_bytes,
		.read_bytes = f->at,
		.damaged_blocks = f->reader->info.damaged_blocks,
		.skipped_bytes = f->reader->info.skipped_bytes,
		.over = f->over,
	};
}
