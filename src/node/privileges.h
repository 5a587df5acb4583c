/* SPDX-License-Identifier: Apache-2.0 */
/* privileges.h - what the network recorder no longer needs once it is attached. */
#ifndef NODE_PRIVILEGES_H
#define NODE_PRIVILEGES_H

#include "node/config.h"

/**
 * nodes_privileges_drop() - keep of the calling thread's capabilities only what this configuration still needs: reading
 * identities of other users, writing stores of other users, ports below 1024, the capture's counters or (by packet sockets) whose sockets are; @cap
 * may be NULL. No core dumps, no new privileges. Call it before threads are started: they inherit.
 */
void nodes_privileges_drop(const struct nodes_config *config, const struct netcap *cap);

#endif
