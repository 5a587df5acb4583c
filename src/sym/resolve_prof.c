/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "sym/child.h"
#include "sym/module.h"

struct todo {
	uint32_t module, frame;
	uint64_t offset;
	/* a function, but not where in it; NULL: nothing is known */
	const struct symbol *known;
	/* what debug information says more */
	const struct symbol *found;
	uint32_t found_count;
};

static int by_module(const void *a, const void *b)
{
	const struct todo *x = a, *y = b;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/** struct place - how far it is, for whoever shows that while a server is waited for. */
struct place {
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
	uint64_t done, total;
};

static void still_here(void *ctx)
{
	struct place *place = ctx;
	if (place->progress)
		place->progress(place->ctx, place->done, place->total);
}

struct batch {
	struct todo *todo[CHILD_BATCH];
	uint64_t offsets[CHILD_BATCH];
	size_t count;
};

static void keep_found(void *ctx, uint32_t at, const struct symbol *symbols, uint32_t count)
{
	struct todo *todo = ((struct batch *)ctx)->todo[at];
	todo->found = symbols;
	todo->found_count = count;
}

static void ask_batch(struct sym *sym, struct module *module, int known, struct batch *batch)
{
	if (known)
		sym_lines_ahead(sym, module, batch->offsets, batch->count, keep_found, batch);
	else
		sym_ahead(sym, module, batch->offsets, batch->count);
	batch->count = 0;
}

/* All of one module, in as few questions as can be. */
static void prepare(struct sym *sym, struct module *module, struct todo *todo,
		    const struct todo *end)
{
	struct batch batch;
	for (int known = 0; known < 2; known++) {
		batch.count = 0;
		for (struct todo *t = todo; t < end && t->module == todo->module; t++) {
			if ((t->known != NULL) != known)
				continue;
			batch.todo[batch.count] = t;
			batch.offsets[batch.count++] = t->offset;
			if (batch.count == CHILD_BATCH)
				ask_batch(sym, module, known, &batch);
		}
		if (batch.count)
			ask_batch(sym, module, known, &batch);
	}
}

static uint32_t symbols_of(struct sym *sym, struct module *module, const struct todo *t,
			   const struct symbol **symbols)
{
	if (!module)
		return 0;
	if (!t->known)
		return sym_module_resolve(sym, module, t->offset, symbols);
	if (sym->in_process)
		return sym_module_lines(sym, module, t->offset, t->known, symbols);
	*symbols = t->found;
	sym_call(sym, t->found, t->found_count, t->known);
	return t->found_count;
}

int sym_resolve_rows(struct sym *sym, struct prof *prof, uint32_t first, uint32_t end,
		     struct sink *sink, void (*progress)(void *ctx, uint64_t done, uint64_t total),
		     void *ctx, struct err *err)
{
	uint32_t frames = prof_frame_count(prof), count = 0;
	first = first ? first : 1;
	end = end < frames ? end : frames;
	struct todo *todo = calloc(end > first ? end - first : 1, sizeof(*todo));
	if (!todo)
		return err_set(err, -ENOMEM, "cannot list %u frames to resolve", end - first);
	for (uint32_t i = first; i < end; i++) {
		const struct prof_frame *frame = prof_frame(prof, (struct frame_id){ i });
		if (!frame || !frame->module.v)
			continue;
		const struct symbol *known = frame->symbols;
		if (prof_frame_knows(frame) == PROF_KNOWS_LINES)
			continue;
		todo[count++] = (struct todo){ frame->module.v, i, frame->offset, known, NULL, 0 };
	}
	qsort(todo, count, sizeof(*todo), by_module);
	int rc = 0;
	struct module *module = NULL;
	struct place place = { progress, ctx, 0, count };
	sym->servers.tick = still_here;
	sym->servers.tick_ctx = &place;
	for (uint32_t i = 0; !rc && i < count; i++) {
		if (!i || todo[i].module != todo[i - 1].module) {
			/* one module's files at a time: DWARF of a browser is gigabytes */
			if (module)
				sym_module_done(sym, module);
			const struct prof_module *row =
				prof_module(prof, (struct module_id){ todo[i].module });
			module = row ? sym_module(sym, row->path, row->build_id, row->build_id_len)
				     : NULL;
			place.done = i;
			if (module && !sym->in_process)
				prepare(sym, module, &todo[i], todo + count);
		}
		const struct symbol *symbols;
		place.done = i;
		uint32_t symbol_count = symbols_of(sym, module, &todo[i], &symbols);
		if (symbol_count) {
			struct def def = { .kind = DEF_SYMBOL, .id = todo[i].frame };
			def.symbol.symbols = symbols;
			def.symbol.count = symbol_count;
			rc = sink->define(sink, &def, err);
		}
		if (progress && (i % 4096 == 0 || i + 1 == count))
			progress(ctx, i + 1, count);
	}
	if (module)
		sym_module_done(sym, module);
	sym->servers.tick = NULL;
	free(todo);
	return rc;
}

int sym_resolve_prof(struct sym *sym, struct prof *prof, struct sink *sink,
		     void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
		     struct err *err)
{
	return sym_resolve_rows(sym, prof, 1, UINT32_MAX, sink, progress, ctx, err);
}
