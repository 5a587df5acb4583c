/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_clock.c - cycle counts to nanoseconds. Between two moments at which both clocks were read
 * time is interpolated, so the mapping is continuous and monotone whatever the counter's rate does;
 * nothing has to be known about the processor.
 */
#include "source/heap_clock.h"

#include <time.h>

#include "base/clock.h"

#define SAMPLE_EVERY_NS 500000
#define SAMPLE_TRIES 4
#define SAMPLE_GOOD_CYCLES 2000
#define STAMP_BITS 56

uint64_t heap_cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
#error "no cycle counter known for this architecture"
#endif
}

void heap_clock_init(struct heap_clock *clock, uint64_t start_cycles, uint64_t start_ns)
{
	clock->first = 0;
	clock->count = 1;
	clock->start_ns = start_ns;
	/*
	 * a guess of 1 GHz until the second anchor is there, which is before the first conversion
	 */
	clock->anchors[0] = (struct heap_anchor){ start_cycles, start_ns, 1.0 };
}

static struct heap_anchor *anchor_at(const struct heap_clock *clock, uint32_t i)
{
	return (struct heap_anchor *)&clock->anchors[(clock->first + i) % HEAP_ANCHORS];
}

void heap_clock_add(struct heap_clock *clock, uint64_t cycles, uint64_t ns)
{
	struct heap_anchor *last = anchor_at(clock, clock->count - 1);
	if (cycles == last->cycles || ns <= last->ns)
		return;
	if (cycles < last->cycles) {
		/*
		 * a suspended or moved machine: the counter began anew, and what stands in the
		 * rings from before is past
		 */
		const double slope = last->slope;
		clock->first = 0;
		clock->count = 1;
		clock->anchors[0] = (struct heap_anchor){ cycles, ns, slope };
		return;
	}
	last->slope = (double)(ns - last->ns) / (double)(cycles - last->cycles);
	double slope = last->slope;
	if (clock->count == HEAP_ANCHORS)
		clock->first = (clock->first + 1) % HEAP_ANCHORS;
	else
		clock->count++;
	*anchor_at(clock, clock->count - 1) = (struct heap_anchor){ cycles, ns, slope };
}

void heap_clock_sample(struct heap_clock *clock)
{
	uint64_t best = UINT64_MAX, cycles = 0, ns = 0;
	if (clock_ns(CLOCK_MONOTONIC) < anchor_at(clock, clock->count - 1)->ns + SAMPLE_EVERY_NS &&
	    clock->count > 1)
		return;
	for (int i = 0; i < SAMPLE_TRIES && best > SAMPLE_GOOD_CYCLES; i++) {
		uint64_t before = heap_cycles();
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		uint64_t after = heap_cycles();
		if (after - before < best) {
			best = after - before;
			cycles = before + best / 2;
			ns = now;
		}
	}
	heap_clock_add(clock, cycles, ns);
}

uint64_t heap_clock_full(const struct heap_clock *clock, uint64_t low)
{
	const uint64_t span = 1ULL << STAMP_BITS;
	uint64_t near = anchor_at(clock, clock->count - 1)->cycles;
	uint64_t full = (near & ~(span - 1)) | (low & (span - 1));
	if (full > near && full - near > span / 2 && full >= span)
		full -= span;
	else if (full < near && near - full > span / 2)
		full += span;
	return full;
}

uint64_t heap_clock_ns(const struct heap_clock *clock, uint64_t cycles)
{
	uint32_t i = clock->count - 1;
	while (i > 0 && anchor_at(clock, i)->cycles > cycles)
		i--;
	const struct heap_anchor *a = anchor_at(clock, i);
	double delta = cycles >= a->cycles ? (double)(cycles - a->cycles) * a->slope
					   : -((double)(a->cycles - cycles) * a->slope);
	double ns = (double)(a->ns - clock->start_ns) + delta;
	if (!(ns > 0))
		return 0;
	return ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
}
