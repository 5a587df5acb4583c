/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/crowd.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "tui/grid.h"
#include "tui/list.h"
#include "tui/paint.h"
#include "tui/past.h"

#define STILL_NS 3000000000ull /* rows stay put so long after a key */
#define FIND_MAX 60
#define COLUMNS_LEAST 60
#define ROWS_LEAST 12
#define FIXED_ROWS 5 /* two above, the columns' heads, two below */
#define PID 9
#define VALUE 10
#define CHANGE 11

enum sort { SORT_RSS, SORT_CHANGE, SORT_PEAK, SORT_NAME, SORTS };

struct crowd {
	struct crowd_opt opt;
	/* room for CROWD_ROWS_MAX: what is not there takes no memory */
	struct process_row *rows;
	/* that are shown, of @all */
	uint32_t count;
	uint32_t all;
	uint64_t total_bytes, time_ns, before_ns;
	/* what each process held, by pid */
	struct past past;
	enum sort sort;
	int up, sorted, holds, help, finding;
	struct list list;
	char find[FIND_MAX + 1], said[160];
	struct grid grid;
	struct err err;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t key_of(void *ctx, uint32_t row)
{
	return (uint64_t)((struct crowd *)ctx)->rows[row].pid;
}

static int64_t change(const struct process_row *r)
{
	return (int64_t)r->rss_bytes - (int64_t)r->before_bytes;
}

static int compare(const struct crowd *c, const struct process_row *a, const struct process_row *b)
{
	int order = 0;
	if (c->sort == SORT_CHANGE)
		order = (change(a) < change(b)) - (change(a) > change(b));
	else if (c->sort == SORT_PEAK)
		order = (a->peak_bytes < b->peak_bytes) - (a->peak_bytes > b->peak_bytes);
	else if (c->sort == SORT_NAME)
		order = strcmp(a->name, b->name);
	if (!order && c->sort != SORT_NAME)
		order = (a->rss_bytes < b->rss_bytes) - (a->rss_bytes > b->rss_bytes);
	if (c->up)
		order = -order;
	return order ? order : a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int in_order(const void *a, const void *b, void *ctx)
{
	return compare(ctx, a, b);
}

static int matches(const struct crowd *c, const struct process_row *r)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", (int)r->pid);
	return !c->find[0] || strcasestr(r->name, c->find) || strcmp(pid, c->find) == 0;
}

/** read_now() - this reading as one that changes are told from. 0, -ENOMEM. */
static int read_now(struct crowd *c, struct past_reading *to)
{
	if (past_new(to, c->time_ns, c->all) < 0)
		return err_set(&c->err, -ENOMEM, "cannot show processes");
	for (uint32_t i = 0; i < c->all; i++)
		to->values[i] = (struct past_value){ (uint64_t)c->rows[i].pid,
						     (int64_t)c->rows[i].rss_bytes };
	return 0;
}

/** arrange() - which rows are shown, and in what order. */
static void arrange(struct crowd *c)
{
	uint32_t shown = 0;
	for (uint32_t i = 0; i < c->all; i++) {
		if (!matches(c, &c->rows[i]))
			continue;
		const struct process_row row = c->rows[i];
		c->rows[i] = c->rows[shown];
		c->rows[shown++] = row;
	}
	c->count = shown;
	if (shown)
		qsort_r(c->rows, shown, sizeof(*c->rows), in_order, c);
	list_renew(&c->list, shown, key_of, c);
}

/** renew() - the processes as they are now. 0 or negative errno. */
static int renew(struct crowd *c)
{
	int count = c->opt.read(c->opt.ctx, c->rows, CROWD_ROWS_MAX, &c->err);
	if (count < 0)
		return count;
	c->all = (uint32_t)count;
	c->total_bytes = 0;
	c->time_ns = clock_ns(CLOCK_MONOTONIC);
	const struct past_reading *before = past_before(&c->past);
	c->before_ns = before ? before->time_ns : c->time_ns;
	for (uint32_t i = 0; i < c->all; i++) {
		struct process_row *r = &c->rows[i];
		/* who was not there then has grown by all that it holds */
		r->before_bytes =
			before ? (uint64_t)past_value(before, (uint64_t)r->pid, 0) : r->rss_bytes;
		c->total_bytes += r->rss_bytes;
	}
	struct past_reading now;
	int rc = 0;
	if (past_due(&c->past, c->time_ns) && (rc = read_now(c, &now)) == 0)
		past_keep(&c->past, &now);
	arrange(c);
	return rc;
}

/* ---- the screen ------------------------------------------------------------------------------ */

static void put_change(struct grid *grid, unsigned line, unsigned end, const struct process_row *r)
{
	char value[TEXT_NUMBER_MAX], text[TEXT_NUMBER_MAX + 1];
	int64_t by = change(r);
	text_bytes(value, (uint64_t)(by < 0 ? -by : by));
	snprintf(text, sizeof(text), "%s%.*s",
		 by > 0   ? "+"
		 : by < 0 ? "-"
			  : "",
		 TEXT_NUMBER_MAX - 1, by ? value : "0");
	grid_put_right(grid, line, end, CHANGE,
		       by > 0 ? GRID_GROWN
		       : by   ? GRID_SHRUNK
			      : GRID_FAINT,
		       text);
}

static void put_rows(struct crowd *c, struct grid *grid)
{
	char x[TEXT_NUMBER_MAX], text[40];
	int wide = grid->columns >= 80;
	unsigned rss = PID + VALUE, changed = rss + (wide ? CHANGE : 0);
	unsigned peak = changed + (wide ? VALUE : 0), name = peak + 1;
	grid_put_right(grid, 2, PID, PID, GRID_PLAIN, "PID");
	grid_put_right(grid, 2, rss, VALUE, GRID_PLAIN, "RSS");
	if (wide) {
		/* whole seconds; nothing before the second reading */
		uint64_t seconds = (c->time_ns - c->before_ns + NS_PER_S / 2) / NS_PER_S;
		snprintf(text, sizeof(text), seconds ? "+- %.*s" : "+-", 24,
			 text_duration(x, seconds * NS_PER_S));
		grid_put_right(grid, 2, changed, CHANGE, GRID_PLAIN, text);
		grid_put_right(grid, 2, peak, VALUE, GRID_PLAIN, "PEAK");
	}
	grid_put(grid, 2, name, grid->columns - name, GRID_PLAIN, "PROCESS");
	grid_style_row(grid, 2, GRID_HEAD);
	for (unsigned i = 0; i < c->list.shown && c->list.top + i < c->count; i++) {
		const struct process_row *r = &c->rows[c->list.top + i];
		unsigned line = 3 + i;
		snprintf(text, sizeof(text), "%d", (int)r->pid);
		grid_put_right(grid, line, PID, PID, GRID_PLAIN, text);
		grid_put_right(grid, line, rss, VALUE, GRID_PLAIN, text_bytes(x, r->rss_bytes));
		if (wide) {
			put_change(grid, line, changed, r);
			grid_put_right(grid, line, peak, VALUE, GRID_PLAIN,
				       r->peak_bytes ? text_bytes(x, r->peak_bytes) : "-");
		}
		grid_put(grid, line, name, grid->columns - name, GRID_PLAIN, r->name);
	}
	if (c->count)
		grid_style_row(grid, 3 + (c->list.cursor - c->list.top), GRID_SELECTED);
	else
		grid_put(grid, 3, name, grid->columns - name, GRID_FAINT,
			 c->all ? "none has that" : "none");
}

static void put_edges(const struct crowd *c, struct grid *grid)
{
	static const char *const sorts[] = { "RSS", "change", "peak", "name" };
	char x[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 };
	unsigned at = grid_put(grid, 0, 0, 11, GRID_BOLD, "byteledger");
	buf_printf(&text, "  %u processes%s%s", c->all, c->opt.words ? " called " : "",
		   c->opt.words ? c->opt.words : "");
	grid_put(grid, 0, at, grid->columns - at, GRID_PLAIN, buf_cstr(&text));
	buf_clear(&text);
	buf_printf(&text, "by %s%s", sorts[c->sort], c->up ? ", least first" : "");
	if (c->find[0])
		buf_printf(&text, " · %u with \"%s\"", c->count, c->find);
	if (c->holds)
		buf_puts(&text, " · held: Space goes on");
	unsigned used = grid_put(grid, 1, 0, grid->columns, c->holds ? GRID_WARN : GRID_PLAIN,
				 buf_cstr(&text));
	buf_clear(&text);
	buf_printf(&text, "RSS %s, shared pages by each", text_bytes(x, c->total_bytes));
	if (grid->columns > used)
		grid_put_right(grid, 1, grid->columns, grid->columns - used, GRID_PLAIN,
			       buf_cstr(&text));
	grid_put(grid, grid->rows - 2, 0, grid->columns, GRID_WARN, c->said);
	buf_clear(&text);
	if (c->finding)
		buf_printf(&text, "find: %s_", c->find);
	grid_put_words(grid, grid->rows - 1, 0, grid->columns - (c->finding ? 0 : 13),
		       c->finding ? GRID_BOLD : GRID_FAINT,
		       c->finding ? buf_cstr(&text) : "Enter:open /find s:sort d:base Space:hold");
	if (!c->finding)
		grid_put_right(grid, grid->rows - 1, grid->columns, 14, GRID_FAINT, "?help q:quit");
}

static void put_help(struct grid *grid)
{
	static const char *const lines[] = {
		"arrows PgUp PgDn Home End   move",
		"Enter                       its screens: mappings, heap, balance; 1 q come back",
		"s S                         sort by RSS, change, peak, name, again: other way",
		"/                           only those with that in their names, or that PID",
		"d                           changes are told from now on",
		"Space                       hold what is shown, or go on",
		"q                           quit",
		"",
		"RSS       resident pages; those that several share count for each of them",
		"+-        change since the time that its head says",
		"PEAK      the most that was ever resident (VmHWM)",
	};
	grid_clear(grid);
	for (unsigned i = 0, line = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		line = *lines[i] ? grid_put_help(grid, line, lines[i]) : line + 1;
}

static int draw(struct crowd *c)
{
	unsigned rows, columns;
	paint_size(&rows, &columns);
	if (rows != c->grid.rows || columns != c->grid.columns) {
		grid_fini(&c->grid);
		int rc = grid_init(&c->grid, rows, columns,
				   strcmp(nl_langinfo(CODESET), "UTF-8") != 0, &c->err);
		if (rc < 0)
			return rc;
	}
	grid_clear(&c->grid);
	if (columns < COLUMNS_LEAST || rows < ROWS_LEAST) {
		grid_put(&c->grid, 0, 0, columns, GRID_PLAIN, "top needs 60 columns and 12 rows");
	} else if (c->help) {
		put_help(&c->grid);
	} else {
		list_fit(&c->list, rows - FIXED_ROWS);
		put_rows(c, &c->grid);
		put_edges(c, &c->grid);
	}
	paint_show(&c->grid);
	return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/** find_key() - while text is typed. */
static void find_key(struct crowd *c, int key)
{
	size_t len = strlen(c->find);
	if (key == PAINT_ENTER || key == PAINT_ESCAPE) {
		c->finding = 0;
		if (key == PAINT_ESCAPE)
			c->find[0] = '\0';
	} else if (key == PAINT_BACKSPACE && len) {
		c->find[len - 1] = '\0';
	} else if (key >= ' ' && key < 127 && len < FIND_MAX) {
		c->find[len] = (char)key;
		c->find[len + 1] = '\0';
	}
	arrange(c);
}

/** take_key() - 1: the reader leaves, or picks the row under the cursor with Enter. */
static int take_key(struct crowd *c, int key)
{
	struct past_reading now;
	c->said[0] = '\0';
	if (c->finding) {
		find_key(c, key);
		return 0;
	}
	if (c->help || key == '?') {
		c->help = !c->help;
		return 0;
	}
	if (list_key(&c->list, key)) {
		list_renew(&c->list, c->count, key_of, c);
		return 0;
	}
	switch (key) {
	case 's': /* by the next column; again: the other way round */
		if (!(c->up = c->sorted && !c->up))
			c->sort = (c->sort + 1) % SORTS;
		c->sorted = 1;
		arrange(c);
		break;
	case 'S':
		c->up = !c->up;
		arrange(c);
		break;
	case '/':
		c->finding = 1;
		c->find[0] = '\0';
		arrange(c);
		break;
	case 'd':
		past_drop_base(&c->past);
		if (read_now(c, &now) == 0)
			past_base(&c->past, &now); /* without memory: as before */
		break;
	case ' ':
		c->holds = !c->holds;
		break;
	case PAINT_ENTER:
		return c->count > 0;
	default:
		return key == 'q' || key == PAINT_ESCAPE;
	}
	return 0;
}

static pid_t loop(struct crowd *c)
{
	uint64_t key_ns = 0;
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		int still = c->holds || now < key_ns + STILL_NS;
		int rc = !c->time_ns || (!still && now >= c->time_ns + c->opt.delay_ns) ? renew(c)
											: 0;
		if (rc == 0)
			rc = draw(c);
		if (rc < 0)
			return rc;
		int key = paint_key(200);
		if (key == PAINT_GONE)
			return 0;
		if (key == PAINT_NONE || key == PAINT_RESIZE)
			continue;
		if (key != ' ')
			key_ns = clock_ns(CLOCK_MONOTONIC);
		if (take_key(c, key))
			return key == PAINT_ENTER ? c->rows[c->list.cursor].pid : 0;
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

struct crowd *crowd_new(const struct crowd_opt *opt, struct err *err)
{
	struct crowd *c = calloc(1, sizeof(*c));
	if (c)
		c->rows = calloc(CROWD_ROWS_MAX, sizeof(*c->rows));
	if (!c || !c->rows) {
		crowd_free(c);
		err_set(err, -ENOMEM, "cannot show processes");
		return NULL;
	}
	c->opt = *opt;
	return c;
}

pid_t crowd_run(struct crowd *c, struct err *err)
{
	int rc = paint_open(err);
	if (rc < 0)
		return rc;
	pid_t pid = loop(c);
	paint_close();
	if (pid < 0)
		*err = c->err;
	return pid;
}

void crowd_say(struct crowd *c, const char *said)
{
	snprintf(c->said, sizeof(c->said), "%s", said);
}

void crowd_free(struct crowd *c)
{
	if (!c)
		return;
	past_fini(&c->past);
	free(c->rows);
	grid_fini(&c->grid);
	free(c);
}
