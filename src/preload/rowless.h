/* SPDX-License-Identifier: Apache-2.0 */
/* rowless.h - code that belongs to no object. */
#ifndef PRELOAD_ROWLESS_H
#define PRELOAD_ROWLESS_H

#include <stdint.h>

#include "preload/sys.h"

enum rowless { ROWLESS_NONE, ROWLESS_GONE, ROWLESS_THERE };
/** rowless_met() - such code was met at @pc. */
void rowless_met(uint64_t pc) HIDDEN;
/**
 * rowless_in() - what is known of [@lo, @hi): none was met there, or all of it went away, or some
 * is there. O(pages).
 */
enum rowless rowless_in(uint64_t lo, uint64_t hi) HIDDEN;
/** rowless_gone() - what was met in [@lo, @hi) is not there any more. */
void rowless_gone(uint64_t lo, uint64_t hi) HIDDEN;

#endif
