/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel.h - the kernel's types as far as our programs read them. Fields are found by BTF when a
 * program is loaded (preserve_access_index), so this is no copy of a header and order and size mean
 * nothing.
 */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

#include <stdint.h>

/* what <bpf/bpf_helpers.h> expects <linux/types.h> to have defined */
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int8_t __s8;
typedef int16_t __s16;
typedef int32_t __s32;
typedef int64_t __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* numbers of the kernel's user interface, which never change */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_NO_PREALLOC = 1,
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct pt_regs {
	unsigned long bx, bp, di, ip, sp;
	/* of a system call: arguments two to four, its number */
	unsigned long si, dx, r10, orig_ax;
	unsigned long r8;
	unsigned long ax, cx, r9;
} KERNEL_TYPE;

/* x86-64's numbers of the system calls that are looked at, and what they are given */
enum {
	CALL_MMAP = 9,
	CALL_MUNMAP = 11,
	CALL_MREMAP = 25,
	CALL_MADVISE = 28,
	CALL_MLOCK = 149,
	CALL_MLOCK2 = 325,
	CALL_PRCTL = 157,
	MAP_ANONYMOUS = 0x20,
	PR_SET_VMA = 0x53564d41,
	PR_SET_VMA_ANON_NAME = 0,
};

/* --- sockets and processes, as bpf/net.bpf.c reads them --- */

typedef struct {
	__s64 counter;
} atomic64_t;
typedef struct {
	int counter;
} atomic_t;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
} KERNEL_TYPE;

struct ns_common {
	unsigned int inum;
} KERNEL_TYPE;

struct net {
	struct ns_common ns;
} KERNEL_TYPE;

typedef struct {
	struct net *net;
} KERNEL_TYPE possible_net_t;

struct sock_common {
	__u32 skc_daddr, skc_rcv_saddr;
	/* network and host order */
	__u16 skc_dport, skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} KERNEL_TYPE;

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	int sk_err;
} KERNEL_TYPE;

struct tcp_sock {
	__u32 rcv_nxt, snd_una;
	__u64 bytes_received, bytes_acked;
} KERNEL_TYPE;

struct socket {
	struct sock *sk;
} KERNEL_TYPE;

struct file;

struct pid_namespace {
	struct ns_common ns;
} KERNEL_TYPE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} KERNEL_TYPE;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} KERNEL_TYPE;

struct signal_struct {
	atomic_t live;
} KERNEL_TYPE;

struct mm_struct {
	/* pages mapped executable */
	unsigned long exec_vm;
} KERNEL_TYPE;

/*
 * What the kernel keeps of returns that somebody probes: on the stack its own page stands instead.
 */
struct return_instance {
	unsigned long stack, orig_ret_vaddr;
	struct return_instance *next;
} KERNEL_TYPE;

struct uprobe_task {
	struct return_instance *return_instances;
} KERNEL_TYPE;

struct task_struct {
	int pid, tgid;
	struct mm_struct *mm;
	struct uprobe_task *utask;
	char comm[16];
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct pid *thread_pid;
} KERNEL_TYPE;

struct vm_area_struct {
	unsigned long vm_flags;
} KERNEL_TYPE;

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} KERNEL_TYPE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} KERNEL_TYPE;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} KERNEL_TYPE;

/* the programs' view of a packet; offsets are the verifier's own and never change */
struct __sk_buff {
	__u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto;
	__u32 priority, ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid;
	__u32 data, data_end;
	__u32 napi_id, family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4];
	__u32 remote_port, local_port, data_meta;
	__u64 flow_keys, tstamp;
	__u32 wire_len, gso_segs;
	struct bpf_sock *sk;
	__u32 gso_size;
};

struct bpf_tcp_sock {
	__u32 snd_cwnd, srtt_us, rtt_min, snd_ssthresh, rcv_nxt, snd_nxt, snd_una;
};

struct bpf_pidns_info {
	__u32 pid, tgid;
};

#endif
