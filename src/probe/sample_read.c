/* SPDX-License-Identifier: Apache-2.0 */
/* sample_read.c - what was sampled, with names: a reading of a sampler's life. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "probe/sample_life_impl.h"
#include "sym/sym.h"
#include "view/leak.h"

/* Functions of the kernel, and what was asked of it. */
static void resolve_kernel(struct sample_life *l, struct prof *prof)
{
	struct sink *sink = prof_symbol_sink(prof);
	for (uint32_t i = 1; i < prof_frame_count(prof); i++) {
		const struct prof_frame *frame = prof_frame(prof, (struct frame_id){ i });
		char text[128];
		struct err err = { 0 };
		struct symbol symbol = { 0 };
		if (!frame || frame->symbols)
			continue;
		symbol.function =
			sampler_kernel_name(l->sampler, frame->offset, text, sizeof(text));
		struct def def = { .kind = DEF_SYMBOL, .id = i };
		def.symbol.symbols = &symbol;
		def.symbol.count = 1;
		if (symbol.function)
			sink->define(sink, &def, &err);
	}
}

/*
 * One that lives and is asked runs the same program among the same files: while more readings are
 * to come it answers for both.
 */
static int has_twin(struct sample_life *l, size_t which)
{
	const struct sample_target *t = &l->targets[which];
	const struct sample_process *process = samples_process(l->samples, t->pid);
	for (size_t i = 0; i < l->target_count && process && t->mounts; i++) {
		const struct sample_target *other = &l->targets[i];
		if (other->ended || other->mounts != t->mounts || (i >= which && !t->ended))
			continue;
		const struct sample_process *its = samples_process(l->samples, other->pid);
		if (its && !strcmp(its->exe, process->exe))
			return 1;
	}
	return 0;
}

/*
 * Names by the files of each process, as it sees them; of one that ended, those that were found
 * while it ran stay known.
 */
void sample_life_resolve(void *life, struct prof *prof)
{
	struct sample_life *l = life;
	if (l->opt.kernel)
		resolve_kernel(l, prof);
	int is_gone = 0;
	for (size_t i = 0; i < l->target_count; i++) {
		struct sample_target *t = &l->targets[i];
		struct sym_opt opt = { .pid = t->pid };
		struct err err = { 0 };
		if (!l->is_last && has_twin(l, i))
			continue;
		if (!t->sym && !t->ended)
			t->sym = sym_new(&opt, &err);
		if (t->sym)
			sym_resolve_prof(t->sym, prof, prof_symbol_sink(prof), NULL, NULL, &err);
		is_gone |= !t->sym;
	}
	struct sym_opt opt = { 0 };
	struct err err = { 0 };
	/* of those that have ended our own files serve, where they are the same */
	if (is_gone && !l->own)
		l->own = sym_new(&opt, &err);
	if (l->own)
		sym_resolve_prof(l->own, prof, prof_symbol_sink(prof), NULL, NULL, &err);
}

struct prof *sample_life_read(struct sample_life *l, int final, struct err *err)
{
	if (!l->ended_ns)
		sampler_governor_cost(&l->governor, clock_ns(CLOCK_MONOTONIC));
	if (sampler_read(l->sampler, l->samples, err) < 0)
		return NULL;
	if (!l->ended_ns)
		sampler_governor_doubt(&l->governor);
	if (l->ended_ns) /* taking probes away takes a while in which nothing is seen */
		l->samples->now_ns = l->ended_ns;
	if (final)
		samples_mark(l->samples, l->samples->now_ns);
	/* one that came and went between two looks is listed all the same */
	for (size_t i = 0; i < l->samples->row_count; i++) {
		if (!samples_add_process(l->samples, l->samples->rows[i].pid, "")) {
			err_set(err, -ENOMEM, "cannot keep samples");
			return NULL;
		}
	}
	l->is_last = final;
	leak_judge(l->samples);
	struct prof *prof = samples_prof(l->samples, 0, err);
	if (prof)
		sample_life_resolve(l, prof);
	return prof;
}
