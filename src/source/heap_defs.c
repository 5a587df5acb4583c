/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_defs.c - what the target numbered, in our numbers: nodes to frames and stacks, modules, threads. Everything is
 * copied once, checked, then used; what was used once is never read again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"
#include "proc/proc.h"
#include "source/heap_internal.h"
#include "wire/heap_start.h"

#define FRAMES_FIRST (1u << 12)
#define THREADS_FIRST 64
/* A tid seen again this long after its thread's end is another thread; sooner, it is a late free of the same one. */
#define TID_REUSE_NS 100000000u
#define RENAME_FIRST_NS 5000000u

int heap_defs_init(struct source_heap *heap, struct err *err)
{
	if (!heap->node_cap)
		heap->node_cap = heap->layout.node_max;
	heap->node_stack = huge_resize(NULL, 0, (size_t)heap->node_cap * sizeof(*heap->node_stack));
	heap->branches = NULL;
	heap->known = NULL;
	heap->branch_count = heap->known_count = 0;
	heap->frames = calloc(FRAMES_FIRST, sizeof(*heap->frames));
	heap->frame_mask = FRAMES_FIRST - 1;
	heap->pcs = calloc(HEAP_PCS, sizeof(*heap->pcs));
	heap->modules = calloc(heap->layout.module_max, sizeof(*heap->modules));
	heap->threads = calloc(THREADS_FIRST, sizeof(*heap->threads));
	heap->thread_max = THREADS_FIRST;
	heap->living = calloc(THREADS_FIRST, sizeof(*heap->living));
	heap->thread_index = calloc(THREADS_FIRST * 2, sizeof(*heap->thread_index));
	heap->thread_mask = THREADS_FIRST * 2 - 1;
	if (!heap->node_stack || !heap->frames || !heap->pcs || !heap->modules || !heap->threads ||
	    !heap->living || !heap->thread_index)
		return err_set(err, -ENOMEM, "cannot allocate the recorder's tables");
	return 0;
}

void heap_defs_fini(struct source_heap *heap)
{
	huge_free(heap->node_stack, (size_t)heap->node_cap * sizeof(*heap->node_stack));
	heap_forget_stacks(heap);
	free(heap->path);
	free(heap->frames);
	free(heap->pcs);
	free(heap->modules);
	jitmap_free(heap->jit);
	free(heap->threads);
	free(heap->living);
	free(heap->thread_index);
}

static enum heap_run hand_over(struct source_heap *heap, const struct def *def)
{
	return heap->sink->define(heap->sink, def, heap->err) < 0 ? HEAP_RUN_FAILED
								  : HEAP_RUN_EMPTY;
}

static enum heap_run out_of_memory(struct source_heap *heap)
{
	err_set(heap->err, -ENOMEM, "cannot allocate memory for the recorder's tables");
	return HEAP_RUN_FAILED;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static bool is_own(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strcmp(slash ? slash + 1 : path, WIRE_PRELOAD_NAME) == 0;
}

/* Copy what the target has added to its table; a row that makes no sense is kept as a hole, its addresses as bare ones. */
static __attribute__((noinline)) enum heap_run read_modules(struct source_heap *heap,
							    uint32_t count)
{
	if (count > heap->layout.module_max)
		return HEAP_RUN_BAD;
	const struct wire_module *table =
		(const struct wire_module *)(heap->base + heap->layout.modules_off);
	if (heap->module_count < count)
		memset(heap->pcs, 0, HEAP_PCS * sizeof(*heap->pcs));
	while (heap->module_count < count) {
		struct wire_module row;
		memcpy(&row, &table[heap->module_count], sizeof(row));
		struct heap_module *module = &heap->modules[heap->module_count];
		*module = (struct heap_module){ .index = heap->module_count++ };
		uint32_t end;
		if (row.lo >= row.hi || row.build_id_len > sizeof(row.build_id) ||
		    __builtin_add_overflow(row.path_off, row.path_len, &end) ||
		    end > heap->layout.string_bytes)
			continue;
		char path[UINT16_MAX + 1];
		memcpy(path, heap->base + heap->layout.strings_off + row.path_off, row.path_len);
		path[row.path_len] = '\0';
		module->lo = row.lo;
		module->hi = row.hi;
		module->bias = row.bias;
		module->id = ++heap->stats.modules;
		if (is_own(path)) {
			heap->own_lo = row.lo;
			heap->own_hi = row.hi;
		}
		struct def def = { .kind = DEF_MODULE, .id = module->id };
		def.module.path = path;
		def.module.build_id_len = row.build_id_len;
		memcpy(def.module.build_id, row.build_id, row.build_id_len);
		def.module.bias = row.bias;
		def.module.lo = row.lo;
		def.module.hi = row.hi;
		enum heap_run run = hand_over(heap, &def);
		if (run != HEAP_RUN_EMPTY)
			return run;
	}
	return HEAP_RUN_EMPTY;
}

static bool module_holds(const struct source_heap *heap, const struct heap_module *module,
			 uint64_t pc, uint32_t gen)
{
	if (pc < module->lo || pc >= module->hi)
		return false;
	const struct wire_module *row =
		(const struct wire_module *)(heap->base + heap->layout.modules_off) + module->index;
	uint32_t until = __atomic_load_n(&row->gen_until, __ATOMIC_ACQUIRE);
	return gen >= __atomic_load_n(&row->gen_from, __ATOMIC_RELAXED) &&
	       (until == 0 || gen < until);
}

static const struct heap_module *find_module(struct source_heap *heap, uint64_t pc, uint32_t gen)
{
	if (heap->module_last < heap->module_count &&
	    module_holds(heap, &heap->modules[heap->module_last], pc, gen))
		return &heap->modules[heap->module_last];
	/* the newest first: where a new module took an old one's place, a node of the same moment means the new one */
	for (uint32_t i = heap->module_count; i-- > 0;) {
		if (module_holds(heap, &heap->modules[i], pc, gen)) {
			heap->module_last = i;
			return &heap->modules[i];
		}
	}
	return NULL;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static uint32_t frame_hash(uint64_t offset, uint32_t module)
{
	uint64_t h = (offset ^ ((uint64_t)module << 44)) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ULL;
	return (uint32_t)(h >> 32);
}

static int grow_frames(struct source_heap *heap)
{
	uint32_t mask = heap->frame_mask * 2 + 1;
	struct heap_frame_slot *frames = calloc((size_t)mask + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i <= heap->frame_mask; i++) {
		if (!heap->frames[i].id)
			continue;
		uint32_t k = frame_hash(heap->frames[i].offset, heap->frames[i].module) & mask;
		while (frames[k].id)
			k = (k + 1) & mask;
		frames[k] = heap->frames[i];
	}
	free(heap->frames);
	heap->frames = frames;
	heap->frame_mask = mask;
	return 0;
}

static struct heap_pc *pc_place(const struct source_heap *heap, uint64_t pc)
{
	return &heap->pcs[pc * 0x9e3779b97f4a7c15ULL >> 32 & (HEAP_PCS - 1)];
}

/* Code that the program has made, by its name: it may move, and another may come to its place. */
static const struct jit_code *find_jit(struct source_heap *heap, uint64_t addr)
{
	if (heap->raw || heap->pid <= 0 || !addr)
		return NULL;
	if (!heap->jit)
		heap->jit = jitmap_new(heap->pid, (pid_t)heap->header->target_pid);
	if (!heap->jit)
		return NULL;
	jitmap_poll(heap->jit);
	return jitmap_find(heap->jit, addr);
}

static enum heap_run define_jit_module(struct source_heap *heap)
{
	if (heap->jit_module)
		return HEAP_RUN_EMPTY;
	heap->jit_module = ++heap->stats.modules;
	struct def def = { .kind = DEF_MODULE, .id = heap->jit_module };
	def.module.path = "[made at run time]";
	return hand_over(heap, &def);
}

static enum heap_run name_frame(struct source_heap *heap, uint32_t frame,
				const struct jit_code *code)
{
	const struct symbol symbol = { .function = code->function,
				       .file = code->file,
				       .line = code->line };
	struct def def = { .kind = DEF_SYMBOL, .id = frame };
	def.symbol.symbols = &symbol;
	def.symbol.count = 1;
	return hand_over(heap, &def);
}

enum heap_run heap_name_rest(struct source_heap *heap)
{
	enum heap_run run = HEAP_RUN_EMPTY;
	if (!heap->jit)
		return run;
	jitmap_poll(heap->jit);
	for (uint32_t i = 0; i <= heap->frame_mask && run == HEAP_RUN_EMPTY; i++) {
		const struct heap_frame_slot *slot = &heap->frames[i];
		const struct jit_code *code =
			slot->id && !slot->module ? jitmap_find(heap->jit, slot->offset) : NULL;
		if (code)
			run = name_frame(heap, slot->id, code);
	}
	return run;
}

enum heap_run heap_define_frame(struct source_heap *heap, uint64_t pc, uint32_t gen, uint32_t *id)
{
	struct heap_pc *known = pc_place(heap, pc);
	if (known->frame && known->pc == pc && known->gen == gen) {
		*id = known->frame;
		return HEAP_RUN_EMPTY;
	}
	/* a return address may stand just behind a module's last byte (a call that does not return) */
	const struct heap_module *module = find_module(heap, pc - 1, gen);
	uint64_t offset = pc - 1 - (module ? module->bias : 0);
	uint32_t module_id = module ? module->id : 0;
	const struct jit_code *code = module ? NULL : find_jit(heap, pc - 1);
	if (code) {
		enum heap_run run = define_jit_module(heap);
		if (run != HEAP_RUN_EMPTY)
			return run;
		module_id = heap->jit_module;
		offset = code->number;
	}
	uint32_t k = frame_hash(offset, module_id) & heap->frame_mask;
	while (heap->frames[k].id &&
	       (heap->frames[k].offset != offset || heap->frames[k].module != module_id))
		k = (k + 1) & heap->frame_mask;
	*id = heap->frames[k].id ? heap->frames[k].id : heap->frame_count + 1;
	if (module)
		*known = (struct heap_pc){ pc, gen, *id };
	if (heap->frames[k].id)
		return HEAP_RUN_EMPTY;
	heap->frame_count++;
	heap->frames[k] = (struct heap_frame_slot){ offset, module_id, *id };
	struct def def = { .kind = DEF_FRAME, .id = *id };
	def.frame.module.v = module_id;
	def.frame.offset = offset;
	if (heap->frame_count > heap->frame_mask / 2 && grow_frames(heap) < 0)
		return out_of_memory(heap);
	enum heap_run run = hand_over(heap, &def);
	return code && run == HEAP_RUN_EMPTY ? name_frame(heap, *id, code) : run;
}

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

/* Define @node, whose parent is defined already. */
static enum heap_run define_node(struct source_heap *heap, uint32_t node,
				 const struct wire_node *copy)
{
	/* nothing beside these is looked at, and to clear all of a definition would cost as much as to record it */
	struct def def;
	def.kind = DEF_STACK;
	def.id = heap->stack_count + 1;
	def.stack.parent.v = def.stack.frame.v = 0;
	def.stack.stop = node < WIRE_STOP_MAX ? (uint8_t)node : 0;
	enum heap_run run = HEAP_RUN_EMPTY;
	uint32_t modules = __atomic_load_n(&heap->header->module_count, __ATOMIC_ACQUIRE);
	if (__builtin_expect(modules != heap->module_count, 0))
		run = read_modules(heap, modules);
	if (run != HEAP_RUN_EMPTY)
		return run;
	if (node >= WIRE_STOP_MAX) {
		if (!copy->pc || heap_is_own(heap, copy)) {
			heap->node_stack[node] = heap->node_stack[copy->parent];
			return HEAP_RUN_EMPTY;
		}
		if (copy->parent)
			def.stack.parent.v = heap->node_stack[copy->parent];
		run = heap_define_frame(heap, copy->pc, copy->gen, &def.stack.frame.v);
		if (run != HEAP_RUN_EMPTY)
			return run;
		uint32_t known = heap_known_stack(heap, def.stack.parent.v, def.stack.frame.v);
		if (__builtin_expect(known != 0, 0)) {
			heap->node_stack[node] = known;
			return HEAP_RUN_EMPTY;
		}
	}
	run = hand_over(heap, &def);
	if (run != HEAP_RUN_EMPTY)
		return run;
	heap->node_stack[node] = ++heap->stack_count;
	/* what stands for a walk that stopped goes on from nothing by no frame, and nobody asks for it */
	if (heap_know_stack(heap, def.stack.parent.v, def.stack.frame.v, heap->stack_count) < 0)
		return out_of_memory(heap);
	return HEAP_RUN_EMPTY;
}

/*
 * The nodes from @node outwards that are not defined yet; their numbers only fall, so this ends whatever the table holds. The
 * table is the target's: each is read once.
 */
static enum heap_run find_path(struct source_heap *heap, uint32_t node, uint32_t *count)
{
	for (*count = 0; node && !heap->node_stack[node]; ++*count) {
		if (*count == heap->path_cap) {
			uint32_t cap = heap->path_cap ? heap->path_cap * 2 : 256;
			struct heap_step *path = realloc(heap->path, cap * sizeof(*path));
			if (!path) {
				err_set(heap->err, -ENOMEM, "cannot hold a stack of %u frames",
					cap);
				return HEAP_RUN_FAILED;
			}
			heap->path = path;
			heap->path_cap = cap;
		}
		struct heap_step *step = &heap->path[*count];
		*step = (struct heap_step){ .number = node };
		if (node >= WIRE_STOP_MAX) {
			step->node = heap_node_at(heap, node);
			__builtin_prefetch(pc_place(heap, step->node.pc));
			/* given up (heap_nodes.c): whoever writes it after all has a stack without a number */
			if (step->node.pc == 0 && node < heap->copied)
				step->node.parent = WIRE_STOP_NODES_FULL;
			else if (step->node.pc == 0 || step->node.parent >= node)
				return HEAP_RUN_BAD;
		}
		node = step->node.parent;
	}
	return HEAP_RUN_EMPTY;
}

enum heap_run heap_define_stack(struct source_heap *heap, uint32_t node, uint32_t *stack)
{
	uint32_t count = 0;
	if (node >= heap->node_cap && heap_take_nodes(heap) < 0)
		return out_of_memory(heap);
	if (node >= heap->node_cap)
		return HEAP_RUN_BAD;
	enum heap_run run = find_path(heap, node, &count);
	while (run == HEAP_RUN_EMPTY && count--) /* outer nodes first */
		run = define_node(heap, heap->path[count].number, &heap->path[count].node);
	if (run == HEAP_RUN_EMPTY)
		*stack = node ? heap->node_stack[node] : 0;
	return run;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static enum heap_run define_thread(struct source_heap *heap, uint32_t index)
{
	struct def def = { .kind = DEF_THREAD, .id = index };
	def.thread.tid = heap->threads[index].tid;
	def.thread.name = heap->threads[index].name[0] ? heap->threads[index].name : NULL;
	return hand_over(heap, &def);
}

static uint32_t *thread_slot(struct source_heap *heap, uint32_t tid)
{
	uint32_t k = tid * 0x9e3779b1u >> 7 & heap->thread_mask;
	while (heap->thread_index[k] && heap->threads[heap->thread_index[k] - 1].tid != tid)
		k = (k + 1) & heap->thread_mask;
	return &heap->thread_index[k];
}

static int grow_threads(struct source_heap *heap)
{
	uint32_t max = heap->thread_max * 2;
	struct heap_thread *threads = realloc(heap->threads, max * sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	heap->threads = threads;
	uint32_t *living = realloc(heap->living, max * sizeof(*living));
	if (!living)
		return -ENOMEM;
	heap->living = living;
	heap->thread_max = max;
	uint32_t *index = calloc((size_t)max * 2, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(heap->thread_index);
	heap->thread_index = index;
	heap->thread_mask = max * 2 - 1;
	for (uint32_t i = 0; i < heap->thread_count; i++) /* a reused tid: the latest wins */
		*thread_slot(heap, threads[i].tid) = i + 1;
	return 0;
}

/* The row of all threads that are not told apart. */
static enum heap_run share_thread(struct source_heap *heap, uint32_t *thread)
{
	*thread = HEAP_THREADS_MAX;
	if (heap->thread_count > HEAP_THREADS_MAX)
		return HEAP_RUN_EMPTY;
	if (heap->thread_count == heap->thread_max && grow_threads(heap) < 0)
		return out_of_memory(heap);
	heap->threads[heap->thread_count++] = (struct heap_thread){ .name = THREADS_FURTHER };
	return define_thread(heap, HEAP_THREADS_MAX);
}

enum heap_run heap_thread_of(struct source_heap *heap, uint32_t tid, uint64_t now_ns,
			     uint32_t *thread)
{
	if (tid == 0 || tid > INT32_MAX)
		return HEAP_RUN_BAD;
	uint32_t *slot = thread_slot(heap, tid);
	if (*slot) {
		struct heap_thread *known = &heap->threads[*slot - 1];
		if (!known->ended || now_ns < known->end_ns + TID_REUSE_NS) {
			*thread = *slot - 1;
			return HEAP_RUN_EMPTY;
		}
	}
	/* a row costs the readers of the recording more than a record costs whoever writes it */
	if (heap->thread_count >= HEAP_THREADS_MAX)
		return share_thread(heap, thread);
	if (heap->thread_count == heap->thread_max) {
		if (grow_threads(heap) < 0)
			return out_of_memory(heap);
		slot = thread_slot(heap, tid);
	}
	*thread = heap->thread_count++;
	*slot = *thread + 1;
	struct heap_thread *fresh = &heap->threads[*thread];
	*fresh = (struct heap_thread){ .tid = tid,
				       .start_ns = now_ns,
				       .check_ns = now_ns + RENAME_FIRST_NS };
	if (heap->pid)
		proc_comm(heap->pid, (pid_t)tid, fresh->name, sizeof(fresh->name));
	heap->living[heap->living_count++] = *thread;
	heap->stats.threads++;
	return define_thread(heap, *thread);
}

enum heap_run heap_switch_thread(struct source_heap *heap, struct heap_ring *ring, uint32_t tid)
{
	if (ring->thread != HEAP_NO_THREAD)
		heap->threads[ring->thread].last_order = ring->last_order;
	enum heap_run run = heap_thread_of(heap, tid, ring->now_ns, &ring->thread);
	/* of the many in the shared row it is not known whose the last one was */
	if (run == HEAP_RUN_EMPTY)
		ring->last_order = ring->thread < HEAP_THREADS_MAX
					   ? heap->threads[ring->thread].last_order
					   : 0;
	return run;
}

enum heap_run heap_name_thread(struct source_heap *heap, uint32_t index, const char *name)
{
	struct heap_thread *thread = &heap->threads[index];
	char text[sizeof(thread->name)] = "";
	memcpy(text, name, 15);
	if (!thread->tid) /* the row that many share */
		return HEAP_RUN_EMPTY;
	thread->told = true;
	if (strcmp(text, thread->name) == 0)
		return HEAP_RUN_EMPTY;
	if (heap_flush(heap) < 0)
		return HEAP_RUN_FAILED;
	memcpy(thread->name, text, sizeof(text));
	return define_thread(heap, index);
}

int heap_rename_threads(struct source_heap *heap, uint64_t now_ns, bool all)
{
	if (!heap->pid)
		return 0;
	for (uint32_t i = 0; i < heap->living_count;) {
		uint32_t index = heap->living[i];
		struct heap_thread *thread = &heap->threads[index];
		if (thread->ended || thread->told) {
			heap->living[i] = heap->living[--heap->living_count];
			continue;
		}
		i++;
		if (!all && now_ns < thread->check_ns)
			continue;
		char name[sizeof(thread->name)];
		thread->check_ns = now_ns + (now_ns - thread->start_ns) * 2 + RENAME_FIRST_NS;
		if (proc_comm(heap->pid, (pid_t)thread->tid, name, sizeof(name)) < 0 ||
		    strcmp(name, thread->name) == 0)
			continue;
		memcpy(thread->name, name, sizeof(name));
		if (define_thread(heap, index) == HEAP_RUN_FAILED)
			return heap->err && heap->err->code ? heap->err->code : -EIO;
	}
	return 0;
}

int heap_defs_restart(struct source_heap *heap)
{
	memset(heap->node_stack, 0, (size_t)heap->node_cap * sizeof(*heap->node_stack));
	heap_forget_stacks(heap);
	memset(heap->frames, 0, ((size_t)heap->frame_mask + 1) * sizeof(*heap->frames));
	memset(heap->pcs, 0, HEAP_PCS * sizeof(*heap->pcs));
	heap->stack_count = heap->frame_count = 0;
	heap->module_count = heap->module_last = heap->stats.modules = 0;
	heap->jit_module = 0;
	for (uint32_t i = 0; i < heap->thread_count; i++)
		if (define_thread(heap, i) == HEAP_RUN_FAILED)
			return heap->err->code ? heap->err->code : -EIO;
	return 0;
}
