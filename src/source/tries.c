/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tries.c - the attempts of `byteledger check` that concern this user, its processes and its files.
 */
#include "source/tries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fileio.h"
#include "inject/inject.h"
#include "sym/sym.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static int try_kernel(struct err *err)
{
	struct utsname name;
	int major = 0, minor = 0;
	if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		return err_set(err, -ENOMSG, "cannot tell the kernel's version");
	if (major * 1000 + minor < 6001) {
		err_set(err, -ENOMSG, "Linux %s is older than 6.1, the oldest that is supported",
			name.release);
		return err_hint(err, "from 5.15 on most things work; the lines below say which");
	}
	return 0;
}

/* The traced program and the recorder share a memfd that neither can shrink under the other. */
static int try_shared_memory(struct err *err)
{
	enum { BYTES = 1 << 20 };
	CLEANUP(fileio_closep)
	int fd = memfd_create("byteledger-check", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_set(err, -errno, "cannot create a memfd");
	if (ftruncate(fd, BYTES) < 0)
		return err_set(err, -errno, "cannot size a memfd");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_set(err, -errno, "cannot seal a memfd");
	volatile char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		err_set(err, -errno, "cannot map a memfd");
		return err_hint(err, "'ulimit -v' or a memory cgroup may be too small");
	}
	at[BYTES - 1] = 1;
	int rc = at[BYTES - 1] == 1 ? 0 : err_set(err, -ENOMSG, "a memfd loses what is written");
	munmap((void *)at, BYTES);
	return rc;
}

static int read_something(const char *path, struct err *err)
{
	char byte;
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s'", path);
	/* permission to read is asked at open for some files and at read for others */
	ssize_t got = read(fd, &byte, 1);
	if (got < 0)
		return err_set(err, -errno, "cannot read '%s'", path);
	return got == 1 ? 0 : err_set(err, -ENOMSG, "'%s' is empty", path);
}

static int try_proc_own(struct err *err)
{
	if (read_something("/proc/self/smaps_rollup", err) < 0 ||
	    read_something("/proc/self/maps", err) < 0)
		return err_hint(err, "/proc must be mounted");
	return 0;
}

static int try_proc_others(struct err *err)
{
	if (read_something("/proc/1/smaps_rollup", err) < 0)
		return err_hint(err, "other users' processes need root or CAP_SYS_PTRACE; own "
				     "processes are not concerned");
	return 0;
}

static int try_ptrace(struct err *err)
{
	long scope = 0;
	if (!inject_probe(err))
		return 0;
	CLEANUP(fileio_fclosep) FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	if (file && fscanf(file, "%ld", &scope) == 1 && scope > 0)
		return err_hint(err,
				"run as root, or set kernel.yama.ptrace_scope to 0 (it is %ld)",
				scope);
	return err_hint(err, "a container needs the capability SYS_PTRACE");
}

int tries_names_mappings(struct err *err)
{
	enum { BYTES = 4096 };
	void *at = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return err_set(err, -errno, "cannot map a page");
	int rc = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, BYTES, "byteledger-check");
	int code = errno;
	munmap(at, BYTES);
	if (rc == 0)
		return 0;
	err_set(err, -ENOMSG, "the kernel does not name anonymous mappings: %s", strerror(code));
	return err_hint(err, "needs CONFIG_ANON_VMA_NAME, which Debian's kernels leave out; "
			     "byteledger does without");
}

static int try_output(struct err *err)
{
	char path[] = "byteledger-check-XXXXXX";
	CLEANUP(fileio_closep) int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		err_set(err, -errno, "cannot create a file in this folder");
		return err_hint(err, "recordings go to this folder unless -o names another");
	}
	int rc = write(fd, "x", 1) == 1
			 ? 0
			 : err_set(err, -errno, "cannot write a file in this folder");
	unlink(path);
	return rc;
}

static int try_debuginfod(struct err *err)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	if (!urls || !*urls) {
		err_set(err, -ENOMSG, "DEBUGINFOD_URLS is not set");
		return err_hint(err,
				"set it to a server to fetch missing debug symbols; without it "
				"installed ones are used");
	}
	if (sym_servers_try(err) < 0)
		return err_hint(err, "asked '%s'", urls);
	return 0;
}

const struct tries_line tries_all[] = {
	{ "kernel", "Linux 6.1 or newer", try_kernel },
	{ "memfd", "shared memory that neither side can shrink", try_shared_memory },
	{ "proc", "memory maps and totals of own processes", try_proc_own },
	{ "proc-others", "memory maps of other users' processes", try_proc_others },
	{ "ptrace", "attach to running processes", try_ptrace },
	{ "perf", "count and sample page faults of own processes", tries_perf },
	{ "uprobe", "probes on functions of programs", tries_uprobe },
	{ "bpf", "BPF programs, ring buffers, kernel type information", tries_bpf_load },
	{ "bpf-stack", "call stacks walked in the kernel", tries_bpf_stack },
	{ "map-events", "news of code that programs map", tries_map_events },
	{ "map-names", "who maps memory, and names that the kernel refuses", tries_map_names },
	{ "thread-stacks", "stack pointers of threads that run", tries_threads },
	{ "net-capture", "what programs send and receive by TCP", tries_net_capture },
	{ "net-packet", "the same without BPF, in this network namespace", tries_net_packet },
	{ "page-owners", "resident pages by call stack", tries_pages },
	{ "sample", "allocations of running programs, by probes (sample, tiers A to C)",
	  tries_sample },
	{ "sample-leaks", "their frees, too; returns trapped of sampled calls only",
	  tries_sample_leaks },
	{ "sample-kernel", "the kernel's own allocations (sample --kernel)", tries_sample_kernel },
	{ "sample-nop5", "probes on nops of 5 bytes, safe for forked children", tries_nop5 },
	{ "vma-names", "names on anonymous mappings", tries_names_mappings },
	{ "output", "recordings in this folder", try_output },
	{ "debuginfod", "debug symbols from a server", try_debuginfod },
	{ NULL, NULL, NULL },
};
