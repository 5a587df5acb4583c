/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: tcmalloc's page map, spans, size classes and caches. */
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { TC_ROOT + (FAKE_HEAP >> 31 & 0x1ffff) * 8,
					   TC_LEAF,
					   TC_SPAN(0),
					   TC_CLASSES,
					   TC_CENTRAL,
					   TC_CENTRAL + 2432,
					   TC_CACHE,
					   TC_CACHE + 4096,
					   FAKE_DATA + 0x13f000,
					   TC_CLASSES - 512 };
	return fuzz_allocator(data, size, fake_tcmalloc, places, sizeof(places) / sizeof(places[0]),
			      heaps_tcmalloc);
}
