/* SPDX-License-Identifier: Apache-2.0 */
#include "source/heaptrack_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (256 * 1024)
#define LINE_MAX_BYTES (8u << 20) /* a command line is at most 2 MiB, an inline chain far less */

void ht_lines_fini(struct ht_lines *lines)
{
	free(lines->text);
	*lines = (struct ht_lines){ 0 };
}

static int read_more(struct ht_lines *lines, struct err *err)
{
	if (lines->pos) {
		memmove(lines->text, lines->text + lines->pos, lines->len - lines->pos);
		lines->len -= lines->pos;
		lines->pos = 0;
	}
	if (lines->cap - lines->len < CHUNK_BYTES / 2) {
		size_t cap = lines->cap ? lines->cap * 2 : CHUNK_BYTES;
		if (cap > 2 * LINE_MAX_BYTES)
			return -EMSGSIZE;
		char *text = realloc(lines->text, cap);
		if (!text)
			return err_set(err, -ENOMEM, "cannot read a line");
		lines->text = text;
		lines->cap = cap;
	}
	ssize_t got =
		zstream_read(lines->in, lines->text + lines->len, lines->cap - lines->len, err);
	if (got < 0)
		return (int)got;
	if (got == 0)
		lines->input_ended = 1;
	lines->len += (size_t)got;
	lines->reads++;
	return 0;
}

int ht_lines_next(struct ht_lines *lines, const char **line, const char **end, struct err *err)
{
	size_t searched = 0;
	for (;;) {
		char *from = lines->text + lines->pos;
		size_t rest = lines->len - lines->pos;
		char *newline =
			rest > searched ? memchr(from + searched, '\n', rest - searched) : NULL;
		if (newline) {
			*line = from;
			*end = newline;
			lines->pos = (size_t)(newline + 1 - lines->text);
			return 1;
		}
		searched = rest;
		if (lines->input_ended) {
			/* half a line may be half a number: it is not used */
			lines->torn = rest > 0;
			return 0;
		}
		int rc = read_more(lines, err);
		if (rc < 0)
			return rc;
	}
}

int ht_take_text(const char **at, const char *end, int sized, int whole, const char **text,
		 size_t *len)
{
	const char *p = *at;
	if (sized) {
		uint64_t size;
		if (!ht_take_hex(&p, end, &size))
			return 0;
		if (p < end)
			p++;
		if (size > (uint64_t)(end - p))
			return 0;
		*len = size;
	} else {
		if (p < end && *p == ' ')
			p++;
		const char *space = whole ? NULL : memchr(p, ' ', (size_t)(end - p));
		*len = (size_t)((space ? space : end) - p);
	}
	*text = p;
	*at = p + *len;
	return 1;
}
