/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - the older tracer's replay file: how many slots and operations, then four words an
 * operation: what (1 allocate, 2 free, 3 reallocate), slot, microseconds from the start, bytes. A
 * small player runs it to have the pattern again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/chunked.h"
#include "out/formats.h"
#include "out/stream.h"

enum { OP_ALLOC = 1, OP_FREE, OP_REALLOC };
#define NO_SLOT 0

struct replay_out {
	struct out_stream stream;
	/* uint32_t by block: 1 + its slot; 0: it is not one of ours */
	struct chunked slot;
	/* the same by thread: of a realloc that has freed and not allocated yet */
	struct chunked pending;
	/* those that can be used again */
	uint32_t *free_slots;
	uint32_t free_count, free_cap, slots;
	uint64_t operations;
};

static int put_operation(struct replay_out *r, uint64_t what, uint32_t slot, uint64_t time_ns,
			 uint64_t bytes, struct err *err)
{
	const uint64_t words[4] = { what, slot - 1, time_ns / 1000, bytes };
	r->operations++;
	if (fwrite(words, sizeof(words), 1, r->stream.to) == 1)
		return 0;
	return err_set(err, errno ? -errno : -EIO, "cannot write a replay file");
}

static int let_go(struct replay_out *r, uint32_t slot, struct err *err)
{
	if (r->free_count == r->free_cap) {
		uint32_t cap = r->free_cap ? 2 * r->free_cap : 1024;
		uint32_t *grown = realloc(r->free_slots, cap * sizeof(*grown));
		if (!grown)
			return out_no_memory(err);
		r->free_slots = grown;
		r->free_cap = cap;
	}
	r->free_slots[r->free_count++] = slot;
	return 0;
}

/** end_pending() - a realloc whose second half is not selected, or never came, was a free. */
static int end_pending(struct replay_out *r, uint32_t *pending, uint64_t time_ns, struct err *err)
{
	uint32_t slot = *pending;
	*pending = NO_SLOT;
	if (!slot)
		return 0;
	int rc = put_operation(r, OP_FREE, slot, time_ns, 0, err);
	return rc < 0 ? rc : let_go(r, slot, err);
}

static int put_event(struct replay_out *r, const struct event *ev, struct err *err)
{
	uint32_t *slot = chunked_touch(&r->slot, ev->block.v);
	uint32_t *pending = chunked_touch(&r->pending, ev->thread.v);
	int rc = 0;
	if (!slot || !pending)
		return out_no_memory(err);
	if (ev->kind == EVENT_FREE) {
		rc = end_pending(r, pending, ev->time_ns, err);
		if (!*slot || rc < 0)
			return rc;
		*pending = *slot;
		*slot = NO_SLOT;
		return ev->flags & EVENT_F_REALLOC ? 0 : end_pending(r, pending, ev->time_ns, err);
	}
	if (ev->flags & EVENT_F_REALLOC && *pending) {
		*slot = *pending;
		*pending = NO_SLOT;
		return put_operation(r, OP_REALLOC, *slot, ev->time_ns, ev->bytes, err);
	}
	rc = end_pending(r, pending, ev->time_ns, err);
	if (rc < 0)
		return rc;
	*slot = r->free_count ? r->free_slots[--r->free_count] : ++r->slots;
	return put_operation(r, OP_ALLOC, *slot, ev->time_ns, ev->bytes, err);
}

static int replay_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct replay_out *r = (struct replay_out *)sink;
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++)
		if (events[i].kind == EVENT_ALLOC || events[i].kind == EVENT_FREE)
			rc = put_event(r, &events[i], err);
	return rc;
}

static int replay_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static int replay_finish(struct out_stream *stream, struct err *err)
{
	struct replay_out *r = (struct replay_out *)stream;
	const uint64_t head[2] = { r->slots, r->operations };
	if (fseek(stream->to, 0, SEEK_SET) == 0 && fwrite(head, sizeof(head), 1, stream->to) == 1 &&
	    fseek(stream->to, 0, SEEK_END) == 0)
		return 0;
	return err_set(err, -errno, "cannot write a replay file");
}

static void replay_fini(struct out_stream *stream)
{
	struct replay_out *r = (struct replay_out *)stream;
	chunked_fini(&r->slot);
	chunked_fini(&r->pending);
	free(r->free_slots);
}

static struct out_stream *replay_new(FILE *to, const struct prof *names, struct err *err)
{
	const uint64_t head[2] = { 0, 0 }; /* known at the end */
	struct replay_out *r = calloc(1, sizeof(*r));
	if (!r || fwrite(head, sizeof(head), 1, to) != 1) {
		free(r);
		err_set(err, -ENOMEM, "cannot write a replay file");
		return NULL;
	}
	r->stream = (struct out_stream){ .sink = { replay_define, replay_put },
					 .to = to,
					 .names = names,
					 .finish = replay_finish,
					 .fini = replay_fini };
	r->slot = (struct chunked)CHUNKED_INIT(uint32_t);
	r->pending = (struct chunked)CHUNKED_INIT(uint32_t);
	return &r->stream;
}

const struct out_format out_format_replay = { .name = "replay",
					      .ending = "dat",
					      .type = "application/octet-stream",
					      .stream = replay_new,
					      .binary = 1 };
