/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf.h - the recordings that are served: what was read of them and is kept, and the work of
 * reading more.
 *
 * A reading is the answer to the selection words that need a replay (`at from to function-regex
 * ...`): sums by stack, under the numbers ("accounts") of its source's book, which holds the names
 * and is made once. Readings are made by SHELF_REPLAYS threads; whoever asks waits, or comes back:
 * work that nobody has asked for since SHELF_PATIENCE_NS ends. All functions: any thread.
 */
#ifndef API_SHELF_H
#define API_SHELF_H

#include <errno.h>

#include "model/snap.h"
#include "query/follow.h"
#include "query/query.h"
#include "view/fold.h"

#define SHELF_REPLAYS 2
#define SHELF_PATIENCE_NS 2000000000ull
#define SHELF_BYTES_MAX (64u << 20) /* of readings that nobody holds */
#define SHELF_FOLDS_MAX 8
#define SHELF_JOBS_MAX 64 /* waiting or at work; beyond: -EBUSY */
#define SHELF_SOURCES_MAX 4096
#define SHELF_SOURCES_MORE 256

/** struct shelf_reader - a recording that is open for one thread. */
struct shelf_reader {
	/* prepare() sets it */
	struct query_source query;
	/* recording, heaptrack, raw */
	const char *kind;
	/* its recorder is still at it */
	int being_written;
	/* another one where the content may have changed */
	uint64_t identity;
	/* after a run: what could not be read; NULL. Lent by @own */
	const char *warning;
	void (*close)(void *own);
	void *own;
};
/** struct shelf_item - one source, as cmd hands it in; strings are lent for the shelf's life. */
struct shelf_item {
	const char *name, *path;
	/**
	 * Open it anew. @tick is called while it replays. 0 or negative errno with @err.
	 */
	int (*open)(void *ctx, void (*tick)(void *ctx, uint64_t done, uint64_t total),
		    void *tick_ctx, struct shelf_reader *reader, struct err *err);
	/**
	 * Make reader->query ready for @query (NULL: everything); @streams: its events will be
	 * handed on, too.
	 */
	int (*prepare)(struct shelf_reader *reader, const struct query *query, int streams,
		       struct err *err);
	/** What shelf_reader.identity would be now, without opening. */
	uint64_t (*identity)(void *ctx);
	/**
	 * Of a recording that is being written: a reference to its newest live reading, waited for
	 * where there is none yet; NULL: it is not, or no more. NULL for sources that never are.
	 */
	struct snap *(*live)(void *ctx);
	/**
	 * Of the same: stop reading on, until go_on(), where moments and ranges of it can be told.
	 * 1; 0: they cannot, or it is over; negative errno with @err. NULL for sources that are
	 * never written.
	 */
	int (*hold)(void *ctx, const struct follow_want *want, struct follow_held *held,
		    struct err *err);
	void (*go_on)(void *ctx);
	/** Call after a run: fills reader->warning. */
	void (*warn)(struct shelf_reader *reader);
	void *ctx;
};

struct shelf;
/** shelf_new() - @items are copied. SHELF_SOURCES_MORE can be added. NULL with @err. */
struct shelf *shelf_new(const struct shelf_item *items, size_t count, struct err *err);
/** shelf_add() - one more source, with the next number; copied. -E2BIG. */
int shelf_add(struct shelf *shelf, const struct shelf_item *item, struct err *err);
/** shelf_free() - ends all work; no other call may be running. */
void shelf_free(struct shelf *shelf);
/**
 * shelf_shed() - what is kept and nobody holds goes, back to the kernel: there is no memory for a
 * question. Return: how many are waited for still.
 */
size_t shelf_shed(struct shelf *shelf);
size_t shelf_count(const struct shelf *shelf);
const struct shelf_item *shelf_at(const struct shelf *shelf, size_t source);

/**
 * struct book - a source as a whole: its names, and which stacks have sums. Shared and immutable.
 */
struct book {
	struct prof *names;
	/* by account: the row of @names */
	uint32_t *stacks;
	uint32_t count;
	uint64_t generation, identity;
	int being_written, has_snapshots;
	/* @names are its, where it is live; NULL */
	struct snap *snap;
	/* CLOCK_MONOTONIC, when the reading ended */
	uint64_t read_at_ns;
	char kind[16], warning[512];
};
struct shelf_thread {
	uint32_t tid;
	char *name;
	struct cost cost;
};
/** struct shelf_task - what a make() of struct shelf_query has to work with. */
struct shelf_task {
	const struct book *book;
	/* of everything */
	const struct prof_totals *totals;
	/* its sinks are stopped when nobody waits any more */
	const struct query_source *source;
	const struct query *query;
	/* of shelf_show() */
	void *own;
};
struct shelf_product {
	void *data;
	/* of memory, about */
	size_t bytes;
	void (*free)(void *data);
};
/** struct reading - what one selection comes to. Shared and immutable; shelf_put() when done. */
struct reading {
	const struct book *book;
	/* by account */
	struct cost *costs;
	struct shelf_thread *threads;
	uint32_t thread_count;
	struct prof_totals totals;
	int estimates, lacks_culled, knows_peak_blocks;
	/* costs have none: they are those of all, and this is of some */
	int lacks_peaks;
	/* Instead of all but @book, where a question has a make() of its own. */
	struct shelf_product product;
};

/**
 * struct shelf_query - what a reading answers; @key names it (equal keys, equal questions), @query
 * and its strings are copied.
 */
struct shelf_query {
	size_t source;
	/* "" = everything */
	const char *key;
	struct query query;
	/*
	 * NULL: sums by stack. Else it makes the product, of @args, which are copied: plain data
	 * without pointers.
	 */
	int (*make)(const void *args, const struct shelf_task *task, struct shelf_product *product,
		    struct err *err);
	const void *args;
	size_t args_len;
	/* reading.threads is asked for, too: @key says so */
	int threads;
	/*
	 * neither the peak of a range is asked for nor what was temporary; what was made for @key
	 * is of use, too
	 */
	int sums;
	/* make() hands events on beside a reading of them */
	int streams;
};
/**
 * shelf_show() - what @task's product points to is of use already, while the make() goes on: the
 * product is set, with its free(), and what it holds may be read by others from now on. Only from
 * within make(), which must not free it afterwards, whatever happens.
 */
void shelf_show(const struct shelf_task *task);
/**
 * SHELF_ENOUGH - what a sink of a make() returns to end a pass early; the make() takes it for
 * success.
 */
#define SHELF_ENOUGH (-EXFULL)
/** struct shelf_patience - how long whoever asks will wait. */
struct shelf_patience {
	int has_wait;
	/* who asked before does not come back: nothing is begun, and not waited for */
	int stops;
	uint64_t wait_ns;
	/* what shelf_show() showed is of use, too */
	int takes_part;
	/* has the client hung up? */
	int (*gone)(void *ctx);
	void *ctx;
};
/**
 * shelf_get() - the reading. Return: 1 with *@out; 0: not yet, *@progress says how far (0 to 1),
 * and *@out is what was shown of it, where that was asked for and is there, else NULL; negative
 * errno with @err:
 * -EBUSY too much is waiting, -ECANCELED the client is gone.
 */
int shelf_get(struct shelf *shelf, const struct shelf_query *query,
	      const struct shelf_patience *patience, struct reading **out, double *progress,
	      struct err *err);
void shelf_put(struct shelf *shelf, struct reading *reading);
/**
 * shelf_has_slices() - is there an index of the recording @path in that state, which is made of
 * whole, undamaged ones only? Cheap.
 */
int shelf_has_slices(const char *path, uint64_t identity);
/** shelf_grows() - is @source being written, as far as is known? Cheap. */
int shelf_grows(struct shelf *shelf, size_t source);
/** shelf_peek() - the whole reading of @source if it was made, else NULL: no work is begun. */
struct reading *shelf_peek(struct shelf *shelf, size_t source);
/**
 * shelf_failure() - why the last reading of @source as a whole failed; NULL: it did not. Into
 * @text.
 */
const char *shelf_failure(struct shelf *shelf, size_t source, char text[256]);

/** struct shelf_fold - a folded tree that others may use, too. */
struct shelf_fold {
	struct fold *fold;
	const struct book *books[FOLD_SIDES_MAX];
};
/**
 * shelf_fold() - the tree of the books of @readings (1 or 2). @key names what @opt says. NULL with
 * @err; give it back with shelf_unfold().
 */
struct shelf_fold *shelf_fold(struct shelf *shelf, const struct fold_opt *opt, const char *key,
			      struct reading *const *readings, unsigned count, struct err *err);
void shelf_unfold(struct shelf *shelf, struct shelf_fold *fold);

#endif
