/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_events.c - server-sent events: what recordings that are being written and processes that are
 * watched come to, once a second.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "base/clock.h"

#define PERIOD_NS NS_PER_S

enum topic {
	TOPIC_SAMPLE = 1,
	TOPIC_GENERATION = 2,
	TOPIC_LOST = 4,
	TOPIC_ENDED = 8,
	TOPIC_ALERT = 16,
	TOPIC_MARK = 32
};

#define MARKS_TOLD 32u /* at once, the newest: the timeline has all of them */

struct followed {
	size_t source;
	/* NULL: a recording */
	const struct v1_live *live;
	/* of the last look that was told of it */
	uint64_t time_ns;
	uint64_t number, lost;
	/* of the marks that are kept, those that were told */
	uint32_t marks;
	int ended, looked;
};

struct events {
	struct v1 *v1;
	struct shelf *shelf;
	uint64_t told;
	unsigned topics;
	struct followed *all;
	size_t count;
	uint64_t next_ns, id;
	int greeted;
};

static void put_event(struct events *e, struct buf *out, const char *name, const char *data)
{
	buf_printf(out, "id: %llu\nevent: %s\ndata: %s\n\n", (unsigned long long)++e->id, name,
		   data);
}

static void put_lost(struct events *e, struct followed *f, const struct prof_totals *t,
		     struct buf *out)
{
	CLEANUP(buf_fini) struct buf data = { 0 };
	int first = 1;
	if (t->lost_events == f->lost)
		return;
	f->lost = t->lost_events;
	buf_printf(&data, "{\"source\":%zu,\"events\":%llu,\"by_reason\":{", f->source,
		   (unsigned long long)t->lost_events);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++) {
		if (!t->lost[i] || !loss_reason_name(i))
			continue;
		buf_printf(&data, "%s\"%s\":%llu", first ? "" : ",", loss_reason_name(i),
			   (unsigned long long)t->lost[i]);
		first = 0;
	}
	buf_puts(&data, "}}");
	put_event(e, out, "lost", buf_cstr(&data));
}

static void put_sample(struct events *e, const struct followed *f, const struct snap *snap,
		       const struct prof_totals *t, struct buf *out)
{
	size_t count;
	const struct prof_point *points = prof_timeline(snap_prof(snap), &count);
	const struct prof_point none = { 0 }, *last = count ? &points[count - 1] : &none;
	char data[400];
	snprintf(data, sizeof(data),
		 "{\"source\":%zu,\"time_ns\":%llu,\"age_ns\":%llu,\"heap_bytes\":%llu,\"rss_"
		 "bytes\":%llu,"
		 "\"virtual_bytes\":%llu,\"allocations\":%llu,\"frees\":%llu,\"peak_bytes\":%llu}",
		 f->source, (unsigned long long)last->time_ns,
		 (unsigned long long)(clock_ns(CLOCK_MONOTONIC) - snap_time_ns(snap)),
		 (unsigned long long)last->heap_bytes, (unsigned long long)last->rss_bytes,
		 (unsigned long long)last->virtual_bytes, (unsigned long long)t->cost.allocations,
		 (unsigned long long)t->cost.frees, (unsigned long long)t->cost.peak_bytes);
	put_event(e, out, "sample", data);
}

/** put_marks() - those that came since the last look; what was there before is in the timeline. */
static void put_marks(struct events *e, struct followed *f, const struct snap *snap,
		      struct buf *out)
{
	const struct marks *marks = prof_marks(snap_prof(snap));
	uint32_t i = f->looked ? f->marks : marks->count;
	f->looked = 1;
	f->marks = marks->count; /* fewer than before: it was full, repeated numbers went */
	if (i + MARKS_TOLD < marks->count)
		i = marks->count - MARKS_TOLD;
	for (; i < marks->count && e->topics & TOPIC_MARK; i++) {
		char data[128];
		snprintf(data, sizeof(data), "{\"source\":%zu,\"time_ns\":%llu,\"value\":%llu}",
			 f->source, (unsigned long long)marks->at[i].time_ns,
			 (unsigned long long)marks->at[i].value);
		put_event(e, out, "mark", data);
	}
}

static void look(struct events *e, struct followed *f, struct buf *out)
{
	const struct shelf_item *item = shelf_at(e->shelf, f->source);
	CLEANUP(snap_unrefp) struct snap *snap = item->live(item->ctx);
	char data[96];
	if (!snap) {
		f->ended = 1;
		snprintf(data, sizeof(data), "{\"source\":%zu}", f->source);
		if (e->topics & TOPIC_ENDED)
			put_event(e, out, "ended", data);
		return;
	}
	struct prof_totals totals;
	prof_totals(snap_prof(snap), &totals);
	if (snap_number(snap) != f->number && e->topics & TOPIC_GENERATION) {
		snprintf(data, sizeof(data), "{\"source\":%zu,\"snap\":%llu}", f->source,
			 (unsigned long long)snap_number(snap));
		put_event(e, out, "generation", data);
	}
	f->number = snap_number(snap);
	put_marks(e, f, snap, out);
	if (e->topics & TOPIC_SAMPLE)
		put_sample(e, f, snap, &totals, out);
	if (e->topics & TOPIC_LOST)
		put_lost(e, f, &totals, out);
}

/**
 * look_live() - at a process that is watched: there is nothing of its heap. Places that nobody has
 * yet, and those given to another process, go on.
 */
static void look_live(struct events *e, struct followed *f, struct buf *out)
{
	struct v1_live_facts who;
	CLEANUP(buf_fini) struct buf data = { 0 };
	if (f->live->facts(f->live->ctx, &who) < 0)
		return;
	if (who.ended && !f->ended && e->topics & TOPIC_ENDED) {
		buf_printf(&data, "{\"source\":%zu}", f->source);
		put_event(e, out, "ended", buf_cstr(&data));
	}
	f->ended = who.ended;
	if (who.ended || !who.time_ns)
		return;
	if (who.time_ns != f->time_ns && e->topics & TOPIC_GENERATION) {
		buf_clear(&data);
		buf_printf(&data, "{\"source\":%zu,\"snap\":%llu}", f->source,
			   (unsigned long long)((who.time_ns - who.start_ns) / 1000000));
		put_event(e, out, "generation", buf_cstr(&data));
	}
	f->time_ns = who.time_ns;
	if (!(e->topics & TOPIC_SAMPLE))
		return;
	const uint64_t now = clock_ns(CLOCK_REALTIME);
	const struct {
		const char *name;
		uint64_t value;
	} members[] = { { "time_ns", who.time_ns - who.start_ns },
			{ "age_ns", now > who.time_ns ? now - who.time_ns : 0 },
			{ "rss_bytes", who.rss_bytes },
			{ "virtual_bytes", who.virtual_bytes },
			{ "anon_bytes", who.part_bytes[PROF_ANON] },
			{ "file_bytes", who.part_bytes[PROF_FILE] },
			{ "shmem_bytes", who.part_bytes[PROF_SHMEM] },
			{ "swap_bytes", who.part_bytes[PROF_SWAP] } };
	buf_clear(&data);
	buf_printf(&data, "{\"source\":%zu", f->source);
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (members[i].value != UINT64_MAX)
			buf_printf(&data, ",\"%s\":%llu", members[i].name,
				   (unsigned long long)members[i].value);
	buf_puts(&data, ",\"heap_bytes\":null,\"allocations\":null,\"frees\":null,"
			"\"peak_bytes\":null}");
	put_event(e, out, "sample", buf_cstr(&data));
}

static void greet(struct events *e, struct buf *out)
{
	CLEANUP(buf_fini) struct buf data = { 0 };
	buf_printf(&data, "{\"version\":\"%s\",\"sources\":%zu,\"live\":[", BYTELEDGER_VERSION,
		   shelf_count(e->shelf));
	for (size_t i = 0, told = 0; i < e->count; i++) {
		struct v1_live_facts who;
		const struct v1_live *live = e->all[i].live;
		if (!live || live->facts(live->ctx, &who) == 0)
			buf_printf(&data, "%s%zu", told++ ? "," : "", e->all[i].source);
	}
	buf_puts(&data, "]}");
	put_event(e, out, "hello", buf_cstr(&data));
}

/** put_alerts() - what was told since, at once. */
static void put_alerts(struct events *e, struct buf *out)
{
	CLEANUP(buf_fini) struct buf one = { 0 };
	uint64_t last = e->told;
	do {
		buf_clear(&one);
		if (v1_told(e->v1, e->told + 1, &one, &last) && e->topics & TOPIC_ALERT)
			put_event(e, out, "alert", buf_cstr(&one));
		if (e->told < last)
			e->told++;
	} while (e->told < last);
}

static int events_more(void *stream, struct buf *out)
{
	struct events *e = stream;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!e->greeted) {
		e->greeted = 1;
		greet(e, out);
	}
	put_alerts(e, out);
	if (now < e->next_ns)
		return 0;
	e->next_ns = now + PERIOD_NS;
	for (size_t i = 0; i < e->count; i++)
		if (e->all[i].live)
			look_live(e, &e->all[i], out);
		else if (!e->all[i].ended)
			look(e, &e->all[i], out);
	return 0;
}

static void events_free(void *stream)
{
	struct events *e = stream;
	free(e->all);
	free(e);
}

static int parse_topics(const char *text, unsigned *topics, struct err *err)
{
	static const struct {
		const char *name;
		unsigned bit;
	} all[] = { { "sample", TOPIC_SAMPLE }, { "generation", TOPIC_GENERATION },
		    { "lost", TOPIC_LOST },     { "ended", TOPIC_ENDED },
		    { "alert", TOPIC_ALERT },   { "mark", TOPIC_MARK } };
	*topics = text ? 0 : ~0u;
	while (text && *text) {
		size_t len = strcspn(text, ","), i = 0;
		while (i < ARRAY_LEN(all) &&
		       !(strlen(all[i].name) == len && strncmp(all[i].name, text, len) == 0))
			i++;
		if (i == ARRAY_LEN(all))
			return err_set(err, -EINVAL,
				       "'topics' is a list of sample, generation, lost, ended, "
				       "alert and mark, not '%.40s'",
				       text);
		*topics |= all[i].bit;
		text += len + (text[len] == ',');
	}
	return 0;
}

int v1_events(struct v1_call *call, struct err *err)
{
	struct events *e = calloc(1, sizeof(*e));
	size_t live_count, count = shelf_count(call->shelf);
	const struct v1_live *lives = v1_lives(call->v1, &live_count);
	int all = !call->ask.source_given;
	if (!e || !(e->all = calloc(count + live_count + 1, sizeof(*e->all)))) {
		free(e);
		return err_set(err, -ENOMEM, "cannot follow");
	}
	CLEANUP(buf_fini) struct buf none = { 0 };
	e->v1 = call->v1;
	e->shelf = call->shelf;
	v1_told(call->v1, 0, &none,
		&e->told); /* from now on; what came before is at /api/v1/alerts */
	int rc = parse_topics(call->ask.topics, &e->topics, err);
	if (rc < 0) {
		events_free(e);
		return rc;
	}
	for (size_t i = 0; i < count; i++)
		if (shelf_at(call->shelf, i)->live && (all || i == call->source))
			e->all[e->count++].source = i;
	for (size_t i = 0; i < live_count; i++)
		if (lives[i].facts && (all || V1_LIVE_FIRST + i == call->source))
			e->all[e->count++] =
				(struct followed){ .source = V1_LIVE_FIRST + i, .live = &lives[i] };
	call->reply->stream_more = events_more;
	call->reply->stream_free = events_free;
	call->reply->stream = e;
	return 0;
}
