/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vforked exec|exit - a vfork child lets itself be killed where it asks for its number, and then runs another program, the
 * first of which is not there, or ends. Its parent allocates 77 bytes in a thread, prints that thread's number, and is killed.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

static void *allocate(void *arg)
{
	(void)arg;
	free(malloc(77));
	printf("%d\n", (int)gettid());
	fflush(stdout);
	return NULL;
}

int main(int argc, char **argv)
{
	char *none[] = { NULL }, *ends[] = { "true", NULL };
	pthread_t thread;
	int status, runs = argc > 1 && strcmp(argv[1], "exec") == 0;
	free(malloc(1));
	pid_t child = vfork();
	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
			_exit(2);
		if (runs) {
			execve("/nowhere/true", ends, none);
			execve("/bin/true", ends, none);
			_exit(126);
		}
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0) {
		printf("child: %d\n", status);
		return 1;
	}
	if (pthread_create(&thread, NULL, allocate, NULL) != 0)
		return 1;
	pthread_join(thread, NULL);
	return raise(SIGKILL);
}
