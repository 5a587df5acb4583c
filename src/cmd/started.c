/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/started.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/launch.h"
#include "proc/proc.h"

static void make_set(sigset_t *set, int with_quit)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	if (with_quit)
		sigaddset(set, SIGQUIT);
}

int signals_open(int with_quit)
{
	sigset_t set;
	make_set(&set, with_quit);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int started_begin(struct started *started, char **argv, struct err *err)
{
	sigset_t before;
	CLEANUP(launch_fini) struct launch launch = { .exit_status = CMD_FAILED };
	*started = (struct started){ .signals = -1, .status = CMD_FAILED };
	int rc = launch_plain(&launch, argv, err);
	if (rc == 0) {
		/* blocked before it starts, so that none is lost; it starts with the mask that we had */
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
	return 0;
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

int started_wait(struct started *started)
{
	int status = 0, pidfd = (int)syscall(SYS_pidfd_open, started->pid, 0);
	struct pollfd fds[2] = { { .fd = started->signals, .events = POLLIN },
				 { .fd = pidfd, .events = POLLIN } };
	while (pidfd >= 0 && !fds[1].revents) {
		if (poll(fds, 2, -1) > 0 && fds[0].revents)
			started_signals(started->signals, started->pid);
	}
	if (pidfd >= 0)
		close(pidfd);
	while (waitpid(started->pid, &status, 0) < 0 && errno == EINTR)
		;
	return started->status = proc_exit_status(status);
}
