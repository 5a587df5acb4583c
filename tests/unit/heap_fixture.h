/* SPDX-License-Identifier: Apache-2.0 */
/* heap_fixture.h - a recorder with two rings that a test fills, and the books that it hands its events to; after cmocka.h. */
#ifndef TESTS_HEAP_FIXTURE_H
#define TESTS_HEAP_FIXTURE_H

#include "ring_producer.h"

struct fixture {
	struct source_heap *heap;
	struct books *books;
	struct producer a, b;
};

static inline void fixture_open(struct fixture *f)
{
	struct err err = { 0 };
	const struct source_heap_opt opt = { 0 };
	f->heap = source_heap_new(&opt, &err);
	assert_non_null(f->heap);
	f->books = books_new();
	producer_open(&f->a, f->heap, 0);
	producer_open(&f->b, f->heap, 1);
}

static inline void fixture_drain(struct fixture *f)
{
	struct err err = { 0 };
	assert_true(source_heap_drain(f->heap, &f->books->sink, &err) >= 0);
}

static inline void fixture_finish(struct fixture *f)
{
	struct err err = { 0 };
	assert_int_equal(source_heap_finish(f->heap, &f->books->sink, 0, &err), 0);
}

static inline void fixture_close(struct fixture *f)
{
	producer_close(&f->a);
	producer_close(&f->b);
	source_heap_free(f->heap);
	free(f->books);
}

#endif
