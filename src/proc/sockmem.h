/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sockmem.h - what the kernel holds for sockets: data that has come and was not read, and that was
 * sent and not acknowledged. By sock_diag(7), which tells of the caller's own network namespace
 * only.
 */
#ifndef PROC_SOCKMEM_H
#define PROC_SOCKMEM_H

#include <stddef.h>
#include <stdint.h>

/**
 * sockmem_of() - bytes of buffers of the TCP, UDP, raw and Unix sockets whose @inodes (sorted,
 * rising) are given. UINT64_MAX: not told here. A pass over all sockets of the namespace, some 0.3
 * us each.
 */
uint64_t sockmem_of(const uint64_t *inodes, size_t count);

#endif
