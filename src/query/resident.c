/* SPDX-License-Identifier: Apache-2.0 */
#include "query/resident.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "sym/sym.h"

struct resident {
	struct trace_pages *pages;
	/* NULL: nothing was to be looked for yet */
	struct sym *sym;
	/* each reading has one: names live here */
	atomic_int refs;
};

/* What a reading holds: the names, and what its frames and stacks live in. */
struct hold {
	struct resident *resident;
	void *home;
	void (*leave)(void *home);
};

void resident_free(struct resident *resident)
{
	if (!resident || atomic_fetch_sub(&resident->refs, 1) > 1)
		return;
	trace_pages_free(resident->pages);
	sym_freep(&resident->sym);
	free(resident);
}

void resident_freep(struct resident **resident)
{
	resident_free(*resident);
	*resident = NULL;
}

struct resident *resident_open(const char *path, struct err *err)
{
	CLEANUP(resident_freep) struct resident *resident = NULL;
	if (trace_is(path, err) <= 0)
		return NULL;
	resident = calloc(1, sizeof(*resident));
	if (!resident) {
		err_set(err, -ENOMEM, "cannot read '%s'", path);
		return NULL;
	}
	atomic_init(&resident->refs, 1);
	resident->pages = trace_pages_new(path, err);
	return resident->pages && trace_pages_count(resident->pages) ? STEAL(resident) : NULL;
}

size_t resident_count(const struct resident *resident)
{
	return trace_pages_count(resident->pages);
}

const struct trace_pages_reading *resident_reading(const struct resident *resident, size_t i)
{
	return trace_pages_reading(resident->pages, i);
}

size_t resident_at(const struct resident *resident, uint64_t time_ns)
{
	size_t low = 0, high = resident_count(resident);
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (resident_reading(resident, middle)->time_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

size_t resident_peak(const struct resident *resident)
{
	size_t peak = 0;
	for (size_t i = 1; i < resident_count(resident); i++)
		if (resident_reading(resident, i)->rss_bytes >
		    resident_reading(resident, peak)->rss_bytes)
			peak = i;
	return peak;
}

static void name(struct resident *resident, struct page_frame *frame)
{
	static const struct symbol nothing[1];
	const struct symbol *symbols = NULL;
	const struct page_module *module = frame->module;
	if (atomic_load_explicit(&frame->symbols, memory_order_relaxed))
		return;
	uint32_t count = 0;
	if (module->path[0] == '/' && module->build_id_len)
		count = sym_resolve(resident->sym, module->path, module->build_id,
				    module->build_id_len, frame->offset, &symbols);
	atomic_store_explicit(&frame->symbol_count, count ? count : 1, memory_order_relaxed);
	atomic_store_explicit(&frame->symbols, count ? symbols : nothing, memory_order_release);
}

static void leave(void *ctx)
{
	struct hold *hold = ctx;
	hold->leave(hold->home);
	resident_free(hold->resident);
	free(hold);
}

struct page_shot *resident_load(struct resident *resident, size_t i, struct err *err)
{
	CLEANUP(page_shot_putp) struct page_shot *shot = trace_pages_load(resident->pages, i, err);
	const struct sym_opt opt = { .no_debuginfod = 1 };
	if (!shot || (!resident->sym && !(resident->sym = sym_new(&opt, err))))
		return NULL;
	struct hold *hold = malloc(sizeof(*hold));
	if (!hold) {
		err_set(err, -ENOMEM, "cannot read a reading of pages");
		return NULL;
	}
	atomic_fetch_add(&resident->refs, 1);
	*hold = (struct hold){ resident, shot->home, shot->leave };
	shot->home = hold;
	shot->leave = leave;
	const struct page_process *process = shot->processes[0];
	for (size_t k = 0; k < process->row_count; k++) {
		const struct page_stack *stack = process->rows[k].stack;
		for (uint16_t f = 0; stack && f < stack->count; f++)
			name(resident, (struct page_frame *)stack->frames[f]);
	}
	return STEAL(shot);
}

struct page_shot *resident_nearest(const char *path, uint64_t time_ns, struct err *err)
{
	CLEANUP(resident_freep) struct resident *resident = resident_open(path, err);
	if (!resident)
		return NULL;
	size_t i = resident_at(resident, time_ns);
	if (i + 1 < resident_count(resident) && resident_reading(resident, i)->time_ns <= time_ns &&
	    resident_reading(resident, i + 1)->time_ns - time_ns <
		    time_ns - resident_reading(resident, i)->time_ns)
		i++;
	return resident_load(resident, i, err);
}

int paged_open(struct paged *paged, const char *path, const struct query_time *at,
	       const struct prof *whole, struct err *err)
{
	uint64_t ns = UINT64_MAX;
	struct err none = { 0 };
	int peak = !at || at->kind == QUERY_TIME_NONE || at->kind == QUERY_TIME_PEAK;
	paged->resident = resident_open(path, &none);
	if (!paged->resident) {
		if (none.code)
			*err = none;
		return none.code;
	}
	if (!peak && query_time_resolve(at, whole, &ns, err) < 0)
		return err->code;
	paged->shot = resident_load(
		paged->resident,
		peak ? resident_peak(paged->resident) : resident_at(paged->resident, ns), err);
	return paged->shot ? 0 : err->code;
}

void paged_fini(struct paged *paged)
{
	page_shot_putp(&paged->shot);
	resident_freep(&paged->resident);
}
