/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filtered [-s] PROGRAM [ARGS...] - run it under a seccomp filter that kills where a path is given without a folder; with
 * -s where it sleeps, too.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL(nr)                                         \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(int argc, char **argv)
{
	int sleeps = argc > 1 && strcmp(argv[1], "-s") == 0;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL(SYS_open),
		KILL(sleeps ? SYS_clock_nanosleep : SYS_open),
		KILL(SYS_stat),
		KILL(SYS_lstat),
		KILL(SYS_rename),
		KILL(SYS_unlink),
		KILL(SYS_creat),
		KILL(SYS_chmod),
		/* the loader and libc of Debian 12 still call access() and readlink() themselves */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	argv += sleeps;
	if (argc < 2 + sleeps || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return 2;
	execv(argv[1], argv + 1);
	return 126;
}
