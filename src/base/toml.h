/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml.h - the subset of TOML that our configuration files use: [table], [[array of tables]],
 * [table.in.table], inline tables, dotted keys not, strings (basic and literal, one line), integers
 * with underscores, booleans, arrays of strings or integers. (Debian 12 has no TOML library in C.)
 * What is outside the subset is an error with its line, never ignored.
 */
#ifndef BASE_TOML_H
#define BASE_TOML_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TOML_FILE_MAX (1u << 20)

enum toml_kind { TOML_STRING, TOML_INTEGER, TOML_BOOLEAN, TOML_TABLE, TOML_ARRAY };

/** struct toml - a value; a table's members and an array's items are a list in file order. */
struct toml {
	enum toml_kind kind;
	/* NULL in arrays and at the root */
	char *key;
	unsigned line;
	char *string;
	/* also booleans */
	int64_t integer;
	struct toml *first, *next;
	/* toml_get() was asked for it: the others are unknown keys */
	int used;
};

/**
 * toml_load() - parse a file; toml_parse() the same from memory (@name for messages). Release with
 * toml_free().
 */
struct toml *toml_load(const char *path, struct err *err);
struct toml *toml_parse(const char *text, size_t len, const char *name, struct err *err);
void toml_free(struct toml *root);

/**
 * toml_get() - a member of a table, marked as used; NULL where it is absent (or @table is NULL).
 */
struct toml *toml_get(struct toml *table, const char *key);
/** Typed access: 1 found, 0 absent (@out untouched), -EINVAL with @err naming line and key. */
int toml_string(struct toml *table, const char *key, const char **out, struct err *err);
int toml_u64(struct toml *table, const char *key, uint64_t max, uint64_t *out, struct err *err);
int toml_bool(struct toml *table, const char *key, int *out, struct err *err);
/** toml_unused() - call @fn for every member that nobody asked for. */
void toml_unused(const struct toml *table, void (*fn)(void *ctx, const struct toml *member),
		 void *ctx);

#endif
