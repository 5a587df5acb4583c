/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c - a thread reads each recording: it hands definitions on at once, under new numbers, and
 * events wait in its queue until the clock has come to them.
 */
#include "query/merge.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>

#include "base/buf.h"
#include "base/chunked.h"
#include "base/cleanup.h"
#include "base/intern.h"
#include "base/queue.h"

#define WAITING_BYTES (64u << 20)
#define QUEUE_BYTES_MAX (1u << 20)
#define QUEUE_BYTES_MIN (64u << 10)
#define AT_ONCE 1024
#define STACK_BYTES (512u << 10)
#define PROGRESS_EVERY 262144
#define ADDRESS_BITS 47           /* of a process, by four levels of page tables */
#define ONE_BOOT_NS 5000000000ull /* what the wall clock may be set by while a machine runs */

enum kind { THREADS, MODULES, FRAMES, STACKS, KINDS };

struct merge;

/** struct input - one recording. */
struct input {
	struct sink sink;
	struct merge *merge;
	const char *path;
	/* while it is read */
	struct recording *recording;
	pthread_t thread;
	struct queue *queue;
	/* its thread's */
	struct err err;
	int rc;
	/* under the lock once its thread runs: its process, whose texts are the merge's */
	struct def process;
	/* looks: it is read as far as its process only */
	int looks, is_known, has_thread;
	/* new numbers + 1, 0: none; by its own */
	struct chunked numbers[KINDS];
	/* the taker's: what was taken, and how far it is told; NULL: nothing is left */
	struct buf taken;
	size_t at;
	const struct event *events;
	size_t left;
	struct chunked blocks;
	uint64_t shift_ns, last_ns, brk;
	struct event rss, resident, forked;
	/* holds: its next event belongs to the last one */
	int is_off, holds;
};

struct merge {
	struct sink *to;
	struct input *inputs;
	/* the one that began first; NULL: not known yet */
	struct input *first;
	size_t count;
	/* of the sink, new numbers and what is known of processes */
	pthread_mutex_t lock;
	int stops;
	uint32_t next[KINDS], rules;
	/* blocks: those that are free again, as a stack; and how many there are */
	struct chunked free_blocks;
	uint32_t free_count, block_count;
	uint64_t peak_rss_bytes, end_ns, told;
	const struct recording_ears *ears;
	/* by when they began, and how many of these are read; by their next event, a heap */
	struct input **by_start, **order;
	size_t started, waiting;
	struct intern texts;
	size_t out_count;
	struct event out[AT_ONCE];
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot hold what the recordings have");
}

/* ---- definitions: on the thread of their recording, under the lock --------------------------- */

static int number(struct input *in, enum kind kind, uint32_t id, uint32_t *number, struct err *err)
{
	uint32_t *at = id == UINT32_MAX ? NULL : chunked_touch(&in->numbers[kind], id);
	if (!at)
		return no_memory(err);
	/* the empty stack, no frame and no module are the same in all of them */
	if (!id && kind != THREADS)
		*at = 1;
	if (!*at) {
		if (in->merge->next[kind] == UINT32_MAX - 1)
			return err_set(err, -E2BIG, "too much for one recording");
		*at = ++in->merge->next[kind]; /* from 0, and 1 stands for it */
	}
	*number = *at - 1;
	return 0;
}

static uint32_t number_of(const struct input *in, enum kind kind, uint32_t id)
{
	const uint32_t *at =
		chunked_has(&in->numbers[kind], id) ? chunked_at(&in->numbers[kind], id) : NULL;
	return at && *at ? *at - 1 : 0;
}

static uint64_t address_of(const struct input *in, uint64_t addr)
{
	return addr + ((uint64_t)(in - in->merge->inputs) << ADDRESS_BITS);
}

/* ---- the one process that all of them are ---------------------------------------------------- */

static uint64_t start_of(const struct input *in, int by_boot)
{
	return by_boot ? in->process.process.start_monotonic_ns
		       : in->process.process.start_realtime_ns;
}

static int is_one_boot(const struct merge *m)
{
	uint64_t first = 0;
	for (size_t i = 0; i < m->count; i++) {
		uint64_t boot = start_of(&m->inputs[i], 0) - start_of(&m->inputs[i], 1);
		first = i ? first : boot;
		if (!start_of(&m->inputs[i], 1) ||
		    MAX(boot, first) - MIN(boot, first) > ONE_BOOT_NS)
			return 0;
	}
	return 1;
}

/* The n-th process's addresses are where no other's are, and its time is the first one's. */
static struct input *place(struct merge *m)
{
	struct input *first = m->inputs;
	int by_boot = is_one_boot(m);
	for (size_t i = 1; i < m->count; i++)
		if (start_of(&m->inputs[i], by_boot) < start_of(first, by_boot))
			first = &m->inputs[i];
	for (size_t i = 0; i < m->count; i++)
		m->inputs[i].shift_ns = start_of(&m->inputs[i], by_boot) - start_of(first, by_boot);
	return first;
}

/* A recording that goes on in a second file, or is given twice. */
static const struct input *same_process(const struct merge *m, size_t i)
{
	const struct def *def = &m->inputs[i].process;
	for (size_t j = 0; j < i; j++) {
		const struct def *other = &m->inputs[j].process;
		if (def->process.pid == other->process.pid &&
		    def->process.start_realtime_ns == other->process.start_realtime_ns &&
		    def->process.start_monotonic_ns == other->process.start_monotonic_ns)
			return &m->inputs[j];
	}
	return NULL;
}

static const char *comment_of(const struct input *in)
{
	return in->process.process.comment ? in->process.process.comment : "";
}

static int may_be_merged(const struct merge *m, struct err *err)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct input *in = &m->inputs[i];
		const char *comment = comment_of(in);
		const char *why = strcmp(comment, PROF_SAMPLER) == 0 ? "holds samples"
				  : strcmp(comment, PROF_MERGED) == 0
					  ? "is a merged recording itself"
				  : in->process.process.sample_bytes !=
						  m->inputs[0].process.process.sample_bytes
					  ? "has another share of its stacks than the first"
				  : in->shift_ns > EVENT_TIME_MAX_NS ? "is of another age"
								     : NULL;
		if (why)
			return err_set(err, -EINVAL, "'%s' cannot be merged: it %s", in->path, why);
		const struct input *same = same_process(m, i);
		if (same) {
			err_set(err, -EINVAL, "'%s' and '%s' are of the same process", same->path,
				in->path);
			return err_hint(err, "what lived between the two would count twice");
		}
	}
	return 0;
}

static int define_process(struct merge *m, int is_end, struct err *err)
{
	CLEANUP(buf_fini) struct buf cmdline = { 0 };
	m->first = m->first ? m->first : place(m);
	struct def def = m->first->process;
	int rc = is_end ? 0 : may_be_merged(m, err);
	if (rc < 0)
		return rc;
	def.process.comment = PROF_MERGED;
	def.process.family = def.process.parent_pid = 0;
	def.process.complete = def.process.ended = 1;
	def.process.modules_nameless = 0;
	def.process.runtime_ns = m->end_ns;
	for (size_t i = 0; i < m->count; i++) {
		const struct input *in = &m->inputs[i];
		def.process.complete &= in->process.process.complete;
		def.process.ended &= in->process.process.ended;
		def.process.time_bound_ns =
			MAX(def.process.time_bound_ns, in->process.process.time_bound_ns);
		def.process.modules_nameless += in->process.process.modules_nameless;
		def.process.runtime_ns =
			MAX(def.process.runtime_ns, in->process.process.runtime_ns + in->shift_ns);
		if (strcmp(comment_of(in), PROF_ATTACHED) == 0)
			def.process.comment = PROF_ATTACHED;
	}
	def.process.peak_rss_bytes = m->peak_rss_bytes;
	buf_put(&cmdline, def.process.cmdline, def.process.cmdline_bytes);
	if (cmdline.len && cmdline.data[cmdline.len - 1])
		buf_putc(&cmdline, '\0');
	if (m->count > 1)
		buf_printf(&cmdline, "(and %zu more process%s)", m->count - 1,
			   m->count == 2 ? "" : "es");
	def.process.cmdline = buf_cstr(&cmdline);
	def.process.cmdline_bytes = cmdline.len;
	if (buf_failed(&cmdline))
		return no_memory(err);
	return m->to->define(m->to, &def, err);
}

/* ---- definitions: on the thread of their recording, under the lock --------------------------- */

static int meet_process(struct input *in, const struct def *def, struct err *err)
{
	struct intern *texts = &in->merge->texts;
	const struct def before = in->process;
	struct def *now = &in->process;
	/* a second definition updates the first: what it does not know stays */
	*now = *def;
	now->process.exe =
		def->process.exe ? intern_str(texts, def->process.exe) : before.process.exe;
	now->process.comment = def->process.comment ? intern_str(texts, def->process.comment)
						    : before.process.comment;
	if (def->process.cmdline) {
		now->process.cmdline =
			intern_mem(texts, def->process.cmdline, def->process.cmdline_bytes);
	} else {
		now->process.cmdline = before.process.cmdline;
		now->process.cmdline_bytes = before.process.cmdline_bytes;
	}
	if ((def->process.exe && !now->process.exe) ||
	    (def->process.comment && !now->process.comment) ||
	    (def->process.cmdline && !now->process.cmdline))
		return no_memory(err);
	if (!def->process.pid)
		now->process.pid = before.process.pid;
	if (!def->process.start_realtime_ns)
		now->process.start_realtime_ns = before.process.start_realtime_ns;
	if (!def->process.start_monotonic_ns)
		now->process.start_monotonic_ns = before.process.start_monotonic_ns;
	in->is_known = 1;
	return 0;
}

static int define(struct input *in, const struct def *def, struct err *err)
{
	struct merge *m = in->merge;
	struct def renamed = *def;
	int rc = 0;
	switch (def->kind) {
	case DEF_PROCESS:
		return meet_process(in, def, err);
	case DEF_THREAD:
		rc = number(in, THREADS, def->id, &renamed.id, err);
		break;
	case DEF_MODULE:
		rc = number(in, MODULES, def->id, &renamed.id, err);
		break;
	case DEF_FRAME:
		renamed.frame.module.v = number_of(in, MODULES, def->frame.module.v);
		if (!def->frame.module.v)
			renamed.frame.offset = address_of(in, def->frame.offset);
		rc = number(in, FRAMES, def->id, &renamed.id, err);
		break;
	case DEF_STACK:
		renamed.stack.parent.v = number_of(in, STACKS, def->stack.parent.v);
		renamed.stack.frame.v = number_of(in, FRAMES, def->stack.frame.v);
		rc = number(in, STACKS, def->id, &renamed.id, err);
		break;
	case DEF_SYMBOL:
		renamed.id = number_of(in, FRAMES, def->id);
		break;
	case DEF_RULE:
		renamed.id = ++m->rules;
		break;
	}
	return rc < 0 ? rc : m->to->define(m->to, &renamed, err);
}

static int input_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct input *in = (struct input *)sink;
	pthread_mutex_lock(&in->merge->lock);
	int rc =
		in->merge->stops || (in->looks && in->is_known) ? -ECANCELED : define(in, def, err);
	pthread_mutex_unlock(&in->merge->lock);
	return rc;
}

static int input_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct input *in = (struct input *)sink;
	if (in->looks)
		return -ECANCELED;
	for (size_t done = 0; done < count;) {
		size_t some = MIN(count - done, (size_t)AT_ONCE);
		const struct iovec part = { (void *)(events + done), some * sizeof(*events) };
		int rc = queue_put(in->queue, &part, 1, -1);
		if (rc < 0)
			return err_set(err, rc, "cannot hold the events of '%s'", in->path);
		done += some;
	}
	return 0;
}

static void *read_all(void *arg)
{
	struct input *in = arg;
	struct merge *m = in->merge;
	in->rc = recording_run(in->recording, &in->sink, &in->err);
	pthread_mutex_lock(&m->lock);
	if (in->rc < 0 && !m->stops)
		m->stops = in->rc;
	pthread_mutex_unlock(&m->lock);
	queue_close(in->queue);
	return NULL;
}

/* ---- events: on the caller's thread, under the lock ------------------------------------------ */

static int hand_on(struct merge *m, struct err *err)
{
	size_t count = m->out_count;
	m->out_count = 0;
	m->told += count;
	if (m->ears && m->ears->progress &&
	    m->told / PROGRESS_EVERY != (m->told - count) / PROGRESS_EVERY)
		m->ears->progress(m->ears->ctx, "merging", m->told, 0);
	return count ? m->to->put(m->to, m->out, count, err) : 0;
}

static int tell(struct merge *m, const struct event *event, struct err *err)
{
	m->out[m->out_count++] = *event;
	return m->out_count == AT_ONCE ? hand_on(m, err) : 0;
}

static int give_block(struct input *in, struct event *ev, struct err *err)
{
	struct merge *m = in->merge;
	uint32_t *at = chunked_touch(&in->blocks, ev->block.v);
	if (!at)
		return no_memory(err);
	if (!*at && m->free_count)
		*at = *(uint32_t *)chunked_at(&m->free_blocks, --m->free_count);
	else if (!*at)
		*at = ++m->block_count;
	ev->block.v = *at - 1;
	return 0;
}

static int take_block(struct input *in, struct event *ev, struct err *err)
{
	struct merge *m = in->merge;
	uint32_t *at =
		chunked_has(&in->blocks, ev->block.v) ? chunked_at(&in->blocks, ev->block.v) : NULL;
	if (!at || !*at)
		return err_set(err, -EBADMSG, "'%s' frees a block that it has not", in->path);
	uint32_t *to = chunked_touch(&m->free_blocks, m->free_count);
	if (!to)
		return no_memory(err);
	m->free_count++;
	ev->block.v = *at - 1;
	*to = *at;
	*at = 0;
	return 0;
}

/* What all processes have, of which @in has just told what it has. */
static void add_up(struct input *in, struct event *ev)
{
	struct merge *m = in->merge;
	int is_rss = ev->kind == EVENT_RSS;
	*(is_rss ? &in->rss : &in->resident) = *ev;
	ev->addr = ev->bytes = ev->value = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct event *one = is_rss ? &m->inputs[i].rss : &m->inputs[i].resident;
		ev->addr += one->addr;
		ev->bytes += one->bytes;
		ev->value += is_rss ? 0 : one->value;
	}
	if (is_rss) {
		m->peak_rss_bytes = MAX(MAX(m->peak_rss_bytes, ev->bytes), in->rss.value);
		ev->value = m->peak_rss_bytes;
	}
}

/* A break of several processes is none: what moved is a mapping. 0: nothing is to be told. */
static int move_break(struct input *in, struct event *ev)
{
	uint64_t before = in->brk, after = ev->addr;
	in->brk = after;
	if (!before || before == after)
		return 0;
	ev->kind = after > before ? EVENT_MAP : EVENT_UNMAP;
	ev->addr = address_of(in, MIN(before, after));
	ev->bytes = MAX(before, after) - MIN(before, after);
	ev->value = PROT_READ | PROT_WRITE | (uint64_t)(MAP_PRIVATE | MAP_ANONYMOUS) << 32;
	return 1;
}

/* Recorded until the last of them is switched off. 0: nothing is to be told. */
static int turn(struct input *in, const struct event *ev)
{
	in->is_off = !ev->value;
	for (size_t i = 0; i < in->merge->count; i++)
		if (&in->merge->inputs[i] != in && !in->merge->inputs[i].is_off)
			return 0;
	return 1;
}

static void add_forked(struct input *in, struct event *ev)
{
	in->forked = *ev;
	ev->addr = ev->bytes = ev->value = 0;
	ev->block.v = 1;
	for (size_t i = 0; i < in->merge->count; i++) {
		const struct event *one = &in->merge->inputs[i].forked;
		ev->addr += one->addr;
		ev->bytes += one->bytes;
		ev->block.v &= !one->kind || one->block.v == 1;
	}
}

static int take(struct input *in, const struct event *event, struct err *err)
{
	struct merge *m = in->merge;
	struct event ev = *event;
	int rc = 0;
	ev.time_ns = m->end_ns = in->last_ns = event->time_ns + in->shift_ns;
	ev.thread.v = number_of(in, THREADS, event->thread.v);
	ev.stack.v = number_of(in, STACKS, event->stack.v);
	ev.aux_stack.v = number_of(in, STACKS, event->aux_stack.v);
	switch (event->kind) {
	case EVENT_ALLOC:
	case EVENT_FREE:
		ev.addr = address_of(in, event->addr);
		if (event->block.v != BLOCK_NONE)
			rc = event->kind == EVENT_ALLOC ? give_block(in, &ev, err)
							: take_block(in, &ev, err);
		break;
	case EVENT_FREE_FOREIGN:
	case EVENT_MAP:
	case EVENT_UNMAP:
		ev.addr = address_of(in, event->addr);
		break;
	case EVENT_BRK:
		if (!move_break(in, &ev))
			return 0;
		break;
	case EVENT_RSS:
	case EVENT_RESIDENT:
		add_up(in, &ev);
		break;
	case EVENT_SWITCH:
		if (!turn(in, &ev))
			return 0;
		break;
	case EVENT_FORKED:
		add_forked(in, &ev);
		break;
	case EVENT_CULLED:
		err_set(err, -EINVAL, "'%s' cannot be merged: it has left short-lived blocks out",
			in->path);
		return err_hint(err, "what they add to the peak of several is not known");
	default:
		break;
	}
	return rc < 0 ? rc : tell(m, &ev, err);
}

/* What it had at its end it has no longer. */
static int leave(struct input *in, struct err *err)
{
	struct event gone = { .kind = EVENT_RSS, .time_ns = in->merge->end_ns };
	struct event parts = { .kind = EVENT_RESIDENT, .time_ns = in->merge->end_ns };
	if (!in->rss.bytes || !in->process.process.ended)
		return 0;
	add_up(in, &gone);
	int rc = tell(in->merge, &gone, err);
	add_up(in, &parts);
	return rc < 0 || !in->merge->inputs[0].resident.kind ? rc : tell(in->merge, &parts, err);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

/* Return: 1 it has an event, 0 it has ended. Not under the lock: its thread may want it. */
static int more(struct input *in)
{
	size_t bytes;
	uint64_t since_ns;
	while (!in->left) {
		const void *record = queue_next(&in->taken, &in->at, &bytes);
		if (record) {
			in->events = record;
			in->left = bytes / sizeof(*in->events);
			continue;
		}
		in->at = 0;
		if (queue_take(in->queue, &in->taken, &since_ns, 1000) < 0)
			return 0;
	}
	return 1;
}

static uint64_t next_ns(const struct input *in)
{
	return in->events->time_ns + in->shift_ns;
}

static int is_before(const struct input *a, const struct input *b)
{
	if (a->holds != b->holds)
		return a->holds;
	return next_ns(a) != next_ns(b) ? next_ns(a) < next_ns(b) : a < b;
}

static void sink_down(struct merge *m, size_t at)
{
	for (size_t child; (child = 2 * at + 1) < m->waiting; at = child) {
		if (child + 1 < m->waiting && is_before(m->order[child + 1], m->order[child]))
			child++;
		if (!is_before(m->order[child], m->order[at]))
			return;
		struct input *up = m->order[child];
		m->order[child] = m->order[at];
		m->order[at] = up;
	}
}

static void sift_up(struct merge *m, size_t at)
{
	for (size_t up; at && is_before(m->order[at], m->order[up = (at - 1) / 2]); at = up) {
		struct input *down = m->order[up];
		m->order[up] = m->order[at];
		m->order[at] = down;
	}
}

/* ---- a recording is read from when the clock comes to its start ------------------------------ */

static int start(struct input *in, size_t room, struct err *err)
{
	pthread_attr_t attr;
	/* without ears: it is read on a thread of its own */
	in->recording = recording_open(in->path, NULL, err);
	if (!in->recording)
		return err->code;
	in->queue = queue_new(room);
	int rc = in->queue ? -pthread_attr_init(&attr) : -ENOMEM;
	if (rc < 0)
		return err_set(err, rc, "cannot hold the events of '%s'", in->path);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = -pthread_create(&in->thread, &attr, read_all, in);
	pthread_attr_destroy(&attr);
	if (rc < 0)
		return err_set(err, rc, "cannot start a thread for '%s'", in->path);
	in->has_thread = 1;
	return 0;
}

static void tell_damage(const struct input *in)
{
	const struct recording_ears *ears = in->merge->ears;
	struct err damage = { 0 };
	const char *warning = recording_warning(in->recording);
	if (!warning || !ears || !ears->notice)
		return;
	err_set(&damage, -EBADMSG, "'%s': %s", in->path, warning);
	ears->notice(ears->ctx, &damage);
}

static void stop(struct input *in)
{
	if (in->has_thread) {
		queue_close(in->queue);
		pthread_join(in->thread, NULL);
		in->has_thread = 0;
	}
	queue_free(in->queue);
	in->queue = NULL;
	if (in->recording)
		tell_damage(in);
	if (in->recording)
		recording_freep(&in->recording);
	buf_fini(&in->taken);
	chunked_fini(&in->blocks);
	for (size_t k = 0; k < KINDS; k++)
		chunked_fini(&in->numbers[k]);
}

static int finish(struct input *in, struct err *err)
{
	struct merge *m = in->merge;
	pthread_mutex_lock(&m->lock);
	in->holds = 0;
	in->is_off = 1;
	if (recording_warning(in->recording))
		in->process.process.complete = 0;
	int rc = in->rc < 0 ? -ECANCELED : leave(in, err);
	pthread_mutex_unlock(&m->lock);
	stop(in);
	return rc;
}

static int start_due(struct merge *m, struct err *err)
{
	size_t room = MAX(MIN(WAITING_BYTES / m->count, (size_t)QUEUE_BYTES_MAX), QUEUE_BYTES_MIN);
	int rc = 0;
	while (rc >= 0 && m->started < m->count) {
		struct input *in = m->by_start[m->started];
		if (m->waiting && next_ns(m->order[0]) < in->shift_ns)
			return 0;
		m->started++;
		rc = start(in, room, err);
		if (rc >= 0 && more(in)) {
			m->order[m->waiting++] = in;
			sift_up(m, m->waiting - 1);
		} else if (rc >= 0) {
			rc = finish(in, err);
		}
	}
	return rc;
}

/* When the first other one's turn comes. */
static uint64_t until_ns(const struct merge *m)
{
	uint64_t until = m->waiting > 1 ? next_ns(m->order[1]) : UINT64_MAX;
	until = m->waiting > 2 ? MIN(until, next_ns(m->order[2])) : until;
	return m->started < m->count ? MIN(until, m->by_start[m->started]->shift_ns) : until;
}

/* Its events up to there, as long as there are some at hand. */
static int take_turn(struct merge *m, struct err *err)
{
	struct input *in = m->order[0];
	uint64_t until = until_ns(m);
	int rc;
	pthread_mutex_lock(&m->lock);
	do {
		/* both halves of a realloc stand together */
		in->holds = (in->events->flags & EVENT_F_REALLOC) &&
			    (in->events->kind == EVENT_FREE || in->events->kind == EVENT_UNMAP);
		rc = m->stops ? -ECANCELED : take(in, in->events++, err);
	} while (--in->left && rc >= 0 && (in->holds || next_ns(in) < until));
	pthread_mutex_unlock(&m->lock);
	if (rc >= 0 && !more(in)) {
		rc = finish(in, err);
		m->order[0] = m->order[--m->waiting];
	}
	sink_down(m, 0);
	return rc < 0 ? rc : start_due(m, err);
}

static int merge_all(struct merge *m, struct err *err)
{
	int rc = start_due(m, err);
	while (m->waiting && rc >= 0)
		rc = take_turn(m, err);
	if (m->ears && m->ears->progress)
		m->ears->progress(m->ears->ctx, NULL, 0, 0);
	pthread_mutex_lock(&m->lock);
	if (rc >= 0)
		rc = m->stops ? -ECANCELED : hand_on(m, err);
	if (rc >= 0)
		rc = define_process(m, 1, err);
	m->stops = rc < 0 && !m->stops ? rc : m->stops;
	pthread_mutex_unlock(&m->lock);
	return rc;
}

/* ---- what they are of, before any of it is told ---------------------------------------------- */

static int look_into(struct input *in, struct err *err)
{
	struct err over = { 0 };
	CLEANUP(recording_freep) struct recording *rec = recording_open(in->path, NULL, err);
	if (!rec)
		return err->code;
	if (recording_is_written(rec)) {
		err_set(err, -EBUSY, "'%s' is being written", in->path);
		return err_hint(err,
				"wait for its end, or end it: 'byteledger heap --stop -p PID'");
	}
	in->looks = 1;
	int rc = recording_run(rec, &in->sink, &over);
	if (rc < 0 && rc != -ECANCELED) {
		*err = over;
		return rc;
	}
	if (!in->is_known)
		return err_set(err, -EBADMSG, "'%s' does not say of which process it is", in->path);
	in->looks = 0;
	return 0;
}

static int begin(struct merge *m, const char *path, struct input *in, struct err *err)
{
	*in = (struct input){ .sink = { .define = input_define, .put = input_put },
			      .merge = m,
			      .path = path,
			      .blocks = CHUNKED_INIT(uint32_t) };
	for (size_t k = 0; k < KINDS; k++)
		in->numbers[k] = (struct chunked)CHUNKED_INIT(uint32_t);
	return look_into(in, err);
}

static int by_start(const void *a, const void *b)
{
	const struct input *x = *(struct input *const *)a, *y = *(struct input *const *)b;
	if (x->shift_ns != y->shift_ns)
		return x->shift_ns < y->shift_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int run(struct merge *m, const char *const *paths, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < m->count && rc >= 0; i++) {
		m->by_start[i] = &m->inputs[i];
		rc = begin(m, paths[i], &m->inputs[i], err);
	}
	if (rc >= 0)
		rc = define_process(m, 0, err);
	if (rc < 0)
		return rc;
	qsort(m->by_start, m->count, sizeof(struct input *), by_start);
	rc = merge_all(m, err);
	for (size_t i = 0; i < m->count; i++) {
		const struct input *in = &m->inputs[i];
		stop(&m->inputs[i]);
		/* the cause, not that the others were told to stop for it */
		if (rc == -ECANCELED && in->rc < 0 && in->rc != -ECANCELED && in->rc != -EPIPE) {
			rc = in->rc;
			*err = in->err;
		}
	}
	return rc;
}

int merge_run(const char *const *paths, size_t count, struct sink *to,
	      const struct recording_ears *ears, struct err *err)
{
	if (!count || count > MERGE_MAX)
		return err_set(err, -E2BIG, "%d recordings are merged at once at most", MERGE_MAX);
	struct merge *m = calloc(1, sizeof(*m));
	struct input *inputs = calloc(count, sizeof(*inputs));
	struct input **orders = calloc(2 * count, sizeof(struct input *));
	int rc = m && inputs && orders ? 0 : no_memory(err);
	if (rc >= 0) {
		*m = (struct merge){ .to = to,
				     .inputs = inputs,
				     .count = count,
				     .by_start = orders,
				     .order = orders + count,
				     .ears = ears,
				     .free_blocks = CHUNKED_INIT(uint32_t),
				     .next = { [MODULES] = 1, [FRAMES] = 1, [STACKS] = 1 } };
		pthread_mutex_init(&m->lock, NULL);
		rc = run(m, paths, err);
		pthread_mutex_destroy(&m->lock);
		chunked_fini(&m->free_blocks);
		intern_fini(&m->texts);
	}
	free(orders);
	free(inputs);
	free(m);
	return rc;
}
