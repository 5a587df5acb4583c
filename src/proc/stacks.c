/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/stacks.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE 4096u /* the descriptor is known on x86-64 alone */
#define LOOK_PAGES \
	16u /* below a top: what the kernel has joined to a stack may lie above its descriptor */
#define BLOCKS_MAX THREADS_MAX
#define TOP_FAR (64ull << 20) /* above a thread's pointer */
#define STEPS_MAX 16u
#define TOPS_MAX 1024u /* that pointers lead to: the others are found by those, or by guards */

struct finder {
	const struct target *target;
	struct pages *pages;
	const struct region *region;
	struct stack_blocks *found;
	/* of @found: those before it are of other mappings */
	size_t first;
	/* up to here by address */
	size_t sorted;
	/* of the stack that was found last */
	uint64_t bytes;
	/* for guards */
	int asked;
	int failed;
};

int stack_blocks_add(struct stack_blocks *to, const struct stack_block *block)
{
	if (to->count == to->room) {
		size_t room = to->room ? to->room * 2 : 16;
		struct stack_block *grown = realloc(to->blocks, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		to->blocks = grown;
		to->room = room;
	}
	to->blocks[to->count++] = *block;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct stack_block *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* What was found from @first on, in order, each once. */
static void settle(struct finder *f)
{
	struct stack_block *list = f->found->blocks;
	size_t kept = f->first;
	if (f->found->count > f->first)
		qsort(list + f->first, f->found->count - f->first, sizeof(*list), by_start);
	for (size_t i = f->first; i < f->found->count; i++)
		/* two that overlap were read at different moments */
		if (kept == f->first || list[i].start >= list[kept - 1].end)
			list[kept++] = list[i];
	f->found->count = f->sorted = kept;
}

static int holds(const void *key, const void *element)
{
	const uint64_t *addr = key;
	const struct stack_block *block = element;
	return *addr < block->start ? -1 : *addr >= block->end;
}

static int is_known(const struct finder *f, uint64_t addr)
{
	return f->sorted > f->first &&
	       bsearch(&addr, f->found->blocks + f->first, f->sorted - f->first,
		       sizeof(*f->found->blocks), holds) != NULL;
}

struct window {
	uint64_t start;
	/* a bit a page */
	uint32_t there;
};

static int mark(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct window *w = ctx;
	(void)kinds;
	for (; start < end; start += PAGE)
		w->there |= 1u << (start - w->start) / PAGE;
	return 0;
}

/* A stack whose top is at @end or a little below: 1 and @block, or 0. */
static int look(struct finder *f, uint64_t end, struct stack_block *block)
{
	uint64_t low = f->region->start, bytes = LOOK_PAGES * PAGE;
	struct window w = { .start = end - low > bytes ? end - bytes : low };
	struct thread_descriptor found = { 0 };
	if (end <= low || pages_each(f->pages, w.start, end, PAGE_PRESENT, mark, &w, NULL) < 0)
		return 0;
	for (unsigned page = (unsigned)((end - w.start) / PAGE); page-- > 0;) {
		if (!(w.there >> page & 1))
			continue;
		/* a descriptor takes more than half a page */
		unsigned from = page && w.there >> (page - 1) & 1 ? page - 1 : page;
		int rc = threads_descriptor(f->target, w.start + from * PAGE,
					    w.start + (page + 1) * PAGE, &found);
		if (rc < 0)
			return 0;
		/*
		 * the first thread's lies above its TLS, which the kernel joins to what it maps
		 * below
		 */
		if (rc == 0 || !found.block_end)
			continue;
		*block = (struct stack_block){ .start = found.block_start & ~(PAGE - 1ull),
					       .end = (found.block_end + PAGE - 1) & ~(PAGE - 1ull),
					       .tid = found.tid };
		return block->start >= low && block->end <= f->region->end;
	}
	return 0;
}

/* The stack that ends at @end, and those that end where another begins. */
static void follow(struct finder *f, uint64_t end)
{
	struct stack_block block;
	while (!f->failed && f->found->count - f->first < BLOCKS_MAX && !is_known(f, end - 1) &&
	       look(f, end, &block)) {
		f->failed = stack_blocks_add(f->found, &block) < 0;
		f->bytes = block.end - block.start;
		if (block.start >= end) /* it does not lead on */
			return;
		end = block.start;
	}
}

static int guard(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	struct finder *f = ctx;
	(void)end;
	if (!(kinds & PAGE_GUARD) || is_known(f, start))
		return f->failed;
	follow(f, start);
	if (f->bytes && f->bytes <= f->region->end - start)
		follow(f, start + f->bytes);
	return f->failed;
}

static int first_run(void *ctx, uint64_t start, uint64_t end, unsigned kinds)
{
	uint64_t *run = ctx;
	(void)kinds;
	if (run[1] && run[1] != start)
		return 1;
	run[0] = run[1] ? run[0] : start;
	run[1] = end;
	return 0;
}

/* Where what is resident from @pointer on ends; 0: nothing is. */
static uint64_t resident_end(struct finder *f, uint64_t pointer)
{
	uint64_t run[2] = { 0, 0 }, from = pointer & ~(PAGE - 1ull), end = f->region->end;
	if (end - from > TOP_FAR)
		end = from + TOP_FAR;
	return pages_each(f->pages, from, end, PAGE_PRESENT, first_run, run, NULL) < 0 ? 0 : run[1];
}

/*
 * What lies between stacks hides those below it: each guard is the end of one, and the beginning of
 * another.
 */
static void ask_guards(struct finder *f)
{
	if (f->pages->guards && !f->asked)
		pages_each(f->pages, f->region->start, f->region->end, PAGE_GUARD, guard, f, NULL);
	f->asked = 1;
	settle(f);
}

int stacks_in(const struct target *target, struct pages *pages, const struct region *region,
	      const struct thread_stack *threads, size_t thread_count, struct stack_blocks *found)
{
	struct finder f = { .target = target,
			    .pages = pages,
			    .region = region,
			    .found = found,
			    .first = found->count,
			    .sorted = found->count };
	unsigned tops = 0;
	follow(&f, region->end);
	settle(&f);
	if (region->flags & REGION_FLAG_GUARD || f.sorted > f.first)
		ask_guards(&f);
	for (size_t i = 0; i < thread_count && !f.failed && tops < TOPS_MAX; i++) {
		uint64_t pointer = threads[i].stack_pointer, end;
		if (pointer < region->start || pointer >= region->end || is_known(&f, pointer) ||
		    (end = resident_end(&f, pointer)) == 0)
			continue;
		tops++;
		/*
		 * others' memory may follow at once: step by step, each a page less than is looked
		 * at
		 */
		uint64_t step = (LOOK_PAGES - 1) * PAGE, at = (pointer & ~(PAGE - 1ull)) + step;
		for (unsigned k = 0; k < STEPS_MAX && at < end && found->count == f.sorted; k++) {
			follow(&f, at);
			at += step;
		}
		if (found->count == f.sorted)
			follow(&f, end);
		if (found->count > f.sorted) {
			settle(&f);
			ask_guards(&f);
		}
	}
	return f.failed ? -ENOMEM : 0;
}
