/* SPDX-License-Identifier: Apache-2.0 */
#include "query/arenas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "model/event.h"

#define HEAP_SHIFT 26 /* a heap of a further arena has 64 MiB to itself, and begins there */
#define ARENAS_MAX 4096u
#define PLACES (1u << 16) /* heaps: 4 TiB of them */

struct sums {
	uint64_t live, peak;
};

struct counting {
	struct sink sink;
	uint64_t main_start, main_end, until_ns;
	struct sums *arenas;
	struct place {
		/* its address >> HEAP_SHIFT; 0: empty */
		uint64_t heap;
		uint32_t arena;
	} * places;
	uint32_t place_count, arena_count;
	uint64_t live, peak;
	struct sums pair[2];
};

static struct place *place_of(const struct counting *c, uint64_t heap)
{
	uint32_t at = (uint32_t)(hash_u64(heap, 0, 1) % PLACES);
	while (c->places[at].heap && c->places[at].heap != heap)
		at = (at + 1) % PLACES;
	return &c->places[at];
}

static struct sums *arena_of(const struct counting *c, uint64_t addr)
{
	if (addr >= c->main_start && addr < c->main_end)
		return &c->arenas[0];
	const struct place *place = place_of(c, addr >> HEAP_SHIFT);
	return place->heap ? &c->arenas[place->arena] : NULL;
}

static int define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static int put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct counting *c = (struct counting *)sink;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		struct sums *arena;
		if ((e->kind != EVENT_ALLOC && e->kind != EVENT_FREE) || e->time_ns > c->until_ns ||
		    e->bytes >> 40 || !(arena = arena_of(c, e->addr)))
			continue;
		uint64_t chunk = (e->bytes + 8 + 15) & ~15ull;
		struct sums *of_two = &c->pair[(arena - c->arenas) % 2];
		if (e->kind == EVENT_FREE) {
			chunk = chunk < arena->live ? chunk : arena->live;
			arena->live -= chunk;
			of_two->live -= chunk;
			c->live -= chunk;
			continue;
		}
		arena->live += chunk;
		of_two->live += chunk;
		of_two->peak = of_two->live > of_two->peak ? of_two->live : of_two->peak;
		c->live += chunk;
		arena->peak = arena->live > arena->peak ? arena->live : arena->peak;
		c->peak = c->live > c->peak ? c->live : c->peak;
	}
	return 0;
}

/* Where the arenas are: each unit of chunks is a stretch of one. */
static void find(struct counting *c, const struct snapshot *s)
{
	c->main_start = UINT64_MAX;
	for (size_t i = 0; i < s->unit_count; i++) {
		const struct snapshot_unit *u = &s->units[i];
		uint64_t end = u->start + u->bytes;
		if (u->kind != SNAPSHOT_CHUNKS)
			continue;
		if (u->flags & SNAPSHOT_MAIN) {
			c->main_start = u->start < c->main_start ? u->start : c->main_start;
			c->main_end = end > c->main_end ? end : c->main_end;
			continue;
		}
		struct place *place = place_of(c, u->start >> HEAP_SHIFT);
		if (place->heap || c->place_count >= PLACES / 2 || u->arena >= ARENAS_MAX)
			continue;
		*place = (struct place){ u->start >> HEAP_SHIFT, u->arena };
		c->place_count++;
	}
}

int arenas_read(struct trace_reader *reader, const struct snapshot *s, struct arenas *to,
		struct err *err)
{
	struct counting c = { .sink = { .define = define, .put = put }, .until_ns = s->time_ns };
	const struct trace_read_opt opt = { .has_until = 1, .until_ns = s->time_ns };
	memset(to, 0, sizeof(*to));
	c.arenas = calloc(ARENAS_MAX, sizeof(*c.arenas));
	c.places = calloc(PLACES, sizeof(*c.places));
	int rc = c.arenas && c.places ? 0
				      : err_set(err, -ENOMEM, "cannot count what the arenas held");
	if (rc == 0) {
		find(&c, s);
		rc = trace_reader_run(reader, &c.sink, &opt, err);
	}
	for (uint32_t i = 0; i < ARENAS_MAX && rc == 0; i++) {
		to->peaks_bytes += c.arenas[i].peak;
		to->count += c.arenas[i].peak != 0;
	}
	to->pair_bytes = c.pair[0].peak + c.pair[1].peak;
	to->peak_bytes = c.peak;
	free(c.arenas);
	free(c.places);
	return rc;
}
