/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - what the recording's frames are called, kept with it: a program that is built anew must
 * not turn yesterday's recording into addresses. Looked up while the program runs, many at a time,
 * on a thread of its own that steps back for everybody; in the end little is left to do.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "recorder/record.h"
#include "sym/sym.h"

#define AT_ONCE 1024u /* frames that one question asks for */
#define BATCH_LEAST 512u
/* So much of what was read of programs and libraries may stay for the next batch. */
#define KEEP_BYTES (32u << 20)

struct module {
	char *path;
	uint8_t build_id[64];
	uint8_t build_id_len;
};

struct frame {
	uint64_t offset;
	/* count: of @symbols, 0 = nothing is known */
	uint32_t id, count;
	const struct module *module;
	/* the symboliser's */
	const struct symbol *symbols;
};

struct record_names {
	/* first */
	struct sink sink;
	/* the batch's, while one is under way */
	struct sym *sym;
	struct module **modules;
	uint32_t module_room;
	struct frame *frames;
	/* looked_up: of @count, or in the batch */
	size_t count, room, looked_up;
	struct frame *batch;
	size_t batch_first, batch_count;
	pthread_t thread;
	int running, done, at_end;
};

static int grow_modules(struct record_names *names, uint32_t id, struct err *err)
{
	uint32_t room = names->module_room ? names->module_room : 64;
	while (room <= id)
		room = room > UINT32_MAX / 2 ? UINT32_MAX : room * 2;
	struct module **grown = reallocarray(names->modules, room, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "cannot hold the names of modules");
	memset(grown + names->module_room, 0, (room - names->module_room) * sizeof(*grown));
	names->modules = grown;
	names->module_room = room;
	return 0;
}

static void module_free(struct module *module)
{
	if (module)
		free(module->path);
	free(module);
}

static int define_module(struct record_names *names, const struct def *def, struct err *err)
{
	int rc = def->id < names->module_room ? 0 : grow_modules(names, def->id, err);
	/* a number that is given again may be looked up just now: the first one's stays */
	if (rc < 0 || !def->module.path || names->modules[def->id])
		return rc;
	struct module *module = calloc(1, sizeof(*module));
	if (!module || !(module->path = strdup(def->module.path))) {
		module_free(module);
		return err_set(err, -ENOMEM, "cannot hold the names of modules");
	}
	if (def->module.build_id_len <= sizeof(module->build_id)) {
		module->build_id_len = def->module.build_id_len;
		memcpy(module->build_id, def->module.build_id, module->build_id_len);
	}
	names->modules[def->id] = module;
	return 0;
}

static int define_frame(struct record_names *names, const struct def *def, struct err *err)
{
	uint32_t id = def->frame.module.v;
	const struct module *module = id < names->module_room ? names->modules[id] : NULL;
	if (!module)
		return 0;
	if (names->count == names->room) {
		size_t room = names->room ? names->room * 2 : 1024;
		struct frame *grown = reallocarray(names->frames, room, sizeof(*grown));
		if (!grown)
			return err_set(err, -ENOMEM, "cannot hold the places of functions");
		names->frames = grown;
		names->room = room;
	}
	names->frames[names->count++] =
		(struct frame){ .offset = def->frame.offset, .id = def->id, .module = module };
	return 0;
}

static int names_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct record_names *names = (struct record_names *)sink;
	if (def->kind == DEF_STACK || !def->id)
		return 0;
	if (def->kind == DEF_MODULE)
		return define_module(names, def, err);
	if (def->kind == DEF_FRAME)
		return define_frame(names, def, err);
	/* code made at run time says itself what it is */
	if (def->kind == DEF_SYMBOL && names->count > names->looked_up &&
	    names->frames[names->count - 1].id == def->id)
		names->count--;
	return 0;
}

static int names_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink;
	(void)events;
	(void)count;
	(void)err;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct frame *x = a, *y = b;
	int order = x->module == y->module ? 0 : strcmp(x->module->path, y->module->path);
	if (order)
		return order;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* As many of the first one's module as come next, in one question. */
static void prepare(struct sym *sym, const struct frame *frames, size_t count)
{
	const struct module *m = frames->module;
	uint64_t offsets[AT_ONCE];
	size_t n = 0;
	for (; n < count && n < AT_ONCE && frames[n].module == m; n++)
		offsets[n] = frames[n].offset;
	sym_prepare(sym, m->path, m->build_id, m->build_id_len, offsets, n);
}

/* One module after the other, each from its beginning to its end. */
static void look_up(struct sym *sym, struct frame *frames, size_t count)
{
	if (count)
		qsort(frames, count, sizeof(*frames), by_place);
	for (size_t i = 0; i < count; i++) {
		const struct module *m = frames[i].module;
		if (i % AT_ONCE == 0 || m != frames[i - 1].module)
			prepare(sym, frames + i, count - i);
		frames[i].count = sym_resolve(sym, m->path, m->build_id, m->build_id_len,
					      frames[i].offset, &frames[i].symbols);
	}
	sym_rest(sym, KEEP_BYTES);
}

static void *batch_run(void *ctx)
{
	struct record_names *names = ctx;
	pthread_setname_np(pthread_self(), "symbols");
	setpriority(PRIO_PROCESS, 0, 10); /* of this thread alone */
	look_up(names->sym, names->batch, names->batch_count);
	__atomic_store_n(&names->done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void take_batch(struct record_names *names)
{
	if (!names->running)
		return;
	pthread_join(names->thread, NULL);
	names->running = 0;
	memcpy(names->frames + names->batch_first, names->batch,
	       names->batch_count * sizeof(*names->batch));
	free(names->batch);
	names->batch = NULL;
}

static void begin_batch(struct record_names *names)
{
	size_t count = names->count - names->looked_up;
	names->batch = reallocarray(NULL, count, sizeof(*names->batch));
	if (!names->batch)
		return; /* the end will do it */
	memcpy(names->batch, names->frames + names->looked_up, count * sizeof(*names->batch));
	names->batch_first = names->looked_up;
	names->batch_count = count;
	names->done = 0;
	names->running = pthread_create(&names->thread, NULL, batch_run, names) == 0;
	if (names->running) {
		names->looked_up = names->count;
	} else {
		free(names->batch);
		names->batch = NULL;
	}
}

void record_names_step(struct record_names *names, int exiting)
{
	if (!names)
		return;
	if (names->running && __atomic_load_n(&names->done, __ATOMIC_ACQUIRE))
		take_batch(names);
	size_t more = names->count - names->looked_up;
	if (names->running || !more)
		return;
	/* as many again each time: a library that is read anew is read a few times */
	int at_end = exiting && !names->at_end;
	names->at_end |= exiting;
	if (at_end || (more >= BATCH_LEAST && more >= names->looked_up / 2))
		begin_batch(names);
}

struct record_names *record_names_new(struct err *err)
{
	const struct sym_opt opt = { .lasting = 1 };
	struct record_names *names = calloc(1, sizeof(*names));
	if (!names) {
		err_set(err, -ENOMEM, "cannot keep names");
		return NULL;
	}
	names->sink = (struct sink){ names_define, names_put };
	names->sym = sym_new(&opt, err);
	if (!names->sym)
		record_names_freep(&names);
	return names;
}

struct sink *record_names_sink(struct record_names *names)
{
	return &names->sink;
}

void record_names_restart(struct record_names *names)
{
	take_batch(names);
	for (uint32_t i = 0; i < names->module_room; i++) {
		module_free(names->modules[i]);
		names->modules[i] = NULL;
	}
	names->count = names->looked_up = 0;
	names->at_end = 0;
}

int record_names_put(struct record_names *names, struct sink *to, struct err *err)
{
	int rc = 0;
	take_batch(names);
	look_up(names->sym, names->frames + names->looked_up, names->count - names->looked_up);
	names->looked_up = names->count;
	for (size_t i = 0; rc >= 0 && i < names->count; i++) {
		const struct frame *frame = &names->frames[i];
		struct def def = { .kind = DEF_SYMBOL, .id = frame->id };
		def.symbol.symbols = frame->symbols;
		def.symbol.count = frame->count;
		if (frame->count)
			rc = to->define(to, &def, err);
	}
	return rc < 0 ? rc : 0;
}

void record_names_freep(struct record_names **to)
{
	struct record_names *names = *to;
	*to = NULL;
	if (!names)
		return;
	record_names_restart(names);
	sym_free(names->sym);
	free(names->modules);
	free(names->frames);
	free(names);
}
