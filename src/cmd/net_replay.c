/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_replay.c - the jobs of `byteledger net` that end by themselves: a capture decoded and
 * printed, a store decoded once more.
 */
#include <stdio.h>

#include "base/cleanup.h"
#include "cmd/net_job.h"
#include "net/seal.h"
#include "node/replay.h"
#include "node/reprocess.h"

static void tell(const struct net_job *job, const struct node_replay *replay,
		 const struct capture_stats *stats)
{
	if (job->local && !node_replay_local_seen(replay))
		fprintf(stderr,
			"byteledger: no connection of '%s' has the address '%s' of --local: it was "
			"passed over\n",
			job->input, job->local);
	if (stats->damaged)
		fprintf(stderr,
			"byteledger: %llu damaged or cut-off records of '%s' were passed over\n",
			(unsigned long long)stats->damaged, job->input);
}

int net_replay(const struct net_job *job, struct err *err)
{
	CLEANUP(out_capture_freep)
	struct out_capture *out = out_capture_new(stdout, job->format, net_sha256_hex, err);
	if (!out)
		return err->code;
	const struct node_replay_opt opt = { .input = job->input,
					     .identity_paths = job->identity_paths,
					     .identity_count = job->identity_count,
					     .local = job->local,
					     .local_addr = job->local_addr,
					     .role = job->role,
					     .store_path = job->store_path,
					     .sink = out_capture_sink(out) };
	struct capture_stats stats = { 0 };
	CLEANUP(node_replay_freep) struct node_replay *replay = node_replay_new(&opt, err);
	int rc = replay ? node_replay_run(replay, &stats, err) : err->code;
	if (rc < 0)
		return rc;
	const struct out_capture_sums sums = { stats.records, stats.payload_bytes, stats.not_tcp,
					       stats.damaged, stats.fragments };
	rc = out_capture_finish(out, &sums, err);
	if (rc == 0)
		tell(job, replay, &stats);
	return rc;
}

int net_reprocess(const struct net_job *job, struct err *err)
{
	uint64_t connections, chunks;
	int rc = node_reprocess_store(job->store_path, job->identity_paths, job->identity_count,
				      &connections, &chunks, err);
	if (rc == 0)
		printf("{\"connections\":%llu,\"chunks\":%llu}\n", (unsigned long long)connections,
		       (unsigned long long)chunks);
	return rc;
}
