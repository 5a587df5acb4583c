/* SPDX-License-Identifier: Apache-2.0 */
/* slices_build.c - the pass that makes an index of slices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "query/impl.h"
#include "query/slices_impl.h"

#define SLICE_EVENTS \
	(1u << 18) /* at least, to begin with: they are replayed in some hundredths of a second */
#define SLICES_MAX 4096
#define SLICES_WANTED 3072 /* of a recording whose length is known */
#define NO_SEQ UINT64_MAX
#define TOO_MANY (-E2BIG)  /* slices, or rows of them: larger slices have fewer */
#define GIVES_UP (-EXFULL) /* what the recording holds cannot be told by slices */

struct place {
	uint64_t seq, bytes;
	uint32_t stack, reserved;
};

struct build {
	struct sink sink;
	struct slices *s;
	/* events so far; of a slice at least */
	uint64_t seq, least;
	uint64_t new_bytes, live_bytes;
	/* by slot */
	struct place *live;
	uint32_t live_cap;
	/* of this slice */
	struct freed *held;
	size_t held_count, held_cap;
	/* by stack number */
	struct made *sum;
	/* as many */
	uint32_t *touched;
	uint32_t sum_cap, touched_count;
	size_t slice_cap;
	int failed;
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

/** put_sums() - rows of one slice, from where made_count stands. -ENOMEM. */
static int put_sums(struct build *b)
{
	struct slices *s = b->s;
	struct made *made =
		grow(s->made, &s->made_cap, s->made_count + b->touched_count + 1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	s->made = made;
	for (uint32_t i = 0; i < b->touched_count; i++) {
		made[s->made_count] = b->sum[b->touched[i]];
		made[s->made_count++].stack = b->touched[i];
	}
	return 0;
}

static int by_seq(const void *a, const void *b)
{
	uint64_t x = ((const struct freed *)a)->seq, y = ((const struct freed *)b)->seq;
	return x < y ? -1 : x > y;
}

/**
 * add_brief() - a temporary block that was freed in the slice; @freed: by that event, where it was
 * made in it, too. 0, -ENOMEM.
 */
static int add_brief(struct slices *s, uint64_t seq, uint64_t freed, uint32_t stack)
{
	struct brief *brief = grow(s->brief, &s->brief_cap, s->brief_count + 1, sizeof(*brief));
	if (!brief)
		return -ENOMEM;
	s->brief = brief;
	brief[s->brief_count++] = (struct brief){
		.seq = seq, .freed = freed, .stack = stack, .slice = (uint32_t)(s->count - 1)
	};
	return 0;
}

/**
 * add_moved() - how much of each slice's blocks is freed in this one, and which temporary ones are.
 * 0, -ENOMEM.
 */
static int add_moved(struct build *b)
{
	struct slices *s = b->s;
	size_t in = s->count - 1, begin = slices_moved(0, in), end = slices_moved(0, in + 1);
	uint64_t *moved = grow(s->moved, &s->moved_cap, end + 1, sizeof(*moved));
	size_t from = 0;
	if (!moved)
		return -ENOMEM;
	s->moved = moved;
	memset(moved + begin, 0, (end - begin) * sizeof(*moved));
	for (size_t i = 0; i < b->held_count; i++) {
		const struct freed *row = &b->held[i];
		while (s->slices[from + 1].first <= row->seq)
			from++;
		moved[begin + from] += row->bytes;
		if (row->slot & SLICE_TEMPORARY &&
		    add_brief(s, row->seq, UINT64_MAX, row->stack) < 0)
			return -ENOMEM;
	}
	return 0;
}

/** put_held() - what was freed in the slice, into the file. 0 or negative errno. */
static int put_held(struct build *b)
{
	if (b->held_count)
		qsort(b->held, b->held_count, sizeof(*b->held), by_seq);
	int rc = slices_put_rows(b->s, b->held, b->held_count);
	return rc < 0 ? rc : add_moved(b);
}

/** hold() - a row more; -ENOMEM. */
static int hold(struct build *b, const struct freed *row)
{
	struct freed *held = grow(b->held, &b->held_cap, b->held_count + 1, sizeof(*held));
	if (!held)
		return -ENOMEM;
	b->held = held;
	held[b->held_count++] = *row;
	return 0;
}

/**
 * put_slice() - what is known of the last slice by now. 0, -ENOMEM, TOO_MANY, or negative errno of
 * the file of rows.
 */
static int put_slice(struct build *b)
{
	struct slices *s = b->s;
	s->slices[s->count - 1].new_at_end = b->new_bytes;
	int rc = put_sums(b);
	if (rc == 0)
		rc = put_held(b);
	if (rc == 0 && (s->freed_count > SLICES_FREED_MAX || s->made_count > SLICES_MADE_MAX ||
			s->count >= SLICES_MAX))
		rc = TOO_MANY;
	return rc;
}

/** end_slice() - as put_slice(); the next one begins with nothing. */
static int end_slice(struct build *b)
{
	int rc = put_slice(b);
	for (uint32_t i = 0; i < b->touched_count; i++)
		b->sum[b->touched[i]] = (struct made){ 0 };
	b->touched_count = 0;
	b->held_count = 0;
	return rc;
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
	int rc = s->count ? end_slice(b) : 0;
	if (rc < 0) {
		b->failed =
			rc == -ENOMEM ? rc : GIVES_UP; /* without disk space it is done without */
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
					     .chunk_begin = s->chunk_count,
					     .made_begin = s->made_count,
					     .crest_begin = s->crest_count };
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

/**
 * crest_of() - that the next event belongs to; what lives where it begins is in it. NULL: no
 * memory.
 */
static struct crest *crest_of(struct build *b)
{
	struct slices *s = b->s;
	const struct slice *at = &s->slices[s->count - 1];
	size_t number = at->crest_begin + (b->seq - at->first) / CREST_EVENTS;
	if (number < s->crest_count)
		return &s->crests[number];
	struct crest *crests = grow(s->crests, &s->crest_cap, number + 1, sizeof(*crests));
	if (!crests)
		return NULL;
	s->crests = crests;
	while (s->crest_count <= number)
		crests[s->crest_count++] = (struct crest){ b->new_bytes, b->live_bytes };
	return &crests[number];
}

static int take_alloc(struct build *b, const struct event *ev)
{
	struct slices *s = b->s;
	struct slice *at = &s->slices[s->count - 1];
	struct crest *crest = crest_of(b);
	struct place *p = place_of(b, ev->block.v);
	struct made *m = sum_of(b, ev->stack.v);
	if (!p || !m || !crest)
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
	if (b->new_bytes > crest->most_new)
		crest->most_new = b->new_bytes;
	if (b->live_bytes > crest->most_live)
		crest->most_live = b->live_bytes;
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
		if (m && b->seq - p->seq > BRIEF_EVENTS &&
		    add_brief(s, p->seq, b->seq, p->stack) < 0)
			return -ENOMEM;
		b->new_bytes -= p->bytes;
	} else {
		const struct freed freed = {
			.bytes = p->bytes,
			.seq = p->seq,
			.stack = p->stack,
			.slot = ev->block.v | (temporary ? SLICE_TEMPORARY : 0),
		};
		if (freed.bytes > FREED_VALUE_MAX || freed.seq > FREED_VALUE_MAX)
			return GIVES_UP;
		if (hold(b, &freed) < 0)
			return -ENOMEM;
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
	if (count > 2 * (size_t)SLICES_MADE_MAX)
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
					      .chunk_begin = s->chunk_count,
					      .made_begin = s->made_count,
					      .crest_begin = s->crest_count };
	return 0;
}

static struct slices *empty(void)
{
	struct slices *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->rows_fd = -1;
	s->kept_steps = slices_kept_new();
	if (!s->kept_steps)
		slices_freep(&s);
	return s;
}

static void build_fini(struct build *b)
{
	free(b->live);
	free(b->held);
	free(b->sum);
	free(b->touched);
}

/** build_once() - with slices of @least events and more. As slices_build(); TOO_MANY too. */
static int build_once(const struct query_source *source, uint64_t least, struct slices **out,
		      struct err *err)
{
	struct build b = { .sink = { .define = build_define, .put = build_put }, .least = least };
	CLEANUP(slices_freep) struct slices *s = empty();
	if (!s)
		return no_memory(err);
	b.s = s;
	s->rows_fd = scratch_open(err);
	if (s->rows_fd < 0)
		return GIVES_UP;
	int rc = source->run_keys(source->ctx, on_key, &b, &b.sink, err);
	int failed = b.failed;
	if (rc == 0 && !failed)
		failed = s->count ? end_slice(&b) : GIVES_UP;
	if (rc == 0 && failed == 0)
		failed = keep_living(&b);
	build_fini(&b);
	if (failed == -ENOMEM)
		return no_memory(err);
	if (failed)
		return failed == TOO_MANY ? failed
					  : GIVES_UP; /* nor without disk space for the rows */
	if (rc == 0)
		*out = STEAL(s);
	return rc;
}

int slices_build(const struct query_source *source, uint64_t events, struct slices **out,
		 struct err *err)
{
	uint64_t least =
		events / SLICES_WANTED > SLICE_EVENTS ? events / SLICES_WANTED : SLICE_EVENTS;
	int rc = TOO_MANY;
	*out = NULL;
	if (!source->run_keys || !source->run_from)
		return 0;
	for (; rc == TOO_MANY; least *= 4) {
		err_init(err);
		rc = build_once(source, least, out, err);
	}
	if (rc == GIVES_UP) {
		err_init(err);
		return 0;
	}
	return rc;
}

/* ---- of a recording that grows --------------------------------------------------------------- */

struct slices_grow {
	/* first: its sink is the outer one's */
	struct build b;
	/* while it is ended: the lengths from which it goes on */
	struct slices before;
};

static int grow_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct slices_grow *g = (struct slices_grow *)sink;
	struct err own = { 0 };
	(void)err;
	if (!g->b.failed)
		g->b.failed = build_put(sink, events, count, &own);
	return 0;
}

struct slices_grow *slices_grow_new(void)
{
	struct err none = { 0 };
	struct slices_grow *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->b = (struct build){ .sink = { .define = build_define, .put = grow_put },
			       .least = SLICE_EVENTS,
			       .s = empty() };
	if (g->b.s)
		g->b.s->rows_fd = scratch_open(&none);
	if (!g->b.s || g->b.s->rows_fd < 0)
		slices_grow_freep(&g);
	return g;
}

void slices_grow_freep(struct slices_grow **grow)
{
	struct slices_grow *g = *grow;
	*grow = NULL;
	if (!g)
		return;
	build_fini(&g->b);
	slices_free(g->b.s);
	free(g);
}

struct sink *slices_grow_sink(struct slices_grow *g)
{
	return &g->b.sink;
}

void slices_grow_key(struct slices_grow *g, const struct query_key *key)
{
	on_key(&g->b, key);
}

const struct slices *slices_grow_end(struct slices_grow *g, uint64_t at)
{
	struct slices *s = g->b.s;
	g->before = *s;
	if (g->b.failed || !s->count)
		return NULL;
	g->b.failed = put_slice(&g->b);
	if (!g->b.failed)
		g->b.failed = keep_living(&g->b);
	s->slices[s->count].at = at;
	return g->b.failed ? NULL : s;
}

void slices_grow_go_on(struct slices_grow *g)
{
	struct slices *s = g->b.s;
	free(s->kept);
	s->kept = NULL;
	s->kept_count = 0;
	s->made_count = g->before.made_count;
	s->freed_count = g->before.freed_count;
	s->chunk_count = g->before.chunk_count;
	s->brief_count = g->before.brief_count;
	if (s->count)
		slices_kept_drop(s->kept_steps, s->count - 1);
}
