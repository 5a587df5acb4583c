/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * heap_start.h - how the preload library and the recorder find each other. Three ways, one file
 * layout:
 *
 * 1. `byteledger run|heap -- PROGRAM`: the parent creates and seals the memfd and lays it out.
 *   The program inherits one
 *    descriptor, named by WIRE_ENV_SHM (decimal). The library fstat()s it (size == total_bytes),
 *    checks magic and
 *    version, maps, closes it, removes the variable, sets target_pid, then attached = 1 with
 *    release.
 *    WIRE_ENV_FOLLOW=1 asks it to leave LD_PRELOAD and the other variables in place for programs
 *    that it execs: they
 *    find no WIRE_ENV_SHM and go way 2. Without it the library takes itself out of LD_PRELOAD.
 * 2. LD_PRELOAD alone: the library creates, lays out and seals the memfd, sets target_pid and
 *   attached, and starts
 *        byteledger --recorder FD [-o PATTERN] [NAME=VALUE...]
 *    (-o: value of BYTELEDGER_OUTPUT; absent: the default pattern; NAME: of WIRE_RECORDER_SETTINGS,
 *    as in the environment)
 *    with the descriptor at number FD, then closes its own. The recorder stores recorder_pid and
 *    the first heartbeat
 *    when it has taken over, for which the library waits (2 s at most): one that ended before is as
 *    good as none. A pattern that is empty or unusable ends the recorder with one line on stderr.
 * 3. raw mode, where no helper can be started: the file is OUTPUT.raw on disk, mapped shared and
 *   never read while the
 *    program runs. Same layout, only that ring_bytes may be larger (a power of two up to 2 GiB; the
 *    file is sparse, so
 *    untouched parts cost nothing). recorder_pid and tail stay 0: a ring does not wrap, what does
 *    not fit is counted in
 *    lost[WIRE_LOST_RING_FULL]. end_ns (header) is the time of the exit hook, 0 after a crash.
 * 4. The child of a fork, where children are followed: ways 2 and 3 again, with a file of its own
 *   and the header's
 *    forked_from, fork_number and fork_recorder filled in. It does not wait for its recorder: a
 *    process that shares its memory
 *    and is no child of its own starts that meanwhile, stores recorder_pid, and sets detach where
 *    it cannot. The recorder of the parent answers a WIRE_FORK record with a
 *    memfd named WIRE_FORK_NAME, its own pid, "-" and the number, which it keeps open for a while:
 *    a recording of the
 *    blocks that lived at that moment. It is whole once it is sealed against shrinking; the child's
 *    recorder, which finds it below
 *    /proc/PID/fd, seals it against growing once it has read it.
 *
 * Times in the header are CLOCK_MONOTONIC; cycles are rdtsc on x86-64, cntvct_el0 on arm64.
 */
#ifndef WIRE_HEAP_START_H
#define WIRE_HEAP_START_H

#define WIRE_MEMFD_NAME "byteledger"
#define WIRE_FORK_NAME "byteledger-fork-"
#define WIRE_ENV_PREFIX "BYTELEDGER_"
#define WIRE_ENV_ALIAS "MEMORY_PROFILER_" /* of an older tool; the names behind it are the same */
#define WIRE_ENV_SHM "BYTELEDGER_SHM"
/* says nothing: what the library takes out of the environment comes in pairs */
#define WIRE_ENV_PAD "BYTELEDGER_PAD"
/*
 * What goes on where the program becomes another one by exec, "PID:FLAGS:PATTERN": who may use it
 * (0 = whoever finds WIRE_ENV_SHM, too), how it is recorded (w, l or d for wait, limit, drop; a
 * budget in bytes; f for stacks of frees, s for stamps, uNS for the nanosecond of CLOCK_MONOTONIC
 * that is its end), and whereto. The library takes it out, and puts it back with itself for an exec
 * of that process alone.
 */
#define WIRE_ENV_NEXT "BYTELEDGER_NEXT"
#define WIRE_ENV_FOLLOW "BYTELEDGER_TRACK_CHILD_PROCESSES"
#define WIRE_ENV_OUTPUT "BYTELEDGER_OUTPUT"
#define WIRE_ENV_FAMILY "BYTELEDGER_FAMILY" /* the number that all recordings of one family bear */
#define WIRE_RECORDER_OPTION "--recorder"
/* where the library's recorder finds the program's stderr; its own is none until it takes that */
#define WIRE_RECORDER_STDERR 4
/* Variables that are the recorder's affair. */
#define WIRE_RECORDER_SETTINGS                                                                     \
	{                                                                                          \
		"CULL_TEMPORARY_ALLOCATIONS", "TEMPORARY_ALLOCATION_LIFETIME_THRESHOLD",           \
			"TEMPORARY_ALLOCATION_PENDING_THRESHOLD", "MAX_SIZE", "KEEP_FILES",        \
			"MIN_FREE", "CHOWN_OUTPUT_TO", "WRITE_BINARIES_TO_OUTPUT", "INCLUDE_FILE", \
			"FILTER", "FAMILY", "SEND", "TOKEN_FILE"                                   \
	}
#define WIRE_UNTIL \
	"UNTIL=" /* one more of those: when the recording is over, in ns of CLOCK_MONOTONIC */
#define WIRE_PRELOAD_NAME "libbyteledger-heap.so"
#define WIRE_RAW_SUFFIX ".raw"

#endif
