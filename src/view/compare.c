/* SPDX-License-Identifier: Apache-2.0 */
#include "view/compare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "view/impl.h"
#include "view/key.h"

/* One side's part of a row, before both meet. */
struct part {
	uint64_t key;
	uint64_t own, inclusive;
	int side, any;
	struct compare_example example;
};
struct parts {
	struct part *items;
	size_t count, room;
	/* what rows are sorted by */
	int inclusive;
	/* builds of one program may have names of their own */
	struct view_programs programs;
};

static int add(struct parts *parts, const struct part *part)
{
	if (parts->count == parts->room) {
		size_t room = parts->room ? parts->room * 2 : 1024;
		struct part *grown = reallocarray(parts->items, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		parts->items = grown;
		parts->room = room;
	}
	parts->items[parts->count++] = *part;
	return 0;
}

static const char *module_of(const struct parts *parts, int side, const struct view_frame *f)
{
	return side ? f->module : view_program_module(&parts->programs, f->module);
}

/* What a frame is in both builds: its function; its module where it has no name. */
static uint64_t frame_key(const struct parts *parts, int side, const struct view_frame *frame)
{
	static const struct view_frame nothing;
	const struct view_frame *f = frame ? frame : &nothing;
	const char *module = module_of(parts, side, f);
	return view_key_function(module, f->function ? f->function : "", 0);
}

static uint64_t group_key(const struct parts *parts, int side, const struct view_frame *f,
			  enum view_by by)
{
	char line[24];
	uint64_t key;
	switch (by) {
	case VIEW_BY_MODULE:
		return view_key_function(module_of(parts, side, f), "", 0);
	case VIEW_BY_FILE:
	case VIEW_BY_LINE:
		if (!f->file)
			break;
		key = view_key_bytes(f->file, strlen(f->file));
		if (by == VIEW_BY_FILE)
			return key;
		snprintf(line, sizeof(line), ":%u", f->line);
		return view_key_mix(key, view_key_bytes(line, strlen(line)));
	default:
		break;
	}
	return frame_key(parts, side, f);
}

/* ---- call paths ------------------------------------------------------------------------------ */

#define FRAMES_AT_A_TIME 4096

static int add_stack(struct parts *parts, const struct prof *prof, int side, uint32_t row,
		     enum view_cost cost, struct view_frame *frames)
{
	struct stack_id id = { row };
	struct cost c;
	unsigned stop;
	prof_stack_cost(prof, id, &c);
	size_t count = view_frames(prof, id, frames, FRAMES_AT_A_TIME, &stop);
	uint64_t key = VIEW_KEY_ROOT, last = 0;
	for (size_t i = count; i-- > 0;) {
		uint64_t frame = frame_key(parts, side, &frames[i]);
		/* neighbours without a name are one: how many there are changes with every build */
		if (frames[i].function || frame != last)
			key = view_key_mix(key, frame);
		last = frame;
	}
	struct part part = { .key = key,
			     .own = view_cost_of(&c, cost),
			     .side = side,
			     .any = c.allocations != 0,
			     .example = { .prof = prof, .stack = id } };
	return add(parts, &part);
}

static int add_stacks(struct parts *parts, const struct prof *prof, int side, enum view_cost cost)
{
	struct view_frame *frames = calloc(FRAMES_AT_A_TIME, sizeof(*frames));
	int rc = frames ? 0 : -ENOMEM;
	for (uint32_t row = prof_stack_used(prof, 0); rc == 0 && row < prof_stack_count(prof);
	     row = prof_stack_used(prof, row + 1))
		rc = add_stack(parts, prof, side, row, cost, frames);
	free(frames);
	return rc;
}

/* ---- groups of frames ------------------------------------------------------------------------ */

static int add_groups(struct parts *parts, const struct prof *prof, int side,
		      const struct view_opt *opt, struct err *err)
{
	struct view_opt whole = *opt;
	whole.limit = 0;
	CLEANUP(view_table_freep) struct view_table *table = view_table_new(prof, &whole, err);
	if (!table)
		return err ? err->code : -ENOMEM;
	for (size_t i = 0; i < table->count; i++) {
		const struct view_row *row = &table->rows[i];
		struct part part = {
			.key = group_key(parts, side, &row->frame, opt->by),
			.own = view_cost_of(&row->cost, opt->cost),
			.inclusive = view_cost_of(&row->inclusive, opt->cost),
			.side = side,
			.any = 1,
			.example = { .prof = prof, .stack = row->stack, .frame = row->frame }
		};
		int rc = add(parts, &part);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- both together --------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	/* the example is the first: after's, and its costliest */
	if (x->side != y->side)
		return x->side > y->side ? -1 : 1;
	return x->own > y->own ? -1 : x->own < y->own;
}

static void join(struct comparison *c, struct parts *parts, int all)
{
	qsort(parts->items, parts->count, sizeof(parts->items[0]), by_key);
	for (size_t i = 0; i < parts->count;) {
		struct compare_row row = { .key = parts->items[i].key,
					   .example = parts->items[i].example };
		for (; i < parts->count && parts->items[i].key == row.key; i++) {
			const struct part *p = &parts->items[i];
			sum_add(p->side ? &row.after : &row.before, p->own);
			sum_add(p->side ? &row.after_inclusive : &row.before_inclusive,
				p->inclusive);
			*(p->side ? &row.is : &row.was) |= p->any;
		}
		if (row.before == row.after && row.before_inclusive == row.after_inclusive) {
			if (all)
				c->rows[c->count++] = row;
			continue;
		}
		c->appeared += !row.was;
		c->gone += !row.is;
		int grown = row.before == row.after ? row.after_inclusive > row.before_inclusive
						    : row.after > row.before;
		if (row.was && row.is)
			*(grown ? &c->grown : &c->shrunk) += 1;
		c->rows[c->count++] = row;
	}
}

/* The larger change first, growth before shrinking where both are as large. */
static int by_size(uint64_t before_x, uint64_t after_x, uint64_t before_y, uint64_t after_y)
{
	int grown_x, grown_y;
	uint64_t x = compare_change(before_x, after_x, &grown_x);
	uint64_t y = compare_change(before_y, after_y, &grown_y);
	if (x != y)
		return x > y ? -1 : 1;
	return grown_y - grown_x;
}

static int by_change(const void *a, const void *b, void *inclusive)
{
	const struct compare_row *x = a, *y = b;
	int own = by_size(x->before, x->after, y->before, y->after);
	int all = by_size(x->before_inclusive, x->after_inclusive, y->before_inclusive,
			  y->after_inclusive);
	int first = *(const int *)inclusive ? all : own;
	if (first)
		return first;
	if (own || all)
		return own ? own : all;
	return x->key < y->key ? -1 : x->key > y->key;
}

static uint64_t whole_of(const struct prof *prof, enum view_cost cost)
{
	struct prof_totals totals;
	prof_totals(prof, &totals);
	return view_cost_of(&totals.cost, cost);
}

struct comparison *comparison_new(const struct prof *base, const struct prof *prof,
				  const struct view_opt *opt, int all, struct err *err)
{
	const struct prof *sides[] = { base, prof };
	struct parts parts = { .inclusive = opt->inclusive && view_by_frames(opt->by),
			       .programs = view_programs(base, prof) };
	int rc = 0;
	if (opt->by == VIEW_BY_THREAD) {
		err_set(err, -EINVAL, "cannot compare threads of two readings");
		err_hint(err, "--by stack, function, module, file or line");
		return NULL;
	}
	CLEANUP(comparison_freep) struct comparison *c = calloc(1, sizeof(*c));
	for (int side = 0; c && rc == 0 && side < 2; side++)
		rc = opt->by == VIEW_BY_STACK ? add_stacks(&parts, sides[side], side, opt->cost)
					      : add_groups(&parts, sides[side], side, opt, err);
	if (c && rc == 0)
		c->rows = calloc(parts.count + 1, sizeof(*c->rows));
	if (!c || !c->rows || rc < 0) {
		free(parts.items);
		err_set(err, -ENOMEM, "cannot compare the readings");
		return NULL;
	}
	join(c, &parts, all);
	free(parts.items);
	c->by = opt->by;
	c->cost = opt->cost;
	c->before = whole_of(base, opt->cost);
	c->after = whole_of(prof, opt->cost);
	qsort_r(c->rows, c->count, sizeof(*c->rows), by_change, &parts.inclusive);
	return STEAL(c);
}

void comparison_free(struct comparison *c)
{
	if (!c)
		return;
	free(c->rows);
	free(c);
}

void comparison_freep(struct comparison **comparison)
{
	comparison_free(*comparison);
}
