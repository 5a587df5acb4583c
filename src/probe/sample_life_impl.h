/* SPDX-License-Identifier: Apache-2.0 */
/* sample_life_impl.h - what the files of a sampler's life share. Private to probe/sample_*.c. */
#ifndef PROBE_SAMPLE_LIFE_IMPL_H
#define PROBE_SAMPLE_LIFE_IMPL_H

#include "probe/sample_life.h"

/** struct sample_target - one process that is sampled. */
struct sample_target {
	uint32_t pid;
	int pidfd;
	int ended;
	/* used since it counts; what is known of one that ended */
	uint64_t cpu_ns;
	uint64_t cpu_first_ns;
	struct sym *sym;
	/* the inode of its mount namespace; 0 = not known */
	uint64_t mounts;
	/* that were looked into */
	struct sampler_files *files;
	/* code, since */
	int has_mapped;
	/* not before */
	uint64_t look_due_ns;
};

struct sample_life {
	struct sample_life_opt opt;
	struct sampler *sampler;
	struct samples *samples;
	struct sampler_governor governor;
	/* NULL: none */
	struct sample_record *record;
	int nop5_tried, nop5_safe;
	/* samples are an allocator's own */
	int of_hook;
	double tick_ns;
	/* seconds over the budget, in a row */
	unsigned over;
	struct sample_target targets[SAMPLE_PROCESSES_MAX];
	size_t target_count;
	/* used by those whose place another one has */
	uint64_t forgotten_cpu_ns;
	/* names of what those had mapped that ended; NULL: nobody needed it */
	struct sym *own;
	int signals, dump_signal;
	int full;
	/* reading */
	int is_last;
	/* when it was detached; 0 = not yet */
	uint64_t ended_ns;
	uint64_t end_ns, more_due_ns, next_ns, interval_ns, shown;
	/* the next reading of the tables, and how often there is one */
	uint64_t mark_due_ns, mark_ns;
	struct desk desk;
	/* not before */
	uint64_t answer_due_ns;
};

/**
 * sample_places_free() - those of @all that have ended are moved to @gone, which has room for
 * @count; the others keep their order. Return: how many. Pure.
 */
size_t sample_places_free(struct sample_target *all, size_t *count, struct sample_target *gone);
/** sample_life_resolve() - names for what @prof has; @life is a struct sample_life. */
void sample_life_resolve(void *life, struct prof *prof);

#endif
