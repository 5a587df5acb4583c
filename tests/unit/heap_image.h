/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_image.h - an address space made by hand: a C library's data with a main arena, a brk heap, one further arena with
 * its heap, and a large block. Laid out as glibc 2.36 does on x86-64, or where 24 bytes stand before the bins as 2.43 does.
 */
#ifndef TESTS_HEAP_IMAGE_H
#define TESTS_HEAP_IMAGE_H

#include "fake_memory.h"
#include "heaps/glibc.h"

#define IMAGE_LIBC 0x7f0000200000ull
#define IMAGE_LIBC_BYTES 0x4000u
#define IMAGE_BRK 0x555500000000ull
#define IMAGE_BRK_BYTES 0x21000u
#define IMAGE_HEAP 0x7f0004000000ull /* a multiple of 64 MiB */
#define IMAGE_HEAP_BYTES 0x21000u
#define IMAGE_LARGE 0x7f0100000000ull
#define IMAGE_LARGE_BYTES 0x50000u
#define IMAGE_KEY 0x1234567890abcdefull

struct image {
	/* brk, the C library's data, the further heap, the large block */
	struct fake fake;
	/* before: bytes of an arena in front of its bins */
	uint64_t main_arena, arena, before;
	/* bytes of the chunk of a thread's cache; 0: what goes with @before */
	uint32_t table;
};

static inline int image_is_new(const struct image *image)
{
	return image->before == 24;
}

static inline uint32_t image_table(const struct image *image)
{
	return image->table ? image->table : image_is_new(image) ? 0x300 : 0x290;
}

static inline void image_put(struct image *image, uint64_t addr, uint64_t word)
{
	fake_put(&image->fake, addr, word);
}

/* An arena without free chunks: every bin points at itself. */
static inline void image_arena(struct image *image, uint64_t addr, uint64_t top, uint64_t next,
			       uint64_t system_bytes)
{
	uint64_t bins = addr + image->before;
	image_put(image, bins - 16, top);
	for (unsigned i = 0; i < 127; i++) {
		image_put(image, bins + i * 16, bins + i * 16 - 16);
		image_put(image, bins + i * 16 + 8, bins + i * 16 - 16);
	}
	image_put(image, bins + 2048, next);
	image_put(image, bins + 2072, system_bytes);
}

/* A chunk; @used says whether the one before it is in use. Returns where the next one begins. */
static inline uint64_t image_chunk(struct image *image, uint64_t at, uint64_t size,
				   uint64_t prev_size, uint64_t bits)
{
	if (!(bits & 1))
		image_put(image, at, prev_size);
	image_put(image, at + 8, size | bits);
	return at + size;
}

/* A free chunk in the unsorted bin of @arena. */
static inline void image_free(struct image *image, uint64_t arena, uint64_t at)
{
	uint64_t bin = arena + image->before - 16;
	image_put(image, bin + 16, at);
	image_put(image, bin + 24, at);
	image_put(image, at + 16, bin);
	image_put(image, at + 24, bin);
}

/* A block that waits in a list: link mixed with its own address, and the key that every cached block carries. */
static inline void image_cached(struct image *image, uint64_t at, uint64_t next)
{
	image_put(image, at + 16, (at + 16) >> 12 ^ next);
	image_put(image, at + 24, IMAGE_KEY);
}

/* Everything is there. Release with fake_fini(). */
static inline void image_init(struct image *image, uint64_t before)
{
	memset(image, 0, sizeof(*image));
	image->before = before;
	fake_map(&image->fake, IMAGE_BRK, IMAGE_BRK_BYTES, REGION_ANONYMOUS, "[heap]");
	fake_map(&image->fake, IMAGE_LIBC, IMAGE_LIBC_BYTES, REGION_LIBRARY_DATA,
		 "/usr/lib/libc.so.6");
	fake_map(&image->fake, IMAGE_HEAP, IMAGE_HEAP_BYTES, REGION_ANONYMOUS, "");
	fake_map(&image->fake, IMAGE_LARGE, IMAGE_LARGE_BYTES, REGION_ANONYMOUS, "");
	for (unsigned i = 0; i < image->fake.count; i++)
		fake_touch(&image->fake, image->fake.parts[i].addr, image->fake.parts[i].bytes);
	image->main_arena = IMAGE_LIBC + 0x1c60;
	image->arena = IMAGE_HEAP + 48;
}

/* What image_fill() laid out. */
#define FILLED_TCACHED 2u /* of 32 bytes */
#define FILLED_FAST 1u    /* of 48 bytes */
#define FILLED_FREE_MAIN 0x3000u
#define FILLED_LIVE_MAIN (0x1000u + 0x800u)

/*
 * brk: thread cache table, two cached blocks, one block in a fastbin, live 0x1000, free 0x3000, live 0x800, top.
 * heap: arena, live 0x2000, top. A large block of IMAGE_LARGE_BYTES.
 */
static inline void image_fill(struct image *image)
{
	uint64_t at = IMAGE_BRK, table, cached[2], fast, freed;
	table = at + 16;
	at = image_chunk(image, at, image_table(image), 0, 1);
	cached[0] = at;
	at = image_chunk(image, at, 32, 0, 1);
	cached[1] = at;
	at = image_chunk(image, at, 32, 0, 1);
	fast = at;
	at = image_chunk(image, at, 48, 0, 1);
	at = image_chunk(image, at, 0x1000, 0, 1);
	freed = at;
	at = image_chunk(image, at, FILLED_FREE_MAIN, 0, 1);
	at = image_chunk(image, at, 0x800, FILLED_FREE_MAIN, 0);
	image_put(image, at + 8, (IMAGE_BRK + IMAGE_BRK_BYTES - at) | 1);
	if (image_table(image) >= 0x300) {
		/* 76 numbers of slots that are left, of 16 or since tcache_max none, and as many heads */
		image_put(image, table, 14 | 16ull << 16 | 16ull << 32 | 16ull << 48);
		for (unsigned i = 1; i < 16; i++)
			image_put(image, table + i * 8, 0x0010001000100010ull);
		image_put(image, table + 152, cached[0] + 16);
	} else {
		image_put(image, table, 2); /* counts[0] */
		image_put(image, table + 128, cached[0] + 16);
	}
	image_cached(image, cached[0], cached[1] + 16);
	image_cached(image, cached[1], 0);
	image_arena(image, image->main_arena, at, image->arena, IMAGE_BRK_BYTES);
	if (!image_is_new(image)) {
		image_put(image, image->main_arena + image->before - 16 - 80 + 8, fast);
		image_put(image, fast + 16, (fast + 16) >> 12);
	}
	image_free(image, image->main_arena, freed);

	image_put(image, IMAGE_HEAP, image->arena);
	image_put(image, IMAGE_HEAP + 16, IMAGE_HEAP_BYTES);
	uint64_t first = (image->arena + image->before + 2088 + 15) & ~15ull;
	at = image_chunk(image, first, 0x2000, 0, 5);
	image_put(image, at + 8, (IMAGE_HEAP + IMAGE_HEAP_BYTES - at) | 5);
	image_arena(image, image->arena, at, image->main_arena, IMAGE_HEAP_BYTES);

	image_put(image, IMAGE_LARGE + 8, (IMAGE_LARGE_BYTES - (image_is_new(image) ? 16 : 0)) | 2);
	/* mp_: thresholds, n_mmaps_max, mmapped_mem, max_mmapped_mem, sbrk_base, 64 bins, 1032 bytes, 7 blocks */
	uint64_t params = IMAGE_LIBC + 0x1000, more = image_is_new(image) ? 8 : 0;
	image_put(image, params, 131072);
	image_put(image, params + 8, 131072);
	image_put(image, params + 16, 131072);
	image_put(image, params + more + 64, 65536);
	image_put(image, params + more + 80, IMAGE_LARGE_BYTES);
	image_put(image, params + more + 88, IMAGE_LARGE_BYTES);
	image_put(image, params + more + 96, IMAGE_BRK);
	image_put(image, params + more + 104, 64);
	image_put(image, params + more + 112, more ? 1041 : 1032);
	image_put(image, params + more + 120, more ? 16 : 7);
}

#endif
