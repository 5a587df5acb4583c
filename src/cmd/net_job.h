/* SPDX-License-Identifier: Apache-2.0 */
/* net_job.h - the jobs of `byteledger net`; net.c reads their options. */
#ifndef CMD_NET_JOB_H
#define CMD_NET_JOB_H

#include <stddef.h>

#include "base/err.h"
#include "net/conn.h"
#include "net/tcp.h"
#include "node/identities.h"
#include "out/capture.h"

struct net_job {
	/* record */
	const char *config;
	const char *identity_paths[NODE_JOB_IDENTITIES_MAX];
	size_t identity_count;
	/* ADDR or ADDR:PORT, NULL = not given */
	const char *local;
	/* the same, read; port 0 = any */
	struct net_addr local_addr;
	enum net_role role;
	enum out_capture_format format;
	const char *input;
	const char *store_path;
};

/** net_replay() - decode a capture and print it. */
int net_replay(const struct net_job *job, struct err *err);
/** net_reprocess() - decode what a store keeps sealed. */
int net_reprocess(const struct net_job *job, struct err *err);
/** net_record() - record live until a signal ends it. */
int net_record(const struct net_job *job, struct err *err);

#endif
