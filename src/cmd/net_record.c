/* SPDX-License-Identifier: Apache-2.0 */
/* net_record.c - `byteledger net --config`: the network recorder (node/nodes.h), the servers that read its stores, and signals. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "api/net_life.h"
#include "base/bound.h"
#include "cmd/net_job.h"

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

static void catch_signals(void)
{
	/* no SA_RESTART: the wait for traffic ends */
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

/* Threads that are started inherit the mask: signals are this thread's. */
static void block_signals(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(how, &set, NULL);
}

int net_record(const struct net_job *options, struct err *err)
{
	catch_signals();
	/* listeners, senders, stores and clients want more than the 1,024 that a shell gives */
	bound_descriptors(DESCRIPTORS_MAX);
	block_signals(SIG_BLOCK);
	struct net_life *life = net_life_new(options->config, say, NULL, err);
	recorded = life;
	block_signals(SIG_UNBLOCK);
	if (!life)
		return err->code;
	int rc = stopping ? 0 : net_life_run(life, err);
	recorded = NULL;
	rc = net_life_end(life, rc, err);
	return rc < 0 ? rc : 0;
}
