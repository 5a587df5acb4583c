/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tui/grid.h"
#include "tui/list.h"
#include "tui/paint.h"
#include "tui/screens.h"
#include "tui/sheet.h"

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

static const struct sheet_column columns[] = { { "BYTES", SHEET_BYTES, 8, 0 },
					       { "WORD", SHEET_WORD, 5, 0 } };

static void add_row(struct sheet *sheet, uint32_t parent, const char *name, int64_t bytes)
{
	struct sheet_row *row = sheet_add(sheet, parent, sheet_key(parent, name), name);
	assert_non_null(row);
	row->cells[0].number = bytes;
	row->cells[1].word = sheet_text(sheet, name);
}

static void feed(struct sheet_view *view, int64_t a, int64_t b, uint64_t time_ns)
{
	struct err err = { 0 };
	struct sheet sheet = { .columns = columns, .column_count = 2, .name_head = "NAME" };
	add_row(&sheet, 0, "a", a);
	add_row(&sheet, 0, "b", b);
	add_row(&sheet, 2, "below b", 3);
	assert_int_equal(sheet_view_feed(view, &sheet, time_ns, 1, &err), 0);
	assert_int_equal(sheet.count, 0);
}

static void rows_of_a_sheet_open_change_and_are_looked_for(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct sheet_frame frame = { .title = "t", .keys = "" };
	struct sheet_view *view = sheet_view_new(&err);
	struct grid g;
	assert_int_equal(grid_init(&g, 12, 80, 1, NULL), 0);
	feed(view, 2048, 1024, 0);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 2, "   BYTES WORD  NAME");
	shows(&g, 3, "2.00 KiB a       a");
	shows(&g, 4, "1.00 KiB b     > b");
	/* the cursor stays on its row, which is the first one now, and what grew is told */
	assert_int_equal(sheet_view_key(view, PAINT_DOWN, &err), 1);
	assert_int_equal(sheet_view_key(view, PAINT_RIGHT, &err), 1);
	feed(view, 2048, 3072, 10000000000ull);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 3, "3.00 KiB  +2.00 KiB b     v b");
	shows(&g, 4, "     3 B          0 below `  below b");
	assert_int_equal(g.cells[3 * 80].style, GRID_SELECTED);
	CLEANUP(buf_fini) struct buf path = { 0 };
	assert_int_equal(sheet_view_key(view, PAINT_DOWN, &err), 1);
	sheet_view_path(view, &path);
	assert_string_equal(buf_cstr(&path), "below b\nb\n");
	const int typed[] = { '/', 'E', 'L', 'O', PAINT_ENTER };
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(sheet_view_key(view, typed[i], &err), 1);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 3, "3.00 KiB  +2.00 KiB b     v b");
	shows(&g, 5, "");
	assert_int_equal(sheet_view_key(view, '5', &err), 0);
	grid_fini(&g);
	sheet_view_free(view);
}

static void answers_of_any_shape_are_shown_or_refused(void **state)
{
	(void)state;
	static const char *const answers[] = {
		"",
		"{",
		"null",
		"7",
		"[]",
		"{}",
		"[[],null,{}]",
		"[1,2]",
		"\"x\"",
		"{\"lines\":[1,null,{},{\"bytes\":9e99,\"stacks\":[0,{\"frames\":7}]}],\"rss_"
		"bytes\":-1}",
		"{\"node\":{\"frame\":[0,5,-7],\"depth\":[0,1,99999],\"total\":{}},\"frames\":[]}",
		"{\"rows\":{\"frame\":[-1,1e300,null],\"points\":[1,[[]]]},\"frames\":{\"short\":[]"
		"}}",
		"{\"classes\":[{},{\"class\":4},[]],\"regions\":[{\"start\":-1}],\"threads\":[3]}",
		"{\"series\":[{\"class\":null},{\"class\":\"x\",\"points\":[[],4]}]}",
		"{\"maps\":{\"address\":[1,\"0x1\"],\"stack\":[99,-1]},\"stacks\":{\"frames\":[[7]]"
		"}}",
		"{\"value\":\"many\",\"frames\":[{\"name\":[]},{\"frames\":[{}]}]}",
		"{\"processes\":[{},{\"rows\":[{\"frames\":[{},1]}]},null]}",
	};
	for (unsigned screen = 0; screen <= SCREENS; screen++) {
		for (unsigned form = 0; form < 8; form++) {
			const struct screen_what what = { .screen = (enum screen)screen,
							  .form = form / 2,
							  .recording =
								  form % 2 ? 0 : SCREEN_NOWHERE,
							  .process =
								  form % 2 ? SCREEN_NOWHERE : 1 };
			for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
				CLEANUP(sheet_fini) struct sheet sheet = { 0 };
				struct err err = { 0 };
				struct screen_sources sources;
				CLEANUP(buf_fini) struct buf text = { 0 };
				size_t len = strlen(answers[i]);
				int rc = screen_read(&what, answers[i], len, &sheet, &err);
				assert_true(i >= 2 || rc == -EBADMSG);
				screen_sources(answers[i], len, &sources, &err);
				screen_error(answers[i], len, &text);
				assert_true(text.len > 0);
			}
		}
	}
}

/** show() - @answer as a sheet; sheet_fini(). */
static void show(const struct screen_what *what, const char *answer, struct sheet *sheet)
{
	struct err err = { 0 };
	*sheet = (struct sheet){ 0 };
	assert_int_equal(screen_read(what, answer, strlen(answer), sheet, &err), 0);
}

static void groups_have_their_own_names_and_are_told_apart(void **state)
{
	(void)state;
	static const char answer[] =
		"{\"rss_bytes\":30,\"lines\":[{\"class\":\"heap-live\",\"bytes\":30,\"stacks\":["
		"{\"name\":\"/a/x.c:7\",\"key\":\"01\",\"bytes\":20,"
		"\"frames\":[{\"function\":\"first\",\"module\":\"m\",\"file\":\"/a/"
		"x.c\",\"line\":7}]},"
		"{\"name\":\"/b/x.c:7\",\"key\":\"02\",\"bytes\":9,"
		"\"frames\":[{\"function\":\"first\",\"module\":\"m\",\"file\":\"/b/"
		"x.c\",\"line\":7}]},"
		"{\"name\":\"(caches)\",\"key\":\"03\",\"bytes\":1,\"frames\":[]}]}]}";
	static const char modules[] =
		"{\"rss_bytes\":30,\"lines\":[{\"class\":\"heap-live\",\"bytes\":30,\"stacks\":["
		"{\"name\":\"libx.so\",\"key\":\"01\",\"bytes\":20,"
		"\"frames\":[{\"function\":\"first\",\"module\":\"libx.so\",\"file\":\"/a/"
		"x.c\"}]}]}]}";
	struct screen_what what = { .screen = SCREEN_BALANCE,
				    .by = VIEW_BY_LINE,
				    .process = SCREEN_NOWHERE };
	CLEANUP(sheet_fini) struct sheet lines = { 0 }, all = { 0 };
	show(&what, answer, &lines);
	assert_int_equal(lines.count, 5);
	assert_string_equal(lines.rows[1].name, "x.c:7");
	assert_string_equal(lines.rows[2].name, "x.c:7");
	assert_string_equal(lines.rows[1].detail, "/a/x.c:7");
	assert_true(lines.rows[1].key != lines.rows[2].key);
	assert_string_equal(lines.rows[3].name, "(caches)");
	what.by = VIEW_BY_MODULE;
	show(&what, modules, &all);
	assert_string_equal(all.rows[1].name, "libx.so");
	assert_null(all.rows[1].detail);
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
		cmocka_unit_test(rows_of_a_sheet_open_change_and_are_looked_for),
		cmocka_unit_test(answers_of_any_shape_are_shown_or_refused),
		cmocka_unit_test(groups_have_their_own_names_and_are_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
