/* SPDX-License-Identifier: Apache-2.0 */
/* identities.h - the identities that a job decodes with, read from their files. */
#ifndef NODE_IDENTITIES_H
#define NODE_IDENTITIES_H

#include "net/conn.h"

#define NODE_JOB_IDENTITIES_MAX 64

/** struct node_identities - zero-initialised; keyring points into it: it stays where it is. */
struct node_identities {
	struct net_identity *all[NODE_JOB_IDENTITIES_MAX];
	struct net_keyring keyring;
};

/**
 * node_identities_load() - all of @paths, at most NODE_JOB_IDENTITIES_MAX. 0 or negative errno;
 * node_identities_fini() in any case.
 */
int node_identities_load(struct node_identities *identities, const char *const *paths, size_t count,
			 struct err *err);
void node_identities_fini(struct node_identities *identities);

#endif
