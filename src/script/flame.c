/* SPDX-License-Identifier: Apache-2.0 */
/* flame.c - a list's blocks as a flame graph, and how pictures leave. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "out/out.h"
#include "script/machine.h"

void picture_save(struct machine *m, const char *name, const char *kind, const char *svg,
		  size_t len)
{
	struct buf path = { 0 };
	m->pictures++;
	if (name && *name == '/')
		buf_puts(&path, name);
	else if (name)
		buf_printf(&path, "%s%s%s", m->cwd, m->cwd[1] ? "/" : "", name);
	else
		buf_printf(&path, "%s%s%s #%zu", m->cwd, m->cwd[1] ? "/" : "", kind, m->pictures);
	if (path.len < 4 || strcmp(buf_cstr(&path) + path.len - 4, ".svg") != 0)
		buf_puts(&path, ".svg");
	machine_tell(m, MESSAGE_PICTURE, buf_cstr(&path), path.len, svg, len);
	buf_fini(&path);
}

/**
 * names_again() - a reading that knows all names and has no sums: the rows are the same. NULL with
 * @err.
 */
static struct prof *names_again(const struct prof *from, struct err *err)
{
	struct prof *to = prof_new(err);
	struct sink *sink = to ? prof_sink(to) : NULL;
	const struct prof_process *p = prof_process(from);
	struct def def = { .kind = DEF_PROCESS };
	int rc = to ? 0 : err->code;
	if (rc == 0 && p) {
		def.process.pid = p->pid;
		def.process.exe = p->exe;
		def.process.cmdline = p->cmdline;
		def.process.cmdline_bytes = p->cmdline_bytes;
		def.process.comment = p->comment;
		def.process.start_realtime_ns = p->start_realtime_ns;
		def.process.exit_status = p->exit_status;
		rc = sink->define(sink, &def, err);
	}
	for (uint32_t i = 1; rc == 0 && i < prof_module_count(from); i++) {
		const struct prof_module *m = prof_module(from, (struct module_id){ i });
		def = (struct def){ .kind = DEF_MODULE,
				    .id = i,
				    .module = { .path = m->path,
						.build_id_len = m->build_id_len,
						.bias = m->bias,
						.lo = m->lo,
						.hi = m->hi } };
		memcpy(def.module.build_id, m->build_id, sizeof(m->build_id));
		rc = sink->define(sink, &def, err);
	}
	for (uint32_t i = 1; rc == 0 && i < prof_frame_count(from); i++) {
		const struct prof_frame *f = prof_frame(from, (struct frame_id){ i });
		def = (struct def){ .kind = DEF_FRAME,
				    .id = i,
				    .frame = { .module = f->module, .offset = f->offset } };
		rc = sink->define(sink, &def, err);
		def = (struct def){ .kind = DEF_SYMBOL,
				    .id = i,
				    .symbol = { f->symbols, f->symbol_count } };
		if (rc == 0 && f->symbol_count)
			rc = sink->define(sink, &def, err);
	}
	for (uint32_t i = 1; rc == 0 && i < prof_stack_count(from); i++) {
		const struct prof_stack *s = prof_stack(from, (struct stack_id){ i });
		def = (struct def){
			.kind = DEF_STACK,
			.id = i,
			.stack = { .parent = s->parent, .frame = s->frame, .stop = s->stop }
		};
		rc = sink->define(sink, &def, err);
	}
	if (rc == 0)
		return to;
	prof_free(to);
	return NULL;
}

struct summing {
	/* by stack row */
	struct cost *costs;
};

static int sum_each(void *ctx, uint64_t at, const struct block_row *row)
{
	struct cost *c = &((struct summing *)ctx)->costs[row->stack];
	(void)at;
	c->allocations++;
	sum_add(&c->allocated_bytes, row->bytes);
	if (row->freed_ns == BLOCK_NEVER) {
		c->leaked++;
		sum_add(&c->leaked_bytes, row->bytes);
	} else {
		c->frees++;
	}
	return 0;
}

void flame_save(lua_State *L, const struct list *list, const char *name)
{
	struct machine *m = machine_of(L);
	struct err err = { 0 };
	uint32_t count = prof_stack_count(m->data->names);
	struct summing s = { lua_newuserdatauv(L, ((size_t)count + 1) * sizeof(*s.costs), 0) };
	memset(s.costs, 0, ((size_t)count + 1) * sizeof(*s.costs));
	list_each(L, list, sum_each, &s);
	struct prof *prof = names_again(m->data->names, &err);
	struct prof_totals totals = { .runtime_ns = m->data->length_ns };
	int rc = prof ? 0 : -1;
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		if (!s.costs[i].allocations)
			continue;
		cost_add(&totals.cost, &s.costs[i]);
		const struct stack_id row =
			i ? prof_stack_row(prof, (struct stack_id){ i }) : (struct stack_id){ 0 };
		rc = prof_load_stack(prof, row, &s.costs[i], &err);
	}
	if (rc == 0)
		rc = prof_load_totals(prof, &totals, &err);
	char *svg = NULL;
	size_t len = 0;
	FILE *to = rc == 0 ? open_memstream(&svg, &len) : NULL;
	const struct out_opt opt = { .cost = VIEW_COST_ALLOCATED };
	if (to)
		rc = out_flamegraph(to, prof, &opt, &err);
	if (to && fclose(to) != 0)
		rc = -1;
	prof_free(prof);
	if (rc == 0 && svg && len <= SCRIPT_PICTURES_MAX)
		picture_save(m, name, "Flamegraph", svg, len);
	free(svg);
	lua_settop(L, -2);
	if (rc < 0 || !to)
		luaL_error(L, "cannot draw the flame graph: %s", err.msg);
}

int flame_of_list(lua_State *L)
{
	flame_save(L, list_check(L, 1), luaL_optlstring(L, 2, NULL, NULL));
	lua_settop(L, 1);
	return 1;
}
