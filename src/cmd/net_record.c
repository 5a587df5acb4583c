/* SPDX-License-Identifier: Apache-2.0 */
/* net_record.c - `byteledger net --config`: the network recorder (node/nodes.h), the servers that read its stores, and signals. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/net_servers.h"
#include "base/bound.h"
#include "cmd/net_job.h"
#include "node/config.h"
#include "node/nodes.h"

#define DESCRIPTORS_MAX 65536

struct job {
	struct nodes_config *config;
	struct nodes *nodes;
	struct net_servers *servers;
};

static struct nodes *volatile recorded; /* what a signal ends */
static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
	if (recorded)
		nodes_stop(recorded);
}

static void say(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "byteledger: %s\n", text);
}

/* The first failure is the one that is told. */
static int first(int rc, int next, const struct err *why, struct err *err)
{
	if (next >= 0 || rc < 0)
		return rc;
	*err = *why;
	return next;
}

/* Servers are stopped before what they read is released. */
static int finish(struct job *r, int rc, struct err *err)
{
	struct err next = { 0 };
	net_servers_stop(r->servers);
	if (r->nodes)
		rc = first(rc, nodes_drain(r->nodes, &next), &next, err);
	net_servers_free(r->servers);
	recorded = NULL;
	err_init(&next);
	return first(rc, nodes_close(r->nodes, &next), &next, err);
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
	struct job *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "cannot allocate a recorder");
	r->config = nodes_config_load(options->config, say, NULL, err);
	if (!r->config) {
		free(r);
		return err->code;
	}
	catch_signals();
	/* listeners, senders, stores and clients want more than the 1,024 that a shell gives; no child inherits it */
	bound_descriptors(DESCRIPTORS_MAX);
	block_signals(SIG_BLOCK);
	int rc = nodes_open(r->config, say, NULL, &r->nodes, err);
	if (rc == 0 && !(r->servers = net_servers_new(r->config, r->nodes, say, NULL, err)))
		rc = err->code;
	recorded = r->nodes;
	block_signals(SIG_UNBLOCK);
	if (rc == 0 && !stopping) {
		say(NULL, nodes_captures(r->nodes)
				  ? "recording; SIGTERM or Ctrl-C ends it"
				  : "recording log lines only; SIGTERM or Ctrl-C ends it");
		rc = nodes_run(r->nodes, err);
	}
	rc = finish(r, rc, err);
	nodes_config_free(r->config);
	free(r);
	return rc < 0 ? rc : 0;
}
