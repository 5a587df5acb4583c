/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks on a scripted allocator, their rings read back word by word; runs under ASan, where no preload library could. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/hooks.h"
#include "preload/next.h"
#include "preload/state.h"

#define RING 4096u
#define SLOTS 2u
#define SCRATCH 65536u

/* What start.c and modules.c do in the library. */
void start_once(void)
{
}
void start_late(void)
{
}
int page_probe(void *ctx, uint64_t addr)
{
	(void)ctx;
	(void)addr;
	return 0;
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

/* The next block record of slot @number; stamps, pads and threads are passed over. tag 0: nothing more. */
static struct record take(unsigned number)
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
		if (r.tag != WIRE_PAD && r.tag != WIRE_TIME && r.tag != WIRE_THREAD)
			return r;
	}
	return (struct record){ 0 };
}

static uint64_t pc_of(uint32_t node)
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

static int unmap_result;
static void *script_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
	(void)at;
	(void)bytes;
	(void)prot;
	(void)flags;
	(void)fd;
	(void)off;
	return give;
}
static int script_munmap(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	assert_int_equal(SYNC_KIND(self.sync), SYNC_OWN);
	return unmap_result;
}
static void *script_mremap(void *old, size_t had, size_t bytes, int flags, ...)
{
	(void)old;
	(void)had;
	(void)bytes;
	(void)flags;
	return give;
}

static void script(void)
{
	next.malloc = script_malloc;
	next.calloc = script_calloc;
	next.realloc = script_realloc;
	next.free = script_free;
	while_walking = NULL;
	freed_count = 0;
	unmap_result = 0;
	give = blocks[0];
}

static void an_allocation_is_written_with_its_requested_size_and_caller(void **state)
{
	(void)state;
	script();
	assert_ptr_equal(hook_malloc(77, CALLER(8, 0x1000)), blocks[0]);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_ALLOC);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	assert_int_equal(r.size, 77);
	assert_int_equal(pc_of(r.node), 0x1000);
	assert_ptr_equal(hook_malloc((size_t)1 << 40, CALLER(8, 0x1000)), blocks[0]);
	r = take(0);
	assert_int_equal(r.tag, WIRE_ALLOC_BIG);
	assert_true(r.size == (uint64_t)1 << 40);
	assert_int_equal(self.sync, proc.word);
}

static void the_plain_way_writes_what_the_guarded_way_writes(void **state)
{
	(void)state;
	script();
	for (int round = 0; round < 2; round++) {
		proc.word = round ? MODE_ON | MODE_PLAIN : MODE_ON;
		hook_malloc(1, CALLER(8, 0x1000)); /* the slow way in */
		assert_int_equal(take(0).tag, WIRE_ALLOC);
		hook_malloc(5, CALLER(8, 0x1000));
		hook_calloc(3, 7, CALLER(8, 0x1000));
		hook_free(blocks[0], CALLER(8, 0x1000));
		hook_free(NULL, CALLER(8, 0x1000));
		give = NULL;
		assert_null(hook_malloc(6, CALLER(8, 0x1000)));
		assert_null(hook_calloc(SIZE_MAX, 2, CALLER(8, 0x1000)));
		give = blocks[0];
		assert_int_equal(take(0).size, 5);
		assert_int_equal(take(0).size, 21);
		assert_int_equal(take(0).tag, WIRE_FREE);
		assert_int_equal(take(0).tag, 0);
		assert_int_equal(self.sync, proc.word);
	}
}

static void a_failed_realloc_frees_nothing(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	give = NULL;
	assert_null(hook_realloc(blocks[0], 500, CALLER(8, 0x1000)));
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_FAIL);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	/* of zero bytes: a free, and no allocation where nothing came back */
	assert_null(hook_realloc(blocks[0], 0, CALLER(8, 0x1000)));
	assert_int_equal(take(0).tag, WIRE_FREE);
	assert_int_equal(take(0).tag, 0);
	give = blocks[1];
	assert_ptr_equal(hook_realloc(NULL, 9, CALLER(8, 0x1000)), blocks[1]);
	assert_int_equal(take(0).tag, WIRE_ALLOC);
	assert_ptr_equal(hook_reallocarray(blocks[1], 4, 25, CALLER(8, 0x1000)), blocks[1]);
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_END);
	assert_int_equal(r.size, 100);
	assert_null(hook_reallocarray(blocks[1], SIZE_MAX, 25, CALLER(8, 0x1000)));
	assert_int_equal(take(0).tag, 0);
}

static void *runtime_new(size_t size, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	return hook_malloc(size ? size : 1,
			   CALLER(8, 0x5555)); /* from within the runtime, below its caller */
}

static void *other_new(size_t size, uintptr_t b, uintptr_t c)
{
	(void)size;
	(void)b;
	(void)c;
	return blocks[2];
}

static void an_operator_new_is_one_allocation_whoever_serves_it(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	next.cxx_new[NEW] = runtime_new;
	assert_ptr_equal(hook_new(0, CALLER(16, 0x1234)), blocks[0]);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_ALLOC);
	assert_int_equal(r.size, 0); /* what was asked for, not what the runtime makes of it */
	assert_int_equal(pc_of(r.node), 0x1234);
	assert_int_equal(take(0).tag, 0);
	next.cxx_new[NEW] = other_new;
	assert_ptr_equal(hook_new(31, CALLER(16, 0x1234)), blocks[2]);
	r = take(0);
	assert_int_equal(r.value, (uint64_t)blocks[2]);
	assert_int_equal(r.size, 31);
	assert_int_equal(take(0).tag, 0);
}

static void *jumping_newa(size_t size, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	/* operator new[] of libstdc++ is a jump to operator new: its caller seems to be our own hook */
	return hook_new(size, CALLER(12, 0x7001));
}

static void an_operator_that_jumps_to_another_is_no_caller(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	own_code = (struct code_range){ 0x7000, 0x8000 };
	next.cxx_new[NEW] = runtime_new;
	next.cxx_new[NEWA] = jumping_newa;
	assert_ptr_equal(hook_newa(24, CALLER(16, 0x1234)), blocks[0]);
	struct record r = take(0);
	assert_int_equal(r.size, 24);
	assert_int_equal(pc_of(r.node), 0x1234);
	assert_int_equal(take(0).tag, 0);
	own_code = (struct code_range){ 0 };
}

static void one_left_by_an_exception_is_not_taken_for_the_caller(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	self.outer = (struct outer){
		.sp = (uint64_t)&frames[20], .pc = 0x9999, .code = &cxx_code, .size = 1
	};
	frames[19] = 0x7777; /* the word is gone */
	hook_malloc(40, CALLER(8, 0x5555));
	struct record r = take(0);
	assert_int_equal(r.size, 40);
	assert_int_equal(pc_of(r.node), 0x5555);
}

static void a_failed_realloc_on_a_full_ring_loses_nothing(void **state)
{
	(void)state;
	script();
	struct wire_heap_slot *slot = &process.slots[0];
	while (!slot->lost[WIRE_LOST_RING_FULL].allocations)
		hook_malloc(1, CALLER(8, 0x1000));
	give = NULL;
	hook_realloc(blocks[1], 50, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].frees, 0);
	give = blocks[2];
	hook_realloc(blocks[1], 50, CALLER(8, 0x1000));
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].frees, 1);
	assert_int_equal(slot->lost[WIRE_LOST_RING_FULL].allocations, 2);
}

static void with_free_stacks_a_realloc_has_the_stack_of_its_free(void **state)
{
	(void)state;
	script();
	process.free_stacks = 1;
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	hook_realloc(blocks[0], 30, CALLER(8, 0x2000));
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_BEGIN_STACK);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	assert_int_equal(pc_of(r.node), 0x2000);
	assert_int_equal(take(0).tag, WIRE_REALLOC_END);
}

static void what_a_closed_ring_refuses_is_counted(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	process.slots[0].closed = 1;
	process.heap->tick++;
	hook_malloc(7, CALLER(8, 0x1000));
	assert_int_equal(process.slots[0].lost[WIRE_LOST_RING_FULL].allocations, 1);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_RING_FULL].bytes, 7);
}

static void switched_off_a_realloc_is_the_free_of_its_old_block(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	assert_int_equal(take(0).tag, WIRE_ALLOC);
	proc.word = MODE_SUSPENDED;
	process.heap->enabled_wanted = 0;
	give = NULL;
	hook_realloc(blocks[0], 90, CALLER(8, 0x1000));
	assert_int_equal(take(0).tag, 0);
	give = blocks[1];
	hook_realloc(blocks[0], 90, CALLER(8, 0x1000));
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_FREE);
	assert_int_equal(r.value, (uint64_t)blocks[0]);
	assert_int_equal(take(0).tag, 0);
}

static void *failing_new(size_t size, uintptr_t b, uintptr_t c)
{
	(void)size;
	(void)b;
	(void)c;
	void *thrown = hook_malloc(144, CALLER(8, 0x5555)); /* the exception */
	assert_ptr_equal(thrown, blocks[3]);
	return NULL; /* stands for the throw: nothing of the hook may run afterwards */
}

static void *aligned_new(size_t size, uintptr_t align, uintptr_t c)
{
	(void)c;
	return hook_aligned_alloc(align, (size + align - 1) & ~(align - 1), CALLER(8, 0x5555));
}

static void *script_aligned(size_t align, size_t size)
{
	(void)align;
	(void)size;
	return give;
}

static void what_a_failed_operator_new_allocates_is_not_what_was_asked_for(void **state)
{
	(void)state;
	script();
	cxx_code = (struct code_range){ 0x5000, 0x6000 };
	next.cxx_new[NEW] = failing_new;
	give = blocks[3];
	hook_new((size_t)1 << 61, CALLER(16, 0x1234));
	struct record r = take(0);
	assert_int_equal(r.size, 144);
	assert_int_equal(pc_of(r.node), 0x5555);
	assert_int_equal(take(0).tag, 0);
	/* an aligned one is rounded up by the runtime, and still the one */
	next.aligned_alloc = script_aligned;
	next.cxx_new[NEW_AL] = aligned_new;
	hook_new_al(100, 64, CALLER(16, 0x1234));
	r = take(0);
	assert_int_equal(r.size, 100);
	assert_int_equal(pc_of(r.node), 0x1234);
	assert_int_equal(take(0).tag, 0);
}

static size_t freed_size;
static void script_free_sized(void *block, size_t size)
{
	freed_size = size;
	hook_free(block, CALLER(8, 0x5555)); /* as an allocator that is built so */
}

static void a_sized_free_is_one_free_and_reaches_the_next_definition(void **state)
{
	(void)state;
	script();
	hook_malloc(48, CALLER(8, 0x1000));
	take(0);
	next.free_sized = script_free_sized;
	hook_free_sized(blocks[0], 48, CALLER(8, 0x1000));
	assert_int_equal(freed_size, 48);
	assert_int_equal(freed_count, 1);
	assert_int_equal(take(0).tag, WIRE_FREE);
	assert_int_equal(take(0).tag, 0);
	next.free_sized = NULL;
	hook_free_sized(blocks[0], 48, CALLER(8, 0x1000));
	assert_int_equal(freed_count, 2);
	assert_int_equal(take(0).tag, WIRE_FREE);
}

static void delete_to_free(void *block, uintptr_t b, uintptr_t c)
{
	(void)b;
	(void)c;
	hook_free(block, CALLER(8, 0x5555));
}

static void an_operator_delete_is_one_free(void **state)
{
	(void)state;
	script();
	next.cxx_delete[DEL] = delete_to_free;
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	hook_del(blocks[0], CALLER(16, 0x1234));
	hook_del(NULL, CALLER(16, 0x1234));
	assert_int_equal(freed_count, 1);
	assert_int_equal(take(0).tag, WIRE_FREE);
	assert_int_equal(take(0).tag, 0);
	hook_free(blocks[0], CALLER(8, 0x1000)); /* the same address again is another free */
	assert_int_equal(take(0).tag, WIRE_FREE);
}

static void *nested_malloc(size_t size)
{
	if (size == 100)
		hook_malloc(7,
			    CALLER(4, 0x1000)); /* as a signal handler would, in the middle of it */
	return blocks[0];
}

static void a_call_within_a_call_is_counted_or_is_the_allocators_own(void **state)
{
	(void)state;
	script();
	next.malloc = nested_malloc;
	hook_malloc(100, CALLER(8, 0x1000));
	assert_int_equal(take(0).size, 100);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_NESTED].allocations, 1);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_NESTED].bytes, 7);
	allocator_is_libc = 0;
	allocator_lo = 0x1000;
	allocator_hi = 0x2000;
	hook_malloc(100, CALLER(8, 0x9000));
	assert_int_equal(take(0).size, 100);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(process.slots[0].lost[WIRE_LOST_NESTED].allocations, 1);
}

static void the_child_of_a_fork_writes_nothing(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	uint64_t head = process.slots[0].head;
	proc.word = 0; /* as the kernel leaves the page */
	hook_malloc(2, CALLER(8, 0x1000));
	hook_free(blocks[0], CALLER(8, 0x1000));
	hook_realloc(blocks[0], 10, CALLER(8, 0x1000));
	assert_int_equal(process.slots[0].head, head);
	assert_int_equal(freed_count, 1);
}

static void *forking_malloc(size_t size)
{
	(void)size;
	proc.word = 0; /* a signal handler forked here, and this is the child */
	return blocks[0];
}

static void a_fork_in_the_middle_of_a_call_leaves_the_ring_alone(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++) {
		script();
		proc.word = round ? MODE_ON | MODE_PLAIN : MODE_ON;
		hook_malloc(1, CALLER(8, 0x1000));
		uint64_t head = process.slots[0].head;
		next.malloc = forking_malloc;
		assert_ptr_equal(hook_malloc(2, CALLER(8, 0x1000)), blocks[0]);
		assert_int_equal(process.slots[0].head, head);
	}
}

static void a_full_ring_counts_loss_and_keeps_older_records(void **state)
{
	(void)state;
	script();
	for (int i = 0; i < 1000; i++)
		hook_malloc(10, CALLER(8, 0x1000));
	unsigned kept = 0;
	while (take(0).tag == WIRE_ALLOC)
		kept++;
	const struct wire_lost_count *lost = &process.slots[0].lost[WIRE_LOST_RING_FULL];
	assert_true(kept > 200 && kept < 256);
	assert_int_equal(lost->allocations, 1000 - kept);
	assert_int_equal(lost->bytes, 10 * (1000 - kept));
	hook_free(blocks[0], CALLER(8, 0x1000));
	struct record r = take(0); /* the next one that fits says how many are missing before it */
	assert_int_equal(r.tag, WIRE_LOST);
	assert_int_equal(r.value, 1000 - kept);
	assert_int_equal(take(0).tag, WIRE_FREE);
}

static void a_reallocs_end_always_fits_behind_its_beginning(void **state)
{
	(void)state;
	script();
	give = blocks[1];
	for (int fill = 0; fill < 300; fill++) {
		/* every fill level of the ring, up to full */
		for (int i = 0; i < fill; i++)
			hook_free(blocks[0], CALLER(8, 0x1000));
		hook_realloc(blocks[0], fill & 1 ? (size_t)1 << 40 : 8, CALLER(8, 0x1000));
		unsigned begun = 0, ended = 0;
		for (struct record r = take(0); r.tag; r = take(0)) {
			begun += r.tag == WIRE_REALLOC_BEGIN;
			ended += r.tag == WIRE_REALLOC_END || r.tag == WIRE_REALLOC_END_BIG;
		}
		assert_int_equal(begun, ended);
	}
}

static void no_record_is_lost_or_split_over_a_hundred_laps(void **state)
{
	(void)state;
	script();
	uint64_t seen = 0, sent = 0, random = 1;
	while (sent < 50000) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		unsigned burst = random >> 59;
		for (unsigned i = 0; i < burst; i++, sent++) {
			if ((random >> i) & 1)
				hook_free(blocks[0], CALLER(8, 0x1000));
			else
				hook_malloc((random >> i) & 2 ? 8 : (size_t)1 << 40,
					    CALLER(8, 0x1000));
		}
		process.heap->tick += (random >> 40) & 1;
		while (take(0).tag)
			seen++;
	}
	assert_int_equal(seen, sent);
}

static void without_a_free_slot_calls_are_counted(void **state)
{
	(void)state;
	script();
	process.slots[0].owner = process.slots[1].owner = 99;
	hook_malloc(10, CALLER(8, 0x1000));
	hook_free(blocks[0], CALLER(8, 0x1000));
	assert_int_equal(process.heap->lost[WIRE_LOST_NO_SLOT].allocations, 1);
	assert_int_equal(process.heap->lost[WIRE_LOST_NO_SLOT].bytes, 10);
	assert_int_equal(process.heap->lost[WIRE_LOST_NO_SLOT].frees, 1);
	/* one becomes free: taken for an event at a time, and given back */
	process.slots[1].owner = 0;
	hook_malloc(11, CALLER(8, 0x1000));
	assert_int_equal(process.slots[1].owner, 0);
	assert_int_equal(take(1).size, 11);
}

static jmp_buf out;
static void *jumping_realloc(void *old, size_t size)
{
	(void)old;
	(void)size;
	longjmp(out, 1); /* as a signal handler may */
}
static void jump_out(void)
{
	while_walking = NULL;
	hook_malloc(5, CALLER(20, 0x1000)); /* deeper, in the handler: the hook is still there */
	longjmp(out, 1);
}

static void a_jump_out_of_a_hook_does_not_silence_its_thread(void **state)
{
	(void)state;
	script();
	next.realloc = jumping_realloc;
	if (setjmp(out) == 0)
		hook_realloc(blocks[1], 50, CALLER(24, 0x1000));
	const struct wire_lost_count *lost = &process.slots[0].lost[WIRE_LOST_NESTED];
	hook_malloc(6,
		    CALLER(23, 0x1000)); /* deeper still: as far as anybody knows, in the handler */
	assert_int_equal(lost->allocations, 1);
	hook_malloc(7, CALLER(28, 0x1000));
	assert_int_equal(take(0).tag, WIRE_REALLOC_BEGIN);
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_REALLOC_FAIL);
	assert_ptr_equal(r.value, blocks[1]);
	assert_int_equal(take(0).size, 7);
	/* out of the stepper, whose memory was in the middle of a change */
	while_walking = jump_out;
	if (setjmp(out) == 0)
		hook_malloc(8, CALLER(24, 0x2000));
	assert_int_equal(lost->allocations, 2);
	hook_malloc(9, CALLER(28, 0x2000));
	r = take(0);
	assert_int_equal(r.size, 9);
	assert_int_equal(pc_of(r.node), 0x2000);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(self.sync, proc.word);
}

static int parent_waited;
static void fork_here(void)
{
	static char before[RING + SCRATCH];
	const struct wire_heap_slot *slot = &process.slots[0];
	uint64_t head = slot->head;
	while_walking = NULL;
	memcpy(before, memory + slot->scratch_off, sizeof(before));
	fork_prepare();
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		proc.word = 0;
		fork_child();
		return;
	}
	fork_parent();
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(slot->head, head);
	assert_memory_equal(before, memory + slot->scratch_off, sizeof(before));
	parent_waited++;
}

static void a_fork_out_of_the_stepper_leaves_the_parents_memory_alone(void **state)
{
	(void)state;
	script();
	hook_malloc(1, CALLER(8, 0x1000));
	take(0);
	pid_t parent = getpid();
	struct wire_heap_slot *slot = &process.slots[0];
	uint64_t before = slot->head;
	parent_waited = 0;
	while_walking = fork_here;
	process.heap->tick++; /* a stamp is due: the ring would be written even before the record */
	hook_malloc(2, CALLER(8, 0x2000));
	if (getpid() != parent) {
		int bad = hook_malloc(3, CALLER(8, 0x3000)) != blocks[0];
		_exit(bad);
	}
	assert_int_equal(parent_waited, 1);
	struct record r = take(0);
	assert_int_equal(r.size, 2);
	assert_int_equal(pc_of(r.node), 0x2000);
	assert_int_equal(take(0).tag, 0);
	assert_int_equal(slot->head - before, 8 + 16);
	hook_malloc(4, CALLER(8, 0x2000));
	assert_int_equal(take(0).node, r.node);
}

static void calls_of_other_threads_during_the_start_are_counted(void **state)
{
	(void)state;
	script();
	const struct wire_lost_count *lost = &process.heap->lost[WIRE_LOST_EARLY];
	for (int off = 0; off < 2; off++) {
		process.started = START_BUSY;
		proc.word = 0;
		next.malloc = NULL; /* not even the table is filled */
		next.calloc = NULL;
		assert_true(boot_owns(hook_malloc(10, CALLER(8, 0x1000))));
		assert_true(boot_owns(hook_calloc(2, 10, CALLER(8, 0x1000))));
		script();
		assert_ptr_equal(hook_malloc(30, CALLER(8, 0x1000)), blocks[0]);
		hook_free(blocks[0], CALLER(8, 0x1000));
		assert_int_equal(lost->allocations, 0);
		/* switched off at the start: nothing was to be recorded */
		proc.word = off ? MODE_ON : MODE_SUSPENDED;
		process.started = START_DONE;
		count_early();
		assert_int_equal(lost->allocations, off ? 6 : 0);
		assert_int_equal(lost->bytes, off ? 120 : 0);
		assert_int_equal(lost->frees, off ? 2 : 0);
		assert_int_equal(take(0).tag, 0);
	}
}

static void region_records_that_a_full_ring_refuses_are_counted(void **state)
{
	(void)state;
	script();
	next.mmap = script_mmap;
	next.munmap = script_munmap;
	next.mremap = script_mremap;
	give = blocks[0];
	unsigned kept = 0;
	for (int i = 0; i < 300; i++)
		hook_mmap(NULL, 4096, 3, 2, -1, 0, CALLER(8, 0x1000));
	hook_munmap(give, 4096, CALLER(8, 0x1000));
	hook_mremap(give, 4096, 8192, 1, NULL, 0, CALLER(8, 0x1000));
	while (take(0).tag == WIRE_MAP)
		kept++;
	assert_true(kept > 100 && kept < 300);
	const struct wire_lost_count *lost = process.slots[0].lost;
	assert_int_equal(lost[WIRE_LOST_REGION].allocations, 300 - kept + 1 + 2);
	assert_int_equal(lost[WIRE_LOST_REGION].frees, 0);
	assert_int_equal(lost[WIRE_LOST_RING_FULL].allocations, 0);
}

static void only_an_unmap_that_succeeded_is_written(void **state)
{
	(void)state;
	script();
	next.munmap = script_munmap;
	unmap_result = -1;
	hook_munmap(blocks[1], 4096, CALLER(8, 0x1000));
	assert_int_equal(take(0).tag, 0);
	unmap_result = 0;
	hook_munmap(blocks[1], 8192, CALLER(8, 0x1000));
	struct record r = take(0);
	assert_int_equal(r.tag, WIRE_UNMAP);
	assert_int_equal(r.value, (uint64_t)blocks[1]);
	assert_int_equal(r.size, 8192);
	assert_int_equal(take(0).tag, 0);
}

static void the_boot_pool_is_aligned_bounded_and_checked(void **state)
{
	(void)state;
	char *a = boot_alloc(3, 1), *b = boot_alloc(5, 256);
	assert_non_null(a);
	assert_int_equal((uintptr_t)a & 15, 0);
	assert_int_equal((uintptr_t)b & 255, 0);
	assert_true(b >= a + 3 && boot_owns(a) && boot_owns(b));
	assert_int_equal(boot_size(a), 3);
	assert_int_equal(boot_size(b), 5);
	assert_null(boot_alloc(SIZE_MAX, 16));
	assert_null(boot_alloc(SIZE_MAX - 100, 64));
	unsigned given = 0;
	for (char *p; (p = boot_alloc(1000, 16)); given++)
		assert_true(boot_owns(p) && boot_owns(p + 999));
	assert_true(given > 50 && given < 66);
	/* a block of the pool is never handed to the allocator */
	script();
	hook_free(a, CALLER(8, 0x1000));
	assert_int_equal(freed_count, 0);
	memcpy(a, "ab", 3);
	char *moved = hook_realloc(a, 40, CALLER(8, 0x1000));
	assert_ptr_equal(moved, blocks[0]);
	assert_memory_equal(moved, "ab", 3);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(an_allocation_is_written_with_its_requested_size_and_caller),
		CASE(the_plain_way_writes_what_the_guarded_way_writes),
		CASE(a_failed_realloc_frees_nothing),
		CASE(an_operator_new_is_one_allocation_whoever_serves_it),
		CASE(an_operator_that_jumps_to_another_is_no_caller),
		CASE(one_left_by_an_exception_is_not_taken_for_the_caller),
		CASE(a_failed_realloc_on_a_full_ring_loses_nothing),
		CASE(with_free_stacks_a_realloc_has_the_stack_of_its_free),
		CASE(what_a_closed_ring_refuses_is_counted),
		CASE(switched_off_a_realloc_is_the_free_of_its_old_block),
		CASE(what_a_failed_operator_new_allocates_is_not_what_was_asked_for),
		CASE(a_sized_free_is_one_free_and_reaches_the_next_definition),
		CASE(an_operator_delete_is_one_free),
		CASE(a_call_within_a_call_is_counted_or_is_the_allocators_own),
		CASE(the_child_of_a_fork_writes_nothing),
		CASE(a_fork_in_the_middle_of_a_call_leaves_the_ring_alone),
		CASE(a_full_ring_counts_loss_and_keeps_older_records),
		CASE(a_reallocs_end_always_fits_behind_its_beginning),
		CASE(no_record_is_lost_or_split_over_a_hundred_laps),
		CASE(without_a_free_slot_calls_are_counted),
		CASE(a_jump_out_of_a_hook_does_not_silence_its_thread),
		CASE(a_fork_out_of_the_stepper_leaves_the_parents_memory_alone),
		CASE(calls_of_other_threads_during_the_start_are_counted),
		CASE(region_records_that_a_full_ring_refuses_are_counted),
		CASE(only_an_unmap_that_succeeded_is_written),
		CASE(the_boot_pool_is_aligned_bounded_and_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
