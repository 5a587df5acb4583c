/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/defs.h"

#include <errno.h>
#include <string.h>

#include "base/varint.h"
#include "trace/cursor.h"

enum {
	COL_KIND = 0,  /* a byte each: kind, for a stack stop << 4 */
	COL_ID = 1,    /* zigzag: id minus (last id of that kind + 1) */
	COL_FRAME = 2, /* module; zigzag offset minus last offset */
	COL_STACK = 3, /* id - parent; unless stopped: zigzag frame minus last frame */
	COL_REST = 4,
};

void defs_enc_fini(struct defs_enc *enc)
{
	blt_cols_fini(&enc->cols);
}

void defs_enc_clear(struct defs_enc *enc)
{
	struct blt_cols cols = enc->cols;
	blt_cols_clear(&cols);
	*enc = (struct defs_enc){ .cols = cols };
}

/* NULL is 0, a string is its length plus one. */
static int put_bytes(struct buf *buf, const char *bytes, size_t len, struct err *err)
{
	if (!bytes) {
		put_num(buf, 0);
		return 0;
	}
	if (len > DEFS_STRING_MAX)
		return err_set(err, -EINVAL, "a text of %zu bytes is too long for the recording",
			       len);
	put_num(buf, len + 1);
	buf_put(buf, bytes, len);
	return 0;
}

static int put_string(struct buf *buf, const char *text, struct err *err)
{
	return put_bytes(buf, text, text ? strlen(text) : 0, err);
}

/* Beside the number of nameless modules. */
#define PROCESS_SAMPLED (1ULL << 34)
#define PROCESS_KIN (1ULL << 35)

static int has_kin(const struct def *def)
{
	return def->process.family || def->process.parent_pid;
}

static int put_process(struct buf *buf, const struct def *def, struct err *err)
{
	put_num(buf, def->process.pid);
	int rc = put_string(buf, def->process.exe, err);
	if (rc >= 0)
		rc = put_bytes(buf, def->process.cmdline, def->process.cmdline_bytes, err);
	if (rc >= 0)
		rc = put_string(buf, def->process.comment, err);
	put_num(buf, def->process.start_realtime_ns);
	put_num(buf, def->process.start_monotonic_ns);
	put_num(buf, def->process.time_bound_ns);
	put_num(buf, (def->process.ended ? 1 : 0) | (def->process.complete ? 2 : 0) |
			     (uint64_t)def->process.modules_nameless << 2 |
			     (def->process.sample_bytes ? PROCESS_SAMPLED : 0) |
			     (has_kin(def) ? PROCESS_KIN : 0));
	put_num(buf, zigzag(def->process.exit_status));
	put_num(buf, def->process.runtime_ns);
	put_num(buf, def->process.peak_rss_bytes);
	if (def->process.sample_bytes)
		put_num(buf, def->process.sample_bytes);
	if (has_kin(def)) {
		put_num(buf, def->process.family);
		put_num(buf, def->process.parent_pid);
	}
	return rc;
}

static int put_module(struct buf *buf, const struct def *def, struct err *err)
{
	if (def->module.build_id_len > sizeof(def->module.build_id))
		return err_set(err, -EINVAL, "a build id of %u bytes is too long",
			       def->module.build_id_len);
	int rc = put_string(buf, def->module.path, err);
	buf_putc(buf, (char)def->module.build_id_len);
	buf_put(buf, def->module.build_id, def->module.build_id_len);
	put_num(buf, def->module.bias);
	put_num(buf, def->module.lo);
	put_num(buf, def->module.hi - def->module.lo);
	return rc;
}

static int put_symbols(struct buf *buf, const struct def *def, struct err *err)
{
	if (def->symbol.count > DEFS_SYMBOLS_MAX)
		return err_set(err, -EINVAL, "%u functions at one place are too many",
			       def->symbol.count);
	put_num(buf, def->symbol.count);
	for (uint32_t i = 0; i < def->symbol.count; i++) {
		const struct symbol *symbol = &def->symbol.symbols[i];
		int rc = put_string(buf, symbol->function, err);
		if (rc >= 0)
			rc = put_string(buf, symbol->file, err);
		if (rc < 0)
			return rc;
		put_num(buf, (uint64_t)symbol->line << 1 | (symbol->inlined ? 1 : 0));
	}
	return 0;
}

/* Nearly all definitions are of stacks: room for all that one can take is made once. */
static int add_stack(struct defs_enc *enc, const struct def *def, struct err *err)
{
	struct buf *col = enc->cols.col;
	unsigned stop = def->stack.stop;
	if (stop >= STACK_STOP_MAX)
		return err_set(err, -EINVAL, "stack %u ends for the unknown reason %u", def->id,
			       stop);
	if (def->stack.parent.v > def->id)
		return err_set(err, -EINVAL, "stack %u has a parent that comes later", def->id);
	char *kind = buf_room(&col[COL_KIND], 1);
	uint8_t *id = (uint8_t *)buf_room(&col[COL_ID], VARINT_MAX);
	uint8_t *stack = (uint8_t *)buf_room(&col[COL_STACK], 2 * VARINT_MAX);
	enc->rows++;
	enc->bytes += 8;
	if (!kind || !id || !stack)
		return 0; /* the columns remember that they have failed */
	*kind = (char)(DEF_STACK | stop << 4);
	col[COL_KIND].len++;
	uint8_t *end = varint_put(id, zigzag((int64_t)def->id - enc->next_id[DEF_STACK]));
	col[COL_ID].len += (size_t)(end - id);
	enc->next_id[DEF_STACK] = def->id + 1;
	end = varint_put(stack, def->id - def->stack.parent.v);
	if (!stop) {
		end = varint_put(end, zigzag((int64_t)def->stack.frame.v - enc->last_frame));
		enc->last_frame = def->stack.frame.v;
	}
	col[COL_STACK].len += (size_t)(end - stack);
	return 0;
}

int defs_enc_add(struct defs_enc *enc, const struct def *def, struct err *err)
{
	struct buf *col = enc->cols.col;
	unsigned kind = def->kind;
	if (kind < DEF_PROCESS || kind > DEF_RULE)
		return err_set(err, -EINVAL, "a definition of kind %u cannot be recorded", kind);
	if (kind == DEF_STACK)
		return add_stack(enc, def, err);
	size_t rest = col[COL_REST].len;
	int rc = 0;
	if (kind == DEF_PROCESS) {
		rc = put_process(&col[COL_REST], def, err);
	} else if (kind == DEF_THREAD) {
		put_num(&col[COL_REST], def->thread.tid);
		rc = put_string(&col[COL_REST], def->thread.name, err);
	} else if (kind == DEF_MODULE) {
		rc = put_module(&col[COL_REST], def, err);
	} else if (kind == DEF_SYMBOL) {
		rc = put_symbols(&col[COL_REST], def, err);
	} else if (kind == DEF_RULE) {
		rc = put_string(&col[COL_REST], def->rule.pattern, err);
	}
	if (rc < 0) {
		col[COL_REST].len = rest;
		return rc;
	}
	buf_putc(&col[COL_KIND], (char)kind);
	put_num(&col[COL_ID], zigzag((int64_t)def->id - enc->next_id[kind]));
	enc->next_id[kind] = def->id + 1;
	if (kind == DEF_FRAME) {
		put_num(&col[COL_FRAME], def->frame.module.v);
		put_num(&col[COL_FRAME], zigzag((int64_t)(def->frame.offset - enc->last_offset)));
		enc->last_offset = def->frame.offset;
	}
	enc->rows++;
	enc->bytes += 8 + col[COL_REST].len - rest;
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint8_t get_byte(struct cursor *c)
{
	if (c->bad || c->at == c->end) {
		c->bad = 1;
		return 0;
	}
	return *c->at++;
}

#define NO_STRING SIZE_MAX

/*
 * The string's place in @text (where it gets a NUL behind it), or NO_STRING; pointers come when
 * @text grows no more.
 */
static size_t get_string(struct cursor *c, struct buf *text, size_t *len)
{
	uint64_t n = get_num(c);
	*len = 0;
	if (c->bad || n == 0)
		return NO_STRING;
	n--;
	if (n > DEFS_STRING_MAX || n > (uint64_t)(c->end - c->at)) {
		c->bad = 1;
		return NO_STRING;
	}
	size_t place = text->len;
	buf_put(text, c->at, n);
	buf_putc(text, '\0');
	c->at += n;
	*len = n;
	return place;
}

static const char *text_at(const struct buf *text, size_t place)
{
	return place == NO_STRING ? NULL : text->data + place;
}

static void get_process(struct cursor *c, struct buf *text, struct def *def)
{
	size_t len, cmdline_bytes;
	def->process.pid = get_u32(c);
	size_t exe = get_string(c, text, &len);
	size_t cmdline = get_string(c, text, &cmdline_bytes);
	size_t comment = get_string(c, text, &len);
	if (!buf_failed(text)) {
		def->process.exe = text_at(text, exe);
		def->process.cmdline = text_at(text, cmdline);
		def->process.comment = text_at(text, comment);
	}
	def->process.cmdline_bytes = cmdline_bytes;
	def->process.start_realtime_ns = get_num(c);
	def->process.start_monotonic_ns = get_num(c);
	def->process.time_bound_ns = get_num(c);
	uint64_t flags = get_num(c);
	def->process.ended = flags & 1;
	def->process.complete = flags >> 1 & 1;
	def->process.modules_nameless = (uint32_t)(flags >> 2);
	def->process.exit_status = (int)unzigzag(get_num(c));
	def->process.runtime_ns = get_num(c);
	def->process.peak_rss_bytes = get_num(c);
	if (flags & PROCESS_SAMPLED)
		def->process.sample_bytes = get_num(c);
	if (flags & PROCESS_KIN) {
		def->process.family = get_num(c);
		def->process.parent_pid = get_u32(c);
	}
}

static void get_module(struct cursor *c, struct buf *text, struct def *def)
{
	size_t len, path = get_string(c, text, &len);
	uint8_t id_len = get_byte(c);
	if (c->bad || id_len > sizeof(def->module.build_id) || id_len > c->end - c->at) {
		c->bad = 1;
		return;
	}
	memcpy(def->module.build_id, c->at, id_len);
	c->at += id_len;
	def->module.build_id_len = id_len;
	def->module.bias = get_num(c);
	def->module.lo = get_num(c);
	def->module.hi = def->module.lo + get_num(c);
	if (!buf_failed(text))
		def->module.path = text_at(text, path);
}

static void get_symbols(struct cursor *c, struct buf *text, struct symbol *symbols, struct def *def)
{
	size_t place[DEFS_SYMBOLS_MAX][2], len;
	uint32_t count = get_u32(c);
	if (c->bad || count > DEFS_SYMBOLS_MAX) {
		c->bad = 1;
		return;
	}
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		place[i][0] = get_string(c, text, &len);
		place[i][1] = get_string(c, text, &len);
		uint64_t line = get_num(c);
		symbols[i] = (struct symbol){ .line = (uint32_t)(line >> 1), .inlined = line & 1 };
	}
	if (c->bad || buf_failed(text))
		return;
	for (uint32_t i = 0; i < count; i++) {
		symbols[i].function = text_at(text, place[i][0]);
		symbols[i].file = text_at(text, place[i][1]);
	}
	def->symbol.symbols = symbols;
	def->symbol.count = count;
}

struct defs_dec {
	struct cursor kind, id, frame, stack, rest;
	uint32_t next_id[8];
	uint64_t last_offset;
	uint32_t last_frame;
	struct symbol symbols[DEFS_SYMBOLS_MAX];
};

static int next_def(struct defs_dec *dec, struct buf *text, struct def *def)
{
	uint8_t byte = get_byte(&dec->kind);
	unsigned kind = byte & 15, stop = byte >> 4;
	if (kind < DEF_PROCESS || kind > DEF_RULE || (stop && kind != DEF_STACK))
		return -EBADMSG;
	memset(def, 0, sizeof(*def));
	def->kind = kind;
	def->id = (uint32_t)(dec->next_id[kind] + unzigzag(get_num(&dec->id)));
	dec->next_id[kind] = def->id + 1;
	switch (def->kind) {
	case DEF_PROCESS:
		get_process(&dec->rest, text, def);
		break;
	case DEF_THREAD: {
		size_t len;
		def->thread.tid = get_u32(&dec->rest);
		size_t name = get_string(&dec->rest, text, &len);
		if (!buf_failed(text))
			def->thread.name = text_at(text, name);
		break;
	}
	case DEF_MODULE:
		get_module(&dec->rest, text, def);
		break;
	case DEF_FRAME:
		def->frame.module.v = get_u32(&dec->frame);
		dec->last_offset += (uint64_t)unzigzag(get_num(&dec->frame));
		def->frame.offset = dec->last_offset;
		break;
	case DEF_STACK: {
		uint32_t back = get_u32(&dec->stack);
		if (back > def->id)
			return -EBADMSG;
		def->stack.parent.v = def->id - back;
		def->stack.stop = (uint8_t)stop;
		if (!stop) {
			dec->last_frame += (uint32_t)unzigzag(get_num(&dec->stack));
			def->stack.frame.v = dec->last_frame;
		}
		break;
	}
	case DEF_SYMBOL:
		get_symbols(&dec->rest, text, dec->symbols, def);
		break;
	case DEF_RULE: {
		size_t len;
		size_t pattern = get_string(&dec->rest, text, &len);
		if (!buf_failed(text))
			def->rule.pattern = text_at(text, pattern);
		break;
	}
	}
	if (buf_failed(text))
		return -ENOMEM;
	return dec->kind.bad || dec->id.bad || dec->frame.bad || dec->stack.bad || dec->rest.bad
		       ? -EBADMSG
		       : 0;
}

int defs_dec(const struct blt_view *view, uint32_t rows,
	     int (*take)(void *ctx, const struct def *def, struct err *err), void *ctx,
	     struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct defs_dec dec = {
		.kind = { view->col[COL_KIND].at, view->col[COL_KIND].end, 0 },
		.id = { view->col[COL_ID].at, view->col[COL_ID].end, 0 },
		.frame = { view->col[COL_FRAME].at, view->col[COL_FRAME].end, 0 },
		.stack = { view->col[COL_STACK].at, view->col[COL_STACK].end, 0 },
		.rest = { view->col[COL_REST].at, view->col[COL_REST].end, 0 },
	};
	for (uint32_t i = 0; i < rows; i++) {
		struct def def;
		buf_clear(&text);
		int rc = next_def(&dec, &text, &def);
		if (rc == -EBADMSG)
			return err_set(err, -EBADMSG, "a definition breaks the format's rules");
		if (rc < 0)
			return err_set(err, rc, "cannot hold a definition");
		rc = take(ctx, &def, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}
