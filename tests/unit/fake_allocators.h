/* SPDX-License-Identifier: Apache-2.0 */
/* fake_allocators.h - a small sound heap of each allocator, laid out as its release does on x86-64. */
#ifndef TESTS_FAKE_ALLOCATORS_H
#define TESTS_FAKE_ALLOCATORS_H

#include "fake_memory.h"

#define FAKE_DATA 0x7f0000200000ull
#define FAKE_HEAP 0x7f0040000000ull /* a multiple of 1 GiB */
#define FAKE_OWN 0x7f0080000000ull  /* the allocator's own tables */
#define FAKE_STACK 0x7f00c0000000ull

/* ---- jemalloc 5.3 ---------------------------------------------------------------------------------------------------- */

#define JE_ROOT (FAKE_DATA + 64)
#define JE_LEAF (FAKE_OWN + 0x200000)
#define JE_EXTENT(n) (FAKE_OWN + 0x4000 + (n)*128ull)
#define JE_ARENA (FAKE_OWN + 0x8000)
#define JE_LIST 0x2b40ull /* of caches, in an arena */
#define JE_LARGE 35u      /* size class of 14 KiB */

static inline void je_extent(struct fake *f, unsigned n, uint64_t addr, uint64_t bytes,
			     unsigned state, unsigned szind, int slab, unsigned unused)
{
	uint64_t at = JE_EXTENT(n), leaf = JE_LEAF + (addr >> 12 & 0x3ffff) * 8;
	fake_put(f, at,
		 (uint64_t)slab << 12 | 1u << 13 | (uint64_t)state << 17 | (uint64_t)szind << 20 |
			 (uint64_t)unused << 28);
	fake_put(f, at + 8, addr);
	fake_put(f, at + 16, bytes | 1);
	uint64_t entry = (at & 0xffffffffffffull) | (uint64_t)szind << 48 | (uint64_t)state << 2 |
			 (uint64_t)slab;
	for (uint64_t p = 0; p < bytes >> 12; p++)
		if (slab || !p || p + 1 == bytes >> 12)
			fake_put(f, leaf + p * 8, entry);
	fake_touch(f, addr, bytes);
}

/* Live: 200 blocks of 16 bytes less 5 cached, and one of 14 KiB; two dirty pages. */
static inline void fake_jemalloc_in(struct fake *f, unsigned class_of_cache)
{
	fake_map(f, FAKE_DATA, 0x210000, REGION_LIBRARY_BSS, "");
	fake_map(f, FAKE_HEAP, 0x40000, REGION_ANONYMOUS, "");
	fake_map(f, FAKE_OWN, 0x400000, REGION_ANONYMOUS, "");
	fake_map(f, FAKE_STACK, 0x2000, class_of_cache, "");
	fake_put(f, JE_ROOT + (FAKE_HEAP >> 30 & 0x3ffff) * 8, JE_LEAF);
	je_extent(f, 0, FAKE_HEAP, 0x1000, 0, 1, 1, 56);
	je_extent(f, 1, FAKE_HEAP + 0x1000, 0x5000, 0, JE_LARGE, 0, 0);
	je_extent(f, 2, FAKE_HEAP + 0x6000, 0x2000, 1, 232, 0, 0);
	fake_put(f, FAKE_DATA + 0x200100, JE_ARENA);
	fake_put(f, JE_ARENA + JE_LIST, FAKE_STACK);
	fake_put(f, FAKE_STACK, FAKE_STACK); /* a ring of one */
	fake_put(f, FAKE_STACK + 8, FAKE_STACK);
	fake_put(f, FAKE_STACK + 16, FAKE_STACK + 0x100);
	for (uint64_t i = 0; i < 36; i++) {
		uint64_t full = 0x1000 + i * 160, empty = full + 160;
		uint64_t head = empty - (i == 1 ? 5 * 8 : 0);
		fake_put(f, FAKE_STACK + 0x100 + i * 24, FAKE_OWN + head);
		fake_put(f, FAKE_STACK + 0x110 + i * 24, empty | full << 16 | empty << 32);
	}
}

static inline void fake_jemalloc(struct fake *f)
{
	fake_jemalloc_in(f, REGION_STACK);
}

#define JE_NODE (FAKE_OWN + 0x100000) /* of the build for 57-bit addresses, between root and leaf */

/* The same heap as a build for 57-bit addresses keeps it: three levels of 15 bits, entries of a pointer and its facts. */
static inline void fake_jemalloc_57(struct fake *f)
{
	fake_jemalloc(f);
	fake_put(f, JE_ROOT + (FAKE_HEAP >> 30 & 0x3ffff) * 8, 0);
	fake_put(f, JE_ROOT + (FAKE_HEAP >> 42 & 0x7fff) * 8, JE_NODE);
	fake_put(f, JE_NODE + (FAKE_HEAP >> 27 & 0x7fff) * 8, JE_LEAF);
	/* from the last on: they grow into each other's place */
	for (uint64_t p = 8; p-- > 0;) {
		unsigned n = p == 0 ? 0 : p < 6 ? 1 : 2;
		unsigned state = n == 2, szind = n == 0 ? 1 : n == 1 ? JE_LARGE : 232;
		int met = p == 0 || p == 1 || p == 5 || p == 6 || p == 7;
		fake_put(f, JE_LEAF + p * 16, met ? JE_EXTENT(n) : 0);
		fake_put(f, JE_LEAF + p * 16 + 8, met ? szind << 5 | state << 2 | (n == 0) : 0);
	}
}

/* ---- tcmalloc -------------------------------------------------------------------------------------------------------- */

#define TC_ROOT (FAKE_DATA + 64)
#define TC_LEAF (FAKE_OWN + 0x100000)
#define TC_SPAN(n) (FAKE_OWN + 0x4000 + (n)*48ull)
#define TC_CACHE (FAKE_OWN + 0x8000)
#define TC_CENTRAL (FAKE_DATA + 0x101000)
#define TC_CLASSES (FAKE_DATA + 0x130000)

static inline void tc_span(struct fake *f, unsigned n, uint64_t addr, uint64_t pages,
			   unsigned location, unsigned class, unsigned out)
{
	uint64_t at = TC_SPAN(n), leaf = TC_LEAF + (addr >> 13 & 0x3ffff) * 8;
	fake_put(f, at, addr >> 13);
	fake_put(f, at + 8, pages);
	fake_put(f, at + 40, out | (uint64_t) class << 16 | (uint64_t)location << 24);
	for (uint64_t p = 0; p < pages; p++)
		if (class || !p || p + 1 == pages)
			fake_put(f, leaf + p * 8, at);
	fake_touch(f, addr, pages << 13);
}

static inline uint64_t tc_size(unsigned class)
{
	return class < 12 ? 8ull * class : 1024ull * (class - 11);
}

/* Live: 100 blocks of 16 bytes less 7 in the cache and 32 on their way between caches, and one of 24 KiB; 2 free pages. */
static inline void fake_tcmalloc_at(struct fake *f, uint64_t heap)
{
	fake_put(f, TC_ROOT + (heap >> 31 & 0x1ffff) * 8, TC_LEAF);
	tc_span(f, 0, heap, 1, 0, 2, 100);
	tc_span(f, 1, heap + 0x2000, 3, 0, 0, 0);
	tc_span(f, 2, heap + 0x8000, 2, 1, 0, 0);
	for (unsigned i = 0; i < 44; i += 2) {
		uint64_t moves = i ? 32 : 0;
		fake_put(f, TC_CLASSES + i * 4, tc_size(i) | tc_size(i + 1) << 32);
		fake_put(f, TC_CLASSES - 512 + i * 4, moves | 32ull << 32);
	}
	for (unsigned i = 0; i < 44; i++) {
		fake_put(f, TC_CENTRAL + i * 1216 + 8, i);
		fake_put(f, TC_CACHE + i * 32 + 24, tc_size(i));
	}
	fake_put(f, TC_CENTRAL + 2 * 1216 + 120, 412); /* blocks free in spans: 512 less 100 */
	fake_put(f, TC_CENTRAL + 2 * 1216 + 1152, 1);  /* one chain of 32 */
	fake_put(f, TC_CACHE + 2 * 32, heap + 64);
	fake_put(f, TC_CACHE + 2 * 32 + 8, 7);
	fake_put(f, FAKE_DATA + 0x13f000, TC_CACHE);
}

static inline void fake_tcmalloc(struct fake *f)
{
	fake_map(f, FAKE_DATA, 0x140000, REGION_LIBRARY_BSS, "");
	fake_map(f, FAKE_HEAP, 0x40000, REGION_ANONYMOUS, "");
	fake_map(f, FAKE_OWN, 0x310000, REGION_ANONYMOUS, "");
	fake_tcmalloc_at(f, FAKE_HEAP);
}

/* ---- Go 1.22 and later ----------------------------------------------------------------------------------------------- */

#define GO_DATA 0x500000ull
#define GO_HEAP 0xc000000000ull
#define GO_LIST (FAKE_OWN + 0x10000)
#define GO_SPAN(n) (FAKE_OWN + (n)*160ull)
#define GO_SPANS 20u
#define GO_SLOT (GO_DATA + 0x4008) /* where the list is noted */

static inline void go_span(struct fake *f, unsigned n, uint64_t addr, uint64_t pages,
			   uint64_t element, unsigned class, unsigned count, unsigned state)
{
	uint64_t at = GO_SPAN(n), elements = element ? pages * 8192 / element : 0;
	fake_put(f, at + 24, addr);
	fake_put(f, at + 32, pages);
	fake_put(f, at + 48, elements << 16);
	fake_put(f, at + 96, count | (uint64_t) class << 17 | (uint64_t)state << 24);
	fake_put(f, at + 104, element);
	fake_touch(f, addr, pages * 8192);
}

/* Live: 17 spans of 100 blocks of 32 bytes and one of 40 KiB; a stack; a span that is nobody's; 8 KiB free between. */
static inline void fake_go(struct fake *f)
{
	fake_map(f, GO_DATA, 0x10000, REGION_PROGRAM_DATA, "/prog");
	fake_map(f, GO_HEAP, 0x400000, REGION_ANONYMOUS, "");
	fake_map(f, FAKE_OWN, 0x30000, REGION_ANONYMOUS, "");
	fake_put_bytes(f, GO_DATA, "\xff Go buildinf:\x08\x02", 16);
	fake_put_bytes(f, GO_DATA + 32, "\x08go1.22.3", 9);
	for (unsigned i = 0; i < 17; i++)
		go_span(f, i, GO_HEAP + i * 8192, 1, 32, 4, 100, 1);
	go_span(f, 17, GO_HEAP + 0x40000, 5, 40960, 0, 1, 1);
	go_span(f, 18, GO_HEAP + 0x80000, 4, 0, 0, 0, 2);
	fake_touch(f, GO_HEAP + 0x100000, 8192);
	for (unsigned i = 0; i < GO_SPANS; i++)
		fake_put(f, GO_LIST + i * 8, GO_SPAN(i));
	fake_put(f, GO_SLOT, GO_LIST);
	fake_put(f, GO_SLOT + 8, GO_SPANS);
	fake_put(f, GO_SLOT + 16, 8192);
	fake_put(f, GO_SLOT + 24, 17 + 5);
	fake_touch(f, GO_LIST, 0x10000);
}

/* ---- proofs ---------------------------------------------------------------------------------------------------------- */

static inline void fake_v8_page(struct fake *f, uint64_t at)
{
	fake_put(f, at, 0x40000);
	fake_put(f, at + 8, 4);
	fake_put(f, at + 16, FAKE_OWN + 0x100);
	fake_put(f, at + 24, at + 0x1148);
	fake_put(f, at + 32, at + 0x40000);
	fake_touch(f, at, 0x10000);
}

/* Two pages of V8, a third without a header; a chunk of PHP, alone; a domain of OCaml; two groups of musl. */
static inline void fake_proofs(struct fake *f)
{
	fake_map(f, 0x400000, 0x1000, REGION_PROGRAM_DATA, "/usr/lib/erlang/beam.smp");
	fake_map(f, FAKE_HEAP, 0xc0000, REGION_ANONYMOUS, "");
	fake_v8_page(f, FAKE_HEAP);
	fake_v8_page(f, FAKE_HEAP + 0x40000);
	uint64_t php = FAKE_HEAP + 0x200000;
	fake_map(f, php, 0x10000, REGION_ANONYMOUS, "");
	fake_put(f, php, php + 64);
	fake_put(f, php + 8, php);
	fake_put(f, php + 16, php);
	fake_put(f, php + 24, 510);
	fake_touch(f, php, 0x1000);
	/* two carriers of an allocator that the program's data holds */
	uint64_t carrier = FAKE_HEAP + 0x400000;
	fake_map(f, carrier, 0x20000, REGION_ANONYMOUS, "");
	for (unsigned i = 0; i < 2; i++) {
		fake_put(f, carrier + i * 0x10000, 0x10003);
		fake_put(f, carrier + i * 0x10000 + 8, i ? 0 : carrier + 0x10000);
		fake_put(f, carrier + i * 0x10000 + 16, i ? carrier : 0);
		fake_put(f, carrier + i * 0x10000 + 24, 0x400100);
		fake_touch(f, carrier + i * 0x10000, 0x1000);
	}
	/* domain 0 of OCaml, its minor heap and two pools */
	uint64_t minor = FAKE_HEAP + 0x600000, domain = minor + 0x20000;
	fake_map(f, minor, 0x30000, REGION_ANONYMOUS, "");
	fake_touch(f, minor, 0x30000);
	fake_map(f, minor + 0x30000, 0x100000, REGION_RESERVED, "");
	fake_put(f, 0x400300, minor + 0x130000);
	fake_put(f, 0x400308, minor);
	fake_touch(f, 0x400000, 0x1000);
	fake_put(f, domain, UINT64_MAX);
	fake_put(f, domain + 8, minor + 0xff0);
	fake_put(f, domain + 16, minor);
	fake_put(f, domain + 24, minor + 0x4000);
	fake_put(f, domain + 32, minor + 0x2000);
	for (uint64_t pool = minor + 0x8000; pool < domain - 0x4000; pool += 0x8000) {
		fake_put(f, pool, pool == minor + 0x8000 ? pool + 0x8000 : 0);
		fake_put(f, pool + 8, pool + 0x100);
		fake_put(f, pool + 16, domain);
		fake_put(f, pool + 24, 7);
	}
	fake_map(f, FAKE_OWN, 0x10000, REGION_ANONYMOUS, "");
	fake_touch(f, FAKE_OWN, 0x3000);
	fake_put(f, FAKE_OWN + 0x1000, 0x5ec7e7); /* the area of metas, by its secret */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t meta = FAKE_OWN + 0x1100 + i * 64, group = FAKE_OWN + 0x8000 + i * 0x4000;
		fake_put(f, meta + 16, group);
		fake_put(f, meta + 32, 4ull << 12);
		fake_put(f, group, meta);
		fake_touch(f, group, 0x1000);
	}
}

/* ---- CPython, HotSpot ------------------------------------------------------------------------------------------------ */

/* A pool with @used objects of @class; @next: where it goes on. */
static inline void fake_pool(struct fake *f, uint64_t at, unsigned used, unsigned class,
			     unsigned next)
{
	fake_put(f, at, used);
	fake_put(f, at + 8, at + 48);
	fake_put(f, at + 32, (uint64_t) class << 32);
	fake_put(f, at + 40, next | (16384 - (class + 1ull) * 16) << 32);
	fake_touch(f, at, 16384);
}

/* Three pools: 100 objects of 48 bytes, 10 of 512, none. */
static inline void fake_cpython(struct fake *f)
{
	fake_map(f, 0x400000, 0x1000, REGION_PROGRAM_DATA, "/usr/bin/python3.11");
	fake_map(f, FAKE_HEAP, 0x40000, REGION_ANONYMOUS, "");
	fake_pool(f, FAKE_HEAP, 100, 2, 48 + 120 * 48);
	fake_pool(f, FAKE_HEAP + 16384, 10, 31, 48 + 20 * 512);
	fake_pool(f, FAKE_HEAP + 32768, 0, 0, 48 + 16);
}

/* Ten pools of 100 objects of 48 bytes, between @foreign pools' worth of somebody's memory and as much again. */
static inline void fake_cpython_between(struct fake *f, unsigned foreign)
{
	fake_map(f, 0x400000, 0x1000, REGION_PROGRAM_DATA, "/usr/bin/python3.11");
	fake_map(f, FAKE_HEAP, (foreign * 2 + 10) * 16384ull, REGION_ANONYMOUS, "");
	fake_touch(f, FAKE_HEAP, (foreign * 2 + 10) * 16384ull);
	for (unsigned i = 0; i < 10; i++)
		fake_pool(f, FAKE_HEAP + (foreign + i) * 16384ull, 100, 2, 48 + 120 * 48);
}

/* Two spaces: 1,000,000 of 4,000,000 bytes used, and 300,000 of 500,000. */
#define JAVA_HEAP 0xf0000000ull

static inline void fake_hotspot(struct fake *f)
{
	static const struct {
		const char *name;
		uint64_t value;
	} entries[] = { { "sun.gc.generation.0.space.0.used", 1000000 },
			{ "sun.gc.generation.0.space.0.capacity", 4000000 },
			{ "sun.gc.metaspace.used", 300000 },
			{ "sun.gc.metaspace.capacity", 500000 },
			{ "java.threads.live", 7 },
			{ "sun.gc.generation.0.maxCapacity", 0x3000 },
			{ "sun.gc.generation.1.maxCapacity", 0x5000 } };
	fake_map(f, FAKE_HEAP, 0x8000, REGION_MAPPED_FILE, "/tmp/hsperfdata_root/42");
	f->regions[0].perms |= REGION_SHARED;
	fake_put(f, FAKE_HEAP, 0xc0c0feca | 1ull << 32 | 2ull << 40);
	fake_put(f, FAKE_HEAP + 24, 32 | 7ull << 32);
	for (unsigned i = 0; i < 7; i++) {
		uint64_t at = FAKE_HEAP + 32 + i * 72;
		fake_put(f, at, 72 | 20ull << 32);
		fake_put(f, at + 8, (uint64_t)'J' << 32);
		fake_put(f, at + 16, 64);
		char name[44] = { 0 };
		memcpy(name, &(uint32_t){ 64 }, 4);
		memcpy(name + 4, entries[i].name, strlen(entries[i].name));
		fake_put_bytes(f, at + 16, name, sizeof(name));
		fake_put(f, at + 64, entries[i].value);
	}
	fake_touch(f, FAKE_HEAP, 0x8000);
	/* the heap: committed, archived classes, not yet committed; and what lies beside it */
	fake_map(f, JAVA_HEAP, 0x3000, REGION_ANONYMOUS, "");
	fake_map(f, JAVA_HEAP + 0x3000, 0x1000, REGION_MAPPED_FILE, "/usr/lib/jvm/classes.jsa");
	fake_map(f, JAVA_HEAP + 0x4000, 0x4000, REGION_RESERVED, "");
	fake_map(f, JAVA_HEAP + 0x8000, 0x7000, REGION_ANONYMOUS, "");
	fake_touch(f, JAVA_HEAP, 0x2000);
	fake_touch(f, JAVA_HEAP + 0x3000, 0x1000);
	fake_touch(f, JAVA_HEAP + 0x8000, 0x7000);
}

#endif
