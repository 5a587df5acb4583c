/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording without a recorder (source/heap_raw.c): a small sound file whose words are changed and whose end is cut as the
 * bytes say. It is refused or read; nothing outside of it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "source/source.h"
#include "wire/heap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE 4096u
#define SLOTS 2u
#define MODULES 4u
#define NODES 64u
#define STRINGS 64u

struct image {
	_Alignas(PAGE) struct wire_heap_header header;
	_Alignas(PAGE) struct wire_heap_slot slots[SLOTS];
	struct wire_module modules[MODULES];
	char strings[STRINGS];
	struct wire_node nodes[NODES];
	_Alignas(PAGE) uint64_t rings[SLOTS][PAGE / 8];
};

static void put(struct image *image, unsigned slot, uint64_t word)
{
	image->rings[slot][image->slots[slot].head / 8] = word;
	image->slots[slot].head += 8;
}

static void fill(struct image *image)
{
	static const char exe[] = "/usr/bin/true";
	memset(image, 0, sizeof(*image));
	image->header = (struct wire_heap_header){ .magic = WIRE_HEAP_MAGIC,
						   .version = WIRE_HEAP_VERSION,
						   .header_bytes = sizeof(image->header),
						   .total_bytes = sizeof(*image),
						   .slot_count = SLOTS,
						   .module_max = MODULES,
						   .slots_off = offsetof(struct image, slots),
						   .modules_off = offsetof(struct image, modules),
						   .strings_off = offsetof(struct image, strings),
						   .nodes_off = offsetof(struct image, nodes),
						   .string_bytes = STRINGS,
						   .node_max = NODES,
						   .node_count = WIRE_STOP_MAX + 4,
						   .module_count = 1,
						   .string_used = sizeof(exe),
						   .start_cycles = 1000,
						   .start_ns = 1000,
						   .end_cycles = 3000000,
						   .end_ns = 1001000,
						   .target_pid = 1,
						   .exiting = 1 };
	memcpy(image->header.exe, exe, sizeof(exe));
	memcpy(image->strings, exe, sizeof(exe));
	image->modules[0] = (struct wire_module){
		.bias = 0x1000, .lo = 0x1000, .hi = 0x9000, .path_len = sizeof(exe) - 1
	};
	for (uint32_t i = 0; i < 4; i++)
		image->nodes[WIRE_STOP_MAX + i] =
			(struct wire_node){ .pc = 0x2000 + i,
					    .parent = i ? WIRE_STOP_MAX + i - 1 : 0 };
	for (unsigned slot = 0; slot < SLOTS; slot++) {
		image->slots[slot].ring_bytes = PAGE;
		image->slots[slot].ring_off = offsetof(struct image, rings) + slot * PAGE;
		put(image, slot, (uint64_t)(100 + slot) << 8 | WIRE_THREAD);
		put(image, slot, 1000);
		for (uint64_t i = 0; i < 20; i++) {
			uint64_t addr = 0x100000 * (slot + 1) + i * 16;
			put(image, slot, (2000 + i * 1000) << 8 | WIRE_TIME);
			put(image, slot, addr << 8 | WIRE_ALLOC);
			put(image, slot, 16ull << WIRE_NODE_BITS | (WIRE_STOP_MAX + i % 4));
			put(image, slot, addr << 8 | WIRE_FREE);
		}
	}
}

static int define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink, (void)def, (void)err;
	return 0;
}

static int take(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink, (void)err;
	volatile uint64_t last = count ? events[count - 1].time_ns : 0;
	(void)last;
	return 0;
}

/* Ten bytes change one word; the first two cut the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct image image;
	static int fd = -1;
	char path[32];
	size_t bytes = sizeof(image);
	fill(&image);
	if (size >= 2) {
		size_t cut = (size_t)data[0] | (size_t)data[1] << 8;
		bytes -= cut % sizeof(image);
		data += 2;
		size -= 2;
	}
	for (; size >= 10; data += 10, size -= 10) {
		size_t at = ((size_t)data[0] | (size_t)data[1] << 8) * 4 % (sizeof(image) - 8);
		memcpy((char *)&image + at, data + 2, 8);
	}
	if (fd < 0)
		fd = memfd_create("raw", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, &image, bytes, 0) != (ssize_t)bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct err err = { 0 };
	struct sink sink = { .define = define, .put = take };
	struct source_heap *heap = source_heap_raw(path, &err);
	char exe[64];
	if (heap) {
		if (source_heap_finish(heap, &sink, 0, &err) < 0 && !err.msg[0])
			abort();
		source_heap_exe(heap, exe, sizeof(exe));
		size_t len;
		free(source_heap_cmdline(heap, &len));
	} else if (!err.msg[0]) {
		abort();
	}
	source_heap_free(heap);
	return 0;
}
