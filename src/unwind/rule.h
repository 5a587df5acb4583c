/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rule.h - one frame's recipe as a 64-bit word: taking it apart and putting it together. Layout:
 * wire/unwind.h. Freestanding; also compiled for BPF: no loops, no tables, no stack.
 */
#ifndef UNWIND_RULE_H
#define UNWIND_RULE_H

#include <stdint.h>

#include "wire/unwind.h"

#define UNWIND_INLINE inline __attribute__((always_inline))
/* Code that every capture runs, or every walk, stands together; see HOT in preload/sys.h. */
#define UNWIND_HOT __attribute__((hot))
#define UNWIND_APART __attribute__((hot, noinline))

static UNWIND_INLINE uint32_t unwind_rule_kind(uint64_t rule)
{
	return (uint32_t)rule & 15;
}

/** The CFA's offset in bytes (the raw number for WIRE_RULE_PLT is this / 8). */
static UNWIND_INLINE int64_t unwind_rule_cfa(uint64_t rule)
{
	return ((int64_t)rule >> 40) * 8;
}

/** Where the caller's rbp is, in bytes from the CFA; 0 = unchanged. */
static UNWIND_INLINE int64_t unwind_rule_bp(uint64_t rule)
{
	return ((int64_t)(rule << 36) >> 52) * 8;
}

/**
 * Where the caller's rbx is, in bytes from the CFA (DRAP: from rbp); 0 = unchanged, LOST * 8 =
 * unknown.
 */
static UNWIND_INLINE int64_t unwind_rule_bx(uint64_t rule)
{
	return ((int64_t)(rule << 24) >> 52) * 8;
}

/** unwind_rule_has_cfa() - whether a CFA @bytes away can be expressed. */
static UNWIND_INLINE int unwind_rule_has_cfa(int64_t bytes)
{
	return bytes % 8 == 0 && bytes / 8 >= -WIRE_RULE_CFA_MAX - 1 &&
	       bytes / 8 <= WIRE_RULE_CFA_MAX;
}

/**
 * unwind_rule_make() - offsets in units of 8 bytes, within the ranges of wire/unwind.h (the caller
 * checks).
 */
static UNWIND_INLINE uint64_t unwind_rule_make(uint32_t kind, int32_t cfa, int32_t bp, int32_t bx)
{
	return (uint64_t)(kind & 15) | (uint64_t)((uint32_t)bp & 0xfff) << 16 |
	       (uint64_t)((uint32_t)bx & 0xfff) << 28 | (uint64_t)(uint32_t)cfa << 40;
}

/** Whether the recipe itself looks at rbp (then the value of rbp decides where the walk goes). */
static UNWIND_INLINE int unwind_rule_uses_bp(uint64_t rule)
{
	uint32_t kind = unwind_rule_kind(rule);
	return kind == WIRE_RULE_BP || kind == WIRE_RULE_DRAP;
}

#endif
