/* SPDX-License-Identifier: Apache-2.0 */
/* explain_impl.h - what explain_text.c and explain_verdict.c share. */
#ifndef OUT_EXPLAIN_IMPL_H
#define OUT_EXPLAIN_IMPL_H

#include "base/text.h"
#include "out/explain.h"

/** explain_mib() - @bytes as MiB with one decimal, into @to. */
const char *explain_mib(char to[TEXT_NUMBER_MAX], uint64_t bytes);
/** explain_is_small() - less than a hundredth of RSS: it stands in one line with others. */
int explain_is_small(const struct explain *e, uint64_t bytes);
/** explain_keeper() - the allocator that keeps most of what is free, by its short name; static. */
const char *explain_keeper(const struct explain *e);
/** explain_has_slabs() - is what is free told by slabs, not by pages? */
int explain_has_slabs(const struct explain *e);

#endif
