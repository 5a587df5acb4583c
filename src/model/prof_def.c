/* SPDX-License-Identifier: Apache-2.0 */
/* prof_def.c - definitions: a producer's numbers become rows, equal things become one row. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/prof_impl.h"

/*
 * A producer numbers densely; after a damaged stretch of a file some numbers are missing, but never
 * this many.
 */
#define ID_GAP_MAX (1u << 24)

/*
 * Names of every function of the largest programs take a tenth; a compressed file can claim any
 * number.
 */
#define NAMES_BYTES_MAX (256u << 20)

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot keep the recording's definitions");
}

static int names_fit(const struct prof *p, struct err *err)
{
	if (p->strings.bytes + p->symbol_bytes <= NAMES_BYTES_MAX)
		return 0;
	return err_set(err, -E2BIG, "bad recording: names of more than %u MiB",
		       NAMES_BYTES_MAX >> 20);
}

static int grow_u32(uint32_t **array, uint32_t *cap, uint32_t need)
{
	if (need <= *cap)
		return 0;
	uint64_t want = *cap ? *cap : 256;
	while (want < need)
		want *= 2;
	uint32_t *fresh = realloc(*array, want * sizeof(**array));
	if (!fresh)
		return -ENOMEM;
	*array = fresh;
	*cap = want > UINT32_MAX ? UINT32_MAX : (uint32_t)want;
	return 0;
}

static int check_id(uint32_t id, uint32_t count, const char *what, struct err *err)
{
	if (id == UINT32_MAX || (id > count && id - count > ID_GAP_MAX))
		return err_set(err, -EBADMSG,
			       "bad recording: %s %u is defined after only %u others", what, id,
			       count);
	return 0;
}

static int idmap_set(struct idmap *map, uint32_t id, uint32_t row, const char *what,
		     struct err *err)
{
	int rc = check_id(id, map->count, what, err);
	if (rc < 0)
		return rc;
	if (id >= map->count) {
		if (grow_u32(&map->to, &map->cap, id + 1) < 0)
			return no_memory(err);
		memset(map->to + map->count, 0xff, (size_t)(id - map->count) * sizeof(*map->to));
		map->count = id + 1;
	}
	map->to[id] = row;
	return 0;
}

static const char *intern_or_null(struct prof *p, const char *text, int *failed)
{
	if (!text)
		return NULL;
	const char *copy = intern_str(&p->strings, text);
	if (!copy)
		*failed = 1;
	return copy;
}

static int define_process(struct prof *p, const struct def *def, struct err *err)
{
	struct prof_process *to = &p->process;
	int failed = 0;
	const char *exe = intern_or_null(p, def->process.exe, &failed);
	const char *comment = intern_or_null(p, def->process.comment, &failed);
	const char *cmdline = NULL;
	if (def->process.cmdline) {
		cmdline = intern_mem(&p->strings, def->process.cmdline, def->process.cmdline_bytes);
		failed |= !cmdline;
	}
	if (failed)
		return no_memory(err);
	/* A second definition updates the first: what it does not know stays. */
	if (def->process.pid)
		to->pid = def->process.pid;
	if (exe)
		to->exe = exe;
	if (cmdline) {
		to->cmdline = cmdline;
		to->cmdline_bytes = def->process.cmdline_bytes;
	}
	if (comment) {
		to->comment = comment;
		if (strcmp(comment, PROF_SAMPLER) == 0)
			p->estimates = 1;
	}
	if (def->process.start_realtime_ns)
		to->start_realtime_ns = def->process.start_realtime_ns;
	if (def->process.start_monotonic_ns)
		to->start_monotonic_ns = def->process.start_monotonic_ns;
	if (def->process.time_bound_ns)
		to->time_bound_ns = def->process.time_bound_ns;
	to->ended = def->process.ended;
	to->complete = def->process.complete;
	to->exit_status = def->process.exit_status;
	if (def->process.modules_nameless)
		to->modules_nameless = def->process.modules_nameless;
	if (def->process.sample_bytes > SAMPLE_BYTES_MAX)
		return err_set(err, -EBADMSG, "bad recording: one stack for %llu bytes",
			       (unsigned long long)def->process.sample_bytes);
	/* once, before anything is counted */
	if (def->process.sample_bytes && !p->allocations && !p->frees && !p->several_threads)
		to->sample_bytes = def->process.sample_bytes;
	if (def->process.family)
		to->family = def->process.family;
	if (def->process.parent_pid)
		to->parent_pid = def->process.parent_pid;
	if (def->process.runtime_ns > p->other.runtime_ns)
		p->other.runtime_ns = def->process.runtime_ns;
	if (def->process.peak_rss_bytes > p->other.peak_rss_bytes)
		p->other.peak_rss_bytes = def->process.peak_rss_bytes;
	p->have_process = 1;
	return 0;
}

static int define_thread(struct prof *p, const struct def *def, struct err *err)
{
	uint32_t id = def->id;
	int rc = check_id(id, p->threads.count, "thread", err);
	if (rc < 0)
		return rc;
	while (p->threads.count <= id) {
		struct thread_row *fresh = chunked_add(&p->threads);
		if (!fresh)
			return no_memory(err);
		fresh->counter.row = p->threads.count - 1;
	}
	struct thread_row *row = chunked_at(&p->threads, id);
	int failed = 0;
	/* a thread may be renamed for as long as it lives */
	const char *name = p->sums ? NULL : intern_or_null(p, def->thread.name, &failed);
	if (failed)
		return no_memory(err);
	row->pub.tid = def->thread.tid;
	if (name)
		row->pub.name = name;
	row->defined = 1;
	return 0;
}

static int define_module(struct prof *p, const struct def *def, struct err *err)
{
	const char *text = def->module.path ? def->module.path : "";
	uint8_t len = def->module.build_id_len;
	if (len > sizeof(def->module.build_id))
		return err_set(err, -EBADMSG, "bad recording: a build id of %u bytes", len);
	const char *path = intern_str(&p->strings, text);
	if (!path || idtab_reserve(&p->module_tab) < 0)
		return no_memory(err);
	/* The same file loaded twice (dlclose, dlopen; another bias) is one module. */
	uint32_t hash = (uint32_t)hash_bytes(def->module.build_id, len,
					     hash_u64((uintptr_t)path, len, p->seed));
	uint32_t at = idtab_first(&p->module_tab, hash);
	for (; p->module_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->module_tab, at)) {
		uint32_t row = p->module_tab.slots[at].id;
		const struct prof_module *m = chunked_at(&p->modules, row);
		if (p->module_tab.slots[at].hash == hash && m->path == path &&
		    m->build_id_len == len && memcmp(m->build_id, def->module.build_id, len) == 0)
			return idmap_set(&p->module_map, def->id, row, "module", err);
	}
	struct prof_module *m = chunked_add(&p->modules);
	if (!m)
		return no_memory(err);
	m->path = path;
	const char *slash = strrchr(path, '/');
	m->name = slash ? slash + 1 : path;
	memcpy(m->build_id, def->module.build_id, len);
	m->build_id_len = len;
	m->bias = def->module.bias;
	m->lo = def->module.lo;
	m->hi = def->module.hi;
	uint32_t row = p->modules.count - 1;
	idtab_put(&p->module_tab, at, hash, row);
	return idmap_set(&p->module_map, def->id, row, "module", err);
}

static int define_frame(struct prof *p, const struct def *def, struct err *err)
{
	uint32_t module = idmap_get(&p->module_map, def->frame.module.v);
	if (module == UINT32_MAX)
		return err_set(err, -EBADMSG, "bad recording: frame %u lies in undefined module %u",
			       def->id, def->frame.module.v);
	if (idtab_reserve(&p->frame_tab) < 0)
		return no_memory(err);
	uint32_t hash = (uint32_t)hash_u64(def->frame.offset, module, p->seed);
	uint32_t at = idtab_first(&p->frame_tab, hash);
	for (; p->frame_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->frame_tab, at)) {
		uint32_t row = p->frame_tab.slots[at].id;
		const struct prof_frame *f = chunked_at(&p->frames, row);
		if (p->frame_tab.slots[at].hash == hash && f->offset == def->frame.offset &&
		    f->module.v == module)
			return idmap_set(&p->frame_map, def->id, row, "frame", err);
	}
	struct prof_frame *f = chunked_add(&p->frames);
	if (!f)
		return no_memory(err);
	f->module.v = module;
	f->offset = def->frame.offset;
	uint32_t row = p->frames.count - 1;
	idtab_put(&p->frame_tab, at, hash, row);
	return idmap_set(&p->frame_map, def->id, row, "frame", err);
}

static int map_stack(struct prof *p, uint32_t id, uint32_t row, struct err *err)
{
	int rc = idmap_set(&p->stack_map, id, row, "stack", err);
	if (rc < 0)
		return rc;
	if (grow_u32(&p->slot_of, &p->slot_cap, p->stack_map.cap) < 0)
		return no_memory(err);
	while (p->slot_count < p->stack_map.count) /* nearly always one */
		p->slot_of[p->slot_count++] = 0;
	return 0;
}

/* Where in the table a stack stands or would stand; *@row is 0 if there is none like it. */
static uint32_t find_stack(const struct prof *p, uint32_t hash, uint32_t parent, uint32_t frame,
			   unsigned stop, uint32_t *row)
{
	uint32_t at = idtab_first(&p->stack_tab, hash);
	for (; (*row = p->stack_tab.slots[at].id) != IDTAB_NONE;
	     at = idtab_next(&p->stack_tab, at)) {
		if (p->stack_tab.slots[at].hash != hash)
			continue;
		const struct prof_stack *s = chunked_at(&p->stacks, *row);
		if (s->parent.v == parent && s->frame.v == frame && s->stop == stop)
			return at;
	}
	*row = 0;
	return at;
}

/* Room for the numbers up to @id, of which those that are new are not defined. */
static int grow_sums(struct prof *p, uint32_t id, struct err *err)
{
	int rc = check_id(id, p->slot_count, "stack", err);
	if (rc < 0)
		return rc;
	if (grow_u32(&p->slot_of, &p->slot_cap, id + 1) < 0)
		return no_memory(err);
	if (p->sum_cap < p->slot_cap) {
		uint8_t *fresh = realloc(p->sum_partial, p->slot_cap);
		if (!fresh)
			return no_memory(err);
		p->sum_partial = fresh;
		p->sum_cap = p->slot_cap;
	}
	for (; p->slot_count <= id; p->slot_count++) { /* nearly always one */
		p->slot_of[p->slot_count] = 0;
		p->sum_partial[p->slot_count] = PROF_NO_SUM;
	}
	return 0;
}

static int define_sum(struct prof *p, const struct def *def, struct err *err)
{
	uint32_t parent = def->stack.parent.v;
	unsigned partial = def->stack.stop;
	if (!partial && prof_known_row(p, parent) == UINT32_MAX)
		return err_set(err, -EBADMSG, "bad recording: stack %u uses undefined stack %u",
			       def->id, parent);
	if (!partial)
		partial = p->sum_partial[parent];
	int rc = def->id < p->slot_count ? 0 : grow_sums(p, def->id, err);
	if (rc == 0)
		p->sum_partial[def->id] = (uint8_t)partial;
	return rc;
}

static int define_stack(struct prof *p, const struct def *def, struct err *err)
{
	uint32_t hash = 0, at = 0;
	unsigned stop = def->stack.stop;
	if (stop >= STACK_STOP_MAX)
		return err_set(err, -EBADMSG, "bad recording: stack %u has unknown stop reason %u",
			       def->id, stop);
	if (p->sums)
		return define_sum(p, def, err);
	uint32_t parent = idmap_get(&p->stack_map, def->stack.parent.v), frame = 0;
	if (stop)
		parent = 0;
	else
		frame = idmap_get(&p->frame_map, def->stack.frame.v);
	if (parent == UINT32_MAX || frame == UINT32_MAX)
		return err_set(err, -EBADMSG, "bad recording: stack %u uses undefined %s %u",
			       def->id, frame == UINT32_MAX ? "frame" : "stack",
			       frame == UINT32_MAX ? def->stack.frame.v : def->stack.parent.v);
	/*
	 * Most stacks are the only one below their parent, which was defined just before: these are
	 * found there, and only the others in a table, where each costs a reading from memory (a
	 * compiler has a million).
	 */
	struct prof_stack *up = chunked_at(&p->stacks, parent);
	if (up->first) {
		const struct prof_stack *first = chunked_at(&p->stacks, up->first);
		uint32_t row = up->first;
		if (first->frame.v != frame || first->stop != stop) {
			if (idtab_reserve(&p->stack_tab) < 0)
				return no_memory(err);
			hash = (uint32_t)hash_u64((uint64_t)parent << 32 | frame, stop, p->seed);
			at = find_stack(p, hash, parent, frame, stop, &row);
		}
		if (row)
			return map_stack(p, def->id, row, err);
	}
	struct prof_stack *s = chunked_add(&p->stacks);
	if (!s)
		return no_memory(err);
	s->parent.v = parent;
	s->frame.v = frame;
	s->stop = (uint8_t)stop;
	s->partial = stop ? (uint8_t)stop : up->partial;
	s->depth = stop ? 0 : up->depth == UINT16_MAX ? UINT16_MAX : (uint16_t)(up->depth + 1);
	uint32_t row = p->stacks.count - 1;
	if (!up->first)
		up->first = row;
	else
		idtab_put(&p->stack_tab, at, hash, row);
	return map_stack(p, def->id, row, err);
}

static int set_symbols(struct prof *p, uint32_t row, const struct def *def, struct err *err)
{
	uint32_t count = def->symbol.count;
	struct prof_frame *f = chunked_at(&p->frames, row);
	if (count == 0)
		return 0;
	int rc = names_fit(p, err);
	if (rc < 0)
		return rc;
	/*
	 * symbols that are defined again take the place of the older ones, if they have room there
	 */
	struct symbol *to = (struct symbol *)f->symbols;
	if (count > f->symbol_count || p->shared) {
		to = arena_alloc(&p->arena, (size_t)count * sizeof(*to));
		p->symbol_bytes += (size_t)count * sizeof(*to);
	}
	if (!to)
		return no_memory(err);
	int failed = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct symbol *from = &def->symbol.symbols[i];
		to[i] = (struct symbol){
			.function = intern_or_null(p, from->function, &failed),
			.file = intern_or_null(p, from->file, &failed),
			.line = from->line,
			.inlined = from->inlined,
		};
	}
	if (failed)
		return no_memory(err);
	f->symbols = to;
	f->symbol_count = count;
	return 0;
}

static int define_symbol(struct prof *p, const struct def *def, struct err *err)
{
	uint32_t row = idmap_get(&p->frame_map, def->id);
	if (row == UINT32_MAX)
		return err_set(err, -EBADMSG, "bad recording: a symbol for undefined frame %u",
			       def->id);
	return set_symbols(p, row, def, err);
}

static int define_row_symbol(struct sink *sink, const struct def *def, struct err *err)
{
	struct prof *p = ((struct symbol_sink *)sink)->prof;
	if (def->kind != DEF_SYMBOL || def->id >= p->frames.count)
		return err_set(err, -EINVAL, "symbols for frame row %u, which does not exist",
			       def->id);
	return set_symbols(p, def->id, def, err);
}

static int put_nothing(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink;
	(void)events;
	return count ? err_set(err, -EINVAL, "events where only symbols belong") : 0;
}

/* Each once: a file may say them again. */
static int define_rule(struct prof *p, const struct def *def, struct err *err)
{
	const char *pattern = intern_str(&p->strings, def->rule.pattern ? def->rule.pattern : "");
	if (!pattern)
		return no_memory(err);
	for (uint32_t i = 0; i < p->rules.count; i++)
		if (*(const char **)chunked_at(&p->rules, i) == pattern)
			return 0;
	if (!*pattern || p->rules.count == PROF_RULES_MAX)
		return 0;
	const char **rule = chunked_add(&p->rules);
	if (!rule)
		return no_memory(err);
	*rule = pattern;
	return 0;
}

int prof_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct prof *p = (struct prof *)sink;
	if (def->kind == DEF_STACK) /* nearly all are, and they bring no names */
		return def->id == 0 ? 0 : define_stack(p, def, err);
	int rc = names_fit(p, err);
	if (rc < 0)
		return rc;
	/*
	 * Row 0 of modules, frames and stacks is the empty one, whatever the producer says about
	 * number 0.
	 */
	switch (def->kind) {
	case DEF_PROCESS:
		return define_process(p, def, err);
	case DEF_THREAD:
		return define_thread(p, def, err);
	case DEF_MODULE:
		return def->id == 0 || p->sums ? 0 : define_module(p, def, err);
	case DEF_FRAME:
		return def->id == 0 || p->sums ? 0 : define_frame(p, def, err);
	case DEF_STACK:
		break;
	case DEF_SYMBOL:
		return p->sums ? 0 : define_symbol(p, def, err);
	case DEF_RULE:
		return define_rule(p, def, err);
	}
	return err_set(err, -EBADMSG, "bad recording: unknown definition kind %u",
		       (unsigned)def->kind);
}

static uint32_t row_or_empty(const struct idmap *map, uint32_t id)
{
	uint32_t row = idmap_get(map, id);
	return row == UINT32_MAX ? 0 : row;
}

uint32_t prof_stack_next(const struct prof *prof, uint32_t from)
{
	while (!prof->loaded && from < prof->slot_count && !prof->slot_of[from])
		from++;
	return from;
}

struct stack_id prof_stack_row(const struct prof *prof, struct stack_id producer)
{
	uint32_t row = prof_known_row(prof, producer.v);
	return (struct stack_id){ row == UINT32_MAX ? 0 : row };
}

struct frame_id prof_frame_row(const struct prof *prof, struct frame_id producer)
{
	return (struct frame_id){ row_or_empty(&prof->frame_map, producer.v) };
}

struct thread_id prof_thread_row(const struct prof *prof, struct thread_id producer)
{
	return (struct thread_id){ thread_row_peek(prof, producer.v) ? producer.v : 0 };
}

static int init_rows(struct prof *p)
{
	struct prof_module *none = chunked_add(&p->modules);
	if (!none || !chunked_add(&p->frames) || !chunked_add(&p->stacks) ||
	    !chunked_add(&p->counters))
		return -ENOMEM;
	none->path = none->name = "";
	if (idmap_set(&p->module_map, 0, 0, "module", NULL) < 0 ||
	    idmap_set(&p->frame_map, 0, 0, "frame", NULL) < 0 || map_stack(p, 0, 0, NULL) < 0)
		return -ENOMEM;
	p->points = calloc(PROF_POINTS_MAX, sizeof(*p->points));
	return p->points ? 0 : -ENOMEM;
}

struct prof *prof_new(struct err *err)
{
	struct prof *p = calloc(1, sizeof(*p));
	if (!p) {
		no_memory(err);
		return NULL;
	}
	p->sink = (struct sink){ .define = prof_define, .put = prof_put };
	p->symbol_sink = (struct symbol_sink){
		.sink = { .define = define_row_symbol, .put = put_nothing },
		.prof = p,
	};
	p->refs = 1;
	p->seed = hash_seed();
	p->rules = (struct chunked)CHUNKED_INIT(const char *);
	p->modules = (struct chunked)CHUNKED_INIT(struct prof_module);
	p->frames = (struct chunked)CHUNKED_INIT(struct prof_frame);
	p->stacks = (struct chunked)CHUNKED_INIT(struct prof_stack);
	p->threads = (struct chunked)CHUNKED_INIT(struct thread_row);
	p->counters = (struct chunked)CHUNKED_INIT(struct prof_counter);
	p->partials = (struct chunked)CHUNKED_INIT(uint8_t);
	p->suppressed = (struct chunked)CHUNKED_INIT(uint8_t);
	p->slot_of_row = (struct chunked)CHUNKED_INIT(uint32_t);
	p->owner = (struct chunked)CHUNKED_INIT(uint32_t);
	p->risks = (struct chunked)CHUNKED_INIT(struct prof_risk);
	p->block_epoch = (struct chunked)CHUNKED_INIT(uint32_t);
	p->bucket_ns = 1000000;
	p->bucket_end_ns = p->bucket_ns;
	p->process.exit_status = -1;
	if (init_rows(p) < 0) {
		no_memory(err);
		prof_free(p);
		return NULL;
	}
	return p;
}

struct prof *prof_new_sums(struct err *err)
{
	struct prof *p = prof_new(err);
	if (!p)
		return NULL;
	p->sums = 1;
	p->slot_count = 0;
	if (grow_sums(p, 0, err) < 0) {
		prof_free(p);
		return NULL;
	}
	p->sum_partial[0] = 0; /* the empty stack is a complete one */
	return p;
}

void prof_free(struct prof *p)
{
	if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL))
		return;
	mapped_free(p->mapped);
	if (p->origin) {
		free(__atomic_exchange_n(&p->origin->spare, p->copy, __ATOMIC_ACQ_REL));
		prof_free(p->origin);
		free(p);
		return;
	}
	free(p->spare);
	intern_fini(&p->strings);
	arena_fini(&p->arena);
	chunked_fini(&p->rules);
	chunked_fini(&p->modules);
	chunked_fini(&p->frames);
	chunked_fini(&p->stacks);
	chunked_fini(&p->threads);
	chunked_fini(&p->counters);
	chunked_fini(&p->partials);
	chunked_fini(&p->suppressed);
	chunked_fini(&p->slot_of_row);
	chunked_fini(&p->owner);
	chunked_fini(&p->risks);
	chunked_fini(&p->block_epoch);
	idtab_fini(&p->module_tab);
	idtab_fini(&p->frame_tab);
	idtab_fini(&p->stack_tab);
	free(p->module_map.to);
	free(p->frame_map.to);
	free(p->stack_map.to);
	free(p->slot_of);
	free(p->sum_partial);
	free(p->points);
	free(p);
}

void prof_freep(struct prof **prof)
{
	prof_free(*prof);
	*prof = NULL;
}

struct sink *prof_sink(struct prof *prof)
{
	return &prof->sink;
}

struct sink *prof_symbol_sink(struct prof *prof)
{
	return &prof->symbol_sink.sink;
}
