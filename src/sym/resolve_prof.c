/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "sym/module.h"

struct todo {
	uint32_t module, frame;
	uint64_t offset;
	const struct symbol *known; /* a function, but not where in it; NULL: nothing is known */
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
		if (known && (frame->symbol_count != 1 || known->file || known->line))
			continue;
		todo[count++] = (struct todo){ frame->module.v, i, frame->offset, known };
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
				sym_module_rest(module);
			const struct prof_module *row =
				prof_module(prof, (struct module_id){ todo[i].module });
			module = row ? sym_module(sym, row->path, row->build_id, row->build_id_len)
				     : NULL;
		}
		const struct symbol *symbols;
		place.done = i;
		uint32_t symbol_count =
			!module         ? 0
			: todo[i].known ? sym_module_lines(sym, module, todo[i].offset,
							   todo[i].known, &symbols)
					: sym_module_resolve(sym, module, todo[i].offset, &symbols);
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
		sym_module_rest(module);
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
