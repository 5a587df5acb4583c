/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_book.h - from the sampler's tables in the kernel to a book of samples. */
#ifndef SOURCE_SAMPLER_BOOK_H
#define SOURCE_SAMPLER_BOOK_H

#include "model/samples.h"
#include "source/sampler.h"

/** sampler_read() - every row, what is live, losses and calls as they are now. O(rows + live blocks), milliseconds. */
int sampler_read(struct sampler *sampler, struct samples *samples, struct err *err);
/** sampler_row() - the row of a stack, made where it is not known yet; NULL without memory. */
struct sample_row *sampler_row(struct sampler *sampler, struct samples *samples, uint32_t pid,
			       uint64_t stack);
/** sampler_note_functions() - those that are attached now. */
int sampler_note_functions(struct sampler *sampler, struct samples *samples, struct err *err);

/*
 * The governor: keeps what the probes cost below a budget. While they cost less nothing happens; else they are put in for
 * windows of a tenth of a second, at random moments, and what is seen there is multiplied. Rows know what part of the time
 * they were seen in, so a change of it biases nothing; the spread between windows widens their errors.
 */
struct sampler_governor {
	struct sampler *sampler;
	struct samples *samples;
	double budget;    /* of a CPU; 0 = no limit */
	int only_measure; /* nothing is ever left out: frees have to be seen */
	uint64_t sample_bytes;
	uint64_t (*cpu_ns)(void *ctx); /* what the processes have used so far */
	void *cpu_ctx;
	double fraction; /* of a CPU, at the last look */
	/* private */
	double duty;
	int on;
	uint64_t since_ns, until_ns, epoch_ns, epoch_on_ns;
	uint64_t hits, looked_ns;            /* at the last look */
	uint64_t window_hits, window_cpu_ns; /* when the window began */
	/* of this epoch: at its beginning, and in its windows */
	double epoch_hits, epoch_cpu_ns, on_hits, on_cpu_ns;
	double windows, sum, squares; /* of hits a second in windows of this epoch */
	int stats_fd;
	uint64_t stats_until_ns, stats_next_ns;
	double run_ns; /* of the programs, a hit */
	uint64_t random;
};
void sampler_governor_init(struct sampler_governor *governor, uint64_t now_ns);
void sampler_governor_fini(struct sampler_governor *governor);
/** sampler_govern() - look, and act. Wants to be called at @governor->until_ns at the latest, and some times a second. */
int sampler_govern(struct sampler_governor *governor, uint64_t now_ns, struct err *err);
/** sampler_governor_cost() - fill in what the samples say of cost. */
void sampler_governor_cost(struct sampler_governor *governor, uint64_t now_ns);

#endif
