/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sieve.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/chunked.h"

#define BATCH 512

/* What is known of a thread, a module, a stack or a block; 0: nothing. */
enum verdict { KEPT = 1, LEFT_OUT = 2 };

struct thread {
	uint8_t verdict;
	/* its last realloc's old block: enum verdict */
	uint8_t released;
};

struct sieve {
	struct sink sink;
	struct sink *to;
	struct sieve_word *words;
	size_t word_count;
	int by_module;
	/* of code that lies in no module */
	uint8_t nameless;
	/* of frames: the module's number */
	struct chunked threads, modules, frames, stacks, blocks;
	/*
	 * what was left out since the last time, as events: of this file's time, of what was there
	 * before
	 */
	struct event told, told_inherited;
	/* of the latter in the whole file */
	uint64_t inherited, inherited_bytes;
	uint64_t last_ns;
	struct event batch[BATCH + 1];
	size_t batched;
	/* the last one in @batch may yet change */
	int holding;
};

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot keep what the filter decided");
}

static uint8_t judge(const struct sieve *s, int what, const char *name)
{
	int asked = 0, matched = 0;
	for (size_t i = 0; i < s->word_count; i++) {
		const struct sieve_word *word = &s->words[i];
		if ((int)word->what != what)
			continue;
		int match = fnmatch(word->glob, name ? name : "", 0) == 0;
		if (word->unless && match)
			return LEFT_OUT;
		asked |= !word->unless;
		matched |= match && !word->unless;
	}
	return asked && !matched ? LEFT_OUT : KEPT;
}

static uint8_t verdict_at(const struct chunked *of, uint32_t id)
{
	return chunked_has(of, id) ? *(const uint8_t *)chunked_at(of, id) : 0;
}

/* ---- definitions ----------------------------------------------------------------------------- */

static int note(struct chunked *of, uint32_t id, uint8_t verdict, struct err *err)
{
	uint8_t *to = chunked_touch(of, id);
	if (!to)
		return no_memory(err);
	*to = verdict;
	return 0;
}

static int note_frame(struct sieve *s, const struct def *def, struct err *err)
{
	uint32_t *to = chunked_touch(&s->frames, def->id);
	if (!to)
		return no_memory(err);
	*to = def->frame.module.v;
	return 0;
}

static uint8_t judge_frame(const struct sieve *s, uint32_t frame)
{
	uint32_t module =
		chunked_has(&s->frames, frame) ? *(uint32_t *)chunked_at(&s->frames, frame) : 0;
	return module ? verdict_at(&s->modules, module) : s->nameless;
}

static int sieve_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct sieve *s = (struct sieve *)sink;
	struct thread *thread;
	const char *path, *slash;
	int rc = 0;
	switch (def->kind) {
	case DEF_THREAD:
		thread = chunked_touch(&s->threads, def->id);
		if (!thread)
			return no_memory(err);
		thread->verdict = judge(s, SIEVE_THREAD, def->thread.name);
		break;
	case DEF_MODULE:
		path = def->module.path ? def->module.path : "";
		slash = strrchr(path, '/');
		rc = note(&s->modules, def->id, judge(s, SIEVE_MODULE, slash ? slash + 1 : path),
			  err);
		break;
	case DEF_FRAME:
		rc = s->by_module ? note_frame(s, def, err) : 0;
		break;
	case DEF_STACK:
		if (s->by_module)
			rc = note(&s->stacks, def->id,
				  def->stack.stop ? s->nameless
						  : judge_frame(s, def->stack.frame.v),
				  err);
		break;
	default:
		break;
	}
	return rc < 0 ? rc : s->to->define(s->to, def, err);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int flush(struct sieve *s, struct err *err)
{
	size_t count = s->batched;
	s->batched = 0;
	s->holding = 0;
	return count ? s->to->put(s->to, s->batch, count, err) : 0;
}

static uint8_t judge_alloc(const struct sieve *s, const struct event *ev)
{
	const struct thread *thread = chunked_has(&s->threads, ev->thread.v)
					      ? chunked_at(&s->threads, ev->thread.v)
					      : NULL;
	if (thread && thread->verdict == LEFT_OUT)
		return LEFT_OUT;
	if (!s->by_module)
		return KEPT;
	uint8_t verdict = ev->stack.v ? verdict_at(&s->stacks, ev->stack.v) : s->nameless;
	return verdict ? verdict : KEPT; /* not defined: whoever takes the event will say so */
}

/* Return: 1 hand on, 0 left out, negative errno. */
static int take_alloc(struct sieve *s, struct event *ev, struct err *err)
{
	uint8_t *known = chunked_touch(&s->blocks, ev->block.v);
	struct thread *thread = chunked_touch(&s->threads, ev->thread.v);
	if (!known || !thread)
		return no_memory(err);
	/* what lived when a file began was judged when it was allocated */
	if (!(ev->flags & EVENT_F_INHERITED) || !*known)
		*known = judge_alloc(s, ev);
	if (*known == KEPT) {
		if (thread->released == LEFT_OUT)
			ev->flags &= (uint8_t)~EVENT_F_REALLOC;
		thread->released = 0;
		return 1;
	}
	thread->released = 0;
	struct event *told = &s->told;
	if (ev->flags & EVENT_F_INHERITED) {
		told = &s->told_inherited;
		s->inherited++;
		s->inherited_bytes += ev->bytes;
	}
	told->addr++;
	told->bytes += ev->bytes;
	return 0;
}

static int take_free(struct sieve *s, const struct event *ev, struct err *err)
{
	uint8_t *known = chunked_touch(&s->blocks, ev->block.v);
	struct thread *thread = chunked_touch(&s->threads, ev->thread.v);
	if (!known || !thread)
		return no_memory(err);
	uint8_t verdict = *known;
	*known = 0;
	thread->released = ev->flags & EVENT_F_REALLOC ? verdict : 0;
	if (verdict != LEFT_OUT)
		return 1;
	s->told.value += !(ev->flags & EVENT_F_IMPLIED);
	return 0;
}

/*
 * The free that was taken last belongs to a realloc: whether @next, its other half, is handed on
 * says what it is.
 */
static void settle(struct sieve *s, const struct event *next)
{
	struct event *held = &s->batch[s->batched - 1];
	if (next->kind == EVENT_ALLOC && next->flags & EVENT_F_REALLOC &&
	    next->thread.v == held->thread.v && judge_alloc(s, next) == LEFT_OUT)
		held->flags &= (uint8_t)~EVENT_F_REALLOC;
	s->holding = 0;
}

static int sieve_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct sieve *s = (struct sieve *)sink;
	for (size_t i = 0; i < count; i++) {
		struct event *ev = &s->batch[s->batched];
		int rc = 1;
		*ev = events[i];
		s->last_ns = ev->time_ns;
		if (s->holding)
			settle(s, ev);
		if (ev->kind == EVENT_ALLOC && ev->block.v != BLOCK_NONE) {
			rc = take_alloc(s, ev, err);
		} else if (ev->kind == EVENT_FREE && ev->block.v != BLOCK_NONE) {
			rc = take_free(s, ev, err);
			s->holding = rc == 1 && ev->flags & EVENT_F_REALLOC;
		} else if (ev->kind == EVENT_FORKED && ev->block.v == 1) {
			ev->addr -= s->inherited;
			ev->bytes -= s->inherited_bytes;
		}
		if (rc < 0)
			return rc;
		s->batched += (size_t)rc;
		if (s->batched > BATCH || (s->batched == BATCH && !s->holding))
			rc = flush(s, err);
		if (rc < 0)
			return rc;
	}
	return s->holding ? 0 : flush(s, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void forget(struct sieve *s)
{
	chunked_fini(&s->modules);
	chunked_fini(&s->frames);
	chunked_fini(&s->stacks);
}

struct sieve *sieve_new(const struct sieve_word *words, size_t count, struct sink *to,
			struct err *err)
{
	struct sieve *s = calloc(1, sizeof(*s));
	if (!s || !(s->words = calloc(count ? count : 1, sizeof(*words)))) {
		no_memory(err);
		free(s);
		return NULL;
	}
	s->sink = (struct sink){ .define = sieve_define, .put = sieve_put };
	s->to = to;
	s->told.kind = s->told_inherited.kind = EVENT_FILTERED;
	s->told_inherited.flags = EVENT_F_INHERITED;
	s->threads = (struct chunked)CHUNKED_INIT(struct thread);
	s->modules = (struct chunked)CHUNKED_INIT(uint8_t);
	s->frames = (struct chunked)CHUNKED_INIT(uint32_t);
	s->stacks = (struct chunked)CHUNKED_INIT(uint8_t);
	s->blocks = (struct chunked)CHUNKED_INIT(uint8_t);
	for (; s->word_count < count; s->word_count++) {
		s->words[s->word_count] = words[s->word_count];
		s->words[s->word_count].glob = strdup(words[s->word_count].glob);
		s->by_module |= words[s->word_count].what == SIEVE_MODULE;
		if (!s->words[s->word_count].glob) {
			no_memory(err);
			sieve_freep(&s);
			return NULL;
		}
	}
	s->nameless = judge(s, SIEVE_MODULE, "");
	return s;
}

void sieve_freep(struct sieve **sieve)
{
	struct sieve *s = *sieve;
	*sieve = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < s->word_count; i++)
		free((char *)s->words[i].glob);
	free(s->words);
	forget(s);
	chunked_fini(&s->threads);
	chunked_fini(&s->blocks);
	free(s);
}

struct sink *sieve_sink(struct sieve *sieve)
{
	return &sieve->sink;
}

/* Hand @told on, if it says anything. */
static int tell(struct sieve *s, struct event *told, struct err *err)
{
	if (!(told->addr | told->value))
		return 0;
	told->time_ns = s->last_ns;
	int rc = s->to->put(s->to, told, 1, err);
	told->addr = told->bytes = told->value = 0;
	return rc;
}

int sieve_tell(struct sieve *s, struct err *err)
{
	int rc = flush(s, err);
	if (rc >= 0)
		rc = tell(s, &s->told_inherited, err);
	return rc < 0 ? rc : tell(s, &s->told, err);
}

void sieve_restart(struct sieve *s)
{
	forget(s);
	s->inherited = s->inherited_bytes = 0;
}
