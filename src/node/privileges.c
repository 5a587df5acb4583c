/* SPDX-License-Identifier: Apache-2.0 */
#include "node/privileges.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int foreign(const char *path)
{
	struct stat st;
	return stat(path, &st) < 0 || st.st_uid != geteuid();
}

static uint64_t needed(const struct nodes_config *c, const struct netcap *cap)
{
	uint64_t keep = 0;
	if (cap && netcap_backend(cap) == NETCAP_BPF)
		keep = 1ull << CAP_BPF; /* the ring's counters are read by bpf() */
	else if (cap)
		keep = 1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH; /* whose sockets are */
	if (c->http_v2 && c->http_v2 < 1024)
		keep |= 1ull << CAP_NET_BIND_SERVICE;
	for (size_t i = 0; i < c->node_count; i++) {
		const struct node_config *node = &c->nodes[i];
		if (node->http_v3 && node->http_v3 < 1024)
			keep |= 1ull << CAP_NET_BIND_SERVICE;
		if (foreign(node->db))
			keep |= 1ull << CAP_DAC_OVERRIDE;
		/* one that is not there yet may belong to anybody when it comes */
		for (size_t k = 0; k < node->identity_count; k++)
			keep |= foreign(node->identities[k]) ? 1ull << CAP_DAC_READ_SEARCH : 0;
	}
	return keep;
}

void nodes_privileges_drop(const struct nodes_config *config, const struct netcap *cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct rlimit none = { 0, 0 };
	uint64_t keep = needed(config, cap);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* keys are in this memory: no core file, no other process of the same user that reads it */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	memset(data, 0, sizeof(data));
	if (syscall(SYS_capget, &head, data) < 0)
		return;
	for (int i = 0; i < 2; i++) {
		uint32_t part = (uint32_t)(keep >> (32 * i));
		data[i].permitted &= part;
		data[i].effective &= part;
		data[i].inheritable = 0;
	}
	/* fewer are always granted */
	syscall(SYS_capset, &head, data);
}
