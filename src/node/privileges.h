/* SPDX-License-Identifier: Apache-2.0 */
/* privileges.h - what the network recorder no longer needs once it is attached. */
#ifndef NODE_PRIVILEGES_H
#define NODE_PRIVILEGES_H

#include "node/config.h"

/**
 * nodes_privileges_drop() - make the folders of the stores that are not there, then, as root,
 * become the user of the configuration, else the owner of the stores (all one, and not root); new
 * folders are given to it. Keep of the capabilities only what this configuration still needs:
 * reading identities of other users, writing stores of other users, ports below 1024, the capture's
 * counters or (by packet sockets) whose sockets are; none can be had back. No core dumps, no new
 * privileges, no system calls that start, trace or change others; where the kernel has Landlock,
 * and capture is not by packet sockets, no files but those below the stores, beside the identities
 * and the token, and what the kernel tells. @cap may be NULL. Call it before threads are started:
 * they inherit. Return: 0, or negative errno with @err: there is no such user, or a folder cannot
 * be made or given away.
 */
int nodes_privileges_drop(const struct nodes_config *config, const struct netcap *cap,
			  struct err *err);

#endif
