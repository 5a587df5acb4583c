/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tries_sample.c - attempts that concern `sample`: probes on our own allocator, sessions, the
 * kernel's tracepoints, nops of 5 bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fileio.h"
#include "source/sampler.h"
#include "source/tries.h"

#define CALLS 1000

static int load(const struct sampler_opt *opt, struct sampler **sampler, struct err *err)
{
	*sampler = sampler_new(opt, err);
	if (!*sampler)
		return err->code;
	return sampler_load(*sampler, err);
}

/* Our own malloc() is found, probed, called, and seen called. */
static int see_own(struct sampler *sampler, const struct sampler_want *want, struct err *err)
{
	struct sampler_functions functions = { 0 };
	uint64_t hits[WIRE_SAMPLE_FUNCTIONS_MAX], all = 0;
	uint32_t pid = (uint32_t)getpid();
	int rc = sampler_add(sampler, pid, err);
	if (!rc)
		rc = sampler_find(pid, want, &functions, err);
	if (!rc)
		rc = sampler_attach(sampler, pid, &functions, err);
	for (int i = 0; !rc && i < CALLS; i++) {
		void *volatile block = malloc(64);
		free(block);
	}
	if (!rc)
		rc = sampler_hits(sampler, hits, err);
	for (unsigned i = 0; !rc && i < WIRE_SAMPLE_FUNCTIONS_MAX; i++)
		all += hits[i];
	sampler_functions_fini(&functions);
	return rc ? rc
	       : all < CALLS
		       ? err_set(err, -ENOMSG, "probes on our own allocator saw %llu of %d calls",
				 (unsigned long long)all, CALLS)
		       : 0;
}

int tries_sample(struct err *err)
{
	const struct sampler_opt opt = { 0 };
	const struct sampler_want want = { 0 };
	CLEANUP(sampler_freep) struct sampler *sampler = NULL;
	int rc = load(&opt, &sampler, err);
	return rc < 0 ? rc : see_own(sampler, &want, err);
}

int tries_sample_leaks(struct err *err)
{
	const struct sampler_opt opt = { .track = 1 };
	const struct sampler_want want = { .track = 1 };
	CLEANUP(sampler_freep) struct sampler *sampler = NULL;
	int rc = load(&opt, &sampler, err);
	if (!rc)
		rc = see_own(sampler, &want, err);
	if (rc < 0 || sampler_has_session(sampler))
		return rc;
	err_set(err, -ENOMSG,
		"leaks are followed by two probes a function, every return is trapped");
	return err_hint(err, "Linux 6.13 traps returns of sampled calls only");
}

int tries_sample_kernel(struct err *err)
{
	const struct sampler_opt opt = { .kernel = 1, .kernel_pids = 1, .sample_bytes = 1 };
	uint32_t pid = (uint32_t)getpid();
	uint64_t counts[WIRE_SAMPLE_COUNTERS];
	CLEANUP(sampler_freep) struct sampler *sampler = NULL;
	int rc = load(&opt, &sampler, err), fds[2];
	if (!rc)
		rc = sampler_kernel_attach(sampler, &pid, 1, err);
	if (!rc && pipe2(fds, O_CLOEXEC) == 0) {
		close(fds[0]);
		close(fds[1]);
	}
	if (!rc)
		rc = sampler_counts(sampler, counts, err);
	return rc ? rc
	       : counts[WIRE_SAMPLE_TAKEN]
		       ? 0
		       : err_set(err, -ENOMSG, "the kernel's tracepoints saw nothing of a pipe");
}

int tries_nop5(struct err *err)
{
	const struct sampler_opt opt = { 0 };
	CLEANUP(sampler_freep) struct sampler *sampler = NULL;
	int rc = load(&opt, &sampler, err);
	if (rc < 0)
		return rc;
	rc = sampler_nop5_is_safe(sampler);
	if (rc == 1)
		return 0;
	if (rc < 0)
		return err_set(err, rc, "cannot probe a nop of 5 bytes");
	err_set(err, -ENOMSG, "a child forked while a nop of 5 bytes was probed died of it");
	return err_hint(err,
			"such places are not probed unless --allow-nop5 says so; others are not "
			"concerned");
}
