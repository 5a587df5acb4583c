/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_names.c - what the target numbered, in our numbers: nodes to frames and stacks, modules,
 * threads. Everything is copied once, checked, then used; what was used once is never read again.
 */
#include "source/heap_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"
#include "proc/proc.h"
#include "wire/heap_start.h"

#define FRAMES_FIRST (1u << 12)
#define THREADS_FIRST 64
/*
 * A tid seen again this long after its thread's end is another thread; sooner, it is a late free of
 * the same one.
 */
#define TID_REUSE_NS 100000000u
#define RENAME_FIRST_NS 5000000u

int heap_names_init(struct heap_names *names, const struct heap_tables *tables,
		    struct heap_out *out, struct err *err)
{
	names->tables = tables;
	names->out = out;
	names->jit = NULL;
	names->jit_module = 0;
	if (!names->node_cap)
		names->node_cap = names->tables->layout.node_max;
	names->node_stack =
		huge_resize(NULL, 0, (size_t)names->node_cap * sizeof(*names->node_stack));
	names->branches = NULL;
	names->known = NULL;
	names->branch_count = names->known_count = 0;
	names->frames = calloc(FRAMES_FIRST, sizeof(*names->frames));
	names->frame_mask = FRAMES_FIRST - 1;
	names->pcs = calloc(HEAP_PCS, sizeof(*names->pcs));
	names->modules = calloc(names->tables->layout.module_max, sizeof(*names->modules));
	names->threads = calloc(THREADS_FIRST, sizeof(*names->threads));
	names->thread_max = THREADS_FIRST;
	names->living = calloc(THREADS_FIRST, sizeof(*names->living));
	names->thread_index = calloc(THREADS_FIRST * 2, sizeof(*names->thread_index));
	names->thread_mask = THREADS_FIRST * 2 - 1;
	names->living_count = names->threads_told = 0;
	if (!names->node_stack || !names->frames || !names->pcs || !names->modules ||
	    !names->threads || !names->living || !names->thread_index)
		return err_set(err, -ENOMEM, "cannot allocate the recorder's tables");
	return 0;
}

void heap_names_fini(struct heap_names *names)
{
	huge_free(names->node_stack, (size_t)names->node_cap * sizeof(*names->node_stack));
	heap_forget_stacks(names);
	free(names->path);
	free(names->frames);
	free(names->pcs);
	free(names->modules);
	jitmap_free(names->jit);
	free(names->threads);
	free(names->living);
	free(names->thread_index);
}

static enum heap_run hand_over(struct heap_names *names, const struct def *def)
{
	return names->out->sink->define(names->out->sink, def, names->out->err) < 0
		       ? HEAP_RUN_FAILED
		       : HEAP_RUN_EMPTY;
}

static enum heap_run out_of_memory(struct heap_names *names)
{
	err_set(names->out->err, -ENOMEM, "cannot allocate memory for the recorder's tables");
	return HEAP_RUN_FAILED;
}

/* ---- modules --------------------------------------------------------------------------------- */

static bool is_own(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strcmp(slash ? slash + 1 : path, WIRE_PRELOAD_NAME) == 0;
}

/*
 * Copy what the target has added to its table; a row that makes no sense is kept as a hole, its
 * addresses as bare ones.
 */
static __attribute__((noinline)) enum heap_run read_modules(struct heap_names *names,
							    uint32_t count)
{
	if (count > names->tables->layout.module_max)
		return HEAP_RUN_BAD;
	const struct wire_module *table =
		(const struct wire_module *)(names->tables->base +
					     names->tables->layout.modules_off);
	if (names->module_count < count)
		memset(names->pcs, 0, HEAP_PCS * sizeof(*names->pcs));
	while (names->module_count < count) {
		struct wire_module row;
		memcpy(&row, &table[names->module_count], sizeof(row));
		struct heap_module *module = &names->modules[names->module_count];
		*module = (struct heap_module){ .index = names->module_count++ };
		uint32_t end;
		if (row.lo >= row.hi || row.build_id_len > sizeof(row.build_id) ||
		    __builtin_add_overflow(row.path_off, row.path_len, &end) ||
		    end > names->tables->layout.string_bytes)
			continue;
		char path[UINT16_MAX + 1];
		memcpy(path, names->tables->base + names->tables->layout.strings_off + row.path_off,
		       row.path_len);
		path[row.path_len] = '\0';
		module->lo = row.lo;
		module->hi = row.hi;
		module->bias = row.bias;
		module->id = ++names->modules_told;
		if (is_own(path)) {
			names->own_lo = row.lo;
			names->own_hi = row.hi;
		}
		struct def def = { .kind = DEF_MODULE, .id = module->id };
		def.module.path = path;
		def.module.build_id_len = row.build_id_len;
		memcpy(def.module.build_id, row.build_id, row.build_id_len);
		def.module.bias = row.bias;
		def.module.lo = row.lo;
		def.module.hi = row.hi;
		enum heap_run run = hand_over(names, &def);
		if (run != HEAP_RUN_EMPTY)
			return run;
	}
	return HEAP_RUN_EMPTY;
}

static bool module_holds(const struct heap_names *names, const struct heap_module *module,
			 uint64_t pc, uint32_t gen)
{
	if (pc < module->lo || pc >= module->hi)
		return false;
	const struct wire_module *row =
		(const struct wire_module *)(names->tables->base +
					     names->tables->layout.modules_off) +
		module->index;
	uint32_t until = __atomic_load_n(&row->gen_until, __ATOMIC_ACQUIRE);
	return gen >= __atomic_load_n(&row->gen_from, __ATOMIC_RELAXED) &&
	       (until == 0 || gen < until);
}

static const struct heap_module *find_module(struct heap_names *names, uint64_t pc, uint32_t gen)
{
	if (names->module_last < names->module_count &&
	    module_holds(names, &names->modules[names->module_last], pc, gen))
		return &names->modules[names->module_last];
	/*
	 * the newest first: where a new module took an old one's place, a node of the same moment
	 * means the new one
	 */
	for (uint32_t i = names->module_count; i-- > 0;) {
		if (module_holds(names, &names->modules[i], pc, gen)) {
			names->module_last = i;
			return &names->modules[i];
		}
	}
	return NULL;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static uint32_t frame_hash(uint64_t offset, uint32_t module)
{
	uint64_t h = (offset ^ ((uint64_t)module << 44)) * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ULL;
	return (uint32_t)(h >> 32);
}

static int grow_frames(struct heap_names *names)
{
	uint32_t mask = names->frame_mask * 2 + 1;
	struct heap_frame_slot *frames = calloc((size_t)mask + 1, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i <= names->frame_mask; i++) {
		if (!names->frames[i].id)
			continue;
		uint32_t k = frame_hash(names->frames[i].offset, names->frames[i].module) & mask;
		while (frames[k].id)
			k = (k + 1) & mask;
		frames[k] = names->frames[i];
	}
	free(names->frames);
	names->frames = frames;
	names->frame_mask = mask;
	return 0;
}

static struct heap_pc *pc_place(const struct heap_names *names, uint64_t pc)
{
	return &names->pcs[pc * 0x9e3779b97f4a7c15ULL >> 32 & (HEAP_PCS - 1)];
}

/* Code that the program has made, by its name: it may move, and another may come to its place. */
static const struct jit_code *find_jit(struct heap_names *names, uint64_t addr)
{
	if (names->tables->raw || names->pid <= 0 || !addr)
		return NULL;
	if (!names->jit)
		names->jit = jitmap_new(names->pid, (pid_t)names->tables->header->target_pid);
	if (!names->jit)
		return NULL;
	jitmap_poll(names->jit);
	return jitmap_find(names->jit, addr);
}

static enum heap_run define_jit_module(struct heap_names *names)
{
	if (names->jit_module)
		return HEAP_RUN_EMPTY;
	names->jit_module = ++names->modules_told;
	struct def def = { .kind = DEF_MODULE, .id = names->jit_module };
	def.module.path = "[made at run time]";
	return hand_over(names, &def);
}

static enum heap_run name_frame(struct heap_names *names, uint32_t frame,
				const struct jit_code *code)
{
	const struct symbol symbol = { .function = code->function,
				       .file = code->file,
				       .line = code->line };
	struct def def = { .kind = DEF_SYMBOL, .id = frame };
	def.symbol.symbols = &symbol;
	def.symbol.count = 1;
	return hand_over(names, &def);
}

enum heap_run heap_name_rest(struct heap_names *names)
{
	enum heap_run run = HEAP_RUN_EMPTY;
	if (!names->jit)
		return run;
	jitmap_poll(names->jit);
	for (uint32_t i = 0; i <= names->frame_mask && run == HEAP_RUN_EMPTY; i++) {
		const struct heap_frame_slot *slot = &names->frames[i];
		const struct jit_code *code =
			slot->id && !slot->module ? jitmap_find(names->jit, slot->offset) : NULL;
		if (code)
			run = name_frame(names, slot->id, code);
	}
	return run;
}

enum heap_run heap_define_frame(struct heap_names *names, uint64_t pc, uint32_t gen, uint32_t *id)
{
	struct heap_pc *known = pc_place(names, pc);
	if (known->frame && known->pc == pc && known->gen == gen) {
		*id = known->frame;
		return HEAP_RUN_EMPTY;
	}
	/*
	 * a return address may stand just behind a module's last byte (a call that does not return)
	 */
	const struct heap_module *module = find_module(names, pc - 1, gen);
	uint64_t offset = pc - 1 - (module ? module->bias : 0);
	uint32_t module_id = module ? module->id : 0;
	const struct jit_code *code = module ? NULL : find_jit(names, pc - 1);
	if (code) {
		enum heap_run run = define_jit_module(names);
		if (run != HEAP_RUN_EMPTY)
			return run;
		module_id = names->jit_module;
		offset = code->number;
	}
	uint32_t k = frame_hash(offset, module_id) & names->frame_mask;
	while (names->frames[k].id &&
	       (names->frames[k].offset != offset || names->frames[k].module != module_id))
		k = (k + 1) & names->frame_mask;
	*id = names->frames[k].id ? names->frames[k].id : names->frame_count + 1;
	if (module)
		*known = (struct heap_pc){ pc, gen, *id };
	if (names->frames[k].id)
		return HEAP_RUN_EMPTY;
	names->frame_count++;
	names->frames[k] = (struct heap_frame_slot){ offset, module_id, *id };
	struct def def = { .kind = DEF_FRAME, .id = *id };
	def.frame.module.v = module_id;
	def.frame.offset = offset;
	if (names->frame_count > names->frame_mask / 2 && grow_frames(names) < 0)
		return out_of_memory(names);
	enum heap_run run = hand_over(names, &def);
	return code && run == HEAP_RUN_EMPTY ? name_frame(names, *id, code) : run;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Define @node, whose parent is defined already. */
static enum heap_run define_node(struct heap_names *names, uint32_t node,
				 const struct wire_node *copy)
{
	/*
	 * nothing beside these is looked at, and to clear all of a definition would cost as much as
	 * to record it
	 */
	struct def def;
	def.kind = DEF_STACK;
	def.id = names->stack_count + 1;
	def.stack.parent.v = def.stack.frame.v = 0;
	def.stack.stop = node < WIRE_STOP_MAX ? (uint8_t)node : 0;
	enum heap_run run = HEAP_RUN_EMPTY;
	uint32_t modules = __atomic_load_n(&names->tables->header->module_count, __ATOMIC_ACQUIRE);
	if (__builtin_expect(modules != names->module_count, 0))
		run = read_modules(names, modules);
	if (run != HEAP_RUN_EMPTY)
		return run;
	if (node >= WIRE_STOP_MAX) {
		if (!copy->pc || heap_is_own(names, copy)) {
			names->node_stack[node] = names->node_stack[copy->parent];
			return HEAP_RUN_EMPTY;
		}
		if (copy->parent)
			def.stack.parent.v = names->node_stack[copy->parent];
		run = heap_define_frame(names, copy->pc, copy->gen, &def.stack.frame.v);
		if (run != HEAP_RUN_EMPTY)
			return run;
		uint32_t known = heap_known_stack(names, def.stack.parent.v, def.stack.frame.v);
		if (__builtin_expect(known != 0, 0)) {
			names->node_stack[node] = known;
			return HEAP_RUN_EMPTY;
		}
	}
	run = hand_over(names, &def);
	if (run != HEAP_RUN_EMPTY)
		return run;
	names->node_stack[node] = ++names->stack_count;
	/*
	 * what stands for a walk that stopped goes on from nothing by no frame, and nobody asks for
	 * it
	 */
	if (heap_know_stack(names, def.stack.parent.v, def.stack.frame.v, names->stack_count) < 0)
		return out_of_memory(names);
	return HEAP_RUN_EMPTY;
}

/*
 * The nodes from @node outwards that are not defined yet; their numbers only fall, so this ends
 * whatever the table holds. The table is the target's: each is read once.
 */
static enum heap_run find_path(struct heap_names *names, uint32_t node, uint32_t *count)
{
	for (*count = 0; node && !names->node_stack[node]; ++*count) {
		if (*count == names->path_cap) {
			uint32_t cap = names->path_cap ? names->path_cap * 2 : 256;
			struct heap_step *path = realloc(names->path, cap * sizeof(*path));
			if (!path) {
				err_set(names->out->err, -ENOMEM,
					"cannot hold a stack of %u frames", cap);
				return HEAP_RUN_FAILED;
			}
			names->path = path;
			names->path_cap = cap;
		}
		struct heap_step *step = &names->path[*count];
		*step = (struct heap_step){ .number = node };
		if (node >= WIRE_STOP_MAX) {
			step->node = heap_node_at(names, node);
			__builtin_prefetch(pc_place(names, step->node.pc));
			/*
			 * given up (heap_nodes.c): whoever writes it after all has a stack without
			 * a number
			 */
			if (step->node.pc == 0 && node < names->copied)
				step->node.parent = WIRE_STOP_NODES_FULL;
			else if (step->node.pc == 0 || step->node.parent >= node)
				return HEAP_RUN_BAD;
		}
		node = step->node.parent;
	}
	return HEAP_RUN_EMPTY;
}

enum heap_run heap_define_stack(struct heap_names *names, uint32_t node, uint32_t *stack)
{
	uint32_t count = 0;
	if (node >= names->node_cap && heap_take_nodes(names) < 0)
		return out_of_memory(names);
	if (node >= names->node_cap)
		return HEAP_RUN_BAD;
	enum heap_run run = find_path(names, node, &count);
	while (run == HEAP_RUN_EMPTY && count--) /* outer nodes first */
		run = define_node(names, names->path[count].number, &names->path[count].node);
	if (run == HEAP_RUN_EMPTY)
		*stack = node ? names->node_stack[node] : 0;
	return run;
}

/* ---- threads --------------------------------------------------------------------------------- */

static enum heap_run define_thread(struct heap_names *names, uint32_t index)
{
	struct def def = { .kind = DEF_THREAD, .id = index };
	def.thread.tid = names->threads[index].tid;
	def.thread.name = names->threads[index].name[0] ? names->threads[index].name : NULL;
	return hand_over(names, &def);
}

static uint32_t *thread_slot(struct heap_names *names, uint32_t tid)
{
	uint32_t k = tid * 0x9e3779b1u >> 7 & names->thread_mask;
	while (names->thread_index[k] && names->threads[names->thread_index[k] - 1].tid != tid)
		k = (k + 1) & names->thread_mask;
	return &names->thread_index[k];
}

static int grow_threads(struct heap_names *names)
{
	uint32_t max = names->thread_max * 2;
	struct heap_thread *threads = realloc(names->threads, max * sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	names->threads = threads;
	uint32_t *living = realloc(names->living, max * sizeof(*living));
	if (!living)
		return -ENOMEM;
	names->living = living;
	names->thread_max = max;
	uint32_t *index = calloc((size_t)max * 2, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(names->thread_index);
	names->thread_index = index;
	names->thread_mask = max * 2 - 1;
	for (uint32_t i = 0; i < names->thread_count; i++) /* a reused tid: the latest wins */
		*thread_slot(names, threads[i].tid) = i + 1;
	return 0;
}

/* The row of all threads that are not told apart. */
static enum heap_run share_thread(struct heap_names *names, uint32_t *thread)
{
	*thread = HEAP_THREADS_MAX;
	if (names->thread_count > HEAP_THREADS_MAX)
		return HEAP_RUN_EMPTY;
	if (names->thread_count == names->thread_max && grow_threads(names) < 0)
		return out_of_memory(names);
	names->threads[names->thread_count++] = (struct heap_thread){ .name = THREADS_FURTHER };
	return define_thread(names, HEAP_THREADS_MAX);
}

enum heap_run heap_thread_of(struct heap_names *names, uint32_t tid, uint64_t now_ns,
			     uint32_t *thread)
{
	if (tid == 0 || tid > INT32_MAX)
		return HEAP_RUN_BAD;
	uint32_t *slot = thread_slot(names, tid);
	if (*slot) {
		struct heap_thread *known = &names->threads[*slot - 1];
		if (!known->ended || now_ns < known->end_ns + TID_REUSE_NS) {
			*thread = *slot - 1;
			return HEAP_RUN_EMPTY;
		}
	}
	/* a row costs the readers of the recording more than a record costs whoever writes it */
	if (names->thread_count >= HEAP_THREADS_MAX)
		return share_thread(names, thread);
	if (names->thread_count == names->thread_max) {
		if (grow_threads(names) < 0)
			return out_of_memory(names);
		slot = thread_slot(names, tid);
	}
	*thread = names->thread_count++;
	*slot = *thread + 1;
	struct heap_thread *fresh = &names->threads[*thread];
	*fresh = (struct heap_thread){ .tid = tid,
				       .start_ns = now_ns,
				       .check_ns = now_ns + RENAME_FIRST_NS };
	if (names->pid)
		proc_comm(names->pid, (pid_t)tid, fresh->name, sizeof(fresh->name));
	names->living[names->living_count++] = *thread;
	names->threads_told++;
	return define_thread(names, *thread);
}

bool heap_is_called(struct heap_names *names, uint32_t index, const char *name)
{
	struct heap_thread *thread = &names->threads[index];
	if (!thread->tid) /* the row that many share */
		return true;
	thread->told = true;
	return strncmp(name, thread->name, 15) == 0;
}

enum heap_run heap_call_thread(struct heap_names *names, uint32_t index, const char *name)
{
	struct heap_thread *thread = &names->threads[index];
	memset(thread->name, 0, sizeof(thread->name));
	memcpy(thread->name, name, 15);
	return define_thread(names, index);
}

int heap_rename_threads(struct heap_names *names, uint64_t now_ns, bool all)
{
	if (!names->pid)
		return 0;
	for (uint32_t i = 0; i < names->living_count;) {
		uint32_t index = names->living[i];
		struct heap_thread *thread = &names->threads[index];
		if (thread->ended || thread->told) {
			names->living[i] = names->living[--names->living_count];
			continue;
		}
		i++;
		if (!all && now_ns < thread->check_ns)
			continue;
		char name[sizeof(thread->name)];
		thread->check_ns = now_ns + (now_ns - thread->start_ns) * 2 + RENAME_FIRST_NS;
		if (proc_comm(names->pid, (pid_t)thread->tid, name, sizeof(name)) < 0 ||
		    strcmp(name, thread->name) == 0)
			continue;
		memcpy(thread->name, name, sizeof(name));
		if (define_thread(names, index) == HEAP_RUN_FAILED)
			return names->out->err && names->out->err->code ? names->out->err->code
									: -EIO;
	}
	return 0;
}

int heap_names_restart(struct heap_names *names)
{
	memset(names->node_stack, 0, (size_t)names->node_cap * sizeof(*names->node_stack));
	heap_forget_stacks(names);
	memset(names->frames, 0, ((size_t)names->frame_mask + 1) * sizeof(*names->frames));
	memset(names->pcs, 0, HEAP_PCS * sizeof(*names->pcs));
	names->stack_count = names->frame_count = 0;
	names->module_count = names->module_last = names->modules_told = 0;
	names->jit_module = 0;
	for (uint32_t i = 0; i < names->thread_count; i++)
		if (define_thread(names, i) == HEAP_RUN_FAILED)
			return names->out->err->code ? names->out->err->code : -EIO;
	return 0;
}
