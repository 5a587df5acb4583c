/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/started.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/hold.h"
#include "proc/proc.h"
#include "recorder/launch.h"

static void make_set(sigset_t *set, int with_program)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	if (with_program) {
		sigaddset(set, SIGQUIT);
		sigaddset(set, SIGCHLD);
	}
}

int signals_open(int with_program)
{
	sigset_t set;
	make_set(&set, with_program);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int started_begin(struct started *started, char **argv, int holds, struct err *err)
{
	sigset_t before;
	CLEANUP(launch_fini) struct launch launch = { .exit_status = EXIT_FAILURE, .holds = holds };
	*started = (struct started){ .signals = -1, .status = EXIT_FAILURE };
	int rc = launch_plain(&launch, argv, err);
	if (rc == 0) {
		/*
		 * blocked before it starts, so that none is lost; it starts with the mask that we
		 * had
		 */
		sigprocmask(SIG_BLOCK, NULL, &before);
		started->signals = signals_open(1);
		if (started->signals < 0)
			return err_set(err, started->signals, "cannot take signals");
		rc = launch_start(&launch, NULL, &before, err);
	}
	if (rc < 0) {
		started->status = launch.exit_status;
		return rc;
	}
	started->pid = rc;
	started->held = launch.holds;
	return 0;
}

void started_let_go(struct started *started)
{
	if (started->held)
		hold_let_go(started->pid);
	started->held = 0;
}

int started_signals(int fd, pid_t program)
{
	struct signalfd_siginfo info;
	int came = 0;
	while (read(fd, &info, sizeof(info)) == sizeof(info)) {
		came = 1;
		if (program > 0 && (info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP))
			kill(program, (int)info.ssi_signo);
	}
	return came && program <= 0;
}

void signals_wait(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };
	while (!(poll(&at, 1, -1) > 0 && started_signals(fd, 0)))
		;
}

void signals_await(void)
{
	sigset_t set;
	int came;
	make_set(&set, 0);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigwait(&set, &came);
}

int started_has_ended(pid_t pid)
{
	siginfo_t info = { 0 };
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

int started_wait(struct started *started)
{
	struct pollfd fd = { .fd = started->signals, .events = POLLIN };
	int status = 0;
	/* SIGCHLD stands there until it is read, and what was read before has its status */
	while (waitpid(started->pid, &status, WNOHANG) == 0) {
		if (poll(&fd, 1, -1) > 0)
			started_signals(started->signals, started->pid);
	}
	return started->status = proc_exit_status(status);
}

static const int ending[] = { SIGTERM, SIGINT, SIGHUP };

void signals_catch(void (*handler)(int number))
{
	/* no SA_RESTART: the wait for traffic ends */
	struct sigaction action = { .sa_handler = handler };
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		sigaction(ending[i], &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

void signals_hold(int on)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		sigaddset(&set, ending[i]);
	pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}
