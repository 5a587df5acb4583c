/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cfi.h - unwind recipes on demand, out of the .eh_frame that is mapped in the process anyway.
 *
 * Freestanding: no libc call, no allocation, little stack (the working state is the caller's).
 * Bytes are read inside [image.lo, image.hi) only, and every loop is bounded by them; addresses are
 * those of this process, so an image has to stand in memory as the loader would have laid it out.
 * No code here reads the stack but through the load callback.
 */
#ifndef UNWIND_CFI_H
#define UNWIND_CFI_H

#include <stdint.h>

#include "unwind/arch_x86_64.h"
#include "unwind/rule.h"

#define UNWIND_REMEMBER_MAX 8

/** What may be read, and where the unwind data stands in it. */
struct unwind_image {
	const uint8_t *lo, *hi;
	/* .eh_frame_hdr, or NULL: then eh_frame is enumerated */
	const uint8_t *hdr;
	/* used where hdr is NULL or has no sorted table; ends by itself or at hi */
	const uint8_t *eh_frame;
	/* it is .debug_frame, which begins at lo; hdr is NULL */
	int debug;
	/* of .debug_frame: what its addresses lack to be those of this process */
	uint64_t bias;
};

/** One frame description entry with the parts of its CIE that matter. */
struct unwind_fde {
	/* the addresses it describes */
	uint64_t lo, hi;
	const uint8_t *code, *code_end;
	const uint8_t *cie_code, *cie_end;
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;
	uint8_t pointer_enc;
	/* a signal return frame: the caller was interrupted, not calling */
	uint8_t signal;
};

enum unwind_how {
	UNWIND_UNSPECIFIED = 0,
	UNWIND_SAME,
	UNWIND_UNDEFINED,
	UNWIND_AT_CFA,    /* saved at CFA + value */
	UNWIND_VALUE_CFA, /* is CFA + value */
	UNWIND_REGISTER,  /* is in register value */
	UNWIND_AT_EXPR,   /* saved at the address that the block at value gives (pushed: CFA) */
	UNWIND_VALUE_EXPR /* is what the block at value gives */
};

struct unwind_reg_rule {
	/* a block: address of its length field */
	int64_t value;
	uint32_t how;
	uint32_t zero;
};

/** The rules of one row of a frame's table: the CFA, and how each register is found. */
struct unwind_row {
	struct unwind_reg_rule reg[UNWIND_REGS];
	/* NULL: CFA = reg[cfa_reg] + cfa_off */
	const uint8_t *cfa_expr;
	int64_t cfa_off;
	uint64_t cfa_reg;
};

/**
 * Working state of unwind_cfi_row(); some 3 KiB, kept out of the stack because alternate stacks are
 * small.
 */
struct unwind_cfi_work {
	/* the result */
	struct unwind_row row;
	uint64_t row_lo, row_hi;
	struct unwind_row initial;
	struct unwind_row remembered[UNWIND_REMEMBER_MAX];
	/* of remembered rows */
	uint32_t depth;
	/* where unwind_cfi_next_row() goes on; NULL: the program ended */
	const uint8_t *resume;
};

/**
 * unwind_cfi_find() - the FDE that describes @pc. Return: 1 and @fde, or 0 where there is none or
 * the data is damaged. Cost: a binary search where .eh_frame_hdr has its table, a walk over the
 * whole .eh_frame otherwise.
 */
int unwind_cfi_find(const struct unwind_image *image, uint64_t pc, struct unwind_fde *fde);

/**
 * unwind_cfi_next() - enumerate: parse the entry at @at. Return: the place of the next entry (NULL
 * at the end or on damage); @fde->hi == 0 where the entry was a CIE or could not be used.
 */
const uint8_t *unwind_cfi_next(const struct unwind_image *image, const uint8_t *at,
			       struct unwind_fde *fde);

/**
 * unwind_cfi_row() - run the FDE's program up to @pc. Return: 1 and work->row, valid for [row_lo,
 * row_hi); 0 where the program is damaged or uses what is not known here.
 */
int unwind_cfi_row(const struct unwind_image *image, const struct unwind_fde *fde, uint64_t pc,
		   struct unwind_cfi_work *work);

/**
 * unwind_cfi_next_row() - the row behind the one in @work, which unwind_cfi_row() or this left
 * there: a whole function in one pass. Return: as unwind_cfi_row(); 0 too at the function's end
 * (work->row_hi is then fde->hi).
 */
int unwind_cfi_next_row(const struct unwind_image *image, const struct unwind_fde *fde,
			struct unwind_cfi_work *work);

/** unwind_cfi_rule() - the row as a recipe word; WIRE_RULE_EVAL where it cannot be expressed. */
uint64_t unwind_cfi_rule(const struct unwind_fde *fde, const struct unwind_row *row,
			 const uint8_t *hi);

/**
 * All registers, for frames that no recipe word can express. Bit n of @known: reg[n] holds a value.
 */
struct unwind_full {
	uint64_t reg[UNWIND_REGS];
	uint32_t known;
};

typedef int (*unwind_load_fn)(void *ctx, uint64_t addr, uint64_t *out);

/**
 * unwind_full_step() - from a frame to its caller by a row's full rules; reg[16] is the ip in
 * step.h's convention. Return: UNWIND_GO_ON of step.h (-1), or an enum wire_stop. Registers that
 * the row does not speak of stay as they are if callee-saved and become unknown if not.
 * Expressions: at most 256 operations, 32 values.
 */
int unwind_full_step(const struct unwind_fde *fde, const struct unwind_row *row, const uint8_t *hi,
		     struct unwind_full *full, unwind_load_fn load, void *ctx);

#endif
