/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: CPython's pools. */
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { FAKE_HEAP, FAKE_HEAP + 16384, FAKE_HEAP + 32768,
					   FAKE_HEAP + 49152 };
	return fuzz_allocator(data, size, fake_cpython, places, sizeof(places) / sizeof(places[0]),
			      heaps_cpython);
}
