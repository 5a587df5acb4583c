/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_record.c - what is sampled of one process as a recording: each sample an allocation with
 * its stack, each free of one its end. The file says how it was sampled, so that every reading of
 * it is an estimate and says so.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/intern.h"
#include "proc/proc.h"
#include "recorder/recorder.h"
#include "recorder/sample_record.h"
#include "trace/trace.h"

#define RSS_NS NS_PER_S

struct block {
	uint64_t addr, bytes;
	struct stack_id stack;
	uint32_t next_free;
};

struct sample_record {
	struct sampler *sampler;
	struct samples *samples;
	uint32_t pid;
	struct trace_writer *writer;
	char *path;
	struct prof *prof;
	struct sink_tee tee;
	uint64_t start_ns, last_ns, rss_due_ns, sample_bytes;
	struct proc_gauge gauge;
	/* numbers given out: thread ids, stacks by row, what is live by address */
	uint32_t *tids;
	uint32_t tid_count;
	size_t modules_known, frames_known;
	uint32_t *row_stacks;
	size_t row_stack_cap;
	uint32_t next_stack;
	/* reasons defined, as bits */
	uint32_t stops;
	struct block *blocks;
	uint32_t block_count, block_cap, free_block;
	struct idtab live;
	uint64_t random;
	struct err *err;
};

static int define(struct sample_record *r, const struct def *def)
{
	return r->tee.sink.define(&r->tee.sink, def, r->err);
}

static int define_process(struct sample_record *r, int ended, const char *exe)
{
	char *cmdline = NULL;
	ssize_t bytes = exe ? proc_cmdline((pid_t)r->pid, &cmdline) : 0;
	uint64_t peak = 0;
	proc_peak_rss((pid_t)r->pid, &peak);
	struct def def = { .kind = DEF_PROCESS };
	def.process.pid = r->pid;
	def.process.exe = exe;
	def.process.cmdline = bytes > 0 ? cmdline : exe;
	def.process.cmdline_bytes = bytes > 0 ? (size_t)bytes : exe ? strlen(exe) : 0;
	def.process.comment = exe ? PROF_SAMPLER : NULL;
	def.process.start_realtime_ns = exe ? r->samples->start_realtime_ns : 0;
	def.process.start_monotonic_ns = r->start_ns;
	def.process.time_bound_ns = 1000000;
	def.process.ended = ended;
	def.process.complete = ended;
	def.process.exit_status = -1;
	def.process.runtime_ns = ended ? r->samples->now_ns - r->start_ns : 0;
	def.process.peak_rss_bytes = peak;
	def.process.sample_bytes = r->sample_bytes > 1 ? r->sample_bytes : 0;
	int rc = define(r, &def);
	free(cmdline);
	return rc;
}

struct sample_record *sample_record_new(struct sampler *sampler, struct samples *samples,
					const char *pattern, struct err *err)
{
	struct sample_record *r = calloc(1, sizeof(*r));
	if (!r) {
		err_set(err, -ENOMEM, "cannot record samples");
		return NULL;
	}
	const struct sample_process *p = &samples->processes[0];
	r->sampler = sampler;
	r->samples = samples;
	r->pid = p->pid;
	r->err = err;
	r->start_ns = r->last_ns = samples->start_ns;
	r->sample_bytes = samples->sample_bytes;
	r->next_stack = STACK_STOP_MAX;
	r->free_block = UINT32_MAX;
	r->gauge.pid = (pid_t)r->pid;
	r->random = hash_seed() | 1;
	char *name = recorder_name(pattern, p->exe, (pid_t)r->pid, err);
	r->writer = name ? trace_writer_new(name, NULL, err) : NULL;
	free(name);
	r->path = r->writer ? strdup(trace_writer_path(r->writer)) : NULL;
	r->prof = r->path ? prof_new(err) : NULL;
	if (!r->prof) {
		if (r->writer && !r->path)
			err_set(err, -ENOMEM, "cannot record samples");
		sample_record_free(r);
		return NULL;
	}
	sink_tee_init(&r->tee);
	sink_tee_add(&r->tee, trace_writer_sink(r->writer));
	sink_tee_add(&r->tee, prof_sink(r->prof));
	if (define_process(r, 0, p->exe) < 0) {
		sample_record_free(r);
		return NULL;
	}
	return r;
}

void sample_record_free(struct sample_record *r)
{
	if (!r)
		return;
	trace_writer_freep(&r->writer);
	proc_gauge_fini(&r->gauge);
	prof_free(r->prof);
	idtab_fini(&r->live);
	free(r->tids);
	free(r->row_stacks);
	free(r->blocks);
	free(r->path);
	free(r);
}

/* The thread's number + 1, defined the first time; 0 on failure. */
static uint32_t thread_of(struct sample_record *r, uint32_t tid)
{
	for (uint32_t i = r->tid_count; i-- > 0;)
		if (r->tids[i] == tid)
			return i + 1;
	if ((r->tid_count & (r->tid_count - 1)) == 0) {
		uint32_t *grown =
			reallocarray(r->tids, r->tid_count ? r->tid_count * 2 : 1, sizeof(*grown));
		if (!grown)
			return 0;
		r->tids = grown;
	}
	char name[64];
	struct def def = { .kind = DEF_THREAD, .id = r->tid_count };
	def.thread.tid = tid;
	def.thread.name = proc_comm((pid_t)r->pid, (pid_t)tid, name, sizeof(name)) == 0 ? name : "";
	if (define(r, &def) < 0)
		return 0;
	r->tids[r->tid_count++] = tid;
	return r->tid_count;
}

/* Modules and frames that came since. */
static int define_places(struct sample_record *r)
{
	const struct samples *s = r->samples;
	int rc = 0;
	for (size_t i = r->modules_known ? r->modules_known : 1; !rc && i < s->module_count; i++) {
		struct def def = { .kind = DEF_MODULE, .id = (uint32_t)i };
		def.module.path = s->modules[i].path;
		memcpy(def.module.build_id, s->modules[i].build_id, sizeof(def.module.build_id));
		def.module.build_id_len = s->modules[i].build_id_len;
		rc = define(r, &def);
	}
	for (size_t i = r->frames_known ? r->frames_known : 1; !rc && i < s->frame_count; i++) {
		struct def def = { .kind = DEF_FRAME, .id = (uint32_t)i };
		def.frame.module.v = s->frames[i].module;
		def.frame.offset = s->frames[i].offset;
		rc = define(r, &def);
	}
	r->modules_known = s->module_count;
	r->frames_known = s->frame_count;
	return rc;
}

static int define_stop(struct sample_record *r, uint8_t stop)
{
	struct def def = { .kind = DEF_STACK, .id = stop };
	if (!stop || r->stops >> stop & 1)
		return 0;
	def.stack.stop = stop;
	r->stops |= 1u << stop;
	return define(r, &def);
}

/* The recording's number of a row's stack; the innermost frame is the allocator's own. */
static int stack_of(struct sample_record *r, const struct sample_row *row, uint32_t *stack)
{
	const struct samples *s = r->samples;
	size_t at = (size_t)(row - s->rows);
	if (at >= r->row_stack_cap) {
		size_t cap = s->row_cap;
		uint32_t *grown = reallocarray(r->row_stacks, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + r->row_stack_cap, 0, (cap - r->row_stack_cap) * sizeof(*grown));
		r->row_stacks = grown;
		r->row_stack_cap = cap;
	}
	if (r->row_stacks[at]) {
		*stack = r->row_stacks[at];
		return 0;
	}
	uint32_t parent = row->stop;
	int rc = define_places(r);
	if (!rc)
		rc = define_stop(r, row->stop);
	for (uint32_t i = row->frame_count; !rc && i-- > 1;) {
		struct def def = { .kind = DEF_STACK, .id = r->next_stack };
		def.stack.parent.v = parent;
		def.stack.frame.v = s->frame_list[row->frames + i];
		rc = define(r, &def);
		parent = r->next_stack++;
	}
	*stack = r->row_stacks[at] = parent;
	return rc;
}

static uint32_t addr_hash(uint64_t addr)
{
	return (uint32_t)hash_u64(addr, 0, hash_seed());
}

/* A block's slot in the table of what is live; UINT32_MAX: it is not. */
static uint32_t find_block(const struct sample_record *r, uint64_t addr)
{
	uint32_t hash = addr_hash(addr);
	if (!r->live.slots)
		return UINT32_MAX;
	for (uint32_t at = idtab_first(&r->live, hash); r->live.slots[at].id != IDTAB_NONE;
	     at = idtab_next(&r->live, at))
		if (r->live.slots[at].hash == hash && r->blocks[r->live.slots[at].id].addr == addr)
			return r->live.slots[at].id;
	return UINT32_MAX;
}

/*
 * Entries are never taken out: a block that was freed keeps its place for the address that it had.
 */
static uint32_t add_block(struct sample_record *r, uint64_t addr)
{
	uint32_t id = find_block(r, addr), hash = addr_hash(addr), at;
	if (id != UINT32_MAX)
		return id;
	if (r->block_count == r->block_cap) {
		uint32_t cap = r->block_cap ? r->block_cap * 2 : 1024;
		struct block *grown = reallocarray(r->blocks, cap, sizeof(*grown));
		if (!grown)
			return UINT32_MAX;
		r->blocks = grown;
		r->block_cap = cap;
	}
	if (idtab_reserve(&r->live) < 0)
		return UINT32_MAX;
	for (at = idtab_first(&r->live, hash); r->live.slots[at].id != IDTAB_NONE;)
		at = idtab_next(&r->live, at);
	idtab_put(&r->live, at, hash, r->block_count);
	r->blocks[r->block_count] = (struct block){ .addr = addr, .bytes = UINT64_MAX };
	return r->block_count++;
}

static double draw(struct sample_record *r)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return (double)(r->random >> 11) / 9007199254740992.0;
}

/*
 * Sizes that share a chance in the kernel's table were taken with that of the largest; the file
 * says 1 - exp(-s / N) of each. What was taken beyond that is left out here.
 */
static int is_beyond(struct sample_record *r, const struct wire_sample_event *e)
{
	double every = (double)r->sample_bytes, bytes = e->bytes ? (double)e->bytes : 1;
	double had = e->chance == WIRE_SAMPLE_ALWAYS ? 1 : (double)e->chance / 4294967296.0;
	if (r->sample_bytes <= 1)
		return 0;
	return draw(r) * had > -expm1(-bytes / every);
}

static int put(struct sample_record *r, struct event *ev, uint64_t time_ns)
{
	if (time_ns > r->last_ns)
		r->last_ns = time_ns;
	ev->time_ns = r->last_ns - r->start_ns;
	return r->tee.sink.put(&r->tee.sink, ev, 1, r->err);
}

static int put_end(struct sample_record *r, uint32_t id, uint32_t thread, uint64_t time_ns)
{
	struct block *block = &r->blocks[id];
	struct event ev = { .kind = EVENT_FREE,
			    .thread = { thread },
			    .addr = block->addr,
			    .bytes = block->bytes,
			    .stack = block->stack,
			    .block = { id } };
	block->bytes = UINT64_MAX; /* not live */
	return put(r, &ev, time_ns);
}

static int take_event(void *ctx, const struct wire_sample_event *e)
{
	struct sample_record *r = ctx;
	if (e->pid != r->pid)
		return 0;
	uint32_t thread = thread_of(r, e->tid);
	if (!thread)
		return r->err->code ? r->err->code : -ENOMEM;
	uint32_t id = find_block(r, e->addr);
	int was_live = id != UINT32_MAX && r->blocks[id].bytes != UINT64_MAX;
	int rc = was_live ? put_end(r, id, thread - 1, e->time_ns) : 0;
	if (rc < 0 || e->kind != WIRE_SAMPLE_ALLOC || is_beyond(r, e))
		return rc;
	const struct sample_row *row = sampler_row(r->sampler, r->samples, r->pid, e->stack);
	struct event ev = {
		.kind = EVENT_ALLOC, .thread = { thread - 1 }, .addr = e->addr, .bytes = e->bytes
	};
	if (!row || row->hidden)
		return row ? 0 : -ENOMEM;
	rc = stack_of(r, row, &ev.stack.v);
	id = rc < 0 ? UINT32_MAX : add_block(r, e->addr);
	if (id == UINT32_MAX)
		return err_set(r->err, rc < 0 ? rc : -ENOMEM, "cannot record samples");
	ev.block.v = id;
	r->blocks[id].bytes = e->bytes;
	r->blocks[id].stack = ev.stack;
	return put(r, &ev, e->time_ns);
}

int sample_record_drain(struct sample_record *r, uint64_t now_ns, struct err *err)
{
	struct proc_resident resident;
	r->err = err;
	int rc = sampler_events(r->sampler, take_event, r, err);
	if (rc < 0 || now_ns < r->rss_due_ns)
		return rc < 0 ? rc : 0;
	r->rss_due_ns = now_ns + RSS_NS;
	if (proc_gauge_resident(&r->gauge, &resident) == 0) {
		struct event ev = { .kind = EVENT_RSS,
				    .bytes = resident.memory.rss_bytes,
				    .addr = resident.memory.virtual_bytes,
				    .value = resident.peak_bytes };
		struct event parts = { .kind = EVENT_RESIDENT,
				       .addr = resident.file_bytes,
				       .bytes = resident.shmem_bytes,
				       .value = resident.swap_bytes };
		if (thread_of(r, r->pid) && (put(r, &ev, now_ns) < 0 || put(r, &parts, now_ns) < 0))
			return err->code;
	}
	return trace_writer_flush(r->writer, err);
}

int sample_record_finish(struct sample_record *r, void (*names)(void *ctx, struct prof *prof),
			 void *ctx, struct err *err)
{
	uint64_t counts[WIRE_SAMPLE_COUNTERS];
	int rc = sample_record_drain(r, r->samples->now_ns, err);
	if (rc == 0)
		rc = sampler_counts(r->sampler, counts, err);
	if (rc == 0 && counts[WIRE_SAMPLE_LOST_EVENTS] && thread_of(r, r->pid)) {
		struct event ev = { .kind = EVENT_LOST,
				    .value = LOSS_RING_FULL,
				    .addr = counts[WIRE_SAMPLE_LOST_EVENTS] };
		rc = put(r, &ev, r->samples->now_ns);
	}
	if (rc == 0)
		rc = define_process(r, 1, NULL);
	if (rc < 0)
		return rc;
	rc = trace_writer_finish(STEAL(r->writer), r->prof, err);
	if (rc < 0)
		return rc;
	names(ctx, r->prof);
	return trace_append_symbols(r->path, r->prof, err);
}

const char *sample_record_path(const struct sample_record *r)
{
	return r->path;
}
