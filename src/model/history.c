/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c - samples as frames of differences, in chunks, in three tiers. A frame: flags (1 =
 * stands alone), time in ms (since the frame before, or absolute where it stands alone), number of
 * labels that changed, then per label its number and four differences. Everything is a varint.
 */
#include "model/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "model/history_impl.h"

#define FRAME_ALONE 1u

static const struct {
	uint64_t period_ms, span_ms;
} tiers[HISTORY_TIERS] = {
	{ 1000, 10ull * 60 * 1000 },
	{ 10000, 3ull * 3600 * 1000 },
	{ 120000, 4ull * 24 * 3600 * 1000 },
};

/* ---- frames ---------------------------------------------------------------------------------- */

static void put(struct buf *to, uint64_t v)
{
	uint8_t bytes[VARINT_MAX];
	buf_put(to, bytes, (size_t)(varint_put(bytes, v) - bytes));
}

void history_encode(struct buf *to, int alone, uint64_t time_ms, uint64_t last_ms,
		    const struct history_values *last, const struct history_values *now,
		    size_t keys)
{
	static const struct history_values zero;
	size_t changed = 0;
	for (size_t i = 0; i < keys; i++)
		changed += memcmp(alone ? &zero : &last[i], &now[i], sizeof(*now)) != 0;
	put(to, alone ? FRAME_ALONE : 0);
	put(to, alone ? time_ms : time_ms - last_ms);
	put(to, changed);
	for (size_t i = 0; i < keys; i++) {
		const struct history_values *from = alone ? &zero : &last[i];
		if (memcmp(from, &now[i], sizeof(*now)) == 0)
			continue;
		put(to, i);
		for (unsigned k = 0; k < VALUES; k++)
			put(to, zigzag((int64_t)(now[i].v[k] - from->v[k])));
	}
}

struct decoder {
	uint64_t time_ms;
	struct history_values now[HISTORY_LABELS_MAX];
};

/* One frame; the place behind it, or NULL where the bytes are none. */
static const uint8_t *decode(struct decoder *d, const uint8_t *at, const uint8_t *end)
{
	uint64_t flags, time, changed, key, delta;
	if (!(at = varint_get(at, end, &flags)) || !(at = varint_get(at, end, &time)) ||
	    !(at = varint_get(at, end, &changed)) || flags > FRAME_ALONE ||
	    changed > HISTORY_LABELS_MAX)
		return NULL;
	if (flags & FRAME_ALONE) {
		memset(d->now, 0, sizeof(d->now));
		d->time_ms = 0;
	}
	if (__builtin_add_overflow(d->time_ms, time, &d->time_ms) ||
	    d->time_ms > UINT64_MAX / 1000000)
		return NULL;
	for (uint64_t i = 0; i < changed; i++) {
		if (!(at = varint_get(at, end, &key)) || key >= HISTORY_LABELS_MAX)
			return NULL;
		for (unsigned k = 0; k < VALUES; k++) {
			if (!(at = varint_get(at, end, &delta)))
				return NULL;
			d->now[key].v[k] += (uint64_t)unzigzag(delta);
			if (d->now[key].v[k] > UINT64_MAX / HISTORY_UNIT)
				return NULL;
		}
	}
	return at;
}

size_t history_frame_len(const char *bytes, size_t len)
{
	const uint8_t *begin = (const uint8_t *)bytes, *end = begin + len, *at = begin;
	uint64_t flags, time, changed, value;
	if (!(at = varint_get(at, end, &flags)) || !(at = varint_get(at, end, &time)) ||
	    !(at = varint_get(at, end, &changed)) || changed > HISTORY_LABELS_MAX)
		return 0;
	for (uint64_t i = 0; i < changed * (1 + VALUES); i++) {
		if (!(at = varint_get(at, end, &value)))
			return 0;
	}
	return (size_t)(at - begin);
}

int history_decode(const char *bytes, size_t len, frame_fn fn, void *ctx)
{
	struct decoder *d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	const uint8_t *at = (const uint8_t *)bytes, *end = at + len;
	int rc = 0;
	while (at < end && !rc) {
		at = decode(d, at, end);
		rc = at ? fn(ctx, d->time_ms, d->now) : -EBADMSG;
		if (!at)
			break;
	}
	free(d);
	return rc;
}

/* ---- tiers ----------------------------------------------------------------------------------- */

static void chunk_free(struct history_chunk *chunk)
{
	if (chunk)
		buf_fini(&chunk->bytes);
	free(chunk);
}

/*
 * Age is told by time and by what came after: a clock that was set far ahead, or a watcher that was
 * away for a week, does not make anything old. Twice the samples that the span has room for are
 * more than any watcher adds in it.
 */
static int is_old(const struct history_tier *tier, unsigned t)
{
	uint64_t newer = tier->frames - tier->first->frames,
		 enough = tiers[t].span_ms / tiers[t].period_ms;
	return newer >= 2 * enough ||
	       (newer >= enough && tier->first->last_ms + tiers[t].span_ms < tier->last_ms);
}

static void forget_old(struct history *h, struct history_tier *tier, unsigned t)
{
	while (tier->first && tier->first != tier->last &&
	       (tier->chunks > CHUNKS_MAX || is_old(tier, t))) {
		struct history_chunk *old = tier->first;
		tier->first = old->next;
		tier->chunks--;
		tier->frames -= old->frames;
		h->kept_bytes -= old->bytes.len;
		chunk_free(old);
	}
}

/* Within a chunk time does not go back. */
static int needs_chunk(const struct history *h, const struct history_tier *tier)
{
	return !tier->last || tier->last->frames >= CHUNK_FRAMES || tier->last->era != h->era;
}

static struct history_chunk *new_chunk(struct history_tier *tier, uint64_t time_ms, unsigned era)
{
	struct history_chunk *chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return NULL;
	chunk->first_ms = time_ms;
	chunk->era = era;
	if (tier->last)
		tier->last->next = chunk;
	else
		tier->first = chunk;
	tier->last = chunk;
	tier->chunks++;
	return chunk;
}

static int keep_frame(struct history *h, unsigned t, int alone, uint64_t time_ms, const char *bytes,
		      size_t len)
{
	struct history_tier *tier = &h->tiers[t];
	struct history_chunk *chunk = alone ? new_chunk(tier, time_ms, h->era) : tier->last;
	if (!chunk)
		return -ENOMEM;
	buf_put(&chunk->bytes, bytes, len);
	if (buf_failed(&chunk->bytes))
		return -ENOMEM;
	h->kept_bytes += len;
	chunk->frames++;
	tier->frames++;
	chunk->last_ms = tier->last_ms = time_ms;
	h->samples += t == 0;
	h->latest_ms = time_ms > h->latest_ms ? time_ms : h->latest_ms;
	forget_old(h, tier, t);
	return 0;
}

static void set_now(struct history *h, unsigned t, const struct history_values *now)
{
	static const struct history_values none;
	memcpy(h->tiers[t].now, now, sizeof(h->tiers[t].now));
	for (size_t i = 0; i < h->key_count && t == 0; i++) {
		if (memcmp(&now[i], &none, sizeof(none)) != 0)
			h->seen[i] = h->samples;
	}
}

int history_take_frame(struct history *h, unsigned t, const char *bytes, size_t len)
{
	struct decoder *d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	struct history_tier *tier = &h->tiers[t];
	d->time_ms = tier->last_ms;
	memcpy(d->now, tier->now, sizeof(d->now));
	const uint8_t *begin = (const uint8_t *)bytes, *end = begin + len;
	int alone = len && (begin[0] & FRAME_ALONE), rc = -EBADMSG;
	if ((alone || !needs_chunk(h, tier)) && decode(d, begin, end) == end) {
		rc = keep_frame(h, t, alone, d->time_ms, bytes, len);
		set_now(h, t, d->now);
	}
	free(d);
	return rc;
}

int history_add(struct history *h, uint64_t time_ns, const struct history_row *rows, size_t count,
		struct err *err)
{
	uint64_t time_ms = time_ns / 1000000;
	struct history_values *now = calloc(HISTORY_LABELS_MAX, sizeof(*now));
	if (!now)
		return err_set(err, -ENOMEM, "cannot keep a sample");
	CLEANUP(buf_fini) struct buf frame = { 0 };
	int rc = 0, file_rc = 0;
	pthread_mutex_lock(&h->lock);
	if (h->tiers[0].last && time_ms < h->tiers[0].last_ms)
		h->era++; /* the clock was set back: each tier goes on in a chunk of its own */
	history_make_room(h, rows, count); /* without memory for it: new labels are added up */
	for (size_t i = 0; i < count; i++) {
		int key = i ? history_key_of(h, rows[i].class, rows[i].label) : 0;
		if (key < 0)
			/* a full table of a stranger's file: its bytes still stand in the total */
			continue;
		now[key].v[0] += rows[i].rss_bytes / HISTORY_UNIT;
		now[key].v[1] += rows[i].virtual_bytes / HISTORY_UNIT;
		now[key].v[2] += rows[i].swap_bytes / HISTORY_UNIT;
		now[key].v[3] += rows[i].count;
	}
	for (unsigned t = 0; t < HISTORY_TIERS && !rc; t++) {
		struct history_tier *tier = &h->tiers[t];
		/* half a period early is near enough: the watcher's own timer is not exact */
		int alone = needs_chunk(h, tier);
		if (tier->last && tier->last->era == h->era &&
		    time_ms < tier->last_ms + tiers[t].period_ms / 2 +
				      (t ? tiers[t].period_ms / 2 : 0))
			continue;
		buf_clear(&frame);
		history_encode(&frame, alone, time_ms, tier->last_ms, tier->now, now, h->key_count);
		if (buf_failed(&frame)) {
			rc = -ENOMEM;
			break;
		}
		rc = keep_frame(h, t, alone, time_ms, frame.data, frame.len);
		set_now(h, t, now);
		if (!rc && h->writable && !file_rc)
			file_rc = history_file_frame(h, t, frame.data, frame.len, err);
	}
	int told = h->failing;
	h->failing = file_rc < 0;
	pthread_mutex_unlock(&h->lock);
	free(now);
	if (rc < 0)
		return err_set(err, rc, "cannot keep a sample");
	return told ? 0 : file_rc;
}

/* ---- runs ------------------------------------------------------------------------------------ */

int history_take_run(struct history *h, const struct history_run *run)
{
	if (h->run_count == RUNS_MAX) {
		memmove(h->runs, h->runs + 1, (RUNS_MAX - 1) * sizeof(*h->runs));
		h->run_count--;
	}
	if (h->run_count == h->run_cap) {
		size_t cap = h->run_cap ? h->run_cap * 2 : 8;
		struct history_run *runs = realloc(h->runs, cap * sizeof(*runs));
		if (!runs)
			return -ENOMEM;
		h->runs = runs;
		h->run_cap = cap;
	}
	h->runs[h->run_count++] = *run;
	return 0;
}

int history_start(struct history *h, const struct history_run *run, struct err *err)
{
	pthread_mutex_lock(&h->lock);
	int rc = history_take_run(h, run);
	if (rc < 0)
		err_set(err, rc, "cannot keep the history");
	else if (h->writable)
		rc = history_file_run(h, run, err);
	pthread_mutex_unlock(&h->lock);
	return rc;
}

int history_runs(const struct history *h, struct history_run **runs, size_t *count)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&h->lock;
	pthread_mutex_lock(lock);
	*count = h->run_count;
	*runs = malloc((h->run_count + 1) * sizeof(**runs));
	if (*runs && h->run_count)
		memcpy(*runs, h->runs, h->run_count * sizeof(**runs));
	pthread_mutex_unlock(lock);
	return *runs ? 0 : -ENOMEM;
}

/* ---- life ------------------------------------------------------------------------------------ */

int history_open(const char *path, int write, struct history **out, struct err *err)
{
	struct history *h = calloc(1, sizeof(*h));
	if (!h)
		return err_set(err, -ENOMEM, "cannot keep a history");
	pthread_mutex_init(&h->lock, NULL);
	h->fd = -1;
	int rc = history_take_key(h, "", 0, "", 0);
	if (rc < 0)
		err_set(err, rc, "cannot keep a history");
	else if (path)
		rc = history_file_open(h, path, write, err);
	if (rc < 0) {
		history_close(h);
		return rc;
	}
	*out = h;
	return 0;
}
