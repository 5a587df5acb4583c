/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: jemalloc's tree, extents, arenas and caches. */
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { JE_ROOT + (FAKE_HEAP >> 30 & 0x3ffff) * 8,
					   JE_LEAF,
					   JE_EXTENT(0),
					   JE_ARENA + JE_LIST,
					   FAKE_STACK,
					   FAKE_DATA + 0x200100 };
	return fuzz_allocator(data, size, fake_jemalloc, places, sizeof(places) / sizeof(places[0]),
			      heaps_jemalloc);
}
