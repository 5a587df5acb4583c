/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h - BYTELEDGER_FILTER: whose allocations a recording holds. */
#ifndef SOURCE_FILTER_H
#define SOURCE_FILTER_H

#include "model/sieve.h"

/**
 * source_filter_new() - *@sieve hands on to @to what @text (wire/heap_filter.h) lets through; it is
 * NULL where @text is NULL or "". Return: 0, -EINVAL for a text that makes no sense, -ENOMEM.
 */
int source_filter_new(struct sieve **sieve, const char *text, struct sink *to, struct err *err);

#endif
