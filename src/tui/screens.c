/* SPDX-License-Identifier: Apache-2.0 */
/* screens.c - which question each screen asks; the balance sheet, growth, and a server's heap. */
#include "tui/screens.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "model/history.h"
#include "tui/screens_internal.h"

#define NODES 4000
#define STACKS 100
#define MESSAGES 500

static const char *by_word(enum view_by by)
{
	static const char *const words[] = { "stack", "function", "module", "file", "line" };
	return by < ARRAY_LEN(words) ? words[by] : "function";
}

const char *screen_name(enum screen screen)
{
	static const char *const names[SCREENS] = { "",        "processes", "balance", "tree",
						    "table",   "growth",    "regions", "pages",
						    "sampler", "node" };
	return screen < SCREENS ? names[screen] : "";
}

static int has(uint32_t source)
{
	return source != SCREEN_NOWHERE;
}

unsigned screen_forms(const struct screen_what *w)
{
	switch (w->screen) {
	case SCREEN_REGIONS:
		return has(w->process) ? 4 : 1;
	case SCREEN_NODE:
		return 3;
	case SCREEN_PAGES:
	case SCREEN_TREE:
		return 2;
	default:
		return 1;
	}
}

int screen_moves(const struct screen_what *w)
{
	return has(w->recording) && (w->screen == SCREEN_BALANCE || w->screen == SCREEN_GROWTH ||
				     w->screen == SCREEN_TREE || w->screen == SCREEN_TABLE ||
				     (w->screen == SCREEN_REGIONS && !has(w->process)));
}

int screen_merges(const struct screen_what *w)
{
	return w->screen == SCREEN_BALANCE || w->screen == SCREEN_TREE ||
	       w->screen == SCREEN_TABLE || (w->screen == SCREEN_GROWTH && has(w->recording));
}

static void put_moment(const struct screen_what *w, const char *key, unsigned at, struct buf *to)
{
	if (w->has_at)
		buf_printf(to, "&%s=%u.%u%%25", key, at / 10, at % 10);
}

static void put_pid(const struct screen_what *w, struct buf *to)
{
	if (w->pid > 0)
		buf_printf(to, "&pid=%d", (int)w->pid);
}

void screen_question(const struct screen_what *w, struct buf *to)
{
	/* of a process its own balance: its recording has but moments before now */
	uint32_t source =
		w->screen == SCREEN_BALANCE && has(w->process) ? w->process : w->recording;
	unsigned form = w->form % screen_forms(w);
	static const char *const node[] = { "messages", "connections", "logs" };
	switch (w->screen) {
	case SCREEN_BALANCE:
		buf_printf(to, "/api/v1/explain?src=%u&by=%s&limit=%d", source, by_word(w->by),
			   STACKS);
		if (!has(w->process))
			put_moment(w, "at", w->at, to);
		break;
	case SCREEN_TREE:
		buf_printf(to, "/api/v1/tree?src=%u&by=%s&nodes=%d&cost=live%s", source,
			   by_word(w->by), NODES, form ? "&inverted=1" : "");
		put_moment(w, "at", w->at, to);
		break;
	case SCREEN_TABLE:
		buf_printf(to,
			   "/api/v1/rows?src=%u&by=%s&limit=%d&cost=live&sort=inclusive_live_bytes",
			   source, by_word(w->by), NODES);
		put_moment(w, "at", w->at, to);
		break;
	case SCREEN_GROWTH:
		if (has(w->recording)) {
			buf_printf(to, "/api/v1/growth?src=%u&by=%s&limit=%d", source,
				   by_word(w->by), NODES);
			put_moment(w, "from", w->since, to);
			put_moment(w, "to", w->at, to);
		} else {
			buf_puts(to, "/debug/memory/history?points=1&from=-1h");
			put_pid(w, to);
		}
		break;
	case SCREEN_REGIONS:
		if (has(w->process)) {
			buf_puts(to, "/debug/memory?format=json&top=2000");
			put_pid(w, to);
		} else {
			buf_printf(to, "/api/v1/maps?src=%u&limit=%d", source, NODES);
			put_moment(w, "at", w->at, to);
		}
		break;
	case SCREEN_PAGES:
		/* callers on top; what is resident, or all that the process caused */
		buf_printf(to, "/v1/tree?reverse=true&threshold=4&unit=bytes%s",
			   form ? "" : "&kind=anon,shmem,file");
		put_pid(w, to);
		break;
	case SCREEN_SAMPLER:
		buf_puts(to, "/api/v1/sample");
		break;
	case SCREEN_NODE:
		buf_printf(to, "/v3/%s?limit=%d", node[form], MESSAGES);
		break;
	default:
		break;
	}
}

/* ---- parts ----------------------------------------------------------------------------------- */

#define MOST 0x1p61 /* so that differences and doubles of two are numbers, too */

int64_t reading_number(const json_t *object, const char *key)
{
	const json_t *value = key ? json_object_get(object, key) : object;
	double n = json_number_value(value);
	if (!json_is_number(value))
		return SHEET_NONE;
	return n >= MOST ? (int64_t)MOST : n <= -MOST ? -(int64_t)MOST : (int64_t)n;
}

int64_t reading_sum(int64_t a, int64_t b)
{
	int64_t sum;
	if (a == SHEET_NONE || b == SHEET_NONE)
		return a == SHEET_NONE ? b : a;
	if (__builtin_add_overflow(a, b, &sum))
		sum = a;
	return sum > (int64_t)MOST ? (int64_t)MOST : sum < -(int64_t)MOST ? -(int64_t)MOST : sum;
}

static int64_t or_zero(int64_t number)
{
	return number == SHEET_NONE ? 0 : number;
}

const char *reading_word(const json_t *object, const char *key)
{
	return json_string_value(key ? json_object_get(object, key) : object);
}

const char *reading_text(struct sheet *sheet, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	va_list args;
	va_start(args, fmt);
	buf_vprintf(&text, fmt, args);
	va_end(args);
	return sheet_text(sheet, buf_cstr(&text));
}

void reading_function(const struct reading *r, const json_t *frame, struct buf *to)
{
	const char *function = reading_word(frame, "function"),
		   *module = reading_word(frame, "module"), *file = reading_word(frame, "file");
	int64_t line = reading_number(frame, "line"), offset = reading_number(frame, "offset");
	const char *slash = file ? strrchr(file, '/') : NULL;
	if (function && r->what->short_name)
		r->what->short_name(to, function, 0);
	else if (function)
		buf_puts(to, function);
	else if (file) /* grouped by file or line */
		buf_printf(to, line > 0 ? "%s:%lld" : "%s", slash ? slash + 1 : file,
			   (long long)line);
	else
		buf_printf(to, offset > 0 ? "%s+0x%llx" : "%s", module ? module : "?",
			   (unsigned long long)offset);
}

void reading_too_deep(struct sheet *sheet)
{
	snprintf(sheet->warns, sizeof(sheet->warns), "what has more than %d callers is left out",
		 SHEET_DEPTH_MAX - 1);
}

void reading_verdict(const struct reading *r, const char *key)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	size_t i;
	const json_t *line;
	json_array_foreach(ARRAY(r, key), i, line)
	{
		const char *sentence = reading_word(line, NULL);
		if (sentence)
			buf_printf(&text, "%s%s", text.len ? " " : "", sentence);
	}
	if (text.len)
		r->sheet->verdict = sheet_text(r->sheet, buf_cstr(&text));
}

const char *reading_count(char text[24], const json_t *object, const char *key)
{
	int64_t n = reading_number(object, key);
	if (n == SHEET_NONE)
		return "?";
	snprintf(text, 24, "%lld", (long long)n);
	return text;
}

static const char *frame_detail(struct sheet *sheet, const json_t *frame)
{
	const char *module = reading_word(frame, "module"), *file = reading_word(frame, "file");
	int64_t line = reading_number(frame, "line"), offset = reading_number(frame, "offset");
	const char *slash = file ? strrchr(file, '/') : NULL;
	if (file)
		return reading_text(sheet, line > 0 ? "%s · %s:%lld" : "%s · %s",
				    module ? module : "", slash ? slash + 1 : file,
				    (long long)line);
	return reading_text(sheet, offset >= 0 ? "%s+0x%llx" : "%s", module ? module : "",
			    (unsigned long long)offset);
}

int reading_frames(const struct reading *r, const json_t *frames, uint32_t parent, uint64_t key)
{
	size_t i;
	const json_t *frame;
	json_array_foreach((json_t *)frames, i, frame)
	{
		CLEANUP(buf_fini) struct buf name = { 0 };
		char place[24];
		reading_function(r, frame, &name);
		snprintf(place, sizeof(place), "frame %zu", i);
		struct sheet_row *row =
			sheet_add(r->sheet, parent, sheet_key(key, place), buf_cstr(&name));
		if (!row)
			return -ENOMEM;
		row->is_faint = 1;
		row->detail = frame_detail(r->sheet, frame);
	}
	return 0;
}

/* ---- balance --------------------------------------------------------------------------------- */

static const struct sheet_column balance_columns[] = { { "BYTES", SHEET_BYTES, 10, 0 },
						       { "BLOCKS", SHEET_COUNT, 8, 100 },
						       { "ASKED FOR", SHEET_BYTES, 10, 120 } };

/** group_name() - what a group of stacks is called. Return: what that leaves out; NULL. */
static const char *group_name(const struct reading *r, const json_t *stack, struct buf *name)
{
	const json_t *frame = json_array_get(json_object_get(stack, "frames"), 0);
	const char *given = reading_word(stack, "name"), *slash;
	enum view_by by = r->what->by;
	if (!given)
		reading_function(r, frame, name);
	else if (!frame || by == VIEW_BY_MODULE)
		buf_puts(name, given);
	else if ((by == VIEW_BY_FILE || by == VIEW_BY_LINE) && reading_word(frame, "file"))
		buf_puts(name, (slash = strrchr(given, '/')) ? slash + 1 : given);
	else if (reading_word(frame, "function") && r->what->short_name)
		r->what->short_name(name, given, 0);
	else
		buf_puts(name, given);
	if (!frame || (given && by == VIEW_BY_MODULE))
		return NULL; /* what its frame says is of one of many */
	if (given && (by == VIEW_BY_FILE || by == VIEW_BY_LINE))
		return sheet_text(r->sheet, given);
	return frame_detail(r->sheet, frame);
}

static int read_stacks(const struct reading *r, const json_t *line, uint32_t parent, uint64_t key)
{
	size_t i;
	const json_t *stack;
	const json_t *all = json_object_get(line, "stacks");
	if (!json_array_size(all))
		all = json_object_get(line, "touched_by");
	json_array_foreach((json_t *)all, i, stack)
	{
		CLEANUP(buf_fini) struct buf name = { 0 };
		const char *detail = group_name(r, stack, &name), *own = reading_word(stack, "key");
		struct sheet_row *row =
			sheet_add(r->sheet, parent, sheet_key(key, own ? own : buf_cstr(&name)),
				  buf_cstr(&name));
		if (!row)
			return -ENOMEM;
		row->cells[0].number = reading_number(stack, "bytes");
		row->cells[1].number = reading_number(stack, "blocks");
		row->cells[2].number = reading_number(stack, "live_bytes");
		row->detail = detail;
	}
	int64_t folded = reading_number(line, "folded_bytes");
	if (folded > 0) {
		struct sheet_row *row =
			sheet_add(r->sheet, parent, sheet_key(key, "others"), "smaller ones");
		if (!row)
			return -ENOMEM;
		row->cells[0].number = folded;
		row->is_faint = 1;
	}
	return 0;
}

static int read_balance(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *line;
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	int64_t rss = reading_number(r->top, "rss_bytes"),
		rest = reading_number(r->top, "unexplained_bytes"),
		age = or_zero(reading_number(r->top, "snapshot_age_ns"));
	s->columns = balance_columns;
	s->column_count = ARRAY_LEN(balance_columns);
	s->name_head = "LINE OF THE BALANCE SHEET";
	reading_verdict(r, "verdict");
	s->rss_bytes = s->whole = rss > 0 ? (uint64_t)rss : 0;
	json_array_foreach(ARRAY(r, "lines"), i, line)
	{
		const char *class = reading_word(line, "class"),
			   *label = reading_word(line, "label");
		CLEANUP(buf_fini) struct buf name = { 0 };
		buf_printf(&name, label && *label ? "%s: %s" : "%s", class ? class : "", label);
		uint64_t key = sheet_key(0, buf_cstr(&name));
		if (reading_number(line, "bytes") <= 0)
			continue;
		struct sheet_row *row = sheet_add(s, 0, key, buf_cstr(&name));
		uint32_t place = s->count;
		if (!row)
			return -ENOMEM;
		row->cells[0].number = reading_number(line, "bytes");
		row->detail = reading_text(
			s, "%s%s",
			json_is_false(json_object_get(line, "exact")) ? "not exact: " : "",
			reading_word(line, "how") ? reading_word(line, "how") : "");
		if (read_stacks(r, line, place, key) < 0)
			return -ENOMEM;
	}
	struct sheet_row *row = sheet_add(s, 0, sheet_key(0, "unexplained"), "unexplained");
	if (!row)
		return -ENOMEM;
	row->cells[0].number = rest;
	row->detail = "what no line above accounts for: the lines and this are RSS to the byte";
	snprintf(s->right, sizeof(s->right), "of RSS %s", text_bytes(x, s->whole));
	int64_t time = reading_number(r->top, "time_ns");
	if (has(r->what->process))
		snprintf(s->says, sizeof(s->says), "balance · by %s · now", by_word(r->what->by));
	else
		snprintf(s->says, sizeof(s->says), "balance · by %s · at %s", by_word(r->what->by),
			 text_duration(x, time > 0 ? (uint64_t)time : 0));
	if (age > 1000000000 || age < -1000000000)
		snprintf(s->warns, sizeof(s->warns),
			 "the snapshot is %s from the moment that was asked for",
			 text_duration(y, (uint64_t)(age < 0 ? -age : age)));
	if (json_is_false(json_object_get(r->top, "recorded")))
		snprintf(s->warns, sizeof(s->warns),
			 "it is not being recorded: live blocks have no stacks");
	return 0;
}

/* ---- growth ---------------------------------------------------------------------------------- */

#define GROWTH_COLUMNS                                                      \
	{ "GREW", SHEET_SIGNED, 11, 80 }, { "AN HOUR", SHEET_RATE, 13, 0 }, \
		{ "VERDICT", SHEET_WORD, 9, 0 },                            \
	{                                                                   \
		"OVER TIME", SHEET_SPARK, 16, 100                           \
	}
static const struct sheet_column growth_columns[] = { { "LIVE", SHEET_BYTES, 10, 0 },
						      GROWTH_COLUMNS };
static const struct sheet_column history_columns[] = { { "RSS", SHEET_BYTES, 10, 0 },
						       GROWTH_COLUMNS };

static const uint64_t *read_points(struct sheet *s, const json_t *points, int nested,
				   uint32_t *count)
{
	size_t n = json_array_size(points);
	uint64_t *to = arena_alloc(&s->arena, (n + 1) * sizeof(*to));
	for (size_t i = 0; to && i < n; i++) {
		const json_t *point = json_array_get(points, i);
		int64_t value = reading_number(nested ? json_array_get(point, 1) : point, NULL);
		to[i] = value > 0 ? (uint64_t)value : 0;
	}
	*count = to ? (uint32_t)n : 0;
	return to;
}

static void put_growth(struct sheet *s, struct sheet_row *row, const char *verdict, int64_t rate)
{
	row->cells[2].number = rate;
	row->cells[3].word = sheet_text(s, verdict);
	if (row->point_count)
		row->cells[1].number =
			(int64_t)(row->points[row->point_count - 1] - row->points[0]);
}

static int read_growth(const struct reading *r)
{
	struct sheet *s = r->sheet;
	const json_t *rows = ARRAY(r, "rows"), *frames = ARRAY(r, "frames"),
		     *times = ARRAY(r, "time_ns");
	size_t count = json_array_size(json_object_get(rows, "frame"));
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	s->name_head = r->what->by == VIEW_BY_MODULE ? "MODULE"
		       : r->what->by == VIEW_BY_FILE ? "FILE"
		       : r->what->by == VIEW_BY_LINE ? "LINE"
						     : "FUNCTION";
	for (size_t i = 0; i < count; i++) {
		int64_t frame =
			reading_number(json_array_get(json_object_get(rows, "frame"), i), NULL);
		const char *name = reading_word(
			json_array_get(json_object_get(frames, "short"), (size_t)frame), NULL);
		const char *key =
			reading_word(json_array_get(json_object_get(rows, "key"), i), NULL);
		struct sheet_row *row = sheet_add(s, 0, sheet_key(0, key), name ? name : "?");
		if (!row)
			return -ENOMEM;
		row->points = read_points(s, json_array_get(json_object_get(rows, "points"), i), 0,
					  &row->point_count);
		row->cells[0].number = reading_number(
			json_array_get(json_object_get(rows, "live_bytes"), i), NULL);
		put_growth(
			s, row,
			reading_word(json_array_get(json_object_get(rows, "verdict"), i), NULL),
			reading_number(json_array_get(json_object_get(rows, "bytes_per_hour"), i),
				       NULL));
		row->detail = sheet_text(
			s, reading_word(json_array_get(json_object_get(rows, "why"), i), NULL));
	}
	int64_t first = reading_number(json_array_get(times, 0), NULL),
		last = reading_number(json_array_get(times, json_array_size(times) - 1), NULL);
	snprintf(s->says, sizeof(s->says), "growth · from %s to %s",
		 text_duration(x, first > 0 ? (uint64_t)first : 0),
		 text_duration(y, last > 0 ? (uint64_t)last : 0));
	s->empty = "nothing lived at the ends of these slices of time";
	return 0;
}

/** read_history() - of a process: it, and below it the kinds of memory that its RSS is made of. */
static int read_history(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *line;
	char x[TEXT_NUMBER_MAX], points[24];
	uint64_t span = 0;
	uint32_t process = 0;
	s->name_head = "KIND OF MEMORY";
	json_array_foreach(ARRAY(r, "series"), i, line)
	{
		const char *class = reading_word(line, "class"),
			   *label = reading_word(line, "label");
		const json_t *growth = json_object_get(line, "growth");
		CLEANUP(buf_fini) struct buf name = { 0 };
		if (class && strcmp(class, HISTORY_CLASS_BESIDE) == 0)
			continue; /* its cgroup's, its page tables: no part of RSS */
		if (!class)
			buf_puts(&name, "the process");
		else
			buf_printf(&name, "%s: %s", class, label ? label : "");
		struct sheet_row *row = sheet_add(s, class ? process : 0,
						  sheet_key(0, buf_cstr(&name)), buf_cstr(&name));
		if (!row)
			return -ENOMEM;
		row->points = read_points(s, json_object_get(line, "points"), 1, &row->point_count);
		row->cells[0].number = reading_number(line, "last_bytes");
		put_growth(s, row, reading_word(growth, "verdict"),
			   reading_number(growth, "bytes_per_hour"));
		row->cells[1].number = or_zero(reading_number(line, "last_bytes")) -
				       or_zero(reading_number(line, "first_bytes"));
		int64_t ns = reading_number(growth, "span_ns");
		span = ns > 0 && (uint64_t)ns > span ? (uint64_t)ns : span;
		row->detail =
			reading_text(s, "%s points, %.1f %% sure, over %s",
				     reading_count(points, growth, "points"),
				     json_number_value(json_object_get(growth, "confidence")) * 100,
				     text_duration(x, ns > 0 ? (uint64_t)ns : 0));
		row->shows = !class;
		if (!class) {
			process = s->count;
			s->rss_bytes =
				row->cells[0].number > 0 ? (uint64_t)row->cells[0].number : 0;
		}
	}
	snprintf(s->says, sizeof(s->says), "growth · over the last %s", text_duration(x, span));
	s->empty = "it has not been looked at long enough";
	return 0;
}

/* ---- the heap of a server's recording -------------------------------------------------------- */

static const struct sheet_column heap_columns[] = { { "LIVE", SHEET_BYTES, 10, 0 },
						    { "SELF", SHEET_BYTES, 10, 80 },
						    { "BLOCKS", SHEET_COUNT, 8, 120 } };

static const char *at_index(const json_t *columns, const char *key, int64_t i)
{
	return reading_word(json_array_get(json_object_get(columns, key), (size_t)i), NULL);
}

static int64_t number_at(const json_t *columns, const char *key, size_t i)
{
	return reading_number(json_array_get(json_object_get(columns, key), i), NULL);
}

static int read_tree(const struct reading *r)
{
	struct sheet *s = r->sheet;
	const json_t *node = ARRAY(r, "node"), *frames = ARRAY(r, "frames");
	size_t count = json_array_size(json_object_get(node, "frame"));
	uint32_t above[SHEET_DEPTH_MAX + 1] = { 0 };
	uint64_t keys[SHEET_DEPTH_MAX + 1] = { 0 };
	for (size_t i = 1; i < count; i++) {
		int64_t depth = number_at(node, "depth", i), frame = number_at(node, "frame", i);
		if (depth > SHEET_DEPTH_MAX)
			reading_too_deep(s);
		if (depth < 1 || depth > SHEET_DEPTH_MAX)
			continue;
		const char *name = at_index(frames, "short", frame),
			   *key = at_index(frames, "key", frame);
		keys[depth] = sheet_key(keys[depth - 1], key);
		struct sheet_row *row =
			sheet_add(s, above[depth - 1], keys[depth], name ? name : "?");
		if (!row)
			return -ENOMEM;
		above[depth] = s->count;
		row->cells[0].number = number_at(node, "total", i);
		row->cells[1].number = number_at(node, "self", i);
		row->cells[2].number = number_at(node, "blocks", i);
		const struct sheet_row *caller =
			above[depth - 1] ? &s->rows[above[depth - 1] - 1] : NULL;
		/* the way down along what has most of its caller's */
		row->shows = row->cells[0].number * 2 >= (caller ? caller->cells[0].number
								 : number_at(node, "total", 0)) &&
			     (!caller || caller->shows);
		row->detail = sheet_text(s, at_index(frames, "name", frame));
	}
	return 0;
}

static int read_table(const struct reading *r)
{
	struct sheet *s = r->sheet;
	const json_t *rows = ARRAY(r, "rows"), *frames = ARRAY(r, "frames");
	size_t count = json_array_size(json_object_get(rows, "frame"));
	for (size_t i = 0; i < count; i++) {
		int64_t frame = number_at(rows, "frame", i);
		const char *name = at_index(frames, "short", frame),
			   *key = at_index(frames, "key", frame);
		struct sheet_row *row = sheet_add(s, 0, sheet_key(0, key), name ? name : "?");
		if (!row)
			return -ENOMEM;
		row->cells[0].number = number_at(rows, "inclusive_live_bytes", i);
		row->cells[1].number = number_at(rows, "live_bytes", i);
		row->cells[2].number = number_at(rows, "inclusive_live_allocations", i);
		row->detail = sheet_text(s, at_index(frames, "name", frame));
	}
	return 0;
}

static int read_heap(const struct reading *r)
{
	struct sheet *s = r->sheet;
	char x[TEXT_NUMBER_MAX];
	int64_t total = reading_number(r->top, "total");
	s->columns = heap_columns;
	s->column_count = ARRAY_LEN(heap_columns);
	s->whole = total > 0 ? (uint64_t)total : 0;
	s->name_head = "FUNCTION";
	snprintf(s->right, sizeof(s->right), "of %s", text_bytes(x, s->whole));
	snprintf(s->says, sizeof(s->says), "live · by %s%s", by_word(r->what->by),
		 r->what->screen == SCREEN_TREE && r->what->form % 2 ? ", inverted" : "");
	if (r->what->has_at)
		snprintf(s->says + strlen(s->says), sizeof(s->says) - strlen(s->says),
			 " · at %u.%u %%", r->what->at / 10, r->what->at % 10);
	s->empty = "nothing lives";
	return r->what->screen == SCREEN_TREE ? read_tree(r) : read_table(r);
}

/* ---- all ------------------------------------------------------------------------------------- */

static json_t *parse(const char *json, size_t len)
{
	return json_loadb(json, len, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
}

static void put_away(json_t **top)
{
	json_decref(*top);
}

int screen_read(const struct screen_what *w, const char *json, size_t len, struct sheet *sheet,
		struct err *err)
{
	static int (*const nodes[])(const struct reading *) = { read_messages, read_connections,
								read_logs };
	CLEANUP(put_away) json_t *top = parse(json, len);
	const struct reading r = { .what = w, .sheet = sheet, .top = top };
	int rc = 0;
	if (!top)
		return err_set(err, -EBADMSG, "an answer that cannot be read");
	switch (w->screen) {
	case SCREEN_BALANCE:
		rc = read_balance(&r);
		break;
	case SCREEN_TREE:
	case SCREEN_TABLE:
		rc = read_heap(&r);
		break;
	case SCREEN_GROWTH:
		sheet->columns = has(w->recording) ? growth_columns : history_columns;
		sheet->column_count = ARRAY_LEN(growth_columns);
		sheet->sort = 2;
		rc = has(w->recording) ? read_growth(&r) : read_history(&r);
		break;
	case SCREEN_REGIONS:
		rc = has(w->process) ? read_regions(&r) : read_maps(&r);
		break;
	case SCREEN_PAGES:
		rc = read_pages(&r);
		break;
	case SCREEN_SAMPLER:
		rc = read_sampler(&r);
		break;
	case SCREEN_NODE:
		rc = nodes[w->form % ARRAY_LEN(nodes)](&r);
		break;
	default:
		break;
	}
	return rc < 0 ? err_set(err, rc, "cannot show an answer") : 0;
}

void screen_error(const char *json, size_t len, struct buf *to)
{
	CLEANUP(put_away) json_t *top = parse(json, len);
	const char *error = reading_word(top, "error"), *hint = reading_word(top, "hint");
	buf_puts(to, error ? error : "it was not answered");
	if (hint)
		buf_printf(to, " (%s)", hint);
}

int screen_counts_pages(const char *json, size_t len)
{
	CLEANUP(put_away) json_t *top = parse(json, len);
	return reading_number(top, "total") > 0;
}

int screen_sources(const char *json, size_t len, struct screen_sources *to, struct err *err)
{
	static const struct {
		const char *word;
		enum screen screen;
	} words[] = { { "explain", SCREEN_BALANCE }, { "heap", SCREEN_TREE },
		      { "heap", SCREEN_TABLE },      { "growth", SCREEN_GROWTH },
		      { "maps", SCREEN_REGIONS },    { "regions", SCREEN_REGIONS },
		      { "regions", SCREEN_GROWTH },  { "regions", SCREEN_BALANCE },
		      { "pages", SCREEN_PAGES },     { "sample", SCREEN_SAMPLER },
		      { "messages", SCREEN_NODE } };
	CLEANUP(put_away) json_t *top = parse(json, len);
	size_t i, k;
	const json_t *source, *word;
	*to = (struct screen_sources){ .recording = SCREEN_NOWHERE,
				       .process = SCREEN_NOWHERE,
				       .node = SCREEN_NOWHERE };
	if (!json_is_array(top))
		return err_set(err, -EBADMSG, "what answers there is no byteledger");
	json_array_foreach(top, i, source)
	{
		const char *kind = reading_word(source, "kind"),
			   *name = reading_word(source, "name");
		int64_t pid = reading_number(source, "pid"), id = reading_number(source, "id");
		int process = kind && strcmp(kind, "process") == 0,
		    node = kind && strcmp(kind, "node") == 0;
		uint32_t *place = process ? &to->process : node ? &to->node : &to->recording;
		if (*place != SCREEN_NOWHERE || json_is_string(json_object_get(source, "error")))
			continue; /* the first of each kind is shown */
		unsigned had = to->has, own = 0;
		json_array_foreach(json_object_get(source, "has"), k, word)
		{
			const char *text = reading_word(word, NULL);
			for (size_t n = 0; n < ARRAY_LEN(words) && text; n++)
				if (strcmp(words[n].word, text) == 0)
					own |= 1u << words[n].screen;
		}
		to->has |= own;
		*place = (uint32_t)id;
		if (process && !(own & 1u << SCREEN_REGIONS))
			to->process = SCREEN_NOWHERE; /* pages or samples of it, no mappings */
		to->live |= process || node || json_is_true(json_object_get(source, "live"));
		if (process && pid > 0)
			to->pid = (pid_t)pid;
		if (name && (!to->name[0] || !had))
			snprintf(to->name, sizeof(to->name), "%.79s", name);
	}
	return 0;
}
