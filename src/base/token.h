/* SPDX-License-Identifier: Apache-2.0 */
/* token.h - the word that a client shows, and the file that holds it. */
#ifndef BASE_TOKEN_H
#define BASE_TOKEN_H

#include "base/err.h"

#define TOKEN_MAX 256

/** token_same() - comparison whose time does not tell how much of @a was right. */
int token_same(const char *a, const char *b);
/**
 * token_load() - read and check a token file: regular, not readable by others, 16 to 255 plain
 * characters.
 */
int token_load(const char *path, char token[TOKEN_MAX], struct err *err);

#endif
