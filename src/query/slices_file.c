/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices_file.c - an index in a file: a head, the rows as they are in memory, nothing else. A cache of one machine, not for exchange:
 * what does not fit in every respect is made anew. Numbers from it are checked before they are used as places.
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

#define MAGIC 0x32736563696c7362ull /* "bslices2" */

struct head {
	uint64_t magic, identity, sum; /* sum: of all that follows */
	uint64_t count, freed_count, kept_count, made_count;
	uint32_t stack_count, slot_count;
};

/** sum_of() - cheap, and no two files of use have the same by accident. */
static uint64_t sum_of(const struct head *h, const struct slices *s)
{
	uint64_t sum = hash_u64(h->stack_count, h->slot_count, 1);
	sum = hash_bytes((const char *)s->slices, (s->count + 1) * sizeof(*s->slices), sum);
	sum = hash_bytes((const char *)s->freed, s->freed_count * sizeof(*s->freed), sum);
	sum = hash_bytes((const char *)s->kept, s->kept_count * sizeof(*s->kept), sum);
	return hash_bytes((const char *)s->made, s->made_count * sizeof(*s->made), sum);
}

static int put(int fd, const void *rows, size_t bytes, uint64_t *at)
{
	int rc = bytes ? fileio_pwrite(fd, rows, bytes, *at) : 0;
	*at += bytes;
	return rc;
}

int slices_save(const struct slices *s, const char *path, uint64_t identity, struct err *err)
{
	struct head h = { .magic = MAGIC,
			  .identity = identity,
			  .count = s->count,
			  .freed_count = s->freed_count,
			  .kept_count = s->kept_count,
			  .made_count = s->made_count,
			  .stack_count = s->stack_count,
			  .slot_count = s->slot_count };
	char *made = NULL;
	uint64_t at = 0;
	h.sum = sum_of(&h, s);
	if (asprintf(&made, "%s.%d", path, (int)getpid()) < 0)
		return err_set(err, -ENOMEM, "cannot write '%s'", path);
	int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc = fd < 0 ? -errno : put(fd, &h, sizeof(h), &at);
	if (rc >= 0)
		rc = put(fd, s->slices, (s->count + 1) * sizeof(*s->slices), &at);
	if (rc >= 0)
		rc = put(fd, s->freed, s->freed_count * sizeof(*s->freed), &at);
	if (rc >= 0)
		rc = put(fd, s->kept, s->kept_count * sizeof(*s->kept), &at);
	if (rc >= 0)
		rc = put(fd, s->made, s->made_count * sizeof(*s->made), &at);
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
		if (at->freed_begin > s->freed_count || at->made_begin > s->made_count)
			return 0;
		if (i && (at->first < at[-1].first || at->freed_begin < at[-1].freed_begin ||
			  at->made_begin < at[-1].made_begin))
			return 0;
	}
	if (s->slices[0].freed_begin || s->slices[0].made_begin || s->slices[0].first)
		return 0;
	for (size_t i = 0; i < s->freed_count; i++)
		if (s->freed[i].stack >= s->stack_count ||
		    (s->freed[i].slot & ~SLICE_TEMPORARY) >= s->slot_count)
			return 0;
	for (size_t i = 0; i < s->kept_count; i++)
		if (s->kept[i].stack >= s->stack_count)
			return 0;
	for (size_t i = 0; i < s->made_count; i++)
		if (s->made[i].stack >= s->stack_count)
			return 0;
	return 1;
}

int slices_load(const char *path, uint64_t identity, struct slices **out, struct err *err)
{
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct head h;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    fileio_pread(fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != MAGIC ||
	    h.identity != identity)
		return err_set(err, -ENOENT, "no index in '%s'", path);
	const uint64_t most = 1ull << 32;
	uint64_t bytes = sizeof(h);
	if (!h.count || h.count > most || h.freed_count > most || h.kept_count > most ||
	    h.made_count > most)
		return err_set(err, -ENOENT, "no index in '%s'", path);
	bytes += (h.count + 1) * sizeof(struct slice) +
		 (h.freed_count + h.kept_count) * sizeof(struct freed) +
		 h.made_count * sizeof(struct made);
	if (bytes != (uint64_t)st.st_size)
		return err_set(err, -ENOENT, "no index in '%s'", path);
	CLEANUP(slices_freep) struct slices *s = calloc(1, sizeof(*s));
	/* read, not mapped: who cuts the file would end the server */
	struct slice *slices = malloc((h.count + 1) * sizeof(*slices));
	struct freed *freed = malloc((h.freed_count + 1) * sizeof(*freed));
	struct freed *kept = malloc((h.kept_count + 1) * sizeof(*kept));
	struct made *made = malloc((h.made_count + 1) * sizeof(*made));
	if (!s || !slices || !freed || !kept || !made) {
		free(slices);
		free(freed);
		free(kept);
		free(made);
		return err_set(err, -ENOMEM, "cannot load the index of a recording");
	}
	*s = (struct slices){ .slices = slices,
			      .count = h.count,
			      .freed = freed,
			      .freed_count = h.freed_count,
			      .freed_cap = h.freed_count,
			      .kept = kept,
			      .kept_count = h.kept_count,
			      .made = made,
			      .made_count = h.made_count,
			      .made_cap = h.made_count,
			      .stack_count = h.stack_count,
			      .slot_count = h.slot_count };
	struct {
		void *to;
		size_t bytes;
	} parts[] = { { slices, (h.count + 1) * sizeof(*slices) },
		      { freed, h.freed_count * sizeof(*freed) },
		      { kept, h.kept_count * sizeof(*kept) },
		      { made, h.made_count * sizeof(*made) } };
	uint64_t at = sizeof(h);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (fileio_pread(fd, parts[i].to, parts[i].bytes, at) != (ssize_t)parts[i].bytes)
			return err_set(err, -ENOENT, "no index in '%s'", path);
		at += parts[i].bytes;
	}
	if (sum_of(&h, s) != h.sum || !fits(s))
		return err_set(err, -ENOENT, "no index in '%s'", path);
	*out = STEAL(s);
	return 0;
}
