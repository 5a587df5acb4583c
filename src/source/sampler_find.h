/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_find.h - what the files that look for functions share. Private to source/sampler_find*.c.
 */
#ifndef SOURCE_SAMPLER_FIND_H
#define SOURCE_SAMPLER_FIND_H

#include "source/bpfstack_places.h"
#include "source/sampler.h"
#include "sym/functions.h"

/**
 * sampler_attach_path() - through what path the very file that @pid has mapped can be reached;
 * free() it.
 */
char *sampler_attach_path(uint32_t pid, const struct code_mapping *mapping);
/**
 * sampler_find_usdts() - add the static probes of the otel_memory contract; those of frees where
 * @track.
 */
int sampler_find_usdts(struct functions *file, uint32_t pid, const struct code_mapping *mapping,
		       int track, struct sampler_functions *out, struct err *err);

#endif
