/* SPDX-License-Identifier: Apache-2.0 */
/* slices_impl.h - what slices_build.c, slices_rows.c, slices.c and slices_file.c share. */
#ifndef QUERY_SLICES_IMPL_H
#define QUERY_SLICES_IMPL_H

#include "query/slices.h"

#define SLICE_TEMPORARY 0x80000000u /* in freed.slot: its free was one */

/** struct slice - events from number @first on, up to the next one's. */
struct slice {
	/* the key block that it begins with: struct query_key */
	uint64_t at, first, time_ns;
	/*
	 * the most that blocks allocated in it held at once, at most: frees of earlier ones aside
	 */
	uint64_t most_new;
	/* what they hold at its end */
	uint64_t new_at_end;
	/* the most that all blocks held within it */
	uint64_t most_live;
	/* rows of struct slices; they end where the next one's begin */
	uint64_t freed_begin, chunk_begin, made_begin, crest_begin;
};
/** struct crest - of CREST_EVENTS of a slice's events: most_new and most_live within them. */
struct crest {
	uint64_t most_new, most_live;
};
#define CREST_EVENTS 16384u
/**
 * struct freed - a block of before the slice that is freed in it; those never freed stand by
 * themselves.
 */
struct freed {
	/* seq: the number of the event that allocated it */
	uint64_t bytes, seq;
	uint32_t stack, slot;
};
#define FREED_VALUE_MAX ((1ull << 48) - 1) /* of bytes and seq */
/** struct freed_row - the same in the file of rows. */
struct freed_row {
	uint32_t seq_low, bytes_low;
	uint16_t seq_high, bytes_high;
	uint32_t stack, slot;
};
_Static_assert(sizeof(struct freed_row) == 20, "struct freed_row");
#define FREED_CHUNK 256 /* rows; those of each slice begin with a chunk of their own */
/** struct freed_chunk - the seq of its first row, and the sum of its bytes. */
struct freed_chunk {
	uint64_t seq, sum;
};
/**
 * struct brief - a temporary block whose allocation and free lie in different slices, or
 * BRIEF_EVENTS and more apart in one.
 */
struct brief {
	/* the numbers of both events */
	uint64_t seq, freed;
	/* that it was freed in */
	uint32_t stack, slice;
};
#define BRIEF_EVENTS 32768u
/** struct made - what one stack asked for within a slice. */
struct made {
	uint64_t bytes;
	uint32_t stack, blocks;
	/* of those that were freed within it, too */
	uint32_t temporary;
	uint32_t reserved;
};

struct slices {
	/* count + 1: the last one is the end of all */
	struct slice *slices;
	size_t count;
	/* struct freed_row from @rows_at on: by slice, in it by seq */
	int rows_fd;
	uint64_t rows_at, freed_count;
	struct freed_chunk *chunks;
	size_t chunk_count, chunk_cap;
	/* never freed */
	struct freed *kept;
	size_t kept_count;
	struct brief *brief;
	size_t brief_count, brief_cap;
	struct crest *crests;
	size_t crest_count, crest_cap;
	struct made *made;
	size_t made_count, made_cap;
	/* by slices_moved(): bytes of the blocks of one slice that are freed in another one */
	uint64_t *moved;
	size_t moved_cap;
	/* numbers are below */
	uint32_t stack_count;
	uint32_t slot_count;
	/* of slices that were replayed; under a lock of its own */
	struct slices_kept *kept_steps;
};

/**
 * slices_moved() - the place in struct slices.moved of what is made in slice @made and freed in
 * @freed, which is a later one.
 */
static inline size_t slices_moved(size_t made, size_t freed)
{
	return freed * (freed - 1) / 2 + made;
}

/**
 * slices_put_rows() - @rows of one more slice, by seq, at the end of the file. 0 or negative errno.
 */
int slices_put_rows(struct slices *s, const struct freed *rows, size_t count);

/** struct slices_rows - a reader of them; zero-initialised. Release with slices_rows_fini(). */
struct slices_rows {
	struct freed_row *raw;
	struct freed *rows;
};
void slices_rows_fini(struct slices_rows *reader);
/**
 * slices_rows_read() - those of slice @n whose block is of events [lo, hi), in some pieces by seq.
 * Any thread, each its own @reader. 0 or negative errno with @err: -EBADMSG where the file is not
 * what it was.
 */
int slices_rows_read(struct slices_rows *reader, const struct slices *s, size_t n, uint64_t lo,
		     uint64_t hi, void (*each)(void *ctx, const struct freed *rows, size_t count),
		     void *ctx, struct err *err);

/* ---- slices replayed: slices_walk.c ---------------------------------------------------------- */

struct slices_kept *slices_kept_new(void);
/** slices_kept_most() - bytes that are kept, but for what questions hold just now. */
size_t slices_kept_most(const struct slices *s);
void slices_kept_free(struct slices_kept *kept);
/** slices_kept_drop() - slice @number is another one now. No question may be running. */
void slices_kept_drop(struct slices_kept *kept, size_t number);

#define SLICES_HELD \
	4 /* slices that one question holds: where a range begins and ends, and its peak */
#define SLICES_WANTS 3 /* that slices_ahead() takes */
struct replayed;
/**
 * struct slices_replays - the slices that were replayed for one question. @source: its run_from()
 * is called by several threads.
 */
struct slices_replays {
	const struct query_source *source;
	/* so many events behind the times are needed, too */
	uint64_t more;
	struct replayed *held[SLICES_HELD];
	unsigned next;
};
void slices_replays_fini(struct slices_replays *replays, const struct slices *s);

/** struct slices_want - slice @number up to @until_ns. */
struct slices_want {
	size_t number;
	uint64_t until_ns;
};
/**
 * slices_ahead() - @wants, of different slices, side by side, so that slices_walk() finds them. 0
 * or negative errno.
 */
int slices_ahead(const struct slices *s, struct slices_replays *replays,
		 const struct slices_want *wants, size_t count, struct err *err);

/** struct slices_walk - what is done with each event of a slice about a block. */
struct slices_walk {
	/* ends before the first event of that time or later */
	uint64_t until_ns;
	/* or before that event */
	uint64_t until_seq;
	/* that is replayed, and kept, behind the first event of that time */
	uint64_t more;
	/* NULL: they are only counted. @seq: of the block's allocation, @ev is number @now. */
	void (*each)(void *ctx, const struct event *ev, uint64_t seq, uint64_t now);
	void *ctx;
	/* told: the event that it ended before */
	uint64_t seq;
};
/** slices_walk() - slice @number from its beginning. 0 or negative errno. */
int slices_walk(const struct slices *s, struct slices_replays *replays, size_t number,
		struct slices_walk *w, struct err *err);
/** slices_no_fit() - -EBADMSG, with the sentence. */
int slices_no_fit(struct err *err);
/** slices_of() - the slice that event number @seq is in. */
size_t slices_of(const struct slices *s, uint64_t seq);

/* ---- slices_peak.c --------------------------------------------------------------------------- */

/**
 * slices_peak() - the first moment at which most of what was allocated by events [lo, hi) lived.
 * *@until: the events up to and with it; @lo where nothing did. 0 or negative errno.
 */
int slices_peak(const struct slices *s, struct slices_replays *replays, uint64_t lo, uint64_t hi,
		uint64_t *until, uint64_t *time_ns, struct err *err);

#endif
