/* SPDX-License-Identifier: Apache-2.0 */
/* lostsp - the stack pointer is lost, and the handler of the signal that follows, on a stack of its own, allocates. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void handler(int sig)
{
	(void)sig;
	free(malloc(55));
	puts("handled");
	fflush(stdout);
	_exit(0);
}

int main(void)
{
	static char room[65536];
	const stack_t alt = { .ss_sp = room, .ss_size = sizeof(room) };
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	if (sigaltstack(&alt, NULL) < 0 || sigaction(SIGILL, &act, NULL) < 0)
		return 1;
	free(malloc(54));
	/* the first page, which no program has */
	__asm__ volatile("mov $64, %rsp; ud2");
	return 1;
}
