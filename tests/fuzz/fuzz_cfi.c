/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as an unwind section: byte 0 says whether they begin with a header, bytes 1-2 give an address to look for, the
 * rest is .eh_frame(_hdr). Every entry is parsed and run, every row put into a word, every frame stepped with a stack made of the same bytes.
 */
#include <stddef.h>
#include <string.h>

#include "unwind/cfi.h"

struct stack {
	const uint8_t *data;
	size_t size;
};

static int load(void *ctx, uint64_t addr, uint64_t *out)
{
	const struct stack *s = ctx;
	if (s->size < 8 || addr > s->size - 8)
		return 1;
	memcpy(out, s->data + addr, 8);
	return 0;
}

static void try_row(const struct unwind_image *image, const struct unwind_fde *fde, uint64_t pc,
		    struct stack *stack)
{
	static struct unwind_cfi_work work;
	struct unwind_full full = { .known = (1u << UNWIND_REGS) - 1 };
	if (!unwind_cfi_row(image, fde, pc, &work))
		return;
	for (int rows = 0; rows < 64; rows++) {
		for (unsigned i = 0; i < UNWIND_REGS; i++)
			full.reg[i] = i * 8;
		if (unwind_rule_kind(unwind_cfi_rule(fde, &work.row, image->hi)) >= WIRE_RULE_KINDS)
			__builtin_trap();
		unwind_full_step(fde, &work.row, image->hi, &full, load, stack);
		if (!unwind_cfi_next_row(image, fde, &work))
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	struct stack stack = { data, size };
	struct unwind_image image = { data + 4, data + size, data[0] & 1 ? data + 4 : NULL,
				      data + 4 };
	if ((data[0] & 3) == 2) {
		image.debug = 1;
		image.bias = data[3];
	}
	uint64_t pc = (uint64_t)(uintptr_t)data + data[1] + (uint64_t)data[2] * 256;
	struct unwind_fde fde;
	if (unwind_cfi_find(&image, pc, &fde))
		try_row(&image, &fde, pc, &stack);
	int entries = 0;
	for (const uint8_t *at = data + 4; at && entries < 256; entries++) {
		at = unwind_cfi_next(&image, at, &fde);
		if (fde.lo >= fde.hi)
			continue;
		try_row(&image, &fde, fde.lo, &stack);
		try_row(&image, &fde, fde.hi - 1, &stack);
	}
	return 0;
}
