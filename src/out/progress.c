/* SPDX-License-Identifier: Apache-2.0 */
#include "out/progress.h"

#include <unistd.h>

#include "base/clock.h"

#define SHOWN_AFTER_NS NS_PER_S
#define SHOWN_EVERY_NS (NS_PER_S / 10)

void progress_tick(struct progress *p, FILE *to, const char *what, uint64_t done, uint64_t total)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	p->what = what;
	if (!p->start_ns)
		p->start_ns = now;
	if (now - p->start_ns < SHOWN_AFTER_NS || now - p->shown_ns < SHOWN_EVERY_NS)
		return;
	if (!p->shown && !isatty(fileno(to))) {
		p->shown_ns = UINT64_MAX / 2; /* never again: the difference stays below 0.1 s */
		return;
	}
	p->shown = 1;
	p->shown_ns = now;
	if (total)
		fprintf(to, "\r%s: %u %%\033[K", p->what,
			(unsigned)(100.0 * (double)done / (double)total));
	else
		fprintf(to, "\r%s: %llu MiB\033[K", p->what, (unsigned long long)(done >> 20));
}

void progress_end(struct progress *p, FILE *to)
{
	if (p->shown)
		fputs("\r\033[K", to);
	*p = (struct progress){ 0 };
}
