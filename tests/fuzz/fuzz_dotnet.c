/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile heaps: the header of .NET's card table, the runtime's bounds, and a segment's header. */
#include "fuzz_allocator.h"

#include "../unit/fake_dotnet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = { DN_TABLES, DN_DATA + 0x100, DN_LOW, DN_LOW + 0x100000 };
	return fuzz_allocator(data, size, fake_dotnet_31, places,
			      sizeof(places) / sizeof(places[0]), heaps_dotnet);
}
