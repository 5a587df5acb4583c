/* SPDX-License-Identifier: Apache-2.0 */
/*
 * double.h - a file that stackdouble.so (inside the program) and bpf_stack (the driver) both map: what user space saw at
 * the instants that the kernel was asked about. Test code: both sides trust each other.
 */
#ifndef TESTS_BPF_DOUBLE_H
#define TESTS_BPF_DOUBLE_H

#include <stdint.h>

#define DOUBLE_FRAMES 320
#define DOUBLE_RECORDS 40000

struct double_record {
	/* frames by unwind/capture and by libunwind, from malloc's caller on */
	uint32_t ours, theirs;
	/* enum wire_stop of ours */
	uint32_t root;
	uint32_t tid;
	uint64_t our_frame[DOUBLE_FRAMES], their_frame[DOUBLE_FRAMES];
};

struct double_file {
	/* set when the double is ready */
	uint32_t pid;
	/* set by the driver once attached */
	uint32_t go;
	/* n-th malloc */
	uint32_t every;
	/* new code was mapped: raised by the double, */
	uint32_t wanted;
	/* ... and answered by the driver once published */
	uint32_t done;
	/* records, complete ones */
	uint32_t count;
	uint64_t mallocs;
	struct double_record record[DOUBLE_RECORDS];
};

#endif
