/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_heart.c - by what the target sees that its recorder lives: beats, ticks, sleep, and the last
 * word at its end.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "source/heap_internal.h"

#define SLEEP_MOST_S 300

/* Shared with another process: not the private kind. */
static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

int source_heap_beat(struct source_heap *heap)
{
	if (heap->tables.raw)
		return 0;
	__atomic_store_n(&heap->tables.header->heartbeat_ns, clock_ns(CLOCK_MONOTONIC),
			 __ATOMIC_RELAXED);
	/* the target counts here, too, where it forks */
	__atomic_fetch_add(&heap->tables.header->tick, 1, __ATOMIC_SEQ_CST);
	/* behind it: whoever has not seen the tick wrote before this */
	uint64_t count = heap->beats;
	heap->beat_ns[count % HEAP_BEATS] = source_heap_now_ns(heap);
	__atomic_store_n(&heap->beats, count + 1, __ATOMIC_RELEASE);
	if (!count) /* the library may be waiting for the first one */
		futex(&heap->tables.header->tick, FUTEX_WAKE, INT32_MAX, NULL);
	return __atomic_load_n(&heap->tables.header->exiting, __ATOMIC_RELAXED) != 0;
}

uint64_t heap_beat_after(const struct source_heap *heap, uint64_t ns)
{
	uint64_t end = __atomic_load_n(&heap->beats, __ATOMIC_ACQUIRE);
	uint64_t lo = end > HEAP_BEATS / 2 ? end - HEAP_BEATS / 2 : 0, hi = end;
	/* the older half may be written over meanwhile */
	while (lo < hi) {
		uint64_t middle = lo + (hi - lo) / 2;
		if (heap->beat_ns[middle % HEAP_BEATS] > ns)
			hi = middle;
		else
			lo = middle + 1;
	}
	return hi < end ? heap->beat_ns[hi % HEAP_BEATS] : UINT64_MAX;
}

uint64_t source_heap_bound_ns(const struct source_heap *heap)
{
	return heap->worst_ns > SOURCE_HEAP_BOUND_NS ? heap->worst_ns : SOURCE_HEAP_BOUND_NS;
}

/* Whether a ring holds more than was read, or the target is about to end. */
static int has_news(const struct source_heap *heap)
{
	const struct wire_heap_header *header = heap->tables.header;
	for (uint32_t i = 0; i < heap->tables.layout.slot_count; i++) {
		const struct wire_heap_slot *slot = heap->merge.rings[i].slot;
		if (!__atomic_load_n(&slot->closed, __ATOMIC_RELAXED) &&
		    __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE) !=
			    __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE))
			return 1;
	}
	return __atomic_load_n(&header->exiting, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&header->exec_called, __ATOMIC_ACQUIRE);
}

void source_heap_sleep(struct source_heap *heap)
{
	struct wire_heap_header *header = heap->tables.header;
	const struct timespec most = { .tv_sec = SLEEP_MOST_S };
	if (heap->tables.raw || source_heap_stay_awake(heap))
		return;
	__atomic_store_n(&header->asleep, 1, __ATOMIC_SEQ_CST);
	/* everybody's next record takes the slow way, which looks whether we sleep */
	__atomic_fetch_add(&header->tick, 1, __ATOMIC_SEQ_CST);
	if (!has_news(heap))
		futex(&header->asleep, FUTEX_WAIT, 1, &most);
	__atomic_store_n(&header->asleep, 0, __ATOMIC_SEQ_CST);
}

void source_heap_wake(struct source_heap *heap)
{
	if (heap->tables.raw)
		return;
	__atomic_store_n(&heap->tables.header->asleep, 0, __ATOMIC_SEQ_CST);
	futex(&heap->tables.header->asleep, FUTEX_WAKE, 1, NULL);
}

int source_heap_stay_awake(const struct source_heap *heap)
{
	return __atomic_load_n(&heap->tables.header->stay_awake, __ATOMIC_ACQUIRE) != 0;
}

int source_heap_exit_waits(struct source_heap *heap, int done)
{
	struct wire_heap_header *header = heap->tables.header;
	if (heap->tables.raw || !__atomic_load_n(&header->exit_waits, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&header->last_block, __ATOMIC_RELAXED))
		return 0;
	if (done) {
		__atomic_store_n(&header->last_block, 1, __ATOMIC_RELEASE);
		futex(&header->last_block, FUTEX_WAKE, INT32_MAX, NULL);
	}
	return 1;
}

unsigned source_heap_asked(const struct source_heap *heap, uint32_t *number)
{
	const struct wire_heap_header *header = heap->tables.header;
	if (heap->tables.raw)
		return 0;
	*number = __atomic_load_n(&header->steer_asked, __ATOMIC_ACQUIRE);
	if (*number == __atomic_load_n(&header->steer_done, __ATOMIC_RELAXED))
		return 0;
	return *number & ((1u << WIRE_STEER_BITS) - 1);
}

void source_heap_answer(struct source_heap *heap, uint32_t number)
{
	__atomic_store_n(&heap->tables.header->steer_done, number, __ATOMIC_RELEASE);
}
