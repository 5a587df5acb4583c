/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: Go's list of spans and the spans. */
#include "fuzz_allocator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { GO_DATA, GO_SLOT, GO_LIST, GO_SPAN(0), GO_SPAN(16) };
	return fuzz_allocator(data, size, fake_go, places, sizeof(places) / sizeof(places[0]),
			      heaps_go);
}
