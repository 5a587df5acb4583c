/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unwind.h - unwind recipes as data: one 64-bit word a recipe, and the compact table ("blob") of
 * one module.
 *
 * A blob is position independent and holds indexes only, no pointers, so the same bytes serve a
 * mapping in the process, a copy at any offset of a BPF array, and a cache file named by build id:
 *
 *     struct wire_unwind | idx[idx_count] u32 | row[row_count] u32 | rule[rule_count] u64
 *
 * idx[g] is the number of the first row at or after text_lo + g * 256; the last entry equals
 * row_count, so idx_count = grains + 1. A row is (low 16 bits of the address relative to text_lo)
 * << 16 | rule number, sorted by address; text_lo is a multiple of 64 KiB of the *virtual* address,
 * so a grain of 256 bytes never crosses a carry. row[0] is a sentinel with rule 0, which is always
 * WIRE_RULE_GAP. A row rules from its address to the next row's. No grain holds more than 256 rows
 * (a builder refuses a module that would need more).
 *
 * Compile for BPF with -ffreestanding: the compiler's own <stdint.h> is then complete by itself.
 */
#ifndef WIRE_UNWIND_H
#define WIRE_UNWIND_H

#include <stdint.h>

#define WIRE_UNWIND_MAGIC 0x316b6c6277646c62ULL /* "bldwblk1" */
#define WIRE_UNWIND_VERSION 2
#define WIRE_UNWIND_MACHINE_X86_64 62 /* EM_X86_64 */
#define WIRE_UNWIND_GRAIN_SHIFT 8
#define WIRE_UNWIND_TEXT_ALIGN 65536u
#define WIRE_UNWIND_PROBES 9 /* halvings that empty 256 rows */
#define WIRE_UNWIND_RULES_MAX 65536

struct wire_unwind {
	uint64_t magic;
	uint16_t version, machine;
	/* of the whole blob */
	uint32_t total_bytes;
	/* ELF virtual address of idx[0], multiple of WIRE_UNWIND_TEXT_ALIGN */
	uint64_t text_lo;
	/* addresses past text_lo + text_bytes have no row */
	uint64_t text_bytes;
	uint32_t idx_count, row_count, rule_count;
	/* bytes from the start of the blob; rule_off multiple of 8 */
	uint32_t idx_off, row_off, rule_off;
	/* 0 = none */
	uint8_t build_id_len;
	uint8_t build_id[23];
};
_Static_assert(sizeof(struct wire_unwind) == 80, "wire_unwind");

/*
 * A recipe (x86-64), how one frame's caller is found from rip, rsp, rbp, rbx:
 *
 *   bits  0..3   kind, enum wire_rule_kind
 *   bits  4..15  zero
 *   bits 16..27  signed, the caller's rbp, in units of 8 bytes from the CFA; 0 = still in rbp
 *   bits 28..39  signed, the same for rbx; WIRE_RULE_SLOT_LOST = not known any more
 *   bits 40..63  signed, the CFA's offset in units of 8 bytes (WIRE_RULE_PLT: the expression's
 *                threshold): up to 64 MiB, for programs have frames of a megabyte, and one that
 *                does not fit costs as much as fifty others
 *
 * The return address is at CFA - 8 in every kind that has a CFA; the caller's rsp is the CFA. In
 * WIRE_RULE_DRAP the slots count from the frame's own rbp instead, and the caller's rbp is at
 * *(rbp).
 */
enum wire_rule_kind {
	WIRE_RULE_GAP = 0,    /* no recipe covers the address */
	WIRE_RULE_END = 1,    /* outermost frame: the return address is undefined */
	WIRE_RULE_SP = 2,     /* CFA = rsp + n */
	WIRE_RULE_BP = 3,     /* CFA = rbp + n */
	WIRE_RULE_BX = 4,     /* CFA = rbx + n (_dl_runtime_resolve) */
	WIRE_RULE_PLT = 5,    /* CFA = rsp + 8 + ((rip & 15) >= n ? 8 : 0) */
	WIRE_RULE_SIGNAL = 6, /* registers stand in the signal frame at rsp */
	WIRE_RULE_DRAP = 7,   /* CFA = *(rbp + n): realigned stack */
	WIRE_RULE_EVAL = 8,   /* needs other registers or an expression: full evaluation, or stop */
	WIRE_RULE_KINDS = 9
};
#define WIRE_RULE_CFA_MAX 0x7fffff
#define WIRE_RULE_SLOT_MIN (-2047)
#define WIRE_RULE_SLOT_MAX 2047
#define WIRE_RULE_SLOT_LOST (-2048)

/*
 * Where the kernel puts the interrupted registers, from rsp in the signal return code (x86-64 ABI,
 * never changes).
 */
#define WIRE_SIGFRAME_BP 120
#define WIRE_SIGFRAME_BX 128
#define WIRE_SIGFRAME_SP 160
#define WIRE_SIGFRAME_IP 168

#endif
