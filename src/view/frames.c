/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.c - what a stack looks like: inlined frames unfolded, allocator calls at the inner end
 * left out.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "view/impl.h"
#include "view/key.h"

/*
 * An allocation belongs to the caller of the outermost allocator call (docs/rules.md): operator new
 * in any of its forms, and the C functions where a library of them was found on the stack as a
 * frame (one allocator calling another).
 */
int view_is_wrapper(const char *function)
{
	static const char *const names[] = {
		"malloc",   "calloc",        "realloc", "reallocarray", "posix_memalign",
		"memalign", "aligned_alloc", "valloc",  "pvalloc",
	};
	if (!function || !strchr("acmopr_v", function[0]))
		return 0; /* nearly all: this is asked of every stack */
	if (strncmp(function, "operator new", 12) == 0)
		return function[12] == '\0' || function[12] == '(' || function[12] == '[';
	if (strncmp(function, "_Znw", 4) == 0 || strncmp(function, "_Zna", 4) == 0)
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(function, names[i]) == 0)
			return 1;
	return 0;
}

uint32_t view_frame_count(const struct prof_frame *frame)
{
	return frame->symbol_count ? frame->symbol_count : 1;
}

void view_frame_at(const struct prof *prof, const struct prof_frame *frame, uint32_t i,
		   struct view_frame *out)
{
	const char *module = prof_module(prof, frame->module)->name;
	*out = (struct view_frame){ .offset = frame->offset, .module = *module ? module : NULL };
	if (i < frame->symbol_count) {
		const struct symbol *s = &frame->symbols[i];
		out->function = s->function;
		out->file = s->file;
		out->line = s->line;
		out->inlined = s->inlined;
	}
}

uint32_t view_frame_hidden(const struct prof_frame *frame)
{
	uint32_t n = 0;
	while (n < frame->symbol_count && view_is_wrapper(frame->symbols[n].function))
		n++;
	return n;
}

struct stack_id view_canonical(const struct prof *prof, struct stack_id stack)
{
	struct stack_id at = stack;
	for (;;) {
		const struct prof_stack *s = prof_stack(prof, at);
		if (at.v == 0 || s->stop)
			return stack; /* nothing but wrappers: keep what there is */
		const struct prof_frame *f = prof_frame(prof, s->frame);
		if (f->symbol_count == 0 || view_frame_hidden(f) < f->symbol_count)
			return at;
		at = s->parent;
	}
}

size_t view_frames(const struct prof *prof, struct stack_id stack, struct view_frame *out,
		   size_t max, unsigned *stop)
{
	size_t n = 0;
	struct stack_id at = view_canonical(prof, stack);
	const struct prof_stack *s = prof_stack(prof, at);
	if (stop)
		*stop = s->partial;
	for (int innermost = 1; at.v != 0 && !s->stop && n < max; innermost = 0) {
		const struct prof_frame *f = prof_frame(prof, s->frame);
		uint32_t count = view_frame_count(f);
		uint32_t i = innermost ? view_frame_hidden(f) : 0;
		for (i = i < count ? i : 0; i < count && n < max; i++)
			view_frame_at(prof, f, i, &out[n++]);
		at = s->parent;
		s = prof_stack(prof, at);
	}
	return n;
}

static const char *program_of(const struct prof *prof)
{
	const struct prof_process *process = prof ? prof_process(prof) : NULL;
	const char *exe = process ? process->exe : NULL, *slash = exe ? strrchr(exe, '/') : NULL;
	return slash ? slash + 1 : exe;
}

struct view_programs view_programs(const struct prof *before, const struct prof *after)
{
	struct view_programs p = { program_of(before), program_of(after) };
	if (!p.before || !p.after || !*p.before || !*p.after || strcmp(p.before, p.after) == 0)
		p.before = p.after = NULL;
	return p;
}

const char *view_program_module(const struct view_programs *p, const char *module)
{
	return p->before && module && strcmp(module, p->before) == 0 ? p->after : module;
}

uint64_t view_frame_key(const struct view_frame *v, enum view_by by)
{
	char text[16];
	CLEANUP(buf_fini) struct buf bytes = { 0 };
	switch (by) {
	case VIEW_BY_MODULE:
		return view_key_function(v->module, "", 0);
	case VIEW_BY_FILE:
	case VIEW_BY_LINE:
		if (!v->file)
			break;
		buf_put(&bytes, "\0", 2);
		buf_puts(&bytes, v->file);
		if (by == VIEW_BY_LINE) {
			snprintf(text, sizeof(text), ":%u", v->line);
			buf_puts(&bytes, text);
		}
		return view_key_bytes(bytes.data, bytes.len);
	default:
		break;
	}
	return view_key_function(v->module, v->function, v->offset);
}
