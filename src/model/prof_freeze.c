/* SPDX-License-Identifier: Apache-2.0 */
/* prof_freeze.c - a reading that stands still beside one that goes on. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "model/prof_impl.h"

static int refuse_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink;
	(void)def;
	return err_set(err, -EROFS, "a frozen reading takes no definitions");
}

static int refuse_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink;
	(void)events;
	return count ? err_set(err, -EROFS, "a frozen reading takes no events") : 0;
}

/**
 * disown() - of a copy by value: what belongs to the original, and what only who feeds it needs.
 */
static void disown(struct prof *f)
{
	f->sink = f->symbol_sink.sink = (struct sink){ .define = refuse_define, .put = refuse_put };
	f->symbol_sink.prof = f;
	f->strings = (struct intern){ 0 };
	f->arena = (struct arena){ 0 };
	f->module_tab = f->frame_tab = f->stack_tab = (struct idtab){ 0 };
	f->module_map = f->frame_map = f->stack_map = (struct idmap){ 0 };
	f->slot_of = NULL;
	f->slot_count = f->slot_cap = 0;
	f->sum_partial = NULL;
	f->points = NULL;
	f->totals = NULL;
	f->mapped = NULL;
	f->copy = f->spare = NULL;
	f->rules = f->modules = f->frames = f->stacks = f->threads = f->counters = f->partials =
		f->slot_of_row = f->owner = f->risks = f->block_epoch = (struct chunked){ 0 };
	f->refs = 1;
}

/* What is copied: each array, and how many of its elements. */
struct part {
	struct chunked *to;
	const struct chunked *from;
	uint32_t count;
};

/* Memory for @bytes: what the last frozen one left, or new, with room for some growth. */
static struct prof_copy *take_memory(struct prof *origin, size_t bytes)
{
	struct prof_copy *copy = __atomic_exchange_n(&origin->spare, NULL, __ATOMIC_ACQ_REL);
	if (copy && copy->bytes >= bytes)
		return copy;
	free(copy);
	size_t cap = (bytes + bytes / 4 + 63) & ~(size_t)63;
	copy = aligned_alloc(64, sizeof(*copy) + cap);
	if (copy)
		copy->bytes = cap;
	return copy;
}

static int copy_rows(struct prof *f, const struct prof *p)
{
	const struct part parts[] = {
		{ &f->rules, &p->rules, p->rules.count },
		{ &f->modules, &p->modules, p->modules.count },
		{ &f->frames, &p->frames, p->frames.count },
		{ &f->stacks, &p->stacks, p->stacks.count },
		{ &f->threads, &p->threads, p->threads.count },
		{ &f->counters, &p->counters, p->counters.count },
		{ &f->partials, &p->partials, p->counters.count },
		{ &f->slot_of_row, &p->slot_of_row, p->stacks.count },
		{ &f->risks, &p->risks, p->counters.count },
	};
	const size_t points = PROF_POINTS_MAX * sizeof(*f->points), totals = sizeof(*f->totals);
	size_t bytes = points + ((totals + 63) & ~(size_t)63);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		bytes += chunked_copy_bytes(parts[i].from, parts[i].count);
	f->copy = take_memory(f->origin, bytes);
	if (!f->copy)
		return -ENOMEM;
	char *at = f->copy->memory;
	f->points = memcpy(at, p->points, p->point_count * sizeof(*f->points));
	at += points;
	f->totals = (struct prof_totals *)(void *)at;
	at += (totals + 63) & ~(size_t)63;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		at = chunked_copy(parts[i].to, parts[i].from, parts[i].count, at);
	return 0;
}

struct prof *prof_freeze(const struct prof *prof, struct err *err)
{
	struct prof *p = (struct prof *)prof;
	if (p->sums) {
		err_set(err, -EINVAL, "a reading of nothing but sums cannot be frozen");
		return NULL;
	}
	struct prof *f = calloc(1, sizeof(*f));
	if (f) {
		/* others let go of it meanwhile: but for what that changes it is ours to read */
		memcpy(f, p, offsetof(struct prof, refs));
		disown(f);
		f->origin = p->origin ? p->origin : p;
		__atomic_add_fetch(&f->origin->refs, 1, __ATOMIC_RELAXED);
		if (copy_rows(f, p) < 0 || (p->mapped && !(f->mapped = mapped_dup(prof_mapped(p)))))
			prof_freep(&f);
	}
	if (!f) {
		err_set(err, -ENOMEM, "cannot freeze a reading");
		return NULL;
	}
	p->shared = 1;
	/* what accessors make when they are asked is made now: many threads may ask */
	struct prof_totals *totals = STEAL(f->totals);
	size_t count;
	prof_timeline(f, &count);
	for (uint32_t i = 0; i < f->threads.count; i++)
		prof_thread(f, (struct thread_id){ i });
	prof_totals(f, totals);
	f->totals = totals;
	return f;
}
