/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/open.h"

#include <stdio.h>

#include "cmd/cmd.h"
#include "out/progress.h"

static struct progress shown; /* one work at a time, on the main thread */

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
	(void)ctx;
	if (what)
		progress_tick(&shown, stderr, what, done, total);
	else
		progress_end(&shown, stderr);
}

static void on_notice(void *ctx, const struct err *notice)
{
	(void)ctx;
	cmd_fail(notice);
}

const struct recording_ears cmd_ears = { .progress = on_progress, .notice = on_notice };
