/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/label.h"

#include <string.h>

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static int is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/**
 * kept() - how much of [@text, @text + @len) stands before its trailing number; @len where there is
 * none.
 */
static size_t kept(const char *text, size_t len)
{
	size_t word = len;
	int hex = 1, digits = 0;
	while (word > 0 && is_word(text[word - 1])) {
		word--;
		hex &= is_hex(text[word]);
		digits += is_digit(text[word]);
	}
	/*
	 * the whole last word is a hexadecimal number ("cache-7f3a"), but "add" and "be" are words:
	 * a digit must be there
	 */
	if (hex && digits && len - word >= 3)
		return word;
	size_t at = len;
	while (at > 0 && is_digit(text[at - 1]))
		at--;
	return at;
}

/** put() - append what fits. */
static void put(char *to, size_t *len, const char *text, size_t count)
{
	if (count > LABEL_MAX - 1 - *len)
		count = LABEL_MAX - 1 - *len;
	memcpy(to + *len, text, count);
	*len += count;
	to[*len] = '\0';
}

void label_name(char to[LABEL_MAX], const char *name)
{
	size_t len = strlen(name), used = 0, keep = kept(name, len);
	/* "pool-12-34": each number at the end counts */
	int collapsed = keep < len;
	while (keep > 1 && collapsed &&
	       (name[keep - 1] == '-' || name[keep - 1] == '_' || name[keep - 1] == '.' ||
		name[keep - 1] == ':')) {
		size_t more = kept(name, keep - 1);
		if (more == keep - 1)
			break;
		keep = more;
	}
	put(to, &used, name, keep < LABEL_MAX - 2 ? keep : LABEL_MAX - 2);
	if (collapsed)
		put(to, &used, "*", 1);
}

static size_t without_deleted(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), cut = sizeof(deleted) - 1;
	return len > cut && memcmp(path + len - cut, deleted, cut) == 0 ? len - cut : len;
}

void label_base(char to[LABEL_MAX], const char *path)
{
	size_t len = without_deleted(path), used = 0, base = len;
	while (base > 0 && path[base - 1] != '/')
		base--;
	to[0] = '\0';
	put(to, &used, path + base, len - base);
}

void label_file(char to[LABEL_MAX], const char *path)
{
	size_t len = without_deleted(path), used = 0;
	const char *at = path, *end = path + len;
	/* what does not fit is cut in front: the end of a path tells more */
	if (len > LABEL_MAX - 8) {
		at = end - (LABEL_MAX - 8);
		put(to, &used, "...", 3);
	}
	to[used] = '\0';
	while (at < end) {
		const char *stop = memchr(at, '/', (size_t)(end - at));
		size_t part = stop ? (size_t)(stop - at) : (size_t)(end - at);
		if (stop) {
			/* a folder collapses only as a whole: /proc/123/, /blobs/4f6a.../ */
			if (part && kept(at, part) == 0)
				put(to, &used, "*", 1);
			else
				put(to, &used, at, part);
			put(to, &used, "/", 1);
			at = stop + 1;
			continue;
		}
		const char *dot = memrchr(at, '.', part);
		size_t stem = dot && dot > at ? (size_t)(dot - at) : part;
		size_t keep = kept(at, stem);
		/* "file.7" and "log.0012": the ending is the number */
		if (keep == stem && stem < part && kept(at + stem + 1, part - stem - 1) == 0) {
			put(to, &used, at, stem + 1);
			put(to, &used, "*", 1);
			return;
		}
		put(to, &used, at, keep);
		if (keep < stem)
			put(to, &used, "*", 1);
		put(to, &used, at + stem, part - stem);
		return;
	}
}
