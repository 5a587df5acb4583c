/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.h - which word may have been meant. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_WORD_MAX 40 /* longer ones are near to nothing */

/**
 * nearest_word() - which of @words @word may have been meant to be; NULL where none is near. Lent.
 */
const char *nearest_word(const char *word, const char *const *words, size_t count);

#endif
