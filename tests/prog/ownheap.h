/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownheap.h - a small allocator for programs that carry one inside themselves. It never waits: a signal handler, or the child
 * of a fork, that finds it taken gets fresh memory. It ends the program where it is given a block that it did not give out.
 */
#ifndef OWNHEAP_H
#define OWNHEAP_H

#include <stddef.h>

/* @align: a power of two, 0 for the usual one. NULL, errno ENOMEM: too much. What is taken is never zero unless asked for. */
void *own_take(size_t bytes, size_t align, int zero);
/* The same, @offset bytes into the block being what is aligned: a multiple of 16. */
void *own_take_at(size_t bytes, size_t align, size_t offset, int zero);
void own_give(void *block);
/* As realloc(), @block not NULL, 0 bytes another block of 0 bytes; what is new is zeroed with @zero. */
void *own_resize(void *block, size_t bytes, size_t align, int zero);
/* How many bytes @block may grow to where it stands. */
size_t own_room(const void *block);
/* Change what @block is said to hold, at most its room. */
void own_set(void *block, size_t bytes);
/* Blocks that were given out so far, resized ones counted again. */
unsigned long own_served(void);

#endif
