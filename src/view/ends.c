/* SPDX-License-Identifier: Apache-2.0 */
#include "view/ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/prof.h"

const char *view_end_goes(unsigned stop)
{
	return stop == STACK_STOP_GUESSED ? "go through" : "end in";
}

const char *view_end_why(unsigned stop)
{
	/* by their numbers, as stack_stop_name() has them */
	static const char *const why[STACK_STOP_MAX] = {
		[1] = "whose unwind data does not cover that code",
		[2] = "made at run time, without frame pointers that lead on",
		[3] = "whose unwind data asks for what cannot be done",
		[4] = "whose caller's place cannot be read",
		[5] = "whose caller would not lie further out",
		[STACK_STOP_GUESSED] = "made at run time, whose frame pointers were followed",
	};
	return stop < STACK_STOP_MAX ? why[stop] : NULL;
}

struct sum {
	const char *name;
	uint32_t module;
	uint8_t stop;
	uint64_t allocations;
};

struct sums {
	struct sum *all;
	size_t count, cap;
};

/* Few: modules at whose code stacks end, and functions. */
static struct sum *sum_of(struct sums *sums, uint8_t stop, uint32_t module, const char *name)
{
	for (size_t i = 0; i < sums->count; i++) {
		struct sum *s = &sums->all[i];
		if (s->stop == stop && s->module == module &&
		    (s->name == name || (s->name && name && !strcmp(s->name, name))))
			return s;
	}
	if (sums->count == sums->cap) {
		size_t cap = sums->cap ? sums->cap * 2 : 64;
		struct sum *grown =
			cap > VIEW_ENDS_MAX ? NULL : reallocarray(sums->all, cap, sizeof(*grown));
		if (!grown)
			return NULL;
		sums->all = grown;
		sums->cap = cap;
	}
	struct sum *s = &sums->all[sums->count++];
	*s = (struct sum){ .name = name, .module = module, .stop = stop };
	return s;
}

/*
 * The outermost function, as it is called where it ends: of frames that are inlined there the one
 * that was not.
 */
static const char *name_of(const struct prof_frame *frame)
{
	return frame->symbol_count ? frame->symbols[frame->symbol_count - 1].function : NULL;
}

static void pick(const struct prof *prof, const struct sums *modules, const struct sums *functions,
		 struct view_end ends[STACK_STOP_MAX])
{
	uint32_t of[STACK_STOP_MAX] = { 0 };
	for (size_t i = 0; i < modules->count; i++) {
		const struct sum *s = &modules->all[i];
		struct view_end *end = &ends[s->stop];
		if (s->allocations <= end->in_module)
			continue;
		end->in_module = s->allocations;
		end->module = prof_module(prof, (struct module_id){ s->module })->name;
		of[s->stop] = s->module;
	}
	for (size_t i = 0; i < functions->count; i++) {
		const struct sum *s = &functions->all[i];
		struct view_end *end = &ends[s->stop];
		if (s->module == of[s->stop] && s->name && s->allocations > end->in_function) {
			end->in_function = s->allocations;
			end->function = s->name;
		}
	}
}

/* A recipe is missing there: the file of other code that has none is not told from others. */
static int is_of_no_file(const struct prof *prof, const struct prof_stack *s)
{
	return !prof_module(prof, prof_frame(prof, s->frame)->module)->name[0];
}

int view_ends(const struct prof *prof, struct view_end ends[STACK_STOP_MAX], struct err *err)
{
	uint32_t count = prof_stack_count(prof), *outer = calloc(count, sizeof(*outer));
	uint64_t *of = calloc(count, sizeof(*of));
	struct sums modules = { 0 }, functions = { 0 };
	memset(ends, 0, STACK_STOP_MAX * sizeof(*ends));
	int rc = outer && of ? 0 : err_set(err, -ENOMEM, "cannot tell where stacks end");
	/* parents stand before what hangs below them */
	for (uint32_t i = 1; !rc && i < count; i++) {
		const struct prof_stack *s = prof_stack(prof, (struct stack_id){ i });
		if (!s->partial || s->stop)
			continue;
		if (s->partial != STACK_STOP_GUESSED)
			outer[i] = prof_stack(prof, s->parent)->stop ? i : outer[s->parent.v];
		else
			outer[i] = is_of_no_file(prof, s) ? i : outer[s->parent.v];
		if (!outer[i])
			continue;
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ i }, &cost);
		of[outer[i]] += cost.allocations;
	}
	for (uint32_t i = 1; !rc && i < count; i++) {
		if (!of[i])
			continue;
		const struct prof_stack *s = prof_stack(prof, (struct stack_id){ i });
		const struct prof_frame *f = prof_frame(prof, s->frame);
		struct sum *module = sum_of(&modules, s->partial, f->module.v, NULL);
		/* beyond a great many places the largest is told of those that came first */
		if (module)
			module->allocations += of[i];
		struct sum *function = sum_of(&functions, s->partial, f->module.v, name_of(f));
		if (function)
			function->allocations += of[i];
	}
	if (!rc)
		pick(prof, &modules, &functions, ends);
	free(outer);
	free(of);
	free(modules.all);
	free(functions.all);
	return rc;
}
