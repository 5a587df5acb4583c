/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hardened HOW PROGRAM [ARGS...] - run it where memory that was written never becomes code: HOW = mdwe, by the kernel's own rule
 * (6.3 and later; status 3 where it has none); wx, by a filter that refuses to make anything executable, as systemd's
 * MemoryDenyWriteExecute; nnp, only without new privileges.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 2;
	if (strcmp(argv[1], "mdwe") == 0 &&
	    prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
		return 3;
	if (strcmp(argv[1], "wx") == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return 2;
	execv(argv[2], argv + 2);
	return 126;
}
