/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sample_chance.h - which calls are taken, and for how many of its kind each stands. A part of
 * sample.bpf.c. Most of these are functions that the verifier looks through by themselves: their
 * branches are not multiplied with those of whoever calls.
 */
#ifndef BPF_SAMPLE_CHANCE_H
#define BPF_SAMPLE_CHANCE_H

WALK_APART uint32_t log2_of(uint64_t v)
{
	uint32_t n = 0;
	if (v >> 32) {
		v >>= 32;
		n += 32;
	}
	if (v >> 16) {
		v >>= 16;
		n += 16;
	}
	if (v >> 8) {
		v >>= 8;
		n += 8;
	}
	if (v >> 4) {
		v >>= 4;
		n += 4;
	}
	if (v >> 2) {
		v >>= 2;
		n += 2;
	}
	return n + (uint32_t)(v >> 1);
}

/* The chance of that size, by the table. */
static UNWIND_INLINE uint32_t chance_of(uint64_t bytes)
{
	uint32_t zero = 0;
	struct wire_sample_chances *chances;
	uint64_t at = bytes >> WIRE_SAMPLE_STEP_SHIFT;

	if (bytes >> 34)
		return WIRE_SAMPLE_ALWAYS;
	if (at >= WIRE_SAMPLE_STEPS) {
		uint32_t power = log2_of(bytes);
		at = WIRE_SAMPLE_STEPS + (power - WIRE_SAMPLE_STEPS_LOG2) * 4 +
		     (bytes >> (power - 2) & 3);
	}
	chances = bpf_map_lookup_elem(&sample_chances, &zero);
	return chances ? chances->v[at & 2047] : 0;
}

/* The chance of that size, when it is taken; 0 when it is not. */
WALK_APART uint32_t draw(uint64_t bytes)
{
	uint32_t chance;

	if (sample_every == 1)
		return WIRE_SAMPLE_ALWAYS;
	if (sample_every) {
		chance = 0xffffffffu / sample_every;
		return bpf_get_prandom_u32() <= chance ? chance : 0;
	}
	chance = chance_of(bytes);
	return chance == WIRE_SAMPLE_ALWAYS || bpf_get_prandom_u32() < chance ? chance : 0;
}

/* The chance that the allocator itself gave to what its hook is called for. */
static UNWIND_INLINE uint32_t hook_chance(struct pt_regs *regs, uint64_t cookie, uint64_t bytes)
{
	uint64_t weight = reg_of(regs, cookie >> 4 & 15);
	if (!(cookie >> 16 & WIRE_SAMPLE_F_WEIGHED))
		return chance_of(bytes);
	if (bytes >= weight || bytes >> 31)
		return WIRE_SAMPLE_ALWAYS;
	return (uint32_t)(((bytes ? bytes : 1) << 32) / (weight ? weight : 1));
}

/* How many of its kind it stands for, in 1/65536. */
static UNWIND_INLINE uint64_t weight_of(uint32_t chance)
{
	return chance == WIRE_SAMPLE_ALWAYS ? 1 << 16 : (1ULL << 48) / (chance ? chance : 1);
}

/*
 * No more than 2^20 calls stand for one another by their number, and no address space has 2^47
 * bytes.
 */
WALK_APART uint64_t weigh(uint64_t bytes, uint32_t chance)
{
	uint64_t weight = weight_of(chance);
	if (chance == WIRE_SAMPLE_ALWAYS)
		return bytes;
	if (bytes >> 34)
		return (bytes >> 20) * weight << 4;
	return bytes >> 28 ? (bytes >> 8) * weight >> 8 : bytes * weight >> 16;
}

/* What one sample adds to the variance of a sum: w^2 (1 - c). */
WALK_APART uint64_t variance_of(uint64_t weighed, uint32_t shift, uint32_t chance)
{
	uint64_t w = weighed >> (shift & 63);
	return chance == WIRE_SAMPLE_ALWAYS ? 0 : w * w * ((0xffffffffu - chance) >> 16) >> 16;
}

#endif
