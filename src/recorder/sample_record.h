/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_record.h - what is sampled of one process as a recording: each sample an allocation with
 * its stack, each free of one its end. In order of use; one thread.
 */
#ifndef RECORDER_SAMPLE_RECORD_H
#define RECORDER_SAMPLE_RECORD_H

#include "model/prof.h"
#include "source/sampler_book.h"

struct sample_record;

/**
 * sample_record_new() - a recording of the first process of @samples, in the file that @pattern
 * names; what exists is kept. The sampler was made with events. NULL with @err.
 */
struct sample_record *sample_record_new(struct sampler *sampler, struct samples *samples,
					const char *pattern, struct err *err);
/** sample_record_drain() - take what came; once a second it is on the disk. */
int sample_record_drain(struct sample_record *record, uint64_t now_ns, struct err *err);
/** sample_record_finish() - after the probes are out. @names gives the frames theirs. */
int sample_record_finish(struct sample_record *record, void (*names)(void *ctx, struct prof *prof),
			 void *ctx, struct err *err);
/** sample_record_path() - what the file is called. Lent. */
const char *sample_record_path(const struct sample_record *record);
void sample_record_free(struct sample_record *record);

#endif
