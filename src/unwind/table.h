/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * table.h - find the recipe of an address in a module's blob (wire/unwind.h). Freestanding; also
 * compiled for BPF.
 *
 * Indexes only. The environment says how an element is reached by defining, before including this
 * header,
 *
 *     UNWIND_TABLE           the type of the handle: `const struct wire_unwind *`, a map value
 *     UNWIND_IDX(t, i)       idx[i]     (u32; i is u64: mask or check it; out of range must give 0)
 *     UNWIND_ROW(t, i)       row[i]     (u32; likewise)
 *     UNWIND_RULE(t, i)      rule[i]    (u64; likewise)
 *
 * With none defined the plain ones below serve user space: bounds are checked at each access, so a
 * damaged blob gives wrong recipes but is never read outside of.
 */
#ifndef UNWIND_TABLE_H
#define UNWIND_TABLE_H

#include "unwind/rule.h"

#ifndef UNWIND_TABLE
#define UNWIND_TABLE const struct wire_unwind *

static UNWIND_INLINE uint32_t unwind_table_u32(const struct wire_unwind *t, uint32_t off,
					       uint32_t count, uint64_t i)
{
	return i < count ? ((const uint32_t *)((const char *)t + off))[i] : 0;
}

#define UNWIND_IDX(t, i) unwind_table_u32((t), (t)->idx_off, (t)->idx_count, (i))
#define UNWIND_ROW(t, i) unwind_table_u32((t), (t)->row_off, (t)->row_count, (i))
#define UNWIND_RULE(t, i)                                                                 \
	((uint64_t)(i) < (t)->rule_count                                                  \
		 ? ((const uint64_t *)((const char *)(t) + (t)->rule_off))[(uint64_t)(i)] \
		 : 0)

/**
 * unwind_table_valid() - whether @bytes at @blob (8-aligned) are a blob whose three arrays lie
 * inside it; O(1). Contents are not checked: see above.
 */
static inline int unwind_table_valid(const void *blob, uint64_t bytes)
{
	const struct wire_unwind *t = blob;
	if (bytes < sizeof(*t) || t->magic != WIRE_UNWIND_MAGIC ||
	    t->version != WIRE_UNWIND_VERSION || t->machine != WIRE_UNWIND_MACHINE_X86_64 ||
	    t->total_bytes > bytes || t->build_id_len > sizeof(t->build_id) ||
	    t->text_lo % WIRE_UNWIND_TEXT_ALIGN || !t->row_count || !t->rule_count ||
	    t->rule_count > WIRE_UNWIND_RULES_MAX)
		return 0;
	uint64_t grains = (t->text_bytes >> WIRE_UNWIND_GRAIN_SHIFT) +
			  ((t->text_bytes & ((1u << WIRE_UNWIND_GRAIN_SHIFT) - 1)) != 0);
	return t->idx_count == grains + 1 && t->idx_off >= sizeof(*t) && t->row_off >= sizeof(*t) &&
	       t->rule_off >= sizeof(*t) && t->idx_off % 4 == 0 && t->row_off % 4 == 0 &&
	       t->rule_off % 8 == 0 && t->idx_off + t->idx_count * 4ULL <= t->total_bytes &&
	       t->row_off + t->row_count * 4ULL <= t->total_bytes &&
	       t->rule_off + t->rule_count * 8ULL <= t->total_bytes;
}
#endif

/**
 * unwind_table_lookup() - the recipe for @off = address - text_lo, which the caller has found below
 * text_bytes. The address is that of an instruction (return address - 1). At most nine probes,
 * fewer where the grain is small; the arithmetic keeps it small for the verifier.
 */
static UNWIND_INLINE uint64_t unwind_table_lookup(UNWIND_TABLE t, uint64_t off)
{
	uint64_t grain = off >> WIRE_UNWIND_GRAIN_SHIFT;
	uint32_t lo = UNWIND_IDX(t, grain);
	uint32_t n = UNWIND_IDX(t, grain + 1) - lo;
	uint64_t limit =
		((off & 0xffff) << 16 | 0xffff) + 1; /* rows below this start at or before off */

	for (int i = 0; i < WIRE_UNWIND_PROBES && n; i++) { /* most grains hold a handful of rows */
		uint32_t half = (n + 1) >> 1;
		int64_t d = (int64_t)(uint64_t)UNWIND_ROW(t, (uint64_t)(uint32_t)(lo + half - 1)) -
			    (int64_t)limit;
		lo += half & (uint32_t)(d >> 63);
		n -= half;
	}
	/*
	 * the row before the first one past off rules, even where it lies in an earlier grain; row
	 * 0 is the sentinel
	 */
	uint32_t row = UNWIND_ROW(t, (uint64_t)(uint32_t)(lo - 1));
	return UNWIND_RULE(t, (uint64_t)(row & 0xffff));
}

#endif
