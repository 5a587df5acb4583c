/* SPDX-License-Identifier: Apache-2.0 */
/* fake_dotnet.h - the collector of .NET made by hand: regions since .NET 7, segments before. Behind fake_allocators.h. */
#ifndef TESTS_FAKE_DOTNET_H
#define TESTS_FAKE_DOTNET_H

#include "fake_allocators.h"

#define DN_DATA 0x400000ull
#define DN_TABLES FAKE_HEAP
#define DN_LOW (FAKE_HEAP + 0x200000)
#define DN_HIGH (FAKE_HEAP + 0x400000)

static inline void fake_dotnet_header(struct fake *f, unsigned lowest, unsigned tables,
				      unsigned size)
{
	fake_put(f, DN_TABLES, 1);
	fake_put(f, DN_TABLES + lowest * 8, DN_LOW);
	fake_put(f, DN_TABLES + lowest * 8 + 8, DN_HIGH);
	for (uint64_t i = 0; i < 3; i++)
		fake_put(f, DN_TABLES + (tables + i) * 8, DN_TABLES + 0x40 + i * 0x1000);
	fake_put(f, DN_TABLES + size * 8, 0x200000);
	fake_put(f, DN_DATA + 0x100, DN_LOW);
	fake_put(f, DN_DATA + 0x108, DN_HIGH);
}

/* Two regions with a reserve between and behind them; the tables' own reserve reaches up to them. */
static inline void fake_dotnet(struct fake *f)
{
	fake_map(f, DN_DATA, 0x1000, REGION_LIBRARY_DATA, "/usr/lib/dotnet/libcoreclr.so");
	fake_map(f, DN_TABLES, 0x10000, REGION_ANONYMOUS, "");
	fake_map(f, DN_TABLES + 0x10000, 0x1f0000, REGION_RESERVED, "");
	fake_map(f, DN_LOW, 0x10000, REGION_ANONYMOUS, "");
	fake_map(f, DN_LOW + 0x10000, 0xf0000, REGION_RESERVED, "");
	fake_map(f, DN_LOW + 0x100000, 0x20000, REGION_ANONYMOUS, "");
	fake_map(f, DN_LOW + 0x120000, 0xe0000, REGION_RESERVED, "");
	fake_map(f, DN_HIGH, 0x10000, REGION_ANONYMOUS, "");
	for (unsigned i = 0; i < f->count; i++)
		if (f->regions[i].class == REGION_RESERVED)
			f->regions[i].perms = 0;
	fake_touch(f, DN_DATA, 0x1000);
	fake_touch(f, DN_LOW, 0x10000);
	fake_touch(f, DN_LOW + 0x100000, 0x20000);
	fake_touch(f, DN_HIGH, 0x10000);
	fake_dotnet_header(f, 3, 5, 1);
}

static inline void fake_dotnet_segment(struct fake *f, uint64_t at, uint64_t bytes)
{
	fake_put(f, at, at + bytes - 0x800);
	fake_put(f, at + 8, at + bytes);
	fake_put(f, at + 16, at + 0x100000);
	fake_put(f, at + 24, at + bytes - 0x400);
	fake_put(f, at + 32, at + 0x1000);
}

/* .NET Core 3.1: a segment; what lies where the second might be is somebody else's. */
static inline void fake_dotnet_31(struct fake *f)
{
	fake_dotnet(f);
	for (uint64_t i = 0; i < 8; i++)
		fake_put(f, DN_TABLES + i * 8, 0);
	fake_dotnet_header(f, 1, 3, 6);
	fake_dotnet_segment(f, DN_LOW, 0x10000);
}

#endif
