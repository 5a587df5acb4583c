/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * heap_filter.h - the words of BYTELEDGER_FILTER. The library hands the text on (an argument of the
 * recorder, the header of a raw file), so that both sides must agree on what is one: [!]thread:GLOB
 * or [!]module:GLOB, separated by commas.
 */
#ifndef WIRE_HEAP_FILTER_H
#define WIRE_HEAP_FILTER_H

#include <stddef.h>

#define WIRE_FILTER_BYTES 1024 /* with its NUL */

struct wire_filter_word {
	const char *glob;
	size_t glob_len;
	int is_module, unless;
};

static inline const char *wire_filter_skip(const char *at, const char *word)
{
	for (; *word; at++, word++)
		if (*at != *word)
			return NULL;
	return at;
}

/**
 * wire_filter_word() - the word at @at. Return: what stands behind it, "" at the end; NULL: it is
 * none. Freestanding.
 */
static inline const char *wire_filter_word(const char *at, struct wire_filter_word *word)
{
	word->glob_len = 0;
	word->unless = *at == '!';
	at += word->unless;
	word->glob = wire_filter_skip(at, "thread:");
	word->is_module = !word->glob;
	if (!word->glob)
		word->glob = wire_filter_skip(at, "module:");
	if (!word->glob)
		return NULL;
	for (at = word->glob; *at && *at != ','; at++)
		;
	word->glob_len = (size_t)(at - word->glob);
	/* a comma at the end promises another word */
	return !word->glob_len || (*at && !at[1]) ? NULL : at + (*at == ',');
}

/**
 * wire_filter_check() - 0: no filter; else how many words of it are about threads, plus 1; -1: one
 * is none, or all too long.
 */
static inline int wire_filter_check(const char *text)
{
	struct wire_filter_word word;
	const char *at = text;
	int count = 1;
	while (at && *at) {
		at = wire_filter_word(at, &word);
		count += at && !word.is_module;
	}
	if (!at)
		return -1;
	for (at = text; *at && at - text < WIRE_FILTER_BYTES; at++)
		;
	return at == text ? 0 : *at || at - text >= WIRE_FILTER_BYTES ? -1 : count;
}

/** wire_filter_has_module() - 1: a word of @text is about modules. */
static inline int wire_filter_has_module(const char *text)
{
	struct wire_filter_word word;
	while (text && *text) {
		text = wire_filter_word(text, &word);
		if (text && word.is_module)
			return 1;
	}
	return 0;
}

#endif
