/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * arch_x86_64.h - what the stepper knows of this machine; wire/unwind.h has what crosses a
 * boundary.
 */
#ifndef UNWIND_ARCH_X86_64_H
#define UNWIND_ARCH_X86_64_H

#include <stdint.h>

#if !defined(__x86_64__)
#error "byteledger: the stepper is written for x86-64 so far"
#endif

#define UNWIND_REGS 17 /* DWARF numbers: 3 = rbx, 6 = rbp, 7 = rsp, 12..15, 16 = return address */
#define UNWIND_REG_BX 3
#define UNWIND_REG_BP 6
#define UNWIND_REG_SP 7
#define UNWIND_REG_RA 16
/* rbx, rbp, r12..r15 survive a call by the ABI; rsp and the return address are set by every step */
#define UNWIND_CALLEE_SAVED (1u << 3 | 1u << 6 | 0xfu << 12)

/* Where the kernel puts them, from the stack pointer of a signal frame on. */
static const uint8_t unwind_signal_at[UNWIND_REGS] = { 144, 136, 152, 128, 112, 104, 120, 160, 40,
						       48,  56,  64,  72,  80,  88,  96,  168 };

/* mov $15, %rax; syscall: what returns from a signal handler. */
static const uint8_t unwind_sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

/** unwind_pause() - in a loop that waits for another thread. */
static inline void unwind_pause(void)
{
	__builtin_ia32_pause();
}

/**
 * unwind_mask() - bit i: lane i of 16, four in each of @a to @d, is set. Lanes are all ones or 0.
 */
typedef int32_t unwind_lanes __attribute__((vector_size(16)));
static inline uint32_t unwind_mask(unwind_lanes a, unwind_lanes b, unwind_lanes c, unwind_lanes d)
{
	return (uint32_t)__builtin_ia32_pmovmskb128(__builtin_ia32_packsswb128(
		__builtin_ia32_packssdw128(a, b), __builtin_ia32_packssdw128(c, d)));
}

/** unwind_load() - the word at @addr, whatever a sanitizer thinks of the place. */
static inline uint64_t unwind_load(uint64_t addr)
{
	uint64_t v;
	__asm__ volatile("mov (%1), %0" : "=r"(v) : "r"(addr) : "memory");
	return v;
}

#endif
