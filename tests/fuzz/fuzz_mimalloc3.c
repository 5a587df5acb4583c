/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: mimalloc 3's page map, heads of pages, arenas and lists. */
#include "../unit/fake_mimalloc.h"
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = {
		FAKE_HEAP,          MI3_PAGE(1),
		MI3_PAGE(2),        MI3_PART + (FAKE_HEAP >> 16 & 8191) * 8,
		FAKE_HEAP + 0x1280, FAKE_OWN
	};
	return fuzz_allocator(data, size, fake_mimalloc30, places,
			      sizeof(places) / sizeof(places[0]), heaps_mimalloc);
}
