/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>

#include "base/cleanup.h"

#define NOBODY 65534

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "name the architecture of system calls"
#endif

/* Rings of programs under test are mapped shared: who goes astray here must not reach them. */
static void leave_shared_mappings(void)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long long lo, hi;
		char perms[5];
		if (sscanf(line, "%llx-%llx %4s", &lo, &hi, perms) == 3 && perms[3] == 's')
			munmap((void *)(uintptr_t)lo, (size_t)(hi - lo));
	}
	if (maps)
		fclose(maps);
}

static void drop_user(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2];
	memset(none, 0, sizeof(none));
	for (unsigned long cap = 0; cap < 64; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (geteuid() == 0) {
		/*
		 * refused where such a user does not exist (user namespaces): the rest stands all
		 * the same
		 */
		syscall(SYS_setgroups, 0, NULL);
		syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY);
		syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY);
	}
	syscall(SYS_capset, &head, none);
}

/* No path at all; kernels without it say so, and seccomp refuses to open anything anyway. */
static void drop_files(void)
{
	const struct landlock_ruleset_attr all = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				     LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
				     LANDLOCK_ACCESS_FS_REMOVE_DIR |
				     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
				     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
				     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
				     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM
	};
	int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
	if (rules < 0)
		return;
	syscall(SYS_landlock_restrict_self, rules, 0);
	close(rules);
}

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define MAY(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), ALLOW

static int drop_calls(void)
{
	struct sock_filter filter[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		MAY(read),
		MAY(write),
		MAY(pread64),
		MAY(sendmsg),
		MAY(recvmsg),
		MAY(close),
		MAY(fstat),
#ifdef SYS_newfstatat
		MAY(newfstatat),
#endif
		MAY(lseek),
		MAY(munmap),
		MAY(mremap),
		MAY(madvise),
		MAY(brk),
		MAY(futex),
		MAY(clock_gettime),
		MAY(getrandom),
		MAY(sched_yield),
		MAY(rt_sigreturn),
		MAY(rt_sigprocmask),
		MAY(exit),
		MAY(exit_group),
		/* memory, but nothing that could run */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
		REFUSE,
		LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
		ALLOW,
		REFUSE,
	};
	struct sock_fprog program = { .len = (unsigned short)ARRAY_LEN(filter), .filter = filter };
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

int confine_self(int keep_fd)
{
	const struct rlimit none = { 0, 0 };
	leave_shared_mappings();
	if (keep_fd > 0)
		syscall(SYS_close_range, 0, keep_fd - 1, 0);
	syscall(SYS_close_range, keep_fd + 1, ~0u, 0);
	setrlimit(RLIMIT_CORE, &none);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	drop_user();
	drop_files();
	return drop_calls();
}
