/* SPDX-License-Identifier: Apache-2.0 */
#include "source/features.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "base/cleanup.h"
#include "source/bpfstack.h"

static struct feature_line lines[FEATURE_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[FEATURE_COUNT] = {
	[FEATURE_BPF] = "bpf",
	[FEATURE_BTF] = "btf",
	[FEATURE_BPF_RINGBUF] = "bpf-ringbuf",
	[FEATURE_BPF_LOOP] = "bpf-loop",
	[FEATURE_BPF_BIG_ARRAY] = "bpf-big-array",
	[FEATURE_UPROBE] = "uprobe",
	[FEATURE_BPF_STACK] = "bpf-stack",
	[FEATURE_MAP_EVENTS] = "map-events",
};

static void yes(enum feature feature, const char *why)
{
	lines[feature].ok = 1;
	snprintf(lines[feature].why, sizeof(lines[feature].why), "%s", why);
}

static void no(enum feature feature, const char *what, int error, const char *hint)
{
	struct feature_line *line = &lines[feature];
	line->ok = 0;
	if (error)
		snprintf(line->why, sizeof(line->why), "%s: %s", what, strerror(error));
	else
		snprintf(line->why, sizeof(line->why), "%s", what);
	snprintf(line->hint, sizeof(line->hint), "%s", hint);
}

static const char *permission_hint(int error, const char *otherwise)
{
	return error == EPERM || error == EACCES
		       ? "run as root, or grant CAP_BPF and CAP_PERFMON; inside a container its "
			 "runtime has to permit them"
		       : otherwise;
}

static void try_map(enum feature feature, enum bpf_map_type type, uint32_t value_bytes,
		    uint32_t entries, const char *good, const char *bad, const char *hint)
{
	int fd = bpf_map_create(type, NULL, type == BPF_MAP_TYPE_RINGBUF ? 0 : 4, value_bytes,
				entries, NULL);
	if (fd < 0) {
		no(feature, bad, errno, permission_hint(errno, hint));
		return;
	}
	close(fd);
	yes(feature, good);
}

static void try_btf(void)
{
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		no(FEATURE_BTF, "cannot open /sys/kernel/btf/vmlinux", errno,
		   "needs a kernel built with CONFIG_DEBUG_INFO_BTF, and sysfs mounted on /sys");
		return;
	}
	close(fd);
	yes(FEATURE_BTF, "/sys/kernel/btf/vmlinux is there");
}

static void try_loop(void)
{
	int rc = libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_loop, NULL);
	if (rc == 1)
		yes(FEATURE_BPF_LOOP, "a program that calls bpf_loop() passed the verifier");
	else if (rc == 0)
		no(FEATURE_BPF_LOOP, "the kernel does not know bpf_loop()", 0, "needs Linux 5.17");
	else
		no(FEATURE_BPF_LOOP, "cannot load a program", -rc,
		   permission_hint(-rc, "needs Linux 5.17"));
}

static int read_number(const char *path)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len > 0 ? atoi(text) : -1;
}

static int perf_open(struct perf_event_attr *attr, int cpu)
{
	attr->size = sizeof(*attr);
	return (int)syscall(SYS_perf_event_open, attr, cpu < 0 ? 0 : -1, cpu, -1,
			    PERF_FLAG_FD_CLOEXEC);
}

/* Disabled and behind the ELF header, where no instruction is: the kernel checks type, path and rights all the same. */
static void try_uprobe(void)
{
	int type = read_number("/sys/bus/event_source/devices/uprobe/type");
	if (type < 0) {
		no(FEATURE_UPROBE, "/sys/bus/event_source/devices/uprobe is not there", 0,
		   "needs a kernel built with CONFIG_UPROBE_EVENTS, and sysfs mounted on /sys");
		return;
	}
	struct perf_event_attr attr = {
		.type = (uint32_t)type,
		.disabled = 1,
		.uprobe_path = (uint64_t)(uintptr_t) "/proc/self/exe",
		.probe_offset = 64, /* behind the ELF header */
	};
	int fd = perf_open(&attr, -1);
	if (fd < 0) {
		no(FEATURE_UPROBE, "cannot open a uprobe event", errno,
		   permission_hint(errno, "needs a kernel built with CONFIG_UPROBE_EVENTS"));
		return;
	}
	close(fd);
	yes(FEATURE_UPROBE, "a probe on this program could be opened");
}

static void try_map_events(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.sample_id_all = 1,
	};
	int fd = perf_open(&attr, 0);
	if (fd < 0) {
		no(FEATURE_MAP_EVENTS, "cannot open an event for new mappings of all processes",
		   errno,
		   errno == EINVAL ? "needs Linux 5.12"
				   : "run as root, grant CAP_PERFMON, or set "
				     "kernel.perf_event_paranoid to 0");
		return;
	}
	close(fd);
	yes(FEATURE_MAP_EVENTS, "perf tells of new executable mappings with their build ids");
}

/* No assumption from the lines above: the very program is loaded, and thrown away. */
static void try_stack(void)
{
	struct err err;
	err_init(&err);
	CLEANUP(bpfstack_freep) struct bpfstack *stack = bpfstack_new(NULL, &err);
	if (stack && !bpfstack_load(stack, &err)) {
		yes(FEATURE_BPF_STACK, "the stack walker passed the verifier");
		return;
	}
	no(FEATURE_BPF_STACK, err.msg, 0,
	   permission_hint(-err.code,
			   "needs Linux 6.1; the lines above say which part is missing"));
}

static void probe(void)
{
	libbpf_print_fn_t talk =
		libbpf_set_print(NULL); /* a question may be answered no without a word on stderr */
	for (int i = 0; i < FEATURE_COUNT; i++)
		lines[i].name = names[i];
	try_map(FEATURE_BPF, BPF_MAP_TYPE_ARRAY, 8, 1, "a map could be made", "cannot make a map",
		"the kernel refuses bpf(); it needs CONFIG_BPF_SYSCALL");
	try_btf();
	try_map(FEATURE_BPF_RINGBUF, BPF_MAP_TYPE_RINGBUF, 0, 1 << 16,
		"a ring buffer could be made", "cannot make a ring buffer", "needs Linux 5.8");
	try_loop();
	try_map(FEATURE_BPF_BIG_ARRAY, BPF_MAP_TYPE_ARRAY, (4 << 20) + 4096, 1,
		"an array value of more than 4 MiB could be made",
		"cannot make an array value of more than 4 MiB",
		"needs Linux 6.0; unwind tables of large programs do not fit without");
	try_uprobe();
	try_stack();
	try_map_events();
	libbpf_set_print(talk);
}

const struct feature_line *features_get(void)
{
	pthread_once(&once, probe);
	return lines;
}
