/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_producer.h - what the preload library does to the shared file, in a few lines, for tests of the recorder's side;
 * and a sink that keeps books of its own and counts every contradiction.
 */
#ifndef TESTS_RING_PRODUCER_H
#define TESTS_RING_PRODUCER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/event.h"
#include "source/source.h"
#include "wire/heap.h"

struct producer {
	char *base;
	struct wire_heap_header *header;
	struct wire_heap_slot *slot;
	char *ring;
};

static inline void producer_open(struct producer *p, struct source_heap *heap, uint32_t slot)
{
	int fd = source_heap_fd(heap);
	p->base = mmap(NULL, sizeof(struct wire_heap_header), PROT_READ, MAP_SHARED, fd, 0);
	uint64_t total = ((struct wire_heap_header *)p->base)->total_bytes;
	munmap(p->base, sizeof(struct wire_heap_header));
	p->base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p->header = (struct wire_heap_header *)p->base;
	p->slot = (struct wire_heap_slot *)(p->base + p->header->slots_off) + slot;
	p->ring = p->base + p->slot->ring_off;
}

static inline void producer_close(struct producer *p)
{
	munmap(p->base, p->header->total_bytes);
}

static inline void produce(struct producer *p, unsigned count, uint64_t w0, uint64_t w1,
			   uint64_t w2)
{
	uint64_t head = p->slot->head, mask = p->slot->ring_bytes - 1;
	const uint64_t words[3] = { w0, w1, w2 };
	while (head + count * 8 - __atomic_load_n(&p->slot->tail, __ATOMIC_ACQUIRE) > mask + 1)
		sched_yield();
	for (unsigned i = 0; i < count; i++)
		*(uint64_t *)(p->ring + ((head + i * 8) & mask)) = words[i];
	__atomic_store_n(&p->slot->head, head + count * 8, __ATOMIC_RELEASE);
}

static inline uint64_t word0(enum wire_tag tag, uint64_t value)
{
	return value << 8 | tag;
}

static inline void produce_thread(struct producer *p, uint32_t tid)
{
	produce(p, 2, word0(WIRE_THREAD, tid), p->header->start_cycles, 0);
}

static inline void produce_alloc(struct producer *p, uint64_t addr, uint64_t size, uint32_t node)
{
	if (size < WIRE_SIZE_SMALL)
		produce(p, 2, word0(WIRE_ALLOC, addr), size << WIRE_NODE_BITS | node, 0);
	else
		produce(p, 3, word0(WIRE_ALLOC_BIG, addr), node, size);
}

static inline void produce_free(struct producer *p, uint64_t addr)
{
	produce(p, 1, word0(WIRE_FREE, addr), 0, 0);
}

static inline void produce_realloc(struct producer *p, uint64_t old, uint64_t addr, uint64_t size,
				   uint32_t node)
{
	produce(p, 1, word0(WIRE_REALLOC_BEGIN, old), 0, 0);
	produce(p, 2, word0(WIRE_REALLOC_END, addr), size << WIRE_NODE_BITS | node, 0);
}

/* ---- a sink that checks ------------------------------------------------------------------------------------------- */

#define BOOKS_BLOCKS 65536

struct books {
	struct sink sink;
	/* broken promises of event.h */
	uint64_t wrong;
	uint64_t allocs, frees, foreign, reallocs, temporary, implied, uncertain;
	uint64_t lost_allocs, lost_frees, lost_bytes, lost_events[LOSS_REASON_MAX];
	uint64_t live, live_bytes, last_ns, allocs_at_loss;
	uint32_t stacks, frames, modules, threads;
	struct event last;
	struct {
		uint64_t addr, bytes;
		uint32_t stack;
		bool live;
	} block[BOOKS_BLOCKS];
	struct {
		uint32_t parent, frame;
		uint8_t stop;
	} stack[BOOKS_BLOCKS];
	struct {
		uint32_t module;
		uint64_t offset;
	} frame[BOOKS_BLOCKS];
	struct {
		uint32_t tid;
		char name[32];
	} thread[BOOKS_BLOCKS + 1];
};

static inline int books_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct books *b = (struct books *)sink;
	(void)err;
	if (def->kind == DEF_STACK) {
		b->wrong += def->id != ++b->stacks || def->stack.parent.v >= def->id ||
			    (!def->stack.stop &&
			     (def->stack.frame.v == 0 || def->stack.frame.v > b->frames));
		b->stack[def->id].parent = def->stack.parent.v;
		b->stack[def->id].frame = def->stack.frame.v;
		b->stack[def->id].stop = def->stack.stop;
	} else if (def->kind == DEF_FRAME) {
		b->wrong += def->id != ++b->frames || def->frame.module.v > b->modules;
		b->frame[def->id].module = def->frame.module.v;
		b->frame[def->id].offset = def->frame.offset;
	} else if (def->kind == DEF_MODULE) {
		b->wrong += def->id != ++b->modules;
	} else if (def->kind == DEF_THREAD) {
		if (def->id == b->threads)
			b->threads++;
		b->wrong += def->id >= b->threads;
		if (def->id > BOOKS_BLOCKS)
			return 0;
		b->thread[def->id].tid = def->thread.tid;
		strncpy(b->thread[def->id].name, def->thread.name ? def->thread.name : "", 31);
	}
	return 0;
}

static inline int books_put(struct sink *sink, const struct event *events, size_t count,
			    struct err *err)
{
	struct books *b = (struct books *)sink;
	(void)err;
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		b->wrong += e->time_ns < b->last_ns;
		b->last_ns = e->time_ns;
		b->last = *e;
		b->wrong += e->stack.v > b->stacks || e->aux_stack.v > b->stacks;
		switch (e->kind) {
		case EVENT_ALLOC:
			if (e->flags & EVENT_F_UNCERTAIN) {
				b->uncertain++;
				b->wrong += !b->block[e->block.v].live;
				break;
			}
			b->allocs++;
			b->reallocs += (e->flags & EVENT_F_REALLOC) != 0;
			b->wrong += b->block[e->block.v].live || e->thread.v >= b->threads;
			b->block[e->block.v].live = true;
			b->block[e->block.v].addr = e->addr;
			b->block[e->block.v].bytes = e->bytes;
			b->block[e->block.v].stack = e->stack.v;
			b->live++;
			b->live_bytes += e->bytes;
			break;
		case EVENT_FREE:
			if (e->flags & EVENT_F_IMPLIED)
				b->implied++;
			else
				b->frees++;
			b->temporary += (e->flags & EVENT_F_TEMPORARY) != 0;
			b->wrong += !b->block[e->block.v].live ||
				    b->block[e->block.v].addr != e->addr ||
				    b->block[e->block.v].bytes != e->bytes ||
				    b->block[e->block.v].stack != e->stack.v;
			b->block[e->block.v].live = false;
			b->live--;
			b->live_bytes -= e->bytes;
			break;
		case EVENT_FREE_FOREIGN:
			b->foreign++;
			break;
		case EVENT_LOST:
			b->lost_events[e->value]++;
			b->allocs_at_loss = b->allocs;
			b->lost_allocs += e->addr;
			b->lost_bytes += e->bytes;
			b->lost_frees += e->block.v;
			break;
		default:
			break;
		}
	}
	return 0;
}

static inline struct books *books_new(void)
{
	struct books *b = calloc(1, sizeof(*b));
	b->sink = (struct sink){ .define = books_define, .put = books_put };
	return b;
}

#endif
