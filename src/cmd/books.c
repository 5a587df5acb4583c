/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/books.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/intern.h"
#include "query/recording.h"

struct books {
	struct shelf_item *items;
	size_t count, cap;
};

/* ---- one recording ---------------------------------------------------------------------------------------------------- */

static uint64_t book_identity(void *ctx)
{
	struct stat st;
	const char *path = ctx;
	if (stat(path, &st) < 0)
		return 0;
	uint64_t seen = hash_u64((uint64_t)st.st_dev, (uint64_t)st.st_ino, 1);
	seen = hash_u64(seen, (uint64_t)st.st_size, 2);
	return hash_u64(
		seen, (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec, 3);
}

/** struct reader - an open recording, and who hears of its progress. */
struct reader {
	struct recording *rec;
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
	uint64_t identity = book_identity(ctx);
	struct reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "cannot open '%s'", (const char *)ctx);
	*r = (struct reader){ .tick = tick, .tick_ctx = tick_ctx };
	const struct recording_ears ears = { .ctx = r, .progress = hear };
	r->rec = recording_open(ctx, &ears, err);
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
	return recording_source(((struct reader *)reader->own)->rec, query, streams, &reader->query,
				err);
}

static void book_warn(struct shelf_reader *reader)
{
	const struct recording *rec = ((struct reader *)reader->own)->rec;
	reader->warning = recording_warning(rec);
	reader->being_written = recording_goes_on(rec);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------- */

static int add(struct books *b, const char *path, struct err *err)
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
	char *copy = strdup(path);
	if (!copy)
		return err_set(err, -ENOMEM, "cannot list the recordings");
	const char *slash = strrchr(copy, '/');
	b->items[b->count++] = (struct shelf_item){ .name = slash ? slash + 1 : copy,
						    .path = copy,
						    .open = book_open,
						    .identity = book_identity,
						    .prepare = book_prepare,
						    .warn = book_warn,
						    .ctx = copy };
	return 0;
}

static int is_recording(const char *path, struct err *err)
{
	struct recording *rec = recording_open(path, NULL, err);
	if (!rec)
		return 0;
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
	size_t before = b->count;
	int rc = 0, count = scandir(path, &entries, NULL, by_name);
	if (count < 0)
		return err_set(err, -errno, "cannot read the folder '%s'", path);
	for (int i = 0; i < count; i++) {
		char full[4096];
		struct stat st;
		struct err none = { 0 };
		int len = snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name);
		if (rc == 0 && len < (int)sizeof(full) && stat(full, &st) == 0 &&
		    S_ISREG(st.st_mode) && is_recording(full, &none))
			rc = add(b, full, err);
		free(entries[i]);
	}
	free(entries);
	if (rc == 0 && b->count == before) {
		err_set(err, -ENOENT, "there is no recording in the folder '%s'", path);
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
		if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
			rc = add_folder(b, paths[i], err);
		else if (!is_recording(paths[i], err))
			rc = err->code;
		else
			rc = add(b, paths[i], err);
	}
	if (rc == 0)
		return b;
	books_free(b);
	return NULL;
}

void books_free(struct books *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->count; i++)
		free(b->items[i].ctx);
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
