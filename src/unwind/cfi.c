/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "unwind/cfi.h"

#include <stddef.h>

#include "unwind/bytes.h"

/*
 * DW_EH_PE_* pointer encodings, DW_CFA_* operations: Linux Standard Base core, DWARF 5 section 6.4
 */
enum {
	PE_ULEB = 1,
	PE_U2 = 2,
	PE_U4 = 3,
	PE_U8 = 4,
	PE_SLEB = 9,
	PE_S2 = 10,
	PE_S4 = 11,
	PE_S8 = 12,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_OMIT = 0xff
};

enum {
	CFA_ADVANCE = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0,
	CFA_SET_LOC = 1,
	CFA_ADVANCE1 = 2,
	CFA_ADVANCE2 = 3,
	CFA_ADVANCE4 = 4,
	CFA_OFFSET_EXT = 5,
	CFA_RESTORE_EXT = 6,
	CFA_UNDEFINED = 7,
	CFA_SAME = 8,
	CFA_REGISTER = 9,
	CFA_REMEMBER = 10,
	CFA_RESTORE_STATE = 11,
	CFA_DEF = 12,
	CFA_DEF_REG = 13,
	CFA_DEF_OFF = 14,
	CFA_DEF_EXPR = 15,
	CFA_EXPR = 16,
	CFA_OFFSET_SF = 17,
	CFA_DEF_SF = 18,
	CFA_DEF_OFF_SF = 19,
	CFA_VAL = 20,
	CFA_VAL_SF = 21,
	CFA_VAL_EXPR = 22,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE = 0x2f
};

static int inside(const struct unwind_image *image, const uint8_t *at)
{
	return at >= image->lo && at < image->hi;
}

/*
 * A pointer in encoding @enc; relative ones count from where they stand or from the header. No
 * indirect ones.
 */
static uint64_t encoded(const struct unwind_image *image, struct unwind_bytes *b, uint8_t enc)
{
	uint64_t base = 0, v;

	if (enc & 0x80) {
		b->bad = 1;
		return 0;
	}
	if ((enc & 0x70) == PE_PCREL)
		base = (uint64_t)(uintptr_t)b->at;
	else if ((enc & 0x70) == PE_DATAREL && image->hdr)
		base = (uint64_t)(uintptr_t)image->hdr;
	else if (enc & 0x70)
		b->bad = 1;
	switch (enc & 15) {
	case 0:
	case PE_U8:
	case PE_S8:
		v = unwind_u64(b);
		break;
	case PE_ULEB:
		v = unwind_uleb(b);
		break;
	case PE_SLEB:
		v = (uint64_t)unwind_sleb(b);
		break;
	case PE_U2:
		v = unwind_u16(b);
		break;
	case PE_S2:
		v = (uint64_t)(int64_t)(int16_t)unwind_u16(b);
		break;
	case PE_U4:
		v = unwind_u32(b);
		break;
	case PE_S4:
		v = (uint64_t)(int64_t)(int32_t)unwind_u32(b);
		break;
	default:
		v = 0;
		b->bad = 1;
	}
	return base + v;
}

/* The personality's pointer is stepped over, never followed. */
static void skip_encoded(struct unwind_bytes *b, uint8_t enc)
{
	switch (enc & 15) {
	case PE_ULEB:
	case PE_SLEB:
		unwind_uleb(b);
		break;
	case PE_U2:
	case PE_S2:
		unwind_u16(b);
		break;
	case PE_U4:
	case PE_S4:
		unwind_u32(b);
		break;
	case 0:
	case PE_U8:
	case PE_S8:
		unwind_u64(b);
		break;
	default:
		b->bad = 1;
	}
}

/*
 * Length and bounds of the entry at @at: its body, and where the next one starts (NULL: this is the
 * end).
 */
static struct unwind_bytes entry(const struct unwind_image *image, const uint8_t *at, int *wide)
{
	struct unwind_bytes b = { at, image->hi, !inside(image, at) };
	uint64_t len = unwind_u32(&b);

	*wide = len == 0xffffffff;
	if (*wide)
		len = unwind_u64(&b);
	if (!len || len > (uint64_t)(b.end - b.at))
		b.bad = 1;
	else if (!b.bad)
		b.end = b.at + len;
	return b;
}

/* What marks a CIE (DWARF 5 section 7.24; in .eh_frame, Linux Standard Base core). */
static uint64_t cie_id(const struct unwind_image *image, int wide)
{
	return !image->debug ? 0 : wide ? UINT64_MAX : UINT32_MAX;
}

static int parse_cie(const struct unwind_image *image, const uint8_t *at, struct unwind_fde *fde,
		     int *augmented)
{
	int wide;
	struct unwind_bytes b = entry(image, at, &wide);
	uint64_t id = wide ? unwind_u64(&b) : unwind_u32(&b);
	uint64_t version = unwind_u8(&b);
	const uint8_t *aug = b.at;

	if (b.bad || id != cie_id(image, wide) ||
	    (version != 1 && version != 3 && !(image->debug && version == 4)))
		return 0;
	while (unwind_u8(&b))
		;
	if (version == 4 && (unwind_u8(&b) != 8 || unwind_u8(&b) != 0))
		return 0; /* other sizes of addresses, or segments */
	fde->code_align = unwind_uleb(&b);
	fde->data_align = unwind_sleb(&b);
	fde->ra = version == 1 ? unwind_u8(&b) : unwind_uleb(&b);
	fde->pointer_enc = 0;
	fde->signal = 0;
	*augmented = 0;
	if (b.bad)
		return 0;
	if (*aug == 'z') {
		uint64_t len = unwind_uleb(&b);
		if (b.bad || len > (uint64_t)(b.end - b.at))
			return 0;
		struct unwind_bytes data = { b.at, b.at + len, 0 };
		b.at += len;
		*augmented = 1;
		/* the string ends before b.at: it was scanned above */
		for (aug++; *aug; aug++) {
			if (*aug == 'R')
				fde->pointer_enc = (uint8_t)unwind_u8(&data);
			else if (*aug == 'L')
				unwind_u8(&data);
			else if (*aug == 'P')
				skip_encoded(&data, (uint8_t)unwind_u8(&data));
			else if (*aug == 'S')
				fde->signal = 1;
			else if (*aug != 'B')
				break; /* unknown letters: the length says where to go on */
		}
		if (data.bad)
			return 0;
	} else if (*aug) {
		return 0;
	}
	fde->cie_code = b.at;
	fde->cie_end = b.end;
	return !b.bad;
}

const uint8_t *unwind_cfi_next(const struct unwind_image *image, const uint8_t *at,
			       struct unwind_fde *fde)
{
	int wide, augmented;
	struct unwind_bytes b = entry(image, at, &wide);
	const uint8_t *next = b.end, *id_at = b.at;
	uint64_t id = wide ? unwind_u64(&b) : unwind_u32(&b);

	fde->lo = fde->hi = 0;
	if (b.bad)
		return NULL;
	if (id == cie_id(image, wide))
		return next;
	/* from the section's start, or backwards from here */
	if (id > (uint64_t)((image->debug ? image->hi : id_at) - image->lo) ||
	    !parse_cie(image, image->debug ? image->lo + id : id_at - id, fde, &augmented))
		return next;
	uint64_t lo = encoded(image, &b, fde->pointer_enc);
	uint64_t bytes = encoded(image, &b, fde->pointer_enc & 15), hi;
	if (augmented) {
		uint64_t len = unwind_uleb(&b);
		if (b.bad || len > (uint64_t)(b.end - b.at))
			return next;
		b.at += len;
	}
	lo += image->bias;
	if (b.bad || __builtin_add_overflow(lo, bytes, &hi))
		return next;
	fde->lo = lo;
	fde->hi = hi;
	fde->code = b.at;
	fde->code_end = b.end;
	return next;
}

static int find_by_enumeration(const struct unwind_image *image, uint64_t pc,
			       struct unwind_fde *fde)
{
	const uint8_t *at = image->eh_frame;
	while (at && inside(image, at)) {
		at = unwind_cfi_next(image, at, fde);
		if (pc >= fde->lo && pc < fde->hi)
			return 1;
	}
	return 0;
}

int unwind_cfi_find(const struct unwind_image *image, uint64_t pc, struct unwind_fde *fde)
{
	if (!image->hdr)
		return find_by_enumeration(image, pc, fde);

	struct unwind_bytes b = { image->hdr, image->hi, !inside(image, image->hdr) };
	uint64_t version = unwind_u8(&b);
	uint8_t frame_enc = (uint8_t)unwind_u8(&b), count_enc = (uint8_t)unwind_u8(&b);
	uint8_t table_enc = (uint8_t)unwind_u8(&b);
	if (b.bad || version != 1)
		return 0;
	struct unwind_image whole = *image;
	whole.eh_frame = NULL;
	if (frame_enc != PE_OMIT)
		whole.eh_frame = (const uint8_t *)(uintptr_t)encoded(image, &b, frame_enc);
	uint64_t count = count_enc == PE_OMIT ? 0 : encoded(image, &b, count_enc);
	if (b.bad)
		return 0;
	if (!count || table_enc != (PE_DATAREL | PE_S4))
		return find_by_enumeration(&whole, pc, fde);
	if (count > (uint64_t)(b.end - b.at) / 8)
		return 0;

	/*
	 * last entry that starts at or before pc; entries are (start, FDE), both relative to the
	 * header
	 */
	uint64_t base = (uint64_t)(uintptr_t)image->hdr, lo = 0, n = count;
	while (n) {
		uint64_t half = n / 2;
		int32_t start;
		__builtin_memcpy(&start, b.at + (lo + half) * 8, 4);
		if (base + (uint64_t)(int64_t)start <= pc) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	if (!lo)
		return 0;
	int32_t place;
	__builtin_memcpy(&place, b.at + (lo - 1) * 8 + 4, 4);
	const uint8_t *at = (const uint8_t *)(uintptr_t)(base + (uint64_t)(int64_t)place);
	if (!inside(image, at))
		return 0;
	unwind_cfi_next(image, at, fde);
	return pc >= fde->lo && pc < fde->hi;
}

static void set(struct unwind_row *row, uint64_t reg, uint32_t how, int64_t value)
{
	if (reg >= UNWIND_REGS)
		return; /* vector registers: nobody asks */
	row->reg[reg].how = how;
	row->reg[reg].value = value;
}

static int64_t times(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a * (uint64_t)b);
}

/*
 * Run one program. @loc moves on with advance operations; the run ends before an advance past @pc
 * (then *end_loc is that place). @initial is what "restore" goes back to; NULL while the CIE's own
 * program runs.
 */
static int run(const struct unwind_image *image, const struct unwind_fde *fde, const uint8_t *code,
	       const uint8_t *end, uint64_t pc, struct unwind_cfi_work *w,
	       const struct unwind_row *initial)
{
	struct unwind_bytes b = { code, end, 0 };
	struct unwind_row *row = &w->row;

	while (!b.bad && b.at < b.end) {
		uint8_t op = (uint8_t)unwind_u8(&b);
		uint64_t reg, next = w->row_lo;

		switch (op & 0xc0) {
		case CFA_ADVANCE:
			next += (op & 0x3f) * fde->code_align;
			goto advance;
		case CFA_OFFSET:
			set(row, op & 0x3f, UNWIND_AT_CFA,
			    times((int64_t)unwind_uleb(&b), fde->data_align));
			continue;
		case CFA_RESTORE:
			reg = op & 0x3f;
			goto restore;
		}
		switch (op) {
		case CFA_NOP:
			break;
		case CFA_SET_LOC:
			next = encoded(image, &b, fde->pointer_enc) + image->bias;
			goto advance;
		case CFA_ADVANCE1:
			next += unwind_u8(&b) * fde->code_align;
			goto advance;
		case CFA_ADVANCE2:
			next += unwind_u16(&b) * fde->code_align;
			goto advance;
		case CFA_ADVANCE4:
			next += unwind_u32(&b) * fde->code_align;
		advance:
			if (b.bad || next < w->row_lo || !initial)
				return 0;
			if (next > pc) {
				w->row_hi = next < w->row_hi ? next : w->row_hi;
				w->resume = b.at;
				return 1;
			}
			w->row_lo = next;
			break;
		case CFA_OFFSET_EXT:
			reg = unwind_uleb(&b);
			set(row, reg, UNWIND_AT_CFA,
			    times((int64_t)unwind_uleb(&b), fde->data_align));
			break;
		case CFA_OFFSET_SF:
			reg = unwind_uleb(&b);
			set(row, reg, UNWIND_AT_CFA, times(unwind_sleb(&b), fde->data_align));
			break;
		case CFA_GNU_NEGATIVE:
			reg = unwind_uleb(&b);
			set(row, reg, UNWIND_AT_CFA,
			    times(times((int64_t)unwind_uleb(&b), fde->data_align), -1));
			break;
		case CFA_VAL:
			reg = unwind_uleb(&b);
			set(row, reg, UNWIND_VALUE_CFA,
			    times((int64_t)unwind_uleb(&b), fde->data_align));
			break;
		case CFA_VAL_SF:
			reg = unwind_uleb(&b);
			set(row, reg, UNWIND_VALUE_CFA, times(unwind_sleb(&b), fde->data_align));
			break;
		case CFA_RESTORE_EXT:
			reg = unwind_uleb(&b);
		restore:
			if (!initial)
				return 0;
			if (reg < UNWIND_REGS)
				row->reg[reg] = initial->reg[reg];
			break;
		case CFA_UNDEFINED:
			set(row, unwind_uleb(&b), UNWIND_UNDEFINED, 0);
			break;
		case CFA_SAME:
			set(row, unwind_uleb(&b), UNWIND_SAME, 0);
			break;
		case CFA_REGISTER:
			reg = unwind_uleb(&b);
			set(row, reg, UNWIND_REGISTER, (int64_t)unwind_uleb(&b));
			break;
		case CFA_REMEMBER:
			if (w->depth == UNWIND_REMEMBER_MAX)
				return 0;
			w->remembered[w->depth++] = *row;
			break;
		case CFA_RESTORE_STATE:
			if (!w->depth)
				return 0;
			*row = w->remembered[--w->depth];
			break;
		case CFA_DEF:
			row->cfa_reg = unwind_uleb(&b);
			row->cfa_off = (int64_t)unwind_uleb(&b);
			row->cfa_expr = NULL;
			break;
		case CFA_DEF_SF:
			row->cfa_reg = unwind_uleb(&b);
			row->cfa_off = times(unwind_sleb(&b), fde->data_align);
			row->cfa_expr = NULL;
			break;
		case CFA_DEF_REG:
			row->cfa_reg = unwind_uleb(&b);
			row->cfa_expr = NULL;
			break;
		case CFA_DEF_OFF:
			row->cfa_off = (int64_t)unwind_uleb(&b);
			row->cfa_expr = NULL;
			break;
		case CFA_DEF_OFF_SF:
			row->cfa_off = times(unwind_sleb(&b), fde->data_align);
			row->cfa_expr = NULL;
			break;
		case CFA_DEF_EXPR:
		case CFA_EXPR:
		case CFA_VAL_EXPR: {
			reg = op == CFA_DEF_EXPR ? 0 : unwind_uleb(&b);
			const uint8_t *at = b.at;
			struct unwind_bytes block = unwind_block(at, b.end);
			if (b.bad || block.bad)
				return 0;
			if (op == CFA_DEF_EXPR)
				row->cfa_expr = at;
			else
				set(row, reg, op == CFA_EXPR ? UNWIND_AT_EXPR : UNWIND_VALUE_EXPR,
				    (int64_t)(uintptr_t)at);
			b.at = block.end;
			break;
		}
		case CFA_GNU_ARGS_SIZE:
			unwind_uleb(&b);
			break;
		default:
			return 0;
		}
	}
	w->resume = NULL;
	return !b.bad;
}

int unwind_cfi_row(const struct unwind_image *image, const struct unwind_fde *fde, uint64_t pc,
		   struct unwind_cfi_work *work)
{
	for (unsigned i = 0; i < UNWIND_REGS; i++)
		work->row.reg[i] = (struct unwind_reg_rule){ 0, UNWIND_UNSPECIFIED, 0 };
	work->row.cfa_expr = NULL;
	work->row.cfa_off = 0;
	work->row.cfa_reg = UNWIND_REGS; /* none defined yet: UNWIND_REGS is no register */
	work->row_lo = fde->lo;
	work->row_hi = fde->hi;
	work->depth = 0;
	if (!run(image, fde, fde->cie_code, fde->cie_end, ~0ULL, work, NULL))
		return 0;
	work->initial = work->row;
	work->depth = 0;
	return run(image, fde, fde->code, fde->code_end, pc, work, &work->initial);
}

int unwind_cfi_next_row(const struct unwind_image *image, const struct unwind_fde *fde,
			struct unwind_cfi_work *work)
{
	if (!work->resume || work->row_hi >= fde->hi)
		return 0;
	work->row_lo = work->row_hi;
	work->row_hi = fde->hi;
	return run(image, fde, work->resume, fde->code_end, work->row_lo, work, &work->initial);
}

static int block_is(const uint8_t *at, const uint8_t *hi, const uint8_t *want, unsigned bytes)
{
	struct unwind_bytes b = unwind_block(at, hi);
	if (b.bad || b.end - b.at != (int64_t)bytes)
		return 0;
	for (unsigned i = 0; i < bytes; i++) {
		if (b.at[i] != want[i])
			return 0;
	}
	return 1;
}

/*
 * breg @reg, offset [, deref]: the only shape of one-register expressions. Return 1 and the offset.
 */
static int block_breg(const uint8_t *at, const uint8_t *hi, unsigned reg, int deref, int64_t *off)
{
	struct unwind_bytes b = unwind_block(at, hi);
	if (b.bad || unwind_u8(&b) != 0x70u + reg)
		return 0;
	*off = unwind_sleb(&b);
	if (deref && unwind_u8(&b) != 0x06)
		return 0;
	return !b.bad && b.at == b.end;
}

static int in_slots(int64_t off, int32_t *units)
{
	*units = (int32_t)(off / 8);
	return off % 8 == 0 && off != 0 && off >= WIRE_RULE_SLOT_MIN * 8LL &&
	       off <= WIRE_RULE_SLOT_MAX * 8LL;
}

static int unchanged(const struct unwind_reg_rule *r)
{
	return r->how == UNWIND_UNSPECIFIED || r->how == UNWIND_SAME || r->how == UNWIND_UNDEFINED;
}

uint64_t unwind_cfi_rule(const struct unwind_fde *fde, const struct unwind_row *row,
			 const uint8_t *hi)
{
	const uint64_t eval = unwind_rule_make(WIRE_RULE_EVAL, 0, 0, 0);
	const struct unwind_reg_rule *bp = &row->reg[UNWIND_REG_BP], *bx = &row->reg[UNWIND_REG_BX],
				     *ra = &row->reg[UNWIND_REG_RA];
	/* the linkers' PLT sections: rsp + 8 + ((rip & 15) >= 11 or 10) << 3 */
	static const uint8_t plt[] = { 0x77,      8,    0x80, 0,    0x3f, 0x1a,
				       0x30 + 11, 0x2a, 0x33, 0x24, 0x22 };
	static const uint8_t plt10[] = { 0x77,      8,    0x80, 0,    0x3f, 0x1a,
					 0x30 + 10, 0x2a, 0x33, 0x24, 0x22 };
	int64_t off;
	int32_t bp_slot = 0, bx_slot = 0;

	if (fde->ra != UNWIND_REG_RA)
		return eval;
	if (ra->how == UNWIND_UNDEFINED)
		return unwind_rule_make(WIRE_RULE_END, 0, 0, 0);
	if (fde->signal) {
		if (row->cfa_expr && block_breg(row->cfa_expr, hi, UNWIND_REG_SP, 1, &off) &&
		    off == WIRE_SIGFRAME_SP && ra->how == UNWIND_AT_EXPR &&
		    block_breg((const uint8_t *)(uintptr_t)ra->value, hi, UNWIND_REG_SP, 0, &off) &&
		    off == WIRE_SIGFRAME_IP)
			return unwind_rule_make(WIRE_RULE_SIGNAL, 0, 0, 0);
		return eval;
	}
	if (ra->how != UNWIND_AT_CFA || ra->value != -8)
		return eval;
	const struct unwind_reg_rule *sp = &row->reg[UNWIND_REG_SP];
	if (!unchanged(sp) && !(sp->how == UNWIND_VALUE_CFA && sp->value == 0))
		return eval;

	if (row->cfa_expr) {
		if (block_is(row->cfa_expr, hi, plt, sizeof(plt)) && unchanged(bp) && unchanged(bx))
			return unwind_rule_make(WIRE_RULE_PLT, 11, 0, 0);
		if (block_is(row->cfa_expr, hi, plt10, sizeof(plt10)) && unchanged(bp) &&
		    unchanged(bx))
			return unwind_rule_make(WIRE_RULE_PLT, 10, 0, 0);
		int64_t at;
		if (!block_breg(row->cfa_expr, hi, UNWIND_REG_BP, 1, &at) ||
		    !unwind_rule_has_cfa(at) || bp->how != UNWIND_AT_EXPR ||
		    !block_breg((const uint8_t *)(uintptr_t)bp->value, hi, UNWIND_REG_BP, 0,
				&off) ||
		    off)
			return eval;
		if (bx->how == UNWIND_AT_EXPR &&
		    block_breg((const uint8_t *)(uintptr_t)bx->value, hi, UNWIND_REG_BP, 0, &off) &&
		    in_slots(off, &bx_slot))
			;
		else if (!unchanged(bx))
			bx_slot = WIRE_RULE_SLOT_LOST;
		return unwind_rule_make(WIRE_RULE_DRAP, (int32_t)(at / 8), 0, bx_slot);
	}

	uint32_t kind;
	if (row->cfa_reg == UNWIND_REG_SP)
		kind = WIRE_RULE_SP;
	else if (row->cfa_reg == UNWIND_REG_BP)
		kind = WIRE_RULE_BP;
	else if (row->cfa_reg == UNWIND_REG_BX)
		kind = WIRE_RULE_BX;
	else
		return eval;
	if (!unwind_rule_has_cfa(row->cfa_off))
		return eval;
	if (!unchanged(bp) && !(bp->how == UNWIND_AT_CFA && in_slots(bp->value, &bp_slot)))
		return eval;
	if (!unchanged(bx) && !(bx->how == UNWIND_AT_CFA && in_slots(bx->value, &bx_slot)))
		bx_slot = WIRE_RULE_SLOT_LOST;
	return unwind_rule_make(kind, (int32_t)(row->cfa_off / 8), bp_slot, bx_slot);
}
