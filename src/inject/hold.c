/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/hold.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"

#ifdef __x86_64__
#define BREAKPOINT 0xccul
#define CODE_64 0x33 /* segment of 64-bit code */
#define AUX_MAX 64

int hold_keeps_privileges(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	return syscall(SYS_capget, &head, data) == 0 && data[0].effective & 1u << CAP_SYS_PTRACE;
}

int hold_ask(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? -errno : 0;
}

/* The next stop: its signal, or -ESRCH where it has ended. */
static int stop_of(pid_t pid)
{
	siginfo_t info = { 0 };
	int status;
	while (waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT) < 0)
		if (errno != EINTR)
			return -errno;
	if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
		return -ESRCH;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSTOPPED(status) ? WSTOPSIG(status) : -ESRCH;
}

/* Where the program itself begins, as the kernel has told it; 0: not known. */
static uint64_t entry_of(pid_t pid)
{
	char path[64];
	Elf64_auxv_t aux[AUX_MAX];
	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, aux, sizeof(aux));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(aux[0]); i++)
		if (aux[i].a_type == AT_ENTRY)
			return aux[i].a_un.a_val;
	return 0;
}

/* From the exec to the breakpoint at @entry; signals that come meanwhile are its own. */
static int run_to(pid_t pid, uint64_t entry)
{
	struct user_regs_struct regs;
	int pass = 0;
	errno = 0;
	long code = ptrace(PTRACE_PEEKTEXT, pid, (void *)entry, NULL);
	if (errno)
		return -errno;
	unsigned long broken = ((unsigned long)code & ~0xfful) | BREAKPOINT;
	if (ptrace(PTRACE_POKETEXT, pid, (void *)entry, (void *)broken) < 0)
		return -errno;
	for (;;) {
		if (ptrace(PTRACE_CONT, pid, NULL, (void *)(long)pass) < 0)
			return -errno;
		pass = stop_of(pid);
		if (pass < 0)
			return pass;
		if (pass == SIGTRAP && ptrace(PTRACE_GETREGS, pid, NULL, &regs) == 0 &&
		    regs.rip == entry + 1)
			break;
	}
	regs.rip = entry;
	if (ptrace(PTRACE_POKETEXT, pid, (void *)entry, (void *)code) < 0 ||
	    ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0)
		return -errno;
	return 0;
}

int hold_at_entry(pid_t pid)
{
	struct user_regs_struct regs;
	int rc = stop_of(pid); /* that of the exec */
	if (rc < 0)
		return rc;
	uint64_t entry = entry_of(pid);
	if (!entry || ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0 || regs.cs != CODE_64)
		rc = -ENOTSUP;
	else
		rc = run_to(pid, entry);
	if (rc < 0 && rc != -ESRCH)
		hold_let_go(pid);
	return rc;
}

void hold_let_go(pid_t pid)
{
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}
#else
int hold_keeps_privileges(void)
{
	return 0;
}

int hold_ask(void)
{
	return -ENOTSUP;
}

int hold_at_entry(pid_t pid)
{
	(void)pid;
	return -ENOTSUP;
}

void hold_let_go(pid_t pid)
{
	(void)pid;
}
#endif
