/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - one line on a terminal for work that takes over a second. */
#ifndef OUT_PROGRESS_H
#define OUT_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

/** struct progress - of one work at a time; zero-initialised. */
struct progress {
	const char *what;
	uint64_t start_ns, shown_ns;
	int shown;
};
/**
 * progress_tick() - @what has come so far: per cent of @total, MiB where that is 0. Drawn over
 * itself ten times a second at most, and only where @to is a terminal.
 */
void progress_tick(struct progress *progress, FILE *to, const char *what, uint64_t done,
		   uint64_t total);
/** progress_end() - the line goes; @progress is ready for the next work. */
void progress_end(struct progress *progress, FILE *to);

#endif
