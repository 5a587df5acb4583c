/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile heaps: a sound image of a process is changed word by word, pages go missing, mappings end early, as the bytes
 * say. No reading may crash, run on without end, or account for more than there is.
 */
#include "../unit/heap_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t interesting[] = { IMAGE_BRK,
					IMAGE_BRK + 0x10,
					IMAGE_LIBC + 0x1c60,
					IMAGE_HEAP,
					IMAGE_HEAP + 48,
					IMAGE_LARGE,
					IMAGE_BRK_BYTES,
					0x291,
					0x21,
					UINT64_MAX,
					1ull << 63,
					0,
					IMAGE_HEAP_BYTES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct image image;
	if (!image.before) {
		image_init(&image, 112);
		image_fill(&image);
		fake_keep(&image.fake);
	}
	fake_reset(&image.fake);
	for (; size >= 6; data += 6, size -= 6) {
		struct fake_part *part = &image.fake.parts[data[0] & 3];
		uint64_t off = ((uint64_t)data[1] | (uint64_t)data[2] << 8) * 8 % part->bytes;
		uint64_t value = (uint64_t)data[4] | (uint64_t)data[5] << 8;
		switch (data[0] >> 2 & 7) {
		case 0:
			part->there[off / FAKE_PAGE] ^= 1;
			break;
		case 1:
			part->used = off;
			break;
		case 2:
		case 3:
			image_put(&image, part->addr + off, value);
			break;
		case 4:
			image_put(&image, part->addr + off,
				  interesting[data[3] % (sizeof(interesting) / 8)] +
					  (value & ~7ull));
			break;
		case 5: /* where the arenas are */
			image_put(&image, image.main_arena + off % 2200, part->addr + value * 16);
			break;
		case 6:
			image_put(&image, image.arena + off % 2200, part->addr + value * 16);
			break;
		default:
			image_put(&image, part->addr + off % 0x4000, value * 8 + (data[3] & 7));
			break;
		}
	}
	struct glibc_reading r;
	struct err err = { 0 };
	if (glibc_find(&image.fake.memory, image.fake.regions, 4, &r, &err) != 1)
		return 0;
	if (glibc_walk(&image.fake.memory, &r, NULL, &err) < 0)
		abort(); /* memory is there */
	if (image.fake.reads_of_absent)
		abort();
	uint64_t room = 0;
	for (size_t i = 0; i < r.span_count; i++)
		room += r.spans[i].end - r.spans[i].start;
	const struct glibc_totals *t = &r.totals;
	if (t->live_bytes + t->free_bytes + t->tcache_bytes + t->metadata_bytes > room ||
	    t->fastbin_bytes > t->free_bytes ||
	    t->free_page_bytes + t->hole_bytes > t->free_bytes || r.consistency < 0 ||
	    r.consistency > 100)
		abort();
	glibc_fini(&r);
	return 0;
}
