/* SPDX-License-Identifier: Apache-2.0 */
#include "node/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/toml.h"

struct reading {
	struct nodes_config *config;
	nodes_config_warn warn;
	void *ctx;
	struct err *err;
};

static int wrong(const struct reading *in, unsigned line, const char *what)
{
	return err_set(in->err, -EINVAL, "cannot use '%s' line %u: %s", in->config->path, line,
		       what);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* A key or, where that is absent, its older name. */
static const char *either(struct toml *table, const char *key, const char *older)
{
	return older && !toml_get(table, key) && toml_get(table, older) ? older : key;
}

static int port_of(struct toml *table, const char *key, const char *older, uint16_t *out,
		   struct err *err)
{
	uint64_t value = 0;
	int rc = toml_u64(table, either(table, key, older), 65535, &value, err);
	if (rc > 0)
		*out = (uint16_t)value;
	return rc;
}

static int text_of(struct toml *table, const char *key, const char *older, const char **out,
		   struct err *err)
{
	return toml_string(table, either(table, key, older), out, err);
}

/* One string or a list of them. */
static int texts_of(const struct reading *in, struct toml *table, const char *key, const char **out,
		    size_t max, size_t *count)
{
	struct toml *value = toml_get(table, key);
	char what[128];
	if (!value)
		return 0;
	if (value->kind == TOML_STRING) {
		out[(*count)++] = value->string;
		return 1;
	}
	struct toml *item = value->kind == TOML_ARRAY ? value->first : value;
	for (; item; item = item->next) {
		if (item->kind != TOML_STRING || *count == max) {
			snprintf(what, sizeof(what), "'%s' is a string or a list of at most %zu",
				 key, max);
			return wrong(in, value->line, what);
		}
		out[(*count)++] = item->string;
	}
	return 1;
}

static int is_address(const char *text)
{
	uint8_t ip[16];
	return inet_pton(AF_INET, text, ip) == 1 || inet_pton(AF_INET6, text, ip) == 1;
}

/* ---- a node ---------------------------------------------------------------------------------- */

static int table_of(const struct reading *in, struct toml *node, const char *key,
		    struct toml **table)
{
	char what[64];
	*table = toml_get(node, key);
	if (!*table || (*table)->kind == TOML_TABLE)
		return 0;
	snprintf(what, sizeof(what), "'%s' is a table", key);
	return wrong(in, (*table)->line, what);
}

static int read_p2p(const struct reading *in, struct toml *node, struct node_config *out)
{
	struct toml *table;
	int rc = table_of(in, node, "p2p", &table);
	if (rc == 0 && table) {
		out->has_p2p = 1;
		rc = texts_of(in, table, "identity", out->identities, NODE_IDENTITIES_MAX,
			      &out->identity_count);
		if (rc >= 0)
			rc = port_of(table, "port", NULL, &out->p2p_port, in->err);
		if (rc >= 0)
			rc = toml_u64(table, "store_limit", INT64_MAX, &out->message_limit,
				      in->err);
	}
	/* older names stand in the node itself */
	if (rc >= 0 && !out->identity_count)
		rc = texts_of(in, node, "identity_path", out->identities, NODE_IDENTITIES_MAX,
			      &out->identity_count);
	if (rc >= 0 && !out->p2p_port)
		rc = port_of(node, "p2p_port", NULL, &out->p2p_port, in->err);
	if (rc < 0)
		return rc;
	out->has_p2p |= out->p2p_port != 0;
	return out->has_p2p && !out->p2p_port
		       ? wrong(in, table ? table->line : out->line,
			       "'p2p' has no 'port': the port that the node listens on")
		       : 0;
}

static int read_log(const struct reading *in, struct toml *node, struct node_config *out)
{
	struct toml *table;
	int rc = table_of(in, node, "log", &table);
	if (rc == 0 && table) {
		rc = port_of(table, "port", NULL, &out->log_port, in->err);
		if (rc >= 0)
			rc = port_of(table, "tcp_port", NULL, &out->log_tcp_port, in->err);
		if (rc >= 0)
			rc = toml_string(table, "unix", &out->log_unix, in->err);
		if (rc >= 0)
			rc = toml_string(table, "bind", &out->log_bind, in->err);
		if (rc >= 0)
			rc = toml_u64(table, "store_limit", INT64_MAX, &out->log_limit, in->err);
		if (rc >= 0)
			rc = toml_bool(table, "disable_search", &out->disable_search, in->err);
		if (rc >= 0 && !out->log_port && !out->log_tcp_port && !out->log_unix)
			rc = wrong(in, table->line,
				   "'log' says nowhere to receive: 'port', 'tcp_port' or 'unix'");
		if (rc >= 0 && out->log_bind && !is_address(out->log_bind))
			rc = wrong(in, table->line, "'bind' is an IP address");
	}
	if (rc >= 0 && !out->log_port)
		rc = port_of(node, "syslog_port", NULL, &out->log_port, in->err);
	out->has_log = out->log_port || out->log_tcp_port || out->log_unix;
	return rc < 0 ? rc : 0;
}

static int read_node(const struct reading *in, struct toml *node, struct node_config *out)
{
	out->line = node->line;
	out->store_bytes = NODE_STORE_BYTES;
	if (node->kind != TOML_TABLE)
		return wrong(in, node->line, "'nodes' is a list of tables");
	int rc = text_of(node, "name", NULL, &out->name, in->err);
	if (rc >= 0)
		rc = text_of(node, "db", "db_path", &out->db, in->err);
	if (rc >= 0)
		rc = port_of(node, "http_v3", "rpc_port", &out->http_v3, in->err);
	if (rc >= 0)
		rc = toml_u64(node, "store_bytes", INT64_MAX, &out->store_bytes, in->err);
	if (rc >= 0)
		rc = toml_u64(node, "store_age_s", INT64_MAX / 1000000000, &out->store_age_s,
			      in->err);
	if (rc >= 0)
		rc = read_p2p(in, node, out);
	if (rc >= 0)
		rc = read_log(in, node, out);
	if (rc < 0)
		return rc;
	if (!out->name && out->p2p_port) {
		snprintf(out->name_of_port, sizeof(out->name_of_port), "%u", out->p2p_port);
		out->name = out->name_of_port;
	}
	if (!out->name || !out->name[0])
		return wrong(in, node->line,
			     "the node has no 'name' and no p2p port to be called by");
	if (!out->db || !out->db[0])
		return wrong(in, node->line, "the node has no 'db': the folder of its store");
	if (!out->has_p2p && !out->has_log)
		return wrong(in, node->line,
			     "the node has neither 'p2p' nor 'log': nothing to record");
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

struct taken {
	const char *word;
	unsigned port, line;
};

/* Two that want one port of one kind; compact's port is the one above http_v2. */
static int check_ports(const struct reading *in)
{
	struct nodes_config *c = in->config;
	struct taken http[NODES_MAX + 2];
	char what[160];
	size_t count = 0;
	if (c->http_v2 == 65535)
		return wrong(in, 1, "'http_v2' cannot be 65535: the port above it is used too");
	if (c->http_v2) {
		http[count++] = (struct taken){ "http_v2", c->http_v2, 1 };
		http[count++] = (struct taken){ "http_v2 + 1 (/compact)", c->http_v2 + 1u, 1 };
	}
	for (size_t i = 0; i < c->node_count; i++) {
		if (c->nodes[i].http_v3)
			http[count++] =
				(struct taken){ "http_v3", c->nodes[i].http_v3, c->nodes[i].line };
	}
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < i; k++) {
			if (http[i].port != http[k].port)
				continue;
			snprintf(what, sizeof(what), "'%s' wants port %u, which is '%s'",
				 http[i].word, http[i].port, http[k].word);
			return wrong(in, http[i].line, what);
		}
	}
	return 0;
}

static int check_nodes(const struct reading *in)
{
	const struct nodes_config *c = in->config;
	for (size_t i = 0; i < c->node_count; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct node_config *a = &c->nodes[i], *b = &c->nodes[k];
			if (strcmp(a->name, b->name) == 0)
				return wrong(in, a->line, "another node has the same 'name'");
			if (strcmp(a->db, b->db) == 0)
				return wrong(in, a->line,
					     "another node has the same 'db': give each its own");
			if (a->p2p_port && a->p2p_port == b->p2p_port)
				return wrong(in, a->line, "another node has the same p2p port");
		}
	}
	return check_ports(in);
}

static void unknown_key(void *ctx, const struct toml *member)
{
	const struct reading *in = ctx;
	char text[256];
	snprintf(text, sizeof(text), "'%s' line %u: unknown key '%s' is passed over",
		 in->config->path, member->line, member->key);
	if (in->warn)
		in->warn(in->ctx, text);
}

/* How traffic is captured. */
static int capture_of(const struct reading *in, struct toml *root)
{
	static const char *const words[] = {
		[NETCAP_AUTO] = "auto", [NETCAP_BPF] = "bpf", [NETCAP_PACKET] = "packet"
	};
	const char *word = NULL;
	int rc = text_of(root, "capture", NULL, &word, in->err);
	if (rc < 0 || !word)
		return rc;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(word, words[i]) == 0) {
			in->config->capture = (enum netcap_backend)i;
			return 0;
		}
	}
	return wrong(in, toml_get(root, "capture")->line,
		     "'capture' is \"auto\", \"bpf\" or \"packet\"");
}

static int read_root(const struct reading *in)
{
	struct nodes_config *c = in->config;
	struct toml *root = c->root, *nodes = toml_get(root, "nodes");
	size_t hosts = 0;
	toml_get(root, "bpf_sniffer_path"); /* older: there is no second program any more */
	int rc = port_of(root, "http_v2", "rpc_port", &c->http_v2, in->err);
	if (rc >= 0)
		rc = text_of(root, "bind", NULL, &c->bind, in->err);
	if (rc >= 0)
		rc = text_of(root, "cors", NULL, &c->cors, in->err);
	if (rc >= 0)
		rc = text_of(root, "user", NULL, &c->user, in->err);
	if (rc >= 0)
		rc = text_of(root, "token_file", NULL, &c->token_file, in->err);
	if (rc >= 0)
		rc = toml_bool(root, "no_auth", &c->no_auth, in->err);
	if (rc >= 0)
		rc = texts_of(in, root, "hosts", c->hosts, NODES_HOSTS_MAX, &hosts);
	if (rc >= 0)
		rc = capture_of(in, root);
	if (rc >= 0 && !is_address(c->bind))
		rc = wrong(in, toml_get(root, "bind")->line, "'bind' is an IP address");
	if (rc < 0)
		return rc;
	if (nodes && nodes->kind != TOML_ARRAY)
		return wrong(in, nodes->line, "'nodes' is a list of tables: [[nodes]]");
	for (struct toml *node = nodes ? nodes->first : NULL; node; node = node->next) {
		if (c->node_count == NODES_MAX)
			return wrong(in, node->line, "at most 64 nodes");
		rc = read_node(in, node, &c->nodes[c->node_count++]);
		if (rc < 0)
			return rc;
	}
	if (!c->node_count) {
		err_set(in->err, -EINVAL, "cannot use '%s': it names no node", c->path);
		return err_hint(in->err, "a node is [[nodes]] with name, db, p2p and log; see "
					 "'man byteledger-net'");
	}
	return check_nodes(in);
}

static struct nodes_config *finish(struct toml *root, const char *name, nodes_config_warn warn,
				   void *ctx, struct err *err)
{
	struct nodes_config *config = root ? calloc(1, sizeof(*config)) : NULL;
	if (!config) {
		if (root)
			err_set(err, -ENOMEM, "cannot allocate the configuration");
		toml_free(root);
		return NULL;
	}
	config->root = root;
	config->path = name;
	config->bind = "127.0.0.1";
	struct reading in = { config, warn, ctx, err };
	if (read_root(&in) < 0) {
		nodes_config_free(config);
		return NULL;
	}
	toml_unused(root, unknown_key, &in);
	return config;
}

struct nodes_config *nodes_config_load(const char *path, nodes_config_warn warn, void *ctx,
				       struct err *err)
{
	return finish(toml_load(path, err), path, warn, ctx, err);
}

struct nodes_config *nodes_config_parse(const char *text, size_t len, const char *name,
					nodes_config_warn warn, void *ctx, struct err *err)
{
	return finish(toml_parse(text, len, name, err), name, warn, ctx, err);
}

void nodes_config_free(struct nodes_config *config)
{
	if (!config)
		return;
	toml_free(config->root);
	free(config);
}

const char *nodes_config_usual(void)
{
	static const char *const places[] = { "config.toml", "/etc/config.toml",
					      "/home/appuser/config.toml" };
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}
