/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h - names of the running kernel's functions, as /proc/kallsyms has them. */
#ifndef SYM_KERNEL_H
#define SYM_KERNEL_H

#include <stdint.h>

#include "base/err.h"

struct kernel_names;

/**
 * kernel_names_new() - read them, 100 ms and some MiB; functions of modules and of BPF that are
 * there now. -EPERM where the kernel hides addresses from us (kernel.kptr_restrict).
 */
struct kernel_names *kernel_names_new(struct err *err);
void kernel_names_free(struct kernel_names *names);
/**
 * kernel_names_find() - the function around @addr, NULL = none; lent. @module: of which module it
 * is, "" = the kernel itself.
 */
const char *kernel_names_find(const struct kernel_names *names, uint64_t addr, const char **module);

#endif
