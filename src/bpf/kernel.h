/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel.h - the kernel's types as far as our programs read them. Fields are found by BTF when a program is loaded
 * (preserve_access_index), so this is no copy of a header and order and size mean nothing.
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
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_MMAPABLE = 1 << 10,
};

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct pt_regs {
	unsigned long bx, bp, di, ip, sp;
} KERNEL_TYPE;

struct bpf_pidns_info {
	__u32 pid, tgid;
};

#endif
