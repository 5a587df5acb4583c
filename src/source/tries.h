/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tries.h - the attempts behind `byteledger check`: each does the thing once and says how it went.
 */
#ifndef SOURCE_TRIES_H
#define SOURCE_TRIES_H

#include <stdio.h>
#include <unistd.h>

#include "base/err.h"

/**
 * struct tries_line - one line of `check`. @run does it for real, on processes and files of our
 * own; it returns 0, or a negative errno with why and the remedy in @err. @gives says in a few
 * words what works when it succeeds.
 */
struct tries_line {
	const char *feature;
	const char *gives;
	int (*run)(struct err *err);
};

/** tries_all - all of them in the order of the printed lines; ends with a NULL feature. */
extern const struct tries_line tries_all[];

/**
 * tries_names_mappings() - whether this kernel keeps the names that programs give anonymous
 * mappings: 0, or -ENOMSG with why.
 */
int tries_names_mappings(struct err *err);

/** tries_bpf_load() - load a two-instruction program and make a ring buffer. */
int tries_bpf_load(struct err *err);
/** tries_uprobe() - put a probe on a function of this program, call it, and see it counted. */
int tries_uprobe(struct err *err);
/**
 * tries_bpf_stack() - load the stack walker (source/bpfstack.h). tries_map_events() - be told of
 * new mappings.
 */
int tries_bpf_stack(struct err *err);
int tries_map_events(struct err *err);
/** tries_map_names() - hear the names that programs give their mappings (source/mapnames.h). */
int tries_map_names(struct err *err);
/** tries_threads() - read our own threads' stack pointers by BPF (source/threadfacts.h). */
int tries_threads(struct err *err);
/** tries_net_capture() - load the programs that see network traffic (source/netcap.h). */
int tries_net_capture(struct err *err);
/** tries_net_packet() - open what stands in where they are refused. */
int tries_net_packet(struct err *err);
/** tries_pages() - load the programs that keep the owners of pages. */
int tries_pages(struct err *err);
/**
 * tries_sample() - probe our own allocator and see its calls; the others: with frees, the kernel's,
 * at a nop of 5 bytes.
 */
int tries_sample(struct err *err);
int tries_sample_leaks(struct err *err);
int tries_sample_kernel(struct err *err);
int tries_nop5(struct err *err);
/** tries_perf() - count our own page faults by perf_event_open(2). */
int tries_perf(struct err *err);

#endif
