/* SPDX-License-Identifier: Apache-2.0 */
#include "view/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"

#define FRAMES 24 /* innermost ones that a group may be found among */
#define WRAPPER_CALLERS 3
#define WRAPPER_SHARE 20 /* per cent of the live bytes */
#define ROUNDS 8
#define MODULES_MAX 256u /* more are not told apart */
#define MOVING_SHARE 50  /* one block in so many that contradicts the walk */

struct grouping {
	const struct prof *names;
	struct explain *to;
	enum view_by by;
	const struct view_skip *skip;
	/* of stacks */
	uint32_t rows;
	/* live, by row */
	uint64_t *bytes;
	/* frames that are taken off as wrappers' */
	uint8_t *off;
	/* by row; UINT32_MAX: not used */
	uint32_t *group;
	struct idtab ids;
};

static uint64_t text_hash(const char *text, uint64_t seed)
{
	return text ? hash_bytes(text, strlen(text), seed) : seed * 31;
}

/* The frame of @row that stands for its group; 0 where it has none. */
static int frame_of(const struct grouping *g, uint32_t row, struct view_frame *frame,
		    const char **caller)
{
	struct view_frame frames[FRAMES];
	unsigned stop;
	size_t count = view_frames(g->names, (struct stack_id){ row }, frames, FRAMES, &stop);
	if (!count)
		return 0;
	size_t at = view_skip_count(g->skip, frames, count) + g->off[row];
	at = at < count ? at : count - 1;
	*frame = frames[at];
	if (caller)
		*caller = at + 1 < count ? frames[at + 1].function : NULL;
	return 1;
}

static uint64_t key_of(const struct grouping *g, const struct view_frame *f)
{
	uint64_t seed = hash_seed();
	switch (g->by) {
	case VIEW_BY_MODULE:
		return text_hash(f->module, seed);
	case VIEW_BY_FILE:
		return f->file ? text_hash(f->file, seed) : text_hash(f->module, seed + 1);
	case VIEW_BY_LINE:
		if (f->file)
			return text_hash(f->file, seed) + f->line * 0x9e3779b97f4a7c15ull;
		break;
	default:
		break;
	}
	if (!f->function) /* code without names: its module is all that can be said */
		return text_hash(f->module, seed + 2);
	return text_hash(f->function, text_hash(f->module, seed));
}

static int same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static int same_group(const struct grouping *g, const struct view_frame *a,
		      const struct view_frame *b)
{
	switch (g->by) {
	case VIEW_BY_MODULE:
		return same_text(a->module, b->module);
	case VIEW_BY_FILE:
		return a->file || b->file ? same_text(a->file, b->file)
					  : same_text(a->module, b->module);
	case VIEW_BY_LINE:
		if (a->file || b->file)
			return same_text(a->file, b->file) && a->line == b->line;
		break;
	default:
		break;
	}
	return same_text(a->function, b->function) && same_text(a->module, b->module);
}

/*
 * An innermost function that very different callers use for a large part of all is one that
 * allocates for others.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one rule of advice a case */
static int peel(struct grouping *g, uint64_t all)
{
	struct seen {
		uint64_t key, bytes, callers[WRAPPER_CALLERS];
		unsigned count;
	} *seen = calloc(4096, sizeof(*seen));
	int peeled = 0;
	if (!seen)
		return -ENOMEM;
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t row = 1; row < g->rows; row++) {
			struct view_frame frame;
			const char *caller;
			if (!g->bytes[row] || !frame_of(g, row, &frame, &caller) || !frame.function)
				continue;
			uint64_t key = text_hash(frame.function, hash_seed());
			struct seen *s = NULL;
			for (unsigned i = (unsigned)(key >> 52), n = 0; n < 4096 && !s;
			     i = (i + 1) % 4096, n++)
				if (seen[i].key == key || (!seen[i].key && !pass))
					s = &seen[i];
			if (!s)
				continue;
			if (!pass) {
				uint64_t who = text_hash(caller, hash_seed());
				unsigned i = 0;
				s->key = key;
				s->bytes += g->bytes[row];
				while (i < s->count && s->callers[i] != who)
					i++;
				if (i == s->count && s->count < WRAPPER_CALLERS)
					s->callers[s->count++] = who;
			} else if (s->count >= WRAPPER_CALLERS &&
				   s->bytes / WRAPPER_SHARE > all / 100 && caller &&
				   strcmp(caller, "main") != 0 && g->off[row] < FRAMES / 2) {
				g->off[row]++;
				peeled = 1;
			}
		}
	}
	free(seen);
	return peeled;
}

static uint32_t group_of(struct grouping *g, uint32_t row, uint32_t *count)
{
	struct explain *e = g->to;
	if (row >= g->rows)
		row = 0;
	if (g->group[row] != UINT32_MAX)
		return g->group[row];
	struct view_frame frame = { 0 };
	frame_of(g, row, &frame, NULL);
	if (g->by == VIEW_BY_STACK) {
		e->groups[*count] = (struct explain_group){ frame, row };
		return g->group[row] = (*count)++;
	}
	uint32_t hash = (uint32_t)(key_of(g, &frame) >> 16);
	if (idtab_reserve(&g->ids) < 0)
		return UINT32_MAX;
	uint32_t at = idtab_first(&g->ids, hash);
	for (; g->ids.slots[at].id != IDTAB_NONE; at = idtab_next(&g->ids, at)) {
		uint32_t id = g->ids.slots[at].id;
		if (g->ids.slots[at].hash == hash && same_group(g, &e->groups[id].frame, &frame))
			return g->group[row] = id;
	}
	e->groups[*count] = (struct explain_group){ frame, row };
	idtab_put(&g->ids, at, hash, *count);
	return g->group[row] = (*count)++;
}

static int group_all(struct grouping *g, struct sheet_input *in, struct sheet_map *maps)
{
	uint64_t all = 0;
	uint32_t count = 0;
	g->rows = prof_stack_count(g->names);
	g->bytes = calloc((size_t)g->rows + 1, sizeof(*g->bytes));
	g->off = calloc((size_t)g->rows + 1, 1);
	g->group = malloc(((size_t)g->rows + 1) * sizeof(*g->group));
	/* as many groups as rows at most */
	g->to->groups = calloc((size_t)g->rows + 1, sizeof(*g->to->groups));
	if (!g->bytes || !g->off || !g->group || !g->to->groups)
		return -ENOMEM;
	memset(g->group, 0xff, ((size_t)g->rows + 1) * sizeof(*g->group));
	for (size_t i = 0; i < in->block_count; i++) {
		uint32_t row = in->blocks[i].group < g->rows ? in->blocks[i].group : 0;
		g->bytes[row] += in->blocks[i].bytes;
		all += in->blocks[i].bytes;
	}
	for (int i = 0; i < ROUNDS && g->by == VIEW_BY_FUNCTION; i++) {
		int rc = peel(g, all);
		if (rc < 0)
			return rc;
		if (!rc)
			break;
	}
	for (size_t i = 0; i < in->block_count; i++)
		if ((in->blocks[i].group = group_of(g, in->blocks[i].group, &count)) == UINT32_MAX)
			return -ENOMEM;
	for (size_t i = 0; i < in->map_count; i++)
		if ((maps[i].group = group_of(g, maps[i].group, &count)) == UINT32_MAX)
			return -ENOMEM;
	in->group_count = count;
	return 0;
}

struct explain *explain_new(struct instant *instant, const struct explain_opt *opt, struct err *err)
{
	struct explain *e = calloc(1, sizeof(*e));
	struct grouping g = { .names = instant->names, .to = e, .by = opt->by, .skip = opt->skip };
	struct sheet_input in = {
		.snapshot = instant->snapshot,
		.blocks = instant->blocks,
		.block_count = instant->block_count,
		.maps = instant->maps,
		.map_count = instant->map_count,
		.recorded = instant->names != NULL,
		.complete = instant->names && instant->complete,
		.lossy = instant->lossy,
		.now_ms = instant->snapshot->time_ns / 1000000u,
	};
	int rc = e ? 0 : -ENOMEM;
	if (rc == 0) {
		e->snapshot = instant->snapshot;
		e->names = instant->names;
		e->by = opt->by;
		e->recorded = in.recorded;
		e->complete = in.complete;
		e->lost_events = instant->lost_events;
		e->has_window = instant->has_window;
		e->window_allocated_bytes = instant->window_allocated_bytes;
		e->window_freed_bytes = instant->window_freed_bytes;
		e->filtered = instant->filtered;
		e->behind = instant->behind;
		e->unreadable = instant->unreadable;
		e->snapshot_age_ns = instant->age_ns;
		e->peak_rss_bytes = instant->peak_rss_bytes;
		rc = e->recorded ? group_all(&g, &in, instant->maps) : 0;
	}
	free(g.bytes);
	free(g.off);
	free(g.group);
	idtab_fini(&g.ids);
	if (rc < 0)
		err_set(err, rc, "cannot group what lives by who asked for it");
	else
		e->sheet = reconcile(&in, err);
	/*
	 * the program went on while its heap was walked: what is in use there may be younger than
	 * the moment, and is no cache
	 */
	if (e && e->sheet && in.complete &&
	    e->sheet->contradictions * MOVING_SHARE > e->sheet->live_blocks) {
		sheet_free(e->sheet);
		e->moving = 1;
		in.complete = 0;
		e->sheet = reconcile(&in, err);
	}
	if (rc < 0 || !e->sheet) {
		explain_free(e);
		return NULL;
	}
	if (explain_touch(e, instant) < 0) {
		err_set(err, -ENOMEM, "cannot tell who touched what nobody asked for");
		explain_free(e);
		return NULL;
	}
	explain_advise(e, instant);
	return e;
}

void explain_free(struct explain *e)
{
	if (!e)
		return;
	sheet_free(e->sheet);
	free(e->groups);
	free(e->touched);
	free(e);
}

const char *explain_group_name(const struct explain *e, uint32_t group)
{
	static const char *const pseudo[] = { "(caches)", "(not recorded)",
					      "(the allocator's own)" };
	if (group >= e->sheet->group_count)
		return pseudo[(group - e->sheet->group_count) % SHEET_PSEUDO];
	return explain_frame_name(e, &e->groups[group].frame);
}

const char *explain_frame_name(const struct explain *e, const struct view_frame *f)
{
	if (e->by == VIEW_BY_MODULE || (e->by == VIEW_BY_FILE && !f->file))
		return f->module ? f->module : "(no module)";
	if (e->by == VIEW_BY_FILE || (e->by == VIEW_BY_LINE && f->file))
		return f->file;
	return f->function ? f->function : f->module ? f->module : "(no stack)";
}

uint64_t explain_group_bytes(const struct sheet_group *g, unsigned class)
{
	return class == SHEET_LIVE          ? g->live_bytes
	       : class == SHEET_WASTE       ? g->waste_bytes
	       : class == SHEET_HOLES       ? g->hole_bytes
	       : class == SHEET_MMAP        ? g->mapped_bytes
	       : class == EXPLAIN_UNTOUCHED ? g->untouched_bytes
	       : class == EXPLAIN_SWAPPED   ? g->swapped_bytes
					    : 0;
}

static int costlier(const void *a, const void *b)
{
	const struct explain_ranked *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->group < y->group ? -1 : x->group > y->group;
}

struct explain_ranked *explain_rank(const struct explain *e, unsigned class, size_t *count)
{
	size_t groups = (size_t)e->sheet->group_count + SHEET_PSEUDO;
	struct explain_ranked *ranked = malloc(groups * sizeof(*ranked));
	*count = 0;
	for (uint32_t i = 0; i < groups && ranked; i++) {
		uint64_t bytes = explain_group_bytes(&e->sheet->groups[i], class);
		if (bytes)
			ranked[(*count)++] = (struct explain_ranked){ bytes, i };
	}
	if (*count)
		qsort(ranked, *count, sizeof(*ranked), costlier);
	return ranked;
}

uint64_t explain_line_bytes(const struct explain *e, unsigned class, const char *label)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < e->sheet->line_count; i++) {
		const struct sheet_line *line = &e->sheet->lines[i];
		if (line->class == class && (!label || strcmp(line->label, label) == 0))
			bytes += line->bytes;
	}
	return bytes;
}

static int by_live(const void *a, const void *b)
{
	const struct explain_module *x = a, *y = b;
	return x->live_bytes > y->live_bytes ? -1 : x->live_bytes < y->live_bytes;
}

struct explain_module *explain_modules(const struct explain *e, size_t *count)
{
	const struct snapshot *s = e->snapshot;
	struct explain_module *list = calloc((size_t)e->sheet->group_count + 1, sizeof(*list));
	*count = 0;
	for (uint32_t i = 0; i < e->sheet->group_count && list; i++) {
		const struct sheet_group *g = &e->sheet->groups[i];
		if (!g->allocator || !g->live_bytes)
			continue;
		const char *module = e->groups[i].frame.module ? e->groups[i].frame.module : "";
		const char *allocator = snapshot_string(s, s->allocators[g->allocator - 1].name);
		size_t k = 0;
		while (k < *count && (strcmp(list[k].module, module) != 0 ||
				      strcmp(list[k].allocator, allocator) != 0))
			k++;
		if (k == MODULES_MAX)
			continue;
		*count += k == *count;
		list[k].module = module;
		list[k].allocator = allocator;
		list[k].live_bytes += g->live_bytes;
		list[k].unit_bytes += g->unit_bytes;
	}
	if (*count)
		qsort(list, *count, sizeof(*list), by_live);
	return list;
}

/* ---- runtimes' heaps ------------------------------------------------------------------------- */

int explain_is_walked(const struct sheet *sheet, const struct sheet_line *line)
{
	return sheet->runtime_live_bytes &&
	       (strcmp(line->label, "CPython objects") == 0 || strcmp(line->label, "Go heap") == 0);
}

uint64_t explain_counted(const struct explain *e, const struct sheet_line *line)
{
	const struct snapshot *s = e->snapshot;
	for (size_t i = 0; i < s->allocator_count; i++) {
		uint64_t live = s->allocators[i].live_bytes;
		if (live != UINT64_MAX &&
		    strcmp(snapshot_string(s, s->allocators[i].name), line->label) == 0)
			return live < line->bytes ? live : line->bytes;
	}
	return UINT64_MAX;
}

void explain_not_walked(const struct explain *e, uint64_t *used, uint64_t *unknown)
{
	for (size_t i = 0; i < e->sheet->line_count; i++) {
		const struct sheet_line *line = &e->sheet->lines[i];
		if (line->class != SHEET_RUNTIME || explain_is_walked(e->sheet, line))
			continue;
		uint64_t known = explain_counted(e, line);
		known = known == UINT64_MAX ? 0 : known;
		*used += known;
		*unknown += line->bytes - known;
	}
}
