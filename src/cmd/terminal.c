/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/terminal.h"
#include "out/fit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
