/* SPDX-License-Identifier: Apache-2.0 */
/* net_reprocess.c - `byteledger net reprocess`: decode what a store keeps sealed, with identities that came later. */
#include <stdio.h>

#include "cmd/net_job.h"
#include "node/limits.h"
#include "node/reprocess.h"

#define STEP_BYTES (16u << 20)

static int unseal(void *ctx, const struct message_chunk *chunk, struct err *err)
{
	return store_unseal_chunk(ctx, chunk, err);
}

static int whole_store(const struct net_job *options, struct node_reprocess *job, struct err *err)
{
	struct store *store = NULL;
	struct store_reader *reader = NULL;
	int rc = store_open(options->store_path, NULL, &store, err);
	if (rc < 0)
		return rc;
	job->first_connection = store_first_connection(store);
	job->sink = store_message_sink(store);
	job->unseal = unseal;
	job->ctx = store;
	rc = store_reader_open(options->store_path, &reader, err);
	if (rc == 0)
		rc = node_reprocess_begin(job, reader, err);
	do {
		rc = rc < 0 ? rc : node_reprocess_step(job, reader, STEP_BYTES, err);
	} while (rc > 0);
	node_reprocess_end(job);
	store_reader_close(reader);
	struct err ignored = { 0 };
	int closed = store_close(store, rc < 0 ? &ignored : err);
	return rc < 0 ? rc : closed;
}

int net_reprocess(const struct net_job *options, struct err *err)
{
	struct net_identity *identities[NET_IDENTITIES_MAX];
	struct net_keyring keyring = { identities, 0 };
	uint64_t bursts = NODE_REPLAY_BURSTS;
	const struct net_seek_limit seek = NODE_REPLAY_SEEK(&bursts);
	struct node_reprocess job = { .keyring = &keyring,
				      .difficulty = NODE_POW_DIFFICULTY,
				      .seek = &seek };
	int rc = net_seal_init(err);
	while (rc == 0 && keyring.count < options->identity_count) {
		struct net_identity *identity =
			net_identity_load(options->identity_paths[keyring.count], err);
		if (identity)
			identities[keyring.count++] = identity;
		else
			rc = err->code;
	}
	if (rc == 0)
		rc = whole_store(options, &job, err);
	while (keyring.count)
		net_identity_free(identities[--keyring.count]);
	if (rc == 0)
		printf("{\"connections\":%llu,\"chunks\":%llu}\n",
		       (unsigned long long)job.connections, (unsigned long long)job.chunks);
	return rc;
}
