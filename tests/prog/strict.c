/* SPDX-License-Identifier: Apache-2.0 */
/* strict HOW N - allocate under seccomp: HOW = prctl, syscall. Any system call but write and exit kills. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "truth.h"

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 1000;
	void *p = took(malloc(1 << 16), 1 << 16); /* the heap is grown before */
	gave(p);
	free(p);
	if (strcmp(argv[1], "prctl") == 0)
		prctl(PR_SET_SECCOMP, 1, 0, 0, 0);
	else
		syscall(SYS_prctl, PR_SET_SECCOMP, 1, 0, 0, 0);
	for (int i = 0; i < n; i++) {
		p = took(malloc((size_t)(i & 1023)), (size_t)(i & 1023));
		gave(p);
		free(p);
	}
	truth_print();
	syscall(SYS_exit, 0);
	return 1;
}
