/* SPDX-License-Identifier: Apache-2.0 */
/* net_reprocess.c - `byteledger net reprocess`: decode what a store keeps sealed, with identities that came later. */
#include <stdio.h>

#include "cmd/net_job.h"
#include "node/reprocess.h"

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
