/* SPDX-License-Identifier: Apache-2.0 */
/* sheet.c - rows, which of them are shown in what order, and what keys do to that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "tui/paint.h"
#include "tui/sheet_internal.h"

/* ---- a sheet --------------------------------------------------------------------------------- */

void sheet_fini(struct sheet *sheet)
{
	free(sheet->rows);
	arena_fini(&sheet->arena);
	*sheet = (struct sheet){ 0 };
}

const char *sheet_text(struct sheet *sheet, const char *text)
{
	return text ? arena_memdup(&sheet->arena, text, strlen(text)) : NULL;
}

struct sheet_row *sheet_add(struct sheet *sheet, uint32_t parent, uint64_t key, const char *name)
{
	if (sheet->count == sheet->room) {
		uint32_t room = sheet->room ? sheet->room * 2 : 128;
		struct sheet_row *grown = reallocarray(sheet->rows, room, sizeof(*grown));
		if (!grown)
			return NULL;
		sheet->rows = grown;
		sheet->room = room;
	}
	const char *text = sheet_text(sheet, name ? name : "");
	if (!text)
		return NULL;
	struct sheet_row *row = &sheet->rows[sheet->count++];
	*row = (struct sheet_row){ .key = key, .parent = parent, .name = text };
	for (unsigned i = 0; i < SHEET_COLUMNS_MAX; i++)
		row->cells[i].number = SHEET_NONE;
	return row;
}

uint64_t sheet_key(uint64_t parent, const char *text)
{
	uint64_t key = parent ^ 0xcbf29ce484222325ull;
	for (; text && *text; text++)
		key = (key ^ (unsigned char)*text) * 0x100000001b3ull;
	return key ^ key >> 31;
}

/* ---- before ---------------------------------------------------------------------------------- */

static int read_now(const struct sheet_view *v, struct past_reading *to)
{
	int rc = past_new(to, v->time_ns, v->sheet.count);
	for (uint32_t i = 0; rc == 0 && i < v->sheet.count; i++)
		to->values[i] = (struct past_value){ v->sheet.rows[i].key,
						     v->sheet.rows[i].cells[0].number };
	return rc;
}

/* What changes are told from; rows that were not there had nothing. */
static int look_back(struct sheet_view *v)
{
	const struct past_reading *past = past_before(&v->past);
	free(v->before);
	v->before = NULL;
	if (!past || v->sheet.stays)
		return 0;
	v->before = calloc((size_t)v->sheet.count + 1, sizeof(*v->before));
	v->before_ns = past->time_ns;
	for (uint32_t i = 0; v->before && i < v->sheet.count; i++) {
		int64_t number = past_value(past, v->sheet.rows[i].key, 0);
		v->before[i] = number == SHEET_NONE ? 0 : number;
	}
	return v->before ? 0 : -ENOMEM;
}

static int remember(struct sheet_view *v)
{
	struct past_reading now;
	if (!past_due(&v->past, v->time_ns))
		return 0;
	int rc = read_now(v, &now);
	if (rc == 0)
		past_keep(&v->past, &now);
	return rc;
}

void sheet_view_move(struct sheet_view *v)
{
	past_move(&v->past);
}

void sheet_view_forget(struct sheet_view *v)
{
	past_fini(&v->past);
	free(v->before);
	v->before = NULL;
	sheet_fini(&v->sheet);
	v->fed = v->sorted = v->ascending = 0;
	v->find[0] = '\0';
	v->line_count = v->verdict_rows = 0;
	v->list = (struct list){ .shown = v->list.shown };
}

int sheet_changes(const struct sheet_view *v)
{
	return v->before != NULL;
}

/* ---- which are open -------------------------------------------------------------------------- */

static size_t open_at(const struct sheet_view *v, uint64_t key)
{
	size_t low = 0, high = v->open_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (v->open[mid] < key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int is_open(const struct sheet_view *v, const struct sheet_row *row)
{
	size_t at = open_at(v, row->key);
	int turned = at < v->open_count && v->open[at] == row->key;
	return turned ? !row->shows : row->shows;
}

/* Where memory is out it stays as it is. */
static void turn(struct sheet_view *v, uint64_t key)
{
	size_t at = open_at(v, key);
	if (at < v->open_count && v->open[at] == key) {
		memmove(&v->open[at], &v->open[at + 1], (--v->open_count - at) * sizeof(*v->open));
		return;
	}
	if (v->open_count == v->open_room) {
		size_t room = v->open_room ? v->open_room * 2 : 64;
		uint64_t *grown = reallocarray(v->open, room, sizeof(*grown));
		if (!grown)
			return;
		v->open = grown;
		v->open_room = room;
	}
	memmove(&v->open[at + 1], &v->open[at], (v->open_count++ - at) * sizeof(*v->open));
	v->open[at] = key;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int64_t change_of(const struct sheet_view *v, uint32_t row)
{
	int64_t now = v->sheet.rows[row].cells[0].number;
	return (now == SHEET_NONE ? 0 : now) - (v->before ? v->before[row] : 0);
}

static int compare(const struct sheet_view *v, uint32_t a, uint32_t b)
{
	const struct sheet_row *x = &v->sheet.rows[a], *y = &v->sheet.rows[b];
	unsigned columns = v->sheet.column_count;
	int order = 0;
	if (v->sort == columns) {
		int64_t dx = change_of(v, a), dy = change_of(v, b);
		order = dx < dy ? 1 : dx > dy ? -1 : 0;
	} else if (v->sort > columns) {
		order = strcmp(x->name, y->name);
	} else if (v->sheet.columns[v->sort].kind == SHEET_WORD) {
		const char *wx = x->cells[v->sort].word, *wy = y->cells[v->sort].word;
		order = strcmp(wx ? wx : "", wy ? wy : "");
	} else {
		int64_t nx = x->cells[v->sort].number, ny = y->cells[v->sort].number;
		order = nx < ny ? 1 : nx > ny ? -1 : 0;
	}
	if (v->ascending)
		order = -order;
	return order ? order : a < b ? -1 : 1;
}

static int in_order(const void *a, const void *b, void *ctx)
{
	return compare(ctx, *(const uint32_t *)a, *(const uint32_t *)b);
}

struct making {
	struct sheet_view *v;
	/* children, by row; row + 1 */
	uint32_t *first, *next;
	/* it, or something below it */
	uint8_t *matches;
	/* room for all */
	uint32_t *siblings;
};

/** emit() - @first and its siblings, and what is open below them. */
static void emit(const struct making *m, uint32_t first, unsigned depth, uint64_t guides,
		 uint32_t used)
{
	struct sheet_view *v = m->v;
	uint32_t *all = m->siblings + used, count = 0;
	for (uint32_t at = first; at; at = m->next[at - 1])
		if (m->matches[at - 1])
			all[count++] = at - 1;
	if (count && !(v->sheet.stays && !v->sorted))
		qsort_r(all, count, sizeof(*all), in_order, v);
	for (uint32_t i = 0; i < count; i++) {
		const struct sheet_row *row = &v->sheet.rows[all[i]];
		int opens = m->first[all[i]] != 0 && depth + 1 < SHEET_DEPTH_MAX,
		    last = i + 1 == count;
		int open = opens && (is_open(v, row) || v->find[0]);
		v->lines[v->line_count++] = (struct sheet_line){ .row = all[i],
								 .depth = (uint16_t)depth,
								 .opens = (uint8_t)opens,
								 .is_open = (uint8_t)open,
								 .last = (uint8_t)last,
								 .guides = guides };
		if (open)
			emit(m, m->first[all[i]], depth + 1, guides << 1 | !last, used + count);
	}
}

static void match(const struct making *m)
{
	const struct sheet *s = &m->v->sheet;
	m->v->matched = 0;
	for (uint32_t i = s->count; i-- > 0;) {
		const struct sheet_row *row = &s->rows[i];
		int found = !m->v->find[0] || strcasestr(row->name, m->v->find) ||
			    (row->detail && strcasestr(row->detail, m->v->find));
		for (unsigned c = 0; c < s->column_count && !found; c++)
			found = row->cells[c].word && strcasestr(row->cells[c].word, m->v->find);
		m->v->matched += (uint32_t)found;
		m->matches[i] |= (uint8_t)found;
		if (m->matches[i] && row->parent)
			m->matches[row->parent - 1] = 1;
	}
}

static uint64_t line_key(void *ctx, uint32_t line)
{
	const struct sheet_view *v = ctx;
	return v->sheet.rows[v->lines[line].row].key;
}

static int lay_out(struct sheet_view *v)
{
	uint32_t count = v->sheet.count, top = 0;
	uint32_t *links = calloc(3 * ((size_t)count + 1), sizeof(*links));
	uint8_t *matches = calloc((size_t)count + 1, 1);
	free(v->lines);
	v->lines = calloc((size_t)count + 1, sizeof(*v->lines));
	v->line_count = 0;
	if (links && matches && v->lines) {
		const struct making m = { .v = v,
					  .first = links,
					  .next = links + count,
					  .matches = matches,
					  .siblings = links + 2 * (size_t)count };
		match(&m);
		for (uint32_t i = count; i-- > 0;) {
			uint32_t *head = v->sheet.rows[i].parent
						 ? &m.first[v->sheet.rows[i].parent - 1]
						 : &top;
			m.next[i] = *head;
			*head = i + 1;
		}
		emit(&m, top, 0, 0, 0);
	}
	int rc = links && matches && v->lines ? 0 : -ENOMEM;
	free(links);
	free(matches);
	if (!v->list.cursor) /* who has not moved looks at what is first */
		v->list.has_key = 0;
	list_renew(&v->list, v->line_count, line_key, v);
	return rc;
}

int sheet_view_feed(struct sheet_view *v, struct sheet *sheet, uint64_t time_ns, int live,
		    struct err *err)
{
	sheet_fini(&v->sheet);
	v->sheet = *sheet;
	*sheet = (struct sheet){ 0 };
	if (!v->sorted)
		v->sort = v->sheet.sort;
	v->fed = 1;
	v->time_ns = time_ns;
	int rc = look_back(v);
	if (rc == 0 && live)
		rc = remember(v);
	if (rc == 0)
		rc = lay_out(v);
	return rc < 0 ? err_set(err, rc, "cannot lay out what is there") : 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int type_find(struct sheet_view *v, int key)
{
	size_t len = strlen(v->find);
	if (key == PAINT_ENTER || key == PAINT_ESCAPE) {
		v->finding = 0;
		if (key == PAINT_ESCAPE)
			v->find[0] = '\0';
	} else if (key == PAINT_BACKSPACE) {
		while (len && ((unsigned char)v->find[--len] & 0xc0) == 0x80)
			;
		v->find[len] = '\0';
	} else if (key >= ' ' && key < 127 && len < SHEET_FIND_MAX) {
		v->find[len] = (char)key;
		v->find[len + 1] = '\0';
	}
	return lay_out(v);
}

static int open_or_close(struct sheet_view *v, int key)
{
	const struct sheet_line *line =
		v->list.cursor < v->line_count ? &v->lines[v->list.cursor] : NULL;
	if (!line)
		return 0;
	int open = key == PAINT_ENTER ? !line->is_open : key == PAINT_RIGHT;
	if (!open && !line->is_open) {
		for (uint32_t i = v->list.cursor; i-- > 0;) {
			if (v->lines[i].depth < line->depth) {
				list_goto(&v->list, i);
				break;
			}
		}
		return lay_out(v);
	}
	if (!line->opens || open == line->is_open || v->find[0])
		return 0;
	v->list.key = v->sheet.rows[line->row].key;
	v->list.has_key = 1;
	turn(v, v->sheet.rows[line->row].key);
	return lay_out(v);
}

static void next_sort(struct sheet_view *v)
{
	unsigned columns = v->sheet.column_count;
	v->sorted = 1;
	do {
		v->sort = (v->sort + 1) % (columns + 2);
	} while ((v->sort == columns && !v->before) ||
		 (v->sort < columns && v->sheet.columns[v->sort].kind == SHEET_SPARK));
}

static int take(struct sheet_view *v, int key)
{
	struct past_reading now;
	switch (key) {
	case PAINT_ENTER:
	case PAINT_RIGHT:
	case PAINT_LEFT:
		return open_or_close(v, key);
	case '/':
		v->finding = 1;
		v->find[0] = '\0';
		return lay_out(v);
	case '?':
	case 'h':
		v->help = 1;
		return 0;
	case ' ':
		v->holds = !v->holds;
		return 0;
	case 's': /* by the next column; again: the other way round */
		if (!(v->ascending = v->sorted && !v->ascending))
			next_sort(v);
		return lay_out(v);
	case 'S':
		v->sorted = 1;
		v->ascending = !v->ascending;
		return lay_out(v);
	case 'd':
		past_drop_base(&v->past);
		if (v->fed && !v->sheet.stays && read_now(v, &now) == 0)
			past_base(&v->past, &now); /* without memory: as before */
		return look_back(v);
	default:
		return 1;
	}
}

int sheet_view_key(struct sheet_view *v, int key, struct err *err)
{
	int rc = 0;
	if (v->finding) {
		rc = type_find(v, key);
	} else if (v->help) {
		v->help = 0;
	} else if (list_key(&v->list, key)) {
		list_renew(&v->list, v->line_count, line_key, v);
	} else {
		rc = take(v, key);
		if (rc > 0)
			return 0;
	}
	return rc < 0 ? err_set(err, rc, "cannot lay out what is there") : 1;
}

int sheet_view_takes_all(const struct sheet_view *v)
{
	return v->finding || v->help;
}

int sheet_view_holds(const struct sheet_view *v)
{
	return v->holds;
}

void sheet_view_path(const struct sheet_view *v, struct buf *to)
{
	if (v->list.cursor >= v->line_count)
		return;
	for (uint32_t at = v->lines[v->list.cursor].row + 1; at; at = v->sheet.rows[at - 1].parent)
		buf_printf(to, "%s\n", v->sheet.rows[at - 1].name);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sheet_view *sheet_view_new(struct err *err)
{
	struct sheet_view *v = calloc(1, sizeof(*v));
	if (!v)
		err_set(err, -ENOMEM, "cannot show what is there");
	return v;
}

void sheet_view_free(struct sheet_view *v)
{
	if (!v)
		return;
	sheet_view_forget(v);
	free(v->lines);
	free(v->open);
	free(v);
}
