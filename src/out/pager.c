/* SPDX-License-Identifier: Apache-2.0 */
#include "out/pager.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "out/fit.h"

void pager_begin(struct pager *pager, FILE *terminal, int off)
{
	const char *program = getenv("PAGER"), *term = getenv("TERM");
	*pager = (struct pager){ .to = terminal, .terminal = terminal };
	if (off || !isatty(fileno(terminal)) || (term && strcmp(term, "dumb") == 0) ||
	    (program && (!*program || strcmp(program, "cat") == 0)))
		return;
	pager->to = open_memstream(&pager->text, &pager->bytes);
	if (!pager->to)
		pager->to = terminal;
}

void pager_end(struct pager *pager)
{
	if (pager->to == pager->terminal)
		return;
	fclose(pager->to);
	size_t lines = 0;
	for (size_t i = 0; i < pager->bytes; i++)
		lines += pager->text[i] == '\n';
	FILE *to = NULL;
	if (lines + 1 > terminal_rows(pager->terminal)) {
		const char *program = getenv("PAGER");
		/* colours as they are, no paging of what fits, and the page stays when it ends */
		setenv("LESS", "FRX", 0);
		setenv("LESSCHARSET", "utf-8", 0);
		fflush(pager->terminal);
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
		fwrite(pager->text, 1, pager->bytes, pager->terminal);
	free(pager->text);
}
