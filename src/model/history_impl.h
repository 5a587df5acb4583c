/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history_impl.h - shared by history.c (samples in memory) and history_file.c (records on disk);
 * nobody else's.
 */
#ifndef MODEL_HISTORY_IMPL_H
#define MODEL_HISTORY_IMPL_H

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/history.h"

#define CHUNK_FRAMES 64 /* then a frame that stands alone */
#define RUNS_MAX 1024   /* older ones are forgotten */
#define CHUNKS_MAX \
	128 /* a tier: more than twice its span needs; a hostile file cannot ask for more */
#define VALUES 4

enum record_kind { RECORD_LABEL = 1, RECORD_RUN = 2, RECORD_FRAME = 3 };

struct history_values {
	/* rss, virtual, swap in HISTORY_UNIT; count */
	uint64_t v[VALUES];
};

/** A run of frames: the first says everything, the others what changed. */
struct history_chunk {
	struct history_chunk *next;
	uint64_t first_ms, last_ms;
	unsigned frames, era;
	struct buf bytes;
};

struct history_tier {
	struct history_chunk *first, *last;
	unsigned chunks;
	uint64_t frames, last_ms;
	/* as of the last frame */
	struct history_values now[HISTORY_LABELS_MAX];
};

struct history {
	pthread_mutex_t lock;
	struct history_key keys[HISTORY_LABELS_MAX];
	uint32_t hashes[HISTORY_LABELS_MAX];
	/* the sample of the finest tier that last had it */
	uint64_t seen[HISTORY_LABELS_MAX];
	size_t key_count;
	/* of the finest tier: so far, and when labels last made room */
	uint64_t samples, retired_at;
	/* of labels; how often any of that changed */
	uint64_t next_id, changes;
	struct history_tier tiers[HISTORY_TIERS];
	struct history_run *runs;
	size_t run_count, run_cap;
	/* how often the clock was set back while this one wrote */
	unsigned era;
	/* of all samples ever; later than the last one where the clock was set back */
	uint64_t latest_ms;

	int fd, writable;
	/* where a damaged file was kept */
	char *path, *aside;
	int must_renew, keep_aside;
	uint64_t file_bytes, damaged_bytes;
	/* what a new file would take: decides when to write one */
	uint64_t kept_bytes;
	size_t keys_written;
	/* the file must be written anew: after a failure, in new numbers */
	int failing, renumbered;
};

/**
 * history_decode() - feed @fn the time and values of each frame of @chunk; nonzero ends it.
 * -EBADMSG for damaged bytes.
 */
typedef int (*frame_fn)(void *ctx, uint64_t time_ms, const struct history_values *values);
int history_decode(const char *bytes, size_t len, frame_fn fn, void *ctx);
/** history_frame_len() - bytes of the first frame of @bytes, 0 where there is none. */
size_t history_frame_len(const char *bytes, size_t len);
void history_encode(struct buf *to, int alone, uint64_t time_ms, uint64_t last_ms,
		    const struct history_values *last, const struct history_values *now,
		    size_t keys);
/** history_find_key() - history_find() with the lock held. */
int history_find_key(const struct history *history, const char *class, const char *label);
/** history_key_of() - its number, a new one where there is room; else its class's "(other)". */
int history_key_of(struct history *history, const char *class, const char *label);
/**
 * history_make_room() - where @rows have more new labels than fit, those that are in none of the
 * last HISTORY_GONE_SAMPLES samples are retired; at most once in a quarter as many samples. Numbers
 * change. -ENOMEM: nothing was done.
 */
int history_make_room(struct history *history, const struct history_row *rows, size_t count);
/**
 * history_stands_alone() - whether a frame says everything, not what changed since the one before.
 */
static inline int history_stands_alone(const uint8_t *bytes, size_t len)
{
	return len && bytes[0] & 1;
}
/** history_take_frame() - a frame read from a file joins @tier. */
int history_take_frame(struct history *history, unsigned tier, const char *bytes, size_t len);
/** history_take_key(), history_take_run() - likewise a label, a run. */
int history_take_key(struct history *history, const char *class, size_t class_len,
		     const char *label, size_t label_len);
int history_take_run(struct history *history, const struct history_run *run);

int history_file_open(struct history *history, const char *path, int write, struct err *err);
/** Append records; called with the lock held. */
int history_file_run(struct history *history, const struct history_run *run, struct err *err);
int history_file_frame(struct history *history, unsigned tier, const char *bytes, size_t len,
		       struct err *err);
/** history_file_renew() - write what is kept to a new file and put it in the old one's place. */
int history_file_renew(struct history *history, struct err *err);

#endif
