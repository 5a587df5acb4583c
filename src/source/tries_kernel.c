/* SPDX-License-Identifier: Apache-2.0 */
/* tries_kernel.c - attempts that ask the kernel's tracing side: perf, uprobes, BPF. */
#include "base/fileio.h"
#include "source/tries.h"

#include <errno.h>
#include <link.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "source/features.h"

static int read_number(const char *path, long *value)
{
	CLEANUP(fileio_fclosep) FILE *file = fopen(path, "re");
	return file && fscanf(file, "%ld", value) == 1 ? 0 : -ENOENT;
}

static int perf_open(struct perf_event_attr *attr)
{
	attr->size = sizeof(*attr);
	return (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int hint_perf(struct err *err, unsigned capability)
{
	long paranoid;
	const char *hint = features_hint(-err->code, 1ull << capability);
	if (hint && !read_number("/proc/sys/kernel/perf_event_paranoid", &paranoid))
		return err_hint(err, "%s; kernel.perf_event_paranoid is %ld", hint, paranoid);
	return hint ? err_hint(err, "%s", hint) : err->code;
}

int tries_perf(struct err *err)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_PAGE_FAULTS,
					.exclude_kernel = 1 };
	CLEANUP(fileio_closep) int fd = perf_open(&attr);
	if (fd < 0) {
		err_set(err, -errno, "cannot count own page faults");
		return hint_perf(err, CAP_PERFMON);
	}
	/* pages that have never been touched, so that there is something to count */
	enum { BYTES = 1 << 20 };
	volatile char *fresh = malloc(BYTES);
	for (int i = 0; fresh && i < BYTES; i += 4096)
		fresh[i] = 1;
	free((void *)fresh);
	uint64_t count = 0;
	if (read(fd, &count, sizeof(count)) != sizeof(count) || !count)
		return err_set(err, -ENOMSG, "the kernel counted no page fault");
	return 0;
}

static __attribute__((noinline)) void probed_function(void)
{
	__asm__ volatile("" ::: "memory");
}

/* File offset of probed_function(): the probe is set on the file, not on an address. */
static int own_offset(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	uint64_t at = (uint64_t)(uintptr_t)probed_function - info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type == PT_LOAD && at >= ph->p_vaddr && at - ph->p_vaddr < ph->p_filesz) {
			*(uint64_t *)data = at - ph->p_vaddr + ph->p_offset;
			return 1;
		}
	}
	return 0;
}

int tries_uprobe(struct err *err)
{
	long type;
	uint64_t offset = 0;
	if (read_number("/sys/bus/event_source/devices/uprobe/type", &type) < 0) {
		err_set(err, -ENOMSG, "the kernel offers no uprobes to perf");
		return err_hint(err, "needs CONFIG_UPROBE_EVENTS, and sysfs mounted on /sys");
	}
	if (!dl_iterate_phdr(own_offset, &offset))
		return err_set(err, -ENOMSG, "cannot find an own function in the own file");
	struct perf_event_attr attr = { .type = (uint32_t)type,
					.config1 = (uint64_t)(uintptr_t) "/proc/self/exe",
					.config2 = offset };
	CLEANUP(fileio_closep) int fd = perf_open(&attr);
	if (fd < 0) {
		err_set(err, -errno, "cannot set a probe on an own function");
		return hint_perf(err, CAP_SYS_ADMIN);
	}
	probed_function();
	uint64_t count = 0;
	if (read(fd, &count, sizeof(count)) != sizeof(count) || !count)
		return err_set(err, -ENOMSG, "the probe was set but counted no call");
	return 0;
}

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int hint_bpf(struct err *err)
{
	const char *hint = features_hint(-err->code, 1ull << CAP_BPF | 1ull << CAP_PERFMON);
	if (hint)
		return err_hint(err, "%s", hint);
	if (err->code == -ENOSYS)
		return err_hint(err, "the kernel was built without CONFIG_BPF_SYSCALL");
	return err->code;
}

int tries_bpf_load(struct err *err)
{
	/* r0 = 0; exit */
	const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load, map;
	memset(&load, 0, sizeof(load));
	load.prog_type = BPF_PROG_TYPE_KPROBE; /* what probes of programs are to the kernel */
	load.insns = (uint64_t)(uintptr_t)program;
	load.insn_cnt = sizeof(program) / sizeof(*program);
	load.license = (uint64_t)(uintptr_t) "GPL";
	CLEANUP(fileio_closep) int prog_fd = bpf(BPF_PROG_LOAD, &load);
	if (prog_fd < 0) {
		err_set(err, -errno, "cannot load a BPF program");
		return hint_bpf(err);
	}
	memset(&map, 0, sizeof(map));
	map.map_type = BPF_MAP_TYPE_RINGBUF;
	map.max_entries = (uint32_t)sysconf(_SC_PAGESIZE);
	CLEANUP(fileio_closep) int map_fd = bpf(BPF_MAP_CREATE, &map);
	if (map_fd < 0) {
		err_set(err, -errno, "cannot make a BPF ring buffer");
		return hint_bpf(err);
	}
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0) {
		err_set(err, -errno,
			"cannot read the kernel's type information /sys/kernel/btf/vmlinux");
		return err_hint(err, "needs CONFIG_DEBUG_INFO_BTF, and sysfs mounted on /sys");
	}
	return 0;
}

static int from_feature(enum feature feature, struct err *err)
{
	const struct feature_line *line = &features_get()[feature];
	if (line->ok)
		return 0;
	err_set(err, -ENOMSG, "%s", line->why);
	return err_hint(err, "%s", line->hint);
}

int tries_bpf_stack(struct err *err)
{
	return from_feature(FEATURE_BPF_STACK, err);
}

int tries_map_events(struct err *err)
{
	return from_feature(FEATURE_MAP_EVENTS, err);
}

int tries_map_names(struct err *err)
{
	return from_feature(FEATURE_MAP_NAMES, err);
}

int tries_threads(struct err *err)
{
	return from_feature(FEATURE_THREADS, err);
}

int tries_net_capture(struct err *err)
{
	return from_feature(FEATURE_NET_CAPTURE, err);
}

int tries_net_packet(struct err *err)
{
	return from_feature(FEATURE_NET_PACKET, err);
}

int tries_pages(struct err *err)
{
	return from_feature(FEATURE_PAGES, err);
}
