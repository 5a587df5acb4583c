/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - config.toml of the network recorder (docs/network.md describes it for people). */
#ifndef NODE_CONFIG_H
#define NODE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/netcap.h"

#define NODES_MAX 64
#define NODE_IDENTITIES_MAX 16
#define NODES_HOSTS_MAX 32
#define NODE_STORE_BYTES (16ull << 30) /* of payload a store keeps unless told otherwise */

/** struct node_config - strings are lent from the configuration; 0 and NULL = not given. */
struct node_config {
	unsigned line;
	const char *name, *db;
	char name_of_port[8];
	uint16_t http_v3;
	/* further limits of the store; 0 = none */
	uint64_t store_bytes, store_age_s;
	int has_p2p;
	const char *identities[NODE_IDENTITIES_MAX];
	size_t identity_count;
	uint16_t p2p_port;
	uint64_t message_limit;
	int has_log, disable_search;
	uint16_t log_port, log_tcp_port;
	const char *log_unix, *log_bind;
	uint64_t log_limit;
};

struct nodes_config {
	const char *path, *bind, *cors, *token_file;
	/* whom the recorder becomes once it is attached; NULL = the owner of the stores */
	const char *user;
	int no_auth;
	/* NULL-terminated */
	const char *hosts[NODES_HOSTS_MAX + 1];
	uint16_t http_v2;
	enum netcap_backend capture;
	struct node_config nodes[NODES_MAX];
	size_t node_count;
	struct toml *root;
};

/** Told of what is passed over, e.g. an unknown key; @text is one line. */
typedef void (*nodes_config_warn)(void *ctx, const char *text);

/**
 * nodes_config_usual() - where it is where nobody says: the first of three places that has one that
 * can be read; NULL.
 */
const char *nodes_config_usual(void);
/**
 * nodes_config_load() - read and check @path; NULL with @err that names the line. Release with
 * nodes_config_free().
 */
struct nodes_config *nodes_config_load(const char *path, nodes_config_warn warn, void *ctx,
				       struct err *err);
/** nodes_config_parse() - the same from memory. */
struct nodes_config *nodes_config_parse(const char *text, size_t len, const char *name,
					nodes_config_warn warn, void *ctx, struct err *err);
void nodes_config_free(struct nodes_config *config);

#endif
