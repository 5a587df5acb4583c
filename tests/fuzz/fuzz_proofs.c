/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: headers that claim to be a runtime's. */
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = {
		FAKE_HEAP,         FAKE_HEAP + 0x40000, FAKE_HEAP + 0x200000, FAKE_HEAP + 0x400000,
		FAKE_OWN + 0x1000, FAKE_OWN + 0x8000,   FAKE_HEAP + 0x608000, FAKE_HEAP + 0x620000
	};
	return fuzz_allocator(data, size, fake_proofs, places, sizeof(places) / sizeof(places[0]),
			      heaps_proofs);
}
