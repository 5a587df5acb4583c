/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/list.h"

#include "tui/paint.h"

void list_renew(struct list *list, uint32_t count, uint64_t (*key_of)(void *ctx, uint32_t row),
		void *ctx)
{
	uint32_t last = count ? count - 1 : 0;
	uint32_t place = list->cursor < last ? list->cursor : last;
	list->count = count;
	if (list->has_key) {
		/* mostly where it was; else near */
		for (uint32_t i = 0; i < count; i++) {
			uint32_t row = (place + i) % count;
			if (key_of(ctx, row) != list->key)
				continue;
			/* the row keeps its place on the screen, too */
			uint32_t below = list->cursor > list->top ? list->cursor - list->top : 0;
			list->top = row > below ? row - below : 0;
			place = row;
			break;
		}
	}
	list->cursor = place;
	if (count) {
		list->key = key_of(ctx, place);
		list->has_key = 1;
	}
}

void list_goto(struct list *list, uint32_t row)
{
	list->cursor = row < list->count ? row : list->count ? list->count - 1 : 0;
	list->has_key = 0;
}

int list_key(struct list *list, int key)
{
	uint32_t page = list->shown > 1 ? list->shown - 1 : 1, at = list->cursor;
	switch (key) {
	case PAINT_UP:
		at -= at > 0;
		break;
	case PAINT_DOWN:
		at++;
		break;
	case PAINT_PAGE_UP:
		at -= at < page ? at : page;
		break;
	case PAINT_PAGE_DOWN:
		at += page;
		break;
	case PAINT_HOME:
		at = 0;
		break;
	case PAINT_END:
		at = list->count;
		break;
	default:
		return 0;
	}
	list_goto(list, at);
	return 1;
}

void list_fit(struct list *list, uint32_t shown)
{
	list->shown = shown;
	if (list->cursor < list->top)
		list->top = list->cursor;
	if (shown && list->cursor >= list->top + shown)
		list->top = list->cursor - shown + 1;
	if (list->top + shown > list->count)
		list->top = list->count > shown ? list->count - shown : 0;
}
