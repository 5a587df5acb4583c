/* SPDX-License-Identifier: Apache-2.0 */
/* fake_reader.h - a heap made by hand and one reading of it. Behind cmocka.h. */
#ifndef TESTS_FAKE_READER_H
#define TESTS_FAKE_READER_H

#include <stdlib.h>

#include "fake_memory.h"

static inline struct fake *fake_new(void (*build)(struct fake *))
{
	struct fake *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	build(f);
	fake_keep(f);
	return f;
}

static inline const struct allocator_reading *
read_once(struct fake *f, int (*reader)(struct breakdown *, const struct memory *, struct err *))
{
	struct err err = { 0 };
	fake_reset(f);
	assert_int_equal(reader(&f->b, &f->memory, &err), 0);
	assert_int_equal(f->reads_of_absent, 0);
	return f->b.allocator_count ? f->b.allocators : NULL;
}

static inline void fake_end(struct fake *f)
{
	fake_fini(f);
	free(f);
}

#endif
