/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - a place in rows that are sorted by a number. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/**
 * search_beyond() - how many of @count rows of @row_bytes each, sorted by the uint64_t that stands
 * @key_at bytes into a row, have @most or less there: the number of the first row beyond. @rows may
 * be NULL where there are none. O(log @count).
 */
static inline size_t search_beyond(const void *rows, size_t count, size_t row_bytes, size_t key_at,
				   uint64_t most)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *row = (const char *)rows + middle * row_bytes;
		if (*(const uint64_t *)(row + key_at) <= most)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
