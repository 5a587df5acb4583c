/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - --memory: how much a command may take for a file that somebody else wrote. */
#ifndef CMD_MEMORY_H
#define CMD_MEMORY_H

#include <argp.h>

/**
 * memory_argp - a child parser without an input. When all words are parsed, this process and what
 * it starts may take MEMORY_DEFAULT bytes of private memory, or what the option says; what is above
 * is -ENOMEM where it is asked for, and bound_hint() names the option. 78 KB of compressed text
 * can ask for gigabytes.
 */
extern const struct argp memory_argp;

/**
 * memory_later_argp - the same for commands that read files of others only sometimes: then they
 * call memory_bound().
 */
extern const struct argp memory_later_argp;
void memory_bound(void);

#define MEMORY_DEFAULT (512ull << 20)

#endif
