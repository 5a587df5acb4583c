/* SPDX-License-Identifier: Apache-2.0 */
/* slices_build.c - the pass that makes an index of slices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "query/slices_impl.h"

#define SLICE_EVENTS \
	(1u << 18) /* at least, to begin with: they are replayed in some hundredths of a second */
#define SLICES_MAX 65536
#define NO_SEQ UINT64_MAX
#define GIVES_UP (-EXFULL) /* what the recording holds cannot be told by slices */

struct place {
	uint64_t seq, bytes;
	uint32_t stack, reserved;
};

struct build {
	struct sink sink;
	struct slices *s;
	uint64_t seq, least; /* events so far; of a slice at least */
	uint64_t new_bytes, live_bytes;
	struct place *live; /* by slot */
	uint32_t live_cap;
	struct made *sum;  /* by stack number */
	uint32_t *touched; /* as many */
	uint32_t sum_cap, touched_count;
	size_t slice_cap;
	int failed;
	struct err *err;
};

static void *grow(void *rows, size_t *cap, size_t need, size_t size)
{
	size_t to = *cap ? *cap : 4096;
	if (need <= *cap)
		return rows;
	while (to < need)
		to *= 2;
	void *grown = realloc(rows, to * size);
	if (grown)
		*cap = to;
	return grown;
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot keep the index of a recording");
}

static struct made *sum_of(struct build *b, uint32_t stack)
{
	if (stack >= b->sum_cap) {
		uint32_t cap = b->sum_cap ? b->sum_cap : 4096;
		while (cap <= stack)
			cap *= 2;
		struct made *sum = realloc(b->sum, cap * sizeof(*sum));
		if (!sum)
			return NULL;
		b->sum = sum;
		uint32_t *touched = realloc(b->touched, cap * sizeof(*touched));
		if (!touched)
			return NULL;
		b->touched = touched;
		memset(sum + b->sum_cap, 0, (cap - b->sum_cap) * sizeof(*sum));
		b->sum_cap = cap;
	}
	struct made *m = &b->sum[stack];
	if (!m->blocks && !m->temporary)
		b->touched[b->touched_count++] = stack;
	return m;
}

/** flush_sums() - rows of one slice, from where made_count stands. */
static int flush_sums(struct build *b)
{
	struct slices *s = b->s;
	struct made *made =
		grow(s->made, &s->made_cap, s->made_count + b->touched_count, sizeof(*made));
	if (!made)
		return -1;
	s->made = made;
	for (uint32_t i = 0; i < b->touched_count; i++) {
		struct made *m = &b->sum[b->touched[i]];
		m->stack = b->touched[i];
		made[s->made_count++] = *m;
		*m = (struct made){ 0 };
	}
	b->touched_count = 0;
	return 0;
}

/** join_pairs() - every other edge goes, and what crossed only that. */
static int join_pairs(struct build *b)
{
	struct slices *s = b->s;
	size_t to = 0, freed = 0, from_made = s->made_count;
	struct made *old = s->made;
	s->made = NULL;
	s->made_cap = s->made_count = 0;
	int rc = 0;
	for (size_t i = 0; i < s->count && rc == 0; i += 2) {
		struct slice one = s->slices[i];
		size_t last = i + 1 < s->count ? i + 1 : i;
		size_t freed_end =
			last + 1 < s->count ? s->slices[last + 1].freed_begin : s->freed_count;
		size_t made_end = last + 1 < s->count ? s->slices[last + 1].made_begin : from_made;
		size_t freed_begin = freed;
		uint64_t gone = 0;
		for (size_t k = one.made_begin; k < made_end && rc == 0; k++) {
			struct made *m = sum_of(b, old[k].stack);
			if (!m) {
				rc = -1;
				break;
			}
			m->bytes += old[k].bytes;
			m->blocks += old[k].blocks;
			m->temporary += old[k].temporary;
		}
		for (size_t k = one.freed_begin; k < freed_end && rc == 0; k++) {
			struct freed *f = &s->freed[k];
			if (f->seq < one.first) {
				s->freed[freed++] = *f;
				continue;
			}
			gone += f->bytes;
			struct made *m = f->slot & SLICE_TEMPORARY ? sum_of(b, f->stack) : NULL;
			if (m)
				m->temporary++;
		}
		if (last > i) {
			const struct slice *next = &s->slices[last];
			uint64_t later = one.new_at_end + next->most_new;
			one.most_new = later > one.most_new ? later : one.most_new;
			if (next->most_live > one.most_live)
				one.most_live = next->most_live;
			one.new_at_end = one.new_at_end + next->new_at_end - gone;
		}
		one.made_begin = s->made_count;
		one.freed_begin = freed_begin;
		if (rc == 0)
			rc = flush_sums(b);
		s->slices[to++] = one;
	}
	free(old);
	s->count = to;
	s->freed_count = freed;
	return rc;
}

static int end_slice(struct build *b)
{
	struct slices *s = b->s;
	struct slice *at = &s->slices[s->count - 1];
	at->new_at_end = b->new_bytes;
	if (flush_sums(b) < 0)
		return -1;
	while (s->count > 1 && (s->freed_count > SLICES_ROWS_MAX ||
				s->made_count > SLICES_ROWS_MAX || s->count >= SLICES_MAX)) {
		b->least *= 2;
		if (join_pairs(b) < 0)
			return -1;
	}
	return 0;
}

static void on_key(void *ctx, const struct query_key *key)
{
	struct build *b = ctx;
	struct slices *s = b->s;
	if (b->failed)
		return;
	if (key->first != b->seq) {
		b->failed = GIVES_UP; /* something is missing before */
		return;
	}
	if (s->count && b->seq - s->slices[s->count - 1].first < b->least)
		return;
	if (s->count && end_slice(b) < 0) {
		b->failed = -ENOMEM;
		return;
	}
	struct slice *slices = grow(s->slices, &b->slice_cap, s->count + 2, sizeof(*slices));
	if (!slices) {
		b->failed = -ENOMEM;
		return;
	}
	s->slices = slices;
	b->new_bytes = 0;
	slices[s->count++] = (struct slice){ .at = key->at,
					     .first = key->first,
					     .time_ns = key->time_ns,
					     .most_live = b->live_bytes,
					     .freed_begin = s->freed_count,
					     .made_begin = s->made_count };
}

static int build_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static struct place *place_of(struct build *b, uint32_t slot)
{
	if (slot >= b->live_cap) {
		uint32_t cap = b->live_cap ? b->live_cap : 4096;
		while (cap <= slot)
			cap *= 2;
		struct place *live = realloc(b->live, cap * sizeof(*live));
		if (!live)
			return NULL;
		for (uint32_t i = b->live_cap; i < cap; i++)
			live[i].seq = NO_SEQ;
		b->live = live;
		b->live_cap = cap;
	}
	return &b->live[slot];
}

static int take_alloc(struct build *b, const struct event *ev)
{
	struct slices *s = b->s;
	struct slice *at = &s->slices[s->count - 1];
	struct place *p = place_of(b, ev->block.v);
	struct made *m = sum_of(b, ev->stack.v);
	if (!p || !m)
		return -ENOMEM;
	if (ev->flags & EVENT_F_INHERITED || p->seq != NO_SEQ)
		return GIVES_UP;
	*p = (struct place){ .seq = b->seq, .bytes = ev->bytes, .stack = ev->stack.v };
	m->blocks++;
	m->bytes += ev->bytes;
	b->new_bytes += ev->bytes;
	b->live_bytes += ev->bytes;
	if (b->new_bytes > at->most_new)
		at->most_new = b->new_bytes;
	if (b->live_bytes > at->most_live)
		at->most_live = b->live_bytes;
	return 0;
}

static int take_free(struct build *b, const struct event *ev)
{
	struct slices *s = b->s;
	struct slice *at = &s->slices[s->count - 1];
	struct place *p = ev->block.v < b->live_cap ? &b->live[ev->block.v] : NULL;
	int temporary = ev->flags & EVENT_F_TEMPORARY;
	if (!p || p->seq == NO_SEQ || ev->flags & EVENT_F_IMPLIED)
		return GIVES_UP;
	if (p->seq >= at->first) {
		struct made *m = temporary ? sum_of(b, p->stack) : NULL;
		if (temporary && !m)
			return -ENOMEM;
		if (m)
			m->temporary++;
		b->new_bytes -= p->bytes;
	} else {
		struct freed *freed =
			grow(s->freed, &s->freed_cap, s->freed_count + 1, sizeof(*freed));
		if (!freed)
			return -ENOMEM;
		s->freed = freed;
		freed[s->freed_count++] = (struct freed){
			.bytes = p->bytes,
			.seq = p->seq,
			.stack = p->stack,
			.slot = ev->block.v | (temporary ? SLICE_TEMPORARY : 0),
		};
	}
	b->live_bytes -= p->bytes;
	p->seq = NO_SEQ;
	return 0;
}

static int build_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct build *b = (struct build *)sink;
	for (size_t i = 0; i < count; i++, b->seq++) {
		const struct event *ev = &events[i];
		int rc = b->failed ? b->failed : b->s->count ? 0 : GIVES_UP;
		if (rc == 0 && (ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE) &&
		    ev->block.v >= SLICE_TEMPORARY)
			rc = GIVES_UP;
		if (rc == 0 && ev->kind == EVENT_ALLOC)
			rc = take_alloc(b, ev);
		else if (rc == 0 && ev->kind == EVENT_FREE)
			rc = take_free(b, ev);
		else if (ev->kind == EVENT_LOST || ev->kind == EVENT_CULLED ||
			 ev->kind == EVENT_FILTERED || ev->kind == EVENT_FORKED)
			rc = GIVES_UP;
		if (rc == -ENOMEM)
			return no_memory(err);
		if (rc < 0)
			return err_set(err, rc, "the recording cannot be cut into slices");
	}
	return 0;
}

/** keep_living() - what was never freed; and the end of all slices. */
static int keep_living(struct build *b)
{
	struct slices *s = b->s;
	size_t count = 0;
	for (uint32_t i = 0; i < b->live_cap; i++)
		count += b->live[i].seq != NO_SEQ;
	if (count > 2 * (size_t)SLICES_ROWS_MAX)
		return GIVES_UP;
	s->kept = malloc((count + 1) * sizeof(*s->kept));
	if (!s->kept)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->live_cap; i++)
		if (b->live[i].seq != NO_SEQ)
			s->kept[s->kept_count++] = (struct freed){ .bytes = b->live[i].bytes,
								   .seq = b->live[i].seq,
								   .stack = b->live[i].stack,
								   .slot = i };
	s->stack_count = b->sum_cap;
	s->slot_count = b->live_cap;
	s->slices[s->count] = (struct slice){ .first = b->seq,
					      .time_ns = UINT64_MAX,
					      .freed_begin = s->freed_count,
					      .made_begin = s->made_count };
	return 0;
}

int slices_build(const struct query_source *source, struct slices **out, struct err *err)
{
	struct build b = { .sink = { .define = build_define, .put = build_put },
			   .least = SLICE_EVENTS };
	CLEANUP(slices_freep) struct slices *s = calloc(1, sizeof(*s));
	*out = NULL;
	if (!source->run_keys || !source->run_from)
		return 0;
	if (!s)
		return no_memory(err);
	b.s = s;
	int rc = source->run_keys(source->ctx, on_key, &b, &b.sink, err);
	if (rc == 0 && b.failed)
		rc = b.failed;
	if (rc == 0 && !s->count)
		rc = GIVES_UP;
	if (rc == 0 && end_slice(&b) < 0)
		rc = -ENOMEM;
	if (rc == 0)
		rc = keep_living(&b);
	free(b.live);
	free(b.sum);
	free(b.touched);
	if (rc == GIVES_UP) {
		err_init(err);
		return 0;
	}
	if (rc == -ENOMEM)
		return no_memory(err);
	if (rc == 0)
		*out = STEAL(s);
	return rc;
}
