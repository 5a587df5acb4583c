/* SPDX-License-Identifier: Apache-2.0 */
/* check_try.h - the attempts behind `byteledger check`: each does the thing once and says how it went. */
#ifndef CMD_CHECK_TRY_H
#define CMD_CHECK_TRY_H

#include <stdio.h>
#include <unistd.h>

#include "base/err.h"

/**
 * struct check_try - one line of `check`. @run does it for real, on processes and files of our own; it returns 0, or a
 * negative errno with why and the remedy in @err. @gives says in a few words what works when it succeeds.
 */
struct check_try {
	const char *feature;
	const char *gives;
	int (*run)(struct err *err);
};

/** check_tries - all of them in the order of the printed lines; ends with a NULL feature. */
extern const struct check_try check_tries[];

/** check_names_mappings() - whether this kernel keeps the names that programs give anonymous mappings: 0, or -ENOMSG with why. */
int check_names_mappings(struct err *err);

/** check_bpf_load() - load a two-instruction program and make a ring buffer. */
int check_bpf_load(struct err *err);
/** check_uprobe() - put a probe on a function of this program, call it, and see it counted. */
int check_uprobe(struct err *err);
/** check_bpf_stack() - load the stack walker (source/bpfstack.h). check_map_events() - be told of new mappings. */
int check_bpf_stack(struct err *err);
int check_map_events(struct err *err);
/** check_map_names() - hear the names that programs give their mappings (source/mapnames.h). */
int check_map_names(struct err *err);
/** check_threads() - read our own threads' stack pointers by BPF (source/threadfacts.h). */
int check_threads(struct err *err);
/** check_net_capture() - load the programs that see network traffic (source/netcap.h). */
int check_net_capture(struct err *err);
/** check_net_packet() - open what stands in where they are refused. */
int check_net_packet(struct err *err);
/** check_pages() - load the programs that keep the owners of pages. */
int check_pages(struct err *err);
/** check_sample() - probe our own allocator and see its calls; the others: with frees, the kernel's, at a nop of 5 bytes. */
int check_sample(struct err *err);
int check_sample_leaks(struct err *err);
int check_sample_kernel(struct err *err);
int check_nop5(struct err *err);
/** check_perf() - count our own page faults by perf_event_open(2). */
int check_perf(struct err *err);

#endif
