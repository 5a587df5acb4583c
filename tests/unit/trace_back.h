/* SPDX-License-Identifier: Apache-2.0 */
/* trace_back.h - a recording read back into a copy, and compared with what was written. */
#ifndef TESTS_TRACE_BACK_H
#define TESTS_TRACE_BACK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "trace/trace.h"
#include "trace_folder.h"
#include "trace_stream.h"

/* Definitions go into the recording at once, events wait. */
struct late {
	struct copy copy;
	struct sink *to;
};

static inline int late_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct late *late = (struct late *)sink;
	return late->to->define(late->to, def, err);
}

/* The recording has block numbers of its own: as dense, and one for one while a block lives. */
static inline void assert_same_events(const struct copy *a, const struct copy *b, size_t count)
{
	uint32_t *number = calloc(1 << 16, sizeof(*number)); /* of a's live blocks in b, plus one */
	uint8_t *live = calloc(1, 1 << 16);
	assert_true(number && live);
	for (size_t i = 0; i < count; i++) {
		struct event x = a->events[i];
		const struct event *y = &b->events[i];
		if (x.kind == EVENT_ALLOC) {
			assert_true(x.block.v < 1 << 16 && y->block.v < 1 << 16);
			if (live[y->block.v])
				fail_msg("event %zu: number %u is given out twice", i, y->block.v);
			live[y->block.v] = 1;
			number[x.block.v] = y->block.v + 1;
			x.block = y->block;
		} else if (x.kind == EVENT_FREE) {
			uint32_t in = x.block.v;
			x.block.v = number[in] - 1;
			live[x.block.v] = 0;
			number[in] = 0;
		}
		if (memcmp(&x, y, sizeof(x)) != 0)
			fail_msg("event %zu: kind %u/%u flags %u/%u thread %u/%u time %lu/%lu addr "
				 "%lx/%lx bytes %lu/%lu value %lu/%lu stack %u/%u aux %u/%u block "
				 "%u/%u",
				 i, x.kind, y->kind, x.flags, y->flags, x.thread.v, y->thread.v,
				 x.time_ns, y->time_ns, x.addr, y->addr, x.bytes, y->bytes, x.value,
				 y->value, x.stack.v, y->stack.v, x.aux_stack.v, y->aux_stack.v,
				 x.block.v, y->block.v);
	}
	free(number);
	free(live);
}

static inline void read_back(struct copy *copy, struct trace_reader_info *info)
{
	struct err err = { 0 };
	copy_init(copy);
	struct trace_reader *r = trace_reader_new(path, &err);
	if (!r)
		fail_msg("%s", err.msg);
	assert_done(trace_reader_run(r, &copy->sink, NULL, &err), err);
	trace_reader_info(r, info);
	trace_reader_freep(&r);
}

/* ---- the file as it is ---------------------------------------------------------------------------------------------- */

static inline void spill(const char *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static inline char *slurp(size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	char *data = malloc((size_t)st.st_size + 1);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	close(fd);
	*len = (size_t)st.st_size;
	return data;
}

/* ---- what is told --------------------------------------------------------------------------------------------------- */

struct sums {
	uint64_t allocations, bytes, frees;
};

/*
 * What events tell of, that which is told as lost included. A free that nobody saw was told before: it does not count, and is
 * none of a block that lives on.
 */
static inline struct sums sums_of(const struct event *events, size_t count)
{
	struct sums s = { 0 };
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		if (e->kind == EVENT_ALLOC) {
			s.allocations++;
			s.bytes += e->bytes;
		} else if (e->kind == EVENT_FREE) {
			s.frees += !(e->flags & EVENT_F_IMPLIED);
		} else if (e->kind == EVENT_FREE_FOREIGN) {
			s.frees++;
		} else if (e->kind == EVENT_LOST && e->value != LOSS_REGION) {
			s.allocations += e->addr;
			s.bytes += e->bytes;
			s.frees += e->block.v;
		}
	}
	return s;
}

static inline struct sums sums(const struct copy *copy)
{
	return sums_of(copy->events, copy->count);
}

static inline void assert_same_sums(const struct sums *a, const struct sums *b)
{
	assert_int_equal(a->allocations, b->allocations);
	assert_int_equal(a->bytes, b->bytes);
	assert_int_equal(a->frees, b->frees);
}

#endif
