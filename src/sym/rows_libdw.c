/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <elfutils/libdw.h>

#include "sym/rows_build.h"
#include "unwind/rule.h"

enum { REG_BX = 3, REG_BP = 6, REG_SP = 7, REG_RA = 16 };

struct reg {
	const Dwarf_Op *ops;
	size_t count;
	/* neither: ops tell */
	int same, undefined;
};

static int get_reg(Dwarf_Frame *frame, int number, Dwarf_Op mem[3], struct reg *reg)
{
	Dwarf_Op *ops;
	*reg = (struct reg){ 0 };
	if (dwarf_frame_register(frame, number, mem, &ops, &reg->count) < 0)
		return -1;
	reg->ops = ops;
	/*
	 * libdw: no operations in the caller's memory is "undefined", no operations nowhere is
	 * "same value"
	 */
	if (!reg->count) {
		reg->undefined = ops == mem;
		reg->same = ops != mem;
	}
	return 0;
}

static int is_unchanged(const struct reg *reg)
{
	return reg->same || reg->undefined;
}

/* Saved at CFA + *off? libdw spells it call_frame_cfa [plus_uconst off]. */
static int is_saved(const struct reg *reg, int64_t *off)
{
	if (!reg->count || reg->ops[0].atom != DW_OP_call_frame_cfa)
		return 0;
	*off = 0;
	if (reg->count == 1)
		return 1;
	*off = (int64_t)reg->ops[1].number;
	return reg->count == 2 && reg->ops[1].atom == DW_OP_plus_uconst;
}

static int is_cfa_value(const struct reg *reg)
{
	return reg->count == 2 && reg->ops[0].atom == DW_OP_call_frame_cfa &&
	       reg->ops[1].atom == DW_OP_stack_value;
}

/*
 * breg @number, off - optionally pushed through the operations that libdw leaves around expressions
 */
static int is_breg(const Dwarf_Op *ops, size_t count, unsigned number, int deref, int64_t *off)
{
	if (count &&
	    ops[0].atom == DW_OP_call_frame_cfa) { /* pushed before every register expression */
		ops++;
		count--;
	}
	if (count && ops[0].atom == DW_OP_breg0 + number)
		*off = (int64_t)ops[0].number;
	else if (count && ops[0].atom == DW_OP_bregx && ops[0].number == number)
		*off = (int64_t)ops[0].number2; /* how libdw spells register + offset itself */
	else
		return 0;
	return count == (deref ? 2u : 1u) && (!deref || ops[1].atom == DW_OP_deref);
}

static int in_slots(int64_t off, int32_t *units)
{
	*units = (int32_t)(off / 8);
	return off % 8 == 0 && off && off >= WIRE_RULE_SLOT_MIN * 8LL &&
	       off <= WIRE_RULE_SLOT_MAX * 8LL;
}

/* rsp + 8 + ((rip & 15) >= threshold) << 3; 0 = something else */
static int plt_threshold(const Dwarf_Op *ops, size_t count)
{
	static const uint8_t want[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,   DW_OP_plus };
	if (count != sizeof(want) || ops[0].number != 8 || ops[1].number)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (want[i] && ops[i].atom != want[i])
			return 0;
	int threshold = ops[4].atom - DW_OP_lit0;
	return threshold == 10 || threshold == 11 ? threshold : 0;
}

static uint64_t rule_of(Dwarf_Frame *frame, int is_signal)
{
	const uint64_t eval = unwind_rule_make(WIRE_RULE_EVAL, 0, 0, 0);
	Dwarf_Op ra_mem[3], bp_mem[3], bx_mem[3], sp_mem[3], *cfa;
	struct reg ra, bp, bx, sp;
	size_t cfa_count;
	int64_t off, at;
	int32_t bp_slot = 0, bx_slot = 0;
	if (get_reg(frame, REG_RA, ra_mem, &ra) < 0)
		return eval;
	if (ra.undefined)
		return unwind_rule_make(WIRE_RULE_END, 0, 0, 0);
	if (dwarf_frame_cfa(frame, &cfa, &cfa_count) < 0 || !cfa_count)
		return eval;
	if (is_signal) {
		if (is_breg(cfa, cfa_count, REG_SP, 1, &off) && off == WIRE_SIGFRAME_SP &&
		    is_breg(ra.ops, ra.count, REG_SP, 0, &at) && at == WIRE_SIGFRAME_IP)
			return unwind_rule_make(WIRE_RULE_SIGNAL, 0, 0, 0);
		return eval;
	}
	if (!is_saved(&ra, &off) || off != -8 || get_reg(frame, REG_BP, bp_mem, &bp) < 0 ||
	    get_reg(frame, REG_BX, bx_mem, &bx) < 0 || get_reg(frame, REG_SP, sp_mem, &sp) < 0 ||
	    (!is_unchanged(&sp) && !is_cfa_value(&sp)))
		return eval;
	int threshold = plt_threshold(cfa, cfa_count);
	if (threshold)
		return is_unchanged(&bp) && is_unchanged(&bx)
			       ? unwind_rule_make(WIRE_RULE_PLT, threshold, 0, 0)
			       : eval;
	if (is_breg(cfa, cfa_count, REG_BP, 1, &at)) {
		if (!unwind_rule_has_cfa(at) || !is_breg(bp.ops, bp.count, REG_BP, 0, &off) || off)
			return eval;
		if (!is_unchanged(&bx) &&
		    !(is_breg(bx.ops, bx.count, REG_BP, 0, &off) && in_slots(off, &bx_slot)))
			bx_slot = WIRE_RULE_SLOT_LOST;
		return unwind_rule_make(WIRE_RULE_DRAP, (int32_t)(at / 8), 0, bx_slot);
	}
	uint32_t kind;
	if (is_breg(cfa, cfa_count, REG_SP, 0, &off))
		kind = WIRE_RULE_SP;
	else if (is_breg(cfa, cfa_count, REG_BP, 0, &off))
		kind = WIRE_RULE_BP;
	else if (is_breg(cfa, cfa_count, REG_BX, 0, &off))
		kind = WIRE_RULE_BX;
	else
		return eval;
	if (!unwind_rule_has_cfa(off))
		return eval;
	if (!is_unchanged(&bp) && !(is_saved(&bp, &at) && in_slots(at, &bp_slot)))
		return eval;
	if (!is_unchanged(&bx) && !(is_saved(&bx, &at) && in_slots(at, &bx_slot)))
		bx_slot = WIRE_RULE_SLOT_LOST;
	return unwind_rule_make(kind, (int32_t)(off / 8), bp_slot, bx_slot);
}

struct starts {
	uint64_t *all;
	size_t count, cap;
};

static int starts_add(struct starts *starts, uint64_t start)
{
	if (starts->count == starts->cap) {
		size_t cap = starts->cap ? starts->cap * 2 : 4096;
		uint64_t *grown = reallocarray(starts->all, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		starts->all = grown;
		starts->cap = cap;
	}
	starts->all[starts->count++] = start;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The pointer encoding that the CIE states, -1 where it is not understood. */
static int pointer_encoding(const Dwarf_CIE *cie, int is_eh)
{
	const uint8_t *data = cie->augmentation_data;
	size_t left = cie->augmentation_data_size;
	if (!is_eh || cie->augmentation[0] != 'z')
		return 0;
	for (const char *letter = cie->augmentation + 1; *letter; letter++) {
		if (*letter == 'S' || *letter == 'B')
			continue;
		if (!left)
			return -1;
		if (*letter == 'R')
			return *data;
		if (*letter == 'L') {
			data++, left--;
			continue;
		}
		if (*letter != 'P')
			return -1;
		static const uint8_t widths[16] = { 8, 0, 2, 4, 8, 0, 0, 0, 0, 0, 2, 4, 8 };
		size_t width = 1u + widths[*data & 15];
		if (width == 1 || width > left)
			return -1;
		data += width, left -= width;
	}
	return 0;
}

static int find_starts(struct starts *starts, const unsigned char ident[16], Elf_Data *data,
		       uint64_t vaddr, int is_eh)
{
	Dwarf_CFI_Entry entry;
	for (Dwarf_Off at = 0, next;
	     !dwarf_next_cfi(ident, data, is_eh, at, &next, &entry) && next > at; at = next) {
		Dwarf_CFI_Entry cie;
		Dwarf_Off unused;
		if (dwarf_cfi_cie_p(&entry) ||
		    dwarf_next_cfi(ident, data, is_eh, entry.fde.CIE_pointer, &unused, &cie) ||
		    !dwarf_cfi_cie_p(&cie))
			continue;
		int encoding = pointer_encoding(&cie.cie, is_eh);
		const uint8_t *place = entry.fde.start;
		size_t left = (size_t)(entry.fde.end - place);
		int32_t narrow;
		uint64_t value;
		if (encoding < 0)
			continue;
		if ((encoding & 15) == DW_EH_PE_sdata4 && left >= 4) {
			memcpy(&narrow, place, 4);
			value = (uint64_t)(int64_t)narrow;
		} else if ((encoding & 15) == DW_EH_PE_udata4 && left >= 4) {
			memcpy(&narrow, place, 4);
			value = (uint32_t)narrow;
		} else if (((encoding & 7) == DW_EH_PE_udata8 || !(encoding & 15)) && left >= 8) {
			memcpy(&value, place, 8);
		} else {
			continue;
		}
		if ((encoding & 0x70) == DW_EH_PE_pcrel)
			value += vaddr + (uint64_t)(place - (const uint8_t *)data->d_buf);
		else if (encoding & 0x70)
			continue;
		if (starts_add(starts, value) < 0)
			return -ENOMEM;
	}
	if (starts->count)
		qsort(starts->all, starts->count, sizeof(*starts->all), by_value);
	return 0;
}

static void walk_function(struct rows_list *list, Dwarf_CFI *cfi, uint64_t start, uint64_t limit)
{
	list->fdes++;
	for (uint64_t at = start; at < limit;) {
		Dwarf_Frame *frame;
		Dwarf_Addr lo, hi;
		bool is_signal;
		if (dwarf_cfi_addrframe(cfi, at, &frame) != 0)
			break;
		int ra = dwarf_frame_info(frame, &lo, &hi, &is_signal);
		if (ra >= 0 && hi > at)
			rows_add(list, at, hi < limit ? hi : limit,
				 ra == REG_RA ? rule_of(frame, is_signal)
					      : unwind_rule_make(WIRE_RULE_EVAL, 0, 0, 0));
		free(frame);
		if (ra < 0 || hi <= at)
			break;
		at = hi;
	}
}

int rows_from_libdw(struct rows_list *list, const struct image *image, int debug_frame)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = image_section(image, debug_frame ? ".debug_frame" : ".eh_frame", &shdr);
	if (!scn || shdr.sh_type == SHT_NOBITS)
		return -ENOENT;
	Dwarf *dwarf = debug_frame ? dwarf_begin_elf(image->elf, DWARF_C_READ, NULL) : NULL;
	/* the CFI of .debug_frame belongs to the Dwarf handle, the other one to us */
	Dwarf_CFI *cfi = !debug_frame ? dwarf_getcfi_elf(image->elf)
			 : dwarf      ? dwarf_getcfi(dwarf)
				      : NULL;
	size_t ident_bytes;
	const char *ident = elf_getident(image->elf, &ident_bytes);
	struct starts starts = { 0 };
	Elf_Data *data = elf_getdata(scn, NULL);
	int rc = -ENOENT;
	if (cfi && ident && ident_bytes >= EI_NIDENT && data && data->d_buf)
		rc = find_starts(&starts, (const unsigned char *)ident, data, shdr.sh_addr,
				 !debug_frame);
	for (size_t i = 0; !rc && i < starts.count; i++)
		if (!i || starts.all[i] != starts.all[i - 1])
			walk_function(list, cfi, starts.all[i],
				      i + 1 < starts.count ? starts.all[i + 1] : UINT64_MAX);
	free(starts.all);
	if (!debug_frame)
		dwarf_cfi_end(cfi);
	dwarf_end(dwarf);
	return rc;
}
