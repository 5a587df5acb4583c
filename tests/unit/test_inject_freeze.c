/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are stopped for a moment go on as if nothing had been. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/freeze.h"

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	handled = signal;
}

/* Waits for something that never comes: exits with 1 if it does, 2 once a handler has ended the wait, as it must. */
static pid_t begin_to_wait(void)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	struct epoll_event event;
	sigaction(SIGUSR1, &action, NULL);
	int rc = epoll_wait(epoll_create1(0), &event, 1, -1);
	_exit(rc < 0 && errno == EINTR && handled == SIGUSR1 ? 2 : 1);
}

static char state_of(pid_t pid)
{
	char path[64], text[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY);
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	char *at = got > 0 ? strrchr(text, ')') : NULL;
	return at ? at[2] : '?';
}

/* Until it waits in epoll_wait(): before that a signal would be handled too early, and it would wait for ever. */
static void wait_until_it_waits(pid_t pid)
{
	char path[64], text[128];
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	for (;;) {
		int fd = open(path, O_RDONLY);
		ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		text[got > 0 ? got : 0] = '\0';
		if (fd < 0)
			skip();
		if (state_of(pid) == 'Z')
			fail_msg("process %d has ended", (int)pid);
		/* 232: x86-64's epoll_wait, 22: arm64's epoll_pwait */
		if (state_of(pid) == 'S' && (!strncmp(text, "232 ", 4) || !strncmp(text, "22 ", 3)))
			return;
		usleep(1000);
	}
}

static void a_signal_that_comes_meanwhile_ends_a_wait_as_ever(void **state)
{
	(void)state;
	struct freeze freeze;
	struct err err = { 0 };
	pid_t pid = begin_to_wait();
	wait_until_it_waits(pid);
	assert_int_equal(freeze_begin(&freeze, pid, &err), 0);
	assert_int_equal(freeze.count, 1);
	kill(pid, SIGUSR1);
	freeze_end(&freeze);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2);
}

static void a_wait_goes_on_and_a_signal_behind_it_ends_it(void **state)
{
	(void)state;
#ifndef __x86_64__
	skip();
#endif
	struct freeze freeze;
	struct err err = { 0 };
	pid_t pid = begin_to_wait();
	wait_until_it_waits(pid);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(freeze_begin(&freeze, pid, &err), 0);
		assert_true(freeze_end(&freeze) > 0);
		wait_until_it_waits(pid);
	}
	kill(pid, SIGUSR1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_that_comes_meanwhile_ends_a_wait_as_ever),
		cmocka_unit_test(a_wait_goes_on_and_a_signal_behind_it_ends_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
