/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_impl.h - the inside of struct sampler. Private to source/sampler*.c. */
#ifndef SOURCE_SAMPLER_IMPL_H
#define SOURCE_SAMPLER_IMPL_H

#include "source/sampler.h"

/* Of enum bpf_attach_type; the headers of Debian 12 do not know them yet. */
#define SAMPLER_ATTACH_MULTI 48
#define SAMPLER_ATTACH_SESSION 57

struct sample_bpf;
struct bpftables;
struct bpfstack_events;
struct bpf_link;
struct ring_buffer;

/** One probe or one link of several: a descriptor, or libbpf's own. */
struct sampler_link {
	struct bpf_link *link;
	int fd; /* where @link is NULL */
	uint32_t pid;
	uint8_t is_free;
};

struct sampler {
	struct sampler_opt opt;
	struct bpftables *tables;
	struct sample_bpf *skeleton;
	struct bpfstack_events *events;
	struct ring_buffer *ring;
	int session, multi; /* the newer kinds of links can be used */
	int resumed;        /* windows: one link of many probes each */
	unsigned square_shift, count_shift;
	struct sampler_link *links;
	uint32_t link_count, link_cap;
	struct sampler_set {
		uint32_t pid;
		struct sampler_functions functions;
	} * sets;
	size_t set_count;
	/* functions that have a number: equal ones of several processes share it */
	struct {
		char *module;
		uint64_t vaddr;
	} numbered[WIRE_SAMPLE_FUNCTIONS_MAX];
	uint32_t numbered_count;
	int (*event_cb)(void *ctx, const struct wire_sample_event *event);
	void *event_ctx;
	int event_rc;
};

/** sampler_chances() - the table for one sample in @sample_bytes. Pure. */
void sampler_chances(uint64_t sample_bytes, struct wire_sample_chances *to);

#endif
