/* SPDX-License-Identifier: Apache-2.0 */
/* fake_partition.h - a partition of PartitionAlloc, what V8 and Oilpan keep beside it, made by hand. */
#ifndef TESTS_FAKE_PARTITION_H
#define TESTS_FAKE_PARTITION_H

#include "fake_memory.h"

#define PA_ROOT 0x600080ull
#define PA_BUCKETS (PA_ROOT + 25 * 8)
#define PA_CAGE 0x7d0000000000ull
#define PA_OILPAN 0x7d0100000000ull
#define PA_POOL 0x7e0000000000ull
#define PA_PAGE \
	0x7e8000005000ull /* of its first super page; the next one's 8 KiB behind it is another pool's */
#define PA_SPACE (PA_POOL + 0x14000)

static inline void pa_guard(struct fake *f, uint64_t addr, uint64_t bytes)
{
	fake_map(f, addr, bytes, REGION_RESERVED, "");
	f->regions[f->count - 1].perms = 0;
}

static inline void pa_bucket(struct fake *f, unsigned n, uint64_t slot, uint64_t pages)
{
	uint64_t at = PA_BUCKETS + n * 56ull;
	fake_put(f, at + 24, slot);
	fake_put(f, at + 32, pages | 5 << 8);
	fake_put(f, at + 40, ((1ull << 42) - 1) / slot + 1);
}

/* Slots in use, and those that nobody had yet. */
static inline void pa_span(struct fake *f, uint64_t page, unsigned k, uint64_t list,
			   uint64_t bucket, uint64_t used, uint64_t unused)
{
	fake_put(f, page + k * 32ull, list);
	fake_put(f, page + k * 32ull + 16, bucket);
	fake_put(f, page + k * 32ull + 24, 0x40ull << 48 | unused << 15 | used);
}

static inline void fake_partition(struct fake *f)
{
	fake_map(f, 0x600000, 0x3000, REGION_PROGRAM_BSS, "");
	fake_map(f, PA_CAGE + 0x40000, 0x140000, REGION_ANONYMOUS, "");
	fake_map(f, PA_OILPAN, 0x80000, REGION_ANONYMOUS, "");
	pa_guard(f, PA_POOL, 0x4000);
	fake_map(f, PA_POOL + 0x4000, 0x30000, REGION_ANONYMOUS, "");
	pa_guard(f, PA_POOL + 0x200000, 0x4000);
	fake_map(f, PA_POOL + 0x204000, 0x200000, REGION_ANONYMOUS, "");
	pa_guard(f, PA_PAGE - 0x1000, 0x1000);
	fake_map(f, PA_PAGE, 0x1000, REGION_ANONYMOUS, "");
	pa_guard(f, PA_PAGE + 0x1000, 0x1ff000);
	fake_map(f, PA_PAGE + 0x200000, 0x1000, REGION_ANONYMOUS, "");
	pa_guard(f, PA_PAGE + 0x201000, 0x1000);
	fake_put(f, PA_ROOT + 24, PA_POOL);
	fake_put(f, PA_ROOT + 32, -(1ull << 24));
	fake_put(f, PA_ROOT + 144, PA_PAGE - PA_POOL);
	for (unsigned n = 0; n < 8; n++)
		pa_bucket(f, n, 16 * (n + 1), 4);
	/* 100 of 1,024 blocks of 16 bytes, 24 of which nobody had yet; all of 128 bytes; none of 64: free */
	fake_put(f, PA_PAGE, PA_ROOT);
	fake_put(f, PA_PAGE + 16, 3 << 16 | 1);
	pa_span(f, PA_PAGE, 1, PA_POOL + 0x4010, PA_BUCKETS, 100, 24);
	pa_span(f, PA_PAGE, 2, 0, PA_BUCKETS + 7 * 56, 128, 0);
	pa_span(f, PA_PAGE, 3, PA_POOL + 0xc000, PA_BUCKETS + 3 * 56, 0, 0);
	fake_touch(f, PA_POOL + 0x4000, 0x10000);
	/* one block of 1.5 MiB, with a bucket of its own, half of it touched */
	uint64_t large = PA_PAGE + 0x200000;
	fake_put(f, large, PA_ROOT);
	pa_span(f, large, 1, 0, large + 96, 1, 1 << 14);
	fake_put(f, large + 96 + 24, 3 << 19);
	fake_touch(f, PA_POOL + 0x204000, 0xc0000);
	/* five pages of V8 in its cage, the last of another table */
	for (uint64_t n = 1; n <= 5; n++) {
		uint64_t at = PA_CAGE + n * 0x40000;
		fake_put(f, at, 4);
		fake_put(f, at + 8, n == 5 ? 77 : n);
		fake_put(f, at + 16, 0x7e500000481);
	}
	/* a space of Oilpan's with two pages; another that one object of 150,000 bytes has */
	for (uint64_t n = 0; n < 3; n++) {
		uint64_t at = PA_OILPAN + n * 0x20000, space = PA_SPACE + (n == 2) * 0x100;
		fake_put(f, at, PA_SPACE + 0x800);
		fake_put(f, at + 8, space);
		fake_put(f, at + 16, n == 2);
		fake_put(f, at + 56, n == 2 ? 150000 : 0);
		fake_put(f, space + 16, space + 64);
		fake_put(f, space + 24, space + (n ? 80 : 72));
		fake_put(f, space + 32, space + 96);
		if (n != 1)
			fake_put(f, space + 64, at);
		fake_touch(f, at, 0x20000);
	}
	fake_touch(f, PA_POOL + 0x14000, 0x4000);
}

#endif
