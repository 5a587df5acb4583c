/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epilogue.h - what machine code says of its own frame, for code that brings no recipes: where the
 * code behind a call leaves it. Pure functions of bytes; freestanding.
 */
#ifndef UNWIND_EPILOGUE_H
#define UNWIND_EPILOGUE_H

#include <stdint.h>

/** Bytes that unwind_epilogue() looks at, at most. */
#define UNWIND_EPILOGUE_BYTES 160

/** Where a register of the caller's is. */
struct unwind_saved {
	/* 0: the callee did not touch it */
	int known;
	/* bytes from the frame's stack pointer */
	int32_t at;
};

/** A frame whose code, from the return address on, goes straight to its return. */
struct unwind_epilogue {
	/* bytes from the frame's stack pointer; the return address lies 8 below */
	int32_t cfa;
	struct unwind_saved bp, bx;
};

/**
 * unwind_epilogue() - read the @bytes of code at @code, where a call returns to. Nothing but what
 * gives back the stack and the registers may stand before the return: no jump, no call, nothing
 * that is not known. Return 0, or -1: @out is as it was.
 */
int unwind_epilogue(const uint8_t *code, uint32_t bytes, struct unwind_epilogue *out);

/** unwind_epilogue_rule() - the same as a recipe; WIRE_RULE_GAP where none expresses it. */
uint64_t unwind_epilogue_rule(const struct unwind_epilogue *e);

#endif
