/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sym/reader.h"

enum say { SAY_LOOK_UP, SAY_LINES, SAY_COMPARE, SAY_REST, SAY_REST_ALL, SAY_ANSWER };

struct ask {
	uint8_t build_id[64];
	uint32_t build_id_len, path_len, count;
};

struct answer_head {
	uint64_t held;
	uint32_t stale, lines, count;
};

struct symbol_head {
	/* UINT32_MAX: none */
	uint32_t function_len, file_len;
	uint32_t line;
	uint8_t inlined, language;
	uint16_t none;
};

struct child {
	struct reader *reader;
	struct reader_work work;
	struct sym *sym;
	uint64_t held;
};

/* ---- the child ------------------------------------------------------------------------------- */

/* All of it is single: one process, one sym. */
static struct {
	struct buf out;
	uint64_t held;
	/* how often all were given back */
	uint32_t rests;
} self;

static void put_text(struct buf *out, const char *text, uint32_t len)
{
	if (text)
		buf_put(out, text, len);
}

static void put_answer(struct buf *out, const struct symbol *symbols, uint32_t count)
{
	/* too much for one answer: the rest has no names */
	if (out->len > READER_ANSWER_MAX / 2)
		count = 0;
	buf_put(out, &count, sizeof(count));
	for (uint32_t i = 0; i < count; i++) {
		const struct symbol *s = &symbols[i];
		struct symbol_head head = { .function_len = UINT32_MAX,
					    .file_len = UINT32_MAX,
					    .line = s->line,
					    .inlined = s->inlined,
					    .language = s->language };
		if (s->function)
			head.function_len = (uint32_t)strnlen(s->function, TABLE_NAME_MAX);
		if (s->file)
			head.file_len = (uint32_t)strnlen(s->file, READER_PATH_ROOM);
		buf_put(out, &head, sizeof(head));
		put_text(out, s->function, head.function_len);
		put_text(out, s->file, head.file_len);
	}
}

/* What was read of it, as flags: memory is counted where that changed. */
static int depth_read(const struct module *m)
{
	return !m ? 0
		  : m->opened | m->loaded << 1 | m->lines_tried << 2 | m->stubs_tried << 3 |
			       (m->lines != NULL) << 4;
}

/* The total is kept, not summed: files may be tens of thousands. */
static void count_held(struct module *module)
{
	if (module->rests == self.rests)
		self.held -= module->held;
	module->rests = self.rests;
	module->held = sym_module_held(module);
	self.held += module->held;
}

static struct module *asked_module(struct sym *sym, const struct ask *ask, const char *path)
{
	return sym_module(sym, path, ask->build_id, (uint8_t)ask->build_id_len);
}

static void answer(struct sym *sym, uint32_t what, const struct buf *in)
{
	static const struct symbol unknown = { 0 };
	struct ask ask;
	const char *p = in->data;
	memcpy(&ask, p, sizeof(ask));
	p += sizeof(ask);
	char path[READER_PATH_ROOM + 1];
	memcpy(path, p, ask.path_len);
	path[ask.path_len] = '\0';
	p += ask.path_len;
	struct module *module = asked_module(sym, &ask, path);
	if (what == SAY_REST) {
		if (module) {
			sym_module_rest(module);
			count_held(module);
		}
		return;
	}
	int before = depth_read(module);
	if (what == SAY_COMPARE && module)
		sym_module_compare(sym, module);
	buf_clear(&self.out);
	struct answer_head first = { .count = ask.count };
	buf_put(&self.out, &first, sizeof(first));
	for (uint32_t i = 0; i < ask.count; i++) {
		const struct symbol *symbols = NULL;
		uint64_t offset;
		memcpy(&offset, p + i * sizeof(offset), sizeof(offset));
		uint32_t count = !module ? 0
				 : what == SAY_LINES
					 ? sym_module_lines(sym, module, offset, &unknown, &symbols)
					 : sym_module_resolve(sym, module, offset, &symbols);
		put_answer(&self.out, symbols, count);
	}
	if (depth_read(module) != before)
		count_held(module);
	first.held = self.held;
	first.stale = module && module->stale;
	if (!self.out.failed)
		memcpy(self.out.data, &first, sizeof(first));
	reader_answer(SAY_ANSWER, &self.out);
}

static void begin(void *ctx)
{
	struct sym *sym = ctx;
	/* what the parent read by itself is none of ours */
	sym->child = NULL;
	sym->in_process = 1;
}

static void hear(void *ctx, uint32_t what, const struct buf *in)
{
	struct sym *sym = ctx;
	if (what == SAY_REST_ALL) {
		sym_rest(sym, 0);
		self.held = 0;
		self.rests++;
	} else {
		answer(sym, what, in);
	}
}

/* ---- its parent ------------------------------------------------------------------------------ */

static int open_served(void *ctx, const uint8_t *build_id, uint32_t len, char **found)
{
	return sym_open_served(ctx, build_id, len, found);
}

struct child *child_start(struct sym *sym)
{
	struct child *child = calloc(1, sizeof(*child));
	if (!child)
		return NULL;
	child->sym = sym;
	child->work = (struct reader_work){ .name = "names",
					    .root = &sym->root,
					    .served = open_served,
					    .begin = begin,
					    .hear = hear,
					    .ctx = sym };
	child->reader = reader_start(&child->work);
	if (!child->reader) {
		free(child);
		return NULL;
	}
	return child;
}

void child_free(struct child *child)
{
	if (!child)
		return;
	reader_free(child->reader);
	free(child);
}

int child_pid(const struct child *child)
{
	return reader_pid(child->reader);
}

uint64_t child_held(const struct child *child)
{
	return child->held;
}

struct reading {
	const char *p;
	size_t left;
};

static const void *take(struct reading *r, size_t len)
{
	const char *p = r->p;
	if (len > r->left)
		return NULL;
	r->p += len;
	r->left -= len;
	return p;
}

static int take_text(struct reading *r, struct pool *pool, uint32_t len, const char **text)
{
	*text = NULL;
	if (len == UINT32_MAX)
		return 0;
	const char *p = take(r, len);
	if (!p)
		return -EPIPE;
	*text = pool_string(pool, p, len);
	return 0;
}

static int take_symbols(struct child *child, struct reading *r, const struct symbol **out,
			uint32_t *count)
{
	struct pool *pool = &child->sym->pool;
	const void *p = take(r, sizeof(*count));
	*out = NULL;
	if (!p)
		return -EPIPE;
	memcpy(count, p, sizeof(*count));
	if (*count > LINES_DEPTH_MAX)
		return -EPIPE;
	struct symbol *symbols = *count ? pool_alloc(pool, *count * sizeof(*symbols)) : NULL;
	if (!symbols)
		*count = 0;
	for (uint32_t i = 0; i < *count; i++) {
		struct symbol_head head;
		if (!(p = take(r, sizeof(head))))
			return -EPIPE;
		memcpy(&head, p, sizeof(head));
		struct symbol *s = &symbols[i];
		s->line = head.line;
		s->inlined = head.inlined != 0;
		s->language = head.language;
		if (take_text(r, pool, head.function_len, &s->function) < 0 ||
		    take_text(r, pool, head.file_len, &s->file) < 0)
			return -EPIPE;
	}
	*out = symbols;
	return 0;
}

static int put_ask(struct child *child, enum say what, const struct module *module,
		   const uint64_t *offsets, uint32_t count)
{
	struct ask ask = { .build_id_len = module->build_id_len, .count = count };
	memcpy(ask.build_id, module->build_id, module->build_id_len);
	ask.path_len = (uint32_t)strnlen(module->path, READER_PATH_ROOM);
	struct buf *buf = reader_buf(child->reader);
	buf_clear(buf);
	buf_put(buf, &ask, sizeof(ask));
	buf_put(buf, module->path, ask.path_len);
	if (count)
		buf_put(buf, offsets, count * sizeof(*offsets));
	return reader_say(child->reader, what);
}

static int ask_child(struct child *child, enum say what, struct module *module,
		     const uint64_t *offsets, uint32_t count, child_fn fn, void *ctx)
{
	struct answer_head first;
	uint32_t came = 0;
	int rc = put_ask(child, what, module, offsets, count);
	if (rc == 0)
		rc = reader_hear(child->reader, &came);
	const struct buf *heard = reader_buf(child->reader);
	struct reading r = { heard->data, heard->len };
	const void *p = rc == 0 && came == SAY_ANSWER ? take(&r, sizeof(first)) : NULL;
	if (!p)
		return -EPIPE;
	memcpy(&first, p, sizeof(first));
	child->held = first.held;
	module->stale |= first.stale != 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct symbol *symbols;
		uint32_t symbol_count;
		if (take_symbols(child, &r, &symbols, &symbol_count) < 0)
			return -EPIPE;
		fn(ctx, i, symbols, symbol_count);
	}
	return 0;
}

int child_look_up(struct child *child, struct module *module, int lines, const uint64_t *offsets,
		  uint32_t count, child_fn fn, void *ctx)
{
	return ask_child(child, lines ? SAY_LINES : SAY_LOOK_UP, module, offsets, count, fn, ctx);
}

int child_compare(struct child *child, struct module *module)
{
	return ask_child(child, SAY_COMPARE, module, NULL, 0, NULL, NULL);
}

void child_rest(struct child *child, const struct module *module)
{
	/* one that does not hear it is found to be dead when it is asked next */
	if (module) {
		put_ask(child, SAY_REST, module, NULL, 0);
	} else {
		buf_clear(reader_buf(child->reader));
		reader_say(child->reader, SAY_REST_ALL);
	}
	reader_forget_files(child->reader);
	child->held = 0;
}
