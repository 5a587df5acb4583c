/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: mimalloc's segments, pages and lists. */
#include "../unit/fake_mimalloc.h"
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { FAKE_HEAP, MI_SLICE(0), MI_HEAP + 2840,
					   FAKE_HEAP + 0x10400 };
	return fuzz_allocator(data, size, fake_mimalloc, places, sizeof(places) / sizeof(places[0]),
			      heaps_mimalloc);
}
