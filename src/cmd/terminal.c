/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

void pager_begin(struct pager *pager, int off)
{
	const char *program = getenv("PAGER"), *term = getenv("TERM");
	*pager = (struct pager){ .to = stdout };
	if (off || !isatty(STDOUT_FILENO) || (term && strcmp(term, "dumb") == 0) ||
	    (program && (!*program || strcmp(program, "cat") == 0)))
		return;
	pager->to = open_memstream(&pager->text, &pager->bytes);
	if (!pager->to)
		pager->to = stdout;
}

size_t terminal_rows(FILE *to)
{
	struct winsize size;
	return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_row > 4 ? size.ws_row : 24;
}

void pager_end(struct pager *pager)
{
	if (pager->to == stdout)
		return;
	fclose(pager->to);
	size_t lines = 0;
	for (size_t i = 0; i < pager->bytes; i++)
		lines += pager->text[i] == '\n';
	FILE *to = NULL;
	if (lines + 1 > terminal_rows(stdout)) {
		const char *program = getenv("PAGER");
		/* colours as they are, no paging of what fits, and the page stays when it ends */
		setenv("LESS", "FRX", 0);
		setenv("LESSCHARSET", "utf-8", 0);
		fflush(stdout);
		signal(SIGPIPE, SIG_IGN); /* who has seen enough ends the pager */
		to = popen(program ? program : "less", "w");
	}
	int paged = 0;
	if (to) {
		fwrite(pager->text, 1, pager->bytes, to);
		int status = pclose(to);
		paged = !(WIFEXITED(status) && WEXITSTATUS(status) == 127); /* no such pager */
	}
	if (!paged)
		fwrite(pager->text, 1, pager->bytes, stdout);
	free(pager->text);
}
