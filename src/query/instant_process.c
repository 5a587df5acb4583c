/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instant_process.c - a running process at this moment, with the blocks of its recording where
 * somebody writes one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "query/instant.h"
#include "query/written.h"
#include "source/snapshot.h"
#include "trace/trace.h"

#define LOOK_NS 200000000ull
#define STILL_NS \
	1300000000ull /* the recorder waited, and wrote nothing, for so long: nothing came */
#define WAIT_NS (10 * NS_PER_S)

/* How large the recording is; 0: not known. */
static uint64_t size_of(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/*
 * Whether all that happened up to @until_ns has been written, by the heads of the recording's
 * blocks.
 */
static int is_written(const char *path, uint64_t until_ns)
{
	struct err ignored = { 0 };
	uint64_t reached_ns = 0;
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, &ignored);
	return reader && trace_reader_reached(reader, &reached_ns, &ignored) == 0 &&
	       reached_ns > until_ns;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec due = clock_time(ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
		;
}

/*
 * What process @pid is at, by its first thread, as /proc says it: a recorder that has no processor
 * writes as little as one that has nothing to write, and waits ('S').
 */
static char state_of(pid_t pid)
{
	char path[40], text[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	CLEANUP(fileio_fclosep) FILE *stat = fopen(path, "re");
	text[stat ? fread(text, 1, sizeof(text) - 1, stat) : 0] = 0;
	const char *state = strrchr(text, ')');
	return state && state[1] ? state[2] : 'X';
}

/*
 * Until the recorder has written what happened up to the end of the snapshot, whose instant was
 * @taken_ns on the clock: it does so at least once a second, mostly twice. A program that is idle
 * writes nothing more; then the file stays as it is. Only the heads of its blocks are looked at
 * before: to read it all may take seconds, and is done once.
 */
static int catch_up(struct instant *instant, pid_t recorder, const char *path, uint64_t taken_ns,
		    struct err *err)
{
	uint64_t bytes = size_of(path), since = taken_ns, now = taken_ns;
	const struct snapshot *s = instant->snapshot;
	int written;
	char state = 'S';
	while (!(written = is_written(path, s->time_ns + s->window_ns)) && now < since + STILL_NS &&
	       now < taken_ns + WAIT_NS) {
		sleep_until(clock_ns(CLOCK_MONOTONIC) + LOOK_NS);
		now = clock_ns(CLOCK_MONOTONIC);
		state = state_of(recorder);
		if (size_of(path) != bytes || state == 'R' || state == 'D') {
			bytes = size_of(path);
			since = now;
		}
	}
	int rc = instant_join(path, instant, err);
	/* one that is stopped, or has gone, is not waited for */
	if (!written && (now < since + STILL_NS || state != 'S')) {
		instant->behind = instant->lossy = 1;
		instant->complete = 0;
	}
	return rc;
}

int instant_of_process(pid_t pid, int freeze, struct instant *instant, const char **why_not,
		       struct err *err)
{
	struct snapshot_opt take = { .freeze = freeze };
	char path[1024] = "";
	const char *why = "It is not recorded: blocks are told by size, not by who asked. "
			  "'byteledger explain -- PROGRAM' records, and says who.";
	pid_t recorder = snapshot_recorder(pid);
	uint64_t start_realtime_ns = 0;
	if (recorder) {
		written_by(recorder, path, sizeof(path));
		start_realtime_ns = path[0] ? instant_zero(path) : 0;
		why = "It is recorded, but its recording cannot be read by this user: blocks are "
		      "told by size only.";
		if (start_realtime_ns) {
			uint64_t since = clock_ns(CLOCK_REALTIME) - start_realtime_ns;
			take.time_zero_ns = clock_ns(CLOCK_MONOTONIC) - since;
		}
	}
	instant->snapshot = snapshot_take(pid, &take, err);
	if (!instant->snapshot)
		return err->code;
	if (start_realtime_ns && catch_up(instant, recorder, path,
					  take.time_zero_ns + instant->snapshot->time_ns, err) < 0)
		return err->code;
	*why_not = instant->names ? NULL : why;
	return 0;
}
