/* SPDX-License-Identifier: Apache-2.0 */
/* trace_back.h - a recording read back into a copy, and compared with what was written. */
#ifndef TESTS_TRACE_BACK_H
#define TESTS_TRACE_BACK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace/trace.h"
#include "trace_folder.h"
#include "trace_stream.h"

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

#endif
