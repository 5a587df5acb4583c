/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * call_x86_64.h - whether an address is where a call returns to. Freestanding; also compiled for
 * BPF: no loop, no table.
 */
#ifndef UNWIND_CALL_X86_64_H
#define UNWIND_CALL_X86_64_H

#include <stdint.h>

#include "unwind/rule.h"

/**
 * unwind_follows_call() - whether @before, the 8 bytes before an address, the last one highest, end
 * with an instruction that calls.
 */
static UNWIND_INLINE int unwind_follows_call(uint64_t before)
{
	uint32_t b1 = before >> 8 & 255, b2 = before >> 16 & 255, b3 = before >> 24 & 255,
		 b4 = before >> 32 & 255, b5 = before >> 40 & 255, b6 = before >> 48 & 255,
		 b7 = before >> 56 & 255;

	if (b3 == 0xe8) /* as far as 2 GiB */
		return 1;
	/*
	 * through a register or memory: 0xff, then which, whose middle three bits are 2; behind it
	 * 0, 1, 4 or 5 bytes
	 */
	if (b6 == 0xff &&
	    ((b7 & 0xf8) == 0xd0 || ((b7 & 0xf8) == 0x10 && b7 != 0x14 && b7 != 0x15)))
		return 1;
	if (b5 == 0xff && (((b6 & 0xf8) == 0x50 && b6 != 0x54) || (b6 == 0x14 && (b7 & 7) != 5)))
		return 1;
	if (b4 == 0xff && b5 == 0x54)
		return 1;
	if (b2 == 0xff && (((b3 & 0xf8) == 0x90 && b3 != 0x94) || b3 == 0x15))
		return 1;
	return b1 == 0xff && (b2 == 0x94 || (b2 == 0x14 && (b3 & 7) == 5));
}

#endif
