/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile PartitionAlloc: sizes, spans, spaces of Oilpan and pages of V8 that cannot be. */
#include "../unit/fake_partition.h"
#include "fuzz_allocator.h"

static int both(struct breakdown *b, const struct memory *memory, struct err *err)
{
	/* each has its own share of work */
	struct memory_work work = { .left = memory->work->left / 2 };
	struct memory other = *memory;
	other.work = &work;
	int rc = heaps_partition(b, memory, err);
	return rc < 0 ? rc : heaps_proofs(b, &other, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t places[] = {
		PA_ROOT,  PA_BUCKETS + 24,     PA_PAGE,          PA_PAGE + 0x20, PA_PAGE + 0x200000,
		PA_SPACE, PA_OILPAN + 0x20000, PA_CAGE + 0x40000
	};
	return fuzz_allocator(data, size, fake_partition, places,
			      sizeof(places) / sizeof(places[0]), both);
}
