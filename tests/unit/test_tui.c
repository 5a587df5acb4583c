/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/grid.h"
#include "tui/list.h"
#include "tui/paint.h"

static void shows(const struct grid *grid, unsigned row, const char *expected)
{
	char *text = grid_row_text(grid, row);
	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void what_a_terminal_would_obey_is_spelt(void **state)
{
	(void)state;
	struct grid g;
	assert_int_equal(grid_init(&g, 3, 40, 0, NULL), 0);
	assert_int_equal(grid_put(&g, 0, 0, 40, GRID_PLAIN, "a\033[31m\x01z"), 14);
	shows(&g, 0, "a\\x1b[31m\\x01z");
	grid_put(&g, 1, 0, 40, GRID_PLAIN, "x\u202ey\u2066\xff");
	shows(&g, 1, "x\\u{202e}y\\u{2066}\\xff");
	grid_put(&g, 7, 0, 40, GRID_PLAIN, "outside");
	grid_put(&g, 2, 38, 40, GRID_PLAIN, "cut off");
	shows(&g, 2, "                                      cu");
	grid_fini(&g);
}

static void wide_characters_take_two_columns_and_accents_none(void **state)
{
	(void)state;
	struct grid g;
	assert_int_equal(grid_init(&g, 2, 10, 0, NULL), 0);
	assert_int_equal(grid_width(&g, "\u6f22e\u0301"), 3);
	assert_int_equal(grid_put(&g, 0, 0, 3, GRID_PLAIN, "\u6f22e\u0301x"), 3);
	shows(&g, 0, "\u6f22e\u0301");
	/* half of a wide one finds no room */
	assert_int_equal(grid_put(&g, 1, 0, 3, GRID_PLAIN, "\u6f22\u6f22"), 2);
	grid_fini(&g);
}

static void names_keep_their_end_and_numbers_their_place(void **state)
{
	(void)state;
	struct grid g;
	assert_int_equal(grid_init(&g, 3, 12, 0, NULL), 0);
	grid_put_end(&g, 0, 0, 8, GRID_PLAIN, "std::vector::grow");
	shows(&g, 0, "\u2026r::grow");
	grid_put_right(&g, 1, 9, 9, GRID_PLAIN, "12 KiB");
	shows(&g, 1, "   12 KiB");
	grid_put_right(&g, 2, 4, 4, GRID_PLAIN, "123456");
	shows(&g, 2, "#");
	grid_fini(&g);
}

static void nothing_beyond_ascii_is_shown_where_the_terminal_has_nothing_else(void **state)
{
	(void)state;
	struct grid g;
	assert_int_equal(grid_init(&g, 1, 30, 1, NULL), 0);
	grid_put(&g, 0, 0, 30, GRID_PLAIN, "live \u00b7 na\u00efve\xff");
	shows(&g, 0, "live - na?ve\\xff");
	grid_fini(&g);
}

static const uint64_t *keys;
static uint64_t key_of(void *ctx, uint32_t row)
{
	(void)ctx;
	return keys[row];
}

static void the_cursor_stays_on_its_row_while_the_list_changes(void **state)
{
	(void)state;
	static const uint64_t first[] = { 1, 2, 3, 4, 5 }, second[] = { 9, 8, 4, 3, 2, 1 },
			      third[] = { 9 };
	struct list l = { 0 };
	keys = first;
	list_renew(&l, 5, key_of, NULL);
	list_fit(&l, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(list_key(&l, PAINT_DOWN), 1);
	assert_int_equal(l.cursor, 3);
	list_renew(&l, 5, key_of, NULL);
	assert_int_equal(l.key, 4);
	list_fit(&l, 3);
	assert_int_equal(l.top, 1);
	keys = second;
	list_renew(&l, 6, key_of, NULL);
	assert_int_equal(l.cursor, 2);
	assert_int_equal(l.key, 4);
	keys = third;
	list_renew(&l, 1, key_of, NULL);
	assert_int_equal(l.cursor, 0);
	list_renew(&l, 0, key_of, NULL);
	assert_int_equal(list_key(&l, PAINT_END), 1);
	assert_int_equal(l.cursor, 0);
	assert_int_equal(list_key(&l, 'x'), 0);
}

static void pages_and_ends_are_reached(void **state)
{
	(void)state;
	static uint64_t many[100];
	struct list l = { 0 };
	for (unsigned i = 0; i < 100; i++)
		many[i] = i + 1;
	keys = many;
	list_renew(&l, 100, key_of, NULL);
	list_fit(&l, 10);
	list_key(&l, PAINT_PAGE_DOWN);
	list_fit(&l, 10);
	assert_int_equal(l.cursor, 9);
	list_key(&l, PAINT_END);
	list_fit(&l, 10);
	assert_int_equal(l.cursor, 99);
	assert_int_equal(l.top, 90);
	list_key(&l, PAINT_PAGE_UP);
	list_key(&l, PAINT_HOME);
	list_fit(&l, 10);
	assert_int_equal(l.cursor + l.top, 0);
}

int main(void)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_terminal_would_obey_is_spelt),
		cmocka_unit_test(wide_characters_take_two_columns_and_accents_none),
		cmocka_unit_test(names_keep_their_end_and_numbers_their_place),
		cmocka_unit_test(nothing_beyond_ascii_is_shown_where_the_terminal_has_nothing_else),
		cmocka_unit_test(the_cursor_stays_on_its_row_while_the_list_changes),
		cmocka_unit_test(pages_and_ends_are_reached),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
