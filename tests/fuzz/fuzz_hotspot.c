/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: HotSpot's performance counters. */
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { FAKE_HEAP, FAKE_HEAP + 32, FAKE_HEAP + 0x7c00 };
	return fuzz_allocator(data, size, fake_hotspot, places, sizeof(places) / sizeof(places[0]),
			      heaps_hotspot);
}
