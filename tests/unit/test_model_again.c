/* SPDX-License-Identifier: Apache-2.0 */
/* What was free and is in use again: whole pages, there at both moments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/snapshot.h"

#define PAGE 4096ull
#define HEAP 0x555500000000ull

static void pages_that_are_in_use_again_are_counted_where_they_are_there_both_times(void **state)
{
	(void)state;
	struct snapshot_piece free_then[] = { { HEAP, 20 * PAGE, SNAPSHOT_PIECE_FREE },
					      { HEAP + 30 * PAGE, 10 * PAGE, SNAPSHOT_PIECE_TOP } };
	struct snapshot_piece free_later[] = { { HEAP, 5 * PAGE, SNAPSHOT_PIECE_FREE },
					       { HEAP + 10 * PAGE, 3 * PAGE,
						 SNAPSHOT_PIECE_CACHED },
					       { HEAP + 35 * PAGE, 5 * PAGE, SNAPSHOT_PIECE_TOP } };
	struct snapshot_run there[] = { { HEAP, HEAP + 40 * PAGE, PAGE_IS_PRESENT } };
	struct snapshot_run gone[] = { { HEAP, HEAP + 8 * PAGE, PAGE_IS_PRESENT },
				       { HEAP + 8 * PAGE, HEAP + 40 * PAGE, PAGE_IS_SWAPPED } };
	struct snapshot then = { .page_bytes = PAGE,
				 .pieces = free_then,
				 .piece_count = 2,
				 .runs = there,
				 .run_count = 1 };
	struct snapshot later = { .page_bytes = PAGE,
				  .pieces = free_later,
				  .piece_count = 3,
				  .runs = there,
				  .run_count = 1 };
	/* pages 1 to 19 were free (the first has links): 5 to 19 are used; 31 to 39 were: 31 to 35 are, the 35th has links */
	assert_int_equal(snapshot_touched_again(&then, &later), (15 + 5) * PAGE);
	assert_int_equal(snapshot_touched_again(&then, &then), 0);
	later.runs = gone;
	later.run_count = 2;
	assert_int_equal(snapshot_touched_again(&then, &later), 3 * PAGE);
	then.runs = gone; /* given back already: nothing comes again */
	then.run_count = 2;
	later.runs = there;
	later.run_count = 1;
	assert_int_equal(snapshot_touched_again(&then, &later), 3 * PAGE);
}

static void other_allocators_free_units_count_by_address_between_chunks(void **state)
{
	(void)state;
	struct snapshot_unit units[] = {
		{ .start = HEAP, .bytes = 4 * PAGE, .kind = SNAPSHOT_FREE },
		{ .start = HEAP + 4 * PAGE, .bytes = 4 * PAGE, .kind = SNAPSHOT_SLAB },
		{ .start = HEAP + 60 * PAGE, .bytes = 2 * PAGE, .kind = SNAPSHOT_FREE },
	};
	struct snapshot_piece pieces[] = { { HEAP + 20 * PAGE, 10 * PAGE, SNAPSHOT_PIECE_FREE } };
	struct snapshot_run there[] = { { HEAP, HEAP + 80 * PAGE, PAGE_IS_PRESENT } };
	struct snapshot then = { .page_bytes = PAGE,
				 .units = units,
				 .unit_count = 3,
				 .pieces = pieces,
				 .piece_count = 1,
				 .runs = there,
				 .run_count = 1 };
	struct snapshot later = { .page_bytes = PAGE,
				  .units = units + 2,
				  .unit_count = 1,
				  .runs = there,
				  .run_count = 1 };
	assert_int_equal(snapshot_touched_again(&then, &later), (4 + 9) * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			pages_that_are_in_use_again_are_counted_where_they_are_there_both_times),
		cmocka_unit_test(other_allocators_free_units_count_by_address_between_chunks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
