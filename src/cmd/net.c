/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - `byteledger net`: which job, and its options. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/net_job.h"
#include "node/config.h"

enum { OPT_CONFIG = 256, OPT_IDENTITY, OPT_LOCAL, OPT_ROLE, OPT_FORMAT, OPT_STORE };

static const struct argp_option options[] = {
	{ "config", OPT_CONFIG, "FILE", 0,
	  "record the nodes of this config.toml live; without it and without a job, config.toml "
	  "here, /etc/config.toml or /home/appuser/config.toml",
	  0 },
	{ "identity", OPT_IDENTITY, "FILE", 0,
	  "identity.json of the recorded node; may be given again", 0 },
	{ "local", OPT_LOCAL, "ADDR[:PORT]", 0, "replay: which side of a pcap is ours", 0 },
	{ "role", OPT_ROLE, "initiator|responder", 0,
	  "replay: which side is ours, by who opened the connection", 0 },
	{ "format", OPT_FORMAT, "jsonl|json|table", 0, "replay: how to print (default jsonl)", 0 },
	{ "store", OPT_STORE, "DB", 0,
	  "replay: keep everything in this store too (a folder, made if missing); reprocess: the "
	  "store",
	  0 },
	{ 0 },
};

struct parsed {
	struct net_job job;
	enum { JOB_NONE, JOB_REPLAY, JOB_REPROCESS } word;
	int format_given;
};

static void check(struct parsed *p)
{
	struct net_job *job = &p->job;
	if (p->word != JOB_REPLAY && (job->local || job->role || p->format_given))
		cmd_usage("--local, --role and --format belong to 'replay INPUT'");
	if (p->word != JOB_NONE && job->config)
		cmd_usage("--config records live: it excludes 'replay' and 'reprocess'");
	if (p->word == JOB_REPLAY && !job->input)
		cmd_usage("no INPUT: a pcap, pcapng or .jsonl file");
	if (p->word == JOB_REPLAY && job->local && job->role)
		cmd_usage("--local and --role exclude each other");
	if (p->word == JOB_REPROCESS && (!job->store_path || !job->identity_count))
		cmd_usage("reprocess needs --store DB and --identity FILE");
	if (p->word == JOB_NONE && (job->identity_count || job->store_path))
		cmd_usage("--identity and --store belong to 'replay' and 'reprocess'; the "
			  "configuration names them for live recording");
	if (p->word == JOB_NONE && !job->config && !(job->config = nodes_config_usual()))
		cmd_usage("no job: --config FILE, 'replay INPUT' or 'reprocess'");
}

static int word(struct parsed *p, const char *arg, struct argp_state *state)
{
	if (state->arg_num == 0 && strcmp(arg, "replay") == 0)
		p->word = JOB_REPLAY;
	else if (state->arg_num == 0 && strcmp(arg, "reprocess") == 0)
		p->word = JOB_REPROCESS;
	else if (state->arg_num == 0)
		cmd_usage("unknown job '%s': replay or reprocess", arg);
	else if (p->word == JOB_REPROCESS)
		cmd_usage("reprocess takes no INPUT, but '%s' is one", arg);
	else if (p->job.input)
		cmd_usage("one INPUT at a time, and '%s' is the second", arg);
	else
		p->job.input = arg;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct parsed *p = state->input;
	static const char *const formats[] = { "jsonl", "json", "table" };
	static const char *const roles[] = { "initiator", "responder" };
	struct net_job *job = &p->job;
	switch (key) {
	case OPT_CONFIG:
		job->config = arg;
		return 0;
	case OPT_IDENTITY:
		if (job->identity_count == NODE_JOB_IDENTITIES_MAX)
			cmd_usage("at most %d identities", NODE_JOB_IDENTITIES_MAX);
		job->identity_paths[job->identity_count++] = arg;
		return 0;
	case OPT_LOCAL:
		job->local = arg;
		if (net_addr_parse(arg, &job->local_addr) < 0)
			cmd_usage("--local takes an IP address, with a port or without, and '%s' "
				  "is none",
				  arg);
		return 0;
	case OPT_ROLE:
		job->role = cmd_take_word("role", arg, roles, ARRAY_LEN(roles))
				    ? NET_ROLE_RESPONDER
				    : NET_ROLE_INITIATOR;
		return 0;
	case OPT_STORE:
		job->store_path = arg;
		return 0;
	case OPT_FORMAT:
		p->format_given = 1;
		job->format = (enum out_capture_format)cmd_take_word("format", arg, formats,
								     ARRAY_LEN(formats));
		return 0;
	case ARGP_KEY_ARG:
		return word(p, arg, state);
	case ARGP_KEY_END:
		check(p);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_net(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"--config FILE\nreplay INPUT\nreprocess --store DB --identity FILE",
		"Record what a Tezos node says to its peers and to its log, or decode recorded "
		"traffic: every message of both directions, with only the node's identity.\vWith "
		"--config the nodes of FILE are recorded until SIGTERM or Ctrl-C, and served over "
		"HTTP on the ports it names; 'man byteledger-net' has its keys.\n\nINPUT is a pcap "
		"or pcapng file, or JSON lines "
		"{\"from\":\"initiator\"|\"responder\",\"hex\":\"...\"} with optional \"conn\", "
		"\"time_ns\" and \"gap\" (bytes known lost). Without --identity everything stays "
		"sealed; without --local or --role ours is the side whose key an identity has, "
		"else the initiator. reprocess decodes what a store keeps sealed.",
		NULL,
		NULL,
		NULL
	};
	struct parsed p = { 0 };
	struct err err = { 0 };
	if (cmd_parse(&argp, argc, argv, NULL, &p) < 0)
		return CMD_USAGE;
	int rc = p.word == JOB_REPLAY      ? net_replay(&p.job, &err)
		 : p.word == JOB_REPROCESS ? net_reprocess(&p.job, &err)
					   : net_record(&p.job, &err);
	return rc < 0 ? cmd_fail(&err) : CMD_OK;
}
