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

#include "api/reach.h"
#include "base/cleanup.h"
#include "tui/grid.h"
#include "tui/list.h"
#include "tui/paint.h"
#include "tui/past.h"
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

static void what_rows_come_to_stands_above_them_in_as_many_rows_as_it_takes(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct sheet_frame frame = { .title = "t", .keys = "" };
	struct sheet_view *view = sheet_view_new(&err);
	struct grid g;
	static const char *const texts[] = {
		"The program uses 1.00 GiB and 20.5 MiB are free, of which 3.0 MiB could go now.",
		"The program uses it all."
	};
	for (unsigned i = 0; i < 2; i++) {
		struct sheet sheet = { .columns = columns, .column_count = 2, .name_head = "NAME" };
		sheet.verdict = sheet_text(&sheet, texts[i]);
		add_row(&sheet, 0, "a", 2048);
		assert_int_equal(sheet_view_feed(view, &sheet, i, 1, &err), 0);
		assert_int_equal(grid_init(&g, 24, 60, 1, NULL), 0);
		sheet_view_draw(view, &frame, &g);
		if (i == 0) {
			shows(&g, 2, "The program uses 1.00 GiB and 20.5 MiB are free, of which");
			shows(&g, 3, "3.0 MiB could go now.");
		} else {
			shows(&g, 2, texts[1]);
			shows(&g, 3, ""); /* rows do not jump when it gets shorter */
		}
		shows(&g, 4, "   BYTES WORD  NAME");
		shows(&g, 5, "2.00 KiB a     a");
		assert_int_equal(g.cells[5 * 60].style, GRID_SELECTED);
		grid_fini(&g);
	}
	/* a low terminal has its rows */
	assert_int_equal(grid_init(&g, 16, 60, 1, NULL), 0);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 2, "   BYTES WORD  NAME");
	grid_fini(&g);
	/* what does not fit is said to go on */
	assert_int_equal(grid_init(&g, 2, 12, 1, NULL), 0);
	assert_int_equal(grid_put_lines(&g, 0, 1, GRID_PLAIN, "one two three four"), 1);
	shows(&g, 0, "one two   ..");
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
		"{\"node\":{\"frame\":[0,0,0],\"depth\":[0,0,1],\"total\":[1,1,9]}}",
		"{\"classes\":[{\"class\":\"a\",\"rss_bytes\":9e99},{\"class\":\"a\",\"rss_bytes\":"
		"9e99},"
		"{\"class\":\"a\",\"rss_bytes\":9e99},{\"class\":\"a\",\"rss_bytes\":9e99},"
		"{\"class\":\"a\",\"rss_bytes\":9e99}]}",
		"{\"regions\":[{\"start\":9,\"end\":1},{\"start\":0,\"end\":9e18},{\"end\":1.8e19}]"
		"}",
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

static void a_tree_opens_along_what_has_most_of_its_caller(void **state)
{
	(void)state;
	/* 10 > (6 > (1, 1), 4): the second child of all is half of none */
	static const char answer[] = "{\"node\":{\"frame\":[0,0,1,1,0,1],\"depth\":[0,1,2,2,1,2],"
				     "\"total\":[10,6,1,5,4,4]},"
				     "\"frames\":{\"short\":[\"a\",\"b\"]}}";
	static const int shows_below[] = { 1, 0, 1, 0, 0 };
	const struct screen_what what = { .screen = SCREEN_TREE };
	CLEANUP(sheet_fini) struct sheet sheet = { 0 };
	show(&what, answer, &sheet);
	assert_int_equal(sheet.count, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(sheet.rows[i].shows, shows_below[i]);
	assert_string_equal(sheet.warns, "");
	CLEANUP(buf_fini) struct buf deep = { 0 };
	CLEANUP(sheet_fini) struct sheet cut = { 0 };
	buf_puts(&deep, "{\"node\":{\"depth\":[0");
	for (unsigned i = 1; i < 3000; i++)
		buf_printf(&deep, ",%u", i);
	buf_puts(&deep, "],\"frame\":[0");
	for (unsigned i = 1; i < 3000; i++)
		buf_puts(&deep, ",0");
	buf_puts(&deep, "]}}");
	show(&what, buf_cstr(&deep), &cut);
	assert_int_equal(cut.count, SHEET_DEPTH_MAX);
	assert_string_equal(cut.warns, "what has more than 1023 callers is left out");
}

static void what_is_not_told_is_not_shown_as_a_number(void **state)
{
	(void)state;
	static const char threads[] = "{\"threads\":[{\"tid\":7,\"name\":\"t\",\"stack_start\":"
				      "null,\"stack_end\":null}]}";
	static const char frames[] =
		"{\"lines\":[{\"class\":\"heap-live\",\"bytes\":3,\"stacks\":[{\"bytes\":3,"
		"\"frames\":[{\"function\":\"f\",\"module\":\"m\",\"file\":\"/x/"
		"foo.c\",\"line\":null}]}]}]}";
	struct screen_what what = {
		.screen = SCREEN_REGIONS, .form = 2, .process = 1, .recording = SCREEN_NOWHERE
	};
	CLEANUP(sheet_fini) struct sheet sheet = { 0 }, balance = { 0 };
	show(&what, threads, &sheet);
	assert_int_equal(sheet.count, 1);
	assert_true(sheet.rows[0].cells[2].number == SHEET_NONE);
	assert_string_equal(sheet.rows[0].detail, "its stack is not known");
	assert_string_equal(sheet.right, "? mappings");
	what.screen = SCREEN_BALANCE;
	show(&what, frames, &balance);
	assert_string_equal(balance.rows[1].detail, "m · foo.c");
}

static void a_source_has_what_it_says_itself(void **state)
{
	(void)state;
	static const char pages[] =
		"[{\"id\":0,\"kind\":\"recording\",\"has\":[\"heap\",\"maps\",\"explain\"]},"
		"{\"id\":4096,\"kind\":\"process\",\"pid\":7,\"has\":[\"pages\"]}]";
	static const char maps[] =
		"[{\"id\":0,\"kind\":\"recording\",\"has\":[\"maps\"]},"
		"{\"id\":4096,\"kind\":\"process\",\"pid\":7,\"has\":[\"regions\"]}]";
	struct screen_sources sources;
	struct err err = { 0 };
	assert_int_equal(screen_sources(pages, strlen(pages), &sources, &err), 0);
	assert_true(sources.process == SCREEN_NOWHERE && sources.recording == 0);
	assert_true(sources.has >> SCREEN_PAGES & 1 && sources.has >> SCREEN_REGIONS & 1);
	assert_int_equal(screen_sources(maps, strlen(maps), &sources, &err), 0);
	assert_true(sources.process == 4096);
}

static void another_moment_is_no_change_of_the_last_seconds(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct sheet_frame frame = { .title = "t", .keys = "" };
	struct sheet_view *view = sheet_view_new(&err);
	struct grid g;
	assert_int_equal(grid_init(&g, 12, 80, 1, NULL), 0);
	feed(view, 2048, 1024, 0);
	sheet_view_move(view);
	feed(view, 9 << 20, 1024, 2000000000ull);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 3, "9.00 MiB a       a");
	/* what the reader chose stays the base */
	assert_int_equal(sheet_view_key(view, 'd', &err), 1);
	sheet_view_move(view);
	feed(view, 10 << 20, 1024, 3000000000ull);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 3, "10.0 MiB  +1.00 MiB a       a");
	assert_int_equal(sheet_view_key(view, '?', &err), 1);
	assert_int_equal(sheet_view_takes_all(view), 1);
	grid_fini(&g);
	sheet_view_free(view);
}

static void rows_without_a_word_sort_as_empty_ones(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct sheet_frame frame = { .title = "t", .keys = "" };
	struct sheet sheet = { .columns = columns, .column_count = 2, .name_head = "NAME" };
	struct sheet_view *view = sheet_view_new(&err);
	struct grid g;
	assert_int_equal(grid_init(&g, 12, 80, 1, NULL), 0);
	add_row(&sheet, 0, "z", 1);
	add_row(&sheet, 0, "none", 3);
	sheet.rows[1].cells[1].word = NULL;
	add_row(&sheet, 0, "a", 2);
	assert_int_equal(sheet_view_feed(view, &sheet, 0, 0, &err), 0);
	assert_int_equal(sheet_view_key(view, 's', &err), 1);
	sheet_view_draw(view, &frame, &g);
	shows(&g, 3, "     3 B -     none");
	shows(&g, 4, "     2 B a     a");
	shows(&g, 5, "     1 B z     z");
	grid_fini(&g);
	sheet_view_free(view);
}

static void an_answer_has_a_status(void **state)
{
	(void)state;
	static const struct {
		const char *answer;
		int status;
	} all[] = { { "HTTP/1.0 200 OK\r\nX: y\r\n\r\n{}", 200 },
		    { "HTTP/1.1 404\r\n\r\n{}", 404 },
		    { "HTTP/1.0 -5 x\r\n\r\n{}", -EBADMSG },
		    { "HTTP/1.0 999999999999 x\r\n\r\n{}", -EBADMSG },
		    { "HTTP/1.0 99 x\r\n\r\n{}", -EBADMSG },
		    { "HTTP/1.0\r\n\r\n 200", -EBADMSG },
		    { "SSH-2.0 200\r\n\r\n", -EBADMSG },
		    { "", -EBADMSG } };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CLEANUP(buf_fini) struct buf answer = { 0 }, body = { 0 };
		buf_puts(&answer, all[i].answer);
		assert_int_equal(reach_read(&answer, &body), all[i].status);
		assert_string_equal(buf_cstr(&body), all[i].status > 0 ? "{}" : "");
	}
}

/** keep_pair() - values of keys 7 and 3 at @seconds; 0: not due. */
static int keep_pair(struct past *past, double seconds, int64_t seven, int64_t three)
{
	struct past_reading now;
	uint64_t time_ns = (uint64_t)(seconds * 1e9);
	if (!past_due(past, time_ns))
		return 0;
	assert_int_equal(past_new(&now, time_ns, 2), 0);
	now.values[0] = (struct past_value){ 7, seven };
	now.values[1] = (struct past_value){ 3, three };
	past_keep(past, &now);
	return 1;
}

static void changes_are_told_from_ten_seconds_ago_or_from_what_was_asked_for(void **state)
{
	(void)state;
	struct past past = { 0 };
	struct past_reading base;
	assert_null(past_before(&past));
	for (int i = 0; i <= 40; i++) /* twice a second: every other one is kept */
		assert_int_equal(keep_pair(&past, 100 + i * 0.5, i, -i), i % 2 == 0);
	const struct past_reading *before = past_before(&past);
	assert_int_equal(before->time_ns, 110000000000ull);
	assert_int_equal(past_value(before, 7, 99), 20);
	assert_int_equal(past_value(before, 3, 99), -20);
	assert_int_equal(past_value(before, 5, 99), 99);
	assert_int_equal(past_new(&base, 5, 1), 0);
	base.values[0] = (struct past_value){ 5, 1 };
	past_base(&past, &base);
	past_move(&past);
	assert_int_equal(past_value(past_before(&past), 5, 99), 1);
	past_drop_base(&past);
	assert_null(past_before(&past));
	/* nothing is ten seconds old, and there is room for so many */
	for (int i = 0; i < 40; i++)
		assert_true(keep_pair(&past, 200 + i * 0.9, i, i));
	assert_true(past.count <= PAST_READINGS);
	past_fini(&past);
	assert_null(past_before(&past));
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
		cmocka_unit_test(what_rows_come_to_stands_above_them_in_as_many_rows_as_it_takes),
		cmocka_unit_test(answers_of_any_shape_are_shown_or_refused),
		cmocka_unit_test(groups_have_their_own_names_and_are_told_apart),
		cmocka_unit_test(a_tree_opens_along_what_has_most_of_its_caller),
		cmocka_unit_test(what_is_not_told_is_not_shown_as_a_number),
		cmocka_unit_test(a_source_has_what_it_says_itself),
		cmocka_unit_test(another_moment_is_no_change_of_the_last_seconds),
		cmocka_unit_test(rows_without_a_word_sort_as_empty_ones),
		cmocka_unit_test(an_answer_has_a_status),
		cmocka_unit_test(changes_are_told_from_ten_seconds_ago_or_from_what_was_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
