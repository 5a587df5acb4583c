/* SPDX-License-Identifier: Apache-2.0 */
#include "node/identities.h"

#include "net/seal.h"

int node_identities_load(struct node_identities *ids, const char *const *paths, size_t count,
			 struct err *err)
{
	int rc = net_seal_init(err);
	ids->keyring.identities = ids->all;
	for (size_t i = 0; rc >= 0 && i < count && i < NODE_JOB_IDENTITIES_MAX; i++) {
		ids->all[i] = net_identity_load(paths[i], err);
		if (!ids->all[i])
			return err->code;
		ids->keyring.count++;
	}
	return rc < 0 ? rc : 0;
}

void node_identities_fini(struct node_identities *ids)
{
	while (ids->keyring.count)
		net_identity_free(ids->all[--ids->keyring.count]);
}
