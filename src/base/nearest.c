/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

/**
 * distance() - how many letters have to be put in, left out, replaced or exchanged with the next
 * one.
 */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][NEAREST_WORD_MAX + 1], la = strlen(a), lb = strlen(b);
	if (la > NEAREST_WORD_MAX || lb > NEAREST_WORD_MAX)
		return SIZE_MAX;
	for (size_t i = 0; i <= la; i++) {
		size_t *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
		row[0] = i;
		for (size_t k = 1; k <= lb; k++) {
			if (i == 0) {
				row[k] = k;
				continue;
			}
			size_t least = last[k - 1] + (a[i - 1] != b[k - 1]);
			if (last[k] + 1 < least)
				least = last[k] + 1;
			if (row[k - 1] + 1 < least)
				least = row[k - 1] + 1;
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    before[k - 2] + 1 < least)
				least = before[k - 2] + 1;
			row[k] = least;
		}
	}
	return rows[la % 3][lb];
}

const char *nearest_word(const char *word, const char *const *words, size_t count)
{
	const char *nearest = NULL;
	size_t length = strlen(word), least = length < 4 ? 2 : length / 3 + 2;
	for (size_t i = 0; i < count; i++) {
		size_t far = distance(word, words[i]);
		/*
		 * what begins with it, or with all but its end, is meant more likely than what is
		 * as long
		 */
		if (length > 2 && strncmp(word, words[i], length) == 0)
			far = 1;
		if (far < least) {
			least = far;
			nearest = words[i];
		}
	}
	return nearest;
}
