/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices_file.c - an index in a file: a head, the arrays as they are in memory, the rows of blocks,
 * nothing else. A cache of one machine, not for exchange: what does not fit in every respect is
 * made anew. Numbers from it are checked before they are used as places. The rows stay in the file
 * and are checked as they are read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "base/intern.h"
#include "query/slices_impl.h"

#define MAGIC 0x35736563696c7362ull /* "bslices5" */

struct head {
	/* sum: of all but the rows of blocks, whose chunks have their own */
	uint64_t magic, identity, sum;
	uint64_t count, freed_count, chunk_count, kept_count, brief_count, made_count, crest_count;
	uint32_t stack_count, slot_count;
};

struct part {
	const void *at;
	size_t bytes;
};
#define PARTS 7

static void parts_of(const struct slices *s, struct part parts[PARTS])
{
	const struct part all[PARTS] = {
		{ s->slices, (s->count + 1) * sizeof(*s->slices) },
		{ s->chunks, s->chunk_count * sizeof(*s->chunks) },
		{ s->kept, s->kept_count * sizeof(*s->kept) },
		{ s->brief, s->brief_count * sizeof(*s->brief) },
		{ s->made, s->made_count * sizeof(*s->made) },
		{ s->moved, slices_moved(0, s->count) * sizeof(*s->moved) },
		{ s->crests, s->crest_count * sizeof(*s->crests) },
	};
	memcpy(parts, all, sizeof(all));
}

/** sum_of() - cheap, and no two files of use have the same by accident. */
static uint64_t sum_of(const struct head *h, const struct slices *s)
{
	struct part parts[PARTS];
	uint64_t sum = hash_u64(h->stack_count, h->slot_count, h->freed_count);
	parts_of(s, parts);
	for (size_t i = 0; i < PARTS; i++)
		sum = hash_bytes(parts[i].at, parts[i].bytes, sum);
	return sum;
}

/** copy_rows() - from the file that they are in. 0 or negative errno. */
static int copy_rows(const struct slices *s, int fd, uint64_t at)
{
	enum { PIECE = 1 << 20 };
	uint64_t left = s->freed_count * sizeof(struct freed_row), from = s->rows_at;
	char *piece = malloc(PIECE);
	int rc = piece ? 0 : -ENOMEM;
	while (left && rc == 0) {
		size_t bytes = left < PIECE ? left : PIECE;
		ssize_t got = fileio_pread(s->rows_fd, piece, bytes, from);
		rc = got == (ssize_t)bytes ? fileio_pwrite(fd, piece, bytes, at)
		     : got < 0             ? (int)got
					   : -EIO;
		from += bytes;
		at += bytes;
		left -= bytes;
	}
	free(piece);
	return rc;
}

int slices_save(const struct slices *s, const char *path, uint64_t identity, struct err *err)
{
	struct head h = { .magic = MAGIC,
			  .identity = identity,
			  .count = s->count,
			  .freed_count = s->freed_count,
			  .chunk_count = s->chunk_count,
			  .kept_count = s->kept_count,
			  .brief_count = s->brief_count,
			  .made_count = s->made_count,
			  .crest_count = s->crest_count,
			  .stack_count = s->stack_count,
			  .slot_count = s->slot_count };
	struct part parts[PARTS];
	char *made = NULL;
	h.sum = sum_of(&h, s);
	parts_of(s, parts);
	if (asprintf(&made, "%s.%d", path, (int)getpid()) < 0)
		return err_set(err, -ENOMEM, "cannot write '%s'", path);
	int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc = fd < 0 ? -errno : fileio_pwrite(fd, &h, sizeof(h), 0);
	uint64_t at = sizeof(h);
	for (size_t i = 0; i < PARTS && rc >= 0; i++) {
		if (parts[i].bytes)
			rc = fileio_pwrite(fd, parts[i].at, parts[i].bytes, at);
		at += parts[i].bytes;
	}
	if (rc >= 0)
		rc = copy_rows(s, fd, at);
	if (fd >= 0)
		close(fd);
	if (rc >= 0 && rename(made, path) < 0)
		rc = -errno;
	if (rc < 0 && fd >= 0)
		unlink(made);
	free(made);
	return rc < 0 ? err_set(err, rc, "cannot write '%s'", path) : 0;
}

/** fits() - are all places inside, and in order? */
static int fits(const struct slices *s)
{
	for (size_t i = 0; i <= s->count; i++) {
		const struct slice *at = &s->slices[i];
		if (at->freed_begin > s->freed_count || at->chunk_begin > s->chunk_count ||
		    at->made_begin > s->made_count || at->crest_begin > s->crest_count)
			return 0;
		if (i &&
		    (at->first < at[-1].first || at->freed_begin < at[-1].freed_begin ||
		     at->made_begin < at[-1].made_begin || at->crest_begin < at[-1].crest_begin ||
		     at->chunk_begin - at[-1].chunk_begin !=
			     (at->freed_begin - at[-1].freed_begin + FREED_CHUNK - 1) /
				     FREED_CHUNK))
			return 0;
	}
	if (s->slices[0].freed_begin || s->slices[0].made_begin || s->slices[0].first ||
	    s->slices[0].chunk_begin || s->slices[s->count].freed_begin != s->freed_count)
		return 0;
	for (size_t i = 0; i < s->brief_count; i++)
		if (s->brief[i].slice >= s->count)
			return 0;
	for (size_t i = 0; i < s->kept_count; i++)
		if (s->kept[i].stack >= s->stack_count)
			return 0;
	for (size_t i = 0; i < s->made_count; i++)
		if (s->made[i].stack >= s->stack_count)
			return 0;
	return 1;
}

/** open_head() - the file, its head and its size; -1: none for that state. */
static int open_head(const char *path, uint64_t identity, struct head *h, uint64_t *bytes)
{
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    fileio_pread(fd, h, sizeof(*h), 0) != sizeof(*h) || h->magic != MAGIC ||
	    h->identity != identity)
		return -1;
	*bytes = (uint64_t)st.st_size;
	int opened = fd;
	fd = -1;
	return opened;
}

int slices_are_there(const char *path, uint64_t identity)
{
	struct head h;
	uint64_t bytes;
	CLEANUP(fileio_closep) int fd = open_head(path, identity, &h, &bytes);
	return fd >= 0;
}

int slices_load(const char *path, uint64_t identity, struct slices **out, struct err *err)
{
	struct head h;
	uint64_t bytes;
	CLEANUP(fileio_closep) int fd = open_head(path, identity, &h, &bytes);
	if (fd < 0)
		return err_set(err, -ENOENT, "no index in '%s'", path);
	const uint64_t most = 1ull << 32;
	if (!h.count || h.count > 65536 || h.freed_count > most || h.chunk_count > most ||
	    h.kept_count > most || h.brief_count > most || h.made_count > most ||
	    h.crest_count > most)
		return err_set(err, -ENOENT, "no index in '%s'", path);
	CLEANUP(slices_freep) struct slices *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "cannot load the index of a recording");
	*s = (struct slices){ .count = h.count,
			      .rows_fd = -1,
			      .kept_steps = slices_kept_new(),
			      .freed_count = h.freed_count,
			      .chunk_count = h.chunk_count,
			      .chunk_cap = h.chunk_count,
			      .kept_count = h.kept_count,
			      .brief_count = h.brief_count,
			      .brief_cap = h.brief_count,
			      .made_count = h.made_count,
			      .made_cap = h.made_count,
			      .crest_count = h.crest_count,
			      .crest_cap = h.crest_count,
			      .moved_cap = slices_moved(0, h.count),
			      .stack_count = h.stack_count,
			      .slot_count = h.slot_count };
	struct part parts[PARTS];
	if (!s->kept_steps)
		return err_set(err, -ENOMEM, "cannot load the index of a recording");
	parts_of(s, parts);
	uint64_t at = sizeof(h);
	for (size_t i = 0; i < PARTS; i++)
		at += parts[i].bytes;
	if (at + h.freed_count * sizeof(struct freed_row) != bytes)
		return err_set(err, -ENOENT, "no index in '%s'", path);
	/* read, not mapped: who cuts the file would end the server */
	void **to[PARTS] = { (void **)&s->slices, (void **)&s->chunks, (void **)&s->kept,
			     (void **)&s->brief,  (void **)&s->made,   (void **)&s->moved,
			     (void **)&s->crests };
	at = sizeof(h);
	for (size_t i = 0; i < PARTS; i++) {
		*to[i] = malloc(parts[i].bytes + 1);
		if (!*to[i])
			return err_set(err, -ENOMEM, "cannot load the index of a recording");
		if (fileio_pread(fd, *to[i], parts[i].bytes, at) != (ssize_t)parts[i].bytes)
			return err_set(err, -ENOENT, "no index in '%s'", path);
		at += parts[i].bytes;
	}
	s->rows_at = at;
	if (sum_of(&h, s) != h.sum || !fits(s))
		return err_set(err, -ENOENT, "no index in '%s'", path);
	s->rows_fd = fd;
	fd = -1;
	*out = STEAL(s);
	return 0;
}
