/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patch_x86_64.c - heads of functions of x86-64: how long instructions are, which can move, and
 * how.
 *
 * Encodings: Intel SDM vol. 2, chapter 2 (prefixes, ModRM, VEX, EVEX) and appendix A (opcode maps).
 * What is not known there in 64-bit mode is unknown here; so are 3DNow!, XOP, PadLock and APX, and
 * branches with an operand size prefix, which one maker's processors take for 16-bit ones and the
 * other's ignore.
 */
#include <string.h>

#include "patch/patch.h"

#define INSN_MAX 15 /* longer ones fault */

enum {
	PREFIX_66 = 1,
	PREFIX_67 = 2,
	PREFIX_F2 = 4,
	PREFIX_F3 = 8,
	PREFIX_F0 = 16,
	REX = 32,
	REX_W = 64
};

/* The opcode maps: one byte, behind 0F, 0F 38 and 0F 3A, and those of the newer prefixes. */
enum { ONE, TWO, TWO_38, TWO_3A, VEX_1, VEX_2, VEX_3, EVEX_1, EVEX_2, EVEX_3, EVEX_5, EVEX_6 };

/* What an instruction holds that counts from its end. */
enum relative { NOTHING, OPERAND, BRANCH_SHORT, BRANCH_NEAR };

struct insn {
	uint8_t bytes;
	/* an opcode map */
	uint8_t map;
	uint8_t opcode;
	uint8_t modrm, modrm_at;
	uint8_t prefixes;
	uint8_t relative;
	/* where the displacement stands, if @relative */
	uint8_t disp_at;
};

/*
 * What follows an opcode. M: ModRM and what that asks for; B, Z: the same and an immediate of one
 * byte, of the operand's size but at most four; b, w, z: only such an immediate; v: one of the
 * operand's full size; a: an address; e: three bytes; j, J: a short or a near branch; n: nothing.
 * Prefixes, escapes and what does not exist: -.
 */
static const char one[256 + 1] = "MMMMbz--MMMMbz--" /* 00 */
				 "MMMMbz--MMMMbz--"
				 "MMMMbz--MMMMbz--" /* 20 */
				 "MMMMbz--MMMMbz--"
				 "----------------" /* 40 */
				 "nnnnnnnnnnnnnnnn"
				 "---M----zZbBnnnn" /* 60 */
				 "jjjjjjjjjjjjjjjj"
				 "BZ-BMMMMMMMMMMMM" /* 80 */
				 "nnnnnnnnnn-nnnnn"
				 "aaaannnnbznnnnnn" /* a0 */
				 "bbbbbbbbvvvvvvvv"
				 "BBwn--BZenwnnb-n" /* c0 */
				 "MMMM---nMMMMMMMM"
				 "jjjjbbbbJJ-jnnnn" /* e0 */
				 "-n--nnMMnnnnnnMM";
/*
 * Behind 0F. Moves of control registers (20) have a ModRM byte that never asks for more: as an
 * immediate of one byte.
 */
static const char two[256 + 1] = "MMMM-nnnnn-n-M--" /* 00 */
				 "MMMMMMMMMMMMMMMM"
				 "bbbb----MMMMMMMM" /* 20 */
				 "nnnnnn-n--------"
				 "MMMMMMMMMMMMMMMM" /* 40 */
				 "MMMMMMMMMMMMMMMM"
				 "MMMMMMMMMMMMMMMM" /* 60 */
				 "BBBBMMMnMM--MMMM"
				 "JJJJJJJJJJJJJJJJ" /* 80 */
				 "MMMMMMMMMMMMMMMM"
				 "nnnMBM--nnnMBMMM" /* a0 */
				 "MMMMMMMMMMBMMMMM"
				 "MMBMBBBMnnnnnnnn" /* c0 */
				 "MMMMMMMMMMMMMMMM"
				 "MMMMMMMMMMMMMMMM" /* e0 */
				 "MMMMMMMMMMMMMMMM";
/*
 * The other maps: a bit says that the opcode exists, for any size and prefix; a word for sixteen.
 * All have a ModRM byte (but VEX 77); those behind 3A have an immediate byte, those of VEX_1 and
 * EVEX_1 where the map behind 0F has one.
 */
static const uint16_t known[][16] = {
	[TWO_38] = { 0x0fff, 0x70b1, 0x0f3f, 0xffbf, 0x0003, 0, 0, 0, 0x0007, 0, 0, 0, 0xbf00,
		     0xf900, 0, 0x1f63 },
	[TWO_3A] = { 0xff00, 0x00f0, 0x0007, 0, 0x0017, 0, 0x000f, 0, 0, 0, 0, 0, 0xd000, 0x8000, 0,
		     0x0001 },
	[VEX_1] = { 0, 0x00ff, 0xff00, 0, 0x0cf6, 0xffff, 0xffff, 0xf0ff, 0, 0x030f, 0x4000, 0,
		    0x0074, 0xffff, 0xffff, 0x7fff },
	[VEX_2] = { 0xffff, 0x77c8, 0xff3f, 0xffff, 0x0ae3, 0x570f, 0, 0x0304, 0x5000, 0xffcf,
		    0xffc0, 0xfff3, 0xb800, 0xfc0c, 0xffff, 0x00ec },
	[VEX_3] = { 0xff77, 0x23f0, 0x0007, 0x030f, 0x1c57, 0xf000, 0xff0f, 0xff00, 0, 0, 0, 0,
		    0xc000, 0xc000, 0, 0x0001 },
	[EVEX_1] = { 0, 0x00ff, 0xff00, 0, 0, 0xfff2, 0xffff, 0xcf7f, 0, 0, 0, 0, 0x0074, 0xff7e,
		     0xffff, 0x7f7e },
	[EVEX_2] = { 0x3811, 0xff7f, 0x3fff, 0xffff, 0xf0fd, 0x0f3f, 0x017c, 0xffef, 0xaf08, 0xffcf,
		     0xffcf, 0xfff0, 0xbdd0, 0xf000, 0, 0 },
	[EVEX_3] = { 0x8f3b, 0xeff0, 0x00ef, 0xcf00, 0x001c, 0x00f3, 0x00c0, 0x000f, 0, 0, 0, 0,
		     0xc004, 0, 0, 0 },
	[EVEX_5] = { 0, 0x2003, 0xf400, 0, 0, 0xff02, 0x4000, 0x7f00 },
	[EVEX_6] = { 0, 0x0008, 0x3000, 0, 0xf00c, 0x00c0, 0, 0, 0, 0xffc0, 0xffc0, 0xffc0, 0,
		     0x00c0, 0, 0 },
};

/*
 * Prefixes of @b, which has room for INSN_MAX and more. Return: how many; INSN_MAX where there is
 * nothing else.
 */
static unsigned read_prefixes(const uint8_t *b, struct insn *insn)
{
	for (unsigned at = 0; at < INSN_MAX; at++) {
		switch (b[at]) {
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			break;
		case 0x66:
			insn->prefixes |= PREFIX_66;
			break;
		case 0x67:
			insn->prefixes |= PREFIX_67;
			break;
		case 0xf0:
			insn->prefixes |= PREFIX_F0;
			break;
		case 0xf2:
			insn->prefixes |= PREFIX_F2;
			break;
		case 0xf3:
			insn->prefixes |= PREFIX_F3;
			break;
		default:
			/*
			 * a REX prefix counts only right before the opcode: followed by another
			 * one, which has no entry, it is unknown
			 */
			if ((b[at] & 0xf0) != 0x40)
				return at;
			insn->prefixes |= REX | (b[at] & 8 ? REX_W : 0);
			return at + 1;
		}
	}
	return INSN_MAX;
}

/*
 * The map behind VEX's or EVEX's prefix at @b. Return: the prefix's bytes; 0: there is no such map.
 */
static unsigned read_vex(const uint8_t *b, struct insn *insn)
{
	static const uint8_t evex_map[8] = { 0, EVEX_1, EVEX_2, EVEX_3, 0, EVEX_5, EVEX_6, 0 };
	if (insn->prefixes & ~PREFIX_67)
		return 0;
	if (b[0] == 0xc5) {
		insn->map = VEX_1;
		return 2;
	}
	if (b[0] == 0xc4) {
		unsigned map = b[1] & 0x1f;
		insn->map = VEX_1 + map - 1;
		return map >= 1 && map <= 3 ? 3 : 0;
	}
	insn->map = evex_map[b[1] & 7];
	return insn->map && !(b[1] & 8) && b[2] & 4 ? 4 : 0;
}

/* Up to the opcode. Return: where what follows it begins; 0: there is no such prefix or map. */
static unsigned read_opcode(const uint8_t *b, struct insn *insn)
{
	unsigned at = read_prefixes(b, insn);
	if (at == INSN_MAX)
		return 0;
	if (b[at] == 0xc4 || b[at] == 0xc5 || b[at] == 0x62) {
		unsigned bytes = read_vex(b + at, insn);
		if (!bytes)
			return 0;
		at += bytes;
	} else if (b[at] == 0x0f) {
		insn->map = TWO;
		at++;
		if (b[at] == 0x38 || b[at] == 0x3a)
			insn->map = b[at++] == 0x38 ? TWO_38 : TWO_3A;
	}
	insn->opcode = b[at];
	return at + 1;
}

/* What follows the opcode, as a letter of the tables above. */
static char form_of(const struct insn *insn)
{
	if (insn->map == ONE)
		return one[insn->opcode];
	if (insn->map == TWO)
		return two[insn->opcode];
	if (!(known[insn->map][insn->opcode >> 4] >> (insn->opcode & 15) & 1))
		return '-';
	if (insn->map == VEX_1 || insn->map == EVEX_1)
		return two[insn->opcode] == '-' ? 'M' : two[insn->opcode];
	return insn->map == TWO_3A || insn->map == VEX_3 || insn->map == EVEX_3 ? 'B' : 'M';
}

/* ModRM at b[at] with scale, index, base and displacement. Return: where they end. */
static unsigned read_modrm(const uint8_t *b, unsigned at, struct insn *insn)
{
	unsigned mod = b[at] >> 6, rm = b[at] & 7;
	insn->modrm_at = at;
	insn->modrm = b[at++];
	if (mod == 3)
		return at;
	if (rm == 4)
		rm = b[at++] & 7; /* the base: 5 is none where there is no displacement */
	else if (mod == 0 && rm == 5) {
		insn->relative = OPERAND;
		insn->disp_at = at;
	}
	if (mod == 1)
		return at + 1;
	return at + (mod == 2 || rm == 5 ? 4 : 0);
}

/* Opcodes that exist for some values of ModRM's middle field, or with some prefixes, only. */
static int exists(const struct insn *insn)
{
	unsigned reg = insn->modrm >> 3 & 7, memory = insn->modrm < 0xc0;
	if (insn->map == ONE) {
		switch (insn->opcode) {
		case 0x8d:
			return memory;
		case 0x8f:
			return reg == 0;
		case 0xc6: /* with a register: the end of a transaction */
		case 0xc7:
			return reg == 0 || insn->modrm == 0xf8;
		case 0xfe:
			return reg < 2;
		case 0xff:
			return reg != 7 && (memory || (reg != 3 && reg != 5));
		}
	} else if (insn->map == TWO) {
		switch (insn->opcode) {
		case 0x78:
			return !(insn->prefixes & (PREFIX_66 | PREFIX_F2));
		case 0xb8:
			return insn->prefixes & PREFIX_F3;
		case 0xba:
			return reg >= 4;
		}
	}
	return 1;
}

/* The bytes of the immediate that @form asks for. */
static unsigned immediate(char form, const struct insn *insn)
{
	unsigned word = insn->prefixes & PREFIX_66 && !(insn->prefixes & REX_W) ? 2 : 4;
	unsigned reg = insn->modrm >> 3 & 7;
	switch (form) {
	case 'b':
	case 'j':
	case 'B':
		return 1;
	case 'w':
		return 2;
	case 'e':
		return 3;
	case 'J':
		return 4;
	case 'z':
	case 'Z':
		return word;
	case 'v':
		return insn->prefixes & REX_W ? 8 : word;
	case 'a':
		return insn->prefixes & PREFIX_67 ? 4 : 8;
	}
	/* of one group two members only, which test a constant */
	if (insn->map == ONE && insn->opcode == 0xf6 && reg < 2)
		return 1;
	return insn->map == ONE && insn->opcode == 0xf7 && reg < 2 ? word : 0;
}

/*
 * The instruction at @code, of which @left bytes can be read. Return: its length; 0: unknown or cut
 * short.
 */
static unsigned decode(const uint8_t *code, size_t left, struct insn *insn)
{
	uint8_t b[2 * INSN_MAX + 2] = { 0 }; /* zeros behind the end spare a check at each step */
	*insn = (struct insn){ 0 };
	if (left > INSN_MAX)
		left = INSN_MAX;
	memcpy(b, code, left);
	unsigned at = read_opcode(b, insn);
	char form = at ? form_of(insn) : '-';
	if (form == '-')
		return 0;
	if (form == 'M' || form == 'B' || form == 'Z') {
		at = read_modrm(b, at, insn);
		if (!exists(insn))
			return 0;
	}
	if (form == 'j' || form == 'J' ||
	    (insn->map == ONE && insn->opcode == 0xc7 && insn->modrm == 0xf8)) {
		if (insn->prefixes & PREFIX_66 && !(insn->prefixes & REX_W))
			return 0;
		insn->relative = form == 'j' ? BRANCH_SHORT : BRANCH_NEAR;
		insn->disp_at = at;
	}
	at += immediate(form, insn);
	insn->bytes = at;
	return at <= left ? at : 0;
}

/* How far from its end the place lies that an instruction names. */
static int32_t displacement(const uint8_t *code, const struct insn *insn)
{
	int32_t wide;
	if (insn->relative == BRANCH_SHORT)
		return (int8_t)code[insn->disp_at];
	memcpy(&wide, code + insn->disp_at, sizeof(wide));
	return wide;
}

/* Is it a branch through a pointer? The middle field of its group is 4, far: 5. */
static int is_indirect(const struct insn *insn)
{
	return insn->map == ONE && insn->opcode == 0xff && (insn->modrm >> 3 & 6) == 4;
}

/* Near calls: with a displacement; through a register or memory. */
static int is_call(const struct insn *insn)
{
	if (insn->map != ONE)
		return 0;
	return insn->opcode == 0xe8 || (insn->opcode == 0xff && (insn->modrm >> 3 & 7) == 2);
}

/* Does what stands behind it run only if something else leads there? */
static int ends_flow(const struct insn *insn)
{
	if (insn->map == TWO) /* the three that are undefined by definition */
		return insn->opcode == 0x0b || insn->opcode == 0xb9 || insn->opcode == 0xff;
	if (insn->map != ONE)
		return 0;
	switch (insn->opcode) {
	case 0xc2: /* returns */
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
	case 0xe9: /* jumps */
	case 0xeb:
	case 0xf4: /* halt */
		return 1;
	}
	return is_indirect(insn);
}

/* What fills the room between functions and in front of loops. */
static int is_padding(const struct insn *insn)
{
	if (insn->map == ONE)
		return insn->opcode == 0xcc || (insn->opcode == 0x90 && !(insn->prefixes & REX));
	return insn->map == TWO && insn->opcode == 0x1f;
}

/* Behind 0F: what only the kernel may do, enters it in a way of its own, or faults on purpose. */
static int moves_two(uint8_t opcode)
{
	if (opcode >= 0x20 && opcode < 0x28) /* control and debug registers */
		return 0;
	switch (opcode) {
	case 0x00: /* descriptor tables, virtual machines */
	case 0x01:
	case 0x06: /* clts, sysret, invd, wbinvd */
	case 0x07:
	case 0x08:
	case 0x09:
	case 0x0b: /* a signal handler may look at where it happened */
	case 0xb9:
	case 0xff:
	case 0x30: /* wrmsr, rdmsr, sysenter, sysexit, getsec */
	case 0x32:
	case 0x34:
	case 0x35:
	case 0x37:
	case 0xaa: /* rsm */
		return 0;
	}
	return 1;
}

/* Can it do elsewhere what it does here, with its displacement re-reckoned? */
static int moves(const struct insn *insn)
{
	unsigned reg = insn->modrm >> 3 & 7;
	if (insn->relative == OPERAND && insn->prefixes & PREFIX_67)
		return 0; /* only the lower half of the sum counts */
	if (insn->map == TWO)
		return moves_two(insn->opcode);
	if (insn->map != ONE)
		return 1;
	if (insn->opcode >= 0xe0 && insn->opcode <= 0xe7)
		return 0; /* loops and jrcxz, which have no near form; ports */
	switch (insn->opcode) {
	case 0x6c: /* ports */
	case 0x6d:
	case 0x6e:
	case 0x6f:
	case 0x8e: /* segments */
	case 0xca: /* far and interrupt returns, breakpoints and other interrupts */
	case 0xcb:
	case 0xcc:
	case 0xcd:
	case 0xcf:
	case 0xec: /* ports */
	case 0xed:
	case 0xee:
	case 0xef:
	case 0xf1: /* a debugger's, hlt, cli, sti */
	case 0xf4:
	case 0xfa:
	case 0xfb:
		return 0;
	case 0xc7: /* a transaction's start, which names where it goes on */
		return insn->modrm != 0xf8;
	case 0xff: /* far call and jump */
		return reg != 3 && reg != 5;
	}
	return 1;
}

/* Has the thread a shadow stack? Where there is none the instruction does nothing. */
static int shadow_stack(void)
{
	uint64_t top = 0;
	__asm__ volatile("rdsspq %0" : "+r"(top));
	return top != 0;
}

/*
 * A call moves if the head ends with it: what it calls shall return into the function, not into the
 * trampoline, so that the return address is pushed and a jump made (put_call()). Hence none with
 * operands on the stack, or in r12, whose encoding is the stack pointer's but for a prefix. A
 * shadow stack would not know of that address.
 */
static int call_moves(const struct insn *insn, unsigned end)
{
	if (end < PATCH_JUMP_BYTES || shadow_stack())
		return 0;
	if (insn->opcode == 0xe8)
		return 1;
	return (insn->modrm & 7) != 4 && !(insn->prefixes & (PREFIX_66 | PREFIX_67));
}

unsigned patch_length(const uint8_t *code, size_t bytes)
{
	struct insn insn;
	return decode(code, bytes, &insn);
}

/*
 * Does nothing in the function lead into its head? Data and padding may stand behind the last
 * return: code whose end was reached, where no branch led further and none went through a table, is
 * all that runs as far as can be seen. From there on the reading goes on (handlers of exceptions
 * stand there), but what is unknown is skipped a byte at a time, as disassemblers do. Data that
 * looks like a branch into the head makes us refuse; that is the harmless side to err on. An
 * unknown instruction before there ends it: behind it a branch could hide.
 */
static int leads_nowhere_inside(const uint8_t *code, size_t bytes, unsigned head)
{
	struct insn insn;
	int64_t reach = 0; /* how far a branch led forward */
	int through_table = 0, ended = 0, past = 0;
	for (size_t at = 0; at < bytes; at += insn.bytes) {
		past |= ended && !through_table && reach < (int64_t)at;
		if (!decode(code + at, bytes - at, &insn)) {
			if (!past)
				return 0;
			insn.bytes = 1;
			continue;
		}
		if (insn.relative) {
			int64_t target = (int64_t)at + insn.bytes + displacement(code + at, &insn);
			if (target > 0 && target < head)
				return 0;
			if (insn.relative != OPERAND && target > reach && target < (int64_t)bytes)
				reach = target;
		}
		/* a pointer at a fixed place is one to another function */
		through_table |= is_indirect(&insn) && insn.relative != OPERAND;
		ended = ends_flow(&insn);
	}
	return 1;
}

unsigned patch_head(const uint8_t *code, size_t bytes)
{
	struct insn insn;
	unsigned head = 0;
	for (int ended = 0; head < PATCH_JUMP_BYTES; head += insn.bytes) {
		if (!decode(code + head, bytes - head, &insn))
			return 0;
		if (ended ? !is_padding(&insn) : !moves(&insn))
			return 0;
		if (is_call(&insn) && !call_moves(&insn, head + insn.bytes))
			return 0;
		ended |= ends_flow(&insn);
	}
	return leads_nowhere_inside(code, bytes, head) ? head : 0;
}

#define OUTSIDE_MAX \
	64u /* blocks: what hardly ever runs, and what stands at the end of a chain of calls */
#define OUTSIDE_BYTES 2048u /* of one block, which ends with a jump or a return */

/* Code outside of a function that it goes on in, in the order in which it was met. */
struct outside {
	const uint8_t *code, *lo, *hi;
	size_t bytes;
	unsigned head, count;
	const uint8_t *at[OUTSIDE_MAX];
};

/*
 * Return: 1 the branch at @at leads into the head. What it leads to outside of the function will be
 * looked at.
 */
static int follow(struct outside *o, const uint8_t *at, const struct insn *insn)
{
	if (!insn->relative || insn->relative == OPERAND || is_call(insn))
		return 0;
	uintptr_t target =
		(uintptr_t)at + insn->bytes + (uintptr_t)(intptr_t)displacement(at, insn);
	uintptr_t inside = target - (uintptr_t)o->code;
	if (inside < o->bytes)
		return inside && inside < o->head;
	if (target < (uintptr_t)o->lo || target >= (uintptr_t)o->hi || o->count == OUTSIDE_MAX)
		return 0;
	for (unsigned i = 0; i < o->count; i++)
		if (o->at[i] == (const uint8_t *)target)
			return 0;
	o->at[o->count++] = (const uint8_t *)target;
	return 0;
}

int patch_led_into(const uint8_t *code, size_t bytes, unsigned head, const uint8_t *lo,
		   const uint8_t *hi)
{
	struct outside o = { .code = code, .lo = lo, .hi = hi, .bytes = bytes, .head = head };
	struct insn insn;
	for (size_t at = 0; at < bytes; at += insn.bytes) {
		if (!decode(code + at, bytes - at, &insn))
			insn.bytes = 1;
		else if (follow(&o, code + at, &insn))
			return 1;
	}
	for (unsigned i = 0; i < o.count; i++) {
		const uint8_t *at = o.at[i], *end = at;
		end += (size_t)(hi - at) < OUTSIDE_BYTES ? (size_t)(hi - at) : OUTSIDE_BYTES;
		for (; at < end && decode(at, (size_t)(end - at), &insn); at += insn.bytes) {
			if (follow(&o, at, &insn))
				return 1;
			if (ends_flow(&insn))
				break;
		}
	}
	return 0;
}

int patch_does_nothing(const uint8_t *code, size_t bytes)
{
	static const uint8_t mark[4] = { 0xf3, 0x0f, 0x1e, 0xfa }; /* endbr64 */
	size_t at =
		bytes > sizeof(mark) && memcmp(code, mark, sizeof(mark)) == 0 ? sizeof(mark) : 0;
	at += at + 1 < bytes &&
	      code[at] == 0xf3; /* two bytes long for the sake of old branch predictors */
	return at < bytes && code[at] == 0xc3;
}

/*
 * From the end of an instruction at @from to @target. Return: 0: further than four bytes can say.
 */
static int reckon(uint8_t *disp, uintptr_t from, uintptr_t target)
{
	int64_t wide = (int64_t)(target - from);
	int32_t narrow = (int32_t)wide;
	memcpy(disp, &narrow, sizeof(narrow));
	return narrow == wide;
}

/*
 * A near jump, with condition @cc of a short or near conditional one, at @out, which will stand at
 * @at. Return: bytes; 0.
 */
static unsigned put_branch(uint8_t *out, uintptr_t at, int cc, uintptr_t target)
{
	unsigned bytes = cc < 0 ? 5 : 6;
	out[0] = cc < 0 ? 0xe9 : 0x0f;
	if (cc >= 0)
		out[1] = 0x80 | cc;
	return reckon(out + bytes - 4, at + bytes, target) ? bytes : 0;
}

#define PUSH_BYTES 13
/*
 * push takes the lower half of @value and extends it by its sign; the upper half is written over
 * that.
 */
static void put_push(uint8_t *out, uint64_t value)
{
	static const uint8_t upper[4] = { 0xc7, 0x44, 0x24, 0x04 };
	out[0] = 0x68;
	memcpy(out + 1, &value, 4);
	memcpy(out + 5, upper, 4);
	memcpy(out + 9, (uint8_t *)&value + 4, 4);
}

/*
 * The instruction at @code, at @out, which will stand at @at. Return: bytes; 0: something does not
 * reach.
 */
static unsigned put_insn(uint8_t *out, uintptr_t at, const uint8_t *code, const struct insn *insn)
{
	unsigned pushed = is_call(insn) ? PUSH_BYTES : 0, bytes = insn->bytes;
	uintptr_t target = (uintptr_t)code + bytes;
	if (pushed)
		put_push(out, target);
	out += pushed;
	at += pushed;
	if (insn->relative)
		target += (intptr_t)displacement(code, insn);
	if (insn->relative == BRANCH_SHORT || insn->relative == BRANCH_NEAR) {
		/*
		 * prefixes are left away: of those that are let through none changes where it goes
		 */
		int conditional = insn->map == TWO || insn->opcode < 0x80;
		bytes = put_branch(out, at, conditional ? insn->opcode & 15 : -1, target);
		return bytes ? pushed + bytes : 0;
	}
	memcpy(out, code, bytes);
	if (pushed)
		out[insn->modrm_at] ^= 6 << 3; /* in the same group the jump is 4, not 2 */
	if (insn->relative && !reckon(out + insn->disp_at, at + bytes, target))
		return 0;
	return pushed + bytes;
}

unsigned patch_move(uint8_t *to, const uint8_t *code, unsigned head)
{
	uint8_t out[PATCH_MOVED_MAX];
	unsigned done = 0, bytes;
	struct insn insn;
	for (unsigned at = 0; at < head; at += insn.bytes, done += bytes) {
		if (done + PUSH_BYTES + INSN_MAX + PATCH_JUMP_BYTES > sizeof(out) ||
		    !decode(code + at, head - at, &insn))
			return 0;
		bytes = put_insn(out + done, (uintptr_t)to + done, code + at, &insn);
		if (!bytes)
			return 0;
	}
	bytes = put_branch(out + done, (uintptr_t)to + done, -1, (uintptr_t)code + head);
	if (!bytes)
		return 0;
	memcpy(to, out, done + bytes);
	return done + bytes;
}

unsigned patch_stub(uint8_t *to, const void *arg, const void *entry)
{
	static const uint8_t push_mov[3] = { 0x50, 0x48, 0xb8 };   /* rax */
	static const uint8_t jump[6] = { 0xff, 0x25, 0, 0, 0, 0 }; /* through the word behind it */
	uint8_t *at = to;
	_Static_assert(sizeof(push_mov) + sizeof(arg) + sizeof(jump) + sizeof(entry) ==
			       PATCH_STUB_BYTES,
		       "stub");
	memcpy(at, push_mov, sizeof(push_mov));
	at += sizeof(push_mov);
	memcpy(at, &arg, sizeof(arg));
	at += sizeof(arg);
	memcpy(at, jump, sizeof(jump));
	at += sizeof(jump);
	memcpy(at, &entry, sizeof(entry));
	return PATCH_STUB_BYTES;
}

int patch_jump(uint8_t *code, const uint8_t *to)
{
	uint8_t jump[PATCH_JUMP_BYTES];
	unsigned in_word = (uintptr_t)code & 7;
	if (!put_branch(jump, (uintptr_t)code, -1, (uintptr_t)to))
		return 0;
	if (in_word + sizeof(jump) > 8) {
		memcpy(code, jump, sizeof(jump));
		return 1;
	}
	uint64_t *at = (uint64_t *)(void *)(code - in_word), word;
	memcpy(&word, at, sizeof(word));
	memcpy((uint8_t *)&word + in_word, jump, sizeof(jump));
	__atomic_store_n(at, word, __ATOMIC_RELEASE);
	return 1;
}
