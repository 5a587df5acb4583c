/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/paint.h"

#include <errno.h>
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SCREEN *screen;
static attr_t attributes[GRID_STYLES];
static volatile sig_atomic_t asked_to_end;
static struct sigaction kept[3];
static const int ends[3] = { SIGINT, SIGTERM, SIGHUP };

static void end_soon(int number)
{
	(void)number;
	asked_to_end = 1;
}

static void choose_attributes(void)
{
	static const attr_t plain[GRID_STYLES] = {
		[GRID_BOLD] = A_BOLD,
		[GRID_FAINT] = A_DIM,
		[GRID_HEAD] = A_BOLD | A_UNDERLINE,
		[GRID_SELECTED] = A_REVERSE,
		[GRID_GROWN] = A_BOLD,
		[GRID_WARN] = A_BOLD,
	};
	memcpy(attributes, plain, sizeof(attributes));
	const char *refused = getenv("NO_COLOR");
	if ((refused && *refused) || !has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	init_pair(1, COLOR_RED, -1);
	init_pair(2, COLOR_BLUE, -1);
	init_pair(3, COLOR_YELLOW, -1);
	attributes[GRID_GROWN] = (attr_t)COLOR_PAIR(1);
	attributes[GRID_SHRUNK] = (attr_t)COLOR_PAIR(2);
	attributes[GRID_WARN] = (attr_t)COLOR_PAIR(3) | A_BOLD;
}

int paint_check(struct err *err)
{
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return 0;
	err_set(err, -EINVAL, "standard input or output is no terminal");
	return err_hint(err, "'byteledger report FILE' prints the same");
}

int paint_open(struct err *err)
{
	int rc = paint_check(err);
	if (rc < 0)
		return rc;
	screen = newterm(NULL, stdout, stdin);
	if (!screen) {
		const char *term = getenv("TERM");
		return err_set(err, -EINVAL, "unknown terminal '%s'", term ? term : "");
	}
	set_term(screen);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	choose_attributes();
	asked_to_end = 0;
	struct sigaction action = { .sa_handler = end_soon };
	for (int i = 0; i < 3; i++)
		sigaction(ends[i], &action, &kept[i]);
	return 0;
}

void paint_close(void)
{
	if (!screen)
		return;
	for (int i = 0; i < 3; i++)
		sigaction(ends[i], &kept[i], NULL);
	endwin();
	delscreen(screen);
	screen = NULL;
}

void paint_size(unsigned *rows, unsigned *columns)
{
	int y, x;
	getmaxyx(stdscr, y, x);
	*rows = y > 0 ? (unsigned)y : 0;
	*columns = x > 0 ? (unsigned)x : 0;
}

void paint_show(const struct grid *grid)
{
	erase();
	for (unsigned row = 0; row < grid->rows; row++) {
		move((int)row, 0);
		for (unsigned column = 0; column < grid->columns; column++) {
			const struct grid_cell *cell =
				&grid->cells[(size_t)row * grid->columns + column];
			attrset((int)attributes[cell->style]);
			if (cell->len) /* else the second half of a wide character */
				addnstr(cell->bytes, cell->len);
		}
	}
	refresh();
}

int paint_key(int ms)
{
	static const struct {
		int code, key;
	} known[] = {
		{ KEY_UP, PAINT_UP },
		{ KEY_DOWN, PAINT_DOWN },
		{ KEY_LEFT, PAINT_LEFT },
		{ KEY_RIGHT, PAINT_RIGHT },
		{ KEY_PPAGE, PAINT_PAGE_UP },
		{ KEY_NPAGE, PAINT_PAGE_DOWN },
		{ KEY_HOME, PAINT_HOME },
		{ KEY_END, PAINT_END },
		{ KEY_ENTER, PAINT_ENTER },
		{ '\r', PAINT_ENTER },
		{ '\n', PAINT_ENTER },
		{ 27, PAINT_ESCAPE },
		{ KEY_BACKSPACE, PAINT_BACKSPACE },
		{ 127, PAINT_BACKSPACE },
		{ '\b', PAINT_BACKSPACE },
		{ KEY_RESIZE, PAINT_RESIZE },
	};
	wint_t c;
	if (asked_to_end)
		return PAINT_GONE;
	timeout(ms);
	errno = 0;
	int rc = get_wch(&c);
	if (asked_to_end || (rc == ERR && errno == EIO))
		return PAINT_GONE;
	if (rc == ERR)
		return PAINT_NONE;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((wint_t)known[i].code == c && (rc == KEY_CODE_YES || known[i].code < 256))
			return known[i].key;
	return rc == KEY_CODE_YES ? PAINT_NONE : (int)c;
}
