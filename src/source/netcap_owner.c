/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap_owner.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proc/sockets.h"

enum { SYN_SENT = 2, SYN_RECV, TIME_WAIT = 6, CLOSE, LISTEN = 10, NEW_SYN_RECV = 12 };

struct process {
	uint32_t pid, parent;
	uint64_t start;
};

struct node {
	struct process process;
	uint16_t node_port;
	uint8_t alive;
	/* as one that listens; its children's ends are nobody's business */
	uint8_t announced;
};

struct listener {
	struct net_addr at;
	uint64_t inode;
	struct netcap_owner_who who;
	/* another port of a node: what it accepts there (RPC) is not recorded */
	int ignored;
};

struct open_socket {
	uint64_t inode;
	struct netcap_owner_who who;
};

/* A list that grows; its rows are of one size. */
struct list {
	void *rows;
	size_t count, cap;
};

struct netcap_owner {
	uint16_t ports[NETCAP_PORTS_MAX];
	size_t port_count;
	/* sorted by their ports */
	struct proc_sockets sockets;
	/* struct process */
	struct list processes;
	/* struct node */
	struct list nodes;
	/* struct listener */
	struct list listeners;
	/* struct open_socket, sorted by inode, of nodes */
	struct list inodes;
	/* struct net_addr, this machine's */
	struct list addresses;
	size_t hidden;
	/* who listened on the port */
	uint32_t last_pid[NETCAP_PORTS_MAX];
	/* while looking */
	uint64_t wanted;
	struct netcap_owner_who finder;
	int found, failed;
};

/* Room for one more row at the end; NULL without memory. */
static void *grow(struct list *list, size_t size)
{
	if (list->count == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 64;
		void *rows = realloc(list->rows, cap * size);
		if (!rows)
			return NULL;
		list->rows = rows;
		list->cap = cap;
	}
	void *row = (char *)list->rows + list->count++ * size;
	memset(row, 0, size);
	return row;
}

static struct node *add_node(struct netcap_owner *owner, const struct process *process,
			     uint16_t node_port)
{
	struct node *node = grow(&owner->nodes, sizeof(*node));
	if (!node) {
		owner->failed = 1;
		return NULL;
	}
	node->process = *process;
	node->node_port = node_port;
	node->alive = 1;
	return node;
}

struct netcap_owner *netcap_owner_new(const struct netcap_opt *opt, struct err *err)
{
	struct netcap_owner *owner = calloc(1, sizeof(*owner));
	if (owner) {
		memcpy(owner->ports, opt->ports, opt->port_count * sizeof(*opt->ports));
		owner->port_count = opt->port_count;
		for (size_t i = 0; i < opt->pid_count; i++) {
			struct process process = { .pid = opt->pids[i] };
			add_node(owner, &process, 0);
		}
	}
	if (!owner || owner->failed) {
		err_set(err, -ENOMEM, "cannot allocate the table of sockets");
		netcap_owner_free(owner);
		return NULL;
	}
	return owner;
}

void netcap_owner_free(struct netcap_owner *owner)
{
	if (!owner)
		return;
	proc_sockets_fini(&owner->sockets);
	free(owner->processes.rows);
	free(owner->nodes.rows);
	free(owner->listeners.rows);
	free(owner->inodes.rows);
	free(owner->addresses.rows);
	free(owner);
}

/* Which of the watched ports; -1 = none. */
static int index_of(const struct netcap_owner *owner, uint16_t port)
{
	for (size_t i = 0; i < owner->port_count; i++) {
		if (owner->ports[i] == port)
			return (int)i;
	}
	return -1;
}

static int is_watched(const struct netcap_owner *owner, uint16_t port)
{
	return index_of(owner, port) >= 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int by_ports(const void *a, const void *b)
{
	const struct proc_socket *x = a, *y = b;
	uint32_t p = (uint32_t)x->local_port << 16 | x->remote_port;
	uint32_t q = (uint32_t)y->local_port << 16 | y->remote_port;
	return p < q ? -1 : p > q;
}

static int by_inode(const void *a, const void *b)
{
	const struct open_socket *x = a, *y = b;
	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static int by_pid(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void note_process(void *ctx, uint32_t pid, uint32_t parent, uint64_t start)
{
	struct netcap_owner *owner = ctx;
	struct process *process = grow(&owner->processes, sizeof(*process));
	if (process)
		*process = (struct process){ pid, parent, start };
	else
		owner->failed = 1;
}

static const struct process *process_of(const struct netcap_owner *owner, uint32_t pid)
{
	const struct process key = { .pid = pid };
	return owner->processes.count ? bsearch(&key, owner->processes.rows, owner->processes.count,
						sizeof(key), by_pid)
				      : NULL;
}

static struct node *node_of(const struct netcap_owner *owner, uint32_t pid)
{
	struct node *nodes = owner->nodes.rows;
	for (size_t i = 0; i < owner->nodes.count; i++) {
		if (nodes[i].process.pid == pid)
			return &nodes[i];
	}
	return NULL;
}

static void note_addresses(struct netcap_owner *owner)
{
	struct ifaddrs *all;
	if (getifaddrs(&all) < 0)
		return; /* those of the last look */
	owner->addresses.count = 0;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		int family = a->ifa_addr ? a->ifa_addr->sa_family : 0;
		if (family != AF_INET && family != AF_INET6)
			continue;
		struct net_addr *to = grow(&owner->addresses, sizeof(*to));
		if (!to) {
			owner->failed = 1;
			break;
		}
		if (family == AF_INET6) {
			memcpy(to->ip, &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr,
			       16);
		} else {
			to->ip[10] = to->ip[11] = 0xff;
			memcpy(to->ip + 12, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr,
			       4);
		}
	}
	freeifaddrs(all);
}

/* Those that ended go; their children are found through them one last time. */
static void check_nodes(struct netcap_owner *owner)
{
	struct node *nodes = owner->nodes.rows;
	for (size_t i = 0; i < owner->nodes.count; i++) {
		const struct process *now = process_of(owner, nodes[i].process.pid);
		if (now && !nodes[i].process.start)
			nodes[i].process = *now;
		nodes[i].alive = now && now->start == nodes[i].process.start;
	}
}

static void add_children(struct netcap_owner *owner)
{
	const struct process *all = owner->processes.rows;
	for (int again = 1; again && !owner->failed;) {
		again = 0;
		for (size_t i = 0; i < owner->processes.count; i++) {
			const struct node *parent = node_of(owner, all[i].parent);
			if (parent && !node_of(owner, all[i].pid))
				again = add_node(owner, &all[i], parent->node_port) != NULL;
		}
	}
}

static void drop_ended(struct netcap_owner *owner,
		       void (*process)(void *ctx, enum netcap_process what, uint32_t pid,
				       uint16_t node_port),
		       void *ctx)
{
	struct node *nodes = owner->nodes.rows;
	size_t kept = 0;
	for (size_t i = 0; i < owner->nodes.count; i++) {
		struct node node = nodes[i];
		if (node.alive)
			nodes[kept++] = node;
		else if (node.announced)
			process(ctx, NETCAP_NODE_ENDED, node.process.pid, node.node_port);
	}
	owner->nodes.count = kept;
}

static void is_it(void *ctx, uint64_t inode)
{
	struct netcap_owner *owner = ctx;
	owner->found |= inode == owner->wanted;
}

/* Who has the socket @inode open; 0 = nobody that this user may see. */
static uint32_t find_process(struct netcap_owner *owner, uint64_t inode)
{
	const struct process *all = owner->processes.rows;
	owner->wanted = inode;
	owner->found = 0;
	for (size_t i = 0; i < owner->processes.count; i++) {
		proc_socket_inodes(all[i].pid, is_it, owner);
		if (owner->found)
			return all[i].pid;
	}
	return 0;
}

static void address_of(const struct proc_socket *row, int remote, struct net_addr *to)
{
	memcpy(to->ip, remote ? row->remote_ip : row->local_ip, 16);
	to->port = remote ? row->remote_port : row->local_port;
}

/* Listeners on watched ports, and their processes. */
static void find_listeners(struct netcap_owner *owner,
			   void (*process)(void *ctx, enum netcap_process what, uint32_t pid,
					   uint16_t node_port),
			   void *ctx)
{
	struct list before = owner->listeners;
	const struct listener *old = before.rows;
	owner->listeners = (struct list){ 0 };
	owner->hidden = 0;
	for (size_t i = 0; i < owner->sockets.count && !owner->failed; i++) {
		const struct proc_socket *row = &owner->sockets.rows[i];
		if (row->state != LISTEN || !is_watched(owner, row->local_port))
			continue;
		struct listener *listener = grow(&owner->listeners, sizeof(*listener));
		if (!listener) {
			owner->failed = 1;
			break;
		}
		address_of(row, 0, &listener->at);
		listener->inode = row->inode;
		listener->who.node_port = row->local_port;
		for (size_t k = 0; k < before.count; k++) {
			if (old[k].inode == row->inode)
				listener->who.pid = old[k].who.pid;
		}
		int known = node_of(owner, listener->who.pid) != NULL;
		uint32_t pid = known ? listener->who.pid : find_process(owner, row->inode);
		if (!pid) {
			/* one that ended behind the sockets' reading is still who accepted */
			owner->hidden++;
			continue;
		}
		listener->who.pid = pid;
		owner->last_pid[index_of(owner, row->local_port)] = listener->who.pid;
		struct node *node = node_of(owner, listener->who.pid);
		const struct process *is = process_of(owner, listener->who.pid);
		if (node)
			node->node_port = row->local_port;
		else if (is)
			node = add_node(owner, is, row->local_port);
		if (known)
			continue;
		if (node)
			node->announced = 1;
		process(ctx, NETCAP_NODE_LISTENS, listener->who.pid, row->local_port);
	}
	free(before.rows);
}

static void note_inode(void *ctx, uint64_t inode)
{
	struct netcap_owner *owner = ctx;
	struct open_socket *row = grow(&owner->inodes, sizeof(*row));
	if (row)
		*row = (struct open_socket){ inode, owner->finder };
	else
		owner->failed = 1;
}

static const struct open_socket *open_socket(const struct netcap_owner *owner, uint64_t inode)
{
	const struct open_socket key = { .inode = inode };
	return inode && owner->inodes.count ? bsearch(&key, owner->inodes.rows, owner->inodes.count,
						      sizeof(key), by_inode)
					    : NULL;
}

/* What the processes have open. */
static void find_inodes(struct netcap_owner *owner)
{
	const struct node *nodes = owner->nodes.rows;
	owner->inodes.count = 0;
	for (size_t i = 0; i < owner->nodes.count; i++) {
		owner->finder =
			(struct netcap_owner_who){ nodes[i].process.pid, nodes[i].node_port };
		proc_socket_inodes(nodes[i].process.pid, note_inode, owner);
	}
	if (owner->inodes.count)
		qsort(owner->inodes.rows, owner->inodes.count, sizeof(struct open_socket),
		      by_inode);
}

/* Where they listen beside the watched ports. */
static void find_other_listeners(struct netcap_owner *owner)
{
	for (size_t i = 0; i < owner->sockets.count && !owner->failed; i++) {
		const struct proc_socket *row = &owner->sockets.rows[i];
		const struct open_socket *is =
			row->state == LISTEN ? open_socket(owner, row->inode) : NULL;
		if (!is || is_watched(owner, row->local_port))
			continue;
		struct listener *listener = grow(&owner->listeners, sizeof(*listener));
		if (!listener) {
			owner->failed = 1;
			break;
		}
		address_of(row, 0, &listener->at);
		listener->inode = row->inode;
		listener->who = is->who;
		listener->ignored = is->who.node_port != 0;
	}
}

static int read_sockets(struct netcap_owner *owner, struct err *err)
{
	int rc = proc_sockets_read(&owner->sockets, err);
	if (rc >= 0 && owner->sockets.count)
		qsort(owner->sockets.rows, owner->sockets.count, sizeof(struct proc_socket),
		      by_ports);
	return rc;
}

int netcap_owner_glance(struct netcap_owner *owner, struct err *err)
{
	int rc = read_sockets(owner, err);
	if (rc < 0)
		return rc;
	owner->failed = 0;
	find_inodes(owner);
	const struct listener *known = owner->listeners.rows;
	for (size_t i = 0; i < owner->sockets.count; i++) {
		const struct proc_socket *row = &owner->sockets.rows[i];
		size_t k = 0;
		if (row->state != LISTEN || !is_watched(owner, row->local_port))
			continue;
		while (k < owner->listeners.count && known[k].inode != row->inode)
			k++;
		if (k == owner->listeners.count)
			return 1;
	}
	return owner->failed ? err_set(err, -ENOMEM, "cannot hold the table of sockets") : 0;
}

int netcap_owner_look(struct netcap_owner *owner,
		      void (*process)(void *ctx, enum netcap_process what, uint32_t pid,
				      uint16_t node_port),
		      void *ctx, struct err *err)
{
	owner->failed = 0;
	int rc = read_sockets(owner, err);
	if (rc < 0)
		return rc;
	owner->processes.count = 0;
	rc = proc_each(note_process, owner);
	if (rc < 0)
		return err_set(err, rc, "cannot look through /proc");
	if (owner->processes.count)
		qsort(owner->processes.rows, owner->processes.count, sizeof(struct process),
		      by_pid);
	note_addresses(owner);
	check_nodes(owner);
	add_children(owner);
	drop_ended(owner, process, ctx);
	find_listeners(owner, process, ctx);
	add_children(owner);
	find_inodes(owner);
	find_other_listeners(owner);
	return owner->failed ? err_set(err, -ENOMEM, "cannot hold the table of sockets") : 0;
}

/* ---- what was seen --------------------------------------------------------------------------- */

static int is_any(const uint8_t ip[16])
{
	static const uint8_t v6[16], v4[16] = { [10] = 0xff, [11] = 0xff };
	return memcmp(ip, v6, 16) == 0 || memcmp(ip, v4, 16) == 0;
}

static int is_local(const struct netcap_owner *owner, const uint8_t ip[16])
{
	static const uint8_t loopback[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };
	const struct net_addr *own = owner->addresses.rows;
	if (memcmp(ip, loopback, sizeof(loopback)) == 0)
		return 1;
	for (size_t i = 0; i < owner->addresses.count; i++) {
		if (memcmp(own[i].ip, ip, 16) == 0)
			return 1;
	}
	return 0;
}

static const struct listener *listener_of(const struct netcap_owner *owner,
					  const struct net_addr *local)
{
	const struct listener *all = owner->listeners.rows;
	for (size_t i = 0; i < owner->listeners.count; i++) {
		if (all[i].at.port == local->port &&
		    (memcmp(all[i].at.ip, local->ip, 16) == 0 ||
		     (is_any(all[i].at.ip) && is_local(owner, local->ip))))
			return &all[i];
	}
	return NULL;
}

int netcap_owner_accepts(const struct netcap_owner *owner, const struct net_addr *local,
			 struct netcap_owner_who *who)
{
	const struct listener *listener = listener_of(owner, local);
	int port = index_of(owner, local->port);
	if (listener) {
		*who = listener->who;
		return !listener->ignored;
	}
	/* it answered, so it listened */
	if (port < 0 || !is_local(owner, local->ip))
		return 0;
	*who = (struct netcap_owner_who){ owner->last_pid[port], local->port };
	return 1;
}

static const struct proc_socket *socket_of(const struct netcap_owner *owner,
					   const struct net_addr *local,
					   const struct net_addr *remote)
{
	const struct proc_socket key = { .local_port = local->port, .remote_port = remote->port };
	const struct proc_socket *rows = owner->sockets.rows, *end = rows + owner->sockets.count;
	const struct proc_socket *at =
		owner->sockets.count
			? bsearch(&key, rows, owner->sockets.count, sizeof(key), by_ports)
			: NULL;
	while (at && at > rows && by_ports(at - 1, &key) == 0)
		at--;
	for (; at && at < end && by_ports(at, &key) == 0; at++) {
		if (memcmp(at->local_ip, local->ip, 16) == 0 &&
		    memcmp(at->remote_ip, remote->ip, 16) == 0 && at->state != LISTEN)
			return at;
	}
	return NULL;
}

int netcap_owner_connected(const struct netcap_owner *owner, const struct net_addr *local,
			   const struct net_addr *remote, struct netcap_owner_who *who)
{
	const struct proc_socket *row = socket_of(owner, local, remote);
	const struct open_socket *is = row ? open_socket(owner, row->inode) : NULL;
	if (is)
		*who = is->who;
	return is ? 1 : row && row->inode ? 0 : -ENOENT;
}

int netcap_owner_has(const struct netcap_owner *owner, const struct net_addr *local,
		     const struct net_addr *remote)
{
	const struct proc_socket *row = socket_of(owner, local, remote);
	return row && row->state != TIME_WAIT && row->state != CLOSE;
}

int netcap_owner_each(const struct netcap_owner *owner,
		      int (*each)(void *ctx, const struct net_addr *local,
				  const struct net_addr *remote, const struct netcap_owner_who *who,
				  int accepted),
		      void *ctx)
{
	int rc = 0;
	for (size_t i = 0; i < owner->sockets.count && rc >= 0; i++) {
		const struct proc_socket *row = &owner->sockets.rows[i];
		struct net_addr local, remote;
		struct netcap_owner_who who;
		/* a connection that is asked for is seen when it is answered */
		if (row->state == LISTEN || row->state == TIME_WAIT || row->state == CLOSE ||
		    row->state == SYN_SENT || row->state == SYN_RECV || row->state == NEW_SYN_RECV)
			continue;
		address_of(row, 0, &local);
		address_of(row, 1, &remote);
		const struct open_socket *is = open_socket(owner, row->inode);
		const struct listener *listener = listener_of(owner, &local);
		if (listener ? listener->ignored : !is)
			continue;
		/*
		 * nothing in the kernel remembers who opened it: who shares a port with a listener
		 * was accepted
		 */
		who = listener ? listener->who : is->who;
		if (is)
			who.pid = is->who.pid;
		rc = each(ctx, &local, &remote, &who, listener != NULL);
	}
	return rc;
}

size_t netcap_owner_processes(const struct netcap_owner *owner)
{
	return owner->nodes.count;
}

size_t netcap_owner_hidden(const struct netcap_owner *owner)
{
	return owner->hidden;
}
