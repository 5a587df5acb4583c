/* SPDX-License-Identifier: Apache-2.0 */
/* v1_put.c - the head of every answer, columns, frames and who owns them. */
#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "base/clock.h"
#include "base/intern.h"
#include "out/json_put.h"
#include "out/name.h"

/* ---- the head -------------------------------------------------------------------------------- */

void v1_put_unapplied(struct jsonw *json, const struct v1_call *call)
{
	jsonw_array(json, "unapplied");
	for (unsigned i = 0; i < call->unapplied_count; i++) {
		jsonw_object(json, NULL);
		jsonw_str(json, "word", call->unapplied[i].word);
		jsonw_str(json, "why", call->unapplied[i].why);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

void v1_head(struct v1_call *call, const uint64_t *values)
{
	struct jsonw *json = &call->json;
	const struct reading *r = call->reading;
	const struct book *book = r->book;
	const struct prof_process *process = prof_process(book->names);
	struct prof_totals whole;
	prof_totals(book->names, &whole);
	int sampled = process && process->sample_bytes;
	uint64_t total = 0;
	for (uint32_t i = 0; values && i < book->count; i++)
		sum_add(&total, values[i]);
	jsonw_u64(json, "source", call->source);
	jsonw_u64(json, "generation", book->generation);
	jsonw_str(json, "selection", call->ask.selection);
	jsonw_bool(json, "exact", !sampled && !r->lacks_culled);
	jsonw_u64(json, "age_ns",
		  book->being_written ? clock_ns(CLOCK_MONOTONIC) - book->read_at_ns : 0);
	if (values) {
		jsonw_u64(json, "total", total);
		jsonw_str(json, "cost", view_cost_name(call->ask.cost));
		jsonw_str(json, "unit",
			  call->ask.cost == VIEW_COST_ALLOCATIONS ||
					  call->ask.cost == VIEW_COST_TEMPORARY
				  ? "blocks"
				  : "bytes");
	}
	json_lost(json, &whole);
	json_partial(json, "partial", &whole);
	if (sampled) {
		jsonw_object(json, "sampled");
		jsonw_u64(json, "every_bytes", process->sample_bytes);
		jsonw_object_end(json);
	} else {
		jsonw_null(json, "sampled");
	}
	jsonw_object(json, "culled");
	jsonw_u64(json, "allocations", whole.culled_allocations);
	jsonw_u64(json, "bytes", whole.culled_bytes);
	jsonw_object_end(json);
	v1_put_unapplied(json, call);
}

/* ---- columns --------------------------------------------------------------------------------- */

static void begin(struct v1_column *c)
{
	buf_putc(&c->text, c->text.len ? ',' : '[');
}

static void put_digits(struct v1_column *c, uint64_t value)
{
	char digits[20];
	unsigned at = sizeof(digits);
	begin(c);
	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	buf_put(&c->text, digits + at, sizeof(digits) - at);
}

void v1_col_u64(struct v1_column *c, uint64_t value)
{
	uint64_t last = c->last;
	c->last = value;
	if (c->delta && value < last)
		v1_col_i64(c, -(int64_t)(last - value));
	else
		put_digits(c, c->delta ? value - last : value);
}

void v1_col_i64(struct v1_column *c, int64_t value)
{
	if (value >= 0) {
		put_digits(c, (uint64_t)value);
		return;
	}
	begin(c);
	buf_printf(&c->text, "%" PRId64, value);
}

void v1_col_null(struct v1_column *c)
{
	v1_col_raw(c, "null");
}

void v1_col_key(struct v1_column *c, uint64_t key)
{
	char text[VIEW_KEY_TEXT];
	begin(c);
	buf_putc(&c->text, '"');
	buf_puts(&c->text, view_key_text(key, text));
	buf_putc(&c->text, '"');
}

void v1_col_raw(struct v1_column *c, const char *text)
{
	begin(c);
	buf_puts(&c->text, text);
}

void v1_col_put(struct v1_call *call, const char *key, struct v1_column *c)
{
	if (!c->text.len)
		buf_putc(&c->text, '[');
	buf_putc(&c->text, ']');
	if (buf_failed(&c->text))
		jsonw_null(&call->json, key);
	else
		jsonw_raw(&call->json, key, c->text.data, c->text.len);
	buf_fini(&c->text);
}

/* ---- frames ---------------------------------------------------------------------------------- */

const char *const v1_category_names[] = {
	[CATEGORY_OWN] = "own",         [CATEGORY_PROJECT] = "project",
	[CATEGORY_RUNTIME] = "runtime", [CATEGORY_ALLOCATOR] = "allocator",
	[CATEGORY_SYSTEM] = "system",   [CATEGORY_KERNEL] = "kernel",
	[CATEGORY_FILE] = "file",       [CATEGORY_UNKNOWN] = "unknown",
};

static int begins_with(const char *text, const char *const *with, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, with[i], strlen(with[i])) == 0)
			return 1;
	return 0;
}

enum v1_category v1_category(const struct fold_frame *frame, const char *exe)
{
	static const char *const allocators[] = { "libjemalloc", "libtcmalloc", "libmimalloc",
						  "libsnmalloc", "librpmalloc", "libbyteledger" };
	static const char *const runtimes[] = {
		"libstdc++.", "libc++.",   "libc++abi.", "libgcc_s.", "libpython", "libjvm.",
		"libnode.",   "libruby",   "libperl",    "liblua",    "libguile",  "libmonosgen",
		"libcoreclr", "libclrjit", "libstd-",    "libgo.",    "libphp",    "libgfortran"
	};
	static const char *const system_folders[] = { "/usr/lib/", "/lib/", "/usr/lib64/",
						      "/lib64/", "/usr/libexec/" };
	const char *module = frame->module, *path = frame->path;
	if (!module || !*module || frame->reason)
		return CATEGORY_UNKNOWN;
	if (module[0] == '[')
		return strncmp(module, "[vdso", 5) == 0 || strncmp(module, "[kernel", 7) == 0 ||
				       strncmp(module, "[vsyscall", 9) == 0
			       ? CATEGORY_KERNEL
			       : CATEGORY_UNKNOWN;
	if (view_is_wrapper(frame->function) ||
	    begins_with(module, allocators, ARRAY_LEN(allocators)))
		return CATEGORY_ALLOCATOR;
	if (exe && path && strcmp(path, exe) == 0)
		return CATEGORY_OWN;
	if (begins_with(module, runtimes, ARRAY_LEN(runtimes)))
		return CATEGORY_RUNTIME;
	if (path && begins_with(path, system_folders, ARRAY_LEN(system_folders)))
		return CATEGORY_SYSTEM;
	return CATEGORY_PROJECT;
}

int v1_frames_init(struct v1_frames *frames, const struct shelf_fold *folded, struct err *err)
{
	uint32_t count = folded->fold->frame_count;
	*frames = (struct v1_frames){ .folded = folded,
				      .number = calloc(count, sizeof(uint32_t)),
				      .list = calloc(count, sizeof(uint32_t)) };
	if (frames->number && frames->list)
		return 0;
	v1_frames_fini(frames);
	return err_set(err, -ENOMEM, "cannot list the frames");
}

uint32_t v1_frame(struct v1_frames *frames, uint32_t frame)
{
	if (!frames->number[frame]) {
		frames->list[frames->count++] = frame;
		frames->number[frame] = frames->count;
	}
	return frames->number[frame] - 1;
}

void v1_frames_fini(struct v1_frames *frames)
{
	free(frames->number);
	free(frames->list);
	frames->number = frames->list = NULL;
}

/** struct texts - strings that an answer names, numbered in order of first use. */
struct texts {
	struct idtab tab;
	const char **list;
	uint32_t count, cap;
};

/** text_number() - -1 for NULL, and without memory. */
static int64_t text_number(struct texts *t, const char *text)
{
	if (!text || !*text || idtab_reserve(&t->tab) < 0)
		return -1;
	uint32_t hash = (uint32_t)hash_bytes(text, strlen(text), hash_seed());
	uint32_t at = idtab_first(&t->tab, hash);
	for (; t->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&t->tab, at))
		if (t->tab.slots[at].hash == hash &&
		    strcmp(t->list[t->tab.slots[at].id], text) == 0)
			return t->tab.slots[at].id;
	if (t->count == t->cap) {
		uint32_t cap = t->cap ? t->cap * 2 : 64;
		const char **list = realloc(t->list, cap * sizeof(*list));
		if (!list)
			return -1;
		t->list = list;
		t->cap = cap;
	}
	t->list[t->count] = text;
	idtab_put(&t->tab, at, hash, t->count);
	return t->count++;
}

static void texts_put(struct jsonw *json, const char *key, struct texts *t)
{
	jsonw_array(json, key);
	for (uint32_t i = 0; i < t->count; i++)
		jsonw_str(json, NULL, t->list[i]);
	jsonw_array_end(json);
	idtab_fini(&t->tab);
	free(t->list);
}

static void put_short(struct jsonw *json, const struct fold_frame *f)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (f->folded)
		buf_printf(&text, "[%s]", f->module ? f->module : "?");
	else if (f->function)
		text_short_name(&text, f->function, 0);
	else if (f->file)
		buf_puts(&text, f->file);
	else
		buf_printf(&text, "%s+0x%llx", f->module ? f->module : "?",
			   (unsigned long long)f->offset);
	jsonw_str(json, NULL, buf_cstr(&text));
}

/** is_own() - does the reader count the frame as the program's own? */
static int is_own(const regex_t *own, const struct fold_frame *f)
{
	const char *const texts[] = { f->module, f->path, f->function };
	for (size_t i = 0; i < ARRAY_LEN(texts) && !f->reason; i++)
		if (texts[i] && regexec(own, texts[i], 0, NULL, 0) == 0)
			return 1;
	return 0;
}

void v1_frames_put(struct v1_call *call, const struct v1_frames *frames)
{
	regex_t own;
	/* it was looked at when the question was read; without memory nobody else is own */
	int widened = call->ask.own && regcomp(&own, call->ask.own, REG_EXTENDED | REG_NOSUB) == 0;
	struct jsonw *json = &call->json;
	const struct fold_frame *all = call->folded->fold->frames;
	const struct prof_process *process = prof_process(call->reading->book->names);
	struct texts modules = { 0 }, files = { 0 };
	struct v1_column key = { 0 }, module = { 0 }, category = { 0 }, file = { 0 }, line = { 0 },
			 inlined = { 0 };
	jsonw_object(json, "frames");
	jsonw_array(json, "name");
	for (uint32_t i = 0; i < frames->count; i++) {
		const struct fold_frame *f = &all[frames->list[i]];
		jsonw_str(json, NULL, f->folded ? NULL : f->function);
		v1_col_key(&key, f->key);
		v1_col_i64(&module, text_number(&modules, f->module));
		v1_col_u64(&category, widened && is_own(&own, f)
					      ? CATEGORY_OWN
					      : v1_category(f, process ? process->exe : NULL));
		v1_col_raw(&inlined, f->inlined ? "true" : "false");
		v1_col_i64(&file, text_number(&files, f->file));
		v1_col_i64(&line, f->line ? (int64_t)f->line : -1);
	}
	jsonw_array_end(json);
	jsonw_array(json, "short");
	for (uint32_t i = 0; i < frames->count; i++)
		put_short(json, &all[frames->list[i]]);
	jsonw_array_end(json);
	v1_col_put(call, "key", &key);
	v1_col_put(call, "module", &module);
	v1_col_put(call, "category", &category);
	v1_col_put(call, "file", &file);
	v1_col_put(call, "line", &line);
	v1_col_put(call, "inlined", &inlined);
	jsonw_object_end(json);
	if (widened)
		regfree(&own);
	texts_put(json, "modules", &modules);
	texts_put(json, "files", &files);
}
