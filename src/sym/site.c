/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.c - where in a function a probe costs least. The kernel emulates nop, push, call, jmp and
 * jcc; anything else it steps over by a trap, which in a virtual machine is twenty times as dear.
 * So the first of these is looked for that the function reaches always, with its arguments
 * untouched.
 */
#include "sym/functions.h"

#include <string.h>

#include <Zydis/Zydis.h>

#include "wire/sample.h"

#define LOOK_BYTES 96 /* from the entry */

static int reg_bit(ZydisRegister reg)
{
	switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
	case ZYDIS_REGISTER_RDI:
		return WIRE_SAMPLE_DI;
	case ZYDIS_REGISTER_RSI:
		return WIRE_SAMPLE_SI;
	case ZYDIS_REGISTER_RDX:
		return WIRE_SAMPLE_DX;
	case ZYDIS_REGISTER_RCX:
		return WIRE_SAMPLE_CX;
	case ZYDIS_REGISTER_R8:
		return WIRE_SAMPLE_R8;
	case ZYDIS_REGISTER_R9:
		return WIRE_SAMPLE_R9;
	case ZYDIS_REGISTER_RAX:
		return WIRE_SAMPLE_AX;
	case ZYDIS_REGISTER_RBX:
		return WIRE_SAMPLE_BX;
	default:
		return -1;
	}
}

struct seen {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static int is_relative(const struct seen *s)
{
	return (s->insn.attributes & ZYDIS_ATTRIB_IS_RELATIVE) &&
	       s->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

static int is_jump(const struct seen *s)
{
	return is_relative(s) && (s->insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
				  s->insn.meta.category == ZYDIS_CATEGORY_COND_BR);
}

static int is_call(const struct seen *s)
{
	return is_relative(s) && s->insn.meta.category == ZYDIS_CATEGORY_CALL;
}

static int is_nop5(const uint8_t *code, const struct seen *s)
{
	return s->insn.mnemonic == ZYDIS_MNEMONIC_NOP && s->insn.length == 5 && code[0] == 0x0f;
}

/*
 * As branch_setup_xol_ops() and push_setup_xol_ops() of the kernel have it, in all versions since
 * 4.18.
 */
static int is_emulated(const uint8_t *code, const struct seen *s)
{
	unsigned at = 0;
	if (s->insn.length == 1 && code[0] == 0x90)
		return 1;
	if ((s->insn.length == 1 || (s->insn.length == 2 && (code[0] & 0xf0) == 0x40)) &&
	    code[s->insn.length - 1] >= 0x50 && code[s->insn.length - 1] <= 0x57)
		return 1;
	if (code[at] == 0xeb || code[at] == 0xe9 || code[at] == 0xe8 ||
	    (code[at] >= 0x70 && code[at] <= 0x7f))
		return 1;
	return code[0] == 0x0f && code[1] >= 0x80 && code[1] <= 0x8f;
}

/* Registers that hold something else behind it, as bits; 1 << 16: rsp. */
static uint32_t written(const struct seen *s)
{
	uint32_t bits = 0;
	for (unsigned i = 0; i < s->insn.operand_count; i++) {
		const ZydisDecodedOperand *o = &s->operands[i];
		if (o->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		ZydisRegister whole =
			ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, o->reg.value);
		int bit = reg_bit(o->reg.value);
		if (whole == ZYDIS_REGISTER_RSP)
			bits |= 1u << 16;
		else if (bit >= 0)
			bits |= 1u << bit;
	}
	return bits;
}

/* endbr64, with which functions begin where indirect branches are tracked: it does nothing. */
static size_t head_bytes(const uint8_t *code, size_t bytes)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	return bytes >= sizeof(endbr64) && memcmp(code, endbr64, sizeof(endbr64)) == 0
		       ? sizeof(endbr64)
		       : 0;
}

/*
 * The lowest place behind the entry that a branch of the function itself leads to: a loop to its
 * head.
 */
static void scan(const ZydisDecoder *decoder, const uint8_t *code, size_t bytes, uint64_t vaddr,
		 struct site *site, uint64_t *targets, uint32_t *target_count)
{
	struct seen s;
	for (size_t at = 0; at < bytes; at += s.insn.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code + at, bytes - at, &s.insn,
							 s.operands)))
			return;
		ZyanU64 target;
		if ((!is_jump(&s) && !is_call(&s)) ||
		    !ZYAN_SUCCESS(
			    ZydisCalcAbsoluteAddress(&s.insn, &s.operands[0], vaddr + at, &target)))
			continue;
		if (target > vaddr && target < vaddr + LOOK_BYTES) {
			if (*target_count < SITE_EDGES_MAX)
				targets[(*target_count)++] = target;
		} else if (target < vaddr || target >= vaddr + bytes) {
			if (at == head_bytes(code, bytes))
				site->jumps_at_once =
					s.insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
			if (site->edge_count < SITE_EDGES_MAX)
				site->edges[site->edge_count++] = target;
		}
	}
}

static void choose(const uint8_t *code, size_t bytes, uint64_t vaddr, uint32_t wanted,
		   struct site *site)
{
	ZydisDecoder decoder;
	uint64_t targets[SITE_EDGES_MAX];
	uint32_t target_count = 0;
	struct seen s;

	memset(site, 0, sizeof(*site));
	site->kind = SITE_STEPPED;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	scan(&decoder, code, bytes, vaddr, site, targets, &target_count);
	for (size_t at = 0; at < bytes && at < LOOK_BYTES; at += s.insn.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, bytes - at, &s.insn,
							 s.operands)))
			return;
		for (uint32_t i = 0; i < target_count; i++)
			/* reached a second time by a loop, or past what is counted by a branch */
			if (at && targets[i] <= vaddr + at)
				return;
		if (at == 0 && is_nop5(code, &s))
			site->kind = SITE_NOP5;
		if (is_emulated(code + at, &s)) {
			site->offset = at;
			site->kind = SITE_EMULATED;
			return;
		}
		/* entered by a nop of 5 bytes: any place behind it is better */
		if (at && site->kind == SITE_NOP5 && site->offset == 0 && !is_nop5(code + at, &s)) {
			site->offset = at;
			site->kind = SITE_STEPPED;
		}
		if ((written(&s) & (wanted | 1u << 16)) || is_call(&s) ||
		    s.insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		    s.insn.meta.category == ZYDIS_CATEGORY_RET ||
		    s.insn.meta.category == ZYDIS_CATEGORY_SYSCALL ||
		    s.insn.meta.category == ZYDIS_CATEGORY_INTERRUPT ||
		    s.insn.meta.category == ZYDIS_CATEGORY_COND_BR)
			return;
	}
}

void site_choose(const uint8_t *code, size_t bytes, uint64_t vaddr, uint32_t wanted,
		 struct site *site)
{
	ZydisDecoder decoder;
	struct seen s;
	ZyanU64 target;
	choose(code, bytes, vaddr, wanted, site);
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (site->offset >= bytes ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + site->offset,
						 bytes - site->offset, &s.insn, s.operands)))
		return;
	site->leads_to[0] = s.insn.length;
	if ((is_jump(&s) || is_call(&s)) &&
	    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&s.insn, &s.operands[0], vaddr + site->offset,
						  &target)))
		site->leads_to[s.insn.meta.category == ZYDIS_CATEGORY_COND_BR] =
			(int64_t)(target - vaddr - site->offset);
}

/* Places yet to be walked from. */
struct todo {
	uint32_t at[256];
	uint32_t count;
	uint8_t seen[SITE_EDGES_BYTES / 8];
};

static void visit(struct todo *todo, uint64_t at)
{
	if (todo->count < 256)
		todo->at[todo->count++] = (uint32_t)at;
}

static int is_new(struct todo *todo, size_t at)
{
	uint8_t bit = (uint8_t)(1u << (at & 7));
	if (todo->seen[at / 8] & bit)
		return 0;
	todo->seen[at / 8] |= bit;
	return 1;
}

uint32_t site_edges(const uint8_t *code, size_t bytes, uint64_t vaddr,
		    uint64_t edges[SITE_EDGES_MAX])
{
	ZydisDecoder decoder;
	struct todo todo = { .count = 1 };
	struct seen s;
	uint32_t count = 0;
	if (bytes > SITE_EDGES_BYTES)
		bytes = SITE_EDGES_BYTES;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (todo.count) {
		for (size_t at = todo.at[--todo.count]; at < bytes && is_new(&todo, at);
		     at += s.insn.length) {
			ZyanU64 target;
			if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, bytes - at,
								 &s.insn, s.operands)))
				break;
			if ((is_jump(&s) || is_call(&s)) &&
			    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&s.insn, &s.operands[0],
								  vaddr + at, &target))) {
				if (is_jump(&s) && target >= vaddr && target - vaddr < bytes)
					visit(&todo, target - vaddr);
				else if (count < SITE_EDGES_MAX)
					edges[count++] = target;
			}
			if (s.insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
			    s.insn.meta.category == ZYDIS_CATEGORY_RET)
				break;
		}
	}
	return count;
}
