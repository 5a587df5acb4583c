/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_build.h - from recipes in any order of arrival to a blob; and the two engines that find the
 * recipes.
 */
#ifndef SYM_ROWS_BUILD_H
#define SYM_ROWS_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "sym/image.h"
#include "sym/unwind_rows.h"

/** One stretch of code and its recipe. */
struct rows_span {
	uint64_t lo, hi;
	uint64_t rule;
};

/** struct rows_list - zero-initialised is empty; rows_fini() releases. */
struct rows_list {
	struct rows_span *all;
	size_t count, cap;
	uint64_t fdes;
	/* memory ran out */
	int failed;
};
void rows_fini(struct rows_list *list);
void rows_add(struct rows_list *list, uint64_t lo, uint64_t hi, uint64_t rule);

/**
 * rows_from_eh_frame() - recipes of .eh_frame by unwind/cfi.c: the very reader that the stepper
 * uses on demand. rows_from_libdw() - the same by elfutils, from .eh_frame (@debug_frame 0) or
 * .debug_frame (1); slower. It serves .debug_frame, and tests compare the two. Return: 0, or
 * -ENOENT where the file has no such section.
 */
int rows_from_eh_frame(struct rows_list *list, const struct image *image);
int rows_from_libdw(struct rows_list *list, const struct image *image, int debug_frame);

/**
 * rows_fill() - add to @list what @more knows about code that @list is silent on; both become
 * sorted.
 */
void rows_fill(struct rows_list *list, struct rows_list *more);

/**
 * rows_blob() - sort, join and lay out; changes the order of @list. Return: as unwind_rows_get().
 */
int64_t rows_blob(struct rows_list *list, const struct image *image, struct wire_unwind **blob,
		  struct unwind_rows_info *stats);

#endif
