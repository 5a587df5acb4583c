/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * epilogue_x86_64.c - the few instructions that functions end with: the stack pointer goes up,
 * registers are loaded from the stack or popped, return. Encodings: Intel's manual, volume 2.
 */
#include "unwind/bytes.h"
#include "unwind/epilogue.h"
#include "unwind/rule.h"

#define REG_BX 3
#define REG_SP 4
#define REG_BP 5
#define FRAME_MAX (1 << 20) /* of a frame in bytes: beyond, what was read is no such code */

struct reading {
	struct unwind_bytes code;
	/* bytes from where it was */
	int32_t sp;
	struct unwind_saved reg[8];
};

static void saved(struct reading *r, unsigned rex, unsigned reg, int64_t at)
{
	if (rex)
		return; /* r8 to r15 */
	r->reg[reg] = (struct unwind_saved){ 1, r->sp + (int32_t)at };
	if (reg == REG_SP || at < 0 || at > FRAME_MAX)
		r->code.bad = 1;
}

/*
 * A register and a place on the stack: [rsp], [rsp + 8 bits], [rsp + 32 bits]. Return the register.
 */
static unsigned stack_operand(struct reading *r, int64_t *at)
{
	unsigned modrm = (unsigned)unwind_u8(&r->code), sib = (unsigned)unwind_u8(&r->code);

	*at = 0;
	if ((modrm & 7) != REG_SP || modrm >> 6 == 3 || sib != 0x24)
		r->code.bad = 1;
	else if (modrm >> 6 == 1)
		*at = (int8_t)unwind_u8(&r->code);
	else if (modrm >> 6 == 2)
		*at = (int32_t)unwind_u32(&r->code);
	return modrm >> 3 & 7;
}

static void raise(struct reading *r, int64_t bytes)
{
	if (bytes < 0 || r->sp + bytes > FRAME_MAX)
		r->code.bad = 1;
	else
		r->sp += (int32_t)bytes;
}

/* An instruction that is neither of one byte nor a pop; @rex: its prefix, 0 without one. */
static void wide(struct reading *r, unsigned rex, unsigned op)
{
	unsigned reg;
	int64_t at;

	if (op == 0x8b && rex & 8) { /* mov reg, [rsp + at] */
		reg = stack_operand(r, &at);
		saved(r, rex & 4, reg, at);
	} else if (op == 0x8d && rex == 0x48) { /* lea rsp, [rsp + at] */
		reg = stack_operand(r, &at);
		if (reg != REG_SP)
			r->code.bad = 1;
		raise(r, at);
	} else if (op == 0x83 && rex == 0x48 && unwind_u8(&r->code) == 0xc4) { /* add rsp, 8 bits */
		raise(r, (int8_t)unwind_u8(&r->code));
	} else if (op == 0x81 && rex == 0x48 && unwind_u8(&r->code) == 0xc4) {
		raise(r, (int32_t)unwind_u32(&r->code));
	} else if (op == 0x0f && (rex & 8) == 0) { /* movups, movaps xmm, [rsp + at] */
		op = (unsigned)unwind_u8(&r->code);
		if (op != 0x10 && op != 0x28)
			r->code.bad = 1;
		stack_operand(r, &at);
	} else {
		r->code.bad = 1;
	}
}

int unwind_epilogue(const uint8_t *code, uint32_t bytes, struct unwind_epilogue *out)
{
	struct reading r = { .code = { code, code + bytes, 0 } };

	while (!r.code.bad) {
		unsigned op = (unsigned)unwind_u8(&r.code), rex = 0;

		if (op >> 4 == 4) {
			rex = op;
			op = (unsigned)unwind_u8(&r.code);
		}
		if (r.code.bad)
			break;
		if (op >= 0x58 && op <= 0x5f) {
			saved(&r, rex & 1, op & 7, 0);
			raise(&r, 8);
		} else if (op == 0x9d) { /* popf */
			raise(&r, 8);
		} else if (op == 0xc3) {
			*out = (struct unwind_epilogue){ r.sp + 8, r.reg[REG_BP], r.reg[REG_BX] };
			return 0;
		} else if (op != 0xfc) { /* cld */
			wide(&r, rex, op);
		}
	}
	return -1;
}

/* A slot in units of 8 bytes from the CFA; 0: still in the register. */
static int slot(const struct unwind_saved *saved, int32_t cfa, int32_t *out)
{
	int32_t bytes = saved->at - cfa;

	*out = saved->known ? bytes / 8 : 0;
	return !saved->known || (bytes % 8 == 0 && bytes / 8 > WIRE_RULE_SLOT_LOST && bytes < -8);
}

uint64_t unwind_epilogue_rule(const struct unwind_epilogue *e)
{
	int32_t bp, bx;

	if (!unwind_rule_has_cfa(e->cfa) || !slot(&e->bp, e->cfa, &bp) ||
	    !slot(&e->bx, e->cfa, &bx))
		return WIRE_RULE_GAP;
	return unwind_rule_make(WIRE_RULE_SP, e->cfa / 8, bp, bx);
}
