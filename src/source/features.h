/* SPDX-License-Identifier: Apache-2.0 */
/*
 * features.h - what this kernel and user permit our BPF programs, asked once and by trying: the one
 * place that knows (house-style C8).
 */
#ifndef SOURCE_FEATURES_H
#define SOURCE_FEATURES_H

#include <stddef.h>
#include <stdint.h>

enum feature {
	FEATURE_BPF_BIG_ARRAY, /* 6.0: an array value of more than 4 MiB */
	FEATURE_BPF_STACK,     /* the stack walker itself loads (source/bpfstack.h) */
	FEATURE_MAP_EVENTS,    /* perf tells of new executable mappings of all processes */
	FEATURE_MAP_NAMES,     /* the probe of mmap() and prctl() attaches (source/mapnames.h) */
	FEATURE_THREADS,       /* stack pointers of running threads (source/threadfacts.h) */
	FEATURE_NET_CAPTURE,   /* the network programs load (source/netcap.h) */
	FEATURE_NET_PACKET,    /* what stands in for it: a packet socket with a ring */
	/* owners of pages (source/pageown.h): the programs load, and page numbers can be read */
	FEATURE_PAGES,
	FEATURE_COUNT
};

struct feature_line {
	/* "bpf-stack" ...: the `feature` key of `check` */
	const char *name;
	int ok;
	/* what was tried and what it answered; never empty */
	char why[128];
	/* the remedy; empty where ok */
	char hint[192];
};

/**
 * features_get() - FEATURE_COUNT lines, by enum feature. The first call tries everything (some ms,
 * some descriptors for a moment; nothing stays attached), later ones answer from memory. Any
 * thread. The result is never freed.
 */
const struct feature_line *features_get(void);

/**
 * features_hint() - the remedy for a refusal with @error (positive errno): which of the
 * capabilities in @wanted (bits, 1 << CAP_BPF) this process lacks; where it has them all, who else
 * refuses (a seccomp filter, a user namespace). NULL: @error is no such refusal. The text is the
 * calling thread's until its next call.
 */
const char *features_hint(int error, uint64_t wanted);

#endif
