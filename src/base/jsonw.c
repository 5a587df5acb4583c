/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonw.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void jsonw_init(struct jsonw *json, FILE *to)
{
	*json = (struct jsonw){ .to = to };
}

static void put(struct jsonw *json, const char *bytes, size_t len)
{
	fwrite_unlocked(bytes, 1, len, json->to);
}

static void put_text(struct jsonw *json, const char *text, size_t len)
{
	size_t plain = 0; /* bytes before i that go out as they are */
	putc_unlocked('"', json->to);
	for (size_t i = 0; i < len;) {
		unsigned char c = (unsigned char)text[i];
		size_t width = c >= 0x20 && c < 0x7f && c != '"' && c != '\\'
				       ? 1
				       : utf8_len(text + i, len - i);
		int control = width && utf8_control(text + i);
		if (width && !control && c != '"' && c != '\\') {
			i += width;
			continue;
		}
		put(json, text + plain, i - plain);
		char escape[8] = { '\\', (char)c, '\0' };
		if (!width)
			strcpy(escape, "\\ufffd");
		else if (c == '\n')
			escape[1] = 'n';
		else if (c == '\t')
			escape[1] = 't';
		else if (control)
			snprintf(escape, sizeof(escape), "\\u%04x",
				 (unsigned char)text[i + width - 1]);
		put(json, escape, strlen(escape));
		i += width ? width : 1;
		plain = i;
	}
	put(json, text + plain, len - plain);
	putc_unlocked('"', json->to);
}

/* The comma and the key that stand before a value. */
static void lead(struct jsonw *json, const char *key)
{
	uint64_t bit = (uint64_t)1 << json->depth;
	if (json->depth && json->filled & bit)
		putc_unlocked(',', json->to);
	json->filled |= bit;
	if (!key)
		return;
	put_text(json, key, strlen(key));
	putc_unlocked(':', json->to);
}

static void open_container(struct jsonw *json, const char *key, char bracket)
{
	lead(json, key);
	putc_unlocked(bracket, json->to);
	json->depth++;
	assert(json->depth < JSONW_DEPTH_MAX);
	json->filled &= ~((uint64_t)1 << json->depth);
}

static void close_container(struct jsonw *json, char bracket)
{
	assert(json->depth);
	json->depth--;
	putc_unlocked(bracket, json->to);
}

void jsonw_object(struct jsonw *json, const char *key)
{
	open_container(json, key, '{');
}

void jsonw_object_end(struct jsonw *json)
{
	close_container(json, '}');
}

void jsonw_array(struct jsonw *json, const char *key)
{
	open_container(json, key, '[');
}

void jsonw_array_end(struct jsonw *json)
{
	close_container(json, ']');
}

void jsonw_strn(struct jsonw *json, const char *key, const char *text, size_t len)
{
	lead(json, key);
	put_text(json, text, len);
}

void jsonw_str(struct jsonw *json, const char *key, const char *text)
{
	if (text)
		jsonw_strn(json, key, text, strlen(text));
	else
		jsonw_null(json, key);
}

void jsonw_raw(struct jsonw *json, const char *key, const char *value, size_t len)
{
	lead(json, key);
	put(json, value, len);
}

void jsonw_u64(struct jsonw *json, const char *key, uint64_t value)
{
	char digits[24];
	char *at = digits + sizeof(digits);
	do {
		*--at = (char)('0' + value % 10);
	} while (value /= 10);
	lead(json, key);
	put(json, at, (size_t)(digits + sizeof(digits) - at));
}

void jsonw_i64(struct jsonw *json, const char *key, int64_t value)
{
	lead(json, key);
	fprintf(json->to, "%" PRId64, value);
}

void jsonw_double(struct jsonw *json, const char *key, double value)
{
	if (!isfinite(value)) {
		jsonw_null(json, key);
		return;
	}
	char text[40];
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	lead(json, key);
	put(json, text, strlen(text));
}

void jsonw_bool(struct jsonw *json, const char *key, int value)
{
	lead(json, key);
	put(json, value ? "true" : "false", value ? 4 : 5);
}

void jsonw_null(struct jsonw *json, const char *key)
{
	lead(json, key);
	put(json, "null", 4);
}

void jsonw_line(struct jsonw *json)
{
	putc_unlocked('\n', json->to);
}
