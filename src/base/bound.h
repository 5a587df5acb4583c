/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h - what a process may take of the machine. */
#ifndef BASE_BOUND_H
#define BASE_BOUND_H

#include <stdint.h>

/**
 * bound_memory() - from here on this process and what it starts get at most @bytes of private
 * memory, beyond that -ENOMEM. Return: 1; 0 where less was allowed already, or none can be set (a
 * sanitizer's shadow counts as memory).
 */
int bound_memory(uint64_t bytes);
/**
 * bound_hint() - what to do about -ENOMEM where that bound is ours; NULL where it is not.
 */
const char *bound_hint(void);

/**
 * bound_descriptors() - raise the limit on open files to @most, or to as many as this user may
 * have; children get them, too.
 */
void bound_descriptors(uint64_t most);

/**
 * bound_streams() - at a program's start: a standard stream that is closed is taken by one that can
 * be used for nothing, as a closed one. Else the next file that is opened would get its number, and
 * what is printed would go into it. Programs that we start do not have it.
 */
void bound_streams(void);

/**
 * bound_file_size() - a limit on the size of files is an error of the write that meets it, told as
 * a full disk is, and no end of ours. By a handler, for what is ignored stays so in programs that
 * we start.
 */
void bound_file_size(void);

#endif
