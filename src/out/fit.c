/* SPDX-License-Identifier: Apache-2.0 */
#include "out/fit.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "out/sample.h"

static int is_set(const char *name)
{
	const char *value = getenv(name);
	return value && *value;
}

void terminal_fit(FILE *to, struct out_opt *opt)
{
	int fd = fileno(to), terminal = fd >= 0 && isatty(fd);
	struct winsize size;
	if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col)
		opt->width = size.ws_col;
	else if (is_set("COLUMNS"))
		opt->width = (int)strtol(getenv("COLUMNS"), NULL, 10);
	const char *term = getenv("TERM");
	opt->colour = terminal && !is_set("NO_COLOR") && !(term && strcmp(term, "dumb") == 0);
	setlocale(LC_CTYPE, "");
	opt->ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

int terminal_ascii(FILE *to)
{
	struct out_opt opt = { 0 };
	terminal_fit(to, &opt);
	return opt.ascii;
}

void out_sample_fit(FILE *to, struct out_sample_opt *opt)
{
	struct out_opt fit = { 0 };
	terminal_fit(to, &fit);
	opt->width = fit.width;
	opt->ascii = fit.ascii;
	opt->colour = fit.colour;
}

size_t terminal_rows(FILE *to)
{
	struct winsize size;
	return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}
