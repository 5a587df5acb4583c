/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf_internal.h - what shelf.c (what is kept, jobs), shelf_read.c (replays) and shelf_fold.c
 * (folded trees) share.
 */
#ifndef API_SHELF_INTERNAL_H
#define API_SHELF_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/shelf.h"

/*
 * Behind a key: the same question without a range's peak and what was temporary (struct
 * shelf_query.sums).
 */
#define SHELF_SUMS "#sums"
#define SHELF_LOOK_NS 20000000ull /* how often a waiting client is looked at */

struct own_book {
	/* first */
	struct book book;
	/* under the shelf's lock */
	uint32_t refs;
};

struct own_reading {
	/* first */
	struct reading reading;
	/* on the shelf; least recently used last */
	struct own_reading *next;
	char *key;
	size_t source, bytes;
	/* the shelf's own included while it is there */
	uint32_t refs;
	int on_shelf;
};

struct own_fold {
	/* first */
	struct shelf_fold fold;
	struct own_fold *next;
	char *key;
	uint32_t refs;
	int on_shelf;
};

enum job_state { JOB_QUEUED, JOB_RUNS, JOB_DONE };

struct job {
	struct job *next;
	char *key, *regex, *module;
	size_t source;
	struct query query;
	int (*make)(const void *args, const struct shelf_task *task, struct shelf_product *product,
		    struct err *err);
	void *args;
	int streams, threads, sums;
	/* only the index of slices is made, whether somebody waits or not */
	int indexes;
	enum job_state state;
	struct shelf *shelf;
	/* @shown: it is made now */
	struct own_reading *made, *shown;
	struct err err;
	uint32_t waiters, refs;
	/* last, by somebody who comes back */
	uint64_t asked_ns;
	/* who were told to come back, and have not yet */
	uint32_t returning;
	atomic_uint_least32_t permille;
	atomic_int unwanted;
};

struct slot {
	struct shelf_item item;
	/* a reference */
	struct own_reading *whole;
	/* a reference: its product is the index of slices, or nothing where it has none */
	struct own_reading *sliced;
	uint64_t sliced_used;
	/* who makes it */
	struct job *slicing;
	uint64_t generation;
	/* told once: they do not go again */
	int has_snapshots;
	char failure[256];
};

struct shelf {
	/* never moves */
	struct slot *slots;
	atomic_size_t count;
	size_t room;
	pthread_mutex_t lock;
	pthread_cond_t changed, work;
	struct job *jobs;
	size_t job_count;
	/* on the shelf, most recently used first */
	struct own_reading *readings;
	size_t bytes;
	struct own_fold *folds;
	pthread_mutex_t folding, resolving;
	/* the last one makes indices */
	pthread_t threads[SHELF_REPLAYS + 1];
	unsigned thread_count;
	int ends;
};

/** shelf_work() - the reading that @job asks for; on a thread of the shelf, without its lock. */
int shelf_work(struct job *job, struct own_reading **out, struct err *err);
/** shelf_make_moments() - a make(): what is live at each moment that the timeline shows. */
int shelf_make_moments(const void *args, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err);
/** shelf_has_moment() - is that one of them? */
int shelf_has_moment(const struct book *book, uint64_t at_ns);
/**
 * shelf_take_moment() - @costs (zeroed, by account) and their @sum as a reading of that moment has
 * them. 0: it is not told there.
 */
int shelf_take_moment(const void *moments, uint64_t at_ns, struct cost *costs, uint32_t count,
		      struct cost *sum);
/**
 * shelf_slices() - 1: *@out, a reference, has the index as its product, or none where it cannot be
 * had; 0: no index would help; negative errno. It is made if it is not there.
 */
int shelf_slices(struct job *job, const struct own_reading *whole,
		 const struct query_source *source, struct own_reading **out, struct err *err);
/** shelf_wants_slices() - is the recording so large that its index is made before somebody asks? */
int shelf_wants_slices(const struct own_reading *whole);
/**
 * shelf_read_times() - 1: @r is filled for a question of nothing but times; 0: it has to be
 * replayed; negative errno.
 */
int shelf_read_times(struct job *job, const struct own_reading *whole,
		     const struct query_source *source, struct own_reading *r, struct err *err);
/** shelf_read_held() - the same of a recording that is being written, whose reading is held. */
int shelf_read_held(struct job *job, const struct own_reading *whole,
		    const struct follow_held *held, struct own_reading *r, struct err *err);
/** shelf_index() - have the index of @source made by the thread for that. */
void shelf_index(struct shelf *shelf, size_t source);
/** shelf_find() - what is kept under @key, or NULL. Under the lock. */
struct own_reading *shelf_find(struct shelf *shelf, size_t source, const char *key);
/** shelf_keep() - @reading is kept for others, too. Under the lock. */
void shelf_keep(struct shelf *shelf, struct own_reading *reading);
/**
 * shelf_look() - who comes back no more? Under the lock; also ends what was done and never fetched.
 */
void shelf_look(struct shelf *shelf);
/** shelf_forget() - what is kept of another state of the file. Under the lock. */
void shelf_forget(struct shelf *shelf, size_t source);
/* References go under the lock; NULL is fine. */
void shelf_book_unref(struct own_book *book);
void shelf_reading_unref(struct own_reading *reading);
/** shelf_shed_folds() - those that nobody holds go. */
void shelf_shed_folds(struct shelf *shelf);
/** shelf_free_folds() - at the end. */
void shelf_free_folds(struct shelf *shelf);

#endif
