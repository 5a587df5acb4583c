/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spare.h - large arrays that are wanted for a moment, again and again: what is given back is kept
 * for the next one. From the kernel each page of such an array costs a fault, which is half of what
 * many an answer costs.
 */
#ifndef BASE_SPARE_H
#define BASE_SPARE_H

#include <stddef.h>

#define SPARE_MAX (48u << 20)   /* bytes that are kept, of all threads together */
#define SPARE_FROM (128u << 10) /* smaller ones are malloc's */

/**
 * spare_calloc() - @count of @size bytes, zeroed; release with spare_free(). NULL: no memory. Any
 * thread.
 */
void *spare_calloc(size_t count, size_t size);
/** spare_free() - NULL is none. */
void spare_free(void *at);
/** spare_give_back() - all that is kept. */
void spare_give_back(void);
/** spare_kept() - bytes that wait for the next one. */
size_t spare_kept(void);

#endif
