/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/order.h"

struct seen {
	/* gaps as '.' */
	struct buf bytes;
	uint64_t gaps, next;
};

static int on_data(void *ctx, uint64_t time_ns, uint64_t offset, const uint8_t *bytes, size_t len,
		   struct err *err)
{
	struct seen *seen = ctx;
	(void)time_ns, (void)err;
	assert_int_equal(offset, seen->next);
	seen->next += len;
	buf_put(&seen->bytes, bytes, len);
	return 0;
}

static int on_gap(void *ctx, uint64_t time_ns, uint64_t offset, uint64_t lost, struct err *err)
{
	struct seen *seen = ctx;
	(void)time_ns, (void)err;
	assert_int_equal(offset, seen->next);
	seen->next += lost;
	seen->gaps++;
	for (uint64_t i = 0; i < lost && i < 100; i++)
		buf_putc(&seen->bytes, '.');
	return 0;
}

struct fixture {
	struct net_order order;
	struct seen seen;
	struct net_order_to to;
	struct err err;
};

static void begin(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->to = (struct net_order_to){ on_data, on_gap, &f->seen };
}

static void put(struct fixture *f, uint32_t seq, const char *text)
{
	assert_int_equal(net_order_put(&f->order, seq, seq, (const uint8_t *)text, strlen(text),
				       &f->to, &f->err),
			 0);
}

static void end(struct fixture *f, const char *want)
{
	assert_string_equal(buf_cstr(&f->seen.bytes), want);
	net_order_fini(&f->order);
	buf_fini(&f->seen.bytes);
}

static void memory_that_is_held_is_counted_with_what_each_segment_costs(void **state)
{
	struct fixture f;
	size_t memory = 0;
	(void)state;
	begin(&f);
	f.order.held_memory = &memory;
	net_order_start(&f.order, 1, 0, &f.to, &f.err);
	put(&f, 3, "c");
	size_t one = memory;
	assert_true(one > 1);
	put(&f, 5, "e");
	assert_int_equal(memory, 2 * one);
	put(&f, 3, "c"); /* again */
	assert_int_equal(memory, 2 * one);
	put(&f, 1, "ab");
	assert_int_equal(memory, one);
	end(&f, "abc");
	assert_int_equal(memory, 0);
}

static void segments_in_any_order_across_the_wrap_come_out_in_order(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	net_order_start(&f.order, 0xfffffffeu, 0, &f.to, &f.err);
	put(&f, 4, "ghi");
	put(&f, 0xfffffffeu, "abcd");
	put(&f, 0, "cdef");
	put(&f, 1, "def");
	assert_int_equal(f.order.duplicate_bytes, 5);
	assert_int_equal(f.seen.gaps, 0);
	end(&f, "abcdefghi");
}

static void what_came_before_the_start_was_known_is_kept_for_it(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	put(&f, 13, "lo");
	put(&f, 10, "hel");
	assert_int_equal(f.seen.next, 0);
	net_order_start(&f.order, 10, 0, &f.to, &f.err);
	end(&f, "hello");
}

static void settled_bytes_that_never_came_are_a_gap_of_their_length(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	net_order_start(&f.order, 0, 0, &f.to, &f.err);
	put(&f, 0, "ab");
	put(&f, 5, "fg");
	net_order_settle(&f.order, 5, 0, 0, &f.to, &f.err);
	assert_int_equal(f.seen.gaps, 0); /* the held segment begins there, not before */
	net_order_settle(&f.order, 6, 0, 0, &f.to, &f.err);
	net_order_settle(&f.order, 9, 0, 0, &f.to, &f.err);
	assert_int_equal(f.seen.gaps, 1);
	net_order_settle(&f.order, 9, 1, 0, &f.to, &f.err);
	assert_int_equal(f.seen.gaps, 2);
	end(&f, "ab...fg..");
}

static void what_is_held_is_bounded_in_bytes_and_in_number(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	net_order_start(&f.order, 0, 0, &f.to, &f.err);
	for (uint32_t i = 0; i < 3 * NET_ORDER_HELD_SEGMENTS; i++)
		put(&f, 10 + 2 * i, "x");
	assert_true(f.order.held_segments <= NET_ORDER_HELD_SEGMENTS);
	assert_true(f.seen.gaps > 0);
	net_order_flush(&f.order, &f.to, &f.err);
	assert_int_equal(f.order.held_bytes, 0);
	assert_int_equal(f.seen.next, 10 + 2 * (3 * NET_ORDER_HELD_SEGMENTS - 1) + 1);
	net_order_fini(&f.order);
	buf_fini(&f.seen.bytes);
}

static void any_shuffle_with_repeats_gives_the_stream(void **state)
{
	char stream[600];
	(void)state;
	for (size_t i = 0; i < sizeof(stream) - 1; i++)
		stream[i] = (char)('a' + i * 7 % 26);
	stream[sizeof(stream) - 1] = '\0';
	srand(1);
	for (int round = 0; round < 200; round++) {
		struct fixture f;
		uint32_t first = (uint32_t)rand() * 2u;
		begin(&f);
		net_order_start(&f.order, first, 0, &f.to, &f.err);
		/* pieces of any length and place, until all is covered */
		while (f.seen.next < sizeof(stream) - 1) {
			uint32_t at = (uint32_t)rand() % (sizeof(stream) - 1);
			size_t len = 1 + (size_t)rand() % 40;
			if (len > sizeof(stream) - 1 - at)
				len = sizeof(stream) - 1 - at;
			net_order_put(&f.order, first + at, 0, (const uint8_t *)stream + at, len,
				      &f.to, &f.err);
		}
		assert_int_equal(f.seen.gaps, 0);
		end(&f, stream);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_in_any_order_across_the_wrap_come_out_in_order),
		cmocka_unit_test(what_came_before_the_start_was_known_is_kept_for_it),
		cmocka_unit_test(settled_bytes_that_never_came_are_a_gap_of_their_length),
		cmocka_unit_test(what_is_held_is_bounded_in_bytes_and_in_number),
		cmocka_unit_test(any_shuffle_with_repeats_gives_the_stream),
		cmocka_unit_test(memory_that_is_held_is_counted_with_what_each_segment_costs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
