/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h - what allocators hold, stretch by stretch: units, the smallest that an allocator can
 * give back as a whole, and for allocators that cut chunks of any size what of them is free, cached
 * or the allocator's own. The readers fill it as they walk; what is in neither is in use. All of it
 * is the target's word, checked as far as the readers check it.
 */
#ifndef HEAPS_UNITS_H
#define HEAPS_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum unit_kind {
	UNIT_CHUNKS =
		/*
		 * chunks of any size (glibc): each page of it is a unit; struct piece says what is
		 * not in use
		 */
	1,
	UNIT_SLAB,   /* slots of one size */
	UNIT_BLOCK,  /* one block has it whole */
	UNIT_FREE,   /* in no block's use, kept by the allocator */
	UNIT_TABLES, /* the allocator's own */
	/*
	 * slots of a language runtime (CPython's pools, Go's spans): no allocation of its own
	 * stands behind one
	 */
	UNIT_RUNTIME,
	UNIT_RUNTIME_FREE,
	UNIT_STACKS, /* a runtime's stacks, whole */
};

enum unit_flag {
	UNIT_DECAYS = 1, /* UNIT_FREE: goes back by itself after a time */
	UNIT_GIVEN =
		/*
		 * UNIT_FREE: offered to the kernel already (MADV_FREE): it takes it when it needs
		 * memory
		 */
	2,
	UNIT_MAIN = 4,      /* UNIT_CHUNKS: the main arena's */
	UNIT_OWN_BLOCK = 8, /* UNIT_BLOCK: mapped for this block alone */
};

struct unit {
	uint64_t start, bytes;
	/* UNIT_SLAB, UNIT_RUNTIME: bytes of one; UNIT_BLOCK: of what the block takes; else 0 */
	uint64_t slot;
	/* bytes at its start that are the allocator's own */
	uint64_t head;
	/* slots that are handed out by the allocator's word, and those of them that a cache
	 * keeps */
	uint32_t used, cached;
	uint16_t arena;
	uint8_t kind, flags;
	/* index into struct breakdown's allocators */
	uint8_t allocator;
};

enum piece_kind {
	PIECE_FREE = 1,
	/* the topmost chunk of an arena: free, but of further arenas' nothing is given back */
	PIECE_TOP,
	PIECE_CACHED, /* freed, but kept for a thread */
	PIECE_TABLES, /* the allocator's own */
};
struct piece {
	uint64_t start;
	uint64_t bytes : 56;
	uint64_t kind : 8;
};

#define UNITS_CLASSES 256u
/** units_class() - blocks by size: four classes to a doubling. */
static inline unsigned units_class(uint64_t bytes)
{
	if (bytes < 4)
		return (unsigned)bytes;
	unsigned top = 63u - (unsigned)__builtin_clzll(bytes);
	return (top - 1) * 4 + (unsigned)(bytes >> (top - 2) & 3);
}
/** units_class_bytes() - the smallest size of class @class. */
static inline uint64_t units_class_bytes(unsigned class)
{
	return class < 4 ? class : (4ull + class % 4) << (class / 4 - 1);
}

/** struct units - zeroed is empty. Grown by the readers; order is settled by units_sort(). */
struct units {
	struct unit *units;
	size_t count, room;
	struct piece *pieces;
	size_t piece_count, piece_room;
	/*
	 * in use by the walk's word, of chunks of any size: those have no slots that would say it
	 */
	uint64_t class_count[UNITS_CLASSES], class_bytes[UNITS_CLASSES];
	/* glibc's settings in force (mp_) */
	int has_settings;
	uint64_t trim_threshold, mmap_threshold, arena_max, top_pad, mmapped_bytes;
	/* by a tunable or mallopt(): they do not rise by themselves */
	int thresholds_set;
	uint32_t arenas;
	/* there was no memory for some */
	int incomplete;
};
void units_fini(struct units *units);
/**
 * units_add(), units_piece() - one more; -ENOMEM, which @units remembers, too. @units NULL: nobody
 * asked, 0.
 */
int units_add(struct units *units, const struct unit *unit);
int units_piece(struct units *units, uint64_t start, uint64_t bytes, enum piece_kind kind);
/** units_rewind() - a reader was refused: what it put there goes. */
void units_rewind(struct units *units, size_t count, size_t piece_count);
/**
 * units_sort() - by address; where two lay claim to the same bytes (lists that were read at
 * different moments, an empty arena over another allocator's heap) the later one has them. Free
 * pieces that touch become one.
 */
void units_sort(struct units *units);

/**
 * pieces_sort() - by address: a radix sort, for there may be millions. -ENOMEM: they stay as they
 * were.
 */
int pieces_sort(struct piece *pieces, size_t count);

#endif
