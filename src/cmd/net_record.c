/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_record.c - `byteledger net --config`: the network recorder (node/nodes.h), the servers that
 * read its stores, and signals.
 */
#include <signal.h>
#include <stdio.h>

#include "api/net_life.h"
#include "base/bound.h"
#include "cmd/net_job.h"
#include "recorder/started.h"

#define DESCRIPTORS_MAX 65536

static struct net_life *volatile recorded; /* what a signal ends */
static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
	if (recorded)
		net_life_stop(recorded);
}

static void say(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "byteledger: %s\n", text);
}

int net_record(const struct net_job *options, struct err *err)
{
	signals_catch(on_signal);
	/* listeners, senders, stores and clients want more than the 1,024 that a shell gives */
	bound_descriptors(DESCRIPTORS_MAX);
	signals_hold(1); /* threads that are started inherit it: signals are this one's */
	struct net_life *life = net_life_new(options->config, say, NULL, err);
	recorded = life;
	signals_hold(0);
	if (!life)
		return err->code;
	int rc = stopping ? 0 : net_life_run(life, err);
	recorded = NULL;
	rc = net_life_end(life, rc, err);
	return rc < 0 ? rc : 0;
}
