/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_allocator.h - one sound heap, changed as the bytes say: words, pages that go missing, mappings that end early. No
 * reader may crash, run on without end, or account for more than there is.
 */
#ifndef TESTS_FUZZ_ALLOCATOR_H
#define TESTS_FUZZ_ALLOCATOR_H

#include "../unit/fake_allocators.h"

#define FUZZ_SUM_MAX (1ull << 62)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline uint64_t fuzz_value(const struct fake *f, const uint8_t *data)
{
	uint64_t small = (uint64_t)data[4] | (uint64_t)data[5] << 8;
	const struct fake_part *part = &f->parts[data[3] % f->count];
	switch (data[3] >> 5) {
	case 0:
		return small;
	case 1:
		return small << 32 | small;
	case 2: /* into some mapping */
		return part->addr + small * 8 % part->bytes;
	case 3:
		return part->addr + small * FAKE_PAGE % part->bytes;
	case 4:
		return UINT64_MAX - small;
	case 5:
		return small << (data[3] & 31) << 16;
	case 6:
		return part->addr >> 13;
	default:
		return 1ull << (small & 63);
	}
}

/* @places: where the reader's own words stand, so that changes hit them often. */
static inline int fuzz_allocator(const uint8_t *data, size_t size, void (*build)(struct fake *),
				 const uint64_t *places, unsigned place_count,
				 int (*reader)(struct breakdown *, const struct memory *,
					       struct err *))
{
	static struct fake fake;
	if (!fake.count) {
		build(&fake);
		fake_keep(&fake);
	}
	fake_reset(&fake);
	/* an odd byte at the end says how little work is allowed */
	struct memory_work work = { .left = size % 6 == 1 ? (uint64_t)data[size - 1] << 12
							  : 1ull << 28 };
	fake.memory.work = &work;
	for (; size >= 6; data += 6, size -= 6) {
		unsigned kind = data[0] & 7, which = data[0] >> 3;
		uint64_t off = ((uint64_t)data[1] | (uint64_t)data[2] << 8) * 8;
		struct fake_part *part = &fake.parts[which % fake.count];
		if (kind == 0)
			part->there[off % part->bytes / FAKE_PAGE] ^= 1;
		else if (kind == 1)
			part->used = off * 64 % (part->bytes + 1);
		else if (kind == 2)
			fake_put(&fake, part->addr + off % part->bytes, fuzz_value(&fake, data));
		else
			fake_put(&fake, places[which % place_count] + off % 1024,
				 fuzz_value(&fake, data));
	}
	struct err err = { 0 };
	if (reader(&fake.b, &fake.memory, &err) < 0)
		abort(); /* memory is there */
	if (fake.reads_of_absent)
		abort();
	uint64_t room = 0, resident = 0;
	for (unsigned i = 0; i < fake.count; i++)
		room += fake.parts[i].bytes;
	for (size_t i = 0; i < fake.b.allocator_count; i++) {
		const struct allocator_reading *a = &fake.b.allocators[i];
		uint64_t sum = 0;
		const uint64_t parts[] = { a->free_page_bytes, a->hole_bytes, a->metadata_bytes };
		for (unsigned k = 0; k < 3; k++)
			sum += parts[k] == UINT64_MAX ? 0 : parts[k];
		if (a->live_bytes != UINT64_MAX && (work.spent || a->consistency < 50))
			abort(); /* is not worth telling */
		if (!(a->consistency >= 0 && a->consistency <= 100) ||
		    memchr(a->how, '\0', sizeof(a->how)) == NULL ||
		    (a->live_bytes != UINT64_MAX && a->live_bytes > FUZZ_SUM_MAX))
			abort();
		if (a->resident_bytes == UINT64_MAX)
			continue;
		resident += a->resident_bytes;
		if (sum > a->resident_bytes)
			abort();
	}
	if (resident > room)
		abort();
	return 0;
}

#endif
