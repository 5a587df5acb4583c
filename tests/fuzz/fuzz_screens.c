/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_screens.c - what a server sends to `top`: a letter for the screen, the keys, a line's end, the answer. */
#include <stdlib.h>
#include <string.h>

#include "api/reach.h"
#include "base/cleanup.h"
#include "tui/grid.h"
#include "tui/screens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(struct sheet_view *view, const char *keys, size_t count)
{
	const struct sheet_frame frame = { .title = "t", .keys = "k" };
	struct err err = { 0 };
	struct grid grid;
	if (grid_init(&grid, 20, 60 + count % 140, count & 1, &err) < 0)
		return;
	for (size_t i = 0; i < count && i < 40; i++)
		sheet_view_key(view, keys[i], &err);
	sheet_view_draw(view, &frame, &grid);
	grid_fini(&grid);
}

static void look(const struct screen_what *what, const char *keys, size_t count,
		 const struct buf *body)
{
	struct err err = { 0 };
	struct sheet_view *view = sheet_view_new(&err);
	for (uint64_t i = 0; view && i < 2; i++) {
		CLEANUP(sheet_fini) struct sheet sheet = { 0 };
		CLEANUP(buf_fini) struct buf path = { 0 };
		if (screen_read(what, body->data, body->len, &sheet, &err) < 0 ||
		    sheet_view_feed(view, &sheet, i * 2000000000ull, 1, &err) < 0)
			break;
		draw(view, keys, count);
		sheet_view_path(view, &path);
	}
	sheet_view_free(view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	CLEANUP(buf_fini) struct buf all = { 0 }, body = { 0 }, text = { 0 };
	struct screen_sources sources;
	struct err err = { 0 };
	if (!end || end == data || end - data > 60)
		return 0;
	unsigned kind = (unsigned)(data[0] - '0');
	const struct screen_what what = { .screen = (enum screen)(SCREEN_BALANCE + kind % 8),
					  .form = kind / 8 % 8,
					  .recording = kind & 64 ? 0 : SCREEN_NOWHERE,
					  .process = kind & 64 ? SCREEN_NOWHERE : 1,
					  .by = VIEW_BY_FUNCTION };
	buf_put(&all, end + 1, size - (size_t)(end + 1 - data));
	int rc = reach_read(&all, &body);
	if (rc < 0)
		buf_put(&body, all.data, all.len);
	else if (rc < 100 || rc > 599)
		abort();
	screen_sources(buf_cstr(&body), body.len, &sources, &err);
	screen_counts_pages(buf_cstr(&body), body.len);
	screen_error(buf_cstr(&body), body.len, &text);
	look(&what, (const char *)data + 1, (size_t)(end - data - 1), &body);
	return 0;
}
