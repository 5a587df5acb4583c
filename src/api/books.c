/* SPDX-License-Identifier: Apache-2.0 */
#include "api/books.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/intern.h"
#include "query/follow.h"
#include "query/recording.h"

#define FIRST_SNAP_NS 3000000000ull

struct books {
	struct shelf_item *items;
	size_t count, cap;
};

/**
 * struct item - a recording; one that is being written is followed from when it is first asked for,
 * until it ends.
 */
struct item {
	char *path;
	pthread_mutex_t lock;
	/* it goes on, as far as we know */
	int written;
	struct follow *follow;
	/* it has to stay */
	unsigned holders;
	/*
	 * the state of the file whose checksums were looked at last, and what came of it: not again
	 * for each question
	 */
	uint64_t checked;
	int damaged;
};

/* ---- one recording --------------------------------------------------------------------------- */

static struct snap *book_live(void *ctx)
{
	struct item *item = ctx;
	struct snap *snap = NULL;
	struct err err = { 0 };
	pthread_mutex_lock(&item->lock);
	if (item->written && !item->follow) {
		const struct follow_opt opt = { .index = 1 };
		item->follow = follow_new(item->path, &opt, &err);
		item->written = item->follow != NULL;
	}
	if (item->follow) {
		struct follow_state state;
		snap = follow_wait(item->follow, 0, FIRST_SNAP_NS);
		follow_state(item->follow, &state);
		if (state.over || !snap) {
			/* the file says all, from here on */
			item->written = !state.over;
			snap_unref(snap);
			snap = NULL;
			if (state.over && !item->holders)
				follow_freep(&item->follow);
		}
	}
	pthread_mutex_unlock(&item->lock);
	return snap;
}

static void book_go_on(void *ctx)
{
	struct item *item = ctx;
	follow_go_on(item->follow);
	pthread_mutex_lock(&item->lock);
	item->holders--;
	pthread_mutex_unlock(&item->lock);
}

static int book_hold(void *ctx, const struct follow_want *want, struct follow_held *held,
		     struct err *err)
{
	struct item *item = ctx;
	pthread_mutex_lock(&item->lock);
	struct follow *follow = item->follow;
	item->holders += follow != NULL;
	pthread_mutex_unlock(&item->lock);
	if (!follow)
		return 0;
	int rc = follow_hold(follow, want, held, err);
	if (rc <= 0) {
		pthread_mutex_lock(&item->lock);
		item->holders--;
		pthread_mutex_unlock(&item->lock);
	}
	return rc;
}

/** live_number() - of the newest snap; 0: it is not followed. */
static uint64_t live_number(struct item *item)
{
	uint64_t number = 0;
	pthread_mutex_lock(&item->lock);
	if (item->follow) {
		struct follow_state state;
		CLEANUP(snap_unrefp) struct snap *snap = follow_snap(item->follow);
		follow_state(item->follow, &state);
		number = snap && !state.over ? snap_number(snap) : 0;
	}
	pthread_mutex_unlock(&item->lock);
	return number;
}

/** file_state() - another number where the content may have changed; never 0. */
static uint64_t file_state(const struct stat *of)
{
	uint64_t seen = hash_u64((uint64_t)of->st_dev, (uint64_t)of->st_ino, 1);
	seen = hash_u64(seen, (uint64_t)of->st_size, 2);
	seen = hash_u64(seen, clock_of(&of->st_mtim), 3);
	return seen ? seen : 1;
}

static uint64_t book_identity(void *ctx)
{
	struct stat st;
	const char *path = ((struct item *)ctx)->path;
	uint64_t number = live_number(ctx);
	if (number)
		return number;
	return stat(path, &st) < 0 ? 0 : file_state(&st);
}

/** struct reader - an open recording, and who hears of its progress. */
struct reader {
	struct recording *rec;
	struct item *item;
	/* of the file, before it was opened */
	uint64_t state;
	void (*tick)(void *ctx, uint64_t done, uint64_t total);
	void *tick_ctx;
};

static void reader_close(void *own)
{
	struct reader *r = own;
	recording_freep(&r->rec);
	free(r);
}

static void hear(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	const struct reader *r = ctx;
	if (what)
		r->tick(r->tick_ctx, done, total);
}

static int book_open(void *ctx, void (*tick)(void *ctx, uint64_t done, uint64_t total),
		     void *tick_ctx, struct shelf_reader *reader, struct err *err)
{
	static const char *const kinds[] = { [RECORDING_BLT] = "recording",
					     [RECORDING_HEAPTRACK] = "heaptrack",
					     [RECORDING_RAW] = "raw" };
	const char *path = ((struct item *)ctx)->path;
	uint64_t identity = book_identity(ctx);
	struct reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "cannot open '%s'", path);
	struct stat st;
	*r = (struct reader){ .item = ctx,
			      .state = stat(path, &st) == 0 ? file_state(&st) : 0,
			      .tick = tick,
			      .tick_ctx = tick_ctx };
	const struct recording_ears ears = { .ctx = r, .progress = hear };
	r->rec = recording_open(path, &ears, err);
	if (!r->rec) {
		free(r);
		return err->code;
	}
	*reader = (struct shelf_reader){ .kind = kinds[recording_kind(r->rec)],
					 .identity = identity,
					 .close = reader_close,
					 .own = r };
	return 0;
}

static int book_prepare(struct shelf_reader *reader, const struct query *query, int streams,
			struct err *err)
{
	const struct reader *r = reader->own;
	struct item *item = r->item;
	int damaged;
	pthread_mutex_lock(&item->lock);
	if (r->state && item->checked == r->state)
		recording_assume(r->rec, item->damaged);
	else if (r->state && shelf_has_slices(item->path, r->state))
		recording_assume(r->rec, 0); /* who made the index read all of it */
	pthread_mutex_unlock(&item->lock);
	int rc = recording_source(r->rec, query, streams, &reader->query, err);
	if (rc < 0 || !recording_checked(r->rec, &damaged))
		return rc;
	pthread_mutex_lock(&item->lock);
	item->checked = r->state;
	item->damaged = damaged;
	pthread_mutex_unlock(&item->lock);
	return 0;
}

static void book_warn(struct shelf_reader *reader)
{
	const struct recording *rec = ((struct reader *)reader->own)->rec;
	reader->warning = recording_warning(rec);
	reader->being_written = recording_goes_on(rec);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void item_free(struct item *item)
{
	follow_freep(&item->follow);
	pthread_mutex_destroy(&item->lock);
	free(item->path);
	free(item);
}

static int add(struct books *b, const char *path, int written, struct err *err)
{
	if (b->count == SHELF_SOURCES_MAX)
		return err_set(err, -E2BIG, "more than %d recordings", SHELF_SOURCES_MAX);
	if (b->count == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 16;
		struct shelf_item *items = realloc(b->items, cap * sizeof(*items));
		if (!items)
			return err_set(err, -ENOMEM, "cannot list the recordings");
		b->items = items;
		b->cap = cap;
	}
	struct item *item = calloc(1, sizeof(*item));
	if (!item || !(item->path = strdup(path))) {
		free(item);
		return err_set(err, -ENOMEM, "cannot list the recordings");
	}
	pthread_mutex_init(&item->lock, NULL);
	item->written = written;
	const char *slash = strrchr(item->path, '/');
	b->items[b->count++] = (struct shelf_item){ .name = slash ? slash + 1 : item->path,
						    .path = item->path,
						    .open = book_open,
						    .prepare = book_prepare,
						    .identity = book_identity,
						    .live = written ? book_live : NULL,
						    .hold = written ? book_hold : NULL,
						    .go_on = book_go_on,
						    .warn = book_warn,
						    .ctx = item };
	return 0;
}

/** is_listed() - under whatever name: named twice, linked, or found in a folder, too. */
static int is_listed(const struct books *b, const struct stat *st)
{
	struct stat of;
	for (size_t i = 0; i < b->count; i++)
		if (stat(b->items[i].path, &of) == 0 && of.st_dev == st->st_dev &&
		    of.st_ino == st->st_ino)
			return 1;
	return 0;
}

static int is_recording(const char *path, int *written, struct err *err)
{
	struct recording *rec = recording_open(path, NULL, err);
	if (!rec)
		return 0;
	*written = recording_is_written(rec);
	recording_freep(&rec);
	return 1;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(struct books *b, const char *path, struct err *err)
{
	struct dirent **entries = NULL;
	int rc = 0, found = 0, count = scandir(path, &entries, NULL, by_name);
	if (count < 0)
		return err_set(err, -errno, "cannot read the folder '%s'", path);
	for (int i = 0; i < count; i++) {
		char full[4096];
		struct stat st;
		struct err none = { 0 };
		int written, len = snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name);
		if (rc == 0 && len < (int)sizeof(full) && stat(full, &st) == 0 &&
		    S_ISREG(st.st_mode) && is_recording(full, &written, &none)) {
			found++;
			rc = is_listed(b, &st) ? 0 : add(b, full, written, err);
		}
		free(entries[i]);
	}
	free(entries);
	if (rc == 0 && !found) {
		err_set(err, -ENOMSG, "there is no recording in the folder '%s'", path);
		return err_hint(err, "'byteledger run -- PROGRAM' makes one");
	}
	return rc;
}

struct books *books_new(const char *const *paths, size_t count, struct err *err)
{
	struct books *b = calloc(1, sizeof(*b));
	int rc = b ? 0 : err_set(err, -ENOMEM, "cannot list the recordings");
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct stat st;
		int written;
		int there = stat(paths[i], &st) == 0;
		if (there && S_ISDIR(st.st_mode))
			rc = add_folder(b, paths[i], err);
		else if (there && is_listed(b, &st))
			continue;
		else if (!is_recording(paths[i], &written, err))
			rc = err->code;
		else
			rc = add(b, paths[i], written, err);
	}
	if (rc == 0)
		return b;
	books_free(b);
	return NULL;
}

const struct shelf_item *books_add(struct books *b, const char *path, struct err *err)
{
	return add(b, path, 1, err) < 0 ? NULL : &b->items[b->count - 1];
}

void books_free(struct books *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->count; i++)
		item_free(b->items[i].ctx);
	free(b->items);
	free(b);
}

const struct shelf_item *books_items(const struct books *b)
{
	return b->items;
}

size_t books_count(const struct books *b)
{
	return b->count;
}
