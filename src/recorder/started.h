/* SPDX-License-Identifier: Apache-2.0 */
/*
 * started.h - a program that a command started to look at it: as it is, nothing preloaded. Signals
 * and status as docs/rules.md says.
 */
#ifndef RECORDER_STARTED_H
#define RECORDER_STARTED_H

#include <sys/types.h>

#include "base/err.h"

struct started {
	/* 0: none */
	pid_t pid;
	/* signalfd: what comes while it runs */
	int signals;
	/* it waits before its first instruction, until started_let_go() */
	int held;
	/* after started_wait(), or where started_begin() failed: what byteledger exits with */
	int status;
};

/**
 * started_begin() - start @argv[0] as a shell would; with @holds it waits before its first
 * instruction where that can be had (started->held). SIGINT, SIGQUIT, SIGTERM and SIGHUP are
 * blocked from here on and come by
 * @signals. Return: 0 once it runs; a negative errno with @err and status 126 or 127.
 */
int started_begin(struct started *started, char **argv, int holds, struct err *err);
/** started_let_go() - what was held runs, from here on; on the thread that has begun it. */
void started_let_go(struct started *started);
/**
 * started_signals() - take what @fd has. With a @program SIGTERM and SIGHUP are forwarded, and
 * SIGINT and SIGQUIT are its own affair: they reached it from the terminal. Return: 1 if there is
 * no program and a signal came, 0 else.
 */
int started_signals(int fd, pid_t program);
/** signals_wait() - until one comes by @fd (signals_open()). */
void signals_wait(int fd);
/** signals_await() - until one comes that ends commands. */
void signals_await(void);
/**
 * started_has_ended() - of a child of ours, whose status is still to be had afterwards. SIGCHLD
 * comes when it stops, too.
 */
int started_has_ended(pid_t pid);
/**
 * started_wait() - until it has ended, forwarding signals; the exit status that byteledger ends
 * with: its own, or 128 + signal.
 */
int started_wait(struct started *started);

/**
 * signals_open() - block the signals that end a command, and read them by a descriptor; with a
 * program SIGQUIT and SIGCHLD, too.
 */
int signals_open(int with_program);

/**
 * signals_catch() - those that end a command are told to @handler; a wait that they interrupt ends.
 * SIGPIPE is ignored.
 */
void signals_catch(void (*handler)(int number));
/** signals_hold() - @on: they wait, on this thread and those that it starts; else they come. */
void signals_hold(int on);

#endif
