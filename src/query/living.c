/* SPDX-License-Identifier: Apache-2.0 */
#include "query/living.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAPS_MAX (1u << 22)

static int define(struct sink *sink, const struct def *def, struct err *err)
{
	struct living *l = (struct living *)sink;
	struct sink *to = prof_sink(l->names);
	return to->define(to, def, err);
}

/* ---- mappings: by address; what is mapped over another takes its place ----------------------- */

static size_t map_from(const struct living *l, uint64_t addr)
{
	size_t low = 0, high = l->map_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (l->maps[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int insert_map(struct living *l, size_t at, const struct sheet_map *map)
{
	if (l->map_count == l->map_room) {
		size_t room = l->map_room ? l->map_room * 2 : 256;
		struct sheet_map *grown =
			room > MAPS_MAX ? NULL : realloc(l->maps, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->maps = grown;
		l->map_room = room;
	}
	memmove(&l->maps[at + 1], &l->maps[at], (l->map_count - at) * sizeof(*l->maps));
	l->maps[at] = *map;
	l->map_count++;
	return 0;
}

static int unmap(struct living *l, uint64_t start, uint64_t end)
{
	size_t at = map_from(l, start), gone;
	if (at == l->map_count || l->maps[at].start >= end)
		return 0;
	if (l->maps[at].start < start) {
		struct sheet_map rest = l->maps[at];
		l->maps[at].end = start;
		at++;
		if (rest.end > end) {
			rest.start = end;
			return insert_map(l, at, &rest);
		}
	}
	for (gone = at; gone < l->map_count && l->maps[gone].end <= end; gone++)
		;
	memmove(&l->maps[at], &l->maps[gone], (l->map_count - gone) * sizeof(*l->maps));
	l->map_count -= gone - at;
	if (at < l->map_count && l->maps[at].start < end)
		l->maps[at].start = end;
	return 0;
}

static int map(struct living *l, uint64_t start, uint64_t bytes, uint32_t stack)
{
	uint64_t end;
	if (!bytes || __builtin_add_overflow(start, (bytes + 4095) & ~4095ull, &end) || end < start)
		return 0;
	int rc = unmap(l, start, end);
	const struct sheet_map one = { start, end, stack, 0 };
	return rc < 0 ? rc : insert_map(l, map_from(l, start), &one);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int take(struct living *l, const struct event *e)
{
	int rc = 0;
	switch (e->kind) {
	case EVENT_MAP:
		return map(l, e->addr, e->bytes, e->stack.v);
	case EVENT_UNMAP:
		return unmap(l, e->addr, e->addr + ((e->bytes + 4095) & ~4095ull));
	case EVENT_BRK:
		if (l->brk && e->addr > l->brk)
			rc = map(l, l->brk, e->addr - l->brk, e->stack.v);
		else if (l->brk)
			rc = unmap(l, e->addr, l->brk);
		l->brk = e->addr;
		return rc;
	case EVENT_LOST:
		l->lost_events += e->addr + (e->block.v == UINT32_MAX ? 0 : e->block.v);
		l->lost_bytes += e->bytes;
		l->lost_frees += e->block.v == UINT32_MAX ? 0 : e->block.v;
		return 0;
	case EVENT_FILTERED:
		l->filtered += e->addr;
		return 0;
	case EVENT_SWITCH:
		l->switched_off |= !e->value;
		return 0;
	case EVENT_FORKED:
		l->inherits_unknown |= !e->block.v;
		return 0;
	default:
		return 0;
	}
}

static int put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct living *l = (struct living *)sink;
	for (size_t i = 0; i < count; i++) {
		int rc = take(l, &events[i]);
		if (rc < 0)
			return err_set(err, rc, "cannot keep the blocks that live");
	}
	return 0;
}

void living_init(struct living *l, struct prof *names)
{
	memset(l, 0, sizeof(*l));
	l->sink.define = define;
	l->sink.put = put;
	l->names = names;
}

void living_fini(struct living *l)
{
	free(l->maps);
	memset(l, 0, sizeof(*l));
}

void living_end(struct living *l, struct trace_living *read, struct instant *instant)
{
	for (size_t i = 0; i < read->count; i++)
		read->blocks[i].group =
			prof_stack_row(l->names, (struct stack_id){ read->blocks[i].group }).v;
	for (size_t i = 0; i < l->map_count; i++)
		l->maps[i].group =
			prof_stack_row(l->names, (struct stack_id){ l->maps[i].group }).v;
	instant->blocks = read->blocks;
	instant->block_count = read->count;
	instant->block_room_bytes = read->room_bytes;
	instant->maps = l->maps;
	instant->map_count = l->map_count;
	instant->lossy = l->lost_events || l->lost_frees;
	instant->lost_events = l->lost_events;
	instant->filtered = l->filtered;
	instant->complete = !l->lost_events && !l->lost_bytes && !l->filtered && !l->switched_off &&
			    !l->inherits_unknown;
	read->blocks = NULL;
	read->count = read->room_bytes = 0;
	l->maps = NULL;
	l->map_count = 0;
}
