/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_fork.c - what the child of a fork takes along: the parent's recorder tells which blocks live
 * at the moment of the fork (a snapshot), the child's begins its books with them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/heap_internal.h"

/*
 * A snapshot is a recording, whose numbers begin at 1: what it defines is kept for the snapshots of
 * the child's own forks.
 */
struct heap_inherited {
	struct sink sink;
	struct source_heap *heap;
	struct sink *to;
	struct inherited_module {
		char *path;
		uint8_t build_id[32];
		uint8_t build_id_len;
		uint64_t bias, lo, hi;
	} * modules;
	struct inherited_frame {
		uint64_t offset;
		uint32_t module;
	} * frames;
	struct inherited_stack {
		uint32_t parent, frame;
		uint8_t stop;
	} * stacks;
	uint32_t module_count, module_max, frame_count, frame_max, stack_count, stack_max;
	uint64_t blocks, bytes;
	/* the parent did not know all that it inherited itself */
	int partly;
};

void source_heap_on_fork(struct source_heap *heap, int (*fork)(void *ctx, uint64_t number),
			 void *ctx)
{
	heap->fork = fork;
	heap->fork_ctx = ctx;
}

void source_heap_fork(const struct source_heap *heap, struct source_heap_fork *fork)
{
	fork->from = heap->tables.layout.forked_from;
	fork->number = heap->tables.layout.fork_number;
	fork->recorder = heap->tables.layout.fork_recorder;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* What this process inherited itself keeps its numbers. */
static int define_inherited(const struct heap_inherited *in, struct sink *sink, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < in->module_count && rc >= 0; i++) {
		const struct inherited_module *module = &in->modules[i];
		struct def def = { .kind = DEF_MODULE, .id = i + 1 };
		def.module.path = module->path;
		def.module.build_id_len = module->build_id_len;
		memcpy(def.module.build_id, module->build_id, module->build_id_len);
		def.module.bias = module->bias;
		def.module.lo = module->lo;
		def.module.hi = module->hi;
		rc = sink->define(sink, &def, err);
	}
	for (uint32_t i = 0; i < in->frame_count && rc >= 0; i++) {
		struct def def = { .kind = DEF_FRAME, .id = i + 1 };
		def.frame.module.v = in->frames[i].module;
		def.frame.offset = in->frames[i].offset;
		rc = sink->define(sink, &def, err);
	}
	for (uint32_t i = 0; i < in->stack_count && rc >= 0; i++) {
		struct def def = { .kind = DEF_STACK, .id = i + 1 };
		def.stack.parent.v = in->stacks[i].parent;
		def.stack.frame.v = in->stacks[i].frame;
		def.stack.stop = in->stacks[i].stop;
		rc = sink->define(sink, &def, err);
	}
	return rc;
}

/* Which node a stack that is not inherited was made from. */
static uint32_t *nodes_of_stacks(const struct source_heap *heap)
{
	uint32_t *node_of = calloc((size_t)heap->names.stack_count + 1, sizeof(*node_of));
	for (uint32_t node = 0; node_of && node < heap->names.node_cap; node++)
		if (heap->names.node_stack[node])
			node_of[heap->names.node_stack[node]] = node;
	return node_of;
}

/*
 * The blocks whose order is in (@after, @to], each under a stack that is told now. @renewed: these
 * are the books that go on, not a copy of them. Counted in @sum's addr and bytes.
 */
static int hand_some(struct source_heap *told, const uint32_t *node_of, uint32_t inherited,
		     uint64_t after, uint64_t to, int renewed, struct event *sum)
{
	for (uint32_t i = 0; i < told->books.live.numbers; i++) {
		struct live_block *block = (struct live_block *)live_at(&told->books.live, i);
		if (!block || block->order <= after || block->order > to)
			continue;
		uint32_t stack = block->stack;
		enum heap_run run =
			stack > inherited ? heap_define_stack(&told->names, node_of[stack], &stack)
					  : HEAP_RUN_EMPTY;
		/*
		 * the target may have written over it since: then the block has a stack without a
		 * number
		 */
		if (run == HEAP_RUN_BAD)
			run = heap_define_stack(&told->names, WIRE_STOP_NODES_FULL, &stack);
		if (run != HEAP_RUN_EMPTY)
			return told->out.err->code ? told->out.err->code : -EBADMSG;
		struct event *ev = heap_next_event(told, NULL);
		if (!ev)
			return told->out.err->code ? told->out.err->code : -EIO;
		ev->kind = EVENT_ALLOC;
		ev->addr = block->addr;
		ev->bytes = block->bytes;
		ev->stack.v = stack;
		ev->block.v = i;
		if (renewed) {
			block->stack = stack;
			ev->flags = EVENT_F_INHERITED;
		}
		sum->addr++;
		sum->bytes += ev->bytes;
	}
	return 0;
}

/*
 * All blocks that live. Those that were there when a free was lost come first: they may have been
 * freed by it.
 */
static int hand_blocks(struct source_heap *told, const uint32_t *node_of, uint32_t inherited,
		       int renewed, struct event *sum)
{
	uint64_t risk = told->books.risk_order;
	int rc = hand_some(told, node_of, inherited, 0, risk, renewed, sum);
	if (rc == 0 && risk) {
		rc = heap_place_lost(told, NULL);
		told->books.risk_order = risk;
	}
	return rc < 0 ? rc : hand_some(told, node_of, inherited, risk, UINT64_MAX, renewed, sum);
}

int source_heap_snapshot(struct source_heap *heap, struct sink *sink, struct err *err)
{
	const struct heap_inherited *in = heap->inherited;
	/* the same tables read, other numbers given out */
	struct source_heap told = *heap;
	told.out.sink = sink;
	told.out.err = err;
	told.names.path = NULL;
	told.names.path_cap = told.batched = 0;
	told.last_ns = 0; /* a snapshot has no time */
	told.stretch = NULL;
	told.names.borrowed = true;
	told.names.module_count = told.names.module_last = told.names.thread_count = 0;
	told.names.stack_count = in ? in->stack_count : 0;
	told.names.frame_count = in ? in->frame_count : 0;
	told.stats = (struct source_heap_stats){ 0 };
	told.names.modules_told = in ? in->module_count : 0;
	uint32_t *node_of = nodes_of_stacks(heap);
	told.batch = malloc(HEAP_BATCH * sizeof(*told.batch));
	int rc = heap_names_init(&told.names, &told.tables, &told.out, err);
	/* lent: to read a runtime's list of its code anew takes longer than all the rest */
	told.names.jit = heap->names.jit;
	if (rc == 0 && (!node_of || !told.batch))
		rc = err_set(err, -ENOMEM, "cannot allocate a snapshot");
	const struct def thread = { .kind = DEF_THREAD, .thread = { .tid = 0 } };
	if (rc == 0)
		rc = sink->define(sink, &thread, err);
	if (rc == 0 && in)
		rc = define_inherited(in, sink, err);
	struct event sum = { 0 };
	if (rc == 0)
		rc = hand_blocks(&told, node_of, in ? in->stack_count : 0, 0, &sum);
	if (rc == 0)
		rc = heap_flush(&told);
	if (rc == 0 && heap->tables.layout.forked_from && (!in || in->partly)) {
		const struct event unknown = { .kind = EVENT_FORKED };
		rc = sink->put(sink, &unknown, 1, err);
	}
	if (told.names.jit == heap->names.jit)
		told.names.jit = NULL;
	heap_names_fini(&told.names);
	free(told.batch);
	free(node_of);
	return rc;
}

int source_heap_renew(struct source_heap *heap, struct sink *sink, struct err *err)
{
	const struct heap_inherited *in = heap->inherited;
	uint32_t *node_of = nodes_of_stacks(heap), inherited = in ? in->stack_count : 0;
	if (!node_of)
		return err_set(err, -ENOMEM, "cannot begin another file");
	heap->out.sink = sink;
	heap->out.err = err;
	int rc = heap_names_restart(&heap->names);
	if (rc == 0 && in)
		rc = define_inherited(in, sink, err);
	if (in) {
		heap->names.modules_told = in->module_count;
		heap->names.frame_count = in->frame_count;
		heap->names.stack_count = in->stack_count;
	}
	/*
	 * who released them is asked for only with FREE_STACKS; those that are under way are not
	 * told
	 */
	for (uint32_t i = 0; i < heap->books.debt_count; i++)
		heap->books.debts[i].aux_stack = 0;
	for (uint32_t i = 0; i < heap->tables.layout.slot_count; i++)
		heap->merge.rings[i].realloc_aux = 0;
	struct event sum = { 0 };
	if (rc == 0)
		rc = hand_blocks(heap, node_of, inherited, 1, &sum);
	free(node_of);
	struct event *ev = rc == 0 ? heap_next_event(heap, NULL) : NULL;
	if (!ev)
		return rc < 0 ? rc : -EIO;
	ev->kind = EVENT_FORKED;
	ev->value = (uint64_t)heap->names.pid;
	ev->addr = sum.addr;
	ev->bytes = sum.bytes;
	ev->block.v = 1;
	return heap_flush(heap);
}

/* ---- taking over ----------------------------------------------------------------------------- */

static int no_room(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot hold the parent's stacks");
}

/* Room for one more row of @bytes in @*rows. */
static int grow(void *rows, uint32_t count, uint32_t *max, size_t bytes, struct err *err)
{
	void **at = rows;
	if (count < *max)
		return 0;
	uint32_t more = *max ? *max * 2 : 64;
	void *grown = more > *max ? realloc(*at, more * bytes) : NULL;
	if (!grown)
		return no_room(err);
	*at = grown;
	*max = more;
	return 0;
}

static int take_module(struct heap_inherited *in, const struct def *def, struct err *err)
{
	if (grow(&in->modules, in->module_count, &in->module_max, sizeof(*in->modules), err) < 0)
		return err->code;
	struct inherited_module *to = &in->modules[in->module_count];
	*to = (struct inherited_module){ .build_id_len = def->module.build_id_len,
					 .bias = def->module.bias,
					 .lo = def->module.lo,
					 .hi = def->module.hi };
	memcpy(to->build_id, def->module.build_id, sizeof(to->build_id));
	if (def->module.path && !(to->path = strdup(def->module.path)))
		return no_room(err);
	in->module_count++;
	in->heap->names.modules_told = in->module_count;
	return 0;
}

static int inherit_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct heap_inherited *in = (struct heap_inherited *)sink;
	int rc = 0, known = 1;
	switch (def->kind) {
	case DEF_MODULE:
		known = def->id == in->module_count + 1;
		rc = known ? take_module(in, def, err) : 0;
		break;
	case DEF_FRAME:
		known = def->id == in->frame_count + 1 && def->frame.module.v <= in->module_count;
		rc = known ? grow(&in->frames, in->frame_count, &in->frame_max, sizeof(*in->frames),
				  err)
			   : 0;
		if (rc < 0 || !known)
			break;
		in->frames[in->frame_count++] =
			(struct inherited_frame){ def->frame.offset, def->frame.module.v };
		in->heap->names.frame_count = in->frame_count;
		break;
	case DEF_STACK:
		known = def->id == in->stack_count + 1 && def->stack.parent.v < def->id &&
			def->stack.frame.v <= in->frame_count;
		rc = known ? grow(&in->stacks, in->stack_count, &in->stack_max, sizeof(*in->stacks),
				  err)
			   : 0;
		if (rc < 0 || !known)
			break;
		in->stacks[in->stack_count++] =
			(struct inherited_stack){ def->stack.parent.v, def->stack.frame.v,
						  def->stack.stop };
		in->heap->names.stack_count = in->stack_count;
		break;
	default: /* threads and the process are the parent's */
		return 0;
	}
	if (!known)
		return err_set(err, -EBADMSG, "the parent's snapshot breaks its order");
	return rc < 0 ? rc : in->to->define(in->to, def, err);
}

static int inherit_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct heap_inherited *in = (struct heap_inherited *)sink;
	struct source_heap *heap = in->heap;
	heap->out.sink = in->to;
	heap->out.err = err;
	for (size_t i = 0; i < count; i++) {
		uint32_t block;
		in->partly |= events[i].kind == EVENT_FORKED;
		if (events[i].kind == EVENT_LOST && heap_place_lost(heap, NULL) < 0)
			return err->code ? err->code : -EIO;
		/* no record could name such an address */
		if (events[i].kind != EVENT_ALLOC || events[i].stack.v > in->stack_count ||
		    events[i].addr >> 56)
			continue;
		enum live_result result = live_add(&heap->books.live, events[i].addr,
						   events[i].bytes, events[i].stack.v, &block);
		if (result == LIVE_EXISTS)
			continue;
		if (result == LIVE_NOMEM)
			return no_room(err);
		struct event *ev = heap_next_event(heap, NULL);
		if (!ev)
			return err->code ? err->code : -EIO;
		ev->kind = EVENT_ALLOC;
		ev->flags = EVENT_F_INHERITED;
		ev->addr = events[i].addr;
		ev->bytes = events[i].bytes;
		ev->stack = events[i].stack;
		ev->block.v = block;
		heap->books.live_bytes += events[i].bytes;
		in->blocks++;
		in->bytes += events[i].bytes;
	}
	return heap_flush(heap);
}

struct sink *source_heap_inherit(struct source_heap *heap, struct sink *sink, struct err *err)
{
	uint32_t thread;
	struct heap_inherited *in = calloc(1, sizeof(*in));
	if (!in) {
		no_room(err);
		return NULL;
	}
	*in = (struct heap_inherited){ .sink = { .define = inherit_define, .put = inherit_put },
				       .heap = heap,
				       .to = sink };
	heap->inherited = in;
	heap->out.sink = sink;
	heap->out.err = err;
	/* the child's only thread goes on where the one that forked stopped */
	if (heap_thread_of(&heap->names, heap->tables.header->target_pid, 0, &thread) !=
	    HEAP_RUN_EMPTY) {
		if (!err->code)
			err_set(err, -EBADMSG, "the shared file names no process");
		return NULL;
	}
	return &in->sink;
}

int source_heap_inherited(struct source_heap *heap, struct sink *sink, int known, struct err *err)
{
	const struct heap_inherited *in = heap->inherited;
	heap->out.sink = sink;
	heap->out.err = err;
	struct event *ev = heap_next_event(heap, NULL);
	if (!ev)
		return err->code ? err->code : -EIO;
	ev->kind = EVENT_FORKED;
	ev->value = heap->tables.layout.forked_from;
	ev->addr = in ? in->blocks : 0;
	ev->bytes = in ? in->bytes : 0;
	ev->block.v = known && !(in && in->partly) ? 1 : 0;
	return heap_flush(heap);
}

void heap_fork_fini(struct source_heap *heap)
{
	struct heap_inherited *in = heap->inherited;
	if (!in)
		return;
	for (uint32_t i = 0; i < in->module_count; i++)
		free(in->modules[i].path);
	free(in->modules);
	free(in->frames);
	free(in->stacks);
	free(in);
}
