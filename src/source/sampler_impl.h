/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_impl.h - the inside of struct sampler. Private to source/sampler*.c. */
#ifndef SOURCE_SAMPLER_IMPL_H
#define SOURCE_SAMPLER_IMPL_H

#include <pthread.h>

#include "source/sampler.h"
#include "sym/kernel.h"

/* Of enum bpf_attach_type; the headers of Debian 12 do not know them yet. */
#define SAMPLER_ATTACH_MULTI 48
#define SAMPLER_ATTACH_SESSION 57

struct sample_bpf;
struct bpftables;
struct bpfstack_events;
struct bpf_link;
struct ring_buffer;

#define SAMPLER_TICKS_MAX 32

/** struct sampler_busy - the threads that ran most, of all that are added; in no order. */
struct sampler_busy {
	struct sampler_busy_thread {
		uint32_t tid;
		uint64_t run_us;
		/* of all its life, when it was looked at; 0: it is gone */
		uint64_t cpu_ns;
	} all[SAMPLER_TICKS_MAX];
	unsigned count;
};
/** sampler_busy_add() - Pure. */
void sampler_busy_add(struct sampler_busy *busy, uint32_t tid, uint64_t run_us);

/** One probe or one link of several: a descriptor, or libbpf's own. */
struct sampler_link {
	struct bpf_link *link;
	/* where @link is NULL */
	int fd;
	uint32_t pid;
	uint8_t is_free;
	/* of its function, or of the one of them that was called most */
	uint32_t number;
	/* as its set's, when it was made; and what it is worth when it is about to go */
	uint64_t used_ns;
	double weight;
};

/** struct sampler_reaped - links of processes that have ended, on their way out. */
struct sampler_reaped {
	struct sampler_link *links;
	uint32_t count;
	int is_running;
	pthread_t thread;
};

struct sampler {
	struct sampler_opt opt;
	struct bpftables *tables;
	struct sample_bpf *skeleton;
	struct bpfstack_events *events;
	struct ring_buffer *ring;
	/* NULL: not of the kernel, or hidden from us */
	struct kernel_names *kernel_names;
	/* the newer kinds of links can be used */
	int session, multi;
	/* one link of many probes each */
	int windows;
	/* attaching only notes */
	int held;
	/* before all others, until the window is over */
	int hurries;
	/* what the processes do in windows is watched by it */
	struct bpf_link *switches;
	/* number of the last one */
	uint32_t window;
	/* clocks of threads, while a window is open */
	struct sampler_tick {
		int fd;
		uint32_t tid;
	} ticks[SAMPLER_TICKS_MAX];
	unsigned tick_count;
	/* threads that called most in the last window */
	struct sampler_busy callers;
	struct ring_buffer *wake;
	int woken;
	unsigned square_shift, count_shift;
	struct sampler_link *links;
	uint32_t link_count, link_cap;
	struct sampler_reaped reaped;
	struct sampler_set {
		uint32_t pid;
		/* CPU time of all its life, and since it was probed before */
		uint64_t cpu_ns, used_ns;
		struct sampler_functions functions;
	} * sets;
	size_t set_count;
	/* functions that have a number: equal ones of several processes share it */
	struct {
		char *module;
		uint64_t vaddr;
	} numbered[WIRE_SAMPLE_FUNCTIONS_MAX];
	uint32_t numbered_count;
	/* when probes were put in the last time: calls of each, and what their process ran */
	uint64_t hits[WIRE_SAMPLE_FUNCTIONS_MAX], used_ns;
	int (*event_cb)(void *ctx, const struct wire_sample_event *event);
	void *event_ctx;
	int event_rc;
};

/** sampler_new_link() - one more place in the list of links; NULL with @err. */
struct sampler_link *sampler_new_link(struct sampler *sampler, struct err *err);
/**
 * sampler_ticks_price() - what a tick of the clock in windows costs, in ns; 0: there is none. 10
 * ms.
 */
double sampler_ticks_price(struct sampler *sampler);
/**
 * sampler_links_many() - the kernel knows links of many probes, of the kind that was loaded for:
 * what it loads it may not link.
 */
int sampler_links_many(struct sampler *sampler);
/** sampler_kernel_trim() - take the tracing's own frames out of a kernel stack. */
void sampler_kernel_trim(const struct sampler *sampler, struct wire_sample_stack *stack);
/** sampler_kernel_functions - what is watched, by enum wire_sample_kernel. */
extern const char *const sampler_kernel_functions[WIRE_SAMPLE_KERNEL_MAX];

/** sampler_chances() - the table for one sample in @sample_bytes. Pure. */
void sampler_chances(uint64_t sample_bytes, struct wire_sample_chances *to);

#endif
