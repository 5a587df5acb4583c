/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "model/mapped.h"

#define PAGES 64
#define STACKS 5
#define BASE 0x10000000ull
#define PAGE 4096ull

/* Who has each page, as 1 + stack * kinds + kind; 0: nobody. */
struct naive {
	unsigned page[PAGES];
	uint64_t live[MAPPED_KINDS], peak[MAPPED_KINDS], at_heap[MAPPED_KINDS];
	uint64_t row_peak[STACKS][MAPPED_KINDS];
};

static uint64_t pages_of(const struct naive *n, unsigned stack, unsigned kind)
{
	uint64_t count = 0;
	for (unsigned i = 0; i < PAGES; i++)
		count += n->page[i] == 1 + stack * MAPPED_KINDS + kind;
	return count * PAGE;
}

static uint64_t kind_pages(const struct naive *n, unsigned kind)
{
	uint64_t sum = 0;
	for (unsigned stack = 0; stack < STACKS; stack++)
		sum += pages_of(n, stack, kind);
	return sum;
}

static void naive_map(struct naive *n, unsigned from, unsigned count, unsigned stack, unsigned kind)
{
	for (unsigned i = from; i < from + count; i++)
		n->page[i] = 1 + stack * MAPPED_KINDS + kind;
	n->live[kind] = kind_pages(n, kind);
	if (n->live[kind] <= n->peak[kind])
		return;
	n->peak[kind] = n->live[kind];
	for (unsigned s = 0; s < STACKS; s++)
		n->row_peak[s][kind] = pages_of(n, s, kind);
}

static struct event event_of(unsigned what, unsigned from, unsigned count, unsigned kind)
{
	struct event ev = { .kind = (uint8_t)what,
			    .addr = BASE + from * PAGE,
			    .bytes = count * PAGE };
	uint64_t prot = kind == MAPPED_RESERVED ? PROT_NONE : PROT_READ | PROT_WRITE;
	uint64_t flags = kind == MAPPED_FILE ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	ev.value = prot | (kind == MAPPED_ALLOCATOR ? MAPPED_PROT_INNER : 0) | flags << 32;
	return ev;
}

static void parts_of_mappings_come_and_go_as_in_a_table_of_pages(void **state)
{
	(void)state;
	srand(7);
	for (unsigned round = 0; round < 40; round++) {
		struct naive n = { 0 };
		struct mapped *m = mapped_new();
		uint64_t epoch = 1;
		for (unsigned op = 0; op < 200; op++) {
			unsigned from = (unsigned)rand() % PAGES, stack = (unsigned)rand() % STACKS;
			unsigned count = 1 + (unsigned)rand() % (PAGES - from);
			unsigned kind = (unsigned)rand() % MAPPED_KINDS;
			if (rand() % 5 == 0) { /* the heap has a new maximum */
				mapped_note_heap(m, ++epoch);
				for (unsigned k = 0; k < MAPPED_KINDS; k++)
					n.at_heap[k] = kind_pages(&n, k);
			}
			mapped_note_heap(m, epoch);
			if (rand() % 3) {
				/* what is mapped over goes first */
				memset(&n.page[from], 0, count * sizeof(n.page[0]));
				struct event ev = event_of(EVENT_MAP, from, count, kind);
				assert_int_equal(mapped_put(m, &ev, stack), 0);
				naive_map(&n, from, count, stack, kind);
			} else {
				struct event ev = event_of(EVENT_UNMAP, from, count, 0);
				assert_int_equal(mapped_put(m, &ev, 0), 0);
				memset(&n.page[from], 0, count * sizeof(n.page[0]));
			}
			for (unsigned k = 0; k < MAPPED_KINDS; k++) {
				struct mapped_sum sum;
				mapped_sum(m, k, &sum);
				assert_int_equal(sum.live_bytes, kind_pages(&n, k));
				assert_int_equal(sum.peak_bytes, n.peak[k]);
				assert_int_equal(sum.at_heap_peak_bytes, n.at_heap[k]);
			}
		}
		struct mapped *copy = mapped_dup(m);
		for (size_t i = 0; i < mapped_count(copy); i++) {
			struct mapped_row row;
			mapped_row(copy, i, &row);
			assert_int_equal(row.sum.live_bytes, pages_of(&n, row.stack, row.kind));
			assert_int_equal(row.sum.peak_bytes, n.row_peak[row.stack][row.kind]);
		}
		mapped_free(copy);
		mapped_free(m);
	}
}

static void a_mapping_that_moves_keeps_its_kind(void **state)
{
	(void)state;
	struct mapped *m = mapped_new();
	struct mapped_sum sum;
	struct event ev = event_of(EVENT_MAP, 0, 4, MAPPED_FILE);
	mapped_put(m, &ev, 1);
	ev = event_of(EVENT_UNMAP, 0, 4, 0);
	ev.flags = EVENT_F_REALLOC;
	mapped_put(m, &ev, 2);
	ev = (struct event){ .kind = EVENT_MAP,
			     .flags = EVENT_F_REALLOC,
			     .addr = BASE + 8 * PAGE,
			     .bytes = 8 * PAGE };
	mapped_put(m, &ev, 2);
	mapped_sum(m, MAPPED_FILE, &sum);
	assert_int_equal(sum.live_bytes, 8 * PAGE);
	assert_int_equal(sum.live_count, 1);
	mapped_sum(m, MAPPED_ANON, &sum);
	assert_int_equal(sum.peak_bytes, 0);
	mapped_free(m);
}

static void the_break_counts_from_where_it_was_seen_first(void **state)
{
	(void)state;
	struct mapped *m = mapped_new();
	struct mapped_sum sum;
	struct event ev = { .kind = EVENT_BRK, .addr = BASE };
	mapped_put(m, &ev, 1);
	ev.addr = BASE + 10 * PAGE;
	mapped_put(m, &ev, 1);
	ev.addr = BASE + 4 * PAGE;
	mapped_put(m, &ev, 1);
	mapped_sum(m, MAPPED_ANON, &sum);
	assert_int_equal(sum.peak_bytes, 10 * PAGE);
	assert_int_equal(sum.live_bytes, 4 * PAGE);
	/* nonsense from a file costs nothing */
	ev = (struct event){ .kind = EVENT_MAP, .addr = UINT64_MAX - 5, .bytes = UINT64_MAX };
	assert_int_equal(mapped_put(m, &ev, 1), 0);
	ev.kind = EVENT_UNMAP;
	assert_int_equal(mapped_put(m, &ev, 1), 0);
	mapped_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_mappings_come_and_go_as_in_a_table_of_pages),
		cmocka_unit_test(a_mapping_that_moves_keeps_its_kind),
		cmocka_unit_test(the_break_counts_from_where_it_was_seen_first),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
