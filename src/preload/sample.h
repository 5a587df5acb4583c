/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - stacks that not every allocation has. */
#ifndef PRELOAD_SAMPLE_H
#define PRELOAD_SAMPLE_H

#include <stdint.h>

#include "preload/thread.h"

/** capture_always() - the stack, where the hot path sees no scratch memory. */
uint32_t capture_always(struct thread *t, uint64_t pc, uint64_t sp, uint64_t bp,
			uint64_t bx) HIDDEN;
/**
 * capture_sampled() - likewise of an allocation of @size bytes: WIRE_STOP_UNSAMPLED, unless its
 * turn has come.
 */
uint32_t capture_sampled(struct thread *t, uint64_t size, uint64_t pc, uint64_t sp, uint64_t bp,
			 uint64_t bx) HIDDEN;

#endif
