/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload_script.h - the hooks on a scripted allocator: set-up of the shared memory, the next definitions, and the rings
 * read back word by word; runs under ASan, where no preload library could.
 */
#ifndef TESTS_PRELOAD_SCRIPT_H
#define TESTS_PRELOAD_SCRIPT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "preload/fork.h"
#include "preload/helper.h"
#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/next.h"
#include "preload/ring.h"
#include "preload/start.h"
#include "preload/thread.h"

#define RING 4096u
#define SLOTS 2u
#define SCRATCH 65536u

/* What start.c and modules.c do in the library. */
void start_once(void)
{
}
static unsigned late_starts;
void start_late(void)
{
	late_starts++;
}
void start_child(struct thread *t)
{
	(void)t;
}
void modules_left(void)
{
}
int helper_settled(void)
{
	return 1;
}
void modules_unmapped(uint64_t at, uint64_t bytes)
{
	(void)at;
	(void)bytes;
}
static int (*probe)(uint64_t addr); /* NULL: no page can be read */
int page_probe(void *ctx, uint64_t addr)
{
	(void)ctx;
	return probe && probe(addr);
}
static void (*while_walking)(void); /* what a signal handler does in the middle of a hook */
static int no_module(void *ctx, uint64_t pc, struct unwind_module *module)
{
	(void)ctx;
	(void)pc;
	(void)module;
	assert_int_equal(SYNC_KIND(self.sync), SYNC_OWN);
	if (while_walking)
		while_walking();
	return UNWIND_CODE;
}

static char *memory;
static void *unwind_memory;
static uint64_t tail;

/* A caller as the entry stubs see it: the return address is the word below its stack pointer. */
static uint64_t frames[64];
#define CALLER(n, pc) (frames[(n)-1] = (pc), (uint64_t)&frames[n]), 0, 0

static int setup(void **state)
{
	(void)state;
	uint64_t nodes = 4096, off = 4096;
	uint64_t bytes = off + SLOTS * sizeof(struct wire_heap_slot) + 8192 + nodes * 16 +
			 SLOTS * (uint64_t)(RING + SCRATCH) + 65536;
	bytes = (bytes + 4095) & ~4095ULL;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	struct wire_heap_header *h = (struct wire_heap_header *)memory;
	*h = (struct wire_heap_header){ .magic = WIRE_HEAP_MAGIC,
					.version = WIRE_HEAP_VERSION,
					.header_bytes = sizeof(*h),
					.slot_count = SLOTS,
					.slots_off = off,
					.node_max = (uint32_t)nodes,
					.index_entries = 2048,
					.on_full = WIRE_FULL_DROP,
					.node_count = WIRE_STOP_MAX,
					.enabled_wanted = 1,
					.tick = 1 };
	off += 4096;
	h->index_off = off;
	off += h->index_entries * 4;
	h->nodes_off = off;
	off += nodes * 16;
	struct wire_heap_slot *slot = (struct wire_heap_slot *)(memory + h->slots_off);
	for (uint32_t i = 0; i < SLOTS; i++) {
		slot[i].ring_bytes = RING;
		slot[i].scratch_bytes = SCRATCH;
		slot[i].scratch_off = off;
		off += SCRATCH;
		slot[i].ring_off = off;
		off += RING;
	}
	h->total_bytes = bytes;
	uint64_t shared = (unwind_process_bytes() + 4095) & ~4095ULL;
	unwind_memory = aligned_alloc(4096, shared);
	assert_non_null(unwind_memory);
	memset(unwind_memory, 0, shared);
	process =
		(struct process){ .heap = h, .slots = slot, .started = START_DONE, .resolved = 1 };
	process.unwind = unwind_process_init(unwind_memory, h, no_module, page_probe, NULL);
	process.pid = 1;
	self = (struct thread){ .sync = SYNC_UNBORN, .tid = 1 };
	self.stack_lo = (uint64_t)frames;
	self.stack_hi = (uint64_t)(frames + 64);
	self.stack_floor = 1;
	process.have_key = 0; /* the main thread keeps its slot without one */
	proc.word = MODE_ON;
	tail = 0;
	allocator_is_libc = 1;
	cxx_code = (struct code_range){ 0 };
	memset(&next, 0, sizeof(next));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	munmap(memory, process.heap->total_bytes);
	free(unwind_memory);
	return 0;
}

/* ---- reading back ---- */

struct record {
	unsigned tag;
	uint64_t value, size;
	uint32_t node;
};

static uint64_t named;  /* the thread that the last WIRE_THREAD spoke of */
static char called[16]; /* and what the last WIRE_NAME called one */

/* The next block record of slot @number; stamps, pads and threads are passed over. tag 0: nothing more. */
static inline struct record take(unsigned number)
{
	struct wire_heap_slot *slot = &process.slots[number];
	const char *ring = memory + slot->ring_off;
	static const unsigned words[WIRE_TAG_MAX] = {
		[WIRE_PAD] = 1,          [WIRE_FREE] = 1,
		[WIRE_FREE_STACK] = 2,   [WIRE_ALLOC] = 2,
		[WIRE_ALLOC_BIG] = 3,    [WIRE_REALLOC_BEGIN] = 1,
		[WIRE_REALLOC_END] = 2,  [WIRE_REALLOC_END_BIG] = 3,
		[WIRE_REALLOC_FAIL] = 1, [WIRE_TIME] = 1,
		[WIRE_MAP] = 3,          [WIRE_UNMAP] = 3,
		[WIRE_REMAP] = 3,        [WIRE_THREAD] = 2,
		[WIRE_LOST] = 2,         [WIRE_THREAD_END] = 1,
		[WIRE_SWITCH] = 1,       [WIRE_REALLOC_BEGIN_STACK] = 2,
		[WIRE_NAME] = 3,
	};
	while (tail < slot->head) {
		const uint64_t *w = (const uint64_t *)(ring + (tail & (RING - 1)));
		struct record r = { .tag = w[0] & 0xff, .value = w[0] >> 8 };
		assert_true(r.tag < WIRE_TAG_MAX && words[r.tag]);
		assert_true((tail & (RING - 1)) + words[r.tag] * 8 <= RING); /* never split */
		if (words[r.tag] == 2) {
			r.size = w[1] >> WIRE_NODE_BITS;
			r.node = w[1] & (WIRE_NODE_MAX - 1);
		} else if (words[r.tag] == 3) {
			r.size = w[2];
			r.node = (uint32_t)w[1];
		}
		tail += words[r.tag] * 8;
		__atomic_store_n(&slot->tail, tail, __ATOMIC_RELEASE);
		if (r.tag == WIRE_THREAD)
			named = r.value;
		if (r.tag == WIRE_NAME)
			memcpy(called, &w[1], sizeof(called));
		if (r.tag != WIRE_PAD && r.tag != WIRE_TIME && r.tag != WIRE_THREAD &&
		    r.tag != WIRE_NAME)
			return r;
	}
	return (struct record){ 0 };
}

static inline uint64_t pc_of(uint32_t node)
{
	const struct wire_node *nodes = (const void *)(memory + process.heap->nodes_off);
	return nodes[node].pc;
}

/* ---- the script ---- */

static char blocks[8][64];
static void *give; /* what the next definition returns */
static void *freed[8];
static unsigned freed_count;

static void *script_malloc(size_t size)
{
	(void)size;
	return give;
}
static void *script_calloc(size_t n, size_t m)
{
	(void)n;
	(void)m;
	return give;
}
static void *script_realloc(void *old, size_t size)
{
	(void)old;
	(void)size;
	return give;
}
static void script_free(void *block)
{
	if (block)
		freed[freed_count++ % 8] = block;
}

static inline void script(void)
{
	next.malloc = script_malloc;
	next.calloc = script_calloc;
	next.realloc = script_realloc;
	next.free = script_free;
	while_walking = NULL;
	freed_count = 0;
	give = blocks[0];
}

#endif
