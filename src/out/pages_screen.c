/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_screen.c - resident pages on a terminal, again and again: the first processes as far as
 * they fit.
 */
#include "out/pages.h"

#define SHOWN 4 /* processes */
#define LINES_LEAST 6

void out_pages_since(struct out_pages_opt *opt, const struct page_shot *shot,
		     const struct page_shot *then, const struct page_process *process)
{
	if (!opt->since)
		return;
	opt->since_ns = then && shot->time_ns > then->time_ns ? shot->time_ns - then->time_ns : 0;
	opt->then = then ? page_shot_find(then, process->pid) : NULL;
}

int out_pages_screen(struct buf *to, const struct page_shot *shot, const struct page_shot *then,
		     const struct out_pages_opt *how, size_t terminal_rows, struct err *err)
{
	struct out_pages_opt opt = *how;
	size_t living = 0, rows = terminal_rows > 3 ? terminal_rows - 2 : 1;
	for (size_t i = 0; i < shot->count; i++)
		living += !shot->processes[i]->ended;
	buf_puts(to, "\033[H\033[J");
	for (size_t i = 0, shown = 0; i < shot->count && shown < SHOWN; i++) {
		if (shot->processes[i]->ended && living)
			continue;
		opt.lines = rows / (living >= SHOWN ? SHOWN : living ? living : 1);
		opt.lines = opt.lines > LINES_LEAST ? opt.lines - 1 : LINES_LEAST;
		out_pages_since(&opt, shot, then, shot->processes[i]);
		if (out_pages_text(to, shot, shot->processes[i], &opt, err) < 0)
			return err->code;
		shown++;
	}
	if (living > SHOWN)
		buf_printf(to, "%zu more processes\n", living - SHOWN);
	return 0;
}
