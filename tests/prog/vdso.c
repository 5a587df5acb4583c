/* SPDX-License-Identifier: Apache-2.0 */
/* vdso - allocate in a handler of a signal that comes, nearly always, while the vDSO reads the clock. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static volatile int handled;

static void handler(int sig)
{
	(void)sig;
	void *volatile p = malloc(777);
	(void)p;
	handled++;
}

int main(void)
{
	struct sigaction act = { .sa_handler = handler };
	struct itimerval every = { { 0, 500 }, { 0, 500 } };
	struct timespec ts;
	free(malloc(1));
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (handled < 300)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	return 0;
}
