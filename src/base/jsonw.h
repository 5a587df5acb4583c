/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonw.h - JSON out, streaming: what is written cannot be taken back, and nothing is kept but the
 * nesting.
 *
 * @key names a member inside an object and is NULL inside an array and at the top. Text is made
 * valid: bytes that are not
 * UTF-8 become U+FFFD, control characters are escaped. Failed writes stay with the stream: ask
 * ferror() once at the end.
 */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSONW_DEPTH_MAX 64

/** struct jsonw - in place; nothing to release. */
struct jsonw {
	FILE *to;
	/* bit n: the container at depth n has a member already */
	uint64_t filled;
	unsigned depth;
};

/** jsonw_init() - write to @to, which stays the caller's. */
void jsonw_init(struct jsonw *json, FILE *to);
void jsonw_object(struct jsonw *json, const char *key);
void jsonw_object_end(struct jsonw *json);
void jsonw_array(struct jsonw *json, const char *key);
void jsonw_array_end(struct jsonw *json);
/** jsonw_str() - a string; NULL is written as null. */
void jsonw_str(struct jsonw *json, const char *key, const char *text);
/** jsonw_strn() - @len bytes, which may hold NULs. */
void jsonw_strn(struct jsonw *json, const char *key, const char *text, size_t len);
/** jsonw_raw() - @len bytes that are one JSON value already. */
void jsonw_raw(struct jsonw *json, const char *key, const char *value, size_t len);
void jsonw_u64(struct jsonw *json, const char *key, uint64_t value);
void jsonw_i64(struct jsonw *json, const char *key, int64_t value);
/**
 * jsonw_double() - the shortest form that reads back equal; not a number and infinity become null.
 */
void jsonw_double(struct jsonw *json, const char *key, double value);
void jsonw_bool(struct jsonw *json, const char *key, int value);
void jsonw_null(struct jsonw *json, const char *key);
/**
 * jsonw_line() - end the line: behind a top-level value (JSON lines), or between members for human
 * eyes.
 */
void jsonw_line(struct jsonw *json);

#endif
