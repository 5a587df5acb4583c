/* SPDX-License-Identifier: Apache-2.0 */
/* fate.c - the first of two passes: how each block ended, as one bit an allocation. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "query/impl.h"

#define BITS_FIRST (1ull << 17) /* 16 KiB of file, then doubled */

int scratch_open(struct err *err)
{
	const char *dirs[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
	int code = -ENOENT;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (!dirs[i] || !*dirs[i])
			continue;
		int fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
		code = -errno;
	}
	err_set(err, code, "cannot make a temporary file");
	return err_hint(err, "set TMPDIR to a folder with free space");
}

int bits_grow(struct bits *bits, uint64_t bit, struct err *err)
{
	if (bit < bits->capacity)
		return 0;
	if (!bits->fd) {
		bits->fd = scratch_open(err);
		if (bits->fd < 0) {
			int rc = bits->fd;
			bits->fd = 0;
			return rc;
		}
	}
	uint64_t capacity = bits->capacity ? bits->capacity : BITS_FIRST;
	while (capacity <= bit)
		capacity *= 2;
	/*
	 * Allocated, not only extended: a full disk is an error here, not a signal at the first
	 * touch.
	 */
	int rc = posix_fallocate(bits->fd, 0, (off_t)(capacity / 8));
	if (rc)
		return err_set(err, -rc, "cannot grow a temporary file");
	void *words =
		bits->words
			? mremap(bits->words, bits->capacity / 8, capacity / 8, MREMAP_MAYMOVE)
			: mmap(NULL, capacity / 8, PROT_READ | PROT_WRITE, MAP_SHARED, bits->fd, 0);
	if (words == MAP_FAILED)
		return err_set(err, -errno, "cannot map a temporary file");
	bits->words = words;
	bits->capacity = capacity;
	return 0;
}

void bits_fini(struct bits *bits)
{
	if (bits->words)
		munmap(bits->words, bits->capacity / 8);
	if (bits->fd)
		close(bits->fd);
	*bits = (struct bits){ 0 };
}

/** struct fate_block - a live block that may yet be selected. */
struct fate_block {
	uint64_t time_ns;
	/* of the allocation, from 1; 0 = not live or not wanted */
	uint64_t number;
};

struct fate {
	struct sink sink;
	const struct plan *plan;
	struct bits *bits;
	/* struct fate_block by block number */
	struct chunked blocks;
	/* block number seen, plus one */
	uint32_t highest;
	uint64_t allocations, events;
};

static int lives(const struct plan *plan, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t lifetime = to_ns > from_ns ? to_ns - from_ns : 0;
	return lifetime >= plan->lifetime_min_ns && lifetime <= plan->lifetime_max_ns;
}

static int fate_define(struct sink *sink, const struct def *def, struct err *err)
{
	return plan_define(((struct fate *)sink)->plan, def, err);
}

static int fate_alloc(struct fate *fate, const struct event *ev, struct err *err)
{
	fate->allocations++;
	struct fate_block *b = chunked_touch(&fate->blocks, ev->block.v);
	if (!b)
		return err_set(err, -ENOMEM, "cannot keep the live blocks");
	if (ev->block.v >= fate->highest)
		fate->highest = ev->block.v + 1;
	int wanted =
		plan_before_at(fate->plan, ev->time_ns, fate->events) && plan_takes(fate->plan, ev);
	b->number = wanted ? fate->allocations : 0;
	b->time_ns = ev->time_ns;
	return wanted ? bits_grow(fate->bits, fate->allocations, err) : 0;
}

static void fate_free(struct fate *fate, const struct event *ev)
{
	if (!chunked_has(&fate->blocks, ev->block.v))
		return;
	struct fate_block *b = chunked_at(&fate->blocks, ev->block.v);
	const struct plan *plan = fate->plan;
	int live_then = plan->has_at && !plan_before_at(plan, ev->time_ns, fate->events);
	if (b->number && !plan->leaked && (!plan->has_at || live_then) &&
	    lives(plan, b->time_ns, ev->time_ns))
		bits_set(fate->bits, b->number);
	b->number = 0;
}

static int fate_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct fate *fate = (struct fate *)sink;
	for (size_t i = 0; i < count; i++) {
		const struct event *ev = &events[i];
		if (ev->kind != EVENT_ALLOC && ev->kind != EVENT_FREE)
			continue;
		fate->events++;
		if (ev->block.v == BLOCK_NONE)
			return err_set(err, -EINVAL,
				       "this recording does not tell its blocks apart");
		if (ev->kind == EVENT_FREE) {
			fate_free(fate, ev);
			continue;
		}
		int rc = fate_alloc(fate, ev, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int fate_run(const struct query_source *source, const struct plan *plan, struct bits *bits,
	     struct err *err)
{
	struct fate fate = {
		.sink = { .define = fate_define, .put = fate_put },
		.plan = plan,
		.bits = bits,
		.blocks = CHUNKED_INIT(struct fate_block),
	};
	int rc = plan_run(source, plan, &fate.sink, err);
	for (uint32_t i = 0; i < fate.highest && rc == 0; i++) {
		const struct fate_block *b =
			chunked_has(&fate.blocks, i) ? chunked_at(&fate.blocks, i) : NULL;
		if (b && b->number && lives(plan, b->time_ns, plan->end_ns))
			bits_set(bits, b->number);
	}
	chunked_fini(&fate.blocks);
	return rc;
}
