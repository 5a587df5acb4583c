/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.h - what names a frame, and a path of frames, in every recording and build: 64 bits, computed
 * alike here and in the page. docs/api.md 2 is normative, tests/vectors/keys.json has examples.
 */
#ifndef VIEW_KEY_H
#define VIEW_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VIEW_KEY_ROOT 0ull
#define VIEW_KEY_TEXT 17 /* 16 digits and a NUL */

/** view_key_bytes() - of what names a frame; the upper half is the lane `hi`. O(len). */
uint64_t view_key_bytes(const void *bytes, size_t len);
/**
 * view_key_function() - of a function in a module; NULL and "" are the same. Without a function: of
 * the offset there.
 */
uint64_t view_key_function(const char *module, const char *function, uint64_t offset);
/** view_key_mix() - of the node with frame @frame below @parent. */
uint64_t view_key_mix(uint64_t parent, uint64_t frame);
/** view_key_text() - 16 lower-case digits into @to; returns @to. */
const char *view_key_text(uint64_t key, char to[VIEW_KEY_TEXT]);
/** view_key_parse() - such digits back; -EINVAL with @err for anything else. */
int view_key_parse(const char *text, uint64_t *key, struct err *err);

#endif
