/* SPDX-License-Identifier: Apache-2.0 */
#include "source/netcap_bpf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sys/vfs.h>

#include "net.skel.h"

#define INITIAL_PIDNS_INODE 0xeffffffcu
#define RING_BYTES (64u << 20)
#define RING_BYTES_MIN (1u << 20) /* several times what is kept for everything but payload */
#define STOP 1 /* libbpf hands a callback's negative value on; this one is ours */

struct netcap_bpf {
	struct net_bpf *skeleton;
	struct ring_buffer *ring;
	int epoll;
	uint32_t ring_bytes;
	struct wire_net_socket looked_up;
	/* while draining */
	int (*record)(void *ctx, const void *bytes, size_t len);
	void *ctx;
	int drained, rc;
};

/*
 * libbpf speaks through one hook a process, from the calling thread; its last words explain a
 * refusal.
 */
static __thread char last_words[512];

static int PRINTF(2, 0) keep_words(enum libbpf_print_level level, const char *fmt, va_list args)
{
	if (level == LIBBPF_WARN) {
		vsnprintf(last_words, sizeof(last_words), fmt, args);
		last_words[strcspn(last_words, "\n")] = '\0';
	}
	return 0;
}

static int refused(int rc, const char *what, struct err *err)
{
	err_set(err, rc, "cannot %s%s%s%s", what, last_words[0] ? " (" : "", last_words,
		last_words[0] ? ")" : "");
	return err_hint(err, "needs Linux 6.1 with BTF, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; "
			     "'byteledger check' lists what is missing");
}

void netcap_bpf_free(struct netcap_bpf *bpf)
{
	if (!bpf)
		return;
	ring_buffer__free(bpf->ring);
	if (bpf->epoll >= 0)
		close(bpf->epoll);
	net_bpf__destroy(bpf->skeleton);
	free(bpf);
}

void netcap_bpf_freep(struct netcap_bpf **bpf)
{
	netcap_bpf_free(*bpf);
}

/* Knobs between open and load. */
static int set_up(struct netcap_bpf *bpf, const struct netcap_opt *opt)
{
	struct net_bpf *s = bpf->skeleton;
	struct stat st;
	int rc;
	bpf->ring_bytes = opt->ring_bytes ? opt->ring_bytes : RING_BYTES;
	if (bpf->ring_bytes < RING_BYTES_MIN)
		bpf->ring_bytes = RING_BYTES_MIN;
	s->rodata->net_ring_bytes = bpf->ring_bytes;
	if (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != INITIAL_PIDNS_INODE)
		s->rodata->net_pidns_ino = (uint32_t)st.st_ino;
	rc = bpf_map__set_max_entries(s->maps.net_ring, bpf->ring_bytes);
	if (!rc && opt->connections_max)
		rc = bpf_map__set_max_entries(s->maps.net_sockets, opt->connections_max);
	return rc;
}

/* The lists that the programs look into. */
static int fill(struct netcap_bpf *bpf, const struct netcap_opt *opt)
{
	struct net_bpf *s = bpf->skeleton;
	uint8_t yes = 1;
	uint32_t nobody = 0;
	int rc = 0;
	for (size_t i = 0; !rc && i < opt->port_count; i++)
		rc = bpf_map_update_elem(bpf_map__fd(s->maps.net_watch), &opt->ports[i], &yes, 0);
	for (size_t i = 0; !rc && i < opt->skip_remote_port_count; i++)
		rc = bpf_map_update_elem(bpf_map__fd(s->maps.net_skip), &opt->skip_remote_ports[i],
					 &yes, 0);
	for (size_t i = 0; !rc && i < opt->pid_count; i++)
		rc = bpf_map_update_elem(bpf_map__fd(s->maps.net_processes), &opt->pids[i], &nobody,
					 0);
	return rc ? -errno : 0;
}

static int take_record(void *ctx, void *data, size_t bytes)
{
	struct netcap_bpf *bpf = ctx;
	bpf->rc = bpf->record(bpf->ctx, data, bytes);
	bpf->drained++;
	return bpf->rc < 0 || bpf->drained >= NETCAP_BPF_DRAIN_MAX ? -STOP : 0;
}

static int open_ring(struct netcap_bpf *bpf, struct err *err)
{
	int fd = bpf_map__fd(bpf->skeleton->maps.net_ring);
	/* edges only: between wake-ups that a program decided on, data alone does not end a wait */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	bpf->ring = ring_buffer__new(fd, take_record, bpf, NULL);
	bpf->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!bpf->ring || bpf->epoll < 0 || epoll_ctl(bpf->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_set(err, -errno, "cannot open the ring of network records");
	return 0;
}

int netcap_bpf_load(const struct netcap_opt *opt, struct netcap_bpf **out, struct err *err)
{
	CLEANUP(netcap_bpf_freep) struct netcap_bpf *bpf = calloc(1, sizeof(*bpf));
	if (!bpf)
		return err_set(err, -ENOMEM, "cannot allocate the network capture");
	bpf->epoll = -1;
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	last_words[0] = '\0';
	int rc = 0;
	bpf->skeleton = net_bpf__open();
	if (!bpf->skeleton)
		rc = refused(-errno, "open the network programs", err);
	if (!rc && (rc = set_up(bpf, opt)) < 0)
		rc = refused(rc, "size the network programs' tables", err);
	if (!rc && (rc = net_bpf__load(bpf->skeleton)) < 0)
		rc = refused(rc, "load the network programs", err);
	if (!rc && (rc = fill(bpf, opt)) < 0)
		rc = refused(rc, "fill the network programs' tables", err);
	if (!rc)
		rc = open_ring(bpf, err);
	libbpf_set_print(talk);
	if (!rc)
		*out = STEAL(bpf);
	return rc;
}

/* The root of the cgroup v2 tree: a mounted one, or one that is mounted nowhere for the moment. */
static int open_cgroup(struct err *err)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct statfs fs;
		int fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
			return fd;
		close(fd);
	}
	int fs = (int)syscall(SYS_fsopen, "cgroup2", 1 /* FSOPEN_CLOEXEC */);
	int fd = -1;
	if (fs >= 0 && syscall(SYS_fsconfig, fs, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) == 0)
		fd = (int)syscall(SYS_fsmount, fs, 1 /* FSMOUNT_CLOEXEC */, 0);
	int error = errno;
	if (fs >= 0)
		close(fs);
	if (fd >= 0)
		return fd;
	err_set(err, -error, "cannot open the root of the cgroup v2 tree");
	return err_hint(err, "mount it: mount -t cgroup2 none /sys/fs/cgroup/unified");
}

static int attach_cgroup(struct netcap_bpf *bpf, int cgroup, struct err *err)
{
	struct net_bpf *s = bpf->skeleton;
	s->links.net_egress = bpf_program__attach_cgroup(s->progs.net_egress, cgroup);
	if (!s->links.net_egress)
		return refused(-errno, "attach to what leaves sockets", err);
	s->links.net_ingress = bpf_program__attach_cgroup(s->progs.net_ingress, cgroup);
	if (!s->links.net_ingress)
		return refused(-errno, "attach to what reaches sockets", err);
	return 0;
}

/* Over all open files: the watched ports' owners, their other ports, their connections. */
static int adopt(struct netcap_bpf *bpf, struct err *err)
{
	struct net_bpf *s = bpf->skeleton;
	s->links.net_find = bpf_program__attach_iter(s->progs.net_find, NULL);
	if (!s->links.net_find)
		return refused(-errno, "look for running nodes", err);
	for (uint32_t pass = 0; pass < 3; pass++) {
		char nothing[256];
		ssize_t n;
		s->bss->net_find_pass = pass;
		int fd = bpf_iter_create(bpf_link__fd(s->links.net_find));
		if (fd < 0)
			return refused(-errno, "look for running nodes", err);
		while ((n = read(fd, nothing, sizeof(nothing))) > 0 || (n < 0 && errno == EAGAIN))
			;
		int error = errno;
		close(fd);
		if (n < 0)
			return refused(-error, "look for running nodes", err);
	}
	bpf_link__destroy(s->links.net_find);
	s->links.net_find = NULL;
	return 0;
}

int netcap_bpf_attach(struct netcap_bpf *bpf, struct err *err)
{
	struct net_bpf *s = bpf->skeleton;
	int cgroup = open_cgroup(err);
	if (cgroup < 0)
		return cgroup;
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	last_words[0] = '\0';
	int rc = 0;
	/* processes and sockets first: payload of a socket that nobody knows is not looked at */
	struct {
		struct bpf_program *prog;
		struct bpf_link **link;
	} traced[] = { { s->progs.net_fork, &s->links.net_fork },
		       { s->progs.net_exit, &s->links.net_exit },
		       { s->progs.net_state, &s->links.net_state },
		       { s->progs.net_state_again, &s->links.net_state_again } };
	for (size_t i = 0; !rc && i < ARRAY_LEN(traced); i++) {
		*traced[i].link = bpf_program__attach(traced[i].prog);
		if (!*traced[i].link)
			rc = refused(-errno, "attach to sockets' states", err);
	}
	if (!rc)
		rc = attach_cgroup(bpf, cgroup, err);
	if (!rc)
		rc = adopt(bpf, err);
	libbpf_set_print(talk);
	close(cgroup);
	return rc;
}

void netcap_bpf_arm(struct netcap_bpf *bpf, enum wire_net_wake wake)
{
	__atomic_store_n(&bpf->skeleton->bss->net_wake, wake, __ATOMIC_SEQ_CST);
}

int netcap_bpf_wait(struct netcap_bpf *bpf, int timeout_ms)
{
	struct epoll_event event;
	return epoll_wait(bpf->epoll, &event, 1, timeout_ms) < 0 ? -errno : 0;
}

int netcap_bpf_drain(struct netcap_bpf *bpf,
		     int (*record)(void *ctx, const void *bytes, size_t len), void *ctx)
{
	bpf->record = record;
	bpf->ctx = ctx;
	bpf->drained = bpf->rc = 0;
	int rc = ring_buffer__consume(bpf->ring);
	if (bpf->rc < 0)
		return bpf->rc;
	return rc < 0 && rc != -STOP ? rc : bpf->drained;
}

const struct wire_net_socket *netcap_bpf_socket(struct netcap_bpf *bpf, uint64_t cookie)
{
	return bpf_map_lookup_elem(bpf_map__fd(bpf->skeleton->maps.net_sockets), &cookie,
				   &bpf->looked_up) == 0
		       ? &bpf->looked_up
		       : NULL;
}

/* What passed is counted in the scratch slots. */
static int add_slots(struct netcap_bpf *bpf, int cpus, struct wire_net_counters *sum,
		     struct err *err)
{
	struct wire_net_slot *all = calloc((size_t)cpus, sizeof(*all));
	int rc = all ? 0 : err_set(err, -ENOMEM, "cannot read counters");
	for (uint32_t i = 0; !rc && i < WIRE_NET_SLOTS; i++) {
		if (bpf_map_lookup_elem(bpf_map__fd(bpf->skeleton->maps.net_slots), &i, all) < 0)
			rc = err_set(err, -errno, "cannot read counters");
		for (int cpu = 0; !rc && cpu < cpus; cpu++) {
			for (int way = 0; way < 2; way++) {
				sum->segments[way] += all[cpu].segments[way];
				sum->bytes[way] += all[cpu].bytes[way];
			}
		}
	}
	free(all);
	return rc;
}

int netcap_bpf_counters(struct netcap_bpf *bpf, struct wire_net_counters *sum, uint64_t *processes,
			struct err *err)
{
	struct net_bpf *s = bpf->skeleton;
	int cpus = libbpf_num_possible_cpus();
	struct wire_net_counters *all = cpus > 0 ? calloc((size_t)cpus, sizeof(*all)) : NULL;
	uint32_t zero = 0;
	memset(sum, 0, sizeof(*sum));
	*processes = 0;
	if (!all)
		return err_set(err, -ENOMEM, "cannot read counters");
	if (bpf_map_lookup_elem(bpf_map__fd(s->maps.net_counters), &zero, all) < 0) {
		int rc = err_set(err, -errno, "cannot read counters");
		free(all);
		return rc;
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		for (int way = 0; way < 2; way++) {
			sum->segments[way] += all[cpu].segments[way];
			sum->bytes[way] += all[cpu].bytes[way];
			sum->lost_segments[way] += all[cpu].lost_segments[way];
			sum->lost_bytes[way] += all[cpu].lost_bytes[way];
		}
		sum->unreadable += all[cpu].unreadable;
		sum->refused += all[cpu].refused;
		sum->lost_events += all[cpu].lost_events;
		if (all[cpu].high_water > sum->high_water)
			sum->high_water = all[cpu].high_water;
	}
	free(all);
	int rc = add_slots(bpf, cpus, sum, err);
	if (rc < 0)
		return rc;
	uint32_t pid, *last = NULL;
	while (bpf_map_get_next_key(bpf_map__fd(s->maps.net_processes), last, &pid) == 0 &&
	       *processes < WIRE_NET_PROCESSES_MAX) {
		last = &pid;
		++*processes;
	}
	return 0;
}

uint32_t netcap_bpf_ring_bytes(const struct netcap_bpf *bpf)
{
	return bpf->ring_bytes;
}

void netcap_bpf_detach(struct netcap_bpf *bpf)
{
	struct net_bpf *s = bpf->skeleton;
	struct bpf_link **links[] = { &s->links.net_egress, &s->links.net_ingress,
				      &s->links.net_state,  &s->links.net_state_again,
				      &s->links.net_fork,   &s->links.net_exit };
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		bpf_link__destroy(*links[i]);
		*links[i] = NULL;
	}
}
