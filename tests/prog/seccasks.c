/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccasks - asks whether the kernel knows seccomp, by calls that fail, as libseccomp, browsers and systemd do. A thread that
 * starts afterwards allocates 77 bytes; its number is printed.
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *allocate(void *arg)
{
	(void)arg;
	free(malloc(77));
	printf("%d\n", (int)gettid());
	return NULL;
}

int main(void)
{
	pthread_t thread;
	void *nowhere = NULL;
	free(malloc(1));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nowhere, 0, 0) == 0 ||
	    prctl(PR_SET_SECCOMP, 77, nowhere, 0, 0) == 0 ||
	    syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nowhere, 0, 0) == 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, nowhere) ==
		    0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, nowhere) == 0)
		return 1;
	if (pthread_create(&thread, NULL, allocate, NULL) != 0)
		return 1;
	return pthread_join(thread, NULL);
}
