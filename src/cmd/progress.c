/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

void progress_tick(void *ctx, uint64_t done, uint64_t total)
{
	struct progress *p = ctx;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!p->start_ns)
		p->start_ns = now;
	if (now - p->start_ns < 1000000000 || now - p->shown_ns < 100000000)
		return;
	if (!p->shown && !isatty(STDERR_FILENO)) {
		p->shown_ns = UINT64_MAX / 2; /* never again: the difference stays below 0.1 s */
		return;
	}
	p->shown = 1;
	p->shown_ns = now;
	if (total)
		fprintf(stderr, "\r%s: %u %%\033[K", p->what,
			(unsigned)(100.0 * (double)done / (double)total));
	else
		fprintf(stderr, "\r%s: %llu MiB\033[K", p->what, (unsigned long long)(done >> 20));
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = 0;
}
