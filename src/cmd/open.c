/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/open.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"

/* A line on a terminal for what takes over a second, ten times a second at most. */
struct progress {
	const char *what;
	uint64_t start_ns, shown_ns;
	int shown;
};

static void tick(struct progress *p, uint64_t done, uint64_t total)
{
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

static void wipe(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = 0;
}

static struct progress shown; /* one work at a time, on the main thread */

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	(void)ctx;
	if (what) {
		shown.what = what;
		tick(&shown, done, total);
		return;
	}
	wipe(&shown);
	shown = (struct progress){ 0 };
}

static void on_notice(void *ctx, const struct err *notice)
{
	(void)ctx;
	cmd_fail(notice);
}

const struct recording_ears cmd_ears = { .progress = on_progress, .notice = on_notice };

struct recording *cmd_open_recording(const char *path, struct err *err)
{
	return recording_open(path, &cmd_ears, err);
}

int cmd_resolve(struct prof *prof, struct err *err)
{
	return recording_resolve(prof, &cmd_ears, err);
}
