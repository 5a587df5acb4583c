/* SPDX-License-Identifier: Apache-2.0 */
#include "out/regions_diff.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "base/text.h"

#define FILE_MAX_BYTES (256ll << 20)

struct regions_base {
	json_t **objects;
	size_t count;
	char *path;
};

void regions_base_free(struct regions_base *base)
{
	if (!base)
		return;
	for (size_t i = 0; i < base->count; i++)
		json_decref(base->objects[i]);
	free(base->objects);
	free(base->path);
	free(base);
}

void regions_base_freep(struct regions_base **base)
{
	regions_base_free(*base);
}

static int not_ours(const char *path, struct err *err)
{
	err_set(err, -EINVAL, "'%s' holds no breakdown", path);
	return err_hint(err,
			"save one with: byteledger regions -p PID --format json --top 0 > FILE");
}

static int add(struct regions_base *base, json_t *object)
{
	json_t **grown = realloc(base->objects, (base->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	base->objects = grown;
	base->objects[base->count++] = object;
	return 0;
}

static int read_objects(struct regions_base *base, FILE *file, struct err *err)
{
	for (;;) {
		json_error_t why;
		int byte = getc(file);
		while (byte == '\n' || byte == ' ')
			byte = getc(file);
		if (byte == EOF)
			return base->count ? 0 : not_ours(base->path, err);
		ungetc(byte, file);
		json_t *object = json_loadf(file, JSON_DISABLE_EOF_CHECK, &why);
		if (!object || !json_is_array(json_object_get(object, "classes")) ||
		    !json_is_integer(json_object_get(object, "pid"))) {
			json_decref(object);
			return not_ours(base->path, err);
		}
		if (add(base, object) < 0) {
			json_decref(object);
			return err_set(err, -ENOMEM, "cannot read '%s'", base->path);
		}
	}
}

struct regions_base *regions_base_read(const char *path, struct err *err)
{
	CLEANUP(fileio_fclosep) FILE *file = fopen(path, "re");
	struct stat about;
	if (!file || fstat(fileno(file), &about) < 0) {
		err_set(err, -errno, "cannot read '%s'", path);
		return NULL;
	}
	if (about.st_size > FILE_MAX_BYTES) {
		err_set(err, -EFBIG, "cannot read '%s'", path);
		return NULL;
	}
	CLEANUP(regions_base_freep) struct regions_base *base = calloc(1, sizeof(*base));
	if (!base || !(base->path = strdup(path))) {
		err_set(err, -ENOMEM, "cannot read '%s'", path);
		return NULL;
	}
	return read_objects(base, file, err) < 0 ? NULL : STEAL(base);
}

static json_t *base_of(const struct regions_base *base, pid_t pid, struct err *err)
{
	for (size_t i = 0; i < base->count; i++)
		if (json_integer_value(json_object_get(base->objects[i], "pid")) == pid)
			return base->objects[i];
	if (base->count == 1)
		return base->objects[0];
	err_set(err, -ENOENT, "'%s' has no breakdown of process %d", base->path, (int)pid);
	return NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct change {
	const char *class, *label;
	/* now less then */
	int64_t rss_bytes, virtual_bytes, swap_bytes, count;
	uint64_t now_bytes;
};

struct changes {
	struct change *rows;
	size_t count;
	int64_t rss_bytes;
};

static int64_t figure(json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

static int by_name(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int order = strcmp(x->class, y->class);
	return order ? order : strcmp(x->label, y->label);
}

static int by_change(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	uint64_t v = (uint64_t)llabs(x->rss_bytes), w = (uint64_t)llabs(y->rss_bytes);
	if (v != w)
		return v < w ? 1 : -1;
	v = (uint64_t)llabs(x->virtual_bytes), w = (uint64_t)llabs(y->virtual_bytes);
	return v != w ? (v < w ? 1 : -1) : by_name(a, b);
}

static int compare(const struct regions_base *base, const struct breakdown *b, json_t **object,
		   struct changes *changes, struct err *err)
{
	*object = base_of(base, b->pid, err);
	if (!*object)
		return err ? err->code : -ENOENT;
	json_t *classes = json_object_get(*object, "classes"), *row;
	size_t i, n = 0, kept = 0, total = json_array_size(classes) + b->class_count;
	struct change *rows = calloc(total + 1, sizeof(*rows));
	if (!rows)
		return err_set(err, -ENOMEM, "cannot compare breakdowns");
	for (i = 0; i < b->class_count; i++) {
		const struct class_row *c = &b->classes[i];
		rows[n++] = (struct change){ region_class_name(c->class),
					     c->label,
					     (int64_t)c->rss_bytes,
					     (int64_t)c->virtual_bytes,
					     (int64_t)c->swap_bytes,
					     (int64_t)c->count,
					     c->rss_bytes };
	}
	json_array_foreach(classes, i, row)
	{
		const char *class = json_string_value(json_object_get(row, "class"));
		const char *label = json_string_value(json_object_get(row, "label"));
		if (class && label)
			rows[n++] = (struct change){ class,
						     label,
						     -figure(row, "rss_bytes"),
						     -figure(row, "virtual_bytes"),
						     -figure(row, "swap_bytes"),
						     -figure(row, "count"),
						     0 };
	}
	qsort(rows, n, sizeof(*rows), by_name);
	for (i = 0; i < n; i++) {
		struct change *last = kept ? &rows[kept - 1] : NULL;
		if (!last || by_name(last, &rows[i]) != 0) {
			rows[kept++] = rows[i];
			continue;
		}
		last->rss_bytes += rows[i].rss_bytes;
		last->virtual_bytes += rows[i].virtual_bytes;
		last->swap_bytes += rows[i].swap_bytes;
		last->count += rows[i].count;
		last->now_bytes += rows[i].now_bytes;
	}
	for (i = n = 0; i < kept; i++) {
		changes->rss_bytes += rows[i].rss_bytes;
		if (rows[i].rss_bytes || rows[i].virtual_bytes || rows[i].swap_bytes ||
		    rows[i].count)
			rows[n++] = rows[i];
	}
	qsort(rows, n, sizeof(*rows), by_change);
	changes->rows = rows;
	changes->count = n;
	return 0;
}

static void put_signed(struct buf *to, int64_t bytes, int raw, int columns)
{
	char text[TEXT_NUMBER_MAX], sign[TEXT_NUMBER_MAX + 1];
	uint64_t size = (uint64_t)llabs(bytes);
	if (raw)
		snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
	else
		text_bytes(text, size);
	snprintf(sign, sizeof(sign), "%s%s", bytes > 0 ? "+" : bytes < 0 ? "-" : "", text);
	buf_printf(to, "%*s", columns, sign);
}

int regions_diff_text(struct buf *to, const struct regions_base *base, const struct breakdown *b,
		      const struct regions_diff_opt *opt, struct err *err)
{
	json_t *object;
	struct changes changes = { 0 };
	int rc = compare(base, b, &object, &changes, err), columns = opt->raw ? 16 : 12;
	if (rc < 0)
		return rc;
	char text[TEXT_NUMBER_MAX];
	text_escape(to, b->comm, opt->ascii);
	uint64_t then = (uint64_t)figure(object, "time_ns");
	buf_printf(to, "  pid %d   RSS ", (int)b->pid);
	put_signed(to, changes.rss_bytes, opt->raw, 0);
	buf_printf(to, " in %s\n\n",
		   text_duration(text, b->time_ns > then ? b->time_ns - then : 0));
	buf_printf(to, "%*s%*s%*s%10s  class, what\n", columns, "RSS", columns, "now", columns,
		   "size", "mappings");
	size_t limit = opt->all || opt->top > changes.count ? changes.count : opt->top;
	for (size_t i = 0; i < limit; i++) {
		const struct change *c = &changes.rows[i];
		put_signed(to, c->rss_bytes, opt->raw, columns);
		if (opt->raw)
			buf_printf(to, "%*llu", columns, (unsigned long long)c->now_bytes);
		else
			buf_printf(to, "%*s", columns, text_bytes(text, c->now_bytes));
		put_signed(to, c->virtual_bytes, opt->raw, columns);
		buf_printf(to, "%+10lld  ", (long long)c->count);
		text_escape(to, c->class, opt->ascii);
		buf_puts(to, "  ");
		text_escape(to, c->label, opt->ascii);
		buf_putc(to, '\n');
	}
	if (changes.count > limit)
		buf_printf(to, "%*s %zu more: --all\n", columns, "...", changes.count - limit);
	if (!changes.count)
		buf_puts(to, "nothing changed\n");
	buf_putc(to, '\n');
	free(changes.rows);
	return 0;
}

int regions_diff_json(struct jsonw *json, const struct regions_base *base,
		      const struct breakdown *b, struct err *err)
{
	json_t *object;
	struct changes changes = { 0 };
	int rc = compare(base, b, &object, &changes, err);
	if (rc < 0)
		return rc;
	jsonw_object(json, NULL);
	jsonw_i64(json, "pid", b->pid);
	jsonw_i64(json, "base_pid", figure(object, "pid"));
	jsonw_u64(json, "time_ns", b->time_ns);
	jsonw_i64(json, "base_time_ns", figure(object, "time_ns"));
	jsonw_u64(json, "rss_bytes", b->rss_bytes);
	jsonw_i64(json, "rss_delta_bytes", changes.rss_bytes);
	jsonw_array(json, "classes");
	for (size_t i = 0; i < changes.count; i++) {
		const struct change *c = &changes.rows[i];
		jsonw_object(json, NULL);
		jsonw_str(json, "class", c->class);
		jsonw_str(json, "label", c->label);
		jsonw_u64(json, "rss_bytes", c->now_bytes);
		jsonw_i64(json, "rss_delta_bytes", c->rss_bytes);
		jsonw_i64(json, "virtual_delta_bytes", c->virtual_bytes);
		jsonw_i64(json, "swap_delta_bytes", c->swap_bytes);
		jsonw_i64(json, "count_delta", c->count);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
	jsonw_object_end(json);
	free(changes.rows);
	return 0;
}
