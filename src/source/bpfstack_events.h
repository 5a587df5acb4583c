/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpfstack_events.h - the kernel's own announcements of new executable mappings, of all processes,
 * by perf.
 */
#ifndef SOURCE_BPFSTACK_EVENTS_H
#define SOURCE_BPFSTACK_EVENTS_H

#include <stdint.h>

struct bpfstack_events;

/**
 * bpfstack_events_new() - one ring of 32 KiB per CPU; NULL where the kernel or its settings do not
 * permit it.
 */
struct bpfstack_events *bpfstack_events_new(void);
void bpfstack_events_free(struct bpfstack_events *events);
uint32_t bpfstack_events_count(const struct bpfstack_events *events);
/** bpfstack_events_fd() - becomes readable with the first announcement; @number below the count. */
int bpfstack_events_fd(const struct bpfstack_events *events, uint32_t number);
/**
 * bpfstack_events_read() - @changed for each process named since the last call; pid 0: some were
 * lost, look at all.
 */
void bpfstack_events_read(struct bpfstack_events *events, void (*changed)(void *ctx, uint32_t pid),
			  void *ctx);

#endif
