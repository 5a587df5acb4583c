/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c - the tree of keys: frames by key, transforms on the way down, sums. */
#include "view/fold.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/intern.h"
#include "base/spare.h"
#include "view/impl.h"

/** struct state - what the way down to a stack row has led to. */
struct state {
	uint32_t node;
	/* by step: FOLD_MODULE: the frame before was in it; FOCUS, DROP: met */
	uint32_t bits;
};

struct build {
	struct fold *fold;
	const struct fold_opt *opt;
	uint32_t node_cap, frame_cap;
	struct idtab node_tab, frame_tab;
	uint64_t seed;
	/* by frame, bit i: step i means it */
	uint32_t *match;
	uint32_t match_cap;
	/* FOLD_MODULE: the box */
	uint32_t step_frame[FOLD_STEPS_MAX];
	/* bits that an account must have */
	uint32_t needed;
	uint32_t forbidden;
	/* of the side that is read, and of the first one */
	struct view_programs programs;
	/* neighbours with one key are one box */
	int merges;
	int no_room;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot fold the stacks");
}

static void *grown(void *items, uint32_t count, uint32_t *cap, size_t item_bytes)
{
	if (count < *cap)
		return items;
	uint64_t want = *cap ? 2 * (uint64_t)*cap : 1024;
	items = want > UINT32_MAX ? NULL : realloc(items, want * item_bytes);
	if (items)
		*cap = (uint32_t)want;
	return items;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static uint32_t match_bits(const struct build *b, const struct fold_frame *frame)
{
	uint32_t bits = 0;
	for (unsigned i = 0; i < b->opt->step_count; i++) {
		const struct fold_step *step = &b->opt->steps[i];
		int is = step->op == FOLD_MODULE
				 ? frame->module && strcmp(frame->module, step->module) == 0
				 : frame->key == step->key;
		bits |= (uint32_t)is << i;
	}
	return bits;
}

/** frame_add() - its number, that of an equal one where there is one; 0 without memory. */
static uint32_t frame_add(struct build *b, const struct fold_frame *frame)
{
	struct fold *f = b->fold;
	if (idtab_reserve(&b->frame_tab) < 0)
		return 0;
	uint32_t hash = (uint32_t)hash_u64(frame->key, 0, b->seed);
	uint32_t at = idtab_first(&b->frame_tab, hash);
	for (; b->frame_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&b->frame_tab, at))
		if (b->frame_tab.slots[at].hash == hash &&
		    f->frames[b->frame_tab.slots[at].id].key == frame->key) {
			f->frames[b->frame_tab.slots[at].id].inlined &= frame->inlined;
			return b->frame_tab.slots[at].id;
		}
	struct fold_frame *frames =
		grown(f->frames, f->frame_count, &b->frame_cap, sizeof(*frames));
	if (!frames)
		return 0;
	f->frames = frames;
	uint32_t *match = grown(b->match, f->frame_count, &b->match_cap, sizeof(*match));
	if (!match)
		return 0;
	b->match = match;
	uint32_t id = f->frame_count++;
	f->frames[id] = *frame;
	b->match[id] = match_bits(b, frame);
	idtab_put(&b->frame_tab, at, hash, id);
	return id;
}

/** entry_add() - one entry of a frame row, as the grouping has it. */
static uint32_t entry_add(struct build *b, const struct prof *names, const struct prof_frame *row,
			  uint32_t i)
{
	struct view_frame v;
	enum view_by by = b->opt->by;
	view_frame_at(names, row, i, &v);
	/* code without a name is known by its place, which another build does not share */
	if (v.function || by == VIEW_BY_MODULE)
		v.module = view_program_module(&b->programs, v.module);
	struct fold_frame frame = { .key = view_frame_key(&v, by),
				    .function = v.function,
				    .module = v.module,
				    .path = prof_module(names, row->module)->path,
				    .file = v.file,
				    .offset = v.offset,
				    .line = v.line,
				    .inlined = v.inlined };
	if (by == VIEW_BY_MODULE) {
		frame.function = frame.file = NULL;
		frame.inlined = 0;
		frame.folded = 1;
	} else if (by == VIEW_BY_FILE && v.file) {
		frame.function = NULL;
	}
	if (by == VIEW_BY_MODULE || by == VIEW_BY_FILE)
		frame.line = 0;
	return frame_add(b, &frame);
}

static uint32_t reason_add(struct build *b, unsigned stop)
{
	const char *label = view_stop_label(stop);
	struct fold_frame frame = { .key = view_key_function(NULL, label, 0),
				    .function = label,
				    .reason = 1 };
	return frame_add(b, &frame);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/** child() - the node of @frame below @parent; FOLD_NONE: no memory, or no room (build.no_room). */
static uint32_t child(struct build *b, uint32_t parent, uint32_t frame)
{
	struct fold *f = b->fold;
	uint32_t first = f->nodes[parent].first_child;
	if (first && f->nodes[first].frame == frame)
		return first;
	if (idtab_reserve(&b->node_tab) < 0)
		return FOLD_NONE;
	uint32_t hash = (uint32_t)hash_u64(frame, parent, b->seed);
	uint32_t at = idtab_first(&b->node_tab, hash);
	for (; first && b->node_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&b->node_tab, at)) {
		const struct fold_node *n = &f->nodes[b->node_tab.slots[at].id];
		if (b->node_tab.slots[at].hash == hash && n->parent == parent && n->frame == frame)
			return b->node_tab.slots[at].id;
	}
	if (f->node_count >= FOLD_NODES_MAX) {
		b->no_room = 1;
		return FOLD_NONE;
	}
	struct fold_node *nodes = grown(f->nodes, f->node_count, &b->node_cap, sizeof(*nodes));
	if (!nodes)
		return FOLD_NONE;
	f->nodes = nodes;
	uint32_t id = f->node_count++;
	nodes[id] =
		(struct fold_node){ .parent = parent,
				    .frame = frame,
				    .next = first ? nodes[first].next : 0,
				    .key = view_key_mix(nodes[parent].key, f->frames[frame].key) };
	if (!first) {
		nodes[parent].first_child = id;
		return id;
	}
	nodes[first].next = id; /* the first stays in its place: most are found there */
	while (b->node_tab.slots[at].id != IDTAB_NONE)
		at = idtab_next(&b->node_tab, at);
	idtab_put(&b->node_tab, at, hash, id);
	return id;
}

/**
 * enter() - @frame at the end of the way: 0, or -1 without memory; without room the way ends where
 * it is.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): an inner loop */
static int enter(struct build *b, struct state *s, uint32_t frame)
{
	const struct fold_opt *opt = b->opt;
	struct fold *f = b->fold;
	for (unsigned i = 0; i < opt->step_count; i++) {
		uint32_t bit = 1u << i;
		int is = (b->match[frame] & bit) != 0;
		switch (opt->steps[i].op) {
		case FOLD_HIDE:
			if (is)
				return 0;
			break;
		case FOLD_MODULE:
			if (!is) {
				s->bits &= ~bit;
				break;
			}
			if (s->bits & bit)
				return 0;
			s->bits |= bit;
			if (!b->step_frame[i]) {
				const struct fold_frame *of = &f->frames[frame];
				struct fold_frame box = { .key = view_key_function(of->module, "",
										   0),
							  .module = of->module,
							  .path = of->path,
							  .folded = 1 };
				b->step_frame[i] = frame_add(b, &box);
				if (!b->step_frame[i])
					return -1;
			}
			frame = b->step_frame[i];
			break;
		case FOLD_DROP:
			if (is)
				s->bits |= bit;
			break;
		case FOLD_FOCUS:
			if (is)
				s->bits |= bit;
			if (!(s->bits & bit))
				return 0;
			break;
		}
	}
	if (b->merges && s->node && f->nodes[s->node].frame == frame)
		return 0;
	if (opt->rec) {
		for (uint32_t at = s->node; at; at = f->nodes[at].parent) {
			if (f->nodes[at].frame == frame) {
				s->node = at;
				return 0;
			}
		}
	}
	uint32_t node = child(b, s->node, frame);
	if (node == FOLD_NONE)
		return b->no_room ? 0 : -1;
	s->node = node;
	return 0;
}

/* ---- one reading ----------------------------------------------------------------------------- */

struct way {
	struct build *b;
	const struct prof *names;
	/* by stack row */
	struct state *state;
	/* by stack row */
	uint8_t *wanted;
	/* by account: view_canonical() */
	struct stack_id *canonical;
	/* by frame row: 1 + view_frame_hidden(); 0: not looked at yet, 255: each time */
	uint8_t *hidden;
	/* by frame row: its place in @entries plus one */
	uint32_t *first_entry;
	/* fold frames, innermost first */
	uint32_t *entries;
	uint32_t entry_count, entry_cap;
};

/**
 * struct fold_owners - who asked, by account, found when it is first asked for: most pictures have
 * no use for it.
 */
struct fold_owners {
	pthread_mutex_t lock;
	struct fold_side sides[FOLD_SIDES_MAX];
	/* as in struct way */
	uint32_t *first_entry[FOLD_SIDES_MAX], *entries[FOLD_SIDES_MAX];
	/* by account: the frame; NULL: not asked for yet */
	uint32_t *of[FOLD_SIDES_MAX];
	int transformed;
};

/** hidden_of() - view_frame_hidden(), each name looked at once. */
static uint32_t hidden_of(struct way *w, struct frame_id row, const struct prof_frame *frame)
{
	uint8_t *known = &w->hidden[row.v];
	if (*known && *known != UINT8_MAX)
		return *known - 1u;
	uint32_t hidden = view_frame_hidden(frame);
	*known = hidden < UINT8_MAX - 1 ? (uint8_t)(hidden + 1) : UINT8_MAX;
	return hidden;
}

/** canonical_of() - view_canonical() by these. */
static struct stack_id canonical_of(struct way *w, struct stack_id stack)
{
	struct stack_id at = stack;
	for (;;) {
		const struct prof_stack *s = prof_stack(w->names, at);
		if (at.v == 0 || s->stop)
			return stack;
		const struct prof_frame *f = prof_frame(w->names, s->frame);
		if (f->symbol_count == 0 || hidden_of(w, s->frame, f) < f->symbol_count)
			return at;
		at = s->parent;
	}
}

/** entries_of() - the fold frames of a frame row; NULL without memory. */
static const uint32_t *entries_of(struct way *w, struct frame_id row,
				  const struct prof_frame *frame)
{
	uint32_t count = view_frame_count(frame);
	if (!w->first_entry[row.v]) {
		uint32_t first = w->entry_count;
		for (uint32_t i = 0; i < count; i++) {
			uint32_t *entries =
				grown(w->entries, w->entry_count, &w->entry_cap, sizeof(*entries));
			uint32_t id = entries ? entry_add(w->b, w->names, frame, i) : 0;
			if (entries)
				w->entries = entries;
			if (!id)
				return NULL;
			w->entries[w->entry_count++] = id;
		}
		w->first_entry[row.v] = first + 1;
	}
	return w->entries + w->first_entry[row.v] - 1;
}

/** walk() - the entries of @stack below @state, but for the @hidden innermost ones. */
static int walk(struct way *w, const struct prof_stack *stack, uint32_t hidden, struct state *state)
{
	if (stack->stop) {
		uint32_t frame = reason_add(w->b, stack->stop);
		return frame ? enter(w->b, state, frame) : -1;
	}
	const struct prof_frame *frame = prof_frame(w->names, stack->frame);
	const uint32_t *entries = entries_of(w, stack->frame, frame);
	if (!entries)
		return -1;
	/*
	 * entering may make frames, and so move what @entries points into: only their numbers are
	 * used
	 */
	for (uint32_t i = view_frame_count(frame); i-- > hidden;) {
		if (enter(w->b, state, w->entries[w->first_entry[stack->frame.v] - 1 + i]) < 0)
			return -1;
	}
	return 0;
}

static int follow(struct way *w, const struct fold_side *side, uint32_t *node_of)
{
	uint32_t rows = prof_stack_count(w->names);
	for (uint32_t i = 0; i < side->count; i++) {
		struct stack_id at = canonical_of(w, (struct stack_id){ side->stacks[i] });
		w->canonical[i] = at;
		for (; at.v && !w->wanted[at.v]; at = prof_stack(w->names, at)->parent)
			w->wanted[at.v] = 1;
	}
	for (uint32_t row = 1; row < rows; row++) {
		if (!w->wanted[row])
			continue;
		const struct prof_stack *stack = prof_stack(w->names, (struct stack_id){ row });
		w->state[row] = w->state[stack->parent.v];
		if (walk(w, stack, 0, &w->state[row]) < 0)
			return -1;
	}
	const struct build *b = w->b;
	for (uint32_t i = 0; i < side->count; i++) {
		struct stack_id at = w->canonical[i];
		const struct prof_stack *stack = prof_stack(w->names, at);
		struct state state = w->state[at.v];
		if (at.v && !stack->stop) {
			const struct prof_frame *frame = prof_frame(w->names, stack->frame);
			uint32_t hidden = hidden_of(w, stack->frame, frame);
			if (hidden && hidden < view_frame_count(frame)) {
				state = w->state[stack->parent.v];
				if (walk(w, stack, hidden, &state) < 0)
					return -1;
			}
		}
		int in = (state.bits & b->needed) == b->needed && !(state.bits & b->forbidden);
		node_of[i] = in ? state.node : FOLD_NONE;
	}
	return 0;
}

static int add_side(struct build *b, const struct fold_side *side, unsigned number)
{
	uint32_t rows = prof_stack_count(side->names), frames = prof_frame_count(side->names);
	uint32_t *node_of = calloc(side->count + 1, sizeof(*node_of));
	b->fold->node_of[number] = node_of;
	b->fold->accounts[number] = side->count;
	struct way w = { .b = b, .names = side->names };
	b->programs = view_programs(side->names, number ? b->fold->owners->sides[0].names : NULL);
	w.state = calloc(rows + 1, sizeof(*w.state));
	w.wanted = calloc(rows + 1, 1);
	w.canonical = calloc(side->count + 1, sizeof(*w.canonical));
	w.hidden = calloc(frames + 1, 1);
	w.first_entry = calloc(frames + 1, sizeof(*w.first_entry));
	int rc = node_of && w.state && w.wanted && w.canonical && w.hidden && w.first_entry
			 ? follow(&w, side, node_of)
			 : -1;
	free(w.state);
	free(w.wanted);
	free(w.canonical);
	free(w.hidden);
	struct fold_owners *owners = b->fold->owners;
	owners->sides[number] = *side;
	owners->first_entry[number] = w.first_entry;
	owners->entries[number] = w.entries;
	return rc;
}

/**
 * note_recursion() - which nodes have their frame above themselves, too; and how many nodes each
 * frame has.
 */
static int note_recursion(struct fold *f)
{
	uint32_t *on_path = calloc(f->frame_count, sizeof(*on_path)), at = 0;
	if (!on_path)
		return -1;
	for (;;) {
		struct fold_node *n = &f->nodes[at];
		if (at) {
			n->recurs = on_path[n->frame]++ != 0;
			f->frames[n->frame].passes++;
		}
		if (n->first_child) {
			at = n->first_child;
			continue;
		}
		while (at) {
			on_path[f->nodes[at].frame]--;
			if (f->nodes[at].next)
				break;
			at = f->nodes[at].parent;
		}
		if (!at)
			break;
		at = f->nodes[at].next;
	}
	free(on_path);
	return 0;
}

struct fold *fold_new(const struct fold_opt *opt, const struct fold_side *sides, unsigned count,
		      struct err *err)
{
	CLEANUP(fold_freep) struct fold *fold = calloc(1, sizeof(*fold));
	struct build b = { .fold = fold, .opt = opt, .seed = hash_seed() };
	if (!fold || !(fold->owners = calloc(1, sizeof(*fold->owners)))) {
		no_memory(err);
		return NULL;
	}
	pthread_mutex_init(&fold->owners->lock, NULL);
	fold->owners->transformed = opt->step_count || opt->rec;
	fold->by = opt->by;
	b.merges = opt->by == VIEW_BY_MODULE || opt->by == VIEW_BY_FILE;
	for (unsigned i = 0; i < opt->step_count; i++) {
		b.needed |= (uint32_t)(opt->steps[i].op == FOLD_FOCUS) << i;
		b.forbidden |= (uint32_t)(opt->steps[i].op == FOLD_DROP) << i;
	}
	fold->nodes = grown(NULL, 0, &b.node_cap, sizeof(*fold->nodes));
	fold->frames = grown(NULL, 0, &b.frame_cap, sizeof(*fold->frames));
	b.match = grown(NULL, 0, &b.match_cap, sizeof(*b.match));
	int rc = fold->nodes && fold->frames && b.match ? 0 : -1;
	if (rc == 0) {
		fold->nodes[0] = (struct fold_node){ .key = VIEW_KEY_ROOT };
		fold->frames[0] = (struct fold_frame){ 0 };
		b.match[0] = 0;
		fold->node_count = fold->frame_count = 1;
	}
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = add_side(&b, &sides[i], i);
	if (rc == 0)
		rc = note_recursion(fold);
	fold->cut = (uint32_t)b.no_room;
	idtab_fini(&b.node_tab);
	idtab_fini(&b.frame_tab);
	free(b.match);
	if (rc < 0) {
		no_memory(err);
		return NULL;
	}
	return STEAL(fold);
}

void fold_free(struct fold *fold)
{
	if (!fold)
		return;
	struct fold_owners *owners = fold->owners;
	for (unsigned i = 0; i < FOLD_SIDES_MAX; i++) {
		free(fold->node_of[i]);
		if (!owners)
			continue;
		free(owners->first_entry[i]);
		free(owners->entries[i]);
		free(owners->of[i]);
	}
	if (owners)
		pthread_mutex_destroy(&owners->lock);
	free(owners);
	free(fold->frames);
	free(fold->nodes);
	free(fold);
}

void fold_freep(struct fold **fold)
{
	fold_free(*fold);
	*fold = NULL;
}

/* ---- sums ------------------------------------------------------------------------------------ */

int fold_sum(const struct fold *fold, unsigned side, const uint64_t *values, struct fold_sums *sums,
	     struct err *err)
{
	sums->self = spare_calloc(fold->node_count, sizeof(*sums->self));
	sums->total = spare_calloc(fold->node_count, sizeof(*sums->total));
	if (!sums->self || !sums->total) {
		fold_sums_fini(sums);
		return no_memory(err);
	}
	for (uint32_t i = 0; values && i < fold->accounts[side]; i++)
		if (fold->node_of[side][i] != FOLD_NONE)
			sum_add(&sums->self[fold->node_of[side][i]], values[i]);
	memcpy(sums->total, sums->self, fold->node_count * sizeof(*sums->self));
	for (uint32_t i = fold->node_count; i-- > 1;)
		sum_add(&sums->total[fold->nodes[i].parent], sums->total[i]);
	return 0;
}

void fold_sums_fini(struct fold_sums *sums)
{
	spare_free(sums->self);
	spare_free(sums->total);
	*sums = (struct fold_sums){ 0 };
}

/* ---- who asked ------------------------------------------------------------------------------- */

/**
 * owner_of() - the frame that asked, on the way to @node as the transforms left it. @roles: by
 * frame, 1 + its role; 0: not looked at.
 */
static uint32_t owner_of(const struct fold *f, uint32_t node, uint8_t *roles)
{
	for (uint32_t at = node; at; at = f->nodes[at].parent) {
		uint32_t number = f->nodes[at].frame;
		const struct fold_frame *frame = &f->frames[number];
		if (!roles[number])
			roles[number] = (uint8_t)(1 + view_role(frame->function));
		if (frame->reason || roles[number] == 1 + VIEW_START)
			break;
		if (roles[number] == 1 + VIEW_OWN)
			return number;
	}
	return f->nodes[node].frame;
}

/**
 * find_owners() - without transforms as tables have it: also where frames of one group lie between.
 */
static int find_owners(const struct fold *f, unsigned number)
{
	struct fold_owners *o = f->owners;
	const struct fold_side *side = &o->sides[number];
	uint32_t *of = calloc(side->count + 1, sizeof(*of));
	uint8_t *roles = calloc(f->frame_count, 1);
	struct view_owns owns = { 0 };
	int rc = of && roles ? 0 : -ENOMEM;
	if (rc == 0 && !o->transformed)
		rc = view_owns_init(&owns, side->names, NULL);
	for (uint32_t i = 0; i < side->count && rc == 0; i++) {
		struct frame_id frame;
		uint32_t entry, node = f->node_of[number][i];
		if (node == FOLD_NONE)
			continue;
		/* every frame of a stack that is in the tree has its entries */
		if (!o->transformed &&
		    view_owns_stack(&owns, (struct stack_id){ side->stacks[i] }, &frame, &entry) &&
		    o->first_entry[number][frame.v])
			of[i] = o->entries[number][o->first_entry[number][frame.v] - 1 + entry];
		else
			of[i] = owner_of(f, node, roles);
	}
	view_owns_fini(&owns);
	free(roles);
	if (rc < 0)
		free(of);
	else
		o->of[number] = of;
	return rc;
}

int fold_own_sums(const struct fold *fold, unsigned side, const uint64_t *values, uint64_t *own,
		  struct err *err)
{
	struct fold_owners *o = fold->owners;
	pthread_mutex_lock(&o->lock);
	int rc = o->of[side] || !fold->accounts[side] ? 0 : find_owners(fold, side);
	pthread_mutex_unlock(&o->lock);
	if (rc < 0)
		return no_memory(err);
	for (uint32_t i = 0; i < fold->accounts[side]; i++)
		if (fold->node_of[side][i] != FOLD_NONE)
			sum_add(&own[o->of[side][i]], values[i]);
	return 0;
}

void fold_inclusive_sums(const struct fold *fold, const struct fold_sums *sums, uint64_t *inclusive)
{
	for (uint32_t i = 1; i < fold->node_count; i++)
		if (!fold->nodes[i].recurs)
			sum_add(&inclusive[fold->nodes[i].frame], sums->total[i]);
}

uint32_t fold_frame_of(const struct fold *fold, uint64_t key)
{
	for (uint32_t i = 1; i < fold->frame_count; i++)
		if (fold->frames[i].key == key)
			return i;
	return FOLD_NONE;
}
