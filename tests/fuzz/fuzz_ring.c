/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile rings: the bytes are dealt out to the node table, the module table and two rings of a shared file, heads are
 * moved as they say, and the recorder drains after each step. No byte may crash it, make it loop, or break the promises
 * that events carry (ring_producer.h's books).
 */
#include "../unit/ring_producer.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEP 64

static void put_bytes(struct producer *p, const uint8_t *data, size_t size)
{
	uint64_t head = p->slot->head;
	for (size_t i = 0; i < size; i++)
		p->ring[(head + i) & (p->slot->ring_bytes - 1)] = (char)data[i];
	p->slot->head = head + (size + 7) / 8 * 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct source_heap_opt opt = { .budget_bytes = 48u << 20 };
	struct err err = { 0 };
	struct source_heap *heap = source_heap_new(&opt, &err);
	struct producer p[2];
	if (!heap)
		return 0;
	struct books *books = books_new();
	for (uint32_t i = 0; i < 2; i++) {
		producer_open(&p[i], heap, i);
		produce_thread(&p[i], 100 + i);
	}
	struct wire_node *nodes = (struct wire_node *)(p[0].base + p[0].header->nodes_off);
	for (uint32_t i = 0; i < 8; i++)
		nodes[WIRE_STOP_MAX + i] = (struct wire_node){ .pc = 0x1000 + i, .parent = i };
	while (size > 1) {
		uint8_t what = *data++;
		size_t take = --size < STEP ? size : STEP;
		switch (what & 7) {
		case 0: { /* a node */
			uint32_t at = what >> 3;
			memcpy(&nodes[at], data, take < sizeof(*nodes) ? take : sizeof(*nodes));
			break;
		}
		case 1: { /* a module */
			struct wire_module *rows =
				(struct wire_module *)(p[0].base + p[0].header->modules_off);
			memcpy(&rows[what >> 3], data, take);
			p[0].header->module_count = (uint32_t)(what >> 3) + 1;
			break;
		}
		case 2: /* a head anywhere */
			if (take >= 8)
				memcpy(&p[what >> 7].slot->head, data, 8);
			break;
		case 3: /* losses */
			memcpy(p[what >> 7].slot->lost, data, take);
			break;
		default:
			put_bytes(&p[what >> 7], data, take);
			break;
		}
		data += take;
		size -= take;
		if (source_heap_drain(heap, &books->sink, &err) < 0)
			abort(); /* the sink never fails */
	}
	if (source_heap_finish(heap, &books->sink, 0, &err) < 0 || books->wrong)
		abort();
	for (int i = 0; i < 2; i++)
		producer_close(&p[i]);
	source_heap_free(heap);
	free(books);
	return 0;
}
