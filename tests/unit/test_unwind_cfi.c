/* SPDX-License-Identifier: Apache-2.0 */
/* unwind/cfi.c against elfutils, row by row over whole libraries. */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <dwarf.h>
#include <elfutils/libdw.h>

#include "unwind/cfi.h"

/* A file laid out in memory as the loader would, read-only, without relocation: .eh_frame needs none. */
struct loaded {
	uint8_t *map;
	size_t bytes;
	uint64_t bias;
	struct unwind_image image;
	Elf *elf;
	int fd;
	Dwarf_CFI *cfi;
};

static int loaded_open(struct loaded *l, const char *path)
{
	GElf_Ehdr eh;
	GElf_Phdr ph;
	uint64_t lo = UINT64_MAX, hi = 0, hdr = 0;

	memset(l, 0, sizeof(*l));
	l->fd = open(path, O_RDONLY);
	if (l->fd < 0)
		return 0;
	elf_version(EV_CURRENT);
	l->elf = elf_begin(l->fd, ELF_C_READ_MMAP, NULL);
	assert_non_null(gelf_getehdr(l->elf, &eh));
	for (int i = 0; i < eh.e_phnum; i++) {
		gelf_getphdr(l->elf, i, &ph);
		if (ph.p_type == PT_LOAD) {
			lo = ph.p_vaddr < lo ? ph.p_vaddr : lo;
			hi = ph.p_vaddr + ph.p_memsz > hi ? ph.p_vaddr + ph.p_memsz : hi;
		} else if (ph.p_type == PT_GNU_EH_FRAME) {
			hdr = ph.p_vaddr;
		}
	}
	assert_true(hdr != 0);
	lo &= ~4095ull;
	l->bytes = hi - lo;
	l->map = mmap(NULL, l->bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(l->map != MAP_FAILED);
	l->bias = (uint64_t)(uintptr_t)l->map - lo;
	for (int i = 0; i < eh.e_phnum; i++) {
		gelf_getphdr(l->elf, i, &ph);
		if (ph.p_type != PT_LOAD)
			continue;
		uint64_t in = ph.p_vaddr & 4095;
		void *at = (void *)(uintptr_t)(l->bias + ph.p_vaddr - in);
		assert_ptr_equal(mmap(at, ph.p_filesz + in, PROT_READ, MAP_PRIVATE | MAP_FIXED,
				      l->fd, (off_t)(ph.p_offset - in)),
				 at);
		if (hdr >= ph.p_vaddr && hdr < ph.p_vaddr + ph.p_filesz) {
			l->image.lo = (uint8_t *)at;
			l->image.hi = (uint8_t *)at + in + ph.p_filesz;
		}
	}
	l->image.hdr = (const uint8_t *)(uintptr_t)(l->bias + hdr);
	l->cfi = dwarf_getcfi_elf(l->elf);
	assert_non_null(l->cfi);
	return 1;
}

static void loaded_close(struct loaded *l)
{
	dwarf_cfi_end(l->cfi);
	elf_end(l->elf);
	close(l->fd);
	munmap(l->map, l->bytes);
}

/* Our block at @at has the operations @ops, but for what elfutils adds around it. */
static int same_block(const uint8_t *at, const Dwarf_Op *ops, size_t count)
{
	uint64_t len = 0;
	for (unsigned shift = 0;; shift += 7) {
		len |= (uint64_t)(*at & 0x7f) << shift;
		if (!(*at++ & 0x80))
			break;
	}
	if (!len)
		return count == 0;
	for (size_t i = 0; i < count; i++) {
		if (ops[i].offset >= len || at[ops[i].offset] != ops[i].atom)
			return 0;
	}
	return count > 0;
}

static int same_cfa(const struct unwind_row *row, const Dwarf_Op *ops, size_t count)
{
	if (row->cfa_expr)
		return same_block(row->cfa_expr, ops, count);
	if (count != 1 && !(count == 2 && ops[1].atom == DW_OP_plus_uconst))
		return 0;
	uint64_t reg =
		ops[0].atom == DW_OP_bregx ? ops[0].number : (uint64_t)(ops[0].atom - DW_OP_breg0);
	int64_t off = (int64_t)(ops[0].atom == DW_OP_bregx ? ops[0].number2 : ops[0].number);
	return row->cfa_reg == reg && row->cfa_off == off;
}

static int same_reg(const struct unwind_reg_rule *r, int reg, const Dwarf_Op *mem,
		    const Dwarf_Op *ops, size_t count)
{
	switch (r->how) {
	case UNWIND_UNSPECIFIED: /* elfutils fills in what the ABI says */
		return reg == UNWIND_REG_SP ? 1 : count == 0;
	case UNWIND_SAME:
		return count == 0 && !ops;
	case UNWIND_UNDEFINED:
		return count == 0 && ops == mem;
	case UNWIND_AT_CFA:
		return (count == 2 && ops[0].atom == DW_OP_call_frame_cfa &&
			ops[1].atom == DW_OP_plus_uconst && (int64_t)ops[1].number == r->value) ||
		       (count == 1 && ops[0].atom == DW_OP_call_frame_cfa && r->value == 0);
	case UNWIND_VALUE_CFA:
		return count >= 2 && ops[0].atom == DW_OP_call_frame_cfa &&
		       ops[count - 1].atom == DW_OP_stack_value &&
		       (count == 2 ? r->value == 0 : (int64_t)ops[1].number == r->value);
	case UNWIND_REGISTER:
		return count == 1 && ops[0].atom == DW_OP_regx &&
		       ops[0].number == (Dwarf_Word)r->value;
	case UNWIND_AT_EXPR:
		return count > 1 && ops[0].atom == DW_OP_call_frame_cfa &&
		       same_block((const uint8_t *)(uintptr_t)r->value, ops + 1, count - 1);
	default:
		return count > 2 && ops[0].atom == DW_OP_call_frame_cfa &&
		       ops[count - 1].atom == DW_OP_stack_value &&
		       same_block((const uint8_t *)(uintptr_t)r->value, ops + 1, count - 2);
	}
}

struct tally {
	unsigned long fdes, rows, missing, wrong, eval, kinds[WIRE_RULE_KINDS];
};

static void check_row(const struct loaded *l, const struct unwind_fde *fde,
		      const struct unwind_cfi_work *w, Dwarf_Frame *frame, struct tally *tally)
{
	static const int regs[] = { 3, 6, 12, 13, 14, 15, 16 };
	Dwarf_Op mem[3], *ops;
	size_t count;
	int ok = dwarf_frame_cfa(frame, &ops, &count) == 0 && same_cfa(&w->row, ops, count);

	for (unsigned i = 0; i < sizeof(regs) / sizeof(*regs); i++) {
		ok = ok && dwarf_frame_register(frame, regs[i], mem, &ops, &count) == 0 &&
		     same_reg(&w->row.reg[regs[i]], regs[i], mem, ops, count);
		if (!ok) {
			if (tally->wrong++ < 5)
				print_message("differs at %lx, register %d, how %u\n",
					      w->row_lo - l->bias, regs[i],
					      w->row.reg[regs[i]].how);
			return;
		}
	}
	uint64_t rule = unwind_cfi_rule(fde, &w->row, l->image.hi);
	tally->kinds[unwind_rule_kind(rule)]++;
	if (unwind_rule_kind(rule) == WIRE_RULE_SP || unwind_rule_kind(rule) == WIRE_RULE_BP) {
		/* the word says what the row says */
		const struct unwind_reg_rule *bp = &w->row.reg[UNWIND_REG_BP],
					     *bx = &w->row.reg[UNWIND_REG_BX];
		int64_t want_bp = bp->how == UNWIND_AT_CFA ? bp->value : 0;
		int64_t want_bx = bx->how == UNWIND_AT_CFA ? bx->value : 0;
		if (unwind_rule_cfa(rule) != w->row.cfa_off || unwind_rule_bp(rule) != want_bp ||
		    (unwind_rule_bx(rule) != want_bx &&
		     unwind_rule_bx(rule) != WIRE_RULE_SLOT_LOST * 8) ||
		    w->row.cfa_reg != (unwind_rule_kind(rule) == WIRE_RULE_SP ? 7 : 6))
			tally->wrong++;
	}
}

static void compare_file(const char *path, struct tally *tally)
{
	static struct unwind_cfi_work work;
	struct loaded l;

	memset(tally, 0, sizeof(*tally));
	if (!loaded_open(&l, path)) {
		print_message("%s is not installed here\n", path);
		return;
	}
	/* enumerate by the header's own table: (start, FDE) pairs behind 12 bytes */
	uint32_t count;
	memcpy(&count, l.image.hdr + 8, 4);
	for (uint32_t i = 0; i < count; i++) {
		int32_t start;
		struct unwind_fde fde;
		memcpy(&start, l.image.hdr + 12 + i * 8, 4);
		uint64_t pc = (uint64_t)(uintptr_t)l.image.hdr + (uint64_t)(int64_t)start;
		if (!unwind_cfi_find(&l.image, pc, &fde)) {
			Dwarf_Frame *none = NULL;
			/* an empty FDE describes nothing for elfutils either */
			if (dwarf_cfi_addrframe(l.cfi, pc - l.bias, &none) == 0)
				tally->missing++;
			free(none);
			continue;
		}
		tally->fdes++;
		while (pc < fde.hi) {
			Dwarf_Frame *frame = NULL;
			Dwarf_Addr from = 0, to = 0;
			bool signal = false;
			int theirs = dwarf_cfi_addrframe(l.cfi, pc - l.bias, &frame) == 0;
			int ours = unwind_cfi_row(&l.image, &fde, pc, &work);
			if (!theirs || !ours) {
				tally->wrong += theirs != ours;
				free(frame);
				break;
			}
			tally->rows++;
			dwarf_frame_info(frame, &from, &to, &signal);
			/* not the start: elfutils takes it back together with a remembered state */
			if (to + l.bias != work.row_hi || signal != fde.signal) {
				if (tally->wrong++ < 5)
					print_message("range at %lx: %lx-%lx, ours %lx-%lx\n",
						      pc - l.bias, from, to, work.row_lo - l.bias,
						      work.row_hi - l.bias);
			}
			check_row(&l, &fde, &work, frame, tally);
			free(frame);
			pc = to + l.bias > pc ? to + l.bias : pc + 1;
		}
	}
	print_message(
		"%s: %lu FDEs, %lu rows, %lu missing, %lu wrong; gap %lu end %lu sp %lu bp %lu "
		"bx %lu plt %lu signal %lu drap %lu eval %lu\n",
		path, tally->fdes, tally->rows, tally->missing, tally->wrong, tally->kinds[0],
		tally->kinds[1], tally->kinds[2], tally->kinds[3], tally->kinds[4], tally->kinds[5],
		tally->kinds[6], tally->kinds[7], tally->kinds[8]);
	loaded_close(&l);
}

static void rows_of_whole_libraries_equal_elfutils(void **state)
{
	static const char *const paths[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libm.so.6",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
		"/usr/bin/python3",
		"/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
	};
	unsigned long rows = 0;
	(void)state;
	for (unsigned i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct tally tally;
		compare_file(paths[i], &tally);
		assert_int_equal(tally.missing, 0);
		assert_int_equal(tally.wrong, 0);
		rows += tally.rows;
	}
	assert_true(rows > 20000); /* libc alone */
}

/* A CIE (CFA = rsp + 8), and an FDE of [0x1000, 0x1100) whose CFA is rsp + 16 from 0x1010 on, which an address says. */
static void an_address_in_debug_frame_is_the_files(void **state)
{
	static const uint8_t section[] = {
		12, 0,    0,    0,    0xff, 0xff, 0xff, 0xff, /* CIE */
		1,  0,    1,    0x78, 16,   0x0c, 7,    8, /* version, no letters, 1, -8, ra; CFA */
		32, 0,    0,    0,    0,    0,    0,    0, /* FDE */
		0,  0x10, 0,    0,    0,    0,    0,    0, /* lo */
		0,  1,    0,    0,    0,    0,    0,    0, /* bytes */
		1,  0x10, 0x10, 0,    0,    0,    0,    0,    0, 0x0e, 16, 0, /* set_loc; CFA */
	};
	static struct unwind_cfi_work work;
	const uint64_t bias = 0x555555000000;
	struct unwind_image image = { .lo = section,
				      .hi = section + sizeof(section),
				      .eh_frame = section,
				      .debug = 1,
				      .bias = bias };
	struct unwind_fde fde;
	(void)state;
	for (uint64_t pc = bias + 0x1000; pc < bias + 0x1100; pc++) {
		assert_true(unwind_cfi_find(&image, pc, &fde));
		assert_true(unwind_cfi_row(&image, &fde, pc, &work));
		assert_int_equal(work.row.cfa_off, pc < bias + 0x1010 ? 8 : 16);
	}
	assert_int_equal(work.row_lo, bias + 0x1010);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_whole_libraries_equal_elfutils),
		cmocka_unit_test(an_address_in_debug_frame_is_the_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
