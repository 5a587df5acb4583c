/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classify.h - what each mapping is. Mappings go in by address, come out by address with class,
 * label, owner and how it is known; a few are held back until their neighbours are seen (segments
 * of a module, its bss, the guard below a stack). Nothing here touches a page that is not resident:
 * looking must not change what is looked at.
 */
#ifndef PROC_CLASSIFY_H
#define PROC_CLASSIFY_H

#include "base/err.h"
#include "proc/label.h"
#include "proc/region.h"
#include "proc/smaps.h"
#include "proc/stacks.h"
#include "proc/target.h"
#include "proc/threads.h"

#define CLASSIFY_GROUP_MAX 24

struct classify_held {
	struct region region;
	/* its own copy */
	char *name;
	size_t name_cap;
};

/**
 * struct module_extent - where a module's segments begin and end in memory, as the loader knows it.
 */
struct module_extent {
	uint64_t start, end;
};

struct classifier {
	const struct target *target;
	/* of the own process: spares a look at each header; may be NULL */
	const struct module_extent *modules;
	size_t module_count;
	/* may be NULL: stacks are known by descriptor and shape */
	struct thread_stack *threads;
	size_t thread_count;
	/* of threads that have ended, where mappings hold several stacks: to be taken, or freed */
	struct stack_blocks idle;
	/* label and owner are lent for the call */
	region_fn put;
	void *ctx;

	/* Private. */
	/* descriptor, opened when it is needed; -1: memory of the target is left alone */
	int pagemap;
	/* likewise */
	struct pages pages;
	int pages_opened;
	/* reading its memory is not permitted */
	int unreadable;
	struct classify_held held[CLASSIFY_GROUP_MAX];
	unsigned count;
	/* the held ones are segments of one file */
	int group;
	/* of the mapping that came out last */
	uint64_t last_end;
	/* that one was without access and anonymous */
	int last_guard;
	/* where the last segment ends in memory, from program headers; 0 = unknown */
	uint64_t module_end;
	/* the address right behind the module's last mapping */
	uint64_t module_next;
	unsigned module_program;
	char module_label[LABEL_MAX];
	char *module_path;
	size_t module_path_cap;
	char label[LABEL_MAX], owner[LABEL_MAX];
};

/**
 * classify_init() - @threads are filled in with their stacks as mappings pass; both stay the
 * caller's.
 */
void classify_init(struct classifier *c, const struct target *target, struct thread_stack *threads,
		   size_t thread_count, region_fn put, void *ctx);
/** classify_region() - a region_fn: the next mapping, by address. */
int classify_region(void *classifier, struct region *region);
/** classify_end() - what is still held back comes out; 0 or the sink's value. */
int classify_end(struct classifier *c);
void classify_fini(struct classifier *c);

#endif
