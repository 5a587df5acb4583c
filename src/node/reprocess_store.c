/* SPDX-License-Identifier: Apache-2.0 */
/* reprocess_store.c - a whole store decoded again, while nobody records into it. */
#include "node/identities.h"
#include "node/limits.h"
#include "node/reprocess.h"

#define STEP_BYTES (16u << 20)

static int unseal(void *ctx, const struct message_chunk *chunk, struct err *err)
{
	return store_unseal_chunk(ctx, chunk, err);
}

static int whole_store(const char *path, struct node_reprocess *job, struct err *err)
{
	struct store *store = NULL;
	struct store_reader *reader = NULL;
	int rc = store_open(path, NULL, &store, err);
	if (rc < 0)
		return rc;
	job->first_connection = store_first_connection(store);
	job->sink = store_message_sink(store);
	job->unseal = unseal;
	job->ctx = store;
	rc = store_reader_open(path, &reader, err);
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

int node_reprocess_store(const char *path, const char *const *identity_paths, size_t identity_count,
			 uint64_t *connections, uint64_t *chunks, struct err *err)
{
	struct node_identities identities = { 0 };
	uint64_t bursts = NODE_REPLAY_BURSTS;
	const struct net_seek_limit seek = NODE_REPLAY_SEEK(&bursts);
	struct node_reprocess job = { .keyring = &identities.keyring,
				      .difficulty = NODE_POW_DIFFICULTY,
				      .seek = &seek };
	int rc = node_identities_load(&identities, identity_paths, identity_count, err);
	if (rc == 0)
		rc = whole_store(path, &job, err);
	node_identities_fini(&identities);
	*connections = job.connections;
	*chunks = job.chunks;
	return rc;
}
