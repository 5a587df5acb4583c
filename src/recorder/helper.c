/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - the recorder that the preload library starts beside a program, from start to end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recorder/recorder.h"
#include "wire/heap_start.h"

static void take_stderr(int forked)
{
	int fd = forked ? open("/dev/null", O_WRONLY | O_CLOEXEC) : WIRE_RECORDER_STDERR;
	if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0)
		close(fd);
}

int recorder_helper(int fd, char **words, const struct recorder_ears *ears)
{
	struct err err = { 0 };
	struct recorder_result result = { 0 };
	int named = words[0] && strcmp(words[0], "-o") == 0 && words[1];
	size_t count = 0;
	while (words[count])
		count++;
	const struct recorder_opt opt = { .ears = *ears,
					  .pattern = named ? words[1] : NULL,
					  .comment = "heap",
					  .variables = words + (count > 2 ? 2 : count),
					  .takes_signals = 1 };
	/* whatever spoke in our place before was not to be heard by the program's user */
	take_stderr(0);
	CLEANUP(recorder_freep) struct recorder *recorder = recorder_adopt(fd, &opt, &err);
	if (!recorder) {
		ears->tell(ears->ctx, &err);
		return err.code;
	}
	const char *bad = recorder_settings_bad(recorder);
	if (bad) { /* the program runs already: better recorded than not */
		struct err told = { 0 };
		snprintf(told.msg, sizeof(told.msg), "BYTELEDGER_%s makes no sense: no limit", bad);
		ears->tell(ears->ctx, &told);
	}
	/* a daemon lets go of the terminal, and of pipes whose end somebody waits for */
	if (recorder_forked(recorder))
		take_stderr(1);
	recorder_run(recorder, 0);
	int rc = recorder_finish(recorder, &result, &err);
	if (rc < 0)
		ears->tell(ears->ctx, &err);
	return rc < 0 || result.failed ? -EIO : 0;
}
