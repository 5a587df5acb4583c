/* SPDX-License-Identifier: Apache-2.0 */
/* fake_mimalloc.h - a small sound heap of each version of mimalloc, laid out as it does on x86-64. */
#ifndef TESTS_FAKE_MIMALLOC_H
#define TESTS_FAKE_MIMALLOC_H

#include "fake_allocators.h"

/* ---- 2.0 and 2.2 ----------------------------------------------------------------------------------------------------- */

#define MI_SECRET 0x1234567890abcdefull
#define MI_SLICE(n) (FAKE_HEAP + 264 + (n)*80ull)
#define MI_SLICE22(n) (FAKE_HEAP + 288 + (n)*96ull)
#define MI_THREAD 0x7f00c0001000ull
#define MI_HEAP (FAKE_OWN + 0x100)

static inline void mi_page(struct fake *f, int wide, unsigned n, unsigned slices, uint64_t block,
			   unsigned used, unsigned capacity)
{
	uint64_t at = wide ? MI_SLICE22(n) : MI_SLICE(n);
	fake_put(f, at, slices);
	fake_put(f, at + 8, (uint64_t)capacity << 16 | (uint64_t)capacity << 32);
	fake_put(f, at + (wide ? 32 : 24), wide ? used : used | block << 32);
	fake_put(f, at + (wide ? 64 : 48), block ? MI_HEAP : 0);
	if (wide)
		fake_put(f, at + 40, block);
	fake_touch(f, FAKE_HEAP + n * 0x10000ull, 0x10000);
}

/*
 * Live: 100 blocks of 64 bytes less 2 that another thread freed and one of a full page that waits at the heap, 3 of 8 KiB;
 * one free slice of which all is resident, and many that were never touched.
 */
static inline void fake_mimalloc2(struct fake *f, int wide)
{
	static const unsigned words[2][7] = { { 208, 216, 224, 232, 248, 256, 2840 },
					      { 216, 224, 248, 256, 272, 280, 8 } };
	const unsigned *at = words[wide];
	fake_map(f, FAKE_HEAP, 0x800000, REGION_ANONYMOUS, ""); /* what is in use of 32 MiB */
	fake_map(f, FAKE_HEAP + 0x800000, 0x1000, REGION_RESERVED, "");
	f->regions[1].end = FAKE_HEAP + 0x2000000;
	f->regions[1].perms = 0;
	fake_map(f, FAKE_OWN, 0x2000, REGION_ANONYMOUS, "");
	fake_put(f, FAKE_HEAP + at[0], 2);
	fake_put(f, FAKE_HEAP + at[1], FAKE_HEAP ^ MI_SECRET);
	fake_put(f, FAKE_HEAP + at[2], 512);
	fake_put(f, FAKE_HEAP + at[3], 1);
	fake_put(f, FAKE_HEAP + at[4], 512);
	fake_put(f, FAKE_HEAP + at[5], MI_THREAD);
	fake_put(f, wide ? MI_SLICE22(0) : MI_SLICE(0), 1);
	fake_put(f, wide ? MI_SLICE22(0) + 40 : MI_SLICE(0) + 24,
		 wide ? 0x10000 : 0x10000ull << 32);
	mi_page(f, wide, 1, 1, 64, 100, 1000);
	mi_page(f, wide, 2, 1, 8192, 3, 8);
	mi_page(f, wide, 3, 1, 0, 0, 0);
	fake_put(f, wide ? MI_SLICE22(4) : MI_SLICE(4), 508);
	uint64_t freed = FAKE_HEAP + 0x10400;
	fake_put(f, wide ? MI_SLICE22(1) + 56 : MI_SLICE(1) + 40, freed | 2);
	fake_put(f, freed, freed + 64);
	fake_put(f, freed + 64, 0);
	fake_put(f, MI_HEAP + at[6], FAKE_HEAP + 0x10800);
	fake_put(f, MI_HEAP + at[6] + 8, MI_THREAD);
	fake_touch(f, FAKE_HEAP, 0x10000);
}

static inline void fake_mimalloc(struct fake *f)
{
	fake_mimalloc2(f, 0);
}

static inline void fake_mimalloc22(struct fake *f)
{
	fake_mimalloc2(f, 1);
}

/* ---- 3.0 and 3.6 ----------------------------------------------------------------------------------------------------- */

#define MI3_PART (FAKE_OWN + 0x220000)
#define MI3_PAGE(n) (FAKE_HEAP + (n)*0x10000ull)

static inline void mi3_page(struct fake *f, int later, unsigned n, uint64_t block, unsigned used,
			    unsigned capacity, uint64_t freed)
{
	uint64_t at = MI3_PAGE(n), counts = (uint64_t)capacity | (uint64_t)capacity << 16;
	uint64_t origin = at + (later ? 13 : 12) * 8;
	fake_put(f, at + (later ? 40 : 16), used | (later ? 0 : counts << 16));
	if (later)
		fake_put(f, at + 56, counts);
	fake_put(f, at + (later ? 32 : 40), block);
	fake_put(f, at + (later ? 64 : 32), freed | 1);
	fake_put(f, at + 48, later ? 128 : at + 128);
	fake_put(f, origin, FAKE_HEAP + (later ? 0x400 : 0));
	fake_put(f, origin + 8, n | 1ull << 32);
	fake_put(f, origin + 16, 0x10000000000ull | (later ? 6 : 7));
	fake_put(f, MI3_PART + (at >> 16 & 8191) * 8, at);
	fake_touch(f, at, 0x10000);
}

/*
 * Live: 100 blocks of 64 bytes less 2 that another thread freed, 3 of 8 KiB; one free slice and one of the allocator's own, which
 * are resident; the arena's own slice; a page that was given back and keeps its head.
 */
static inline void fake_mimalloc3_of(struct fake *f, int later)
{
	uint64_t arena = FAKE_HEAP + (later ? 0x400 : 0), bitmap = FAKE_HEAP + 0x1000;
	uint64_t entries = FAKE_OWN + (later ? 80 : 0);
	uint64_t zero = FAKE_OWN + (later ? 0x201000 : 0x200000), freed = MI3_PAGE(1) + 0x400;
	fake_map(f, FAKE_DATA, 0x2000, REGION_LIBRARY_BSS, "");
	fake_map(f, FAKE_HEAP, 0x80000, REGION_ANONYMOUS, "");
	fake_map(f, FAKE_OWN, 0x230000, REGION_ANONYMOUS, "");
	fake_put(f, FAKE_DATA + 0x1008, FAKE_OWN);
	fake_put(f, entries, zero);
	fake_put(f, entries + (FAKE_HEAP >> 29) * 8, MI3_PART);
	if (later) {
		fake_put(f, FAKE_OWN + 8, 0x201000);
		fake_put(f, FAKE_OWN + 16, FAKE_OWN);
		fake_put(f, arena + 5 * 8, FAKE_HEAP);
	}
	fake_put(f, arena + (later ? 6 : 4) * 8, 512);
	fake_put(f, arena + (later ? 7 : 5) * 8, 1);
	fake_put(f, arena + (later ? 14 : 8) * 8, bitmap);
	fake_put(f, arena + (later ? 15 : 9) * 8, bitmap + 0x280 + 64);
	for (unsigned i = 0; i < 8; i++) /* slices 3 and 5 to 511 are free */
		fake_put(f, bitmap + 0x280 + i * 8, i ? UINT64_MAX : UINT64_MAX << 5 | 8);
	mi3_page(f, later, 1, 64, 100, 1000, freed);
	mi3_page(f, later, 2, 8192, 3, 7, 0);
	mi3_page(f, later, 5, 64, 0, 1000, 0);
	fake_touch(f, MI3_PAGE(3), 0x20000);
	fake_touch(f, FAKE_HEAP, 0x10000);
	fake_put(f, freed, freed + 64);
	fake_put(f, freed + 64, 0);
}

static inline void fake_mimalloc30(struct fake *f)
{
	fake_mimalloc3_of(f, 0);
}

static inline void fake_mimalloc36(struct fake *f)
{
	fake_mimalloc3_of(f, 1);
}

#endif
