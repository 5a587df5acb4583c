/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - stacks that not every allocation has (SAMPLE_BYTES). With sampling threads show no
 * scratch memory to the hot path, so that all of this hangs on a test which is there anyway.
 *
 * The distances between the bytes that decide are distributed exponentially: then every byte
 * decides with the same probability, whatever came before, and an allocation of a size has a stack
 * with a probability that the reader of a recording knows. Whole numbers alone: in a hook, floating
 * point would leave its flags behind in the program's.
 */
#include "preload/note.h"

static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* Bytes until the next one that decides, @mean on average: -ln(u) * @mean. */
static int64_t distance(uint64_t *state, uint64_t mean)
{
	const unsigned __int128 ln2 = 2977044472u; /* * 2^32 */
	uint64_t x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x; /* never 0 */
	/*
	 * u = m * 2^-zeros / 2^64, so that -log2(u) = zeros + 1 - log2(m / 2^63), whose digits
	 * squaring brings forth
	 */
	unsigned zeros = (unsigned)__builtin_clzll(x);
	uint64_t m = x << zeros, log2 = 0;
	for (unsigned bit = 31; bit >= 20; bit--) {
		unsigned __int128 square = (unsigned __int128)m * m;
		uint64_t two = (uint64_t)(square >> 127); /* 1 where it is 2 or more */
		m = (uint64_t)(square >> (63 + two));
		log2 |= two << bit;
	}
	/* what is left is a number near 1, whose logarithm is nearly straight */
	log2 += (m << 1) >> 44;
	uint64_t times = ((uint64_t)zeros + 1) << 32;
	return (int64_t)((unsigned __int128)mean * (times - log2) * ln2 >> 64);
}

uint32_t capture_always(struct thread *t, uint64_t pc, uint64_t sp, uint64_t bp, uint64_t bx)
{
	if (!t->walker)
		return WIRE_STOP_NO_SCRATCH;
	if (unlikely(process.closes && !no_calls()))
		unwind_stack_ask(t->walker, sp);
	if (unlikely(sp < t->stack_lo && !t->stack_floor))
		stack_grew(t, sp);
	struct unwind_regs regs = { .ip = pc, .sp = sp, .bp = bp, .bx = bx };
	uint32_t node = unwind_capture(t->walker, &regs);
	if (unlikely(node == WIRE_STOP_NODES_FULL) && ring_wait_nodes(t))
		node = unwind_capture(t->walker, &regs);
	return node;
}

uint32_t capture_sampled(struct thread *t, uint64_t size, uint64_t pc, uint64_t sp, uint64_t bp,
			 uint64_t bx)
{
	if (!process.sample_bytes)
		return process.closes ? capture_always(t, pc, sp, bp, bx) : WIRE_STOP_NO_SCRATCH;
	/* a block of no bytes counts as one of one: it must have a chance, too */
	int64_t bytes = size - 1 < INT64_MAX / 2 ? (int64_t)size : size ? INT64_MAX / 2 : 1;
	if (likely(t->sample_left >= bytes)) {
		t->sample_left -= bytes;
		return WIRE_STOP_UNSAMPLED;
	}
	if (unlikely(!t->sample_state)) {
		t->sample_state = scramble(stamp() ^ (uint64_t)t->tid << 40) | 1;
		t->sample_left = distance(&t->sample_state, process.sample_bytes);
		return capture_sampled(t, size, pc, sp, bp, bx);
	}
	t->sample_left = distance(&t->sample_state, process.sample_bytes);
	return capture_always(t, pc, sp, bp, bx);
}
