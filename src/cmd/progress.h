/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - a line on stderr for what takes over a second, on a terminal only. */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

#include <stdint.h>

/** struct progress - zero-initialise, name the work, pass progress_tick() as a callback, progress_end() when done. */
struct progress {
	const char *what;
	uint64_t start_ns, shown_ns;
	int shown;
};

/** progress_tick() - @ctx is the struct progress; @total 0 = unknown. At most 10 updates a second. */
void progress_tick(void *ctx, uint64_t done, uint64_t total);
/** progress_end() - wipe the line, if there is one. */
void progress_end(struct progress *progress);

#endif
