/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* peer.bpf.c - what benchmarks compare with: the kernel's own walk by frame pointers, and a program that does nothing. */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#define PEER_FRAMES 256
#define PEER_USER_STACK (1ULL << 8) /* BPF_F_USER_STACK */

struct peer_scratch {
	uint64_t captures, frames, failed;
	uint64_t frame[PEER_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct peer_scratch);
} peer_scratch SEC(".maps");

SEC("uprobe")
int peer_stack(struct pt_regs *regs)
{
	uint32_t zero = 0;
	struct peer_scratch *s = bpf_map_lookup_elem(&peer_scratch, &zero);
	if (!s)
		return 0;
	long bytes = bpf_get_stack(regs, s->frame, sizeof(s->frame), PEER_USER_STACK);
	s->captures++;
	if (bytes < 0)
		s->failed++;
	else
		s->frames += (uint64_t)bytes / 8;
	return 0;
}

SEC("uprobe")
int peer_nothing(struct pt_regs *regs)
{
	uint32_t zero = 0;
	struct peer_scratch *s = bpf_map_lookup_elem(&peer_scratch, &zero);
	if (s)
		s->captures++;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
