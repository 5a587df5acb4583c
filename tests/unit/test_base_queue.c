/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded queue between threads: whole records in order, a bound that holds, an end that wakes everybody. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/queue.h"

static int put_text(struct queue *queue, const char *text, int wait_ms)
{
	struct iovec parts[] = { { (void *)text, strlen(text) }, { "", 0 }, { "!", 1 } };
	return queue_put(queue, parts, 3, wait_ms);
}

static void records_come_out_whole_and_in_order(void **state)
{
	(void)state;
	struct queue *queue = queue_new(1000);
	CLEANUP(buf_fini) struct buf out = { 0 };
	uint64_t since = 0;
	size_t at = 0, len;
	assert_int_equal(queue_take(queue, &out, &since, 0), 0);
	assert_int_equal(put_text(queue, "one", 0), 0);
	assert_int_equal(put_text(queue, "", 0), 0);
	assert_int_equal(put_text(queue, "three", 0), 0);
	assert_int_equal(queue_take(queue, &out, &since, 0), 3);
	assert_true(since > 0);
	static const char *const want[] = { "one!", "!", "three!" };
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const char *record = queue_next(&out, &at, &len);
		assert_int_equal(len, strlen(want[i]));
		assert_memory_equal(record, want[i], len);
	}
	assert_null(queue_next(&out, &at, &len));
	/* what is taken is gone, and the queue goes on */
	assert_int_equal(queue_take(queue, &out, &since, 1), 0);
	assert_null(queue_next(&out, &(size_t){ 0 }, &len));
	queue_free(queue);
}

static void a_full_queue_refuses_and_takes_again_when_emptied(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100);
	CLEANUP(buf_fini) struct buf out = { 0 };
	uint64_t since, bytes, high;
	char large[500];
	int count = 0;
	while (put_text(queue, "0123456789", 0) == 0)
		count++;
	queue_fill(queue, &bytes, &high);
	assert_in_range(bytes, 100 - 11 - sizeof(size_t) + 1, 100);
	assert_int_equal(high, bytes);
	assert_int_equal(put_text(queue, "0123456789", 1), -EAGAIN);
	assert_int_equal(queue_take(queue, &out, &since, 0), count);
	queue_fill(queue, &bytes, &high);
	assert_int_equal(bytes, 0);
	assert_int_not_equal(high, 0);
	/* one that would never fit is let in alone, and nothing beside it */
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	assert_int_equal(put_text(queue, large, 0), 0);
	assert_int_equal(put_text(queue, "", 0), -EAGAIN);
	assert_int_equal(queue_take(queue, &out, &since, 0), 1);
	assert_int_equal(put_text(queue, "a", 0), 0);
	assert_int_equal(put_text(queue, large, 0), -EAGAIN);
	queue_free(queue);
}

static void lengths_that_overflow_are_refused(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100);
	struct iovec parts[] = { { "a", SIZE_MAX }, { "b", 2 } };
	assert_int_equal(queue_put(queue, parts, 2, 0), -ENOMEM);
	queue_free(queue);
}

static void a_closed_queue_gives_what_it_holds_and_takes_nothing(void **state)
{
	(void)state;
	struct queue *queue = queue_new(100);
	CLEANUP(buf_fini) struct buf out = { 0 };
	uint64_t since;
	assert_int_equal(put_text(queue, "last", 0), 0);
	queue_close(queue);
	assert_int_equal(put_text(queue, "late", -1), -EPIPE);
	assert_int_equal(queue_take(queue, &out, &since, -1), 1);
	assert_int_equal(queue_take(queue, &out, &since, -1), -EPIPE);
	queue_free(queue);
}

/* Producers that wait without end: woken by room, or by the end. */
#define PRODUCERS 4
#define RECORDS 20000

struct producer {
	struct queue *queue;
	pthread_t thread;
	uint32_t number, put;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	for (uint32_t i = 0; i < RECORDS; i++) {
		char filler[64];
		struct iovec parts[] = { { &p->number, 4 }, { &i, 4 }, { filler, i % 64 } };
		memset(filler, (int)(i & 0xff), sizeof(filler));
		if (queue_put(p->queue, parts, 3, -1) < 0)
			break;
		p->put++;
	}
	return NULL;
}

static void start(struct producer *producers, struct queue *queue)
{
	for (uint32_t n = 0; n < PRODUCERS; n++) {
		producers[n] = (struct producer){ .queue = queue, .number = n };
		assert_int_equal(pthread_create(&producers[n].thread, NULL, produce, &producers[n]),
				 0);
	}
}

static void many_producers_lose_nothing_and_keep_their_order(void **state)
{
	(void)state;
	struct queue *queue = queue_new(2000);
	struct producer producers[PRODUCERS];
	CLEANUP(buf_fini) struct buf out = { 0 };
	uint32_t next[PRODUCERS] = { 0 };
	uint64_t since, bytes, high;
	start(producers, queue);
	for (long left = (long)PRODUCERS * RECORDS; left > 0;) {
		long count = queue_take(queue, &out, &since, -1), seen = 0;
		const char *record;
		size_t at = 0, len;
		while ((record = queue_next(&out, &at, &len))) {
			uint32_t head[2];
			memcpy(head, record, 8);
			assert_true(head[0] < PRODUCERS);
			assert_int_equal(head[1], next[head[0]]++);
			assert_int_equal(len, 8 + head[1] % 64);
			for (size_t i = 8; i < len; i++)
				assert_int_equal((uint8_t)record[i], head[1] & 0xff);
			seen++;
		}
		assert_int_equal(seen, count);
		left -= count;
	}
	for (int n = 0; n < PRODUCERS; n++)
		pthread_join(producers[n].thread, NULL);
	queue_fill(queue, &bytes, &high);
	assert_in_range(high, 1, 2000);
	queue_free(queue);
}

static void closing_wakes_producers_that_wait_for_room(void **state)
{
	(void)state;
	struct queue *queue = queue_new(2000);
	struct producer producers[PRODUCERS];
	CLEANUP(buf_fini) struct buf out = { 0 };
	uint64_t since, bytes = 0, high;
	start(producers, queue);
	/* until there is no room for the longest record */
	while (bytes < 2000 - 80)
		queue_fill(queue, &bytes, &high);
	queue_close(queue);
	long put = 0, taken = queue_take(queue, &out, &since, 0);
	for (int n = 0; n < PRODUCERS; n++) {
		pthread_join(producers[n].thread, NULL);
		put += producers[n].put;
	}
	assert_int_equal(taken, put);
	assert_int_equal(queue_take(queue, &out, &since, 0), -EPIPE);
	queue_free(queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_out_whole_and_in_order),
		cmocka_unit_test(a_full_queue_refuses_and_takes_again_when_emptied),
		cmocka_unit_test(lengths_that_overflow_are_refused),
		cmocka_unit_test(a_closed_queue_gives_what_it_holds_and_takes_nothing),
		cmocka_unit_test(many_producers_lose_nothing_and_keep_their_order),
		cmocka_unit_test(closing_wakes_producers_that_wait_for_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
