/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

#define DEPTH_MAX 16

struct parser {
	const char *p, *end, *name;
	unsigned line, depth;
	struct err *err;
};

static int fail(struct parser *in, const char *what)
{
	return err_set(in->err, -EINVAL, "cannot read '%s' line %u: %s", in->name, in->line, what);
}

void toml_free(struct toml *value)
{
	while (value) {
		struct toml *next = value->next;
		toml_free(value->first);
		free(value->key);
		free(value->string);
		free(value);
		value = next;
	}
}

static struct toml *add(struct toml *parent, enum toml_kind kind, char *key, unsigned line)
{
	struct toml *value = calloc(1, sizeof(*value));
	if (!value) {
		free(key);
		return NULL;
	}
	value->kind = kind;
	value->key = key;
	value->line = line;
	struct toml **at = &parent->first;
	while (*at)
		at = &(*at)->next;
	*at = value;
	return value;
}

static struct toml *find(const struct toml *table, const char *key)
{
	for (struct toml *member = table ? table->first : NULL; member; member = member->next) {
		if (member->key && strcmp(member->key, key) == 0)
			return member;
	}
	return NULL;
}

static int peek(const struct parser *in)
{
	return in->p < in->end ? (unsigned char)*in->p : -1;
}

/* Blanks, and with @lines also line ends and comments. */
static void skip(struct parser *in, int lines)
{
	for (;;) {
		int c = peek(in);
		if (c == ' ' || c == '\t' || c == '\r') {
			in->p++;
		} else if (c == '#') {
			while (in->p < in->end && *in->p != '\n')
				in->p++;
		} else if (c == '\n' && lines) {
			in->p++;
			in->line++;
		} else {
			return;
		}
	}
}

static void put_code_point(struct buf *out, uint32_t c)
{
	if (c < 0x80) {
		buf_putc(out, (char)c);
	} else if (c < 0x800) {
		buf_putc(out, (char)(0xc0 | c >> 6));
		buf_putc(out, (char)(0x80 | (c & 63)));
	} else {
		buf_putc(out, (char)(0xe0 | c >> 12));
		buf_putc(out, (char)(0x80 | (c >> 6 & 63)));
		buf_putc(out, (char)(0x80 | (c & 63)));
	}
}

static int escape(struct parser *in, struct buf *out)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	int c = peek(in);
	const char *at = c > 0 ? strchr(from, c) : NULL;
	in->p++;
	if (at) {
		buf_putc(out, to[at - from]);
		return 0;
	}
	if (c != 'u' || in->end - in->p < 4)
		return fail(in, "unknown escape in a string");
	uint32_t code = 0;
	for (int i = 0; i < 4; i++, in->p++) {
		if (!isxdigit((unsigned char)*in->p))
			return fail(in, "unknown escape in a string");
		code = code * 16 + (uint32_t)(isdigit((unsigned char)*in->p)
						      ? *in->p - '0'
						      : (*in->p | 32) - 'a' + 10);
	}
	if (!code || (code >= 0xd800 && code < 0xe000))
		return fail(in, "unknown escape in a string");
	put_code_point(out, code);
	return 0;
}

static char *quoted(struct parser *in)
{
	CLEANUP(buf_fini) struct buf out = { 0 };
	char quote = *in->p++;
	while (peek(in) != quote) {
		int c = peek(in);
		if (c < 0 || c == '\n') {
			fail(in, "a string has no end on its line");
			return NULL;
		}
		in->p++;
		if (c == '\\' && quote == '"') {
			if (escape(in, &out) < 0)
				return NULL;
		} else if (c == 0) {
			fail(in, "a NUL byte");
			return NULL;
		} else {
			buf_putc(&out, (char)c);
		}
	}
	in->p++;
	return buf_take(&out);
}

static char *key(struct parser *in)
{
	if (peek(in) == '"' || peek(in) == '\'')
		return quoted(in);
	const char *start = in->p;
	while (isalnum(peek(in)) || peek(in) == '_' || peek(in) == '-')
		in->p++;
	if (in->p == start) {
		fail(in, "a key was expected");
		return NULL;
	}
	return strndup(start, (size_t)(in->p - start));
}

static int value_of(struct parser *in, struct toml *parent, char *name);

static int member(struct parser *in, struct toml *table)
{
	char *name = key(in);
	if (!name)
		return in->err && in->err->code ? in->err->code : -ENOMEM;
	if (find(table, name)) {
		free(name);
		return fail(in, "the key stands here a second time");
	}
	skip(in, 0);
	if (peek(in) != '=') {
		free(name);
		return fail(in, peek(in) == '.' ? "dotted keys are not understood: use a table"
						: "'=' was expected behind the key");
	}
	in->p++;
	skip(in, 0);
	return value_of(in, table, name);
}

/* Items up to @close; of a table when it is '}', else of an array. */
static int items(struct parser *in, struct toml *parent, char close)
{
	in->p++;
	for (int first = 1;; first = 0) {
		skip(in, close == ']');
		if (peek(in) == close) {
			in->p++;
			return 0;
		}
		if (!first) {
			if (peek(in) != ',')
				return fail(in, "',' or the end of a list was expected");
			in->p++;
			skip(in, close == ']');
			if (peek(in) == close && close == ']')
				continue;
		}
		int rc = close == '}' ? member(in, parent) : value_of(in, parent, NULL);
		if (rc < 0)
			return rc;
	}
}

static int integer(struct parser *in, int64_t *out)
{
	char digits[32];
	size_t len = 0;
	while (len + 1 < sizeof(digits) &&
	       (isalnum(peek(in)) || peek(in) == '_' || peek(in) == '+' || peek(in) == '-')) {
		if (*in->p != '_')
			digits[len++] = *in->p;
		in->p++;
	}
	digits[len] = '\0';
	char *end;
	errno = 0;
	*out = strtoll(digits, &end, digits[0] == '0' && (digits[1] | 32) == 'x' ? 16 : 10);
	return len && !*end && !errno
		       ? 0
		       : fail(in, "a string, number, true, false, list or table was expected");
}

static int value_of(struct parser *in, struct toml *parent, char *name)
{
	int c = peek(in);
	enum toml_kind kind = c == '"' || c == '\''  ? TOML_STRING
			      : c == '{'             ? TOML_TABLE
			      : c == '['             ? TOML_ARRAY
			      : c == 't' || c == 'f' ? TOML_BOOLEAN
						     : TOML_INTEGER;
	struct toml *value = add(parent, kind, name, in->line);
	if (!value)
		return err_set(in->err, -ENOMEM, "cannot allocate the configuration");
	if (++in->depth > DEPTH_MAX)
		return fail(in, "lists and tables are nested too deeply");
	int rc = 0;
	switch (kind) {
	case TOML_STRING:
		value->string = quoted(in);
		rc = value->string ? 0 : in->err && in->err->code ? in->err->code : -ENOMEM;
		break;
	case TOML_TABLE:
		rc = items(in, value, '}');
		break;
	case TOML_ARRAY:
		rc = items(in, value, ']');
		break;
	case TOML_BOOLEAN:
		value->integer = c == 't';
		if (in->end - in->p >= 4 && memcmp(in->p, "true", 4) == 0)
			in->p += 4;
		else if (in->end - in->p >= 5 && memcmp(in->p, "false", 5) == 0)
			in->p += 5;
		else
			rc = fail(in, "true or false was expected");
		break;
	default:
		rc = integer(in, &value->integer);
	}
	in->depth--;
	return rc;
}

/*
 * The table @name inside @parent that a header passes through or, as its last word, opens; takes
 * @name.
 */
static struct toml *descend(struct parser *in, struct toml *parent, char *name, int last, int array)
{
	struct toml *there = find(parent, name);
	if (there)
		free(name);
	if (there && !last) {
		if (there->kind != TOML_ARRAY)
			return there->kind == TOML_TABLE ? there : NULL;
		/* of an array of tables the newest one is meant */
		struct toml *item = there->first;
		while (item && item->next)
			item = item->next;
		return item && item->kind == TOML_TABLE ? item : NULL;
	}
	if (there && (!array || there->kind != TOML_ARRAY)) {
		fail(in, "the table stands here a second time");
		return NULL;
	}
	if (!there)
		there = add(parent, array ? TOML_ARRAY : TOML_TABLE, name, in->line);
	return there && array ? add(there, TOML_TABLE, NULL, in->line) : there;
}

/* "[name]", "[[name]]", "[name.name]": the table that the following members belong to. */
static int header(struct parser *in, struct toml *root, struct toml **table)
{
	int array = in->end - in->p >= 2 && in->p[1] == '[';
	struct toml *at = root;
	in->p += array ? 2 : 1;
	for (int last = 0, depth = 0; !last; depth++) {
		skip(in, 0);
		char *name = depth < DEPTH_MAX ? key(in) : NULL;
		if (depth == DEPTH_MAX)
			return fail(in, "lists and tables are nested too deeply");
		if (!name)
			return in->err && in->err->code ? in->err->code : -ENOMEM;
		skip(in, 0);
		last = peek(in) != '.';
		if (!last)
			in->p++;
		at = descend(in, at, name, last, array && last);
		if (!at)
			return in->err->code
				       ? in->err->code
				       : fail(in, "the name is that of a value, not of a table");
	}
	for (int i = 0; i <= array; i++) {
		if (peek(in) != ']')
			return fail(in, "']' was expected behind the table's name");
		in->p++;
	}
	*table = at;
	return 0;
}

struct toml *toml_parse(const char *text, size_t len, const char *name, struct err *err)
{
	struct err own = { 0 };
	struct parser in = { text, text + len, name, 1, 0, err ? err : &own };
	struct toml *root = calloc(1, sizeof(*root)), *table = root;
	if (!root) {
		err_set(err, -ENOMEM, "cannot allocate the configuration");
		return NULL;
	}
	root->kind = TOML_TABLE;
	err_init(in.err);
	int rc = utf8_valid(text, len) ? 0 : fail(&in, "not UTF-8");
	while (rc == 0) {
		skip(&in, 1);
		if (in.p >= in.end)
			return root;
		rc = peek(&in) == '[' ? header(&in, root, &table) : member(&in, table);
		skip(&in, 0);
		if (rc == 0 && in.p < in.end && peek(&in) != '\n')
			rc = fail(&in, "the end of the line was expected");
	}
	toml_free(root);
	return NULL;
}

struct toml *toml_load(const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");
	if (!file) {
		err_set(err, -errno, "cannot open configuration '%s'", path);
		return NULL;
	}
	CLEANUP(buf_fini) struct buf text = { 0 };
	size_t n = 1;
	while (n && text.len <= TOML_FILE_MAX && buf_reserve(&text, 65536)) {
		n = fread(text.data + text.len, 1, 65536, file);
		text.len += n;
	}
	int bad = ferror(file);
	fclose(file);
	if (bad || text.len > TOML_FILE_MAX || buf_failed(&text)) {
		err_set(err, -EINVAL, "cannot read configuration '%s': %s", path,
			bad ? "not a readable file" : "larger than 1 MiB");
		return NULL;
	}
	return toml_parse(text.len ? text.data : "", text.len, path, err);
}

struct toml *toml_get(struct toml *table, const char *name)
{
	struct toml *value = find(table, name);
	if (value)
		value->used = 1;
	return value;
}

static int wrong(const struct toml *value, const char *name, const char *what, struct err *err)
{
	return err_set(err, -EINVAL, "cannot use the configuration: line %u: '%s' must be %s",
		       value->line, name, what);
}

int toml_string(struct toml *table, const char *name, const char **out, struct err *err)
{
	struct toml *value = toml_get(table, name);
	if (!value)
		return 0;
	if (value->kind != TOML_STRING)
		return wrong(value, name, "a string", err);
	*out = value->string;
	return 1;
}

int toml_u64(struct toml *table, const char *name, uint64_t max, uint64_t *out, struct err *err)
{
	struct toml *value = toml_get(table, name);
	if (!value)
		return 0;
	if (value->kind != TOML_INTEGER || value->integer < 0 || (uint64_t)value->integer > max) {
		char what[64];
		snprintf(what, sizeof(what), "a whole number from 0 to %llu",
			 (unsigned long long)max);
		return wrong(value, name, what, err);
	}
	*out = (uint64_t)value->integer;
	return 1;
}

int toml_bool(struct toml *table, const char *name, int *out, struct err *err)
{
	struct toml *value = toml_get(table, name);
	if (!value)
		return 0;
	if (value->kind != TOML_BOOLEAN)
		return wrong(value, name, "true or false", err);
	*out = (int)value->integer;
	return 1;
}

void toml_unused(const struct toml *table, void (*fn)(void *ctx, const struct toml *member),
		 void *ctx)
{
	for (const struct toml *item = table->first; item; item = item->next) {
		if (item->key && !item->used)
			fn(ctx, item);
		if (item->kind == TOML_TABLE || item->kind == TOML_ARRAY)
			toml_unused(item, fn, ctx);
	}
}
